"""Appending nodes to a graph: the current block and place, branches and loops in SSA form."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from jitcore.errors import UnsupportedError
from jitcore.frontend.constants import constant_type
from jitcore.frontend.environment import Binding, Environment, Reach, is_hidden
from jitcore.frontend.source import FunctionSource
from jitcore.frontend.structure import RESULT
from jitcore.frontend.unsupported import describe
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, SourceRange, Value
from jitcore.ir.types import ANY, BOOL, Type

__all__ = ["Arm", "Builder"]

Names = frozenset[str]
Emit = Callable[[], Sequence[Value]]


@dataclass(slots=True)
class Arm:
    """One finished block of a node."""

    block: Block
    environment: Environment
    values: Sequence[Value]


class Builder:
    """Holds the graph being built, the block that nodes go to, and the variables' bindings."""

    def __init__(self, source: FunctionSource, graph: Graph) -> None:
        self.source = source
        self.graph = graph
        self.block = graph.block
        self.environment = Environment()
        self.where: SourceRange | None = source.range_of(source.node)
        self.scope = ""
        self.cells: list[dict[str, Value]] = []
        self.handled: list[Value] = []
        self.contexts: dict[int, tuple[Value, Value]] = {}

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Give the nodes made inside the place of this syntax."""
        before = self.where
        self.where = self.source.range_of(node)
        yield
        # Not in a finally: an exception ends the compilation.
        self.where = before

    @contextmanager
    def inside(self, block: Block) -> Iterator[None]:
        """Append to another block."""
        before = self.block
        self.block = block
        yield
        self.block = before

    def unsupported(self, node: ast.AST, kind: str = "") -> NoReturn:
        """Raise the error for syntax that is not supported where it stands."""
        message, hint = describe(kind or type(node).__name__)
        raise UnsupportedError(message, self.source.range_of(node), hint)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Type] = (ANY,),
        keywords: Sequence[str] = (),
    ) -> Node:
        """Append a node to the current block, at the current place and in the current scope."""
        all_attributes = dict(attributes or {})
        if self.scope:
            all_attributes["scope"] = self.scope
        return self.block.append(
            kind, inputs, all_attributes, outputs=outputs, keywords=keywords, source=self.where
        )

    def value(self, kind: str, *inputs: Value, **attributes: Any) -> Value:
        """Append a node and give its only output."""
        return self.node(kind, inputs, attributes).output

    def constant(self, value: Any) -> Value:
        """Append a constant."""
        type_ = constant_type(value)
        return self.node("prim::Constant", (), {"value": value}, outputs=(type_,)).output

    def truth(self, value: Value) -> Value:
        """Python's truth of a value."""
        return self.node("prim::bool", (value,), outputs=(BOOL,)).output

    def call(self, function: Any, *arguments: Value) -> Value:
        """Call a Python object that is known now."""
        return self.value("prim::Call", self.constant(function), *arguments)

    def raise_exception(
        self, exception: type[Exception], message: str, *, in_python: bool = True
    ) -> None:
        """Append the raising of an exception whose message is known now.

        The plain function does not raise it unless ``in_python``.
        """
        instance = self.call(exception, self.constant(message))
        attributes = {} if in_python else {"in_python": False}
        self.node("prim::Raise", (instance,), attributes, outputs=())

    def uninitialized(self, name: str) -> Value:
        """A value for a variable that has none on this path."""
        shown = _shown(name)
        return self.node("prim::Uninitialized", (), {"name": shown}).output

    def bind(self, name: str, value: Value) -> None:
        """Assign a variable; a value without a name of its own takes the variable's."""
        if value.name.isdigit():
            value.name = self.graph.unique_name(_shown(name))
        self.environment.bindings[name] = Binding(value)
        self._write_cells(name, value)

    def unbind(self, name: str) -> None:
        """Delete a variable."""
        self.environment.bindings.pop(name, None)
        if any(name in cells for cells in self.cells):
            self._write_cells(name, self.constant(MISSING))

    def _write_cells(self, name: str, value: Value) -> None:
        """Write the cells from which code that catches an exception reads a variable."""
        for cells in self.cells:
            if name in cells:
                self.node("prim::setitem", (cells[name], self.constant(0), value), outputs=())

    # Branches

    def branch(
        self, condition: Value, then: Emit, orelse: Emit, live: Names | None = None
    ) -> list[Value]:
        """A ``prim::If`` whose arms are emitted by two callables.

        Parameters
        ----------
        condition : Value
        then, orelse : callable
            Emit one arm each and give as many values as the other.
        live : frozenset of str, optional
            The variables read afterwards; without it all of them may be.

        Returns
        -------
        list of Value
            The node's outputs for the values of the arms.  The variables that the arms bind
            become further outputs.
        """
        node = self.node("prim::If", (condition,), outputs=())
        arms = [self.arm(node, then), self.arm(node, orelse)]
        outputs: list[Value] = []
        for first, second in zip(arms[0].values, arms[1].values, strict=True):
            arms[0].block.add_return(first)
            arms[1].block.add_return(second)
            outputs.append(node.add_output(first.type if first.type == second.type else ANY))
        self.environment = self.merge(node, arms, live)
        return outputs

    def arm(self, node: Node, emit: Emit) -> Arm:
        """Emit another block of a node, with an environment of its own."""
        before = self.environment
        self.environment = before.copy()
        block = node.add_block()
        with self.inside(block):
            values = emit()
        arm = Arm(block, self.environment, values)
        self.environment = before
        return arm

    def merge(self, node: Node, arms: Sequence[Arm], live: Names | None) -> Environment:
        """The bindings after a node; what its arms bind differently becomes an output."""
        merged = Environment()
        # The arm from which more code can be reached decides.
        order = (Reach.FALLS, Reach.RETURNED, Reach.RAISED)
        merged.reach = min((arm.environment.reach for arm in arms), key=order.index)
        for name in dict.fromkeys(name for arm in arms for name in arm.environment.bindings):
            if live is not None and name not in live:
                continue
            binding = self._merge_binding(node, arms, name)
            if binding is not None:
                merged.bindings[name] = binding
        return merged

    def _merge_binding(self, node: Node, arms: Sequence[Arm], name: str) -> Binding | None:
        reached = [arm for arm in arms if not arm.environment.ignores(name)]
        bindings = [arm.environment.bindings.get(name) for arm in reached]
        before = self.environment.bindings.get(name)
        if all(binding == before for binding in bindings):
            return before
        if len(reached) == 2 and bindings[0] == bindings[1]:
            return bindings[0]
        known = [binding for binding in bindings if binding is not None]
        if not known:
            return None
        surely = len(known) == len(reached) and all(b.bound is None for b in known)
        surely = surely or is_hidden(name)
        for arm in arms:
            self._return_binding(arm.block, arm.environment, name, flagged=not surely)
        type_ = known[0].value.type if is_hidden(name) and name != RESULT else ANY
        output = node.add_output(type_, _shown(name))
        flag = None if surely else node.add_output(BOOL, f"{_shown(name)}_bound")
        return Binding(output, flag)

    def _return_binding(
        self, block: Block, environment: Environment, name: str, *, flagged: bool
    ) -> None:
        """Return a variable from a block, with the flag that says whether it is bound."""
        ignored = environment.ignores(name)
        binding = None if ignored else environment.bindings.get(name)
        with self.inside(block):
            block.add_return(binding.value if binding else self.uninitialized(name))
            if not flagged:
                return
            flag = binding.bound if binding else None
            block.add_return(flag or self.constant(ignored or binding is not None))

    # Loops

    def loop(
        self,
        kind: str,
        inputs: Sequence[Value],
        item: tuple[str, Type],
        carried: Sequence[str],
        body: Callable[[Value], Value],
        *,
        deleted: Names = frozenset(),
        endless: bool = False,
    ) -> None:
        """A ``prim::For`` or a ``prim::Loop``.

        Parameters
        ----------
        kind : str
        inputs : sequence of Value
            What comes before the carried values.
        item : tuple of str and Type
            Name and type of the body's first parameter.
        carried : sequence of str
            The variables an iteration hands to the next one and to the code after the loop.
        body : callable
            Emits the body; takes the first parameter and gives the first returned value.
        deleted : frozenset of str
            The carried variables that the body may delete.
        endless : bool
            The loop is left only from inside, so what the body binds is bound after it.
        """
        before = self.environment
        initial: list[Value] = []
        flagged: dict[str, bool] = {}
        for name in carried:
            binding = before.bindings.get(name)
            if binding is None:
                flag = None if is_hidden(name) else self.constant(False)
                binding = Binding(self.uninitialized(name), flag)
            flagged[name] = binding.bound is not None or name in deleted
            initial.append(binding.value)
            if flagged[name]:
                initial.append(binding.bound or self.constant(True))
        node = self.node(kind, [*inputs, *initial], outputs=())
        block = node.add_block()
        parameter = block.add_param(item[1], _shown(item[0]))
        self.environment = before.copy()
        for name in carried:
            self.environment.bindings[name] = self._parameter(block, name, flagged[name])
        with self.inside(block):
            block.add_return(body(parameter))
        after = self.environment
        for name in carried:
            self._return_binding(block, after, name, flagged=flagged[name])
        self.environment = before
        for name in carried:
            output = node.add_output(_carried_type(name), _shown(name))
            flag = node.add_output(BOOL, f"{_shown(name)}_bound") if flagged[name] else None
            final = after.bindings.get(name)
            surely = endless and final is not None and final.bound is None
            before.bindings[name] = Binding(output, None if surely else flag)

    def _parameter(self, block: Block, name: str, flagged: bool) -> Binding:
        value = block.add_param(_carried_type(name), _shown(name))
        return Binding(value, block.add_param(BOOL, f"{_shown(name)}_bound") if flagged else None)


def _carried_type(name: str) -> Type:
    return BOOL if is_hidden(name) and name != RESULT else ANY


def _shown(name: str) -> str:
    """A variable's name in the graph: ``go_on`` for ``.go_on.3``."""
    return name.split(".")[1] if is_hidden(name) else name
