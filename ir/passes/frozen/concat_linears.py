"""Weighted maps of one array are one linear map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from jitcore.ir import log
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.names import base_name
from jitcore.ir.passes.frozen.arrays import add_array, insert_layer
from jitcore.ir.passes.frozen.linears import linear_at, product_at
from jitcore.ir.passes.frozen.readers import is_only_read, writes_nothing
from jitcore.ir.passes.frozen.weights import Array, Weighted
from jitcore.ir.types import ANY, ELLIPSIS, INT, NONE, SLICE, TupleType, Type

__all__ = ["concat_linears"]


def concat_linears(graph: Graph) -> bool:
    """Join linear maps that have the same input: queries, keys and values, say.

    Before, with constant weights::

        graph(%x : Float32[n, 3], %w : Float32[4, 3], %u : Float32[2, 3]):
          %none : None = prim::Constant[value=None]()
          %y : Any = nn::linear(%x, %w, %none)
          %z : Any = nn::linear(%x, %u, %none)
          %0 : Any = prim::neg(%y)
          %1 : Any = prim::neg(%z)
          %2 : Tuple[Any, Any] = prim::TupleConstruct(%0, %1)
          return (%2)

    After::

        graph(%x : Float32[n, 3], %w : Float32[4, 3], %u : Float32[2, 3], %weight : Float32[6, 3]):
          %none : None = prim::Constant[value=None]()
          %3 : Any = nn::linear(%x, %weight, %none)
          %4 : ellipsis = prim::Constant[value=Ellipsis]()
          %5 : int = prim::Constant[value=0]()
          %6 : int = prim::Constant[value=4]()
          %7 : None = prim::Constant[value=None]()
          %8 : slice = prim::slice(%5, %6, %7)
          %9 : Tuple[ellipsis, slice] = prim::TupleConstruct(%4, %8)
          %y.1 : Any = prim::getitem(%3, %9)
          %10 : ellipsis = prim::Constant[value=Ellipsis]()
          %11 : int = prim::Constant[value=4]()
          %12 : int = prim::Constant[value=6]()
          %13 : None = prim::Constant[value=None]()
          %14 : slice = prim::slice(%11, %12, %13)
          %15 : Tuple[ellipsis, slice] = prim::TupleConstruct(%10, %14)
          %z.1 : Any = prim::getitem(%3, %15)
          %0 : Any = prim::neg(%y.1)
          %1 : Any = prim::neg(%z.1)
          %2 : Tuple[Any, Any] = prim::TupleConstruct(%0, %1)
          return (%2)

    Likewise products with constant matrices, ``nn::matmul``.  Only within one block, and only while
    nothing has written to the input in between.  A part that leaves the graph, or is written,
    becomes a copy.
    """
    changed = False
    for block in list(graph.blocks()):
        for group in _groups(block):
            _join(group)
            changed = True
    return changed


def _groups(block: Block) -> list[list[Weighted]]:
    """Weighted maps of one value, each with as many features of the same dtype."""
    groups: list[list[Weighted]] = []
    latest: dict[tuple[object, ...], list[Weighted]] = {}
    for node in block.nodes:
        if not writes_nothing(node):
            latest = {}
        found = linear_at(node) or product_at(node)
        if found is not None:
            key = (node.kind, node.inputs[0], found.weight.dtype, found.weight.shape[1])
            if key not in latest:
                latest[key] = []
                groups.append(latest[key])
            latest[key].append(found)
    return [group for group in groups if len(group) > 1]


def _join(group: Sequence[Weighted]) -> None:
    first = group[0].node
    graph = first.graph
    log.update("concat_linears", lambda: f"join {len(group)} maps of %{first.inputs[0].name}")
    weight = np.concatenate([one.weight for one in group])
    if first.kind == "nn::matmul":
        more = [add_array(graph, weight.T, "weight")]
    else:
        bias = first.inputs[2]
        more = [add_array(graph, weight, "weight"), bias]
        if any(one.bias is not None for one in group):
            more[1] = add_array(graph, np.concatenate([_bias(one) for one in group]), "bias")
    joined = insert_layer(first, first.kind, [first.inputs[0], *more], "")
    ends = accumulate((len(one.weight) for one in group), initial=0)
    for one, (start, stop) in zip(group, pairwise(ends), strict=True):
        part = _part(first, joined.output, start, stop, one.node)
        one.node.output.replace_all_uses_with(part)
    for one in group:
        one.node.destroy()


def _bias(linear: Weighted) -> Array:
    return np.zeros(len(linear.weight), linear.weight.dtype) if linear.bias is None else linear.bias


def _part(place: Node, value: Value, start: int, stop: int, linear: Node) -> Value:
    """Some of the features, for whoever reads what ``linear`` gives."""

    def emit(
        kind: str,
        inputs: list[Value],
        type_: Type,
        name: str = "",
        attributes: dict[str, object] | None = None,
    ) -> Value:
        made = place.insert_before(
            kind, inputs, attributes, outputs=[type_], names=[name], source=linear.source
        )
        return made.output

    def constant(held: object, type_: Type) -> Value:
        return emit("prim::Constant", [], type_, attributes={"value": held})

    ellipsis = constant(..., ELLIPSIS)
    numbers = [constant(start, INT), constant(stop, INT)]
    chosen = emit("prim::slice", [*numbers, constant(None, NONE)], SLICE)
    index = emit("prim::TupleConstruct", [ellipsis, chosen], TupleType((ELLIPSIS, SLICE)))
    name = base_name(linear.output.name)
    if is_only_read(linear.output):
        return emit("prim::getitem", [value, index], ANY, name)
    part = emit("prim::getitem", [value, index], ANY)
    return emit("prim::CallMethod", [part], ANY, name, attributes={"name": "copy"})
