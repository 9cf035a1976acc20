"""Calls of functions of Python's library that have a definition, where all may become native."""

from __future__ import annotations

from typing import Any

from jitcore.ir.classes import bind_arguments
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops.library_functions import DEFINITIONS
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
    return _rewritten(graph, compile_function, {})


def _rewritten(graph: Graph, compile_function: CompileFunction, known: dict[Graph, Graph]) -> Graph:
    if graph in known:
        return known[graph]
    known[graph] = graph  # what calls itself is Python's
    called = {
        node.attributes["graph"]
        for node in graph.nodes()
        if node.kind == "prim::CallFunction" and isinstance(node.attributes.get("graph"), Graph)
    }
    changed = {one for one in called if _rewritten(one, compile_function, known) is not one}
    if not changed and not any(map(_definition, graph.nodes())):
        return graph
    twin = known[graph] = graph.copy()
    for node in list(twin.nodes()):
        held = node.attributes.get("graph")
        if isinstance(held, Graph) and held in changed:
            node.attributes["graph"] = known[held]
        elif _definition(node) is not None:
            _call(node, compile_function)
    return twin


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
