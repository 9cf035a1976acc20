"""Where CPython and NumPy keep what compiled code reads: the offsets of struct fields.

The structs are those of CPython (3.11 and later, 64 bit, with the GIL), in ``Include/cpython``, and
of NumPy 2, in ``numpy/ndarraytypes.h`` and ``numpy/arrayscalars.h``.  Importing this module
compares each offset with live objects and raises ``ImportError`` where one does not hold, so that a
foreign layout never becomes a wrong answer.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from types import CellType, FunctionType, MethodType
from typing import Any

import numpy as np

__all__ = [
    "ARRAY_ALIGNED",
    "ARRAY_C_CONTIGUOUS",
    "ARRAY_DATA",
    "ARRAY_DIMS",
    "ARRAY_DTYPE",
    "ARRAY_FLAGS",
    "ARRAY_F_CONTIGUOUS",
    "ARRAY_RANK",
    "ARRAY_STRIDES",
    "ARRAY_WRITEABLE",
    "CELL_CONTENTS",
    "COMPLEX_IMAG",
    "COMPLEX_REAL",
    "DICT_VERSION",
    "DTYPE_CHARS",
    "DTYPE_KIND",
    "FLOAT_VALUE",
    "INT_DIGITS",
    "INT_SIZE",
    "LIST_ITEMS",
    "LIST_SIZE",
    "METHOD_FUNCTION",
    "METHOD_SELF",
    "FUNCTION_CLOSURE",
    "FUNCTION_CODE",
    "FUNCTION_DEFAULTS",
    "FUNCTION_GLOBALS",
    "FUNCTION_KEYWORD_DEFAULTS",
    "FUNCTION_PARTS",
    "OBJECT_TYPE",
    "SCALAR_VALUE",
    "TEXT_LENGTH",
    "TUPLE_ITEMS",
    "TUPLE_SIZE",
    "dtype_numbers",
    "has_dict_versions",
    "has_signed_int_sizes",
    "fill_table",
    "scalar_alloc",
    "slot_offset",
    "verify_layout",
    "word_at",
]

OBJECT_TYPE = 8
FLOAT_VALUE = 16
COMPLEX_REAL = 16
COMPLEX_IMAG = 24
TUPLE_SIZE = 16
TUPLE_ITEMS = tuple.__basicsize__
METHOD_FUNCTION = 16
METHOD_SELF = 24
FUNCTION_GLOBALS = 16
FUNCTION_CODE = 48
FUNCTION_DEFAULTS = 56
FUNCTION_KEYWORD_DEFAULTS = 64
FUNCTION_CLOSURE = 72
FUNCTION_PARTS = {
    "__code__": FUNCTION_CODE,
    "__defaults__": FUNCTION_DEFAULTS,
    "__kwdefaults__": FUNCTION_KEYWORD_DEFAULTS,
}
LIST_SIZE = 16
LIST_ITEMS = 24
TEXT_LENGTH = 16
CELL_CONTENTS = 16
DICT_VERSION = 24
INT_SIZE = 16
INT_DIGITS = 24
SCALAR_VALUE = 16
"""Where every NumPy scalar of a number keeps its value."""
ARRAY_DATA = 16
ARRAY_RANK = 24
ARRAY_DIMS = 32
ARRAY_STRIDES = 40
ARRAY_DTYPE = 56
ARRAY_FLAGS = 64
DTYPE_KIND = 24
"""Four chars (kind, type, byteorder, unused) and the int32 type number: one 8-byte word."""

ARRAY_C_CONTIGUOUS = 0x1
ARRAY_F_CONTIGUOUS = 0x2
ARRAY_ALIGNED = 0x100
ARRAY_WRITEABLE = 0x400

DTYPE_CHARS = "?bhilqBHILQefdFD"
"""NumPy's type characters of all dtypes compiled code knows; some name the same dtype."""

_SLOT_MEMBER, _MEMBER_OFFSET = 40, 16
"""``d_member`` of ``PyMemberDescrObject``, and ``offset`` of the ``PyMemberDef`` it points to."""

_TYPE_ALLOC_SLOT = 47
"""``Py_tp_alloc`` of CPython's ``typeslots.h``."""


def fill_table(table: int, objects: dict[int, Any]) -> None:
    """Write the addresses of objects to their places in a table of native code.

    Parameters
    ----------
    table : int
        Its address.
    objects : dict of int to object
        By place; the caller keeps them alive.
    """
    for place, value in objects.items():
        ctypes.c_void_p.from_address(table + 8 * place).value = id(value)


def word_at(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _int32(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _double(address: int) -> float:
    return ctypes.c_double.from_address(address).value


def has_dict_versions() -> bool:
    """Whether every change of a dict gives it a new, unique number (CPython 3.11 to 3.13)."""
    first, second = {"key": 1.5}, {"key": 1.5}
    before = word_at(id(first) + DICT_VERSION)
    first["key"] = 2.5
    seen = {before, word_at(id(first) + DICT_VERSION), word_at(id(second) + DICT_VERSION)}
    return len(seen) == 3 and sys.version_info < (3, 14)


def has_signed_int_sizes() -> bool:
    """Whether an ``int`` is a signed count of 30-bit digits, then the digits (CPython 3.11)."""
    values = [7, -7, 0, 1 << 40]
    sizes = [ctypes.c_int64.from_address(id(value) + INT_SIZE).value for value in values]
    return sizes == [1, -1, 0, 2] and _int32(id(values[1]) + INT_DIGITS) == 7


def dtype_numbers(dtype: np.dtype[Any]) -> tuple[int, ...]:
    """All type numbers that name this dtype: two for ``int64``, which is C's long and long long."""
    numbers = {np.dtype(char).num for char in DTYPE_CHARS if np.dtype(char) == dtype}
    return tuple(sorted(numbers)) or (dtype.num,)


def slot_offset(class_: type, name: str) -> int:
    """Where the instances of a class have an attribute of its ``__slots__``."""
    member = word_at(id(class_.__dict__[name]) + _SLOT_MEMBER)
    return word_at(member + _MEMBER_OFFSET)


class _Slots:
    """A class with slots, to look at."""

    __slots__ = ("first", "second")
    first: object
    second: object


def _wrong_in_slots() -> list[str]:
    one, values = _Slots(), (object(), object())
    one.first, one.second = values
    places = [slot_offset(_Slots, name) for name in _Slots.__slots__]
    is_right = [word_at(id(one) + place) for place in places] == list(map(id, values))
    return [] if is_right else ["slots"]


def _wrong_in_arrays() -> list[str]:
    array = np.zeros((3, 5), np.float32, order="F")[:, ::2]
    at = id(array)
    dims, strides = word_at(at + ARRAY_DIMS), word_at(at + ARRAY_STRIDES)
    mask = ARRAY_C_CONTIGUOUS | ARRAY_F_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_WRITEABLE
    flags = _int32(at + ARRAY_FLAGS)
    checks = {
        "type": word_at(at + OBJECT_TYPE) == id(np.ndarray),
        "data": word_at(at + ARRAY_DATA) == array.ctypes.data,
        "nd": _int32(at + ARRAY_RANK) == 2,
        "dimensions": (word_at(dims), word_at(dims + 8)) == array.shape,
        "strides": (word_at(strides), word_at(strides + 8)) == array.strides,
        "descr": word_at(at + ARRAY_DTYPE) == id(array.dtype),
        "flags": flags == array.flags.num and flags & mask == ARRAY_ALIGNED | ARRAY_WRITEABLE,
        "descr.kind": ctypes.string_at(id(array.dtype) + DTYPE_KIND, 3) == b"ff=",
        "descr.type_num": _int32(id(array.dtype) + DTYPE_KIND + 4) == array.dtype.num,
    }
    return [f"ndarray.{name}" for name, holds in checks.items() if not holds]


def scalar_alloc(char: str) -> int:
    """The address of the function that allocates NumPy scalars of this dtype."""
    get_slot = ctypes.pythonapi.PyType_GetSlot
    get_slot.restype = ctypes.c_void_p
    get_slot.argtypes = [ctypes.py_object, ctypes.c_int]
    return int(get_slot(np.dtype(char).type, _TYPE_ALLOC_SLOT) or 0)


def _wrong_in_scalars() -> list[str]:
    wrong = []
    for char in DTYPE_CHARS:
        value = np.ones((), char)
        scalar = value[()]
        size = 16 + max(8, value.itemsize)
        if type(scalar).__basicsize__ != size or scalar_alloc(char) != scalar_alloc("d"):
            wrong.append(f"numpy.{type(scalar).__name__}")
        if ctypes.string_at(id(scalar) + SCALAR_VALUE, value.itemsize) != value.tobytes():
            wrong.append(f"numpy.{type(scalar).__name__}")
    return wrong


def _with_closure(value: Any) -> FunctionType:
    """A function with a closure and defaults of both kinds."""

    def function(one: Any = value, *, other: Any = value) -> Any:
        return value, one, other

    assert isinstance(function, FunctionType)
    return function


def _wrong_in_python() -> list[str]:
    real, number, pair, cell = 2.75, complex(1.5, -2.5), (object(), object()), CellType(object())
    function = _with_closure(pair)
    listed, method = [pair, cell], MethodType(verify_layout, pair)
    checks = {
        "float": _double(id(real) + FLOAT_VALUE) == real,
        "complex.real": _double(id(number) + COMPLEX_REAL) == number.real,
        "complex.imag": _double(id(number) + COMPLEX_IMAG) == number.imag,
        "tuple.size": word_at(id(pair) + TUPLE_SIZE) == 2,
        "tuple.items": word_at(id(pair) + TUPLE_ITEMS + 8) == id(pair[1]),
        "list.size": word_at(id(listed) + LIST_SIZE) == 2,
        "list.items": word_at(word_at(id(listed) + LIST_ITEMS) + 8) == id(cell),
        "str.length": word_at(id("\u20acuro") + TEXT_LENGTH) == 4,
        "function.globals": word_at(id(function) + FUNCTION_GLOBALS) == id(globals()),
        "function.code": word_at(id(function) + FUNCTION_CODE) == id(function.__code__),
        "function.defaults": word_at(id(function) + FUNCTION_DEFAULTS) == id(function.__defaults__),
        "function.kwdefaults": word_at(id(function) + FUNCTION_KEYWORD_DEFAULTS)
        == id(function.__kwdefaults__),
        "function.closure": word_at(id(function) + FUNCTION_CLOSURE) == id(function.__closure__),
        "method.function": word_at(id(method) + METHOD_FUNCTION) == id(verify_layout),
        "method.self": word_at(id(method) + METHOD_SELF) == id(method.__self__),
        "cell": word_at(id(cell) + CELL_CONTENTS) == id(cell.cell_contents),
    }
    return [name for name, holds in checks.items() if not holds]


def verify_layout() -> None:
    """Compare the offsets above with live objects; ``ImportError`` where the layout differs."""
    platform = f"{sys.implementation.name} {sys.version.split()[0]}, NumPy {np.__version__}"
    is_known = sys.implementation.name == "cpython" and sys.maxsize == 2**63 - 1
    if not is_known or sys.byteorder != "little" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise ImportError(
            "jitcore's native calls need CPython with the GIL on a 64-bit little-endian machine, "
            f"found {platform}"
        )
    wrong = _wrong_in_arrays() + _wrong_in_scalars() + _wrong_in_python() + _wrong_in_slots()
    if wrong:
        raise ImportError(
            f"jitcore does not know the memory layout of {', '.join(wrong)} in {platform}; "
            "use CPython 3.11 to 3.14 and NumPy 2"
        )


verify_layout()
