"""Lists that grow in a function and are seen by nobody else while they do, as values.

Before::

    graph(%n : int):
      %0 : int = prim::Constant[value=1]()
      %l : Any = prim::ListConstruct()
      prim::For(%n)
        block0(%i : Any):
          %1 : Any = prim::CallMethod[name="append"](%l, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2)
      %3 : Any = prim::len(%l)
      return (%3)

After::

    graph(%n : int):
      %0 : int = prim::Constant[value=1]()
      %l : Any = prim::ListValue()
      %l.2 : Any = prim::For(%n, %l)
        block0(%i : Any, %l.1 : Any):
          %1 : Any = prim::ListAppend(%l.1, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2, %1)
      %3 : Any = prim::len(%l.2)
      return (%3)

``specialize`` turns such a value into an array and a length where all elements have one type.  A
list stays as it is where something else may know it before it is complete: where it is stored,
passed on or returned from a block, and changed afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.ir.graph import LOOPS, Block, Graph, Node, Use, Value

__all__ = ["with_local_lists"]

_READS = frozenset({"prim::getitem", "prim::len", "prim::bool", "prim::For"})


def with_local_lists(graph: Graph) -> Graph | None:
    """A copy of a generic graph in which such lists are values; None where it has none."""
    twin = graph.copy()
    found = [node for node in twin.nodes() if _is_local(node)]
    for node in found:
        _Promotion(node).run()
    return twin if found else None


def _is_local(node: Node) -> bool:
    """Whether a list is complete before anything but this function's own code may know it."""
    if node.kind != "prim::ListConstruct":
        return False
    writes, leaves = [], []
    for use in node.output.uses:
        place = _place(use, node)
        if place is None:
            return False
        if _is_write(use):
            writes.append(place)
            if _is_protected(use, node):
                return False
        elif not _is_read(use, node):
            leaves.append(place)
    # A list that is never written is as well made at once.
    return bool(writes) and (not leaves or max(writes) < min(leaves))


def _place(use: Use, made: Node) -> int | None:
    """The position of a use in the block of the list; None where a branch or a loop returns it."""
    assert made.block is not None
    if isinstance(use.user, Block):
        is_last = use.user is made.block and use.user.owner is None
        return len(made.block.nodes) if is_last else None
    node = use.user
    while node.block is not made.block:
        assert node.block is not None and node.block.owner is not None
        node = node.block.owner
    return made.block.nodes.index(node)


def _is_write(use: Use) -> bool:
    node = use.user
    if not isinstance(node, Node) or use.index != 0:
        return False
    if node.kind == "prim::CallMethod":
        plain = len(node.inputs) == 2 and not node.keywords and not node.output.uses
        return node.attributes["name"] == "append" and plain
    return node.kind == "prim::setitem"


def _is_read(use: Use, made: Node) -> bool:
    node = use.user
    if not isinstance(node, Node) or use.index != 0 or node.kind not in _READS:
        return False
    if node.kind != "prim::For":
        return True
    # Python sees what is appended while it iterates.
    return not any(
        _is_write(other) and isinstance(other.user, Node) and _is_inside(other.user, node)
        for other in made.output.uses
    )


def _is_protected(use: Use, made: Node) -> bool:
    """Whether a write lies in a ``try`` that the list was made outside of."""
    node = use.user
    assert isinstance(node, Node)
    return any(owner.kind == "prim::Try" for owner in _owners(node, made))


def _owners(node: Node, made: Node) -> Iterator[Node]:
    while node.block is not made.block:
        assert node.block is not None and node.block.owner is not None
        node = node.block.owner
        yield node


def _is_inside(node: Node, outer: Node) -> bool:
    while node is not outer:
        if node.block is None or node.block.owner is None:
            return False
        node = node.block.owner
    return True


class _Promotion:
    """Replaces one list by the values it has one after the other."""

    def __init__(self, made: Node) -> None:
        self.made = made
        self.list = made.output
        self.written = {
            owner
            for use in self.list.uses
            if _is_write(use) and isinstance(use.user, Node)
            for owner in (use.user, *_owners(use.user, made))
        }
        self.touched = {
            owner
            for use in self.list.uses
            if isinstance(use.user, Node)
            for owner in (use.user, *_owners(use.user, made))
        }

    def run(self) -> None:
        """Rewrite the block of the list, and all inside it."""
        block = self.made.block
        assert block is not None
        self.made.kind = "prim::ListValue"
        position = block.nodes.index(self.made) + 1
        last = self._rewrite(block, position, self.list)
        self._return(block, last)

    def _rewrite(self, block: Block, start: int, value: Value) -> Value:
        """Give the nodes of a block the list's value at their place; gives the last value."""
        for node in block.nodes[start:]:
            if node not in self.touched:
                continue
            if node.blocks:
                value = self._enter(node, value)
            elif node in self.written:
                value = self._write(node, value)
            else:
                self._read(node, value)
        return value

    def _read(self, node: Node, value: Value) -> None:
        for index, operand in enumerate(node.inputs):
            if operand is self.list and value is not self.list:
                node.set_input(index, value)

    def _return(self, block: Block, value: Value) -> None:
        for index, returned in enumerate(block.returns):
            if returned is self.list and value is not self.list:
                block.set_return(index, value)

    def _write(self, node: Node, value: Value) -> Value:
        """The value after an append or an assignment to an item."""
        self._read(node, value)
        node.kind = "prim::ListAppend" if node.kind == "prim::CallMethod" else "prim::ListSet"
        node.attributes = {}
        return node.output if node.outputs else node.add_output(name=self.list.name)

    def _enter(self, node: Node, value: Value) -> Value:
        """The value after a node with blocks."""
        self._read(node, value)
        if node not in self.written:
            for block in node.blocks:
                self._rewrite(block, 0, value)
            return value
        if node.kind in LOOPS:
            node.add_input(value)
        for block in node.blocks:
            first = block.add_param(name=self.list.name) if node.kind in LOOPS else value
            block.add_return(self._rewrite(block, 0, first))
        return node.add_output(name=self.list.name)
