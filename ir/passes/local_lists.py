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

import math
from collections.abc import Iterator

from jitcore.ir.graph import LOOPS, Block, Graph, Node, Use, Value
from jitcore.ir.passes.inline import inline

__all__ = ["with_local_lists"]

_READS = frozenset({"prim::getitem", "prim::len", "prim::bool", "prim::For"})
_OF_ALL_ELEMENTS = frozenset(
    f"prim::{name}" for name in ("sum", "min", "max", "any", "all", "tuple")
)
_MEMBERSHIP = frozenset({"prim::in_", "prim::notin"})
_ITERATORS = frozenset({"prim::zip", "prim::enumerate", "prim::reversed"})
_READING_KINDS = _ITERATORS | {
    f"np::{name}"
    for name in ("array", "asarray", "sum", "prod", "mean", "std", "var", "min", "max", "argmin")
}
_READERS = (print, format, str, repr, sorted, list, set, frozenset, dict)
"""Python's functions that only read a list they are given, or copy it."""

_METHODS = {"append": "prim::ListAppend", "extend": "prim::ListExtend", "pop": "prim::ListPop"}
"""Methods that change a list, and what they are for a value."""


def with_local_lists(graph: Graph, *, only_written: bool = False) -> Graph | None:
    """A copy of a generic graph in which such lists are values; None where it has none.

    With ``only_written``, lists that never change stay what they are.
    """
    if not _makes_lists(graph):
        return None
    twin = graph.copy()
    inline(twin, _concerns_lists)
    found = [node for node in twin.nodes() if _is_local(node, only_written)]
    for node in found:
        _Promotion(node).run()
    return twin if found else None


def _concerns_lists(call: Node) -> bool:
    """Whether a called function makes lists, or gets one that is made here and may change it."""
    if "layer" in call.attributes:
        return False
    made = (value.node for value in call.inputs)
    takes_list = any(one is not None and one.kind == "prim::ListConstruct" for one in made)
    return takes_list or _makes_lists(call.attributes["graph"])


def _makes_lists(graph: Graph) -> bool:
    """Whether a function, or one that it calls, has a list display."""
    waiting, seen = [graph], {graph}
    while waiting:
        for node in waiting.pop().nodes():
            if node.kind == "prim::ListConstruct":
                return True
            callee = node.attributes.get("graph")
            if isinstance(callee, Graph) and callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


def _repeated_display(node: Node) -> Node | None:
    """``[x]`` of ``[x] * n``, which nobody else has."""
    display = node.inputs[0].node if node.kind == "prim::mul" else None
    if display is None or display.kind != "prim::ListConstruct" or len(display.output.uses) > 1:
        return None
    return display


def _is_local(node: Node, only_written: bool) -> bool:
    """Whether a list is complete before anything but this function's own code may know it."""
    if node.kind != "prim::ListConstruct" and _repeated_display(node) is None:
        return False
    reads, writes, leaves = [], [], []
    changed_from = math.inf
    for use in node.output.uses:
        place = _place(use, node)
        if place is None:
            return False
        if _is_write(use):
            writes.append(place)
            if _is_protected(use, node):
                return False
        elif _is_read(use, node):
            reads.append(place)
        else:
            leaves.append(place)
            if not _is_harmless(use):
                changed_from = min(changed_from, place)
    if reads and max(reads) >= changed_from:
        # Something may have changed the list that Python knows.
        return False
    if not writes:
        # A list that is never written, and known elsewhere, is as well made at once.
        return bool(node.output.uses) and not leaves and not only_written
    return not leaves or max(writes) < min(leaves)


def _is_harmless(use: Use) -> bool:
    """Whether what gets a list neither changes it nor keeps it."""
    node = use.user
    if isinstance(node, Block) or node.kind in _OF_ALL_ELEMENTS | _MEMBERSHIP:
        return True
    if node.kind == "prim::Call":
        callee = node.inputs[0].constant_value
        return any(callee is one for one in _READERS)
    return node.kind in _READING_KINDS


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
        return _is_plain_call(node)
    return node.kind == "prim::setitem"


def _is_plain_call(node: Node) -> bool:
    """Whether a method that changes a list is called in the way that it is meant."""
    if node.keywords or "starred" in node.attributes:
        return False
    if node.attributes["name"] == "pop":
        return len(node.inputs) <= 2
    known = node.attributes["name"] in _METHODS
    # Else the list is extended by itself.
    others = node.inputs[0] not in node.inputs[1:]
    return known and others and len(node.inputs) == 2 and not node.output.uses


def _is_read(use: Use, made: Node) -> bool:
    node = use.user
    if not isinstance(node, Node):
        return False
    if node.kind in _MEMBERSHIP:
        return use.index == 1
    if node.kind in _ITERATORS:
        loops = [one.user for one in node.output.uses]
        return all(_is_loop_over(node.output, loop, made) for loop in loops)
    if use.index != 0:
        return False
    if node.kind in _OF_ALL_ELEMENTS:
        is_sum = node.kind == "prim::sum"
        is_one = len(node.inputs) - len(node.keywords) == 1
        return (is_one or is_sum) and set(node.keywords) <= {"default", "start"}
    if node.kind == "prim::getitem":
        return not _is_slice(node) or _is_only_read(node)
    if node.kind == "prim::For":
        return _is_loop_over(made.output, node, made)
    return node.kind in _READS


def _is_slice(node: Node) -> bool:
    """Whether a subscript is ``values[i:j]``, a new list."""
    index = node.inputs[1].node
    return index is not None and index.kind == "prim::slice"


def _is_only_read(made: Node) -> bool:
    """Whether nobody changes a list, or has it but for reading it at once."""
    return all(isinstance(use.user, Node) and _is_read(use, made) for use in made.output.uses)


def _is_loop_over(iterable: Value, loop: Node | Block, made: Node) -> bool:
    """Whether a loop visits a list that does not change meanwhile: Python sees that it does."""
    if not isinstance(loop, Node) or loop.kind != "prim::For" or loop.inputs[0] is not iterable:
        return False
    return not any(
        _is_write(other) and isinstance(other.user, Node) and _is_inside(other.user, loop)
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
        self._fold()
        position = block.nodes.index(self.made) + 1
        last = self._rewrite(block, position, self.list)
        self._return(block, last)

    def _fold(self) -> None:
        """Make the display, or its repetition, a value."""
        display = _repeated_display(self.made)
        if display is None:
            self.made.kind = "prim::ListValue"
            return
        count = self.made.inputs[1]
        self.made.kind = "prim::ListRepeat"
        self.made.drop_inputs()
        for value in (*display.inputs, count):
            self.made.add_input(value)
        display.destroy()

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
        if node.kind == "prim::getitem" and node.inputs[0] is self.list and _is_slice(node):
            if _is_only_read(node):
                node.kind = "prim::ListSlice"
        for index, operand in enumerate(node.inputs):
            if operand is self.list and value is not self.list:
                node.set_input(index, value)

    def _return(self, block: Block, value: Value) -> None:
        for index, returned in enumerate(block.returns):
            if returned is self.list and value is not self.list:
                block.set_return(index, value)

    def _write(self, node: Node, value: Value) -> Value:
        """The value after a change; ``pop`` gives what it has taken away before that."""
        self._read(node, value)
        is_call = node.kind == "prim::CallMethod"
        node.kind = _METHODS[node.attributes["name"]] if is_call else "prim::ListSet"
        node.attributes = {}
        if node.outputs and node.kind != "prim::ListPop":
            return node.output
        return node.add_output(name=self.list.name)

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
