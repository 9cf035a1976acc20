"""Attention of several heads, as a layer."""

from __future__ import annotations

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.linear import Linear
from jitcore.nn.module import Module

__all__ = ["MultiheadAttention"]


class MultiheadAttention(Module):
    """Attention of several heads, with projections before and after.

    Parameters
    ----------
    embed_dim, num_heads : int
        The second divides the first.
    dropout : float
        The probability of dropping a weight in training.
    bias : bool
    add_bias_kv : bool
        One more key and value that are parameters.
    add_zero_attn : bool
        One more key and value of zeros.
    kdim, vdim : int, optional
        Features of keys and values; ``embed_dim`` by default.
    batch_first : bool
        Arrays are (N, L, E) rather than (L, N, E).
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    in_proj_weight, in_proj_bias : (3 * E, E) and (3 * E,) array or None
        Query, key and value below one another.
    q_proj_weight, k_proj_weight, v_proj_weight : array or None
        Instead of ``in_proj_weight`` where ``kdim`` or ``vdim`` differ.
    out_proj : Linear
    bias_k, bias_v : (1, 1, E) array or None
    """

    in_proj_weight: Array | None
    in_proj_bias: Array | None
    q_proj_weight: Array | None
    k_proj_weight: Array | None
    v_proj_weight: Array | None
    bias_k: Array | None
    bias_v: Array | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0 or embed_dim % num_heads:
            raise ValueError(
                f"MultiheadAttention: num_heads must divide embed_dim, found {num_heads} and "
                f"{embed_dim}"
            )
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        self.add_zero_attn = add_zero_attn
        of = np.float32 if dtype is None else dtype
        self._add_projections(of)
        self.register_parameter("in_proj_bias", np.empty(3 * embed_dim, of) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=of)
        row = (1, 1, embed_dim)
        self.register_parameter("bias_k", np.empty(row, of) if add_bias_kv else None)
        self.register_parameter("bias_v", np.empty(row, of) if add_bias_kv else None)
        self._reset_parameters()

    def _add_projections(self, of: DTypeLike) -> None:
        width = self.embed_dim
        whole = None
        parts: list[Array | None] = [None, None, None]
        if self.kdim == width and self.vdim == width:
            whole = np.empty((3 * width, width), of)
        else:
            parts = [np.empty((width, extent), of) for extent in (width, self.kdim, self.vdim)]
        for name, part in zip("qkv", parts, strict=True):
            self.register_parameter(f"{name}_proj_weight", part)
        self.register_parameter("in_proj_weight", whole)

    def _reset_parameters(self) -> None:
        """Draw the initial values anew."""
        for weight in (
            self.in_proj_weight,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
        ):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None and self.out_proj.bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for row in (self.bias_k, self.bias_v):
            if row is not None:
                init.xavier_normal_(row)

    def forward(
        self,
        query: Array,
        key: Array,
        value: Array,
        key_padding_mask: Array | None = None,
        need_weights: bool = True,
        attn_mask: Array | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Array, Array | None]:
        """Attend; see ``functional.multi_head_attention_forward``.

        Parameters
        ----------
        query : (L, N, E), (N, L, E) with ``batch_first``, or (L, E) array
        key, value : (S, N, ...), (N, S, ...) with ``batch_first``, or (S, ...) array
        key_padding_mask : (N, S) or (S,) array, optional
            Booleans say which keys to leave out, floats are added to the scores.
        need_weights : bool
            Give the weights too.
        attn_mask : (L, S) or (N * num_heads, L, S) array, optional
            Booleans say what to leave out, floats are added to the scores.
        average_attn_weights : bool
            Give the mean of the heads' weights.
        is_causal : bool
            A hint that ``attn_mask`` is causal, which must be given.

        Returns
        -------
        array of the query's shape, and (N, L, S) or (N, num_heads, L, S) weights or None
        """
        swapped = self.batch_first and query.ndim == 3
        if swapped:
            query, key, value = query.swapaxes(0, 1), key.swapaxes(0, 1), value.swapaxes(0, 1)
        output, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            self.in_proj_weight is None,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            None,
            None,
            average_attn_weights,
            is_causal,
        )
        return output.swapaxes(0, 1) if swapped else output, weights
