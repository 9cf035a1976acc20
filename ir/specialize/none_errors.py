"""Operations that surely raise because an operand is None: ``None + 1.0``, ``None[0]``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, NONE, TensorType, Type

__all__ = ["error_of_none"]

_SAMPLES: dict[Type, Any] = {INT: 1, FLOAT: 1.0, BOOL: True, COMPLEX: 1j, NONE: None}

_ATTRIBUTES = frozenset({"prim::GetAttr", "prim::CallMethod"})


def error_of_none(node: Node, inputs: Sequence[Value]) -> Exception | None:
    """What a node raises whatever its operands are, as one of them is None; None if it may not.

    An operator is asked with other numbers of the same types: these are what such errors tell of.
    """
    if inputs[0].type == NONE and node.kind in _ATTRIBUTES:
        return _error(getattr, None, node.attributes["name"])
    if inputs[0].type == NONE and node.kind == "prim::Unpack":
        return TypeError("cannot unpack non-iterable NoneType object")
    op = TABLE.get(node.kind)
    if op is None or node.keywords or NONE not in (value.type for value in inputs):
        return None
    samples = [_sample(value.type) for value in inputs]
    if None in samples:
        return None
    return _error(op.reference, *(one for (one,) in filter(None, samples)), **node.attributes)


def _sample(type_: Type) -> tuple[Any] | None:
    """A value of a type, in a tuple; None of types whose values matter."""
    if type_ in _SAMPLES:
        return (_SAMPLES[type_],)
    if isinstance(type_, TensorType) and type_.scalar and type_.dtype is not None:
        return (type_.dtype.type(1),)
    return None


def _error(function: Any, *args: Any, **attributes: Any) -> Exception | None:
    try:
        function(*args, **attributes)
    except (TypeError, AttributeError) as error:
        return error
    return None
