"""Gives the values of a graph other names and keeps the graph's count of them right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitcore.ir.graph import Block, Graph, Value

__all__ = ["all_values", "base_name", "reserve_names"]


def all_values(block: Block) -> Iterator[Value]:
    """The values of a block and of those inside it, in the order in which the text defines them."""
    yield from block.params
    for node in block.nodes:
        yield from node.outputs
        for inner in node.blocks:
            yield from all_values(inner)


def base_name(name: str) -> str:
    """The name without its number: ``x`` for ``x.1``, and nothing for ``7``."""
    base = name.partition(".")[0]
    return "" if base.isdecimal() else base


def reserve_names(graph: Graph, names: Iterable[str]) -> None:
    """Say that the graph's values have exactly these names, so that new ones differ from them.

    Given    : a graph whose values were named ``%x``, ``%x.1`` and ``%3`` by hand
    Execute  : ``reserve_names(graph, ["x", "x.1", "3"])``
    Result   : ``graph.unique_name("x")`` is ``x.2`` and ``graph.unique_name("")`` is ``0``
    """
    graph._names = set(names)
    graph._counts = {}
