"""Arrays that the function has made and gives another shape in place, as values.

Where the array is the function's own and known under one name, what follows reads another value,
which is the same object with other extents:

    %x : Any = np::ones(%6)                    %x.1 : Float64[6] = np::ones(%6)
     = prim::SetShape(%x, %shape)        ->    %x.2 : Float64[2, 3] = np::set_shape(%x.1, %2, %3)
    %y : Any = np::sin(%x)                     %y : Float64[2, 3] = np::sin(%x.2)

Of all other arrays whose metadata is set nothing is known (see ``metadata``).
"""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.ops.op import Untypable
from jitcore.ir.passes.inline import inline
from jitcore.ir.specialize.branches import BranchBuilder, Environment
from jitcore.ir.specialize.metadata import METADATA
from jitcore.ir.types import TensorType

__all__ = ["NotTheOnlyName", "set_shape", "with_set_shapes"]


class NotTheOnlyName(Exception):
    """An array that gets another shape may be known elsewhere, or its new shape is not known."""


def with_set_shapes(graph: Graph) -> Iterator[Graph]:
    """The forms of a generic graph to try: with shapes that are set as values, and without."""
    if not _sets_metadata(graph):
        yield graph
        return
    plain = graph.copy()
    inline(plain, lambda call: _sets_metadata(call.attributes["graph"]))
    twin = plain.copy()
    setters = [node for node in twin.find_all_nodes("prim::SetAttr") if _may_be_value(node)]
    for node in setters:
        node.kind = "prim::SetShape"
    if setters:
        yield twin
    yield plain


def _sets_metadata(graph: Graph) -> bool:
    """Whether a function, or one that it calls, sets the metadata of an array."""
    return any(
        node.kind == "prim::SetAttr" and node.attributes["name"] in METADATA
        for node in nodes_with_called(graph)
    )


def _may_be_value(node: Node) -> bool:
    """Whether a node sets the shape of what was made in the same block."""
    made = node.inputs[0].node
    return node.attributes["name"] == "shape" and made is not None and made.block is node.block


def set_shape(worker: BranchBuilder, node: Node, environment: Environment) -> None:
    """Have the name of an array stand for the array in its new shape from here on.

    Raises
    ------
    NotTheOnlyName
        Something else may be the same array.
    """
    name = node.inputs[0]
    array, shape = (environment[value] for value in node.inputs)
    is_known = any(value is array and other is not name for other, value in environment.items())
    if is_known or not _is_own(array):
        raise NotTheOnlyName
    try:
        environment[name] = worker.op("np::set_shape", array, shape)
    except Untypable as reason:
        raise NotTheOnlyName from reason


def _is_own(array: Value) -> bool:
    """Whether an array is a new object, which nothing has been done with but NumPy's work."""
    type_, node = array.type, array.node
    if not isinstance(type_, TensorType) or type_.scalar or node is None:
        return False
    is_new = node.kind in _NEW_OBJECTS or not node_effects(node).aliases
    users = (use.user for use in array.uses)
    is_read = all(isinstance(one, Node) and one.kind.startswith(_READERS) for one in users)
    return is_new and is_read and node.kind.startswith("np::")


_NEW_OBJECTS = frozenset({"np::view", "np::transpose", "np::reshape", "np::set_shape"})
"""Kinds whose results are objects of their own, where they share memory."""

_READERS = ("np::", "prim::size")
"""What does not keep the array itself."""
