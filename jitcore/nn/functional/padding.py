"""Frames around arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.nn.arrays import Array

__all__ = ["pad"]


def pad(
    input: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Array:
    """An array with more elements, or fewer, at the ends of its last axes.

    Parameters
    ----------
    input : array
    pad : sequence of int
        How many to add before and after the last axis, then the axis before it, and so on.
        Negative numbers cut off.
    mode : str
        What is added: ``"constant"``, ``"reflect"`` (mirrored, without the edge itself),
        ``"replicate"`` (the edge) or ``"circular"`` (the other end).
    value : float, optional
        For ``"constant"``; 0 by default.

    Returns
    -------
    array

    Raises
    ------
    ValueError
        Pad fits the input's axes, or its extents in this mode, not.
    """
    widths = _widths(input, pad)
    if mode == "constant":
        inner = input[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, b, a in widths)]
        frame = [(max(before, 0), max(after, 0)) for _, before, after in widths]
        filling = 0 if value is None else value
        return np.pad(inner, frame, constant_values=input.dtype.type(filling))
    if value is not None and value != 0:
        raise ValueError(f"pad: mode {mode!r} takes no value, found {value}")
    result = input
    for axis, (extent, before, after) in enumerate(widths):
        if before != 0 or after != 0:
            if extent < _least(mode, before, after):
                raise ValueError(
                    f"pad: {mode} padding by {before} and {after} needs more elements than axis "
                    f"{axis} of input of shape {input.shape} has"
                )
            result = np.take(result, _source(mode, extent, before, after), axis=axis)
    return result


def _least(mode: str, before: int, after: int) -> int:
    """How many elements an axis must have."""
    if mode not in ("reflect", "replicate", "circular"):
        raise ValueError(
            f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', found {mode!r}"
        )
    return 1 if mode == "replicate" else max(before, after) + (mode == "reflect")


def _widths(input: Array, pad: Sequence[int]) -> list[tuple[int, int, int]]:
    """The extent of every axis, and what is added before and after it."""
    if len(pad) % 2 or len(pad) > 2 * input.ndim:
        raise ValueError(
            f"pad: expected two numbers for each of at most {input.ndim} axes, found {pad}"
        )
    unpadded = input.ndim - len(pad) // 2
    before = [0] * unpadded + list(pad[-2::-2])
    after = [0] * unpadded + list(pad[-1::-2])
    widths = list(zip(input.shape, before, after, strict=True))
    if any(n + b + a < 0 for n, b, a in widths):
        raise ValueError(f"pad: {pad} cuts more off than input of shape {input.shape} has")
    return widths


def _source(mode: str, extent: int, before: int, after: int) -> Array:
    """Which elements of an axis stand on the padded one."""
    places = np.arange(-before, extent + after)
    if mode == "replicate":
        return np.clip(places, 0, extent - 1)
    if mode == "reflect":
        last = extent - 1
        return last - np.abs(last - np.abs(places))
    return places % extent
