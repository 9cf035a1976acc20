# mypy: allow-untyped-defs, allow-untyped-calls
"""Real and imaginary parts of what is computed, and loops that update arrays as a whole."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script
from jitcore.ir.passes.complex_parts import compute_complex_parts


def escapes(z, c):
    count = np.zeros(z.shape, np.int32)
    for _ in range(6):
        z = z * z + c
        count += z.real * z.real + z.imag * z.imag < 4
    return count, z


def escapes_of_before(z, c):
    count = np.zeros(z.shape)
    for k in range(4):
        count += np.where(z.real > z.imag, k / 3, 1 / (k + 2))
        z = z * c - z
    return count


def power(z, c):
    return (z * z.conj()).real.sum(), (z * c).imag.max()


def written(z, c):
    w = z * c
    real = w.real
    w += 1
    return real * 2, w


def written_by_part(z, c):
    w = z * c
    w.imag[...] = w.real
    return w


def viewed(z, c):
    w = z * c
    return w.real, w.imag[1:] * 2


def stored(z, c):
    z.real[:] = (z * c).imag
    return z


def masked(z, c):
    count = np.zeros(z.shape, int)
    for k in range(5):
        z = z * z + c
        count[np.abs(z) < 2] += k
    return count


FUNCTIONS = (escapes, escapes_of_before, power, written, written_by_part, viewed, stored, masked)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("shape", [(37,), (5, 9), (1,), (300, 70)])
def test_numpy_gives_the_same(function, dtype, shape):
    random = np.random.default_rng(len(shape))
    z = (random.uniform(-1, 1, shape) + 1j * random.uniform(-1, 1, shape)).astype(dtype)
    check(function, z, 0.25 - 0.5j, reduction=function is power)


def test_special_numbers():
    parts = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e300, 5e-324])
    check(escapes, (parts[:, None] + 1j * parts).ravel(), -0.5 + 0.1j)
    check(escapes_of_before, (parts[:, None] + 1j * parts).T, -0.5 + 0.1j)


@pytest.mark.parametrize("function", [escapes, escapes_of_before, power])
def test_no_array_of_complex_numbers_is_written(function):
    compiled = script(function)
    compiled(np.ones(640, complex), 0.5j)
    (kernel,) = compiled.kernels
    results = 2 if function is escapes else function is escapes_of_before
    assert kernel.source.count("= extern_jc_empty(") == results


def test_pass():
    check_pass(compute_complex_parts, *examples(compute_complex_parts))


PARTS = """
    graph(%z : Complex64[n], %c : Complex64[n]):
      %0 : Complex64[n] = np::multiply(%z, %c)
      %1 : Float32[n] = np::real(BASE)
      %2 : Float32[n] = np::multiply(%1, %1)
      MORE
      return (RESULT)
"""
NOTHING = "%3 : Float32[n] = np::add(%2, %2)"


@pytest.mark.parametrize(
    ("base", "more", "result"),
    [
        ("%z", NOTHING, "%2"),
        ("%0", NOTHING, "%1"),
        ("%0", "%3 : None = np::store(%0, %z)", "%2"),
        ("%0", "%3 : None = np::store(%1, %2)", "%2"),
        ("%0", '%3 : Float32[m] = np::view[index="1:"](%1)', "%2"),
    ],
)
def test_pass_must_not_fire(base, more, result):
    text = PARTS.replace("BASE", base).replace("MORE", more).replace("RESULT", result)
    check_unchanged(compute_complex_parts, text)
