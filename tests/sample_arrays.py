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

    shapes: dict[str, tuple[int, ...]] = {
        "0-d": (),
        "size 1": (1, 1),
        "one row": (1, columns),
        "empty": (0, columns),
        "vector": (columns,),
        "stack": (2, rows, columns),
    }
    if layout in shapes:
        return made(*shapes[layout])
    if layout == "strided":
        return made(2 * rows, 3 * columns)[::2, 1::3]
    if layout == "repeated":
        return np.broadcast_to(made(1, columns), (rows, columns))
    matrix = made(rows, columns)
    if layout == "read-only":
        matrix.flags.writeable = False
    if layout == "reversed":
        return matrix[::-1, ::-1]
    return np.asfortranarray(matrix) if layout == "F" else matrix


def overlapping(kind: str, dtype: Any, seed: int = 0) -> tuple[Array, Array]:
    """Two square matrices that share memory."""
    area = values(dtype, (5, 4), seed, tame=True)
    base = area[:4]
    return {
        "same": (base, base),
        "shifted": (area[1:], base),
        "reversed over": (base, area[3::-1]),
        "transposed over": (base, base.T),
    }[kind]
