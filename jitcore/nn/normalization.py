"""Normalization layers without running statistics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.module import Module

__all__ = [
    "GroupNorm",
    "LayerNorm",
    "LocalResponseNorm",
    "RMSNorm",
]


class _ScaleAndShift(Module):
    """Layers whose weights begin as ones and whose bias begins as zeros."""

    weight: Array | None
    bias: Array | None

    def reset_parameters(self) -> None:
        """Set scale 1 and shift 0."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class GroupNorm(_ScaleAndShift):
    """Normalize groups of channels of each sample of (N, C, ...).

    Parameters
    ----------
    num_groups, num_channels : int
        The first divides the second.
    eps : float
    affine : bool
        Scale and shift each channel afterwards.
    bias : bool
        Shift as well as scale.
    dtype : dtype, optional
        float32 by default.
    """

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        *,
        bias: bool = True,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise ValueError(f"GroupNorm: {num_groups} groups must divide {num_channels} channels")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        of = np.float32 if dtype is None else dtype
        self.register_parameter("weight", np.ones(num_channels, of) if affine else None)
        shift = np.zeros(num_channels, of) if affine and bias else None
        self.register_parameter("bias", shift)

    def forward(self, input: Array) -> Array:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def _shape(normalized_shape: int | Sequence[int]) -> tuple[int, ...]:
    if isinstance(normalized_shape, (int, np.integer)):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class LayerNorm(_ScaleAndShift):
    """Normalize over the last axes.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The extents of those axes.
    eps : float
        Added to the variance.
    elementwise_affine : bool
        Scale and shift each element afterwards.
    bias : bool
        Shift as well as scale.
    dtype : dtype, optional
        float32 by default.
    """

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        of = np.float32 if dtype is None else dtype
        scale = np.ones(self.normalized_shape, of) if elementwise_affine else None
        shift = np.zeros(self.normalized_shape, of) if elementwise_affine and bias else None
        self.register_parameter("weight", scale)
        self.register_parameter("bias", shift)

    def forward(self, input: Array) -> Array:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide by the root of the mean square over the last axes.

    Parameters
    ----------
    normalized_shape : int or sequence of int
        The extents of those axes.
    eps : float, optional
        Added to the mean square; the machine epsilon of the input's dtype by default.
    elementwise_affine : bool
        Scale each element afterwards.
    dtype : dtype, optional
        float32 by default.
    """

    weight: Array | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _shape(normalized_shape)
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        of = np.float32 if dtype is None else dtype
        scale = np.ones(self.normalized_shape, of) if elementwise_affine else None
        self.register_parameter("weight", scale)

    def reset_parameters(self) -> None:
        """Set scale 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Array) -> Array:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class LocalResponseNorm(Module):
    """Divide by a power of the neighbouring channels' mean square; see the functional."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Array) -> Array:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
