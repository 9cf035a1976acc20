"""Random zeros in training, nothing at all otherwise."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.checks import written
from jitcore.nn.generator import generator

__all__ = [
    "alpha_dropout",
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "feature_alpha_dropout",
]

# What SELU tends to far below zero: minus scale times alpha.
_SELU_LIMIT = -1.7580993408473766


def dropout(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """Zeros with probability ``p``, and the rest divided by ``1 - p``.

    Parameters
    ----------
    input : array of floats
    p : float
    training : bool
        Without it the input is given back as it is.
    inplace : bool
        Write into the input.

    Returns
    -------
    array of the input's shape

    Raises
    ------
    ValueError
        ``p`` is no probability.
    """
    return _dropped("dropout", input, p, training, inplace, input.shape)


def dropout1d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """``dropout`` of whole channels of (N, C, L) or (C, L)."""
    if input.ndim not in (2, 3):
        raise ValueError(f"dropout1d: expected input with 2 or 3 axes, found {input.shape}")
    return _dropped("dropout1d", input, p, training, inplace, (*input.shape[:-1], 1))


def dropout2d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """``dropout`` of whole channels of (N, C, H, W), or of (N, C, ...) with other axes."""
    if training and input.ndim < 2:
        raise ValueError(f"dropout2d: expected input with 2 axes or more, found {input.shape}")
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _dropped("dropout2d", input, p, training, inplace, shape)


def dropout3d(input: Array, p: float = 0.5, training: bool = True, inplace: bool = False) -> Array:
    """``dropout`` of whole channels of (N, C, D, H, W), or of (C, ...) with other axes."""
    if training and input.ndim < 1:
        raise ValueError(f"dropout3d: expected input with axes, found {input.shape}")
    outer = 2 if input.ndim == 5 else 1
    shape = (*input.shape[:outer], *(1,) * (input.ndim - outer))
    return _dropped("dropout3d", input, p, training, inplace, shape)


def _dropped(
    what: str, input: Array, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Array:
    _check_probability(what, p)
    if not training or p == 0:
        return input
    scale = 0.0 if p == 1 else 1 / (1 - p)
    kept = generator().random(shape) >= p
    return written(input * (kept.astype(input.dtype) * scale), input, inplace)


def _check_probability(what: str, p: float) -> None:
    if not 0 <= p <= 1:
        raise ValueError(f"{what}: p must be a probability from 0 to 1, found {p}")


def alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Array:
    """``dropout`` to SELU's lower limit that keeps mean and variance.

    Klambauer et al., "Self-Normalizing Neural Networks" (2017), section 3.
    """
    return _alpha_dropped("alpha_dropout", input, p, training, inplace, input.shape)


def feature_alpha_dropout(
    input: Array, p: float = 0.5, training: bool = False, inplace: bool = False
) -> Array:
    """``alpha_dropout`` of whole channels of (N, C, ...)."""
    shape = (*input.shape[:2], *(1,) * (input.ndim - 2))
    return _alpha_dropped("feature_alpha_dropout", input, p, training, inplace, shape)


def _alpha_dropped(
    what: str, input: Array, p: float, training: bool, inplace: bool, shape: tuple[int, ...]
) -> Array:
    _check_probability(what, p)
    if not training or p == 0:
        return input
    if p == 1:
        return written(np.zeros_like(input), input, inplace)
    kept = generator().random(shape) >= p
    scale = ((1 - p) * (1 + p * _SELU_LIMIT**2)) ** -0.5
    shift = -scale * _SELU_LIMIT * p
    filled = np.where(kept, input, input.dtype.type(_SELU_LIMIT))
    return written(filled * scale + shift, input, inplace)
