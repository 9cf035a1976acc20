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

__all__ = ["captured_statics", "folded", "is_final", "parameters_of"]


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
    """A copy of a graph in which the arrays of layers are final, but for those that are kept."""
    twin = graph.copy()
    for capture, static in captured_statics(twin):
        if capture.input is not None and is_final(static, frozen):
            final = frozen.constant(static)
            capture.path, capture.read, capture.value = final.path, final.read, final.value
            capture.container, capture.key = final.container, final.name
    return twin


def is_final(static: Static, frozen: Frozen) -> bool:
    """Whether something captured is an array in a layer that nothing changes."""
    of_layer = isinstance(static.container, dict) and "_registered" in static.container
    return of_layer and isinstance(static.value, np.ndarray) and not frozen.keeps(static)


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
