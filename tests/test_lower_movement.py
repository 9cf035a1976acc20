"""Lowering of advanced indexing, masks and concatenation, against NumPy."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import check

rng = np.random.default_rng(4)
X = rng.standard_normal((5, 7))
V = rng.standard_normal(20)
I = rng.integers(-5, 5, 6)  # noqa: E741
CUBE = rng.standard_normal((5, 6, 5))


def joined(x, y):
    return np.concatenate([x, y * 2]), np.concatenate([x, y], axis=1), np.stack([x, y])


def test_concatenate() -> None:
    check(joined, X, X[::-1])
    check(joined, X, np.zeros((5, 7)))


def gathered(x, i):
    return x[i], x[i, i], x[:, i], x[1, i], x[i[:, None], i], x[i, 1:3], x[i] * 2


def gathered_apart(x, i):
    return x[i, :, i], x[:, i, 1:], x[0, :, i], x[..., i]


@pytest.mark.parametrize("i", [I, I % 5, I[:0], np.array([7]), np.array([0, -6])])
def test_gather(i: Any) -> None:
    check(gathered, X, i)


def test_gather_from_a_cube() -> None:
    check(gathered_apart, CUBE, I)


def scattered(x, i, v):
    x[i] = v


def scattered_rows(x, i):
    x[i] = 7.0
    x[:, i] = x[:, i] * 2
    x[i, i] += 1


@pytest.mark.parametrize(
    ("i", "v"),
    [
        (I, I * 1.5),
        (I, 2.0),
        (I, np.zeros(5)),
        (np.array([1, 1, 1]), np.array([1.0, 2.0, 3.0])),
        (np.array([3, 99]), np.array([1.0, 2.0])),
    ],
)
def test_scatter(i: Any, v: Any) -> None:
    check(scattered, V, i, v)


def test_scatter_rows() -> None:
    check(scattered_rows, X, I % 5)
    check(scattered_rows, X, np.array([9]))


def scattered_by_parts(x, i):
    x[i, 0] = 1.0
    x[i[:2]] = x[i[1:3]]
    x[i[3:]] += x[i[:1]]
    x[:, i[::2]] *= 2


@pytest.mark.parametrize("i", [I % 5, I[:4], I[1:4], np.array([3, 1, 1, 9])])
def test_scatters_of_several_extents(i: Any) -> None:
    check(scattered_by_parts, X, i)


def gathered_together(x, i, j):
    x += 1
    x *= x[0]
    x[i, j] = x[0, 0]
    return x[i, j]


@pytest.mark.parametrize("j", [I % 3, I[:1], I[:0], I[:2], I[:4] + 99, I[:, None]])
def test_index_arrays_that_may_not_fit(j: Any) -> None:
    check(gathered_together, X, I, j)


def selected(x):
    return x[x > 0], x[x.sum(axis=1) > 0], (x * 2)[x > 0.5]


def clipped(x):
    x[x < 0] = 0.0
    x[x > 1] = x[x > 1] * 10


def put(x, mask, value):
    x[mask] = value


def test_masks() -> None:
    check(selected, X)
    check(selected, X[:, ::2])
    check(clipped, X)


@pytest.mark.parametrize(
    ("x", "mask", "value"),
    [
        (X, X > 0, 3.0),
        (X, X[:, 0] > 0, X[0]),
        (X, X[:, 0] > 0, 4.0),
        (V, V > 0, np.arange(3.0)),
        (V, V > 0, np.arange(20.0)[V > 0]),
        (V, np.ones(3, bool), 3.0),
    ],
)
def test_put_mask(x: Any, mask: Any, value: Any) -> None:
    check(put, x, mask, value)
