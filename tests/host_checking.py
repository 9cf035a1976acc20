"""Host programs beside the graphs and the functions that they are of."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

from graph_checking import compiled_graph, specialized

from checking import observed
from jitcore.codegen.host import build_host, print_host
from jitcore.ir.graph import Graph
from jitcore.ir.interpreter import run
from jitcore.ir.parser import parse_graph

__all__ = [
    "expected",
    "graph_of",
    "noting",
    "same_as_graph",
    "same_as_python",
    "source_of",
]


def noting(calls: list[Any]) -> Callable[[Any], Any]:
    """A function that gives its argument back and notes it."""

    def note(x: Any) -> Any:
        calls.append(x)
        return x

    return note


def graph_of(text: str) -> Graph:
    return parse_graph(textwrap.dedent(text).strip())


def source_of(function: Callable[..., Any]) -> str:
    return print_host(compiled_graph(function)).source


def expected(text: str) -> str:
    return textwrap.dedent(text).lstrip()


def same_as_graph(graph: Graph, *args: Any) -> None:
    assert observed(build_host(graph), args) == observed(lambda *copies: run(graph, copies), args)


def same_as_python(function: Callable[..., Any], *args: Any) -> None:
    """The host programs of the generic and the typed graph do what the function does."""
    wanted = observed(function, args)
    graph = compiled_graph(function)
    assert observed(build_host(graph), args) == wanted
    for dynamic in (False, True):
        assert observed(build_host(specialized(graph, args, dynamic=dynamic)), args) == wanted
