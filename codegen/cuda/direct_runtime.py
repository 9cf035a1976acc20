"""What direct calls (`codegen.cuda.direct`) and their native functions call: LLVM code.

It keeps records, and calls the functions of Python that they name.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from jitcore.codegen.cuda.exchange import exchange_text
from jitcore.codegen.cuda.memory import ensure_memory
from jitcore.codegen.engine import CompiledModule, add_maker, add_symbol, compile_module
from jitcore.codegen.entries import layout
from jitcore.codegen.runtime.arrays import MAX_RANK
from jitcore.codegen.runtime.functions import ensure_runtime, function_address
from jitcore.ir.bfloat16 import bfloat16

__all__ = ["FUNCTIONS", "STREAM_WORD", "ensure_direct", "know_bfloat16"]

FUNCTIONS = (
    "read",
    "stream",
    "empty",
    "lend",
    "lend_scratch",
    "lend_zeros",
    "take_back",
    "adopt",
    "is_plain",
    "api",
    "place",
)
"""What is there for each type of arrays: functions, and at the end two numbers.

``read(array, stream, is_first)``
    The shadow of an array that a call on a stream reads or writes; None where only another way
    of calling can take it.  ``is_first``: the call's functions are the same ones.
``stream(array)``
    That of a call whose first array this is.
``empty(dtype, shape, strides, size, stream)``
    Address and owner of a new array, with its size in bytes; strides are None for C order.
``lend(size, stream)``, ``lend_scratch(size, stream)``, ``lend_zeros(size, stream)``
    The address of memory for a temporary, until ``take_back(address, stream)``.
``adopt(result)``
    What a native function gives, with arrays for shadows, whose bases are what ``empty`` gave.
``is_plain(array)``
    Whether the functions in C of ``api`` tell all of an array.
``api``, ``place``
    The address of the library's functions in C, or 0 (`codegen.cuda.exchange`), and the device.
"""

_PLACES = {name: place for place, name in enumerate(FUNCTIONS)}

_FUNCTIONS_WORD, STREAM_WORD = 16, 24
"""Where a record has the call's functions, and its stream."""

_NUMPY_DTYPES: dict[int, np.dtype[Any]] = {
    np.dtype(char).num: np.dtype(char) for char in layout.DTYPE_CHARS
}
_BFLOAT16, _ARRAY_TYPE, _NONE, _FALSE = range(32, 36)
"""Places in the table of objects, behind NumPy's dtypes by their numbers; bfloat16's is larger.
True follows on False."""

_SYMBOLS = (
    "jc_cuda_adopt",
    "jc_cuda_decref",
    "jc_cuda_direct_empty",
    "jc_cuda_direct_free",
    "jc_cuda_direct_malloc",
    "jc_cuda_direct_scratch",
    "jc_cuda_direct_zeros",
    "jc_cuda_enter",
    "jc_cuda_leave",
    "jc_cuda_pause",
    "jc_cuda_shadow",
    "jc_cuda_start",
)

_FUNCTIONS = ("PyDict_GetItem", "PyErr_Clear", "PyErr_Occurred", "PyLong_AsVoidPtr")
_TUPLES = ("PyTuple_GetItem", "PyTuple_New", "PyTuple_SetItem")

_TEXT = """
@jc_cuda_stream = external global ptr
@jc_cuda_direct = external global ptr
@jc_cuda_streams = external global i64
@jc_cuda_objects = dso_local global [{objects} x ptr] zeroinitializer
@sizes = internal constant [{objects} x i64] [{sizes}]
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare i32 @jc_array_set_base(ptr, ptr)
declare void @jc_decref(ptr)
declare ptr @PyDict_GetItem(ptr, ptr)
declare ptr @PyErr_Occurred()
declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)
declare void @Py_IncRef(ptr)

; Both do nothing without a record.
define void @jc_cuda_enter(ptr %record) {{
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %enter
enter:
  %direct = load ptr, ptr @jc_cuda_direct
  %stream = load ptr, ptr @jc_cuda_stream
  %place = getelementptr ptr, ptr %record, i64 1
  %own.place = getelementptr i8, ptr %record, i64 {stream_word}
  %own = load ptr, ptr %own.place
  store ptr %direct, ptr %record
  store ptr %stream, ptr %place
  store ptr %record, ptr @jc_cuda_direct
  store ptr %own, ptr @jc_cuda_stream
  br label %done
done:
  ret void
}}

define void @jc_cuda_leave(ptr %record) {{
entry:
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %leave
leave:
  %place = getelementptr ptr, ptr %record, i64 1
  %direct = load ptr, ptr %record
  %stream = load ptr, ptr %place
  store ptr %direct, ptr @jc_cuda_direct
  store ptr %stream, ptr @jc_cuda_stream
  br label %done
done:
  ret void
}}

; Leaves the direct call that runs, if one does, until jc_cuda_enter gets the record again.
define ptr @jc_cuda_pause() {{
  %record = load ptr, ptr @jc_cuda_direct
  call void @jc_cuda_leave(ptr %record)
  ret ptr %record
}}

; Python runs where the last reference goes.
define void @jc_cuda_decref(ptr %object) {{
  %record = call ptr @jc_cuda_pause()
  call void @jc_decref(ptr %object)
  call void @jc_cuda_enter(ptr %record)
  ret void
}}

; The functions for arrays of an object's type, the items of a tuple; null where there are none.
define internal ptr @functions(ptr %table, ptr %object) {{
entry:
  %type.slot = getelementptr i8, ptr %object, i64 {object_type}
  %type = load ptr, ptr %type.slot
  %found = call ptr @PyDict_GetItem(ptr %table, ptr %type)
  %missing = icmp eq ptr %found, null
  %items = getelementptr i8, ptr %found, i64 {tuple_items}
  %result = select i1 %missing, ptr null, ptr %items
  ret ptr %result
}}

; Starts a record by a call's first array. False where there are no functions for it, or with an
; exception set.
define i1 @jc_cuda_start(ptr %record, ptr %table, ptr %own, ptr %array) {{
entry:
  %vector = alloca ptr
  store ptr %array, ptr %vector
  %functions = call ptr @functions(ptr %table, ptr %array)
  %missing = icmp eq ptr %functions, null
  br i1 %missing, label %failed, label %found
found:
  %functions.word = getelementptr i8, ptr %record, i64 {functions_word}
  store ptr %functions, ptr %functions.word
  %stream.word = getelementptr i8, ptr %record, i64 {stream_word}
  store ptr null, ptr %stream.word
  %type.slot = getelementptr i8, ptr %array, i64 {object_type}
  %type = load ptr, ptr %type.slot
  %is.own = icmp eq ptr %type, %own
  %streams = load i64, ptr @jc_cuda_streams
  %none = icmp eq i64 %streams, 0
  %is.default = and i1 %is.own, %none
  br i1 %is.default, label %done, label %exchange
exchange:
  %told = call i1 @exchanged_stream(ptr %functions, ptr %stream.word)
  br i1 %told, label %done, label %ask
ask:
  %slot = getelementptr ptr, ptr %functions, i64 {stream}
  %callable = load ptr, ptr %slot
  %object = call ptr @PyObject_Vectorcall(ptr %callable, ptr %vector, i64 1, ptr null)
  %raised = icmp eq ptr %object, null
  br i1 %raised, label %failed, label %answered
answered:
  %stream.number = call ptr @address(ptr %object)
  store ptr %stream.number, ptr %stream.word
  br label %done
done:
  ret i1 true
failed:
  ret i1 false
}}

; The shadow of an array as its library's functions give it; null where there is none.
define ptr @jc_cuda_shadow(ptr %record, ptr %table, ptr %array) {{
entry:
  %vector = alloca [3 x ptr]
  %functions = call ptr @functions(ptr %table, ptr %array)
  %missing = icmp eq ptr %functions, null
  br i1 %missing, label %failed, label %found
found:
  %first.word = getelementptr i8, ptr %record, i64 {functions_word}
  %first = load ptr, ptr %first.word
  %is.first = icmp eq ptr %functions, %first
  %api = call ptr @api(ptr %functions)
  %has.api = icmp ne ptr %api, null
  ; Work of another library may have to be waited for.
  %asks = and i1 %is.first, %has.api
  br i1 %asks, label %exchange, label %number
exchange:
  %shadow = call ptr @exchanged(ptr %functions, ptr %array)
  %silent = icmp eq ptr %shadow, null
  %raised = call ptr @PyErr_Occurred()
  %goes.on = icmp eq ptr %raised, null
  %others = and i1 %silent, %goes.on
  br i1 %others, label %number, label %read
read:
  ret ptr %shadow
number:
  %stream = call ptr @stream(ptr %record)
  %none = icmp eq ptr %stream, null
  br i1 %none, label %failed, label %call
call:
  %bool.place = select i1 %is.first, i64 {true}, i64 {false}
  %bool.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 %bool.place
  %bool = load ptr, ptr %bool.slot
  %second = getelementptr ptr, ptr %vector, i64 1
  %third = getelementptr ptr, ptr %vector, i64 2
  store ptr %array, ptr %vector
  store ptr %stream, ptr %second
  store ptr %bool, ptr %third
  %slot = getelementptr ptr, ptr %functions, i64 {read}
  %callable = load ptr, ptr %slot
  %given = call ptr @PyObject_Vectorcall(ptr %callable, ptr %vector, i64 3, ptr null)
  call void @Py_DecRef(ptr %stream)
  %none.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {none}
  %py.none = load ptr, ptr %none.slot
  %refused = icmp eq ptr %given, %py.none
  br i1 %refused, label %drop, label %done
drop:
  call void @Py_DecRef(ptr %given)
  br label %failed
done:
  ret ptr %given
failed:
  ret ptr null
}}

; The stream of a record as a number of Python.
define internal ptr @stream(ptr %record) {{
  %word = getelementptr i8, ptr %record, i64 {stream_word}
  %stream = load i64, ptr %word
  %object = call ptr @PyLong_FromLongLong(i64 %stream)
  ret ptr %object
}}

; What a function of the record gives for the first arguments that lie in a vector, and the stream
; behind them, or null with an exception set. After one has raised, none is called any more. Takes
; the references of the arguments, of which those that are null have set an exception.
define internal ptr @jc_cuda_ask(ptr %record, i64 %function, ptr %vector, i64 %count) {{
entry:
  %raised = call ptr @PyErr_Occurred()
  %well = icmp eq ptr %raised, null
  br i1 %well, label %number, label %done
number:
  %object = call ptr @stream(ptr %record)
  %last = getelementptr ptr, ptr %vector, i64 %count
  store ptr %object, ptr %last
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %call
call:
  call void @jc_cuda_leave(ptr %record)
  %functions.slot = getelementptr i8, ptr %record, i64 {functions_word}
  %functions = load ptr, ptr %functions.slot
  %slot = getelementptr ptr, ptr %functions, i64 %function
  %callable = load ptr, ptr %slot
  %all = add i64 %count, 1
  %given = call ptr @PyObject_Vectorcall(ptr %callable, ptr %vector, i64 %all, ptr null)
  call void @Py_DecRef(ptr %object)
  br label %done.called
done.called:
  call void @jc_cuda_enter(ptr %record)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ null, %number ], [ %given, %done.called ]
  br label %drop
drop:
  %place = phi i64 [ 0, %done ], [ %next, %drop ]
  %slot.of = getelementptr ptr, ptr %vector, i64 %place
  %argument = load ptr, ptr %slot.of
  call void @Py_DecRef(ptr %argument)
  %next = add i64 %place, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %drop, label %end
end:
  ret ptr %result
}}

; The same for one number.
define internal ptr @ask_number(ptr %record, i64 %function, i64 %number) {{
  %vector = alloca [2 x ptr]
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  store ptr %object, ptr %vector
  %given = call ptr @jc_cuda_ask(ptr %record, i64 %function, ptr %vector, i64 1)
  ret ptr %given
}}

define internal ptr @address(ptr %object) {{
entry:
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %read
read:
  %found = call ptr @PyLong_AsVoidPtr(ptr %object)
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %found, %read ]
  ret ptr %result
}}

define ptr @jc_cuda_direct_malloc(ptr %record, i64 %size) {{
  %object = call ptr @ask_number(ptr %record, i64 {lend}, i64 %size)
  %result = call ptr @address(ptr %object)
  ret ptr %result
}}

define ptr @jc_cuda_direct_scratch(ptr %record, i64 %size) {{
  %object = call ptr @ask_number(ptr %record, i64 {lend_scratch}, i64 %size)
  %result = call ptr @address(ptr %object)
  ret ptr %result
}}

define ptr @jc_cuda_direct_zeros(ptr %record, i64 %size) {{
  %object = call ptr @ask_number(ptr %record, i64 {lend_zeros}, i64 %size)
  %result = call ptr @address(ptr %object)
  ret ptr %result
}}

define void @jc_cuda_direct_free(ptr %record, ptr %address) {{
  %number = ptrtoint ptr %address to i64
  %object = call ptr @ask_number(ptr %record, i64 {take_back}, i64 %number)
  call void @Py_DecRef(ptr %object)
  ret void
}}

; A tuple of numbers; null with an exception set where there is no memory.
define internal ptr @tuple(i64 %count, ptr %numbers) {{
entry:
  %made = call ptr @PyTuple_New(i64 %count)
  %missing = icmp eq ptr %made, null
  %empty = icmp eq i64 %count, 0
  %ready = or i1 %missing, %empty
  br i1 %ready, label %done, label %item
item:
  %place = phi i64 [ 0, %entry ], [ %next, %stored ]
  %slot = getelementptr i64, ptr %numbers, i64 %place
  %number = load i64, ptr %slot
  %object = call ptr @PyLong_FromLongLong(i64 %number)
  %lost = icmp eq ptr %object, null
  br i1 %lost, label %failed, label %stored
stored:
  call i32 @PyTuple_SetItem(ptr %made, i64 %place, ptr %object)
  %next = add i64 %place, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %item, label %done
done:
  ret ptr %made
failed:
  call void @Py_DecRef(ptr %made)
  ret ptr null
}}

; The shadow of a new array, whose base is what Python's function gave.
define ptr @jc_cuda_direct_empty(ptr %record, i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
entry:
  %shape = alloca [{rank} x i64]
  %strides = alloca [{rank} x i64]
  %vector = alloca [5 x ptr]
{stores}
  %kind = call i64 @llvm.umin.i64(i64 %dtype, i64 {bfloat16})
  %size.slot = getelementptr i64, ptr @sizes, i64 %kind
  %itemsize = load i64, ptr %size.slot
{product}
  ; No device has as much memory as the largest number that is asked for.
  %size = call i64 @llvm.umin.i64(i64 %n{last}, i64 4611686018427387904)
  %is.single = icmp ule i64 %ndim, 1
  %is.plain = icmp eq i64 %order, 0
  %is.c = or i1 %is.single, %is.plain
  br i1 %is.c, label %ordered, label %rearranged
rearranged:
  ; The axes of Fortran's order follow on each other.
  %is.fortran = icmp eq i64 %order, 1
  %given.axes = lshr i64 %order, 8
  %axes = select i1 %is.fortran, i64 {fortran_axes}, i64 %given.axes
  br label %axis
axis:
  %step = phi i64 [ 0, %rearranged ], [ %next.step, %axis ]
  %left = phi i64 [ %axes, %rearranged ], [ %next.left, %axis ]
  %stride = phi i64 [ %itemsize, %rearranged ], [ %next.stride, %axis ]
  %number = and i64 %left, 15
  %at.stride = getelementptr i64, ptr %strides, i64 %number
  store i64 %stride, ptr %at.stride
  %at.extent = getelementptr i64, ptr %shape, i64 %number
  %extent = load i64, ptr %at.extent
  ; Without elements NumPy computes strides as if there were one.
  %positive = call i64 @llvm.smax.i64(i64 %extent, i64 1)
  %next.stride = mul i64 %stride, %positive
  %next.left = lshr i64 %left, 4
  %next.step = add i64 %step, 1
  %more = icmp slt i64 %next.step, %ndim
  br i1 %more, label %axis, label %steps
steps:
  %steps.tuple = call ptr @tuple(i64 %ndim, ptr %strides)
  br label %new
ordered:
  %none.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {none}
  %none = load ptr, ptr %none.slot
  call void @Py_IncRef(ptr %none)
  br label %new
new:
  %steps.object = phi ptr [ %steps.tuple, %steps ], [ %none, %ordered ]
  %steps.data = phi ptr [ %strides, %steps ], [ null, %ordered ]
  %descr.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 %kind
  %descr = load ptr, ptr %descr.slot
  call void @Py_IncRef(ptr %descr)
  %shape.object = call ptr @tuple(i64 %ndim, ptr %shape)
  %size.object = call ptr @PyLong_FromLongLong(i64 %size)
  %second = getelementptr ptr, ptr %vector, i64 1
  %third = getelementptr ptr, ptr %vector, i64 2
  %fourth = getelementptr ptr, ptr %vector, i64 3
  store ptr %descr, ptr %vector
  store ptr %shape.object, ptr %second
  store ptr %steps.object, ptr %third
  store ptr %size.object, ptr %fourth
  %made = call ptr @jc_cuda_ask(ptr %record, i64 {empty}, ptr %vector, i64 4)
  %failed = icmp eq ptr %made, null
  br i1 %failed, label %stop, label %taken
taken:
  %address.object = call ptr @PyTuple_GetItem(ptr %made, i64 0)
  %found = call ptr @PyLong_AsVoidPtr(ptr %address.object)
  %owner = call ptr @PyTuple_GetItem(ptr %made, i64 1)
  ; Without elements nobody reads the address, but NumPy takes 0 for a wish for memory.
  %nowhere = icmp eq ptr %found, null
  %somewhere = inttoptr i64 4096 to ptr
  %address = select i1 %nowhere, ptr %somewhere, ptr %found
  %nd = trunc i64 %ndim to i32
  %type.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {array_type}
  %type = load ptr, ptr %type.slot
  call void @Py_IncRef(ptr %descr)
  %array = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %steps.data,
    ptr %address, i32 {flags}, ptr null)
  %lost = icmp eq ptr %array, null
  br i1 %lost, label %drop, label %based
based:
  call void @Py_IncRef(ptr %owner)
  call i32 @jc_array_set_base(ptr %array, ptr %owner)
  br label %drop
drop:
  call void @Py_DecRef(ptr %made)
  ret ptr %array
stop:
  ret ptr null
}}

; What the record's function makes of an object, whose reference it takes; of null it makes null.
define ptr @jc_cuda_adopt(ptr %record, ptr %object) {{
entry:
  %vector = alloca ptr
  store ptr %object, ptr %vector
  %missing = icmp eq ptr %object, null
  br i1 %missing, label %done, label %call
call:
  %functions.slot = getelementptr i8, ptr %record, i64 {functions_word}
  %functions = load ptr, ptr %functions.slot
  %slot = getelementptr ptr, ptr %functions, i64 {adopt}
  %function = load ptr, ptr %slot
  %made = call ptr @PyObject_Vectorcall(ptr %function, ptr %vector, i64 1, ptr null)
  call void @Py_DecRef(ptr %object)
  br label %done
done:
  %result = phi ptr [ null, %entry ], [ %made, %call ]
  ret ptr %result
}}
"""


def _text() -> str:
    axes = range(MAX_RANK)
    sizes: dict[int, int] = {number: dtype.itemsize for number, dtype in _NUMPY_DTYPES.items()}
    sizes[_BFLOAT16] = 2
    products = (
        f"  %n{axis} = call i64 @llvm.umul.fix.sat.i64("
        f"i64 {f'%n{axis - 1}' if axis else '%itemsize'}, i64 %d{axis}, i32 0)"
        for axis in axes
    )
    objects = {"array_type": _ARRAY_TYPE, "true": _FALSE + 1}
    return exchange_text(_PLACES, _BFLOAT16, objects) + _TEXT.format(
        **_PLACES,
        **objects,
        bfloat16=_BFLOAT16,
        dims=", ".join(f"i64 %d{axis}" for axis in axes),
        false=_FALSE,
        flags=layout.ARRAY_ALIGNED | layout.ARRAY_WRITEABLE | layout.ARRAY_C_CONTIGUOUS,
        fortran_axes=sum(axis << 4 * axis for axis in axes),
        functions_word=_FUNCTIONS_WORD,
        last=MAX_RANK - 1,
        none=_NONE,
        object_type=layout.OBJECT_TYPE,
        objects=_FALSE + 2,
        product="\n".join(products),
        rank=MAX_RANK,
        sizes=", ".join(f"i64 {sizes.get(number, 0)}" for number in range(_FALSE + 2)),
        stream_word=STREAM_WORD,
        stores="\n".join(
            f"  %p{axis} = getelementptr i64, ptr %shape, i64 {axis}\n"
            f"  store i64 %d{axis}, ptr %p{axis}"
            for axis in axes
        ),
        tuple_items=layout.TUPLE_ITEMS,
    )


@cache
def _make() -> CompiledModule:
    """Compile what direct entries and their native functions call."""
    ensure_runtime()
    for name in (*_FUNCTIONS, *_TUPLES):
        add_symbol(name, function_address(name))
    module = compile_module(_text(), name="direct calls", effort="code")
    objects: dict[int, Any] = {
        **_NUMPY_DTYPES,
        _ARRAY_TYPE: np.ndarray,
        _NONE: None,
        _FALSE: False,
        _FALSE + 1: True,
    }
    layout.fill_table(module.address("jc_cuda_objects"), objects)
    for symbol in _SYMBOLS:
        add_symbol(symbol, module.address(symbol))
    return module


def know_bfloat16() -> None:
    """Note the dtype, once whoever has such arrays has made it known to NumPy."""
    layout.fill_table(_make().address("jc_cuda_objects"), {_BFLOAT16: bfloat16()})


def ensure_direct() -> None:
    """Make what native code calls for memory, and beside it, known to the engine."""
    ensure_memory()
    for symbol in _SYMBOLS:
        add_maker(symbol, _make)
