"""Arrays of every dtype, with difficult values, in every layout."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["DTYPES", "LAYOUTS", "OVERLAPS", "in_layout", "overlapping", "values"]

Array = np.ndarray[Any, Any]

DTYPES = "?bhilBHILfdFD"
"""The characters of the dtypes that compiled code works in."""

_SPECIAL_FLOATS = [0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5, -2.5, 3.0]

LAYOUTS = (
    "C",
    "F",
    "strided",
    "reversed",
    "repeated",
    "read-only",
    "0-d",
    "size 1",
    "one row",
    "empty",
    "vector",
    "stack",
)

OVERLAPS = ("same", "shifted", "reversed over", "transposed over")
"""How two arrays of one shape may share memory."""


def values(dtype: Any, shape: tuple[int, ...], seed: int = 0, *, tame: bool = False) -> Array:
    """Random values, with the difficult ones first: zeros of both signs, NaN, infinities, extremes.

    With ``tame`` they are positive, moderate and finite.
    """
    dtype = np.dtype(dtype)
    random = np.random.default_rng([seed, ord(dtype.char), *shape])
    count = int(np.prod(shape))
    if tame:
        result = (random.integers(1, 8, count) / (2 if dtype.kind in "fc" else 1)).astype(dtype)
        return result.reshape(shape)
    if dtype.kind == "b":
        return (random.random(count) < 0.5).reshape(shape)
    if dtype.kind in "iu":
        return _integers(dtype, count, random).reshape(shape)
    if dtype.kind == "c":
        part = np.dtype(dtype.char.lower())
        result = np.empty(count, dtype)
        result.real, result.imag = (_floats(part, count, random) for _ in range(2))
        return result.reshape(shape)
    return _floats(dtype, count, random).reshape(shape)


def _integers(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> Array:
    limits = np.iinfo(dtype)
    result = random.integers(max(limits.min, -9), 10, count).astype(dtype)
    special = np.array([limits.max, limits.min, 0, 1, limits.max // 2], dtype)
    places = random.permutation(count)[: len(special)]
    result[places] = special[: len(places)]
    return result


def _floats(dtype: np.dtype[Any], count: int, random: np.random.Generator) -> Array:
    limits = np.finfo(dtype)
    result = (random.standard_normal(count) * 3).astype(dtype)
    special = np.array([*_SPECIAL_FLOATS, limits.max, limits.smallest_subnormal], dtype)
    chosen = random.permutation(special)[: max(count // 2, 1 if count > 1 else 0)]
    result[random.permutation(count)[: len(chosen)]] = chosen
    return result


def in_layout(
    layout: str, dtype: Any, shape: tuple[int, ...], seed: int = 0, *, tame: bool = False
) -> Array:
    """An array of this matrix shape in a layout; some layouts have a shape of their own."""
    rows, columns = shape

    def made(*extents: int) -> Array:
        return values(dtype, extents, seed, tame=tame)

    match layout:
        case "C":
            return made(rows, columns)
        case "F":
            return np.asfortranarray(made(rows, columns))
        case "strided":
            return made(2 * rows, 3 * columns)[::2, 1::3]
        case "reversed":
            return made(rows, columns)[::-1, ::-1]
        case "repeated":
            return np.broadcast_to(made(1, columns), (rows, columns))
        case "read-only":
            result = made(rows, columns)
            result.flags.writeable = False
            return result
        case "0-d":
            return made()
        case "size 1":
            return made(1, 1)
        case "one row":
            return made(1, columns)
        case "empty":
            return made(0, columns)
        case "vector":
            return made(columns)
        case "stack":
            return made(2, rows, columns)
    raise ValueError(f"no layout {layout!r}")


def overlapping(kind: str, dtype: Any, seed: int = 0) -> tuple[Array, Array]:
    """Two square matrices that share memory."""
    area = values(dtype, (5, 4), seed, tame=True)
    match kind:
        case "same":
            return area[:4], area[:4]
        case "shifted":
            return area[1:], area[:4]
        case "reversed over":
            return area[:4], area[3::-1]
        case "transposed over":
            return area[:4], area[:4].T
    raise ValueError(f"no overlap {kind!r}")
