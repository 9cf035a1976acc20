"""Keep images channels-last between layers: changes of the layout that undo one another vanish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import TensorType

__all__ = ["keep_channels_last"]

_REDUCTIONS = frozenset({"np::mean", "np::sum", "np::max", "np::min"})


def keep_channels_last(graph: Graph) -> bool:
    """Compute elementwise operations between layers on channels-last images.

    Before::

        graph(%x : Float32[2, 7, 7, 8]):
          %0 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %1 : Float32[2, 8, 7, 7] = np::transpose[axes=(0, 3, 1, 2)](%x)
          %2 : Float32[2, 8, 7, 7] = np::copy[order="C"](%1)
          %3 : Float32[2, 8, 7, 7] = np::maximum(%2, %0)
          %4 : Float32[2, 7, 7, 8] = np::transpose[axes=(0, 2, 3, 1)](%3)
          %5 : Float32[2, 7, 7, 8] = np::copy[order="C"](%4)
          %6 : Float32[2, 7, 7, 8] = np::exp(%5)
          return (%6)

    After::

        graph(%x : Float32[2, 7, 7, 8]):
          %0 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %1 : Float32[2, 8, 7, 7] = np::transpose[axes=(0, 3, 1, 2)](%x)
          %2 : Float32[2, 8, 7, 7] = np::copy[order="C"](%1)
          %7 : Float32[2, 7, 7, 8] = np::maximum(%x, %0)
          %8 : Float32[2, 8, 7, 7] = np::transpose[axes=(0, 3, 1, 2)](%7)
          %9 : Float32[2, 8, 7, 7] = np::copy[order="C"](%8)
          %4 : Float32[2, 7, 7, 8] = np::transpose[axes=(0, 2, 3, 1)](%9)
          %5 : Float32[2, 7, 7, 8] = np::copy[order="C"](%4)
          %6 : Float32[2, 7, 7, 8] = np::exp(%7)
          return (%6)

    What is then unused is left to dead code elimination.  Arrays that anything writes to stay as
    they are.
    """
    return _Pass(AliasAnalysis(graph)).block(graph.block, {})


Twins = dict[Value, Value]
"""Images, and the same images channels-last."""


class _Pass:
    def __init__(self, analysis: AliasAnalysis) -> None:
        self.analysis = analysis
        self.made: set[Value] = set()
        self.changed = False

    def block(self, block: Block, outer: Twins) -> bool:
        """One walk over a block and the blocks inside."""
        twins = dict(outer)
        for node in list(block.nodes):
            for inner in node.blocks:
                self.block(inner, twins)
            if node.kind == "np::copy":
                self.copy(node, twins)
            elif node.kind in _REDUCTIONS:
                self.reduction(node, twins)
            elif node.kind == "np::concatenate":
                self.concatenation(node, twins)
            elif node.kind in TABLE and TABLE[node.kind].scalar is not None:
                self.elementwise(node, twins)
        return self.changed

    def copy(self, node: Node, twins: Twins) -> None:
        """A change of the layout: a twin of what it changes, or one that is there already."""
        source = _transposed(node)
        if source is None or self.is_written(node.output) or self.is_written(source):
            return
        axes, rank = _axes(node), len(dims_of(source))
        if axes == _from_last(rank):
            twins[node.output] = source
        elif axes == _to_last(rank) and source not in twins:
            twins[source] = node.output
        elif axes == _to_last(rank) and all(map(_only_reads, _users(node.output))):
            self.replace(node.output, twins[source])

    def elementwise(self, node: Node, twins: Twins) -> None:
        """The same operation on the operands' twins."""
        rank = len(dims_of(node.outputs[0])) if len(node.outputs) == 1 else 0
        if rank < 3 or not any(value in twins for value in node.inputs):
            return
        if self.is_written(node.output) or not all(
            _is_convertible(value, rank, twins) for value in node.inputs
        ):
            return
        operands = [self.converted(value, rank, twins, node) for value in node.inputs]
        self.rebuild(node, operands, node.attributes, twins)

    def concatenation(self, node: Node, twins: Twins) -> None:
        """Along the channels."""
        rank = len(dims_of(node.output))
        if node.attributes.get("axis") != 1 or self.is_written(node.output):
            return
        if all(value in twins for value in node.inputs):
            operands = [twins[value] for value in node.inputs]
            self.rebuild(node, operands, {**node.attributes, "axis": rank - 1}, twins)

    def reduction(self, node: Node, twins: Twins) -> None:
        """Over all of the spatial axes."""
        x, axis = node.inputs[0], node.attributes.get("axis")
        rank = len(dims_of(x))
        if x not in twins or axis != tuple(range(2, rank)) or self.is_written(node.output):
            return
        attributes = {**node.attributes, "axis": tuple(range(1, rank - 1))}
        if attributes["keepdims"]:
            self.rebuild(node, [twins[x]], attributes, twins)
            return
        made = self.insert(node, node.kind, [twins[x]], attributes, node.output)
        self.replace(node.output, made)
        node.destroy()

    def rebuild(
        self, node: Node, operands: Sequence[Value], attributes: dict[str, Any], twins: Twins
    ) -> None:
        """Put an operation on twins in the place of one, and change the layout of its result."""
        old = node.output
        rank = len(dims_of(old))
        twin = self.insert(node, node.kind, operands, attributes, old, _to_last(rank))
        axes = {"axes": _from_last(rank)}
        moved = self.insert(node, "np::transpose", [twin], axes, old)
        result = self.insert(node, "np::copy", [moved], {"order": "C"}, old)
        self.replace(old, result)
        node.destroy()
        twins[result] = twin

    def converted(self, value: Value, rank: int, twins: Twins, place: Node) -> Value:
        """An operand of an operation on twins."""
        if value in twins:
            return twins[value]
        own = len(dims_of(value))
        if own < rank - 1:
            return value
        axes = _to_last(rank) if own == rank else (*range(1, own), 0)
        return self.insert(place, "np::transpose", [value], {"axes": axes}, value, axes)

    def insert(
        self,
        place: Node,
        kind: str,
        inputs: Sequence[Value],
        attributes: dict[str, Any],
        like: Value,
        axes: Sequence[int] | None = None,
    ) -> Value:
        """A node before another, whose result has the axes of ``like`` in this order."""
        type_ = like.type
        assert isinstance(type_, TensorType) and type_.dims is not None
        dims = type_.dims if axes is None else tuple(type_.dims[axis] for axis in axes)
        outputs = (TensorType(type_.dtype, dims),)
        made = place.insert_before(kind, inputs, attributes, outputs=outputs)
        made.origin = place.origin
        self.made.add(made.output)
        return made.output

    def replace(self, old: Value, new: Value) -> None:
        log.update("channels_last", lambda: f"%{new.name} in the place of %{old.name}")
        old.replace_all_uses_with(new)
        self.changed = True

    def is_written(self, value: Value) -> bool:
        """Whether anything may write to a value's memory."""
        return value not in self.made and bool(self.analysis.writers(value))


def _to_last(rank: int) -> tuple[int, ...]:
    return (0, *range(2, rank), 1)


def _from_last(rank: int) -> tuple[int, ...]:
    return (0, rank - 1, *range(1, rank - 1))


def _transposed(copy: Node) -> Value | None:
    """What a copy in C order has the axes of in another order; of images only."""
    maker = copy.inputs[0].node
    is_moved = maker is not None and maker.kind == "np::transpose"
    if not is_moved or copy.attributes.get("order") != "C" or len(dims_of(copy.output)) < 3:
        return None
    assert maker is not None
    return maker.inputs[0]


def _axes(copy: Node) -> tuple[int, ...]:
    assert copy.inputs[0].node is not None
    axes: tuple[int, ...] = copy.inputs[0].node.attributes["axes"]
    return axes


def _users(value: Value) -> list[Node | Block]:
    return [use.user for use in value.uses]


def _only_reads(user: Node | Block) -> bool:
    """Whether a user neither keeps an array nor gives a view of it."""
    if not isinstance(user, Node) or user.blocks or user.kind not in TABLE:
        return False
    row = TABLE[user.kind]
    return row.pure and not row.view and not row.writes and user.kind.startswith(("np::", "nn::"))


def _is_convertible(value: Value, rank: int, twins: Twins) -> bool:
    """Whether an operand of an operation on images has a form for channels-last ones."""
    dims = dims_of(value)
    if value in twins or not dims:
        return True
    ones = [axis for axis, dim in enumerate(dims, rank - len(dims)) if dim != 1]
    return ones in ([], [1]) and len(dims) <= rank
