# mypy: allow-untyped-defs, allow-untyped-calls
"""Nests that write an array and then a part of it, merged: NumPy's bits at every edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.loop_passes.merged_nests import merge_nests
from jitcore.codegen.loop_passes.traversal import loads_in
from jitcore.codegen.loops import Binary, Call, For, Function, Let, Load, Store, Var
from jitcore.codegen.lowering.arithmetic import integer


def wave(u, w):
    n = 2.0 * u - w
    n[1:-1] += 0.3 * (u[2:] - 2.0 * u[1:-1] + u[:-2])
    return n


def zero_edges(u, w):
    out = np.zeros_like(u)
    out[1:-1] = u[2:] * w[:-2] - u[1:-1]
    return out


def copied(u, w):
    out = u.copy()
    out[1:-1] = u[1:-1] + 0.5 * (u[2:] - w[:-2])
    return out


def with_another(u, w):
    out = np.zeros_like(u)
    d = u[1:] - w[:-1]
    out[:-1] += d
    out[1:] -= d
    return out, d


def plane(u, w):
    out = u * 0.5
    out[1:-1, 2:-1] = out[1:-1, 2:-1] * w[1:-1, 1:-2] + u[2:, 3:]
    return out


def first_columns(u, w):
    out = u + w
    out[:, :2] = out[:, :2] * out[:, :2] - 1
    return out


def last_rows(u, w):
    out = np.full(u.shape, 3.0)
    out[-2:] -= u[:2] + w[-2:]
    return out


def neighbours_of_result(u, w):
    out = u + w
    out[1:-1] = out[2:] + out[:-2]
    return out


def flipped(u, w):
    out = u + w
    out[1:] = out[::-1][1:] * 2
    return out


def every_other(u, w):
    out = u - w
    out[::2] += 1
    out[1::2] *= u[1::2]
    return out


def operand_changed(u, w):
    out = u * 2
    u[1:] = w[1:] + 1
    return out, u


def read_in_between(u, w):
    out = u * 2
    total = out[0] + out[-1]
    out[1:] -= w[1:] * total
    return out


def in_loop(u, w):
    for _ in range(3):
        n = 2.0 * u - w
        n[1:-1] += 0.25 * (u[2:] - u[:-2])
        w, u = u, n
    return u, w


LINES = [
    wave,
    zero_edges,
    copied,
    with_another,
    neighbours_of_result,
    flipped,
    every_other,
    operand_changed,
    read_in_between,
    in_loop,
]
PLANES = [
    wave,
    zero_edges,
    copied,
    plane,
    first_columns,
    last_rows,
    neighbours_of_result,
    operand_changed,
]


@pytest.mark.parametrize("function", LINES)
@pytest.mark.parametrize("size", [3, 4, 17, 200])
def test_lines(function: Callable[..., Any], size: int) -> None:
    u, w = np.random.default_rng(size).normal(size=(2, size))
    u[1], w[-2] = -0.0, np.nan
    for one, two in ((u, w), (u[::-1], w), (u.astype(np.float32), w.astype(np.float32)), (u, u)):
        check(function, one, two)


@pytest.mark.parametrize("function", PLANES)
@pytest.mark.parametrize("shape", [(4, 5), (3, 4), (9, 33), (70, 20)])
def test_planes(function: Callable[..., Any], shape: tuple[int, int]) -> None:
    u, w = np.random.default_rng(shape[0]).normal(size=(2, *shape))
    for one, two in ((u, w), (u[::-1], w[:, ::-1]), (np.asfortranarray(u), np.asfortranarray(w))):
        check(function, one, two)


def test_a_part_is_written_once() -> None:
    compiled = script(wave)
    u, w = np.random.default_rng(1).normal(size=(2, 100))
    compiled(u, w)
    function = compiled.kernels[0].lowered.function
    assert any(load.root == "n" for load in loads_in(function.body))
    merged = merge_nests(function)
    assert not any(load.root == "n" for load in loads_in(merged.body))
    assert sum(isinstance(one, For) for one in merged.body) == 3


def test_a_copy_and_its_change_are_one() -> None:
    compiled = script(copied)
    compiled(*np.random.default_rng(1).normal(size=(2, 1000)))
    merged = merge_nests(compiled.kernels[0].lowered.function)
    assert sum(isinstance(one, For) for one in merged.body) == 3


@pytest.mark.parametrize("name", ["malloc", "jc_list_of_floats"])
def test_nests_move_beyond_allocations_only(name: str) -> None:
    """What makes an object of an array reads what the nest before it has written."""
    x, i, j = Var("x", "ptr"), Var("i", "int64"), Var("j", "int64")
    first = For(i, integer(0), integer(9), [Store(x, i, integer(1), "x")])
    made = Let(Var("made", "ptr"), Call(name, (x, integer(9)), "ptr", external=True))
    later = Binary("add", Load(x, j, "int64", "x"), integer(2), "int64")
    second = For(j, integer(0), integer(8), [Store(x, j, later, "x")])
    merged = merge_nests(Function("f", [x], [first, made, second], "int64")).body
    assert merged.index(made) == (0 if name == "malloc" else 1)


def forces(u, w):
    d = u[1:] - u[:-1]
    f = np.zeros_like(u)
    f[:-1] += d
    f[1:] -= d
    return f


def forces_on_argument(u, w):
    d = u[1:] - u[:-1]
    w[:-1] += d
    w[1:] -= d
    return w


def forces_of_changed(u, w):
    x = u.copy()
    d = x[1:] - x[:-1]
    f = np.zeros_like(u)
    f[:-1] += d
    x[0] = 5
    f[1:] -= d
    return f, x


def three_parts(u, w):
    f = u * 0.5
    f[1:-1] += u[2:]
    f[2:] *= w[:-2]
    f[:-2] -= u[2:]
    return f


def both_axes(u, w):
    d, e = u[:, 1:] - u[:, :-1], u[1:] - u[:-1]
    f = np.zeros_like(u)
    f[:, :-1] += d
    f[:, 1:] -= d
    f[:-1] += e
    f[1:] -= e
    return f


@pytest.mark.parametrize("function", [forces, forces_on_argument, forces_of_changed, three_parts])
@pytest.mark.parametrize("shape", [(2,), (3,), (17,), (200,), (5, 6), (40, 30)])
def test_several_parts(function: Callable[..., Any], shape: tuple[int, ...]) -> None:
    u, w = np.random.default_rng(3).normal(size=(2, *shape))
    for one, two in ((u, w), (u[::-1], w), (u, u), (u[::-1], u)):
        check(function, one, two)
    line = np.random.default_rng(4).normal(size=50)
    check(function, line[:-1], line[1:])
    if len(shape) == 2:
        check(both_axes, u, w)


def test_what_is_cheap_is_computed_for_each_part() -> None:
    compiled = script(forces)
    compiled(*np.random.default_rng(1).normal(size=(2, 1000)))
    function = compiled.kernels[0].lowered.function
    assert "malloc" not in compiled.kernels[0].source
    merged = merge_nests(function)
    assert not any(load.root == "f" for load in loads_in(merged.body))
    assert sum(isinstance(one, For) for one in merged.body) == 3
