"""New arrays that are updated as a whole: each update is a value of its own."""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.ir import log
from jitcore.ir.dataclass import dataclass
from jitcore.ir.effects import is_array_view
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import REDUCTIONS, is_elementwise
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import TensorType

__all__ = ["use_updated_values"]

_IN_C_ORDER = "C"


def use_updated_values(graph: Graph) -> bool:
    """Read what was stored to a new array in place of the array, as long as nobody else knows it.

    Before::

        graph(%x : Float64[64], %y : Float64[64]):
          %0 : Float64[64] = np::multiply(%x, %x)
          %1 : Float64[64] = np::add(%0, %y)
          %2 : None = np::store[in_place=True](%0, %1)
          %3 : Float64[64] = np::subtract(%0, %x)
          %4 : None = np::store[in_place=True](%0, %3)
          %5 : Float64[64] = np::add(%0, %x)
          return (%5)

    After::

        graph(%x : Float64[64], %y : Float64[64]):
          %0 : Float64[64] = np::multiply(%x, %x)
          %1 : Float64[64] = np::add(%0, %y)
          %3 : Float64[64] = np::subtract(%1, %x)
          %5 : Float64[64] = np::add(%3, %x)
          return (%5)

    So one group computes all of it, and there is no array.  The last store stays where the array
    becomes known under another name afterwards, or leaves.
    """
    changed = False
    for block in _blocks(graph.block):
        places: dict[Node, int] | None = None
        for node in list(block.nodes):
            if not _is_new(node):
                continue
            places = places or {one: place for place, one in enumerate(block.nodes)}
            updates = _updates(node.output, places)
            changed = updates.use() or changed
    return changed


def _blocks(block: Block) -> Iterator[Block]:
    yield block
    for node in block.nodes:
        for inner in node.blocks:
            yield from _blocks(inner)


def _is_new(node: Node) -> bool:
    """Whether a node makes an array that is written as a whole."""
    if len(node.outputs) != 1 or not dims_of(node.output):
        return False
    if is_array_view(node) or not (is_elementwise(node) or node.kind in ("np::full", "np::empty")):
        return False
    return any(_is_store_to(use.user, node.output) for use in node.output.uses)


def _is_store_to(user: object, array: Value) -> bool:
    return (
        isinstance(user, Node)
        and user.kind == "np::store"
        and user.inputs[0] is array
        and user.inputs[1] is not array
    )


@dataclass(slots=True)
class _Updates:
    """The stores to a new array, and what reads it, as long as it has one name."""

    array: Value
    stores: list[Node]
    readers: list[Node]
    places: dict[Node, int]
    becomes_known: bool

    def use(self) -> bool:
        """Have each value that is stored read; False where there is nothing to gain."""
        stores = list(self._usable())
        kept = stores[-1:] if self.becomes_known or len(stores) < len(self.stores) else []
        gone = [one for one in stores if one not in kept]
        if not gone:
            return False
        for reader in self.readers:
            before = [one for one in stores if self.places[one] < self.places[reader]]
            if before and before[-1] in gone:
                _read(reader, self.array, before[-1].inputs[1])
        log.update("updated_values", lambda: f"values in place of %{self.array.name}")
        for one in gone:
            one.destroy()
        return True

    def _usable(self) -> Iterator[Node]:
        """The first stores whose values may stand for the array."""
        order = _order(self.array, {})
        known: dict[Value, object] = {self.array: order}
        for store in self.stores:
            value = store.inputs[1]
            if order is None or value.type != self.array.type or _order(value, known) != order:
                return
            maker = value.node
            if maker is None or not is_elementwise(maker) or maker.block is not store.block:
                return
            if is_array_view(maker) or any(_is_store_to(use.user, value) for use in value.uses):
                return
            yield store


def _updates(array: Value, places: dict[Node, int]) -> _Updates:
    """What is done with an array until it may be known under another name."""
    users = {_around(use.user, places) for use in array.uses}
    known = {one for one in users if one is None or not _only_reads(one, array)}
    is_known = bool(known)
    ends = [places[one] for one in known if one is not None]
    end = min(ends, default=len(places))
    plain = [one for one in users if one is not None and one not in known]
    plain = sorted((one for one in plain if places[one] < end), key=places.__getitem__)
    stores = [one for one in plain if _is_store_to(one, array)]
    late = any(places[one] > end for one in users if one is not None and one not in known)
    return _Updates(array, stores, plain, places, is_known or late)


def _around(user: object, places: dict[Node, int]) -> Node | None:
    """The node of the block that a user is, or lies in; None for what the block returns."""
    node = user if isinstance(user, Node) else None
    while node is not None and node not in places:
        node = node.block.owner if node.block is not None else None
    return node


def _only_reads(user: Node, array: Value) -> bool:
    """Whether a node computes with an array, or stores to all of it, and gives it no other name."""
    if user.blocks or is_array_view(user):
        return False
    return user.kind in ("np::store", "np::rolled", *REDUCTIONS) or is_elementwise(user)


def _read(reader: Node, array: Value, value: Value) -> None:
    is_store = _is_store_to(reader, array)
    for number, one in enumerate(reader.inputs):
        if one is array and not (is_store and number == 0):
            reader.set_input(number, value)


def _order(value: Value, known: dict[Value, object]) -> object:
    """What tells the order of an array's axes: one array, or C order; None for what is not known.

    What is computed of several arrays is in C order where one of them is.
    """
    if len(dims_of(value)) < 2:
        return _IN_C_ORDER
    if value in known:
        return known[value]
    node = value.node
    found: object = value
    known[value] = found
    if node is None:
        return found
    if node.kind in ("np::full", "np::empty"):
        found = None if "like" in node.keywords or "order" in node.attributes else _IN_C_ORDER
    elif node.kind == "np::rolled":
        found = _order(node.inputs[0], known)
    elif is_elementwise(node):
        operands = [one for one in node.inputs if _is_array(one)]
        orders = {_order(one, known) for one in operands}
        if any(dims_of(one) != dims_of(value) for one in operands):
            found = None
        elif _IN_C_ORDER in orders:
            found = _IN_C_ORDER
        else:
            found = orders.pop() if len(orders) == 1 else None
    known[value] = found
    return found


def _is_array(value: Value) -> bool:
    return isinstance(value.type, TensorType) and bool(value.type.dims) and not value.type.scalar
