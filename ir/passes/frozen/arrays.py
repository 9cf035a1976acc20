"""Arrays that are constant in a frozen graph.

They are inputs of the graph, because that is how compiled code takes arrays, captured from a
namespace that nothing changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Capture, Constants, Graph, Node, Value
from jitcore.ir.names import base_name
from jitcore.ir.types import type_of_constant

__all__ = [
    "add_array",
    "array_of",
    "constant_of",
    "drop_unused_arrays",
    "insert_layer",
    "is_constant",
    "items_of",
    "number_of",
    "replace_by_constant",
]

Array = np.ndarray[Any, np.dtype[Any]]


def array_of(value: Value) -> Array | None:
    """The array that a value always is, or None."""
    if value.node is not None:
        held = value.constant_value
        return held if issubclass(type(held), np.ndarray) else None
    if value.block is None or value not in value.block.graph.inputs:
        return None
    for capture in value.block.graph.captures:
        if capture.input is value and isinstance(capture.container, Constants):
            return capture.value if isinstance(capture.value, np.ndarray) else None
    return None


def constant_of(value: Value) -> Any:
    """What a value always is; `is_constant` says whether that is known."""
    return array_of(value) if value.constant is None else value.constant_value


def is_constant(value: Value) -> bool:
    """Whether it is known what a value is."""
    return value.constant is not None or array_of(value) is not None


def number_of(value: Value) -> int | float | None:
    """The Python number that a value always is, or None; bools are no numbers here."""
    held = value.constant_value
    return held if type(held) in (int, float) else None


def items_of(value: Value) -> tuple[Any, ...] | None:
    """The items of a tuple that always has the same, or None; those that vary are None."""
    node = value.node
    if node is not None and node.kind == "prim::TupleConstruct":
        return tuple(one.constant_value for one in node.inputs)
    held = value.constant_value
    return held if isinstance(held, tuple) else None


def add_array(graph: Graph, array: Array, name: str) -> Value:
    """A new constant array, as an input of the graph."""
    held = np.ascontiguousarray(array).reshape(array.shape)
    value = graph.block.add_param(type_of_constant(held), name)
    namespace = Constants({value.name: held})
    graph.captures.append(
        Capture(value.name, lambda: held, held, value, container=namespace, key=value.name)
    )
    return value


def drop_unused_arrays(graph: Graph) -> bool:
    """Forget the captured arrays and other objects that nothing reads."""
    unused = {
        capture.input
        for capture in graph.captures
        if capture.input is not None and not capture.input.uses
    }
    graph.captures = [one for one in graph.captures if one.input not in unused or one.input is None]
    graph.block.params = [one for one in graph.block.params if one not in unused]
    return bool(unused)


def insert_layer(node: Node, kind: str, inputs: list[Value], name: str | None = None) -> Node:
    """A function of layers right before another one, in its place in the source and its layers.

    The output gets a name like that of the other one's, or ``name``.
    """
    name = base_name(node.output.name) if name is None else name
    made = node.insert_before(kind, inputs, outputs=[node.output.type], names=[name])
    if "layers" in node.attributes:
        made.attributes["layers"] = node.attributes["layers"]
    return made


def replace_by_constant(node: Node, value: Any) -> None:
    """Put a ``prim::Constant`` in the place of a node."""
    made = node.insert_before(
        "prim::Constant", (), {"value": value}, outputs=[type_of_constant(value)]
    )
    node.output.replace_all_uses_with(made.output)
    node.destroy()
