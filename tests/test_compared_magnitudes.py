"""Magnitudes that are only compared: squares decide, and NumPy's magnitude where these are near."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check, function_from_source

COMPLEX = ("complex64", "complex128")
FLOATS = ("float32", "float64")
LIMITS = (2.0, 0.3, 1.0, 1000.1)


def orders(limit: float) -> Any:
    """A program that compares in all ways."""
    return function_from_source(
        f"def f(z):\n    return np.abs(z) < {limit}, np.abs(z) <= {limit}, np.abs(z) > {limit}, "
        f"{limit} > np.abs(z), {limit} <= np.abs(z)\n"
    )


def near(limit: float, dtype: str, count: int) -> np.ndarray:
    """Numbers around a circle, some on it as far as their dtype can tell."""
    rng = np.random.default_rng(5)
    angles = rng.random(count) * 7
    ulps = rng.integers(-12, 13, count) * np.finfo(dtype).eps
    found: np.ndarray = (limit * (1 + ulps) * np.exp(1j * angles)).astype(dtype)
    return found


@pytest.mark.parametrize("dtype", COMPLEX)
@pytest.mark.parametrize("limit", LIMITS)
def test_numbers_near_a_circle(limit: float, dtype: str) -> None:
    program = orders(limit)
    for count in (20, 256, 1000):
        check(program, near(limit, dtype, count))


@pytest.mark.parametrize("dtype", COMPLEX)
def test_special_numbers(dtype: str) -> None:
    large = float(np.sqrt(np.finfo(dtype).max))
    tiny = float(np.finfo(dtype).tiny)
    parts = [np.nan, np.inf, -np.inf, 0.0, -0.0, 2.0, -2.0, large, -2 * large, tiny, tiny / 8, 1.0]
    pairs = list(itertools.product(parts, repeat=2)) * 5
    z = np.array([complex(*pair) for pair in pairs]).astype(dtype)
    with np.errstate(all="ignore"):
        check(orders(2.0), z)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_one_near_number_among_many(dtype: str) -> None:
    rng = np.random.default_rng(6)
    z = (rng.random(5000) + 1j * rng.random(5000)).astype(dtype)
    compiled = jitcore.script(lambda z: (np.abs(z) < 0.7, np.count_nonzero(np.abs(z) >= 0.7)))
    for place in (0, 255, 256, 4999):
        for number in near(0.7, dtype, 40):
            z[place] = number
            found, count = compiled(z)
            np.testing.assert_array_equal(found, np.abs(z) < 0.7)
            assert count == np.count_nonzero(np.abs(z) >= 0.7)


def steps(c: Any, n: int) -> Any:
    z, k = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for i in range(n):
        inside = np.abs(z) <= 2
        z[inside] = z[inside] ** 2 + c[inside]
        k[inside] = i
    return z, k


def unrolled(c: Any) -> Any:
    z, k = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(6):
        z = z * z + c
        k[np.abs(z) < 2] += 1
    return k


def sums(c: Any) -> Any:
    size = np.abs(c)
    low = np.where(size > 1, c.real, np.float32(1.0)).min()
    return (size < 1.5).sum(), low, np.any(size > 2.9), np.all(size <= 1.9)


def in_place(c: Any) -> Any:
    c[np.abs(c) > 1] *= 0.5
    return c


def recurrence(c: Any) -> Any:
    x = np.zeros(c.size + 1, c.dtype)
    for i in range(c.size):
        x[i + 1] = c[i] if np.abs(x[i]) < 1 else x[i] - c[i]
    return x


def size_elsewhere(c: Any) -> Any:
    size = np.abs(c)
    return np.where(size < 1, size, 1.0)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_programs(dtype: str) -> None:
    x, y = np.meshgrid(np.linspace(-2, 1, 61), np.linspace(-1.5, 1.5, 31))
    c = (x + 1j * y).astype(dtype)
    with np.errstate(all="ignore"):
        check(steps, c, 9)
        check(unrolled, c)
        for program in (sums, in_place, size_elsewhere):
            check(program, c)
            check(program, c[:, ::2].ravel())
        check(recurrence, c.ravel())


def test_lengths_that_only_a_run_tells() -> None:
    compiled = jitcore.script(lambda z: np.where(np.abs(z) < 1, z, 1))
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for count in (300, 0, 1, 255, 256, 257, 1024):
            z = near(1.0, "complex128", count)
            np.testing.assert_array_equal(compiled(z), np.where(np.abs(z) < 1, z, 1))


def roots(limit: float) -> Any:
    return function_from_source(
        f"def f(x):\n    return np.sqrt(x) < {limit}, np.sqrt(x) <= {limit}, "
        f"np.sqrt(x) > {limit}, np.sqrt(x * x) >= {limit}, {limit} >= np.sqrt(np.abs(x))\n"
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("limit", [*LIMITS, 2.0**20, 2.0**-20, 1 / 3])
def test_roots(limit: float, dtype: str) -> None:
    number = np.dtype(dtype).type(limit)
    bits = np.array([number, number * number]).view(f"u{number.itemsize}")
    around = bits[:, None] + np.arange(-60, 61).astype(bits.dtype)
    special = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, -limit, float(np.finfo(dtype).max)]
    x = np.concatenate([around.view(dtype).ravel(), np.array(special, dtype)])
    with np.errstate(all="ignore"):
        check(roots(limit), x)
        check(roots(limit), np.tile(x, 3))


@pytest.mark.parametrize("dtype", FLOATS)
def test_hypotenuses(dtype: str) -> None:
    # Of numbers that are almost on the circle any may be inside, since hypotenuses may differ.
    x, y = np.random.default_rng(7).random((2, 700)).astype(dtype)
    x[::70], y[::50] = np.nan, np.inf
    check(lambda x, y: np.where(np.hypot(x, y) < 0.5, x, y), x, y)


def source(program: Any, *args: Any) -> str:
    compiled = jitcore.script(program)
    compiled(*args)
    (kernel,) = compiled.kernels
    return "\n".join(one for one in kernel.source.splitlines() if "# " not in one)


def test_what_is_compared() -> None:
    z = near(2.0, "complex64", 600)
    x = z.real.copy()
    assert "nearest" in source(lambda z: np.abs(z) < 2, z)
    assert "sqrt" not in source(lambda x, y: np.count_nonzero(np.sqrt(x * x + y * y) <= 1), x, x)
    assert "nearest" not in source(size_elsewhere, z)
    # Of what is too large or too small the square is not a normal number.
    assert "nearest" not in source(lambda z: np.abs(z) < 1e30, z)
    assert "sqrt" in source(lambda x: np.sqrt(x) < 1e-30, x)
    assert "sqrt" in source(lambda x: np.sqrt(x) < -1.0, x)
    assert "nearest" not in source(lambda z: np.abs(z) < 2, z[:8])
