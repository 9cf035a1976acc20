"""Programs as device code: the host part, the launches, and the kernels in the simulator.

Results are compared with NumPy's; scalars are arrays of rank 0 on a device.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from device_runs import DeviceRun, run_on_device

RNG = np.random.default_rng(7)
X = RNG.standard_normal((6, 40)).astype(np.float32)
Y = RNG.standard_normal((6, 40)).astype(np.float32)
ROW = RNG.standard_normal(40).astype(np.float32)
SMALL = RNG.random((7, 9)).astype(np.float32)
WIDE = RNG.standard_normal((3, 5, 7))
SQUARE = RNG.standard_normal((40, 40)).astype(np.float32)
CUBE = RNG.standard_normal((18, 2, 37))
LONG = RNG.integers(-9, 9, 4500).astype(np.int32)
INTS = np.arange(-20, 20, dtype=np.int32).reshape(4, 10)


def chain(x, y):
    return np.tanh(x * y + x) * 2 - np.exp(-y)


def broadcast(x, row):
    return x * row + x[:, :1]


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def layer_norm(x, gain, bias):
    mean = x.mean(axis=-1, keepdims=True)
    variance = x.var(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + np.float32(1e-5)) * gain + bias


def rms_norm(x, gain):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-6)) * gain


def total(x):
    return (x * x).sum()


def standardize(x):
    return (x - x.mean()) / x.std()


def several_totals(x):
    return x.sum(), x.max(), x.min(), x.std(), (x > 0).sum()


def extrema(x):
    return x.min(axis=1), x.max(axis=0), x.min(), x.max()


def by_column(x):
    return x.mean(axis=0), x.max(axis=0), (x * x).sum(axis=0)


def middle_axis(w):
    return w.sum(axis=1), w.max(axis=(0, 2))


def places(x):
    return x.argmax(axis=1), x.argmin(axis=1), x.argmax()


def flags(x):
    return (x > 5).any(), (x < 5).all(axis=1), np.count_nonzero(x > 0)


def transposed(x, y):
    return x.T + y.T * 2


def plus_transposed(x, y):
    return x.T + y


def half_transposed(x, y):
    y[1:] = x.T[1:] * 3
    return np.where(x.T > 0, x.T, y), x[::-1, 20:].T.copy()


def reversed_axes(w):
    return w.transpose(2, 1, 0) + 1, w.transpose(0, 2, 1).copy()


def add_transposed(x, y):
    x += y.T
    x[:20, :20] = x[20:, :20].T


def heat(u):
    for _ in range(3):
        u[1:-1, 1:-1] = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])


def masked(x):
    x[x < 0.5] = 0
    x += 1


def matrix_product(x, y):
    return np.maximum(x @ y.T, 0)


def np_matmul(x, y):
    return x @ y


def until_small(x):
    count = 0
    while np.abs(x).max() > 0.1:
        x = x * np.float32(0.5)
        count += 1
    return x, count


def branch(x):
    if x.mean() > 0:
        return x + 1
    return x - 1


def python_numbers(x):
    return float(x.sum()), x.shape[0], bool((x > 0).any())


def running_sum(x):
    return np.cumsum(x, axis=1), np.maximum.accumulate(x, axis=0)


def running_flags(x):
    return np.maximum.accumulate(x > 1, axis=1), np.minimum.accumulate(x.ravel() < 1)


def running_product(w):
    return np.cumprod(w, axis=1), np.minimum.accumulate(w, axis=2), np.cumsum(w[0, 0])


def long_running_sum(v):
    return np.cumsum(v * 2), np.maximum.accumulate(v)


def powers(x, y):
    return x**2.5, x**y, np.hypot(x, y)


def choose(x):
    return np.where(x > 0, x, np.float32(0.1) * x), np.clip(x, -1, 1)


def take(x, numbers):
    return x[numbers], x[:, numbers].sum(axis=0)


def select(x):
    return x[x > 0], x[x[:, 0] > 0], x[x > 100].sum(), x[x < 0].shape[0]


def select_long(v):
    return v[v > 3]


def put(x, y):
    x[y[:, 0] > 0] = y[y[:, 0] > 0]
    x[x < y] = y[x < y]


def put_values(x, v):
    x[x > 3] = v


def integers(a, b):
    return a // b + a % b, (a * b).sum(), a.max(axis=0), a << 2, a & b


def complex_numbers(z):
    return z * z.conj() + 1j, np.abs(z), z.sum()


def joined(x, y):
    return np.concatenate([x, y * 2]), np.stack([x, y], axis=1)


def views(x):
    return (x[::2, ::-1] * 2)[1:].sum(), x[:, 3].copy()


def rolling(x):
    return np.diff(x, axis=1), x[:, 1:] - x[:, :-1]


def power_iteration(a, steps):
    v = np.ones(a.shape[1], a.dtype)
    for _ in range(steps):
        w = a.T @ (a @ v)
        v = w / np.sqrt((w * w).sum())
    return v


def mandelbrot(c):
    z = np.zeros_like(c)
    n = np.zeros(c.shape, np.int64)
    for _ in range(10):
        z = np.where(np.abs(z) < 2, z * z + c, z)
        n += np.abs(z) < 2
    return n


COMPLEX = (X[:, ::2] + 1j * Y[:, ::2]).astype(np.complex64)
PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (chain, (X, Y)),
    (chain, (X.astype(np.float64), Y.astype(np.float64))),
    (chain, (X[:, 1:], Y[:, 1:])),
    (broadcast, (X, ROW)),
    (softmax, (X,)),
    (softmax, (X[:, :3].copy(),)),
    (softmax, (SQUARE[:14].reshape(2, 280),)),
    (softmax, (SQUARE[:11],)),
    (log_softmax, (X,)),
    (layer_norm, (X, ROW, ROW)),
    (rms_norm, (X, ROW)),
    (total, (X,)),
    (total, (X.astype(np.float64),)),
    (total, (X[::2, ::3],)),
    (standardize, (X,)),
    (several_totals, (X,)),
    (extrema, (INTS.astype(np.uint32),)),
    (extrema, (INTS.astype(np.uint64),)),
    (extrema, (INTS.astype(np.uint8),)),
    (by_column, (X,)),
    (middle_axis, (WIDE,)),
    (places, (X,)),
    (flags, (X,)),
    (transposed, (X, Y)),
    (plus_transposed, (SQUARE, SQUARE)),
    (half_transposed, (SQUARE, SQUARE)),
    (half_transposed, (SQUARE > 0, SQUARE.astype(np.int8))),
    (reversed_axes, (CUBE,)),
    (add_transposed, (SQUARE, SQUARE + 1)),
    (heat, (SMALL,)),
    (masked, (X,)),
    (matrix_product, (X, Y)),
    (matrix_product, (WIDE[0], WIDE[1])),
    (np_matmul, (WIDE, WIDE.swapaxes(1, 2))),
    (np_matmul, (WIDE[None], np.asfortranarray(WIDE[0].T))),
    (np_matmul, (X, ROW)),
    (np_matmul, (RNG.random((70, 33)), RNG.random((33, 66)))),
    (np_matmul, (INTS, INTS.T)),
    (until_small, (X,)),
    (branch, (X,)),
    (branch, (X - 9,)),
    (python_numbers, (X,)),
    (running_sum, (X,)),
    (running_flags, (X,)),
    (running_sum, (INTS,)),
    (running_sum, (X[:, :1].copy(),)),
    (running_product, (WIDE,)),
    (long_running_sum, (LONG,)),
    (powers, (np.abs(WIDE[0]), WIDE[1])),
    (choose, (X,)),
    (take, (X, np.array([3, 0, -1]))),
    (select, (X,)),
    (select_long, (LONG,)),
    (put, (X, Y)),
    (put_values, (INTS, np.arange(16, dtype=np.int32))),
    (put_values, (INTS, np.array([5], np.int32))),
    (integers, (INTS, np.full((4, 10), 3, np.int32))),
    (integers, (INTS.astype(np.int8), np.full((4, 10), 3, np.int8))),
    (integers, (abs(INTS).astype(np.uint64), np.full((4, 10), 3, np.uint64))),
    (complex_numbers, (COMPLEX,)),
    (joined, (X, Y)),
    (views, (X,)),
    (rolling, (X,)),
    (power_iteration, (X.astype(np.float64), 3)),
    (mandelbrot, (COMPLEX,)),
    (chain, (SQUARE, -SQUARE)),
    (chain, (SQUARE.ravel()[1:1500], SQUARE.ravel()[:1499])),
    (several_totals, (SQUARE,)),
    (masked, (SQUARE,)),
]


def assert_same(found: Any, expected: Any) -> None:
    """Compare with NumPy's results, whose scalars are arrays on a device."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
        return
    if isinstance(expected, (np.ndarray, np.generic)):
        expected = np.asarray(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if expected.dtype.names:
            np.testing.assert_array_equal(found, expected)
            return
        tolerance = 2e-5 if expected.dtype.char in "fF" else 1e-11
        finite = expected[np.isfinite(expected)]
        scale = np.abs(finite).max(initial=1)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)
        return
    assert type(found) is type(expected)
    if expected is None:
        return
    assert found == pytest.approx(expected, rel=1e-5)


def check(function: Callable[..., Any], args: tuple[Any, ...], *, dynamic: bool) -> DeviceRun:
    """Run a function on the device and compare its result and its effects with NumPy's."""
    run = run_on_device(function, args, dynamic=dynamic)
    host = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)
    expected = function(*host)
    assert_same(run.result, expected)
    assert_same(run.args, host)
    return run


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize(
    ("function", "args"), PROGRAMS, ids=[f"{f.__name__}{n}" for n, (f, _) in enumerate(PROGRAMS)]
)
def test_program(function, args, dynamic):
    check(function, args, dynamic=dynamic)


def test_index_out_of_bounds_is_an_error():
    with pytest.raises(IndexError, match="index is out of bounds for axis 0"):
        run_on_device(take, (X, np.array([3, 6])))


def test_too_few_values_are_an_error():
    values = np.arange(3, dtype=np.int32)
    with pytest.raises(ValueError, match="boolean array indexing assignment cannot assign"):
        run_on_device(put_values, (INTS, values))


def test_no_elements():
    empty = np.empty((0, 4), np.float32)
    assert_same(run_on_device(select, (empty,)).result, select(empty))
    assert_same(run_on_device(chain, (empty, empty)).result, empty)
    assert run_on_device(total, (empty,)).result == 0
    assert_same(run_on_device(softmax, (empty,)).result, empty)
