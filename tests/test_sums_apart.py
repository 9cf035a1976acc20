"""Sums of elements that lie apart: exactness, lengths, steps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore.codegen.loop_passes.sums_apart import add_apart
from jitcore.codegen.loops import Function


def by_row(x: Any) -> Any:
    return x.sum(axis=1)


def every_third(x: Any) -> Any:
    return x[::3].sum()


def moments(x: Any) -> Any:
    return x.mean(axis=1), x.var(axis=1), (x * x).sum(axis=1)


def of_both(x: Any, y: Any) -> Any:
    return (x * y).sum(axis=-1), (x - y).sum()


def error(found: Any, rows: Any) -> float:
    exact = np.array([math.fsum(row) for row in rows.tolist()])
    return float(np.abs(found - exact).mean())


@pytest.mark.parametrize("draw", ["uniform", "lognormal"])
@pytest.mark.parametrize("length", [96, 500, 1024, 1536])
@pytest.mark.parametrize("step", [2, 3, -4, 7, 40])
def test_rows_are_as_exact_as_those_of_numpy(step: int, length: int, draw: str) -> None:
    made = getattr(np.random.default_rng(abs(step)), draw)(size=(300, length * abs(step)))
    rows = made[:, ::step]
    assert error(jitcore.script(by_row)(rows), rows) <= 1.4 * error(by_row(rows), rows)


@pytest.mark.parametrize("length", [512, 1536, 12288])
def test_known_steps_are_as_exact_as_those_of_numpy(length: int) -> None:
    rows = np.random.default_rng(length).uniform(size=(300, length))
    scripted = jitcore.script(every_third)
    found, expected = (np.array([f(row) for row in rows]) for f in (scripted, every_third))
    assert error(found, rows[:, ::3]) <= 1.4 * error(expected, rows[:, ::3])


@pytest.mark.parametrize("function", [by_row, moments])
def test_all_lengths_and_steps(function: Callable[..., Any]) -> None:
    """Sums and squares of small whole numbers have no rounding errors."""
    generator = np.random.default_rng(7)
    scripted = jitcore.script(function)
    for length in [*range(1, 5), *range(14, 19), *range(30, 36), *range(46, 51), 64, 333]:
        for step in (1, 2, -1, -3, 9):
            made = generator.integers(-9, 9, (3, length * abs(step))).astype(float)
            x = made[:, ::step]
            np.testing.assert_allclose(scripted(x), function(x), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("step", [1, 2, -3])
def test_operands_with_other_steps(step: int) -> None:
    generator = np.random.default_rng(8)
    x = generator.integers(-99, 99, (4, 600)).astype(float)[:, :: abs(step)]
    y = generator.integers(-99, 99, x.shape).astype(float)
    scripted = jitcore.script(of_both)
    for a, b in ((x, y), (y, x), (x, x[::-1, ::-1]), (np.asfortranarray(x), y)):
        for found, expected in zip(scripted(a, b), of_both(a, b), strict=True):
            np.testing.assert_array_equal(found, expected)
    constant = np.broadcast_to(np.float64(3), x.shape)
    np.testing.assert_array_equal(scripted(constant, x)[0], of_both(constant, x)[0])


@pytest.mark.parametrize("special", [np.nan, np.inf, -np.inf])
def test_what_is_no_number(special: float) -> None:
    x = np.ones((100, 300))
    x[np.arange(100), np.arange(100) * 3] = special
    rows = x[:, ::3]
    np.testing.assert_array_equal(jitcore.script(by_row)(rows), by_row(rows))


def test_contiguous_rows_of_known_layout_stay_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Function, Function]] = []

    def spy(function: Function) -> Function:
        seen.append((function, add_apart(function)))
        return seen[-1][1]

    monkeypatch.setattr("jitcore.codegen.loop_passes.sums_apart.add_apart", spy)
    x = np.random.default_rng(9).uniform(size=(40, 300))
    jitcore.script(by_row)(x)
    jitcore.script(by_row)(x[:, ::3])
    changed = [before.body != after.body for before, after in seen]
    assert changed == [False, True]
