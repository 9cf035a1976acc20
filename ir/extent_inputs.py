"""Which int arguments decide how large arrays are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.reference import IndexOperand, IndexSlice, parse_index
from jitcore.ir.types import INT

__all__ = ["extent_inputs"]

_OF_EXTENTS = frozenset(
    f"np::{name}"
    for name in ("empty", "full", "iota", "reshape", "set_shape", "broadcast_to", "view")
)


def extent_inputs(graph: Graph) -> frozenset[int]:
    """The numbers of the int inputs that extents are computed from, in a program with loops.

    ``for t in range(steps): u[1 : n - 1] = ...`` has the extent ``n - 2``, but the number of steps
    is none.  The end of a loop whose counter is an index counts as one, as in ``for i in range(n):
    u[i]``.  Programs without loops gain too little from such a number to be compiled for it.

    Parameters
    ----------
    graph : Graph
        Typed.
    """
    nodes = list(graph.nodes())
    loops = {node.blocks[0].params[0]: node for node in nodes if node.kind == "prim::Loop"}
    if not loops:
        return frozenset()
    extents = [value for node in nodes for value in _extents(node)]
    indices = _sources(value for node in nodes for value in _indices(node))
    extents += [loop.inputs[0] for counter, loop in loops.items() if counter in indices]
    found = _sources(extents)
    return frozenset(n for n, value in enumerate(graph.inputs) if value in found)


def _sources(values: Iterable[Value]) -> set[Value]:
    """Int values, and those they are computed from."""
    waiting = list(values)
    seen = set(waiting)
    while waiting:
        node = waiting.pop().node
        if node is None or not node.kind.startswith("prim::") or node.blocks:
            continue
        new = {value for value in node.inputs if value.type == INT} - seen
        seen |= new
        waiting.extend(new)
    return seen


def _indices(node: Node) -> Iterator[Value]:
    if node.kind == "np::view":
        yield from (value for value in node.inputs[1:] if value.type == INT)


def _extents(node: Node) -> Iterator[Value]:
    """The ints that the extents of a node's result come from."""
    if node.kind not in _OF_EXTENTS:
        return
    values = node.inputs
    if node.kind == "np::view":
        slices = (one for one in parse_index(node.attributes["index"]) if one is not None)
        bounds = [one for one in slices if isinstance(one, IndexSlice)]
        parts = (part for one in bounds for part in (one.start, one.stop, one.step))
        values = [node.inputs[1 + one.number] for one in parts if isinstance(one, IndexOperand)]
    yield from (value for value in values if value.type == INT)
