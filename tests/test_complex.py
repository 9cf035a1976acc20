"""Complex arithmetic has the bits of NumPy's own loops, which fuse, and of its scalars."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_kernels import assert_same_bits

from jitcore import fusion_strategy, script
from jitcore.codegen.engine import cpu_identity

Array = np.ndarray[Any, Any]
DTYPES = [np.complex64, np.complex128]
SIZES = [*range(1, 18), 31, 32, 33]
LIMITS = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan, 1e-310, 1e300, -3e38]

needs_fma = pytest.mark.skipif(
    not any(feature in cpu_identity() for feature in ("+fma", "+neon")),
    reason="NumPy fuses only where the processor can",
)


def product(x, y):
    return x * y


def quotient(x, y):
    return x / y


def absolute(x, y):
    return abs(x)


def square(x, y):
    return x**2 + np.square(y)


def by_power(x, y):
    return x**2


def by_constant(x, y):
    return x * (1.5 - 2.25j) + (0.75 + 3j) / y


def chain(x, y):
    z = x * y - y / x
    return z * z.conj() + abs(z) * y


def in_place(x, y):
    z = x + y
    z *= y
    z /= x
    return z


FUNCTIONS = [product, quotient, absolute, square, by_constant, chain, in_place]


def assert_same(got: Any, expected: Any, what: str) -> None:
    assert type(got) is type(expected), what
    assert np.asarray(got).dtype == np.asarray(expected).dtype, what
    for part in (np.real, np.imag):
        assert_same_bits(np.ravel(part(got)), np.ravel(part(expected)), what)


def numbers(generator: np.random.Generator, count: int, dtype: Any) -> Array:
    parts = generator.standard_normal((2, count)) * 2.0 ** generator.integers(-9, 9, (2, count))
    return np.asarray(parts[0] + 1j * parts[1], dtype)


@needs_fma
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_arrays(function: Callable[..., Any], dtype: Any) -> None:
    generator = np.random.default_rng(11)
    compiled = script(function)
    # One element that is changed in place is what NumPy takes for a scalar.
    sizes = SIZES[1:] if function is in_place else SIZES
    with fusion_strategy([("DYNAMIC", 20)]):
        for size in sizes:
            for step in (1, 2, 3):
                x = numbers(generator, size * step, dtype)[::step]
                y = numbers(generator, size, dtype)
                assert_same(compiled(x, y), function(x, y), f"{size} elements in steps of {step}")


@needs_fma
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [product, quotient, absolute])
def test_limits(function: Callable[..., Any], dtype: Any) -> None:
    with np.errstate(all="ignore"):
        parts = np.array(LIMITS).astype(np.empty(0, dtype).real.dtype)
    values = np.empty((len(parts), len(parts)), dtype)
    values.real, values.imag = parts[:, None], parts
    x, y = (
        np.ascontiguousarray(one)
        for one in np.broadcast_arrays(values.ravel()[:, None], values.ravel())
    )
    compiled = script(function)
    with np.errstate(all="ignore"):
        assert_same(compiled(x, y), function(x, y), function.__name__)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", [product, quotient, absolute, by_power])
def test_scalars(function: Callable[..., Any], dtype: Any) -> None:
    compiled = script(function)
    x, y = (numbers(np.random.default_rng(seed), 200, dtype) for seed in (1, 2))
    for one, two in zip(x, y, strict=True):
        assert_same(compiled(one, two), function(one, two), f"{one!r}, {two!r}")


@pytest.mark.parametrize("function", [product, quotient, absolute])
def test_python_numbers(function: Callable[..., Any]) -> None:
    compiled = script(function)
    x, y = (numbers(np.random.default_rng(seed), 200, complex).tolist() for seed in (1, 2))
    for one, two in zip(x, y, strict=True):
        assert_same(compiled(one, two), function(one, two), f"{one!r}, {two!r}")
