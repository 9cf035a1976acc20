"""Rewrites of graphs, one file each."""

from __future__ import annotations

from importlib import import_module

from jitcore.ir.graph import Graph

__all__ = ["run_where"]


def run_where(graph: Graph, place: str, *kinds: str) -> bool:
    """Run a pass on a graph that has nodes of one of these kinds: otherwise there is nothing to do.

    Parameters
    ----------
    graph : Graph
    place : str
        The pass as ``"file.function"``.  Its file is imported when it is run first: few programs
        need more than a few of the passes.
    *kinds : str
        Each of the nodes that it rewrites has one of these kinds, or reads one that has.

    Returns
    -------
    bool
        Whether it has changed anything.
    """
    if not any(node.kind in kinds for node in graph.nodes()):
        return False
    file, _, name = place.partition(".")
    has_changed: bool = getattr(import_module(f"{__name__}.{file}"), name)(graph)
    return has_changed
