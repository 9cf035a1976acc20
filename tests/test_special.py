# mypy: allow-untyped-defs, allow-untyped-calls
"""The functions of ``scipy.special`` that are native, and the gamma functions of ``math``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy
from scipy import special
from scipy.special import erf as error_function
from test_vecmath import assert_accurate, exact_values, special_values

from checking import check
from jitcore import ScriptFunction, script
from jitcore.ir.ops.special import OPS

FORMATS = ["float32", "float64"]
NAMES = [op.kind.removeprefix("special::") for op in OPS]
UFUNCS = {name: getattr(special, name) for name in NAMES}


def mp_log_ndtr(x: Any) -> Any:
    return mpmath.log(mpmath.ncdf(x)) if x < 0 else mpmath.log1p(-mpmath.ncdf(-x))


# The exact function, and intervals that are tricky.
UNARY: dict[str, tuple[Callable[[Any], Any], list[tuple[float, float]]]] = {
    "erf": (mpmath.erf, [(-1, 1), (0, 6)]),
    "erfc": (mpmath.erfc, [(-1, 1), (0, 26)]),
    "erfcx": (
        lambda x: mpmath.exp(x * x) * mpmath.erfc(x),
        [(-1, 1), (-9, 5), (10, 11), (26, 29), (0, 1e4)],
    ),
    "expit": (lambda x: 1 / (1 + mpmath.exp(-x)), [(-5, 5), (-80, 40)]),
    "logit": (
        lambda x: mpmath.log(x / (1 - x)),
        [(1e-9, 1), (0.2, 0.3), (0.45, 0.55), (0.7, 0.8), (0.999, 0.9999)],
    ),
    "log_expit": (lambda x: -mpmath.log1p(mpmath.exp(-x)), [(-5, 5), (-80, 80)]),
    "ndtr": (mpmath.ncdf, [(-1, 1), (0.6, 0.8), (-0.8, -0.6), (-12, 8)]),
    "log_ndtr": (mp_log_ndtr, [(-1, 1), (0.6, 0.8), (-0.8, -0.6), (-12, 8), (-1e3, -10)]),
    "gamma": (mpmath.gamma, [(0.5, 3), (1e-3, 10), (8, 9), (10, 34), (-5, 0), (-30, -5)]),
    "gammaln": (
        mpmath.loggamma,
        [(0.5, 3), (0.7, 0.8), (0.9, 1.1), (1.9, 2.1), (2.4, 2.6), (1e-3, 10), (8, 9), (10, 1e6)],
    ),
    "entr": (lambda x: -x * mpmath.log(x), [(0.5, 2), (0, 100)]),
    "exprel": (lambda x: mpmath.expm1(x) / x, [(-1, 1), (-30, 80)]),
    "exp10": (lambda x: mpmath.power(10, x), [(-1, 1), (-37, 38)]),
    "exp2": (lambda x: mpmath.power(2, x), [(-1, 1), (-120, 120)]),
    "expm1": (mpmath.expm1, [(-1, 1), (-30, 80)]),
    "log1p": (mpmath.log1p, [(-0.9, 1), (0, 1e9)]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), [(-1, 1), (1, 1e9)]),
}

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "xlogy": lambda x, y: x * mpmath.log(y),
    "xlog1py": lambda x, y: x * mpmath.log1p(y),
    "rel_entr": lambda x, y: x * mpmath.log(x / y),
}


def compiled(name: str) -> ScriptFunction:
    ufunc = UFUNCS[name]
    return script((lambda x, y: ufunc(x, y)) if name in BINARY else (lambda x: ufunc(x)))


def test_every_function_is_measured() -> None:
    assert sorted(NAMES) == sorted([*UNARY, *BINARY])


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", UNARY)
def test_errors_are_below_four_ulp(name: str, dtype: str) -> None:
    exact, intervals = UNARY[name]
    generator = np.random.default_rng(11)
    x = np.concatenate([generator.uniform(low, high, 200) for low, high in intervals])
    x = x.astype(dtype)
    with mpmath.workprec(200):
        wanted = exact_values(exact, x)
    assert_accurate(name, (x,), compiled(name)(x), wanted)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_errors_of_two_operands_are_below_four_ulp(name: str, dtype: str) -> None:
    generator = np.random.default_rng(12)
    x = np.exp(generator.uniform(-20, 20, 600)).astype(dtype)
    y = (x * generator.uniform(0.999, 1.001, 600)).astype(dtype)
    y[::2] = np.exp(generator.uniform(-20, 20, 300))
    x, y = x[x != y], y[x != y]
    with mpmath.workprec(200):
        wanted = exact_values(BINARY[name], x, y)
    assert_accurate(name, (x, y), compiled(name)(x, y), wanted)


def assert_same_special_values(got: np.ndarray, wanted: np.ndarray) -> None:
    """NaN, infinities and signs are SciPy's; other values within a few digits."""
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    known = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(wanted)[known])
    np.testing.assert_array_equal(got[np.isinf(wanted)], wanted[np.isinf(wanted)])
    tolerance = 100 * float(np.finfo(got.dtype).eps)
    np.testing.assert_allclose(got[known], wanted[known], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", NAMES)
def test_special_values_are_those_of_scipy(name: str, dtype: str) -> None:
    points = special_values(dtype)
    grid = np.meshgrid(points, points) if name in BINARY else [points]
    operands = [one.ravel() for one in grid]
    with np.errstate(all="ignore"):
        wanted = UFUNCS[name](*operands)
        got = compiled(name)(*operands)
    assert_same_special_values(got, wanted)


def gelu(x):
    return 0.5 * x * (1 + error_function(x / math.sqrt(2)))


def through_modules(x, out):
    scipy.special.expit(x, out=out)
    return special.xlogy(out, 2.0) + special.gammaln(x + 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_functions_of_scipy_are_native_however_they_are_named(dtype: str) -> None:
    x = np.linspace(-2, 3, 7).astype(dtype)
    found = check(gelu, x, ulp=8)
    assert "np::call" not in str(found.graph)
    assert [kernel.name for kernel in found.kernels]
    check(through_modules, x.astype(np.float64), np.empty(7), ulp=32)


def test_complex_numbers_stay_with_scipy() -> None:
    check(gelu, np.linspace(-2, 3, 7) * (1 + 0.5j), ulp=8)


def test_another_function_of_that_name_is_not_scipys() -> None:
    def erf(x):
        return x + 1

    def call(x):
        return erf(x)

    check(call, np.arange(3.0))


@pytest.mark.parametrize("name", ["gamma", "lgamma"])
@pytest.mark.parametrize(
    "x",
    [0.5, 1.0, 2.0, 5.0, 171.5, -0.5, -3.5, 1e-310, 0.0, -0.0, -1.0, 172.0, 1e306,
     math.inf, -math.inf, math.nan],
)  # fmt: skip
def test_gamma_functions_of_math(name: str, x: float) -> None:
    function = getattr(math, name)
    check(lambda value: function(value), x, ulp=16)
