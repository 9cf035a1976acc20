"""Lists that ``+=`` makes longer stay the lists they are.

Before::

    graph(%n : int):
      %l : Any = prim::ListConstruct()
      %l.2 : Any = prim::For(%n, %l)
        block0(%i : Any, %l.1 : Any):
          %x : Any = prim::ListConstruct(%i)
          %1 : Any = prim::iadd(%l.1, %x)
          %2 : bool = prim::Constant[value=True]()
          -> (%2, %1)
      return (%l.2)

After::

    graph(%n : int):
      %l : Any = prim::ListConstruct()
      prim::For(%n)
        block0(%i : Any):
          %x : Any = prim::ListConstruct(%i)
          %0 : Any = prim::CallMethod[name="extend"](%l, %x)
          %2 : bool = prim::Constant[value=True]()
          -> (%2)
      return (%l)

The statement assigns to its variable, so the list seems to become another one in each iteration.
What is not surely a list or a tuple may be an array, and ``+=`` then adds the list to that.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.ir.carried import carried_to, is_carried, sources_of
from jitcore.ir.graph import LOOPS, Graph, Node, Value
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.specialize.lists.list_uses import repeated_display

__all__ = ["extend_lists_in_place"]

_SEQUENCES = frozenset({"prim::TupleConstruct", "prim::range"})


def extend_lists_in_place(graph: Graph) -> bool:
    """Make calls of ``extend`` of augmented assignments to lists that the graph makes."""
    changed = False
    for made in [node for node in graph.nodes() if _is_list(node)]:
        same = _same_objects(made.output)
        extensions = [node for value in same if (node := value.node) and node.kind == "prim::iadd"]
        if not extensions:
            continue
        changed = True
        for value in same:
            value.replace_all_uses_with(made.output)
        for node in extensions:
            node.insert_before("prim::CallMethod", node.inputs, {"name": "extend"})
            node.destroy()
    if changed:
        dead_code_elimination(graph)
    return changed


def _is_list(node: Node) -> bool:
    is_made = node.kind in ("prim::ListConstruct", "prim::ListArgument")
    return is_made or repeated_display(node) is not None


def _is_sequence(value: Value) -> bool:
    """Whether a value is surely a list, a tuple or a range."""
    node = value.node
    return node is not None and (_is_list(node) or node.kind in _SEQUENCES)


def _same_objects(made: Value) -> dict[Value, None]:
    """The other values that are this list whichever way the program takes."""
    found: dict[Value, None] = {}
    waiting = [made]
    while waiting:
        for value in _followers(waiting.pop()):
            if value not in found:
                found[value] = None
                waiting.append(value)
    while True:
        known = found.keys() | {made}
        same = {value: None for value in found if _sources(value) <= known}
        if len(same) == len(found):
            return found
        found = same


def _followers(value: Value) -> Iterator[Value]:
    """What may be the same list as a value, right after it."""
    for use in value.uses:
        if is_carried(use):
            yield from carried_to(use) or ()
        elif isinstance(use.user, Node) and _is_extension(use.user, use.index):
            yield use.user.output


def _is_extension(node: Node, index: int) -> bool:
    return node.kind == "prim::iadd" and index == 0 and _is_sequence(node.inputs[1])


def _sources(value: Value) -> set[Value]:
    """All that a value may be the same object as, where it is one of `_followers`."""
    node = value.node
    if node is None or node.kind == "prim::If" or node.kind in LOOPS:
        return sources_of(value)
    return {node.inputs[0]}
