"""Values at one place: loads, and lazy values pulled through their producers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from jitcore.codegen import scalar
from jitcore.codegen.loops import Binary, Expr, Load, Store
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    cast,
    compare,
    constant,
    expression_dtype,
    integer,
    multiply,
    select,
    subtract,
)
from jitcore.codegen.lowering.broadcasting import Modes, stretched
from jitcore.codegen.lowering.kinds import SCALARS
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    Element,
    Lazy,
    NewAxis,
    NotNative,
    Operand,
    Pair,
    Point,
    Slice,
    values_in,
)
from jitcore.codegen.lowering.state import Lowering, source_line
from jitcore.ir.dataclass import dataclass
from jitcore.ir.ops import SCANS
from jitcore.ir.types import TensorType

if TYPE_CHECKING:
    from jitcore.codegen.lowering.running import Running

__all__ = [
    "Elements",
    "Index",
    "NotByRows",
    "convert",
    "choose",
    "element_index",
    "load",
    "operand_index",
    "scalar_result",
    "scans_in",
    "store",
    "uncollapsed",
]


@dataclass(frozen=True, slots=True)
class Index:
    """A place in an array: one entry for each group of adjacent axes that are walked as one."""

    entries: tuple[Expr, ...]
    groups: tuple[int, ...]


def uncollapsed(entries: Iterable[Expr]) -> Index:
    """An index with one entry an axis."""
    found = tuple(entries)
    return Index(found, (1,) * len(found))


def scans_in(lowering: Lowering, operands: Sequence[Operand]) -> list[Lazy]:
    """The scans that are computed where values are read, which takes one loop from end to end."""
    if not lowering.scans_lazily:
        return []
    found = values_in(tuple(operands))
    return [one for one in found if isinstance(one, Lazy) and one.kind in SCANS]


def element_index(array: ArrayRef, index: Index) -> Expr:
    """Where an element lies, in elements after the array's pointer."""
    place = array.offset
    first = 0
    for entry, count in zip(index.entries, index.groups, strict=True):
        axes = range(first, first + count)
        first += count
        # Axes walked as one are walked with the stride of the last one that has a length.
        axis = next((axis for axis in reversed(axes) if array.dims[axis] != ONE), axes[-1])
        place = add(place, multiply(entry, array.strides[axis])) if entry != ZERO else place
    return place


def load(array: ArrayRef, index: Index) -> Element:
    """The element at a place, not bound to a variable."""
    place = element_index(array, index)
    if array.dtype.kind != "c":
        return Load(array.pointer, place, array.dtype.name, array.root, array.unit)
    part = expression_dtype(array.dtype)
    first = multiply(place, integer(2))
    return Pair(
        Load(array.pointer, first, part, array.root),
        Load(array.pointer, add(first, ONE), part, array.root),
    )


def store(lowering: Lowering, array: ArrayRef, index: Index, element: Element) -> None:
    """Write the element at a place."""
    place = element_index(array, index)
    if not isinstance(element, Pair):
        if element.dtype != expression_dtype(array.dtype):
            raise AssertionError(f"internal error: {element.dtype} is stored into {array.dtype}")
        lowering.emitter.emit(Store(array.pointer, place, element, array.root, array.unit))
        return
    first = multiply(place, integer(2))
    lowering.emitter.emit(Store(array.pointer, first, element.re, array.root))
    lowering.emitter.emit(Store(array.pointer, add(first, ONE), element.im, array.root))


class NotByRows(Exception):
    """A group's reduction is read in another place than its own row."""


class Elements:
    """Pulls values at places into the loops that are open; each is computed once a place."""

    def __init__(self, lowering: Lowering) -> None:
        self.lowering = lowering
        self._known: dict[tuple[int, Index], Element] = {}
        self._kept: list[Operand] = []
        self._running: dict[int, Running] = {}

    def begin_scans(self, scans: Iterable[Lazy]) -> None:
        """Declare what scans take along the loop that is opened next, which takes all elements."""
        for lazy in scans:
            # Few programs have any, so they are imported with the first one.
            running = import_module("jitcore.codegen.lowering.running").running
            self._running[id(lazy)] = running(self.lowering, lazy.node, lazy.dtype)

    def take(self, scan: Lazy, element: Element) -> Element:
        """The result of a scan at the element that it takes next."""
        return self._running[id(scan)].take(element)

    def __call__(self, operand: Operand, index: Index) -> Element:
        """The value of an operand at a place."""
        found = self._at_hand(operand, index)
        if found is not None:
            return found
        # Values that wait for their operands are on a stack of ours, because chains are long.
        waiting = [self._compute(operand, index)]
        while waiting:
            try:
                operand, index = waiting[-1].send(found)
            except StopIteration as end:
                found = end.value
                waiting.pop()
                continue
            found = self._at_hand(operand, index)
            if found is None:
                waiting.append(self._compute(operand, index))
        return found

    def _at_hand(self, operand: Operand, index: Index) -> Element | None:
        """A value that needs no computing, or not again."""
        operand = self.source(operand)
        if not isinstance(operand, (ArrayRef, Lazy)):
            return operand
        found = self._known.get((id(operand), index))
        parts = (found.re, found.im) if isinstance(found, Pair) else (found,)
        # What may change is bound inside of loops that it does not depend on.
        is_bound = self.lowering.emitter.is_bound
        return found if all(part is None or is_bound(part) for part in parts) else None

    def _compute(self, operand: Operand, index: Index) -> Pull:
        operand = self.source(operand)
        if isinstance(operand, ArrayRef):
            name = operand.root or "array"
            element = self.bind(f"{name}_element", load(operand, index), "")
        elif operand.is_reduction:
            element = self.of_reduction(operand, index)
        else:
            rule = _RULES.get(operand.kind, _elementwise)
            element = yield from rule(self, operand, index)
            element = self.bind(operand.name, element, source_line(operand.node.source))
        self._kept.append(operand)  # keeps the identity in the key from being reused
        self._known[id(operand), index] = element
        return element

    def source(self, operand: Operand) -> Operand:
        """What the elements of an operand are taken from."""
        return operand

    def of_reduction(self, lazy: Lazy, index: Index) -> Element:
        """The value of a reduction that is part of the loops."""
        raise NotByRows

    def bind(self, name: str, element: Element, comment: str) -> Element:
        """Bind an element where the loops it depends on begin."""
        hoisted = self.lowering.emitter.hoisted
        if isinstance(element, Pair):
            return Pair(
                hoisted(f"{name}_re", element.re, comment),
                hoisted(f"{name}_im", element.im, comment),
            )
        return hoisted(name, element, comment)


def operand_index(index: Index, modes: Modes) -> Index:
    """The index of an operand, whose axes are the last ones of its user."""
    entries: list[Expr] = []
    groups: list[int] = []
    end = len(modes)
    for entry, count in zip(reversed(index.entries), reversed(index.groups), strict=True):
        own = modes[max(end - count, 0) : end]
        if not own:
            break
        # Axes walked as one are all the user's, or all stretched.
        entries.append(stretched(entry, own[-1]))
        groups.append(len(own))
        end -= count
    return Index(tuple(reversed(entries)), tuple(reversed(groups)))


# Rules ------------------------------------------------------------------------------------

Pull = Generator[tuple[Operand, Index], Element, Element]
"""A value being computed: it yields each operand with its place, is sent the operand's value, and
returns its own."""


def _operands(lazy: Lazy, index: Index) -> Generator[tuple[Operand, Index], Element, list[Element]]:
    """The values of an elementwise node's operands."""
    found = []
    for operand, modes in zip(lazy.operands, lazy.modes, strict=True):
        element = yield operand, operand_index(index, modes)
        found.append(element)
    return found


def scalar_result(
    kind: str,
    operands: Sequence[Element],
    dtype: Any,
    *,
    scalars: bool = False,
    arrays: bool = False,
) -> Element:
    """An elementwise operation on operands in the dtype of its loop; see ``Scalar.text``."""
    row = SCALARS[kind]
    text = row.text(dtype.kind, scalars=scalars, arrays=arrays)
    if text is None:
        raise NotNative(f"{kind} of {dtype}")
    names: dict[str, Expr] = {}
    for name, operand in zip("xyz", operands, strict=False):
        if isinstance(operand, Pair):
            names[f"{name}_re"], names[f"{name}_im"] = operand.re, operand.im
        else:
            names[name] = operand
    part = expression_dtype(dtype)
    if isinstance(text, tuple):
        return Pair(*(scalar.expression(one, names, part) for one in text))
    return scalar.expression(text, names, part)


def _elementwise(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    operands = yield from _operands(lazy, index)
    types = [value.type for value in lazy.node.inputs]
    scalars = all(isinstance(type_, TensorType) and type_.scalar for type_ in types)
    arrays = not elements.lowering.target.is_device and _is_surely_looped(lazy)
    return scalar_result(lazy.node.kind, operands, lazy.detail, scalars=scalars, arrays=arrays)


def _is_surely_looped(lazy: Lazy) -> bool:
    """Whether NumPy has no short cut for the last operand, as it has for squares."""
    last = lazy.node.inputs[-1]
    if last.constant is not None:
        return bool(lazy.dims) and last.constant.attributes["value"] != 2
    return isinstance(last.type, TensorType) and bool(last.type.dims)


def convert(element: Element, source: Any, target: Any) -> Element:
    """``astype`` of one element."""
    part = expression_dtype(target)
    if isinstance(element, Pair):
        if target.kind == "c":
            return Pair(cast(element.re, part), cast(element.im, part))
        if target.kind != "b":
            raise NotNative("a cast that drops imaginary parts")
        return Binary("or", cast(element.re, "bool"), cast(element.im, "bool"), "bool")
    if target.kind == "c":
        return Pair(cast(element, part), constant(0, part))
    return cast(element, part)


def _cast(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    (element,) = yield from _operands(lazy, index)
    return convert(element, lazy.detail, lazy.dtype)


def choose(condition: Expr, x: Element, y: Element) -> Element:
    """``x if condition else y`` of real or complex elements."""
    if isinstance(x, Pair):
        return Pair(select(condition, x.re, y.re), select(condition, x.im, y.im))
    return select(condition, x, y)


def _where(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    condition, x, y = yield from _operands(lazy, index)
    return choose(condition, x, y)


def _same(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    """``np::broadcast_to``, ``np::full``, ``np::store``, ``np::copy``: the operand's value."""
    (element,) = yield from _operands(lazy, index)
    return element


def _iota(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    start, step = yield from _operands(lazy, index)
    (entry,) = index.entries
    return iota_element(start, step, entry, lazy.dtype)


def iota_element(start: Element, step: Element, place: Expr, dtype: Any) -> Element:
    """``start + place * step`` in a dtype."""
    if isinstance(start, Pair):
        raise NotNative("a complex range")
    count = cast(place, dtype.name)
    if step == constant(1, dtype) and start == constant(0, dtype):
        return count
    scaled = count if step == constant(1, dtype) else Binary("mul", count, step, dtype.name)
    return Binary("add", start, scaled, dtype.name)


def _view(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    (base,) = lazy.operands
    entries = iter(index.entries)
    places: list[Expr] = []
    for axis in lazy.detail:
        if isinstance(axis, Point):
            places.append(axis.index)
            continue
        entry = next(entries)
        if isinstance(axis, Slice):
            step = multiply(entry, axis.step)
            places.append(elements.lowering.emitter.hoisted("place", add(axis.start, step)))
        else:
            assert isinstance(axis, NewAxis)
    element = yield base, uncollapsed(places)
    return element


def _transpose(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    (base,) = lazy.operands
    places: list[Expr] = [ZERO] * len(index.entries)
    for entry, axis in zip(index.entries, lazy.detail, strict=True):
        places[axis] = entry
    element = yield base, uncollapsed(places)
    return element


def _part(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    (base,) = lazy.operands
    element = yield base, index
    assert isinstance(element, Pair)
    return element.im if lazy.detail else element.re


def _scanned(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    (base,) = lazy.operands
    element = yield base, index
    return elements.take(lazy, element)


def _rolled(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    """Places before the shift come from the other end; `loop_passes.range_cuts` cuts there."""
    (base,) = lazy.operands
    places: list[Expr] = []
    for entry, dim, shift in zip(index.entries, lazy.dims, lazy.detail, strict=True):
        if shift == 0:
            places.append(entry)
            continue
        wrapped = add(entry, subtract(dim, integer(shift)))
        place = select(compare("lt", entry, integer(shift)), wrapped, add(entry, integer(-shift)))
        places.append(elements.lowering.emitter.hoisted("place", place))
    element = yield base, uncollapsed(places)
    return element


def _gather(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    base, places = lazy.detail
    element = yield base, places(elements, index.entries)
    return element


def _narrow_product(elements: Elements, lazy: Lazy, index: Index) -> Pull:
    """A row times a column: ``detail`` joins their elements."""
    x, y = lazy.operands
    *row, column = index.entries
    left: list[Element] = []
    right: list[Element] = []
    for k in range(y.dims[0].value):
        left.append((yield x, uncollapsed([*row, integer(k)])))
        right.append((yield y, uncollapsed([integer(k), column])))
    return lazy.detail(left, right)


ElementRule = Callable[[Elements, Lazy, Index], Pull]

_RULES: dict[str, ElementRule] = {
    "np::cast": _cast,
    "np::where": _where,
    "np::broadcast_to": _same,
    "np::full": _same,
    "np::store": _same,
    "np::copy": _same,
    "np::iota": _iota,
    "np::gather": _gather,
    "np::rolled": _rolled,
    "np::narrow_product": _narrow_product,
    "np::view": _view,
    "np::transpose": _transpose,
    "np::real": _part,
    "np::imag": _part,
    **dict.fromkeys(SCANS, _scanned),
}
