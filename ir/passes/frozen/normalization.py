"""Batch normalization with constant statistics, as one multiplication and one addition."""

from __future__ import annotations

import numpy as np

from jitcore.ir.graph import Node
from jitcore.ir.passes.frozen.arrays import array_of, number_of
from jitcore.ir.passes.frozen.weights import Array, Weighted

__all__ = ["normalized"]


def normalized(found: Weighted, node: Node) -> tuple[Array, Array] | None:
    """The weights and the bias with which a layer does what an ``nn::batch_norm`` of it does.

    They are in double precision.  None where the node uses the batch's own statistics, its arrays
    are no constants or do not fit, or the result would not be finite.
    """
    training, eps = node.inputs[5].constant_value, number_of(node.inputs[7])
    if training is not False or eps is None:
        return None
    dtype, channels = found.weight.dtype, found.channels
    arrays = [array_of(value) for value in node.inputs[1:5]]
    for value, array in zip(node.inputs[1:5], arrays, strict=True):
        absent = value.constant is not None and value.constant_value is None
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
    if not np.isfinite(scale).all():
        return None
    shift = np.zeros(channels) if bias is None else bias.astype(np.float64)
    return found.scaled(scale), (found.shift - mean.astype(np.float64)) * scale + shift
