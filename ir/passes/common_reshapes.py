"""Elementwise operations on reshaped arrays of one shape, before the reshape."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import lies_in
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import known_dims
from jitcore.ir.types import INT, NONE, TensorType

__all__ = ["read_stored_values", "reshape_results"]


def read_stored_values(graph: Graph) -> bool:
    """Have what was written to a fresh array read where it came from.

    Before::

        graph(%x : Float32[n, 1], %i : int, %j : int, %k : int):
          %0 : Float32[n, m] = np::empty[dtype=dtype("float32")](%i, %j)
          %1 : None = np::store(%0, %x)
          %2 : Float32[s] = np::reshape(%0, %k)
          return (%2)

    After::

        graph(%x : Float32[n, 1], %i : int, %j : int, %k : int):
          %3 : Float32[n, m] = np::broadcast_to(%x, %i, %j)
          %2 : Float32[s] = np::reshape(%3, %k)
          return (%2)

    Only for readers whose results do not show the order of an array in memory, such as ``reshape``
    and other stores, and where nobody else sees the array.
    """
    changed = False
    analysis: AliasAnalysis | None = None
    # The last one first: what is stored to an array may be an array that is stored to.
    for made in reversed(list(graph.find_all_nodes("np::empty"))):
        if analysis is None:
            analysis = AliasAnalysis(graph, distinct_inputs=True)
        store = _only_store(analysis, made)
        if store is None:
            continue
        log.update("common_reshapes", lambda: "read what is stored to a fresh array")
        value = store.inputs[1]
        if value.type != made.output.type:
            inputs = [value, *made.inputs]
            value = store.value_before("np::broadcast_to", inputs, made.output.type)
        store.destroy()
        for view in _unread_views(made.output):
            view.destroy()
        made.output.replace_all_uses_with(value)
        made.destroy()
        # What was changed is what the analysis knows of.
        analysis = None
        changed = True
    return changed


def _only_store(analysis: AliasAnalysis, made: Node) -> Node | None:
    """The store that gives an array all of its elements, where nothing else writes any of them."""
    block, array = made.block, made.output
    assert block is not None
    writers = analysis.writers(array)
    if len(writers) != 1 or writers[0].kind != "np::store" or analysis.escapes(array):
        return None
    (store,) = writers
    if store.block is not block or store.inputs[0] is not array or store.inputs[1] is array:
        return None
    ignored = [store, *_unread_views(array)]
    readers = [use for use in array.uses if use.user not in ignored]
    place = block.nodes.index(store)
    for use in readers:
        user = use.user
        if not isinstance(user, Node) or user.block is not block or user not in block.nodes[place:]:
            return None
        if not (user.kind == "np::reshape" or (user.kind == "np::store" and use.index == 1)):
            return None
    value = store.inputs[1]
    is_array = isinstance(value.type, TensorType) and value.type.dims and not value.type.scalar
    return store if is_array and readers and not analysis.has_writers(value) else None


def _unread_views(array: Value) -> list[Node]:
    """The view that ``x[:] = y`` makes, of which the store needs only the array."""
    users = [use.user for use in array.uses]
    return [
        user
        for user in users
        if isinstance(user, Node) and user.kind == "np::view" and not user.output.uses
    ]


_REARRANGED = frozenset({"np::transpose", "np::broadcast_to"})
"""Views whose elements lie in another order than that of a reshape."""


def reshape_results(graph: Graph) -> bool:
    """Compute with the arrays that are reshaped, and reshape what comes out.

    Before::

        graph(%x : Float32[n, m], %y : Float32[m, n], %k : int):
          %0 : Float32[m, n] = np::transpose[axes=(1, 0)](%x)
          %1 : Float32[s] = np::reshape(%0, %k)
          %2 : Float32[s] = np::reshape(%y, %k)
          %3 : Float32[s] = np::add(%1, %2)
          %4 : Float32 = np::sum[axis=(0,), keepdims=False](%3)
          return (%4)

    After::

        graph(%x : Float32[n, m], %y : Float32[m, n], %k : int):
          %0 : Float32[m, n] = np::transpose[axes=(1, 0)](%x)
          %5 : Float32[m, n] = np::add(%0, %y)
          %6 : int = prim::size[dim=0](%0)
          %7 : int = prim::size[dim=1](%0)
          %8 : Float32[m, n] = np::empty[dtype=dtype("float32")](%6, %7)
          %9 : None = np::store(%8, %5)
          %10 : Float32[s] = np::reshape(%8, %k)
          %4 : Float32 = np::sum[axis=(0,), keepdims=False](%10)
          return (%4)

    A reshape of a transposed array copies it; one of a fresh array is a view.
    """
    if not graph.find_all_nodes("np::reshape"):
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    found = [
        node
        for node in graph.nodes()
        if len(node.outputs) == 1 and _is_common(analysis, node, _reshapes(node))
    ]
    for node in found:
        _rewrite(node, _reshapes(node))
    return bool(found)


def _reshapes(node: Node) -> list[Node]:
    """The reshapes that an elementwise operation reads; none where it reads other arrays too."""
    op = TABLE.get(node.kind)
    if op is None or op.scalar is None:
        return []
    made: list[Node] = []
    for value in node.inputs:
        if not isinstance(value.type, TensorType) or value.type.scalar:
            continue
        if value.node is None or value.node.kind != "np::reshape":
            return []
        made.append(value.node)
    return made


def _is_common(analysis: AliasAnalysis, node: Node, reshapes: Sequence[Node]) -> bool:
    """Whether all reshapes are of one shape, some of them copies that only the node reads."""
    if not reshapes or analysis.escapes(node.output):
        return False
    shapes = {known_dims(one.inputs[0]) for one in reshapes}
    results = {known_dims(one.output) for one in reshapes}
    if len(shapes) != 1 or results != {known_dims(node.output)} or None in shapes:
        return False
    alone = all(use.user is node for one in reshapes for use in one.output.uses)
    moved = any(_is_rearranged(one.inputs[0]) for one in reshapes)
    return alone and moved and all(_is_unchanged(analysis, one, node) for one in reshapes)


def _is_rearranged(value: Value) -> bool:
    return value.node is not None and value.node.kind in _REARRANGED


def _is_unchanged(analysis: AliasAnalysis, reshape: Node, node: Node) -> bool:
    """Whether nothing between a reshape and a node writes what is reshaped."""
    block = node.block
    writers = analysis.writers(reshape.inputs[0])
    if block is None or (writers and reshape.block is not block):
        return False
    if not writers:
        return True
    between = block.nodes[block.nodes.index(reshape) : block.nodes.index(node)]
    return not any(lies_in(writer, one) for writer in writers for one in between)


def _rewrite(node: Node, reshapes: Sequence[Node]) -> None:
    log.update("common_reshapes", lambda: f"compute {node!r} before the reshape")
    source, sizes = reshapes[0].inputs[0], reshapes[0].inputs[1:]
    dims = known_dims(source)
    type_ = node.output.type
    assert dims is not None and isinstance(type_, TensorType)
    before = {id(one.output): one.inputs[0] for one in reshapes}
    inputs = [before.get(id(value), value) for value in node.inputs]
    whole = TensorType(type_.dtype, dims)
    result = node.value_before(node.kind, inputs, whole, node.attributes)
    extents = [
        node.value_before("prim::size", [source], INT, {"dim": axis}) for axis in range(len(dims))
    ]
    target = node.value_before("np::empty", extents, whole, {"dtype": type_.dtype})
    node.value_before("np::store", [target, result], NONE)
    node.output.replace_all_uses_with(node.value_before("np::reshape", [target, *sizes], type_))
    node.destroy()
    for one in reshapes:
        if one.block is not None and not one.output.uses:
            one.destroy()
