"""Lists of numbers between Python and native code: functions of the runtime, as LLVM text.

A native function works on the numbers of a list in memory of its own.  The entry reads them before
the call, and the function writes back what has changed at its end, so that the list stays the same
object, and so do the elements that keep their values:

======================== ===========================================================================
``jc_read_ints``         memory with the numbers of a list; null where an element is of another
                         type, or does not fit, and where there is no memory
``jc_read_int_column``   (list, class, width, column, steps): the same of one number in each
                         element, which are tuples, or named tuples, of this class and width; where
                         tuples lie in them, each byte of ``steps`` has the width of one and, in its
                         lower half, the place in there
``jc_write_ints``        (list, numbers before, their count, numbers after, their count): put the
                         numbers that changed in the list, make it longer or shorter; 0 is success
``jc_list_of_ints``      a new list of (numbers, count); null without memory
======================== ===========================================================================

The same is there for ``floats`` and ``bools``; ``jc_read_characters`` gives the code points of a
str.  What reads needs the GIL, the others take it.  They go through CPython's functions, which
check places, because another thread may change the list.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout

__all__ = ["add_list_functions"]

_OBJECTS: tuple[Any, ...] = (int, float, bool, complex, True, tuple)
"""What belongs in the table ``jc_list_objects``, in this order."""

_KINDS = ("int", "float", "bool", "complex")

_SYMBOLS = (
    *(f"jc_{action}_{kind}s" for kind in _KINDS for action in ("read", "write", "list_of")),
    *(f"jc_read_{kind}_column" for kind in _KINDS),
    "jc_read_characters",
)

_WORDS = {"int": "i64", "float": "i64", "bool": "i8", "complex": "i128"}
"""How the numbers of each kind are moved; they lie as CPython's objects have them."""

_DECLARATIONS = """
@jc_list_objects = dso_local global [OBJECTS x ptr] zeroinitializer
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Clear()
declare void @Py_DecRef(ptr)
declare ptr @jc_malloc(i64)
declare void @jc_free(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyComplex_FromDoubles(double, double)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare i64 @PyUnicode_GetLength(ptr)
declare ptr @PyUnicode_AsUCS4(ptr, ptr, i64, i32)
"""

_READ = """
define ptr @FUNCTION {
entry:
  %flag = alloca i32
  %count.slot = getelementptr i8, ptr %list, i64 LIST_SIZE
  %count = load i64, ptr %count.slot
  %items.slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %items.slot
  %type.slot = getelementptr ptr, ptr @jc_list_objects, i64 TYPE_PLACE
  %type = load ptr, ptr %type.slot
  %true.slot = getelementptr ptr, ptr @jc_list_objects, i64 TRUE_PLACE
  %true = load ptr, ptr %true.slot
  %words = add i64 %count, 2
  %bytes = mul i64 %words, WIDTH
  %numbers = call ptr @jc_malloc(i64 %bytes)
  %no.memory = icmp eq ptr %numbers, null
  br i1 %no.memory, label %nothing, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %read, label %done
read:
  %slot = getelementptr ptr, ptr %items, i64 %i
  LOAD_ITEM
  %item.type.slot = getelementptr i8, ptr %item, i64 OBJECT_TYPE
  %item.type = load ptr, ptr %item.type.slot
  %fits = icmp eq ptr %item.type, %type
  br i1 %fits, label %unbox, label %mismatch
UNBOX
store:
  %place = getelementptr WORD, ptr %numbers, i64 %i
  store WORD %number, ptr %place, align ALIGNMENT
  %next = add i64 %i, 1
  br label %head
mismatch:
  call void @jc_free(ptr %numbers)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %numbers
}
"""

_KIND = """
define i64 @jc_write_KINDs(ptr %list, ptr %before, i64 %count, ptr %after, i64 %length) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %is.shorter = icmp slt i64 %length, %count
  %common = select i1 %is.shorter, i64 %length, i64 %count
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %more = icmp slt i64 %i, %common
  br i1 %more, label %compare, label %tail
compare:
  %old.place = getelementptr WORD, ptr %before, i64 %i
  %old = load WORD, ptr %old.place, align ALIGNMENT
  %new.place = getelementptr WORD, ptr %after, i64 %i
  %new = load WORD, ptr %new.place, align ALIGNMENT
  %is.same = icmp eq WORD %old, %new
  br i1 %is.same, label %latch, label %change
change:
  %object = call ptr @box_KIND(WORD %new)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %failed, label %set
set:
  %set.status = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %object)
  %not.set = icmp ne i32 %set.status, 0
  br i1 %not.set, label %failed, label %latch
latch:
  %next = add i64 %i, 1
  br label %head
tail:
  br i1 %is.shorter, label %cut, label %append.head
cut:
  %cut.status = call i32 @PyList_SetSlice(ptr %list, i64 %length, i64 %count, ptr null)
  %not.cut = icmp ne i32 %cut.status, 0
  br i1 %not.cut, label %failed, label %success
append.head:
  %k = phi i64 [ %common, %tail ], [ %next.k, %appended ]
  %longer = icmp slt i64 %k, %length
  br i1 %longer, label %append, label %success
append:
  %more.place = getelementptr WORD, ptr %after, i64 %k
  %added = load WORD, ptr %more.place, align ALIGNMENT
  %element = call ptr @box_KIND(WORD %added)
  %no.element = icmp eq ptr %element, null
  br i1 %no.element, label %failed, label %push
push:
  %push.status = call i32 @PyList_Append(ptr %list, ptr %element)
  call void @Py_DecRef(ptr %element)
  %not.pushed = icmp ne i32 %push.status, 0
  br i1 %not.pushed, label %failed, label %appended
appended:
  %next.k = add i64 %k, 1
  br label %append.head
failed:
  call void @PyErr_Clear()
  br label %success
success:
  %status = phi i64 [ 1, %failed ], [ 0, %cut ], [ 0, %append.head ]
  call void @PyGILState_Release(i32 %state)
  ret i64 %status
}

define ptr @jc_list_of_KINDs(ptr %numbers, i64 %count) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %list = call ptr @PyList_New(i64 %count)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %failed, label %fill
fill:
  %items.slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %items.slot
  br label %head
head:
  %i = phi i64 [ 0, %fill ], [ %next, %store ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %box, label %done
box:
  %place = getelementptr WORD, ptr %numbers, i64 %i
  %number = load WORD, ptr %place, align ALIGNMENT
  %object = call ptr @box_KIND(WORD %number)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %drop, label %store
store:
  %slot = getelementptr ptr, ptr %items, i64 %i
  store ptr %object, ptr %slot
  %next = add i64 %i, 1
  br label %head
drop:
  call void @Py_DecRef(ptr %list)
  br label %failed
failed:
  call void @PyErr_Clear()
  br label %done
done:
  %made = phi ptr [ %list, %head ], [ null, %failed ]
  call void @PyGILState_Release(i32 %state)
  ret ptr %made
}
"""

_ELEMENT = "%item = load ptr, ptr %slot"

_PART = """%row = load ptr, ptr %slot
  %row.type.slot = getelementptr i8, ptr %row, i64 OBJECT_TYPE
  %row.type = load ptr, ptr %row.type.slot
  %is.tuple = icmp eq ptr %row.type, %class
  br i1 %is.tuple, label %tuple.size, label %mismatch
tuple.size:
  %row.size.slot = getelementptr i8, ptr %row, i64 TUPLE_SIZE
  %row.size = load i64, ptr %row.size.slot
  %is.wide = icmp eq i64 %row.size, %width
  br i1 %is.wide, label %tuple.item, label %mismatch
tuple.item:
  %row.items = getelementptr i8, ptr %row, i64 TUPLE_ITEMS
  %outer.slot = getelementptr ptr, ptr %row.items, i64 %column
  %outer = load ptr, ptr %outer.slot
  br label %descend
descend:
  %item = phi ptr [ %outer, %tuple.item ], [ %part, %inner.item ]
  %steps.left = phi i64 [ %steps, %tuple.item ], [ %steps.after, %inner.item ]
  %is.there = icmp eq i64 %steps.left, 0
  br i1 %is.there, label %found, label %inner
inner:
  %inner.type.slot = getelementptr i8, ptr %item, i64 OBJECT_TYPE
  %inner.type = load ptr, ptr %inner.type.slot
  %tuple.slot = getelementptr ptr, ptr @jc_list_objects, i64 TUPLE_PLACE
  %tuple = load ptr, ptr %tuple.slot
  %is.inner = icmp eq ptr %inner.type, %tuple
  br i1 %is.inner, label %inner.size, label %mismatch
inner.size:
  %inner.size.slot = getelementptr i8, ptr %item, i64 TUPLE_SIZE
  %inner.known = load i64, ptr %inner.size.slot
  %width.bits = lshr i64 %steps.left, 4
  %inner.width = and i64 %width.bits, 15
  %is.inner.wide = icmp eq i64 %inner.known, %inner.width
  br i1 %is.inner.wide, label %inner.item, label %mismatch
inner.item:
  %inner.items = getelementptr i8, ptr %item, i64 TUPLE_ITEMS
  %inner.column = and i64 %steps.left, 15
  %part.slot = getelementptr ptr, ptr %inner.items, i64 %inner.column
  %part = load ptr, ptr %part.slot
  %steps.after = lshr i64 %steps.left, 8
  br label %descend
found:"""

_CHARACTERS = """
define ptr @jc_read_characters(ptr %text) {
entry:
  %length.slot = getelementptr i8, ptr %text, i64 TEXT_LENGTH
  %length = load i64, ptr %length.slot
  %known = call i64 @PyUnicode_GetLength(ptr %text)
  %is.known = icmp eq i64 %known, %length
  br i1 %is.known, label %allocate, label %nothing
allocate:
  %room = add i64 %length, 2
  %bytes = mul i64 %room, 4
  %codes = call ptr @jc_malloc(i64 %bytes)
  %no.memory = icmp eq ptr %codes, null
  br i1 %no.memory, label %nothing, label %fill
fill:
  %filled = call ptr @PyUnicode_AsUCS4(ptr %text, ptr %codes, i64 %room, i32 0)
  %failed = icmp eq ptr %filled, null
  br i1 %failed, label %drop, label %done
drop:
  call void @PyErr_Clear()
  call void @jc_free(ptr %codes)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %codes
}
"""

_READ_BOOL = """unbox:
  %is.true = icmp eq ptr %item, %true
  %number = zext i1 %is.true to i8
  br label %store"""

_READ_FLOAT = """unbox:
  %value.slot = getelementptr i8, ptr %item, i64 FLOAT_VALUE
  %number = load i64, ptr %value.slot
  br label %store"""

_READ_COMPLEX = """unbox:
  %value.slot = getelementptr i8, ptr %item, i64 COMPLEX_REAL
  %number = load i128, ptr %value.slot, align 8
  br label %store"""

_READ_ANY_INT = """unbox:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %flag)
  %overflow = load i32, ptr %flag
  %is.number = icmp eq i32 %overflow, 0
  br i1 %is.number, label %store, label %mismatch"""

_READ_SHORT_INT = """unbox:
  %size.slot = getelementptr i8, ptr %item, i64 INT_SIZE
  %size = load i64, ptr %size.slot
  %biased = add i64 %size, 1
  %is.small = icmp ult i64 %biased, 3
  br i1 %is.small, label %small, label %large
small:
  %digit.slot = getelementptr i8, ptr %item, i64 INT_DIGITS
  %digit = load i32, ptr %digit.slot
  %wide = zext i32 %digit to i64
  %of.digit = mul nsw i64 %wide, %size
  br label %unboxed
large:
  %of.digits = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %flag)
  %overflow = load i32, ptr %flag
  %is.number = icmp eq i32 %overflow, 0
  br i1 %is.number, label %unboxed, label %mismatch
unboxed:
  %number = phi i64 [ %of.digit, %small ], [ %of.digits, %large ]
  br label %store"""

_BOXES = """
define internal ptr @box_int(i64 %number) {
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  ret ptr %object
}

define internal ptr @box_float(i64 %bits) {
  %number = bitcast i64 %bits to double
  %object = call ptr @PyFloat_FromDouble(double %number)
  ret ptr %object
}

define internal ptr @box_complex(i128 %bits) {
  %low = trunc i128 %bits to i64
  %shifted = lshr i128 %bits, 64
  %high = trunc i128 %shifted to i64
  %real = bitcast i64 %low to double
  %imaginary = bitcast i64 %high to double
  %object = call ptr @PyComplex_FromDoubles(double %real, double %imaginary)
  ret ptr %object
}

define internal ptr @box_bool(i8 %number) {
  %wide = zext i8 %number to i64
  %object = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %object
}
"""


def _text() -> str:
    """The functions above, and the one that gives the address of their table."""
    unbox = {
        "int": _READ_SHORT_INT if layout.has_signed_int_sizes() else _READ_ANY_INT,
        "float": _READ_FLOAT,
        "bool": _READ_BOOL,
        "complex": _READ_COMPLEX,
    }
    text = _DECLARATIONS.replace("OBJECTS", str(len(_OBJECTS))) + _BOXES + _CHARACTERS
    for place, kind in enumerate(_KINDS):
        whole = _READ.replace("FUNCTION", "jc_read_KINDs(ptr %list)").replace("LOAD_ITEM", _ELEMENT)
        column = "jc_read_KIND_column(ptr %list, ptr %class, i64 %width, i64 %column, i64 %steps)"
        part = _READ.replace("FUNCTION", column).replace("LOAD_ITEM", _PART)
        text += _replaced(
            whole + part + _KIND,
            {
                "UNBOX": unbox[kind],
                "TYPE_PLACE": str(place),
                "TRUE_PLACE": str(_OBJECTS.index(True)),
                "TUPLE_PLACE": str(_OBJECTS.index(tuple)),
                "KIND": kind,
                "WORD": _WORDS[kind],
                "WIDTH": "16" if kind == "complex" else "8",
                "ALIGNMENT": "1" if kind == "bool" else "8",
            },
        )
    return _replaced(text, {name: str(getattr(layout, name)) for name in _OFFSETS})


_OFFSETS = (
    *("LIST_SIZE", "LIST_ITEMS", "TUPLE_SIZE", "TUPLE_ITEMS", "TEXT_LENGTH"),
    *("OBJECT_TYPE", "FLOAT_VALUE", "COMPLEX_REAL", "INT_SIZE", "INT_DIGITS"),
)


def _replaced(text: str, parts: dict[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


@cache
def _make() -> CompiledModule:
    module = compile_module(_text(), name="lists", effort="code")
    layout.fill_table(module.address("jc_list_objects"), dict(enumerate(_OBJECTS)))
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module


def add_list_functions() -> None:
    """Have the functions compiled when code that needs them is; few programs do."""
    for name in _SYMBOLS:
        add_maker(name, _make)
