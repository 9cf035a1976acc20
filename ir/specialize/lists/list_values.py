"""One list of a generic graph, as the values it has one after the other."""

from __future__ import annotations

from jitcore.ir.graph import LOOPS, Block, Node, Use, Value
from jitcore.ir.specialize.lists.list_uses import (
    CHANGES,
    is_only_read,
    is_slice,
    is_write,
    makes_copy,
    owners,
    repeated_display,
)

__all__ = ["Promotion"]


class Promotion:
    """Replaces one list by the values it has one after the other.

    Parameters
    ----------
    made : Node
        What makes the list; it lies in the block that all uses lie in.
    """

    def __init__(self, made: Node) -> None:
        self.made = made
        self.list = made.output
        self.written = {
            owner
            for use in self.list.uses
            if self.is_write(use) and isinstance(use.user, Node)
            for owner in (use.user, *owners(use.user, made))
        }
        self.touched = {
            owner
            for node in filter(None, map(self._node, self.list.uses))
            for owner in (node, *owners(node, made))
        }

    def _node(self, use: Use) -> Node | None:
        """The node that uses the list, or whose branch or loop returns it."""
        if use.user is self.made.block:
            return None
        return use.user if isinstance(use.user, Node) else use.user.owner

    def is_write(self, use: Use) -> bool:
        """Whether a use changes it."""
        return is_write(use)

    def run(self) -> Value:
        """Rewrite the block of the list, and all inside it; gives the list's last value."""
        block = self.made.block
        assert block is not None
        self._fold()
        position = block.nodes.index(self.made) + 1
        last = self._rewrite(block, position, self.list)
        self._return(block, last)
        return last

    def _fold(self) -> None:
        """Make the display, or its repetition, a value."""
        if self.made.kind in ("prim::ListArgument", "prim::ListSlice"):
            return
        if makes_copy(self.made):
            self._fold_copy()
            return
        display = repeated_display(self.made)
        if display is None:
            self.made.kind = "prim::ListValue"
            return
        count = self.made.inputs[1]
        self.made.kind = "prim::ListRepeat"
        self.made.drop_inputs()
        for value in (*display.inputs, count):
            self.made.add_input(value)
        display.destroy()

    def _fold_copy(self) -> None:
        """Make a copy of a list, or of a part, a value."""
        made = self.made
        is_of_numbers = made.attributes.get("name") == "tolist"
        made.attributes, made.keywords = {}, ()
        if made.kind in ("prim::getitem", "prim::add"):
            made.kind = "prim::ListSlice" if made.kind == "prim::getitem" else "prim::ListJoin"
            return
        is_sorted = made.inputs[0].constant_value is sorted
        sources = made.inputs[1:] if made.kind == "prim::Call" else made.inputs
        of_all = "prim::ListOfNumbers" if is_of_numbers else "prim::ListCopy"
        made.kind = "prim::ListSorted" if is_sorted else of_all
        made.drop_inputs()
        for source in sources:
            made.add_input(source)

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
        if node.kind == "prim::getitem" and node.inputs[0] is self.list and is_slice(node):
            if is_only_read(node):
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
        node.kind = CHANGES[node.attributes["name"] if is_call else node.kind]
        node.attributes, node.keywords = {}, ()
        if node.outputs and node.kind != "prim::ListPop":
            return node.output
        return node.add_output(name=self.list.name)

    def _enter(self, node: Node, value: Value) -> Value:
        """The value after a node with blocks."""
        self._read(node, value)
        if node not in self.written:
            for block in node.blocks:
                self._return(block, self._rewrite(block, 0, value))
            return value
        if node.kind in LOOPS:
            node.add_input(value)
        for block in node.blocks:
            first = block.add_param(name=self.list.name) if node.kind in LOOPS else value
            last = self._rewrite(block, 0, first)
            self._return(block, last)
            block.add_return(last)
        return node.add_output(name=self.list.name)
