# mypy: allow-untyped-defs, allow-untyped-calls
"""Sums of float32 in lanes: which loops they are, how exact they are, and what is left over."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script
from jitcore.codegen.loop_passes.lane_sums import add_by_lanes
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.traversal import STACK, expressions, loads_in, walk
from jitcore.codegen.loops import Binary, Call, Const, Expr, For, Function

LENGTHS = (0, 1, 31, 32, 63, 64, 65, 127, 128, 200, 1000, 4097, 40_001, 100_003)


def total(x):
    return x.sum()


def squares(x):
    return (x * x).sum()


def by_rows(x):
    return x.mean(axis=-1)


def several(x):
    return x.sum(axis=1), (x * 2).sum(axis=1), (x - x[:, :1]).sum(axis=1)


def bounds(x: Any) -> tuple[float, float]:
    """The exact sum, and the error of the roundings of each element and one of the result.

    Blocks have 128 elements at most, and a sum without a second one joins the lanes in float32.
    """
    exact = math.fsum(x.astype(np.float64))
    largest = math.fsum(np.abs(x).astype(np.float64))
    unit = float(np.finfo(np.float32).eps) / 2
    roundings = 3.0001 if len(x) >= 256 else 7.0001
    return exact, roundings * unit * largest + unit * abs(exact)


def lanes_of(function: Callable[..., Any], *arguments: Any) -> set[int]:
    """The numbers of lanes in the sums of a function's kernels."""
    compiled = script(function)
    compiled(*arguments)
    found: set[int] = set()
    for kernel in compiled.kernels:
        for statement in walk(add_by_lanes(kernel.lowered.function).body):
            for x in expressions(statement):
                if isinstance(x, Call) and x.name == STACK:
                    (size,) = x.args
                    assert isinstance(size, Const)
                    found.add(size.value // 8)
    return found


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("step", [1, 3, -1])
def test_an_element_is_rounded_a_few_times_at_most(length: int, step: int) -> None:
    random = np.random.default_rng(length)
    for scale in (1.0, 1e16):
        terms = random.standard_normal(abs(step) * length)
        terms[::2] *= scale
        x = terms.astype(np.float32)[::step]
        found = script(total)(x)
        assert type(found) is np.float32
        exact, most = bounds(x)
        assert abs(float(found) - exact) <= most


@pytest.mark.parametrize("columns", [64, 100, 128, 255])
def test_short_rows_are_more_exact_than_pairwise_sums(columns: int) -> None:
    random = np.random.default_rng(columns)
    x = random.standard_normal((2000, columns)).astype(np.float32)
    exact = np.array([math.fsum(row) for row in x.astype(np.float64)])
    ours, theirs = script(lambda x: x.sum(axis=1))(x), x.sum(axis=1)
    assert ((ours - exact) ** 2).sum() < ((theirs - exact) ** 2).sum()


@pytest.mark.parametrize("columns", [16, 32])
@pytest.mark.parametrize("scale", [1.0, 1e12])
def test_rows_of_a_vector_or_two_are_as_exact_as_pairwise_sums(columns: int, scale: float) -> None:
    random = np.random.default_rng(columns)
    x = random.standard_normal((4000, columns)).astype(np.float32)
    x[:, ::2] *= np.float32(scale)
    exact = np.array([math.fsum(row) for row in x.astype(np.float64)])
    compiled = script(lambda x: x.sum(axis=1))
    ours, theirs = compiled(x), x.sum(axis=1)
    assert ((ours - exact) ** 2).sum() < 1.1 * ((theirs - exact) ** 2).sum()
    most = [bounds(row)[1] for row in x]
    assert (np.abs(ours - exact) <= most).all()
    assert lanes_of(lambda x: x.sum(axis=1), x) == {16}


@pytest.mark.parametrize("scale", [1.0, 1e16])
def test_they_are_more_exact_than_pairwise_sums(scale: float) -> None:
    """Where the terms cancel, which shows all errors."""
    random = np.random.default_rng(5)
    compiled = script(total)
    ours, theirs = 0.0, 0.0
    for _ in range(100):
        terms = random.standard_normal(10_000)
        terms[::2] *= scale
        x = terms.astype(np.float32)
        exact = math.fsum(x.astype(np.float64))
        ours += (float(compiled(x)) - exact) ** 2
        theirs += (float(x.sum()) - exact) ** 2
    assert ours < theirs / 2


def test_whole_numbers_stay_exact() -> None:
    for length in LENGTHS:
        x = np.random.default_rng(length).integers(-99, 100, length).astype(np.float32)
        assert script(total)(x) == x.sum()
        assert script(squares)(x[:1500]) == (x[:1500] * x[:1500]).sum()


def with_counts(x):
    large = x > 0.5
    return x.sum(), np.count_nonzero(large), (x < 0).sum(), np.where(large, x, 0).sum()


def with_whole_numbers(x):
    return x.sum(), np.floor(x).astype(np.int64).sum()


@pytest.mark.parametrize("length", LENGTHS)
def test_counts_beside_a_sum_are_exact(length: int) -> None:
    x = np.random.default_rng(length).integers(-9, 10, length).astype(np.float32)
    for kind in ("STATIC", "DYNAMIC"):
        with jitcore.fusion_strategy([(kind, 1)]):
            assert script(with_counts)(x) == with_counts(x)


def test_counts_have_lanes() -> None:
    x = np.ones(4096, np.float32)
    assert lanes_of(with_counts, x) == {16}
    # Whole numbers of 64 bits do not fit into the lanes of counts.
    large = np.full(4096, 2.0**40, np.float32)
    assert script(with_whole_numbers)(large) == with_whole_numbers(large)
    assert not lanes_of(with_whole_numbers, large)


def with_extrema(x):
    return x.sum(), x.max(), np.where(x > 0.5, x, -x).min(), np.count_nonzero(x > 2)


@pytest.mark.parametrize("length", LENGTHS[1:])
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
def test_extrema_beside_a_sum(length: int, kind: str) -> None:
    random = np.random.default_rng(length)
    x = random.integers(-9000, 9000, length).astype(np.float32)
    with jitcore.fusion_strategy([(kind, 1)]):
        assert script(with_extrema)(x) == with_extrema(x)
        for special in (np.nan, np.inf, -np.inf):
            x[random.integers(length)] = special
            np.testing.assert_array_equal(script(with_extrema)(x), with_extrema(x))


def test_extrema_beside_a_sum_have_lanes() -> None:
    assert lanes_of(with_extrema, np.ones(4096, np.float32)) == {16}


def test_infinities_and_nan() -> None:
    for special in ([np.inf], [-np.inf], [np.nan], [np.inf, -np.inf]):
        x = np.ones(300, np.float32)
        x[100 : 100 + 70 * len(special) : 70] = special
        np.testing.assert_array_equal(script(total)(x), x.sum())
    largest = np.full(300, 3e38, np.float32)
    assert np.isinf(script(total)(largest))


@pytest.mark.parametrize("columns", [3, 64, 100, 700])
@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64"])
def test_rows(columns: int, kind: str, dtype: str) -> None:
    x = np.random.default_rng(columns).uniform(1, 2, (37, columns)).astype(dtype)
    with jitcore.fusion_strategy([(kind, 4)]):
        compiled, both = script(by_rows), script(several)
        for rows in (37, 20):
            tolerance = 1e-3 if dtype == "float16" else 1e-6
            np.testing.assert_allclose(compiled(x[:rows]), by_rows(x[:rows]), rtol=tolerance)
            if dtype == "float32":
                for one, other in zip(both(x[:rows]), several(x[:rows]), strict=True):
                    np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    x = np.random.default_rng(0).standard_normal(1_000_003).astype(np.float32)
    before = jitcore.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        jitcore.set_num_threads(threads)
        found.append(script(squares)(x))
    jitcore.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.astype(np.float64).sum(),
        lambda x: np.exp(x).sum(),
        lambda x: x.max(),
        lambda x: x.var(),
        lambda x: x[:50].sum(),
    ],
)
def test_other_loops_stay_as_they_are(function: Callable[..., Any]) -> None:
    assert not lanes_of(function, np.ones(4096, np.float32))


def value(x: Expr) -> int:
    """The value of an expression of constants."""
    if isinstance(x, Const):
        return int(x.value)
    assert isinstance(x, Binary)
    operators: dict[str, Callable[[int, int], int]] = {
        "add": operator.add,
        "and": operator.and_,
        "max": max,
        "mul": operator.mul,
        "quot": operator.floordiv,
    }
    return operators[x.op](value(x.x), value(x.y))


@pytest.mark.parametrize("function", [squares, by_rows])
def test_threads_are_told_of_as_much_work(function: Callable[..., Any]) -> None:
    compiled = script(function)
    compiled(np.ones((512, 512), np.float32))
    (kernel,) = compiled.kernels
    plain: Function = kernel.lowered.function
    before, after = (
        [work_of(one) for one in walk(body) if isinstance(one, For) and one.parallel]
        for body in (plain.body, add_by_lanes(plain).body)
    )
    assert before
    for one, other in zip(before, after, strict=True):
        assert one is not None and other is not None
        assert value(one) <= value(other) < 2 * value(one)


def test_the_rest_reads_what_no_block_has_read() -> None:
    compiled = script(total)
    compiled(np.ones(200, np.float32))
    (kernel,) = compiled.kernels
    plain: Function = kernel.lowered.function
    assert len(list(loads_in(plain.body))) == 1
    # Eight in the block, a lane that is read, and one of the rest.
    assert len(list(loads_in(add_by_lanes(plain).body))) == 10


@pytest.mark.parametrize("function", [total, by_rows])
def test_arrays_of_any_strides(function: Callable[..., Any], capfd: Any) -> None:
    """The first call has strides that compiled code takes for any; LLVM has nothing to remark."""
    compiled = script(function)
    x = np.random.default_rng(5).normal(size=(300, 700)).astype(np.float32)
    for one in (x[:, ::-1], x, x.T, x[::2, ::3], x[:, :1], x[:0]):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(compiled(one), function(one), rtol=1e-5, atol=1e-3)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("function", [np.min, np.sum, np.prod], ids=lambda one: one.__name__)
def test_few_columns_leave_llvm_nothing_to_remark(
    function: Callable[..., Any], width: int, capfd: Any
) -> None:
    compiled = script(lambda a: function(a, axis=1))
    for rows in (2, 40):
        x = np.random.default_rng(rows).normal(size=(4, rows, width))
        np.testing.assert_allclose(compiled(x), function(x, axis=1), rtol=1e-12)
    assert capfd.readouterr().err == ""
