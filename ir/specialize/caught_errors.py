"""Exceptions that the program itself catches, as branches that ask first.

Before::

    %y = prim::Try()
      block0():
        %0 = prim::truediv(%a, %b)
        -> (%0)
      block1(%error):
        %1 = prim::Call(%exception_matches, %error, %ZeroDivisionError)
        %2 = prim::If(%1)
          ...
        -> (%2)

After::

    %failed = prim::raises[operation="prim::truediv"](%a, %b)
    %code, %0 = prim::If(%failed)
      block0():
        -> (1, Uninitialized)
      block1():
        %0 = prim::truediv(%a, %b)
        -> (0, %0)
    %is_caught = prim::ne(%code, 0)
    %y = prim::If(%is_caught)
      block0():
        %2 = prim::If(True)
          ...
        -> (%2)
      block1():
        -> (%0)

What is asked, ``prim::raises``, depends on types.  Whatever else raises there ends compiled code,
as everywhere, and the plain function runs from the start; compiled code that may be ended so after
it has written is refused (``Graph.caught``).  So this is done only in attempts at functions that
are native from end to end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Use, Value, copy_node
from jitcore.ir.nesting import with_inner
from jitcore.ir.types import ANY, BOOL, INT, NONE

__all__ = ["DIVISIONS", "RAISED", "with_branches_for_errors"]

_PLAIN = (ValueError, LookupError, ArithmeticError, RuntimeError, TypeError, AssertionError)
"""Exceptions that take any arguments, and do nothing with them."""

MAX_PLACES = 24
"""In how many places a ``try`` may ask; each is a branch in the one before."""

DIVISIONS = tuple(
    f"prim::{prefix}{name}" for prefix in ("", "i") for name in ("truediv", "floordiv", "mod")
)

RAISED: dict[str, type[Exception]] = {
    **dict.fromkeys(DIVISIONS, ZeroDivisionError),
    **dict.fromkeys(("prim::getitem", "prim::setitem", "pop"), IndexError),
    **{f"math::{name}": ValueError for name in ("sqrt", "log", "log2", "log10")},
    "math::exp": OverflowError,
}
"""What operations may raise, by kind or by the name of a method."""


def _operation(node: Node) -> str | None:
    """The row of a node that may raise; None of all other nodes."""
    if node.kind == "prim::CallMethod":
        is_pop = node.attributes["name"] == "pop" and len(node.inputs) == 1
        return "pop" if is_pop else None
    if node.kind not in RAISED or _is_cell(node):
        return None
    return node.kind


def _is_cell(node: Node) -> bool:
    """Whether a subscript is the only element of a variable's cell."""
    made = node.inputs[0].node
    return made is not None and _is_display_of_one(made)


# Rewriting graphs


def with_branches_for_errors(graph: Graph) -> Graph:
    """The graph without ``try``, where that can be; itself where there is none.

    So is what it calls.
    """
    return _rewritten(graph, {})


def _rewritten(graph: Graph, known: dict[Graph, Graph]) -> Graph:
    if graph in known:
        return known[graph]
    known[graph] = graph  # what calls itself is Python's
    called = {
        node.attributes["graph"]
        for node in graph.nodes()
        if node.kind == "prim::CallFunction" and isinstance(node.attributes.get("graph"), Graph)
    }
    changed = {one for one in called if _rewritten(one, known) is not one}
    if not changed and graph.find_node("prim::Try") is None:
        return graph
    twin = known[graph] = graph.copy()
    for node in list(twin.nodes()):
        held = node.attributes.get("graph")
        if isinstance(held, Graph) and held in changed:
            node.attributes["graph"] = known[held]
    caught = {source for one in changed for source in known[one].caught}
    found_nodes = twin.find_all_nodes("prim::Try")
    opaque = {node for node in found_nodes if not _passes_on(node.blocks[1])}
    kept = {node for node in found_nodes if not opaque.isdisjoint(_all_nodes(node.blocks[0]))}
    # Those inside others first.
    for node in reversed(found_nodes):
        found = None if node in kept else _Catching.of(node)
        if found is not None:
            inside = (one for block in node.blocks for one in _all_nodes(block))
            caught |= {one.source for one in (node, *inside) if one.source is not None}
            found.rewrite()
    twin.caught = frozenset(caught)
    return twin


def _passes_on(handler: Block) -> bool:
    """Whether a handler only asks for classes, and raises all else again at once.

    Others do something with exceptions that are for a handler around them.
    """
    for node in handler.nodes:
        if node.kind == "prim::If":
            asked = node.inputs[0].node
            is_dispatch = asked is not None and asked.kind == "prim::bool" and asked.inputs[0].node
            if not is_dispatch or _asked_classes(is_dispatch) is None:
                return False
            return _passes_on(node.blocks[1])
        if node.kind == "prim::Raise":
            return True
        if node.kind not in _QUESTIONS and _asked_classes(node) is None:
            return False
    return False


_QUESTIONS = frozenset(
    f"prim::{name}" for name in ("Constant", "getitem", "isnot", "TupleConstruct", "bool")
)
"""What comes before a handler: the contents of cells, and the questions for classes."""


@dataclass(slots=True)
class _Catching:
    """A ``try`` whose handler needs no more of the exception than its class.

    Parameters
    ----------
    node : Node
    matches : dict from Node to classes
        The nodes that ask for the exception's class, and what they ask for.
    raised : list of classes
        What is raised and caught; the number of each is its code.
    cells : dict from Value to Value
        The cells of variables that are assigned in the body and read in the handler: what these
        have is handed on beside what the body returns, and so is whether they have anything, for
        which another value stands.
    """

    node: Node
    matches: dict[Node, tuple[type[BaseException], ...]]
    raised: list[type[BaseException]]
    cells: dict[Value, Value]

    @classmethod
    def of(cls, node: Node) -> _Catching | None:
        """What a ``try`` catches; None where it has to stay one."""
        body, handler = node.blocks
        inside = list(_nodes(body))
        if any(one.kind in ("prim::Try", "prim::With") for one in inside):
            return None
        matches = {}
        for use in handler.params[0].uses:
            user = use.user
            if not isinstance(user, Node):
                return None
            if user.kind == "prim::Raise":
                continue
            classes = _asked_classes(user)
            if classes is None:
                return None
            matches[user] = classes
        cells = {cell: Value("", BOOL, None, None) for cell in _cells(node)}
        found = cls(node, matches, [], cells)
        places = [one for one in inside if found.class_of(one) is not None]
        return found if len(places) <= MAX_PLACES else None

    def class_of(self, node: Node) -> type[BaseException] | None:
        """What a node raises that is caught, if all that it raises can be told before."""
        if node.kind == "prim::Raise":
            raised = _raised_class(node)
        else:
            operation = _operation(node)
            raised = None if operation is None else RAISED[operation]
        if raised is None or self.node.blocks[1].raises:
            return None
        kinds = [one for classes in self.matches.values() for one in classes]
        catches_all = not self.matches
        return raised if catches_all or issubclass(raised, tuple(kinds)) else None

    @property
    def handed_on(self) -> tuple[Value, ...]:
        """What stands for the cells' contents, and for whether they have any."""
        return (*self.cells, *self.cells.values())

    def code_of(self, raised: type[BaseException]) -> int:
        """The number that stands for a class; 0 is for no exception."""
        if raised not in self.raised:
            self.raised.append(raised)
        return self.raised.index(raised) + 1

    def rewrite(self) -> None:
        """Put branches in the place of the node."""
        node, (body, handler) = self.node, self.node.blocks
        around = node.block
        assert around is not None
        place = around.nodes.index(node)
        following = around.nodes[place:]
        del around.nodes[place:]
        mapping: dict[Value, Value] = {}
        for cell in self.cells:
            assert cell.node is not None
            self._put(cell, cell.node.inputs[0], around, mapping)
        code, *values = self._flow(body.nodes, around, mapping, body.returns)
        held = dict(zip(self.handed_on, values[len(body.returns) :], strict=True))
        is_caught = _append(around, "prim::ne", [code, around.constant(0, INT)])
        types = [value.type for value in node.outputs]
        names = [value.name for value in node.outputs]
        made = around.append(
            "prim::If", [is_caught], outputs=types, names=names, source=node.source
        )
        self._handle(handler, made.add_block(), code, held)
        otherwise = made.add_block()
        for value in values[: len(body.returns)]:
            otherwise.add_return(value)
        around.nodes += following
        for old, new in zip(node.outputs, made.outputs, strict=True):
            old.replace_all_uses_with(new)
        node.destroy()
        for cell in self.cells:
            assert cell.node is not None
            (content,) = cell.node.inputs
            cell.node.destroy()
            if content.node is not None and content.node.kind == "prim::If" and not content.uses:
                content.node.destroy()

    def _put(self, cell: Value, content: Value, block: Block, mapping: dict[Value, Value]) -> None:
        """Note what a cell has from here on, if it is anything."""
        is_there = block.constant(content.constant_value is not MISSING, BOOL)
        if content.constant_value is MISSING:
            content = _append(block, "prim::Uninitialized", [])
        elif content.node is not None and _may_be_missing(content.node):
            is_there = content.node.inputs[0]
            content = content.node.blocks[0].returns[0]
        mapping[cell], mapping[self.cells[cell]] = mapping.get(content, content), is_there

    def _flow(
        self,
        nodes: Sequence[Node],
        block: Block,
        mapping: dict[Value, Value],
        returns: Sequence[Value],
    ) -> list[Value]:
        """Append nodes, up to the one that raises.

        Gives its code, or 0, what is returned, and what the cells have.
        """
        for number, node in enumerate(nodes):
            raised = self.class_of(node)
            if node.kind == "prim::Raise" and raised is not None:
                code = block.constant(self.code_of(raised), INT)
                return self._left(block, mapping, code, returns)
            if self._sets_cell(node):
                self._put(node.inputs[0], node.inputs[2], block, mapping)
                continue
            rest = nodes[number + 1 :]
            if raised is not None:
                return self._asked(node, raised, rest, block, mapping, returns)
            if node.kind == "prim::If" and self._has_to_do(node):
                return self._branched(node, rest, block, mapping, returns)
            if not self._becomes_code(node):
                copy_node(node, block, mapping)
        values = (mapping.get(value, value) for value in (*returns, *self.handed_on))
        return [block.constant(0, INT), *values]

    def _sets_cell(self, node: Node) -> bool:
        return node.kind == "prim::setitem" and node.inputs[0] in self.cells

    def _becomes_code(self, node: Node) -> bool:
        """Whether a node makes an exception for which a code stands."""
        users = [use.user for use in node.output.uses] if len(node.outputs) == 1 else []
        raised = users[0] if node.kind == "prim::Call" and len(users) == 1 else None
        is_raised = isinstance(raised, Node) and raised.kind == "prim::Raise"
        return is_raised and isinstance(raised, Node) and self.class_of(raised) is not None

    def _has_to_do(self, node: Node) -> bool:
        """Whether something inside a node raises what is caught, or sets a cell."""
        inside = (one for block in node.blocks for one in _nodes(block))
        return any(self.class_of(one) is not None or self._sets_cell(one) for one in inside)

    def _asked(
        self,
        node: Node,
        raised: type[BaseException],
        rest: Sequence[Node],
        block: Block,
        mapping: dict[Value, Value],
        returns: Sequence[Value],
    ) -> list[Value]:
        """The rest of a body, where a node does not raise."""
        inputs = [mapping.get(value, value) for value in node.inputs]
        attributes = {"operation": _operation(node)}
        asked = block.append(
            "prim::raises", inputs, attributes, outputs=(BOOL,), source=node.source
        )
        code = block.constant(self.code_of(raised), INT)
        return self._unless(asked.output, code, [node, *rest], block, mapping, returns, node)

    def _branched(
        self,
        node: Node,
        rest: Sequence[Node],
        block: Block,
        mapping: dict[Value, Value],
        returns: Sequence[Value],
    ) -> list[Value]:
        """An ``If`` with such nodes, and the rest of the body where none of them has raised."""
        condition = mapping.get(node.inputs[0], node.inputs[0])
        types = (INT, *(value.type for value in node.outputs), *(ANY for _ in self.handed_on))
        made = block.append("prim::If", [condition], outputs=types, source=node.source)
        for inner in node.blocks:
            twin = made.add_block()
            for value in self._flow(inner.nodes, twin, dict(mapping), inner.returns):
                twin.add_return(value)
        code, *values = made.outputs
        mapping.update(zip((*node.outputs, *self.handed_on), values, strict=True))
        failed = _append(block, "prim::ne", [code, block.constant(0, INT)])
        return self._unless(failed, code, rest, block, mapping, returns, None)

    def _unless(
        self,
        failed: Value,
        code: Value,
        nodes: Sequence[Node],
        block: Block,
        mapping: dict[Value, Value],
        returns: Sequence[Value],
        asked: Node | None,
    ) -> list[Value]:
        """What is returned where nothing has failed; the node that was asked for does not raise."""
        types = (INT, *(value.type for value in returns), *(ANY for _ in self.handed_on))
        source = nodes[0].source if nodes else None
        made = block.append("prim::If", [failed], outputs=types, source=source)
        for value in self._left(made.add_block(), mapping, code, returns):
            made.blocks[0].add_return(value)
        inner = made.add_block()
        if asked is not None:
            copy_node(asked, inner, mapping)
            nodes = nodes[1:]
        for value in self._flow(nodes, inner, mapping, returns):
            inner.add_return(value)
        return list(made.outputs)

    def _left(
        self, block: Block, mapping: dict[Value, Value], code: Value, returns: Sequence[Value]
    ) -> list[Value]:
        """What a body returns that has raised."""
        nothing = (_append(block, "prim::Uninitialized", []) for _ in returns)
        return [code, *nothing, *(mapping[one] for one in self.handed_on)]

    def _handle(self, handler: Block, target: Block, code: Value, held: dict[Value, Value]) -> None:
        """Append the handler, which asks for the code instead of the exception."""
        mapping = {handler.params[0]: target.constant(None, NONE)}
        for node in handler.nodes:
            copy_node(node, target, mapping)
        for value in handler.returns:
            target.add_return(mapping.get(value, value))
        for twin in _all_nodes(target):
            classes = _asked_classes(twin)
            if twin.inputs and twin.inputs[0] in self.cells:
                cell = twin.inputs[0]
                for use in [use for use in twin.output.uses if _asks_for_missing(use)]:
                    assert isinstance(use.user, Node)
                    use.user.output.replace_all_uses_with(held[self.cells[cell]])
                    use.user.destroy()
                twin.output.replace_all_uses_with(held[cell])
                twin.destroy()
            elif classes is not None and twin.inputs[1] is mapping[handler.params[0]]:
                self._answer(twin, classes, code)

    def _answer(self, node: Node, classes: tuple[type[BaseException], ...], code: Value) -> None:
        """Say whether the exception is of some classes, by its code."""
        caught = [one for one in self.raised if issubclass(one, classes)]
        result: Value | None = None
        if len(caught) in (0, len(self.raised)):
            held: dict[str, Any] = {"value": bool(caught)}
            result = node.insert_before("prim::Constant", (), held, outputs=(BOOL,)).output
        else:
            for one in caught:
                held = {"value": self.code_of(one)}
                number = node.insert_before("prim::Constant", (), held, outputs=(INT,)).output
                same = node.insert_before("prim::eq", [code, number]).output
                joined = [] if result is None else [result, same]
                result = node.insert_before("prim::or_", joined).output if joined else same
        assert result is not None
        node.output.replace_all_uses_with(result)
        node.destroy()


def _cells(node: Node) -> Iterator[Value]:
    """The cells that the body of a ``try`` sets outside of loops, and only its handler reads."""
    body, handler = map(_all_nodes, node.blocks)
    asked = {one.inputs[0] for one in handler if one.kind == "prim::getitem"}
    once = set(_nodes(node.blocks[0]))
    for cell in dict.fromkeys(one.inputs[0] for one in body if one.kind == "prim::setitem"):
        made = cell.node
        if made is None or not _is_display_of_one(made) or cell not in asked:
            continue
        users = {use.user for use in cell.uses if _has_content(use)}
        is_known = all(
            (one.kind == "prim::setitem" and one in once)
            or (one.kind == "prim::getitem" and one in handler)
            for one in users
            if isinstance(one, Node)
        )
        if is_known and len(users) == len(cell.uses):
            yield cell


def _has_content(use: Use) -> bool:
    """Whether a use reads or sets the element of a cell."""
    node = use.user
    if not isinstance(node, Node) or node.kind not in ("prim::getitem", "prim::setitem"):
        return False
    place = node.inputs[1].constant_value
    return use.index == 0 and type(place) is int and place == 0


def _may_be_missing(node: Node) -> bool:
    """Whether a node gives a variable where that is bound, and otherwise what says it is not."""
    if node.kind != "prim::If" or any(block.nodes for block in node.blocks[:1]):
        return False
    return node.blocks[1].returns[0].constant_value is MISSING


def _asks_for_missing(use: Use) -> bool:
    node = use.user
    is_question = isinstance(node, Node) and node.kind == "prim::isnot" and use.index == 0
    return is_question and isinstance(node, Node) and node.inputs[1].constant_value is MISSING


def _is_display_of_one(node: Node) -> bool:
    return node.kind == "prim::ListConstruct" and len(node.inputs) == 1


def _nodes(block: Block) -> Iterator[Node]:
    """The nodes of a block that run at most once: not those in loops inside it."""
    for node in block.nodes:
        yield node
        if node.kind not in LOOPS:
            for inner in node.blocks:
                yield from _nodes(inner)


def _all_nodes(block: Block) -> list[Node]:
    return list(with_inner(block.nodes))


def _asked_classes(node: Node) -> tuple[type[BaseException], ...] | None:
    """The classes that a node asks for of an exception; None of all other nodes."""
    if (
        node.kind != "prim::Call"
        or node.inputs[0].constant_value is not reference.exception_matches
    ):
        return None
    asked = node.inputs[2]
    is_tuple = asked.node is not None and asked.node.kind == "prim::TupleConstruct"
    parts = asked.node.inputs if is_tuple and asked.node is not None else [asked]
    found = tuple(part.constant_value for part in parts)
    if all(isinstance(one, type) and issubclass(one, BaseException) for one in found):
        return found
    return None


def _raised_class(node: Node) -> type[BaseException] | None:
    """The class of what is raised, where that is plain to see."""
    exception = node.inputs[0]
    made = exception.node
    is_made = made is not None and made.kind == "prim::Call" and len(exception.uses) == 1
    if made is not None and is_made:
        exception = made.inputs[0]
        if made.keywords or "starred" in made.attributes:
            return None
    held: Any = exception.constant_value
    is_plain = isinstance(held, type) and issubclass(held, _PLAIN) and len(node.inputs) == 1
    # Others may do something when they are made, or refuse their arguments.
    is_builtin = is_plain and held.__module__ == "builtins" and not issubclass(held, UnicodeError)
    return held if is_builtin else None


def _append(block: Block, kind: str, inputs: Sequence[Value]) -> Value:
    return block.append(kind, inputs, outputs=(ANY,)).output
