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
from jitcore.codegen.printers.loop_hints import MASKED, UNMASKED

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
