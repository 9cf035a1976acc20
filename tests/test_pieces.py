# mypy: allow-untyped-defs, allow-untyped-calls
"""What is computed to be joined is written where it is joined."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check
from jitcore import script


def halves(x):
    return np.concatenate(((x[::2] + x[1::2]) * 0.5, (x[::2] - x[1::2]) * 0.5))


def products(p, q):
    a, b = p
    c, d = q
    return np.stack((a * c - b * d, a * d + b * c))


def colours(x, y):
    return np.stack([x * 2, np.maximum(x, y), x - y], axis=-1)


def between(x, y):
    return np.concatenate([x, x + y, y[:1], y * 2], axis=0), np.hstack([x + 1, y])


def turned(x, y):
    return np.concatenate([x.T * 2, y.T + 1]), np.stack([x.T * 2, y.T], axis=1)


def also_returned(x, y):
    z = x + y
    return np.concatenate([z, x * y]), z


def twice(x, y):
    z = x + y
    return np.concatenate([z, z])


def changed_before(x, y):
    z = x + y
    z[0] = 7
    w = np.concatenate([z, x * y])
    w[1] = 0
    return w


def row_by_row(x, y):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return np.concatenate([e / e.sum(axis=1, keepdims=True), y * 2], axis=1)


def in_a_branch(x, y):
    z = x * y
    if x[0, 0] > 0:
        return np.concatenate([z, x + 1])
    return z


def in_a_loop(x, y):
    total = np.zeros((2 * x.shape[0], x.shape[1]), x.dtype)
    for k in range(3):
        total += np.concatenate([x * k, x + y])
    return total


def joined_twice(x, y):
    return np.concatenate([np.concatenate([x + 1, y + 2], axis=1), np.hstack([x * 2, y * 2])])


def joined_with_nothing(x, y):
    return np.concatenate([x + y, x[:0] * 2, x - y])


FUNCTIONS = [
    colours,
    between,
    turned,
    also_returned,
    twice,
    changed_before,
    row_by_row,
    in_a_branch,
    in_a_loop,
    joined_twice,
    joined_with_nothing,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_joining(function, dtype):
    if function in (row_by_row, in_a_branch, colours) and dtype == "complex64":
        pytest.skip("complex numbers have no order")
    x, y = np.random.default_rng(1).normal(size=(2, 6, 5)).astype(dtype)
    for arguments in ((x, y), (x.T.copy().T, y), (x.T.copy().T, y.T.copy().T), (x[::-1], y)):
        check(function, *arguments, ulp=4 if function is row_by_row else 0)
        ours, theirs = script(function)(*arguments), function(*arguments)
        if isinstance(ours, np.ndarray) and function is not joined_with_nothing:
            assert ours.strides == theirs.strides


@pytest.mark.parametrize("size", [2, 64, 1000])
def test_vectors(size):
    x = np.random.default_rng(2).normal(size=size)
    check(halves, x)
    check(products, x.reshape(2, -1), x[::-1].reshape(2, -1))


def test_shapes_that_a_call_shows():
    for size in (10, 20, 30, 40):
        compiled = script(halves)
        x = np.arange(float(size))
        np.testing.assert_array_equal(compiled(x), halves(x))


@pytest.mark.parametrize(("function", "shape"), [(halves, (64,)), (products, (2, 32))])
def test_nothing_is_copied(function, shape):
    arguments = [np.ones(shape)] * function.__code__.co_argcount
    compiled = script(function)
    compiled(*arguments)
    (kernel,) = compiled.kernels
    assert "malloc" not in kernel.source and kernel.source.count("    for ") == 1
