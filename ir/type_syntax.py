"""Reads the text form of types, as ``str`` of a type writes it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from jitcore.ir import types as t
from jitcore.ir.dtype_names import DTYPE_TEXT, dtype_by_name, parse_dtype
from jitcore.ir.scanner import Scanner
from jitcore.ir.structured import VoidType
from jitcore.ir.types import DictType, Dim, ListType, TensorType, TupleType, Type, UnionType

__all__ = ["NamedPlaceholder", "parse_type"]

_NAME = re.compile(r"[^\W\d]\w*")
_DIM = re.compile(r"[^\s,\[\]]+")
_NUMBER = re.compile(r"-?\d+")
# The last three exist only while a graph is specialized, and in its logs.
_SIMPLE: dict[str, Type] = {
    str(type_): type_
    for type_ in (
        t.INT,
        t.FLOAT,
        t.BOOL,
        t.COMPLEX,
        t.STR,
        t.NONE,
        t.ELLIPSIS,
        t.SLICE,
        t.DTYPE,
        t.OBJECT,
        *t.GENERATORS.values(),
        t.ANY,
        t.TENSOR,
        t.PrimType("Uninitialized"),
        t.PrimType("range"),
        t.PrimType("iterator"),
    )
}


class NamedPlaceholder:
    """Stands for the class of a NamedTuple of which the text gives only the name."""

    __slots__ = ("__name__",)

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedPlaceholder) and other.__name__ == self.__name__

    def __hash__(self) -> int:
        return hash(self.__name__)


def parse_type(scanner: Scanner) -> Type:
    """Read one type; a ``ParseError`` where none stands."""
    scanner.skip()
    start = scanner.position
    name = scanner.require(_NAME, "a type")[0]
    if name in _SIMPLE:
        return _SIMPLE[name]
    if name == "Record":
        (array,) = _parse_arguments(scanner, 1)
        if not isinstance(array, TensorType) or array.dtype is None:
            scanner.fail("the type of a structured array", start)
        return VoidType(array.dtype)
    if name == "Array":
        return _parse_dims(scanner, _parse_dtype(scanner))
    dtype = dtype_by_name(name)
    if dtype is not None:
        return _parse_dims(scanner, dtype)
    if name == "Tuple":
        scanner.expect("[")
        return TupleType(_parse_elements(scanner, "]"))
    if name == "Union":
        scanner.expect("[")
        return UnionType(_parse_elements(scanner, "]"))
    if name == "List":
        (element,) = _parse_arguments(scanner, 1)
        return ListType(element)
    if name == "Dict":
        key, value = _parse_arguments(scanner, 2)
        return DictType(key, value)
    if scanner.accept("("):
        return TupleType(_parse_elements(scanner, ")"), NamedPlaceholder(name))
    scanner.fail("a type", start)


def _parse_dtype(scanner: Scanner) -> np.dtype[Any]:
    scanner.skip()
    start = scanner.position
    text = scanner.require(DTYPE_TEXT, "a dtype such as '<>f4>'")[1]
    try:
        return parse_dtype(text)
    except TypeError:
        scanner.fail("a dtype that NumPy knows", start)


def _parse_dims(scanner: Scanner, dtype: np.dtype[Any]) -> TensorType:
    if not scanner.accept("["):
        return TensorType(dtype, (), True)
    dims: list[Dim] = []
    if scanner.accept("*"):
        scanner.expect("]")
        return TensorType(dtype)
    while not scanner.accept("]"):
        text = scanner.require(_DIM, "a dim or ']'")[0]
        dims.append(int(text) if _NUMBER.fullmatch(text) else text)
        if not scanner.accept(","):
            scanner.expect("]")
            break
    return TensorType(dtype, tuple(dims))


def _parse_elements(scanner: Scanner, closing: str) -> tuple[Type, ...]:
    elements: list[Type] = []
    while not scanner.accept(closing):
        elements.append(parse_type(scanner))
        if not scanner.accept(","):
            scanner.expect(closing)
            break
    return tuple(elements)


def _parse_arguments(scanner: Scanner, count: int) -> tuple[Type, ...]:
    scanner.skip()
    start = scanner.position
    scanner.expect("[")
    elements = _parse_elements(scanner, "]")
    if len(elements) != count:
        scanner.fail(f"{count} element type{'s' if count > 1 else ''} in brackets", start)
    return elements
