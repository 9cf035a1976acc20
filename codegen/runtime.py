"""The C functions and the allocation that native code calls.

CPython's functions are known to the engine under their own names, ours begin with ``jc_``:

============================== =====================================================================
``jc_empty``                   a new array from (dtype number, order, ndim, d0 … d7); null and no
                               exception where there is no memory; see ``order_number``
``jc_decref``                  drops a reference, null is fine
``jc_empty_nogil``             the two for code that runs without the GIL
``jc_decref_nogil``
``jc_tuple``                   a tuple from (count, items); steals the items, drops them on failure
``jc_named_tuple``             the same for a class: (class, count, items)
``jc_scalar``                  a NumPy scalar from its type and the bits of its value
``jc_complex128``              the same from the bits of both parts
``jc_error``                   calls an error handler
``jc_float_errors_matter``     whether ``np.errstate`` asks for more than warnings
============================== =====================================================================
"""

from __future__ import annotations

import contextvars
import ctypes
import importlib
import threading
from typing import Any

import numpy as np

from jitcore.codegen.engine import CompiledModule, add_symbol, compile_module
from jitcore.codegen.layout import (
    DTYPE_CHARS,
    SCALAR_VALUE,
    TUPLE_ITEMS,
    scalar_alloc,
    word_at,
)
from jitcore.codegen.temporaries import make_temporaries

__all__ = ["MAX_RANK", "ensure_runtime", "fill_table", "function_address"]

MAX_RANK = 8
"""The number of axes ``jc_empty`` has parameters for."""

_multiarray: Any = importlib.import_module("numpy._core._multiarray_umath")

_PYTHON_FUNCTIONS = (
    "PyCapsule_GetPointer",
    "PyComplex_FromDoubles",
    "PyContextVar_Get",
    "PyDict_GetItem",
    "PyErr_Clear",
    "PyErr_NoMemory",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyFloat_FromDouble",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyLong_FromVoidPtr",
    "PyObject_RichCompareBool",
    "PyObject_Vectorcall",
    "PyTuple_New",
    "Py_DecRef",
    "Py_IncRef",
)

_ARRAY_EMPTY = 184
_ARRAY_NEW = 94
"""The places of ``PyArray_Empty`` and ``PyArray_NewFromDescr`` in NumPy's C-API table."""

_ALLOCATION = """
@jc_objects_table = internal global [{objects} x ptr] zeroinitializer
declare ptr @jc_array_empty(i32, ptr, ptr, i32)
declare ptr @jc_array_new(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
declare i32 @PyGILState_Ensure()
declare void @PyGILState_Release(i32)

define ptr @jc_objects() {{
  ret ptr @jc_objects_table
}}

define ptr @jc_empty(i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
entry:
  %shape = alloca [{rank} x i64]
  %strides = alloca [{rank} x i64]
{stores}
  %slot = getelementptr ptr, ptr @jc_objects_table, i64 %dtype
  %descr = load ptr, ptr %slot
  call void @Py_IncRef(ptr %descr)
  %nd = trunc i64 %ndim to i32
  %plain = icmp ule i64 %order, 1
  br i1 %plain, label %empty, label %rearranged
empty:
  %fortran = trunc i64 %order to i32
  %ordered = call ptr @jc_array_empty(i32 %nd, ptr %shape, ptr %descr, i32 %fortran)
  br label %made
rearranged:
  %itemsize = and i64 %order, 255
  %axes = lshr i64 %order, 8
  br label %axis
axis:
  %place = phi i64 [ 0, %rearranged ], [ %next.place, %axis ]
  %left = phi i64 [ %axes, %rearranged ], [ %next.left, %axis ]
  %stride = phi i64 [ %itemsize, %rearranged ], [ %next.stride, %axis ]
  %number = and i64 %left, 15
  %at.stride = getelementptr i64, ptr %strides, i64 %number
  store i64 %stride, ptr %at.stride
  %at.extent = getelementptr i64, ptr %shape, i64 %number
  %extent = load i64, ptr %at.extent
  %next.stride = mul i64 %stride, %extent
  %next.left = lshr i64 %left, 4
  %next.place = add i64 %place, 1
  %more = icmp slt i64 %next.place, %ndim
  br i1 %more, label %axis, label %new
new:
  %type.slot = getelementptr ptr, ptr @jc_objects_table, i64 {array_type}
  %type = load ptr, ptr %type.slot
  %strided = call ptr @jc_array_new(ptr %type, ptr %descr, i32 %nd, ptr %shape, ptr %strides,
    ptr null, i32 0, ptr null)
  br label %made
made:
  %array = phi ptr [ %ordered, %empty ], [ %strided, %new ]
  %failed = icmp eq ptr %array, null
  br i1 %failed, label %failure, label %success
failure:
  call void @PyErr_Clear()
  ret ptr null
success:
  ret ptr %array
}}

define ptr @jc_empty_nogil(i64 %dtype, i64 %order, i64 %ndim, {dims}) {{
  %state = call i32 @PyGILState_Ensure()
  %array = call ptr @jc_empty(i64 %dtype, i64 %order, i64 %ndim, {dims})
  call void @PyGILState_Release(i32 %state)
  ret ptr %array
}}

define void @jc_decref_nogil(ptr %object) {{
  %state = call i32 @PyGILState_Ensure()
  call void @Py_DecRef(ptr %object)
  call void @PyGILState_Release(i32 %state)
  ret void
}}
"""

_TUPLES = """
declare ptr @PyTuple_New(i64)
declare ptr @PyErr_NoMemory()

; The items are stolen.  One of them may be null, with an exception set: then so is the result.
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

_ERRORS = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromVoidPtr(ptr)

; handler(status, address of the payload, *args)
define ptr @jc_error(ptr %handler, i64 %status, ptr %payload, ptr %args, i64 %nargs) {
entry:
  %count = add i64 %nargs, 2
  %vector = alloca ptr, i64 %count
  %status.object = call ptr @PyLong_FromLongLong(i64 %status)
  %address = call ptr @PyLong_FromVoidPtr(ptr %payload)
  %no.status = icmp eq ptr %status.object, null
  %no.address = icmp eq ptr %address, null
  %failed = or i1 %no.status, %no.address
  br i1 %failed, label %drop, label %make
make:
  store ptr %status.object, ptr %vector
  %second = getelementptr ptr, ptr %vector, i64 1
  store ptr %address, ptr %second
  %rest = getelementptr ptr, ptr %vector, i64 2
  %bytes = mul i64 %nargs, 8
  call void @llvm.memcpy.p0.p0.i64(ptr %rest, ptr %args, i64 %bytes, i1 false)
  %made = call ptr @PyObject_Vectorcall(ptr %handler, ptr %vector, i64 %count, ptr null)
  br label %drop
drop:
  %result = phi ptr [ null, %entry ], [ %made, %make ]
  call void @Py_DecRef(ptr %status.object)
  call void @Py_DecRef(ptr %address)
  ret ptr %result
}
"""

_FLOAT_ERRORS = """
@capsule_name = private constant [19 x i8] c"numpy.ufunc.extobj\\00"
declare i32 @PyContextVar_Get(ptr, ptr, ptr)
declare ptr @PyCapsule_GetPointer(ptr, ptr)

; Whether np.errstate or np.seterr asks for more than a warning: raise, call, print or log.
define i1 @jc_float_errors_matter() {
entry:
  %found = alloca ptr
  store ptr null, ptr %found
  %variable.slot = getelementptr ptr, ptr @jc_objects_table, i64 ERROR_STATE
  %variable = load ptr, ptr %variable.slot
  %default.slot = getelementptr ptr, ptr %variable.slot, i64 1
  %default = load ptr, ptr %default.slot
  %failed = call i32 @PyContextVar_Get(ptr %variable, ptr null, ptr %found)
  %state = load ptr, ptr %found
  call void @Py_DecRef(ptr %state)
  %is.default = icmp eq ptr %state, %default
  br i1 %is.default, label %quiet, label %look
quiet:
  ret i1 false
look:
  %none = icmp eq ptr %state, null
  br i1 %none, label %unknown, label %read
unknown:
  call void @PyErr_Clear()
  ret i1 true
read:
  %fields = call ptr @PyCapsule_GetPointer(ptr %state, ptr @capsule_name)
  %missing = icmp eq ptr %fields, null
  br i1 %missing, label %unknown, label %decode
decode:
  %modes = load i32, ptr %fields
  %high = and i32 %modes, 3510
  %matter = icmp ne i32 %high, 0
  ret i1 %matter
}
"""

_SCALARS = """
declare ptr @jcscalar_alloc(ptr, i64)

; A NumPy scalar of this type whose value is the first bytes of %bits.
define ptr @jc_scalar(ptr %type, i64 %bits) {
  %scalar = call ptr @jcscalar_alloc(ptr %type, i64 0)
  %failed = icmp eq ptr %scalar, null
  br i1 %failed, label %done, label %fill
fill:
  %value = getelementptr i8, ptr %scalar, i64 SCALAR_VALUE
  store i64 %bits, ptr %value
  br label %done
done:
  ret ptr %scalar
}

define ptr @jc_complex128(ptr %type, i64 %real, i64 %imag) {
  %scalar = call ptr @jcscalar_alloc(ptr %type, i64 0)
  %failed = icmp eq ptr %scalar, null
  br i1 %failed, label %done, label %fill
fill:
  %value = getelementptr i8, ptr %scalar, i64 SCALAR_VALUE
  store i64 %real, ptr %value
  %second = getelementptr i64, ptr %value, i64 1
  store i64 %imag, ptr %second
  br label %done
done:
  ret ptr %scalar
}
"""

_RUNTIME_SYMBOLS = (
    "jc_complex128",
    "jc_decref_nogil",
    "jc_empty",
    "jc_empty_nogil",
    "jc_error",
    "jc_float_errors_matter",
    "jc_named_tuple",
    "jc_scalar",
    "jc_tuple",
)

_ERROR_STATE = 32
"""Behind the dtypes by their numbers: NumPy's context variable and its default value."""

_ARRAY_TYPE = _ERROR_STATE + 2
"""And the type ``ndarray``."""


def function_address(name: str) -> int:
    """The address of a function of CPython's C-API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _array_function(number: int) -> int:
    """The address of a function of NumPy's C-API."""
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return word_at(get_pointer(_multiarray._ARRAY_API, None) + 8 * number)


def _add_python_symbols() -> None:
    for name in _PYTHON_FUNCTIONS:
        add_symbol(name, function_address(name))
    add_symbol("jc_decref", function_address("Py_DecRef"))
    add_symbol("jc_incref", function_address("Py_IncRef"))
    add_symbol("jc_array_empty", _array_function(_ARRAY_EMPTY))
    add_symbol("jc_array_new", _array_function(_ARRAY_NEW))
    add_symbol("jcscalar_alloc", scalar_alloc("d"))


def _runtime_text() -> str:
    dims = ", ".join(f"i64 %d{axis}" for axis in range(MAX_RANK))
    stores = "\n".join(
        f"  %p{axis} = getelementptr i64, ptr %shape, i64 {axis}\n"
        f"  store i64 %d{axis}, ptr %p{axis}"
        for axis in range(MAX_RANK)
    )
    text = _ALLOCATION.format(
        dims=dims,
        stores=stores,
        rank=MAX_RANK,
        objects=_ARRAY_TYPE + 1,
        array_type=_ARRAY_TYPE,
    )
    text += _TUPLES + _ERRORS + _FLOAT_ERRORS + _SCALARS
    numbers = {
        "TUPLE_ITEMS": TUPLE_ITEMS,
        "SCALAR_VALUE": SCALAR_VALUE,
        "ERROR_STATE": _ERROR_STATE,
    }
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    return text


def fill_table(accessor: int, objects: dict[int, Any]) -> None:
    """Write the addresses of objects to their places in a table of native code.

    Parameters
    ----------
    accessor : int
        The address of a native function without parameters that returns the table's address.
    objects : dict of int to object
        By place; the caller keeps them alive.
    """
    table = ctypes.CFUNCTYPE(ctypes.c_void_p)(accessor)() or 0
    for place, value in objects.items():
        ctypes.c_void_p.from_address(table + 8 * place).value = id(value)


class _Runtime:
    """The compiled runtime, and the Python objects its table points to."""

    def __init__(self) -> None:
        _add_python_symbols()
        self.module: CompiledModule = compile_module(_runtime_text(), name="runtime")
        self.temporaries = make_temporaries()
        dtypes = [np.dtype(char) for char in DTYPE_CHARS]
        self.objects: dict[int, Any] = {dtype.num: dtype for dtype in dtypes}
        variable = _multiarray._extobj_contextvar
        self.objects[_ERROR_STATE] = variable
        self.objects[_ERROR_STATE + 1] = contextvars.Context().run(variable.get)
        self.objects[_ARRAY_TYPE] = np.ndarray
        fill_table(self.module.address("jc_objects"), self.objects)
        for name in _RUNTIME_SYMBOLS:
            add_symbol(name, self.module.address(name))


_lock = threading.Lock()
_runtime: _Runtime | None = None


def ensure_runtime() -> None:
    """Compile the runtime and make its symbols known to the engine; only the first call works."""
    global _runtime
    with _lock:
        if _runtime is None:
            _runtime = _Runtime()
