"""Lists of lists that are arguments, read into the heap of a native function: LLVM text.

``shared_lists`` says what the functions do, and what the table is that they go by.  First all
lists are counted, so that the new arrays are as large as they have to be.  Then each list is taken
in, and the lists in it; a hash table knows the place of those that were taken already.
"""

from __future__ import annotations

__all__ = ["ALLOCATION", "COUNTING", "TAKING"]

COUNTING = """
define i1 @jc_begins_with(ptr %list, i64 %depth, i64 %type) {
entry:
  br label %head
head:
  %object = phi ptr [ %list, %entry ], [ %first, %deeper ]
  %left = phi i64 [ %depth, %entry ], [ %less, %deeper ]
  %is.end = icmp eq i64 %left, 0
  br i1 %is.end, label %compare, label %look
look:
  %is.list = call i1 @is_a(ptr %object, i64 0)
  br i1 %is.list, label %measure, label %no
measure:
  %size = call i64 @size_of(ptr %object)
  %is.empty = icmp eq i64 %size, 0
  br i1 %is.empty, label %yes, label %deeper
deeper:
  %items = call ptr @items_of(ptr %object)
  %first = load ptr, ptr %items
  %less = sub i64 %left, 1
  br label %head
compare:
  %is.none = icmp slt i64 %type, 0
  br i1 %is.none, label %no, label %ask
ask:
  %is.it = call i1 @is_a(ptr %object, i64 %type)
  ret i1 %is.it
yes:
  ret i1 true
no:
  ret i1 false
}

define internal i1 @count(ptr %table, ptr %list, i64 %number) {
entry:
  %is.list = call i1 @is_a(ptr %list, i64 0)
  br i1 %is.list, label %add, label %no
add:
  %part = call ptr @part(ptr %table, i64 %number)
  %size = call i64 @size_of(ptr %list)
  %rows = call i64 @word(ptr %part, i64 5)
  %more.rows = add i64 %rows, 3
  call void @put(ptr %part, i64 5, i64 %more.rows)
  %items = call i64 @word(ptr %part, i64 6)
  %more.items = add i64 %items, %size
  call void @put(ptr %part, i64 6, i64 %more.items)
  %words = add i64 %more.items, %more.rows
  %is.much = icmp ugt i64 %words, MOST
  br i1 %is.much, label %no, label %look
look:
  %has.lists = call i64 @word(ptr %part, i64 8)
  %is.flat = icmp eq i64 %has.lists, 0
  br i1 %is.flat, label %yes, label %begin
begin:
  %width = call i64 @word(ptr %part, i64 2)
  %elements = call ptr @items_of(ptr %list)
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %next, %latch ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %yes
body:
  %slot = getelementptr ptr, ptr %elements, i64 %i
  %item = load ptr, ptr %slot
  %is.single = icmp eq i64 %width, 0
  br i1 %is.single, label %single, label %tuple
single:
  %code.slot = call ptr @column(ptr %part, i64 0)
  %code = load i64, ptr %code.slot
  %inner = sub i64 %code, FIRST_LIST
  %single.fits = call i1 @count(ptr %table, ptr %item, i64 %inner)
  br i1 %single.fits, label %latch, label %no
tuple:
  %is.tuple = call i1 @is_tuple_of(ptr %item, i64 %width)
  br i1 %is.tuple, label %tuple.head, label %no
tuple.head:
  %k = phi i64 [ 0, %tuple ], [ %next.k, %tuple.latch ]
  %more.k = icmp slt i64 %k, %width
  br i1 %more.k, label %tuple.body, label %latch
tuple.body:
  %code.slot.k = call ptr @column(ptr %part, i64 %k)
  %code.k = load i64, ptr %code.slot.k
  %inner.k = sub i64 %code.k, FIRST_LIST
  %is.list.k = icmp sge i64 %inner.k, 0
  br i1 %is.list.k, label %tuple.list, label %tuple.latch
tuple.list:
  %item.k = call ptr @tuple_item(ptr %item, i64 %k)
  %fits.k = call i1 @count(ptr %table, ptr %item.k, i64 %inner.k)
  br i1 %fits.k, label %tuple.latch, label %no
tuple.latch:
  %next.k = add i64 %k, 1
  br label %tuple.head
latch:
  %next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
"""

TAKING = """
; The entry of a list among those that were read, or the empty one where it belongs.
define internal ptr @entry_of(ptr %table, ptr %list) {
entry:
  %hash = call ptr @address(ptr %table, i64 0)
  %mask = call i64 @word(ptr %table, i64 1)
  %bits = ptrtoint ptr %list to i64
  %shifted = lshr i64 %bits, 4
  %mixed = mul i64 %shifted, 7046029254386353131
  %high = lshr i64 %mixed, 20
  br label %head
head:
  %i = phi i64 [ %high, %entry ], [ %next, %other ]
  %place = and i64 %i, %mask
  %words = mul i64 %place, 3
  %found = getelementptr i64, ptr %hash, i64 %words
  %key = load ptr, ptr %found
  %is.this = icmp eq ptr %key, %list
  %is.free = icmp eq ptr %key, null
  %is.end = or i1 %is.this, %is.free
  br i1 %is.end, label %done, label %other
other:
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %found
}

define internal i1 @take_number(ptr %table, ptr %column, i64 %at, ptr %item) {
entry:
  %flag = alloca i32
  %code = load i64, ptr %column
  %array = call ptr @address(ptr %column, i64 1)
  switch i64 %code, label %list [
    i64 0, label %on.int i64 1, label %on.float i64 2, label %on.bool i64 3, label %no
  ]
on.int:
  %is.int = call i1 @is_a(ptr %item, i64 2)
  br i1 %is.int, label %int.read, label %no
int.read:
  %int = call i64 @PyLong_AsLongLongAndOverflow(ptr %item, ptr %flag)
  %overflow = load i32, ptr %flag
  %fits = icmp eq i32 %overflow, 0
  br i1 %fits, label %int.store, label %no
int.store:
  call void @put(ptr %array, i64 %at, i64 %int)
  ret i1 true
on.float:
  %is.float = call i1 @is_a(ptr %item, i64 3)
  br i1 %is.float, label %float.store, label %no
float.store:
  %value.slot = getelementptr i8, ptr %item, i64 FLOAT_VALUE
  %float = load i64, ptr %value.slot
  call void @put(ptr %array, i64 %at, i64 %float)
  ret i1 true
on.bool:
  %is.bool = call i1 @is_a(ptr %item, i64 4)
  br i1 %is.bool, label %bool.store, label %no
bool.store:
  %true = call ptr @known(i64 5)
  %is.true = icmp eq ptr %item, %true
  %byte = zext i1 %is.true to i8
  %byte.slot = getelementptr i8, ptr %array, i64 %at
  store i8 %byte, ptr %byte.slot
  ret i1 true
list:
  %number = sub i64 %code, FIRST_LIST
  %place = call i64 @take(ptr %table, ptr %item, i64 %number)
  %failed = icmp slt i64 %place, 0
  br i1 %failed, label %no, label %list.store
list.store:
  call void @put(ptr %array, i64 %at, i64 %place)
  ret i1 true
no:
  ret i1 false
}

define internal i64 @take(ptr %table, ptr %list, i64 %number) {
entry:
  %found = call ptr @entry_of(ptr %table, ptr %list)
  %key = load ptr, ptr %found
  %is.new = icmp eq ptr %key, null
  br i1 %is.new, label %new, label %old
old:
  %old.part = call i64 @word(ptr %found, i64 2)
  %is.same = icmp eq i64 %old.part, %number
  br i1 %is.same, label %old.place, label %no
old.place:
  %known = call i64 @word(ptr %found, i64 1)
  ret i64 %known
new:
  %part = call ptr @part(ptr %table, i64 %number)
  %place = call i64 @word(ptr %part, i64 3)
  %next.row = add i64 %place, 3
  %size = call i64 @size_of(ptr %list)
  %start = call i64 @word(ptr %part, i64 4)
  %end = add i64 %start, %size
  %row.room = call i64 @word(ptr %part, i64 5)
  %room = call i64 @word(ptr %part, i64 6)
  %rows.fit = icmp sle i64 %next.row, %row.room
  %items.fit = icmp sle i64 %end, %room
  %fits = and i1 %rows.fit, %items.fit
  br i1 %fits, label %begin, label %no
begin:
  call void @put(ptr %part, i64 3, i64 %next.row)
  store ptr %list, ptr %found
  call void @put(ptr %found, i64 1, i64 %place)
  call void @put(ptr %found, i64 2, i64 %number)
  %memo = call ptr @address(ptr %part, i64 1)
  %memo.slot = getelementptr ptr, ptr %memo, i64 %place
  store ptr %list, ptr %memo.slot
  call void @Py_IncRef(ptr %list)
  call void @put(ptr %part, i64 4, i64 %end)
  %rows = call ptr @address(ptr %part, i64 0)
  %row = getelementptr i64, ptr %rows, i64 %place
  store i64 %start, ptr %row
  call void @put(ptr %row, i64 1, i64 %size)
  call void @put(ptr %row, i64 2, i64 %size)
  %items = call ptr @items_of(ptr %list)
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %next, %latch ]
  %more = icmp slt i64 %i, %size
  br i1 %more, label %body, label %done
body:
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  %at = add i64 %start, %i
  %taken = call i1 @take_element(ptr %table, ptr %part, i64 %at, ptr %item)
  br i1 %taken, label %latch, label %no
latch:
  %next = add i64 %i, 1
  br label %head
done:
  ret i64 %place
no:
  ret i64 -1
}
"""

ALLOCATION = """
define internal ptr @zeros(i64 %words) {
entry:
  %bytes = mul i64 %words, 8
  %block = call ptr @jc_malloc(i64 %bytes)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %done, label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %words
  br i1 %more, label %body, label %done
body:
  call void @put(ptr %block, i64 %i, i64 0)
  %next = add i64 %i, 1
  br label %head
done:
  ret ptr %block
}

; A new array of one axis; word 0 gets the address of its elements, word %place its object.
define internal i1 @new_array(ptr %words, i64 %place, i64 %dtype, i64 %count) {
entry:
  %object = call ptr @jc_empty(i64 %dtype, i64 0, i64 1, i64 %count, i64 1, i64 1, i64 1, i64 1,
    i64 1, i64 1, i64 1)
  %slot = getelementptr ptr, ptr %words, i64 %place
  store ptr %object, ptr %slot
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %no, label %yes
yes:
  %elements = call ptr @address(ptr %object, i64 2)
  store ptr %elements, ptr %words
  ret i1 true
no:
  ret i1 false
}

define internal i1 @make_room(ptr %part) {
entry:
  %rows = call i64 @word(ptr %part, i64 5)
  %row.room = add i64 %rows, SPARE
  call void @put(ptr %part, i64 5, i64 %row.room)
  %items = call i64 @word(ptr %part, i64 6)
  %item.room = add i64 %items, SPARE
  call void @put(ptr %part, i64 6, i64 %item.room)
  %has.rows = call i1 @new_array(ptr %part, i64 7, i64 INT_DTYPE, i64 %row.room)
  br i1 %has.rows, label %allocate, label %no
allocate:
  %memo = call ptr @jc_new_memo(ptr null, i64 0, i64 %row.room)
  %no.memo = icmp eq ptr %memo, null
  br i1 %no.memo, label %no, label %note
note:
  %memo.slot = getelementptr i64, ptr %part, i64 1
  store ptr %memo, ptr %memo.slot
  %width = call i64 @word(ptr %part, i64 2)
  %is.single = icmp eq i64 %width, 0
  %columns = select i1 %is.single, i64 1, i64 %width
  br label %head
head:
  %k = phi i64 [ 0, %note ], [ %next, %latch ]
  %more = icmp slt i64 %k, %columns
  br i1 %more, label %body, label %yes
body:
  %column = call ptr @column(ptr %part, i64 %k)
  %code = load i64, ptr %column
  %array = getelementptr i64, ptr %column, i64 1
  switch i64 %code, label %on.int [ i64 1, label %on.float i64 2, label %on.bool ]
on.int:
  %int = call i1 @new_array(ptr %array, i64 1, i64 INT_DTYPE, i64 %item.room)
  br i1 %int, label %latch, label %no
on.float:
  %float = call i1 @new_array(ptr %array, i64 1, i64 FLOAT_DTYPE, i64 %item.room)
  br i1 %float, label %latch, label %no
on.bool:
  %bool = call i1 @new_array(ptr %array, i64 1, i64 BOOL_DTYPE, i64 %item.room)
  br i1 %bool, label %latch, label %no
latch:
  %next = add i64 %k, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @drop_part(ptr %part) {
entry:
  %rows = call ptr @address(ptr %part, i64 7)
  call void @jc_decref(ptr %rows)
  %memo = call ptr @address(ptr %part, i64 1)
  call void @free_memo(ptr %memo)
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %k, MAX_WIDTH
  br i1 %more, label %body, label %done
body:
  %column = call ptr @column(ptr %part, i64 %k)
  %object = call ptr @address(ptr %column, i64 2)
  call void @jc_decref(ptr %object)
  %next = add i64 %k, 1
  br label %head
done:
  ret void
}

define ptr @jc_new_memo(ptr %known, i64 %read, i64 %words) {
entry:
  %length = add i64 %words, 2
  %block = call ptr @zeros(i64 %length)
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %nothing, label %begin
begin:
  store i64 %words, ptr %block
  %memo = getelementptr i64, ptr %block, i64 2
  %is.empty = icmp eq i64 %read, 0
  br i1 %is.empty, label %done, label %copy
copy:
  %state = call i32 @PyGILState_Ensure()
  br label %head
head:
  %i = phi i64 [ 0, %copy ], [ %next, %body ]
  %more = icmp slt i64 %i, %read
  br i1 %more, label %body, label %copied
body:
  %object = call ptr @address(ptr %known, i64 %i)
  %slot = getelementptr ptr, ptr %memo, i64 %i
  store ptr %object, ptr %slot
  call void @Py_IncRef(ptr %object)
  %next = add i64 %i, 3
  br label %head
copied:
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  ret ptr %memo
nothing:
  ret ptr null
}

define internal void @free_memo(ptr %memo) {
entry:
  %is.null = icmp eq ptr %memo, null
  br i1 %is.null, label %done, label %begin
begin:
  %block = getelementptr i64, ptr %memo, i64 -2
  %words = load i64, ptr %block
  br label %head
head:
  %i = phi i64 [ 0, %begin ], [ %next, %latch ]
  %more = icmp slt i64 %i, %words
  br i1 %more, label %body, label %free
body:
  %object = call ptr @address(ptr %memo, i64 %i)
  %no.object = icmp eq ptr %object, null
  br i1 %no.object, label %latch, label %drop
drop:
  call void @Py_DecRef(ptr %object)
  br label %latch
latch:
  %next = add i64 %i, 3
  br label %head
free:
  call void @jc_free(ptr %block)
  br label %done
done:
  ret void
}

define void @jc_free_memo(ptr %memo) {
entry:
  %is.null = icmp eq ptr %memo, null
  br i1 %is.null, label %done, label %free
free:
  %state = call i32 @PyGILState_Ensure()
  call void @free_memo(ptr %memo)
  call void @PyGILState_Release(i32 %state)
  br label %done
done:
  ret void
}

define i64 @jc_take_shared(ptr %table, ptr %roots, i64 %count) {
entry:
  %state = call i32 @PyGILState_Ensure()
  store ptr null, ptr %table
  %parts = call i64 @word(ptr %table, i64 2)
  br label %count.head
count.head:
  %i = phi i64 [ 0, %entry ], [ %next.i, %count.body ]
  %more.i = icmp slt i64 %i, %count
  br i1 %more.i, label %count.body, label %room.head
count.body:
  %words.i = mul i64 %i, ROOT_WORDS
  %root.i = getelementptr i64, ptr %roots, i64 %words.i
  %list.i = load ptr, ptr %root.i
  %part.i = call i64 @word(ptr %root.i, i64 1)
  %next.i = add i64 %i, 1
  %counted = call i1 @count(ptr %table, ptr %list.i, i64 %part.i)
  br i1 %counted, label %count.head, label %failed
room.head:
  %p = phi i64 [ 0, %count.head ], [ %next.p, %room.body ]
  %lists = phi i64 [ 4, %count.head ], [ %more.lists, %room.body ]
  %more.p = icmp slt i64 %p, %parts
  br i1 %more.p, label %room.body, label %hash
room.body:
  %part.p = call ptr @part(ptr %table, i64 %p)
  %rows.p = call i64 @word(ptr %part.p, i64 5)
  %more.lists = add i64 %lists, %rows.p
  %next.p = add i64 %p, 1
  %has.room = call i1 @make_room(ptr %part.p)
  br i1 %has.room, label %room.head, label %failed
hash:
  %zeros = call i64 @llvm.ctlz.i64(i64 %lists, i1 false)
  %bits = sub i64 64, %zeros
  %entries = shl i64 1, %bits
  %mask = sub i64 %entries, 1
  call void @put(ptr %table, i64 1, i64 %mask)
  %hash.words = mul i64 %entries, 3
  %block = call ptr @zeros(i64 %hash.words)
  store ptr %block, ptr %table
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %failed, label %take.head
take.head:
  %r = phi i64 [ 0, %hash ], [ %next.r, %took ]
  %more.r = icmp slt i64 %r, %count
  br i1 %more.r, label %take.body, label %success
take.body:
  %words.r = mul i64 %r, ROOT_WORDS
  %root.r = getelementptr i64, ptr %roots, i64 %words.r
  %list.r = load ptr, ptr %root.r
  %part.r = call i64 @word(ptr %root.r, i64 1)
  %place = call i64 @take(ptr %table, ptr %list.r, i64 %part.r)
  %is.wrong = icmp slt i64 %place, 0
  br i1 %is.wrong, label %failed, label %took
took:
  call void @put(ptr %root.r, i64 2, i64 %place)
  %next.r = add i64 %r, 1
  br label %take.head
success:
  call void @free_block(ptr %table)
  call void @PyGILState_Release(i32 %state)
  ret i64 0
failed:
  call void @PyErr_Clear()
  call void @free_block(ptr %table)
  br label %drop.head
drop.head:
  %d = phi i64 [ 0, %failed ], [ %next.d, %drop.body ]
  %more.d = icmp slt i64 %d, %parts
  br i1 %more.d, label %drop.body, label %dropped
drop.body:
  %part.d = call ptr @part(ptr %table, i64 %d)
  call void @drop_part(ptr %part.d)
  %next.d = add i64 %d, 1
  br label %drop.head
dropped:
  call void @PyGILState_Release(i32 %state)
  ret i64 1
}

define internal void @free_block(ptr %table) {
entry:
  %block = load ptr, ptr %table
  %is.null = icmp eq ptr %block, null
  br i1 %is.null, label %done, label %free
free:
  call void @jc_free(ptr %block)
  br label %done
done:
  ret void
}

declare i64 @llvm.ctlz.i64(i64, i1)
"""
