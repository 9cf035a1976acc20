"""Batch and instance normalization, which share running statistics."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.module import Module

__all__ = [
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "InstanceNorm3d",
]


class _Norm(Module):
    """What batch and instance normalization share: running statistics, scale and shift."""

    _optional_keys = frozenset({"num_batches_tracked"})
    _axes: ClassVar[tuple[int, ...]]
    weight: Array | None
    bias: Array | None
    running_mean: Array | None
    running_var: Array | None
    num_batches_tracked: Array | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        bias: bool,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        of = np.float32 if dtype is None else dtype
        self.register_parameter("weight", np.ones(num_features, of) if affine else None)
        shift = np.zeros(num_features, of) if affine and bias else None
        self.register_parameter("bias", shift)
        tracked = track_running_stats
        self.register_buffer("running_mean", np.zeros(num_features, of) if tracked else None)
        self.register_buffer("running_var", np.ones(num_features, of) if tracked else None)
        self.register_buffer("num_batches_tracked", np.zeros((), np.int64) if tracked else None)

    def reset_running_stats(self) -> None:
        """Forget the batches so far: mean 0 and variance 1."""
        if self.running_mean is not None and self.running_var is not None:
            self.running_mean[...] = 0
            self.running_var[...] = 1
        if self.num_batches_tracked is not None:
            self.num_batches_tracked[...] = 0

    def reset_parameters(self) -> None:
        """Forget the batches so far, and set scale 1 and shift 0."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, dtype)

    def forward(self, input: Array) -> Array:
        if input.ndim not in self._axes:
            raise ValueError(
                f"{self._get_name()}: expected input with {' or '.join(map(str, self._axes))} "
                f"axes, found {input.shape}"
            )
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked += 1
            if self.momentum is None:
                momentum = 1 / float(self.num_batches_tracked)
        return F.batch_norm(
            input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or self.running_mean is None,
            momentum,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, C) or (N, C, L); see ``BatchNorm2d``."""

    _axes = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalize each channel of (N, C, H, W) over the batch and all positions.

    Parameters
    ----------
    num_features : int
        C.
    eps : float
        Added to the variance.
    momentum : float or None
        The batch's part in the running statistics; None is the mean of all batches.
    affine : bool
        Scale and shift afterwards.
    track_running_stats : bool
        Keep running statistics in training and use them in evaluation.
    bias : bool
        Shift as well as scale.
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight, bias : (C,) array or None
    running_mean, running_var : (C,) array or None
    num_batches_tracked : () array of int64 or None
    """

    _axes = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of (N, C, D, H, W); see ``BatchNorm2d``."""

    _axes = (5,)


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, bias, dtype)

    def forward(self, input: Array) -> Array:
        batched, single = self._axes
        if input.ndim not in self._axes:
            raise ValueError(
                f"{self._get_name()}: expected input with {single} or {batched} axes, found "
                f"{input.shape}"
            )
        if self.affine and input.shape[-single] != self.num_features:
            raise ValueError(
                f"{self._get_name()}: expected {self.num_features} channels, found input of shape "
                f"{input.shape}"
            )
        batch = input if input.ndim == batched else input[np.newaxis]
        result = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result if input.ndim == batched else result[0]


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, C, L) or (C, L); see ``InstanceNorm2d``."""

    _axes = (3, 2)


class InstanceNorm2d(_InstanceNorm):
    """Normalize each channel of each sample of (N, C, H, W) or (C, H, W) over its positions.

    Parameters
    ----------
    num_features : int
        C.
    eps : float
        Added to the variance.
    momentum : float
        The batch's part in the running statistics.
    affine : bool
        Scale and shift afterwards.
    track_running_stats : bool
        Keep running statistics in training and use them in evaluation.
    bias : bool
        Shift as well as scale.
    dtype : dtype, optional
        float32 by default.
    """

    _axes = (4, 3)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, C, D, H, W) or (C, D, H, W); see ``InstanceNorm2d``."""

    _axes = (5, 4)
