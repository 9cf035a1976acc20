"""Find symbols of inputs that elementwise operations need to be equal.

Before::

    graph(%x : Float32[n], %y : Float32[m]):
      %1 : Float32[n] = np::add(%x, %y)
      return (%1)

``same_extents`` gives ``{"m": "n"}``.  Typed again with one symbol for both, operations on ``%x``
and on ``%y`` have one shape, so that they can be fused.  What is compiled for that must check it:
other calls are errors in NumPy, or do not get to the operation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jitcore.ir.graph import Block, Graph, Node
from jitcore.ir.ops import TABLE
from jitcore.ir.types import Dim, RecordType, TensorType, Type

__all__ = ["renamed", "same_extents"]


def same_extents(graph: Graph) -> dict[Dim, Dim]:
    """For symbols of inputs the symbol that they are to be replaced by.

    Symbols of inputs are not 1, so that two of them can only be broadcast together when they are
    equal.  What only one branch of an ``If`` does says nothing.
    """
    own = [dim for value in graph.inputs for dim in _input_dims(value.type) if isinstance(dim, str)]
    order: dict[Dim, int] = {dim: number for number, dim in reversed(list(enumerate(own)))}
    found: dict[Dim, Dim] = {}

    def representative(dim: Dim) -> Dim:
        while dim in found:
            dim = found[dim]
        return dim

    for node in _always(graph.block):
        for axis in _aligned(node):
            symbols = {representative(dim) for dim in axis if dim in order}
            same = sorted(symbols, key=order.__getitem__)
            for dim in same[1:]:
                found[dim] = same[0]
    return {dim: representative(dim) for dim in found}


def renamed(type_: Type, symbols: Mapping[Dim, Dim]) -> Type:
    """An array's type, or that of an object, with other symbols in it."""
    if isinstance(type_, RecordType):
        elements = tuple(renamed(one, symbols) for one in type_.elements)
        return replace(type_, elements=elements)
    if not isinstance(type_, TensorType) or type_.dims is None:
        return type_
    dims = tuple(symbols.get(dim, dim) for dim in type_.dims)
    return TensorType(type_.dtype, dims, type_.scalar)


def _dims(type_: Type) -> tuple[Dim, ...]:
    return type_.dims or () if isinstance(type_, TensorType) else ()


def _input_dims(type_: Type) -> Iterator[Dim]:
    if isinstance(type_, RecordType):
        for element in type_.elements:
            yield from _input_dims(element)
    yield from _dims(type_)


def _always(block: Block) -> Iterator[Node]:
    """The nodes that run whichever way control goes, those in loops too."""
    for node in block.nodes:
        yield node
        if node.kind != "prim::If":
            for inner in node.blocks:
                yield from _always(inner)


def _aligned(node: Node) -> Iterator[list[Dim]]:
    """The dims of operands that are broadcast together, axis by axis."""
    op = TABLE.get(node.kind)
    if op is None or op.scalar is None:
        return
    shapes = [_dims(value.type) for value in node.inputs]
    for place in range(1, max(map(len, shapes), default=0) + 1):
        yield [shape[-place] for shape in shapes if len(shape) >= place]
