# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops over blocks ask for what they read later: which do, and for which bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jitcore import pipeline, script
from jitcore.codegen import processor
from jitcore.codegen.loop_passes.lane_sums import add_by_lanes
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.prefetches import AHEAD, prefetch_blocks
from jitcore.codegen.loop_passes.rewriting import renamed
from jitcore.codegen.loop_passes.traversal import PREFETCH, loads_in, walk
from jitcore.codegen.loops import Binary, Const, Do, Expr, For, Function


def squares(x):
    return (x * x).sum()


def squared_distance(x, y):
    return ((x - y) ** 2).sum()


def by_rows(x):
    return x.mean(axis=1)


def prefetching(function: Callable[..., Any], *arguments: Any) -> Function:
    compiled = script(function)
    compiled(*arguments)
    (kernel,) = compiled.kernels
    return prefetch_blocks(add_by_lanes(kernel.lowered.function))


def asking(function: Function) -> Iterator[tuple[For, list[Do]]]:
    """The loops that ask for memory, and how."""
    for one in walk(function.body):
        if isinstance(one, For):
            found = [
                each for each in one.body if isinstance(each, Do) and each.call.name == PREFETCH
            ]
            if found:
                yield one, found


def value(x: Expr) -> int:
    """The value of an expression in which every variable is 0."""
    if isinstance(x, Const):
        return int(x.value)
    if isinstance(x, Binary):
        one, other = value(x.x), value(x.y)
        return {"add": one + other, "mul": one * other}[x.op]
    return 0


@pytest.mark.parametrize(
    ("function", "shapes"),
    [(squares, [100_003]), (squared_distance, [70_000] * 2), (by_rows, [(500, 200)])],
)
def test_all_that_is_read_is_asked_for_some_iterations_before(
    function: Callable[..., Any], shapes: list[Any]
) -> None:
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    ((loop, asked),) = asking(prefetching(function, *arrays))
    assert {one.call.args[0] for one in asked} == {one.pointer for one in loads_in(loop.body)} - {
        one.pointer for one in loads_in(loop.body) if one.root.startswith("lanes")
    }
    for one in asked:
        _, place, size = one.call.args
        assert value(place) == AHEAD
        later = renamed(place, {loop.var.name: Const(loop.step, "int64")})
        assert value(later) - value(place) == value(size)


@pytest.mark.parametrize(
    ("function", "array"),
    [
        (squares, np.ones(8000, np.float32)),
        (by_rows, np.ones((40, 200), np.float32)),
    ],
)
def test_nothing_is_asked_for_that_fits_in_the_first_cache(
    function: Callable[..., Any], array: Any
) -> None:
    assert not list(asking(prefetching(function, array)))


def test_elements_that_lie_apart_are_not_asked_for() -> None:
    """There are two loops, of which the one for a stride of one asks."""
    function = prefetching(squares, np.ones(300_000, np.float32)[::3])
    blocks = [one for one in walk(function.body) if isinstance(one, For) and one.step == 128]
    assert len(blocks) == 2
    assert [one for one, _ in asking(function)] == blocks[:1]


def test_threads_share_loops_that_ask() -> None:
    function = prefetching(by_rows, np.ones((500, 1000), np.float32))
    outer = [one for one in walk(function.body) if isinstance(one, For) and one.parallel]
    assert outer and all(work_of(one) is not None for one in outer)
    assert list(asking(function))


@pytest.mark.parametrize("length", [16_384, 16_511, 100_003])
@pytest.mark.parametrize("offset", [0, 1, 5])
def test_sums_of_arrays_anywhere_in_a_line(length: int, offset: int) -> None:
    x = np.random.default_rng(length).integers(-9, 9, length + offset).astype(np.float32)[offset:]
    assert script(squares)(x) == (x.astype(np.int64) ** 2).sum()


@pytest.mark.parametrize(("name", "gains"), [("sapphirerapids", True), ("znver4", False)])
def test_processors_that_only_lose_are_asked_nothing(
    name: str, gains: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = script(squares)
    compiled(np.ones(100_003, np.float32))
    monkeypatch.setattr(processor, "cpu_name", lambda: name)
    function = pipeline._for_processors(compiled.kernels[0].lowered.function)
    assert bool(list(asking(function))) == gains
