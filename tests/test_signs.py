# mypy: allow-untyped-defs, allow-untyped-calls
"""Which ints surely are not negative, and loops whose statements need no copies because of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.ir.graph import Value
from jitcore.ir.parser import parse_graph
from jitcore.ir.signs import is_nonnegative

ITEM = """
graph(%n : int):
  %start : int = prim::Constant[value={start}]()
  %stop : int = prim::Constant[value={stop}]()
  %step : int = prim::Constant[value={step}]()
  %more : int = prim::Constant[value={more}]()
  %go : bool = prim::Constant[value=True]()
  %trips : int = prim::range_length(%start, %stop, %step)
  prim::Loop(%trips, %go)
    block0(%i : int):
      %moved : int = prim::mul(%i, %step)
      %item : int = prim::add(%start, %moved)
      %place : int = prim::add(%item, %more)
      -> (%go)
  return (%n)
"""


def place_in_loop(start: int, stop: int, step: int, more: int) -> Value:
    graph = parse_graph(ITEM.format(start=start, stop=stop, step=step, more=more))
    (loop,) = graph.find_all_nodes("prim::Loop")
    return loop.blocks[0].nodes[-1].output


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2, -3])
@pytest.mark.parametrize("more", [-3, -1, 0, 2])
def test_places_in_ranges(step: int, more: int) -> None:
    for first in range(-2, 9):
        for last in range(-2, 9):
            items = range(first, last, step)
            if not items:
                continue
            proven = is_nonnegative(place_in_loop(first, last, step, more))
            assert not proven or min(items) + more >= 0
            bound = first if step > 0 else last + 1
            assert proven or bound + more < 0


def backward(x):
    y = np.zeros_like(x)
    y[:, -1] = x[:, -1]
    for j in range(x.shape[1] - 2, -1, -1):
        y[:, j] = x[:, j] + 0.5 * y[:, j + 1]
    return y


def every_other(x):
    y = np.ones_like(x)
    for j in range(x.shape[1] - 1, 2, -2):
        y[:, j] = x[:, j] - y[:, j - 1] * y[:, j - 2]
    return y


def wrapped(x):
    y = np.ones_like(x)
    for j in range(2, -3, -1):
        y[:, j] = x[:, j] - y[:, j + 1] * 0.25
    return y


@pytest.mark.parametrize("function", [backward, every_other, wrapped])
@pytest.mark.parametrize("shape", [(3, 3), (40, 7), (7, 40)])
def test_columns_from_the_last_to_the_first(
    function: Callable[..., Any], shape: tuple[int, int]
) -> None:
    check(function, np.random.default_rng(0).random(shape))


@pytest.mark.parametrize("function", [backward, every_other])
def test_a_column_is_written_at_once(function: Callable[..., Any]) -> None:
    scripted = script(function)
    scripted(np.ones((30, 20)))
    (kernel,) = scripted.kernels
    assert not any("temporary" in note for note in kernel.lowered.notes)
