"""Unrolling: short loops over whole arrays become straight lines, which groups can take in."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.ops import is_elementwise
from jitcore.ir.types import BOOL, INT, TensorType

__all__ = ["MAX_UNROLLED", "unroll_array_loops"]

MAX_UNROLLED = 400
"""Nodes that all iterations of a loop may have together: some groups of code in a straight line."""


def unroll_array_loops(graph: Graph) -> bool:
    """Unroll loops of few iterations in which every node computes elements of arrays.

    They may read numbers and parts of arrays that the loop does not compute (``c[k]``).

    Before::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : int = prim::Constant[value=2]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float32[n] = prim::Loop(%0, %1, %x)
            block0(%i : int, %a : Float32[n]):
              %b : Float32[n] = np::multiply(%a, %a)
              %c : Float32[n] = np::add(%b, %y)
              -> (%1, %c)
          return (%z)

    After::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : int = prim::Constant[value=2]()
          %1 : bool = prim::Constant[value=True]()
          %b.1 : Float32[n] = np::multiply(%x, %x)
          %c.1 : Float32[n] = np::add(%b.1, %y)
          %b.2 : Float32[n] = np::multiply(%c.1, %c.1)
          %c.2 : Float32[n] = np::add(%b.2, %y)
          return (%c.2)

    As a loop each iteration would read its arrays from memory and write them there.
    """
    changed = False
    for loop in reversed(graph.find_all_nodes("prim::Loop")):
        trips = _trip_count(loop)
        if trips is not None and _is_worth_it(loop.blocks[0], trips):
            _unroll(loop, trips)
            changed = True
    return changed


def _trip_count(loop: Node) -> int | None:
    """How often a loop surely runs, where that is known and at least once."""
    count, start = loop.inputs[:2]
    (block,) = loop.blocks
    if not (_is_true(start) and _is_true(block.returns[0])) or count.constant is None:
        return None
    trips = count.constant.attributes["value"]
    return int(trips) if count.type == INT and trips > 0 else None


def _is_true(value: Value) -> bool:
    return value.type == BOOL and value.constant_value is True


def _is_worth_it(block: Block, trips: int) -> bool:
    """Whether all nodes compute elements, some of them arrays', and there are not too many."""
    computed = [node for node in block.nodes if node.kind != "prim::Constant"]
    if len(computed) * trips > MAX_UNROLLED:
        return False
    if not all(is_elementwise(node) or _reads_outside(node, block) for node in computed):
        return False
    return any(_is_array(value) for node in block.nodes for value in node.outputs)


def _reads_outside(node: Node, block: Block) -> bool:
    """Whether a node is a view, or a number in it, of an array from before the loop."""
    base = node
    while base.kind in ("np::view", "np::item"):
        value = base.inputs[0]
        if value.node is None or value.node.block is not block:
            return value not in block.params
        base = value.node
    return False


def _is_array(value: Value) -> bool:
    return isinstance(value.type, TensorType) and bool(value.type.dims)


def _unroll(loop: Node, trips: int) -> None:
    """Put the iterations before a loop, and their last values in its place."""
    log.update("unroll", lambda: f"unroll {loop!r}, {trips} times")
    (block,), outer = loop.blocks, loop.block
    assert outer is not None
    position = outer.nodes.index(loop)
    # Copies are appended, so what follows the loop steps aside.
    following = outer.nodes[position:]
    del outer.nodes[position:]
    carried = list(loop.inputs[2:])
    for number in range(trips):
        mapping = dict(zip(block.params[1:], carried, strict=True))
        if block.params[0].uses:
            mapping[block.params[0]] = outer.constant(number, INT, loop.source)
        for node in block.nodes:
            copy_node(node, outer, mapping)
        carried = [mapping.get(value, value) for value in block.returns[1:]]
    outer.nodes.extend(following)
    for output, value in zip(loop.outputs, carried, strict=True):
        output.replace_all_uses_with(value)
    loop.destroy()
