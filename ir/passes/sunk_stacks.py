"""Stacks of a few arrays that are added up: each of the arrays is."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.may_raise import may_raise
from jitcore.ir.ops import is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, TensorType

__all__ = ["sink_stacks"]

_MOST_STACKED = 4
"""How many arrays a stack may have: the coordinates of points, or the channels of an image."""

_SUMS = frozenset({"np::sum", "np::mean"})


def sink_stacks(graph: Graph) -> bool:
    """Compute with the arrays that are stacked, and add these up, and not the stack.

    Before::

        graph(%x : Float64[n], %y : Float64[n], %z : Float64[n, 2]):
          %0 : Float64[n, 1] = np::view[index=":, None"](%x)
          %1 : Float64[n, 1] = np::view[index=":, None"](%y)
          %2 : Float64[n, 2] = np::concatenate[axis=1](%0, %1)
          %3 : Float64[n, 2] = np::multiply(%2, %z)
          %4 : Float64[2] = np::sum[axis=(0,), keepdims=False](%3)
          return (%4)

    After::

        graph(%x : Float64[n], %y : Float64[n], %z : Float64[n, 2]):
          %5 : Float64[n] = np::view[index=":, 0"](%z)
          %6 : Float64[n] = np::multiply(%x, %5)
          %7 : Float64[n] = np::view[index=":, 1"](%z)
          %8 : Float64[n] = np::multiply(%y, %7)
          %9 : Float64[1] = np::sum[axis=(0,), keepdims=True](%6)
          %10 : Float64[1] = np::sum[axis=(0,), keepdims=True](%8)
          %11 : Float64[2] = np::concatenate[axis=0](%9, %10)
          return (%11)

    So the torque of many forces, the sum of what `np.cross` gives, is one loop without an array.
    Each array is added up in any order, as all arrays of one axis are.  A stack that is a result
    stays what it is: its elements are computed and written side by side.
    """
    found = [node for node in graph.nodes() if _stacked(node)]
    if not any(map(_chain, found)):
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    changed = False
    for node in found:
        # What another stack was computed with before is not there any more.
        chain = _chain(node)
        if chain and _may_wait(analysis, node, chain):
            log.update("sunk_stacks", lambda: "add up what is stacked")
            _sink(analysis, node, chain)
            changed = True
    for node in found:
        if not node.output.uses:
            _remove(node)
    return changed


def _stacked(node: Node) -> list[Value]:
    """The arrays that a node stacks along a new last axis; none where it does something else."""
    dims = dims_of(node.output) if node.kind == "np::concatenate" else None
    if not dims or node.attributes["axis"] != len(dims) - 1 or dims[-1] != len(node.inputs):
        return []
    if not 2 <= len(node.inputs) <= _MOST_STACKED:
        return []
    index = ", ".join([*([":"] * (len(dims) - 1)), "None"])
    found = []
    for value in node.inputs:
        view = value.node
        if view is None or view.kind != "np::view" or view.attributes["index"] != index:
            return []
        found.append(view.inputs[0])
    return found if all(dims_of(one) == dims[:-1] for one in found) else []


def _chain(node: Node) -> list[Node]:
    """What is computed with a stack, down to sums of its columns; nothing where more reads it."""
    found, waiting = set[Node](), [node]
    while waiting:
        one = waiting.pop()
        if not one.output.uses:
            return []
        for use in one.output.uses:
            if not isinstance(use.user, Node) or not _may_sink(node, use.user):
                return []
            if use.user not in found:
                found.add(use.user)
                waiting += [] if use.user.kind in _SUMS else [use.user]
    assert node.block is not None
    return [one for one in node.block.nodes if one in found]


def _may_sink(node: Node, user: Node) -> bool:
    """Whether a node does something with a stack that it may do with each of its arrays."""
    if user.block is not node.block or may_raise(user):
        return False
    dims = dims_of(node.output) or ()
    if user.kind in _SUMS:
        attributes, type_ = user.attributes, user.output.type
        is_plain = not attributes.get("keepdims") and "initial" not in attributes
        is_float = isinstance(type_, TensorType) and str(type_.dtype) in ("float32", "float64")
        return len(dims) == 2 and attributes["axis"] == (0,) and is_plain and is_float
    is_alike = is_elementwise(user) and dims_of(user.output) == dims
    return is_alike and all(_fits(value, dims) for value in user.inputs)


def _fits(value: Value, dims: Sequence[Dim]) -> bool:
    """Whether the type tells along which axes an operand is stretched."""
    pairs = zip(reversed(dims_of(value) or ()), reversed(dims), strict=False)
    return all(one in (1, dim) for one, dim in pairs)


def _may_wait(analysis: AliasAnalysis, node: Node, chain: Sequence[Node]) -> bool:
    """Whether nobody writes to what is stacked before it is read, nor to what is computed."""
    arrays = _stacked(node)
    if any(map(analysis.has_writers, (node.output, *(one.output for one in chain)))):
        return False
    return not any(analysis.is_written_between(arrays, node, one) for one in chain)


def _sink(analysis: AliasAnalysis, node: Node, chain: Sequence[Node]) -> None:
    """Compute with the arrays, and join their sums."""
    made = {node.output: _stacked(node)}
    for one in chain:
        if one.kind in _SUMS:
            _join_sums(one, made[one.inputs[0]])
            continue
        type_ = one.output.type
        assert isinstance(type_, TensorType) and type_.dims is not None
        part = TensorType(type_.dtype, type_.dims[:-1])
        made[one.output] = [
            one.value_before(
                one.kind,
                [
                    made[value][n] if value in made else _column(analysis, one, value, n)
                    for value in one.inputs
                ],
                part,
                one.attributes,
            )
            for n in range(len(node.inputs))
        ]
    for one in reversed(chain):
        one.destroy()


def _remove(node: Node) -> None:
    """Remove a stack that nobody reads."""
    views = dict.fromkeys(value.node for value in node.inputs)
    node.destroy()
    for view in views:
        if view is not None and not view.output.uses:
            view.destroy()


def _join_sums(node: Node, arrays: Sequence[Value]) -> None:
    type_, attributes = node.output.type, {**node.attributes, "keepdims": True}
    assert isinstance(type_, TensorType)
    one = TensorType(type_.dtype, (1,))
    sums = [node.value_before(node.kind, [array], one, attributes) for array in arrays]
    joined = node.value_before("np::concatenate", sums, type_, {"axis": 0})
    node.output.replace_all_uses_with(joined)


def _column(analysis: AliasAnalysis, user: Node, value: Value, number: int) -> Value:
    """An operand at a place of the last axis, which of another stack is one of its arrays."""
    type_, dims = value.type, dims_of(value)
    if not dims:
        return value
    stack = value.node
    if stack is not None and _stacked(stack) and _may_wait(analysis, stack, [user]):
        return _stacked(stack)[number]
    assert isinstance(type_, TensorType)
    place = 0 if dims[-1] == 1 else number
    attributes = {"index": ", ".join([*([":"] * len(dims[:-1])), str(place)])}
    return user.value_before("np::view", [value], TensorType(type_.dtype, dims[:-1]), attributes)
