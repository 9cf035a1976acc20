"""Arrays that are computed and then rolled: computed of rolled operands instead."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import is_cheap, is_elementwise
from jitcore.ir.shapes import dims_of

__all__ = ["roll_operands"]

_MOST_OFTEN = 2
"""How many times an array is computed beside its own place: each reads all of its operands."""

_MOST_NODES = 8
"""How many operations are computed again."""


def roll_operands(graph: Graph) -> bool:
    """Read rolled operands in place of what is computed of them and rolled.

    Before::

        graph(%x : Float32[64], %y : Float32[64]):
          %0 : Float32[64] = np::multiply(%x, %y)
          %1 : Float32[64] = np::rolled[shifts=(1,)](%0)
          %2 : Float32[64] = np::subtract(%0, %1)
          return (%2)

    After::

        graph(%x : Float32[64], %y : Float32[64]):
          %0 : Float32[64] = np::multiply(%x, %y)
          %3 : Float32[64] = np::rolled[shifts=(1,)](%x)
          %4 : Float32[64] = np::rolled[shifts=(1,)](%y)
          %5 : Float32[64] = np::multiply(%3, %4)
          %2 : Float32[64] = np::subtract(%0, %5)
          return (%2)

    So a flux between neighbours with periodic boundaries is one loop, without an array in between.
    """
    rolls = graph.find_all_nodes("np::rolled")
    if not any(map(_is_computed, rolls)):
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    changed = False
    # In order, so that what is computed of rolled arrays already reads what these are rolled from.
    for roll in rolls:
        tree = _tree(roll) if _is_computed(roll) else None
        if tree is not None and tree.stays(analysis):
            _replace(roll, tree)
            changed = True
    return changed


def _replace(roll: Node, tree: _Tree) -> None:
    log.update("computed_rolls", lambda: f"roll what {roll!r} is computed of")
    roll.output.replace_all_uses_with(tree.rolled(roll.inputs[0], {}))
    roll.destroy()


def _is_computed(roll: Node) -> bool:
    """Whether a rolled array is cheap to compute, and not rolled in many ways."""
    made_by = roll.inputs[0].node
    if made_by is None or made_by.block is not roll.block or not is_cheap(made_by):
        return False
    return sum(_is_roll(use.user) for use in made_by.output.uses) <= _MOST_OFTEN


def _is_roll(user: object) -> bool:
    return isinstance(user, Node) and user.kind == "np::rolled"


@dataclass(slots=True)
class _Tree:
    """What a rolled array is computed of, in its block, down to arrays that are in memory."""

    roll: Node
    nodes: Collection[Node]
    """Those to compute again."""

    def stays(self, analysis: AliasAnalysis) -> bool:
        """Whether nothing that is read again is written before the array is rolled.

        Nor is the rolled array, later: the analysis does not know what comes in its place.
        """
        if analysis.has_writers(self.roll.output):
            return False
        for node in self.nodes:
            if analysis.has_writers(node.output):
                return False
            for value in node.inputs:
                base, _ = _base(value)
                first = node if base is value or value.node is None else value.node
                if analysis.is_written_between([value, base], first, self.roll):
                    return False
        return True

    def rolled(self, value: Value, known: dict[Value, Value]) -> Value:
        """A value of the tree, rolled; ``known`` are those that are."""
        if not dims_of(value):
            return value
        if value not in known:
            known[value] = self._rolled(value, known)
        return known[value]

    def _rolled(self, value: Value, known: dict[Value, Value]) -> Value:
        node = value.node
        if node is not None and node in self.nodes:
            inputs = [self.rolled(one, known) for one in node.inputs]
            return self.roll.value_before(node.kind, inputs, value.type, node.attributes)
        base, inner = _base(value)
        outer = self.roll.attributes["shifts"]
        extents = [dim if isinstance(dim, int) and dim else 1 for dim in dims_of(value)]
        places = zip(inner or [0] * len(outer), outer, extents, strict=True)
        shifts = tuple((a + b) % extent for a, b, extent in places)
        if not any(shifts):
            return base
        return self.roll.value_before("np::rolled", [base], value.type, {"shifts": shifts})


def _tree(roll: Node) -> _Tree | None:
    """What a rolled array is computed of; None where that is not cheap and little."""
    found: dict[Node, None] = {}
    waiting = [roll.inputs[0].node]
    while waiting:
        node = waiting.pop()
        if node is None or not is_cheap(node):
            return None
        found[node] = None
        arrays = [value for value in node.inputs if dims_of(value)]
        is_stretched = any(dims_of(value) != dims_of(roll.output) for value in arrays)
        if is_stretched or len(found) > _MOST_NODES:
            return None
        waiting += [value.node for value in arrays if _is_made_in(roll.block, value)]
    return _Tree(roll, found)


def _is_made_in(block: Block | None, value: Value) -> bool:
    """Whether a value is computed by elements in a block."""
    node = value.node
    return node is not None and node.block is block and is_elementwise(node)


def _base(value: Value) -> tuple[Value, Sequence[int]]:
    """What a value is rolled from, and by how much: itself, and nothing, where it is not."""
    node = value.node
    if node is None or node.kind != "np::rolled":
        return value, ()
    return node.inputs[0], node.attributes["shifts"]
