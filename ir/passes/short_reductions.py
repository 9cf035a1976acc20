"""Reductions over axes of a few elements, such as the coordinates of points: elementwise steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product, takewhile
from math import prod

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import TABLE, is_elementwise
from jitcore.ir.shapes import dims_of, is_respaced
from jitcore.ir.types import Dim, TensorType

__all__ = ["expand_short_reductions"]

_MOST_ELEMENTS = 7
"""How many elements of one result are few: NumPy adds up so many one after the other."""

_MOST_NODES = 64
"""How many nodes one reduction may become."""

_OFTEN = 16
"""How many results read an element that is worth a place next to its neighbours."""

_DTYPES = {
    "np::sum": "iufc",
    "np::mean": "f",
    "np::prod": "iuf",
    "np::min": "iuf",
    "np::max": "iuf",
    "np::any": "b",
    "np::all": "b",
}
"""The kinds of dtypes for which the elements themselves are joined."""


def expand_short_reductions(graph: Graph) -> bool:
    """Have a few elements that lie side by side joined as arrays of first, second, ... elements.

    Before::

        graph(%x : Float32[n, 3], %y : Float32[n, 3]):
          %0 : Float32[n, 3] = np::multiply(%x, %y)
          %1 : Float32[n] = np::sum[axis=(1,), keepdims=False](%0)
          return (%1)

    After::

        graph(%x : Float32[n, 3], %y : Float32[n, 3]):
          %2 : Float32[n] = np::view[index=":, 0"](%x)
          %3 : Float32[n] = np::view[index=":, 0"](%y)
          %4 : Float32[n] = np::multiply(%2, %3)
          %5 : Float32[n] = np::view[index=":, 1"](%x)
          %6 : Float32[n] = np::view[index=":, 1"](%y)
          %7 : Float32[n] = np::multiply(%5, %6)
          %8 : Float32[n] = np::view[index=":, 2"](%x)
          %9 : Float32[n] = np::view[index=":, 2"](%y)
          %10 : Float32[n] = np::multiply(%8, %9)
          %11 : Float32[n] = np::add(%4, %7)
          %12 : Float32[n] = np::add(%11, %10)
          %13 : Float32 = prim::Constant[value=np.float32(0.0)]()
          %14 : Float32[n] = np::add(%12, %13)
          return (%14)

    So the loop over results is the innermost one, and what reads the results is computed in it.
    Sums of arrays in C order, and over one axis of any, are NumPy's own: it adds up each line of
    memory from its first element on, and the lines in the same way.
    Rows that are read again, as those of a softmax are, stay together.
    """
    short = [node for node in graph.nodes() if _is_short(node)]
    if not short:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    # The analysis knows the nodes there are now, so all is planned before anything is changed.
    found = [one for node in short if (one := _Expansion(node, analysis)).is_possible()]
    for one in found:
        one.rewrite()
    return bool(found)


def _is_short(node: Node) -> bool:
    """Whether a node reduces few elements to each of several results."""
    if node.kind not in _DTYPES or "initial" in node.attributes:
        return False
    type_ = node.inputs[0].type
    if not isinstance(type_, TensorType) or type_.dtype is None or not dims_of(node.output):
        return False
    # A sum of float16 is rounded at its end only.
    if type_.dtype.name == "float16" or type_.dtype.kind not in _DTYPES[node.kind]:
        return False
    dims = type_.dims or ()
    extents = [dims[axis] for axis in node.attributes["axis"]]
    known = [extent for extent in extents if isinstance(extent, int)]
    return len(known) == len(extents) and 2 <= prod(known) <= _MOST_ELEMENTS


class _Expansion:
    """One reduction, and what is computed for it alone."""

    def __init__(self, node: Node, analysis: AliasAnalysis) -> None:
        self.node = node
        self.analysis = analysis
        self.dims = dims_of(node.inputs[0]) or ()
        self.axes: tuple[int, ...] = node.attributes["axis"]
        self.keeps_axes = bool(node.attributes.get("keepdims", False))
        self.inside = set(self.computed_alone(node.inputs[0]))

    def is_possible(self) -> bool:
        """Whether nothing is computed twice, or read in another way than row by row."""
        operand = self.node.inputs[0]
        is_inside = operand.node in self.inside
        if not is_inside and operand.node is not None and is_elementwise(operand.node):
            return False
        count = prod(int(self.dims[axis]) for axis in self.axes)
        return (2 * len(self.inside) + 2) * count <= _MOST_NODES and not self.are_rows_read_again()

    def computed_alone(self, operand: Value) -> Iterator[Node]:
        """The elementwise nodes that only this reduction reads, with what they read unwritten."""
        waiting, alone = [operand], {self.node}
        while waiting:
            node = waiting.pop().node
            if node is None or node in alone or not self.may_be_repeated(node):
                continue
            if all(use.user in alone for use in node.output.uses):
                alone.add(node)
                yield node
                waiting.extend(reversed(node.inputs))

    def may_be_repeated(self, node: Node) -> bool:
        """Whether a node can be computed at the reduction, an element at a time."""
        if node.block is not self.node.block or not is_elementwise(node):
            return False
        arrays = [value for value in node.inputs if dims_of(value)]
        return not any(map(self.analysis.has_writers, arrays))

    def are_rows_read_again(self) -> bool:
        """Whether an array of the operand's shape is computed from the results."""
        waiting, seen = [self.node.output], set[Value]()
        while waiting:
            value = waiting.pop()
            if value in seen:
                continue
            seen.add(value)
            for use in value.uses:
                if not isinstance(use.user, Node) or not _goes_on(use.user):
                    continue
                if dims_of(use.user.output) == self.dims:
                    return True
                waiting.append(use.user.output)
        return False

    def rewrite(self) -> None:
        """Put the steps in the place of the reduction."""
        log.update("short_reductions", lambda: f"expand {self.node!r}")
        extents = [range(int(self.dims[axis])) for axis in self.axes]
        terms = [self.at(self.node.inputs[0], place, {}) for place in product(*extents)]
        if self.node.kind in ("np::sum", "np::mean"):
            terms = self.lines(terms)
        result = reduce(self.joined, terms)
        if self.node.kind in ("np::sum", "np::mean"):
            # NumPy begins with 0: the sum of -0.0 and -0.0 is 0.0.
            result = self.joined(result, self.number(0))
        if self.node.kind == "np::mean":
            count = self.number(prod(map(len, extents)))
            result = self.node.value_before("np::divide", [result, count], result.type)
        self.node.output.replace_all_uses_with(result)
        self.node.destroy()
        waiting = self.inside
        while unread := [node for node in waiting if not node.output.uses]:
            for node in unread:
                node.destroy()
            waiting = waiting.difference(unread)

    def lines(self, terms: list[Value]) -> list[Value]:
        """The sums of those terms that lie side by side."""
        rank = len(self.dims)
        inner = takewhile(lambda axis: axis in self.axes, range(rank - 1, -1, -1))
        length = prod(int(self.dims[axis]) for axis in inner)
        starts = range(0, len(terms), length)
        return [reduce(self.joined, terms[start : start + length]) for start in starts]

    def joined(self, x: Value, y: Value) -> Value:
        """One step of the reduction."""
        joins = TABLE[self.node.kind].joins
        return self.node.value_before(joins, [x, y], self.node.output.type)

    def number(self, number: int) -> Value:
        """A constant of the results' dtype."""
        type_ = self.node.output.type
        assert isinstance(type_, TensorType) and type_.dtype is not None
        value = {"value": type_.dtype.type(number)}
        return self.node.value_before(
            "prim::Constant", [], TensorType(type_.dtype, (), True), value
        )

    def at(self, value: Value, place: tuple[int, ...], made: dict[Value, Value]) -> Value:
        """What a value is at one place of the reduced axes."""
        own = self.own_axes(value, place)
        if not own:
            return value
        if value not in made:
            made[value] = self.part(value, own, place, made)
        return made[value]

    def part(
        self, value: Value, own: dict[int, int], place: tuple[int, ...], made: dict[Value, Value]
    ) -> Value:
        """A value's elements at one place: computed from its operands', or a view."""
        type_ = value.type
        assert isinstance(type_, TensorType) and type_.dims is not None
        kept = self.keeps_axes or len(own) == len(type_.dims)
        dims: list[Dim] = []
        index: list[str] = []
        for axis, extent in enumerate(type_.dims):
            if axis not in own:
                dims.append(extent)
                index.append(":")
                continue
            number = 0 if extent == 1 else own[axis]
            index.append(f"{number}:{number + 1}" if kept else str(number))
            dims.extend([1] if kept else [])
        smaller = TensorType(type_.dtype, tuple(dims))
        if value.node in self.inside:
            inputs = [self.at(one, place, made) for one in value.node.inputs]
            return self.node.value_before(value.node.kind, inputs, smaller, value.node.attributes)
        attributes = {"index": ", ".join(index)}
        view = self.node.value_before("np::view", [value], smaller, attributes)
        lies_apart = len(type_.dims) - 1 in own
        if not (lies_apart and self.is_read_often(smaller.dims or ())):
            return view
        return self.node.value_before("np::copy", [view], smaller, {"order": "C"})

    def is_read_often(self, dims: Sequence[Dim]) -> bool:
        """Whether the elements of a view are read for many results, one next to the other."""
        results = dims_of(self.node.output) or ()
        known = [extent for extent in results if isinstance(extent, int)]
        own = [extent for extent in dims if isinstance(extent, int)]
        is_known = len(known) == len(results) and len(own) == len(dims)
        return is_known and dims[-1] != 1 and prod(own) * _OFTEN <= prod(known)

    def own_axes(self, value: Value, place: tuple[int, ...]) -> dict[int, int]:
        """The reduced axes that a value has, counted from its first one, with their places."""
        missing = len(self.dims) - len(dims_of(value) or ())
        pairs = zip(self.axes, place, strict=True)
        return {axis - missing: number for axis, number in pairs if axis >= missing}


def _goes_on(node: Node) -> bool:
    """Whether the elements of a node's result are those of its operands, or computed of them."""
    return is_respaced(node) or is_elementwise(node)
