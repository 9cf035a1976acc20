# mypy: allow-untyped-defs, allow-untyped-calls
"""Products of one matrix with many vectors in a loop, computed at once before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import examples

from checking import check
from jitcore import script
from jitcore.ir.parser import parse_graph
from jitcore.ir.passes.loop_products import multiply_before_loops

ROWS, COLUMNS = 180, 150


def upper_part(x, y):
    z = np.zeros((x.shape[1], x.shape[1]))
    for i in range(x.shape[1]):
        z[i:, i] = z[i, i:] = x[:, i] @ x[:, i:] / 3.0
    return z


def all_but_the_first(x, y):
    total = 0.0
    for i in range(1, x.shape[1]):
        total += (x[:, i] @ x[:, : i + 1]).sum()
    return total


def matrix_on_the_left(x, y):
    z = np.zeros((y.shape[0], ROWS))
    for i in range(y.shape[0]):
        z[i] = x @ y[i]
    return z


def backward(x, y):
    z = np.zeros((y.shape[0], ROWS))
    for i in range(1, y.shape[0] + 1):
        z[-i] = x[::-1] @ y[-i]
    return z


def result_written_to(x, y):
    z = np.zeros(ROWS)
    for i in range(y.shape[0]):
        row = x @ y[i]
        row += i
        z += row
    return z


def other_memory_written(x, y):
    w = y.copy()
    z = np.zeros((y.shape[0], ROWS))
    for i in range(y.shape[0]):
        w[i] = 0.0
        z[i] = x @ y[i]
    return z, w


MOVED = [
    upper_part,
    all_but_the_first,
    matrix_on_the_left,
    backward,
    result_written_to,
    other_memory_written,
]


def vector_written(x, y):
    for i in range(1, y.shape[0]):
        y[i] = (x @ y[i - 1])[:COLUMNS] * 0.01
    return y


def matrix_written(x, y):
    z = np.zeros((y.shape[0], ROWS))
    for i in range(y.shape[0]):
        z[i] = x @ y[i]
        x[i] *= 0.5
    return z


def few_of_many(x, y):
    z = np.zeros(ROWS)
    for i in range(3):
        z += x @ y[i]
    return z


def left_early(x, y):
    z = np.zeros(ROWS)
    for i in range(y.shape[0]):
        z += x @ y[i]
        if z[0] > 1.0:
            break
    return z


KEPT = [vector_written, matrix_written, few_of_many, left_early]


def _arguments() -> tuple[Any, Any]:
    rng = np.random.default_rng(4)
    return rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=(160, COLUMNS))


@pytest.mark.parametrize("function", [*MOVED, *KEPT])
def test_results(function: Callable[..., Any]) -> None:
    check(function, *_arguments(), reduction=True)


@pytest.mark.parametrize("function", [*MOVED, *KEPT])
def test_what_is_moved(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(*_arguments())
    (specialization,) = compiled.specializations
    assert multiply_before_loops(specialization.typed.copy()) == (function in MOVED)


def too_far(x, y):
    z = np.zeros((y.shape[0] + 1, ROWS))
    for i in range(y.shape[0] + 1):
        z[i] = x @ y[i]
    return z


def test_an_index_out_of_range_is_still_found() -> None:
    check(too_far, *_arguments(), reduction=True)


def test_the_pass_does_what_its_docstring_says() -> None:
    before, after = examples(multiply_before_loops)
    graph = parse_graph(before)
    assert multiply_before_loops(graph)
    assert str(graph).strip() == str(parse_graph(after)).strip()
    assert not multiply_before_loops(graph)
