"""Functions that are compiled for themselves, because they are not native where they are called.

What a function calls is compiled with it, in place.  That is best where all of it is native.  Where
Python runs the function, and loops of a called one are left to it, that one may still be native
from end to end: lists, objects and variables that change their type are values there.  Then the
caller's program calls its compiled form, which falls back to the plain function.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from types import FunctionType
from typing import Any

from jitcore.errors import CompilationError
from jitcore.frontend.callees import python_call
from jitcore.frontend.constants import wrapped_function
from jitcore.ir.graph import LOOPS, Graph, Node, SourceRange

__all__ = ["compiled_apart", "functions_with", "loops_of", "with_functions_apart"]

_CALL = "prim::CallFunction"


def loops_of(graph: Graph) -> set[SourceRange]:
    """Where the loops are that a graph's own nodes have, and no region in it."""
    return {node.source for node in graph.nodes() if node.kind in LOOPS and node.source}


def functions_with(
    graph: Graph,
    loops: Collection[SourceRange],
    known: Mapping[Callable[..., Any], Any],
    numerics: str,
) -> dict[Callable[..., Any], Any]:
    """The functions that a graph calls, at any depth, and that have one of these loops.

    Each comes with its compiled form for this arithmetic; those that are ``known`` come again.
    """
    found: dict[Callable[..., Any], Any] = {}
    for called in _called(graph, {graph}):
        plain = called.plain
        if plain is None or plain in found:
            continue
        form = known.get(plain)
        if form is None and loops_of(called).isdisjoint(loops):
            continue
        if form is None or form.numerics != numerics:
            function = wrapped_function(plain)
            form = None if function is None else compiled_apart(function, numerics)
        if form is not None:
            found[plain] = form
    return found


def _called(graph: Graph, seen: set[Graph]) -> Iterator[Graph]:
    for node in graph.nodes():
        held = node.attributes.get("graph")
        if node.kind == _CALL and isinstance(held, Graph) and held not in seen:
            seen.add(held)
            yield held
            yield from _called(held, seen)


def compiled_apart(function: FunctionType, numerics: str | None) -> Any:
    """The compiled form of a function for itself, with its caller's arithmetic; None without."""
    try:
        return import_module("jitcore.script").script(function, numerics=numerics)
    except CompilationError:
        return None


def with_functions_apart(graph: Graph, apart: dict[Callable[..., Any], Any]) -> Graph:
    """A copy of a generic graph that has calls of these functions' compiled forms.

    Before::

        %y = prim::CallFunction[name="f"](%x)

    After::

        %f = prim::Constant[value=<compiled f>]
        %y = prim::Call(%f, %x)
    """
    return _copy(graph, apart, {})


def _copy(graph: Graph, apart: dict[Callable[..., Any], Any], made: dict[Graph, Graph]) -> Graph:
    if graph in made:
        return made[graph]
    copied = made[graph] = graph.copy()
    for node in list(copied.nodes()):
        held = node.attributes.get("graph")
        if node.kind != _CALL or not isinstance(held, Graph):
            continue
        if held.plain in apart:
            _call(node, held, apart[held.plain])
        else:
            node.attributes["graph"] = _copy(held, apart, made)
    return copied


def _call(node: Node, held: Graph, form: Any) -> None:
    """Put a call of the compiled form in the place of a node, without what the graph captures."""
    captured = sum(capture.input is not None for capture in held.captures)
    given = node.inputs[: len(node.inputs) - captured]
    callee = node.insert_before("prim::Constant", attributes={"value": python_call(form)})
    call = node.insert_before("prim::Call", [callee.output, *given])
    node.output.replace_all_uses_with(call.output)
    node.destroy()
