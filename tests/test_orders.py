# mypy: allow-untyped-defs, allow-untyped-calls
"""The order of a result's axes in memory is NumPy's: strides, flags, and what ``ravel`` shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import fusion_strategy, script
from jitcore.execution.plans import HostPlan, NativePlan

C = np.arange(12.0).reshape(3, 4)
CUBE = np.arange(24.0).reshape(2, 3, 4)
INPUTS = {
    "C": C,
    "F": np.asfortranarray(C),
    "reversed": C[::-1],
    "reversed columns": np.asfortranarray(C)[:, ::-1],
    "strided": np.arange(96.0).reshape(8, 12)[::2, ::3],
    "strided columns": np.arange(96.0).reshape(12, 8).T[::2, ::3],
    "cube": CUBE,
    "permuted": CUBE.transpose(1, 0, 2),
    "turned": CUBE.transpose(2, 0, 1),
    "four axes": np.arange(120.0).reshape(2, 3, 4, 5).transpose(1, 3, 0, 2),
}
PLACES = np.array([[0, 1], [1, 0], [1, 1]])

FUNCTIONS: list[Callable[..., Any]] = [
    lambda x: x + 1,
    lambda x: np.sqrt(x * x) - 2 * x,
    lambda x: np.where(x > 2, x, 0),
    lambda x: x + np.zeros(x.shape),
    lambda x: x + (np.arange(x.shape[-2])[:, None] + np.arange(x.shape[-1])),
    lambda x: x + np.arange(x.shape[-1]),
    lambda x: (x.T + 1).T * 2,
    lambda x: x[:, None] * x[None],
    lambda x: x[1:] - x[:-1],
    lambda x: x.swapaxes(0, 1)[..., ::2] + 1,
    lambda x: x.reshape(x.shape) + 1,
    lambda x: x.reshape(2, -1, 2) + 1,
    lambda x: x.reshape(*x.shape[:-2], -1) + 1,
    lambda x: (x + 0j).real,
    lambda x: np.zeros_like(x),
    lambda x: np.ones_like(x, dtype=np.int32),
    lambda x: np.full_like(x, 3) + x,
    lambda x: np.empty_like(x) >= np.inf,
    lambda x: np.zeros_like(x, shape=(3, 2)),
    lambda x: np.copy(x),
    lambda x: x.copy(),
    lambda x: np.array(x),
    lambda x: np.array(x, order="C"),
    lambda x: np.array(x, dtype=np.float32, order="C"),
    lambda x: x.astype(np.float64),
    lambda x: x.astype(np.float32),
    lambda x: np.roll(x, 1, axis=0),
    lambda x: np.roll(x, 1),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.stack([x, x], axis=-1),
    lambda x: np.argwhere(x > 2),
    lambda x: np.argwhere(x > 2) + 1,
    lambda x: np.dstack([x, x]),
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, 1, mode="edge"),
    lambda x: np.cumsum(x, axis=0),
    lambda x: np.diff(x),
    lambda x: np.gradient(x, axis=0),
    lambda x: np.select([x > 1], [x]),
    lambda x: np.tril(x),
    lambda x: np.nan_to_num(x),
    lambda x: x.sum(axis=0),
    lambda x: x.max(axis=-1, keepdims=True),
    lambda x: x.std(axis=1),
    lambda x: (x > 3).any(axis=-1),
    lambda x: x.argmax(axis=0),
    lambda x: x.argmin(axis=-1),
    lambda x: np.exp(x - x.max(axis=-1, keepdims=True)) / np.exp(x).sum(axis=-1, keepdims=True),
    lambda x: x @ x.swapaxes(-1, -2),
    lambda x: x[PLACES],
    lambda x: x[:, PLACES],
    lambda x: x[..., PLACES[:, 0]],
    lambda x: x[PLACES.T],
    lambda x: x[PLACES.T, PLACES.T],
    lambda x: x[np.arange(len(x)) > 0],
    lambda x: np.take(x, PLACES, axis=1),
    lambda x: (x if x.sum() > 0 else -x) * 2,
    lambda x: np.diagonal(x) + 1,
]


def layout(array: Any) -> Any:
    """What a program can see of the order in memory."""
    walked = [s for s, n in zip(array.strides, array.shape, strict=True) if n != 1]
    return array.shape, walked, array.flags.c_contiguous, array.flags.f_contiguous


@pytest.mark.parametrize("name", INPUTS)
def test_results_lie_as_those_of_numpy(name: str) -> None:
    wrong = []
    for number, function in enumerate(FUNCTIONS):
        expected, actual = function(INPUTS[name]), script(function)(INPUTS[name])
        np.testing.assert_allclose(actual, expected, atol=1e-12)
        if layout(actual) != layout(expected):
            wrong.append((number, layout(actual), layout(expected)))
    assert not wrong


def view_of_zeros(x):
    y = np.zeros_like(x)
    r = y.ravel()
    r[0] = 5
    return y


def view_of_a_sum(x):
    y = x + 1
    y.reshape(-1)[1] = 7
    return y


def carried(x, n):
    y = x * 0
    for i in range(n):
        y = y * 0.5 + x * i
    return y


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("function", [view_of_zeros, view_of_a_sum])
def test_views_and_copies_are_told_apart(function: Callable[..., Any], name: str) -> None:
    np.testing.assert_array_equal(script(function)(INPUTS[name]), function(INPUTS[name]))


@pytest.mark.parametrize("name", INPUTS)
def test_arrays_that_loops_carry(name: str) -> None:
    compiled = script(carried)
    for n in (3, 0):
        actual, expected = compiled(INPUTS[name], n), carried(INPUTS[name], n)
        np.testing.assert_array_equal(actual, expected)
        assert layout(actual) == layout(expected)
    assert compiled.kernels


def test_each_order_has_its_own_specialization() -> None:
    @script
    def doubled(x):
        return x * 2

    for x in (CUBE.transpose(1, 0, 2), CUBE.transpose(2, 1, 0)[:, ::2], CUBE[:, :, ::2]):
        assert layout(doubled(x)) == layout(x * 2)
    assert len(doubled.kernels) == 3


def test_overlapping_rows_are_in_order() -> None:
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(9.0), 4)
    compiled = script(lambda x: x + 1)
    for x in (windows, windows.T, windows[::2].T):
        assert layout(compiled(x)) == layout(x + 1)
        np.testing.assert_array_equal(compiled(x), x + 1)


def late(x, n):
    count = 0
    while count < 3:
        count += 1
        if count > n:
            return y  # type: ignore[has-type]  # noqa: F821
        if n > 5:
            y = x + 1  # noqa: F841
    return x * 2


def test_variables_without_a_value_have_any_order() -> None:
    compiled = script(late)
    for x in (C, np.asfortranarray(C)):
        for n in (3, 7):
            assert layout(compiled(x, n)) == layout(late(x, n))
    with pytest.raises(UnboundLocalError):
        compiled(C, 2)


def relaxed(grid, other, steps):
    for _ in range(steps):
        other[1:-1, 1:-1] = 0.25 * (grid[2:, 1:-1] + grid[:-2, 1:-1]) + 0.5 * grid[1:-1, 1:-1]
        grid, other = other, grid
    return grid


def test_arrays_that_take_turns_in_two_orders_are_computed_in_regions():
    scripted = script(relaxed)
    for steps in (0, 1, 5):
        pairs = [(np.arange(24.0).reshape(4, 6), np.ones((6, 4)).T) for _ in range(2)]
        result, expected = scripted(*pairs[0], steps), relaxed(*pairs[1], steps)
        np.testing.assert_array_equal(result, expected)
        assert result.strides == expected.strides
        assert result is pairs[0][steps % 2]
    (made,) = scripted.specializations
    assert isinstance(made.plan, HostPlan)
    (region,) = made.plan.regions.values()
    assert region.specializations
    assert all(isinstance(one.plan, NativePlan) for one in region.specializations)


def split(x, first, second):
    """Axes that are split, joined, or both, as the extents say."""
    y = x.reshape(first, second, -1)
    return y + 1, y.sum(axis=1), x.reshape(first, -1).max(axis=1), x.reshape(-1, second) * 2


def laid_out(rng, rows, columns):
    """An array of these extents whose axes lie in some order, with gaps or without."""
    room = rng.integers(0, 2, 2)
    large = rng.random((rows + room[0], columns + room[1]))
    return np.array(large, order=rng.choice(["C", "F"]))[:rows, :columns]


@pytest.mark.parametrize("strategy", ["DYNAMIC", "STATIC"])
def test_reshapes_split_axes_where_those_of_numpy_do(strategy):
    rng = np.random.default_rng(12)
    with fusion_strategy([(strategy, 16)]):
        scripted = script(split)
        for _ in range(40 if strategy == "DYNAMIC" else 8):
            first, second, third, fourth = map(int, rng.integers(2, 5, 4))
            x = laid_out(rng, first * second, third * fourth)
            if rng.random() < 0.3:
                first, second = first * second, third
            found, expected = scripted(x, first, second), split(x, first, second)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-14)
                assert layout(one) == layout(other)
