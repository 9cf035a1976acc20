"""Ints that say how to reshape: a negative one among them stands for what is left.

Compiled code knows which one that is where it is a constant.  Else it leaves the call to Python,
and does so before it writes anything, since Python begins from the start.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.codegen.lowering.arithmetic import ZERO, compare
from jitcore.codegen.lowering.python_numbers import as_int
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.graph import Graph, Value
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.types import INT

__all__ = ["leave_negative_extents"]


def leave_negative_extents(lowering: Lowering, graph: Graph) -> None:
    """Leave calls in which such an argument is negative to Python, if arguments are written."""
    if lowering.writes:
        for value in dict.fromkeys(_extents(graph)):
            if value in graph.inputs and value.type == INT:
                is_negative = compare("lt", as_int(lowering, value), ZERO)
                lowering.fail(is_negative, None, "a negative extent")


def _extents(graph: Graph) -> Iterator[Value]:
    """The values that reshapes get as extents; of what groups get, the values outside."""
    outside: dict[Value, Value] = {}
    for node in nodes_with_called(graph):
        held = node.attributes.get("graph")
        if isinstance(held, Graph):
            outside.update(zip(held.inputs, node.inputs, strict=False))
        if node.kind == "np::reshape":
            yield from (outside.get(value, value) for value in node.inputs[1:])
