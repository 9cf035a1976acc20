"""Lists of objects between Python and native code: functions of the runtime, as LLVM text.

========================= ==========================================================================
``jc_are_distinct``       whether no object is in a list twice
``jc_has_own``            (object, name): whether an object has an attribute itself, in its dict
``jc_lacks``              (list, object): whether an object is not in a list
``jc_share_attribute``    (list, name, held, type of methods): whether all objects have what their
                          class has under a name; the type is null for what is no function
``jc_read_attributes``    (list, class, name, kind, type, own): memory with an attribute of all
                          objects; null where an object is of another class, or lacks it, where it
                          is of another type, where it has to be the object's own and is the
                          class's, and where there is no memory
``jc_write_attributes``   (list, class, name, kind, type, numbers, count): set the attributes that
                          differ; 0 is success, else there is an exception
========================= ==========================================================================

Kinds are 0 for ints, 1 for floats and 2 for bools, whose numbers take a byte.  All need the GIL.
Attributes are read and set by CPython's functions; no code of a program runs on the way.
"""

from __future__ import annotations

from functools import cache

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout

__all__ = ["add_object_list_functions"]

_SYMBOLS = (
    "jc_are_distinct",
    "jc_has_own",
    "jc_lacks",
    "jc_read_attributes",
    "jc_share_attribute",
    "jc_write_attributes",
)

_OFFSETS = (
    "LIST_SIZE",
    "LIST_ITEMS",
    "OBJECT_TYPE",
    "FLOAT_VALUE",
    "METHOD_FUNCTION",
    "METHOD_SELF",
)

_TEXT = """
declare void @PyErr_Clear()
declare ptr @PyErr_NoMemory()
declare void @Py_DecRef(ptr)
declare ptr @jc_malloc(i64)
declare void @jc_free(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare i32 @PyObject_IsTrue(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyObject_GetAttr(ptr, ptr)
declare i32 @PyObject_GenericSetAttr(ptr, ptr, ptr)
declare ptr @PyObject_GenericGetDict(ptr, ptr)
declare i32 @PyDict_Contains(ptr, ptr)
declare ptr @_PyType_Lookup(ptr, ptr)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare i64 @llvm.ctlz.i64(i64, i1)

define internal i64 @size_of(ptr %list) {
  %slot = getelementptr i8, ptr %list, i64 LIST_SIZE
  %size = load i64, ptr %slot
  ret i64 %size
}

define internal ptr @item_of(ptr %list, i64 %i) {
  %slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %slot
  %place = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %place
  ret ptr %item
}

define internal i1 @is_of(ptr %object, ptr %type) {
  %slot = getelementptr i8, ptr %object, i64 OBJECT_TYPE
  %own = load ptr, ptr %slot
  %same = icmp eq ptr %own, %type
  ret i1 %same
}

; The bits of a number of this kind; false where it is none.
define internal i1 @unbox(ptr %object, i64 %kind, ptr %type, ptr %bits) {
entry:
  %flag = alloca i32
  %fits = call i1 @is_of(ptr %object, ptr %type)
  br i1 %fits, label %choose, label %misfit
choose:
  switch i64 %kind, label %bool [ i64 0, label %int i64 1, label %float ]
int:
  %number = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %flag)
  %overflow = load i32, ptr %flag
  %small = icmp eq i32 %overflow, 0
  store i64 %number, ptr %bits
  ret i1 %small
float:
  %value.slot = getelementptr i8, ptr %object, i64 FLOAT_VALUE
  %value = load i64, ptr %value.slot
  store i64 %value, ptr %bits
  ret i1 true
bool:
  %truth = call i32 @PyObject_IsTrue(ptr %object)
  %wide = zext i32 %truth to i64
  store i64 %wide, ptr %bits
  ret i1 true
misfit:
  ret i1 false
}

define internal ptr @box(i64 %bits, i64 %kind) {
  switch i64 %kind, label %bool [ i64 0, label %int i64 1, label %float ]
int:
  %number = call ptr @PyLong_FromLongLong(i64 %bits)
  ret ptr %number
float:
  %value = bitcast i64 %bits to double
  %real = call ptr @PyFloat_FromDouble(double %value)
  ret ptr %real
bool:
  %truth = call ptr @PyBool_FromLong(i64 %bits)
  ret ptr %truth
}

define internal void @put(ptr %numbers, i64 %i, i64 %kind, i64 %bits) {
  %is.byte = icmp eq i64 %kind, 2
  br i1 %is.byte, label %byte, label %word
byte:
  %byte.place = getelementptr i8, ptr %numbers, i64 %i
  %narrow = trunc i64 %bits to i8
  store i8 %narrow, ptr %byte.place
  ret void
word:
  %word.place = getelementptr i64, ptr %numbers, i64 %i
  store i64 %bits, ptr %word.place
  ret void
}

define internal i64 @get(ptr %numbers, i64 %i, i64 %kind) {
  %is.byte = icmp eq i64 %kind, 2
  br i1 %is.byte, label %byte, label %word
byte:
  %byte.place = getelementptr i8, ptr %numbers, i64 %i
  %narrow = load i8, ptr %byte.place
  %wide = zext i8 %narrow to i64
  ret i64 %wide
word:
  %word.place = getelementptr i64, ptr %numbers, i64 %i
  %bits = load i64, ptr %word.place
  ret i64 %bits
}

define i1 @jc_has_own(ptr %object, ptr %name) {
  %dict = call ptr @PyObject_GenericGetDict(ptr %object, ptr null)
  %absent = icmp eq ptr %dict, null
  br i1 %absent, label %none, label %ask
ask:
  %found = call i32 @PyDict_Contains(ptr %dict, ptr %name)
  call void @Py_DecRef(ptr %dict)
  %failed = icmp slt i32 %found, 0
  br i1 %failed, label %none, label %done
done:
  %has = icmp ne i32 %found, 0
  ret i1 %has
none:
  call void @PyErr_Clear()
  ret i1 false
}

define ptr @jc_read_attributes(ptr %list, ptr %class, ptr %name, i64 %kind, ptr %type, i1 %own) {
entry:
  %bits = alloca i64
  %shared = call ptr @_PyType_Lookup(ptr %class, ptr %name)
  %count = call i64 @size_of(ptr %list)
  %room = add i64 %count, 2
  %bytes = mul i64 %room, 8
  %numbers = call ptr @jc_malloc(i64 %bytes)
  %no.memory = icmp eq ptr %numbers, null
  br i1 %no.memory, label %nothing, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %store ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %done
look:
  %item = call ptr @item_of(ptr %list, i64 %i)
  %is.object = call i1 @is_of(ptr %item, ptr %class)
  br i1 %is.object, label %ask, label %misfit
ask:
  %attribute = call ptr @PyObject_GetAttr(ptr %item, ptr %name)
  %absent = icmp eq ptr %attribute, null
  br i1 %absent, label %clear, label %whose
whose:
  %is.shared = icmp eq ptr %attribute, %shared
  %doubtful = and i1 %is.shared, %own
  br i1 %doubtful, label %doubt, label %unbox
doubt:
  %has.own = call i1 @jc_has_own(ptr %item, ptr %name)
  br i1 %has.own, label %unbox, label %drop
drop:
  call void @Py_DecRef(ptr %attribute)
  br label %misfit
unbox:
  %fits = call i1 @unbox(ptr %attribute, i64 %kind, ptr %type, ptr %bits)
  call void @Py_DecRef(ptr %attribute)
  br i1 %fits, label %store, label %misfit
store:
  %number = load i64, ptr %bits
  call void @put(ptr %numbers, i64 %i, i64 %kind, i64 %number)
  %next = add i64 %i, 1
  br label %head
clear:
  call void @PyErr_Clear()
  br label %misfit
misfit:
  call void @jc_free(ptr %numbers)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %numbers
}

define i32 @jc_write_attributes(ptr %list, ptr %class, ptr %name, i64 %kind, ptr %type,
    ptr %numbers, i64 %count) {
entry:
  %bits = alloca i64
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %now = call i64 @size_of(ptr %list)
  %wanted = icmp slt i64 %i, %count
  %there = icmp slt i64 %i, %now
  %more = and i1 %wanted, %there
  br i1 %more, label %look, label %done
look:
  %number = call i64 @get(ptr %numbers, i64 %i, i64 %kind)
  %item = call ptr @item_of(ptr %list, i64 %i)
  %is.object = call i1 @is_of(ptr %item, ptr %class)
  br i1 %is.object, label %ask, label %latch
ask:
  %before = call ptr @PyObject_GetAttr(ptr %item, ptr %name)
  %absent = icmp eq ptr %before, null
  br i1 %absent, label %clear, label %unbox
clear:
  call void @PyErr_Clear()
  br label %set
unbox:
  %fits = call i1 @unbox(ptr %before, i64 %kind, ptr %type, ptr %bits)
  call void @Py_DecRef(ptr %before)
  %old = load i64, ptr %bits
  %equal = icmp eq i64 %old, %number
  %same = and i1 %fits, %equal
  br i1 %same, label %latch, label %set
set:
  %object = call ptr @box(i64 %number, i64 %kind)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %failed, label %give
give:
  %status = call i32 @PyObject_GenericSetAttr(ptr %item, ptr %name, ptr %object)
  call void @Py_DecRef(ptr %object)
  %is.set = icmp eq i32 %status, 0
  br i1 %is.set, label %latch, label %failed
latch:
  %next = add i64 %i, 1
  br label %head
failed:
  ret i32 1
done:
  ret i32 0
}

define i1 @jc_share_attribute(ptr %list, ptr %name, ptr %held, ptr %method) {
entry:
  %count = call i64 @size_of(ptr %list)
  %is.plain = icmp eq ptr %method, null
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %latch ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %shared
look:
  %item = call ptr @item_of(ptr %list, i64 %i)
  %found = call ptr @PyObject_GetAttr(ptr %item, ptr %name)
  %absent = icmp eq ptr %found, null
  br i1 %absent, label %clear, label %kind
kind:
  br i1 %is.plain, label %plain, label %bound
bound:
  %is.method = call i1 @is_of(ptr %found, ptr %method)
  br i1 %is.method, label %function, label %other
function:
  %slot = getelementptr i8, ptr %found, i64 METHOD_FUNCTION
  %own = load ptr, ptr %slot
  %self.slot = getelementptr i8, ptr %found, i64 METHOD_SELF
  %self = load ptr, ptr %self.slot
  %is.own = icmp eq ptr %self, %item
  br i1 %is.own, label %compare, label %other
plain:
  br label %compare
compare:
  %value = phi ptr [ %own, %function ], [ %found, %plain ]
  %same = icmp eq ptr %value, %held
  call void @Py_DecRef(ptr %found)
  br i1 %same, label %latch, label %differs
latch:
  %next = add i64 %i, 1
  br label %head
other:
  call void @Py_DecRef(ptr %found)
  br label %differs
clear:
  call void @PyErr_Clear()
  br label %differs
differs:
  ret i1 false
shared:
  ret i1 true
}

define i1 @jc_lacks(ptr %list, ptr %object) {
entry:
  %count = call i64 @size_of(ptr %list)
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %look ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %lacks
look:
  %item = call ptr @item_of(ptr %list, i64 %i)
  %same = icmp eq ptr %item, %object
  %next = add i64 %i, 1
  br i1 %same, label %has, label %head
has:
  ret i1 false
lacks:
  ret i1 true
}

; Addresses in a table of at least twice their number, each at the first free place from its own.
define i1 @jc_are_distinct(ptr %list) {
entry:
  %count = call i64 @size_of(ptr %list)
  %doubled = shl i64 %count, 1
  %zeros = call i64 @llvm.ctlz.i64(i64 %doubled, i1 false)
  %length.bits = sub i64 64, %zeros
  %length = shl i64 1, %length.bits
  %mask = sub i64 %length, 1
  %bytes = shl i64 %length, 3
  %table = call ptr @jc_malloc(i64 %bytes)
  %no.memory = icmp eq ptr %table, null
  br i1 %no.memory, label %unknown, label %begin
begin:
  call void @llvm.memset.p0.i64(ptr %table, i8 0, i64 %bytes, i1 false)
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %next, %insert ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %hash, label %done
hash:
  %item = call ptr @item_of(ptr %list, i64 %i)
  %address = ptrtoint ptr %item to i64
  %mixed = mul i64 %address, -7046029254386353131
  %spread = lshr i64 %mixed, 32
  br label %probe
probe:
  %try = phi i64 [ %spread, %hash ], [ %following, %taken ]
  %at = and i64 %try, %mask
  %slot = getelementptr ptr, ptr %table, i64 %at
  %held = load ptr, ptr %slot
  %free = icmp eq ptr %held, null
  br i1 %free, label %insert, label %taken
taken:
  %same = icmp eq ptr %held, %item
  %following = add i64 %at, 1
  br i1 %same, label %done, label %probe
insert:
  store ptr %item, ptr %slot
  %next = add i64 %i, 1
  br label %head
done:
  %distinct = phi i1 [ true, %head ], [ false, %taken ]
  call void @jc_free(ptr %table)
  ret i1 %distinct
unknown:
  ret i1 false
}
"""


@cache
def _make() -> CompiledModule:
    text = _TEXT
    for name in _OFFSETS:
        text = text.replace(name, str(getattr(layout, name)))
    module = compile_module(text, name="object_lists")
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module


def add_object_list_functions() -> None:
    """Have the functions compiled when code that needs them is; few programs do."""
    for name in _SYMBOLS:
        add_maker(name, _make)
