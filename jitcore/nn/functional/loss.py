"""Losses of predictions against targets; ``classification.py`` has those of classes.

PyTorch's deprecated ``size_average`` and ``reduce`` are left out, and what follows them there is
keyword-only here, so that no call by position means something else.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.activation import logsigmoid
from jitcore.nn.functional.checks import reduced
from jitcore.nn.functional.softmax import pairwise_distance

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def _check_same_shape(what: str, input: Array, target: Array) -> None:
    if input.shape != target.shape:
        raise ValueError(f"{what}: expected the input's shape {input.shape}, found {target.shape}")


def _weighted_mean(values: Array, weight: Array | None, reduction: str, what: str) -> Array:
    """``reduced`` with a weight for every element; the mean divides by the weights' sum."""
    if weight is None:
        return reduced(values, reduction, what)
    _check_same_shape(f"{what}: weight", values, weight)
    weighted = values * weight
    if reduction == "mean":
        return np.sum(weighted) / np.sum(weight)
    return reduced(weighted, reduction, what)


def l1_loss(
    input: Array, target: Array, *, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``abs(input - target)``; with a weight the mean is divided by the weights' sum."""
    return _weighted_mean(np.abs(input - target), weight, reduction, "l1_loss")


def mse_loss(
    input: Array, target: Array, *, reduction: str = "mean", weight: Array | None = None
) -> Array:
    """``(input - target) ** 2``; with a weight the mean is divided by the weights' sum."""
    difference = input - target
    return _weighted_mean(difference * difference, weight, reduction, "mse_loss")


def smooth_l1_loss(
    input: Array, target: Array, *, reduction: str = "mean", beta: float = 1.0
) -> Array:
    """A square up to a difference of ``beta``, then a straight line of slope 1."""
    if beta < 0:
        raise ValueError(f"smooth_l1_loss: beta must not be negative, found {beta}")
    distance = np.abs(input - target)
    if beta == 0:
        return reduced(distance, reduction, "smooth_l1_loss")
    near = 0.5 * distance * distance / beta
    values = np.where(distance < beta, near, distance - 0.5 * beta)
    return reduced(values, reduction, "smooth_l1_loss")


def huber_loss(
    input: Array,
    target: Array,
    reduction: str = "mean",
    delta: float = 1.0,
    weight: Array | None = None,
) -> Array:
    """A square up to a difference of ``delta``, then a straight line of slope ``delta``.

    A weight multiplies each element; the mean is that of the products.
    """
    if delta <= 0:
        raise ValueError(f"huber_loss: delta must be positive, found {delta}")
    distance = np.abs(input - target)
    far = delta * (distance - 0.5 * delta)
    values = np.where(distance <= delta, 0.5 * distance * distance, far)
    if weight is not None:
        _check_same_shape("huber_loss: weight", input, weight)
        values = values * weight
    return reduced(values, reduction, "huber_loss")


def kl_div(
    input: Array, target: Array, *, reduction: str = "mean", log_target: bool = False
) -> Array:
    """The Kullback-Leibler divergence of ``target`` from log probabilities.

    Parameters
    ----------
    input : array
        Log probabilities.
    target : array
        Probabilities, or their logarithms with ``log_target``.
    reduction : str
        ``"none"``, ``"mean"``, ``"sum"``, or ``"batchmean"``: the sum divided by the batch's
        extent, which is what the definition asks for.
    log_target : bool
    """
    if log_target:
        values = np.exp(target) * (target - input)
    else:
        positive = np.where(target > 0, target, target.dtype.type(1))
        values = np.where(target == 0, input.dtype.type(0), target * np.log(positive))
        values = values - target * input
    if reduction == "batchmean":
        return np.sum(values) / input.shape[0] if input.ndim > 0 else np.sum(values)
    return reduced(values, reduction, "kl_div")


def binary_cross_entropy(
    input: Array, target: Array, weight: Array | None = None, *, reduction: str = "mean"
) -> Array:
    """Cross entropy of probabilities; logarithms count as at least -100."""
    _check_same_shape("binary_cross_entropy", input, target)
    if input.size > 0 and not (np.min(input) >= 0 and np.max(input) <= 1):
        raise ValueError("binary_cross_entropy: all of the input must be from 0 to 1")
    hit = np.maximum(np.log(input), -100)
    miss = np.maximum(np.log1p(-input), -100)
    values = (target - 1) * miss - target * hit
    return reduced(values if weight is None else values * weight, reduction, "binary_cross_entropy")


def binary_cross_entropy_with_logits(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    reduction: str = "mean",
    pos_weight: Array | None = None,
) -> Array:
    """``binary_cross_entropy`` of ``sigmoid(input)``; ``pos_weight`` multiplies the hits."""
    what = "binary_cross_entropy_with_logits"
    _check_same_shape(what, input, target)
    if pos_weight is None:
        values = (1 - target) * input - logsigmoid(input)
    else:
        values = (1 - target) * input - ((pos_weight - 1) * target + 1) * logsigmoid(input)
    return reduced(values if weight is None else values * weight, reduction, what)


def soft_margin_loss(input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """``log(1 + exp(-target * input))`` for targets of 1 and -1."""
    _check_same_shape("soft_margin_loss", input, target)
    return reduced(-logsigmoid(target * input), reduction, "soft_margin_loss")


def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    *,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Array:
    """The negative log likelihood of counts under Poisson's distribution.

    Parameters
    ----------
    input : array
        The expectation, or with ``log_input`` its logarithm.
    target : array
        Counts.
    log_input : bool
    full : bool
        Add Stirling's approximation of the factorial, for targets above 1.
    eps : float
        Added to the expectation before its logarithm is taken.
    reduction : str
    """
    if log_input:
        values = np.exp(input) - target * input
    else:
        values = input - target * np.log(input + eps)
    if full:
        large = np.where(target > 1, target, target.dtype.type(1))
        stirling = large * np.log(large) - large + 0.5 * np.log(2 * math.pi * large)
        values = values + np.where(target > 1, stirling, values.dtype.type(0))
    return reduced(values, reduction, "poisson_nll_loss")


def gaussian_nll_loss(
    input: Array,
    target: Array,
    var: Array | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Array:
    """The negative log likelihood under normal distributions.

    Parameters
    ----------
    input, target : array
        Expectations and samples.
    var : array or float
        Variances, of the input's shape, or with one for the whole last axis.
    full : bool
        Add the constant of the distribution.
    eps : float
        Variances count as at least this.
    reduction : str
    """
    spread = np.asarray(var, dtype=input.dtype)
    if spread.ndim == input.ndim - 1 and spread.shape == input.shape[:-1]:
        spread = spread[..., np.newaxis]
    if spread.size > 0 and np.min(spread) < 0:
        raise ValueError("gaussian_nll_loss: var must not be negative")
    spread = np.maximum(spread, eps)
    difference = input - target
    values = 0.5 * (np.log(spread) + difference * difference / spread)
    if full:
        values = values + 0.5 * math.log(2 * math.pi)
    return reduced(values, reduction, "gaussian_nll_loss")


def hinge_embedding_loss(
    input: Array, target: Array, margin: float = 1.0, *, reduction: str = "mean"
) -> Array:
    """``input`` for targets of 1, ``max(0, margin - input)`` for targets of -1."""
    zero = input.dtype.type(0)
    apart = np.where(target != 1, np.maximum(margin - input, 0), zero)
    alike = np.where(target != -1, input, zero)
    return reduced(apart + alike, reduction, "hinge_embedding_loss")


def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, *, reduction: str = "mean"
) -> Array:
    """``1 - cosine`` for targets of 1, ``max(0, cosine - margin)`` for targets of -1.

    Parameters
    ----------
    input1, input2 : (N, D) or (D,) array
    target : (N,) or () array
    margin : float
    reduction : str
    """
    if target.ndim != input1.ndim - 1:
        raise ValueError(
            "cosine_embedding_loss: expected inputs of shape (N, D) and a target of shape (N,), "
            f"found {input1.shape} and {target.shape}"
        )
    # The same guard against zero vectors as in PyTorch.
    guard = 1e-12
    lengths = (np.sum(input1 * input1, axis=-1) + guard) * (
        np.sum(input2 * input2, axis=-1) + guard
    )
    cosine = np.sum(input1 * input2, axis=-1) / np.sqrt(lengths)
    zero = cosine.dtype.type(0)
    alike = np.where(target == 1, 1 - cosine, zero)
    apart = np.where(target == -1, np.maximum(cosine - margin, 0), zero)
    return reduced(alike + apart, reduction, "cosine_embedding_loss")


def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, *, reduction: str = "mean"
) -> Array:
    """``max(0, margin - target * (input1 - input2))``."""
    values = np.maximum(margin - target * (input1 - input2), 0)
    return reduced(values, reduction, "margin_ranking_loss")


def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    *,
    reduction: str = "mean",
) -> Array:
    """``max(0, distance(anchor, positive) - distance(anchor, negative) + margin)``.

    Parameters
    ----------
    anchor, positive, negative : (N, D) or (D,) array
    margin : float
    p, eps : float
        Of ``pairwise_distance``.
    swap : bool
        Take the positive's distance from the negative where that is smaller.
    reduction : str
    """
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = np.minimum(far, pairwise_distance(positive, negative, p, eps))
    return reduced(np.maximum(margin + near - far, 0), reduction, "triplet_margin_loss")


def triplet_margin_with_distance_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    *,
    distance_function: Callable[[Array, Array], Array] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """``triplet_margin_loss`` with a distance of one's own."""
    distance = pairwise_distance if distance_function is None else distance_function
    near = distance(anchor, positive)
    far = distance(anchor, negative)
    if swap:
        far = np.minimum(far, distance(positive, negative))
    values = np.maximum(margin + near - far, 0)
    return reduced(values, reduction, "triplet_margin_with_distance_loss")
