"""The C functions that native code calls.

CPython's functions are known to the engine under their own names, ours begin with ``jc_``:

============================== =====================================================================
``jc_empty`` and the like      arrays, see ``runtime.arrays``
``jc_tuple`` and the like      what results are put into, see ``runtime.objects``
``jc_scalar``                  a NumPy scalar from its type and the bits of its value
``jc_complex128``              the same from the bits of both parts
``jc_error``                   calls an error handler, or the plain function
``jc_note_call``               keeps the receiver of the entry that was called last
``jc_float_errors_matter``     whether ``np.errstate`` asks for more than warnings
``jc_read_ints`` and the like  lists, see ``runtime.lists``
============================== =====================================================================
"""

from __future__ import annotations

import contextvars
import ctypes
import importlib
from functools import cache
from typing import Any

from jitcore.codegen.engine import (
    CompiledModule,
    Source,
    add_symbol,
    compile_source,
    compiler_lock,
    foresee,
)
from jitcore.codegen.entries.layout import (
    OBJECT_TYPE,
    SCALAR_VALUE,
    TUPLE_ITEMS,
    fill_table,
    scalar_alloc,
    word_at,
)
from jitcore.codegen.runtime.arrays import add_array_functions, array_functions
from jitcore.codegen.runtime.lists import add_list_functions
from jitcore.codegen.runtime.object_lists import add_object_list_functions
from jitcore.codegen.runtime.objects import add_object_functions
from jitcore.codegen.runtime.programs import add_program_functions
from jitcore.codegen.runtime.references import add_reference_functions
from jitcore.codegen.runtime.shared_lists import add_shared_list_functions

__all__ = [
    "ensure_runtime",
    "foresee_runtime",
    "forget_native_call",
    "function_address",
    "last_native_call",
    "memory_in_use",
    "most_memory_in_use",
]

_multiarray: Any = importlib.import_module("numpy._core._multiarray_umath")

_PYTHON_FUNCTIONS = (
    "PyBool_FromLong",
    "PyCapsule_GetPointer",
    "PyComplex_FromDoubles",
    "PyContextVar_Get",
    "PyDict_GetItem",
    "PyDict_Size",
    "PyErr_Clear",
    "PyErr_Fetch",
    "PyErr_NoMemory",
    "PyErr_NormalizeException",
    "PyErr_Restore",
    "PyErr_SetInterrupt",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyException_GetTraceback",
    "PyException_SetTraceback",
    "PyFloat_FromDouble",
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyList_Append",
    "PyList_New",
    "PyList_SetItem",
    "PyList_SetSlice",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyLong_FromVoidPtr",
    "PyObject_GenericSetAttr",
    "PyObject_GetAttr",
    "PyObject_IsTrue",
    "PyObject_RichCompareBool",
    "PyObject_SetAttrString",
    "PyObject_Vectorcall",
    "PyObject_VectorcallMethod",
    "PyTuple_New",
    "Py_DecRef",
    "Py_IncRef",
)

_ARRAY_EMPTY = 184
_ARRAY_NEW = 94
_SET_BASE = 282
_SET_HANDLER = 304
"""The places of ``PyArray_Empty``, ``PyArray_NewFromDescr``, ``PyArray_SetBaseObject`` and
``PyDataMem_SetHandler`` in NumPy's C-API table."""

_DECLARATIONS = """
@jc_objects = dso_local global [3 x ptr] zeroinitializer
declare void @Py_DecRef(ptr)
declare void @PyErr_Clear()
"""

_ERRORS = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyLong_FromVoidPtr(ptr)

; handler(status, address of the payload, *args), or handler[0](*args) of a tuple
define ptr @jc_error(ptr %handler, i64 %status, ptr %payload, ptr %args, i64 %nargs) {
entry:
  %tuple.slot = getelementptr ptr, ptr @jc_objects, i64 2
  %tuple = load ptr, ptr %tuple.slot
  %tuple.type.slot = getelementptr i8, ptr %tuple, i64 OBJECT_TYPE
  %tuple.type = load ptr, ptr %tuple.type.slot
  %type.slot = getelementptr i8, ptr %handler, i64 OBJECT_TYPE
  %type = load ptr, ptr %type.slot
  %is.tuple = icmp eq ptr %type, %tuple.type
  br i1 %is.tuple, label %begin.anew, label %tell
begin.anew:
  %items = getelementptr i8, ptr %handler, i64 TUPLE_ITEMS
  %function = load ptr, ptr %items
  %own = call ptr @PyObject_Vectorcall(ptr %function, ptr %args, i64 %nargs, ptr null)
  ret ptr %own
tell:
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
  %result = phi ptr [ null, %tell ], [ %made, %make ]
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
  %variable.slot = getelementptr ptr, ptr @jc_objects, i64 0
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

_CALLS = """
@last_call = internal global ptr null

define void @jc_note_call(ptr %receiver) {
  store atomic ptr %receiver, ptr @last_call monotonic, align 8
  ret void
}

define ptr @jc_last_call_place() {
  ret ptr @last_call
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
    "jc_error",
    "jc_float_errors_matter",
    "jc_note_call",
    "jc_scalar",
)


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
    add_symbol("jc_array_empty", _array_function(_ARRAY_EMPTY))
    add_symbol("jc_array_new", _array_function(_ARRAY_NEW))
    add_symbol("jc_array_set_base", _array_function(_SET_BASE))
    add_symbol("jc_array_handler", _array_function(_SET_HANDLER))
    add_symbol("jcscalar_alloc", scalar_alloc("d"))


@cache
def _source() -> Source:
    text = _DECLARATIONS + _ERRORS + _FLOAT_ERRORS + _CALLS + _SCALARS
    places = {"SCALAR_VALUE": SCALAR_VALUE, "TUPLE_ITEMS": TUPLE_ITEMS, "OBJECT_TYPE": OBJECT_TYPE}
    for name, place in places.items():
        text = text.replace(name, str(place))
    return Source(text, "none")


class _Runtime:
    """The compiled runtime, and the Python objects its table points to."""

    def __init__(self) -> None:
        _add_python_symbols()
        self.module: CompiledModule = compile_source(_source(), "runtime")
        variable = _multiarray._extobj_contextvar
        default = contextvars.Context().run(variable.get)
        self.objects: dict[int, Any] = {0: variable, 1: default, 2: ()}
        fill_table(self.module.address("jc_objects"), self.objects)
        for name in _RUNTIME_SYMBOLS:
            add_symbol(name, self.module.address(name))
        add_array_functions()
        add_list_functions()
        add_object_functions()
        add_object_list_functions()
        add_program_functions()
        add_reference_functions()
        add_shared_list_functions()
        place = ctypes.CFUNCTYPE(ctypes.c_void_p)(self.module.address("jc_last_call_place"))()
        self.last_call = ctypes.c_void_p.from_address(place or 0)


_runtime: _Runtime | None = None


def foresee_runtime() -> None:
    """Have the runtime compiled while Python does other things that come before its first use."""
    if _runtime is None:
        with compiler_lock():
            # Another thread may have made it by now.
            if _runtime is None:
                foresee(_source(), "runtime")


def ensure_runtime() -> None:
    """Compile the runtime and make its symbols known to the engine; only the first call works."""
    global _runtime
    if _runtime is None:
        with compiler_lock():
            if _runtime is None:
                _runtime = _Runtime()


def memory_in_use() -> int:
    """The bytes of large temporaries and results that native code has taken and not given back."""
    return _ask("jc_memory_in_use")


def most_memory_in_use() -> int:
    """The most that this was at any time since it was asked for last."""
    return _ask("jc_most_memory_in_use")


def _ask(name: str) -> int:
    ensure_runtime()
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(array_functions().address(name))())


def last_native_call() -> int:
    """The identity of the receiver of the entry that was called last; 0 before any call."""
    return 0 if _runtime is None else _runtime.last_call.value or 0


def forget_native_call() -> None:
    """Have `last_native_call` give 0 until the next one."""
    if _runtime is not None:
        _runtime.last_call.value = None
