# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays that are rolled by several shifts: periodic boundaries of stencils."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script
from jitcore.ir.passes.rolls import read_rolled_arrays


def laplacian(u):
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u


def neighbours(u):
    total = u * 0
    for i in (-1, 0, 1):
        for j in (-1, 0, 1):
            if i != 0 or j != 0:
                total = total + np.roll(np.roll(u, i, 0), j, 1)
    return total


def far(u):
    return np.roll(u, 3, 1) - np.roll(u, -8, 1) * np.roll(u, (2, -5), (0, 1))


def too_far(u):
    return np.roll(u, 9, 1) - np.roll(u, -9, 1)


def there_and_back(u):
    once = np.roll(u, 2, 0)
    return np.roll(once, -2, 0) + once


def flat(u):
    return np.roll(u, 1) - np.roll(u, -1)


def kept(u):
    left, right = np.roll(u, 1, 1), np.roll(u, -1, 1)
    return left, left - right


def viewed(u):
    left, right = np.roll(u, 1, 0), np.roll(u, -1, 0)
    return left.T, left[1:] - right[1:]


def written(u):
    left, right, other = np.roll(u, 1, 0), np.roll(u, -1, 0), np.roll(u, 2, 0)
    left[0] = 5
    return left + right * other


def base_written(u):
    left = np.roll(u, 1, 0)
    u[2] += 1
    return left - np.roll(u, -1, 0), np.roll(u, 1, 0) + np.roll(u, 2, 0)


def iterated(u):
    for _ in range(4):
        u[:] = u + 0.25 * (np.roll(u, 1, 0) + np.roll(u, -1, 0) - 2 * u)
    for _ in range(3):
        u = u + 0.25 * (np.roll(u, 1, 1) + np.roll(u, -1, 1) - 2 * u)
    return u


def same_object(u):
    left, right = np.roll(u, 1, 0), np.roll(u, -1, 0)
    other = left if u[0, 0] > 0.5 else right
    return other is left, other + right


def written_in_between(u):
    once = np.roll(u, 1, 0)
    once[0] = 100
    twice, other = np.roll(once, 1, 0), np.roll(u, 1, 0)
    for i in range(2):
        other[i] = i
    return twice + np.roll(u, -1, 0), np.roll(other, 1, 0) + np.roll(other, -1, 0)


def base_written_in_between(u):
    once = np.roll(u, 1, 0)
    u[-1] = 77
    return np.roll(once, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 0), once


def both_read_and_written_in_between(u):
    once = np.roll(u, 2, 0)
    once[0] = 5
    other = np.roll(u, 1, 1)
    u[0] = 9
    return once * 2 + np.roll(once, -1, 1), other + np.roll(other, -1, 0), u


FUNCTIONS = [
    laplacian,
    neighbours,
    far,
    too_far,
    there_and_back,
    flat,
    kept,
    viewed,
    written,
    base_written,
    iterated,
    same_object,
    written_in_between,
    base_written_in_between,
    both_read_and_written_in_between,
]


@pytest.mark.parametrize("shape", [(5, 12), (3, 9), (16, 8), (8, 1), (1, 8), (2, 2)])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_as_numpy(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    if function in (base_written, written) and shape[0] < 3:
        shape = (3, shape[1])
    u = np.random.default_rng(1).random(shape)
    check(function, u)
    check(function, np.asfortranarray(u))


def test_memory_order_of_results() -> None:
    u = np.random.default_rng(2).random((6, 7, 5))
    for array in (u, u.T, u.transpose(1, 0, 2), u[:, ::2], np.asfortranarray(u)):
        compiled = script(laplacian)
        found, expected = compiled(array), laplacian(array)
        np.testing.assert_array_equal(found, expected)
        assert found.strides == expected.strides
        assert found.flags.owndata


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "complex128", "bool"])
def test_dtypes(dtype: str) -> None:
    x = np.random.default_rng(3).integers(0, 2, (4, 6)).astype(dtype)
    check(neighbours, x)
    check(lambda x: np.roll(x, 1) | np.roll(x, -1) if x.dtype == bool else np.roll(x, 1) + x, x[0])


def test_three_axes() -> None:
    def diffused(u):
        total = -6 * u
        for axis in (0, 1, 2):
            total = total + np.roll(u, 1, axis) + np.roll(u, -1, axis)
        return total

    check(diffused, np.random.default_rng(4).random((4, 5, 6)))


def test_changing_shapes() -> None:
    compiled = script(laplacian)
    for size in (3, 4, 5, 6, 30):
        u = np.random.default_rng(size).random((size, size + 1))
        np.testing.assert_array_equal(compiled(u), laplacian(u))


def test_no_copy_is_made() -> None:
    for function in (neighbours, laplacian, far, too_far, there_and_back):
        compiled = script(function)
        compiled(np.ones((20, 20)))
        assert compiled.kernels[0].source.count("alloc(") == 0


def energy(u):
    right = np.roll(u, 1, 1)
    return -(u * (np.roll(u, 1, 0) + right)).sum(), (u * right).sum(axis=1), right.max(axis=0)


def only_one(u):
    return u - np.roll(u, 1, 1), np.roll(u, -2) * u


@pytest.mark.parametrize("function", [energy, only_one, neighbours, flat])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 40), (130, 129), (0, 3), (3, 0), (300, 2)])
def test_reductions_and_long_rows(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    u = np.random.default_rng(6).normal(size=shape)
    if u.size:
        u[0, 0], u[-1, -1] = -0.0, np.nan
    for one in (u, u[::-1], u.T, u.astype(np.float32)):
        check(function, one, reduction=True)


def test_long_lines() -> None:
    u = np.random.default_rng(7).normal(size=70001).astype(np.float32)
    check(lambda u: (u * np.roll(u, 5)).sum() + np.roll(u, -1).max(), u, reduction=True)
    check(lambda u: np.roll(u, 1) - 2 * u + np.roll(u, -1), u)


def test_docstring() -> None:
    before, after = examples(read_rolled_arrays)
    check_pass(read_rolled_arrays, before, after)
    check_unchanged(read_rolled_arrays, after)
