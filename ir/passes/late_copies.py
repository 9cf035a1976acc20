"""Copies of an array that are read only until the array itself is written."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.effects import is_array_view
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import is_elementwise
from jitcore.ir.shapes import dims_of

__all__ = ["read_copied_arrays"]


def read_copied_arrays(graph: Graph) -> bool:
    """Read an array in place of its copy, where that is computed with before the array is written.

    Before::

        graph(%u : Float64[64]):
          %0 : Float64[64] = np::copy[order="C"](%u)
          %1 : Float64[62] = np::view[index="1:-1"](%u)
          %2 : Float64[62] = np::view[index="2:"](%0)
          %3 : Float64[62] = np::view[index=":-2"](%0)
          %4 : Float64[62] = np::add(%2, %3)
          %5 : None = np::store(%1, %4)
          return ()

    After::

        graph(%u : Float64[64]):
          %1 : Float64[62] = np::view[index="1:-1"](%u)
          %2 : Float64[62] = np::view[index="2:"](%u)
          %3 : Float64[62] = np::view[index=":-2"](%u)
          %4 : Float64[62] = np::add(%2, %3)
          %5 : None = np::store(%1, %4)
          return ()

    A store is a value that is computed first, so that the copy is only what the program has for it.
    Copies that several stores read stay: these may be one loop, as long as none of them reads what
    another one writes.
    """
    analysis: AliasAnalysis | None = None
    changed = False
    for copy in graph.find_all_nodes("np::copy"):
        store = _only_store(copy)
        if store is None:
            continue
        analysis = analysis or AliasAnalysis(graph)
        if _is_early(copy, store, analysis):
            _replace(copy)
            analysis, changed = None, True
    return changed


def _replace(copy: Node) -> None:
    log.update("late_copies", lambda: f"read what {copy!r} copies")
    copy.output.replace_all_uses_with(copy.inputs[0])
    copy.destroy()


def _is_early(copy: Node, store: Node, analysis: AliasAnalysis) -> bool:
    """Whether a store writes to what was copied, and nothing does before, nor to the copy."""
    base = copy.inputs[0]
    return (
        analysis.may_alias(store.inputs[0], base)
        and not analysis.has_writers(copy.output)
        and not analysis.is_written_between([base], copy, store)
    )


def _only_store(copy: Node) -> Node | None:
    """The one store that what is computed with a copy goes to."""
    stores = _stores(copy) if dims_of(copy.output) else None
    return stores.pop() if stores and len(stores) == 1 else None


def _stores(copy: Node) -> set[Node] | None:
    """The stores of what is computed with a copy, None where it goes elsewhere.

    There the order of its axes may show, which is that of the copy.
    """
    stores = set[Node]()
    waiting = [copy.output]
    seen = set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            user = use.user
            if not isinstance(user, Node) or user.block is not copy.block:
                return None
            if user.kind == "np::store" and user.inputs[0] is not value:
                stores.add(user)
            elif _is_part(user, value) or (is_elementwise(user) and len(user.outputs) == 1):
                waiting.append(user.output)
            else:
                return None
    return stores


def _is_part(user: Node, value: Value) -> bool:
    return user.kind == "np::view" and is_array_view(user) and user.inputs[0] is value
