"""Where the lists lie that several names or lists refer to: a heap, made of local lists.

The heap has a part for each type of elements.  A part is two local lists: ``items`` has the
elements of all lists one after the other, with room between them, and ``rows`` has three numbers
for each list: where its elements begin, how many there are, and for how many there is room.  A
reference to a list is the place of its three numbers, so that two references are the same list
where they are the same number.  A list that grows beyond its room moves to the end.

What a function has put into its heap stays there until it ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops import list_functions
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.chosen_elements import checked_index
from jitcore.ir.specialize.lists.list_parts import (
    element_of,
    fill,
    grown,
    in_arrays,
    item_of,
    known_elements,
    make_state,
    parts_of,
    store,
    widened,
)
from jitcore.ir.specialize.lists.listed_arrays import heap_form
from jitcore.ir.specialize.lists.mixed_elements import is_of_one_dtype
from jitcore.ir.specialize.lists.shared_lists import is_open
from jitcore.ir.specialize.skeletons import ListsAreNotValues, place_of_shared
from jitcore.ir.types import INT, LocalListType, SharedListType, Type

__all__ = [
    "append_shared",
    "close",
    "extend_shared",
    "open_list",
    "set_shared",
    "share",
    "shared_item",
    "shared_length",
    "table_of",
    "visited_item",
]

_START, _LENGTH, _ROOM = range(3)
"""What the numbers of a list in ``rows`` are."""

_EMPTY = LocalListType(None, 0)


class _Part:
    """The part of the heap for lists of one type of elements."""

    def __init__(self, worker: BranchBuilder, element: Type | None) -> None:
        assert worker.shared is not None and element is not None
        self.worker = worker
        self.element = heap_form(element)
        self.number = 2 * worker.shared.part(element)

    @property
    def rows(self) -> Value:
        return self.worker.heap[self.number]

    @property
    def items(self) -> Value:
        return self.worker.heap[self.number + 1]

    def _change(self, number: int, state: Value) -> None:
        """Another list in the place of one that the heap is made of."""
        place = self.number + number
        heap = self.worker.heap
        self.worker.heap = [*heap[:place], state, *heap[place + 1 :]]

    def field(self, row: Value, number: int) -> Value:
        """One of the three numbers of a list."""
        return item_of(self.worker, self.rows, self._place(row, number))

    def set_field(self, row: Value, number: int, value: Value) -> None:
        buffers, _ = parts_of(self.rows)
        store(self.worker, buffers, self._place(row, number), value, INT)

    def _place(self, row: Value, number: int) -> Value:
        return row if number == 0 else self.worker.op("prim::add", row, number)

    def reserve(self, count: Value) -> Value:
        """Room for so many elements; gives its place."""
        worker = self.worker
        if count.constant_value == 0:
            return worker.constant(0)
        buffers, used = parts_of(self.items)
        total = worker.op("prim::add", used, count)
        worker.define(list_functions.require_room, total)
        buffers = grown(worker, buffers, used, total)
        self._change(1, make_state(worker, buffers, total, self.element))
        return used

    def new_row(self, start: Value, count: Value) -> Value:
        """A list with these elements; gives the place of its numbers."""
        worker = self.worker
        buffers, row = parts_of(self.rows)
        after = worker.op("prim::add", row, 3)
        worker.define(list_functions.require_room, after)
        buffers = grown(worker, buffers, row, after)
        self._change(0, make_state(worker, buffers, after, INT))
        for number, value in enumerate((start, count, count)):
            self.set_field(row, number, value)
        return row

    def note_change(self) -> None:
        """Note that lists change that may be arguments."""
        self.worker.written_parts.add(self.number // 2)

    def put(self, place: Value, item: Value) -> None:
        store(self.worker, parts_of(self.items)[0], place, item, self.element)

    def put_all(self, place: Value, items: Sequence[Value], count: Value) -> None:
        """Copy the first elements of arrays to a place."""
        end = self.worker.op("prim::add", place, count)
        fill(self.worker, parts_of(self.items)[0], (place, end), items, count)

    def make_room(self, row: Value, needed: Value) -> Value:
        """See that a list has room for so many elements; gives where they begin."""
        worker = self.worker
        start, length = self.field(row, _START), self.field(row, _LENGTH)
        is_full = worker.op("prim::gt", needed, self.field(row, _ROOM))

        def move() -> list[Value]:
            room = worker.op("prim::add", worker.op("prim::mul", needed, 2), 2)
            place = self.reserve(room)
            self.put_all(place, self.views(start, length), length)
            self.set_field(row, _START, place)
            self.set_field(row, _ROOM, room)
            return [place]

        return worker.split(is_full, [move, lambda: [start]])[0]

    def views(self, start: Value, count: Value) -> list[Value]:
        """The elements from a place on, as arrays."""
        end = self.worker.op("prim::add", start, count)
        buffers, _ = parts_of(self.items)
        return [self.worker.op("np::view", one, start, end, index="$0:$1") for one in buffers]


def _part_of(worker: BranchBuilder, reference: Value) -> tuple[_Part, Value]:
    assert isinstance(reference.type, SharedListType)
    return _Part(worker, reference.type.element), place_of_shared(reference)


def share(worker: BranchBuilder, state: Value, maker: Node) -> Value:
    """Put a list, which nothing refers to any more, into the heap; gives a reference to it."""
    assert worker.shared is not None
    type_ = worker.shared.list_of(element_of(state), maker)
    if is_open(type_):
        return worker.emit("prim::SharedList", [worker.constant(0)], {}, type_)
    part = _Part(worker, type_.element)
    known = known_elements(state)
    if known is None:
        items, count = parts_of(widened(worker, state, part.element))
        start = part.reserve(count)
        part.put_all(start, items, count)
    else:
        count = worker.constant(len(known))
        start = part.reserve(count)
        for number, item in enumerate(known):
            part.put(worker.op("prim::add", start, number), item)
    return worker.emit("prim::SharedList", [part.new_row(start, count)], {}, type_)


def open_list(worker: BranchBuilder, reference: Value) -> Value:
    """The list as a local list, which is right until something in the heap changes.

    Its arrays are the memory in the heap.
    """
    if is_open(reference.type):
        return worker.emit("prim::ListState", [], {}, _EMPTY)
    part, row = _part_of(worker, reference)
    room = part.views(part.field(row, _START), part.field(row, _ROOM))
    return make_state(worker, room, part.field(row, _LENGTH), part.element)


def close(worker: BranchBuilder, reference: Value, before: Value, after: Value) -> None:
    """Make the list what has been made of it since it was opened."""
    part, row = _part_of(worker, reference)
    part.note_change()
    known, element = known_elements(after), element_of(after)
    if known == [] or element is None:
        part.set_field(row, _LENGTH, worker.constant(0))
        return
    assert worker.shared is not None
    worker.shared.unify(part.element, element)
    if heap_form(element) != part.element:
        raise ListsAreNotValues("a shared list that gets other elements")
    items, count = parts_of(after)
    if items != parts_of(before)[0]:
        start = part.make_room(row, count)
        part.put_all(start, items, count)
    part.set_field(row, _LENGTH, count)


def table_of(worker: BranchBuilder, state: Value) -> Value:
    """The array of two axes of a local list of references to lists of numbers."""
    element = element_of(state)
    assert isinstance(element, SharedListType)
    if element.element is None or not is_of_one_dtype(element.element):
        raise ListsAreNotValues(f"an array of {element}")
    part = _Part(worker, element.element)
    (references,), count = parts_of(in_arrays(worker, state))
    (rows,), (*_, items) = parts_of(part.rows)[0], parts_of(part.items)[0]
    return worker.define(list_functions.table, references, count, rows, items)


def shared_length(worker: BranchBuilder, reference: Value) -> Value:
    """``len(reference)``."""
    if is_open(reference.type):
        return worker.constant(0)
    part, row = _part_of(worker, reference)
    return part.field(row, _LENGTH)


def _checked_place(
    worker: BranchBuilder, reference: Value, index: Value, message: str
) -> tuple[_Part, Value]:
    part, row = _part_of(worker, reference)
    place = checked_index(worker, index, part.field(row, _LENGTH), message)
    return part, worker.op("prim::add", part.field(row, _START), place)


def shared_item(worker: BranchBuilder, reference: Value, index: Value) -> Value:
    """``reference[index]``."""
    part, place = _checked_place(worker, reference, index, "list index out of range")
    return item_of(worker, part.items, place)


def visited_item(worker: BranchBuilder, reference: Value, index: Value) -> Value:
    """The element of this number in a list that must not get shorter while it is visited."""
    is_there = worker.op("prim::lt", index, shared_length(worker, reference))
    worker.define(list_functions.require_unchanged, is_there)
    return shared_item(worker, reference, index)


def set_shared(worker: BranchBuilder, reference: Value, index: Value, item: Value) -> None:
    """``reference[index] = item``."""
    message = "list assignment index out of range"
    part, place = _checked_place(worker, reference, index, message)
    part.put(place, item)
    part.note_change()


def append_shared(worker: BranchBuilder, reference: Value, item: Value) -> None:
    """``reference.append(item)``."""
    part, row = _part_of(worker, reference)
    length = part.field(row, _LENGTH)
    longer = worker.op("prim::add", length, 1)
    start = part.make_room(row, longer)
    part.put(worker.op("prim::add", start, length), item)
    part.set_field(row, _LENGTH, longer)
    part.note_change()


def extend_shared(worker: BranchBuilder, reference: Value, more: Value) -> None:
    """``reference.extend(more)`` of a local list whose elements are in arrays of its own."""
    part, row = _part_of(worker, reference)
    items, added = parts_of(widened(worker, more, part.element))
    length = part.field(row, _LENGTH)
    longer = worker.op("prim::add", length, added)
    start = part.make_room(row, longer)
    part.put_all(worker.op("prim::add", start, length), items, added)
    part.set_field(row, _LENGTH, longer)
    part.note_change()
