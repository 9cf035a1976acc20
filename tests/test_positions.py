# mypy: allow-untyped-defs, allow-untyped-calls
"""Places of extrema along rows of all lengths, with NaN, zeros of both signs and ties."""

from __future__ import annotations

import numpy as np
import pytest

from checking import check
from jitcore.script import script

LENGTHS = [1, 3, 7, 8, 10, 16, 33, 63, 64, 127, 128, 256, 257, 1025, 2050]


def along_rows(x):
    return np.argmax(x, axis=1), np.argmin(x, axis=1), np.argmax(x, axis=1, keepdims=True) + 1


def of_all(x):
    return np.argmax(x), np.argmin(x), np.argmax(x * 2)


def rows_of(dtype: str, length: int, seed: int) -> np.ndarray:
    """Rows with many ties, and some with infinities, zeros of both signs and NaN of both signs."""
    random = np.random.default_rng([seed, length])
    x = random.integers(-5, 6, (24, length)).astype(dtype)
    if np.dtype(dtype).kind != "f":
        return x
    x[2:4] = np.inf * np.sign(x[2:4] + 0.5)
    x[4:6] = random.choice(np.array([0.0, -0.0], dtype), (2, length))
    nan = np.array([np.nan, -np.nan], dtype)
    for row in range(6, 18):
        places = random.integers(0, length, 1 + row % 3)
        x[row, places] = random.choice(nan, len(places))
    x[18] = np.nan
    x[19] = -np.inf
    return x


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64"])
def test_along_rows(dtype: str) -> None:
    for length in LENGTHS:
        x = rows_of(dtype, length, 0)
        assert check(along_rows, x).kernels
    check(along_rows, np.asfortranarray(rows_of(dtype, 40, 1)))
    check(along_rows, rows_of(dtype, 60, 2)[::2, ::-3])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "uint8"])
def test_of_all_elements(dtype: str) -> None:
    """Long walks are divided, each part has blocks, and those have places of their own."""
    compiled = script(of_all)
    for seed, size in enumerate([1, 5, 40, 1024, 1025, 32768, 70000, 100001]):
        flat = rows_of(dtype, -(-size // 24), seed).ravel()[:size]
        check(of_all, flat, script=lambda _: compiled)
        check(of_all, flat[::-1], script=lambda _: compiled)
        without = np.nan_to_num(flat)
        check(of_all, without, script=lambda _: compiled)
        without[-1] = 100
        check(of_all, without, script=lambda _: compiled)


def test_several_axes_count_in_c_order() -> None:
    x = rows_of("float32", 300, 5).reshape(2, 12, 30, 10)
    check(of_all, x)
    check(of_all, x.transpose(2, 0, 3, 1))
    check(of_all, x[:, :, ::3, :7])


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_few_long_rows(rows: int) -> None:
    """Threads share the elements of each row, and the results do not show it."""

    def reduced(x):
        return x.max(axis=1), x.argmin(axis=1), x.sum(axis=1), x.any(axis=1), np.nanmax(x, axis=1)

    def centred(x):
        return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)

    x = np.random.default_rng(rows).standard_normal((rows, 2**18 + 5))
    x[-1, 2**17] = np.nan
    check(reduced, x, reduction=True)
    check(centred, x[:1], reduction=True)
    check(centred, x.astype(np.float32), reduction=True)


def test_one_long_column() -> None:
    """With no other element in a row, NumPy adds up a column pairwise."""

    def reduced(x):
        return x.sum(axis=0), x.max(axis=0), x.mean(axis=0), x.argmax(axis=0), x.T.sum(axis=1)

    x = np.random.default_rng(0).standard_normal((100_003, 1)).astype(np.float32)
    check(reduced, x, reduction=True)
    check(reduced, x.reshape(-1, 1, 1), reduction=True)
    expected = x.astype(np.longdouble).sum()
    assert abs(script(reduced)(x)[0][0] - expected) <= abs(x.sum(axis=0)[0] - expected) + 1e-3
