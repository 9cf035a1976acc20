"""Builds the statements of one function: names, bindings, nested blocks."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitcore.codegen.loop_passes.traversal import variables
from jitcore.codegen.loops import (
    Assign,
    Break,
    Comment,
    Const,
    Continue,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Var,
)

__all__ = ["Emitter", "identifier"]

_NOT_IDENTIFIER = re.compile(r"[^0-9A-Za-z_]")
_RESERVED = frozenset(
    [
        "auto",
        "case",
        "char",
        "const",
        "default",
        "do",
        "double",
        "enum",
        "extern",
        "float",
        "goto",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "np",
        "math",
        "nb",
        "numba",
        "range",
        "min",
        "max",
        "abs",
        "bool",
        "results",
    ]
)
_GRAPH_NUMBER = re.compile(r"\.\d+")


def identifier(name: str) -> str:
    """A name as an identifier of Python and of C: ``x.1`` becomes ``x_1``, ``7`` becomes ``t7``."""
    text = _NOT_IDENTIFIER.sub("_", name)
    if not text or text[0].isdigit():
        text = f"t{text}"
    if keyword.iskeyword(text) or text in _RESERVED:
        text += "_"
    return text


class Emitter:
    """Appends statements to the innermost open block."""

    def __init__(self) -> None:
        self.body: list[Stmt] = []
        self._open: list[list[Stmt]] = [self.body]
        self._floor = 0
        self._names: dict[str, int] = {}
        self._depths: dict[str, int] = {}
        self._blocks: dict[str, list[Stmt]] = {}
        self._mutable: set[str] = set()
        self._shared: list[dict[Expr, Expr]] = [{}]

    @property
    def statements(self) -> list[Stmt]:
        """The innermost open block."""
        return self._open[-1]

    # Names --------------------------------------------------------------------------------

    def unique(self, name: str) -> str:
        """A name no variable has yet: ``x``, then ``x_2``, which is also the next for ``x.1``."""
        base = identifier(_GRAPH_NUMBER.sub("", name))
        count = self._names.get(base, 0) + 1
        self._names[base] = count
        return base if count == 1 else self.unique(f"{base}_{count}")

    # Statements ---------------------------------------------------------------------------

    def emit(self, statement: Stmt) -> None:
        """Append a statement; what follows a jump is unreachable and dropped."""
        if not self.terminated:
            self.statements.append(statement)

    @property
    def terminated(self) -> bool:
        """Whether the open block ends in a jump."""
        return bool(self.statements) and isinstance(self.statements[-1], (Return, Break, Continue))

    def let(self, name: str, value: Expr) -> Expr:
        """Bind a value; constants and variables stand for themselves."""
        if isinstance(value, (Const, Var)):
            return value
        return self.copy(name, value)

    def copy(self, name: str, value: Expr) -> Var:
        """Bind a value to a variable of its own, which no later assignment changes."""
        var = self._new(name, value.dtype)
        self.emit(Let(var, value))
        return var

    def _new(self, name: str, dtype: str) -> Var:
        var = Var(self.unique(name), dtype)
        self._depths[var.name] = len(self._open) - 1
        return var

    def declare(self, var: Var) -> None:
        """Note that a variable is bound by the open block's own statement."""
        self._depths[var.name] = len(self._open) - 1

    def hoisted(self, name: str, value: Expr, comment: str = "") -> Expr:
        """Bind a value outside of the loops it does not depend on."""
        if isinstance(value, (Const, Var)):
            return value
        depth = max((self._depth(one) for one in variables(value)), default=0)
        depth = max(depth, self._floor)
        block = self._open[depth]
        if comment and self._last_comment(depth) != comment:
            block.append(Comment(comment))
        var = Var(self.unique(name), value.dtype)
        self._depths[var.name] = depth
        self._blocks[var.name] = block
        block.append(Let(var, value))
        return var

    def is_bound(self, value: Expr) -> bool:
        """Whether a value that `hoisted` gave may be read here: its block is still open."""
        block = self._blocks.get(value.name) if isinstance(value, Var) else None
        return block is None or any(one is block for one in self._open)

    def _depth(self, name: str) -> int:
        """How deep a variable is bound; what may change counts as bound here."""
        if name in self._mutable:
            return len(self._open) - 1
        return self._depths.get(name, 0)

    def shared(self, name: str, value: Expr) -> Expr:
        """Bind a value, or give the variable that holds it already."""
        if isinstance(value, (Const, Var)):
            return value
        for scope in reversed(self._shared):
            if value in scope:
                return scope[value]
        var = self.let(name, value)
        self._shared[-1][value] = var
        return var

    def mutable(self, name: str, value: Expr) -> Var:
        """A variable that may be assigned to."""
        var = self._new(name, value.dtype)
        self._mutable.add(var.name)
        self.emit(Let(var, value, mutable=True))
        return var

    def assign(self, var: Var, value: Expr) -> None:
        """Append an assignment."""
        self.emit(Assign(var, value))

    def comment(self, text: str) -> None:
        """Append a comment, but not the same one twice in a row."""
        if self._last_comment(len(self._open) - 1) != text:
            self.emit(Comment(text))

    def _last_comment(self, depth: int) -> str:
        """The comment a reader of a block sees last."""
        for block in reversed(self._open[: depth + 1]):
            for statement in reversed(block):
                if isinstance(statement, Comment):
                    return statement.text
        return ""

    def snapshot(self) -> tuple[Any, ...]:
        """The state before an attempt that may be given up."""
        shared = [dict(scope) for scope in self._shared]
        return len(self.statements), dict(self._names), shared

    def restore(self, snapshot: tuple[Any, ...]) -> None:
        """Give up everything emitted into the open block since a snapshot."""
        length, self._names, self._shared = snapshot
        del self.statements[length:]

    # Blocks -------------------------------------------------------------------------------

    @contextmanager
    def inside(self, statements: list[Stmt], *, hoist: bool = False) -> Iterator[list[Stmt]]:
        """Append to another block for a while; with ``hoist`` values may be bound outside of it."""
        floor = self._floor
        self._open.append(statements)
        self._floor = floor if hoist else len(self._open) - 1
        self._shared.append({})
        try:
            yield statements
        finally:
            self._open.pop()
            self._floor = floor
            self._shared.pop()

    @contextmanager
    def nest(self) -> Iterator[None]:
        """Values of loops opened inside may be bound as far out as here, but not farther."""
        floor, self._floor = self._floor, len(self._open) - 1
        try:
            yield
        finally:
            self._floor = floor

    @contextmanager
    def loop(
        self,
        name: str,
        start: Expr,
        stop: Expr,
        *,
        step: int = 1,
        parallel: bool = False,
        hoist: bool = True,
    ) -> Iterator[Var]:
        """A counted loop around what is emitted inside."""
        var = Var(self.unique(name), "int64")
        self._depths[var.name] = len(self._open)
        body: list[Stmt] = []
        with self.inside(body, hoist=hoist):
            yield var
        self.emit(For(var, start, stop, body, step, parallel))

    @contextmanager
    def branch(self, condition: Expr, *, unlikely: bool = False) -> Iterator[None]:
        """An ``If`` around what is emitted inside; nothing where the condition never holds."""
        body: list[Stmt] = []
        with self.inside(body):
            yield
        if isinstance(condition, Const):
            if condition.value:
                self.extend(body)
            return
        self.emit(If(condition, body, unlikely=unlikely))

    def extend(self, statements: Sequence[Stmt]) -> None:
        """Append several statements."""
        for statement in statements:
            self.emit(statement)
