"""Functions that name those that call them: they ask Python for the calls on the stack.

Such a call must not be walked in place, where no call of it would be left::

    %f = prim::Constant[value=<function _warnings.warn>]()
    %1 = prim::Call(%f, %message, stacklevel=%level)
"""

from __future__ import annotations

import warnings

from jitcore.ir.graph import Graph, Node
from jitcore.ir.nesting import nodes_with_called

__all__ = ["names_callers"]

_ARGUMENTS = 3
"""With so many, the function included, a warning has no place of its own."""


def names_callers(graph: Graph) -> bool:
    """Whether a graph, or what it calls, has a warning that is not of its own line."""
    return any(map(_is_of_a_caller, nodes_with_called(graph)))


def _is_of_a_caller(node: Node) -> bool:
    if node.kind != "prim::Call" or not (node.keywords or len(node.inputs) > _ARGUMENTS):
        return False
    called = node.inputs[0].node
    return called is not None and called.attributes.get("value") is warnings.warn
