"""Lists among a call's arguments: the types that specialization starts from, and their guards."""

from __future__ import annotations

from typing import Any

from jitcore.codegen.entries.signature import ArraysKind, ListParam, Param, RowsKind
from jitcore.ir.held_lists import HeldListType
from jitcore.ir.types import (
    ANY,
    ANY_EXTENT,
    BOOL,
    CHARACTER,
    COMPLEX,
    FLOAT,
    INT,
    ListType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["held_and_param", "list_and_param", "number_type"]

_NUMBERS: dict[str, Type] = {"int": INT, "float": FLOAT, "bool": BOOL, "complex": COMPLEX}


def list_and_param(description: tuple[Any, ...]) -> tuple[Type, Param]:
    """The type of a list that is an argument, by its description, and its guard."""
    kind, named = description[1], description[2] if len(description) > 2 else None
    if isinstance(kind, tuple) and kind[0] == "arrays":
        _, dtype, rank = kind
        return ListType(TensorType(dtype, (ANY_EXTENT,) * rank)), ListParam(ArraysKind(dtype, rank))
    if isinstance(kind, tuple) and kind[0] == "rows":
        _, depth, inner = kind
        type_: Type = ListType(_element_type(inner))
        for _ in range(depth):
            type_ = ListType(type_)
        return type_, ListParam(RowsKind(depth, inner))
    return ListType(_element_type(kind, named)), ListParam(kind, named=named)


def held_and_param(description: tuple[Any, ...]) -> tuple[Type, Param]:
    """A list that is an attribute: as a list of lists, it is not read by the entry."""
    kind = description[1]
    if kind is None:
        return HeldListType(ANY), ListParam(None)
    depth, inner = kind[1:] if isinstance(kind, tuple) and kind[0] == "rows" else (0, kind)
    type_ = _element_type(inner)
    for _ in range(depth):
        type_ = ListType(type_)
    return HeldListType(type_), ListParam(RowsKind(depth, inner))


def _element_type(kind: Any, named: Any = None) -> Type:
    """The type of the elements of a list."""
    if isinstance(kind, tuple):
        return TupleType(tuple(map(_element_type, kind)), named)
    if kind == "character":
        return CHARACTER
    return number_type(kind) if kind else ANY


def number_type(name: str) -> Type:
    """The type of numbers of the class of this name."""
    return _NUMBERS[name]
