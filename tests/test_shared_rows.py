# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that read the same elements side by side: which loops they are, and that nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import script
from jitcore.codegen.loop_passes import shared_rows
from jitcore.codegen.loop_passes.shared_rows import MOST_NESTS, ROWS, share_rows
from jitcore.codegen.loop_passes.traversal import loads_in, walk
from jitcore.codegen.loops import For, Function, Stmt, Store


def stencil(x):
    around = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return x[1:-1, 1:-1] + 0.1 * (around - 4 * x[1:-1, 1:-1])


def edges(x):
    east = (x[:-2, 2:] + 2 * x[1:-1, 2:] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[1:-1, :-2])
    south = (x[2:, :-2] + 2 * x[2:, 1:-1] + x[2:, 2:]) - (x[:-2, :-2] + 2 * x[:-2, 1:-1])
    return np.sqrt(east * east + south * south), np.abs(east)


def with_columns(x):
    factor = 1 - x[2:-2, :1]
    return factor * (x[:-4] - 4 * x[1:-3] + 6 * x[2:-2] - 4 * x[3:-1] + x[4:])


def steps(x):
    y = x.copy()
    for _ in range(3):
        y[1:-1, 1:-1] = x[1:-1, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
        x[1:-1, 1:-1] = y[1:-1, 1:-1] + y[1:-1, :-2] - y[1:-1, 2:] + y[:-2, 1:-1] - y[2:, 1:-1]
        x /= 2
    return y


def planes(x):
    around = x[:, 2:, 1:-1] + x[:, :-2, 1:-1] + x[:, 1:-1, 2:] + x[:, 1:-1, :-2]
    return around - 4 * x[:, 1:-1, 1:-1]


def own_rows(x):
    return x * x + np.where(x > 0, x, -x)


def in_place(x):
    x[1:-1] = x[:-2] + x[2:] + x[1:-1] * x[1:-1]
    return x


def sides(x):
    return x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]


FUNCTIONS: Sequence[Callable[..., Any]] = (stencil, edges, with_columns, steps)


def changed(function: Callable[..., Any], x: Any) -> list[tuple[int, int]]:
    """How many elements each loop loads and stores in a step, where rows are side by side."""
    compiled = script(function)
    compiled(x)
    nests = [share_rows(kernel.lowered.function) for kernel in compiled.kernels]
    loops = [one for each in nests for one in walk(each.body) if isinstance(one, For)]
    return [(len({*loads_in(one.body)}), _stores(one)) for one in loops if _stores(one) >= ROWS]


def _stores(loop: For) -> int:
    return sum(isinstance(one, Store) for one in loop.body)


@pytest.mark.parametrize("rows", range(32, 37))
def test_any_number_of_rows(rows: int) -> None:
    random = np.random.default_rng(rows)
    for function, dtype in ((edges, "float32"), (with_columns, "float64"), (stencil, "int16")):
        check(function, (random.normal(size=(rows + 2, 77 - rows)) * 50).astype(dtype))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_do_not_change_a_bit(
    function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    x = np.random.default_rng(1).normal(size=(71, 103))
    x[3, 5], x[17, 0], x[40, 99] = np.nan, np.inf, -np.inf
    assert changed(function, x.copy())
    found = script(function)(x.copy())
    monkeypatch.setattr(shared_rows, "share_rows", lambda function: function)
    one_at_a_time = script(function)(x.copy())
    np.testing.assert_array_equal(found, one_at_a_time, strict=True)


def test_what_four_rows_load() -> None:
    x = np.ones((100, 90))
    # Six rows of the middle column, and both sides of four rows.
    assert changed(stencil, x) == [(6 + 2 * ROWS, ROWS)]
    # The factors are loaded before.
    assert changed(with_columns, x) == [(8, ROWS)]
    assert changed(steps, x) == [(14, ROWS)] * 2


@pytest.mark.parametrize("function", [own_rows, in_place, sides])
def test_rows_that_stay_alone(function: Callable[..., Any]) -> None:
    assert changed(function, np.ones((100, 90))) == []


def test_few_and_short_rows_stay_alone() -> None:
    for shape in ((20, 500), (500, 20)):
        assert changed(stencil, np.ones(shape)) == []


def test_planes_share_rows() -> None:
    x = np.random.default_rng(2).normal(size=(5, 50, 60))
    assert len(changed(planes, x)) == 1
    check(planes, x)


def test_threads_share_the_blocks() -> None:
    x = np.random.default_rng(3).normal(size=(1003, 600)).astype(np.float32)
    before = jitcore.get_num_threads()
    try:
        for threads in (1, 2, 3):
            jitcore.set_num_threads(threads)
            np.testing.assert_array_equal(script(stencil)(x), stencil(x))
    finally:
        jitcore.set_num_threads(before)


def test_long_functions_have_few() -> None:
    lowered = script(stencil)
    lowered(np.ones((100, 90)))
    function = lowered.kernels[0].lowered.function
    nests: list[Stmt] = [one for one in function.body if isinstance(one, For)]
    many = Function("many", (), nests * (MOST_NESTS + 3), "void")
    loops = [one for one in walk(share_rows(many).body) if isinstance(one, For)]
    assert sum(_stores(one) == ROWS for one in loops) == MOST_NESTS
