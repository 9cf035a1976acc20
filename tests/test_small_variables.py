# mypy: allow-untyped-defs, allow-untyped-calls
"""Small arrays that loops carry: copied from iteration to iteration, and on the stack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from argument_copies import copy_arguments

from jitcore import script

RNG = np.random.default_rng(20)
STATE = RNG.normal(size=3)
MATRIX = RNG.normal(size=(2, 3)) * 0.4


def runge_kutta(s, n):
    def slope(v):
        return np.array([3.0 * (v[1] - v[0]), v[0] * (5.0 - v[2]) - v[1], v[0] * v[1] - v[2]])

    path = np.empty((n, 3))
    for i in range(n):
        k1 = slope(s)
        k2 = slope(s + 0.005 * k1)
        s = s + 0.005 * (k1 + k2)
        path[i] = s
    return path


def last_state(s, n):
    for _ in range(n):
        s = s * 0.5 + 1.0
    return s


def last_of_fresh(s, n):
    x = s * 2.0
    for _ in range(n):
        x = x * 0.5 + s
    return x


def first_and_last(s, n):
    first = s * 2.0
    x = first
    for _ in range(n):
        x = x * 0.5 + s
    return first, x


def swapped(s, n):
    a, b, c = s * 1.0, s + 1.0, s - 1.0
    total = np.zeros(3)
    for _ in range(n):
        a, b, c = b, c, a + 0.5 * b
        total = total + a * b - c
    return total


def turned(s, n):
    x = s * 1.0
    total = 0.0
    for _ in range(n):
        x = x[::-1]
        total = total + x[0] * 3.0 + x[1]
    return total, x


def shifted(s, n):
    x, y = s * 1.0, s * 2.0
    for _ in range(n):
        x, y = np.concatenate((y[1:], x[:1])), x
    return x + y


def changed_in_place(s, n):
    x, y = s * 1.0, s * 2.0
    for _ in range(n):
        x, y = y, x
        x[0] += 1.0
        y[1] -= x[0]
    return x, y


def until_small(s, limit):
    x = s * 8.0
    steps = 0
    while np.abs(x).max() > limit:
        x = x * 0.7
        steps += 1
        if steps > 40:
            break
    return steps, x.sum()


def only_if_better(s, n):
    x = s * 1.0
    for i in range(n):
        y = x * 0.9 - 0.1 * i
        if y.sum() > x.sum() - 1.0:
            x = y
    return x


def nested(s, n):
    x = s * 1.0
    found = np.zeros((n, 3))
    for i in range(n):
        y = x
        for _ in range(i):
            y = y * 0.5 + x
        x = y - s
        found[i] = x + y
    return found


def kept_in_list(s, n):
    x = s * 1.0
    found = []
    for _ in range(n):
        found.append(x)
        x = x * 0.5
    return found


def of_complex(s, n):
    z = s + 1j * s[::-1]
    for _ in range(n):
        z = z * z * 0.1 + s
    return np.abs(z).sum(), z


def unset_before(s, n):
    for i in range(n):
        if i:
            s = s + last  # type: ignore[has-type]  # noqa: F821
        last = s * 0.5  # noqa: F841
    return s


def matrices(m, n):
    p = m @ m.T
    for _ in range(n):
        p = p @ p.T * 0.3 + m @ m.T
    return p


def transposed(m, n):
    p = m * 1.0
    total = 0.0
    for _ in range(n):
        p = (p @ p.T @ p).T.T
        total = total + p.T.reshape(-1)[1]
    return total, p


def turned_matrix(m, n):
    p = m @ m.T
    rows = np.zeros((n, 4))
    for i in range(n):
        p = p.T
        rows[i] = np.ravel(p, order="K")
    return rows, p


def gone_over_by_others(m, n):
    p = m @ m.T
    q = p
    for _ in range(n):
        p, q = q.T, p + q
    return p, q


@pytest.mark.parametrize("count", [0, 1, 7])
@pytest.mark.parametrize(
    "f",
    [runge_kutta, last_state, last_of_fresh, first_and_last, swapped, turned, shifted]
    + [changed_in_place, only_if_better, nested, kept_in_list, of_complex],
)
def test_vectors(f, count):
    _check(f, STATE, count)
    _check(f, STATE[::-1], count)


@pytest.mark.parametrize("f", [swapped, runge_kutta, last_of_fresh])
def test_kinds_of_numbers(f):
    for dtype in (np.float32, np.int64):
        if dtype is np.float32 or f is last_of_fresh:
            _check(f, (STATE * 4).astype(dtype), 5)


@pytest.mark.parametrize("f", [matrices, transposed, turned_matrix, gone_over_by_others])
def test_matrices(f):
    for count in (0, 1, 6):
        _check(f, MATRIX, count)
        _check(f, np.asfortranarray(MATRIX), count)


def test_loops_that_nobody_counts():
    for limit in (100.0, 0.5, 1e-9):
        _check(until_small, STATE, limit)
    _check(unset_before, STATE, 4)


def test_no_result_shares_memory_with_another_one():
    first, last = script(first_and_last)(STATE, 3)
    assert not np.shares_memory(first, last)
    first, last = script(first_and_last)(STATE, 0)
    assert first is last
    assert script(last_state)(STATE, 0) is STATE


def test_steps_make_no_arrays():
    for f in (runge_kutta, last_of_fresh, swapped, matrices):
        function = script(f)
        function(MATRIX if f is matrices else STATE, 5)
        lines = function.kernels[0].source.splitlines()
        made = [line for line in lines if "= extern_jc_empty(" in line]
        assert all(line.startswith("    ") and line[4] != " " for line in made), f
        assert not any("jc_incref" in line for line in lines), f


def _check(f: Callable[..., Any], *args: Any) -> None:
    expected = f(*copy_arguments(args))
    function = script(f)
    for _ in range(2):
        given = copy_arguments(args)
        _assert_alike(function(*given), expected)
        for one, other in zip(given, args, strict=True):
            np.testing.assert_array_equal(one, other)


def _assert_alike(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, (list, tuple)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            _assert_alike(one, other)
        return
    np.testing.assert_allclose(found, expected, rtol=1e-5 if _is_single(expected) else 1e-12)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.strides == expected.strides


def _is_single(x: Any) -> bool:
    return bool(np.asarray(x).dtype == np.float32)
