"""What a value is as one of the alternatives of a union, and what it is made of."""

from __future__ import annotations

from jitcore.ir.graph import Value
from jitcore.ir.types import (
    CHARACTER,
    NONE,
    STR,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    dtype_name,
    is_number,
    is_scalar_tensor,
    is_tracked,
)

__all__ = ["alternatives_of", "holds_object", "is_single", "kind_of_value", "parts_of"]


def alternatives_of(value: Value) -> list[Value]:
    """The values that a union may be; of all others the value itself."""
    if not isinstance(value.type, UnionType):
        return [value]
    assert value.node is not None and value.node.kind == "prim::UnionConstruct"
    return value.node.inputs[1:]


def kind_of_value(value: Value) -> str | None:
    """What tells a value from the other alternatives of a union; None where it can be none."""
    type_ = value.type
    if type_ == NONE or (type_ == STR and value.constant is not None):
        return f"constant {value.constant_value!r}"
    if is_number(type_):
        return str(type_)
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
