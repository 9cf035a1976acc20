"""The graphs that a script function has, each for some values of what it captures."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from jitcore.errors import Error
from jitcore.execution.executor import Executor
from jitcore.execution.function_states import FunctionState
from jitcore.frontend.constants import is_number
from jitcore.frontend.names import Place
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture, Graph
from jitcore.ir.nesting import nodes_with_called

__all__ = ["Form", "VaryingNumbers", "calls", "holds", "number_captures", "run_watched"]

CHANGES = 3
"""How often a number may change before it is an input: a graph is made anew each time, in 30 ms."""


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
    code : tuple of FunctionState
        Of the functions that the graph was compiled from.
    """

    graph: Graph
    executor: Executor
    is_guarded: bool
    is_recursive: bool
    code: tuple[FunctionState, ...]

    def holds(self) -> bool:
        """Whether all that the graph was made of is as it was."""
        return holds(self.graph) and all(one.holds() for one in self.code)


def holds(graph: Graph) -> bool:
    """Whether all that a graph takes for constant is as it was, and all inputs are there."""
    return all(map(_is_as_taken, graph.captures))


def _is_as_taken(capture: Capture) -> bool:
    now = _read(capture)
    return now is capture.value if capture.input is None else now is not MISSING


def _read(capture: Capture) -> Any:
    """What is captured as it is now; ``MISSING`` where that has been deleted."""
    try:
        return capture.read()
    except (AttributeError, NameError):
        return MISSING


class VaryingNumbers:
    """Which numbers that a function reads from outside change from call to call.

    As constants they would have the function compiled anew each time.

    Attributes
    ----------
    places : set of Place
    """

    def __init__(self) -> None:
        self.places = set[Place]()
        self._changes = Counter[Place]()

    def note(self, graph: Graph) -> None:
        """Count the changes of the numbers that a graph has been wrong about."""
        for one in number_captures(graph):
            place = id(one.container), str(one.key)
            self._changes[place] += _read(one) is not one.value
            if self._changes[place] > CHANGES:
                self.places.add(place)


def number_captures(graph: Graph) -> Iterator[Capture]:
    """The captures of numbers that a graph takes for constant."""
    for one in graph.captures:
        if one.input is None and one.key is not None and is_number(one.value):
            yield one


def calls(graph: Graph, function: object) -> bool:
    """Whether a graph, or what it calls, calls a function as recursion does."""
    held: Any
    for node in nodes_with_called(graph):
        held = node.attributes.get("value")
        if issubclass(type(held), functools.partial) and held.func is function:
            return True
    return False


def run_watched(form: Form, parameters: tuple[Any, ...], captured: tuple[Any, ...]) -> Any:
    """Run a graph that cannot be made anew, beside code that may assign what it has read.

    Raises
    ------
    Error
        It has assigned some of that.
    """
    captures = form.graph.captures
    before = [one.read() for one in captures]
    result = form.executor.run(parameters, captured)
    pairs = zip(captures, before, strict=True)
    changed = [one.path for one, value in pairs if one.read() is not value]
    if changed:
        raise Error(
            f"'{form.executor.name}' has no source to be compiled from: it has read "
            f"{', '.join(changed)} when the call began, and code in the arguments has assigned "
            "that since.\nScript the module from its source, or assign it between calls."
        )
    return result
