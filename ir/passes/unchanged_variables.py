"""Variables of loops and branches that are the same object whichever way the program takes."""

from __future__ import annotations

from jitcore.ir.graph import LOOPS, Graph, Node, Value

__all__ = ["use_unchanged_variables"]


def use_unchanged_variables(graph: Graph) -> bool:
    """Use what a variable was before a loop or branch that writes to it at most in place.

    Before::

        %y : Float64[n] = prim::Loop(%3, %true, %x)
          block0(%i : int, %x.1 : Float64[n]):
            %4 : None = np::store(%x.1, %z)
            -> (%true, %x.1)
        return (%y)

    After; dead code elimination removes the variable::

        %y : Float64[n] = prim::Loop(%3, %true, %x)
          block0(%i : int, %x.1 : Float64[n]):
            %4 : None = np::store(%x, %z)
            -> (%true, %x)
        return (%x)
    """
    nodes = [node for node in graph.nodes() if node.blocks]
    changed = False
    while sum(map(_use_unchanged, nodes)):
        changed = True
    return changed


def _use_unchanged(node: Node) -> bool:
    changed = False
    for number, output in enumerate(node.outputs):
        if node.kind in LOOPS:
            changed |= _use_before_loop(node, number)
            continue
        first, *others = (block.returns[number] for block in node.blocks)
        if node.kind == "prim::If" and others == [first]:
            changed |= _replace(output, first)
    return changed


def _use_before_loop(node: Node, number: int) -> bool:
    (body,) = node.blocks
    count = len(node.inputs) - len(node.outputs)
    param, before = body.params[1 + number], node.inputs[count + number]
    returned = body.returns[1 + number]
    if returned not in (param, before) or returned.type != before.type:
        return False
    changed = _replace(param, before)
    return _replace(node.outputs[number], before) or changed


def _replace(value: Value, other: Value) -> bool:
    """Have the readers of a value read another one; says whether there were any."""
    if not value.uses or value.type != other.type:
        return False
    value.replace_all_uses_with(other)
    return True
