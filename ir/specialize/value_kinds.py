"""What a value is as one of the alternatives of a union, and what it is made of."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from jitcore.ir.dtype_names import dtype_name
from jitcore.ir.graph import Block, Value
from jitcore.ir.types import (
    BOOL,
    CHARACTER,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STR,
    LocalListType,
    ObjectListType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
    is_scalar_tensor,
    is_tracked,
)

__all__ = [
    "MAX_ALTERNATIVES",
    "OBJECT_TYPES",
    "alternatives_of",
    "converted",
    "dtype_of_number",
    "holds_object",
    "is_single",
    "kind_of_value",
    "mixed_type",
    "object_inputs",
    "parts_of",
]

MAX_ALTERNATIVES = 4
"""A loop may give an array another rank, or a tuple another element, in each iteration."""

OBJECT_TYPES = (RecordType, ObjectListType)
"""The types of inputs that only exist where compiled code has objects."""

_NUMBERS: dict[Type, tuple[type, str]] = {
    BOOL: (np.bool_, "prim::bool"),
    INT: (np.int64, "prim::int"),
    FLOAT: (np.float64, "prim::float"),
    COMPLEX: (np.complex128, "prim::complex"),
}
"""The dtypes of Python's numbers, and what makes such numbers."""


def object_inputs(types: Sequence[Type]) -> dict[int, Any]:
    """The numbers of inputs that are, or have in them, objects; the classes of such as are one."""
    return {
        number: one.class_ if isinstance(one, RecordType) else None
        for number, one in enumerate(types)
        if isinstance(one, OBJECT_TYPES)
    }


def alternatives_of(value: Value) -> list[Value]:
    """The values that a union may be; of all others the value itself."""
    if not isinstance(value.type, UnionType):
        return [value]
    assert value.node is not None and value.node.kind == "prim::UnionConstruct"
    return value.node.inputs[1:]


def kind_of_value(value: Value) -> str | None:
    """What tells a value from the other alternatives of a union; None where it can be none."""
    type_ = value.type
    if type_ == STR and value.constant is not None:
        return f"constant {value.constant_value!r}"
    if is_single(type_):
        return _kind_of_single(type_)
    if isinstance(type_, TensorType) and type_.dtype is not None and type_.dims is not None:
        rank = "" if type_.scalar else f"[{len(type_.dims)}]"
        return f"{dtype_name(type_.dtype)}{rank}"
    if isinstance(type_, TupleType) and parts_of(value) is not None:
        name = "" if type_.named is None else type_.named.__name__
        return f"tuple {name}[{len(type_.elements)}]"
    if isinstance(type_, RecordType) and type_ != CHARACTER:
        if is_tracked(type_):
            return f"object {type_.origin}"
        is_copy = type_.is_made and parts_of(value) is not None
        return f"object {type_.class_.__name__}" if is_copy else None
    return None


def holds_object(type_: Type) -> bool:
    """Whether a value of this type is, or has in it, an object; characters never change."""
    if isinstance(type_, TupleType):
        return any(map(holds_object, type_.elements))
    if isinstance(type_, UnionType):
        return any(map(holds_object, type_.alternatives))
    return isinstance(type_, RecordType) and type_ != CHARACTER


def parts_of(value: Value) -> list[Value] | None:
    """The parts of a tuple or an object, where they are at hand."""
    node = value.node
    is_known = node is not None and node.kind in ("prim::TupleConstruct", "prim::RecordState")
    return node.inputs if node is not None and is_known else None


def is_single(type_: Type) -> bool:
    """Whether this is the type of a number, or of None."""
    return is_number(type_) or type_ == NONE or is_scalar_tensor(type_)


def _kind_of_single(type_: Type) -> str:
    if isinstance(type_, TensorType) and type_.dtype is not None:
        return dtype_name(type_.dtype)
    return "constant None" if type_ == NONE else str(type_)


def mixed_type(types: Collection[Type]) -> UnionType | None:
    """The union of some types that may be elements of one list, numbers and None, in order.

    None where there are others among them; Python's complex numbers are in lists by themselves.
    """
    single = {
        one
        for type_ in types
        for one in (type_.alternatives if isinstance(type_, UnionType) else (type_,))
    }
    if len(single) > MAX_ALTERNATIVES or COMPLEX in single or not all(map(is_single, single)):
        return None
    union = UnionType(tuple(sorted(single, key=_kind_of_single)))
    return union if LocalListType(union).dtypes else None


def dtype_of_number(type_: Type) -> np.dtype[Any] | None:
    """The dtype of a number in machine code; None of what is no number.

    Alternatives of a union that have one dtype are one number there: the tag says whose it is.
    """
    if isinstance(type_, TensorType):
        return type_.dtype if type_.scalar else None
    return np.dtype(_NUMBERS[type_][0]) if type_ in _NUMBERS else None


def converted(block: Block, number: Value, type_: Type) -> Value:
    """A number as the type of the same dtype that is Python's, or NumPy's."""
    if number.type == type_:
        return number
    if isinstance(type_, TensorType):
        attributes = {"dtype": type_.dtype}
        return block.append("np::cast", [number], attributes, outputs=(type_,)).output
    return block.append(_NUMBERS[type_][1], [number], outputs=(type_,)).output
