"""Assume that what a frozen graph is called with has a batch axis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.frozen.arrays import array_of, items_of
from jitcore.ir.passes.frozen.ranks import origin_of_rank
from jitcore.ir.passes.frozen.weigh_products import PRODUCTS
from jitcore.ir.types import ANY, TENSOR, TensorType

__all__ = ["assume_batches"]

_CONVOLUTIONS = {
    f"nn::{name}{rank}d": rank for name in ("conv", "conv_transpose") for rank in (1, 2, 3)
}
_LINEAR = "nn::linear"
_BATCH_NORM = "nn::batch_norm"


def assume_batches(graph: Graph) -> bool:
    """Give the inputs that convolutions read the type that batches for their weights have.

    Before, with ``%w`` a constant::

        graph(%x : Any, %w : Float32[8, 3, 3, 3]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %y : Any = nn::conv2d(%x, %w, %none, %1, %0, %1, %1)
          return (%y)

    After::

        graph(%x : Float32[x0, x1, x2, x3], %w : Float32[8, 3, 3, 3]):
          %none : None = prim::Constant[value=None]()
          %1 : int = prim::Constant[value=1]()
          %0 : int = prim::Constant[value=0]()
          %y : Any = nn::conv2d(%x, %w, %none, %1, %0, %1, %1)
          return (%y)

    Whoever runs the graph has to see to it that it is only run with such arguments.  The same
    holds for the input of a linear map that batch normalization follows, a matrix, and for inputs
    whose rank the program asks for: of those that it compares with, the largest is a batch.  What
    is multiplied by constant matrices has their dtype, and any rank.
    """
    parameters = set(graph.inputs) - {capture.input for capture in graph.captures}
    waiting = {value for value in parameters if value.type in (ANY, TENSOR)}
    found: dict[Value, TensorType] = {}
    for node in graph.nodes():
        rank = _wanted_rank(node)
        weight = array_of(node.inputs[1]) if rank is not None else None
        if rank is not None and weight is not None:
            value = origin_of_rank(node.inputs[0])
            found.setdefault(value, _batch(value, weight.dtype, rank))
    dtype = _dtype_of_weights(graph)
    for value in waiting - found.keys():
        rank = _asked_rank(value)
        if rank and dtype is not None:
            found[value] = _batch(value, dtype, rank)
    for value, dtype in _multiplied(graph):
        found.setdefault(value, TensorType(dtype))
    for value in waiting & found.keys():
        value.type = found[value]
        log.update("assume_batches", f"{value!r}")
    return bool(waiting & found.keys())


def _multiplied(graph: Graph) -> Iterator[tuple[Value, np.dtype[Any]]]:
    """What is multiplied by constant matrices of floats, and their dtypes."""
    for kind in PRODUCTS:
        for node in graph.find_all_nodes(kind):
            weight = array_of(node.inputs[1]) if len(node.inputs) == 2 else None
            if weight is not None and weight.ndim == 2 and weight.dtype.kind == "f":
                yield node.inputs[0], weight.dtype


def _batch(value: Value, dtype: np.dtype[Any], rank: int) -> TensorType:
    return TensorType(dtype, tuple(f"{value.name}{k}" for k in range(rank)))


def _dtype_of_weights(graph: Graph) -> np.dtype[Any] | None:
    """That of the first constant weights, which inputs must have as well."""
    for node in graph.nodes():
        if node.kind == _LINEAR or node.kind in _CONVOLUTIONS:
            weight = array_of(node.inputs[1])
            if weight is not None and weight.dtype.kind == "f":
                return weight.dtype
    return None


def _asked_rank(value: Value) -> int | None:
    """The largest rank that ``value.ndim`` is compared with; None of what may be absent."""
    if any(isinstance(use.user, Node) and use.user.kind in _IDENTITIES for use in value.uses):
        return None
    asked = [
        use.user
        for use in value.uses
        if isinstance(use.user, Node) and use.user.attributes.get("name") == "ndim"
    ]
    compared = [use.user for node in asked for use in node.output.uses]
    ranks = [
        rank
        for node in compared
        if isinstance(node, Node) and node.kind in _COMPARISONS
        for rank in _ints(node.inputs[1])
    ]
    return max(ranks, default=None)


_IDENTITIES = ("prim::is_", "prim::isnot")
"""How programs ask whether an optional argument is None."""

_COMPARISONS = frozenset(f"prim::{name}" for name in ("eq", "ne", "in_", "notin"))


def _ints(value: Value) -> tuple[int, ...]:
    several = items_of(value) or (value.constant_value,)
    return tuple(one for one in several if type(one) is int)


def _wanted_rank(node: Node) -> int | None:
    if node.kind in _CONVOLUTIONS:
        return _CONVOLUTIONS[node.kind] + 2
    if node.kind == _LINEAR and any(_normalizes(use.user, node.output) for use in node.output.uses):
        return 2
    return None


def _normalizes(user: object, value: Value) -> bool:
    return isinstance(user, Node) and user.kind == _BATCH_NORM and user.inputs[0] is value
