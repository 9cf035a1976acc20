"""Arrays rolled by several small shifts, as views of one copy with wrapped edges."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import product

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis, Location
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.types import INT, NONE, TensorType, Type

__all__ = ["MOST_SHIFTED", "wrap_rolled_arrays"]

MOST_SHIFTED = 8
"""Wider edges would be a large part of many arrays."""


def wrap_rolled_arrays(graph: Graph) -> bool:
    """Read arrays that are rolled by several shifts from one copy whose edges are wrapped.

    Before::

        graph(%x : Float32[64]):
          %0 : Float32[1] = np::view[index="63:"](%x)
          %1 : Float32[63] = np::view[index=":63"](%x)
          %2 : Float32[64] = np::concatenate[axis=0](%0, %1)
          %3 : Float32[63] = np::view[index="1:"](%x)
          %4 : Float32[1] = np::view[index=":1"](%x)
          %5 : Float32[64] = np::concatenate[axis=0](%3, %4)
          %6 : Float32[64] = np::add(%2, %5)
          return (%6)

    After::

        graph(%x : Float32[64]):
          %0 : Float32[1] = np::view[index="63:"](%x)
          %1 : Float32[63] = np::view[index=":63"](%x)
          %7 : int = prim::Constant[value=66]()
          %8 : Float32[66] = np::empty[dtype=dtype("float32")](%7)
          %9 : Float32[1] = np::view[index="0:1"](%8)
          %10 : Float32[1] = np::view[index="63:64"](%x)
          %11 : None = np::store(%9, %10)
          %12 : Float32[64] = np::view[index="1:65"](%8)
          %13 : Float32[64] = np::view[index="0:64"](%x)
          %14 : None = np::store(%12, %13)
          %15 : Float32[1] = np::view[index="65:66"](%8)
          %16 : Float32[1] = np::view[index="0:1"](%x)
          %17 : None = np::store(%15, %16)
          %18 : Float32[64] = np::view[index="0:64"](%8)
          %3 : Float32[63] = np::view[index="1:"](%x)
          %4 : Float32[1] = np::view[index=":1"](%x)
          %19 : Float32[64] = np::view[index="2:66"](%8)
          %6 : Float32[64] = np::add(%18, %19)
          return (%6)

    So a stencil with periodic boundaries, made of ``np.roll``, reads one array in one loop.  The
    array must stay as it is between the first and the last of its rolled forms, and nobody may
    write to those, or know them afterwards.
    """
    changed = False
    for block in graph.blocks():
        changed |= _wrap_in(graph, block)
    return changed


@dataclass(frozen=True, slots=True)
class Rolled:
    """An array that is another one rolled by a number of places along each axis.

    ``through`` are the rolled arrays in between, where it is one that is rolled again.
    """

    node: Node
    base: Value
    shifts: tuple[int, ...]
    through: frozenset[Node]


def _wrap_in(graph: Graph, block: Block) -> bool:
    found: dict[Node, Rolled] = {}
    for node in block.nodes:
        rolled = _rolled(node, found)
        if rolled is not None:
            found[node] = rolled
    by_base: dict[Value, list[Rolled]] = {}
    for one in found.values():
        by_base.setdefault(one.base, []).append(one)
    groups = [group for group in by_base.values() if len(group) > 1]
    if not groups:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    leaving = frozenset[Location]().union(*map(analysis.reachable, graph.outputs))
    changed = False
    for group in groups:
        views = {one.node for one in group if _may_be_view(analysis, leaving, one.node.output)}
        wanted = [one for one in group if views.issuperset({one.node, *one.through})]
        if len(wanted) > 1 and _stays(analysis, block, wanted):
            _wrap(wanted)
            changed = True
    return changed


def _rolled(node: Node, known: dict[Node, Rolled]) -> Rolled | None:
    """A node as a roll of an array, or of one that is rolled itself."""
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
    shifts[axis] = -cut if 2 * cut <= extent else extent - cut
    through = frozenset[Node]()
    inner = known.get(base.node) if base.node is not None else None
    if inner is not None:
        through = inner.through | {inner.node}
        base, shifts = inner.base, [a + b for a, b in zip(inner.shifts, shifts, strict=True)]
    limits = (min(MOST_SHIFTED, dim) for dim in _dims(type_))
    if any(abs(shift) > limit for shift, limit in zip(shifts, limits, strict=True)):
        return None
    return Rolled(node, base, tuple(shifts), through)


def _cut(tail: str, head: str, axis: int, rank: int) -> int | None:
    """Where the second part begins; None where these are not the two parts of one axis."""
    pattern = ", ".join([*[":"] * axis, "{}", *[":"] * (rank - axis - 1)])
    match = re.fullmatch(re.escape(pattern).replace(r"\{\}", r"(\d+):"), tail)
    return int(match[1]) if match and head == pattern.format(f":{match[1]}") else None


def _dims(type_: Type) -> tuple[int, ...]:
    assert isinstance(type_, TensorType)
    return tuple(dim for dim in type_.dims or () if isinstance(dim, int))


def _may_be_view(analysis: AliasAnalysis, leaving: frozenset[Location], value: Value) -> bool:
    """Whether nobody can tell an array from a view that shares its memory with others."""
    if analysis.has_writers(value) or analysis.escapes(value):
        return False
    if leaving & analysis.points_to(value):
        return False
    users = [use.user for use in value.uses]
    return all(isinstance(one, Node) and one.kind.startswith("np::") for one in users)


def _stays(analysis: AliasAnalysis, block: Block, group: Sequence[Rolled]) -> bool:
    """Whether nothing writes to the base between its first and its last rolled form."""
    places = [block.nodes.index(one.node) for one in group]
    between = set(block.nodes[min(places) : max(places)])
    writers = analysis.writers(group[0].base)
    return not any(between.intersection(_around(writer)) for writer in writers)


def _around(node: Node) -> Iterator[Node]:
    """A node and those it is inside of."""
    inner: Node | None = node
    while inner is not None:
        yield inner
        inner = inner.block.owner if inner.block is not None else None


def _wrap(group: Sequence[Rolled]) -> None:
    """Make the copy before the first one, and views of it of all."""
    first, base = group[0].node, group[0].base
    dims = _dims(base.type)
    before = [max(0, *(one.shifts[axis] for one in group)) for axis in range(len(dims))]
    after = [max(0, *(-one.shifts[axis] for one in group)) for axis in range(len(dims))]
    wide = [sum(extents) for extents in zip(before, dims, after, strict=True)]
    type_ = base.type
    assert isinstance(type_, TensorType)
    sizes = [first.value_before("prim::Constant", [], INT, {"value": extent}) for extent in wide]
    made = TensorType(type_.dtype, tuple(wide))
    copy = first.value_before("np::empty", sizes, made, {"dtype": type_.dtype})
    if len(dims) > 1:
        _keep_order(copy, base)
    edges = zip(before, dims, after, strict=True)
    for parts in product(*(list(_parts(*edge)) for edge in edges)):
        part = TensorType(type_.dtype, tuple(length for _, _, length in parts))
        target = _view(first, copy, [(to, length) for to, _, length in parts], part)
        source = _view(first, base, [(at, length) for _, at, length in parts], part)
        first.value_before("np::store", [target, source], NONE)
    for one in group:
        starts = [edge - shift for edge, shift in zip(before, one.shifts, strict=True)]
        view = _view(one.node, copy, list(zip(starts, dims, strict=True)), type_)
        one.node.output.replace_all_uses_with(view)
        one.node.destroy()
    log.update("wrapped_rolls", lambda: f"read %{base.name} from a copy with wrapped edges")


def _keep_order(copy: Value, base: Value) -> None:
    """Have a new array's axes in the order in memory that those of the base have."""
    made = copy.node
    assert made is not None
    made.attributes["order"] = "K"
    made.add_input(base)
    made.keywords = ("like",)


def _parts(before: int, extent: int, after: int) -> Iterator[tuple[int, int, int]]:
    """Where each part of an axis goes to, where it comes from, and how long it is."""
    if before:
        yield 0, extent - before, before
    yield before, 0, extent
    if after:
        yield before + extent, 0, after


def _view(place: Node, array: Value, parts: Sequence[tuple[int, int]], type_: TensorType) -> Value:
    index = ", ".join(f"{start}:{start + length}" for start, length in parts)
    return place.value_before("np::view", [array], type_, {"index": index})
