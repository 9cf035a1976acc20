"""Arrays of libraries that tell of them in C, which direct calls read without Python: LLVM code.

Since version 1.3 of DLPack (``dlpack.h``) a type of arrays may have functions in C, in the capsule
``__dlpack_c_exchange_api__``.  One of them fills a ``DLTensor`` for an array, another one names the
stream that the library works on.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from jitcore.codegen.entries import layout
from jitcore.codegen.runtime.arrays import MAX_RANK

__all__ = ["BFLOAT", "CODES", "CUDA", "api_address", "exchange_text", "place_word"]

CUDA: Final = 2
"""``kDLCUDA``."""

CODES: Final = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""``DLDataTypeCode`` by NumPy's kind."""

BFLOAT: Final = 4
"""``kDLBfloat``."""

_MAJOR, _NAME = 1, b"dlpack_exchange_api"
_READ, _STREAM = 40, 48
"""Where a ``DLPackExchangeAPI`` has ``dltensor_from_py_object_no_sync`` and
``current_work_stream``."""

_DATA, _DEVICE, _RANK, _DTYPE, _SHAPE, _STRIDES, _OFFSET = 0, 8, 16, 20, 24, 32, 40
_TENSOR_SIZE = 48
"""Where a ``DLTensor`` has its members, and its size."""

_TEXT = """
declare void @PyErr_Clear()

; A number among what is there for a type of arrays.
define internal i64 @word(ptr %functions, i64 %place) {{
  %slot = getelementptr ptr, ptr %functions, i64 %place
  %object = load ptr, ptr %slot
  %found = call ptr @PyLong_AsVoidPtr(ptr %object)
  %number = ptrtoint ptr %found to i64
  ret i64 %number
}}

; The functions in C of a library; null where it has none.
define internal ptr @api(ptr %functions) {{
  %number = call i64 @word(ptr %functions, i64 {api})
  %result = inttoptr i64 %number to ptr
  ret ptr %result
}}

; The place of a DLPack dtype in the table of objects; -1 of those that NumPy does not have.
define internal i64 @dtype_number(i32 %dtype) {{
entry:
  switch i32 %dtype, label %unknown [
{cases}
  ]
{answers}
unknown:
  ret i64 -1
}}

; The shadow of an array as its library's functions tell; null where they do not tell all of it, or
; with an exception set.
define internal ptr @exchanged(ptr %functions, ptr %array) {{
entry:
  %vector = alloca ptr
  %tensor = alloca [{tensor_size} x i8], align 8
  %strides = alloca [{max_rank} x i64]
  store ptr %array, ptr %vector
  %suits.slot = getelementptr ptr, ptr %functions, i64 {is_plain}
  %suits = load ptr, ptr %suits.slot
  %answer = call ptr @PyObject_Vectorcall(ptr %suits, ptr %vector, i64 1, ptr null)
  %raised = icmp eq ptr %answer, null
  br i1 %raised, label %other, label %answered
answered:
  call void @Py_DecRef(ptr %answer)
  %true.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {true}
  %true = load ptr, ptr %true.slot
  %is.plain = icmp eq ptr %answer, %true
  br i1 %is.plain, label %plain, label %other
plain:
  %api = call ptr @api(ptr %functions)
  %device = call i64 @word(ptr %functions, i64 {place})
  %read.slot = getelementptr i8, ptr %api, i64 {read_tensor}
  %read = load ptr, ptr %read.slot
  %status = call i32 %read(ptr %array, ptr %tensor)
  %is.told = icmp eq i32 %status, 0
  br i1 %is.told, label %told, label %failed
told:
{members}
  %is.here = icmp eq i64 %found.device, %device
  %rank = zext i32 %found.rank to i64
  %has.rank = icmp ule i64 %rank, {max_rank}
  %number = call i64 @dtype_number(i32 %found.dtype)
  %has.number = icmp sge i64 %number, 0
  %has.strides = icmp ne ptr %steps, null
  %fits.rank = and i1 %is.here, %has.rank
  %fits.form = and i1 %has.number, %has.strides
  %fits = and i1 %fits.rank, %fits.form
  br i1 %fits, label %typed, label %other
typed:
  ; bfloat16 is not there before somebody has made it known to NumPy.
  %descr.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 %number
  %descr = load ptr, ptr %descr.slot
  %has.descr = icmp ne ptr %descr, null
  %size.slot = getelementptr i64, ptr @sizes, i64 %number
  %itemsize = load i64, ptr %size.slot
  br i1 %has.descr, label %axis, label %other
axis:
  %place = phi i64 [ 0, %typed ], [ %next, %one ]
  %elements = phi i64 [ 1, %typed ], [ %more.elements, %one ]
  %is.axis = icmp ult i64 %place, %rank
  br i1 %is.axis, label %one, label %ready
one:
  %step.slot = getelementptr i64, ptr %steps, i64 %place
  %step = load i64, ptr %step.slot
  %stride = mul i64 %step, %itemsize
  %stride.slot = getelementptr i64, ptr %strides, i64 %place
  store i64 %stride, ptr %stride.slot
  %extent.slot = getelementptr i64, ptr %shape, i64 %place
  %extent = load i64, ptr %extent.slot
  %more.elements = mul i64 %elements, %extent
  %next = add i64 %place, 1
  br label %axis
ready:
  ; Arrays without memory of their own have elements, but no address.
  %begin = getelementptr i8, ptr %data, i64 %offset
  %nowhere = icmp eq ptr %begin, null
  %some = icmp ne i64 %elements, 0
  %lacks = and i1 %nowhere, %some
  br i1 %lacks, label %other, label %make
make:
  %somewhere = inttoptr i64 4096 to ptr
  %address = select i1 %nowhere, ptr %somewhere, ptr %begin
  %type.slot = getelementptr ptr, ptr @jc_cuda_objects, i64 {array_type}
  %type = load ptr, ptr %type.slot
  call void @Py_IncRef(ptr %descr)
  %made = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %found.rank, ptr %shape, ptr %strides,
    ptr %address, i32 {flags}, ptr null)
  ret ptr %made
failed:
  call void @PyErr_Clear()
  br label %other
other:
  ret ptr null
}}

; The stream that a library works on; false where it does not say.
define internal i1 @exchanged_stream(ptr %functions, ptr %target) {{
entry:
  %api = call ptr @api(ptr %functions)
  %missing = icmp eq ptr %api, null
  br i1 %missing, label %other, label %look
look:
  %device = call i64 @word(ptr %functions, i64 {place})
  %ask.slot = getelementptr i8, ptr %api, i64 {ask_stream}
  %ask = load ptr, ptr %ask.slot
  %silent = icmp eq ptr %ask, null
  br i1 %silent, label %other, label %call
call:
  %kind = trunc i64 %device to i32
  %high = lshr i64 %device, 32
  %number = trunc i64 %high to i32
  %status = call i32 %ask(i32 %kind, i32 %number, ptr %target)
  %is.told = icmp eq i32 %status, 0
  br i1 %is.told, label %told, label %failed
told:
  ret i1 true
failed:
  call void @PyErr_Clear()
  br label %other
other:
  ret i1 false
}}
"""


def exchange_text(functions: dict[str, int], bfloat16: int, objects: dict[str, int]) -> str:
    """LLVM code of ``exchanged`` and ``exchanged_stream``.

    Parameters
    ----------
    functions : dict of str to int
        Where a library's functions have ``is_plain``, ``api`` and ``place``.
    bfloat16 : int
        The place of this dtype in the table of objects, where NumPy's have their numbers.
    objects : dict of str to int
        The places of ``array_type`` and ``true`` there.
    """
    dtypes = {np.dtype(char) for char in layout.DTYPE_CHARS}
    words: dict[int, int] = {}
    for one in dtypes:
        words[_word(CODES[one.kind], 8 * one.itemsize)] = np.dtype(one.str).num
    words[_word(BFLOAT, 16)] = bfloat16
    members = (
        ("data", "ptr", _DATA),
        ("found.device", "i64", _DEVICE),
        ("found.rank", "i32", _RANK),
        ("found.dtype", "i32", _DTYPE),
        ("shape", "ptr", _SHAPE),
        ("steps", "ptr", _STRIDES),
        ("offset", "i64", _OFFSET),
    )
    return _TEXT.format(
        **functions,
        **objects,
        answers="\n".join(f"is{number}:\n  ret i64 {number}" for number in words.values()),
        cases="\n".join(f"    i32 {word}, label %is{number}" for word, number in words.items()),
        flags=layout.ARRAY_ALIGNED | layout.ARRAY_WRITEABLE | layout.ARRAY_C_CONTIGUOUS,
        max_rank=MAX_RANK,
        members="\n".join(
            f"  %{name}.slot = getelementptr i8, ptr %tensor, i64 {place}\n"
            f"  %{name} = load {type_}, ptr %{name}.slot"
            for name, type_, place in members
        ),
        ask_stream=_STREAM,
        read_tensor=_READ,
        tensor_size=_TENSOR_SIZE,
    )


def _word(code: int, bits: int) -> int:
    """A ``DLDataType`` of one lane as a word."""
    return code | bits << 8 | 1 << 16


def place_word(device: int) -> int:
    """A ``DLDevice`` as a word."""
    return CUDA | device << 32


_api = ctypes.pythonapi
_get_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", _api)
)
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_IsValid", _api)
)


def api_address(capsule: object) -> int:
    """The address of a ``DLPackExchangeAPI``; 0 where there is none that we can use."""
    if not _is_valid(capsule, _NAME):
        return 0
    address: int = _get_pointer(capsule, _NAME)
    is_known = ctypes.c_uint32.from_address(address).value == _MAJOR
    # A library need not have this function.
    return address if is_known and ctypes.c_void_p.from_address(address + _READ).value else 0
