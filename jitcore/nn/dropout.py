"""Dropout layers."""

from __future__ import annotations

from jitcore.nn import functional as F
from jitcore.nn.arrays import Array
from jitcore.nn.module import Module

__all__ = [
    "AlphaDropout",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "FeatureAlphaDropout",
]


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{self._get_name()}: p must be from 0 to 1, found {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Zeros with probability ``p`` in training, and the rest divided by ``1 - p``.

    Parameters
    ----------
    p : float
    inplace : bool
        Write into the input.
    """

    def forward(self, input: Array) -> Array:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """``Dropout`` of whole channels of (N, C, L) or (C, L)."""

    def forward(self, input: Array) -> Array:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """``Dropout`` of whole channels of (N, C, H, W)."""

    def forward(self, input: Array) -> Array:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """``Dropout`` of whole channels of (N, C, D, H, W) or (C, D, H, W)."""

    def forward(self, input: Array) -> Array:
        return F.dropout3d(input, self.p, self.training, self.inplace)


class AlphaDropout(_Dropout):
    """Dropout that keeps the mean and variance of what comes from SELU."""

    def forward(self, input: Array) -> Array:
        return F.alpha_dropout(input, self.p, self.training, self.inplace)


class FeatureAlphaDropout(_Dropout):
    """``AlphaDropout`` of whole channels of (N, C, ...)."""

    def forward(self, input: Array) -> Array:
        return F.feature_alpha_dropout(input, self.p, self.training, self.inplace)
