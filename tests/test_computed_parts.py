# mypy: allow-untyped-defs, allow-untyped-calls
"""Parts of computed arrays, such as columns of differences, are computed where they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script
from jitcore.ir.passes.computed_parts import compute_parts


def areas(a, b, c):
    u, v = b - a, c - a
    x = u[:, 1] * v[:, 2] - u[:, 2] * v[:, 1]
    y = u[:, 2] * v[:, 0] - u[:, 0] * v[:, 2]
    return np.sqrt(x * x + y * y)


def of_one_row(a, b, c):
    d = np.exp(a - b[0]) * c[:, :1]
    return d[:, 0] + 2 * d[:, 1], d[:, 2] * 1.0


def neighbours(a, b, c):
    d = a * b
    e = d[1:] - d[:-1]
    return e[1:] + e[:-1]


def dear_neighbours(a, b, c):
    d = np.exp(a)
    return d[1:] + d[:-1]


def chosen_row(a, b, c):
    k = int(c[0, 0] > 0)
    d = np.where(a > 0, a, b)
    return d[k] * 2 + d[-1], d[k, ::-1] - d[k, 0]


def kept(a, b, c):
    d = a - b
    return d, d[:, 0] * d[:, 1]


def viewed(a, b, c):
    d = a - b
    column = d[:, 0]
    return column, column * d[:, 1]


def written(a, b, c):
    d = a - b
    first = d[:, 0] * 2
    d[:, 1] = 5
    return first + d[:, 1]


def operand_written(a, b, c):
    d = a - b
    a[:, 0] = 7
    return d[:, 0] * d[:, 1] + a[:, 0]


def number_written(a, b, c):
    number = np.array(2.0)
    d = a - number
    number[...] = 5
    return d[:, 0] * d[:, 1] + number


def written_in_loop(a, b, c):
    for _ in range(3):
        d = a * 0.5 + b
        a[:, 0] += d[:, 0] * d[:, 1]
    return a


def out_of_range(a, b, c):
    d = a - b
    return d[:, 0] * d[:, 3]


def with_new_axes(a, b, c):
    d = a - b
    return d[:, None, 0] * d[None, :, 1]


def whole_and_parts(a, b, c):
    d = a - b.mean()
    return (d[1:] * d[:-1]).sum() / (d * d).sum()


def whole_written(a, b, c):
    d = a - b
    e = d * 2
    d[0] = 5
    return d[1:] + d[:-1] + e[1:]


def with_last_axes(a, b, c):
    d = (1 - 0.5 * a)[:, :, None]
    return d * b[:, None, :], d * 2


FUNCTIONS = [
    whole_and_parts,
    whole_written,
    with_last_axes,
    areas,
    of_one_row,
    neighbours,
    dear_neighbours,
    chosen_row,
    kept,
    viewed,
    written,
    operand_written,
    number_written,
    written_in_loop,
    out_of_range,
    with_new_axes,
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_as_numpy(function: Callable[..., Any], rows: int) -> None:
    generator = np.random.default_rng(rows)
    a, b, c = (generator.normal(size=(rows, 3)) for _ in range(3))
    check(function, a, b, c, ulp=4)
    check(function, np.asfortranarray(a), b[::-1], c.astype(np.float32), ulp=4)
    check(function, a, a, a, ulp=4)
    check(function, a, b[:1], c, ulp=4)


def test_nothing_is_kept_between() -> None:
    arguments = [np.random.default_rng(1).normal(size=(100, 3)) for _ in range(3)]
    for function in (areas, neighbours, whole_and_parts):
        compiled = script(function)
        compiled(*arguments)
        assert compiled.kernels[0].source.count("alloc(") == 0


def test_dear_elements_are_computed_once() -> None:
    compiled = script(dear_neighbours)
    compiled(*[np.random.default_rng(1).normal(size=(100, 3)) for _ in range(3)])
    assert compiled.kernels[0].source.count("exp(") == 1


def test_the_example() -> None:
    before, after = examples(compute_parts)
    check_pass(compute_parts, before, after)
    check_unchanged(compute_parts, after)
