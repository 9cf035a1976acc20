# mypy: allow-untyped-defs, allow-untyped-calls
"""A program's own loops on a device: threads share those whose iterations may run in any order."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import script
from jitcore.execution.plans import NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


def normal(*shape: int, dtype: Any = np.float64) -> Any:
    return np.random.default_rng().normal(size=shape).astype(dtype)


def line(x):
    y = np.empty_like(x)
    for k in range(x.shape[0]):
        y[k] = x[k] * 2 + 1
    return y


def in_place(x):
    for k in range(x.shape[0]):
        if x[k] < 0:
            x[k] = -x[k]


def pairs(x):
    y = np.zeros(2 * x.shape[0], x.dtype)
    for k in range(x.shape[0]):
        y[2 * k] = x[k]
        y[2 * k + 1] = x[k] - x[0]
    return y


def blurred(x):
    y = np.zeros_like(x)
    for i in range(1, x.shape[0] - 1):
        for j in range(1, x.shape[1] - 1):
            y[i, j] = (x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]) / 4
    return y


def escapes(x, y, most):
    """The Mandelbrot set: how many steps a point takes to get away."""
    steps = np.zeros((y.shape[0], x.shape[0]), np.int64)
    for i in range(y.shape[0]):
        for j in range(x.shape[0]):
            a, b, count = 0.0, 0.0, 0
            while count < most and a * a + b * b < 4:
                a, b = a * a - b * b + x[j], 2 * a * b + y[i]
                count += 1
            steps[i, j] = count
    return steps


def rows_by_numbers(x, v):
    y = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        total = 0.0
        for j in range(x.shape[1]):
            total += x[i, j] * v[j]
        y[i] = total
    return y


def least_distance(x, y):
    """The nearest of some points, and how far it is."""
    nearest, found = np.zeros(x.shape[0], np.int64), np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        best, place = np.inf, 0
        for j in range(y.shape[0]):
            distance = abs(x[i] - y[j])
            if distance < best:
                best, place = distance, j
        nearest[i], found[i] = place, best
    return nearest, found


def stepped(x, steps):
    """What follows in time is in order, and the points of a step are not."""
    x, y = x.copy(), np.zeros_like(x)
    for _ in range(steps):
        for k in range(1, x.shape[0] - 1):
            y[k] = (x[k - 1] - 2 * x[k] + x[k + 1]) / 4
        for k in range(x.shape[0]):
            x[k] += y[k]
    return x


def less_first(x):
    """What all of a row reads is written by one of them."""
    for i in range(x.shape[0]):
        first = x[i, 0]
        for j in range(x.shape[1]):
            x[i, j] = x[i, j] - first


def sums_of_doubled(x):
    y = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        x[i, 0] = x[i, 0] * 2
        y[i] = x[i].sum() + x[i, 1]
    return y


def branches_that_read_back(x):
    y, z, also = np.zeros_like(x), np.zeros(x.shape[0]), np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        if x[i, 0] > 0:
            z[i] = x[i, 1]
            also[i] = z[i] + 1
    return y, z, also


def rows_with_marks(x):
    """What of a row is in registers is not what memory has after an element was written."""
    y, z = np.zeros_like(x), np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        if x[i, 0] > 0:
            x[i, 1] = 5
        z[i] = y[i] + x[i]
    return y, z


def rows_and_rare_branches(x):
    """Where a branch is not taken, nobody waits in it for what was written before."""
    y = np.zeros(x.shape[0])
    for i in range(x.shape[0]):
        x[i, 2] = x[i, -1] + 1
        if x[i, 0] > 0:
            y[i] = y[i] + 1
        x[i] = x[i] / 2
    return y


def smoothed_by_turns(x):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        y[i] = x[i] * 2
        if x[i, 0] > 0:
            for k in range(1, x.shape[1]):
                y[i, k] += y[i, k - 1] / 2
    return y


SHARED: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (line, lambda: (normal(5000, dtype=np.float32),)),
    (line, lambda: (normal(41)[::-2],)),
    (line, lambda: (normal(0),)),
    (in_place, lambda: (normal(30, 3)[:, 1],)),
    (pairs, lambda: (normal(37, dtype=np.float32),)),
    (blurred, lambda: (normal(9, 14)[::2, ::-2],)),
    (blurred, lambda: (normal(9, 7, dtype=np.float32),)),
    (blurred, lambda: (normal(2, 70),)),
    (escapes, lambda: (normal(6), normal(5), 12)),
    (rows_by_numbers, lambda: (normal(4, 70), normal(70))),
    (least_distance, lambda: (normal(40), normal(9))),
    (stepped, lambda: (normal(4100), 2)),
    (less_first, lambda: (normal(3, 40),)),
    (less_first, lambda: (normal(3, 600, dtype=np.float32),)),
    (sums_of_doubled, lambda: (normal(2, 33000),)),
    (branches_that_read_back, lambda: (normal(11, 40),)),
    (rows_with_marks, lambda: (normal(11, 40),)),
    (rows_with_marks, lambda: (normal(9, 300, dtype=np.float32),)),
    (rows_and_rare_branches, lambda: (normal(17, 40),)),
    (smoothed_by_turns, lambda: (normal(4, 40),)),
]


def runs_the_same(function: Any, arguments: tuple[Any, ...]) -> Any:
    """The compiled function, after its results and effects were those of NumPy."""
    compiled, host = script(function), copy.deepcopy(arguments)
    given = jitcore.to(arguments, "cuda")
    found, wanted = compiled(*given), function(*host)
    for one, other in zip([found, *given], [wanted, *host], strict=True):
        for x, y in zip(
            *(part if type(part) is tuple else (part,) for part in (one, other)), strict=True
        ):
            if y is not None:
                np.testing.assert_allclose(jitcore.to(x, "cpu"), y, rtol=1e-6, atol=1e-12)
    return compiled


def has_order(compiled: Any) -> bool:
    """Whether iterations follow one another, on the device or on the host."""
    (only,) = compiled.specializations
    if not isinstance(only.plan, NativePlan):
        return True
    return any("after the other" in one for one in only.plan.kernel.lowered.notes)


def scaled_where_positive(x):
    y = np.zeros_like(x)
    for i in range(x.shape[0]):
        total = x[i].sum()
        if total > 0:
            y[i] = x[i] / total
        elif total < -20:
            y[i, 1:] = x[i, :-1]
    return y


def lifted_where_low(x, y):
    for i in range(x.shape[0]):
        if x[i].min() < -1.5:
            x[i] += 1
            y[i] = x[i].sum()


@pytest.mark.parametrize(
    ("function", "make"),
    [
        (scaled_where_positive, lambda: (normal(9, 300),)),
        (lifted_where_low, lambda: (normal(9, 40, dtype=np.float32), normal(9))),
    ],
)
def test_branches_on_what_rows_hold_are_the_blocks(
    fake: FakeDriver, function: Any, make: Callable[[], Any]
) -> None:
    (only,) = runs_the_same(function, make()).specializations
    kernels = [one for one in only.plan.kernel.lowered.notes if "_kernel" in one]
    # The other one makes zeros.
    assert kernels[-1].endswith("a block per row") and len(kernels) <= 2


@pytest.mark.parametrize(("function", "make"), SHARED)
def test_threads_share_iterations(fake: FakeDriver, function: Any, make: Any) -> None:
    assert not has_order(runs_the_same(function, make()))


def running(x):
    y = np.zeros_like(x)
    for k in range(1, x.shape[0]):
        y[k] = y[k - 1] * 0.5 + x[k]
    return y


def backwards(x):
    for k in range(x.shape[0] - 1):
        x[k] = x[k + 1]


def halves(x):
    y = np.zeros_like(x)
    for k in range(x.shape[0]):
        y[k // 2] = x[k]
    return y


def first_of_all(x):
    y = np.zeros(2)
    for k in range(x.shape[0]):
        y[0] = x[k]
    return y


def diagonals(x):
    y = np.zeros(x.shape[0] + x.shape[1])
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            y[i + j] = x[i, j]
    return y


def carried(x):
    y, last = np.zeros_like(x), 0.0
    for k in range(x.shape[0]):
        y[k] = last
        if x[k] > 0:
            last = x[k]
    return y


def until_negative(x):
    y = np.zeros_like(x)
    for k in range(x.shape[0]):
        if x[k] < 0:
            break
        y[k] = x[k]
    return y


def skipping(x):
    y = np.zeros_like(x)
    for k in range(x.shape[0]):
        if x[k] < 0:
            continue
        y[k] = x[k]
    return y


@pytest.mark.parametrize(
    "function", [running, backwards, halves, first_of_all, carried, until_negative, skipping]
)
def test_iterations_that_need_order_keep_it(fake: FakeDriver, function: Any) -> None:
    compiled = runs_the_same(function, (normal(90),))
    assert has_order(compiled) or function is skipping


def test_places_that_iterations_share(fake: FakeDriver) -> None:
    assert has_order(runs_the_same(diagonals, (normal(6, 7),)))


@pytest.mark.parametrize("distance", [1, 2, 7])
def test_arguments_that_overlap(fake: FakeDriver, distance: int) -> None:
    def moved(y, x):
        for k in range(x.shape[0]):
            y[k] = x[k] + 1

    host = normal(70)
    given = jitcore.to(host, "cuda")
    compiled = script(moved)
    for _ in range(2):
        moved(host[distance:], host[:-distance])
        compiled(given[distance:], given[:-distance])
        np.testing.assert_array_equal(given.numpy(), host)
        moved(host[:-distance], host[distance:])
        compiled(given[:-distance], given[distance:])
        np.testing.assert_array_equal(given.numpy(), host)
