"""Groups with reductions over trailing axes, in one nest: all of one row, then the next.

A softmax is one loop over rows.  In each row it takes the maximum, then adds up the exponentials
(and leaves them in the row of the result), then divides; nothing but the result is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.lowering.accumulators import ENDING_EARLY, Accumulator, FloatSum, Moments
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.codegen.lowering.elements import (
    Elements,
    Index,
    NotByRows,
    store,
    uncollapsed,
)
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Element, Lazy, Operand, values_in
from jitcore.codegen.lowering.orders import is_row_major, order_of
from jitcore.codegen.lowering.reductions import (
    KINDS,
    Reduction,
    as_it_is,
    group_axes,
    reduced_element,
)
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.lowering.walks import reduce_elements
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.types import TensorType

__all__ = ["is_dear", "lower_by_rows", "reduced_trailing"]

_PLAIN = frozenset(
    {*SCALARS, "np::full", "np::iota", "np::broadcast_to", "np::view", "prim::Constant"}
)


def reduced_trailing(graph: Graph) -> int | None:
    """How many leading axes all the reductions of a group keep; None where rows do not fit it."""
    found: set[tuple[int, int]] = set()
    for node in graph.block.nodes:
        if node.kind in KINDS:
            rank = _rank(node.inputs[0])
            axes = tuple(node.attributes["axis"])
            if axes != tuple(range(rank - len(axes), rank)):
                return None
            found.add((rank, rank - len(axes)))
        elif node.kind not in _PLAIN:
            return None
    if len(found) != 1:
        return None
    ((rank, kept),) = found
    reductions = _reductions(graph)
    has_rows = any(_rank(value) == rank and _is_computed(value) for value in graph.outputs)
    are_read = any(use.user is not graph.block for node in reductions for use in node.output.uses)
    return kept if has_rows or are_read or len(reductions) > 1 else None


def _is_computed(value: Value) -> bool:
    return value.node is not None and value.node.kind in SCALARS


def _reductions(graph: Graph) -> list[Node]:
    return [node for node in graph.block.nodes if node.kind in KINDS]


def _is_scalar(value: Value) -> bool:
    return isinstance(value.type, TensorType) and value.type.scalar


def _rank(value: Value) -> int:
    type_ = value.type
    return len(type_.dims or ()) if isinstance(type_, TensorType) else 0


class RowElements(Elements):
    """Elements of one row: reductions have one value in it."""

    def __init__(self, lowering: Lowering) -> None:
        super().__init__(lowering)
        self.row: tuple[Expr, ...] = ()
        self.reduced: dict[int, Element] = {}
        self.scratch: dict[int, ArrayRef] = {}

    def source(self, operand: Operand) -> Operand:
        return self.scratch.get(id(operand), operand)

    def of_reduction(self, lazy: Lazy, index: Index) -> Element:
        kept = index.entries[: len(self.row)]
        rest = index.entries[len(self.row) :]
        if kept != self.row or any(entry != ZERO for entry in rest):
            raise NotByRows
        return self.reduced[id(lazy)]


@dataclass(slots=True)
class _Rows:
    """A group being lowered by rows."""

    lowering: Lowering
    graph: Graph
    kept: int
    elements: RowElements = field(init=False)
    targets: dict[Value, ArrayRef] = field(default_factory=dict)
    complete: set[int] = field(default_factory=set)
    sums: dict[int, FloatSum] = field(default_factory=dict)
    is_alone: bool = False
    """Whether there is but one row."""

    def __post_init__(self) -> None:
        self.elements = RowElements(self.lowering)

    def lower(self) -> None:
        """Allocate the outputs and emit the nest."""
        lowering, graph = self.lowering, self.graph
        scalars = [value for value in graph.outputs if _is_scalar(value)]
        for value in graph.outputs:
            lazy = lowering.operand(value)
            if isinstance(lazy, Lazy) and value not in self.targets and value not in scalars:
                self.targets[value] = lowering.allocate(
                    value.name, lazy.dims, lazy.dtype, escapes=lowering.escapes(value)
                )
        reductions = [lowering.operand(node.output) for node in _reductions(graph)]
        dims = reductions[0].detail.operand.dims[: self.kept]
        for lazy in reductions:
            if lazy.detail.operand.dims[: self.kept] != dims:
                raise NotByRows
        roots = ", ".join(target.root for target in self.targets.values())
        lowering.notes.append(f"loops by rows, for {roots}" if roots else "loops by rows")
        self.is_alone = all(dim == ONE for dim in dims)
        with nest(lowering, dims, parallel=not self.is_alone) as index:
            self.elements.row = index.entries
            for number, lazy in enumerate(reductions):
                self.reduce(lazy, reductions[number + 1 :])
            for value, target in self.targets.items():
                if id(lowering.operand(value)) not in self.complete:
                    self.write(value, target, dims)
            results = [self.elements(lowering.operand(value), uncollapsed(())) for value in scalars]
        for value, element in zip(scalars, results, strict=True):
            lowering.bind(value, element)
        for value, target in self.targets.items():
            lowering.bind(value, target)

    def reduce(self, lazy: Lazy, later: Sequence[Lazy]) -> None:
        """One reduction of the row; what is dear and needed again stays in a result's row."""
        reduction: Reduction = lazy.detail
        axes = group_axes(self.lowering, reduction.operand, reduction.reduced, apart=self.kept)
        extents = axes.extents[self.kept :]
        # A walk that may end early does not pass all elements.
        stops = reduction.kind in ENDING_EARLY
        kept = None if stops else self.scratch_for(reduction.operand, later)

        def walk(taker: Accumulator, change: Callable[[Element], Element]) -> Element:
            def element(places: Sequence[Expr]) -> Element:
                index = Index((*self.elements.row, *places), axes.groups)
                value = self.elements(reduction.operand, index)
                if kept is not None:
                    store(self.lowering, kept, index, value)
                return change(value)

            if isinstance(taker, FloatSum) and change is as_it_is:
                known = self.sums.get(id(reduction.operand))
                if known is not None and kept is None:
                    taker.share(known)
                    return taker.result()
                is_plain = not isinstance(taker, Moments)
                if is_plain and self.needs_moments(reduction.operand, later):
                    taker = Moments(self.lowering, reduction.operand.dtype)
                self.sums[id(reduction.operand)] = taker
            return reduce_elements(self.lowering, taker, extents, element, alone=self.is_alone)

        value = reduced_element(self.lowering, reduction, walk)
        name = reduction.node.output.name
        self.elements.reduced[id(lazy)] = self.elements.bind(name, value, "")
        if kept is not None:
            self.elements.scratch[id(reduction.operand)] = kept

    def needs_moments(self, operand: ArrayRef | Lazy, later: Sequence[Lazy]) -> bool:
        """Whether a later variance takes what the sum of its elements has seen of their squares."""
        if not Moments.fit(self.lowering, operand.dtype):
            return False
        found = (lazy.detail for lazy in later if lazy.detail.operand is operand)
        return any(reduction.kind in ("np::var", "np::std") for reduction in found)

    def own_target(self, operand: Lazy) -> ArrayRef | None:
        """Where an operand goes that is itself a result."""
        for value, target in self.targets.items():
            if self.lowering.operand(value) is operand:
                return target
        return None

    def scratch_for(self, operand: Operand, later: Sequence[Lazy]) -> ArrayRef | None:
        """A result whose row may hold the operand until the result itself is written."""
        if not isinstance(operand, Lazy) or id(operand) in self.elements.scratch:
            return None
        own = self.own_target(operand)
        if own is not None:
            self.complete.add(id(operand))
            return own
        if not is_dear(operand) or not self.is_needed_again(operand, later):
            return None
        taken = {id(one) for one in self.elements.scratch.values()}
        # The result that is written last: no other one is written from what lies there.
        for value, target in list(self.targets.items())[-1:]:
            is_free = id(target) not in taken and not self.is_reduced(value)
            if is_free and target.dims == operand.dims and target.dtype == operand.dtype:
                return target
        return None

    def is_reduced(self, value: Value) -> bool:
        """Whether a result is written before the last pass: a reduction reads it."""
        lazy = self.lowering.operand(value)
        return any(
            self.lowering.operand(node.inputs[0]) is lazy for node in _reductions(self.graph)
        )

    def is_needed_again(self, operand: Lazy, later: Sequence[Lazy]) -> bool:
        """Whether a later reduction or an output reads the operand."""
        roots = [lazy.detail.operand for lazy in later]
        roots += [self.lowering.operand(value) for value in self.targets]
        return any(one is operand for one in values_in(tuple(roots)))

    def write(self, value: Value, target: ArrayRef, dims: Sequence[Expr]) -> None:
        """The row of one output."""
        lazy = self.lowering.operand(value)
        if target.dims[: self.kept] != tuple(dims):
            raise NotByRows
        rest = target.dims[self.kept :]
        walked = [dim for dim in rest if dim != ONE]
        # Loops of the program mostly have short rows, for which asking takes time.
        is_known = all(isinstance(dim, Const) for dim in walked)
        is_parallel = self.is_alone and (is_known or not self.lowering.loops_around)
        with nest(self.lowering, walked, parallel=is_parallel) as inner:
            entries = iter(inner.entries)
            places = [ZERO if dim == ONE else next(entries) for dim in rest]
            index = uncollapsed([*self.elements.row, *places])
            store(self.lowering, target, index, self.elements(lazy, index))


def is_dear(lazy: Lazy) -> bool:
    """Whether computing an element takes a function of vector math."""
    return any(isinstance(one, Lazy) and one.node.kind in _FUNCTIONS for one in values_in(lazy))


def _calls(kind: str) -> bool:
    text = SCALARS[kind].text("f")
    return isinstance(text, str) and text.partition("(")[0] not in _CHEAP and "(" in text


_CHEAP = frozenset({"select", "fabs", "floor", "ceil", "trunc", "rint", "sqrt", "max", "min", ""})
_FUNCTIONS = frozenset(kind for kind in SCALARS if _calls(kind))


def _is_rearranged(operand: Operand) -> bool:
    """Whether NumPy's array of a value is in another order than C."""
    return isinstance(operand, (ArrayRef, Lazy)) and not is_row_major(order_of(operand))


def lower_by_rows(lowering: Lowering, graph: Graph, kept: int) -> bool:
    """Lower a group whose values are bound, as one nest over rows; False where it does not fit."""
    values = [*graph.outputs, *(node.inputs[0] for node in _reductions(graph))]
    if any(_is_rearranged(lowering.operand(value)) for value in values):
        return False
    snapshot = lowering.snapshot()
    try:
        _Rows(lowering, graph, kept).lower()
    except NotByRows:
        lowering.restore(snapshot)
        return False
    return True
