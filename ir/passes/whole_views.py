"""Views of whole arrays: ``x[:] = y`` writes to ``x`` itself."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.effects import is_immutable, node_effects
from jitcore.ir.graph import Graph, Node, Use

__all__ = ["use_whole_arrays"]


def use_whole_arrays(graph: Graph) -> bool:
    """Have what reads or writes the elements of ``x[:]`` do so with ``x``.

    Before::

        graph(%x : Float32[n, m], %y : Float32[n, m]):
          %0 : Float32[n, m] = np::view[index=":, :"](%x)
          %1 : Float32[n, m] = np::add(%x, %y)
          np::store(%0, %1)
          return (%x)

    After::

        graph(%x : Float32[n, m], %y : Float32[n, m]):
          %0 : Float32[n, m] = np::view[index=":, :"](%x)
          %1 : Float32[n, m] = np::add(%x, %y)
          np::store(%x, %1)
          return (%x)

    So it shows that a node and a store touch the same elements.  The view stays for those that look
    at the object.
    """
    changed = False
    for view in graph.find_all_nodes("np::view"):
        if not _is_whole(view):
            continue
        for use in list(view.output.uses):
            if _touches_elements(use):
                assert isinstance(use.user, Node)
                use.user.set_input(use.index, view.inputs[0])
                changed = True
    if changed:
        log.update("whole_views", lambda: "use whole arrays in place of views of all elements")
    return changed


def _is_whole(view: Node) -> bool:
    parts = set(view.attributes["index"].split(", "))
    return parts <= {":"} and view.inputs[0].type == view.output.type


def _touches_elements(use: Use) -> bool:
    """Whether a use only reads or writes memory, so that any object with that memory will do."""
    user = use.user
    if not isinstance(user, Node) or user.blocks or not user.kind.startswith("np::"):
        return False
    effects = node_effects(user)
    known = not effects.wildcard and not effects.observable
    passed_on = (*effects.keeps, *effects.passes, *effects.stores)
    if not all(is_immutable(output.type) for output in user.outputs):
        passed_on += effects.aliases
    touched = (*effects.reads, *effects.writes)
    return known and use.index in touched and use.index not in passed_on
