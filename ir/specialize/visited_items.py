"""What loops visit: how many items there are, and what they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import ITERATORS, Block, Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize import lists, objects
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.chosen_elements import chosen_element, require_choice
from jitcore.ir.specialize.typed_builder import is_known_dict
from jitcore.ir.types import (
    ANY,
    BOOL,
    LocalListType,
    ObjectListType,
    SharedListType,
    TensorType,
    TupleType,
)

__all__ = [
    "Items",
    "count_nodes",
    "counted_items",
    "few_numbers",
    "is_known_list",
    "is_known",
    "known_constant",
    "known_items",
]

MAX_UNROLLED = 64
"""How many nodes a loop over a range may become for the sake of a list's elements.

Its constants are not counted: most of them become parts of other nodes.
"""

ENDLESS = 2**63 - 1
"""The trip count of a loop that only its condition ends."""


@dataclass(frozen=True, slots=True)
class Items:
    """What a loop visits.

    Parameters
    ----------
    trip : Value
        How many there are at most.
    item : callable
        Makes the value of the loop's variable from the iteration's number.
    is_there : callable, optional
        Whether there is an item of this number, where the loop itself may change that.
    """

    trip: Value
    item: Callable[[Value], Value]
    is_there: Callable[[Value], Value] | None = None

    def later(self, worker: BranchBuilder) -> Items:
        """All but the first."""

        def after(function: Callable[[Value], Value]) -> Callable[[Value], Value]:
            return lambda i: function(worker.op("prim::add", i, 1))

        is_there = None if self.is_there is None else after(self.is_there)
        return Items(worker.op("prim::sub", self.trip, 1), after(self.item), is_there)

    def goes_on(self, worker: BranchBuilder, go_on: Value, number: Callable[[], Value]) -> Value:
        """Whether a loop goes on that visits the item of this number next."""
        if self.is_there is None or go_on.type != BOOL or is_known(go_on, 0):
            return go_on
        is_there = self.is_there(number())
        return is_there if is_known(go_on, 1) else worker.op("prim::and_", go_on, is_there)


def known_items(worker: BranchBuilder, iterable: Value) -> list[Value] | None:
    """All values a loop visits where its iterable is a tuple or a list display, or wraps one."""
    node = iterable.node
    kind = node.kind if node is not None else ""
    if isinstance(iterable.type, TupleType) or kind == "prim::ListConstruct":
        return worker.elements(iterable)
    if is_known_list(iterable) or is_known_dict(iterable):
        return worker.elements(iterable)
    if node is None or kind not in ITERATORS:
        return None
    if "starred" in node.attributes:
        # It has no types, and its operands are not what it visits.
        return None
    if kind == "prim::enumerate":
        inner = known_items(worker, node.inputs[0])
        if inner is None:
            return None
        # A node that has no types may say no start.
        start = node.inputs[1] if len(node.inputs) > 1 else worker.constant(0)
        numbers = [worker.op("prim::add", start, number) for number in range(len(inner))]
        return [worker.make_tuple([one, two]) for one, two in zip(numbers, inner, strict=True)]
    columns = [known_items(worker, value) for value in node.inputs]
    if kind == "prim::reversed":
        return None if columns[0] is None else columns[0][::-1]
    known = [column for column in columns if column is not None]
    if len(known) < len(columns):
        return None
    return [worker.make_tuple(row) for row in zip(*known, strict=False)]


def is_known_list(value: Value) -> bool:
    return isinstance(value.type, LocalListType) and value.type.count is not None


def few_numbers(worker: BranchBuilder, iterable: Value, body: Block) -> list[Value] | None:
    """The numbers of a short range: a loop over it keeps the elements of a list known."""
    node = iterable.node
    if node is None or node.kind != "prim::range":
        return None
    known = [known_constant(value) for value in node.inputs]
    if None in known:
        return None
    numbers = range(*known)
    if len(numbers) * count_nodes(body, with_constants=False) > MAX_UNROLLED:
        return None
    return [worker.constant(number) for number in numbers]


def counted_items(worker: BranchBuilder, iterable: Value) -> Items:
    """What a loop over a value visits."""
    node = iterable.node
    kind = node.kind if node is not None else ""
    if isinstance(iterable.type, TensorType):
        if not iterable.type.dims:
            raise Untypable("an array of unknown or no dimensions is iterated")
        size = worker.size(iterable, 0)
        return Items(size, lambda i: worker.op("prim::getitem", iterable, i))
    if isinstance(iterable.type, TupleType) or is_known_list(iterable):
        elements = worker.elements(iterable)
        require_choice(elements)
        return Items(worker.constant(len(elements)), partial(_chosen, worker, elements))
    if isinstance(iterable.type, LocalListType):
        length = lists.list_parts.length_of(worker, iterable)
        return Items(length, partial(lists.list_parts.item_of, worker, iterable))
    if isinstance(iterable.type, SharedListType):
        return _shared(worker, iterable)
    if isinstance(iterable.type, ObjectListType):
        length = objects.object_lists.length_of_objects(iterable)
        return Items(length, partial(objects.object_lists.element_at, worker, iterable))
    if node is None or iterable.type == ANY:
        raise Untypable(f"{iterable.type} is iterated")
    if kind == "prim::range":
        return _range(worker, node)
    if kind == "prim::reversed":
        return _reversed(worker, node.inputs[0])
    if kind == "prim::enumerate":
        inner, start = counted_items(worker, node.inputs[0]), node.inputs[1]
        return replace(
            inner,
            item=lambda i: worker.make_tuple([worker.op("prim::add", start, i), inner.item(i)]),
        )
    if kind == "prim::zip":
        return _together(worker, [counted_items(worker, value) for value in node.inputs])
    raise Untypable(f"{iterable.type} is iterated")


def _shared(worker: BranchBuilder, reference: Value) -> Items:
    """A list that the loop itself may change: its length counts before each iteration."""
    if lists.shared_lists.is_open(reference.type):
        # Nothing has been put into it in any code so far.
        return Items(worker.constant(0), lambda i: worker.uninitialized())

    def is_there(i: Value) -> Value:
        return worker.op("prim::lt", i, lists.list_heap.shared_length(worker, reference))

    item = partial(lists.list_heap.shared_item, worker, reference)
    return Items(worker.constant(ENDLESS), item, is_there)


def _reversed(worker: BranchBuilder, iterable: Value) -> Items:
    visited = counted_items(worker, iterable)
    if isinstance(iterable.type, SharedListType):
        length = lists.list_heap.shared_length(worker, iterable)
        visited = Items(length, partial(lists.list_heap.visited_item, worker, iterable))
    last = worker.op("prim::sub", visited.trip, 1)
    return Items(visited.trip, lambda i: visited.item(worker.op("prim::sub", last, i)))


def _together(worker: BranchBuilder, parts: Sequence[Items]) -> Items:
    """What ``zip`` gives."""
    trip = parts[0].trip
    for other in parts[1:]:
        trip = worker.op("prim::min", trip, other.trip)
    asked = [one for one in parts if one.is_there is not None]

    def is_there(i: Value) -> Value:
        found = worker.constant(True)
        for one in asked:
            found = one.goes_on(worker, found, lambda: i)
        return found

    return Items(
        trip,
        lambda i: worker.make_tuple([one.item(i) for one in parts]),
        is_there if asked else None,
    )


def _chosen(worker: BranchBuilder, elements: Sequence[Value], number: Value) -> Value:
    """The element of this number, which is in range."""
    return chosen_element(worker, elements, number, "")


def _range(worker: BranchBuilder, node: Node) -> Items:
    start, stop, step = node.inputs
    trip = worker.op("prim::range_length", start, stop, step)

    def item(i: Value) -> Value:
        if is_known(step, 1):
            return i if is_known(start, 0) else worker.op("prim::add", start, i)
        return worker.op("prim::add", start, worker.op("prim::mul", i, step))

    return Items(trip, item)


def is_known(value: Value, number: int) -> bool:
    return value.constant is not None and value.constant.attributes["value"] == number


def count_nodes(block: Block, *, with_constants: bool = True) -> int:
    """How many nodes a block has, with those of its nodes' blocks."""
    count = 0
    for node in block.nodes:
        count += with_constants or node.kind != "prim::Constant"
        count += sum(count_nodes(inner, with_constants=with_constants) for inner in node.blocks)
    return count


def known_constant(value: Value) -> Any:
    return value.constant.attributes["value"] if value.constant is not None else None
