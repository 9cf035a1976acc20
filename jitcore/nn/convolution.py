"""Convolutional layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike, Size
from jitcore.nn.functional.checks import sizes
from jitcore.nn.module import Module

__all__ = [
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
]

_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Module):
    """What all convolutions share: their options, and initial values."""

    weight: Array
    bias: Array | None
    padding: tuple[int, ...] | str

    def __init__(
        self,
        rank: int,
        transposed: bool,
        channels: tuple[int, int],
        kernel_size: Size,
        stride: Size,
        padding: Size | str,
        output_padding: Size,
        dilation: Size,
        groups: int,
        bias: bool,
        padding_mode: str,
        dtype: DTypeLike | None,
    ) -> None:
        super().__init__()
        name = self._get_name()
        self.in_channels, self.out_channels = channels
        self.groups = groups
        self.transposed = transposed
        self.padding_mode = padding_mode
        self.kernel_size = sizes(kernel_size, rank, f"{name}: kernel_size")
        self.stride = sizes(stride, rank, f"{name}: stride")
        self.dilation = sizes(dilation, rank, f"{name}: dilation")
        self.output_padding = sizes(output_padding, rank, f"{name}: output_padding")
        if isinstance(padding, str):
            self.padding = padding
        else:
            self.padding = sizes(padding, rank, f"{name}: padding")
        self._check_options(name)
        of = np.float32 if dtype is None else dtype
        first, second = reversed(channels) if not transposed else channels
        shape = (first, second // groups, *self.kernel_size)
        self.register_parameter("weight", np.empty(shape, of))
        self.register_parameter("bias", np.empty(self.out_channels, of) if bias else None)
        self._frame = self._padding_of_mode()
        self.reset_parameters()

    def _check_options(self, name: str) -> None:
        if self.groups <= 0:
            raise ValueError(f"{name}: groups must be positive, found {self.groups}")
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise ValueError(
                f"{name}: {self.groups} groups must divide {self.in_channels} input and "
                f"{self.out_channels} output channels"
            )
        if self.padding_mode not in _MODES:
            raise ValueError(
                f"{name}: padding_mode must be one of {_MODES}, found {self.padding_mode!r}"
            )
        if isinstance(self.padding, str):
            if self.padding not in ("same", "valid"):
                raise ValueError(
                    f"{name}: padding must be ints, 'same' or 'valid', found {self.padding!r}"
                )
            if self.padding == "same" and max(self.stride) > 1:
                raise ValueError(f"{name}: padding='same' takes no stride, found {self.stride}")

    def _padding_of_mode(self) -> tuple[int, ...]:
        """The padding as ``functional.pad`` takes it: the last axis first."""
        pairs = []
        for axis in reversed(range(len(self.kernel_size))):
            total = self.dilation[axis] * (self.kernel_size[axis] - 1)
            if self.padding == "same":
                pairs += [total // 2, total - total // 2]
            elif self.padding == "valid":
                pairs += [0, 0]
            else:
                assert not isinstance(self.padding, str)
                pairs += [self.padding[axis]] * 2
        return tuple(pairs)

    def reset_parameters(self) -> None:
        """Draw the initial values anew: uniform in ``±1 / sqrt(numbers that go into each)``."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        fan_in = math.prod(self.weight.shape[1:])
        if self.bias is not None and fan_in > 0:
            init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        parts = [
            f"{self.in_channels}, {self.out_channels}",
            f"kernel_size={self.kernel_size}, stride={self.stride}",
        ]
        rank = len(self.kernel_size)
        if self.padding != (0,) * rank:
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * rank:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * rank:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Direct(_Convolution):
    """What convolutions that are not transposed share."""

    _rank: int

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__(
            self._rank,
            False,
            (in_channels, out_channels),
            kernel_size,
            stride,
            padding,
            0,
            dilation,
            groups,
            bias,
            padding_mode,
            dtype,
        )

    def _padded(self, input: Array) -> tuple[Array, Size | str]:
        """The input, with its padding where that is not zeros, and the padding that is left."""
        if self.padding_mode == "zeros":
            return input, self.padding
        return F.pad(input, self._frame, mode=self.padding_mode), 0


class Conv1d(_Direct):
    """Cross-correlation over (N, C, L); see ``Conv2d``."""

    _rank = 1

    def forward(self, input: Array) -> Array:
        padded, padding = self._padded(input)
        return F.conv1d(
            padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv2d(_Direct):
    """Cross-correlation over (N, C, H, W) or (C, H, W).

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int or two
    stride, dilation : int or two
    padding : int, two ints, ``"same"`` or ``"valid"``
    groups : int
        Divides both numbers of channels.
    bias : bool
    padding_mode : str
        ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight : (out_channels, in_channels / groups, height, width) array
    bias : (out_channels,) array or None
    """

    _rank = 2

    def forward(self, input: Array) -> Array:
        padded, padding = self._padded(input)
        return F.conv2d(
            padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class Conv3d(_Direct):
    """Cross-correlation over (N, C, D, H, W); see ``Conv2d``."""

    _rank = 3

    def forward(self, input: Array) -> Array:
        padded, padding = self._padded(input)
        return F.conv3d(
            padded, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )


class _Transposed(_Convolution):
    """What transposed convolutions share."""

    _rank: int
    _function: ClassVar[Callable[..., Array]]
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(
                f"{self._get_name()}: padding_mode must be 'zeros', found {padding_mode!r}"
            )
        super().__init__(
            self._rank,
            True,
            (in_channels, out_channels),
            kernel_size,
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            bias,
            padding_mode,
            dtype,
        )

    def forward(self, input: Array, output_size: Sequence[int] | None = None) -> Array:
        extra = self._extra(input, output_size)
        return self._function(
            input,
            self.weight,
            self.bias,
            self.stride,
            self.padding,
            extra,
            self.groups,
            self.dilation,
        )

    def _extra(self, input: Array, output_size: Sequence[int] | None) -> tuple[int, ...]:
        """The output padding, so that the output has the size that was asked for."""
        if output_size is None:
            return self.output_padding
        asked = tuple(output_size)[-self._rank :]
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self._rank :],
                self.stride,
                self.padding,
                self.dilation,
                self.kernel_size,
                strict=True,
            )
        ]
        extra = tuple(a - n for a, n in zip(asked, least, strict=True))
        if min(extra) < 0 or any(e >= s for e, s in zip(extra, self.stride, strict=True)):
            largest = [n + s - 1 for n, s in zip(least, self.stride, strict=True)]
            raise ValueError(
                f"{self._get_name()}: output_size must be from {least} to {largest} for input of "
                f"shape {input.shape}, found {asked}"
            )
        return extra


class ConvTranspose1d(_Transposed):
    """The adjoint of ``Conv1d``; see ``ConvTranspose2d``."""

    _rank = 1
    _function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_Transposed):
    """The adjoint of ``Conv2d``: (N, C, H, W) or (C, H, W) to a larger image.

    Parameters
    ----------
    in_channels, out_channels : int
    kernel_size : int or two
    stride, dilation : int or two
    padding : int or two
        How much is cut off on both sides.
    output_padding : int or two
        How much is added at the end.
    groups : int
        Divides both numbers of channels.
    bias : bool
    padding_mode : str
        ``"zeros"``.
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight : (in_channels, out_channels / groups, height, width) array
    bias : (out_channels,) array or None
    """

    _rank = 2
    _function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_Transposed):
    """The adjoint of ``Conv3d``; see ``ConvTranspose2d``."""

    _rank = 3
    _function = staticmethod(F.conv_transpose3d)
