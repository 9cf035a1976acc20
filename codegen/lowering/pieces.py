"""Arrays that are computed for one concatenation only, in the memory of its result at once."""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.codegen.lowering.facts import FUSED
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.types import Dim, TensorType

__all__ = ["Piece", "pieces"]

_SPACING = frozenset({":", "None"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A place in the result of a concatenation.

    Parameters
    ----------
    node : Node
        The concatenation.
    start : int
        Where the piece begins along its axis.
    axes : tuple of int
        The result's axes that the piece has; along the others it has one element.
    """

    node: Node
    start: int
    axes: tuple[int, ...]


def pieces(graph: Graph) -> dict[Value, Piece]:
    """The values that are pieces of a result, at known places of it, those in groups too."""
    return {
        value: piece
        for node in graph.find_all_nodes("np::concatenate")
        for value, piece in _pieces(node)
    }


def _pieces(node: Node) -> Iterator[tuple[Value, Piece]]:
    """The values that a concatenation is all that reads, each with its place."""
    axis = node.attributes["axis"]
    if not _has_known_places(node, axis):
        return
    start = 0
    for value in node.inputs:
        rank = len(_dims(value))
        source, axes = _source(value, tuple(range(rank)))
        if source is not None and source.node is not None and source.node.block is node.block:
            inner = _inside_group(source)
            if inner is not None:
                yield inner, Piece(node, start, axes)
        start += int(_dims(value)[axis])


def _source(value: Value, axes: tuple[int, ...]) -> tuple[Value | None, tuple[int, ...]]:
    """What is joined without the axes that views have added; None where others read it."""
    while len(value.uses) == 1:
        node = value.node
        if node is None or node.kind != "np::view":
            return value, axes
        parts = node.attributes["index"].split(", ")
        if not set(parts) <= _SPACING:
            return None, axes
        axes = tuple(axis for axis, part in zip(axes, parts, strict=True) if part == ":")
        value = node.inputs[0]
    return None, axes


def _inside_group(value: Value) -> Value | None:
    """The value of a group that is its output, or a value that is in no group."""
    node = value.node
    if node is None or node.kind != FUSED:
        return value
    outputs: list[Value] = node.attributes["graph"].outputs
    inner = outputs[node.outputs.index(value)]
    return inner if outputs.count(inner) == 1 else None


def _has_known_places(node: Node, axis: int) -> bool:
    """Whether the types tell where each piece begins, and that all have the other extents."""
    shapes = [list(_dims(value)) for value in (*node.inputs, node.output)]
    along = [shape.pop(axis) for shape in shapes]
    return all(isinstance(one, int) for one in along) and all(one == shapes[0] for one in shapes)


def _dims(value: Value) -> tuple[Dim, ...]:
    type_ = value.type
    assert isinstance(type_, TensorType) and type_.dims is not None
    return type_.dims
