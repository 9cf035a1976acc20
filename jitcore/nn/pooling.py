"""Pooling layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from jitcore.nn import functional as F
from jitcore.nn.arrays import Array, ArrayOrPair, Size
from jitcore.nn.functional.adaptive import OutputSize
from jitcore.nn.module import Module

__all__ = [
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "LPPool1d",
    "LPPool2d",
    "LPPool3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
]


class _MaxPool(Module):
    _pool: ClassVar[Callable[..., ArrayOrPair]]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: Array) -> ArrayOrPair:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            self.ceil_mode,
            self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest of every window of (N, C, L) or (C, L); see ``MaxPool2d``."""

    _pool = staticmethod(F.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest of every window of (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    kernel_size : int or two
    stride : int or two, optional
        ``kernel_size`` by default.
    padding, dilation : int or two
    return_indices : bool
        Give the places as well.
    ceil_mode : bool
        Also use windows that begin inside and end outside.
    """

    _pool = staticmethod(F.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest of every window of (N, C, D, H, W); see ``MaxPool2d``."""

    _pool = staticmethod(F.max_pool3d)


class AvgPool1d(Module):
    """The mean of every window of (N, C, L) or (C, L); see ``AvgPool2d``."""

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = _single(kernel_size)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.padding = _single(padding)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Array) -> Array:
        return F.avg_pool1d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


def _single(value: Size) -> Size:
    return (value,) if isinstance(value, int) else value


class _AvgPool(Module):
    _pool: ClassVar[Callable[..., Array]]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Array) -> Array:
        return self._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of every window of (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    kernel_size : int or two
    stride : int or two, optional
        ``kernel_size`` by default.
    padding : int or two
    ceil_mode : bool
        Also use windows that begin inside and end outside.
    count_include_pad : bool
        Count the padding's zeros.
    divisor_override : int, optional
        What sums are divided by, instead of the count.
    """

    _pool = staticmethod(F.avg_pool2d)


class AvgPool3d(_AvgPool):
    """The mean of every window of (N, C, D, H, W); see ``AvgPool2d``."""

    _pool = staticmethod(F.avg_pool3d)


class _LPPool(Module):
    def __init__(
        self,
        norm_type: float,
        kernel_size: Size,
        stride: Size | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """The power norm of every window of (N, C, L) or (C, L)."""

    def forward(self, input: Array) -> Array:
        return F.lp_pool1d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """The power norm of every window of (N, C, H, W) or (C, H, W)."""

    def forward(self, input: Array) -> Array:
        return F.lp_pool2d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """The power norm of every window of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Array) -> Array:
        return F.lp_pool3d(input, self.norm_type, self.kernel_size, self.stride, self.ceil_mode)


class _AdaptiveAvgPool(Module):
    def __init__(self, output_size: OutputSize) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """(N, C, L) or (C, L) pooled to a given length by means."""

    def forward(self, input: Array) -> Array:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """(N, C, H, W) or (C, H, W) pooled to given extents by means; None keeps one."""

    def forward(self, input: Array) -> Array:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """(N, C, D, H, W) or (C, D, H, W) pooled to given extents by means."""

    def forward(self, input: Array) -> Array:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(Module):
    def __init__(self, output_size: OutputSize, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """(N, C, L) or (C, L) pooled to a given length by maxima."""

    def forward(self, input: Array) -> ArrayOrPair:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """(N, C, H, W) or (C, H, W) pooled to given extents by maxima."""

    def forward(self, input: Array) -> ArrayOrPair:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """(N, C, D, H, W) or (C, D, H, W) pooled to given extents by maxima."""

    def forward(self, input: Array) -> ArrayOrPair:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
