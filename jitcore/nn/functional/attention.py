"""Attention."""

from __future__ import annotations

import math

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.functional.checks import check_dtype
from jitcore.nn.functional.dropout import dropout
from jitcore.nn.functional.linear import linear
from jitcore.nn.functional.softmax import softmax

__all__ = ["multi_head_attention_forward", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """``softmax(query @ key.T * scale + mask) @ value``.

    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.1.

    Parameters
    ----------
    query : (..., L, E) array
    key : (..., S, E) array
    value : (..., S, F) array
    attn_mask : (..., L, S) array, optional
        Booleans say what takes part, floats are added to the scores.
    dropout_p : float
        The probability of dropping a weight.
    is_causal : bool
        Query ``i`` sees keys up to ``i``; takes no mask.
    scale : float, optional
        ``1 / sqrt(E)`` by default.
    enable_gqa : bool
        Key and value may have fewer heads, axis -3, each for as many heads of the query.

    Returns
    -------
    (..., L, F) array
        Zeros for a query that nothing takes part in.

    Raises
    ------
    ValueError
        Shapes do not fit, or both a mask and ``is_causal`` are given.
    TypeError
        The dtypes differ.
    """
    what = "scaled_dot_product_attention"
    check_dtype(what, query, key, "key")
    check_dtype(what, query, value, "value")
    _check_shapes(what, query, key, value)
    if is_causal and attn_mask is not None:
        raise ValueError(f"{what}: give either attn_mask or is_causal")
    keys, values = key, value
    if enable_gqa:
        keys = np.repeat(key, _repeats(what, query, key), axis=-3)
        values = np.repeat(value, _repeats(what, query, value), axis=-3)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = np.matmul(query * factor, keys.swapaxes(-2, -1))
    if is_causal:
        allowed = np.tril(np.ones((query.shape[-2], key.shape[-2]), np.bool))
        scores = np.where(allowed, scores, query.dtype.type(-np.inf))
    elif attn_mask is not None and attn_mask.dtype == np.bool:
        scores = np.where(attn_mask, scores, query.dtype.type(-np.inf))
    elif attn_mask is not None:
        check_dtype(what, query, attn_mask, "attn_mask")
        scores = scores + attn_mask
    weights = dropout(_weights(scores), dropout_p, dropout_p > 0)
    return np.matmul(weights, values)


def _check_shapes(what: str, query: Array, key: Array, value: Array) -> None:
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(
            f"{what}: expected query, key and value with 2 or more axes, found {query.shape}, "
            f"{key.shape} and {value.shape}"
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise ValueError(
            f"{what}: expected query (..., L, E), key (..., S, E) and value (..., S, F), found "
            f"{query.shape}, {key.shape} and {value.shape}"
        )


def _repeats(what: str, query: Array, other: Array) -> int:
    if other.ndim < 3 or query.shape[-3] % other.shape[-3]:
        raise ValueError(
            f"{what}: the heads of key and value must divide those of the query, found "
            f"{other.shape} and {query.shape}"
        )
    return query.shape[-3] // other.shape[-3]


def _weights(scores: Array) -> Array:
    """Softmax along the last axis, with zeros where all scores are minus infinity."""
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    shift = np.where(np.isneginf(top), scores.dtype.type(0), top)
    powers = np.exp(scores - shift)
    # Where there is a largest score its power is one, so the sum is at least one.
    return powers / np.maximum(np.sum(powers, axis=-1, keepdims=True), 1)


def multi_head_attention_forward(
    query: Array,
    key: Array,
    value: Array,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Array | None,
    in_proj_bias: Array | None,
    bias_k: Array | None,
    bias_v: Array | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Array,
    out_proj_bias: Array | None,
    training: bool = True,
    key_padding_mask: Array | None = None,
    need_weights: bool = True,
    attn_mask: Array | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Array | None = None,
    k_proj_weight: Array | None = None,
    v_proj_weight: Array | None = None,
    static_k: Array | None = None,
    static_v: Array | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Array, Array | None]:
    """Attention of several heads, with projections before and after.

    Vaswani et al., "Attention Is All You Need" (2017), section 3.2.2.

    Parameters
    ----------
    query : (L, N, E) or (L, E) array
    key, value : (S, N, ...) or (S, ...) array
    embed_dim_to_check, num_heads : int
        E, and what divides it.
    in_proj_weight : (3 * E, E) array or None
        The weights of query, key and value below one another, unless they are separate.
    in_proj_bias : (3 * E,) array or None
    bias_k, bias_v : (1, 1, E) array or None
        One more key and value for every batch.
    add_zero_attn : bool
        One more key and value of zeros.
    dropout_p : float
        The probability of dropping a weight in training.
    out_proj_weight, out_proj_bias : (E, E) array, (E,) array or None
    training : bool
    key_padding_mask : (N, S) or (S,) array, optional
        Booleans say which keys to leave out, floats are added to the scores.
    need_weights : bool
        Give the weights too.
    attn_mask : (L, S) or (N * num_heads, L, S) array, optional
        Booleans say what to leave out, floats are added to the scores.
    use_separate_proj_weight : bool
    q_proj_weight, k_proj_weight, v_proj_weight : array, optional
        (E, E), (E, kdim) and (E, vdim), used with ``use_separate_proj_weight``.
    static_k, static_v : (N * num_heads, S, E / num_heads) array, optional
        Used in place of the projected key and value.
    average_attn_weights : bool
        Give the mean of the heads' weights.
    is_causal : bool
        A hint that ``attn_mask`` is causal, which must be given.

    Returns
    -------
    (L, N, E) or (L, E) array, and (N, L, S) or (N, num_heads, L, S) weights or None
        The weights are without N where the input is.
    """
    _check_heads(query, key, value, embed_dim_to_check, num_heads)
    if is_causal and attn_mask is None:
        raise ValueError("multi_head_attention_forward: is_causal is a hint; give attn_mask too")
    batched = query.ndim == 3
    if not batched:
        query, key, value = query[:, np.newaxis], key[:, np.newaxis], value[:, np.newaxis]
        key_padding_mask = None if key_padding_mask is None else key_padding_mask[np.newaxis]
    if use_separate_proj_weight:
        weights = _separate(q_proj_weight, k_proj_weight, v_proj_weight)
    else:
        weights = _stacked(in_proj_weight)
    projected = _projected(query, key, value, weights, in_proj_bias)
    q = _heads(projected[0], num_heads)
    k = _all_heads(projected[1], bias_k, static_k, num_heads, add_zero_attn)
    v = _all_heads(projected[2], bias_v, static_v, num_heads, add_zero_attn)
    extra = int(bias_k is not None) + int(add_zero_attn)
    mask = _mask(attn_mask, key_padding_mask, q, k.shape[2], extra)
    context, attention = _attended(q, k, v, mask, dropout_p if training else 0.0, need_weights)
    output = _joined(context, out_proj_weight, out_proj_bias)
    if attention is not None and average_attn_weights:
        attention = np.mean(attention, axis=1)
    if batched:
        return output, attention
    return output[:, 0], None if attention is None else attention[0]


def _stacked(weights: Array | None) -> tuple[Array, Array, Array]:
    """Those of query, key and value, which lie below one another."""
    assert weights is not None
    first, second, third = np.split(weights, 3)
    return first, second, third


def _separate(q: Array | None, k: Array | None, v: Array | None) -> tuple[Array, Array, Array]:
    assert q is not None and k is not None and v is not None
    return q, k, v


def _all_heads(
    projected: Array,
    bias: Array | None,
    static: Array | None,
    num_heads: int,
    add_zero_attn: bool,
) -> Array:
    """Keys or values as (N, heads, S, E / heads), with those that the options add."""
    if static is None:
        result = _heads(_extended(projected, bias), num_heads)
    else:
        result = static.reshape(projected.shape[1], num_heads, *static.shape[1:])
    if not add_zero_attn:
        return result
    return np.concatenate((result, np.zeros_like(result[:, :, :1])), axis=2)


def _attended(
    q: Array, k: Array, v: Array, mask: Array | None, drop: float, need_weights: bool
) -> tuple[Array, Array | None]:
    """What the heads see, and the weights if they are asked for."""
    if not need_weights and drop == 0:
        return scaled_dot_product_attention(q, k, v, mask), None
    if not need_weights:
        return scaled_dot_product_attention(q, k, v, mask, drop), None
    scores = np.matmul(q * math.sqrt(1 / q.shape[-1]), k.swapaxes(-2, -1))
    attention = dropout(softmax(scores if mask is None else scores + mask, -1), drop, drop > 0)
    return np.matmul(attention, v), attention


def _check_heads(query: Array, key: Array, value: Array, embed_dim: int, num_heads: int) -> None:
    what = "multi_head_attention_forward"
    if query.ndim not in (2, 3) or key.ndim != query.ndim or value.ndim != query.ndim:
        raise ValueError(
            f"{what}: expected query, key and value of shape (L, N, E) or (L, E), found "
            f"{query.shape}, {key.shape} and {value.shape}"
        )
    if query.shape[-1] != embed_dim:
        raise ValueError(
            f"{what}: expected {embed_dim} features on the query's last axis, found {query.shape}"
        )
    if embed_dim % num_heads:
        raise ValueError(f"{what}: {num_heads} heads do not divide {embed_dim} features")
    if key.shape[:-1] != value.shape[:-1] or key.shape[1:-1] != query.shape[1:-1]:
        raise ValueError(
            f"{what}: query, key and value do not fit: {query.shape}, {key.shape} and {value.shape}"
        )


def _projected(
    query: Array,
    key: Array,
    value: Array,
    weights: tuple[Array, Array, Array],
    bias: Array | None,
) -> tuple[Array, Array, Array]:
    if bias is None:
        return linear(query, weights[0]), linear(key, weights[1]), linear(value, weights[2])
    first, second, third = np.split(bias, 3)
    return (
        linear(query, weights[0], first),
        linear(key, weights[1], second),
        linear(value, weights[2], third),
    )


def _extended(projected: Array, bias: Array | None) -> Array:
    """(S, N, E) with one more row, the same for all batches."""
    if bias is None:
        return projected
    row = np.broadcast_to(bias, (1, *projected.shape[1:]))
    return np.concatenate((projected, row), axis=0)


def _heads(projected: Array, num_heads: int) -> Array:
    """(S, N, E) as (N, heads, S, E / heads)."""
    length, batch, width = projected.shape
    return projected.reshape(length, batch, num_heads, width // num_heads).transpose(1, 2, 0, 3)


def _joined(context: Array, weight: Array, bias: Array | None) -> Array:
    """(N, heads, L, E / heads) as (L, N, E), times the last weights."""
    batch, heads, length, width = context.shape
    joined = context.transpose(2, 0, 1, 3).reshape(length, batch, heads * width)
    return linear(joined, weight, bias)


def _mask(
    attn_mask: Array | None, key_padding_mask: Array | None, query: Array, keys: int, extra: int
) -> Array | None:
    """Both masks as one that is added to scores of (N, heads, L, S).

    The last ``extra`` keys were added to those of the input; the masks do not know them.
    """
    batch, heads, length, _ = query.shape
    mask = None
    if attn_mask is not None:
        added = _added(attn_mask, query)
        if added.ndim == 3:
            added = added.reshape(batch, heads, *added.shape[1:])
        mask = _widened(added, extra)
        if mask.shape[-2:] != (length, keys):
            raise ValueError(
                f"multi_head_attention_forward: expected attn_mask for {length} queries and "
                f"{keys - extra} keys, found {attn_mask.shape}"
            )
    if key_padding_mask is None:
        return mask
    padding = _widened(_added(key_padding_mask, query), extra)[:, np.newaxis, np.newaxis]
    if padding.shape != (batch, 1, 1, keys):
        raise ValueError(
            f"multi_head_attention_forward: expected key_padding_mask of shape "
            f"{(batch, keys - extra)}, found {key_padding_mask.shape}"
        )
    return padding if mask is None else mask + padding


def _added(mask: Array, query: Array) -> Array:
    """A mask as numbers that are added."""
    if mask.dtype == np.bool:
        nothing = query.dtype.type(0)
        return np.where(mask, query.dtype.type(-np.inf), nothing)
    return mask.astype(query.dtype, copy=False)


def _widened(mask: Array, extra: int) -> Array:
    """A mask that lets that many more keys pass."""
    if extra == 0:
        return mask
    return np.concatenate((mask, np.zeros((*mask.shape[:-1], extra), mask.dtype)), axis=-1)
