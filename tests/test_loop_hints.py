# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that LLVM gets hints about: short ones with a rest, and sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen import engine
from jitcore.codegen.loops import Assign, Binary, Const, Expr, For, Stmt, Var
from jitcore.codegen.printers.loop_hints import loop_hints
from jitcore.codegen.printers.loop_metadata import (
    MASKED,
    NOT_UNROLLED,
    SEVERAL_AT_A_TIME,
    UNMASKED,
)

LENGTHS = [5, 6, 7, 9, 12, 15, 31, 33, 62, 100, 255, 257]


def chain(x, y):
    return x * y + x, np.where(x > y, x, y)


def divided(x, y):
    return x // 3 + y % 7, x * 2 - y // 5


def rows(x, y):
    return x.sum(), (x * y).sum(axis=0), x.max(), y.min()


def written(x, y):
    x[1:-1] = x[1:-1] + y[1:-1]
    return x


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("function", [chain, divided, rows, written])
def test_lengths_that_leave_a_rest(function: Callable[..., Any], length: int) -> None:
    for dtype in ("float64", "float32", "int64", "int32", "int16", "uint8", "complex64"):
        if function is divided and dtype.startswith(("float", "complex")):
            continue
        if function is not written and function is not chain and dtype.startswith("complex"):
            continue
        random = np.random.default_rng(length)
        x, y = (random.integers(1, 100, (2, 3, length))).astype(dtype)
        check(function, x, y, reduction=True, ulp=4)


@pytest.mark.parametrize("length", LENGTHS)
def test_vector_math_in_short_loops(length: int) -> None:
    def waves(x):
        return np.exp(-x * x) * np.sin(3 * x), np.arctan2(x, x - 1)

    check(waves, np.linspace(-3, 3, length), ulp=8)
    check(waves, np.linspace(-3, 3, length).astype(np.float32), ulp=8)


def test_masks_are_asked_for_where_a_loop_is_short() -> None:
    def text(length: int) -> str:
        compiled = script(lambda x: np.exp(x) + 1)
        compiled(np.ones(length))
        source = compiled.kernels[0].module._source
        assert source is not None
        return source.text

    assert MASKED in text(62)
    assert MASKED not in text(64)
    assert MASKED not in text(4)
    assert MASKED not in text(1001)


@pytest.mark.parametrize("has_masks", [True, False])
def test_processors_without_masks_get_none(
    has_masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "has_feature", lambda name: has_masks)
    seen: list[str] = []
    parse = engine._parse

    def noted(text: str, name: str) -> Any:
        seen.append(text)
        return parse(text, name)

    monkeypatch.setattr(engine, "_parse", noted)
    x = np.linspace(0, 1, 31)
    np.testing.assert_allclose(script(lambda x: np.exp(x) + 1)(x), np.exp(x) + 1)
    assert any(MASKED in text for text in seen) == has_masks
    assert any(UNMASKED in text for text in seen) != has_masks


# Several vectors side by side --------------------------------------------------------------


def long_chain(x, y):
    z = x
    for _ in range(8):
        z = z * y - x * z
    return z


def short_chain(x, y):
    return x * y - x


def exponentials(x, y):
    return np.exp(x * y).sum(axis=1)


def sums(x, y):
    return x.sum(axis=1)


def hints_of(function: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> str:
    compiled = script(function)
    x, y = np.random.default_rng(4).normal(size=(2, *shape)).astype(dtype)
    np.testing.assert_allclose(compiled(x, y), function(x, y), rtol=2e-5, atol=1e-5)
    source = compiled.kernels[0].module._source
    assert source is not None
    return source.text


def test_long_chains_are_computed_side_by_side() -> None:
    assert SEVERAL_AT_A_TIME in hints_of(long_chain, "float64", (3000,))
    assert SEVERAL_AT_A_TIME not in hints_of(long_chain, "float64", (100,))
    assert SEVERAL_AT_A_TIME not in hints_of(short_chain, "float64", (3000,))


def test_what_is_added_up_fills_whole_registers() -> None:
    assert "llvm.loop.vectorize.width" in hints_of(exponentials, "float32", (5, 300))
    assert "llvm.loop.vectorize.width" not in hints_of(exponentials, "float32", (5, 20))
    assert "llvm.loop.vectorize.width" not in hints_of(exponentials, "float64", (5, 300))
    assert "llvm.loop.vectorize.width" not in hints_of(sums, "float32", (5, 300))


def loop(stop: int, *body: Stmt, step: int = 1) -> For:
    return For(Var("k", "int64"), Const(0, "int64"), Const(stop, "int64"), list(body), step)


def joined(op: str, term: Expr, dtype: str = "int64") -> Assign:
    total = Var("total", dtype)
    return Assign(total, Binary(op, total, term, dtype))


def is_unrolled(one: For) -> bool:
    names: list[str] = []

    def metadata(text: str) -> str:
        names.append(text)
        return f"!{len(names)}"

    loop_hints(one, metadata)
    return NOT_UNROLLED not in names


def test_sums_of_integers_are_made_vectors_of_before_they_are_unrolled() -> None:
    term = Var("term", "int64")
    assert not is_unrolled(loop(64, joined("add", term)))
    assert not is_unrolled(loop(64, joined("or", Var("flag", "bool"), "bool")))
    assert is_unrolled(loop(4, joined("add", term)))
    assert is_unrolled(loop(64, joined("shift_left", term)))
    assert is_unrolled(loop(64, joined("add", Var("total", "int64"))))
    assert is_unrolled(loop(64, joined("add", Var("term", "float64"), "float64")))


def test_loops_around_a_sum_are_not_unrolled() -> None:
    inner = loop(64, joined("add", Var("term", "int64")))
    assert not is_unrolled(loop(25, inner))
    assert not is_unrolled(loop(1024, inner, step=128))
    assert is_unrolled(loop(1024, inner, step=256))
    assert is_unrolled(loop(25, loop(64, joined("sub", Var("term", "int64")))))


def counted(x, mask):
    return x[mask].shape[0]


def test_masks_that_are_contiguous_are_counted_in_one_loop() -> None:
    compiled = script(counted)
    x = np.random.default_rng(0).normal(size=(24, 16))
    assert compiled(x, x > 0) == counted(x, x > 0)
    assert "range(384)" in compiled.kernels[0].source
    every_second = (x > 0)[:, ::2]
    assert compiled(x[:, ::2], every_second) == counted(x[:, ::2], every_second)
    assert "range(192)" not in compiled.kernels[1].source


def mandelbrot(re, im):
    x, y = re, im
    count = np.zeros(re.shape, np.int32)
    for _ in range(20):
        inside = x * x + y * y <= 4.0
        count = count + inside
        x, y = np.where(inside, x * x - y * y + re, x), np.where(inside, 2.0 * x * y + im, y)
    return count


def test_groups_over_large_arrays_have_more_nodes() -> None:
    counts = []
    for size in (1000, 40_000):
        re, im = np.random.default_rng(size).uniform(-2, 1, (2, size))
        compiled = script(mandelbrot)
        np.testing.assert_array_equal(compiled(re, im), mandelbrot(re, im))
        counts.append(str(compiled.explain(re, im)).count("\nfused group "))
    assert counts[1] == 1 < counts[0]


# Rows of few elements ----------------------------------------------------------------------


def inside(x, y):
    return x[1:-1, 1:-1] * 0.5 + x[1:-1, 2:] - y[:-2, 1:-1]


def by_place(x, y):
    return x + y[0]


@pytest.mark.parametrize("width", [3, 4, 6, 10, 12, 17, 20])
@pytest.mark.parametrize("function", [inside, by_place])
def test_short_rows_are_not_gathered(function: Callable[..., Any], width: int) -> None:
    x, y = np.random.default_rng(width).random((2, 301, width))
    check(function, x, y)
    compiled = script(function)
    compiled(x, y)
    assert "gather" not in compiled.kernels[0].llvm
    assert "scatter" not in compiled.kernels[0].llvm
