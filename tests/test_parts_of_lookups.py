# mypy: allow-untyped-defs, allow-untyped-calls
"""Columns of rows that are looked up, such as coordinates of bonds: each is looked up by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script
from jitcore.codegen.printers import loop_hints
from jitcore.ir.passes.parts_of_lookups import look_up_parts


def lengths(p, i, j):
    d = p[i] - p[j]
    return np.sqrt((d * d).sum(axis=1))


def norms(p, i, j):
    return np.linalg.norm(p[i] - p[j], axis=-1)


def areas(p, i, j):
    u, v = p[i], p[j]
    return u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]


def one_column(p, i, j):
    return p[i][:, 2] * 2.0 - p[j][:, 1]


def sliced(p, i, j):
    return p[i][:, 1:] * 2.0, p[j][..., ::-2] + 1.0


def some_rows(p, i, j):
    return p[i][::2, 0] * 2.0, p[j][1:, 0] + p[j][:-1, 1]


def returned(p, i, j):
    found = p[i]
    return found[:, 0], found[:, 1] * p[j][:, 0]


def kept(p, i, j):
    d = p[i]
    return d, d[:, 0] * d[:, 1] + p[j][:, 0]


def written_later(p, i, j):
    found = p[i]
    p[:] = 0.0
    return found[:, 0] * found[:, 1] + p[j][:, 0]


def rows_are_written(p, i, j):
    found = p[i]
    first = found[:, 0] * 2.0
    found[:, 0] = 5.0
    return first + found[:, 0] * p[j][:, 1], found


def index_is_written(p, i, j):
    x = p[i][:, 0] * 2.0
    i[:] = j
    y = p[i][:, 1] * 2.0
    return x + y, p[i][:, 0] - x


FUNCTIONS = [
    *(lengths, norms, areas, one_column, sliced, some_rows, returned, kept),
    *(written_later, rows_are_written, index_is_written),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("count", [1, 7, 130])
def test_values(function: Callable[..., Any], dtype: str, count: int) -> None:
    random = np.random.default_rng(count)
    p = random.standard_normal((40, 3)).astype(dtype)
    i, j = random.integers(-40, 40, (2, count))
    for table in (p, np.asfortranarray(p), p[::-2]):
        n = len(table)
        check(function, table, i % n - n // 2, j.astype(np.int32) % n)


@pytest.mark.parametrize("is_slow", [False, True])
def test_values_where_gathers_are_slow(is_slow: bool, monkeypatch: Any) -> None:
    monkeypatch.setattr(loop_hints, "gathers_slowly", lambda: is_slow)
    random = np.random.default_rng(9)
    args = random.standard_normal((50, 3)), *random.integers(-50, 50, (2, 301))
    check(norms, *args)
    compiled = script(norms)
    compiled(*args)
    assert not (is_slow and "gather" in compiled.kernels[0].llvm)


def test_places_in_planes() -> None:
    def products(p, i, j):
        found = p[i, j]
        return found[..., 0] * found[..., 1]

    random = np.random.default_rng(4)
    i, j = random.integers(-6, 6, (2, 5, 8))
    check(products, random.standard_normal((6, 7, 2)), i, j)
    check(products, random.standard_normal((6, 7, 2)), i, j[0])
    check(products, random.standard_normal((6, 7, 2)), i, j[:0, :0])


def _failure(run: Callable[..., Any], *args: Any) -> tuple[type[Exception], str]:
    with pytest.raises(IndexError) as raised:
        run(*args)
    return raised.type, str(raised.value)


@pytest.mark.parametrize("function", [lengths, areas, one_column, sliced])
@pytest.mark.parametrize(("which", "place"), [(1, 40), (1, -41), (2, 40), (2, 1 << 40)])
def test_places_outside(function: Callable[..., Any], which: int, place: int) -> None:
    args = [np.ones((40, 3)), np.arange(30), np.arange(30)]
    args[which][17] = place
    assert _failure(script(function), *args) == _failure(function, *args)


def test_a_column_outside() -> None:
    def fourth(p, i):
        return p[i][:, 3] * 2.0

    args = np.ones((40, 3)), np.arange(30)
    assert _failure(script(fourth), *args) == _failure(fourth, *args)


def test_no_rows_are_copied_and_each_index_is_checked_once() -> None:
    for function in (lengths, norms, areas):
        compiled = script(function)
        random = np.random.default_rng(6)
        compiled(random.standard_normal((40, 3)), *random.integers(0, 40, (2, 64)))
        (kernel,) = compiled.kernels
        assert "malloc" not in kernel.source
        assert kernel.source.count("boolean = False") == 2


def test_the_example() -> None:
    before, after = examples(look_up_parts)
    check_pass(look_up_parts, before, after)
    check_unchanged(look_up_parts, after)


_ROWS = """
graph(%x : Float32[9, 3], %i : Int64[m]):
  %0 : Float32[m, 3] = np::gather[index="$0, :"](%x, %i)
  %1 : Float32[m] = np::view[index=":, 0"](%0)
  %2 : Float32[m] = np::multiply(%1, %1)
  return (%2, REST)
"""


@pytest.mark.parametrize("rest", ["%0", "%1"])
def test_rows_that_somebody_has_stay(rest: str) -> None:
    check_unchanged(look_up_parts, _ROWS.replace("REST", rest))
