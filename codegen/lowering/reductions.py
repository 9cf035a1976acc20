"""Reductions: over trailing axes in variables, over leading axes in a row of the result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from jitcore.codegen.loops import Binary, Expr, Unary
from jitcore.codegen.lowering.accumulators import is_better
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    cast,
    compare,
    expression_dtype,
    select,
)
from jitcore.codegen.lowering.broadcasting import define_dims
from jitcore.codegen.lowering.elements import Elements, Index, load, scans_in, store
from jitcore.codegen.lowering.evaluation import Evaluation, Reduction, Walk, divided, freedom_of
from jitcore.codegen.lowering.kinds import POSITIONS
from jitcore.codegen.lowering.known_means import known_means
from jitcore.codegen.lowering.leading_axes import reduce_leading
from jitcore.codegen.lowering.nest import INDEX_NAMES, collapse, nest
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NotNative,
    Operand,
    Order,
)
from jitcore.codegen.lowering.orders import Rearranger, preferred_axes, reduced_order
from jitcore.codegen.lowering.reduced_axes import group_axes
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.codegen.lowering.walks import are_divided, reduce_elements
from jitcore.ir.graph import Node
from jitcore.ir.ops import REDUCTIONS
from jitcore.ir.types import TensorType

__all__ = ["RULES"]


# Over trailing axes -----------------------------------------------------------------------


def _reduce_inner(
    lowering: Lowering, reduction: Reduction, target: ArrayRef | None
) -> Element | None:
    """A loop over the results, and for each a walk over its elements."""
    axes = group_axes(lowering, reduction.operand, reduction.reduced, target)
    elements = Elements(lowering)
    scans = scans_in(lowering, [reduction.operand])
    reduced = axes.of(reduced=True)
    kept = axes.of(reduced=False)
    is_alone = not scans and are_divided(kept, reduced)
    with lowering.emitter.nest(), ExitStack() as stack:
        entries: list[Expr] = []
        for number, extent in enumerate(kept):
            name = INDEX_NAMES[min(number, len(INDEX_NAMES) - 1)]
            is_parallel = (number == 0 and not is_alone) or lowering.target.is_device
            loop = lowering.emitter.loop(name, ZERO, extent, parallel=is_parallel)
            entries.append(stack.enter_context(loop))
        elements.begin_scans(scans)

        def walk(asked: Walk) -> Element:
            def element(places: Sequence[Expr]) -> Element:
                return asked.change(elements(reduction.operand, axes.entries(entries, places)))

            if scans:
                asked.taker.one_by_one()
            return reduce_elements(lowering, asked.taker, reduced, element, alone=is_alone)

        value = Evaluation(lowering, reduction).value(walk)
        if target is None:
            return value
        store(lowering, target, Index(tuple(entries), axes.kept_groups), value)
    return None


# Over leading axes ------------------------------------------------------------------------


def _places_in_rows(lowering: Lowering, reduction: Reduction, target: ArrayRef) -> None:
    """Each row is compared with the extrema of those before it, which are kept beside places."""
    dtype = reduction.operand.dtype
    if dtype.kind == "c":
        raise NotNative("the place of an extremum of complex numbers")
    axes = group_axes(lowering, reduction.operand, reduction.reduced, target)
    number = axes.is_reduced.index(True)
    groups = axes.kept_groups
    extrema = lowering.allocate("extrema", target.dims, dtype, escapes=False)
    comparison = "gt" if reduction.kind == "np::argmax" else "lt"
    row = axes.extents[number + 1 :]
    emitter = lowering.emitter
    with nest(lowering, axes.extents[:number], parallel=True) as outer:
        with nest(lowering, row) as inner:
            kept = (*outer.entries, *inner.entries)
            first = Elements(lowering)(reduction.operand, axes.entries(kept, [ZERO]))
            store(lowering, extrema, Index(kept, groups), first)
            store(lowering, target, Index(kept, groups), ZERO)
        with emitter.loop("k", ONE, axes.extents[number]) as k, nest(lowering, row) as inner:
            kept = (*outer.entries, *inner.entries)
            index = Index(kept, groups)
            element = Elements(lowering)(reduction.operand, axes.entries(kept, [k]))
            before = emitter.copy("before", load(extrema, index))
            better = emitter.copy("better", is_better(comparison, element, before, dtype))
            store(lowering, extrema, index, select(better, element, before))
            store(lowering, target, index, select(better, k, load(target, index)))


def _rows(
    lowering: Lowering, reduction: Reduction, target: ArrayRef, means: ArrayRef | None
) -> None:
    if reduction.kind in ("np::var", "np::std"):
        _variance_rows(
            lowering, reduction, target, means or _row_means(lowering, reduction, target)
        )
    elif reduction.kind == "np::mean":
        _write_means(lowering, reduction, target)
    else:
        reduce_leading(lowering, reduction, target, _unchanged_in_rows)


def _unchanged_in_rows(elements: Elements, index: Index, element: Element) -> Element:
    return element


def _write_means(lowering: Lowering, reduction: Reduction, target: ArrayRef) -> None:
    count = cast(reduction.reduced_size(lowering), expression_dtype(target.dtype))
    reduce_leading(lowering, reduction, target, _unchanged_in_rows)
    _finish_all(lowering, target, lambda element: divided(element, count, target.dtype))


def _row_means(lowering: Lowering, reduction: Reduction, target: ArrayRef) -> ArrayRef:
    means = lowering.allocate("means", target.dims, target.dtype, escapes=False)
    _write_means(lowering, reduction, means)
    return means


def _variance_rows(
    lowering: Lowering, reduction: Reduction, target: ArrayRef, means: ArrayRef
) -> None:
    """The squares of the deviations from the means."""
    name = target.dtype.name

    def squared(elements: Elements, index: Index, element: Element) -> Element:
        difference = Binary("sub", element, elements(means, index), name)
        deviation = elements.bind("deviation", difference, "")
        return Binary("mul", deviation, deviation, name)

    def finished(element: Element) -> Element:
        variance = Binary("div", element, divisor, name)
        return Unary("sqrt", variance, name) if reduction.kind == "np::std" else variance

    reduce_leading(lowering, reduction, target, squared)
    freedom = freedom_of(lowering, reduction, "float64")
    divisor = lowering.emitter.copy("divisor", cast(freedom, name))
    _finish_all(lowering, target, finished)


def _finish_all(lowering: Lowering, target: ArrayRef, finish: Callable[[Element], Element]) -> None:
    """Change all results in place."""
    with nest(lowering, target.dims, collapse(lowering, target.dims, [target])) as index:
        store(lowering, target, index, finish(load(target, index)))


# Rules ------------------------------------------------------------------------------------

_EMPTY_MESSAGES = {
    "np::min": "zero-size array to reduction operation minimum which has no identity",
    "np::max": "zero-size array to reduction operation maximum which has no identity",
    "np::argmin": "attempt to get argmin of an empty sequence",
    "np::argmax": "attempt to get argmax of an empty sequence",
}


def _check_not_empty(lowering: Lowering, reduction: Reduction) -> None:
    message = _EMPTY_MESSAGES.get(reduction.kind)
    if message is None or "initial" in reduction.node.attributes:
        return
    is_empty = compare("eq", reduction.reduced_size(lowering), ZERO)
    lowering.fail(is_empty, ValueError, message)


def _reduce(lowering: Lowering, node: Node) -> Operand:
    operand = lowering.operand(node.inputs[0])
    if not isinstance(operand, (ArrayRef, Lazy)):
        raise NotNative(f"{node.kind} of a scalar")
    reduced = frozenset(node.attributes["axis"])
    type_ = node.output.type
    assert isinstance(type_, TensorType) and type_.dtype is not None
    reduction = Reduction(node, operand, reduced, type_.dtype)
    _check_not_empty(lowering, reduction)
    if lowering.reduces_lazily:
        return _lazy(lowering, reduction)
    if type_.scalar:
        reduction, _ = _rearranged(lowering, reduction)
        return _reduce_inner(lowering, reduction, None)
    target = _target(lowering, reduction)
    lowering.notes.append(f"loops of {node.kind}, for {target.root}")
    results = _without_kept_axes(lowering, reduction, target)
    means = _means(lowering, reduction)
    reduction, kept = _rearranged(lowering, reduction)
    results = Rearranger(lowering, kept)(results)
    is_inner = _ends_reduced(reduction) or lowering.target.is_device
    if is_inner or (node.kind in POSITIONS and len(reduction.reduced) > 1):
        _reduce_inner(lowering, reduction, results)
    elif node.kind in POSITIONS:
        _places_in_rows(lowering, reduction, results)
    else:
        _rows(lowering, reduction, results, means)
    return target


def _ends_reduced(reduction: Reduction) -> bool:
    """Whether only axes of extent 1 come after the last one that is reduced, if any."""
    rest = reduction.operand.dims[max(reduction.reduced) + 1 :]
    return all(extent == ONE for extent in rest)


def _means(lowering: Lowering, reduction: Reduction) -> ArrayRef | None:
    """What the program knows already of a variance whose results have one axis."""
    is_line = reduction.operand.rank - len(reduction.reduced) == 1
    if reduction.kind not in ("np::var", "np::std") or not is_line:
        return None
    found = known_means(lowering, reduction.node)
    return None if found is None else _without_kept_axes(lowering, reduction, found)


def _rearranged(lowering: Lowering, reduction: Reduction) -> tuple[Reduction, tuple[int, ...]]:
    """The same reduction of the operand with its axes as they lie in memory.

    Also gives the order of the results' axes then.
    """
    rank = reduction.operand.rank
    axes = preferred_axes(reduction.operand)
    if scans_in(lowering, [reduction.operand]):
        axes = tuple(range(rank))
    kept = [axis for axis in range(rank) if axis not in reduction.reduced]
    # Places are counted in C order.
    if axes == tuple(range(rank)) or (reduction.kind in POSITIONS and len(reduction.reduced) > 1):
        return reduction, tuple(range(len(kept)))
    operand = Rearranger(lowering, axes)(reduction.operand)
    reduced = frozenset(place for place, axis in enumerate(axes) if axis in reduction.reduced)
    return (
        Reduction(reduction.node, operand, reduced, reduction.dtype),
        tuple(kept.index(axis) for axis in axes if axis in kept),
    )


def _lazy(lowering: Lowering, reduction: Reduction) -> Lazy:
    """A reduction that is computed in the loops of its consumers."""
    node = reduction.node
    dims = define_dims(lowering, node.output, _result_dims(reduction))
    return Lazy(
        node, (reduction.operand,), dims, reduction.dtype, detail=reduction, is_reduction=True
    )


def _result_dims(reduction: Reduction) -> list[Expr]:
    keepdims = reduction.node.attributes.get("keepdims", False)
    dims: list[Expr] = []
    for axis, dim in enumerate(reduction.operand.dims):
        if axis not in reduction.reduced:
            dims.append(dim)
        elif keepdims:
            dims.append(ONE)
    return dims


def _target(lowering: Lowering, reduction: Reduction) -> ArrayRef:
    """Memory for the results, with axes of extent 1 where ``keepdims`` asks for them."""
    node = reduction.node
    extents = define_dims(lowering, node.output, _result_dims(reduction))
    return lowering.allocate(
        node.output.name,
        extents,
        reduction.dtype,
        escapes=lowering.escapes(node.output),
        order=_result_order(reduction, len(extents)),
    )


def _result_order(reduction: Reduction, rank: int) -> Order | None:
    """The order of the results; ``argmin`` and ``argmax`` give them in C order."""
    if rank < 2 or reduction.kind in POSITIONS:
        return None
    keepdims = rank == reduction.operand.rank
    return reduced_order(reduction.operand, reduction.reduced, keepdims=keepdims)


def _without_kept_axes(lowering: Lowering, reduction: Reduction, target: ArrayRef) -> ArrayRef:
    """The results without the axes that ``keepdims`` adds."""
    rank = reduction.operand.rank
    if target.rank < rank:
        return target
    kept = [axis for axis in range(rank) if axis not in reduction.reduced]
    return lowering.view(
        target,
        dims=tuple(target.dims[axis] for axis in kept),
        strides=tuple(target.strides[axis] for axis in kept),
    )


RULES: dict[str, Rule] = dict.fromkeys(sorted(REDUCTIONS), _reduce)
