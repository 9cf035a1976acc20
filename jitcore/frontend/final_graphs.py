"""Compiled functions that are only a graph, as the front end calls them."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

from jitcore.frontend.layers import Frozen
from jitcore.frontend.names import Static
from jitcore.ir.graph import Capture, Graph

__all__ = ["captured_statics", "folded", "is_final", "of_layer", "parameters_of"]


def parameters_of(function: Any) -> ast.arguments:
    """The parameters of a function that has a signature and no source."""
    signature = inspect.signature(function)
    kinds: dict[Any, list[ast.arg]] = {kind: [] for kind in inspect._ParameterKind}
    for parameter in signature.parameters.values():
        kinds[parameter.kind].append(ast.arg(parameter.name))
    keyword_only = kinds[inspect.Parameter.KEYWORD_ONLY]
    return ast.arguments(
        posonlyargs=kinds[inspect.Parameter.POSITIONAL_ONLY],
        args=kinds[inspect.Parameter.POSITIONAL_OR_KEYWORD],
        vararg=next(iter(kinds[inspect.Parameter.VAR_POSITIONAL]), None),
        kwonlyargs=keyword_only,
        kw_defaults=[None] * len(keyword_only),
        kwarg=next(iter(kinds[inspect.Parameter.VAR_KEYWORD]), None),
        defaults=[],
    )


def folded(graph: Graph, frozen: Frozen) -> Graph:
    """A copy of a graph in which what layers hold is final, but for what is kept."""
    twin = graph.copy()
    captures = []
    for capture, static in captured_statics(twin):
        capture.value = static.value
        if capture.input is not None and is_final(static, frozen):
            final = frozen.constant(static)
            capture.path, capture.read, capture.value = final.path, final.read, final.value
            capture.container, capture.key = final.container, final.name
        if capture.input is not None or not of_layer(capture) or frozen.keeps(static):
            captures.append(capture)
    twin.captures = captures
    for node in twin.nodes():
        for name, held in node.attributes.items():
            if isinstance(held, Graph):
                node.attributes[name] = folded(held, frozen)
    return twin


def is_final(static: Static, frozen: Frozen) -> bool:
    """Whether something captured is an array in a layer that nothing changes."""
    return of_layer(static) and isinstance(static.value, np.ndarray) and not frozen.keeps(static)


def of_layer(captured: Static | Capture) -> bool:
    """Whether something captured is an attribute of a layer."""
    return isinstance(captured.container, dict) and "_registered" in captured.container


def captured_statics(graph: Graph) -> Iterator[tuple[Capture, Static]]:
    """What a graph captures, as another graph that calls it captures the same."""
    for capture in graph.captures:
        yield (
            capture,
            Static(
                capture.read(),
                capture.path,
                capture.read,
                id(capture.container),
                container=capture.container,
                name=capture.key,
            ),
        )
