"""References to arrays in lists: functions of the runtime, as LLVM text.

A native function keeps the arrays in a list as references in an array of objects, which drops them
when it dies:

====================== =============================================================================
``jc_new_references``  a new array with room for so many references, and none in it; null without
                       memory
``jc_new_view``        (array, address, bytes behind it, rank, 8 extents, 8 strides in bytes): a
                       view of an array; null without memory
``jc_move_references`` (target, place, items, place, count): copy references to where others, or
                       none, are; the places may overlap
``jc_move_bytes``      the same of what is no references, with places and counts in bytes
``jc_list_of_objects`` a new list of (references, count); null without memory
``jc_read_arrays``     (list, type number, another one, rank, flags): an array of objects with all
                       elements of a list and room for two more; null where one of them is no array
                       of native byte order with this rank and these flags
``jc_write_objects``   (list, references before, their count, references, their count): put those
                       that are others in the list, make it longer or shorter; 0 is success
====================== =============================================================================

References are counted as `jc_incref` does: without the GIL where they are the function's own, and
otherwise the entry keeps that.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout

__all__ = ["add_reference_functions"]

_MAX_RANK = 8
_OBJECTS: tuple[Any, ...] = (np.ndarray, np.dtype(object))
_SYMBOLS = (
    *(
        "jc_new_references",
        "jc_new_view",
        "jc_move_bytes",
        "jc_move_references",
        "jc_list_of_objects",
    ),
    *("jc_read_arrays", "jc_write_objects"),
)

_TEXT = """
@jc_reference_objects = dso_local global [2 x ptr] zeroinitializer
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @jc_incref(ptr)
declare void @jc_decref(ptr)
declare ptr @PyList_New(i64)
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @llvm.memmove.p0.p0.i64(ptr, ptr, i64, i1)

define ptr @jc_new_references(i64 %count) {
entry:
  %shape = alloca i64
  store i64 %count, ptr %shape
  %state = call i32 @PyGILState_Ensure()
  %type = load ptr, ptr @jc_reference_objects
  %descr.slot = getelementptr ptr, ptr @jc_reference_objects, i64 1
  %descr = load ptr, ptr %descr.slot
  call void @Py_IncRef(ptr %descr)
  %made = call ptr @jc_array_new(ptr %type, ptr %descr, i32 1, ptr %shape, ptr null, ptr null,
    i32 0, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %clear, label %done
clear:
  call void @PyErr_Clear()
  br label %done
done:
  call void @PyGILState_Release(i32 %state)
  ret ptr %made
}

define internal void @for_each(ptr %function, ptr %items, i64 %count) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  call void %function(ptr %item)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}

; All are counted before any is dropped, since an array may be among both.
define void @jc_move_references(ptr %target, i64 %place, ptr %items, i64 %from, i64 %count) {
  %to = getelementptr ptr, ptr %target, i64 %place
  %first = getelementptr ptr, ptr %items, i64 %from
  call void @for_each(ptr @jc_incref, ptr %first, i64 %count)
  call void @for_each(ptr @jc_decref, ptr %to, i64 %count)
  %bytes = mul i64 %count, 8
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %first, i64 %bytes, i1 false)
  ret void
}

define void @jc_move_bytes(ptr %target, i64 %place, ptr %items, i64 %from, i64 %bytes) {
  %to = getelementptr i8, ptr %target, i64 %place
  %first = getelementptr i8, ptr %items, i64 %from
  call void @llvm.memmove.p0.p0.i64(ptr %to, ptr %first, i64 %bytes, i1 false)
  ret void
}

define ptr @jc_list_of_objects(ptr %items, i64 %count) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %list = call ptr @PyList_New(i64 %count)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %clear, label %fill
clear:
  call void @PyErr_Clear()
  br label %done
fill:
  call void @for_each(ptr @jc_incref, ptr %items, i64 %count)
  %slots.place = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %slots = load ptr, ptr %slots.place
  %bytes = mul i64 %count, 8
  call void @llvm.memmove.p0.p0.i64(ptr %slots, ptr %items, i64 %bytes, i1 false)
  br label %done
done:
  call void @PyGILState_Release(i32 %state)
  ret ptr %list
}
"""

_VIEW = """
declare void @Py_DecRef(ptr)
declare i32 @jc_array_set_base(ptr, ptr)

define ptr @jc_new_view(ptr %base, ptr %memory, i64 %bytes, i64 %rank, PARAMETERS) {
entry:
  %shape = alloca [RANK x i64]
  %strides = alloca [RANK x i64]
STORES
  %state = call i32 @PyGILState_Ensure()
  %descr.slot = getelementptr i8, ptr %base, i64 ARRAY_DTYPE
  %descr = load ptr, ptr %descr.slot
  call void @Py_IncRef(ptr %descr)
  %flags.slot = getelementptr i8, ptr %base, i64 ARRAY_FLAGS
  %flags = load i32, ptr %flags.slot
  %writeable = and i32 %flags, ARRAY_WRITEABLE
  %type = load ptr, ptr @jc_reference_objects
  %data = getelementptr i8, ptr %memory, i64 %bytes
  %nd = trunc i64 %rank to i32
  %made = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %strides,
    ptr %data, i32 %writeable, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %clear, label %refer
refer:
  call void @Py_IncRef(ptr %base)
  %status = call i32 @jc_array_set_base(ptr %made, ptr %base)
  %not.set = icmp ne i32 %status, 0
  br i1 %not.set, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %made)
  br label %clear
clear:
  call void @PyErr_Clear()
  br label %done
done:
  %view = phi ptr [ %made, %refer ], [ null, %clear ]
  call void @PyGILState_Release(i32 %state)
  ret ptr %view
}
"""

_READ = """
define ptr @jc_read_arrays(ptr %list, i64 %number, i64 %other, i64 %rank, i64 %flags) {
entry:
  %count.slot = getelementptr i8, ptr %list, i64 LIST_SIZE
  %count = load i64, ptr %count.slot
  %items.slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %items.slot
  %type = load ptr, ptr @jc_reference_objects
  %number.bits = shl i64 %number, 32
  %other.bits = shl i64 %other, 32
  %nd = trunc i64 %rank to i32
  %wanted = trunc i64 %flags to i32
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %described ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %take
look:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  %type.slot = getelementptr i8, ptr %item, i64 OBJECT_TYPE
  %item.type = load ptr, ptr %type.slot
  %is.array = icmp eq ptr %item.type, %type
  br i1 %is.array, label %describe, label %misfit
describe:
  %rank.slot = getelementptr i8, ptr %item, i64 ARRAY_RANK
  %item.rank = load i32, ptr %rank.slot
  %has.rank = icmp eq i32 %item.rank, %nd
  %flags.slot = getelementptr i8, ptr %item, i64 ARRAY_FLAGS
  %item.flags = load i32, ptr %flags.slot
  %found = and i32 %item.flags, %wanted
  %has.flags = icmp eq i32 %found, %wanted
  %descr.slot = getelementptr i8, ptr %item, i64 ARRAY_DTYPE
  %descr = load ptr, ptr %descr.slot
  %kind.slot = getelementptr i8, ptr %descr, i64 DTYPE_KIND
  %kind = load i64, ptr %kind.slot
  %bits = and i64 %kind, DECISIVE_BITS
  %is.one = icmp eq i64 %bits, %number.bits
  %is.other = icmp eq i64 %bits, %other.bits
  %has.dtype = or i1 %is.one, %is.other
  %next = add i64 %i, 1
  %both = and i1 %has.rank, %has.flags
  %fits = and i1 %both, %has.dtype
  br i1 %fits, label %described, label %misfit
described:
  br label %head
misfit:
  ret ptr null
take:
  %room = add i64 %count, 2
  %made = call ptr @jc_new_references(i64 %room)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %misfit, label %fill
fill:
  %data.slot = getelementptr i8, ptr %made, i64 ARRAY_DATA
  %data = load ptr, ptr %data.slot
  call void @jc_move_references(ptr %data, i64 0, ptr %items, i64 0, i64 %count)
  ret ptr %made
}
"""

_WRITE = """
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)

define i64 @jc_write_objects(ptr %list, ptr %before, i64 %count, ptr %after, i64 %length) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %is.shorter = icmp slt i64 %length, %count
  br i1 %is.shorter, label %cut, label %head
cut:
  %cut.status = call i32 @PyList_SetSlice(ptr %list, i64 %length, i64 %count, ptr null)
  %not.cut = icmp ne i32 %cut.status, 0
  br i1 %not.cut, label %failed, label %head
head:
  %i = phi i64 [ 0, %entry ], [ 0, %cut ], [ %next, %latch ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %body, label %done
body:
  %new.place = getelementptr ptr, ptr %after, i64 %i
  %new = load ptr, ptr %new.place
  %is.added = icmp sge i64 %i, %count
  br i1 %is.added, label %append, label %compare
append:
  %push.status = call i32 @PyList_Append(ptr %list, ptr %new)
  %not.pushed = icmp ne i32 %push.status, 0
  br i1 %not.pushed, label %failed, label %latch
compare:
  %old.place = getelementptr ptr, ptr %before, i64 %i
  %old = load ptr, ptr %old.place
  %is.same = icmp eq ptr %old, %new
  br i1 %is.same, label %latch, label %set
set:
  call void @Py_IncRef(ptr %new)
  %set.status = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %new)
  %not.set = icmp ne i32 %set.status, 0
  br i1 %not.set, label %failed, label %latch
latch:
  %next = add i64 %i, 1
  br label %head
failed:
  call void @PyErr_Clear()
  br label %done
done:
  %status = phi i64 [ 1, %failed ], [ 0, %head ]
  call void @PyGILState_Release(i32 %state)
  ret i64 %status
}
"""

_DECISIVE_BITS = -1 << 32 | 0x02 << 16
"""Those of the word at ``DTYPE_KIND``: the type number, and whether the byte order is swapped."""

_OFFSETS = (
    *("ARRAY_DATA", "ARRAY_DTYPE", "ARRAY_FLAGS", "ARRAY_RANK", "ARRAY_WRITEABLE", "DTYPE_KIND"),
    *("LIST_ITEMS", "LIST_SIZE", "OBJECT_TYPE"),
)


def _parameters() -> str:
    return ", ".join(f"i64 %{letter}{axis}" for letter in "ds" for axis in range(_MAX_RANK))


def _stores() -> str:
    """What puts the extents and the strides of a view where NumPy looks for them."""
    lines = []
    for table, letter in (("shape", "d"), ("strides", "s")):
        for axis in range(_MAX_RANK):
            name = f"%{letter}{axis}"
            lines.append(f"  {name}.place = getelementptr i64, ptr %{table}, i64 {axis}")
            lines.append(f"  store i64 {name}, ptr {name}.place")
    return "\n".join(lines)


@cache
def _make() -> CompiledModule:
    text = _TEXT + _VIEW + _READ + _WRITE
    text = text.replace("DECISIVE_BITS", str(_DECISIVE_BITS))
    text = text.replace("PARAMETERS", _parameters())
    text = text.replace("STORES", _stores())
    text = text.replace("RANK x", f"{_MAX_RANK} x")
    for name in _OFFSETS:
        text = text.replace(name, str(getattr(layout, name)))
    module = compile_module(text, name="references", effort="code")
    layout.fill_table(module.address("jc_reference_objects"), dict(enumerate(_OBJECTS)))
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module


def add_reference_functions() -> None:
    """Have the functions compiled when code that needs them is; few programs do."""
    for name in _SYMBOLS:
        add_maker(name, _make)
