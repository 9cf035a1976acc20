"""Vector math: scalar functions in loop IR that LLVM vectorizes.

Functions are branch-free: both sides of a condition are computed and one is selected.  So a loop
that calls one becomes vector code, without a vector math library.  Only a few, whose work on usual
arguments is a small part of that on all, branch to one of two others (`Branch`).  Errors stay below
4 units in the last place over the whole range; NaN, infinities, zeros and subnormal numbers are
treated as NumPy does.  The functions themselves are in the files beside this one, as plain Python.
Tables have them as ``file.function``: a program needs a few, and only their files are imported.
"""

from __future__ import annotations

from functools import cache, reduce
from importlib import import_module
from typing import Any, Final

from jitcore.codegen import loops, scalar
from jitcore.codegen.scalar.constant_divisors import DIVISIONS
from jitcore.ir.dataclass import dataclass

__all__ = ["Branch", "branch", "function", "names", "on_device", "shared"]

_FLOAT: Final = {
    "arccos": "arcs.arccos",
    "arccosh": "logarithm.arccosh",
    "arcsin": "arcs.arcsin",
    "arcsinh": "logarithm.arcsinh",
    "arctan": "arcs.arctan",
    "arctan2": "arcs.arctan2",
    "arctanh": "logarithm.arctanh",
    "cbrt": "power.cbrt",
    "complex_absolute": "parts.complex_absolute",
    "complex_divide_im": "parts.complex_divide_im",
    "complex_divide_re": "parts.complex_divide_re",
    "complex_exp_im": "complex.complex_exp_im",
    "complex_exp_re": "complex.complex_exp_re",
    "cos": "trigonometry.cos",
    "cos_anywhere": "trigonometry.cos",
    "cos_moderate": "trigonometry.cos_moderate",
    "cosh": "exponential.cosh",
    "divide": "float_division.divide",
    "erf": "error.erf",
    "erfc": "error.erfc",
    "erfcx": "error.erfcx",
    "exp": "exponential.exp",
    "exp2": "exponential.exp2",
    "expm1": "exponential.expm1",
    "floor_divide": "float_division.floor_divide",
    "floor_divide_anywhere": "float_division.floor_divide",
    "floor_divide_moderate": "float_division.floor_divide_moderate",
    "fmax": "float.fmax",
    "fmin": "float.fmin",
    "fmod": "float_division.fmod",
    "fmod_anywhere": "float_division.fmod",
    "fmod_moderate": "float_division.fmod_moderate",
    "gamma": "gamma.gamma",
    "gammaln": "gamma.gammaln",
    "heaviside": "float.heaviside",
    "hypot": "power.hypot",
    "hypot_of_scalars": "power.hypot_of_scalars",
    "ldexp": "float.ldexp",
    "log": "logarithm.log",
    "log10": "logarithm.log10",
    "log1p": "logarithm.log1p",
    "log2": "logarithm.log2",
    "log_ndtr": "error.log_ndtr",
    "logaddexp": "float.logaddexp",
    "logaddexp2": "float.logaddexp2",
    "logit": "logarithm.logit",
    "ndtr": "error.ndtr",
    "nextafter": "float.nextafter",
    "pow": "power.pow",
    "power_in_arrays": "power.power_in_arrays",
    "rel_entr": "logarithm.rel_entr",
    "remainder": "float_division.remainder",
    "remainder_anywhere": "float_division.remainder",
    "remainder_by_constant": "float_division.remainder_by_constant",
    "remainder_by_constant_anywhere": "float_division.remainder_by_constant",
    "remainder_by_constant_moderate": "float_division.remainder_by_constant_moderate",
    "remainder_moderate": "float_division.remainder_moderate",
    "root": "roots.root",
    "sigmoid": "exponential.sigmoid",
    "sign": "float.sign",
    "sin": "trigonometry.sin",
    "sin_anywhere": "trigonometry.sin",
    "sin_moderate": "trigonometry.sin_moderate",
    "sinh": "exponential.sinh",
    "spacing": "float.spacing",
    "tan": "trigonometry.tan",
    "tan_anywhere": "trigonometry.tan",
    "tan_moderate": "trigonometry.tan_moderate",
    "tanh": "exponential.tanh",
    "turned_sine": "trigonometry.turned_sine",
    "turned_sine_anywhere": "trigonometry.turned_sine",
    "turned_sine_moderate": "trigonometry.turned_sine_moderate",
}

_FLOAT32: Final = _FLOAT | {
    "complex_exp_im_single": "single.complex_exp_im_single",
    "complex_exp_re_single": "single.complex_exp_re_single",
    "cos_single": "single.cos_single",
    "cos_single_anywhere": "single.cos_single",
    "pow_anywhere": "power.pow",
    "pow_moderate": "power.pow_moderate",
    "gamma_single": "gamma.gamma_single",
    "pow_single": "single.pow_single",
    "sin_single": "single.sin_single",
    "sin_single_anywhere": "single.sin_single",
    "tan_single": "single.tan_single",
    "tan_single_anywhere": "single.tan_single",
}

_OF_LIBDEVICE: Final = "_of_libdevice"

_HOSTS_OWN: Final = {"power_in_arrays": "pow", "hypot_of_scalars": "hypot"}
"""Functions that are the host's libraries' own, and what is as exact elsewhere."""


@dataclass(frozen=True, slots=True)
class Branch:
    """How a function branches.

    Parameters
    ----------
    bound : float or int
        The first of both functions serves arguments whose magnitudes are below it.
    moderate, anywhere : str
        The names of both functions.  The second gives the same values below the bound, too.
    of_quotient : bool
        Not the arguments but the first divided by the second is below the bound.
    of_first : bool
        Only the first argument is below the bound.
    one_by_one : bool
        So few programs have finite arguments from the bound on that these are not worth a vector,
        which takes long to compile.  Of what is not finite the first function gives NaN, too.
    least : float
        Where it is not 0, the first argument is no less.
    """

    bound: float
    moderate: str
    anywhere: str
    of_quotient: bool = False
    of_first: bool = False
    one_by_one: bool = False
    least: float = 0.0


_POWERS: Final = ("pow", "power_in_arrays")

_ANGLES: Final = ("cos", "sin", "tan", "turned_sine")

_SIGNED: Final = {
    "floor_divide": "integer.floor_divide",
    "floor_divide_by_constant": "integer.floor_divide_by_constant",
    "fmod": "integer.fmod",
    "fmod_by_constant": "integer.fmod_by_constant",
    "remainder": "integer.remainder",
    "remainder_by_constant": "integer.remainder_by_constant",
    "shift_left": "parts.shift_left",
    "shift_right": "parts.shift_right",
    "sign": "integer.sign",
}

_UNSIGNED: Final = _SIGNED | {
    "floor_divide": "integer.floor_divide_unsigned",
    "floor_divide_by_constant": "integer.quotient_by_constant",
    "fmod_by_constant": "integer.remainder_by_constant_unsigned",
    "remainder": "integer.fmod",
    "remainder_by_constant": "integer.remainder_by_constant_unsigned",
    "shift_right": "parts.shift_right_unsigned",
    "sign": "integer.sign_unsigned",
}

_MODERATE: Final = {
    "floor_divide_moderate": "long_division.floor_divide_moderate",
    "fmod_moderate": "long_division.fmod_moderate",
    "remainder_moderate": "long_division.remainder_moderate",
}

# Integers of 64 bits also have the functions that their divisions of vectors branch to.
_LONG: Final = {
    "int64": _SIGNED
    | _MODERATE
    | {
        "floor_divide_anywhere": "long_division.floor_divide",
        "fmod_anywhere": "long_division.fmod",
        "remainder_anywhere": "long_division.remainder",
    },
    "uint64": _UNSIGNED
    | _MODERATE
    | {
        "floor_divide_anywhere": "long_division.floor_divide_unsigned",
        "fmod_anywhere": "long_division.remainder_unsigned",
        "remainder_anywhere": "long_division.remainder_unsigned",
    },
}

_LOOPS: Final = ("gcd", "lcm", "pow")
"""The functions of integers that need a loop."""

# Parameters of another dtype than the result's.
_PARAMETERS: Final = {"ldexp": {"n": "int64"}}

# All others are computed in float32 (`scalar`).
_FLOAT16: Final = {
    "fmax": "float.fmax",
    "fmin": "float.fmin",
    "nextafter": "float.nextafter",
    "spacing": "float.spacing_float16",
}

_TABLES: Final = {"float16": _FLOAT16, "float32": _FLOAT32, "float64": _FLOAT}
_FLOATS: Final = tuple(_TABLES)
_INTEGERS: Final = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def _table(dtype: str) -> dict[str, str]:
    if dtype in _FLOATS:
        return _TABLES[dtype]
    if dtype not in _INTEGERS:
        raise KeyError(f"there is no vector math for {dtype}")
    return _LONG.get(dtype, _UNSIGNED if dtype.startswith("u") else _SIGNED)


def names(dtype: str) -> frozenset[str]:
    """The names of all functions for this dtype, but for those that only devices have."""
    known = frozenset(_table(dtype))
    return known if dtype in _FLOATS else known.union(_LOOPS)


@cache
def function(name: str, dtype: str) -> loops.Function:
    """A function of vector math.

    Parameters
    ----------
    name : str
        NumPy's or SciPy's name, but ``pow`` for ``power`` and ``sigmoid`` for ``expit``.
    dtype : str
        The dtype of the result and of the parameters; ``ldexp`` takes its exponent in int64.

    Returns
    -------
    Function
        A scalar function that ends in a ``Return``.  Trigonometric functions and divisions of
        floats are a branch to one of two others (`branch`).  For integers ``pow``, ``gcd`` and
        ``lcm`` hold a loop, all others are assignments only; ``pow`` needs a non-negative exponent
        there.

    Raises
    ------
    KeyError
        When there is none of this name for this dtype.
    """
    if dtype == "float32" and name.endswith(_OF_LIBDEVICE):
        wanted = _read("libdevice.FUNCTIONS")[name.removesuffix(_OF_LIBDEVICE)]
        return scalar.function(wanted, dtype, None, f"{name}_{dtype}")
    if name not in names(dtype):
        raise KeyError(f"there is no vector math function {name!r} for {dtype}")
    table = _table(dtype)
    if dtype in _INTEGERS and name in _LOOPS:
        made: loops.Function = _read("integer.LOOPS")[name](dtype)
        return made
    between = branch(name, dtype) if dtype in _FLOATS else None
    if between is not None:
        return _branching(name, dtype, between)
    parameters = _PARAMETERS.get(name)
    return scalar.function(_read(table[name]), dtype, parameters, f"{name}_{dtype}")


def on_device(name: str, dtype: str) -> str:
    """What takes a function's place on a device: float32 do without a float64 there."""
    own = _HOSTS_OWN.get(name, name)
    if dtype != "float32":
        return own
    single = f"{own}_single"
    if own in _read("libdevice.FUNCTIONS"):
        return own + _OF_LIBDEVICE
    return single if single in _FLOAT32 else own


@cache
def branch(name: str, dtype: str) -> Branch | None:
    """How a function branches when it computes vectors; None where it does not.

    Integers of 64 bits divide as vectors of float64.  The function of one number is a straight
    line, as processors have an instruction for that.
    """
    if dtype in _LONG:
        if name not in DIVISIONS:
            return None
        return Branch(_read("long_division.MODERATE"), f"{name}_moderate", f"{name}_anywhere")
    if dtype not in ("float32", "float64"):
        return None
    if name in {*DIVISIONS, "remainder_by_constant"}:
        bound = _read("float_division.MODERATE")[dtype]
        return Branch(bound, f"{name}_moderate", f"{name}_anywhere", of_quotient=True)
    if name in _POWERS and dtype == "float32":
        least, bound = _read("power.LEAST"), _read("power.LARGEST")
        return Branch(bound, "pow_moderate", "pow_anywhere", least=least)
    angle = name.removesuffix("_single") if dtype == "float32" else name
    if angle not in _ANGLES or name not in names(dtype):
        return None
    bound = _read("trigonometry.MODERATE")[dtype]
    callees = f"{angle}_moderate", f"{name}_anywhere"
    return Branch(bound, *callees, of_first=True, one_by_one=dtype == "float64")


def shared(call: loops.Call) -> loops.Call:
    """A call of the function that has the same code as others, so that it is compiled once.

    Sines and cosines are the sine in some quarter of a turn.
    """
    if call.dtype not in ("float32", "float64") or call.name not in ("cos", "sin"):
        return call
    (angle,) = call.args
    if call.name == "cos":
        angle = loops.Unary("fabs", angle, call.dtype)
    shifter = _read("formats.FORMATS")[call.dtype].shifter
    turn = loops.Const(shifter + _read("trigonometry.TURNS")[call.name], call.dtype)
    return loops.Call("turned_sine", (angle, turn), call.dtype)


def _branching(name: str, dtype: str, between: Branch) -> loops.Function:
    wanted = scalar.function(_read(_table(dtype)[name]), dtype)
    x = wanted.params[0]
    limit: loops.Expr = loops.Const(between.bound, dtype)
    if between.of_quotient:
        divisor = loops.Unary("fabs", wanted.params[1], dtype)
        limit = loops.Binary("mul", divisor, limit, dtype)
    test = _is_below(x, limit)
    if between.least:
        least = loops.Const(between.least, dtype)
        tests = [
            loops.Binary("ge", x, least, "bool"),
            *(_is_below(y, limit) for y in wanted.params),
        ]
        test = reduce(lambda one, other: loops.Binary("and", one, other, "bool"), tests)
    moderate, anywhere = (
        loops.Return(loops.Call(callee, tuple(wanted.params), dtype))
        for callee in (between.moderate, between.anywhere)
    )
    body: list[loops.Stmt] = [loops.If(test, [moderate], []), anywhere]
    return loops.Function(f"{name}_{dtype}", wanted.params, body, dtype, wanted.doc)


def _is_below(x: loops.Expr, limit: loops.Expr) -> loops.Binary:
    return loops.Binary("lt", loops.Unary("fabs", x, x.dtype), limit, "bool")


def _read(place: str) -> Any:
    """What a file beside this one has under a name, from ``file.name``."""
    file, _, name = place.partition(".")
    return getattr(import_module(f"{__name__}.{file}"), name)
