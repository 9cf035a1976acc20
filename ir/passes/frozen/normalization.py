"""Batch normalization with constant statistics, as one multiplication and one addition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Node
from jitcore.ir.passes.frozen.arrays import array_of, number_of

__all__ = ["Affine", "normalization_of"]

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Affine:
    """``(x - mean) * scale + shift`` for every channel, in double precision."""

    mean: Array
    scale: Array
    shift: Array


def normalization_of(node: Node, channels: int, dtype: np.dtype[Any]) -> Affine | None:
    """What an ``nn::batch_norm`` does to so many channels of a dtype.

    None where it uses the batch's own statistics, its arrays are no constants or do not fit, or
    the result would not be finite.
    """
    training, eps = node.inputs[5].constant, number_of(node.inputs[7])
    if training is None or training.attributes["value"] is not False or eps is None:
        return None
    arrays = [array_of(value) for value in node.inputs[1:5]]
    for value, array in zip(node.inputs[1:5], arrays, strict=True):
        absent = value.constant is not None and value.constant.attributes["value"] is None
        if array is None and not absent:
            return None
        if array is not None and (array.dtype != dtype or array.shape != (channels,)):
            return None
    mean, variance, weight, bias = arrays
    if mean is None or variance is None:
        return None
    with np.errstate(all="ignore"):
        scale = 1 / np.sqrt(variance.astype(np.float64) + eps)
    scale = scale if weight is None else scale * weight
    shift = np.zeros(channels) if bias is None else bias.astype(np.float64)
    return Affine(mean.astype(np.float64), scale, shift) if np.isfinite(scale).all() else None
