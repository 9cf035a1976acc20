"""The graphs that a script function has, each for some values of what it captures."""

from __future__ import annotations

import functools

from jitcore.executor import Executor
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph

__all__ = ["Form", "calls", "holds"]


@dataclass(frozen=True, slots=True)
class Form:
    """The graph for some values of what a function captures, and how its calls begin.

    Parameters
    ----------
    graph : Graph
    executor : Executor
    is_guarded : bool
        Entries check all that the graph assumes.
    is_recursive : bool
        The graph calls the function itself.
    """

    graph: Graph
    executor: Executor
    is_guarded: bool
    is_recursive: bool


def holds(graph: Graph) -> bool:
    """Whether all that a graph takes for constant is as it was."""
    return all(one.input is not None or one.read() is one.value for one in graph.captures)


def calls(graph: Graph, function: object) -> bool:
    """Whether a graph, or what it calls, calls a function as recursion does."""
    for node in graph.nodes():
        held = node.attributes.get("value")
        if isinstance(held, functools.partial) and held.func is function:
            return True
        called = node.attributes.get("graph")
        if isinstance(called, Graph) and calls(called, function):
            return True
    return False
