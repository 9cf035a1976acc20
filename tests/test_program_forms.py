"""Forms of array programs: ints next to NumPy's, powers, shapes set in place, late types."""

# The functions under test are plain NumPy, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.pipeline import NativePlan

Array = np.ndarray[Any, Any]


def assert_native(compiled: Any) -> None:
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


# Python's ints next to NumPy's -------------------------------------------------------------


def checksum(data, polynomial):
    state = 0xFFFF
    for byte in data:
        bits = 0xFF & byte
        for _ in range(8):
            if (state & 1) ^ (bits & 1):
                state = (state >> 1) ^ polynomial
            else:
                state >>= 1
            bits >>= 1
    return ~state & 0xFFFF


def test_bits_of_bytes() -> None:
    data = np.arange(100, dtype=np.uint8) * 7
    assert_native(check(checksum, data, 0x8408))


def best_pairs(n, kinds):
    table = np.zeros((n, n), np.int32)
    for i in range(n - 2, -1, -1):
        for j in range(i + 1, n):
            pair = 1 if kinds[i] + kinds[j] == 3 else 0
            table[i, j] = max(table[i, j - 1], table[i + 1, j - 1] + pair)
            for k in range(i + 1, j):
                table[i, j] = max(table[i, j], table[i, k] + table[k + 1, j])
    return table


def test_tables_of_short_ints() -> None:
    kinds = (np.arange(12) * 7 % 4).astype(np.int32)
    assert_native(check(best_pairs, 12, kinds))


def shifted(x, by):
    x[0] = 1
    return x + by


@pytest.mark.parametrize("by", [0, 255, -1, 256])
def test_ints_out_of_range_after_a_write(by: int) -> None:
    compiled = script(shifted)
    x, y = np.zeros(3, np.uint8), np.zeros(3, np.uint8)
    try:
        expected = shifted(x, by)
    except OverflowError as error:
        with pytest.raises(OverflowError, match=str(error)):
            compiled(y, by)
    else:
        np.testing.assert_array_equal(compiled(y, by), expected)
    np.testing.assert_array_equal(x, y)


# Powers of ints ----------------------------------------------------------------------------


def digits(base, count):
    total = 0
    for i in range(count):
        for j in range(i):
            total += base ** (count - i - 1) * 2**i + 3 ** (i - j - 1)
    return total


def test_powers_that_no_loop_makes_negative() -> None:
    for base, count in ((3, 5), (2, 0), (2, -3), (-2, 7)):
        assert_native(check(digits, base, count))


def power(base, exponent):
    return base**exponent, 2**-exponent


@pytest.mark.parametrize("exponent", range(-3, 4))
def test_powers_of_either_sign(exponent: int) -> None:
    check(power, 3, exponent)


def negative_powers(count):
    total = 0
    for i in range(count):
        total += 2 ** (i - 1)
    return total


def test_powers_that_are_negative_at_first() -> None:
    check(negative_powers, 4)


# Shapes set in place -----------------------------------------------------------------------


def new_shape(x, rows):
    y = x + 1
    same = y
    y.shape = (rows, -1)
    return same * 2, y.shape, y[0].sum(), y


def new_shape_of_argument(x, rows):
    x.shape = x.shape[::-1]
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i, 0]
    return total, x


def new_shape_in_a_branch(x, rows):
    y, z = x, x * 2
    if rows > 2:
        z.shape = (-1,)
    total = 0.0
    for i in range(z.shape[0]):
        total = total + z[i]
    return total, y


def reshape_it(x, rows):
    x.shape = (rows, -1)


def new_shape_in_a_callee(x, rows):
    y = np.ones((2, 3))
    reshape_it(y, rows)
    return y + 1


def new_dtype(x, rows):
    y = x.copy()
    y.dtype = np.int64
    return y + rows


@pytest.mark.parametrize("rows", [3, 2, 5])
@pytest.mark.parametrize(
    "function",
    [
        new_shape,
        new_shape_of_argument,
        new_shape_in_a_branch,
        new_shape_in_a_callee,
        new_dtype,
    ],
)
def test_shapes_set_in_place(function: Callable[..., Any], rows: int) -> None:
    check(function, np.arange(6.0).reshape(2, 3), rows)


# Reshaped strided arrays -------------------------------------------------------------------


def read_before_any_write(x, y):
    for _ in range(3):
        flat = np.reshape(x.T, (6,))
        y[1:] = flat[1:] + y[1:]
        x[:] = np.reshape(y * 2, (2, 3))
    return y


def read_after_a_write(x, y):
    column = x[:, 0:1].reshape(2)
    flat = np.reshape(x.T, (6,))
    x[0, 0] = 100.0
    return column + 1, flat + 1


def written_itself(x, y):
    column = np.reshape(x[:, :1], (-1,))
    flat = np.reshape(x[:, ::2], (-1,))
    column[0] = 5
    flat[1] = 7
    y[0] = 1
    return x


def read_beside_a_write(x, y):
    turned = np.reshape(x.T, (3, 2))
    if y[0] > 0:
        x[0] = 3
        y[0:3] = turned[:, 0]
    return y


@pytest.mark.parametrize(
    "function", [read_before_any_write, read_after_a_write, written_itself, read_beside_a_write]
)
def test_reshaped_strided_arrays(function: Callable[..., Any]) -> None:
    check(function, np.arange(6.0).reshape(2, 3), np.ones(6))


def test_reshaped_strided_arrays_may_be_native() -> None:
    compiled = script(read_before_any_write)
    compiled(np.arange(6.0).reshape(2, 3), np.ones(6))
    assert_native(compiled)


# Types that only the run shows -------------------------------------------------------------


def decode(text):
    return np.array([float(part) for part in text.split()])


def survivors(text, limit):
    x = decode(text)
    counts = np.zeros(len(x), dtype=np.int64)
    places = np.arange(len(x))
    for step in range(20):
        if not len(x):
            break
        np.multiply(x, x, x)
        done = abs(x) > limit
        counts[places[done]] = step + 1
        np.logical_not(done, done)
        x = x[done]
        places = places[done]
    return counts, x


def test_loops_over_late_types() -> None:
    check(survivors, "0.5 1.5 2.5 -1.25 3 0.125", 100.0)
    check(survivors, "", 100.0)


# Masks in blocks ---------------------------------------------------------------------------


def selected(x, low, high):
    inside = (low <= x) & (x < high)
    values = x[inside]
    x[inside] = values * 2
    return values, values.sum(), x[x > high]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 500])
def test_masks_that_are_mostly_false(length: int) -> None:
    x = np.arange(float(length)) * 0.5
    for low, high in ((0.0, 1e9), (3.0, 4.0), (1e9, 1e9), (31.0, 33.0)):
        check(selected, x, low, high, reduction=True)


# Exponentials of complex numbers -----------------------------------------------------------


def exponential(z):
    return np.exp(z)


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_exponential(dtype: Any) -> None:
    limits = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 87.5, 89.0, 709.5, 710.2, -745.0]
    z = np.array([complex(re, im) for re in limits for im in limits], dtype)
    check(exponential, z, ulp=6)
    rng = np.random.default_rng(0)
    check(
        exponential, (rng.uniform(-30, 30, 999) + 1j * rng.uniform(-9, 9, 999)).astype(dtype), ulp=6
    )


# Columns, rows and planes of the array that is written -------------------------------------


def sweep(x, c):
    for k in range(1, x.shape[1]):
        x[:, k] = x[:, k] * c - x[:, k - 1] * 0.5
    for k in range(x.shape[1] - 2, -1, -1):
        x[1:-1, k] = x[1:-1, k] + x[1:-1, k + 1] * c
    for k in range(1, x.shape[0]):
        x[k] = x[k - 1] + x[k, ::-1]
        x[k, 1:] = x[k - 1, :-1] + c
    x[::2] = x[1::2][:, ::-1]
    x[:, 1:] += x[:, :-1]
    x[0:2] = x[1:3]
    return x


@pytest.mark.parametrize("shape", [(6, 7), (2, 2), (4, 3)])
def test_parts_of_the_array_that_is_written(shape: tuple[int, int]) -> None:
    x = np.sin(np.arange(float(np.prod(shape)))).reshape(shape)
    check(sweep, x, 0.75)
    check(sweep, np.asfortranarray(x), 0.75)
    check(sweep, np.repeat(np.repeat(x, 2, 0), 3, 1)[::2, ::-3], 0.75)


def planes(x):
    for k in range(1, x.shape[2]):
        x[:, :, k] = (x[:, :, k] - x[:, :, k - 1]) * 0.5
        x[:, k - 1, :] += x[:, k, :]
    return x


def test_planes_of_the_array_that_is_written() -> None:
    check(planes, np.sin(np.arange(4.0 * 6 * 5)).reshape(4, 6, 5))


def test_columns_are_written_without_a_copy() -> None:
    compiled = script(planes)
    compiled(np.ones((40, 60, 50)))
    (kernel,) = compiled.kernels
    assert "malloc" not in kernel.source


# Extents that only the run shows ------------------------------------------------------------


def grids_of_edges(m):
    a, b = np.meshgrid(m[0], m[:, 0])
    c, d = np.meshgrid(m[0], m[:, 0], indexing="ij")
    return a, b, c, d, np.indices((2, 3)), np.mgrid[0:3, 0:2]


def test_extents_of_values_whose_types_are_not_known() -> None:
    compiled = script(grids_of_edges)
    for dtype in (np.float64, np.float32, np.int64):
        for shape in ((5, 6), (0, 6), (1, 6), (5, 0)):
            check(grids_of_edges, np.ones(shape, dtype), script=lambda _: compiled)


# Several numbers that go into a row ----------------------------------------------------------


def trajectory(x, y, dt, steps):
    rows = np.empty((steps, 2), x.dtype)
    for step in range(steps):
        x[0], y = x[0] + dt * y, y - dt * x[0]
        rows[step] = x[0], y
        rows[step, ::-1] = [rows[step, 0], step]
    return rows


def counted_rows(x, y, dt, steps):
    rows = np.zeros((steps, 3), np.int64)
    for step in range(steps):
        rows[step] = step, step * step, step > 1
    return rows


def rows_that_do_not_fit(x, y, dt, steps):
    x[:2] = y, dt, steps


@pytest.mark.parametrize("function", [trajectory, counted_rows])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_of_several_numbers(function: Callable[..., Any], dtype: Any) -> None:
    assert_native(check(function, np.ones(3, dtype), 0.5, 0.125, 6))


@pytest.mark.parametrize("dtype", [np.float64, np.int8, np.complex128, object])
def test_rows_that_numpy_converts(dtype: Any) -> None:
    check(rows_that_do_not_fit, np.ones(3, dtype), 0.5, 0.125, 6)
    check(trajectory, np.ones(3, dtype), 0.5, 0.125, 6)


# Copies --------------------------------------------------------------------------------------


def copied(x, y):
    y[...] = x
    z = x.copy()
    z[:1] = 0
    y[1:] = z[:-1]
    return z, y.copy()


@pytest.mark.parametrize("dtype", [np.int8, np.float64, np.complex128])
def test_copies_of_all_sizes(dtype: Any) -> None:
    compiled = script(copied)
    for size in (0, 1, 5, 100, 300, 3000, 100_000, 2**21 // np.dtype(dtype).itemsize * 9):
        x = np.arange(size).astype(dtype)
        check(copied, x, np.zeros_like(x), script=lambda _: compiled)
        check(copied, x[::2], np.zeros_like(x[::2]), script=lambda _: compiled)
