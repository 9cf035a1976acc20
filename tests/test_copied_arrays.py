"""Lists made of arrays' numbers: ``list(x)``, ``sorted(x)``, ``x.tolist()``, ``extend(x)``."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language_checking import check_calls

import jitcore
from checking import observed

SEED = 20


def queue_of_places(x, low):
    queue, steps = list(np.where(x > low)[0]), []
    while queue:
        place = queue.pop(0)
        steps.append(place)
        if x[place] < 5 * low:
            x[place] += low
            queue.extend(np.where(x == x[place])[0])
    return steps


def python_numbers(x):
    stack, total = x.tolist(), 0
    stack.append(stack[0])
    while stack:
        total += stack.pop()
    return total, max(x.tolist()), sorted(x.tolist())


def in_order(x):
    low = sorted(x)
    return low[0], sorted(x, reverse=True), list(x)


def beside_other_numbers(x, n):
    values = list(x)
    values.append(n)
    values.insert(0, 2.5)
    values.extend(x[::2])
    return values


def rows_of_lists(x, n):
    rows = []
    for k in range(n):
        rows.append(list(x))
        rows[k].extend(x[:k])
        rows.append(x[k:].tolist())
    return rows, len(rows[-1])


def of_a_known_length(n):
    values = [1.5] * 100
    values[3] = n
    return values


def _arrays() -> list[Any]:
    rng = np.random.default_rng(SEED)
    numbers = rng.integers(1, 5, 9)
    kinds = [np.int64, np.uint8, np.int32, np.float64, np.float32]
    arrays: list[Any] = [numbers.astype(kind) for kind in kinds]
    return [*arrays, numbers[::-2], np.arange(1, 2), np.ones(0), numbers.reshape(3, 3)]


@pytest.mark.parametrize("x", _arrays(), ids=lambda x: f"{x.dtype}{x.strides}{x.shape}")
@pytest.mark.parametrize(
    ("function", "more"),
    [
        (queue_of_places, (1,)),
        (python_numbers, ()),
        (in_order, ()),
        (beside_other_numbers, (3,)),
        (rows_of_lists, (2,)),
    ],
)
def test_an_array_becomes_a_list(
    function: Callable[..., Any], more: tuple[Any, ...], x: Any
) -> None:
    _check(function, x, *more)


def _check(function: Callable[..., Any], *args: Any) -> None:
    """Compare three calls with Python, wherever they run."""
    scripted, expected = jitcore.script(function), observed(function, args)
    for _ in range(3):
        assert observed(scripted, args) == expected


@pytest.mark.parametrize(
    ("function", "more"),
    [(queue_of_places, (1,)), (python_numbers, ()), (in_order, ()), (beside_other_numbers, (3,))],
)
def test_compiled_code_makes_it(function: Callable[..., Any], more: tuple[Any, ...]) -> None:
    x = np.random.default_rng(SEED).integers(1, 5, 9)
    check_calls(function, (x, *more), (x[::-2], *more))


def test_a_list_of_a_known_length_is_a_result_of_compiled_code() -> None:
    check_calls(of_a_known_length, (2.0,))


@pytest.mark.parametrize("x", [[3, 1], (3, 1), "ba", {3: 1, 1: 2}, {3, 1}, np.array(["b", "a"]), 5])
@pytest.mark.parametrize("function", [in_order, python_numbers])
def test_what_is_no_array_is_pythons(function: Callable[..., Any], x: Any) -> None:
    _check(function, x)


def rows_of_pairs(table, i, pair):
    y, x = pair
    table[i, 0] = y, x
    table[i + 1, 1] = x, True
    return table.sum()


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "uint64", "bool", "float32"])
def test_numbers_go_into_rows(dtype: str) -> None:
    table = np.ones((4, 2, 2), dtype)
    pairs = [(3, 4), (np.int64(300), np.int32(-1))]
    check_calls(rows_of_pairs, *[(table, 0, pair) for pair in pairs])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("pair", [(3, 70000), (70000, 3), (2**70, 1), (1, -(2**70))])
def test_numbers_that_do_not_fit_leave_what_numpy_leaves(dtype: str, pair: tuple[int, int]) -> None:
    table = np.ones((4, 2, 2), dtype)
    calls = [(table, 1, (3, 4)), (table, 1, pair), (table, 7, pair), (table, 3, (1, 2))]
    check_calls(rows_of_pairs, *calls)
