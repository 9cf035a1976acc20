"""``+=`` on lists: the list stays the one that it is, and machine code makes it longer."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.specialize.lists import list_extensions
from jitcore.ir.specialize.lists.list_extensions import extend_lists_in_place
from jitcore.pipeline import NativePlan


def test_docstring() -> None:
    before, after = examples(list_extensions)
    graph = parse_graph(before)
    assert extend_lists_in_place(graph)
    assert str(graph) == str(parse_graph(after))


def a_loop(n):
    values = [1]
    for i in range(n):
        values += [i, i * i]
    return sum(values), len(values)


def a_branch_in_a_loop(n):
    values = [0.5]
    for i in range(n):
        if i % 3 == 0:
            values += [i / 2]
        elif i % 3 == 1:
            values += (1.5, i * 1.0)
    return np.array(values)


def a_stack_of_places(n):
    seen = np.zeros((n, n), dtype=np.int64)
    stack = [(0, 0)]
    while stack:
        y, x = stack.pop()
        if 0 <= y < n and 0 <= x < n and not seen[y, x] and (x * y) % 5 != 4:
            seen[y, x] = 1 + y * x
            stack += [(y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)]
    return seen


def a_branch_that_raises(n):
    values = [n]
    if n < 0:
        raise ValueError("negative")
    else:
        values += [2]
    return values[0] + len(values)


def a_range(n):
    values = [3]
    values += range(n)
    return values


NATIVE = (a_loop, a_branch_in_a_loop, a_stack_of_places, a_branch_that_raises)


@pytest.mark.parametrize("function", [*NATIVE, a_range])
@pytest.mark.parametrize("n", [0, 1, 7, 40])
def test_like_python(function: Callable[..., Any], n: int) -> None:
    check(function, n)


def numbers_of_what_is_left(x):
    *outer, _ = x.shape
    count = len(outer)
    return x.transpose((count, *range(count)))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_a_range_as_long_as_what_is_left_of_a_shape(rank: int) -> None:
    check(numbers_of_what_is_left, np.ones((2, 3, 4)[:rank]))


@pytest.mark.parametrize("function", NATIVE)
def test_is_machine_code(function: Callable[..., Any]) -> None:
    scripted = script(function)
    scripted(9)
    assert isinstance(scripted.specializations[0].plan, NativePlan)


def other_names_see_it(n):
    values = [n]
    same = values
    for i in range(n):
        same += [i]
    return values, same is values


def another_list_in_a_branch(n):
    values = first = [n]
    if n > 3:
        values = [7]
    values += [1]
    return values, first


def another_list_in_a_loop(n):
    values = first = [n]
    for i in range(n):
        values += [i]
        if i == 1:
            values = [i]
    return values, first


def by_itself(n):
    values = [n, 1]
    values += values
    return values


def by_an_array(n):
    values = [n, 1]
    values += np.arange(2)
    return values


def by_a_number(n):
    values = [n]
    values += n
    return values


@pytest.mark.parametrize(
    "function",
    [
        other_names_see_it,
        another_list_in_a_branch,
        another_list_in_a_loop,
        by_itself,
        by_an_array,
        by_a_number,
    ],
)
@pytest.mark.parametrize("n", [1, 5])
def test_what_is_another_object(function: Callable[..., Any], n: int) -> None:
    check(function, n)


def of_the_caller(values, n):
    for i in range(n):
        values += [i]
    return len(values)


def test_a_list_that_is_an_argument() -> None:
    expected, found = [4, 5], [4, 5]
    assert of_the_caller(expected, 3) == script(of_the_caller)(found, 3)
    assert found == expected
