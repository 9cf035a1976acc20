"""Functions as rows of the table: parameters, graph, and what the graph takes from elsewhere."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

from jitcore.errors import CompilationError, SerializationError
from jitcore.frontend import compile_function, is_library
from jitcore.frontend.constants import saved_program
from jitcore.frontend.function_values import Maker
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Capture, Constants, Graph, Node
from jitcore.ir.ops import kind_of
from jitcore.script import ScriptFunction
from jitcore.serialization.graphs import all_graphs, graph_text
from jitcore.serialization.places import excerpt_of, shown

if TYPE_CHECKING:
    from jitcore.serialization.writer import Row, Writer

__all__ = [
    "Unknown",
    "describe_form",
    "describe_function",
    "describe_maker",
    "describe_parameters",
    "maker_of",
]


def describe_function(writer: Writer, function: Any, number: int) -> Row:
    """The row of a script function, or of a plain function that a program uses as a value."""
    scripted = isinstance(function, ScriptFunction)
    graph = function.current_graph() if scripted else _graph_of(function)
    plain = function.__wrapped_function__ if scripted else function
    return {
        "kind": "function",
        **_names(plain),
        "script": scripted,
        "numerics": function.numerics if scripted else None,
        "parameters": describe_parameters(writer, inspect.signature(plain, follow_wrapped=False)),
        "forms": [describe_form(writer, graph)],
    }


def _names(function: Any) -> dict[str, str]:
    module = function.__module__
    return {
        "name": function.__name__,
        "qualified": function.__qualname__,
        "module": module if isinstance(module, str) else "",
    }


def _graph_of(function: FunctionType) -> Graph:
    """The generic graph of a plain function."""
    program = saved_program(function)
    if program is not None:
        found: Graph = program.graph()
        return found
    if is_library(function.__code__.co_filename):
        raise SerializationError(
            f"cannot save {shown(function)} of {function.__module__}: it is none that a saved "
            "program may use"
        )
    try:
        return compile_function(function, lookup_op=kind_of)
    except CompilationError as error:
        raise SerializationError(f"cannot save {shown(function)}: {error}") from error


def describe_parameters(writer: Writer, signature: inspect.Signature) -> list[list[Any]]:
    """Name, kind and default of each parameter; a list without an element has no default."""
    return [
        [
            one.name,
            one.kind.name,
            [] if one.default is one.empty else [writer.reference(one.default)],
        ]
        for one in signature.parameters.values()
    ]


def describe_form(
    writer: Writer, graph: Graph, captured: Sequence[tuple[Any, str]] = ()
) -> dict[str, Any]:
    """A graph, the sources of its inputs besides the parameters, and what it takes for granted.

    Parameters
    ----------
    writer : Writer
    graph : Graph
    captured : sequence of cell and str
        The variables that a function that is made while the program runs gets then.
    """
    graphs = all_graphs(graph)
    for one in graphs:
        writer.check_graph(one)
    writer.graphs += graphs
    text = graph_text(graph, writer.number_at)
    captures = {one.input: one for one in graph.captures if one.input is not None}
    sources = [
        [value.name, _source(writer, captures[value], captured)]
        for value in graph.inputs
        if value in captures
    ]
    guards = [
        [module, one.key, None if one.value is MISSING else writer.reference(one.value)]
        for one in graph.captures
        if one.input is None and (module := _layer_of(writer, one)) is not None
    ]
    return {
        "graph": writer.entry("graphs", f"{graph.name}.ir", text.encode()),
        "names": [[one.name, one.doc] for one in graphs],
        "sources": sources,
        "guards": guards,
    }


def _layer_of(writer: Writer, capture: Capture) -> int | None:
    """The number of the layer whose attribute a capture is."""
    layer = writer.layers.find(capture.container)
    return None if layer is None else writer.number(layer)


def _source(writer: Writer, capture: Capture, captured: Sequence[tuple[Any, str]]) -> Any:
    """Where a graph input comes from."""
    for cell, name in captured:
        if capture.container is cell and capture.key == name:
            return {"variable": name}
    place = writer.layers.place(capture.container, capture.key)
    if place is not None:
        return {"place": place}
    layer = _layer_of(writer, capture)
    value = capture.read()
    try:
        reference = None if value is MISSING else writer.reference(value)
    except SerializationError as error:
        assert capture.input is not None
        readers = [one.user for one in capture.input.uses if isinstance(one.user, Node)]
        has_place = "\n" in str(error)
        where = excerpt_of(readers[0]) if readers and not has_place else ""
        raise SerializationError(f"'{capture.path}': {error}{where}") from error
    if layer is not None:
        return {"layer": layer, "attribute": capture.key}
    return {"object": reference, "final": isinstance(capture.container, Constants)}


# Functions that are made while the program runs


def maker_of(value: Any) -> Maker | None:
    """What is known of the function that makes functions of one nested function or lambda."""
    found = vars(value).get("__jitcore_maker__") if isinstance(value, FunctionType) else None
    return found if isinstance(found, Maker) else None


class Unknown:
    """Stands for a variable that is known when the function is made."""


def describe_maker(writer: Writer, make: Any, number: int) -> Row:
    """The row of what makes functions of a nested function."""
    maker = maker_of(make)
    assert maker is not None
    for name in sorted(maker.shared):
        raise SerializationError(
            f"cannot save the nested function '{make.__name__}', which is passed on or stored and "
            f"reads '{name}', a variable that may change afterwards"
        )
    sample = make((), {}, *(Unknown() for _ in maker.captured))
    if sample.__code__.co_flags & inspect.CO_GENERATOR:
        raise SerializationError("cannot save a generator that is passed on; write a list")
    held: dict[str, Any] | None = vars(make).get("__jitcore_variables__")
    if held is not None:
        graph = saved_program(make).graph()
        captured = [(held, name) for name in maker.captured]
    else:
        graph = _graph_of(sample)
        cells = dict(zip(sample.__code__.co_freevars, sample.__closure__ or (), strict=True))
        captured = [(cells[name], name) for name in maker.captured]
    return {
        "kind": "maker",
        **_names(sample),
        "parameters": describe_parameters(writer, inspect.signature(sample)),
        "variables": list(maker.captured),
        "forms": [describe_form(writer, graph, captured)],
    }
