"""The graphs of functions and methods that have to do with objects, for ``specialize`` to walk."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from types import FunctionType
from typing import Any

from jitcore.ir.classes import is_record_class
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.passes.inline import inline
from jitcore.ir.specialize.caught_errors import with_branches_for_errors
from jitcore.ir.specialize.lists.local_lists import with_local_lists
from jitcore.ir.types import OpenFunction

__all__ = ["Methods", "is_made"]

CompileFunction = Callable[[Any], "Graph | None"]


class Methods:
    """The graphs of functions and methods, with objects as values.

    Parameters
    ----------
    compile_function : callable
        The front end.
    notes_attributes : bool
        Note what attributes of arguments are wherever they are set.
    """

    def __init__(self, compile_function: CompileFunction, *, notes_attributes: bool) -> None:
        self._compile_function = compile_function
        self.notes_attributes = notes_attributes
        self._graphs: dict[FunctionType | OpenFunction, Graph | None] = {}
        self._sharing: dict[FunctionType | OpenFunction, Graph | None] = {}

    def function(self, graph: Graph, arguments: Collection[int]) -> Graph | None:
        """A copy of a function's graph for objects as values; None where it has none.

        Parameters
        ----------
        graph : Graph
        arguments : collection of int
            The numbers of inputs that are objects, functions, or lists of objects.
        """
        if not arguments and not _makes_objects(graph):
            return None
        twin = graph.copy()
        inline(twin, partial(_concerns_objects, {twin.inputs[number] for number in arguments}))
        return twin

    def graph(self, function: FunctionType | OpenFunction, *, shares_lists: bool) -> Graph | None:
        """The graph of a function, in which lists may be shared ones."""
        found = self.plain(function)
        if found is None or not shares_lists:
            return found
        if function not in self._sharing:
            self._sharing[function] = with_local_lists(found, "shared") or found
        return self._sharing[function]

    def plain(self, function: FunctionType | OpenFunction) -> Graph | None:
        """The graph of a function, the variables of one that is open after its parameters."""
        if function not in self._graphs:
            found = self._compile_function(function)
            has_inputs = found is not None and any(one.input for one in found.captures)
            if has_inputs or found is None:
                self._graphs[function] = None
            else:
                self._graphs[function] = _without_super(with_branches_for_errors(found))
        return self._graphs[function]


def _without_super(graph: Graph) -> Graph:
    """A method's graph in which ``super().name(...)`` is a call that says where to look."""
    twin = graph.copy()
    for node in twin.find_all_nodes("prim::CallMethod"):
        bases = node.inputs[0].node
        if bases is None or bases.kind != "prim::Call" or len(bases.inputs) != 3:
            continue
        callee, above, own = bases.inputs
        if callee.constant_value is super and isinstance(above.constant_value, type):
            node.set_input(0, own)
            node.attributes["above"] = above.constant_value
            if not bases.output.uses:
                bases.destroy()
    return twin


def is_made(node: Node) -> bool:
    """Whether a node makes an object of a plain class."""
    if node.kind != "prim::Call" or "starred" in node.attributes or "**" in node.keywords:
        return False
    return is_record_class(node.inputs[0].constant_value)


def _makes_objects(graph: Graph) -> bool:
    """Whether a function, or one that it calls, makes objects of such a class."""
    return any(map(is_made, nodes_with_called(graph)))


def _concerns_objects(passed: Collection[Value], call: Node) -> bool:
    """Whether a called function makes objects, or gets one that is known here."""
    if "layer" in call.attributes:
        return False
    if any(value in passed or _is_made_here(value) for value in call.inputs):
        return True
    return _makes_objects(call.attributes["graph"])


def _is_made_here(value: Value) -> bool:
    return value.node is not None and is_made(value.node)
