# mypy: allow-untyped-defs, allow-untyped-calls
"""Square roots from an estimate: the bits of the processor's instruction, whatever the numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.codegen.loop_passes.buffered_sums import buffer_sums
from jitcore.codegen.loop_passes.estimated_roots import estimate_roots
from jitcore.codegen.loop_passes.parallel import work_of
from jitcore.codegen.loop_passes.traversal import expressions, subexpressions, walk
from jitcore.codegen.loops import Call, Const, For, Function, Unary

LENGTHS = (0, 65, 1001)


def length(x):
    return np.sqrt(x)


def quotient(x):
    return 1.0 / np.sqrt(x)


def both(x):
    s = np.sqrt(x)
    return s, (x - 1) / s, s / (x + 2)


def total(x):
    return (1.0 / np.sqrt(np.abs(x) + 1)).sum()


def row_totals(x, y):
    return (x[:, None] / np.sqrt(y * y + 0.5)).sum(axis=1)


def several(x):
    r = np.sqrt(x * x + 1)
    return (x / r).sum(), (1 / r).mean(), r.max(), r.min()


def in_place(x):
    np.sqrt(x, out=x)
    x /= np.sqrt(x + 1)


def numbers(dtype: str, size: int, seed: int) -> Iterator[Any]:
    """Usual numbers and zeros, all bit patterns, neighbours of powers of two, special ones."""
    random = np.random.default_rng(seed)
    limits = np.finfo(dtype)
    bits = np.dtype(f"u{limits.bits // 8}")
    yield random.uniform(0, 5, size).astype(dtype)
    yield np.where(random.random(size) < 0.3, -0.0, random.uniform(0, 5, size)).astype(dtype)
    yield random.integers(0, 2**limits.bits - 1, size, dtype=bits, endpoint=True).view(dtype)
    powers = np.ldexp(np.ones(size, dtype), random.integers(-70, 70, size))
    near = powers.view(bits) + random.integers(0, 24, size, dtype=bits) - bits.type(12)
    yield near.astype(bits).view(dtype)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, -1.0, limits.tiny, limits.max, 4.0]
    yield random.choice(np.array(special, dtype), size)


def same_bits(got: Any, wanted: Any) -> bool:
    """Whether all bits are the same, but for those of NaN."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    bits = f"u{wanted.itemsize}"
    equal = (got.view(bits) == wanted.view(bits)) | (np.isnan(got) & np.isnan(wanted))
    return got.dtype == wanted.dtype and got.shape == wanted.shape and bool(equal.all())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", [length, quotient, both])
def test_the_bits_are_those_of_the_instruction(function, dtype):
    compiled = script(function)
    with np.errstate(all="ignore"):
        for size in LENGTHS:
            for x in numbers(dtype, size, size):
                for view in (x, x[::-1], x[1::3]):
                    got, wanted = compiled(view), function(view)
                    results = got if isinstance(got, tuple) else (got,)
                    expected = wanted if isinstance(wanted, tuple) else (wanted,)
                    assert all(map(same_bits, results, expected))


@pytest.mark.parametrize("first", [1.0, 2.0])
def test_all_significands_of_float32(first):
    start = int(np.float32(first).view("u4"))
    x = np.arange(start, start + 2**23, dtype="u4").view("f4")
    assert same_bits(script(quotient)(x), quotient(x))


def test_numbers_with_roots_near_the_middle_of_two_others():
    random = np.random.default_rng(3)
    middle = random.integers(2**52, 2**53, 100_000).astype("f8") + 0.5
    squares = np.concatenate([middle * middle, np.ldexp(middle, -1) * np.ldexp(middle, -1)])
    near = squares[:, None].view("i8") + np.arange(-3, 4)
    x = near.ravel().view("f8")
    assert same_bits(script(length)(x), length(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [0, 1, 256, 511, 513, 40_001])
def test_sums_from_buffers(dtype, size):
    x = np.random.default_rng(size).standard_normal(size).astype(dtype)
    np.testing.assert_allclose(
        script(total)(x), total(x), rtol=2e-6 if dtype == "float32" else 1e-14
    )
    if size:
        rtol, atol = (3e-6, 3e-4) if dtype == "float32" else (1e-12, 0.0)
        np.testing.assert_allclose(script(several)(x), several(x), rtol=rtol, atol=atol)
        y = x[:30]
        np.testing.assert_allclose(script(row_totals)(y, x), row_totals(y, x), rtol=rtol, atol=atol)


def test_sums_keep_what_is_not_finite():
    x = np.ones(2000)
    for value in (np.inf, np.nan):
        x[1100] = value
        np.testing.assert_allclose(script(total)(x), total(x), rtol=1e-14)


def test_in_place():
    x = np.random.default_rng(5).uniform(0, 3, 5000)
    y = x.copy()
    script(in_place)(x)
    in_place(y)
    assert same_bits(x, y)


def estimated(compiled: Any) -> Function:
    return estimate_roots(buffer_sums(compiled.kernels[-1].lowered.function, 512), 512)


def roots(function: Function) -> int:
    parts = [x for one in walk(function.body) for e in expressions(one) for x in subexpressions(e)]
    return sum(isinstance(x, Call) and x.name == "root" for x in parts)


def test_which_loops_estimate():
    wide, narrow = np.ones(3000), np.ones(3000, "f4")
    for function, x, count in ((length, wide, 1), (length, narrow, 0), (quotient, narrow, 1)):
        compiled = script(function)
        compiled(x)
        assert roots(estimated(compiled)) == count
    compiled = script(total)
    compiled(wide)
    assert roots(estimated(compiled)) == 1
    short = script(length)
    short(np.ones(9))
    short(np.ones(9))
    trips = [one for one in walk(short.kernels[-1].lowered.function.body) if isinstance(one, For)]
    assert trips
    assert not roots(estimated(short))


def slope(x):
    gx = x[:-2, 2:] + 2.0 * x[1:-1, 2:] + x[2:, 2:] - x[:-2, :-2] - 2.0 * x[1:-1, :-2] - x[2:, :-2]
    gy = x[2:, :-2] + 2.0 * x[2:, 1:-1] + x[2:, 2:] - x[:-2, :-2] - 2.0 * x[:-2, 1:-1] - x[:-2, 2:]
    return np.sqrt(gx * gx + gy * gy)


def screened(x):
    r = np.sqrt(x * x + 1)
    return np.exp(-r) / r


def distant(x):
    d = x - 0.5
    return 2.0 / np.sqrt(d * d + x * x * x + d * x + 0.1 * x * d)


def hypotenuse(x):
    return np.sqrt(x * x + 3.0 * x)


@pytest.mark.parametrize(
    ("function", "x", "count"),
    [
        (slope, np.ones((100, 100)), 0),
        (screened, np.ones(3000), 0),
        (distant, np.ones(3000), 1),
        (distant, np.ones(3000, "f4"), 0),
    ],
)
def test_loops_that_wait_for_something_else_have_the_instruction(function, x, count):
    compiled = script(function)
    compiled(x)
    assert roots(estimated(compiled)) == count


@pytest.mark.parametrize(
    ("function", "count"), [(length, 1), (quotient, 1), (total, 1), (hypotenuse, 0), (distant, 0)]
)
def test_where_vectors_are_halves_products_hardly_save_time(function, count):
    compiled = script(function)
    compiled(np.ones(3000))
    lowered = compiled.kernels[-1].lowered.function
    assert roots(estimate_roots(buffer_sums(lowered, 512, True), 512, True)) == count
    assert roots(estimated(compiled)) == 1


def test_what_is_left_beside_whole_vectors_fills_no_buffer():
    """In parts that threads share, and in one: blocks have a buffer each, and rests have none."""
    compiled = script(total)
    for size in (3000, 3001, 3002):
        compiled(np.ones(size))
    function = compiled.kernels[-1].lowered.function
    parts = [x for one in walk(function.body) for e in expressions(one) for x in subexpressions(e)]
    assert sum(isinstance(x, Unary) and x.op == "sqrt" for x in parts) == 4
    assert roots(estimated(compiled)) == 2


def potentials(x):
    d = x - x[:, None]
    return (1.0 / np.sqrt(d * d + 1)).sum(axis=1)


@pytest.mark.parametrize("size", [300, 512, 768, 1000])
def test_work_of_rows_in_buffers_is_known(size):
    """Or one thread does it."""
    compiled = script(potentials)
    compiled(np.ones(size))
    lowered = compiled.kernels[-1].lowered.function
    buffered = buffer_sums(lowered, 512)
    assert roots(estimate_roots(buffered, 512)) >= 1
    before, after = (
        work_of(next(one for one in walk(function.body) if isinstance(one, For) and one.parallel))
        for function in (lowered, buffered)
    )
    assert isinstance(before, Const) and isinstance(after, Const)
    assert before.value <= after.value <= 3 * before.value


def test_other_processors_have_the_instruction():
    compiled = script(length)
    compiled(np.ones(3000))
    function = compiled.kernels[-1].lowered.function
    assert estimate_roots(function, 256) is function
    assert buffer_sums(function, 256) is function
    parts = [x for one in walk(function.body) for e in expressions(one) for x in subexpressions(e)]
    assert any(isinstance(x, Unary) and x.op == "sqrt" for x in parts)
