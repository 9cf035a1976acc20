"""Python's own operators, built-ins and protocols: the ``prim::`` rows."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import computed_in
from jitcore.ir.graph import Value
from jitcore.ir.ops import iteration
from jitcore.ir.ops.class_questions import isinstance_rule, type_rule
from jitcore.ir.ops.complex_math import complex_rule
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.operators import is_tensor, known_types
from jitcore.ir.ops.rounding import round_rule
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    SLICE,
    ListType,
    PrimType,
    TupleType,
    Type,
    UnionType,
    is_number,
)

__all__ = ["OPS"]


def _len_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    if isinstance(x.type, TupleType):
        return b.constant(len(x.type.elements))
    if is_tensor(x):
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
        known_types(x)
        if x.type == type_:
            return x
        if x.type == COMPLEX or not (is_number(x.type) or is_tensor(x)):
            raise Untypable(f"{name}() of {x.type}")
        if is_tensor(x):
            source = tensor(x)
            assert source.dtype is not None
            if not source.scalar:
                if source.dims != ():
                    raise Untypable(f"{name}() of an array")
                x = b.op("np::item", x)
            if source.dtype.kind == "c" or (source.dtype == np.dtype(np.uint64) and name == "int"):
                raise Untypable(f"{name}() of {source.dtype}")
            x = cast_to(b, x, computed_in(source.dtype))
        return b.emit(f"prim::{name}", [x], {}, type_)

    return rule


def _abs_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    known_types(x)
    if not is_number(x.type):
        return b.op("np::absolute", x)
    result = INT if x.type == BOOL else FLOAT if x.type == COMPLEX else x.type
    return b.emit("prim::abs", [x], {}, result)


def _smaller(x: Any, y: Any) -> Any:
    return y if y < x else x


def _greater(x: Any, y: Any) -> Any:
    return y if y > x else x


def _extremum_rule(name: str) -> Rule:
    """``min`` or ``max`` of several values; a comparison chooses, unless all are Python numbers."""
    choice = {"min": _smaller, "max": _greater}[name]
    of_many = {"min": iteration.smallest, "max": iteration.greatest}[name]
    of_any = {"min": iteration.smallest_or, "max": iteration.greatest_or}[name]

    def rule(b: Builder, call: Call) -> Value:
        values: list[Value] = call.bound.get("values", [])
        # None is a default like any other.
        default: Value | None = call.bound.get("default")
        if default is not None and len(values) != 1:
            raise Untypable(f"{name}() of several values with a default")
        if len(values) == 1 and iteration.is_long(values[0]):
            if default is None:
                return b.define(of_many, values[0])
            return b.define(of_any, values[0], default)
        if len(values) == 1:
            values = b.elements(values[0])
        if len(values) == 1:
            return values[0]
        if not values and default is not None:
            return default
        if not values:
            raise Untypable(f"{name}() of nothing")
        result = values[0]
        for other in values[1:]:
            if result.type == other.type and result.type in (INT, FLOAT):
                result = b.emit(f"prim::{name}", [result, other], {}, result.type)
            else:
                result = b.define(choice, result, other)
        return result

    return rule


def _sum_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    start = call.optional("start")
    result = b.constant(0) if start is None else start
    if iteration.is_long(x):
        return b.define(iteration.total_of(x, result), x, result)
    if iteration.SUMS_ARE_COMPENSATED:
        return _compensated_sum(b, result, b.elements(x))
    for one in b.elements(x):
        result = b.op("prim::add", result, one)
    return result


def _compensated_sum(b: Builder, total: Value, elements: Sequence[Value]) -> Value:
    """``sum`` since Python 3.12, which adds ints at first, then floats, and then whatever comes."""
    turn = "ints" if total.type == INT else "floats" if total.type == FLOAT else "all"
    error = b.constant(0.0)
    for one in elements:
        iteration.refuse_complex(total.type, one.type)
        if turn == "floats" and one.type not in (FLOAT, INT, BOOL):
            total, turn = b.define(iteration.corrected, total, error), "all"
        new = b.op("prim::add", total, one)
        if turn == "floats" and one.type == FLOAT:
            error = b.op("prim::add", error, b.define(iteration.lost, total, one, new))
        elif turn == "ints" and one.type not in (INT, BOOL):
            turn = "floats" if new.type == FLOAT else "all"
        total = new
    return b.define(iteration.corrected, total, error) if turn == "floats" else total


def _truth_rule(name: str) -> Rule:
    """``any`` or ``all``."""
    of_many = {"any": iteration.any_of, "all": iteration.all_of}[name]
    joined = {"any": "prim::or_", "all": "prim::and_"}[name]

    def rule(b: Builder, call: Call) -> Value:
        x = call.value("x")
        if iteration.is_long(x):
            return b.define(of_many, x)
        result = b.constant(name == "all")
        for one in b.elements(x):
            result = b.op(joined, result, b.op("prim::bool", one))
        return result

    return rule


def _divmod_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("x"), call.value("y")
    if not (is_number(x.type) and is_number(y.type)):
        raise Untypable(f"divmod() of {x.type} and {y.type}")
    return b.make_tuple([b.op("prim::floordiv", x, y), b.op("prim::mod", x, y)])


RANGE = PrimType("range")
ITERATOR = PrimType("iterator")


def _as_int(b: Builder, value: Value) -> Value:
    if value.type == INT:
        return value
    if value.type == BOOL or (is_tensor(value) and tensor(value).dims == ()):
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
    if len(values) != 3:
        raise Untypable(f"range() of {len(values)} values")
    step = values[2].constant
    if step is None:
        b.define(iteration.require_step, values[2])
    elif step.attributes["value"] == 0:
        raise Untypable("range() with a step of zero")
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


def _slice_length(extent: int, *operands: int, index: str) -> int:
    (bounds,) = reference.build_index(index, operands)
    return len(range(*bounds.indices(extent)))


def _slice_length_rule(b: Builder, call: Call) -> Value:
    inputs = [call.value("extent"), *call.bound.get("operands", ())]
    return b.emit("prim::slice_length", inputs, {"index": call.static("index")}, INT)


def _assume_equal(value: int, length: int, other: int) -> int:
    return value


def _assume_equal_rule(b: Builder, call: Call) -> Value:
    inputs = [call.value(name) for name in ("value", "length", "other")]
    return b.emit("prim::assume_equal", inputs, {}, INT)


def _iterator_rule(kind: str) -> Rule:
    def rule(b: Builder, call: Call) -> Value:
        values: list[Value] = list(call.bound.get("values", []))
        if kind == "prim::enumerate":
            start = call.optional("start") or b.constant(0)
            values = [call.value("x"), start]
        if kind == "prim::reversed":
            values = [call.value("x")]
        if kind == "prim::zip" and call.static("strict"):
            _check_equally_long(values)
        for value in values:
            if value.type == ANY or (isinstance(value.type, ListType) and _is_shared(value)):
                raise Untypable(f"{kind.removeprefix('prim::')}() of {value.type}")
        return b.emit(kind, values, {}, ITERATOR)

    return rule


def _check_equally_long(values: Sequence[Value]) -> None:
    """Raise unless the sequences that ``zip`` compares are known to be equally long."""
    lengths = [len(one.type.elements) for one in values if isinstance(one.type, TupleType)]
    if len(lengths) < len(values) or len(set(lengths)) > 1:
        raise Untypable("zip(strict=True) of what may not be equally long")


def _is_shared(value: Value) -> bool:
    return value.node is None or value.node.kind != "prim::ListConstruct"


def _to_tuple_rule(b: Builder, call: Call) -> Value:
    """``tuple(x)`` of something whose elements are known."""
    return b.make_tuple(b.elements(call.value("x")))


def _tuple_rule(b: Builder, call: Call) -> Value:
    return b.make_tuple(call.bound.get("values", []), call.static("named"))


def _list_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound.get("values", [])
    types = {value.type for value in values}
    element = types.pop() if len(types) == 1 else ANY
    return b.emit("prim::ListConstruct", values, {}, ListType(element))


def _slice_rule(b: Builder, call: Call) -> Value:
    """With one argument that is the end, as in ``range``."""
    given = [call.bound.get(name) for name in ("start", "stop", "step")]
    if given[1] is None:
        given = [None, given[0], None]
    parts = [one if isinstance(one, Value) else b.constant(one) for one in given]
    return b.emit("prim::slice", parts, {}, SLICE)


def _call_rule(b: Builder, call: Call) -> Value:
    f = call.value("f")
    if f.constant is None:
        raise Untypable("what is called is not known until the program runs")
    names = call.bound.get("keywords", ())
    if "**" in names:
        raise Untypable("which keywords it passes is not known until the program runs")
    keywords = dict(zip(names, call.bound.get("keyword_values", []), strict=True))
    return b.call_python(f.constant.attributes["value"], call.bound.get("values", []), keywords)


def _size_rule(b: Builder, call: Call) -> Value:
    tensor(call.value("x"))
    return b.size(call.value("x"), call.static("dim"))


def _check_bound_rule(b: Builder, call: Call) -> Value:
    flag = call.value("flag")
    if flag.constant is not None and flag.constant.attributes["value"]:
        return call.value("x")
    x = call.value("x")
    return b.emit("prim::CheckBound", [x, flag], {"name": call.static("name")}, x.type)


def _call(f: Any, *values: Any, **keywords: Any) -> Any:
    return f(*values, **keywords)


def _union_construct(tag: int, *values: Any) -> Any:
    return values[tag]


def _union_rule(b: Builder, call: Call) -> Value:
    values = call.bound["values"]
    union = UnionType(tuple(value.type for value in values))
    return b.emit("prim::UnionConstruct", [call.value("tag"), *values], {}, union)


def _same_rule(b: Builder, call: Call) -> Value:
    return call.value("x")


def _require(condition: Any, *numbers: Any, exception: str, message: str) -> None:
    reference.require(condition, exception, message, *numbers)


def _require_rule(b: Builder, call: Call) -> Value:
    condition = b.op("prim::bool", call.value("condition"))
    attributes = {name: call.static(name) for name in ("exception", "message")}
    numbers = [b.op("prim::int", one) for one in call.bound.get("numbers", ())]
    return b.emit("prim::require", [condition, *numbers], attributes, NONE)


def _require_shape_rule(b: Builder, call: Call) -> Value:
    condition = b.op("prim::bool", call.value("condition"))
    attributes = {"message": call.static("message")}
    return b.emit("prim::require_shape", [condition, call.value("x")], attributes, NONE)


OPS: tuple[Op, ...] = (
    Op(
        "prim::require_shape",
        reference.require_shape,
        _require_shape_rule,
        "condition, x, *, message",
        functions=(reference.require_shape,),
        doc="What a function of layers raises about an array's shape.",
    ),
    Op(
        "prim::require",
        _require,
        _require_rule,
        "condition, exception, message, *numbers",
        functions=(reference.require,),
        doc="What the definition of an op raises where a condition does not hold.",
    ),
    Op("prim::same", reference.same, _same_rule, "x", view=True, doc="The operand itself."),
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
        complex_rule,
        "x, y=None",
        functions=(builtins.complex,),
        doc="A complex number.",
    ),
    Op("prim::abs", builtins.abs, _abs_rule, "x", functions=(builtins.abs,), doc="Magnitude."),
    Op(
        "prim::min",
        builtins.min,
        _extremum_rule("min"),
        "*values, default=None",
        functions=(builtins.min,),
        doc="The smallest.",
    ),
    Op(
        "prim::max",
        builtins.max,
        _extremum_rule("max"),
        "*values, default=None",
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
        "prim::any",
        builtins.any,
        _truth_rule("any"),
        "x",
        functions=(builtins.any,),
        doc="Whether an element is true.",
    ),
    Op(
        "prim::all",
        builtins.all,
        _truth_rule("all"),
        "x",
        functions=(builtins.all,),
        doc="Whether all elements are true.",
    ),
    Op(
        "prim::round",
        builtins.round,
        round_rule,
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
        "prim::slice_length",
        _slice_length,
        _slice_length_rule,
        "extent, *operands, index",
        doc="How many elements a slice of an axis has.",
    ),
    Op(
        "prim::assume_equal",
        _assume_equal,
        _assume_equal_rule,
        "value, length, other",
        doc="The first operand; calls in which the others differ are left to Python.",
    ),
    Op(
        "prim::zip",
        builtins.zip,
        _iterator_rule("prim::zip"),
        "*values, strict=False",
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
        _to_tuple_rule,
        "x",
        functions=(builtins.tuple,),
        doc="A tuple of a sequence's elements.",
    ),
    Op(
        "prim::isinstance",
        builtins.isinstance,
        isinstance_rule,
        "x, classes",
        functions=(builtins.isinstance,),
        doc="Whether a value has a type.",
    ),
    Op("prim::type", builtins.type, type_rule, "x", functions=(builtins.type,), doc="The class."),
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
        "tag, *values",
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
        "start, stop=None, step=None",
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
