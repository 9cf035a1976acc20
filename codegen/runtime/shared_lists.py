"""Lists of lists between Python and the heap of a native function: LLVM text of the runtime.

A native function keeps lists that others refer to in a heap, in which a reference is the place of
a list (``ir/specialize/lists/list_heap.py`` says how).  These functions read lists that are
arguments into it, write back what has changed, and make Python's lists of what is returned:

======================== ===========================================================================
``jc_take_shared``       (table, roots, count): read lists, with all lists in them, into new arrays;
                         0 is success, otherwise nothing is left of it
``jc_write_shared``      (table, part): give the lists of a part that were read the elements that
                         they have now, where those are others; 0 is success
``jc_list_of_shared``    (table, part, place): a new reference to a list; null without memory
``jc_new_memo``          (memo, read, words): a memo of so many words, with what the first words of
                         another one have; null without memory
``jc_free_memo``         give up a memo, null is fine
``jc_begins_with``       (list, depth, type): whether the first element of the first list, so deep
                         down, is of a type, or there is none; a negative type is none
======================== ===========================================================================

All but the last take the GIL.  The **table** begins with `HEADER_WORDS` words that
``jc_take_shared`` needs; then come `PART_WORDS` words for each part of the heap:

===== ==============================================================================================
word
===== ==============================================================================================
0     the address of the rows, three words for each list
1     the address of the memo, which has at the place of a list a reference to the object that it
      is, or 0
2     the length of the tuples that its lists hold, or 0 where they hold no tuples
3     how many words of rows were read
4     how many elements were read
5, 6  how many words of rows, and how many elements, there is room for
7     the object that holds the rows
8     whether elements are, or hold, lists
9 …   for each number in an element a code, the address of the array, and the object that holds it
===== ==============================================================================================

The code is 0 for an int, 1 for a float, 2 for a bool, 3 for a reference to an array, 4 to 6 for
NumPy's scalars of float64, int64 and bool, which are only made and never read, as are the numbers
of several types of 7, and `FIRST_LIST` and more for a list of the part whose number it is then.  An
array for 7 has a code for each number (``ir/specialize/lists/mixed_elements.py``), and in the place
of the object three bytes say how many columns further the ints, the floats and the bools are.
A **root** is three words: a list, its part, and its place.  A memo begins two words behind its
block, whose first word says how long it is.

Each list is read once, and so is each object made, whatever refers to it: references that are the
same in Python are the same in the heap.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.runtime.shared_reading import ALLOCATION, COUNTING, TAKING
from jitcore.codegen.runtime.shared_writing import MAKING, WRITING
from jitcore.ir.specialize.lists.mixed_elements import code_of
from jitcore.ir.types import scalar_type

__all__ = [
    "CODE_DTYPES",
    "COLUMNS",
    "FIRST_LIST",
    "HAS_LISTS",
    "HEADER_WORDS",
    "KINDS",
    "MAX_WIDTH",
    "MEMO",
    "PART_WORDS",
    "READ",
    "ROOM",
    "ROOT_WORDS",
    "ROWS",
    "ROWS_OBJECT",
    "ROW_WORDS",
    "TYPES",
    "WIDTH",
    "add_shared_list_functions",
]

KINDS = ("int", "float", "bool", "array", "numpy.float64", "numpy.int64", "numpy.bool", "mixed")
"""What the codes from 0 on stand for."""

CODE_DTYPES = tuple(np.dtype(one) for one in ("int64", "float64", "bool", "O"))
"""Of the buffers for what is read; places of lists are as ints."""

FIRST_LIST = len(KINDS)
MAX_WIDTH = 8
"""The longest tuples."""

HEADER_WORDS = 3
ROW_WORDS = 3
ROOT_WORDS = 3
ROWS, MEMO, WIDTH, ROWS_OBJECT, HAS_LISTS, COLUMNS = 0, 1, 2, 7, 8, 9
READ, ROOM = (3, 4), (5, 6)
PART_WORDS = COLUMNS + 3 * MAX_WIDTH

_MOST = 2**27
"""So many elements are read at most."""

_SYMBOLS = (
    *("jc_take_shared", "jc_write_shared", "jc_list_of_shared", "jc_new_memo"),
    *("jc_free_memo", "jc_begins_with"),
)
TYPES = (list, tuple, int, float, bool)
"""The types that ``jc_begins_with`` knows, by their numbers."""

_SCALARS = (np.float64, np.int64, np.True_, np.False_)
_OBJECTS = (*TYPES, True, *_SCALARS, None)

_DECLARATIONS = """
@jc_shared_objects = dso_local global [OBJECT_COUNT x ptr] zeroinitializer
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @jc_malloc(i64)
declare void @jc_free(ptr)
declare void @jc_decref(ptr)
declare ptr @jc_empty(i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyFloat_FromDouble(double)
declare ptr @PyBool_FromLong(i64)
declare ptr @PyList_New(i64)
declare i64 @PyList_Size(ptr)
declare ptr @PyList_GetItem(ptr, i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare i32 @PyList_SetSlice(ptr, i64, i64, ptr)
declare i32 @PyList_Append(ptr, ptr)
declare ptr @PyTuple_New(i64)
declare ptr @jc_scalar(ptr, i64)

define internal ptr @known(i64 %number) alwaysinline {
  %slot = getelementptr ptr, ptr @jc_shared_objects, i64 %number
  %object = load ptr, ptr %slot
  ret ptr %object
}

define internal i1 @is_a(ptr %object, i64 %number) alwaysinline {
  %type.slot = getelementptr i8, ptr %object, i64 OBJECT_TYPE
  %type = load ptr, ptr %type.slot
  %wanted = call ptr @known(i64 %number)
  %same = icmp eq ptr %type, %wanted
  ret i1 %same
}

define internal ptr @part(ptr %table, i64 %number) alwaysinline {
  %words = mul i64 %number, PART_WORDS
  %place = add i64 %words, HEADER_WORDS
  %part = getelementptr i64, ptr %table, i64 %place
  ret ptr %part
}

define internal i64 @word(ptr %words, i64 %number) alwaysinline {
  %slot = getelementptr i64, ptr %words, i64 %number
  %value = load i64, ptr %slot
  ret i64 %value
}

define internal ptr @address(ptr %words, i64 %number) alwaysinline {
  %slot = getelementptr i64, ptr %words, i64 %number
  %value = load ptr, ptr %slot
  ret ptr %value
}

define internal void @put(ptr %words, i64 %number, i64 %value) alwaysinline {
  %slot = getelementptr i64, ptr %words, i64 %number
  store i64 %value, ptr %slot
  ret void
}

; The column of an element's number %i, and how many numbers there are; 0 says one that is no tuple.
define internal ptr @column(ptr %part, i64 %i) alwaysinline {
  %words = mul i64 %i, 3
  %place = add i64 %words, COLUMNS
  %column = getelementptr i64, ptr %part, i64 %place
  ret ptr %column
}

define internal ptr @items_of(ptr %list) alwaysinline {
  %slot = getelementptr i8, ptr %list, i64 LIST_ITEMS
  %items = load ptr, ptr %slot
  ret ptr %items
}

define internal i64 @size_of(ptr %list) alwaysinline {
  %slot = getelementptr i8, ptr %list, i64 LIST_SIZE
  %size = load i64, ptr %slot
  ret i64 %size
}

define internal ptr @tuple_item(ptr %tuple, i64 %i) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 TUPLE_ITEMS
  %slot = getelementptr ptr, ptr %items, i64 %i
  %item = load ptr, ptr %slot
  ret ptr %item
}

define internal i1 @is_tuple_of(ptr %object, i64 %width) alwaysinline {
entry:
  %is.tuple = call i1 @is_a(ptr %object, i64 1)
  br i1 %is.tuple, label %measure, label %no
measure:
  %slot = getelementptr i8, ptr %object, i64 TUPLE_SIZE
  %size = load i64, ptr %slot
  %fits = icmp eq i64 %size, %width
  ret i1 %fits
no:
  ret i1 false
}
"""


# Whether all columns of an element, of which there are several for a tuple, give true.
_BY_COLUMNS = """
define internal i1 @DO_element(ptr %table, ptr %part, i64 %at, ptr %item) {
entry:
  %width = call i64 @word(ptr %part, i64 2)
  %is.single = icmp eq i64 %width, 0
  br i1 %is.single, label %single, label %tuple
single:
  %column = call ptr @column(ptr %part, i64 0)
  %answer = call i1 @DO_number(ptr %table, ptr %column, i64 %at, ptr %item)
  ret i1 %answer
tuple:
  %is.tuple = call i1 @is_tuple_of(ptr %item, i64 %width)
  br i1 %is.tuple, label %head, label %no
head:
  %k = phi i64 [ 0, %tuple ], [ %next, %latch ]
  %more = icmp slt i64 %k, %width
  br i1 %more, label %body, label %yes
body:
  %column.k = call ptr @column(ptr %part, i64 %k)
  %item.k = call ptr @tuple_item(ptr %item, i64 %k)
  %answer.k = call i1 @DO_number(ptr %table, ptr %column.k, i64 %at, ptr %item.k)
  br i1 %answer.k, label %latch, label %no
latch:
  %next = add i64 %k, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}
"""


def _text() -> str:
    by_columns = "".join(_BY_COLUMNS.replace("DO_", f"{one}_") for one in ("take", "is"))
    text = _DECLARATIONS + by_columns + COUNTING + TAKING + ALLOCATION + MAKING + WRITING
    parts: dict[str, int] = {
        "FIRST_LIST": FIRST_LIST,
        "PART_WORDS": PART_WORDS,
        "HEADER_WORDS": HEADER_WORDS,
        "ROOT_WORDS": ROOT_WORDS,
        "COLUMNS": COLUMNS,
        "MAX_WIDTH": MAX_WIDTH,
        "MOST": _MOST,
        "SPARE": 8,
        "OBJECT_COUNT": len(_OBJECTS),
        "FIRST_SCALAR": _OBJECTS.index(np.float64) - KINDS.index("numpy.float64"),
        "NUMPY_TRUE": len(_OBJECTS) - 3,
        "NUMPY_FALSE": len(_OBJECTS) - 2,
        "NONE_OBJECT": len(_OBJECTS) - 1,
        "CODE_OF_FLOAT64": code_of(scalar_type(np.float64)),
        "CODE_OF_INT64": code_of(scalar_type(np.int64)),
        "CODE_OF_BOOL": code_of(scalar_type(np.bool_)),
    }
    for name, dtype in zip(("INT", "FLOAT", "BOOL"), CODE_DTYPES, strict=False):
        parts[f"{name}_DTYPE"] = dtype.num
    offsets = ("LIST_ITEMS", "LIST_SIZE", "TUPLE_ITEMS", "TUPLE_SIZE", "OBJECT_TYPE", "FLOAT_VALUE")
    parts |= {name: getattr(layout, name) for name in offsets}
    for name, value in parts.items():
        text = text.replace(name, str(value))
    return text


@cache
def _make() -> CompiledModule:
    module = compile_module(_text(), name="shared_lists")
    layout.fill_table(module.address("jc_shared_objects"), dict(enumerate(_OBJECTS)))
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module


def add_shared_list_functions() -> None:
    """Have the functions compiled when code that needs them is; few programs do."""
    for name in _SYMBOLS:
        add_maker(name, _make)
