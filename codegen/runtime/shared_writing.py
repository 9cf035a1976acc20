"""Python's lists of what is in the heap of a native function: LLVM text.

``shared_lists`` says what the functions do, and what the table is that they go by.
"""

from __future__ import annotations

__all__ = ["MAKING", "WRITING"]

MAKING = """
define internal ptr @make_number(ptr %table, ptr %column, i64 %at) {
entry:
  %single = alloca [2 x i64]
  %code = load i64, ptr %column
  %array = call ptr @address(ptr %column, i64 1)
  switch i64 %code, label %list [
    i64 0, label %on.int i64 1, label %on.float i64 2, label %on.bool i64 3, label %on.array
    i64 4, label %on.scalar i64 5, label %on.scalar i64 6, label %on.numpy.bool
    i64 7, label %on.mixed
  ]
on.mixed:
  %mixed.slot = getelementptr i8, ptr %array, i64 %at
  %mixed = load i8, ptr %mixed.slot
  switch i8 %mixed, label %on.none [
    i8 0, label %in.column i8 1, label %in.column i8 2, label %in.column
    i8 CODE_OF_INT64, label %numpy.int i8 CODE_OF_FLOAT64, label %numpy.float
    i8 CODE_OF_BOOL, label %numpy.truth
  ]
on.none:
  %none = call ptr @known(i64 NONE_OBJECT)
  call void @Py_IncRef(ptr %none)
  ret ptr %none
in.column:
  %own = zext i8 %mixed to i64
  br label %read.column
numpy.int:
  br label %read.column
numpy.float:
  br label %read.column
numpy.truth:
  br label %read.column
read.column:
  %kind = phi i64 [ %own, %in.column ], [ 5, %numpy.int ], [ 4, %numpy.float ], [ 6, %numpy.truth ]
  %number = phi i64
    [ %own, %in.column ], [ 0, %numpy.int ], [ 1, %numpy.float ], [ 2, %numpy.truth ]
  %packed = call i64 @word(ptr %column, i64 2)
  %shift = mul i64 %number, 8
  %shifted = lshr i64 %packed, %shift
  %further = and i64 %shifted, 255
  %words = mul i64 %further, 3
  %other.slot = getelementptr i64, ptr %column, i64 %words
  %other = call i64 @word(ptr %other.slot, i64 1)
  call void @put(ptr %single, i64 0, i64 %kind)
  call void @put(ptr %single, i64 1, i64 %other)
  %one = call ptr @make_number(ptr %table, ptr %single, i64 %at)
  ret ptr %one
on.scalar:
  %type.number = add i64 %code, FIRST_SCALAR
  %scalar.type = call ptr @known(i64 %type.number)
  %bits = call i64 @word(ptr %array, i64 %at)
  %scalar.object = call ptr @jc_scalar(ptr %scalar.type, i64 %bits)
  ret ptr %scalar.object
on.numpy.bool:
  %truth.slot = getelementptr i8, ptr %array, i64 %at
  %truth = load i8, ptr %truth.slot
  %is.false = icmp eq i8 %truth, 0
  %numpy.true = call ptr @known(i64 NUMPY_TRUE)
  %numpy.false = call ptr @known(i64 NUMPY_FALSE)
  %numpy.bool = select i1 %is.false, ptr %numpy.false, ptr %numpy.true
  call void @Py_IncRef(ptr %numpy.bool)
  ret ptr %numpy.bool
on.array:
  %held = call ptr @address(ptr %array, i64 %at)
  call void @Py_IncRef(ptr %held)
  ret ptr %held
on.int:
  %int = call i64 @word(ptr %array, i64 %at)
  %int.object = call ptr @PyLong_FromLongLong(i64 %int)
  ret ptr %int.object
on.float:
  %float.slot = getelementptr double, ptr %array, i64 %at
  %float = load double, ptr %float.slot
  %float.object = call ptr @PyFloat_FromDouble(double %float)
  ret ptr %float.object
on.bool:
  %bool.slot = getelementptr i8, ptr %array, i64 %at
  %bool = load i8, ptr %bool.slot
  %wide = zext i8 %bool to i64
  %bool.object = call ptr @PyBool_FromLong(i64 %wide)
  ret ptr %bool.object
list:
  %part.number = sub i64 %code, FIRST_LIST
  %place = call i64 @word(ptr %array, i64 %at)
  %list.object = call ptr @make(ptr %table, i64 %part.number, i64 %place)
  ret ptr %list.object
}

define internal ptr @make_element(ptr %table, ptr %part, i64 %at) {
entry:
  %width = call i64 @word(ptr %part, i64 2)
  %is.single = icmp eq i64 %width, 0
  br i1 %is.single, label %single, label %tuple
single:
  %column = call ptr @column(ptr %part, i64 0)
  %object = call ptr @make_number(ptr %table, ptr %column, i64 %at)
  ret ptr %object
tuple:
  %made = call ptr @PyTuple_New(i64 %width)
  %no.tuple = icmp eq ptr %made, null
  br i1 %no.tuple, label %nothing, label %head
head:
  %k = phi i64 [ 0, %tuple ], [ %next, %store ]
  %more = icmp slt i64 %k, %width
  br i1 %more, label %body, label %done
body:
  %column.k = call ptr @column(ptr %part, i64 %k)
  %item = call ptr @make_number(ptr %table, ptr %column.k, i64 %at)
  %no.item = icmp eq ptr %item, null
  br i1 %no.item, label %drop, label %store
store:
  %items = getelementptr i8, ptr %made, i64 TUPLE_ITEMS
  %slot = getelementptr ptr, ptr %items, i64 %k
  store ptr %item, ptr %slot
  %next = add i64 %k, 1
  br label %head
drop:
  call void @Py_DecRef(ptr %made)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %made
}

define internal ptr @make(ptr %table, i64 %number, i64 %place) {
entry:
  %part = call ptr @part(ptr %table, i64 %number)
  %memo = call ptr @address(ptr %part, i64 1)
  %known.slot = getelementptr ptr, ptr %memo, i64 %place
  %known = load ptr, ptr %known.slot
  %is.known = icmp ne ptr %known, null
  br i1 %is.known, label %found, label %begin
found:
  call void @Py_IncRef(ptr %known)
  ret ptr %known
begin:
  %rows = call ptr @address(ptr %part, i64 0)
  %start = call i64 @word(ptr %rows, i64 %place)
  %length.place = add i64 %place, 1
  %length = call i64 @word(ptr %rows, i64 %length.place)
  %list = call ptr @PyList_New(i64 %length)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %nothing, label %fill
fill:
  store ptr %list, ptr %known.slot
  call void @Py_IncRef(ptr %list)
  %items = call ptr @items_of(ptr %list)
  br label %head
head:
  %i = phi i64 [ 0, %fill ], [ %next, %store ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %body, label %done
body:
  %at = add i64 %start, %i
  %item = call ptr @make_element(ptr %table, ptr %part, i64 %at)
  %no.item = icmp eq ptr %item, null
  br i1 %no.item, label %drop, label %store
store:
  %slot = getelementptr ptr, ptr %items, i64 %i
  store ptr %item, ptr %slot
  %next = add i64 %i, 1
  br label %head
drop:
  store ptr null, ptr %known.slot
  call void @Py_DecRef(ptr %list)
  call void @Py_DecRef(ptr %list)
  br label %nothing
nothing:
  ret ptr null
done:
  ret ptr %list
}

define ptr @jc_list_of_shared(ptr %table, i64 %number, i64 %place) {
  %state = call i32 @PyGILState_Ensure()
  %list = call ptr @make(ptr %table, i64 %number, i64 %place)
  %no.list = icmp eq ptr %list, null
  br i1 %no.list, label %failed, label %done
failed:
  call void @PyErr_Clear()
  br label %done
done:
  call void @PyGILState_Release(i32 %state)
  ret ptr %list
}
"""

WRITING = """
define internal i1 @is_number(ptr %table, ptr %column, i64 %at, ptr %item) {
entry:
  %flag = alloca i32
  %code = load i64, ptr %column
  %array = call ptr @address(ptr %column, i64 1)
  switch i64 %code, label %list [
    i64 0, label %on.int i64 1, label %on.float i64 2, label %on.bool i64 3, label %on.array
  ]
on.array:
  %held = call ptr @address(ptr %array, i64 %at)
  %is.held = icmp eq ptr %held, %item
  ret i1 %is.held
on.int:
  %is.int = call i1 @is_a(ptr %item, i64 2)
  br i1 %is.int, label %int.read, label %no
int.read:
  %int = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %flag)
  %overflow = load i32, ptr %flag
  %fits = icmp eq i32 %overflow, 0
  %wanted.int = call i64 @word(ptr %array, i64 %at)
  %is.same.int = icmp eq i64 %int, %wanted.int
  %is.it = and i1 %fits, %is.same.int
  ret i1 %is.it
on.float:
  %is.float = call i1 @is_a(ptr %item, i64 3)
  br i1 %is.float, label %float.read, label %no
float.read:
  %value.slot = getelementptr i8, ptr %item, i64 FLOAT_VALUE
  %float = load i64, ptr %value.slot
  %wanted.float = call i64 @word(ptr %array, i64 %at)
  %is.same.float = icmp eq i64 %float, %wanted.float
  ret i1 %is.same.float
on.bool:
  %is.bool = call i1 @is_a(ptr %item, i64 4)
  br i1 %is.bool, label %bool.read, label %no
bool.read:
  %true = call ptr @known(i64 5)
  %is.true = icmp eq ptr %item, %true
  %byte.slot = getelementptr i8, ptr %array, i64 %at
  %byte = load i8, ptr %byte.slot
  %wanted.bool = icmp ne i8 %byte, 0
  %is.same.bool = icmp eq i1 %is.true, %wanted.bool
  ret i1 %is.same.bool
list:
  %number = sub i64 %code, FIRST_LIST
  %place = call i64 @word(ptr %array, i64 %at)
  %part = call ptr @part(ptr %table, i64 %number)
  %memo = call ptr @address(ptr %part, i64 1)
  %known = call ptr @address(ptr %memo, i64 %place)
  %is.same.list = icmp eq ptr %known, %item
  ret i1 %is.same.list
no:
  ret i1 false
}

define internal i1 @write(ptr %table, ptr %part, i64 %place, ptr %list) {
entry:
  %rows = call ptr @address(ptr %part, i64 0)
  %start = call i64 @word(ptr %rows, i64 %place)
  %length.place = add i64 %place, 1
  %length = call i64 @word(ptr %rows, i64 %length.place)
  %size = call i64 @PyList_Size(ptr %list)
  %is.shorter = icmp slt i64 %length, %size
  br i1 %is.shorter, label %cut, label %head
cut:
  %cut.status = call i32 @PyList_SetSlice(ptr %list, i64 %length, i64 %size, ptr null)
  %not.cut = icmp ne i32 %cut.status, 0
  br i1 %not.cut, label %no, label %head
head:
  %i = phi i64 [ 0, %entry ], [ 0, %cut ], [ %next, %latch ]
  %more = icmp slt i64 %i, %length
  br i1 %more, label %body, label %yes
body:
  %at = add i64 %start, %i
  %is.new = icmp sge i64 %i, %size
  br i1 %is.new, label %append, label %compare
compare:
  %item = call ptr @PyList_GetItem(ptr %list, i64 %i)
  %no.item = icmp eq ptr %item, null
  br i1 %no.item, label %no, label %look
look:
  %same = call i1 @is_element(ptr %table, ptr %part, i64 %at, ptr %item)
  br i1 %same, label %latch, label %replace
replace:
  %made = call ptr @make_element(ptr %table, ptr %part, i64 %at)
  %not.made = icmp eq ptr %made, null
  br i1 %not.made, label %no, label %set
set:
  %set.status = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %made)
  %not.set = icmp ne i32 %set.status, 0
  br i1 %not.set, label %no, label %latch
append:
  %added = call ptr @make_element(ptr %table, ptr %part, i64 %at)
  %not.added = icmp eq ptr %added, null
  br i1 %not.added, label %no, label %push
push:
  %push.status = call i32 @PyList_Append(ptr %list, ptr %added)
  call void @Py_DecRef(ptr %added)
  %not.pushed = icmp ne i32 %push.status, 0
  br i1 %not.pushed, label %no, label %latch
latch:
  %next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

define i64 @jc_write_shared(ptr %table, i64 %number) {
entry:
  %state = call i32 @PyGILState_Ensure()
  %part = call ptr @part(ptr %table, i64 %number)
  %memo = call ptr @address(ptr %part, i64 1)
  %read = call i64 @word(ptr %part, i64 3)
  br label %head
head:
  %place = phi i64 [ 0, %entry ], [ %next, %latch ]
  %more = icmp slt i64 %place, %read
  br i1 %more, label %body, label %done
body:
  %list = call ptr @address(ptr %memo, i64 %place)
  %written = call i1 @write(ptr %table, ptr %part, i64 %place, ptr %list)
  br i1 %written, label %latch, label %failed
latch:
  %next = add i64 %place, 3
  br label %head
failed:
  call void @PyErr_Clear()
  br label %done
done:
  %status = phi i64 [ 0, %head ], [ 1, %failed ]
  call void @PyGILState_Release(i32 %state)
  ret i64 %status
}
"""
