"""Attributes and methods of arrays and tuples."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Value
from jitcore.ir.ops.op import (
    Builder,
    Call,
    Op,
    Untypable,
    bind,
    parse_parameters,
)
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    TensorType,
    TupleType,
    is_number,
    type_of_constant,
)

__all__ = ["OPS"]


def _getattr_rule(b: Builder, call: Call) -> Value:
    x, name = call.value("x"), call.static("name")
    if isinstance(x.type, TensorType):
        return _array_attribute(b, x, name)
    if isinstance(x.type, TupleType) and x.type.named:
        return _named_tuple_attribute(b, x, x.type.named, name)
    if is_number(x.type) and name in ("real", "imag"):
        return _part_of_number(b, x, name)
    if x.constant is not None and not _has_state(x.constant.attributes["value"]):
        held = x.constant.attributes["value"]
        if hasattr(held, name):
            found = getattr(held, name)
            return b.constant(found, type_of_constant(found))
    raise Untypable(f"attribute {name!r} of {x.type}")


def _part_of_number(b: Builder, x: Value, name: str) -> Value:
    """The real or the imaginary part of one of Python's numbers."""
    if x.type == COMPLEX:
        scalar = b.op("np::cast", x, dtype=np.dtype(np.complex128))
        return b.op("prim::float", b.op(f"np::{name}", scalar))
    if name == "imag":
        return b.constant(0.0 if x.type == FLOAT else 0)
    return b.op("prim::int", x) if x.type == BOOL else x


def _conjugate(b: Builder, x: Value) -> Value:
    """The method of Python's numbers."""
    if x.type != COMPLEX:
        return _part_of_number(b, x, "real")
    scalar = b.op("np::cast", x, dtype=np.dtype(np.complex128))
    return b.op("prim::complex", b.op("np::conjugate", scalar))


def _has_state(held: Any) -> bool:
    """Whether a program may change what is in an object; layers are marked."""
    if isinstance(held, type):
        return bool(held.__flags__ & 1 << 9)  # a heap type, as classes of programs are
    if isinstance(held, (list, dict, ModuleType)) or hasattr(type(held), "__jitcore_module__"):
        return True
    # Functions, and what wraps them, hold whatever a program assigns.
    return callable(held) and type(held).__dictoffset__ != 0


def _named_tuple_attribute(b: Builder, x: Value, class_: Any, name: str) -> Value:
    if name in class_._fields:
        number: int = class_._fields.index(name)
        return b.elements(x)[number]
    found = b.class_attribute(class_, name)
    if isinstance(found, property):
        return b.call_python(found.fget, [x])
    if found is MISSING or hasattr(type(found), "__get__"):
        raise Untypable(f"attribute {name!r} of {x.type}")
    return b.constant(found)


def _array_attribute(b: Builder, x: Value, name: str) -> Value:
    type_ = x.type
    assert isinstance(type_, TensorType)
    if type_.dtype is not None and name in ("dtype", "itemsize"):
        return b.constant(getattr(np.zeros((), type_.dtype), name))
    if type_.dims is None:
        raise Untypable(f"attribute {name!r} of an array of unknown rank")
    rank = len(type_.dims)
    if name == "ndim":
        return b.constant(rank)
    if name == "shape":
        return b.make_tuple([b.size(x, axis) for axis in range(rank)])
    if name == "size" or (name == "nbytes" and type_.dtype is not None):
        result = b.constant(1 if name == "size" or type_.dtype is None else type_.dtype.itemsize)
        for axis in range(rank):
            result = b.op("prim::mul", result, b.size(x, axis))
        return result
    if name == "T":
        return b.op("np::transpose", x)
    if name == "mT":
        return b.op("np::matrix_transpose", x)
    if name in ("real", "imag"):
        return b.op(f"np::{name}", x)
    raise Untypable(f"attribute {name!r} of an array")


def _method_rule(b: Builder, call: Call) -> Value:
    x, name = call.value("x"), call.static("name")
    if isinstance(x.type, TupleType) and x.type.named:
        return _named_tuple_method(b, x, call)
    held = x.constant_value
    if isinstance(held, np.dtype) and name == "type" and not call.bound.get("keywords"):
        return b.call_python(held.type, call.bound.get("values", []))
    if is_number(x.type) and name == "conjugate" and not call.bound.get("values"):
        return _conjugate(b, x)
    if not isinstance(x.type, TensorType):
        raise Untypable(f"method {name!r} of {x.type}")
    if x.type.scalar and not hasattr(np.generic, name):
        raise Untypable(f"NumPy's scalars have no method {name!r}")
    op, parameters = b.method(name)
    signature = (
        op.signature if parameters is None else (op.signature[0], *parse_parameters(parameters))
    )
    arguments = [x, *call.bound.get("values", []), *call.bound.get("keyword_values", [])]
    keywords = call.bound.get("keywords", ())
    return op.rule(
        b, Call(op.kind, bind(signature, arguments, keywords, {}), signature, call.source)
    )


def _named_tuple_method(b: Builder, x: Value, call: Call) -> Value:
    """A method that a NamedTuple's class defines itself."""
    assert isinstance(x.type, TupleType)
    name = call.static("name")
    found = b.class_attribute(x.type.named, name)
    names = call.bound.get("keywords", ())
    if not isinstance(found, FunctionType) or "**" in names:
        raise Untypable(f"method {name!r} of {x.type}")
    keywords = dict(zip(names, call.bound.get("keyword_values", []), strict=True))
    values = call.bound.get("values", [])
    if name == "_replace" and found.__code__.co_filename == namedtuple.__code__.co_filename:
        fields: Sequence[str] = x.type.named._fields
        if values or not keywords.keys() <= set(fields):
            raise Untypable("the arguments do not fit the fields")
        held = dict(zip(fields, b.elements(x), strict=True))
        return b.call_python(x.type.named, list({**held, **keywords}.values()))
    return b.call_python(found, [x, *values], keywords)


OPS: tuple[Op, ...] = (
    Op(
        "prim::GetAttr",
        reference.get_attribute,
        _getattr_rule,
        "x, name",
        view=True,
        doc="An attribute.",
    ),
    Op(
        "prim::CallMethod",
        reference.call_method,
        _method_rule,
        "x, *values",
        pure=False,
        view=True,
        doc="A method call.",
    ),
)
