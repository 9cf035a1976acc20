"""What native code computes by NumPy's own inner loops, to the last bit."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from checking import check
from jitcore.codegen.runtime import numpy_loops
from jitcore.script import script


def powers(x, y):
    return x**y, x**-1.5, np.power(2.5, y) * x


@pytest.mark.parametrize("size", [1, 7, 8, 100, 5000])
def test_powers_of_arrays(size):
    random = np.random.default_rng(size)
    x, y = random.random(size) * 9, random.normal(size=size) * 5
    for one, other in zip(script(powers)(x, y), powers(x, y), strict=True):
        np.testing.assert_array_equal(one, other)


def test_powers_of_arrays_with_steps_and_special_values():
    special = np.array(
        [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 2.0, -2.0, 0.5, -3.0, 1e-320]
    )
    x, y = (one.ravel() for one in np.meshgrid(special, special))
    with np.errstate(all="ignore"):
        check(powers, x, y)
        check(powers, x[::-2], y[::2])


def powers_by_a_number(x, n):
    return x**n, np.power(x, n)


@pytest.mark.parametrize("n", [2.0, 0.5, -1.0, 1.0, 0.0, np.float64(2.0)])
def test_numbers_for_which_numpy_has_short_cuts(n):
    x = np.random.default_rng(4).random(1000) * 7
    check(powers_by_a_number, x, n, ulp=0 if n in (0.0, 1.0, 2.0) else 2)


def squares(x):
    return np.power(x, 2.0), x**2.0, np.power(x, 2)


def test_squares():
    x = np.random.default_rng(5).random(1000) * 7
    for one, other in zip(script(squares)(x), squares(x), strict=True):
        np.testing.assert_array_equal(one, other)


def powers_of_chosen(x):
    x[x > 0] = x[x > 0] ** (-1.5)
    return x


def test_powers_under_a_mask():
    x = np.random.default_rng(1).normal(size=(30, 31))
    expected = powers_of_chosen(x.copy())
    np.testing.assert_array_equal(script(powers_of_chosen)(x), expected)


def sums(x):
    return x.sum(), np.mean(x), np.sum(x[1:]) * 2


@pytest.mark.parametrize("shape", [(2,), (7,), (8,), (50, 1), (5, 20), (128,)])
def test_sums_of_few_elements(shape):
    x = np.random.default_rng(2).random(shape) * np.float64(0.4)
    assert script(sums)(x) == sums(x)


def one_after_the_other(address, offset, count):
    total = 0.0
    for element in (ctypes.c_double * count).from_address(address + 8 * offset):
        total += element
    return total


def test_sums_are_numpys_own_where_it_has_another_order(monkeypatch):
    total = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
    other = total(one_after_the_other)
    place = ctypes.cast(other, ctypes.c_void_p).value
    numpy_loops._make()
    (module,) = numpy_loops._made
    own, by_loop = module.address("jc_sum_float64"), module.address("jc_sum_by_loop")
    assert place is not None and not numpy_loops._adds_as_numpy(place)
    assert numpy_loops._addresses(module)["jc_sum_float64"] == own
    monkeypatch.setattr(numpy_loops, "_adds_as_numpy", lambda address: address != own)
    assert numpy_loops._addresses(module)["jc_sum_float64"] == by_loop
    elements = np.random.default_rng(1).random(128)
    for count in (1, 7, 8, 9, 40, 120):
        assert total(by_loop)(elements.ctypes.data, 3, count) == elements[3 : 3 + count].sum()


def product(a, x):
    return a @ x, x @ a


@pytest.mark.parametrize("extent", [16, 25, 50, 90])
def test_products_of_small_matrices_and_vectors(extent):
    random = np.random.default_rng(extent)
    a, x = random.random((extent, extent)), random.random(extent)
    for one, other in zip(script(product)(a, x), product(a, x), strict=True):
        np.testing.assert_array_equal(one, other)


def chaotic(a, x, y, steps):
    """A recurrence that makes the smallest difference larger at each step."""
    y = y - y.mean()
    for _ in range(steps):
        x = (x**1.5 * 3.7 + a @ y) % 1.0
        y = y * 0.5 + a @ x * 0.01
    return x, y


def test_differences_that_would_grow_do_not_begin():
    random = np.random.default_rng(3)
    a, x, y = random.random((40, 40)), random.random(40), random.random(40)
    for one, other in zip(script(chaotic)(a, x, y, 300), chaotic(a, x, y, 300), strict=True):
        np.testing.assert_array_equal(one, other)
