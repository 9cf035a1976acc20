"""Linear layers, and those that only reshape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.module import Module

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


class Identity(Module):
    """Gives its input; takes any arguments."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Array) -> Array:
        return input


class Linear(Module):
    """``input @ weight.T + bias``.

    Parameters
    ----------
    in_features, out_features : int
    bias : bool
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight : (out_features, in_features) array
    bias : (out_features,) array or None
        Both uniform in ``±1 / sqrt(in_features)``.
    """

    weight: Array
    bias: Array | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        of = np.float32 if dtype is None else dtype
        self.register_parameter("weight", np.empty((out_features, in_features), of))
        self.register_parameter("bias", np.empty(out_features, of) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Array) -> Array:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Bilinear(Module):
    """``input1 @ weight[k] @ input2 + bias[k]`` for every output feature ``k``.

    Parameters
    ----------
    in1_features, in2_features, out_features : int
    bias : bool
    dtype : dtype, optional

    Attributes
    ----------
    weight : (out_features, in1_features, in2_features) array
    bias : (out_features,) array or None
        Both uniform in ``±1 / sqrt(in1_features)``.
    """

    weight: Array
    bias: Array | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, found {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        of = np.float32 if dtype is None else dtype
        shape = (out_features, in1_features, in2_features)
        self.register_parameter("weight", np.empty(shape, of))
        self.register_parameter("bias", np.empty(out_features, of) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Array, input2: Array) -> Array:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """The axes from ``start_dim`` to ``end_dim`` as one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Array) -> Array:
        axes = max(input.ndim, 1)
        if not (-axes <= self.start_dim < axes and -axes <= self.end_dim < axes):
            raise ValueError(
                f"Flatten: input of shape {input.shape} has no axes {self.start_dim} to "
                f"{self.end_dim}"
            )
        start, end = self.start_dim % axes, self.end_dim % axes
        if start > end:
            raise ValueError(f"Flatten: axis {self.start_dim} comes after axis {self.end_dim}")
        merged = math.prod(input.shape[start : end + 1])
        return input.reshape(*input.shape[:start], merged, *input.shape[end + 1 :])

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One axis as several.

    Parameters
    ----------
    dim : int
    unflattened_size : sequence of int
        One of them may be -1: what is left.
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Array) -> Array:
        if not -input.ndim <= self.dim < input.ndim:
            raise ValueError(f"Unflatten: input of shape {input.shape} has no axis {self.dim}")
        axis = self.dim % input.ndim
        extent = input.shape[axis]
        # What -1 stands for is found here: reshape cannot tell where another axis is empty.
        given = abs(math.prod(self.unflattened_size))
        rest = extent // given if given > 0 else 0
        sizes = [rest if size == -1 else size for size in self.unflattened_size]
        if math.prod(sizes) != extent:
            raise ValueError(
                f"Unflatten: axis {self.dim} of input of shape {input.shape} cannot become "
                f"{tuple(self.unflattened_size)}"
            )
        return input.reshape(*input.shape[:axis], *sizes, *input.shape[axis + 1 :])

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
