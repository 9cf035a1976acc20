"""Tuples, lists and objects that entries make of results: a library, since most make none.

All steal the values they get.  One of these may be null, with an exception set: then so is what
they give.
"""

from __future__ import annotations

from jitcore.codegen.engine import add_library
from jitcore.codegen.entries import layout

__all__ = ["add_object_functions"]

_FUNCTIONS = (
    *("jc_tuple", "jc_list", "jc_named_tuple", "jc_name_rows"),
    *("jc_new_object", "jc_set_attributes", "jc_set_shape"),
)

_TEXT = """
declare void @Py_DecRef(ptr)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @PyList_New(i64)
declare ptr @PyErr_NoMemory()
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare i32 @PyObject_SetAttrString(ptr, ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Clear()

@shape = internal constant [6 x i8] c"shape\\00"

define ptr @jc_tuple(i64 %count, ptr %items) {
entry:
  %complete = call i1 @items_complete(i64 %count, ptr %items)
  br i1 %complete, label %make, label %failure
make:
  %tuple = call ptr @PyTuple_New(i64 %count)
  %failed = icmp eq ptr %tuple, null
  br i1 %failed, label %failure, label %fill
fill:
  %target = getelementptr i8, ptr %tuple, i64 TUPLE_ITEMS
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %items, i64 %bytes, i1 false)
  ret ptr %tuple
failure:
  call void @drop_items(i64 %count, ptr %items)
  ret ptr null
}

; The same as a list.
define ptr @jc_list(i64 %count, ptr %items) {
entry:
  %complete = call i1 @items_complete(i64 %count, ptr %items)
  br i1 %complete, label %make, label %failure
make:
  %list = call ptr @PyList_New(i64 %count)
  %failed = icmp eq ptr %list, null
  br i1 %failed, label %failure, label %fill
fill:
  %slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %target = load ptr, ptr %slot
  %bytes = mul i64 %count, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %target, ptr %items, i64 %bytes, i1 false)
  ret ptr %list
failure:
  call void @drop_items(i64 %count, ptr %items)
  ret ptr null
}

; The same for a NamedTuple of this class.
define ptr @jc_named_tuple(ptr %class, i64 %count, ptr %items) {
entry:
  %complete = call i1 @items_complete(i64 %count, ptr %items)
  br i1 %complete, label %make, label %drop
make:
  %made = call ptr @PyObject_Vectorcall(ptr %class, ptr %items, i64 %count, ptr null)
  br label %drop
drop:
  %tuple = phi ptr [ null, %entry ], [ %made, %make ]
  call void @drop_items(i64 %count, ptr %items)
  ret ptr %tuple
}

; Make NamedTuples of this class of the tuples in a list; what is one already stays.
define ptr @jc_name_rows(ptr %list, ptr %class) {
entry:
  %is.null = icmp eq ptr %list, null
  br i1 %is.null, label %nothing, label %begin
begin:
  %count.slot = getelementptr i8, ptr %list, i64 LIST_SIZE
  %count = load i64, ptr %count.slot
  %items.slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %items.slot
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %row = load ptr, ptr %slot
  %type.slot = getelementptr i8, ptr %row, i64 OBJECT_TYPE
  %type = load ptr, ptr %type.slot
  %is.named = icmp eq ptr %type, %class
  br i1 %is.named, label %latch, label %name
name:
  %width.slot = getelementptr i8, ptr %row, i64 TUPLE_SIZE
  %width = load i64, ptr %width.slot
  %parts = getelementptr i8, ptr %row, i64 TUPLE_ITEMS
  %made = call ptr @PyObject_Vectorcall(ptr %class, ptr %parts, i64 %width, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop, label %put
put:
  store ptr %made, ptr %slot
  call void @Py_DecRef(ptr %row)
  br label %latch
latch:
  %next = add i64 %i, 1
  br label %head
drop:
  call void @Py_DecRef(ptr %list)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %list
}

; An object of this class with these attributes.
define ptr @jc_new_object(ptr %new, ptr %class, ptr %names, i64 %count, ptr %items) {
entry:
  %argument = alloca ptr
  store ptr %class, ptr %argument
  %complete = call i1 @items_complete(i64 %count, ptr %items)
  br i1 %complete, label %make, label %drop
make:
  %made = call ptr @PyObject_Vectorcall(ptr %new, ptr %argument, i64 1, ptr null)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %drop, label %head
head:
  %i = phi i64 [ 0, %make ], [ %next, %set ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %set, label %drop
set:
  %name.slot = getelementptr ptr, ptr %names, i64 %i
  %name = load ptr, ptr %name.slot
  %item.slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.slot
  %status = call i32 @PyObject_GenericSetAttr(ptr %made, ptr %name, ptr %item)
  %next = add i64 %i, 1
  %is.set = icmp eq i32 %status, 0
  br i1 %is.set, label %head, label %give.up
give.up:
  call void @Py_DecRef(ptr %made)
  br label %drop
drop:
  %object = phi ptr [ null, %entry ], [ null, %make ], [ null, %give.up ], [ %made, %head ]
  call void @drop_items(i64 %count, ptr %items)
  ret ptr %object
}

; The result of a call, once attributes of arguments are what the call has made of them.
define ptr @jc_set_attributes(ptr %result, i64 %count, ptr %objects, ptr %names, ptr %items) {
entry:
  %there = icmp ne ptr %result, null
  %complete = call i1 @items_complete(i64 %count, ptr %items)
  %all = and i1 %there, %complete
  br i1 %all, label %head, label %give.up
head:
  %i = phi i64 [ 0, %entry ], [ %next, %set ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %set, label %done
set:
  %object.slot = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object.slot
  %name.slot = getelementptr ptr, ptr %names, i64 %i
  %name = load ptr, ptr %name.slot
  %item.slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %item.slot
  %status = call i32 @PyObject_GenericSetAttr(ptr %object, ptr %name, ptr %item)
  %next = add i64 %i, 1
  %is.set = icmp eq i32 %status, 0
  br i1 %is.set, label %head, label %give.up
give.up:
  call void @Py_DecRef(ptr %result)
  br label %done
done:
  %given = phi ptr [ %result, %head ], [ null, %give.up ]
  call void @drop_items(i64 %count, ptr %items)
  ret ptr %given
}

; Give an array another shape: 0, or 1 where there is no memory.
define i64 @jc_set_shape(ptr %array, i64 %count, i64 %d0, i64 %d1, i64 %d2, i64 %d3, i64 %d4,
    i64 %d5, i64 %d6, i64 %d7) {
entry:
  %extents = alloca [8 x i64]
STORES
  %items = alloca [8 x ptr]
  %state = call i32 @PyGILState_Ensure()
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %made
body:
  %extent.slot = getelementptr i64, ptr %extents, i64 %i
  %extent = load i64, ptr %extent.slot
  %item = call ptr @PyLong_FromLongLong(i64 %extent)
  %item.slot = getelementptr ptr, ptr %items, i64 %i
  store ptr %item, ptr %item.slot
  %next = add i64 %i, 1
  br label %head
made:
  %shape = call ptr @jc_tuple(i64 %count, ptr %items)
  %absent = icmp eq ptr %shape, null
  br i1 %absent, label %failure, label %set
set:
  %status = call i32 @PyObject_SetAttrString(ptr %array, ptr @shape, ptr %shape)
  call void @Py_DecRef(ptr %shape)
  %failed = icmp ne i32 %status, 0
  br i1 %failed, label %failure, label %done
failure:
  call void @PyErr_Clear()
  br label %done
done:
  %result = phi i64 [ 1, %failure ], [ 0, %set ]
  call void @PyGILState_Release(i32 %state)
  ret i64 %result
}

define internal i1 @items_complete(i64 %count, ptr %items) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  %present = icmp ne ptr %item, null
  %next = add i64 %i, 1
  br i1 %present, label %head, label %done
done:
  %result = phi i1 [ true, %head ], [ false, %body ]
  ret i1 %result
}

define internal void @drop_items(i64 %count, ptr %items) {
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  call void @Py_DecRef(ptr %item)
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}
"""


_OFFSETS = ("LIST_ITEMS", "LIST_SIZE", "TUPLE_ITEMS", "TUPLE_SIZE", "OBJECT_TYPE")


def _text() -> str:
    stores = "\n".join(
        f"  %p{axis} = getelementptr i64, ptr %extents, i64 {axis}\n"
        f"  store i64 %d{axis}, ptr %p{axis}"
        for axis in range(8)
    )
    text = _TEXT.replace("STORES", stores)
    for name in _OFFSETS:
        text = text.replace(name, str(getattr(layout, name)))
    return text


def add_object_functions() -> None:
    """Have the functions compiled when code that calls one of them is."""
    for name in _FUNCTIONS:
        add_library(name, _text, "none")
