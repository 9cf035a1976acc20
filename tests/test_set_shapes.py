"""Arrays that get another shape in place, compared with NumPy."""

# mypy: allow-untyped-defs, allow-untyped-calls

from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.execution.plans import NativePlan


def returned(n):
    a = np.arange(n)
    a.shape = 2, n // 2
    return a


def unknown_extent(n):
    a = np.arange(n) * 2.0
    a.shape = 2, -1
    return a.sum(axis=0), a.shape, a


def one_name_more(n):
    a = np.zeros(n)
    b = a
    a.shape = 2, n // 2
    return b.shape, b


def view_before(n):
    a = np.arange(n)
    v = a[1:]
    a.shape = 2, n // 2
    v[0] = 9
    return a, v.shape, v.sum()


def of_a_view(n):
    a = np.arange(n)
    v = a[2:]
    v.shape = 2, (n - 2) // 2
    v[0, 0] = 9
    return a, v.shape, v.sum()


def of_grids(n):
    x, y = np.mgrid[0:n, 0:n]
    z = x + y * 1j
    x.shape = y.shape = z.shape = n * n
    return (x + y).sum(), z * 2, x[y > 2]


def twice(n):
    a = np.arange(n)
    a.shape = 2, -1
    a.shape = a.size
    a[0] = 5
    a.shape = 1, 1, n
    return a


def equal_arrays(n):
    a, b = np.ones(n), np.ones(n)
    a.shape = 2, -1
    return b, a


def in_a_loop(n):
    total = 0
    for i in range(n):
        a = np.arange(6.0) * i
        a.shape = 2, 3
        total += a[1, 0]
    return total


def helper(a):
    a.shape = 2, -1


def by_a_function(n):
    a = np.arange(n)
    helper(a)
    return a.shape, a + 1, a


def after_a_write(n):
    a = np.zeros(n)
    v = a.reshape(2, -1)
    a.shape = n // 2, 2
    a[0, 1] = 3
    v[0, 0] = 1
    return a, v.sum()


NATIVE = [
    *(returned, unknown_extent, one_name_more, view_before, of_a_view, of_grids, twice),
    *(equal_arrays, in_a_loop, by_a_function, after_a_write),
]


@pytest.mark.parametrize("program", NATIVE, ids=lambda one: str(one.__name__))
def test_machine_code(program):
    for n in (6, 4):
        check(program, n)
        compiled = script(program)
        expected, found = program(n), compiled(n)
        assert _bases(found) == _bases(expected)
        assert isinstance(compiled.specializations[-1].plan, NativePlan)


def _bases(result):
    values = result if isinstance(result, tuple) else (result,)
    arrays = [one for one in values if isinstance(one, np.ndarray)]
    return [(one.base is None, one.flags.owndata, one.strides) for one in arrays]


@pytest.mark.parametrize("program", [returned, unknown_extent, by_a_function])
def test_sizes_that_do_not_fit(program):
    check(program, 7)


def in_a_tuple(n):
    a = np.zeros(n)
    kept = a, 1
    a.shape = 2, n // 2
    return kept[0].shape


def same_object(n):
    a = np.zeros(n)
    b = np.asarray(a)
    a.shape = 2, n // 2
    return b.shape


def in_a_branch(n):
    a = np.arange(n)
    if n > 4:
        a.shape = 2, 3
    return a.shape, a


def strided(n):
    a = np.ones((n, n))[:, ::2]
    a.shape = a.size
    return a


def in_fortran_order(n):
    a = np.ones((n, 4)).T.copy(order="K")
    a.shape = n * 4
    return a


def no_ints(n):
    a: Any = np.zeros(n)
    a.shape = 2.0, 3
    return a


def two_unknown(n):
    a = np.zeros(n)
    a.shape = -1, -1
    return a


@pytest.mark.parametrize(
    "program",
    [in_a_tuple, same_object, in_a_branch, strided, in_fortran_order, no_ints, two_unknown],
)
def test_in_python(program):
    for n in (6, 4):
        check(program, n)


def of_an_argument(a):
    a.shape = 2, 3
    return a + 1


def test_arguments_are_the_caller_s():
    a = np.arange(6.0)
    assert np.array_equal(script(of_an_argument)(a), np.arange(6.0).reshape(2, 3) + 1)
    assert tuple(a.shape) == (2, 3)
    check(of_an_argument, np.arange(5.0))
    check(of_an_argument, np.arange(12.0)[::2])
