# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops over steps that are cut into blocks of elements, and those that must not be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.loop_passes.blocking import block_steps
from jitcore.codegen.loops import Binary, Const, Expr, For, Load, Stmt, Store, Var


def forward_sweep(a, b):
    c = np.empty_like(a)
    c[:, 0] = a[:, 0]
    for k in range(1, a.shape[1]):
        c[:, k] = a[:, k] - c[:, k - 1] * b[:, k]
    return c


def both_sweeps(a, b):
    c = np.empty_like(a)
    d = np.empty_like(a)
    c[:, 0] = a[:, 0]
    d[:, 0] = b[:, 0]
    for k in range(1, a.shape[1]):
        q = 1.0 / (4.0 - c[:, k - 1] * b[:, k])
        c[:, k] = a[:, k]
        c[:, k] = c[:, k] * q
        d[:, k] = (b[:, k] - d[:, k - 1] * a[:, k]) * q
    for k in range(a.shape[1] - 2, -1, -1):
        d[:, k] = d[:, k] - c[:, k] * d[:, k + 1]
    return d


def along_rows(a, b):
    for k in range(1, a.shape[1]):
        a[:, k] += b[:, k - 1] * 0.5
        b[:, k] = a[:, k] + 1
    return a, b


def many_times(a, b):
    for _ in range(107):
        a[...] = a * 0.5 + b
        b[a > 1] = 0.25
    return a


def by_rows(a, b):
    x, y = a.T, b.T
    for k in range(2, x.shape[0]):
        x[k] = y[k] + 0.5 * x[k - 1] - 0.25 * x[k - 2]
    return a


def pairs(a, b):
    z = a + 1j * b
    for k in range(103):
        z[...] = z * z * 0.001 + k
    return z


BLOCKED = [forward_sweep, both_sweeps, along_rows, many_times, by_rows, pairs]


def stencil(a, b):
    for _ in range(3):
        b[1:-1] = a[:-2] + a[2:]
        a[1:-1] = b[1:-1] * 0.5
    return a, b


def shifted(a, b):
    for k in range(1, a.shape[1]):
        a[1:, k] = a[:-1, k - 1] + b[1:, k]
    return a


def shared_row(a, b):
    for k in range(a.shape[1]):
        a[:, k] = b[:, k] + a[0, 0]
    return a


def running_total(a, b):
    total = 0.0
    for k in range(a.shape[1]):
        a[:, k] = b[:, k] + total
        total += a[k, k]
    return a


def leaves_early(a, b):
    for k in range(a.shape[1]):
        if k == 3:
            break
        a[:, k] = b[:, k] * 2
    return a


def overlapping(a, b):
    flat = a.reshape(-1)
    for k in range(5):
        flat[k : k + 4000] = b[:, 0] * 2
    return a


WHOLE = [stencil, shifted, shared_row, running_total, leaves_early, overlapping]


def _arguments(shape: tuple[int, int] = (4000, 12)) -> tuple[Any, ...]:
    rng = np.random.default_rng(5)
    return rng.uniform(0.5, 1.5, shape), rng.uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("function", [*BLOCKED, *WHOLE])
def test_every_element_takes_every_step(function: Callable[..., Any]) -> None:
    check(function, *_arguments())


@pytest.mark.parametrize("function", BLOCKED)
@pytest.mark.parametrize("shape", [(1, 3), (7, 2), (0, 4), (5, 1), (700, 30)])
def test_other_shapes(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    check(function, *_arguments(shape))


@pytest.mark.parametrize("function", [*BLOCKED, *WHOLE])
def test_only_elements_by_themselves_are_blocked(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(*_arguments())
    source = "".join(kernel.source for kernel in compiled.kernels)
    assert ("_block in range" in source) == (function in BLOCKED)


# By hand ----------------------------------------------------------------------------------

X, K, J = Var("x", "ptr"), Var("k", "int64"), Var("j", "int64")


def _number(value: int) -> Const:
    return Const(value, "int64")


def _place(per_element: int, per_step: int, constant: int = 0) -> Expr:
    steps = Binary("mul", K, _number(per_step), "int64")
    elements = Binary("mul", J, _number(per_element), "int64")
    place = Binary("add", elements, steps, "int64")
    return Binary("add", place, _number(constant), "int64")


def _steps(write: Expr, read: Expr, *, root: str = "x", elements: int = 40_000) -> For:
    body: list[Stmt] = [Store(X, write, Load(X, read, "float64", root), "x")]
    nest = For(J, _number(0), _number(elements), body, parallel=True)
    return For(K, _number(1), _number(10), [nest])


def _is_blocked(loop: For) -> bool:
    (found,) = block_steps([loop], [])
    assert isinstance(found, For)
    return found.parallel


def test_places_decide() -> None:
    assert _is_blocked(_steps(_place(10, 1), _place(10, 1, -1)))
    assert _is_blocked(_steps(_place(-10, 1, 400_000), _place(-10, 1, 399_999)))
    assert _is_blocked(_steps(_place(1, 40_000), _place(1, 40_000, -40_000)))
    # The step nine on reaches the next element's first place.
    assert not _is_blocked(_steps(_place(9, 1), _place(9, 1, -1)))
    assert not _is_blocked(_steps(_place(1, 40_000), _place(1, 40_000, -39_999)))
    assert not _is_blocked(_steps(_place(10, 1), _place(10, 2)))
    assert not _is_blocked(_steps(_place(10, 1), _place(0, 1)))
    assert not _is_blocked(_steps(_place(0, 1), _place(0, 1)))
    assert not _is_blocked(_steps(_place(10, 1), _place(10, 1, -1), root=""))


def test_explain_names_the_blocks() -> None:
    compiled = script(forward_sweep)
    compiled(*_arguments())
    assert "elements take all steps of the loop" in str(compiled.explain(*_arguments()))


def test_few_elements_stay_whole() -> None:
    assert not _is_blocked(_steps(_place(10, 1), _place(10, 1, -1), elements=20))
