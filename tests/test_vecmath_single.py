"""Functions of float32 that devices compute without float64, against wider types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special
from test_vecmath import (
    BINARY,
    HARD_ANGLES,
    UNARY,
    angles_near_zeros,
    exact_values,
    finite,
    pairs,
    random_bits,
    run,
    special_values,
    ulps,
)
from test_vecmath_float32 import errors

from jitcore.codegen import vecmath
from jitcore.codegen.loop_passes.traversal import expressions, subexpressions, walk

ANGLES = {"sin": np.sin, "cos": np.cos, "tan": np.tan}
ULP_LIMITS = {"sin": 1.6, "cos": 1.6, "tan": 2.5, "pow": 0.8, "hypot": 1.2, "gamma": 2.7}
ALONE = sorted(one for one in vecmath.names("float32") if "_single" in one or one == "hypot")


@pytest.mark.parametrize("name", ALONE)
def test_there_is_no_float64(name: str) -> None:
    body = vecmath.function(name, "float32").body
    found = {y.dtype for one in walk(body) for x in expressions(one) for y in subexpressions(x)}
    assert "float32" in found and "float64" not in found


@pytest.mark.parametrize("name", ANGLES)
def test_angles_of_all_sizes(name: str) -> None:
    points = random_bits("float32", 400_000, 8)
    exponents = np.random.default_rng(1).uniform(10, 128, 400_000)
    points = np.append(points, np.exp2(exponents).astype(np.float32))
    with np.errstate(all="ignore"):
        exact = ANGLES[name](points.astype(np.float64))
    assert errors(run(f"{name}_single", "float32", points), exact).max() < ULP_LIMITS[name]


@pytest.mark.parametrize("name", ANGLES)
def test_angles_near_zeros(name: str) -> None:
    with np.errstate(over="ignore"):
        points = np.append(HARD_ANGLES, angles_near_zeros(2.0**63)).astype(np.float32)
    neighbours = [np.nextafter(points, np.float32(end)) for end in (0, np.inf)]
    points = finite(np.concatenate([points, -points, *neighbours]))
    with mpmath.workprec(300):
        exact = exact_values(UNARY[name][0], points)
    assert ulps(run(f"{name}_single", "float32", points), exact).max() < ULP_LIMITS[name]


@pytest.mark.parametrize(("low", "high"), [(0, 36), (-45, 0), (-3, 3), (-1e-3, 1e-3), (34, 37)])
def test_gamma(low: float, high: float) -> None:
    points = np.random.default_rng(2).uniform(low, high, 200_000).astype(np.float32)
    with np.errstate(all="ignore"):
        exact = special.gamma(points.astype(np.float64))
    assert errors(run("gamma_single", "float32", points), exact).max() < ULP_LIMITS["gamma"]


RANGES: dict[str, list[Any]] = {
    "pow": [(0, 10, -20, 20), (0.9, 1.1, -900, 900), (0.5, 2, -148, 128), (0, 1e-38, -1, 1)],
    "hypot": [(-5, 5, -5, 5), (-3e38, 3e38, -3e38, 3e38), (-1e-38, 1e-38, -1e-38, 1e-38)],
}


@pytest.mark.skipif(np.finfo(np.longdouble).nmant < 63, reason="no extended precision")
@pytest.mark.parametrize("name", RANGES)
def test_functions_of_two_numbers(name: str) -> None:
    function: Callable[..., Any] = getattr(np, BINARY[name][1])
    x, y = pairs("float32", RANGES[name], 100_000)
    with np.errstate(all="ignore"):
        exact = function(x.astype(np.longdouble), y.astype(np.longdouble))
    got = run(name if name in ALONE else f"{name}_single", "float32", x, y)
    assert errors(got, exact.astype(np.float64)).max() < ULP_LIMITS[name]
    same = exact == exact.astype(np.float32)
    np.testing.assert_array_equal(got[same], exact[same].astype(np.float32))


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "pow", "gamma"])
def test_special_values_are_those_of_the_host(name: str) -> None:
    points = pairs("float32", [], 0) if name == "pow" else [special_values("float32")]
    got, wanted = (run(one, "float32", *points) for one in (f"{name}_single", name))
    extreme = (wanted == 0) | ~np.isfinite(wanted)
    np.testing.assert_array_equal(got[extreme], wanted[extreme])
    signed = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(got)[signed], np.signbit(wanted)[signed])


@pytest.mark.parametrize("part", ["re", "im"])
def test_complex_exponentials(part: str) -> None:
    x, y = pairs("float32", [(-80, 80, -100, 100), (80, 92, -1e6, 1e6)], 20_000)
    got = run(f"complex_exp_{part}_single", "float32", x, y)
    wanted = run(f"complex_exp_{part}", "float32", x, y)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-45)
