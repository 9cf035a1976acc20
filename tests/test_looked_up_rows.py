# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that are looked up in tables, in one loop with what is computed or added up of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import fusion_strategy, script

COLUMNS = 5


def scaled(table, i, j):
    return table[i] * 2.0 + 1.0


def apart(table, i, j):
    return table[i] - table[j]


def lengths(table, i, j):
    d = table[i] - table[j]
    return np.sqrt((d * d).sum(axis=-1))


def normalized(table, i, j):
    rows = table[i] + table[j]
    mean = rows.mean(axis=-1, keepdims=True)
    return (rows - mean) / np.sqrt(rows.var(axis=-1, keepdims=True) + 1e-5)


def added_up(table, i, j):
    return table[i].sum(axis=0), table[j].max(axis=-1)


def spread(table, i, j):
    return table[i].var(axis=0), (table[j] * 2.0).std(axis=-1)


def of_columns(table, i, j):
    return table[:, i] * 2.0 - table[:, j]


def written_afterwards(table, i, j):
    before = table[i] * 2.0
    table[:] = table + 1.0
    return before, table[j] * 2.0, before - table[i]


def written_from_itself(table, i, j):
    table[: i.shape[0]] = table[i.reshape(i.shape[0], -1)[:, 0]] * 2.0
    return table


FUNCTIONS = (
    scaled,
    apart,
    lengths,
    normalized,
    added_up,
    spread,
    of_columns,
    written_afterwards,
    written_from_itself,
)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("shape", [(1,), (9,), (33,), (4, 3), (33, 1)])
def test_rows(function: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> None:
    random = np.random.default_rng(5)
    bound = 40 if function is not of_columns else COLUMNS
    table = random.uniform(-9.0, 9.0, (40, COLUMNS)).astype(dtype)
    if function.__name__.startswith("written") and dtype == "int64":
        table = table.astype("float64")
    i, j = (random.integers(-bound, bound, shape) for _ in range(2))
    check(function, table, i, j, reduction=True)


@pytest.mark.parametrize("function", [scaled, apart, lengths, added_up])
@pytest.mark.parametrize("columns", [0, 1, 2, 3, 16, 70])
def test_rows_of_all_lengths(function: Callable[..., Any], columns: int) -> None:
    random = np.random.default_rng(6)
    table = random.standard_normal((30, columns))
    table[random.random(table.shape) < 0.1] = -0.0
    i, j = (random.integers(-30, 30, 50) for _ in range(2))
    if columns or function is not added_up:
        check(function, table, i, j, reduction=True)
    if function is not added_up:
        check(function, table, i[:0], j[:0], reduction=True)


@pytest.mark.parametrize("function", [scaled, apart, lengths, normalized, added_up, of_columns])
def test_tables_of_all_layouts(function: Callable[..., Any]) -> None:
    random = np.random.default_rng(7)
    table = random.standard_normal((40, 40)).astype(np.float32)
    table[3, 4], table[5] = np.nan, np.inf
    i, j = (random.integers(-20, 20, 30)[::-2] for _ in range(2))
    with np.errstate(invalid="ignore"):
        for view in (table.T, table[::-2], table[::2, ::-1], np.asarray(table, order="F")):
            check(function, view, i, j, reduction=True)
        check(function, np.broadcast_to(table[0], (40, 40)), i, j, reduction=True)


@pytest.mark.parametrize("function", [scaled, lengths, added_up])
def test_extents_that_change(function: Callable[..., Any]) -> None:
    random = np.random.default_rng(8)
    with fusion_strategy([("DYNAMIC", 1)]):
        compiled = script(function)
        for rows, columns, count in ((40, 5, 30), (7, 64, 100), (1, 1, 1), (9, 33, 2)):
            table = random.standard_normal((rows, columns))
            i, j = (random.integers(-rows, rows, count) for _ in range(2))
            found, expected = compiled(table, i, j), function(table, i, j)
            if function is not added_up:
                found, expected = (found,), (expected,)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("place", [40, -41])
@pytest.mark.parametrize("function", [scaled, apart, lengths, normalized, added_up])
def test_rows_outside(function: Callable[..., Any], place: int) -> None:
    i = np.arange(30)
    i[17] = place
    expected = f"index {place} is out of bounds for axis 0 with size 40"
    for pair in ((i, np.arange(30)), (np.arange(30), i)):
        if function is scaled and pair[1] is i:
            continue
        with pytest.raises(IndexError, match=expected):
            script(function)(np.ones((40, 5)), *pair)


@pytest.mark.parametrize("function", [scaled, apart, lengths, normalized])
def test_one_loop_computes_all(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(np.ones((40, 64)), np.arange(30), np.arange(30))
    assert "malloc" not in compiled.kernels[0].source
