"""Exceptions that the program catches, and compiled code cannot: Python begins anew."""

from __future__ import annotations

from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.graph import Graph, SourceRange

__all__ = ["check_caught"]


def check_caught(lowering: Lowering, graph: Graph) -> None:
    """Refuse what may end a function after writes where the program goes on."""
    if not graph.caught:
        return
    caught = _grouped(graph)
    for site in lowering.sites:
        if site.after_write and (site.source is None or site.source in caught):
            raise NotNative("exceptions that are caught after arrays are written")


def _grouped(graph: Graph) -> set[SourceRange]:
    """The places where exceptions are caught, and those that share a group with one."""
    found = set(graph.caught)
    for group in graph.find_all_nodes("prim::FusionGroup"):
        nodes = (group, *group.attributes["graph"].nodes())
        sources = {node.source for node in nodes if node.source is not None}
        if sources & graph.caught:
            found |= sources
    return found
