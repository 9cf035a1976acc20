"""What a call's arguments are, as far as compiled code depends on it.

``describe`` gives a hashable description of a value; ``type_and_param`` turns it into the type that
specialization starts from and the guard that the compiled entry checks, either for exactly this
shape (``STATIC``) or for all shapes with the same extents of 1 (``DYNAMIC``).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from jitcore.codegen.entries.array_orders import axis_order
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ConstantParam,
    Layout,
    ListParam,
    Param,
    ScalarParam,
    TupleParam,
)
from jitcore.frontend.constants import final_graph, wrapped_function
from jitcore.ir.types import (
    ANY,
    BOOL,
    CHARACTER,
    COMPLEX,
    FLOAT,
    INT,
    Dim,
    ListType,
    TensorType,
    TupleType,
    Type,
    is_named_tuple,
    type_of_constant,
)

__all__ = [
    "Description",
    "describe",
    "describe_all",
    "describe_constant",
    "describe_text",
    "describe_unknown",
    "structure",
    "type_and_param",
]

Description = tuple[Any, ...]

MAX_RANK = 8
"""Arrays of higher rank are left to NumPy."""

_NUMBERS: dict[type, tuple[Type, str, Any]] = {
    int: (INT, "int", np.dtype(np.int64)),
    float: (FLOAT, "float", np.dtype(np.float64)),
    bool: (BOOL, "bool", np.dtype(bool)),
    complex: (COMPLEX, "complex", np.dtype(np.complex128)),
}
_DEFINITIONS = (FunctionType, BuiltinFunctionType, type, ModuleType, np.ufunc, Enum)
"""What a program is compiled for: objects whose identity is all that matters.  Other callable
objects have contents, which may change."""

_CONTAINERS = frozenset({dict, set, frozenset, bytes, bytearray})
"""Whose contents are Python's."""

_ARRAY_DTYPES = {np.dtype(one): np.dtype(np.dtype(one).str) for one in "?bhilqBHILQfdFD"}
"""The dtypes that loops work on, with the one that stands for all of the same numbers."""

_IN_LISTS = frozenset({int, float, bool})
"""The numbers that lists may have."""

_NATIVE_KINDS = frozenset("biufc")
_FOREIGN: Description = ("any",)


def describe(value: Any) -> Description:
    """A hashable description of one argument."""
    kind = type(value)
    if kind is np.ndarray:
        return _describe_array(value)
    if kind in _NUMBERS:
        if kind is int and not -(2**63) <= value < 2**63:
            return _FOREIGN
        return (kind.__name__,)
    if kind in _CONTAINERS:
        return _FOREIGN
    if isinstance(value, np.generic):
        return ("numpy", value.dtype) if _is_native(value.dtype) else _FOREIGN
    if kind is list:
        return _describe_list(value)
    if value is None or kind is str or isinstance(value, np.dtype):
        return ("constant", kind, value)
    if isinstance(value, _DEFINITIONS) or _is_compiled(value):
        return ("constant", kind, _Identity(value))
    if kind is tuple:
        return ("tuple", None, *map(_describe_item, value))
    if is_named_tuple(kind):
        return ("tuple", kind, *map(_describe_item, value))
    return _FOREIGN


def _describe_item(value: Any) -> Description:
    """An item of a tuple: lists in there stay Python's."""
    return _FOREIGN if type(value) is list else describe(value)


def _describe_list(value: list[Any]) -> Description:
    """A list by its first element: whether all others are like it, the entry sees."""
    if not value:
        return ("list", None)
    kind = _kind_in_list(value[0])
    return _FOREIGN if kind is None else ("list", kind)


def _kind_in_list(element: Any) -> str | tuple[str, ...] | None:
    """The kind of an element that compiled code takes: of a number, or of those in a tuple."""
    kind = type(element)
    if kind is tuple and 0 < len(element) <= MAX_RANK:
        kinds = {type(part) for part in element}
        return tuple(type(part).__name__ for part in element) if kinds <= _IN_LISTS else None
    return kind.__name__ if kind in _IN_LISTS else None


def describe_text() -> Description:
    """The description of a text that the program reads character by character."""
    return ("list", "character")


def _is_compiled(value: object) -> bool:
    return wrapped_function(value) is not None or final_graph(value) is not None


@dataclass(frozen=True, slots=True, eq=False)
class _Identity:
    """An object that equals nothing but itself, whatever its class says about equality."""

    value: Any

    def __repr__(self) -> str:
        return repr(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _is_native(dtype: np.dtype[Any]) -> bool:
    return dtype.kind in _NATIVE_KINDS and dtype.isnative and dtype.char not in "gGe"


def _describe_array(array: np.ndarray[Any, Any]) -> Description:
    flags, dtype = array.flags, _ARRAY_DTYPES.get(array.dtype)
    if dtype is None or array.ndim > MAX_RANK or not flags.aligned:
        return _FOREIGN
    layout: Layout = "strided"
    if flags.c_contiguous:
        layout = "C"
    elif flags.f_contiguous:
        layout = "F"
    elif any(stride % array.itemsize for stride in array.strides):
        return _FOREIGN
    elif array.ndim > 1:
        layout = axis_order(array.shape, array.strides)
    return ("array", dtype, array.shape, layout)


def describe_unknown() -> Description:
    """The description of an argument about which nothing is assumed."""
    return _FOREIGN


def describe_constant(value: Any) -> Description:
    """The description of an argument that the program must know when it is compiled."""
    if type(value) in (int, bool):
        return ("constant", type(value), value)
    if type(value) is tuple:
        return ("tuple", None, *(describe_constant(item) for item in value))
    return describe(value)


def describe_all(values: tuple[Any, ...], constants: frozenset[int]) -> tuple[Description, ...]:
    """The descriptions of all arguments; those numbered in ``constants`` by their values."""
    return tuple(
        describe_constant(value) if number in constants else describe(value)
        for number, value in enumerate(values)
    )


def structure(description: Description) -> Description:
    """The part of a description that has nothing to do with arrays' dtypes and shapes."""
    if description[0] == "array":
        return ("array",)
    if description[0] == "tuple":
        return (*description[:2], *(structure(item) for item in description[2:]))
    return description


def constant_of(param: Param | None) -> tuple[bool, Any]:
    """Whether a parameter is known at compile time, and its value."""
    if isinstance(param, ConstantParam):
        return True, param.value
    if isinstance(param, TupleParam) and param.elements:
        parts = [constant_of(element) for element in param.elements]
        return all(known for known, _ in parts), tuple(value for _, value in parts)
    return False, None


def type_and_param(
    description: Description, name: str, *, dynamic: bool
) -> tuple[Type, Param | None]:
    """The type of an argument and the guard for it (None: it has none, nothing is native)."""
    kind = description[0]
    if kind == "array":
        return _array(description, name, dynamic)
    if kind == "numpy":
        return TensorType(description[1], (), True), ScalarParam("numpy", description[1])
    if kind == "constant":
        held = description[2].value if isinstance(description[2], _Identity) else description[2]
        return type_of_constant(held), ConstantParam(held)
    if kind == "tuple":
        return _tuple(description, name, dynamic)
    if kind == "list":
        return _list(description)
    if kind == "any":
        return ANY, None
    type_, python_name, dtype = next(row for row in _NUMBERS.values() if row[1] == kind)
    return type_, ScalarParam(python_name, dtype)  # type: ignore[arg-type]


def _array(description: Description, name: str, dynamic: bool) -> tuple[Type, Param]:
    _, dtype, shape, layout = description
    if not dynamic:
        return TensorType(dtype, shape), ArrayParam(dtype, shape, layout)
    dims: tuple[Dim, ...] = tuple(
        1 if extent == 1 else f"{name}{axis}" for axis, extent in enumerate(shape)
    )
    guard = tuple(dim if isinstance(dim, int) else None for dim in dims)
    return TensorType(dtype, dims), ArrayParam(dtype, guard, layout)


def _list(description: Description) -> tuple[Type, Param]:
    kind = description[1]
    if isinstance(kind, tuple):
        element: Type = TupleType(tuple(map(_number_type, kind)))
    elif kind == "character":
        element = CHARACTER
    else:
        element = _number_type(kind) if kind else ANY
    return ListType(element), ListParam(kind)


def _number_type(name: str) -> Type:
    return next(type_ for type_, python_name, _ in _NUMBERS.values() if python_name == name)


def _tuple(description: Description, name: str, dynamic: bool) -> tuple[Type, Param | None]:
    items = [
        type_and_param(item, f"{name}.{number}.", dynamic=dynamic)
        for number, item in enumerate(description[2:])
    ]
    params = [param for _, param in items if param is not None]
    type_ = TupleType(tuple(one for one, _ in items), description[1])
    if len(params) < len(items):
        return type_, None
    return type_, TupleParam(tuple(params), description[1])
