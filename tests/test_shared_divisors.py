# mypy: allow-untyped-defs, allow-untyped-calls
"""Loops that divide by one number: the bits of divisions and remainders, whatever the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.loop_passes.shared_divisor_rows import share_divisor_rows
from jitcore.codegen.loop_passes.shared_divisors import share_divisors
from jitcore.codegen.loop_passes.traversal import expressions, subexpressions, walk
from jitcore.codegen.loops import (
    Binary,
    Call,
    Const,
    Do,
    For,
    Function,
    Load,
    Stmt,
    Store,
    Var,
)

LENGTHS = (0, 1, 63, 64, 65, 127, 200, 1001)


def by_one(x, s):
    return x / s


def by_row(x, s):
    return (x - 1) / s[:, None] + x


def by_constants(x):
    return x / 3.0 + x / 255.0


def in_place(x, s):
    x /= s


def by_other_array(x, s):
    return x / s


def by_power_of_two(x):
    return x / 8.0


def by_negative_constant(x):
    return x / -3.0


def direction(x, y):
    r = np.sqrt(x * x + y * y)
    return x / r, y / r


def with_inverse(x, y):
    return 1.0 / y + x / y


def wrapped(x):
    return (x + np.pi) % (2 * np.pi) - np.pi


def remainder(x):
    return x % 6.0


def negative_remainder(x):
    return x % -0.7


def numbers(dtype: str, length: int, seed: int) -> Iterator[Any]:
    """Usual numbers, then those of all bit patterns, of few bits, and special ones among them."""
    random = np.random.default_rng(seed)
    limits = np.finfo(dtype)
    bits = np.dtype(f"u{limits.bits // 8}")
    yield random.standard_normal(length).astype(dtype)
    yield np.where(random.random(length) < 0.3, -0.0, random.standard_normal(length)).astype(dtype)
    yield random.integers(0, 2**limits.bits - 1, length, dtype=bits, endpoint=True).view(dtype)
    yield np.ldexp(1 - limits.epsneg * random.integers(0, 4, length), 3).astype(dtype)
    special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, limits.tiny, limits.max, 1.0], dtype)
    yield random.choice(special, length)


def divisors(dtype: str) -> Iterator[Any]:
    random = np.random.default_rng(3)
    limits = np.finfo(dtype)
    yield from (3.0, 1 / 3, 1.0, -3.0, 0.0, -0.0, np.inf, np.nan, limits.max, limits.tiny)
    yield from (limits.smallest_subnormal, 1 + limits.eps, 2 - limits.eps, 1 - limits.epsneg)
    yield from np.ldexp(random.uniform(1, 2, 20), random.integers(-120, 120, 20))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_bits_are_those_of_a_division(dtype: str, length: int) -> None:
    compiled = script(by_one)
    bits = f"u{np.dtype(dtype).itemsize}"
    for divisor in map(np.dtype(dtype).type, divisors(dtype)):
        for x in numbers(dtype, length, length):
            with np.errstate(all="ignore"):
                expected = by_one(x, divisor)
            got = compiled(x, divisor)
            is_same = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
            assert is_same.all(), (divisor, x[~is_same], got[~is_same])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(5, 7), (30, 300), (4, 64), (0, 500), (5, 0), (3, 4096)])
def test_rows_constants_and_results_in_place(shape: tuple[int, int], dtype: str) -> None:
    random = np.random.default_rng(7)
    x, s = random.standard_normal(shape).astype(dtype), random.uniform(-1, 5, shape[0])
    check(by_row, x, s.astype(dtype))
    check(by_constants, x)
    check(in_place, x, s.astype(dtype)[0] if shape[0] else 2.0)
    check(in_place, x[:, ::-2], 1.7)


@pytest.mark.parametrize("function", [wrapped, remainder, negative_remainder])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_remainders_by_constants(dtype: str, function: Callable[..., Any]) -> None:
    compiled = script(function)
    bits = f"u{np.dtype(dtype).itemsize}"
    for length in LENGTHS:
        multiples = np.random.default_rng(length).integers(-50, 50, length) * 6
        for x in (*numbers(dtype, length, length), multiples.astype(dtype)):
            with np.errstate(all="ignore"):
                expected = function(x)
            got = compiled(x)
            is_same = (got.view(bits) == expected.view(bits)) | (np.isnan(got) & np.isnan(expected))
            assert is_same.all(), (x[~is_same], got[~is_same])


@pytest.mark.parametrize("function", [direction, with_inverse])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_divisors_of_several_numbers(dtype: str, function: Callable[..., Any]) -> None:
    compiled = script(function)
    bits = f"u{np.dtype(dtype).itemsize}"
    for length in LENGTHS:
        for x, y in zip(numbers(dtype, length, length), numbers(dtype, length, 99), strict=True):
            for divisors in (y, np.abs(y), y[::-1].copy()):
                with np.errstate(all="ignore"):
                    expected = np.array(function(x, divisors))
                got = np.array(compiled(x, divisors))
                is_same = got.view(bits) == expected.view(bits)
                assert (is_same | (np.isnan(got) & np.isnan(expected))).all()


def is_shared(f: Callable[..., Any], *args: Any) -> bool:
    compiled = script(f)
    compiled(*args)
    function = share_divisors(compiled.kernels[0].lowered.function, 512)
    return any(
        isinstance(part, Call) and part.name == "divide"
        for one in walk(function.body)
        for x in expressions(one)
        for part in subexpressions(x)
    )


def test_which_divisions_are_shared() -> None:
    x, s = np.linspace(1, 2, 3000).reshape(10, 300), np.linspace(1, 2, 10)
    assert is_shared(by_one, x, 3.5)
    assert is_shared(by_row, x, s)
    assert is_shared(by_constants, x)
    assert is_shared(in_place, x, 1.5)
    assert is_shared(direction, x, x + 1)
    assert is_shared(with_inverse, x, x + 1)
    assert not is_shared(by_other_array, x, x + 1)
    assert not is_shared(by_power_of_two, x)
    assert not is_shared(by_negative_constant, x)
    assert is_shared(by_row, x[:, :20].copy(), s)
    assert not is_shared(by_row, x[:, :7].copy(), s)
    assert not is_shared(by_row, x[:, :20].astype(np.float32), s.astype(np.float32))


# Rows of divisors -------------------------------------------------------------------------


def by_shared_row(x, s):
    return x / s, (x - 1) / s + s / x


def by_own_row(x, s):
    x /= x[3]
    return x / s


def by_computed_row(x, s):
    return (x - x.min(axis=0)) / (np.abs(s) + 1)


def with_rows_of_blocks(x, s):
    blocks = x.reshape(2, -1, x.shape[1])
    return blocks / (blocks[:, :1] * 2)


@pytest.mark.parametrize("columns", [1, 63, 64, 65, 130, 300, 2048, 2049])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_all_bits_of_quotients_by_a_row(dtype: str, columns: int) -> None:
    compiled = script(by_shared_row)
    bits = f"u{np.dtype(dtype).itemsize}"
    rows = 20
    pairs = zip(numbers(dtype, rows * columns, 1), numbers(dtype, columns, 2), strict=True)
    for x, s in pairs:
        for row in (s, np.abs(s), np.full_like(s, 3), np.linspace(1, 9, columns).astype(dtype)):
            table = x.reshape(rows, columns)
            with np.errstate(all="ignore"):
                expected = np.array(by_shared_row(table, row))
            got = np.array(compiled(table, row))
            is_same = got.view(bits) == expected.view(bits)
            assert (is_same | (np.isnan(got) & np.isnan(expected))).all()


@pytest.mark.parametrize("function", [by_own_row, by_computed_row, with_rows_of_blocks])
@pytest.mark.parametrize("shape", [(20, 64), (32, 100), (34, 301), (16, 2048), (6, 70)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_of_divisors_of_all_kinds(
    function: Callable[..., Any], shape: tuple[int, int], dtype: str
) -> None:
    random = np.random.default_rng(sum(shape))
    x = random.uniform(0.5, 2, shape).astype(dtype)
    s = random.uniform(1, 2, shape[1]).astype(dtype)
    check(function, x, s)
    check(function, x[:, ::-1], s[::-1])
    check(function, x, x[4])


def test_a_row_of_what_is_divided_in_place() -> None:
    x = np.random.default_rng(5).uniform(1, 2, (40, 200))
    compiled = script(in_place)
    for row in (None, 0, 7, 39):
        own, expected = x.copy(), x.copy()
        compiled(own, x[0].copy() if row is None else own[row])
        in_place(expected, x[0].copy() if row is None else expected[row])
        np.testing.assert_array_equal(own, expected)


def shares_rows(f: Callable[..., Any], *args: Any) -> bool:
    compiled = script(f)
    compiled(*args)
    function = compiled.kernels[0].lowered.function
    return share_divisor_rows(function, 512).body != function.body


def test_which_rows_of_divisors_are_shared() -> None:
    x, s = np.linspace(1, 2, 6000).reshape(20, 300), np.linspace(1, 2, 300)
    assert shares_rows(by_shared_row, x, s)
    assert shares_rows(by_computed_row, x, s)
    assert shares_rows(by_other_array, x, s)
    assert shares_rows(by_other_array, x.reshape(20, 3, 100), s[:100])
    assert not shares_rows(by_other_array, x, x + 1)
    assert not shares_rows(by_other_array, x, s.reshape(300)[:20, None])
    assert not shares_rows(by_other_array, x[:15].copy(), s)
    assert not shares_rows(by_other_array, x[:, :63].copy(), s[:63])
    single = np.ones((1000, 300), np.float32)
    assert not shares_rows(by_other_array, single, single[0] + 1)
    assert shares_rows(by_other_array, single[:800].copy(), single[0] + 1)
    assert shares_rows(by_other_array, single.astype(np.float64), np.full(300, 3.0))


def test_rows_that_are_written_or_calls_that_write_keep_divisions() -> None:
    i, j = Var("i", "int64"), Var("j", "int64")
    x, y = Var("x", "ptr"), Var("y", "ptr")

    def nest(root: str, *more: Stmt) -> Function:
        divisor = Load(x, j, "float64", root)
        place = Binary("add", Binary("mul", i, Const(64, "int64"), "int64"), j, "int64")
        quotient = Binary("div", Load(y, place, "float64", "y"), divisor, "float64")
        row = For(j, Const(0, "int64"), Const(64, "int64"), [Store(y, place, quotient, "y")])
        rows = For(i, Const(0, "int64"), Const(64, "int64"), [row, *more])
        return Function("f", (x, y), [rows], "void")

    calls = Do(Call("f", (x,), "void", external=True))
    assert share_divisor_rows(nest("x"), 512) != nest("x")
    assert share_divisor_rows(nest("x"), 256) == nest("x")
    for other in (nest("y"), nest(""), nest("x", calls)):
        assert share_divisor_rows(other, 512) == other
