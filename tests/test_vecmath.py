"""Vector math against mpmath, extended precision and NumPy itself."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from loop_kernels import FLOATS, INTEGERS, assert_same_bits, c_function, compiled, elementwise

import jitcore
from checking import check
from jitcore.codegen import loops, vecmath
from jitcore.codegen.engine import CompiledModule
from jitcore.codegen.scalar.constant_divisors import constant_divisor

FORMATS = ["float32", "float64"]
ULP_LIMIT = 4.0


@cache
def kernel(name: str, dtype: str, contract: bool = False) -> tuple[loops.Function, CompiledModule]:
    """A compiled loop over one function of vector math."""
    params = [param.dtype for param in vecmath.function(name, dtype).params]
    function = elementwise(
        f"{name}_{dtype}_loop", params, lambda v: [loops.Call(name, tuple(v), dtype)]
    )
    return function, compiled(function, contract)


def run(name: str, dtype: str, *arrays: np.ndarray, contract: bool = False) -> np.ndarray:
    if dtype == "float16" and name not in vecmath.names(dtype):
        # As compiled code does: most functions of float16 are those of float32, rounded.
        result = run(name, "float32", *arrays, contract=contract)
        with np.errstate(over="ignore"):
            return result.astype(dtype)
    function, module = kernel(name, dtype, contract)
    params = vecmath.function(name, dtype).params
    inputs = [
        np.ascontiguousarray(array, param.dtype)
        for array, param in zip(arrays, params, strict=True)
    ]
    result = np.zeros(len(inputs[0]), dtype)
    call = c_function(function, module.address(function.name), module)
    assert call(*inputs, result, len(result)) == 0
    return result


def random_bits(dtype: str, count: int, seed: int) -> np.ndarray:
    """Numbers of every magnitude, NaN and infinity among them."""
    unsigned = f"uint{8 * np.dtype(dtype).itemsize}"
    generator = np.random.default_rng(seed)
    limit = np.iinfo(unsigned).max
    return generator.integers(0, limit, count, dtype=unsigned, endpoint=True).view(dtype)


def special_values(dtype: str) -> np.ndarray:
    info = np.finfo(dtype)
    one = np.ones((), dtype)[()]
    positive = [
        0.0, info.smallest_subnormal, info.tiny, info.tiny / 2, info.eps, 0.25, 0.5, 1.0,
        np.nextafter(one, 0 * one), np.nextafter(one, 2 * one), 1.5, 2.0, 2.5, 3.0, 5.0, 1e3,
        info.max, np.inf,
    ]  # fmt: skip
    values = np.array(positive, dtype)
    return np.concatenate([values, -values, np.array([np.nan], dtype)])


def ulps(got: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the exact value; infinity counts as 2**max_exponent."""
    info = np.finfo(got.dtype)
    wide = exact.dtype.type
    infinity = np.ldexp(wide(1), info.maxexp)
    value, wanted = got.astype(exact.dtype), exact.copy()
    for array in (value, wanted):
        over = np.abs(array) >= infinity
        array[over] = np.copysign(infinity, array[over])
    _, exponent = np.frexp(wanted)
    exponent = np.clip(exponent, info.minexp + 1, info.maxexp)
    errors = np.abs(value - wanted) / np.ldexp(wide(1), exponent - info.nmant - 1)
    errors[np.isnan(value) & np.isnan(wanted)] = 0
    return np.asarray(np.where(np.isnan(errors), np.inf, errors), dtype=np.float64)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def mp_expm1(x: Any) -> Any:
    return mpmath.expm1(x)


def mp_sigmoid(x: Any) -> Any:
    return 1 / (1 + mpmath.exp(-x))


def mp_domain(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """NaN where the real function has no value."""

    def real(x: Any) -> Any:
        value = function(x)
        return mpmath.nan if isinstance(value, mpmath.mpc) else value

    return real


def mp_erfc(x: Any) -> Any:
    """mpmath's own fails for huge arguments where gmpy2 is not installed."""
    if abs(x) > 1000:
        return mpmath.mpf(0 if x > 0 else 2)
    return mpmath.erfc(x)


# Name: mpmath's function, and intervals that are tricky beside the whole line.
UNARY: dict[str, tuple[Callable[[Any], Any], list[tuple[float, float]]]] = {
    "arccos": (mp_domain(mpmath.acos), [(-1, 1), (0.49, 0.51), (0.999, 1), (-1, -0.999)]),
    "arccosh": (mp_domain(mpmath.acosh), [(1, 10), (1, 1.01), (1, 1e12)]),
    "arcsin": (mp_domain(mpmath.asin), [(-1, 1), (0.49, 0.51), (0.999, 1)]),
    "arcsinh": (mpmath.asinh, [(-1, 1), (0, 20), (0, 1e12)]),
    "arctan": (mpmath.atan, [(-1, 1), (0.4, 0.45), (2.3, 2.5), (0, 1000)]),
    "arctanh": (mp_domain(mpmath.atanh), [(-1, 1), (-0.1, 0.1), (0.99, 1)]),
    "cbrt": (lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)), [(-1, 1), (1, 8)]),
    "cos": (mpmath.cos, [(-4, 4), (1.5, 1.6), (-1e6, 1e6)]),
    "cosh": (mpmath.cosh, [(-2, 2), (85, 92), (-712, 712)]),
    "erf": (mpmath.erf, [(-1, 1), (0.45, 0.55), (0, 6)]),
    "erfc": (mp_erfc, [(-1, 1), (0.45, 0.55), (0, 28), (9, 10.5)]),
    "exp": (mpmath.exp, [(-1, 1), (-104, 90), (-746, 711)]),
    "exp2": (lambda x: mpmath.power(2, x), [(-1, 1), (-151, 129), (-1076, 1025)]),
    "expm1": (mp_expm1, [(-1, 1), (0.3, 0.4), (-40, 90), (709, 710)]),
    "log": (mp_domain(mpmath.log), [(0, 10), (0.5, 2), (0.99, 1.01)]),
    "log10": (mp_domain(mpmath.log10), [(0, 10), (0.5, 2), (0.99, 1.01)]),
    "log1p": (mp_domain(mpmath.log1p), [(-1, 1), (0.4, 0.42), (-0.3, -0.28), (0, 1e19)]),
    "log2": (mp_domain(lambda x: mpmath.log(x, 2)), [(0, 10), (0.5, 2), (0.99, 1.01)]),
    "sigmoid": (mp_sigmoid, [(-5, 5), (-110, 50), (-750, 50)]),
    "sin": (mpmath.sin, [(-4, 4), (3.1, 3.2), (-1e6, 1e6)]),
    "sinh": (mpmath.sinh, [(-2, 2), (85, 92), (-712, 712)]),
    "tan": (mpmath.tan, [(-4, 4), (1.5, 1.6), (-1e6, 1e6)]),
    "tanh": (mpmath.tanh, [(-1, 1), (-20, 20), (0.2, 0.3)]),
}


def unary_points(name: str, dtype: str, count: int) -> np.ndarray:
    generator = np.random.default_rng(7)
    parts = [special_values(dtype), random_bits(dtype, count, seed=5)]
    parts += [generator.uniform(low, high, count).astype(dtype) for low, high in UNARY[name][1]]
    return np.concatenate(parts)


def assert_accurate(
    what: str, points: tuple[np.ndarray, ...], got: np.ndarray, exact: np.ndarray
) -> None:
    errors = ulps(got, exact)
    worst = int(np.argmax(errors))
    where = [array[worst] for array in points]
    assert errors[worst] < ULP_LIMIT, f"{what}{where} gives {got[worst]}, not {exact[worst]}"


def exact_values(function: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """mpmath's values at finite points, in float64 or, where there is one, a wider type."""
    values = []
    for arguments in zip(*arrays, strict=True):
        value = function(*(mpmath.mpf(float(argument)) for argument in arguments))
        high = np.longdouble(float(value))
        rest = value - mpmath.mpf(float(value)) if mpmath.isfinite(high) else mpmath.mpf(0)
        values.append(high + np.longdouble(float(rest)))
    return np.array(values, np.longdouble)


def finite(points: np.ndarray, limit: float = np.inf) -> np.ndarray:
    return np.extract(np.abs(points) < limit, points)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", UNARY)
def test_error_against_mpmath(name: str, dtype: str) -> None:
    points = finite(unary_points(name, dtype, 60))
    poles = {"log", "log2", "log10", "log1p", "arctanh"}
    if name in poles:
        points = points[(points != 0) & (np.abs(points) != 1)]
    with mpmath.workprec(1300 if name in ("sin", "cos", "tan", "tanh", "arctanh") else 300):
        exact = exact_values(UNARY[name][0], points)
    assert_accurate(name, (points,), run(name, dtype, points), exact)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision")
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", sorted(UNARY.keys() - {"erf", "erfc"}))
def test_error_against_extended_precision(name: str, dtype: str) -> None:
    reference = sigmoid if name == "sigmoid" else getattr(np, name)
    points = unary_points(name, dtype, 10000)
    with np.errstate(all="ignore"):
        exact = reference(points.astype(np.longdouble))
    assert_accurate(name, (points,), run(name, dtype, points), exact)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ["arccos", "cbrt", "exp", "log", "log1p", "sin", "tanh"])
def test_contraction_leaves_vector_math_alone(name: str, dtype: str) -> None:
    points = unary_points(name, dtype, 10000)
    assert_same_bits(run(name, dtype, points, contract=True), run(name, dtype, points), name)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", sorted(UNARY.keys() - {"erf", "erfc", "sigmoid"}))
def test_special_values_are_those_of_numpy(name: str, dtype: str) -> None:
    points = special_values(dtype)
    got = run(name, dtype, points)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(points)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(got), np.isinf(expected))
    np.testing.assert_array_equal(got == 0, expected == 0)
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])


@pytest.mark.parametrize("dtype", FORMATS)
def test_special_values_of_functions_numpy_lacks(dtype: str) -> None:
    points = np.array([0, -0.0, np.inf, -np.inf, np.nan], dtype)
    np.testing.assert_array_equal(run("erf", dtype, points), [0, -0.0, 1, -1, np.nan])
    assert np.signbit(run("erf", dtype, points))[1]
    np.testing.assert_array_equal(run("erfc", dtype, points), [1, 1, 0, 2, np.nan])
    np.testing.assert_array_equal(run("sigmoid", dtype, points), [0.5, 0.5, 1, 0, np.nan])


# Multiples of pi / 2 to within 2**-60 of their size are the hardest arguments there are; the first
# is the worst of all float64 (Muller, Elementary Functions, 3rd ed., section 11.2).
HARD_ANGLES = [
    6381956970095103.0 * 2.0**797, 1e22, 1e300, 1.7e308, 2.0**1000, 2.0**53, 2.0**54 + 4, 3.5e18,
    np.pi, np.pi / 2, 355.0, 103993.0, 0.5, 0.7853981633974483, 5e-324, 1e-310, 2.0**40, 2.0**62,
    2.0**84, 2.0**106, 16367173.0 * 2.0**72, 13566125.0 * 2.0**-20,
]  # fmt: skip


def angles_near_zeros(limit: float) -> np.ndarray:
    """The float64 nearest to multiples of pi / 2, around convergents' denominators and others."""
    generator = np.random.default_rng(3)
    quarters = np.concatenate([2.0 ** np.arange(31), generator.integers(1, int(limit) // 2, 300)])
    with mpmath.workprec(200):
        half_pi = mpmath.pi / 2
        quarters = np.append(quarters, [float(denominator) for denominator in convergents(half_pi)])
        angles = [float(mpmath.mpf(float(quarter)) * half_pi) for quarter in quarters]
    return finite(np.array(angles), limit)


def convergents(value: Any) -> list[int]:
    """The denominators of a number's continued fraction: their multiples are nearly integers."""
    previous, denominator, rest = 0, 1, value
    denominators = [1]
    for _ in range(20):
        rest = 1 / (rest - mpmath.floor(rest))
        previous, denominator = denominator, int(mpmath.floor(rest)) * denominator + previous
        denominators.append(denominator)
    return denominators


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_moderate_angles_near_zeros(name: str) -> None:
    limit = 2.0**31
    points = np.concatenate([angles_near_zeros(limit), [np.nextafter(limit, 0), limit, 0.5]])
    points = np.concatenate([points, -points, np.nextafter(points, 0), np.nextafter(points, 1e300)])
    with mpmath.workprec(300):
        exact = exact_values(UNARY[name][0], points)
    assert_accurate(name, (points,), run(name, "float64", points), exact)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_moderate_float32_angles_near_zeros(name: str) -> None:
    zeros = (np.arange(2**16) * (np.pi / 2)).astype(np.float32)
    points = np.concatenate([zeros, np.nextafter(zeros, 0), np.nextafter(zeros, np.inf)])
    points = np.concatenate([points, -points])
    with mpmath.workprec(100):
        exact = exact_values(UNARY[name][0], points)
    assert_accurate(name, (points,), run(name, "float32", points), exact)


@pytest.mark.parametrize(
    ("dtype", "limit", "large"), [("float32", 2.0**16, 1e30), ("float64", 2.0**31, 1e300)]
)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_no_result_depends_on_its_neighbours(
    name: str, dtype: str, limit: float, large: float
) -> None:
    moderate = finite(unary_points(name, dtype, 5000), limit)
    alone = run(name, dtype, moderate)
    among = np.full((len(moderate), 7), large, dtype)
    among[:, 3] = moderate
    assert_same_bits(run(name, dtype, among.ravel()).reshape(-1, 7)[:, 3].copy(), alone, name)


@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_angles_of_all_sizes_side_by_side(name: str) -> None:
    random = np.random.default_rng(11)
    points = np.exp(random.uniform(-700, 700, 2000)) * random.choice([-1.0, 1.0], 2000)
    odd = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0])
    points[random.integers(0, 2000, 100)] = random.choice(odd, 100)
    found = run(name, "float64", points)
    kept = np.isfinite(points)
    assert np.isnan(found[~kept]).all()
    with mpmath.workprec(1400):
        exact = exact_values(UNARY[name][0], points[kept])
    assert_accurate(name, (points[kept],), found[kept], exact)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_hard_angles(name: str, dtype: str) -> None:
    with np.errstate(over="ignore"):
        points = finite(np.array(HARD_ANGLES).astype(dtype))
    neighbours = [np.nextafter(points, np.array(end, dtype)) for end in (0, np.inf)]
    points = finite(np.concatenate([points, -points, *neighbours]))
    with mpmath.workprec(1400):
        exact = exact_values(UNARY[name][0], points)
    assert_accurate(name, (points,), run(name, dtype, points), exact)


def pairs(dtype: str, ranges: list[Any], count: int) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of special values, pairs of any bits, and pairs from the ranges."""
    generator = np.random.default_rng(11)
    special = special_values(dtype)
    x, y = (grid.ravel() for grid in np.meshgrid(special, special))
    xs, ys = [x, random_bits(dtype, count, 1)], [y, random_bits(dtype, count, 2)]
    for low, high, low_y, high_y in ranges:
        xs.append(generator.uniform(low, high, count).astype(dtype))
        ys.append(generator.uniform(low_y, high_y, count).astype(dtype))
    return np.concatenate(xs), np.concatenate(ys)


BINARY: dict[str, tuple[Callable[..., Any], str, list[Any]]] = {
    "arctan2": (mpmath.atan2, "arctan2", [(-5, 5, -5, 5), (0.4, 0.45, 1, 1.1)]),
    "hypot": (mpmath.hypot, "hypot", [(-5, 5, -5, 5)]),
    "pow": (mpmath.power, "power", [(0, 10, -20, 20), (0.9, 1.1, -900, 900), (0.5, 2, -148, 128)]),
}


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_error_against_mpmath(name: str, dtype: str) -> None:
    x, y = pairs(dtype, BINARY[name][2], 150)
    # What mpmath would need too many digits for, or treats differently, is special_values' part.
    keep = (np.abs(x) > 1e-30) & (np.abs(x) < 1e30) & (np.abs(y) > 1e-30) & (np.abs(y) < 1e30)
    if name == "pow":
        keep &= (x > 0) & (np.abs(y) < 1e6)
    x, y = x[keep], y[keep]
    with mpmath.workprec(200):
        exact = exact_values(BINARY[name][0], x, y)
    assert_accurate(name, (x, y), run(name, dtype, x, y), exact)


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision")
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_error_against_extended_precision(name: str, dtype: str) -> None:
    x, y = pairs(dtype, BINARY[name][2], 10000)
    with np.errstate(all="ignore"):
        exact = getattr(np, BINARY[name][1])(x.astype(np.longdouble), y.astype(np.longdouble))
    assert_accurate(name, (x, y), run(name, dtype, x, y), exact)


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", BINARY)
def test_binary_special_values_are_those_of_numpy(name: str, dtype: str) -> None:
    x, y = pairs(dtype, [], 0)
    got = run(name, dtype, x, y)
    with np.errstate(all="ignore"):
        expected = getattr(np, BINARY[name][1])(x, y)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(expected))
    signed = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(expected)[signed])
    exceptional = (expected == 0) | np.isinf(expected)
    np.testing.assert_array_equal(got[exceptional], expected[exceptional])


def test_exact_results() -> None:
    for dtype in FORMATS:
        k = np.arange(-120, 120).astype(dtype)
        np.testing.assert_array_equal(run("log2", dtype, np.exp2(k)), k)
        np.testing.assert_array_equal(run("exp2", dtype, k), np.exp2(k))
        powers = np.array([10.0**n for n in range(20)], dtype)
        np.testing.assert_array_equal(run("log10", dtype, powers), np.arange(20))
        roots = np.arange(1, 200).astype(dtype)
        np.testing.assert_array_equal(run("cbrt", dtype, roots**3), roots)
        np.testing.assert_array_equal(run("pow", dtype, roots, np.full(199, 3, dtype)), roots**3)
        zero = np.zeros(1, dtype)
        assert [run(name, dtype, zero)[0] for name in ("exp", "cos", "cosh")] == [1, 1, 1]


NUMPY_EXACT = {
    "floor_divide": np.floor_divide,
    "remainder": np.remainder,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "heaviside": np.heaviside,
    "nextafter": np.nextafter,
}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", NUMPY_EXACT)
def test_bits_are_those_of_numpy(name: str, dtype: str) -> None:
    x, y = pairs(dtype, [(-10, 10, -3, 3), (-1e4, 1e4, -1, 1)], 2000)
    with np.errstate(all="ignore"):
        expected = NUMPY_EXACT[name](x, y)
    got = run(name, dtype, x, y)
    if name in ("fmax", "fmin") and dtype != "float16":
        # Which of two zeros NumPy takes depends on where in the array they are.
        expected[(x == 0) & (y == 0)] = got[(x == 0) & (y == 0)]
    assert_same_bits(got, expected, name)


@pytest.mark.parametrize("dtype", FLOATS)
def test_unary_bits_are_those_of_numpy(dtype: str) -> None:
    x = np.concatenate([special_values(dtype), random_bits(dtype, 2000, 3)])
    with np.errstate(all="ignore"):
        assert_same_bits(run("sign", dtype, x), np.sign(x), "sign")
        assert_same_bits(run("spacing", dtype, x), np.spacing(x), "spacing")


@pytest.mark.parametrize("dtype", FLOATS)
def test_ldexp_bits_are_those_of_numpy(dtype: str) -> None:
    generator = np.random.default_rng(4)
    x = np.concatenate([np.repeat(special_values(dtype), 20), random_bits(dtype, 4000, 3)])
    n = generator.integers(-2200, 2200, len(x))
    n[::3] = generator.integers(-160, 160, len(n[::3]))
    n[:4] = [np.iinfo("int64").max, np.iinfo("int64").min, 0, 1]
    with np.errstate(all="ignore"):
        assert_same_bits(run("ldexp", dtype, x, n), np.ldexp(x, n), "ldexp")


@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("name", ["logaddexp", "logaddexp2"])
def test_logaddexp(name: str, dtype: str) -> None:
    x, y = pairs(dtype, [(-100, 100, -100, 100), (0, 1, 0, 1)], 2000)
    got = run(name, dtype, x, y)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    # Where the terms cancel, the error is one of the larger operand.
    tolerance = 4 * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def integer_pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    info = np.iinfo(dtype)
    if info.bits == 8:
        every = np.arange(info.min, info.max + 1).astype(dtype)
        x, y = np.meshgrid(every, every)
        return x.ravel(), y.ravel()
    generator = np.random.default_rng(2)
    edges = np.array([0, 1, 2, 3, 7, info.max, info.max - 1, info.min, info.min + 1], dtype)
    edges = np.concatenate([edges, (0 - edges).astype(dtype)])
    x, y = (grid.ravel() for grid in np.meshgrid(edges, edges))
    wide = generator.integers(info.min, info.max, 6000, dtype=dtype, endpoint=True)
    small = generator.integers(0, 50, 2000).astype(dtype)
    return np.concatenate([x, wide[:4000]]), np.concatenate([y, wide[4000:], small])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod", "gcd", "lcm"])
def test_integers_are_those_of_numpy(name: str, dtype: str) -> None:
    x, y = integer_pairs(dtype)
    with np.errstate(all="ignore"):
        expected = getattr(np, name)(x, y)
    assert_same_bits(run(name, dtype, x, y), expected, name)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_powers_are_those_of_numpy(dtype: str) -> None:
    x, y = integer_pairs(dtype)
    x, y = x[y >= 0], y[y >= 0]
    assert_same_bits(run("pow", dtype, x, y), np.power(x, y), "pow")
    assert_same_bits(run("sign", dtype, x), np.sign(x), "sign")


def test_powers_of_float32_do_not_depend_on_their_neighbours() -> None:
    random = np.random.default_rng(11)
    x = random.uniform(0, 4, 640).astype("f4")
    y = random.uniform(-9, 9, 640).astype("f4")
    alone = run("pow", "float32", x, y)
    special = np.array([0, -0.0, np.inf, -np.inf, np.nan, -2, 1e-42, 3e38], "f4")
    for number in special:
        for array in (x, y):
            before = array[7::64].copy()
            array[7::64] = number
            among = run("pow", "float32", x, y)
            array[7::64] = before
            among[7::64] = alone[7::64]
            assert_same_bits(among, alone, "pow")


# The fmod or hypot inside is a call of C, and the power one of NumPy's.
SCALAR_LOOPS = {"floor_divide", "hypot_of_scalars", "power_in_arrays", "remainder"}
SCALAR_LOOPS |= {"remainder_by_constant", "remainder_by_constant_anywhere"}


@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for dtype in FORMATS for name in sorted(vecmath.names(dtype) - SCALAR_LOOPS)],
)
def test_loops_are_vectorized(name: str, dtype: str) -> None:
    _, module = kernel(name, dtype)
    element = "float|i32" if dtype == "float32" else "double|i64"
    assert re.search(rf"store <\d+ x ({element})>|masked.store.v\d", module.llvm)


@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_functions_are_straight_lines(dtype: str) -> None:
    for name in vecmath.names(dtype):
        function = vecmath.function(name, dtype)
        assert function.result == dtype
        assert isinstance(function.body[-1], loops.Return)
        if vecmath.branch(name, dtype):
            continue
        if dtype in FLOATS or name not in ("pow", "gcd", "lcm"):
            assert all(isinstance(statement, loops.Let) for statement in function.body[:-1])


def test_a_missing_function_is_a_key_error() -> None:
    for name, dtype in [("lgama", "float64"), ("exp", "int32"), ("exp", "complex128")]:
        with pytest.raises(KeyError, match=dtype):
            vecmath.function(name, dtype)


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["floor_divide", "remainder", "fmod"])
def test_integers_by_constants_are_those_of_numpy(name: str, dtype: str) -> None:
    info = np.iinfo(dtype)
    x = np.unique(np.concatenate(integer_pairs(dtype)))
    for divisor in (2, 3, 7, 10, 64, 127, 641, -2, -3, -7, -128, info.max, info.max - 1, info.min):
        if info.min <= divisor <= info.max and divisor != 0:
            y = np.full(len(x), divisor, dtype)
            numbers = (np.full(len(x), one, dtype) for one in constant_divisor(divisor, dtype))
            got = run(f"{name}_by_constant", dtype, x, y, *numbers)
            assert_same_bits(got, getattr(np, name)(x, y), f"{name} by {divisor}")


@pytest.mark.parametrize("divisor", [7, -7, 8, -8, 1, -1, 0])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_constant_divisors_in_programs(dtype: str, divisor: int) -> None:
    if divisor < np.iinfo(dtype).min:
        return
    x = np.unique(np.concatenate(integer_pairs(dtype)))
    check(lambda x: (x // divisor, x % divisor, np.fmod(x, divisor)), x)


# Divisions of floats -------------------------------------------------------------------------


@pytest.mark.parametrize("divisor", [1, 6, -7, 0.1, 360, 2 * math.pi, -3e-5, 1e30, 0.3, -1e-37])
@pytest.mark.parametrize("dtype", FORMATS)
def test_remainders_by_constants_are_those_of_numpy(dtype: str, divisor: float) -> None:
    generator = np.random.default_rng(5)
    y = np.dtype(dtype).type(divisor)
    spread = generator.uniform(-1, 1, 20_000) * np.exp2(generator.uniform(-80, 80, 20_000))
    with np.errstate(all="ignore"):
        multiples = (np.arange(-3000, 3000) * y).astype(dtype)
        large = (generator.integers(-(2**52), 2**52, 5000) * y).astype(dtype)
        near = [np.nextafter(multiples, np.dtype(dtype).type(end)) for end in (-np.inf, np.inf)]
        points = [random_bits(dtype, 20_000, 3), special_values(dtype), (spread * y).astype(dtype)]
        x = np.concatenate([multiples, large, *near, *points])
        expected = np.remainder(x, y)
        inverse = np.full(len(x), 1 / y, dtype)
        got = run("remainder_by_constant", dtype, x, np.full(len(x), y), inverse)
        assert_same_bits(got, expected, f"remainder by {divisor}")
        got = jitcore.script(lambda values: values % divisor)(x)
    assert_same_bits(got, np.remainder(x, y), f"remainder by {divisor}")


DIVISIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floor_divide": np.floor_divide,
    "fmod": np.fmod,
    "remainder": np.remainder,
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", DIVISIONS)
def test_divisions_of_floats_are_those_of_numpy(name: str, dtype: str) -> None:
    """Quotients of all sizes, exact ones, and those that rounding makes integers."""
    generator = np.random.default_rng(5)
    x, y = pairs(dtype, [], 20_000)
    near = generator.integers(1, 2**20, 20_000).astype(dtype)
    unit = generator.random(20_000).astype(dtype)
    product = near * unit
    towards = [np.nextafter(product, np.array(end, dtype)) for end in (0, np.inf)]
    dividends = np.concatenate([x, product, *towards, -product, unit])
    divisors = np.concatenate([y, unit, unit, -unit, unit, near])
    for each in (slice(None), np.abs(dividends) < 2.0**40):
        with np.errstate(all="ignore"):
            expected = DIVISIONS[name](dividends[each], divisors[each])
        assert_same_bits(run(name, dtype, dividends[each], divisors[each]), expected, name)
