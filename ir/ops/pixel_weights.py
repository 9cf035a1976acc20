"""Which pixels an axis in another extent is made of: formulas for whole axes, in plain NumPy.

The functions of ``jitcore.nn.functional`` call them, and so do the loops that these become when
they are compiled (`ir.ops.resizing`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = [
    "SHARP",
    "aligned_ratio",
    "cubic_weights",
    "inner_cubic",
    "mixed_pixels",
    "nearest_pixels",
    "nearest_ratio",
    "outer_cubic",
]

SHARP = -0.75
"""The parameter of Keys, "Cubic Convolution Interpolation for Digital Image Processing" (1981): the
sharper of the two usual values, as in PyTorch."""


def nearest_ratio(length: int, extent: int, ratio: float) -> float:
    """How far apart the nearest pixels of images are.

    PyTorch repeats the pixels of images with two axes that keep or double their extent, whatever
    ``scale_factor`` says.
    """
    return length / extent if extent == length or extent == 2 * length else ratio


def aligned_ratio(length: int, extent: int) -> float:
    """How far apart the new pixels are where the centres of the outermost ones stay in place."""
    return (length - 1) / (extent - 1) if extent > 1 else 0.0


def nearest_pixels(extent: int, length: int, ratio: float, shift: float) -> Any:
    """The nearest pixel to each new one: (extent,) ints.

    In single precision as in PyTorch, where rounding decides between neighbours.
    """
    numbers = np.arange(extent, dtype=np.float32) + np.float32(shift)
    return np.minimum(np.floor(numbers * np.float32(ratio)).astype(np.int64), length - 1)


def mixed_pixels(
    extent: int, length: int, ratio: float, taps: int, aligned: bool, dtype: Any
) -> tuple[Any, Any]:
    """The pixels that each new one is mixed of, and their weights: both (extent, taps).

    Parameters
    ----------
    extent, length : int
        Of the new and of the old axis.
    ratio : float
        How far apart the new pixels stand, unless the corners are aligned.
    taps : int
        2 for linear, 4 for cubic interpolation.
    aligned : bool
        The centres of the outermost pixels stay in place.
    dtype : dtype
        Of the weights.
    """
    if aligned:
        places = np.arange(extent) * aligned_ratio(length, extent)
    else:
        places = (np.arange(extent) + 0.5) * ratio - 0.5
    if taps == 2:
        places = np.maximum(places, 0)
    floors = np.floor(places)
    part = places - floors
    weights = np.stack(cubic_weights(part) if taps == 4 else (1 - part, part), axis=1)
    first = -1 if taps == 4 else 0
    members = floors[:, np.newaxis] + np.arange(first, first + taps)
    return np.clip(members, 0, length - 1).astype(np.int64), weights.astype(dtype)


def cubic_weights(part: Any) -> tuple[Any, Any, Any, Any]:
    """The weights of four neighbours; ``part`` is how far it is from the second to the third."""
    rest = 1 - part
    return (
        outer_cubic(part + 1, SHARP),
        inner_cubic(part, SHARP),
        inner_cubic(rest, SHARP),
        outer_cubic(rest + 1, SHARP),
    )


def inner_cubic(x: Any, a: float) -> Any:
    """Keys' polynomial at distances up to 1."""
    return ((a + 2) * x - (a + 3)) * x * x + 1


def outer_cubic(x: Any, a: float) -> Any:
    """Keys' polynomial at distances from 1 to 2."""
    return ((x - 5) * x + 8) * x * a - 4 * a
