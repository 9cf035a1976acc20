"""The blocks of a graph as Python statements.

A block ends in one of three ways: its values are returned from the function, assigned to the
outputs of the ``If`` it belongs to, or handed to the next iteration of a loop.  Where the last
node of a block is an ``If``, its branches may end the way the block does, so that ``return`` and
``break`` stand where the user wrote them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from jitcore.codegen.host.assignments import Assignments
from jitcore.codegen.host.expressions import Expressions
from jitcore.codegen.host.loops import LoopForm, loop_form
from jitcore.codegen.host.operators import augmented_sign
from jitcore.codegen.host.plan import Late, visible
from jitcore.codegen.host.text import PlaceComment
from jitcore.codegen.host.variables import is_literal
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import LOOPS, Block, Node, Value

__all__ = ["Outliner", "Statements"]

MAX_DEPTH = 48
"""How deep blocks nest; Python's tokenizer allows 100 levels of indentation."""
MAX_LOOPS = 12
"""How deep loops nest; CPython allows 20 in one function."""

_INDENTATION = "    "


class Outliner(Protocol):
    """Makes functions of nodes that lie too deep to be written in place."""

    def outline(self, node: Node, form: LoopForm | None) -> tuple[str, list[Value]]:
        """The name of the function that runs a node, and the values it takes."""


@dataclass(frozen=True, slots=True)
class _Return:
    """The values are returned."""


@dataclass(frozen=True, slots=True)
class _Assign:
    """The values are assigned to the outputs of an ``If``."""

    targets: Sequence[Value]


@dataclass(frozen=True, slots=True)
class _Iterate:
    """The first value says whether the loop goes on, the others are assigned to its variables."""

    targets: Sequence[Value]


_Ending = _Return | _Assign | _Iterate
_Values = list[Value | None]
"""What a block ends with; None for a loop's first value where nothing is to be tested."""


class Statements(Assignments):
    """Writes the statements of one function.

    Parameters
    ----------
    expressions : Expressions
    outliner : Outliner
    places : callable, optional
        Gives a comment for a place: what is said at each statement of where it comes from.
    """

    def __init__(
        self, expressions: Expressions, outliner: Outliner, *, places: PlaceComment | None = None
    ) -> None:
        super().__init__(expressions)
        self.outliner = outliner
        self.places = places
        self._depth = 0
        self._loops = 0
        self._forms: dict[Node, LoopForm] = {}
        self._tested: set[Value] = set()

    def function_body(self, nodes: Sequence[Node], returns: Sequence[Value]) -> list[str]:
        """The lines of a function that computes these nodes and returns these values."""
        self._block(nodes, list(returns), _Return())
        return self.lines

    # Blocks

    def _block(self, nodes: Sequence[Node], values: _Values, ending: _Ending) -> bool:
        """Write nodes and the ending; whether control never gets past them."""
        while True:
            nodes = self._written(nodes)
            raises = bool(nodes) and nodes[-1].kind == "prim::Raise"
            tail = None if raises else self._tail(nodes, values, ending)
            self.plan.decide(nodes, self._final(values, ending), self._header, tail)
            for node in nodes:
                if node is not tail and not self._is_nested(node):
                    self._statement(node)
            if raises:
                return True
            if tail is None:
                return self._finish(values, ending)
            rest = self._branch_off(tail, values, ending)
            if rest is None:
                return False
            nodes, values = rest

    def _written(self, nodes: Sequence[Node]) -> list[Node]:
        """The nodes that are written in this block, none of them after a ``raise``."""
        written = visible(nodes)
        for position, node in enumerate(written):
            if node.kind == "prim::Raise":
                written = written[: position + 1]
                break
        skipped: set[Node] = set()
        for position, node in enumerate(written):
            if node.kind in LOOPS:
                skipped |= self._form(node).skipped
            elif node.kind == "prim::Unpack" and node not in skipped:
                last = self._find_unpacked(written, position)
                skipped.update(written[position + 1 : last + 1])
        return [node for node in written if node not in skipped]

    def _is_nested(self, node: Node) -> bool:
        return len(node.outputs) == 1 and node.output in self.plan.nested

    def _final(self, values: _Values, ending: _Ending) -> Late:
        if isinstance(ending, _Return):
            return Late([value for value in values if value is not None])
        if isinstance(ending, _Assign) or values[0] is None:
            return Late(())
        return Late([values[0]], self._assigned(values[1:], ending.targets))

    def _header(self, node: Node) -> Late:
        """What the first line of an ``if`` or of a loop evaluates."""
        if node.kind not in LOOPS:
            return Late(() if self._depth >= MAX_DEPTH else node.inputs)
        if self._is_too_deep():
            return Late(())
        form = self._form(node)
        value = form.guard or form.iterable
        if value is None:
            return Late(())
        params = node.blocks[0].params[1:]
        return Late([value], self._assigned(_initial(node), params))

    def _form(self, node: Node) -> LoopForm:
        if node not in self._forms:
            form = self._forms[node] = loop_form(node, self.plan)
            self._tested.update(form.overrides.values())
            if form.unpack is not None:
                nodes = visible(node.blocks[0].nodes)
                form.skipped.update(nodes[: self._find_unpacked(nodes, 0) + 1])
        return self._forms[node]

    # Branches at the end of a block

    def _tail(self, nodes: Sequence[Node], values: _Values, ending: _Ending) -> Node | None:
        """The ``If`` at the end of a block whose branches end as the block does."""
        if not nodes or nodes[-1].kind != "prim::If" or self._depth >= MAX_DEPTH:
            return None
        node = nodes[-1]
        if isinstance(ending, _Return):
            decides = any(value in values for value in node.outputs)
            return node if decides and not self.plan.is_expression(node) else None
        if isinstance(ending, _Assign) or values[0] not in node.outputs:
            return None
        if self.plan.is_expression(node) and self.plan.short_circuit(node) is not None:
            return None
        arms = [self._substituted(node, number, values) for number in (0, 1)]
        return node if any(_is_bool(arm[0], False) for arm in arms) else None

    @staticmethod
    def _substituted(node: Node, number: int, values: _Values) -> _Values:
        """What the block's values are at the end of one branch."""
        known = dict(zip(node.outputs, node.blocks[number].returns, strict=True))
        return [known.get(value, value) if value is not None else None for value in values]

    def _exits(self, node: Node, number: int, values: _Values, ending: _Ending) -> bool:
        """Whether a branch surely leaves the block."""
        if isinstance(ending, _Return) or _raises(node.blocks[number].nodes):
            return True
        return _is_bool(self._substituted(node, number, values)[0], False)

    def _branch_off(
        self, node: Node, values: _Values, ending: _Ending
    ) -> tuple[Sequence[Node], _Values] | None:
        """Write one branch of the last ``If`` under its condition; what follows is the other one.

        None where neither branch leaves the block, and both were written.
        """
        leaves = [self._exits(node, number, values, ending) for number in (0, 1)]
        first = 0 if leaves[0] and not _raises(node.blocks[1].nodes) else 1
        if not leaves[1] or (leaves[0] and _raises(node.blocks[0].nodes)):
            first = 0
        second = 1 - first
        test = self._test(node, negated=first == 1)
        arms = [self._substituted(node, number, values) for number in (0, 1)]
        start = len(self.lines)
        self._indent(
            f"if {test}:", lambda: self._block(node.blocks[first].nodes, arms[first], ending)
        )
        self._note_place(start, node)
        if leaves[first]:
            return node.blocks[second].nodes, arms[second]
        self._indent("else:", lambda: self._block(node.blocks[second].nodes, arms[second], ending))
        return None

    def _test(self, node: Node, *, negated: bool) -> str:
        """The condition of an ``If``, or its opposite."""
        (condition,) = node.inputs
        if negated:
            return self.expressions.negation(condition)
        return self.expressions.condition(condition).text

    # Endings

    def _finish(self, values: _Values, ending: _Ending) -> bool:
        if isinstance(ending, _Return):
            self._return([value for value in values if value is not None])
            return True
        if isinstance(ending, _Assign):
            self._move(values, ending.targets)
            return False
        go_on, *carried = values
        if go_on is not None:
            self._keep(go_on, self._assigned(carried, ending.targets))
        self._move(carried, ending.targets)
        if go_on is None or _is_bool(go_on, True):
            return False
        if _is_bool(go_on, False):
            self.lines.append("break")
            return True
        test = self.expressions.negation(go_on)
        self._indent(f"if {test}:", lambda: self.lines.append("break"))
        return False

    def _return(self, values: Sequence[Value]) -> None:
        if len(values) == 1 and self._is_display(values[0]):
            assert values[0].node is not None
            values = values[0].node.inputs
        texts = [self.expressions.at(value) for value in values]
        self.lines.append(f"return {', '.join(texts) if texts else '()'}")
        for value in values:
            if value in self.plan.nested and value.node is not None:
                self._note_place(len(self.lines) - 1, value.node)
                break

    def _is_display(self, value: Value) -> bool:
        """Whether a value is a tuple that needs no parentheses to be returned."""
        node = value.node
        if node is None or value not in self.plan.nested or node.kind != "prim::TupleConstruct":
            return False
        return len(node.inputs) > 1 and "named" not in node.attributes

    def _assigned(
        self, sources: Sequence[Value | None], targets: Sequence[Value]
    ) -> frozenset[str]:
        """The variables that change when values are assigned."""
        return frozenset(name for name, _, _ in self._moves(sources, targets))

    def _moves(
        self, sources: Sequence[Value | None], targets: Sequence[Value]
    ) -> list[tuple[str, str, str]]:
        """Target, text, and the variable that is read (or nothing) of each assignment."""
        moves = []
        for source, target in zip(sources, targets, strict=True):
            assert source is not None
            if not self._is_needed(target):
                continue
            name = self.variables.name(target)
            text = self.expressions.at(source)
            if name != text:
                moves.append((name, text, "" if is_literal(source) else text))
        return moves

    def _is_needed(self, target: Value) -> bool:
        """Whether anything reads a variable that a branch or an iteration assigns."""
        if target.uses or target.block is None:
            return bool(target.uses)
        if target in self._tested:
            return True
        owner = target.block.owner
        assert owner is not None
        return bool(owner.outputs[target.block.params.index(target) - 1].uses)

    def _move(self, sources: Sequence[Value | None], targets: Sequence[Value]) -> None:
        """Assign as if at once: no variable is written before it is read."""
        moves = self._moves(sources, targets)
        while moves:
            for move in moves:
                if not any(other is not move and other[2] == move[0] for other in moves):
                    break
            else:
                names, texts, _ = zip(*moves, strict=True)
                self.lines.append(f"{', '.join(names)} = {', '.join(texts)}")
                return
            self.lines.append(f"{move[0]} = {move[1]}")
            moves.remove(move)

    # Statements

    def _statement(self, node: Node) -> None:
        start = len(self.lines)
        self._write_statement(node)
        self._note_place(start, node)

    def _note_place(self, start: int, node: Node) -> None:
        """Add to the lines from ``start`` on a comment that says where the node comes from.

        It stands at the first line that opens a block, or else at the last line.
        """
        if self.places is None or node.source is None or len(self.lines) == start:
            return
        opening = (n for n in range(start, len(self.lines)) if self.lines[n].endswith(":"))
        number = next(opening, len(self.lines) - 1)
        self.lines[number] += f"  # {self.places(node.source)}"

    def _write_statement(self, node: Node) -> None:
        if node.blocks and not self.plan.is_expression(node):
            self._control(node)
            return
        writer = _WRITERS.get(node.kind)
        if writer is not None:
            writer(self, node)
            return
        sign = augmented_sign(node)
        if sign is not None and self._is_in_place(node):
            target = self.variables.name(node.output)
            self.lines.append(f"{target} {sign} {self.expressions.at(node.inputs[1])}")
            return
        text = self.expressions.node(node).text
        if any(value.uses for value in node.outputs):
            text = f"{', '.join(map(self.variables.name, node.outputs))} = {text}"
        self.lines.append(text)

    def _is_in_place(self, node: Node) -> bool:
        """Whether an augmented assignment's target and result are one variable."""
        target = node.inputs[0]
        has_variable = not is_literal(target) and target not in self.plan.nested
        return has_variable and self.variables.are_same(target, node.output)

    # Control flow

    def _control(self, node: Node) -> None:
        if node.kind in LOOPS:
            if self._is_too_deep():
                self._call_outlined(node, self._form(node))
            else:
                self._loop(node)
        elif self._depth >= MAX_DEPTH:
            self._call_outlined(node, None)
        elif node.kind == "prim::Try":
            self._try(node)
        elif node.kind == "prim::With":
            self._with(node)
        else:
            self._if(node)

    def _is_too_deep(self) -> bool:
        """Whether a loop must go to a function of its own here."""
        return self._depth >= MAX_DEPTH or self._loops >= MAX_LOOPS

    def _call_outlined(self, node: Node, form: LoopForm | None) -> None:
        name, values = self.outliner.outline(node, form)
        text = f"{name}({', '.join(map(self.variables.name, values))})"
        if any(value.uses for value in node.outputs):
            text = f"{', '.join(map(self.variables.name, node.outputs))} = {text}"
        self.lines.append(text)

    def _indent(self, header: str, write: Callable[[], object]) -> None:
        lines = self._captured(write)
        self._nest(header, lines)

    def _captured(self, write: Callable[[], object]) -> list[str]:
        """The lines that a callable writes, one level deeper."""
        outer, self.lines = self.lines, []
        self._depth += 1
        write()
        self._depth -= 1
        lines, self.lines = self.lines, outer
        return lines

    def _nest(self, header: str, lines: Sequence[str]) -> None:
        self.lines.append(header)
        self.lines += [f"{_INDENTATION}{line}" for line in lines or ["pass"]]

    def _if(self, node: Node) -> None:
        exits = [False, False]

        def write(number: int) -> None:
            block = node.blocks[number]
            exits[number] = self._block(block.nodes, list(block.returns), _Assign(node.outputs))

        then, orelse = (self._captured(partial(write, number)) for number in (0, 1))
        if (not then and orelse) or (exits[1] and not exits[0]):
            self._nest(f"if {self._test(node, negated=True)}:", orelse)
            self.lines += then
            return
        self._nest(f"if {self._test(node, negated=False)}:", then)
        if exits[0]:
            self.lines += orelse
        elif _is_single_if(orelse):
            self.lines.append(f"el{orelse[0]}")
            self.lines += orelse[1:]
        elif orelse:
            self._nest("else:", orelse)

    def _try(self, node: Node) -> None:
        body, handler = node.blocks
        (parameter,) = handler.params
        caught = self.variables.temporary("caught")
        base = self.expressions.globals.builtin("BaseException")
        self._indent("try:", lambda: self._arm(node, body))

        def handle() -> None:
            # Python deletes the variable that ``as`` names, which others may share.
            if parameter.uses:
                self.lines.append(f"{self.variables.name(parameter)} = {caught}")
            self._arm(node, handler)

        self._indent(f"except {base} as {caught}:", handle)

    def _with(self, node: Node) -> None:
        manager = self.expressions.globals.callable(node.attributes["manager"])
        pairs = zip(node.keywords, node.inputs, strict=True)
        arguments = ", ".join(f"{name}={self.expressions.at(value)}" for name, value in pairs)
        header = f"with {manager}({arguments}):"
        self._indent(header, lambda: self._arm(node, node.blocks[0]))

    def _arm(self, node: Node, block: Block) -> None:
        self._block(block.nodes, list(block.returns), _Assign(node.outputs))

    def _loop(self, node: Node) -> None:
        form = self._form(node)
        params = node.blocks[0].params[1:]
        initial = _initial(node)
        header = self._header_text(node, form, initial, params)
        self._move(initial, params)
        if form.guard is not None:
            guard = self.expressions.condition(form.guard).text
            self._indent(f"if {guard}:", lambda: self._loop_body(node, form, header))
        else:
            self._loop_body(node, form, header)

    def _header_text(
        self, node: Node, form: LoopForm, initial: Sequence[Value], params: Sequence[Value]
    ) -> str:
        """The line that starts the loop; what it evaluates is read before anything is assigned."""
        for value in (form.guard, form.iterable):
            if value is not None:
                self._keep(value, self._assigned(initial, params))
        if node.kind == "prim::For":
            assert form.iterable is not None
            item = node.blocks[0].params[0]
            target = self._targets(form.unpack) if form.unpack else self.variables.name(item)
            return f"for {target} in {self.expressions.at(form.iterable)}:"
        if form.iterable is not None:
            item = node.blocks[0].params[0]
            counter = self.expressions.globals.builtin("range")
            limit = self.expressions.at(form.iterable)
            return f"for {self.variables.name(item)} in {counter}({limit}):"
        if form.condition is None:
            return "while True:"
        self.plan.nested |= form.nested
        for value, param in form.overrides.items():
            self.expressions.overrides[value] = self.variables.name(param)
        text = self.expressions.condition(form.condition).text
        self.expressions.overrides.clear()
        return f"while {text}:"

    def _keep(self, value: Value, assigned: frozenset[str]) -> None:
        """Copy what a loop's header reads if the loop's first assignments overwrite it."""
        if is_literal(value) or not self.plan.names_read(value) & assigned:
            return
        name = self.variables.temporary("kept")
        self.lines.append(f"{name} = {self.expressions.at(value)}")
        self.expressions.overrides[value] = name

    def _loop_body(self, node: Node, form: LoopForm, header: str) -> None:
        (body,) = node.blocks
        nodes = [one for one in body.nodes if one not in form.skipped]
        values: _Values = [form.go_on, *body.returns[1:]]
        self._loops += 1
        self._indent(header, lambda: self._block(nodes, values, _Iterate(body.params[1:])))
        self._loops -= 1


def _initial(node: Node) -> list[Value]:
    """The first values of a loop's variables."""
    count = len(node.blocks[0].params) - 1
    return node.inputs[len(node.inputs) - count :]


def _is_bool(value: Value | None, expected: bool) -> bool:
    node = value.constant if value is not None else None
    return node is not None and node.attributes["value"] is expected


def _raises(nodes: Sequence[Node]) -> bool:
    return any(node.kind == "prim::Raise" for node in nodes)


def _is_single_if(lines: Sequence[str]) -> bool:
    """Whether these lines are one ``if`` statement."""
    if not lines or not lines[0].startswith("if "):
        return False
    return all(line.startswith((_INDENTATION, "elif ", "else:")) for line in lines[1:])


_WRITERS: dict[str, Callable[[Statements, Node], None]] = {
    "prim::setitem": Statements._set_item,
    "prim::SetAttr": Statements._set_attribute,
    "prim::delitem": Statements._delete_item,
    "prim::Raise": Statements._raise,
    "prim::Unpack": Statements._unpack,
    "np::store": Statements._store,
    "np::scatter": Statements._scatter,
    "np::put_mask": Statements._put_mask,
}
