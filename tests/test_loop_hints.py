# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that LLVM gets hints about: short ones with a rest, and sums."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import jitcore
from checking import Tolerance, check, check_within
from jitcore import script
from jitcore.codegen import engine
from jitcore.codegen.loop_passes.lane_sums import add_by_lanes
from jitcore.codegen.loop_passes.traversal import blocks, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.printers.llvm_module import Definition, Module
from jitcore.codegen.printers.loop_hints import loop_hints
from jitcore.codegen.printers.loop_metadata import (
    AS_IT_IS,
    MASKED,
    NOT_UNROLLED,
    NOT_UNROLLED_AFTERWARDS,
    ONE_AT_A_TIME,
    PARTLY_UNROLLED_AFTERWARDS,
    UNMASKED,
    several_at_a_time,
    vector_width,
)
from jitcore.codegen.printers.side_by_side import MOST_OPERATIONS, side_by_side

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


def llvm_text(function: Callable[..., Any], *args: Any) -> str:
    """What LLVM gets to see of a function."""
    compiled = script(function)
    compiled(*args)
    source = compiled.kernels[0].module._source
    assert source is not None
    return str(source.text)


def test_masks_are_asked_for_where_a_loop_is_short() -> None:
    def text(length: int) -> str:
        return llvm_text(lambda x: np.exp(x) + 1, np.ones(length))

    assert MASKED in text(62)
    assert MASKED not in text(64)
    assert MASKED not in text(4)
    assert MASKED not in text(1024)


@pytest.mark.parametrize("has_masks", [True, False])
def test_processors_without_masks_get_none(
    has_masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "has_feature", lambda name: has_masks)
    seen: list[str] = []
    parse = engine._parse

    def noted(text: str, name: str, context: Any) -> Any:
        seen.append(text)
        return parse(text, name, context)

    monkeypatch.setattr(engine, "_parse", noted)
    x = np.linspace(0, 1, 31)
    np.testing.assert_allclose(script(lambda x: np.exp(x) + 1)(x), np.exp(x) + 1)
    assert any(MASKED in text for text in seen) == has_masks
    assert any(UNMASKED in text for text in seen) != has_masks


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint32", "uint8"])
def test_places_that_rows_are_gathered_from_are_checked(dtype: str) -> None:
    """One vector at a time, some of which is masked, and all of a row."""

    def gathered(starts, places, x):
        sums = np.empty(starts.size - 1)
        for i in range(starts.size - 1):
            sums[i] = x[places[starts[i] : starts[i + 1]]].sum()
        return sums

    random = np.random.default_rng(7)
    starts = np.concatenate([[0], np.cumsum(random.permutation(80))])
    places = random.integers(0, 100, starts[-1]).astype(dtype)
    x = random.random(100)
    assert MASKED in llvm_text(gathered, starts, places, x)
    check(gathered, starts, places, x, reduction=True)
    compiled = script(gathered)
    for place in random.permutation(places.size)[:60]:
        for wrong in (100, 127, *([-101] if dtype.startswith("int") else ())):
            changed = places.copy()
            changed[place] = wrong
            messages = []
            for function in (compiled, gathered):
                with pytest.raises(IndexError) as caught:
                    function(starts, changed, x)
                messages.append(str(caught.value))
            assert messages[0] == messages[1]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("columns", [8, 16, 20, 32, 40, 48, 56, 64, 100, 200])
def test_no_more_sums_are_kept_than_there_are_elements_for(columns: int, dtype: str) -> None:
    """LLVM makes no vectors at all of a loop that has fewer iterations than it was told."""

    def softmax(x):
        e = np.exp(x - x.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    x = np.random.default_rng(columns).normal(size=(40, columns)).astype(dtype)
    compiled = check(softmax, x, ulp=8)
    found = 0
    for loop in walk(compiled.kernels[0].lowered.function.body):
        steps = [one for one in blocks(loop)[0] if isinstance(one, Assign)] if blocks(loop) else []
        if not isinstance(loop, For) or not steps:
            continue
        found += 1
        size = max(np.dtype(one.var.dtype).itemsize for one in steps)
        hints: dict[str, int] = {}
        loop_hints(loop, partial(noted, hints))
        width = hints.get("vectorize.width", engine.vector_bits() // (8 * size))
        assert hints.get("interleave.count", 1) * width <= max(columns, width)
    assert found >= 2


def noted(hints: dict[str, int], text: str) -> str:
    """Metadata for a loop, whose numbers are noted by name."""
    for name, number in re.findall(r'"llvm\.loop\.([a-z.]+)", i32 (\d+)', text):
        hints[name] = int(number)
    return text


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
    return "\n".join([source.text, *(text for text, _ in source.beside)])


def longer_chain(x, y):
    z = x
    for _ in range(20):
        z = z * y - x * z
    return z


def many_values(x, y):
    a, b, c, d, e = x + y, x - y, x * y, y - x * 2, x * 3 + y
    f, g, h, i, j = a * b, b + c, c - d, d * e, e - a
    first = a * b + c * d + e * f + g * h + i * j
    return first - (a - j) * (b - i) * (c - h) * (d - g) * (e - f)


def vectors_of(function: Callable[..., Any], dtype: str, shape: tuple[int, ...]) -> int:
    """How many vectors LLVM is told to compute side by side, or an iteration already does."""
    text = hints_of(function, dtype, shape)
    told = [count for count in (2, 4, 8) if several_at_a_time(count) in text]
    steps = re.findall(r"\.next = add .*, (\d+)$", text, re.MULTILINE)
    lanes = engine.vector_bits() // (8 * np.dtype(dtype).itemsize)
    return max([1, *told, *(int(step) // lanes for step in steps)])


def test_long_chains_are_computed_side_by_side() -> None:
    assert vectors_of(long_chain, "float64", (3000,)) == 8
    assert vectors_of(long_chain, "float64", (100,)) == 1
    # As many as LLVM chooses by itself, where loops are printed as such over vectors.
    assert vectors_of(short_chain, "float64", (3000,)) == (4 if engine.vector_bits() == 512 else 1)


def test_functions_that_are_inlined_are_computed_side_by_side_too() -> None:
    def wave(x, y):
        return np.exp(-x * x) * y

    assert vectors_of(wave, "float32", (3000,)) == 4
    assert vectors_of(wave, "float64", (3000,)) == 4


def test_powers_of_float32_fill_registers_though_they_are_computed_in_float64() -> None:
    lanes = engine.vector_bits() // 32
    text = hints_of(lambda x, y: np.abs(x) ** 2.5 * y, "float32", (3000,))
    loaded = re.findall(r"load <(\d+) x float>", text)
    assert vector_width(lanes) in text or (loaded and int(loaded[0]) % lanes == 0)


def test_fewer_are_where_a_step_is_longer_or_needs_more_registers() -> None:
    assert vectors_of(longer_chain, "float64", (3000,)) == 4
    assert vectors_of(many_values, "float64", (3000,)) <= 2


def step_of(operations: int) -> For:
    """A loop with a long step."""
    k, pointer = Var("k", "int64"), Var("x", "ptr")
    values = [Var(f"v{number}", "float64") for number in range(operations + 1)]
    body: list[Stmt] = [Let(values[0], Load(pointer, k, "float64", "x"))]
    for before, after in itertools.pairwise(values):
        body.append(Let(after, Binary("mul", before, before, "float64")))
    body.append(Store(pointer, k, values[-1], "x"))
    return For(k, Const(0, "int64"), Const(10_000, "int64"), body)


def test_a_module_has_only_so_many_of_them() -> None:
    module = Module(512, lambda *_: Definition("", is_final=False))
    found = [module.side_by_side(step_of(60)) for _ in range(9)]
    vectors = [1 if one is None else one.vectors for one in found]
    assert vectors[0] == 4 and vectors[-1] == 1
    assert sum(count * 60 for count in vectors if count > 1) <= MOST_OPERATIONS


def test_processors_with_fewer_registers_compute_fewer() -> None:
    loop = step_of(20)
    wide, narrow = (side_by_side(loop, bits, 1000, is_inlined=True) for bits in (512, 256))
    assert wide is not None and wide.together == 64
    assert narrow is not None and narrow.together == 32


@pytest.mark.parametrize("length", [257, 300, 511, 1000, 4097, 40_001])
@pytest.mark.parametrize("function", [long_chain, longer_chain, many_values])
def test_the_rest_of_a_long_chain(function: Callable[..., Any], length: int) -> None:
    random = np.random.default_rng(length)
    for dtype in ("float64", "float32", "int32", "int8"):
        x, y = random.integers(-3, 4, (2, length)).astype(dtype)
        check(function, x, y)
        check(function, x[::-1], y[::-1])


def test_what_is_added_up_fills_whole_registers() -> None:
    assert "llvm.loop.vectorize.width" in hints_of(exponentials, "float32", (5, 300))
    assert "llvm.loop.vectorize.width" not in hints_of(exponentials, "float32", (5, 12))
    assert "llvm.loop.vectorize.width" not in hints_of(exponentials, "float64", (5, 300))
    assert "llvm.loop.vectorize.width" not in hints_of(sums, "float32", (5, 60))


def centred(x, y):
    return x - x.mean(axis=1, keepdims=True)


def below_top(x, y):
    return x - x.max(axis=1, keepdims=True)


def products(x, y):
    return (x * y[0]).sum(axis=1)


def test_long_rows_that_are_read_again_stay_in_memory() -> None:
    assert PARTLY_UNROLLED_AFTERWARDS in hints_of(below_top, "float64", (5, 300))
    assert PARTLY_UNROLLED_AFTERWARDS not in hints_of(centred, "float64", (5, 100))
    assert PARTLY_UNROLLED_AFTERWARDS not in hints_of(products, "float64", (5, 300))


def looked_up(x, y):
    places = (y[0] * 10).astype(np.int64) % len(y[0])
    total = 0.0
    for i in range(len(x)):
        total += x[i] @ x[i][places]
    return total


def test_flags_and_what_hardly_ever_runs_are_not_copied() -> None:
    text = hints_of(looked_up, "float64", (7, 300))
    assert NOT_UNROLLED_AFTERWARDS in text
    contents = dict(line.split(" = ", 1) for line in text.splitlines() if line.startswith("!"))
    loops = [one for one in contents.values() if one.startswith("distinct")]
    hints = [{contents[name] for name in re.findall(r"!\d+", one)[1:]} for one in loops]
    assert set(AS_IT_IS) in hints


def test_blocks_of_lanes_are_read_in_their_order() -> None:
    compiled = script(centred)
    x = np.ones((5, 300), np.float32)
    compiled(x, x)
    (kernel,) = compiled.kernels
    statements = walk(add_by_lanes(kernel.lowered.function).body)
    blocks = [one for one in statements if isinstance(one, For) and one.step > 1]
    assert blocks and not any(map(is_unrolled, blocks))


@pytest.mark.parametrize(("step", "expected"), [(1, {True}), (2, {True, False})])
def test_rows_of_open_lengths_are_added_up_by_vectors(step: int, expected: set[bool]) -> None:
    """A row's number times its length does not say how far apart its elements lie; a stride does.

    With a stride there is a loop for each case.
    """
    x = np.ones((5, 300), np.float32)[:, ::step]
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        compiled = script(lambda x: x.sum(axis=1))
        np.testing.assert_array_equal(compiled(x), x.sum(axis=1))
    (kernel,) = compiled.kernels
    lanes = [
        one
        for one in walk(add_by_lanes(kernel.lowered.function).body)
        if isinstance(one, For) and one.stop == Const(16, "int64") and len(one.body) > 1
    ]
    assert lanes and {vector_width(16) in hints_given(one) for one in lanes} == expected


def loop(stop: int, *body: Stmt, step: int = 1) -> For:
    return For(Var("k", "int64"), Const(0, "int64"), Const(stop, "int64"), list(body), step)


def joined(op: str, term: Expr, dtype: str = "int64") -> Assign:
    total = Var("total", dtype)
    return Assign(total, Binary(op, total, term, dtype))


def hints_given(one: For) -> list[str]:
    names: list[str] = []

    def metadata(text: str) -> str:
        names.append(text)
        return f"!{len(names)}"

    loop_hints(one, metadata)
    return names


def is_unrolled(one: For) -> bool:
    return NOT_UNROLLED not in hints_given(one)


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
    assert is_unrolled(loop(25, loop(10, joined("sub", Var("term", "int64")))))


def test_loops_around_one_that_hardly_ever_runs_are_not_unrolled() -> None:
    inner = loop(10, joined("sub", Var("term", "int64")))
    flag = Var("flag", "bool")
    assert not is_unrolled(loop(25, If(flag, [inner], unlikely=True)))
    assert is_unrolled(loop(25, If(flag, [inner])))


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


@pytest.mark.parametrize("is_slow", [False, True])
def test_gathered_elements_are_taken_a_vector_at_a_time(is_slow: bool, monkeypatch: Any) -> None:
    def gathered(x, places):
        return x[places] * 2 + 1

    x, places = np.arange(999.0), np.arange(999)[::-1].copy()
    where = "jitcore.codegen.printers.loop_hints.gathers_slowly"
    monkeypatch.setattr(where, lambda: is_slow)
    assert (ONE_AT_A_TIME in llvm_text(gathered, x, places)) is not is_slow
    assert ONE_AT_A_TIME in llvm_text(lambda x, i: np.sqrt(x[i] * 2 + 1) / (x[i] + 3), x, places)
    assert ONE_AT_A_TIME not in llvm_text(lambda x, y: x * 2 + y, x, x)
    for length in (1, 7, 8, 33, 999):
        check(gathered, x, places[:length])


def standardized(x):
    mean = x.mean(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=1, keepdims=True) + 1e-5)


def shares(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True), x.min(axis=1, keepdims=True) * x


@pytest.mark.parametrize("columns", [5, 6, 7, 8, 9])
@pytest.mark.parametrize("function", [standardized, shares])
def test_rows_that_fill_less_than_a_vector(function: Callable[..., Any], columns: int) -> None:
    for count, dtype in itertools.product((1, 15, 33, 100), ("float32", "float64")):
        x = np.random.default_rng(count).uniform(-2, 2, (count, columns)).astype(dtype)
        x[-1, :2] = -0.0
        x[count // 3, -1] = np.nan
        x[count // 2, 0] = np.inf
        with np.errstate(invalid="ignore"):
            check_within(function, (x,), script, Tolerance(scale=8.0))


def stay_loops(*trips: int | None) -> list[bool]:
    """Which of some loops in each other LLVM is told to keep, from the outermost on."""
    loops: list[For] = []
    place: Expr = Const(0, "int64")
    places = [Var(f"i{depth}", "int64") for depth in range(len(trips))]
    for var, count in zip(places, trips, strict=True):
        row = Binary("mul", place, Const(count or 5000, "int64"), "int64")
        place = Binary("add", row, var, "int64")
    body: list[Stmt] = [Store(Var("x", "ptr"), place, Const(1.0, "float64"), "x")]
    for var, count in zip(reversed(places), reversed(trips), strict=True):
        stop = Var("n", "int64") if count is None else Const(count, "int64")
        loops.insert(0, For(var, Const(0, "int64"), stop, body))
        body = [loops[0]]
    return [stays_loop(one) for one in loops]


def stays_loop(loop: For) -> bool:
    texts: list[str] = []

    def metadata(text: str) -> str:
        texts.append(text)
        return ""

    loop_hints(loop, metadata)
    return NOT_UNROLLED in texts


def test_loops_around_many_steps_are_not_copied() -> None:
    assert stay_loops(8, 14, 112) == [True, True, False]
    assert stay_loops(9, None) == [True, False]


def test_loops_around_few_steps_become_straight_lines() -> None:
    assert stay_loops(2, 3, 16) == [False, False, False]
    assert stay_loops(None, 300) == [False, False]
    assert stay_loops(1000, 3) == [False, False]


def test_what_branches_and_while_loops_hold_counts() -> None:
    k, n = Var("k", "int64"), Var("n", "int64")
    condition = Binary("lt", k, n, "bool")
    inner = For(k, Const(0, "int64"), n, [Store(Var("x", "ptr"), k, Const(1.0, "float64"), "x")])
    for around in (If(condition, [], [inner]), While([], condition, [])):
        assert stays_loop(For(Var("i", "int64"), Const(0, "int64"), Const(3, "int64"), [around]))
