# mypy: allow-untyped-defs, allow-untyped-calls
"""Rows that take turns: which loops they are, and that their results are those of one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import check
from jitcore import script
from jitcore.codegen.loop_passes import row_turns
from jitcore.codegen.loop_passes.lane_sums import add_by_lanes
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.row_turns import ROWS, let_rows_take_turns
from jitcore.codegen.loop_passes.traversal import blocks, walk
from jitcore.codegen.loops import Const, For, Function, If, Stmt


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(x):
    return (x - x.mean(axis=-1, keepdims=True)) / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def several(x):
    total = x.sum(axis=-1)
    share = x / total[..., None]
    return share, total, (share * share).sum(axis=-1)


def flags(x):
    is_large = (x > x.mean(axis=-1, keepdims=True)).all(axis=-1, keepdims=True)
    return np.where(is_large, x, -x) * x.max(axis=-1, keepdims=True)


def in_place(x):
    for _ in range(3):
        x /= np.sqrt((x * x).sum(axis=1, keepdims=True))
        x += 1
    return x


def plain_rows(x):
    return x.sum(axis=-1)


def chain(x):
    return np.sqrt(x * x + 1)


FUNCTIONS: Sequence[Callable[..., Any]] = (softmax, layer_norm, several, flags, in_place)


def turns(function: Function) -> list[For]:
    """The loops in which pieces of rows take turns."""
    loops = [one for one in walk(function.body) if isinstance(one, For)]
    return [one for one in loops if one.body and all(map(_is_piece, one.body))]


def _is_piece(statement: Stmt) -> bool:
    held = [inner for block in blocks(statement) for inner in block]
    return isinstance(statement, If) and any(isinstance(one, For) for one in held)


def pieces_of(function: Callable[..., Any], x: Any) -> list[int]:
    """How many pieces the rows of a function's kernels have, where they take turns."""
    compiled = script(function)
    compiled(x)
    lowered = [add_by_lanes(kernel.lowered.function) for kernel in compiled.kernels]
    return [len(one.body) for each in lowered for one in turns(let_rows_take_turns(each))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("columns", [16, 37, 300])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_any_number_of_rows(function: Callable[..., Any], columns: int, dtype: str) -> None:
    random = np.random.default_rng(columns)
    for rows in (0, 1, 2, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 5):
        x = random.uniform(0.5, 2, (rows, columns)).astype(dtype)
        check(function, x, ulp=4, reduction=True)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_they_do_not_change_a_bit(
    function: Callable[..., Any], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "0")
    x = np.random.default_rng(1).normal(size=(70, 100)).astype(dtype)
    x[3, 5], x[17, 0], x[40, 99] = np.nan, np.inf, -np.inf
    assert pieces_of(function, x.copy())
    found = script(function)(x.copy())
    monkeypatch.setattr(row_turns, "let_rows_take_turns", lambda function: function)
    one_at_a_time = script(function)(x.copy())
    pairs = [(found, one_at_a_time)]
    if isinstance(found, tuple):
        pairs = list(zip(found, one_at_a_time, strict=True))
    for one, other in pairs:
        np.testing.assert_array_equal(one, other, strict=True)


def test_rows_that_need_another_pass() -> None:
    """The variances of some rows are too small beside their means for a single one."""
    x = np.random.default_rng(2).normal(size=(50, 128)).astype(np.float32)
    x[7:20:3] = x[7:20:3] * 1e-3 + 1e4
    x[11] = 3.0
    check(layer_norm, x, reduction=True)


def test_threads_share_the_blocks() -> None:
    x = np.random.default_rng(3).normal(size=(1000, 600)).astype(np.float32)
    before = jitcore.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        jitcore.set_num_threads(threads)
        found.append(script(layer_norm)(x))
    jitcore.set_num_threads(before)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], layer_norm(x), rtol=1e-4, atol=1e-5)


def test_which_rows_take_turns() -> None:
    for columns in (64, 512):
        x = np.ones((40, columns), np.float32)
        assert pieces_of(softmax, x) == [3]
        assert pieces_of(layer_norm, x) == [2]
        assert pieces_of(layer_norm, x.astype(np.float64)) == [3]
        assert pieces_of(plain_rows, x) == pieces_of(chain, x) == []
    # Long rows of large arrays come from memory again when they have their next turn.
    assert pieces_of(softmax, np.ones((1024, 512))) == [3]
    assert pieces_of(softmax, np.ones((1025, 512))) == []
    assert pieces_of(softmax, np.ones((4096, 192))) == [3]
    for shape in ((1, 40, 64), (2, 20, 64), (2, 3, 20, 64)):
        assert pieces_of(softmax, np.ones(shape, np.float32)) == [3]
        assert pieces_of(layer_norm, np.ones(shape)) == [3]


def test_rows_that_depend_on_one_another_do_not() -> None:
    def following(x):
        for i in range(1, x.shape[0]):
            e = np.exp(x[i - 1] - x[i - 1].max())
            x[i] += e / e.sum()
        return x

    def apart(x):
        for i in range(x.shape[0]):
            e = np.exp(x[i] - x[i].max())
            x[i] = e / e.sum()
        return x

    x = np.random.default_rng(5).normal(size=(50, 64))
    for function in (following, apart):
        check(function, x, ulp=8, reduction=True)
    assert pieces_of(following, x.copy()) == []


def after_a_sum(x):
    for i in range(1, x.shape[0]):
        before = x[i - 1].sum()
        total = 0.0
        for k in range(64):
            total += abs(x[i, k])
        for k in range(64):
            x[i, k] = x[i, k] / total + before
    return x


def after_a_product(x):
    for i in range(1, x.shape[0]):
        before = np.dot(x[i - 1], x[i - 1])
        total = 0.0
        for k in range(64):
            total += x[i, k]
        for k in range(64):
            x[i, k] = x[i, k] / total + before * 1e-3
    return x


@pytest.mark.parametrize("function", [after_a_sum, after_a_product])
def test_what_c_functions_read_is_read_in_its_turn(function: Callable[..., Any]) -> None:
    x = np.random.default_rng(4).random((20, 64)) + 0.1
    check(function, x, reduction=True)


@pytest.mark.parametrize("shape", [(3, 20, 48), (2, 3, 17, 40), (1, 33, 64), (4, 1, 64)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_several_axes(shape: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(6).uniform(0.5, 2, shape).astype(dtype)
    for function in (softmax, layer_norm, several):
        check(function, x, ulp=4, reduction=True)
        check(function, x[..., ::2], ulp=4, reduction=True)
        check(function, x.swapaxes(0, 1), ulp=4, reduction=True)


@pytest.mark.parametrize("shape", [(40, 3), (40, 5000), (1, 512)])
def test_short_and_long_rows_do_not(shape: tuple[int, int]) -> None:
    assert pieces_of(softmax, np.ones(shape, np.float32)) == []


def test_rows_of_unknown_length_do_with_functions() -> None:
    with jitcore.fusion_strategy([("DYNAMIC", 4)]):
        assert pieces_of(softmax, np.ones((40, 64), np.float32)) == [3]
        assert pieces_of(in_place, np.ones((40, 64), np.float32)) == []


def test_threads_are_told_of_as_much_work() -> None:
    compiled = script(softmax)
    compiled(np.ones((512, 512), np.float32))
    (kernel,) = compiled.kernels
    plain = add_by_lanes(kernel.lowered.function)
    before, after = (
        [work_of(one) for one in walk(each.body) if isinstance(one, For) and one.parallel]
        for each in (plain, let_rows_take_turns(plain))
    )
    assert len(before) == len(after) == 1
    assert isinstance(before[0], Const) and isinstance(after[0], Const)
    assert before[0].value <= after[0].value < 1.3 * before[0].value
