"""Groups with reductions over trailing axes, in one nest: all of one row, then the next.

A softmax is one loop over rows.  In each row it takes the maximum, then adds up the exponentials
(and leaves them in the row of the result), then divides; nothing but the result is in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from jitcore.codegen.loops import Const, Expr
from jitcore.codegen.lowering.accumulators import (
    ENDING_EARLY,
    Several,
)
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.codegen.lowering.elements import (
    Elements,
    Index,
    NotByRows,
    store,
    uncollapsed,
)
from jitcore.codegen.lowering.evaluation import Evaluation, Reduction, Walk
from jitcore.codegen.lowering.float_sums import FloatSum, Moments
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.nest import nest
from jitcore.codegen.lowering.operands import ArrayRef, Element, Lazy, Operand, values_in
from jitcore.codegen.lowering.orders import is_row_major, order_of
from jitcore.codegen.lowering.reduced_axes import Axes, group_axes
from jitcore.codegen.lowering.state import Lowering
from jitcore.codegen.lowering.walks import are_divided, reduce_elements
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import REDUCTIONS
from jitcore.ir.types import TensorType, is_scalar_tensor

__all__ = ["is_dear", "lower_by_rows", "reduced_trailing"]

_PLAIN = frozenset(
    {
        *SCALARS,
        "np::full",
        "np::iota",
        "np::broadcast_to",
        "np::gather",
        "np::rolled",
        "np::view",
        "prim::Constant",
    }
)


def reduced_trailing(graph: Graph) -> int | None:
    """How many leading axes all the reductions of a group keep; None where rows do not fit it."""
    found: set[tuple[int, int]] = set()
    writes = False
    for node in graph.block.nodes:
        if node.kind in REDUCTIONS:
            rank = _rank(node.inputs[0])
            axes = tuple(node.attributes["axis"])
            if axes != tuple(range(rank - len(axes), rank)):
                return None
            found.add((rank, rank - len(axes)))
        elif node.kind == "np::store":
            writes = True
        elif node.kind not in _PLAIN:
            return None
    if len(found) != 1:
        return None
    ((rank, kept),) = found
    if writes:
        return None if kept else 0
    reductions = _reductions(graph)
    has_rows = any(_rank(value) == rank and _is_computed(value) for value in graph.outputs)
    are_read = any(use.user is not graph.block for node in reductions for use in node.output.uses)
    return kept if has_rows or are_read or len(reductions) > 1 else None


def _is_computed(value: Value) -> bool:
    return value.node is not None and value.node.kind in SCALARS


def _reductions(graph: Graph) -> list[Node]:
    return [node for node in graph.block.nodes if node.kind in REDUCTIONS]


def _rank(value: Value) -> int:
    type_ = value.type
    return len(type_.dims or ()) if isinstance(type_, TensorType) else 0


def _levels(reductions: Sequence[Lazy]) -> list[list[Lazy]]:
    """Reductions such that each level reads results only of those before it."""
    numbers: dict[int, int] = {}
    levels: list[list[Lazy]] = []
    for lazy in reductions:
        read = [numbers[id(one)] for one in values_in(lazy.detail.operand) if id(one) in numbers]
        number = numbers[id(lazy)] = max(read, default=-1) + 1
        if number == len(levels):
            levels.append([])
        levels[number].append(lazy)
    return levels


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
        return self.reduced[id(lazy.detail)]


@dataclass(slots=True)
class _Rows:
    """A group being lowered by rows."""

    lowering: Lowering
    graph: Graph
    kept: int
    elements: RowElements = field(init=False)
    stores: dict[Value, ArrayRef] = field(default_factory=dict)
    targets: dict[Value, ArrayRef] = field(default_factory=dict)
    complete: set[int] = field(default_factory=set)
    is_alone: bool = False
    """Whether threads share the elements of a row, and not the rows."""
    is_last_taken: bool = False
    """Whether the row of the last result holds an operand until it is written itself."""

    def __post_init__(self) -> None:
        self.elements = RowElements(self.lowering)

    def lower(self) -> None:
        """Allocate the outputs and emit the nest."""
        lowering, graph = self.lowering, self.graph
        scalars = [value for value in graph.outputs if is_scalar_tensor(value.type)]
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
        self.is_alone = are_divided(dims, reductions[0].detail.operand.dims[self.kept :])
        with nest(lowering, dims, parallel=not self.is_alone) as index:
            self.elements.row = index.entries
            levels = _levels(reductions)
            if self.stores and len(levels) > 1:
                raise NotByRows
            for number, level in enumerate(levels):
                later = [lazy.detail for above in levels[number + 1 :] for lazy in above]
                self.reduce(level, later)
            for value, target in self.targets.items():
                if id(lowering.operand(value)) not in self.complete:
                    if self.stores:
                        raise NotByRows
                    self.write(value, target, dims)
            results = [self.elements(lowering.operand(value), uncollapsed(())) for value in scalars]
        for value, element in zip(scalars, results, strict=True):
            lowering.bind(value, element)
        for value, target in (*self.targets.items(), *self.stores.items()):
            lowering.bind(value, target)

    def reduce(self, level: Sequence[Lazy], later: Sequence[Reduction]) -> None:
        """Reductions of the row, none of which reads another one's result."""
        evaluations = [Evaluation(self.lowering, lazy.detail) for lazy in level]
        walks = self.first_walks(evaluations)
        if self.stores and (len(walks) > 1 or not all(map(_takes_one_walk, evaluations))):
            raise NotByRows
        for number, together in enumerate(walks):
            others = [one.reduction for walk in walks[number + 1 :] for one in walk]
            results = self.first_results(together, [*others, *later])
            for one, result in zip(together, results, strict=True):
                one.go_on(result)
                self.finish(one)
        for one in evaluations:
            if id(one.reduction) not in self.elements.reduced:
                self.finish(one)

    def finish(self, evaluation: Evaluation) -> None:
        """Make the walks that are left, and bind the value."""
        reduction = evaluation.reduction
        value = evaluation.value(lambda asked: self.walk([(reduction, asked)], [])[0])
        bound = self.elements.bind(reduction.node.output.name, value, "")
        self.elements.reduced[id(reduction)] = bound

    def first_walks(self, evaluations: Sequence[Evaluation]) -> list[list[Evaluation]]:
        """Evaluations by the walk that they need first: those that read the same share one."""
        found: list[tuple[Axes, set[int], list[Evaluation]]] = []
        for evaluation in evaluations:
            if evaluation.asked is None:
                continue
            axes = self.axes(evaluation.reduction)
            read = {id(one) for one in values_in(evaluation.reduction.operand)}
            for others, values, together in found:
                is_same = axes == others and not values.isdisjoint(read)
                if is_same and evaluation.shares_walks and together[0].shares_walks:
                    values |= read
                    together.append(evaluation)
                    break
            else:
                found.append((axes, read, [evaluation]))
        return [together for _, _, together in found]

    def first_results(
        self, together: Sequence[Evaluation], later: Sequence[Reduction]
    ) -> list[Element]:
        """Make the first walk of evaluations; what is dear and needed again stays in a result."""
        # A walk that may end early does not pass all elements.
        passing = [one.reduction for one in together if one.reduction.kind not in ENDING_EARLY]
        kept: list[tuple[Operand, ArrayRef]] = []
        for operand in {id(one.operand): one.operand for one in passing}.values():
            target = self.scratch_for(operand, later)
            if target is not None:
                kept.append((operand, target))
        if passing and together[0].shares_walks:
            kept += self.written_on_the_way([one.operand for one in passing])
            kept += self.stored_on_the_way(passing[0])
        sums: dict[int, FloatSum] = {}
        for one in together:
            total, place = one.plain_sum, id(one.reduction.operand)
            if total is not None and (place not in sums or isinstance(total, Moments)):
                sums[place] = total
        own = [one for one in together if one.plain_sum in (None, *sums.values())]
        found = self.walk([(one.reduction, one.asked) for one in own if one.asked], kept)
        self.elements.scratch.update((id(operand), target) for operand, target in kept)
        results = dict(zip(own, found, strict=True))
        for one in together:
            if one.plain_sum is not None and one not in results:
                one.plain_sum.share(sums[id(one.reduction.operand)])
                results[one] = one.plain_sum.result()
        return [results[one] for one in together]

    def walk(
        self,
        walks: Sequence[tuple[Reduction, Walk]],
        kept: Sequence[tuple[Operand, ArrayRef]],
    ) -> Sequence[Element]:
        """Walk the same places for several accumulators, and keep the elements of some operands."""
        axes = self.axes(walks[0][0])

        def elements(places: Sequence[Expr]) -> tuple[Element, ...]:
            index = Index((*self.elements.row, *places), axes.groups)
            values = [self.elements(operand, index) for operand, _ in kept]
            found = [self.elements(reduction.operand, index) for reduction, _ in walks]
            for (_, target), value in zip(kept, values, strict=True):
                store(self.lowering, target, index, value)
            return tuple(asked.change(one) for one, (_, asked) in zip(found, walks, strict=True))

        extents = axes.extents[self.kept :]
        takers = [asked.taker for _, asked in walks]
        if kept:
            # What a walk writes on the way it would write twice.
            for taker in takers:
                taker.look_once()
        if len(takers) > 1:
            several = Several(self.lowering, takers)
            results = reduce_elements(
                self.lowering, several, extents, elements, alone=self.is_alone
            )
            return tuple(results)
        result = reduce_elements(
            self.lowering, takers[0], extents, lambda at: elements(at)[0], alone=self.is_alone
        )
        return (result,)

    def axes(self, reduction: Reduction) -> Axes:
        """The axes of a reduction's operand, with those of rows apart."""
        return self.group(reduction.operand)

    def group(self, operand: ArrayRef | Lazy) -> Axes:
        """The axes of what rows are made of: those of the rows apart, all others reduced."""
        reduced = frozenset(range(self.kept, operand.rank))
        return group_axes(self.lowering, operand, reduced, apart=self.kept)

    def own_target(self, operand: Lazy) -> ArrayRef | None:
        """Where an operand goes that is itself a result."""
        for value, target in self.targets.items():
            if self.lowering.operand(value) is operand:
                return target
        return None

    def scratch_for(self, operand: Operand, later: Sequence[Reduction]) -> ArrayRef | None:
        """A result whose row may hold the operand until the result itself is written."""
        if not isinstance(operand, Lazy) or id(operand) in self.elements.scratch:
            return None
        own = self.own_target(operand)
        if own is not None:
            self.complete.add(id(operand))
            return own
        if not is_dear(operand) or not self.is_needed_again(operand, later):
            return None
        # The result that is written last: no other one is written from what lies there.
        for value, target in list(self.targets.items())[-1:]:
            is_free = not (self.is_last_taken or self.is_reduced(value))
            if is_free and target.dims == operand.dims and target.dtype == operand.dtype:
                self.is_last_taken = True
                return target
        return None

    def written_on_the_way(
        self, operands: Sequence[ArrayRef | Lazy]
    ) -> list[tuple[Operand, ArrayRef]]:
        """Cheap results that need no reduction, and read what a walk over memory reads.

        Rows that are not walked alone are in the cache when results are written.  Loops over rolled
        arrays are cut at their ends, and copies of them would have all statements.
        """
        is_cut = any(node.kind == "np::rolled" for node in self.graph.block.nodes)
        if not self.is_alone or is_cut or self.lowering.target.is_device:
            return []
        read = {id(one) for operand in operands for one in values_in(operand)}
        axes = self.group(operands[0])
        found: list[tuple[Operand, ArrayRef]] = []
        free = list(self.targets.items())[: -1 if self.is_last_taken else None]
        for value, target in free:
            lazy = self.lowering.operand(value)
            if not isinstance(lazy, Lazy) or id(lazy) in self.complete or is_dear(lazy):
                continue
            parts = list(values_in(lazy))
            needs_none = not any(isinstance(one, Lazy) and one.is_reduction for one in parts)
            if needs_none and not read.isdisjoint(map(id, parts)) and self.group(lazy) == axes:
                self.complete.add(id(lazy))
                found.append((lazy, target))
        return found

    def stored_on_the_way(self, reduction: Reduction) -> list[tuple[Operand, ArrayRef]]:
        """What the group stores: the only walk reads everything before it is overwritten."""
        axes = self.axes(reduction)
        pairs: list[tuple[Operand, ArrayRef]] = []
        for value, target in self.stores.items():
            lazy = self.lowering.operand(value)
            assert isinstance(lazy, Lazy)
            if self.group(lazy) != axes or self.group(target) != axes:
                raise NotByRows
            pairs.append((lazy, target))
        return pairs

    def is_reduced(self, value: Value) -> bool:
        """Whether a result is written before the last pass: a reduction reads it."""
        lazy = self.lowering.operand(value)
        return any(
            self.lowering.operand(node.inputs[0]) is lazy for node in _reductions(self.graph)
        )

    def is_needed_again(self, operand: Lazy, later: Sequence[Reduction]) -> bool:
        """Whether a later reduction, or an output, reads the operand's elements.

        An output that only reads their sum does not; other reductions than such walk twice.
        """
        roots = [one.operand for one in later]
        roots += [self.lowering.operand(value) for value in self.targets]
        return any(one is operand for one in values_in(tuple(roots), _is_reduced_once))

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


_ONE_WALK = frozenset({"np::sum", "np::mean", "np::prod", "np::min", "np::max"})


def _is_reduced_once(lazy: Lazy) -> bool:
    """Whether a value is a reduction that one walk makes."""
    return lazy.is_reduction and lazy.node.kind in _ONE_WALK


def _takes_one_walk(evaluation: Evaluation) -> bool:
    """Whether a value needs one walk, which passes all elements."""
    return evaluation.asked is not None and evaluation.reduction.kind in _ONE_WALK


def _is_rearranged(operand: Operand) -> bool:
    """Whether NumPy's array of a value is in another order than C."""
    return isinstance(operand, (ArrayRef, Lazy)) and not is_row_major(order_of(operand))


def lower_by_rows(
    lowering: Lowering, graph: Graph, kept: int, stores: dict[Value, ArrayRef]
) -> None:
    """Lower a group whose values are bound, as one nest over rows.

    Parameters
    ----------
    lowering : Lowering
    graph : Graph
    kept : int
        How many leading axes the reductions keep.
    stores : dict
        The arrays that the group writes to, by what is bound to the new values.

    Raises
    ------
    NotByRows
        It does not fit.
    """
    values = [*graph.outputs, *(node.inputs[0] for node in _reductions(graph))]
    operands = [*map(lowering.operand, values), *stores.values()]
    is_cut = any(node.kind == "np::rolled" for node in graph.block.nodes)
    if any(map(_is_rearranged, operands)) or (stores and (is_cut or lowering.target.is_device)):
        raise NotByRows
    _Rows(lowering, graph, kept, stores=stores).lower()
