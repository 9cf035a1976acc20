"""Layers that look rows up in a table."""

from __future__ import annotations

from typing import Self

import numpy as np

from jitcore.nn import functional as F
from jitcore.nn import init
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.module import Module
from jitcore.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _padding_row(name: str, padding_idx: int | None, rows: int) -> int | None:
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{name}: padding_idx must be one of {rows} rows, found {padding_idx}")
    return padding_idx % rows


class _Table(Module):
    weight: Array

    def _set_weight(self, weight: Array | None, freeze: bool, dtype: DTypeLike | None) -> None:
        if weight is None:
            shape = (self.num_embeddings, self.embedding_dim)
            made = np.empty(shape, np.float32 if dtype is None else dtype)
            self.register_parameter("weight", Parameter(made, not freeze))
            self.reset_parameters()
            return
        if weight.shape != (self.num_embeddings, self.embedding_dim):
            raise ValueError(
                f"{self._get_name()}: expected weight of shape "
                f"{(self.num_embeddings, self.embedding_dim)}, found {weight.shape}"
            )
        self.register_parameter("weight", Parameter(weight, not freeze))

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None

    def reset_parameters(self) -> None:
        """Draw the initial values anew: normally distributed, and zeros in the padding's row."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            self.weight[self.padding_idx] = 0


class Embedding(_Table):
    """Rows of a table.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows and columns.
    padding_idx : int, optional
        A row of zeros that is not trained.
    max_norm : float, optional
        Rows that are used and have a larger norm are scaled down to it.
    norm_type : float
        Which norm that is.
    scale_grad_by_freq, sparse : bool
        Steer gradients in PyTorch; nothing here depends on them.
    _weight : array, optional
        The table.
    _freeze : bool
        The table is not to be trained.
    dtype : dtype, optional
        float32 by default.

    Attributes
    ----------
    weight : (num_embeddings, embedding_dim) array
        Normally distributed.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Array | None = None,
        _freeze: bool = False,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _padding_row("Embedding", padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._set_weight(_weight, _freeze, dtype)

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Array,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """An embedding with this table, which is not copied."""
        if embeddings.ndim != 2:
            raise ValueError(f"Embedding: expected a matrix, found shape {embeddings.shape}")
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            embeddings,
            freeze,
        )

    def forward(self, input: Array) -> Array:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        if self.sparse:
            text += ", sparse=True"
        return text


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of a table; see ``functional.embedding_bag``.

    Parameters
    ----------
    num_embeddings, embedding_dim : int
        Rows and columns.
    max_norm, norm_type : float
        As in ``Embedding``.
    scale_grad_by_freq, sparse : bool
        Steer gradients in PyTorch; nothing here depends on them.
    mode : str
        ``"sum"``, ``"mean"`` or ``"max"``.
    _weight : array, optional
        The table.
    include_last_offset : bool
        The last offset is the end of the last bag.
    padding_idx : int, optional
        A row that does not count.
    dtype : dtype, optional
        float32 by default.
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Array | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        *,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = _padding_row("EmbeddingBag", padding_idx, num_embeddings)
        self._set_weight(_weight, False, dtype)

    def forward(
        self, input: Array, offsets: Array | None = None, per_sample_weights: Array | None = None
    ) -> Array:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}"
        if self.max_norm is not None:
            text += f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        text += f", mode={self.mode!r}"
        if self.padding_idx is not None:
            text += f", padding_idx={self.padding_idx}"
        return text
