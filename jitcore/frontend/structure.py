"""Statements without jumps: ``return``, ``break`` and ``continue`` become flags and branches.

What follows an ``if`` one arm of which leaves moves into the other arm.  Where that is not enough,
the rest is guarded by a flag.  The flags are variables like the user's, with names that no user can
write; liveness drops those nobody reads.

============  ======================================================
``.running``  the function has not returned
``.result``   what it returns
``.go_on.k``  loop k has not been left by ``break`` or ``return``
``.inside.k`` the rest of this iteration of loop k is to be run
``.fine.k``   the body of ``try`` or ``with`` number k has run to its end
============  ======================================================
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import field
from typing import NoReturn, Protocol

from jitcore.ir.dataclass import dataclass

__all__ = [
    "RESULT",
    "RUNNING",
    "Branch",
    "Contexts",
    "Enter",
    "Entered",
    "ForLoop",
    "Handler",
    "Leave",
    "Reraise",
    "Return",
    "SetFlag",
    "Simple",
    "Statement",
    "Try",
    "WhileLoop",
    "Within",
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
    """Sets the result; the statements after it set flags, and a ``finally`` may follow."""

    value: ast.expr | None
    is_last: bool = True


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


@dataclass(slots=True)
class Handler:
    """What is done with an exception of these classes, or of any where ``classes`` is None."""

    classes: ast.expr | None
    name: str
    body: list[Statement]


@dataclass(slots=True)
class Try(_Located):
    """A body, and what is done with exceptions that it raises.

    ``kept`` are the variables that the body assigns and the handlers, or the code after them,
    read: liveness finds them.
    """

    body: list[Statement]
    handlers: list[Handler]
    kept: list[str] = field(default_factory=list, kw_only=True)


@dataclass(slots=True)
class Enter(_Located):
    """Enters context number ``number``."""

    context: ast.expr
    number: int


@dataclass(slots=True)
class Entered(_Located):
    """Assigns what entering the context gave."""

    target: ast.expr
    number: int


@dataclass(slots=True)
class Leave(_Located):
    """Leaves the context; ``failed`` where an exception was raised, which it may suppress."""

    number: int
    failed: bool


@dataclass(slots=True)
class Reraise(_Located):
    """Raises the exception that is being handled."""


@dataclass(slots=True)
class Within(_Located):
    """A body in a context that never suppresses exceptions, ``np.errstate`` for one."""

    context: ast.Call
    body: list[Statement]


Statement = (
    Simple
    | Return
    | SetFlag
    | Branch
    | WhileLoop
    | ForLoop
    | Try
    | Enter
    | Entered
    | Leave
    | Reraise
    | Within
)


class Contexts(Protocol):
    """What the front end knows about the contexts of ``with`` statements."""

    def scope_of(self, item: ast.withitem) -> str | None:
        """The scope of jitcore's that is entered; None of others."""

    def is_transparent(self, item: ast.withitem) -> bool:
        """Whether a context surely suppresses no exception."""

    def unsupported(self, node: ast.AST, kind: str = "") -> NoReturn:
        """Raise the error for syntax that is not supported."""


_Scoped = tuple[ast.stmt, str]


def structure_function(body: Sequence[ast.stmt], contexts: Contexts) -> list[Statement]:
    """The statements of a function, each path of which ends with a ``Return`` or a ``raise``."""
    structurer = _Structurer(contexts)
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
    def __init__(self, contexts: Contexts) -> None:
        self.contexts = contexts
        self.loop_count = 0
        self.try_count = 0
        self.final_count = 0
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
                return self._with_flow(statement)
            case ast.Try():
                return self._try_flow(statement)
            case ast.While() | ast.For():
                return self._loop_flow(statement)
        return _Flow(True, frozenset())

    def _with_flow(self, statement: ast.With) -> _Flow:
        inside = self.flow(statement.body)
        known = all(
            self.contexts.scope_of(item) is not None or self.contexts.is_transparent(item)
            for item in statement.items
        )
        # Other contexts may suppress an exception, and then the statement falls through.
        return inside if known else _Flow(True, inside.exits)

    def _try_flow(self, statement: ast.Try) -> _Flow:
        body = self.flow([*statement.body, *statement.orelse])
        parts = [body, *(self.flow(handler.body) for handler in statement.handlers)]
        final = self.flow(statement.finalbody)
        exits = final.exits.union(*(part.exits for part in parts))
        return _Flow(final.falls and any(part.falls for part in parts), exits)

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
                case ast.With() if self._scope(node) is not None:
                    inner = self._scope(node) or ""
                    body = [(statement, inner) for statement in node.body]
                    return result + self.build([*body, *rest], loops)
                case ast.With():
                    built = self._with(node, scope, loops)
                    built, finished = self._followed(node, built, rest, loops)
                case ast.Try():
                    built = self._finally(node, scope, loops)
                    built, finished = self._followed(node, built, rest, loops)
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
            is_last = not self.final_count
            first: list[Statement] = [Return(node, scope, node.value, is_last)]
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

    def _followed(
        self,
        node: ast.With | ast.Try,
        built: list[Statement],
        rest: Sequence[_Scoped],
        loops: tuple[int, ...],
    ) -> tuple[list[Statement], bool]:
        """Statements with what must follow them, and whether that is all of ``rest``."""
        flow = self._flow_of(node)
        if not flow.exits:
            return built, not flow.falls
        return [*built, *self._guarded(node, rest, loops)], True

    def _scope(self, node: ast.With) -> str | None:
        """The scope of jitcore's that a statement enters, the last of several."""
        scopes = [self.contexts.scope_of(item) for item in node.items]
        return None if None in scopes else scopes[-1]

    # Exceptions

    def _with(self, node: ast.With, scope: str, loops: tuple[int, ...]) -> list[Statement]:
        """``with`` of any context; several of them are nested."""
        first, *others = node.items
        inner: Sequence[ast.stmt] = node.body
        if others:
            nested = ast.With(others, node.body)
            inner = [ast.copy_location(nested, node)]
        body = self.build([(statement, scope) for statement in inner], loops)
        context = first.context_expr
        if self.contexts.is_transparent(first) and isinstance(context, ast.Call):
            return [Within(context, scope, context, body)]
        self.try_count += 1
        number = self.try_count
        fine = f".fine.{number}"
        target = first.optional_vars
        assign: list[Statement] = [Entered(target, scope, target, number)] if target else []
        # The body runs to its end unless it raises: jumps out of it are flags.
        body = [*assign, *body, SetFlag(node, scope, fine, True)]
        suppress: list[Statement] = [Leave(context, scope, number, True)]
        leave: list[Statement] = [Leave(context, scope, number, False)]
        return [
            Enter(context, scope, context, number),
            SetFlag(node, scope, fine, False),
            Try(node, scope, body, [Handler(None, "", suppress)]),
            Branch(context, scope, fine, leave, []),
        ]

    def _finally(self, node: ast.Try, scope: str, loops: tuple[int, ...]) -> list[Statement]:
        """``try`` with all its parts."""
        self.final_count += bool(node.finalbody)
        if node.handlers:
            inner = self._try(node, scope, loops)
        else:
            inner = self._inside(node.body, scope, loops)
        self.final_count -= bool(node.finalbody)
        if not node.finalbody:
            return inner
        if self.flow(node.finalbody).exits:
            self.contexts.unsupported(node.finalbody[0], "Finally")
        again = [*self._inside(node.finalbody, scope, loops), Reraise(node, scope)]
        after = self._inside(node.finalbody, scope, loops)
        return [Try(node, scope, inner, [Handler(None, "", again)]), *after]

    def _inside(
        self, body: Sequence[ast.stmt], scope: str, loops: tuple[int, ...]
    ) -> list[Statement]:
        return self.build([(statement, scope) for statement in body], loops)

    def _try(self, node: ast.Try, scope: str, loops: tuple[int, ...]) -> list[Statement]:
        """``try`` with ``except``, and perhaps ``else``."""
        handlers = [
            Handler(one.type, one.name or "", self._inside(one.body, scope, loops))
            for one in node.handlers
        ]
        body = self._inside(node.body, scope, loops)
        if not node.orelse:
            return [Try(node, scope, body, handlers)]
        self.try_count += 1
        fine = f".fine.{self.try_count}"
        reached: list[Statement] = [SetFlag(node, scope, fine, True)]
        if self.flow(node.body).exits:
            flag = f".inside.{loops[-1]}" if loops else RUNNING
            reached = [Branch(node, scope, flag, reached, [])]
        return [
            SetFlag(node, scope, fine, False),
            Try(node, scope, [*body, *reached], handlers),
            Branch(node, scope, fine, self._inside(node.orelse, scope, loops), []),
        ]

    # Loops

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
