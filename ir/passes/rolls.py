"""Arrays rolled by known shifts, read from where they are instead of copied."""

from __future__ import annotations

import re

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import is_elementwise
from jitcore.ir.types import TensorType, Type

__all__ = ["is_roll", "read_rolled_arrays"]


def read_rolled_arrays(graph: Graph) -> bool:
    """Give rolled arrays, as two parts that change places, a node that a group may have.

    Before::

        graph(%x : Float32[64]):
          %0 : Float32[1] = np::view[index="63:"](%x)
          %1 : Float32[63] = np::view[index=":63"](%x)
          %2 : Float32[64] = np::concatenate[axis=0](%0, %1)
          %3 : Float32[64] = np::add(%2, %x)
          return (%3)

    After::

        graph(%x : Float32[64]):
          %0 : Float32[1] = np::view[index="63:"](%x)
          %1 : Float32[63] = np::view[index=":63"](%x)
          %4 : Float32[64] = np::rolled[shifts=(1,)](%x)
          %3 : Float32[64] = np::add(%4, %x)
          return (%3)

    So a stencil with periodic boundaries, made of ``np.roll``, is one loop over neighbouring
    elements, whose range is cut where the elements come from the other end.  What is rolled again
    is read from the first array, where both stay as they are.
    """
    changed = False
    for block in graph.blocks():
        changed |= _read_in(graph, block)
    return changed


@dataclass(frozen=True, slots=True)
class Rolled:
    """An array that is another one rolled by a number of places along each axis."""

    node: Node
    base: Value
    shifts: tuple[int, ...]


def _read_in(graph: Graph, block: Block) -> bool:
    found = [one for node in block.nodes if (one := _rolled(node)) is not None]
    if not found:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    known: dict[Node, Rolled] = {}
    for one in found:
        inner = known.get(one.base.node) if one.base.node is not None else None
        if inner is not None and _stay(analysis, inner, one):
            dims = _dims(one.base.type)
            pairs = zip(inner.shifts, one.shifts, dims, strict=True)
            shifts = tuple((a + b) % n if n else 0 for a, b, n in pairs)
            one = Rolled(one.node, inner.base, shifts)
        known[one.node] = one
    wanted = [one for one in known.values() if _is_read_by_element(one.node)]
    replaced: dict[Value, Value] = {}
    for one in wanted:
        base = replaced.get(one.base, one.base)
        replaced[one.node.output] = _replace(one, base)
    return bool(wanted)


def is_roll(node: Node) -> bool:
    """Whether a node's output is an array rolled by known shifts."""
    return _rolled(node) is not None


def _replace(one: Rolled, base: Value) -> Value:
    log.update("rolls", lambda: f"read %{base.name} in place of {one.node!r}")
    type_, attributes = one.node.output.type, {"shifts": one.shifts}
    rolled = one.node.value_before("np::rolled", [base], type_, attributes)
    one.node.output.replace_all_uses_with(rolled)
    one.node.destroy()
    return rolled


def _rolled(node: Node) -> Rolled | None:
    """A node as a roll of an array."""
    if node.kind != "np::concatenate" or len(node.inputs) != 2:
        return None
    tail, head = (value.node for value in node.inputs)
    if tail is None or head is None or tail.kind != "np::view" or head.kind != "np::view":
        return None
    base, type_, axis = tail.inputs[0], node.output.type, node.attributes["axis"]
    if head.inputs != [base] or tail.inputs != [base] or base.type != type_:
        return None
    if not isinstance(type_, TensorType) or not all(isinstance(n, int) for n in type_.dims or ()):
        return None
    extent = _dims(type_)[axis]
    cut = _cut(tail.attributes["index"], head.attributes["index"], axis, len(_dims(type_)))
    if cut is None or not 0 <= cut <= extent:
        return None
    shifts = [0] * len(_dims(type_))
    shifts[axis] = (extent - cut) % extent if extent else 0
    return Rolled(node, base, tuple(shifts))


def _cut(tail: str, head: str, axis: int, rank: int) -> int | None:
    """Where the second part begins; None where these are not the two parts of one axis."""
    pattern = ", ".join([*[":"] * axis, "{}", *[":"] * (rank - axis - 1)])
    match = re.fullmatch(re.escape(pattern).replace(r"\{\}", r"(\d+):"), tail)
    return int(match[1]) if match and head == pattern.format(f":{match[1]}") else None


def _dims(type_: Type) -> tuple[int, ...]:
    assert isinstance(type_, TensorType)
    return tuple(dim for dim in type_.dims or () if isinstance(dim, int))


def _is_read_by_element(node: Node) -> bool:
    """Whether something reads an array element by element."""
    users = (use.user for use in node.output.uses)
    return any(isinstance(one, Node) and is_elementwise(one) for one in users)


def _stay(analysis: AliasAnalysis, inner: Rolled, outer: Rolled) -> bool:
    """Whether a rolled array, and what it is made of, are not written before it is rolled again."""
    values = (inner.base, inner.node.output)
    return not analysis.is_written_between(values, inner.node, outer.node)
