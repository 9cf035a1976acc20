"""Lists that are attributes of objects, and lists that methods make."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import outcome
from jitcore import script


class Grid:
    def __init__(self, size: int) -> None:
        self.size = size
        self.cells = [[(i * 7 + j * 3) % 5 for j in range(size)] for i in range(size)]
        self.totals: list[int] = []
        self.moves: list[tuple[int, float]] = []

    def around(self, i: int, j: int) -> int:
        total = 0
        for a in (-1, 0, 1):
            total += self.cells[(i + a) % self.size][j]
        return total

    def step(self) -> None:
        new = []
        for i in range(self.size):
            row = []
            for j in range(self.size):
                row.append(self.around(i, j) % 5)
            new.append(row)
        self.cells = new
        self.totals.append(sum(new[0]))

    def run(self, steps: int) -> list[int]:
        for _ in range(steps):
            self.step()
        return self.totals

    def grow(self) -> list[list[int]]:
        self.cells[1][2] = 50
        self.cells.append([0] * self.size)
        self.cells[0] = self.cells[-1]
        return self.cells

    def move(self, count: int) -> float:
        total = 0.0
        for number in range(count):
            self.moves.append((number, number / 2))
            total += self.moves[-1][1]
        return total


class Stack:
    def __init__(self, items: list[Any] | None = None) -> None:
        self.items: list[Any] = [] if items is None else items

    def push(self, item: float) -> None:
        self.items.append(item)

    def pop(self) -> Any:
        return self.items.pop()


def steps(grid: Grid, count: int) -> Any:
    return grid.run(count)


def grown(grid: Grid, count: int) -> Any:
    for _ in range(count):
        rows = grid.grow()
    return rows, rows[0] is rows[-1], rows is grid.cells


def moved(grid: Grid, count: int) -> Any:
    return grid.move(count), grid.moves


def both(one: Stack, other: Stack, count: int) -> Any:
    """They may have the same list."""
    for number in range(count):
        one.push(number + 0.5)
        other.push(one.pop() + other.pop())
    return len(one.items), len(other.items)


def with_argument(stack: Stack, items: list[float], count: int) -> Any:
    for number in range(count):
        items[number] += 1.0
        stack.items[-1 - number] *= 2.0
    return sum(items)


def exchanged(one: Stack, other: Stack, count: int) -> Any:
    for _ in range(count):
        one.items, other.items = other.items, one.items
        one.items.append(0.25)
    return one.items is other.items


def replaced(one: Stack, other: Stack, count: int) -> Any:
    if count > 1:
        one.items = other.items
    for number in range(count):
        one.items.append(float(number))
    return other.items


def emptied(stack: Stack, count: int) -> Any:
    total = 0.0
    for _ in range(count):
        total += stack.pop()
    return total


def made(count: int) -> Any:
    stack = Stack([1.0])
    for number in range(count):
        stack.push(number * 0.5)
    total = 0.0
    while stack.items:
        total += stack.pop()
    return total


def given(count: int) -> Stack:
    stack = Stack([1.0])
    for number in range(count):
        stack.push(number * 0.5)
    return stack


def written(stack: Stack, values: np.ndarray, count: int) -> Any:
    """Arrays are written before an exception."""
    for number in range(count):
        values[number] = stack.items[number]
        stack.items[number] = 0.0
    return values.sum()


def squared(stack: Stack, count: int) -> Any:
    """Ints may become too large."""
    for _ in range(count):
        for number in range(len(stack.items)):
            stack.items[number] = stack.items[number] * stack.items[number]
    return stack.items


def grid(size: int, rows: Any = None) -> Grid:
    found = Grid(size)
    if rows is not None:
        found.cells = rows
    return found


def shared_rows() -> Grid:
    row = [1, 2, 3]
    return grid(3, [row, [4, 5, 6], row])


def same_list() -> tuple[Stack, Stack]:
    items = [1.0, 2.0, 3.0]
    return Stack(items), Stack(items)


def own_argument() -> tuple[Stack, list[float]]:
    items = [1.0, 2.0, 3.0]
    return Stack(items), items


FLOATS = [0.5, -2.0, 3.25, float("inf"), -0.0]

PROGRAMS: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (steps, lambda: (grid(5), 3)),
    (steps, lambda: (grid(1), 2)),
    (steps, lambda: (shared_rows(), 2)),
    (grown, lambda: (grid(4), 2)),
    (grown, lambda: (shared_rows(), 3)),
    (moved, lambda: (grid(2), 7)),
    (both, lambda: (Stack([1.0]), Stack([2.0, 3.0]), 4)),
    (both, lambda: (*same_list(), 4)),
    (with_argument, lambda: (*own_argument(), 3)),
    (with_argument, lambda: (Stack(FLOATS.copy()), FLOATS.copy(), 2)),
    (exchanged, lambda: (Stack([1.0]), Stack([2.0, 3.0]), 3)),
    (exchanged, lambda: (*same_list(), 2)),
    (replaced, lambda: (Stack([1.0]), Stack([2.0, 3.0]), 3)),
    (emptied, lambda: (Stack(FLOATS.copy()), 3)),
    (made, lambda: (9,)),
    (given, lambda: (9,)),
]

ODD: list[tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = [
    (written, lambda: (Stack(FLOATS.copy()), np.zeros(5), 3)),
    (emptied, lambda: (Stack([1.0, 2.0]), 3)),
    (emptied, lambda: (Stack(), 1)),
    (both, lambda: (Stack([1]), Stack([2.5, "text", 3.0]), 2)),
    (both, lambda: (Stack([1]), Stack([2, 3.0]), 2)),
    (written, lambda: (Stack([1.0, 2.0]), np.zeros(5), 3)),
    (written, lambda: (Stack([1.0, 2.0, 3.0]), np.zeros(2), 3)),
    (squared, lambda: (Stack([3, 5]), 4)),
    (squared, lambda: (Stack([3, 5]), 7)),
    (steps, lambda: (grid(2, [[1, 2], [3]]), 2)),
    (steps, lambda: (grid(2, [[1, 2], 7]), 2)),
    (grown, lambda: (grid(0), 2)),
    (replaced, lambda: (Stack([1.0]), Stack([2]), 3)),
]


@pytest.mark.parametrize(("function", "make"), PROGRAMS)
def test_native_programs(function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]) -> None:
    compiled = script(function)
    for _ in range(2):
        assert outcome(compiled, make()) == outcome(function, make())
    assert compiled.kernels


@pytest.mark.parametrize(("function", "make"), ODD)
def test_errors_and_what_is_python_s(
    function: Callable[..., Any], make: Callable[[], tuple[Any, ...]]
) -> None:
    compiled = script(function)
    for _ in range(3):
        assert outcome(compiled, make()) == outcome(function, make())


def test_lists_that_change_from_call_to_call() -> None:
    compiled, stacks = script(both), (Stack([1.0]), Stack([2.0]))
    others = copy.deepcopy(stacks)
    for count in (1, 3, 2, 0, 4):
        assert outcome(compiled, (*stacks, count)) == outcome(both, (*others, count))
        for one, other in zip(stacks, others, strict=True):
            one.items.insert(0, 7.0)
            other.items.insert(0, 7.0)
        if count == 2:
            stacks[0].items, others[0].items = stacks[1].items, others[1].items


def test_an_element_that_is_an_object_stays_that_object() -> None:
    big = 12345.678
    stack = Stack([big, 1.0])
    kept = stack.items
    compiled = script(with_argument)
    compiled(stack, [1.0, 2.0], 1)
    assert stack.items is kept and kept[0] is big and kept[1] == 2.0
