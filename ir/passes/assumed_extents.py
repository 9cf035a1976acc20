"""One symbol for extents that operations need to be equal, and the checks that they are."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from functools import cached_property

from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import enclosing, with_inner
from jitcore.ir.ops import TABLE
from jitcore.ir.passes.equal_extents import MADE_OF_NUMBERS, Extents
from jitcore.ir.shapes import dims_of, slice_length
from jitcore.ir.types import INT, Dim

__all__ = ["assume_equal_extents"]

_LARGE = 2**20
"""An extent of which slices with bounds that are literals show whether they are of one element."""

_MADE = ("np::full", "np::empty")


def assume_equal_extents(graph: Graph) -> bool:
    """Give extents one symbol that have to be equal for what is done with them, and check that.

    Before::

        graph(%x : Float32[n]):
          %0 : Float32[a] = np::view[index="::2"](%x)
          %1 : Float32[b] = np::view[index="1::2"](%x)
          %2 : Float32[c] = np::add(%0, %1)
          return (%2)

    After::

        graph(%x : Float32[n]):
          %3 : int = prim::size[dim=0](%x)
          %4 : int = prim::slice_length[index="1::2"](%3)
          %5 : int = prim::size[dim=0](%x)
          %6 : int = prim::slice_length[index="::2"](%5)
          %7 : int = prim::assume_equal(%4, %4, %6)
          %0 : Float32[a] = np::view[index="::2"](%x)
          %1 : Float32[a] = np::view[index="1::2"](%x)
          %2 : Float32[a] = np::add(%0, %1)
          return (%2)

    Slices of different extents can only be added up where one of them has one element, which slices
    such as these have in very short arrays only.  Calls in which they do are left to Python, and so
    are those that raise for it.  That has to be found out before anything is written that others
    know.  What comes from the arguments' extents alone is compared first of all, and other lengths
    where the slice is made: a bound of it then comes out of the comparison, so that no group reads
    the slice before.  Where that would be late, nothing is taken for equal.  Nor is a slice that is
    surely of one element (``x[k : k + 1]``): it is there to be stretched.
    """
    if not _is_needed(graph):
        return False
    found = _Assumed(graph)
    changed = found.run()
    checks = list(found.checks())
    for later, first, is_at_once in checks:
        found.insert(later, first, is_at_once=is_at_once)
    log.update(
        "assumed_extents", lambda: ", ".join(f"{one} is {other}" for one, other, _ in checks)
    )
    return changed


def _is_needed(graph: Graph) -> bool:
    """Whether anything is done with different extents along one axis."""
    return any(
        len({dims_of(value)[axis] for value, axis in places} - {1}) > 1
        for node in graph.nodes()
        for places in _aligned(node)
    )


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where an extent comes from.

    Parameters
    ----------
    node : Node or None
        What makes an array that has it; None of inputs.
    value : Value
        The input, or the number that the array was made with, or the array that is sliced.
    number : int
        The input's axis, or which operand of the node is the number, or the first one of the slice.
    index : str
        The slice, where there is one.
    base : int or str
        The extent that is sliced.
    """

    node: Node | None
    value: Value
    number: int
    index: str = ""
    base: Dim = 0

    @property
    def operands(self) -> list[Value]:
        """The bounds of the slice that are variables."""
        count = self.index.count("$")
        return self.node.inputs[self.number : self.number + count] if self.node is not None else []


class _Assumed(Extents):
    """Extents that are equal, or have to be."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        nodes = list(with_inner(graph.block.nodes))
        self.positions = {node: number for number, node in enumerate(nodes)}
        self.makers: dict[Dim, list[_Origin]] = {}
        self._made_otherwise: set[Dim] = set()
        self._checks: dict[Node, list[tuple[Dim, Dim, bool]]] = {}
        for value in graph.inputs:
            for axis, dim in enumerate(dims_of(value)):
                self.makers.setdefault(dim, [_Origin(None, value, axis)])
        for node in nodes:
            self._note_origins(node)

    def _note_origins(self, node: Node) -> None:
        """Note which extents a node makes."""
        given = {dim for value in node.inputs for dim in dims_of(value)}
        for value in () if node.blocks else node.outputs:
            for axis, dim in enumerate(dims_of(value)):
                origin = _origin(node, axis)
                if origin is not None:
                    self.makers.setdefault(dim, []).append(origin)
                elif dim not in given:
                    self._made_otherwise.add(dim)

    def checks(self) -> Iterator[tuple[Dim, Dim, bool]]:
        """What has been assumed in the order of the program, and whether it is checked at once."""
        for found in self._checks.values():
            yield from found

    def outputs(self, node: Node) -> None:
        """Join what a node needs to be equal, and the new symbols of its outputs."""
        self._checks.pop(node, None)
        for places in _aligned(node):
            found = {self.of(value, axis): None for value, axis in places}
            self._assume(node, [dim for dim in found if isinstance(dim, int | str) and dim != 1])
        super().outputs(node)

    def origin(self, node: Node, number: int, axis: int) -> Hashable:
        """What an extent comes from; equal slices have one symbol by now, and one check each."""
        is_slice = node.kind == "np::view" or node.kind in MADE_OF_NUMBERS
        return None if is_slice else super().origin(node, number, axis)

    def _assume(self, node: Node, dims: Sequence[Dim]) -> None:
        """Take the extents along an axis for equal, as far as that can be checked."""
        known = sorted((dim for dim in dims if self._is_known(dim)), key=self._place)
        for later in known[1:]:
            if isinstance(later, int) or self.makers[later][0].node is None:
                continue  # arguments' own extents stay as the entry passes them
            is_at_once = _is_always_done(node) and all(map(self._is_at_once, (known[0], later)))
            if is_at_once or self._may_check(known[0], later):
                self._checks.setdefault(node, []).append((later, known[0], is_at_once))
                self.joined[later] = known[0]

    def _is_known(self, dim: Dim) -> bool:
        """Whether numbers tell an extent, which is not surely 1."""
        if isinstance(dim, int):
            return True
        return dim in self.makers and not any(map(_is_single, self.makers[dim]))

    def _place(self, dim: Dim) -> int:
        """A number by which the extents that are known first come first."""
        if isinstance(dim, int):
            return -2
        node = self.makers[dim][0].node
        return -1 if node is None else self.positions[node]

    def _is_at_once(self, dim: Dim) -> bool:
        """Whether the extents of arguments tell an extent."""
        if isinstance(dim, int):
            return True
        if dim not in self.makers:
            return False
        origin = self.makers[dim][0]
        is_sliced = bool(origin.index) and "$" not in origin.index
        return origin.node is None or (is_sliced and self._is_at_once(origin.base))

    def _may_check(self, first: Dim, later: Dim) -> bool:
        """Whether all that makes arrays of an extent can be preceded by a comparison in time."""
        return later not in self._made_otherwise and all(
            origin.node is not None
            and (not origin.index or "$" in origin.index)
            and self._is_early(origin.node)
            and self._has_length(later, origin.node)
            and self._has_length(first, origin.node)
            for origin in self.makers[later]
        )

    def _has_length(self, dim: Dim, at: Node) -> bool:
        """Whether numbers tell an extent where a node stands."""
        if isinstance(dim, int):
            return True
        if dim not in self.makers:
            return False
        origin = self.makers[dim][0]
        if origin.node is None:
            return True
        around = list(enclosing(at.block))
        if origin.node.block not in around or self.positions[origin.node] > self.positions[at]:
            return False
        return not origin.index or self._has_length(origin.base, at)

    def _is_early(self, node: Node) -> bool:
        """Whether nothing that others know may be written before a node."""
        if self._first_write is None:
            return True
        owners = [block.owner for block in enclosing(node.block)]
        in_loop = any(one is not None and one.kind == "prim::Loop" for one in owners)
        return not in_loop and self.positions[node] < self._first_write

    @cached_property
    def _first_write(self) -> int | None:
        writes = self.analysis.writes
        return next(
            (n for node, n in self.positions.items() if any(one.escapes for one in writes(node))),
            None,
        )

    def insert(self, later: Dim, first: Dim, *, is_at_once: bool) -> None:
        """Insert the comparison of two extents."""
        if is_at_once:
            at = self.graph.block.nodes[0]
            own = self._length(later, at)
            at.value_before("prim::assume_equal", [own, own, self._length(first, at)], INT)
            return
        for origin in self.makers[later]:
            node = origin.node
            assert node is not None
            lengths = [self._length(dim, node) for dim in (later, first)]
            given = node.inputs[origin.number]
            checked = node.value_before("prim::assume_equal", [given, *lengths], INT)
            node.set_input(origin.number, checked)

    def _length(self, dim: Dim, at: Node) -> Value:
        """The extent as a number, computed before a node."""
        if isinstance(dim, int):
            return at.value_before("prim::Constant", [], INT, {"value": dim})
        origin = self.makers[dim][0]
        if origin.node is None:
            return at.value_before("prim::size", [origin.value], INT, {"dim": origin.number})
        if not origin.index:
            return origin.value
        inputs = [self._length(origin.base, at), *origin.operands]
        return at.value_before("prim::slice_length", inputs, INT, {"index": origin.index})


def _origin(node: Node, axis: int) -> _Origin | None:
    """Where an extent of a node's output comes from; None where no number tells it."""
    if node.kind in _MADE:
        number = MADE_OF_NUMBERS[node.kind] + axis
        return _Origin(node, node.inputs[number], number)
    if node.kind != "np::view":
        return None
    base_axis = own_axis = -1
    number = 1
    for part in node.attributes["index"].split(", "):
        base_axis += part != "None"
        own_axis += part == "None" or ":" in part
        if own_axis == axis:
            break
        number += part.count("$")
    if part in ("None", ":") or "$" in part.split(":")[2:3]:
        return None
    base = dims_of(node.inputs[0])[base_axis]
    counter = iter(range(len(node.inputs)))
    text = re.sub(r"\$\d+", lambda _: f"${next(counter)}", part)
    return _Origin(node, node.inputs[0], number, text, base)


def _is_always_done(node: Node) -> bool:
    """Whether a node is in no branch of an ``If``."""
    owners = (block.owner for block in enclosing(node.block))
    return all(one is None or one.kind == "prim::Loop" for one in owners)


def _is_single(origin: _Origin) -> bool:
    """Whether a slice has at most one element, as its bounds tell."""
    parts = origin.index.split(":")
    if not origin.index:
        return False
    if "$" not in origin.index:
        bounds = (int(part) if part else None for part in (*parts, "")[:3])
        return slice_length(_LARGE, *bounds) <= 1
    if parts[:2] != ["$0", "$1"]:
        return False
    (start, less), (stop, more) = map(_linear, origin.operands[:2])
    return start is stop and more - less <= 1


def _linear(value: Value) -> tuple[Value, int]:
    """An int as another one and what is added to that."""
    node = value.node
    if node is None or node.kind not in ("prim::add", "prim::sub"):
        return value, 0
    one, other = node.inputs
    if node.kind == "prim::add" and type(one.constant_value) is int:
        one, other = other, one
    if type(other.constant_value) is not int:
        return value, 0
    number = other.constant_value
    return one, number if node.kind == "prim::add" else -number


def _aligned(node: Node) -> Iterator[list[tuple[Value, int]]]:
    """The axes of operands that meet one another, each as an operand and its axis."""
    op = TABLE.get(node.kind)
    if node.kind not in ("np::store", "np::concatenate") and (op is None or op.scalar is None):
        return
    values = node.inputs
    left_out = node.attributes["axis"] if node.kind == "np::concatenate" else None
    rank = max((len(dims_of(value)) for value in values), default=0)
    for axis in range(rank):
        if axis != left_out:
            places = ((value, axis - rank + len(dims_of(value))) for value in values)
            yield [(value, place) for value, place in places if place >= 0]
