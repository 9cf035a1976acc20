"""Rewrites of graphs, one file each."""

from __future__ import annotations

from importlib import import_module

from jitcore.ir.graph import Block, Graph

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
    if not _has_nodes(graph.block, kinds):
        return False
    file, _, name = place.partition(".")
    has_changed: bool = getattr(import_module(f"{__name__}.{file}"), name)(graph)
    return has_changed


def _has_nodes(block: Block, kinds: tuple[str, ...]) -> bool:
    """Whether a block has nodes of some kinds, in the blocks inside too."""
    if not {node.kind for node in block.nodes}.isdisjoint(kinds):
        return True
    return any(_has_nodes(inner, kinds) for node in block.nodes for inner in node.blocks)
