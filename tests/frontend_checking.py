"""Defines functions from text, makes their graphs, and compares them with the functions."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from jitcore.frontend import compile_function
from jitcore.ir.graph import Graph
from jitcore.ir.interpreter import run
from jitcore.ir.ops import kind_of
from jitcore.ir.verifier import verify

_COUNT = iter(range(1 << 30))


def define(text: str, name: str = "f", **names: Any) -> FunctionType:
    """Run the text of a function, registered with linecache as a notebook's cell is."""
    file = f"<frontend test {next(_COUNT)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = dict(names)
    exec(compile(text, file, "exec"), namespace)
    function = namespace[name]
    assert isinstance(function, FunctionType)
    return function


def build(function: Callable[..., Any]) -> Graph:
    """The graph of a function, verified."""
    assert isinstance(function, FunctionType)
    graph = compile_function(function, lookup_op=kind_of)
    verify(graph)
    return graph


def build_text(text: str, **names: Any) -> Graph:
    """The graph of a function that is given as text."""
    return build(define(text, **names))


def kinds(graph: Graph) -> list[str]:
    """The kinds of a graph's nodes, in order."""
    return [node.kind for node in graph.nodes()]


def paths(graph: Graph) -> list[str]:
    """What a graph captures, as the function's text would name it."""
    return [capture.path for capture in graph.captures]


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """What a call gives: its result, or the type and text of its exception."""
    try:
        return ("value", call())
    except NameError as error:
        # What a comprehension reads of the function around it is a free variable up to Python
        # 3.11, and the error then not an UnboundLocalError.
        return (NameError, re.findall("'.*?'", str(error))[0])
    except Exception as error:
        return (type(error), str(error), repr(error.__cause__))


def check(function: FunctionType, calls: Iterable[tuple[Any, ...]]) -> None:
    """Compare the function's graph with the function; lists among the arguments show effects."""
    graph = build(function)
    for args in calls:
        ours = [list(arg) if isinstance(arg, list) else arg for arg in args]
        theirs = [list(arg) if isinstance(arg, list) else arg for arg in args]
        assert outcome(lambda: run(graph, ours)) == outcome(lambda: function(*theirs))
        assert ours == theirs
