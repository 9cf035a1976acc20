"""Python's own operators, built-ins and protocols: the ``prim::`` rows."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    OBJECT,
    SLICE,
    STR,
    ListType,
    PrimType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
)

__all__ = ["OPS"]

_ORDER = [BOOL, INT, FLOAT, COMPLEX]

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


def _is_tensor(value: Value) -> bool:
    return isinstance(value.type, TensorType)


def _known_types(*values: Value) -> None:
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
            raise Untypable("an int to a power whose sign is not known")
        return INT if exponent.constant.attributes["value"] >= 0 else FLOAT
    return wide


def _binary_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        _known_types(x, y)
        if is_number(x.type) and is_number(y.type):
            return b.emit(f"prim::{name}", [x, y], {}, _number_type(name, x, y))
        if _is_tensor(x) or _is_tensor(y):
            if name == "pow":
                return _array_power(b, x, y)
            return b.op(f"np::{numpy_name}", x, y)
        if isinstance(x.type, TupleType) and isinstance(y.type, TupleType) and name == "add":
            return b.tuple([*b.elements(x), *b.elements(y)])
        if isinstance(x.type, TupleType) and name == "mul" and y.constant is not None:
            return b.tuple(b.elements(x) * int(y.constant.attributes["value"]))
        raise Untypable(f"{name} of {x.type} and {y.type}")

    return rule


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
        _known_types(x, y)
        if is_number(x.type) and is_number(y.type):
            if COMPLEX in (x.type, y.type) and name not in ("eq", "ne"):
                raise Untypable("complex numbers have no order")
            return b.emit(f"prim::{name}", [x, y], {}, BOOL)
        if (_is_tensor(x) or _is_tensor(y)) and NONE not in (x.type, y.type):
            return b.op(f"np::{numpy_name}", x, y)
        if isinstance(x.type, TupleType) and isinstance(y.type, TupleType) and name in ("eq", "ne"):
            return _compare_tuples(b, name, x, y)
        if STR in (x.type, y.type) and (is_number(x.type) or is_number(y.type)):
            return b.constant(name == "ne") if name in ("eq", "ne") else _refuse(name, x, y)
        return _refuse(name, x, y)

    return rule


def _refuse(name: str, x: Value, y: Value) -> Value:
    raise Untypable(f"{name} of {x.type} and {y.type}")


def _compare_tuples(b: Builder, name: str, x: Value, y: Value) -> Value:
    left, right = b.elements(x), b.elements(y)
    if len(left) != len(right):
        return b.constant(name == "ne")
    if not all(is_number(one.type) for one in [*left, *right]):
        raise Untypable("tuples of something other than numbers are compared")
    result = b.constant(True)
    for one, two in zip(left, right, strict=True):
        result = b.op("prim::and_", result, b.op("prim::eq", one, two))
    return b.op("prim::not_", result) if name == "ne" else result


def _inplace_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        _known_types(x, y)
        if not _is_tensor(x) or tensor(x).scalar:
            if isinstance(x.type, (TupleType,)) or is_number(x.type) or _is_tensor(x):
                return b.op(f"prim::{name}", x, y)
            raise Untypable(f"augmented {name} of {x.type}")
        if name == "matmul":
            raise Untypable("in-place matmul")
        target = tensor(x)
        result = b.op(f"prim::{name}", x, y)
        computed = tensor(result)
        assert target.dtype is not None and computed.dtype is not None
        if not np.can_cast(computed.dtype, target.dtype, "same_kind"):
            raise Untypable(f"{computed.dtype} does not go into {target.dtype} in place")
        if len(computed.dims or ()) > len(target.dims or ()):
            raise Untypable("an in-place operation would need more dimensions")
        b.op("np::store", x, cast_to(b, result, target.dtype))
        return x

    return rule


def _unary_rule(name: str, numpy_name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        _known_types(x)
        if is_number(x.type):
            if name == "invert" and x.type not in (INT, BOOL):
                raise Untypable(f"invert of {x.type}")
            return b.emit(f"prim::{name}", [x], {}, INT if x.type == BOOL else x.type)
        return b.op(f"np::{numpy_name}", x)

    return rule


def _bool_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    _known_types(x)
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
        return b.emit("prim::bool", [b.op("np::cast", x, dtype=np.dtype(bool))], {}, BOOL)
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
        _known_types(x, y)
        if NONE in (x.type, y.type):
            return b.constant((x.type == y.type) is not negated)
        if x is y and x.type not in (INT, FLOAT, COMPLEX):
            return b.constant(not negated)
        if x.type == y.type == BOOL:
            return b.op("prim::ne" if negated else "prim::eq", x, y)
        if x.type != y.type and OBJECT not in (x.type, y.type):
            return b.constant(negated)
        if x.constant is not None and y.constant is not None and x.type in (OBJECT, BOOL):
            same = x.constant.attributes["value"] is y.constant.attributes["value"]
            return b.constant(same is not negated)
        raise Untypable("the identity of two values")

    return rule


def _in_rule(negated: bool) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x, y = call.value("x"), call.value("y")
        _known_types(x, y)
        if not is_number(x.type) or not isinstance(y.type, (TupleType, ListType)):
            raise Untypable(f"membership of {x.type} in {y.type}")
        result = b.constant(False)
        for one in b.elements(y):
            if not is_number(one.type):
                raise Untypable(f"membership in {y.type}")
            result = b.op("prim::or_", result, b.op("prim::eq", x, one))
        return b.op("prim::not_", result) if negated else result

    return rule


def _len_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    if isinstance(x.type, TupleType):
        return b.constant(len(x.type.elements))
    if _is_tensor(x):
        if not tensor(x).dims:
            raise Untypable("len() of a 0-d array")
        return b.size(x, 0)
    node = x.node
    if node is not None and node.kind == "prim::range":
        return b.op("prim::range_length", *node.inputs)
    raise Untypable(f"len() of {x.type}")


def _convert_rule(name: str, type_: Type) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        _known_types(x)
        if x.type == type_:
            return x
        if x.type == COMPLEX or not (is_number(x.type) or _is_tensor(x)):
            raise Untypable(f"{name}() of {x.type}")
        if _is_tensor(x):
            source = tensor(x)
            assert source.dtype is not None
            if not source.scalar:
                if source.dims != ():
                    raise Untypable(f"{name}() of an array")
                x = b.op("np::item", x)
            if source.dtype.kind == "c" or (source.dtype == np.dtype(np.uint64) and name == "int"):
                raise Untypable(f"{name}() of {source.dtype}")
        return b.emit(f"prim::{name}", [x], {}, type_)

    return rule


def _complex_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("x"), call.optional("y")
    parts = [x] if y is None else [x, y]
    if y is not None and COMPLEX in (x.type, y.type):
        raise Untypable("complex() of complex parts")
    if not all(is_number(part.type) for part in parts):
        raise Untypable(f"complex() of {x.type}")
    if x.type == COMPLEX:
        return x
    return b.emit("prim::complex", [x, y or b.constant(0.0)], {}, COMPLEX)


def _abs_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    _known_types(x)
    if not is_number(x.type):
        return b.op("np::absolute", x)
    result = {BOOL: INT, COMPLEX: FLOAT}.get(x.type, x.type)
    return b.emit("prim::abs", [x], {}, result)


def _extremum_rule(name: str) -> Rule:
    """``min`` or ``max`` of several numbers of one Python type."""

    def rule(b: Builder, call: Call) -> Value:
        values: list[Value] = call.bound.get("values", [])
        if len(values) == 1:
            values = b.elements(values[0])
        if len(values) == 1:
            return values[0]
        types = {value.type for value in values}
        if len(types) != 1 or not values or values[0].type not in (INT, FLOAT):
            raise Untypable(f"{name}() of {', '.join(sorted(map(str, types)))}")
        result = values[0]
        for other in values[1:]:
            result = b.emit(f"prim::{name}", [result, other], {}, result.type)
        return result

    return rule


def _sum_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    start = call.optional("start")
    result = b.constant(0) if start is None else start
    for one in b.elements(x):
        result = b.op("prim::add", result, one)
    return result


def _round_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    if x.type not in (INT, FLOAT) or call.optional("ndigits") is not None:
        raise Untypable(f"round() of {x.type}")
    return x if x.type == INT else b.emit("prim::round", [x], {}, INT)


def _divmod_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("x"), call.value("y")
    if not (is_number(x.type) and is_number(y.type)):
        raise Untypable(f"divmod() of {x.type} and {y.type}")
    return b.tuple([b.op("prim::floordiv", x, y), b.op("prim::mod", x, y)])


RANGE = PrimType("range")
ITERATOR = PrimType("iterator")


def _as_int(b: Builder, value: Value) -> Value:
    if value.type == INT:
        return value
    if value.type == BOOL or (_is_tensor(value) and tensor(value).dims == ()):
        dtype = None if value.type == BOOL else tensor(value).dtype
        if dtype is None or dtype.kind in "iu":
            return b.op("prim::int", value)
    raise Untypable(f"{value.type} is used as an index")


def _range_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound["values"]
    values = [_as_int(b, value) for value in values]
    if len(values) == 1:
        values = [b.constant(0), values[0]]
    if len(values) == 2:
        values = [*values, b.constant(1)]
    if (
        len(values) != 3
        or values[2].constant is None
        or values[2].constant.attributes["value"] == 0
    ):
        raise Untypable("range() with a step that is not a known number")
    return b.emit("prim::range", values, {}, RANGE)


def _range_length(start: int, stop: int, step: int) -> int:
    return len(range(start, stop, step))


def _range_length_rule(b: Builder, call: Call) -> Value:
    start, stop, step = (call.value(name) for name in ("start", "stop", "step"))
    known = [value.constant for value in (start, stop, step)]
    if all(node is not None for node in known):
        return b.constant(_range_length(*(node.attributes["value"] for node in known if node)))
    if start.constant is not None and step.constant is not None:
        if start.constant.attributes["value"] == 0 and step.constant.attributes["value"] == 1:
            if stop.node is not None and stop.node.kind == "prim::size":
                return stop
    return b.emit("prim::range_length", [start, stop, step], {}, INT)


def _iterator_rule(kind: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values: list[Value] = list(call.bound.get("values", []))
        if kind == "prim::enumerate":
            start = call.optional("start") or b.constant(0)
            values = [call.value("x"), start]
        if kind == "prim::reversed":
            values = [call.value("x")]
        for value in values:
            if value.type == ANY or (isinstance(value.type, ListType) and _is_shared(value)):
                raise Untypable(f"{kind.removeprefix('prim::')}() of {value.type}")
        return b.emit(kind, values, {}, ITERATOR)

    return rule


def _is_shared(value: Value) -> bool:
    return value.node is None or value.node.kind != "prim::ListConstruct" or bool(value.uses)


def _sequence_rule(kind: str) -> Rule:
    """``tuple(x)`` of something whose elements are known."""

    def rule(b: Builder, call: Call) -> Value:
        return b.tuple(b.elements(call.value("x")))

    return rule


def _tuple_rule(b: Builder, call: Call) -> Value:
    return b.tuple(call.bound.get("values", []))


def _list_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound.get("values", [])
    types = {value.type for value in values}
    element = types.pop() if len(types) == 1 else ANY
    return b.emit("prim::ListConstruct", values, {}, ListType(element))


def _slice_rule(b: Builder, call: Call) -> Value:
    parts = [call.value(name) for name in ("start", "stop", "step")]
    return b.emit("prim::slice", parts, {}, SLICE)


def _isinstance_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    classes = call.static("classes")
    _known_types(x)
    held = _python_class(x)
    if held is None:
        raise Untypable(f"isinstance() of {x.type}")
    return b.constant(issubclass(held, classes))


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


def _type_rule(b: Builder, call: Call) -> Value:
    held = _python_class(call.value("x"))
    if held is None:
        raise Untypable(f"type() of {call.value('x').type}")
    return b.constant(held)


def _call_rule(b: Builder, call: Call) -> Value:
    f = call.value("f")
    if f.constant is None:
        raise Untypable("what is called is not known until the program runs")
    if call.bound.get("keywords"):
        raise Untypable("it calls Python with keywords")
    return b.call_python(f.constant.attributes["value"], call.bound.get("values", []))


def _size_rule(b: Builder, call: Call) -> Value:
    return b.size(call.value("x"), call.static("dim"))


def _check_bound_rule(b: Builder, call: Call) -> Value:
    flag = call.value("flag")
    if flag.constant is not None and flag.constant.attributes["value"]:
        return call.value("x")
    x = call.value("x")
    return b.emit("prim::CheckBound", [x, flag], {"name": call.static("name")}, x.type)


def _call(f: Any, *values: Any, **keywords: Any) -> Any:
    return f(*values, **keywords)


def _union_construct(tag: int, *values: Any, types: tuple[Type, ...]) -> Any:
    if types[tag] == NONE:
        return None
    return values[tag - sum(one == NONE for one in types[:tag])]


def _union_rule(b: Builder, call: Call) -> Value:
    types = call.static("types")
    values = [call.value("tag"), *call.bound["values"]]
    return b.emit("prim::UnionConstruct", values, {"types": types}, UnionType(types))


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
            _inplace_rule(name, numpy_name),
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
    Op("prim::len", builtins.len, _len_rule, "x", functions=(builtins.len,), doc="Length."),
    Op(
        "prim::int",
        builtins.int,
        _convert_rule("int", INT),
        "x",
        functions=(builtins.int,),
        doc="Conversion to int, toward zero.",
    ),
    Op(
        "prim::float",
        builtins.float,
        _convert_rule("float", FLOAT),
        "x",
        functions=(builtins.float,),
        doc="Conversion to float.",
    ),
    Op(
        "prim::complex",
        builtins.complex,
        _complex_rule,
        "x, y=None",
        functions=(builtins.complex,),
        doc="A complex number.",
    ),
    Op("prim::abs", builtins.abs, _abs_rule, "x", functions=(builtins.abs,), doc="Magnitude."),
    Op(
        "prim::min",
        builtins.min,
        _extremum_rule("min"),
        "*values",
        functions=(builtins.min,),
        doc="The smallest.",
    ),
    Op(
        "prim::max",
        builtins.max,
        _extremum_rule("max"),
        "*values",
        functions=(builtins.max,),
        doc="The largest.",
    ),
    Op(
        "prim::sum",
        builtins.sum,
        _sum_rule,
        "x, start=None",
        functions=(builtins.sum,),
        doc="The sum of a sequence.",
    ),
    Op(
        "prim::round",
        builtins.round,
        _round_rule,
        "x, ndigits=None",
        functions=(builtins.round,),
        doc="Round half to even.",
    ),
    Op(
        "prim::divmod",
        builtins.divmod,
        _divmod_rule,
        "x, y",
        functions=(builtins.divmod,),
        doc="Quotient and remainder.",
    ),
    Op(
        "prim::range",
        builtins.range,
        _range_rule,
        "*values",
        functions=(builtins.range,),
        doc="An arithmetic progression.",
    ),
    Op(
        "prim::range_length",
        _range_length,
        _range_length_rule,
        "start, stop, step",
        doc="How many numbers a range has.",
    ),
    Op(
        "prim::zip",
        builtins.zip,
        _iterator_rule("prim::zip"),
        "*values",
        functions=(builtins.zip,),
        doc="Sequences in step.",
    ),
    Op(
        "prim::enumerate",
        builtins.enumerate,
        _iterator_rule("prim::enumerate"),
        "x, start=None",
        functions=(builtins.enumerate,),
        doc="A sequence with its indices.",
    ),
    Op(
        "prim::reversed",
        builtins.reversed,
        _iterator_rule("prim::reversed"),
        "x",
        functions=(builtins.reversed,),
        doc="A sequence from its end.",
    ),
    Op(
        "prim::tuple",
        builtins.tuple,
        _sequence_rule("tuple"),
        "x",
        functions=(builtins.tuple,),
        doc="A tuple of a sequence's elements.",
    ),
    Op(
        "prim::isinstance",
        builtins.isinstance,
        _isinstance_rule,
        "x, classes",
        functions=(builtins.isinstance,),
        doc="Whether a value has a type.",
    ),
    Op("prim::type", builtins.type, _type_rule, "x", functions=(builtins.type,), doc="The class."),
    Op(
        "prim::TupleConstruct",
        reference.tuple_construct,
        _tuple_rule,
        "*values, named=None",
        doc="A tuple.",
    ),
    Op(
        "prim::UnionConstruct",
        _union_construct,
        _union_rule,
        "tag, *values, types=None",
        doc="One of several values, by number.",
    ),
    Op(
        "prim::ListConstruct",
        reference.list_construct,
        _list_rule,
        "*values",
        pure=False,
        doc="A new list.",
    ),
    Op(
        "prim::slice",
        builtins.slice,
        _slice_rule,
        "start, stop, step",
        functions=(builtins.slice,),
        doc="A slice.",
    ),
    Op("prim::size", reference.size, _size_rule, "x, dim", doc="The extent of one axis."),
    Op(
        "prim::CheckBound",
        reference.check_bound,
        _check_bound_rule,
        "x, flag, name",
        pure=False,
        doc="A variable that may have no value.",
    ),
    Op("prim::Call", _call, _call_rule, "f, *values", pure=False, doc="Any call."),
)

_MATH_DOMAIN = (
    "sqrt",
    "exp",
    "log",
    "log2",
    "log10",
    "log1p",
    "expm1",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "fabs",
    "erf",
    "erfc",
    "gamma",
    "lgamma",
    "degrees",
    "radians",
    "cbrt",
    "exp2",
)


def _as_float(b: Builder, value: Value) -> Value:
    if value.type == FLOAT:
        return value
    if value.type in (INT, BOOL) or (_is_tensor(value) and tensor(value).dims == ()):
        return b.op("prim::float", value)
    raise Untypable(f"the math module on {value.type}")


def _math_rule(name: str, arguments: tuple[str, ...], result: Type) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values = [_as_float(b, call.value(argument)) for argument in arguments]
        return b.emit(f"math::{name}", values, {}, result)

    return rule


def _math_integer_rule(name: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if x.type == INT:
            return x
        if name == "trunc" and _is_tensor(x) and tensor(x).dtype != np.dtype(np.float64):
            raise Untypable("of NumPy's scalars only float64 has a __trunc__")
        return b.emit(f"math::{name}", [_as_float(b, x)], {}, INT)

    return rule


def _math_host_rule(b: Builder, call: Call) -> Value:
    raise Untypable("runs in the host program")


def _math_op(name: str, parameters: str, rule: Rule) -> Op:
    f = getattr(math, name)
    doc = (f.__doc__ or name).strip().split("\n")[0]
    return Op(f"math::{name}", f, rule, parameters, functions=(f,), doc=doc)


MATH_OPS: tuple[Op, ...] = (
    *(_math_op(name, "x", _math_rule(name, ("x",), FLOAT)) for name in _MATH_DOMAIN),
    *(
        _math_op(name, "x, y", _math_rule(name, ("x", "y"), FLOAT))
        for name in ("pow", "atan2", "copysign", "fmod", "remainder")
    ),
    *(
        _math_op(name, "x", _math_rule(name, ("x",), BOOL))
        for name in ("isnan", "isinf", "isfinite")
    ),
    *(_math_op(name, "x", _math_integer_rule(name)) for name in ("floor", "ceil", "trunc")),
    *(
        _math_op(name, "*values", _math_host_rule)
        for name in (
            "hypot",
            "gcd",
            "lcm",
            "factorial",
            "comb",
            "perm",
            "isqrt",
            "ldexp",
            "frexp",
            "modf",
            "fsum",
            "prod",
            "dist",
            "isclose",
            "nextafter",
            "ulp",
        )
    ),
)
