"""The order of axes in memory: NumPy gives a result the order of its operands, so lowering does.

NumPy's iterator sorts axes by the strides of all operands, and C order wins where they disagree
(``npyiter_find_best_axis_ordering`` in NumPy's ``nditer_constr.c``).  A result that is not in C
order is also written in its own order, by walking all operands with their axes rearranged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import product

from jitcore.codegen.entries.array_orders import ranked
from jitcore.codegen.loops import Expr
from jitcore.codegen.lowering.arithmetic import ONE, ZERO
from jitcore.codegen.lowering.broadcasting import Modes
from jitcore.codegen.lowering.kinds import POSITIONS, SCALARS
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Lazy,
    NewAxis,
    NotNative,
    Operand,
    Order,
    Point,
    Slice,
    UnknownOrder,
    bottom_up,
    row_major,
    walked_axes,
)
from jitcore.codegen.lowering.state import Lowering
from jitcore.ir.dataclass import dataclass

__all__ = [
    "Rearranger",
    "aligned_order",
    "copied_order",
    "is_row_major",
    "iterated_order",
    "joined_order",
    "lasting_order",
    "order_of",
    "preferred_axes",
    "reduced_order",
]

MAX_UNKNOWN = 6
"""As many axes that may be stretched are tried both ways."""


# NumPy's two sorts ------------------------------------------------------------------------


def _sorted(axes: Sequence[int], goes_before: Callable[[int, int], bool | None]) -> list[int]:
    """NumPy's stable sort of axes by insertion; None where nothing decides between two axes."""
    found: list[int] = []
    for axis in axes:
        place = len(found)
        for before in reversed(range(len(found))):
            decided = goes_before(axis, found[before])
            if decided is False:
                break
            if decided:
                place = before
        found.insert(place, axis)
    return found


def _compared(orders: Sequence[Order], small: int, large: int) -> bool | None:
    """Whether the stride of one axis is smaller than that of another, in all operands."""
    found: bool | None = None
    for order in orders:
        if order[small] and order[large]:
            if order[large] <= order[small]:
                return False
            found = True
    return found


def iterated_order(orders: Sequence[Order], rank: int) -> Order:
    """The order of a result of NumPy's iterator over operands of these orders."""
    inwards = _sorted(range(rank - 1, -1, -1), lambda one, two: _compared(orders, one, two))
    return _numbered(inwards[::-1])


def _numbered(axes: Sequence[int]) -> Order:
    """The order whose axes, from the largest stride on, are these."""
    numbers = [0] * len(axes)
    for place, axis in enumerate(axes):
        numbers[axis] = len(axes) - place
    return tuple(numbers)


def is_row_major(order: Order) -> bool:
    """Whether a copy in this order is in C order."""
    known = [one for one in order if one]
    return known == sorted(known, reverse=True)


# The order of values ----------------------------------------------------------------------


def order_of(operand: ArrayRef | Lazy) -> Order:
    """The order that NumPy's array of this value has; 0 for axes of extent 1 too."""
    if operand.rank < 2:
        return row_major(operand.rank)
    if isinstance(operand, ArrayRef):
        if operand.order is None:
            raise UnknownOrder("the order of an array's axes is known only when the program runs")
        return _without_ones(operand.order, operand.dims)
    if operand.order is None:
        for lazy in bottom_up(operand, _undecided):
            lazy.order = _without_ones(_lazy_order(lazy), lazy.dims)
    assert operand.order is not None
    return operand.order


def _undecided(lazy: Lazy) -> list[Lazy]:
    """The values whose orders decide about that of a value, and are not known yet."""
    if not _asks(lazy):
        return []
    lazies = (one for one in lazy.operands if isinstance(one, Lazy))
    return [one for one in lazies if one.rank > 1 and one.order is None]


def _asks(lazy: Lazy) -> bool:
    """Whether the order of a value depends on those of its operands."""
    if lazy.is_reduction:
        reduction: str = lazy.detail.kind
        return reduction not in POSITIONS
    if lazy.kind == "np::copy":
        return bool(lazy.node.attributes.get("order", "K") == "K")
    return lazy.kind in SCALARS or lazy.kind in _RULES


def _without_ones(order: Order, dims: Sequence[Expr]) -> Order:
    return tuple(0 if dim == ONE else one for one, dim in zip(order, dims, strict=True))


def _lazy_order(lazy: Lazy) -> Order:
    if lazy.is_reduction:
        reduction = lazy.detail
        if reduction.kind in POSITIONS:
            return row_major(lazy.rank)
        keepdims = lazy.rank == reduction.operand.rank
        return reduced_order(reduction.operand, reduction.reduced, keepdims=keepdims)
    if lazy.kind in SCALARS:
        return _elementwise(lazy)
    rule = _RULES.get(lazy.kind)
    return row_major(lazy.rank) if rule is None else rule(lazy)


def _elementwise(lazy: Lazy) -> Order:
    rank = lazy.rank
    pairs = [
        (order_of(one), modes)
        for one, modes in zip(lazy.operands, lazy.modes, strict=True)
        if isinstance(one, (ArrayRef, Lazy)) and one.rank
    ]
    orders = [aligned_order(order, modes, rank) for order, modes in pairs]
    if all(map(is_row_major, orders)):
        return row_major(rank)
    found = {iterated_order(one, rank) for one in _stretched_ways(orders, pairs, rank)}
    if len(found) > 1:
        raise NotNative("a result whose order of axes depends on what is stretched")
    return found.pop()


def aligned_order(order: Order, modes: Modes, rank: int) -> Order:
    """An operand's order over the axes of its user: axes that are stretched are not walked."""
    own = tuple(0 if mode == ZERO else one for one, mode in zip(order, modes, strict=True))
    return (0,) * (rank - len(own)) + own


def _stretched_ways(
    orders: Sequence[Order], pairs: Sequence[tuple[Order, Modes]], rank: int
) -> Iterator[list[Order]]:
    """The orders of operands, for each way in which extents may turn out to be 1."""
    unknown = [
        (number, rank - len(modes) + axis)
        for number, (_, modes) in enumerate(pairs)
        for axis, mode in enumerate(modes)
        if mode is not None and mode != ZERO
    ]
    if len(unknown) > MAX_UNKNOWN:
        raise NotNative("a result whose order of axes depends on what is stretched")
    for walked in product([True, False], repeat=len(unknown)):
        found = [list(order) for order in orders]
        for (number, axis), is_walked in zip(unknown, walked, strict=True):
            found[number][axis] *= is_walked
        yield [tuple(order) for order in found]


def _of_copy(lazy: Lazy) -> Order:
    (base,) = lazy.operands
    if lazy.node.attributes.get("order", "K") != "K":
        return row_major(lazy.rank)
    return copied_order(base)


def _of_full(lazy: Lazy) -> Order:
    return row_major(lazy.rank) if lazy.detail is None else tuple(lazy.detail)


def _of_view(lazy: Lazy) -> Order:
    axes = iter(order_of(lazy.operands[0]))
    found: list[int] = []
    for axis in lazy.detail:
        number = 0 if isinstance(axis, NewAxis) else next(axes)
        if not isinstance(axis, Point):
            found.append(number)
    return tuple(found)


def _of_transpose(lazy: Lazy) -> Order:
    base = order_of(lazy.operands[0])
    return tuple(base[axis] for axis in lazy.detail)


def _of_part(lazy: Lazy) -> Order:
    return order_of(lazy.operands[0])


def _of_broadcast(lazy: Lazy) -> Order:
    (base,), (modes,) = lazy.operands, lazy.modes
    if any(mode is not None and mode != ZERO for mode in modes):
        raise NotNative("a broadcast whose order of axes depends on what is stretched")
    return aligned_order(order_of(base), modes, lazy.rank)


_RULES: dict[str, Callable[[Lazy], Order]] = {
    "np::copy": _of_copy,
    "np::rolled": _of_copy,
    "np::full": _of_full,
    "np::view": _of_view,
    "np::transpose": _of_transpose,
    "np::real": _of_part,
    "np::imag": _of_part,
    "np::broadcast_to": _of_broadcast,
}
"""By kind of a lazy value; others are in C order."""


# Results ----------------------------------------------------------------------------------


def copied_order(operand: ArrayRef | Lazy) -> Order:
    """The order of a new array in the order of another (``PyArray_NewLikeArray``)."""
    return iterated_order([_shaped(operand)], operand.rank)


def _shaped(operand: ArrayRef | Lazy) -> Order:
    """The order of an operand where only axes of extent 1 count for nothing."""
    pairs = zip(order_of(operand), operand.dims, strict=True)
    return tuple(0 if dim == ONE else one + 1 for one, dim in pairs)


def joined_order(operands: Sequence[ArrayRef | Lazy], rank: int) -> Order:
    """The order of a concatenation (``PyArray_CreateMultiSortedStridePerm``)."""
    orders = [_shaped(one) for one in operands]
    return _numbered(_sorted(range(rank), lambda one, two: _compared(orders, two, one)))


def reduced_order(
    operand: ArrayRef | Lazy, reduced: frozenset[int], *, keepdims: bool = False
) -> Order:
    """The order of a reduction by a ufunc: that of the axes it keeps."""
    order = iterated_order([order_of(operand)], operand.rank)
    return tuple(one for axis, one in enumerate(order) if keepdims or axis not in reduced)


def lasting_order(array: ArrayRef) -> Order | None:
    """The order of a variable that holds this array, equal for arrays that lie alike."""
    if array.order is None:
        return None
    order = _without_ones(array.order, array.dims)
    is_stretched = any(one == 0 and dim != ONE for one, dim in zip(order, array.dims, strict=True))
    if is_row_major(order) and not is_stretched:
        return row_major(array.rank)
    return ranked(order)


# Walking ----------------------------------------------------------------------------------


def preferred_axes(operand: ArrayRef | Lazy) -> tuple[int, ...]:
    """The axes of a value from the outermost loop to the innermost, for its memory's sake."""
    try:
        order = order_of(operand)
    except NotNative:  # only the run shows the order: any will do
        order = row_major(operand.rank)
    return walked_axes(iterated_order([order], operand.rank))


@dataclass(slots=True)
class Rearranger:
    """Gives values with their axes in another order; equal values stay equal."""

    lowering: Lowering
    axes: tuple[int, ...]
    _known: dict[int, Operand] = field(default_factory=dict)

    def __call__(self, operand: Operand) -> Operand:
        """The operand with axes of extent 1 put before its own, and all axes rearranged."""
        if not isinstance(operand, (ArrayRef, Lazy)):
            return operand
        if id(operand) not in self._known:
            for one in bottom_up(operand, self._missing):
                self._known[id(one)] = self._rearranged(one)
        return self._known[id(operand)]

    def _missing(self, operand: ArrayRef | Lazy) -> list[ArrayRef | Lazy]:
        """The values to rearrange before a value is."""
        if not isinstance(operand, Lazy) or not operand.is_aligned:
            return []
        found = (one for one in operand.operands if isinstance(one, (ArrayRef, Lazy)))
        return [one for one in found if id(one) not in self._known]

    def _rearranged(self, operand: ArrayRef | Lazy) -> Operand:
        missing = len(self.axes) - operand.rank
        wide = (ONE,) * missing + operand.dims
        dims = tuple(wide[axis] for axis in self.axes)
        if isinstance(operand, ArrayRef):
            strides = (ZERO,) * missing + operand.strides
            return self.lowering.view(
                operand, dims=dims, strides=tuple(strides[axis] for axis in self.axes)
            )
        if operand.is_aligned:
            return self._rearranged_aligned(operand, dims)
        if missing:
            axes = (NewAxis(),) * missing + tuple(Slice(ZERO, dim, ONE) for dim in operand.dims)
            operand = Lazy(
                operand.node, (operand,), wide, operand.dtype, detail=axes, as_kind="np::view"
            )
        return Lazy(
            operand.node, (operand,), dims, operand.dtype, detail=self.axes, as_kind="np::transpose"
        )

    def _rearranged_aligned(self, lazy: Lazy, dims: tuple[Expr, ...]) -> Lazy:
        modes = tuple(
            self._rearranged_modes(one, own)
            for one, own in zip(lazy.operands, lazy.modes, strict=True)
        )
        operands = tuple(self(one) for one in lazy.operands)
        return Lazy(lazy.node, operands, dims, lazy.dtype, modes, lazy.detail, as_kind=lazy.as_kind)

    def _rearranged_modes(self, operand: Operand, modes: Modes) -> Modes:
        if not isinstance(operand, (ArrayRef, Lazy)):
            return ()
        wide = (ZERO,) * (len(self.axes) - len(modes)) + modes
        return tuple(wide[axis] for axis in self.axes)
