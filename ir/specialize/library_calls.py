"""Calls of functions of Python's library that have a definition, where all may become native."""

from __future__ import annotations

from typing import Any

from jitcore.ir.classes import bind_arguments
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.ops.library_functions import DEFINITIONS
from jitcore.ir.specialize.keyed_calls import call_with_key, keyed_definition
from jitcore.ir.specialize.typed_builder import CompileFunction

__all__ = ["with_definitions"]


def with_definitions(graph: Graph, compile_function: CompileFunction) -> Graph:
    """The graph with calls of definitions; itself where it calls none of these functions.

    Before::

        %f = prim::Constant[value=heapq.heappop]()
        %x = prim::Call(%f, %heap)

    After::

        %x = prim::CallFunction[name="heappop"](%heap)

    Python's own functions are faster where Python runs the program.
    """
    return _Definitions(graph, compile_function).rewritten(graph)


class _Definitions:
    """Makes copies of graphs, each once."""

    def __init__(self, root: Graph, compile_function: CompileFunction) -> None:
        self._compile_function = compile_function
        self._known: dict[Graph, Graph] = {}
        self._catches = any(node.kind == "prim::Try" for node in nodes_with_called(root))

    def rewritten(self, graph: Graph) -> Graph:
        """A graph with calls of definitions, in those that it calls, too."""
        if graph in self._known:
            return self._known[graph]
        self._known[graph] = graph  # what calls itself is Python's
        changed = {one for one in _called(graph) if self.rewritten(one) is not one}
        if not changed and not any(map(self._has_definition, graph.nodes())):
            return graph
        twin = self._known[graph] = graph.copy()
        for node in list(twin.nodes()):
            held = node.attributes.get("graph")
            if isinstance(held, Graph) and held in changed:
                node.attributes["graph"] = self._known[held]
            elif _definition(node) is not None:
                _call(node, self._compile_function)
            elif self._has_definition(node):
                call_with_key(node, self._compile_function)
        return twin

    def _has_definition(self, node: Node) -> bool:
        if _definition(node) is not None:
            return True
        # Where an exception is caught, Python has given a list its elements back.
        is_open = node.kind == "prim::CallMethod" and self._catches
        return not is_open and keyed_definition(node) is not None


def _called(graph: Graph) -> set[Graph]:
    held = (
        one.attributes.get("graph") for one in graph.nodes() if one.kind == "prim::CallFunction"
    )
    return {one for one in held if isinstance(one, Graph)}


def _definition(node: Node) -> Any:
    """What a call does, as a function that can be compiled; None of all other nodes."""
    if node.kind != "prim::Call" or "starred" in node.attributes:
        return None
    callee = node.inputs[0].constant
    found = None if callee is None else DEFINITIONS.get(id(callee.attributes["value"]))
    return None if found is None else found[1]


def _call(node: Node, compile_function: CompileFunction) -> None:
    """Call the definition, unless Python has to say what is wrong with the arguments."""
    definition = _definition(node)
    if isinstance(definition, type):
        made = node.insert_before("prim::Constant", attributes={"value": definition})
        node.set_input(0, made.output)
        return
    positional = node.inputs[1 : len(node.inputs) - len(node.keywords)]
    given = node.inputs[1 + len(positional) :]
    keywords = dict(zip(node.keywords, given, strict=True))

    def default(parameter: Any) -> Value:
        return node.insert_before("prim::Constant", attributes={"value": parameter.default}).output

    bound = bind_arguments(definition, positional, keywords, default, tuple)
    graph = compile_function(definition)
    if bound is None or graph is None:
        return
    graph = graph.copy()
    for one in graph.nodes():
        one.source = node.source
    attributes = {"graph": graph, "name": definition.__name__}
    made = node.insert_before("prim::CallFunction", bound, attributes)
    made.source = node.source
    node.output.replace_all_uses_with(made.output)
    node.destroy()
