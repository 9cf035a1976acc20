"""Equal views of one array are one view."""

from __future__ import annotations

from collections.abc import Hashable

from jitcore.ir import log
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.passes.frozen.readers import is_only_read, method_of, writes_nothing

__all__ = ["merge_views"]


def merge_views(graph: Graph) -> bool:
    """Read one view where several are made that are equal.

    Before::

        graph(%x : Float32[n, 4, 6]):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %a : Any = prim::CallMethod[name="swapaxes"](%x, %0, %1)
          %b : Any = prim::CallMethod[name="swapaxes"](%x, %0, %1)
          %c : Any = prim::add(%a, %b)
          return (%c)

    After::

        graph(%x : Float32[n, 4, 6]):
          %0 : int = prim::Constant[value=0]()
          %1 : int = prim::Constant[value=1]()
          %a : Any = prim::CallMethod[name="swapaxes"](%x, %0, %1)
          %c : Any = prim::add(%a, %a)
          return (%c)

    Only within one block, and where all of them are only read.
    """
    changed = False
    for block in list(graph.blocks()):
        changed = _merge(block) or changed
    return changed


def _merge(block: Block) -> bool:
    known: dict[Hashable, Node] = {}
    changed = False
    for node in list(block.nodes):
        if not writes_nothing(node):
            known = {}
        method = method_of(node)
        if method is None or not method.view or not is_only_read(node.output):
            continue
        key = _key(node)
        earlier = known.setdefault(key, node)
        if earlier is not node:
            log.update("merge_views", f"{node!r} is {earlier!r}")
            node.output.replace_all_uses_with(earlier.output)
            node.destroy()
            changed = True
    return changed


def _key(node: Node) -> Hashable:
    """Equal for calls of one method of one array with equal arguments."""
    return node.attributes["name"], node.keywords, *map(_identity, node.inputs)


def _identity(value: Value) -> Hashable:
    held = value.constant_value
    return (type(held), held) if isinstance(held, int | str | tuple) else (Value, value)
