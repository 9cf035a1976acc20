# mypy: allow-untyped-defs, allow-untyped-calls
"""Products with few terms are computed in the loop that reads them, with BLAS's bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script, set_fusion_strategy
from jitcore.ir.passes.narrow_products import multiply_where_read


def affine(p, a, t):
    return p @ a.T + t


def activated(p, a, t):
    product = np.dot(p, a)
    return np.maximum(product, 0) * product, product


def computed_operands(p, a, t):
    return (p * 2) @ (a + t) - p


def twice(p, a, t):
    return (p @ a + t) @ a.T + t


def totals(p, a, t):
    moved = p @ a + t
    return moved.min(axis=0), moved.sum(axis=1), moved


def in_place(p, a, t):
    p[:] = p @ a + t
    p += p @ a
    return p


def of_images(p, a, t):
    return (p.reshape(-1, 1, a.shape[0]) @ a) * t


FUNCTIONS = [affine, activated, computed_operands, twice, totals, in_place, of_images]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("terms", [2, 3, 4])
@pytest.mark.parametrize("rows", [0, 1, 5, 100])
def test_as_numpy(function: Callable[..., Any], terms: int, rows: int) -> None:
    generator = np.random.default_rng(rows)
    for dtype in (np.float32, np.float64):
        p, a = (generator.normal(size=(n, terms)).astype(dtype) for n in (rows, terms))
        t = generator.normal(size=terms).astype(dtype)
        if function is totals and rows == 0:
            continue
        check(function, p, a, t, reduction=True)
        check(function, np.asfortranarray(p), a[::-1], t, reduction=True)


def test_special_values() -> None:
    p = np.random.default_rng(2).normal(size=(40, 3))
    p[3], p[5], p[7] = (np.nan, 1, 2), (np.inf, -1, 0), (-0.0, 0, -0.0)
    check(affine, p, np.eye(3), np.array([0.0, -0.0, np.inf]))


def test_nothing_is_kept_between() -> None:
    compiled = script(affine)
    compiled(np.ones((50, 3)), np.ones((3, 3)), np.ones(3))
    assert compiled.kernels[0].source.count("alloc(") == 0


def test_any_number_of_rows() -> None:
    before = set_fusion_strategy([("DYNAMIC", 1)])
    try:
        compiled = script(affine)
        for rows in (9, 1000, 0, 6):
            p, a, t = np.random.default_rng(rows).normal(size=(rows, 3)), np.eye(3) * 3, np.ones(3)
            np.testing.assert_array_equal(compiled(p, a, t), affine(p, a, t))
    finally:
        set_fusion_strategy(before)


def test_the_example() -> None:
    before, after = examples(multiply_where_read)
    check_pass(multiply_where_read, before, after)
    check_unchanged(multiply_where_read, after)
