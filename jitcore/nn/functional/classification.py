"""Losses of class scores against classes."""

from __future__ import annotations

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.activation import logsigmoid
from jitcore.nn.functional.checks import reduced
from jitcore.nn.functional.softmax import log_softmax

__all__ = [
    "cross_entropy",
    "ctc_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
]


def cross_entropy(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """The cross entropy of ``softmax(input)`` and the target.

    Parameters
    ----------
    input : (C,), (N, C) or (N, C, ...) array
        A score for each class.
    target : array
        Classes, ints of shape (), (N,) or (N, ...), or probabilities of the input's shape.
    weight : (C,) array, optional
        A factor for each class.
    ignore_index : int
        A class that does not count.
    reduction : str
        ``"none"``, ``"mean"`` or ``"sum"``.  The mean of classes divides by their weights.
    label_smoothing : float
        From 0 to 1: the part of every target that is spread over all classes.

    Returns
    -------
    () or (N, ...) array
    """
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"cross_entropy: label_smoothing must be from 0 to 1, found {label_smoothing}"
        )
    axis = 0 if input.ndim == 1 else 1
    scores = log_softmax(input, axis)
    if target.dtype.kind == "f":
        return _against_probabilities(scores, target, weight, reduction, label_smoothing)
    hard = nll_loss(scores, target, weight, ignore_index=ignore_index, reduction=reduction)
    if label_smoothing == 0:
        return hard
    weighted = scores if weight is None else scores * _along_classes(weight, scores)
    smooth = np.where(target == ignore_index, 0, -np.sum(weighted, axis=axis))
    if reduction == "mean":
        smooth = np.sum(smooth) / np.sum(_weights(target, weight, ignore_index, scores))
    elif reduction == "sum":
        smooth = np.sum(smooth)
    return hard * (1 - label_smoothing) + smooth * (label_smoothing / input.shape[axis])


def _along_classes(weight: Array, scores: Array) -> Array:
    return weight.reshape(-1, *(1,) * max(scores.ndim - 2, 0))


def _against_probabilities(
    scores: Array, target: Array, weight: Array | None, reduction: str, label_smoothing: float
) -> Array:
    if target.shape != scores.shape:
        raise ValueError(
            f"cross_entropy: expected probabilities of the input's shape {scores.shape}, found "
            f"{target.shape}"
        )
    axis = 0 if scores.ndim == 1 else 1
    classes = scores.shape[axis]
    smooth = target * (1 - label_smoothing) + label_smoothing / classes
    products = scores * smooth
    if weight is not None:
        products = products * _along_classes(weight, scores)
    values = -np.sum(products, axis=axis)
    return reduced(values, reduction, "cross_entropy")


def nll_loss(
    input: Array,
    target: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    """The negative log probability of the target's classes.

    Parameters
    ----------
    input : (C,), (N, C) or (N, C, ...) array
        Log probabilities.
    target : (), (N,) or (N, ...) array of ints
        Classes.
    weight : (C,) array, optional
        A factor for each class.
    ignore_index : int
        A class that does not count.
    reduction : str
        ``"none"``, ``"mean"`` (divided by the weights' sum) or ``"sum"``.

    Returns
    -------
    () or (N, ...) array

    Raises
    ------
    IndexError
        There is no such class.
    ValueError
        Shapes do not fit.
    """
    axis = 0 if input.ndim == 1 else 1
    classes = input.shape[axis] if input.ndim > 0 else 0
    if input.ndim == 0 or target.shape != input.shape[:axis] + input.shape[axis + 1 :]:
        raise ValueError(
            "nll_loss: expected input of shape (N, C, ...) and classes of shape (N, ...), found "
            f"{input.shape} and {target.shape}"
        )
    _check_classes("nll_loss", target, classes, ignore_index)
    if weight is not None and weight.shape != (classes,):
        raise ValueError(f"nll_loss: expected {classes} weights, found shape {weight.shape}")
    safe = np.where(target == ignore_index, 0, target)
    chosen = np.take_along_axis(input, np.expand_dims(safe, axis), axis)
    weights = _weights(target, weight, ignore_index, input)
    # Not a product: what is ignored may be infinite.
    values = np.where(target == ignore_index, 0, -np.squeeze(chosen, axis) * weights)
    if reduction == "mean":
        return np.sum(values) / np.sum(weights)
    return reduced(values, reduction, "nll_loss")


def _check_classes(what: str, target: Array, classes: int, ignore_index: int | None) -> None:
    if target.dtype.kind not in "iu":
        raise TypeError(f"{what}: classes must be ints, found {target.dtype}")
    wrong = (target < 0) | (target >= classes)
    if ignore_index is not None:
        wrong = wrong & (target != ignore_index)
    if np.any(wrong):
        raise IndexError(
            f"{what}: classes must be from 0 to below {classes}, found {np.min(target)} to "
            f"{np.max(target)}"
        )


def _weights(target: Array, weight: Array | None, ignore_index: int, like: Array) -> Array:
    """The weight of each target; zero for what is ignored."""
    counted = target != ignore_index
    if weight is None:
        return np.asarray(counted).astype(like.dtype)
    return np.where(counted, np.take(weight, np.where(counted, target, 0)), weight.dtype.type(0))


def multi_margin_loss(
    input: Array,
    target: Array,
    p: int = 1,
    margin: float = 1.0,
    weight: Array | None = None,
    *,
    reduction: str = "mean",
) -> Array:
    """The mean over the other classes of ``max(0, margin - right + other) ** p``.

    Parameters
    ----------
    input : (C,) or (N, C) array
    target : () or (N,) array of ints
    p : int
        1 or 2.
    margin : float
    weight : (C,) array, optional
        A factor for each class that is right.
    reduction : str
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: p must be 1 or 2, found {p}")
    classes = input.shape[-1]
    _check_classes("multi_margin_loss", target, classes, None)
    right = np.take_along_axis(input, target[..., np.newaxis], -1)
    distances = np.maximum(margin - right + input, 0)
    powers = distances if p == 1 else distances * distances
    if weight is not None:
        powers = powers * np.take(weight, target)[..., np.newaxis]
    others = np.arange(classes) != target[..., np.newaxis]
    values = np.sum(np.where(others, powers, input.dtype.type(0)), axis=-1) / classes
    return reduced(values, reduction, "multi_margin_loss")


def multilabel_margin_loss(input: Array, target: Array, *, reduction: str = "mean") -> Array:
    """The sum of ``max(0, 1 - right + other)`` over all pairs of right and other classes, by C.

    Parameters
    ----------
    input : (C,) or (N, C) array
    target : (C,) or (N, C) array of ints
        The right classes of each sample; the first -1 ends them.
    reduction : str
    """
    if input.shape != target.shape:
        raise ValueError(
            "multilabel_margin_loss: expected a target of the input's shape "
            f"{input.shape}, found {target.shape}"
        )
    classes = input.shape[-1]
    listed = np.cumprod(target >= 0, axis=-1).astype(np.bool)
    labels = np.where(listed, target, 0)
    _check_classes("multilabel_margin_loss", labels, classes, None)
    same = labels[..., np.newaxis] == np.arange(classes)
    is_right = np.any(same & listed[..., np.newaxis], axis=-2)
    right = np.take_along_axis(input, labels, -1)
    margins = np.maximum(1 - right[..., np.newaxis] + input[..., np.newaxis, :], 0)
    counted = listed[..., np.newaxis] & ~is_right[..., np.newaxis, :]
    values = np.sum(np.where(counted, margins, input.dtype.type(0)), axis=(-2, -1)) / classes
    return reduced(values, reduction, "multilabel_margin_loss")


def multilabel_soft_margin_loss(
    input: Array, target: Array, weight: Array | None = None, *, reduction: str = "mean"
) -> Array:
    """The mean over the classes of the cross entropy of each by itself.

    Parameters
    ----------
    input : (..., C) array
    target : (..., C) array
        Zeros and ones.
    weight : (C,) array, optional
    reduction : str
    """
    values = -(target * logsigmoid(input) + (1 - target) * logsigmoid(-input))
    if weight is not None:
        values = values * weight
    return reduced(np.mean(values, axis=-1), reduction, "multilabel_soft_margin_loss")


def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Array,
    target_lengths: Array,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Array:
    """The negative log likelihood of label sequences, over all their alignments with the input.

    Graves et al., "Connectionist Temporal Classification" (2006), section 4.1.

    Parameters
    ----------
    log_probs : (T, N, C) or (T, C) array
        Log probabilities of the labels at each time.
    targets : (N, S) or (S,) array of ints, or (sum of target_lengths,)
        Labels, without blanks.
    input_lengths, target_lengths : (N,) or () array of ints
    blank : int
        The label of no label.
    reduction : str
        ``"mean"`` divides each loss by the target's length first.
    zero_infinity : bool
        Give zero instead of infinity where the input is too short for the target.

    Returns
    -------
    () or (N,) array
    """
    single = log_probs.ndim == 2
    scores = log_probs[:, np.newaxis] if single else log_probs
    steps = np.atleast_1d(input_lengths)
    lengths = np.atleast_1d(target_lengths)
    labels = _label_rows(targets, lengths)
    batch = scores.shape[1]
    if len(steps) != batch or len(lengths) != batch or labels.shape[0] != batch:
        raise ValueError(
            f"ctc_loss: expected lengths for a batch of {batch}, found {len(steps)} input lengths "
            f"and {len(lengths)} target lengths"
        )
    if np.any(steps > scores.shape[0]) or np.any(lengths > labels.shape[1]):
        raise ValueError(
            f"ctc_loss: lengths exceed log_probs of shape {log_probs.shape} or targets"
        )
    losses = _alignments(scores, labels, steps, lengths, blank)
    if zero_infinity:
        losses = np.where(np.isinf(losses), losses.dtype.type(0), losses)
    if reduction == "mean":
        return np.mean(losses / np.maximum(lengths, 1).astype(losses.dtype))
    return reduced(losses[0] if single else losses, reduction, "ctc_loss")


def _label_rows(targets: Array, lengths: Array) -> Array:
    """One row of labels for each sequence."""
    if targets.ndim == 2:
        return targets
    width = int(np.max(lengths, initial=0))
    ends = np.cumsum(lengths)
    if ends.size > 0 and ends[-1] > targets.size:
        raise ValueError(f"ctc_loss: expected {ends[-1]} labels in all, found {targets.size}")
    places = (ends - lengths)[:, np.newaxis] + np.arange(width)
    return np.take(targets, np.minimum(places, max(targets.size - 1, 0)))


def _alignments(scores: Array, labels: Array, steps: Array, lengths: Array, blank: int) -> Array:
    """The forward variables of the labels with blanks around each; the last two count."""
    batch, width = labels.shape
    extended = np.full((batch, 2 * width + 1), blank, np.int64)
    extended[:, 1::2] = labels
    # A label may follow the one before without a blank between them, unless they are the same.
    skips = np.zeros(extended.shape, np.bool)
    skips[:, 2:] = (extended[:, 2:] != blank) & (extended[:, 2:] != extended[:, :-2])
    nothing = np.full((batch, 2), -np.inf, scores.dtype)
    first = np.take_along_axis(scores[0], extended, axis=1)
    forward = np.where(np.arange(2 * width + 1) < 2, first, scores.dtype.type(-np.inf))
    for time in range(1, scores.shape[0]):
        padded = np.concatenate((nothing, forward), axis=1)
        jumped = np.where(skips, padded[:, :-2], scores.dtype.type(-np.inf))
        reached = np.logaddexp(np.logaddexp(forward, padded[:, 1:-1]), jumped)
        moved = reached + np.take_along_axis(scores[time], extended, axis=1)
        forward = np.where((time < steps)[:, np.newaxis], moved, forward)
    last = np.take_along_axis(forward, 2 * lengths[:, np.newaxis], axis=1)[:, 0]
    before = np.take_along_axis(forward, np.maximum(2 * lengths - 1, 0)[:, np.newaxis], axis=1)
    return -np.where(lengths > 0, np.logaddexp(last, before[:, 0]), last)
