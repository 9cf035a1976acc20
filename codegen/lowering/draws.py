"""Draws of random numbers: calls of the functions by which NumPy itself draws (``ir.draws``)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

from jitcore.codegen.loops import Binary, Call, Cast, Const, Expr, Load, Store, Unary, Var
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    both,
    cast,
    compare,
    not_,
    product,
    subtract,
)
from jitcore.codegen.lowering.elementwise import new_dims
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.runtime.generators import is_known
from jitcore.ir.dataclass import dataclass
from jitcore.ir.draws import GLOBAL, Draw, draw_of
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import GENERATOR, RANDOM_STATE, PrimType, TensorType

__all__ = ["RULES"]


@dataclass(frozen=True, slots=True)
class _Drawing:
    """A draw that is being lowered.

    Parameters
    ----------
    lowering : Lowering
    generator : Expr
    row : Draw
    arguments : mapping of str to Value
    """

    lowering: Lowering
    generator: Expr
    row: Draw
    arguments: Mapping[str, Value]

    def real(self, name: str) -> Expr:
        """An argument that is a real number, or the parameter's default."""
        if name in self.arguments:
            given = cast(self.lowering.scalar(self.arguments[name]), "float64")
            return self.lowering.emitter.let(name, given)
        parameter = next(one for one in self.row.parameters if one.name == name)
        return _float(parameter.default)

    def integer(self, name: str) -> Expr:
        """An argument that is an integer."""
        given = cast(self.lowering.scalar(self.arguments[name]), "int64")
        return self.lowering.emitter.let(name, given)

    def numbers(self) -> list[Expr]:
        """All arguments but the size, real numbers in the order of the parameters."""
        names = (one.name for one in self.row.parameters if one.compiled)
        return [self.real(name) for name in names if name != self.row.size]

    def refuse(
        self, condition: Expr, message: str, exception: type[Exception] = ValueError
    ) -> None:
        """Raise where a condition holds."""
        self.lowering.fail(condition, exception, message)

    def call(self, name: str, *arguments: Expr, dtype: str = "float64") -> Call:
        """The number that a function draws."""
        return Call(f"jc_draw_{name}", (self.generator, *arguments), dtype, external=True)


Form = Callable[[_Drawing], Expr]
"""What draws a number each time it is evaluated; arguments are checked before."""


def _draw(lowering: Lowering, node: Node) -> Operand:
    """One number, drawn here whether or not somebody reads it, or an array of them."""
    generator, *values = node.inputs
    type_, name = generator.type, node.attributes["name"]
    row = draw_of(type_, name)
    if row is None or not isinstance(type_, PrimType):
        raise NotNative("it calls Python")
    if lowering.target.is_device:
        raise NotNative("random numbers are drawn on the host")
    if not is_known():
        raise NotNative("this version of NumPy keeps its generators in a way that is not known")
    arguments = dict(zip(node.keywords, values, strict=True))
    drawing = _Drawing(lowering, _generator(lowering, generator), row, arguments)
    if name == "permutation":
        return _permuted(drawing, _new(lowering, node, arguments[row.size]))
    number = _FORMS[type_][name](drawing)
    if row.size in arguments:
        return _filled(lowering, _new(lowering, node, arguments[row.size]), number)
    return lowering.emitter.copy(node.output.name, number)


def _new(lowering: Lowering, node: Node, size: Value) -> ArrayRef:
    """An array of a draw's size, which is not filled yet."""
    type_ = node.output.type
    dims = new_dims(lowering, node, _extents(lowering, size))
    assert isinstance(type_, TensorType) and type_.dtype is not None
    escapes = lowering.escapes(node.output)
    return lowering.allocate(node.output.name, dims, type_.dtype, escapes=escapes)


def _extents(lowering: Lowering, size: Value) -> list[Expr]:
    operand = lowering.operand(size)
    return list(operand) if isinstance(operand, tuple) else [operand]


def _filled(lowering: Lowering, target: ArrayRef, number: Expr) -> ArrayRef:
    """Fill an array, one number after the other."""
    with lowering.emitter.loop("place", ZERO, lowering.size(target.dims)) as place:
        lowering.emitter.emit(Store(target.pointer, place, number, target.root))
    return target


def _permuted(drawing: _Drawing, target: ArrayRef) -> ArrayRef:
    """Durstenfeld's shuffle, from the end (Communications of the ACM 7, algorithm 235)."""
    emitter, (count,) = drawing.lowering.emitter, target.dims
    with emitter.loop("place", ZERO, count) as place:
        emitter.emit(Store(target.pointer, place, place, target.root))
    with emitter.loop("step", ONE, count) as step:
        last = emitter.let("last", subtract(count, step))
        drawn = drawing.call("interval", Cast(last, "uint64"), dtype="uint64")
        other = emitter.let("other", Cast(drawn, "int64"))
        kept = emitter.let("kept", Load(target.pointer, last, "int64", target.root))
        moved = Load(target.pointer, other, "int64", target.root)
        emitter.emit(Store(target.pointer, last, moved, target.root))
        emitter.emit(Store(target.pointer, other, kept, target.root))
    return target


def _generator(lowering: Lowering, value: Value) -> Expr:
    if value.constant is None:
        found: Expr = lowering.operand(value)
        return found
    if value.constant_value is not GLOBAL:
        raise NotNative("a generator that is a constant")
    if lowering.global_generator is None:
        lowering.global_generator = Var(lowering.emitter.unique("global_generator"), "ptr")
    return lowering.global_generator


def _float(value: float) -> Const:
    return Const(value, "float64")


def _is_signed(x: Expr) -> Expr:
    """Whether a number has the sign bit."""
    return compare("lt", Binary("copysign", _float(1.0), x, "float64"), _float(0.0))


def _is_number(x: Expr) -> Expr:
    return compare("eq", x, x)


_LARGEST: Final = np.iinfo(np.int64).max
_LARGEST_MEAN: Final = float(_LARGEST - np.sqrt(_LARGEST) * 10)
"""Of Poisson's distribution (numpy/random/_common.pyx, ``POISSON_LAM_MAX``)."""

_WRONG: dict[str, Callable[[Expr], Expr]] = {
    "< 0": lambda x: both(_is_number(x), _is_signed(x)),
    "<= 0": lambda x: compare("le", x, _float(0.0)),
    "< 0 or {} is NaN": lambda x: not_(compare("ge", x, _float(0.0))),
    "value too large": lambda x: compare("gt", x, _float(_LARGEST_MEAN)),
    "<= 0, p > 1 or p contains NaNs": lambda x: not_(
        both(compare("gt", x, _float(0.0)), compare("le", x, _float(1.0)))
    ),
}
"""What arguments must not be, by how NumPy's errors say it."""


def _function(name: str, *refused: tuple[str, str], dtype: str = "float64") -> Form:
    """A function of NumPy's; arguments of these names must not be such."""

    def form(drawing: _Drawing) -> Expr:
        numbers = drawing.numbers()
        for parameter, wrong in refused:
            message = f"{parameter} {wrong.format(parameter)}"
            drawing.refuse(_WRONG[wrong](drawing.real(parameter)), message)
        return drawing.call(name, *numbers, dtype=dtype)

    return form


_SCALE = ("scale", "< 0")


def _legacy_normal(drawing: _Drawing) -> Expr:
    drawing.refuse(_WRONG["< 0"](drawing.real("scale")), "scale < 0")
    scaled = Binary("mul", drawing.real("scale"), drawing.call("legacy_normal"), "float64")
    return Binary("add", drawing.real("loc"), scaled, "float64")


def _legacy_exponential(drawing: _Drawing) -> Expr:
    drawing.refuse(_WRONG["< 0"](drawing.real("scale")), "scale < 0")
    return Binary("mul", drawing.real("scale"), drawing.call("legacy_exponential"), "float64")


def _uniform(*, is_ordered: bool) -> Form:
    """A number between two; new generators want them in order."""

    def form(drawing: _Drawing) -> Expr:
        low, high = drawing.real("low"), drawing.real("high")
        range_ = drawing.lowering.emitter.let("range", Binary("sub", high, low, "float64"))
        finite = _is_number(Binary("sub", range_, range_, "float64"))
        what = "high - low range" if is_ordered else "Range"
        drawing.refuse(not_(finite), f"{what} exceeds valid bounds", OverflowError)
        if is_ordered:
            drawing.refuse(_is_signed(range_), "high - low < 0")
        return drawing.call("uniform", low, range_)

    return form


def _integers(*, is_masked: bool) -> Form:
    """An integer below another one; old generators draw until the low bits are small enough."""

    def form(drawing: _Drawing) -> Expr:
        low: Expr = ZERO
        high = drawing.integer("low")
        if "high" in drawing.arguments:
            low, high = high, drawing.integer("high")
        endpoint = drawing.arguments.get("endpoint")
        is_open = endpoint is None or endpoint.constant_value is False
        empty = compare("ge" if is_open else "gt", low, high)
        if drawing.row.size in drawing.arguments:
            # NumPy looks at the bounds where it draws anything.
            count = product(_extents(drawing.lowering, drawing.arguments[drawing.row.size]))
            empty = both(empty, compare("ne", count, ZERO))
        relation = ("<=", ">=") if is_open else ("<", ">")
        drawing.refuse(both(compare("eq", low, ZERO), empty), f"high {relation[0]} 0")
        drawing.refuse(empty, f"low {relation[1]} high")
        last = Binary("sub", high, ONE, "int64") if is_open else high
        let = drawing.lowering.emitter.let
        reach = let("reach", Cast(Binary("sub", last, low, "int64"), "uint64"))
        mask = let("mask", _mask(reach)) if is_masked else Const(0, "uint64")
        bounds = (Cast(low, "uint64"), reach, mask, TRUE if is_masked else FALSE)
        return Cast(drawing.call("bounded_uint64", *bounds, dtype="uint64"), "int64")

    return form


def _mask(reach: Expr) -> Expr:
    """The least number of the form 2**k - 1 that is not below another one."""
    # For 0, which draws nothing, any mask will do.
    zeros = Unary("clz", Binary("or", reach, Const(1, "uint64"), "uint64"), "uint64")
    return Binary("shr", Const(2**64 - 1, "uint64"), zeros, "uint64")


_ALIKE: dict[str, Form] = {
    "laplace": _function("laplace", _SCALE),
    "gumbel": _function("gumbel", _SCALE),
    "logistic": _function("logistic", _SCALE),
    "poisson": _function(
        "poisson", ("lam", "< 0 or {} is NaN"), ("lam", "value too large"), dtype="int64"
    ),
}

_FORMS: dict[PrimType, dict[str, Form]] = {
    GENERATOR: {
        **_ALIKE,
        "random": _function("standard_uniform"),
        "uniform": _uniform(is_ordered=True),
        "integers": _integers(is_masked=False),
        "standard_normal": _function("standard_normal"),
        "normal": _function("normal", _SCALE),
        "standard_exponential": _function("standard_exponential"),
        "exponential": _function("exponential", _SCALE),
        "standard_gamma": _function("standard_gamma", ("shape", "< 0")),
        "standard_cauchy": _function("standard_cauchy"),
        "gamma": _function("gamma", ("shape", "< 0"), _SCALE),
        "beta": _function("beta", ("a", "<= 0"), ("b", "<= 0")),
        "rayleigh": _function("rayleigh", _SCALE),
        "lognormal": _function("lognormal", ("sigma", "< 0")),
        "wald": _function("wald", ("mean", "<= 0"), ("scale", "<= 0")),
        "geometric": _function("geometric", ("p", "<= 0, p > 1 or p contains NaNs"), dtype="int64"),
        "pareto": _function("pareto", ("a", "<= 0")),
        "power": _function("power", ("a", "<= 0")),
        "weibull": _function("weibull", ("a", "< 0")),
        "chisquare": _function("chisquare", ("df", "<= 0")),
        "standard_t": _function("standard_t", ("df", "<= 0")),
    },
    RANDOM_STATE: {
        **_ALIKE,
        "random_sample": _function("standard_uniform"),
        "uniform": _uniform(is_ordered=False),
        "randint": _integers(is_masked=True),
        "standard_normal": _function("legacy_normal"),
        "normal": _legacy_normal,
        "standard_exponential": _function("legacy_exponential"),
        "exponential": _legacy_exponential,
    },
}

RULES: dict[str, Rule] = {"prim::CallMethod": _draw}
