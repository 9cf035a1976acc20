"""The layers of transformers.  Vaswani et al., "Attention Is All You Need" (2017)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from jitcore.nn import functional as F
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.attention import MultiheadAttention
from jitcore.nn.dropout import Dropout
from jitcore.nn.linear import Linear
from jitcore.nn.module import Module
from jitcore.nn.normalization import LayerNorm

__all__ = ["Activation", "TransformerDecoderLayer", "TransformerEncoderLayer"]

Activation = str | Callable[[Array], Array]


def _activation(activation: Activation) -> Callable[[Array], Array]:
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    if callable(activation):
        return activation
    raise ValueError(f"activation must be 'relu', 'gelu' or a function, found {activation!r}")


class _TransformerLayer(Module):
    """What the layers share: attentions, a network, and a norm and dropout for each of these."""

    _attentions: ClassVar[tuple[str, ...]]

    self_attn: MultiheadAttention
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        numbers = range(1, len(self._attentions) + 2)
        for number in numbers:
            norm = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
            setattr(self, f"norm{number}", norm)
        for number in numbers:
            setattr(self, f"dropout{number}", Dropout(dropout))
        self.activation = _activation(activation)


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and a network of two linear layers, each with a residual and a norm.

    Parameters
    ----------
    d_model, nhead : int
        The second divides the first.
    dim_feedforward : int
        Features between the two linear layers.
    dropout : float
    activation : str or callable
        ``"relu"``, ``"gelu"`` or a function.
    layer_norm_eps : float
    batch_first : bool
        Arrays are (N, L, E) rather than (L, N, E).
    norm_first : bool
        Normalize before attention and network rather than after the residual.
    bias : bool
    dtype : dtype, optional
        float32 by default.
    """

    _attentions = ("self_attn",)

    def forward(
        self,
        src: Array,
        src_mask: Array | None = None,
        src_key_padding_mask: Array | None = None,
        is_causal: bool = False,
    ) -> Array:
        """Encode; the masks are those of ``MultiheadAttention``."""
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed_forward(x))

    def _attend(
        self, x: Array, mask: Array | None, padding: Array | None, is_causal: bool
    ) -> Array:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        return self.dropout1(attended)

    def _feed_forward(self, x: Array) -> Array:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(_TransformerLayer):
    """``TransformerEncoderLayer`` with attention to a memory in the middle.

    Parameters
    ----------
    d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
    bias, dtype
        As of ``TransformerEncoderLayer``.
    """

    _attentions = ("self_attn", "multihead_attn")

    multihead_attn: MultiheadAttention
    norm3: LayerNorm
    dropout3: Dropout

    def forward(
        self,
        tgt: Array,
        memory: Array,
        tgt_mask: Array | None = None,
        memory_mask: Array | None = None,
        tgt_key_padding_mask: Array | None = None,
        memory_key_padding_mask: Array | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Array:
        """Decode; the masks are those of ``MultiheadAttention``."""
        x = tgt
        to_self = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        to_memory = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._attend_to_self(self.norm1(x), *to_self)
            x = x + self._attend_to_memory(self.norm2(x), memory, *to_memory)
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + self._attend_to_self(x, *to_self))
        x = self.norm2(x + self._attend_to_memory(x, memory, *to_memory))
        return self.norm3(x + self._feed_forward(x))

    def _attend_to_self(
        self, x: Array, mask: Array | None, padding: Array | None, is_causal: bool
    ) -> Array:
        attended, _ = self.self_attn(
            x,
            x,
            x,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        return self.dropout1(attended)

    def _attend_to_memory(
        self,
        x: Array,
        memory: Array,
        mask: Array | None,
        padding: Array | None,
        is_causal: bool,
    ) -> Array:
        attended, _ = self.multihead_attn(
            x,
            memory,
            memory,
            key_padding_mask=padding,
            need_weights=False,
            attn_mask=mask,
            is_causal=is_causal,
        )
        return self.dropout2(attended)

    def _feed_forward(self, x: Array) -> Array:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
