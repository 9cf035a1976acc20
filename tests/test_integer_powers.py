"""Powers of integers, which NumPy refuses where an exponent is negative."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import numpy as np
import pytest

from jitcore import script
from jitcore.execution.plans import NativePlan


def powers(x, y):
    return x**y


def signs(n):
    return (-1) ** np.arange(n), np.cumsum(2 ** np.arange(n))


def marked(out, x, y):
    out[0] = 7
    return x**y


BASES = [np.arange(-3, 5), np.array([[3], [-2]]), np.int64(-3), np.empty(0, np.int64), 5]
EXPONENTS = [np.arange(8), np.array([0, 1, 2, 3, 4, 5, 6, -1]), np.int64(3), np.int64(-2), [-1]]


def outcome(function, *args):
    try:
        return function(*args)
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("x", BASES)
@pytest.mark.parametrize("y", EXPONENTS)
@pytest.mark.parametrize("dtype", [np.int64, np.int8, np.uint16])
def test_powers_are_numpy_s(x, y, dtype):
    x = x.astype(dtype) if isinstance(x, np.ndarray) else x
    y = np.array(y) if isinstance(y, list) else y
    scripted = script(powers)
    for _ in range(2):
        result, expected = outcome(scripted, x, y), outcome(powers, x, y)
        assert type(result) is type(expected)
        np.testing.assert_equal(result, expected)
        assert isinstance(result, str) or result.dtype == expected.dtype


def test_exponents_that_only_a_run_shows_are_native():
    scripted = script(signs)
    for count in (5, 0, 9):
        for result, expected in zip(scripted(count), signs(count), strict=True):
            np.testing.assert_array_equal(result, expected)
    assert all(isinstance(one.plan, NativePlan) for one in scripted.specializations)


def test_what_was_written_before_stays():
    scripted, out = script(marked), np.zeros(3)
    with pytest.raises(ValueError, match="Integers to negative integer powers are not allowed."):
        scripted(out, np.arange(3), np.array([1, 2, -1]))
    assert out[0] == 7


def kept(out, x, y):
    found = x**y
    out[:] = found + 1
    return found


def raised(x, y):
    x **= y
    return x


def test_nothing_after_the_check_is_written():
    scripted, out, x = script(kept), np.zeros(4), np.arange(4)
    np.testing.assert_array_equal(scripted(out, x, x), x**x)
    np.testing.assert_array_equal(out, x**x + 1)
    with pytest.raises(ValueError, match="negative integer powers"):
        scripted(out, x, x - 1)
    np.testing.assert_array_equal(out, x**x + 1)


def test_powers_in_place_end_where_numpy_s_end():
    mine, theirs = np.arange(12).reshape(3, 4), np.arange(12).reshape(3, 4)
    exponents = np.array([1, 2, 0, -1])
    assert outcome(script(raised), mine, exponents) == outcome(raised, theirs, exponents)
    np.testing.assert_array_equal(mine, theirs)
