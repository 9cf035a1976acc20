"""``try`` and ``with``: blocks whose exceptions are caught.

A variable that such a block assigns has the value of its last assignment when an exception is
caught, wherever that was raised.  So each variable that is read after an exception is also written
to a cell, a list with one element, at each of its assignments.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

import numpy as np

from jitcore.frontend.calls import Calls
from jitcore.frontend.constants import marker
from jitcore.frontend.environment import Binding, Reach
from jitcore.frontend.structure import (
    Enter,
    Entered,
    Handler,
    Leave,
    Reraise,
    Statement,
    Try,
    Within,
)
from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Value
from jitcore.ir.types import ANY, BOOL

__all__ = ["Protected"]

_TRANSPARENT = (np.errstate,)
"""Contexts that suppress no exception."""


class Protected(Calls):
    """Emits ``try`` and ``with``."""

    def run(self, statements: Sequence[Statement]) -> None:
        """Emit statements one after the other; statements define it."""
        raise NotImplementedError

    def scope_of(self, item: ast.withitem) -> str | None:
        """The scope that ``with jitcore.strict_fusion():`` enters; None of other contexts."""
        context = item.context_expr
        static = self.static(context.func if isinstance(context, ast.Call) else context)
        name = marker(static.value, "__jitcore_scope__") if static else None
        return name if isinstance(name, str) and item.optional_vars is None else None

    def is_transparent(self, item: ast.withitem) -> bool:
        """Whether a context is known to suppress no exception."""
        context = item.context_expr
        if not isinstance(context, ast.Call) or item.optional_vars is not None or context.args:
            return False
        static = self.static(context.func)
        return static is not None and any(static.value is one for one in _TRANSPARENT)

    def protected(self, statement: Statement) -> None:
        """Emit one of the statements that ``try`` and ``with`` consist of."""
        match statement:
            case Try():
                self._try(statement)
            case Within():
                self._within(statement)
            case Enter():
                manager = self.emit(statement.context)
                entered = self.call(reference.enter_context, manager)
                node = self.node("prim::Unpack", (entered,), {"count": 2}, outputs=(ANY, ANY))
                self.contexts[statement.number] = (node.outputs[0], node.outputs[1])
            case Entered():
                self.assign(statement.target, self.contexts[statement.number][1])
            case Leave():
                self._leave(statement)
            case Reraise():
                self._raise_again()

    def _leave(self, statement: Leave) -> None:
        exit_ = self.contexts[statement.number][0]
        if not statement.failed:
            self.value("prim::Call", exit_, *[self.constant(None)] * 3)
            return
        suppressed = self.call(reference.leave_context, exit_, self.handled[-1])

        def raise_again() -> list[Value]:
            self._raise_again()
            return []

        self.branch(self.truth(suppressed), lambda: [], raise_again)

    def _raise_again(self) -> None:
        self.node("prim::Raise", (self.handled[-1],), outputs=())
        self.environment.reach = Reach.RAISED

    def _within(self, statement: Within) -> None:
        """A block in a context that is entered and left around it."""
        call = statement.context
        static = self.static(call.func)
        assert static is not None
        self.record(static)
        keywords = self.keywords(call)
        node = self.node(
            "prim::With",
            [value for _, value in keywords],
            {"manager": static.value},
            outputs=(),
            keywords=[name for name, _ in keywords],
        )
        arm = self.arm(node, lambda: self.run_for_nothing(statement.body))
        self.environment = self.merge(node, [arm], statement.live)

    def run_for_nothing(self, statements: Sequence[Statement]) -> list[Value]:
        """Emit the statements of an arm that gives no values."""
        self.run(statements)
        return []

    def _try(self, statement: Try) -> None:
        cells = {name: self._cell(name) for name in statement.kept}
        unbound = {name for name in cells if not self._stays_bound(statement, name)}
        node = self.node("prim::Try", (), outputs=())
        self.cells.append(cells)
        body = self.arm(node, lambda: self.run_for_nothing(statement.body))
        self.cells.pop()

        def handle() -> list[Value]:
            exception = self.block.add_param(ANY, "error")
            for name, cell in cells.items():
                value = self.value("prim::getitem", cell, self.constant(0))
                flag = None
                if name in unbound:
                    missing = self.constant(MISSING)
                    flag = self.node("prim::isnot", (value, missing), outputs=(BOOL,)).output
                self.environment.bindings[name] = Binding(value, flag)
            self.handled.append(exception)
            self._dispatch(statement, statement.handlers, exception)
            self.handled.pop()
            return []

        handler = self.arm(node, handle)
        self.environment = self.merge(node, [body, handler], statement.live)

    def _cell(self, name: str) -> Value:
        """A cell with the value that a variable has now, or ``MISSING``."""
        binding = self.environment.bindings.get(name)
        if binding is None:
            return self.value("prim::ListConstruct", self.constant(MISSING))
        value = binding.value
        if binding.bound is not None:
            held = value
            value = self.branch(binding.bound, lambda: [held], lambda: [self.constant(MISSING)])[0]
        return self.value("prim::ListConstruct", value)

    def _stays_bound(self, statement: Try, name: str) -> bool:
        binding = self.environment.bindings.get(name)
        if binding is None or binding.bound is not None:
            return False
        deleted = (
            node.id
            for node in ast.walk(statement.node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
        )
        named = (
            node.name for node in ast.walk(statement.node) if isinstance(node, ast.ExceptHandler)
        )
        return name not in (*deleted, *named)

    def _dispatch(self, statement: Try, handlers: Sequence[Handler], exception: Value) -> None:
        """Run the first handler for the exception's class, or raise it again."""
        if not handlers:
            self._raise_again()
            return
        first, *others = handlers
        if first.classes is None:
            self._handle(first, exception)
            return
        classes = self.emit(first.classes)
        matches = self.call(reference.exception_matches, exception, classes)

        def then() -> list[Value]:
            self._handle(first, exception)
            return []

        def orelse() -> list[Value]:
            self._dispatch(statement, others, exception)
            return []

        self.branch(self.truth(matches), then, orelse, statement.live)

    def _handle(self, handler: Handler, exception: Value) -> None:
        if handler.name:
            self.bind(handler.name, exception)
        self.run(handler.body)
        if handler.name:
            self.unbind(handler.name)
