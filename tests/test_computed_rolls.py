# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays that are computed and rolled: fluxes between neighbours with periodic boundaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from checking import check
from jitcore import script
from jitcore.ir.passes.computed_rolls import roll_operands


def advected(q, u):
    f = np.where(u > 0, u * q, u * np.roll(q, -1, 0))
    return q - 0.1 * (f - np.roll(f, 1, 0))


def corners(q, u):
    f = q * u - q
    g = np.roll(f, 1, 0) + f
    return np.roll(g, 1, 1) * g


def and_back(q, u):
    f = np.roll(q, 2, 0) * 3
    return np.roll(f, -2, 0) - f


def limited(q, u):
    d = np.roll(q, -1, -1) - q
    return np.maximum(np.minimum(d, np.roll(d, 1, -1)), 0) + u, d


def reduced(q, u):
    d = q - 2 * u
    return (d * np.roll(d, 3, 0)).sum()


def squares_of_squares(q, u):
    f = q * q
    f = f * f
    f = f * f
    return f - np.roll(f, 1, 0)


COMPUTED = [advected, corners, and_back, limited, reduced, squares_of_squares]


def dear(q, u):
    f = np.sqrt(q * q) * u
    return f - np.roll(f, 1, 0)


def of_rows(q, u):
    f = q * u[:1]
    return f - np.roll(f, 1, 1)


def in_many_ways(q, u):
    f = q * u
    return sum(np.roll(f, k, 0) for k in (-2, -1, 1, 2)) - f


def operand_written(q, u):
    f = q * u
    q[0] = 7
    return f - np.roll(f, 1, 0), q


def base_written(q, u):
    r = np.roll(q, 1, 0)
    u[0] = 3
    q[1:] = 5
    f = r * u
    return f - np.roll(f, -1, 0)


def result_written(q, u):
    f = q * u
    f[0] = 1
    return f - np.roll(f, 1, 0)


def rolled_written(q, u):
    f = np.roll(q * u, 1, 0)
    f += 1
    return np.roll(f + u, 1, 0) - q


def rolled_written_between(q, u):
    f = np.roll(q * u, 1, 0)
    g = f + u
    f[1:4] = 7
    return np.roll(f * u, 1, 0) - g


WRITTEN = [operand_written, result_written, rolled_written, rolled_written_between]
STORED = [dear, of_rows, in_many_ways, *WRITTEN]


@pytest.mark.parametrize("function", [*COMPUTED, *STORED, base_written])
@pytest.mark.parametrize("shape", [(1, 2), (7, 40), (3, 0)])
def test_as_numpy(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(8)
    q, u = rng.normal(size=(2, *shape))
    if q.size:
        q[0, 0], u[-1, -1], q[-1, 0] = np.inf, np.nan, -0.0
    for x, y in ((q, u), (q.T.astype(np.float32), u.T.astype(np.float32))):
        check(function, x, y, reduction=function is reduced)


def test_one_array_twice() -> None:
    q = np.random.default_rng(9).normal(size=(9, 30))
    for function in (*COMPUTED, *STORED, base_written):
        theirs, ours = q.copy(), q.copy()
        expected, found = function(theirs, theirs), script(function)(ours, ours)
        if function is reduced:
            np.testing.assert_allclose(found, expected, rtol=1e-13)
        else:
            np.testing.assert_equal(found, expected)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("function", [*COMPUTED, *STORED])
def test_what_is_no_array(function: Callable[..., Any]) -> None:
    q, u = np.random.default_rng(8).normal(size=(2, 33, 40))
    compiled = script(function)
    compiled(q, u)
    # Results of a program are arrays, and so is what is not computed again.
    made = compiled.kernels[0].source.count("alloc(")
    assert (made == 0) == (function in COMPUTED)


def test_docstring() -> None:
    before, after = examples(roll_operands)
    check_pass(roll_operands, before, after)
    check_unchanged(roll_operands, after)
