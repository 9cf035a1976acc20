"""Find symbols of inputs that elementwise operations and stores need to be equal.

Before::

    graph(%x : Float32[n], %y : Float32[m]):
      %1 : Float32[n] = np::add(%x, %y)
      return (%1)

``same_extents`` gives ``{"m": "n"}``.  Typed again with one symbol for both, operations on ``%x``
and on ``%y`` have one shape, so that they can be fused.  What is compiled for that must check it:
other calls are errors in NumPy, do not get to the operation, or broadcast a slice that happens to
have one element.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from jitcore.ir.graph import Block, Graph, Node
from jitcore.ir.ops import TABLE
from jitcore.ir.ops.indexing import split_index
from jitcore.ir.shapes import slice_length
from jitcore.ir.types import Dim, RecordType, TensorType, Type

__all__ = ["renamed", "same_extents"]


Lengths = tuple[int, ...]

_LENGTHS: Lengths = (2**20, 2**20 + 1, 2**21)
"""Extents that an axis might have: slices with bounds that are literals, and which agree for
these, have one length whatever the extent is, or are cut short by an axis of a few elements."""


def same_extents(graph: Graph) -> dict[Dim, Dim]:
    """For symbols of inputs the symbol that they are to be replaced by.

    Symbols of inputs are not 1, so that two of them can only be broadcast together when they are
    equal.  So are as a rule those of which slices of one length are.  What only one branch of an
    ``If`` does says nothing.
    """
    own = [dim for value in graph.inputs for dim in _input_dims(value.type) if isinstance(dim, str)]
    order: dict[Dim, int] = {dim: number for number, dim in reversed(list(enumerate(own)))}
    found: dict[Dim, Dim] = {}

    def representative(dim: Dim) -> Dim:
        while dim in found:
            dim = found[dim]
        return dim

    origins: dict[Dim, tuple[Dim, Lengths]] = {dim: (dim, _LENGTHS) for dim in own}
    for node in _always(graph.block):
        if node.kind == "np::view":
            _note_slices(node, origins)
        for axis in _aligned(node):
            known = [origins[dim] for dim in axis if dim in origins]
            for lengths in {one for _, one in known}:
                symbols = {representative(dim) for dim, one in known if one == lengths}
                same = sorted(symbols, key=order.__getitem__)
                for dim in same[1:]:
                    found[dim] = same[0]
    return {dim: representative(dim) for dim in found}


def _note_slices(view: Node, origins: dict[Dim, tuple[Dim, Lengths]]) -> None:
    """Of which symbol the extents of a view are parts, and which parts."""
    types = (view.inputs[0].type, view.output.type)
    if not all(isinstance(one, TensorType) and one.dims is not None for one in types):
        return
    base, own = (iter(_dims(one)) for one in types)
    for part in split_index(view.attributes["index"]):
        if part == "None":
            next(own)
            continue
        whole = next(base)
        if ":" not in part:
            continue
        dim = next(own)
        if whole not in origins or dim in origins or "$" in part:
            continue
        symbol, lengths = origins[whole]
        bounds = [int(bound) if bound else None for bound in part.split(":")]
        start, stop, step = (*bounds, None)[:3]
        found = tuple(slice_length(length, start, stop, step) for length in lengths)
        if found[0] != found[-1]:
            origins[dim] = symbol, found


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
    if node.kind != "np::store" and (op is None or op.scalar is None):
        return
    shapes = [_dims(value.type) for value in node.inputs]
    for place in range(1, max(map(len, shapes), default=0) + 1):
        yield [shape[-place] for shape in shapes if len(shape) >= place]
