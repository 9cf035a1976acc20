"""Questions after the class of a value: ``isinstance`` and ``type``."""

from __future__ import annotations

import abc
import types
import typing
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable
from jitcore.ir.ops.operators import known_types
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    OBJECT,
    STR,
    ListType,
    TensorType,
    TupleType,
    Type,
)

__all__ = ["isinstance_rule", "type_rule"]


def isinstance_rule(b: Builder, call: Call) -> Value:
    """``isinstance``, where the class of the value is known and decides."""
    x = call.value("x")
    classes = call.static("classes")
    if not _asks_after_class(classes):
        raise Untypable("isinstance() of something that is no class, or that decides by itself")
    if x.type == OBJECT and x.constant is not None:
        return b.constant(isinstance(x.constant.attributes["value"], classes))
    known_types(x)
    held = _python_class(x)
    if held is None:
        raise Untypable(f"isinstance() of {x.type}")
    return b.constant(issubclass(held, classes))


def _asks_after_class(classes: Any) -> bool:
    """Whether ``isinstance`` with these looks at the class of a value, and at nothing else."""
    if isinstance(classes, tuple):
        return all(map(_asks_after_class, classes))
    if typing.get_origin(classes) in (typing.Union, types.UnionType):
        return all(map(_asks_after_class, typing.get_args(classes)))
    decides = (type.__instancecheck__, abc.ABCMeta.__instancecheck__)
    return isinstance(classes, type) and type(classes).__instancecheck__ in decides


def _python_class(x: Value) -> type | None:
    if isinstance(x.type, TensorType):
        if x.type.dtype is None:
            return None
        return x.type.dtype.type if x.type.scalar else np.ndarray
    if isinstance(x.type, TupleType):
        return x.type.named or tuple
    if isinstance(x.type, ListType):
        return list
    known: dict[Type, type] = {
        INT: int,
        FLOAT: float,
        BOOL: bool,
        COMPLEX: complex,
        STR: str,
        NONE: type(None),
    }
    return known.get(x.type)


def type_rule(b: Builder, call: Call) -> Value:
    """``type`` of a value whose class is known."""
    x = call.value("x")
    if x.type == OBJECT and x.constant is not None:
        return b.constant(type(x.constant.attributes["value"]))
    held = _python_class(x)
    if held is None:
        raise Untypable(f"type() of {call.value('x').type}")
    return b.constant(held)
