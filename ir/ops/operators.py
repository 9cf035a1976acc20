"""Python's operators, comparisons and truth."""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Value
from jitcore.ir.ops import iteration
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.library_functions import EQUAL_BY_IDENTITY
from jitcore.ir.ops.op import Builder, Call, NeedsConstant, Op, Rule, Untypable, tensor
from jitcore.ir.signs import is_nonnegative
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DTYPE,
    FLOAT,
    INT,
    NONE,
    OBJECT,
    STR,
    ListType,
    LocalListType,
    TensorType,
    TupleType,
    Type,
    is_number,
)

__all__ = ["OPS", "is_tensor", "known_types"]

MAX_ITEMS = 256
"""Longer tuples and lists are not made element by element."""


_ORDER: list[Type] = [BOOL, INT, FLOAT, COMPLEX]
_SEQUENCES = (TupleType, ListType)


# name, NumPy counterpart, Python function
_BINARY: tuple[tuple[str, str, Callable[[Any, Any], Any]], ...] = (
    ("add", "add", operator.add),
    ("sub", "subtract", operator.sub),
    ("mul", "multiply", operator.mul),
    ("truediv", "divide", operator.truediv),
    ("floordiv", "floor_divide", operator.floordiv),
    ("mod", "remainder", operator.mod),
    ("pow", "power", operator.pow),
    ("matmul", "matmul", operator.matmul),
    ("lshift", "left_shift", operator.lshift),
    ("rshift", "right_shift", operator.rshift),
    ("and_", "bitwise_and", operator.and_),
    ("or_", "bitwise_or", operator.or_),
    ("xor", "bitwise_xor", operator.xor),
)


_COMPARISONS: tuple[tuple[str, str, Callable[[Any, Any], Any]], ...] = (
    ("eq", "equal", operator.eq),
    ("ne", "not_equal", operator.ne),
    ("lt", "less", operator.lt),
    ("le", "less_equal", operator.le),
    ("gt", "greater", operator.gt),
    ("ge", "greater_equal", operator.ge),
)


_UNARY: tuple[tuple[str, str, Callable[[Any], Any]], ...] = (
    ("neg", "negative", operator.neg),
    ("pos", "positive", operator.pos),
    ("invert", "invert", operator.invert),
)


def is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def known_types(*values: Value) -> None:
    for value in values:
        if value.type == ANY:
            raise Untypable("an operand's type is not known until the program runs")


def _number_type(name: str, x: Value, y: Value) -> Type:
    """The type of Python's ``x op y`` for two Python numbers."""
    wide = _ORDER[max(_ORDER.index(x.type), _ORDER.index(y.type))]
    if name in ("and_", "or_", "xor"):
        if wide not in (BOOL, INT):
            raise Untypable(f"unsupported operand types for {name}: {x.type} and {y.type}")
        return wide
    if name in ("lshift", "rshift"):
        if wide not in (BOOL, INT):
            raise Untypable(f"unsupported operand types for {name}: {x.type} and {y.type}")
        return INT
    if name == "matmul" or (wide == COMPLEX and name in ("floordiv", "mod")):
        raise Untypable(f"unsupported operand types for {name}: {x.type} and {y.type}")
    if name == "pow":
        return _power_type(y, wide)
    if name == "truediv" and wide != COMPLEX:
        return FLOAT
    return INT if wide == BOOL else wide


def _power_type(exponent: Value, wide: Type) -> Type:
    if wide in (BOOL, INT):
        if exponent.type == BOOL:
            return INT
        if exponent.constant is None:
            if is_nonnegative(exponent):
                return INT
            raise NeedsConstant("the sign of an int's power", exponent)
        return INT if exponent.constant.attributes["value"] >= 0 else FLOAT
    return wide


def _second_operand(b: Builder, x: Value, y: Value) -> Value:
    """``y``; as a float where Python's complex numbers take a NumPy scalar for the float it is."""
    is_float = isinstance(y.type, TensorType) and y.type.scalar and y.type.dtype == np.float64
    return b.op("prim::float", y) if x.type == COMPLEX and is_float else y


def _binary_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        known_types(x, y)
        y = _second_operand(b, x, y)
        if is_number(x.type) and is_number(y.type):
            return b.emit(f"prim::{name}", [x, y], {}, _number_type(name, x, y))
        if is_tensor(x) or is_tensor(y):
            if name == "pow":
                return _array_power(b, x, y)
            if name == "mul" and any(isinstance(one.type, _SEQUENCES) for one in (x, y)):
                _check_not_repeated(x, y)
            return b.op(f"np::{numpy_name}", x, y)
        if isinstance(x.type, _SEQUENCES):
            return _sequence(b, name, x, y)
        raise Untypable(f"{name} of {x.type} and {y.type}")

    return rule


def _check_not_repeated(x: Value, y: Value) -> None:
    """A NumPy scalar repeats a tuple or a list; an array multiplies its elements."""
    if not any(is_tensor(one) and not tensor(one).scalar for one in (x, y)):
        raise Untypable(f"mul of {x.type} and {y.type}")


def _sequence(b: Builder, name: str, x: Value, y: Value) -> Value:
    """Tuples, and lists whose elements are known, added or repeated."""
    items: list[Value] | None = None
    if name == "add" and type(x.type) is type(y.type):
        items = [*b.elements(x), *b.elements(y)]
    if name == "mul" and y.constant is not None:
        times = y.constant.attributes["value"]
        items = b.elements(x) * times if type(times) in (int, bool) else None
    if items is None or len(items) > MAX_ITEMS:
        raise Untypable(f"{name} of {x.type} and {y.type}")
    if isinstance(x.type, TupleType):
        return b.make_tuple(items)
    return b.op("prim::ListConstruct", *items)


_FAST_POWERS: dict[float, str] = {2: "square", 0.5: "sqrt", -1: "reciprocal", 1: "positive"}


def _array_power(b: Builder, x: Value, y: Value) -> Value:
    """``x ** y`` with the constant exponents that NumPy's operator treats by themselves."""
    type_ = x.type
    node = y.constant
    if (
        node is not None
        and isinstance(type_, TensorType)
        and type_.dtype is not None
        and not type_.scalar
        and y.type in (INT, FLOAT)
    ):
        exponent = node.attributes["value"]
        inexact = type_.dtype.kind in "fc"
        if exponent in _FAST_POWERS and (inexact or (exponent == 2 and y.type == INT)):
            return b.op(f"np::{_FAST_POWERS[exponent]}", x)
    return b.op("np::power", x, y)


def _compare_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        known_types(x, y)
        y = _second_operand(b, x, y)
        if is_number(x.type) and is_number(y.type):
            if COMPLEX in (x.type, y.type) and name not in ("eq", "ne"):
                raise Untypable("complex numbers have no order")
            return b.emit(f"prim::{name}", [x, y], {}, BOOL)
        if (is_tensor(x) or is_tensor(y)) and NONE not in (x.type, y.type):
            return b.op(f"np::{numpy_name}", x, y)
        if isinstance(x.type, TupleType) and isinstance(y.type, TupleType):
            is_order = name not in ("eq", "ne")
            return _order_tuples(b, name, x, y) if is_order else _compare_tuples(b, name, x, y)
        if x.type == y.type == OBJECT and name in ("eq", "ne"):
            return _compare_members(b, name, x, y)
        if {x.type, y.type} == {DTYPE, OBJECT} and name in ("eq", "ne"):
            return _compare_dtypes(b, name, x, y)
        if STR in (x.type, y.type) and (is_number(x.type) or is_number(y.type)):
            return b.constant(name == "ne") if name in ("eq", "ne") else _refuse(name, x, y)
        return _refuse(name, x, y)

    return rule


def _compare_members(b: Builder, name: str, x: Value, y: Value) -> Value:
    """``==`` of members of enumerations: these equal nothing but themselves."""
    held = [value.constant.attributes["value"] for value in (x, y) if value.constant is not None]
    plain = all(isinstance(one, Enum) and type(one).__eq__ is object.__eq__ for one in held)
    if len(held) < 2 or not plain:
        return _refuse(name, x, y)
    return b.constant((held[0] is held[1]) is (name == "eq"))


def _compare_dtypes(b: Builder, name: str, x: Value, y: Value) -> Value:
    """``x.dtype == np.float32``: a dtype equals the class that it is made of."""
    held = [value.constant.attributes["value"] for value in (x, y) if value.constant is not None]
    classes = [one for one in held if isinstance(one, type)]
    if len(held) < 2 or len(classes) != 1 or classes[0] not in _DTYPE_CLASSES:
        return _refuse(name, x, y)
    return b.constant((held[0] == held[1]) is (name == "eq"))


def _refuse(name: str, x: Value, y: Value) -> Value:
    raise Untypable(f"{name} of {x.type} and {y.type}")


def _compare_tuples(b: Builder, name: str, x: Value, y: Value) -> Value:
    left, right = b.elements(x), b.elements(y)
    if len(left) != len(right):
        return b.constant(name == "ne")
    result = b.constant(True)
    for one, two in zip(left, right, strict=True):
        result = b.op("prim::and_", result, _equal_items(b, one, two))
    return b.op("prim::not_", result) if name == "ne" else result


def _order_tuples(b: Builder, name: str, x: Value, y: Value) -> Value:
    """The first items that differ decide, and otherwise the lengths."""
    if any(_has_own(one.type, name) for one in (x, y)):
        raise Untypable(f"{name} of a class that has its own")
    left, right = b.elements(x), b.elements(y)
    result = b.op(f"prim::{name}", b.constant(len(left)), b.constant(len(right)))
    for one, two in reversed(list(zip(left, right, strict=False))):
        is_same = _equal_items(b, one, two)
        if is_same.constant_value is True:
            continue
        decided = b.op(f"prim::{name}", one, two)
        if decided.type != BOOL:
            raise Untypable(f"{name} of {one.type} and {two.type} in tuples")
        is_other = b.op("prim::and_", b.op("prim::not_", is_same), decided)
        result = b.op("prim::or_", is_other, b.op("prim::and_", is_same, result))
    return result


def _has_own(type_: Type, name: str) -> bool:
    """Whether a named tuple has a comparison that is not that of tuples."""
    named = type_.named if isinstance(type_, TupleType) else None
    method = f"__{name}__"
    return named is not None and getattr(named, method) is not getattr(tuple, method)


def _equal_items(b: Builder, one: Value, two: Value) -> Value:
    """Whether items of containers are equal: Python asks for identity first.

    So a NaN is found where it stands itself.
    """
    if one is two:
        return b.constant(True)
    nodes = [value.constant for value in (one, two)]
    held = [node.attributes["value"] for node in nodes if node is not None]
    if len(held) == 2 and held[0] is held[1]:
        return b.constant(True)
    if isinstance(one.type, TupleType) or isinstance(two.type, TupleType):
        return _equal_tuples(b, one, two)
    if not (is_number(one.type) and is_number(two.type)):
        raise Untypable("tuples of something other than numbers are compared")
    may_be_one = one is two or _may_be_one_nan(one, two, held)
    if one.type == two.type and one.type in (FLOAT, COMPLEX) and may_be_one:
        if not b.is_native:
            raise Untypable("items that may be one NaN, which is equal to itself in a container")
        b.define(_require_number, one)
    return b.op("prim::eq", one, two)


def _equal_tuples(b: Builder, one: Value, two: Value) -> Value:
    if any(_has_own(item.type, "eq") for item in (one, two)):
        raise Untypable("items of a class that has its own equality")
    if is_number(one.type) or is_number(two.type):
        return b.constant(False)
    return b.op("prim::eq", one, two)


def _require_number(x: Any) -> None:
    reference.require(x == x, "NotImplementedError", EQUAL_BY_IDENTITY)


def _may_be_one_nan(one: Value, two: Value, held: Sequence[Any]) -> bool:
    """Whether two values, of which those in ``held`` are constants, may be the same NaN."""
    if len(held) == 2 or any(number == number for number in held):
        return False
    return not (_is_new(one) and _is_new(two))


def _is_new(value: Value) -> bool:
    """Whether a float is a result of what makes an object that was not there before."""
    node = value.node
    if node is None:
        return False
    if node.kind == "prim::float":
        # Elements of lists are NumPy's to compiled code.
        return is_number(node.inputs[0].type) and node.inputs[0].type != FLOAT
    return node.kind in _NEW or node.kind.startswith("math::")


def _inplace_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        known_types(x, y)
        if not is_tensor(x) or tensor(x).scalar:
            if isinstance(x.type, (TupleType,)) or is_number(x.type) or is_tensor(x):
                return b.op(f"prim::{name}", x, y)
            raise Untypable(f"augmented {name} of {x.type}")
        if name == "matmul":
            raise Untypable("in-place matmul")
        target = tensor(x)
        if name == "pow" and y.constant is None and target.dtype and target.dtype.kind in "iu":
            raise Untypable("an integer to a power that may be negative, in place")
        if is_tensor(y) and len(tensor(y).dims or ()) > len(target.dims or ()):
            raise Untypable("an in-place operation would need more dimensions")
        result = b.op(f"prim::{name}", x, y)
        computed = tensor(result)
        assert target.dtype is not None and computed.dtype is not None
        if not np.can_cast(computed.dtype, target.dtype, "same_kind"):
            raise Untypable(f"{computed.dtype} does not go into {target.dtype} in place")
        b.op("np::store", x, cast_to(b, result, target.dtype), in_place=True)
        return x

    return rule


def _unary_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        known_types(x)
        if is_number(x.type):
            if name == "invert" and x.type not in (INT, BOOL):
                raise Untypable(f"invert of {x.type}")
            return b.emit(f"prim::{name}", [x], {}, INT if x.type == BOOL else x.type)
        return b.op(f"np::{numpy_name}", x)

    return rule


def _bool_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    known_types(x)
    if x.type == BOOL:
        return x
    if x.type == NONE:
        return b.constant(False)
    if isinstance(x.type, TupleType):
        return b.constant(bool(x.type.elements))
    if x.type in (INT, FLOAT, COMPLEX):
        return b.emit("prim::ne", [x, b.constant(0)], {}, BOOL)
    type_ = tensor(x)
    if type_.scalar:
        truth = x if type_.dtype == bool else b.op("np::cast", x, dtype=np.dtype(bool))
        return b.emit("prim::bool", [truth], {}, BOOL)
    if all(dim == 1 for dim in type_.dims or ()):
        return b.op("prim::bool", _only_element(b, x))
    raise Untypable("the truth of an array")


def _only_element(b: Builder, x: Value) -> Value:
    for _ in tensor(x).dims or ():
        x = b.op("np::view", x, index="0" + ", :" * (len(tensor(x).dims or ()) - 1))
    return b.op("np::item", x) if not tensor(x).scalar else x


def _not_rule(b: Builder, call: Call) -> Value:
    x = b.op("prim::bool", call.value("x"))
    if x.constant is not None:
        return b.constant(not x.constant.attributes["value"])
    return b.emit("prim::not_", [x], {}, BOOL)


def _is_rule(negated: bool) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        known_types(x, y)
        if NONE in (x.type, y.type):
            return b.constant((x.type == y.type) is not negated)
        if x is y and x.type not in (INT, FLOAT, COMPLEX):
            return b.constant(not negated)
        if x.type == y.type == BOOL:
            return b.op("prim::ne" if negated else "prim::eq", x, y)
        if not _may_be_one(x.type, y.type) and OBJECT not in (x.type, y.type):
            return b.constant(negated)
        if x.constant is not None and y.constant is not None and x.type in (OBJECT, BOOL):
            same = x.constant.attributes["value"] is y.constant.attributes["value"]
            return b.constant(same is not negated)
        if _is_other_object(x, y) or _is_other_object(y, x):
            return b.constant(negated)
        raise Untypable("the identity of two values")

    return rule


def _may_be_one(x: Type, y: Type) -> bool:
    """Whether one object may have both types: extents may be equal that have different symbols."""
    if isinstance(x, TensorType) and isinstance(y, TensorType):
        return (x.dtype, x.rank, x.scalar) == (y.dtype, y.rank, y.scalar)
    if isinstance(x, TupleType) and isinstance(y, TupleType):
        same_kind = (x.named, len(x.elements)) == (y.named, len(y.elements))
        return same_kind and all(map(_may_be_one, x.elements, y.elements))
    return ANY in (x, y) or x == y


def _is_other_object(known: Value, other: Value) -> bool:
    """Whether a known object is of no class whose values compiled code computes."""
    if known.type != OBJECT or known.constant is None or other.type == OBJECT:
        return False
    return not isinstance(known.constant.attributes["value"], _COMPUTED)


def _in_rule(negated: bool) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        known_types(x, y)
        if not is_number(x.type) or not isinstance(y.type, (TupleType, ListType, LocalListType)):
            raise Untypable(f"membership of {x.type} in {y.type}")
        if isinstance(y.type, LocalListType) and y.type.count is None:
            if y.type.element == x.type == FLOAT or not is_number(y.type.element or INT):
                raise Untypable("membership in a list where a NaN is found by its identity")
            result = b.define(iteration.is_in, x, y)
            return b.op("prim::not_", result) if negated else result
        result = b.constant(False)
        for one in b.elements(y):
            if not is_number(one.type):
                raise Untypable(f"membership in {y.type}")
            result = b.op("prim::or_", result, _equal_items(b, x, one))
        return b.op("prim::not_", result) if negated else result

    return rule


_NEW = frozenset({"prim::neg", *(f"prim::{name}" for name, _, _ in _BINARY)})
"""Arithmetic, which makes new objects of floats."""

_DTYPE_CLASSES = frozenset({bool, int, float, complex, *np.sctypeDict.values()})
"""Classes that one dtype is made of; a comparison with any other asks the class."""

_COMPUTED = (int, float, complex, str, tuple, list, np.generic, np.ndarray)

OPS: tuple[Op, ...] = (
    *(
        Op(
            f"prim::{name}",
            f,
            _binary_rule(name, numpy_name),
            "x, y",
            functions=(f,),
            doc=f"Python's ``{name}`` operator.",
        )
        for name, numpy_name, f in _BINARY
    ),
    *(
        Op(
            f"prim::i{name}",
            getattr(operator, f"i{name.rstrip('_')}"),
            _inplace_rule(name),
            "x, y",
            view=True,
            writes=(0,),
            pure=False,
            doc=f"Python's augmented ``{name}``.",
        )
        for name, numpy_name, _ in _BINARY
    ),
    *(
        Op(
            f"prim::{name}",
            f,
            _compare_rule(name, numpy_name),
            "x, y",
            functions=(f,),
            doc=f"Python's comparison ``{name}``.",
        )
        for name, numpy_name, f in _COMPARISONS
    ),
    *(
        Op(
            f"prim::{name}",
            f,
            _unary_rule(name, numpy_name),
            "x",
            functions=(f,),
            doc=f"Python's unary ``{name}``.",
        )
        for name, numpy_name, f in _UNARY
    ),
    Op(
        "prim::bool",
        builtins.bool,
        _bool_rule,
        "x",
        functions=(builtins.bool, operator.truth),
        doc="Truth.",
    ),
    Op("prim::not_", operator.not_, _not_rule, "x", functions=(operator.not_,), doc="Negation."),
    Op("prim::is_", operator.is_, _is_rule(False), "x, y", doc="Identity."),
    Op("prim::isnot", operator.is_not, _is_rule(True), "x, y", doc="Difference of identity."),
    Op("prim::in_", reference.contained, _in_rule(False), "x, y", doc="Membership."),
    Op("prim::notin", reference.not_contained, _in_rule(True), "x, y", doc="Absence."),
)
