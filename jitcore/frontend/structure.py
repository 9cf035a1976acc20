"""Statements without jumps: ``return``, ``break`` and ``continue`` become flags and branches.

What follows an ``if`` one arm of which leaves moves into the other arm.  Where that is not enough,
the rest is guarded by a flag.  The flags are variables like the user's, with names that no user can
write; liveness drops those nobody reads.

============  ======================================================
``.running``  the function has not returned
``.result``   what it returns
``.go_on.k``  loop k has not been left by ``break`` or ``return``
``.inside.k`` the rest of this iteration of loop k is to be run
============  ======================================================
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

__all__ = [
    "RESULT",
    "RUNNING",
    "Branch",
    "ForLoop",
    "Return",
    "SetFlag",
    "Simple",
    "Statement",
    "WhileLoop",
    "always_true",
    "structure_function",
]

RESULT = ".result"
RUNNING = ".running"

Names = frozenset[str]


@dataclass(slots=True)
class _Located:
    """What all statements have; ``live`` (variables read later) is filled in by liveness."""

    node: ast.AST
    scope: str
    live: Names = field(default=frozenset(), kw_only=True)


@dataclass(slots=True)
class Simple(_Located):
    """A statement that is not about control flow; ``raise`` is one."""


@dataclass(slots=True)
class Return(_Located):
    """Sets the result; the statements after it set flags."""

    value: ast.expr | None


@dataclass(slots=True)
class SetFlag(_Located):
    name: str
    value: bool


@dataclass(slots=True)
class Branch(_Located):
    """Two arms; ``test`` is an expression or a flag's name."""

    test: ast.expr | str
    then: list[Statement]
    orelse: list[Statement]


@dataclass(slots=True)
class _Loop(_Located):
    """``go_on`` names the flag that ends the loop, or is empty; the rest comes from liveness.

    ``assigned`` are the variables that an iteration may bind or delete, ``carried`` those of them
    that a later iteration or the code after the loop may read, ``head`` all variables read from the
    start of an iteration on.
    """

    body: list[Statement]
    go_on: str
    assigned: list[str] = field(default_factory=list, kw_only=True)
    carried: list[str] = field(default_factory=list, kw_only=True)
    head: Names = field(default=frozenset(), kw_only=True)


@dataclass(slots=True)
class WhileLoop(_Loop):
    """The test is evaluated before the loop and after each iteration that goes on."""

    test: ast.expr


@dataclass(slots=True)
class ForLoop(_Loop):
    target: ast.expr
    iterable: ast.expr


Statement = Simple | Return | SetFlag | Branch | WhileLoop | ForLoop
ScopeOf = Callable[[ast.With], str]
"""The scope that a ``with`` statement enters; raises where it is none of jitcore's."""

_Scoped = tuple[ast.stmt, str]


def structure_function(body: Sequence[ast.stmt], scope_of: ScopeOf) -> list[Statement]:
    """The statements of a function, each path of which ends with a ``Return`` or a ``raise``."""
    structurer = _Structurer(scope_of)
    last = body[-1]
    items = [(statement, "") for statement in body]
    if structurer.flow(body).falls:
        implicit = ast.copy_location(ast.Return(None), last)
        items.append((implicit, ""))
    running = SetFlag(last, "", RUNNING, True)
    return [running, *structurer.build(items, ())]


def always_true(test: ast.expr) -> bool:
    """Whether a loop's test is a constant that is true."""
    return isinstance(test, ast.Constant) and bool(test.value)


@dataclass(frozen=True, slots=True)
class _Flow:
    """How statements may end: by running to the end, by ``return``, ``break``, ``continue``."""

    falls: bool
    exits: Names


class _Structurer:
    def __init__(self, scope_of: ScopeOf) -> None:
        self.scope_of = scope_of
        self.loop_count = 0
        self._flows: dict[int, _Flow] = {}

    def flow(self, statements: Sequence[ast.stmt]) -> _Flow:
        """How a block may end."""
        exits: set[str] = set()
        for statement in statements:
            one = self._flow_of(statement)
            exits |= one.exits
            if not one.falls:
                return _Flow(False, frozenset(exits))
        return _Flow(True, frozenset(exits))

    def _flow_of(self, statement: ast.stmt) -> _Flow:
        known = self._flows.get(id(statement))
        if known is None:
            known = self._flows[id(statement)] = self._compute_flow(statement)
        return known

    def _compute_flow(self, statement: ast.stmt) -> _Flow:
        match statement:
            case ast.Return():
                return _Flow(False, frozenset({"return"}))
            case ast.Break():
                return _Flow(False, frozenset({"break"}))
            case ast.Continue():
                return _Flow(False, frozenset({"continue"}))
            case ast.Raise():
                return _Flow(False, frozenset())
            case ast.If():
                then, orelse = self.flow(statement.body), self.flow(statement.orelse)
                return _Flow(then.falls or orelse.falls, then.exits | orelse.exits)
            case ast.With():
                return self.flow(statement.body)
            case ast.While() | ast.For():
                return self._loop_flow(statement)
        return _Flow(True, frozenset())

    def _loop_flow(self, loop: ast.While | ast.For) -> _Flow:
        body = self.flow(loop.body)
        orelse = self.flow(loop.orelse)
        endless = isinstance(loop, ast.While) and always_true(loop.test)
        falls = "break" in body.exits or (not endless and orelse.falls)
        return _Flow(falls, (body.exits & {"return"}) | orelse.exits)

    def build(self, items: Sequence[_Scoped], loops: tuple[int, ...]) -> list[Statement]:
        """The statements of a block that stands in these loops, innermost last."""
        result: list[Statement] = []
        for position, (node, scope) in enumerate(items):
            rest = items[position + 1 :]
            match node:
                case ast.Return() | ast.Break() | ast.Continue():
                    return result + self._exit(node, scope, loops)
                case ast.With():
                    inner = self.scope_of(node)
                    body = [(statement, inner) for statement in node.body]
                    return result + self.build([*body, *rest], loops)
                case ast.If():
                    built, finished = self._branch(node, scope, rest, loops)
                case ast.While() | ast.For():
                    built, finished = self._loop(node, scope, rest, loops)
                case _:
                    built, finished = [Simple(node, scope)], isinstance(node, ast.Raise)
            result += built
            if finished:
                return result
        return result

    def _exit(
        self, node: ast.Return | ast.Break | ast.Continue, scope: str, loops: tuple[int, ...]
    ) -> list[Statement]:
        """The flags that ``return``, ``break`` and ``continue`` set."""
        if isinstance(node, ast.Return):
            flags = [f".go_on.{k}" for k in loops] + [f".inside.{k}" for k in loops] + [RUNNING]
            first: list[Statement] = [Return(node, scope, node.value)]
            return first + [SetFlag(node, scope, flag, False) for flag in flags]
        flags = [f".inside.{loops[-1]}"]
        if isinstance(node, ast.Break):
            flags.append(f".go_on.{loops[-1]}")
        return [SetFlag(node, scope, flag, False) for flag in flags]

    def _branch(
        self, node: ast.If, scope: str, rest: Sequence[_Scoped], loops: tuple[int, ...]
    ) -> tuple[list[Statement], bool]:
        """An ``if`` with what must follow it, and whether that is all of ``rest``."""
        then_flow, else_flow = self.flow(node.body), self.flow(node.orelse)
        then = [(statement, scope) for statement in node.body]
        orelse = [(statement, scope) for statement in node.orelse]
        # An arm that always raises needs no care: nothing after it is reached.
        then_leaves = not then_flow.falls and bool(then_flow.exits)
        else_leaves = not else_flow.falls and bool(else_flow.exits)
        leaves = then_leaves or else_leaves
        if leaves and else_flow.falls:
            orelse += rest
        elif leaves and then_flow.falls:
            then += rest
        branch = Branch(node, scope, node.test, self.build(then, loops), self.build(orelse, loops))
        if leaves or not (then_flow.falls or else_flow.falls):
            return [branch], True
        if not (then_flow.exits | else_flow.exits):
            return [branch], False
        return [branch, *self._guarded(node, rest, loops)], True

    def _guarded(
        self, node: ast.AST, rest: Sequence[_Scoped], loops: tuple[int, ...]
    ) -> list[Statement]:
        """``rest`` under the flag that says whether it is to be run."""
        flag = f".inside.{loops[-1]}" if loops else RUNNING
        body = self.build(rest, loops)
        return [Branch(node, rest[0][1], flag, body, [])] if body else []

    def _loop(
        self,
        node: ast.While | ast.For,
        scope: str,
        rest: Sequence[_Scoped],
        loops: tuple[int, ...],
    ) -> tuple[list[Statement], bool]:
        """A loop with what must follow it, and whether that is all of ``rest``."""
        self.loop_count += 1
        number = self.loop_count
        flow = self.flow(node.body)
        left = bool(flow.exits & {"break", "return"})
        go_on = f".go_on.{number}"
        items = [(statement, scope) for statement in node.body]
        body: list[Statement] = [
            SetFlag(node, scope, f".inside.{number}", True),
            SetFlag(node, scope, go_on, True),
            *self.build(items, (*loops, number)),
        ]
        flag = go_on if left else ""
        loop = (
            WhileLoop(node, scope, body, flag, node.test)
            if isinstance(node, ast.While)
            else ForLoop(node, scope, body, flag, node.target, node.iter)
        )
        endless = isinstance(node, ast.While) and always_true(node.test)
        if endless and "break" not in flow.exits:
            return [loop], True
        orelse = [(statement, scope) for statement in node.orelse]
        if "break" in flow.exits and orelse:
            return self._loop_with_else(loop, go_on, orelse, rest, loops)
        after = [*orelse, *rest]
        if "return" in flow.exits:
            return [loop, *self._guarded(node, after, loops)], True
        return [loop, *self.build(after, loops)], True

    def _loop_with_else(
        self,
        loop: WhileLoop | ForLoop,
        go_on: str,
        orelse: Sequence[_Scoped],
        rest: Sequence[_Scoped],
        loops: tuple[int, ...],
    ) -> tuple[list[Statement], bool]:
        node = loop.node
        assert isinstance(node, ast.While | ast.For)
        before = SetFlag(node, loop.scope, go_on, True)
        finished = Branch(node, loop.scope, go_on, self.build(orelse, loops), [])
        parts: list[Statement] = [before, loop, finished]
        if self._flow_of(node).exits:
            return parts + self._guarded(node, rest, loops), True
        return parts, False
