# mypy: allow-untyped-defs, allow-untyped-calls
"""What follows a product of matrices on a device: in the product's kernel, where that may be."""

from __future__ import annotations

import numpy as np
import pytest
from device_runs import run_on_device
from test_cuda_programs import assert_same

RNG = np.random.default_rng(0)
X, W = RNG.normal(size=(5, 4)), RNG.normal(size=(6, 4))
SQUARE = RNG.normal(size=(4, 4))
BIAS, OTHER = RNG.normal(size=6), RNG.normal(size=(5, 6))
STACK, STACKED = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5))
WIDE, TALL = RNG.normal(size=(70, 3)), RNG.normal(size=(66, 3))


def linear(x, w, b):
    return np.maximum(x @ w.T + b, 0)


def activated(x, w):
    return np.tanh(x @ w.T)


def gated(x, w, y):
    return (x @ w.T) * y + x.sum()


def squared(x, w):
    product = x @ w.T
    return product * product


def in_columns(x, w):
    return (x @ w.T).T * 2


def narrower(x, w):
    return (x @ w.T).astype(np.float32)


def of_stacks(x, y):
    return np.exp(x @ y) * 2


def two_layers(x, w, b):
    hidden = np.maximum(x @ w.T + b, 0)
    return hidden @ w - 1


def of_a_temporary(x, w):
    frame = np.zeros((x.shape[0] + 2, x.shape[1]))
    frame[1:-1] = x
    return np.maximum(np.lib.stride_tricks.sliding_window_view(frame, 3, axis=0)[:, :, 0] @ w.T, 0)


FUSED = [
    (of_a_temporary, (X, W), 3),
    (linear, (X, W, BIAS), 1),
    (linear, (WIDE, TALL, TALL[:, 0].copy()), 1),
    (linear, (X[::2], W[:, ::-1], BIAS), 1),
    (linear, (X.astype(np.float32), W.astype(np.float32), BIAS.astype(np.float32)), 1),
    (linear, (X[:0], W, BIAS), 1),
    (activated, (X, W), 1),
    (squared, (X, W), 1),
    (in_columns, (X, W), 1),
    (narrower, (X, W), 1),
    (two_layers, (X, W, BIAS), 2),
]
"""Functions, their arguments, and how many kernels they are."""


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(("function", "args", "kernels"), FUSED)
def test_one_kernel(function, args, kernels, dynamic):
    run = run_on_device(function, args, dynamic=dynamic)
    assert_same(run.result, function(*args))
    assert len(run.code.images) == kernels
    notes = "\n".join(run.code.lowered.notes)
    assert "a matrix product, which computes with the sums before it writes them" in notes
    # The product itself is never in memory.
    assert "cuda_malloc" not in run.code.module.llvm or kernels > 1


def test_stacks():
    run = run_on_device(of_stacks, (STACK, STACKED))
    assert_same(run.result, of_stacks(STACK, STACKED))
    assert len(run.code.images) == 1


def into_an_operand(x, w):
    x[:] = np.maximum(x @ w, 0)


def into_the_other_operand(x, w):
    w += x @ w


def read_twice(x, w):
    product = x @ w
    return product + 1, product.sum()


def of_a_part(x, w):
    return (x @ w)[:3] + 1


def reversed_rows(x, w):
    return (x @ w)[::-1] * 2


def stretched(x, w):
    return (x @ w) + np.ones((3, 1, 1))


def several_results(x, w):
    product = x @ w.T
    return product + 1, product * 2


def given_away(x, w):
    product = x @ w
    return product, product + 1


def one_after_the_other(x, w):
    for _ in range(3):
        x = np.minimum(x @ w, 1)
    return x


def in_a_loop(x, w):
    total = np.zeros(x.shape)
    for step in range(40):
        total[step % 2] += np.tanh(x @ w + step)[1]
        total += np.tanh(x @ w + step)
    return total


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    "function",
    [
        in_a_loop,
        into_an_operand,
        into_the_other_operand,
        read_twice,
        of_a_part,
        reversed_rows,
        stretched,
        several_results,
        given_away,
        one_after_the_other,
    ],
)
def test_results_where_the_product_is_needed_or_operands_are_written(function, dynamic):
    same_as_numpy(function, SQUARE, dynamic)


def test_operands_are_written_when_all_blocks_have_read_them():
    same_as_numpy(into_an_operand, RNG.normal(size=(66, 66)), False)


def same_as_numpy(function, square, dynamic):
    args = (square.copy(), square.T.copy())
    host = tuple(one.copy() for one in args)
    wanted = function(*host)
    run = run_on_device(function, args, dynamic=dynamic)
    assert_same(run.result, wanted)
    assert_same(run.args, host)
