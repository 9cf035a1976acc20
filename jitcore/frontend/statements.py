"""Statements: assignments, branches, loops, and the exceptions that code raises itself."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import ModuleType

from jitcore.errors import UnsupportedError
from jitcore.frontend.assignments import of_any_module
from jitcore.frontend.bindings import function_body
from jitcore.frontend.environment import Reach
from jitcore.frontend.expressions import BINARY
from jitcore.frontend.imports import imported_names, importer
from jitcore.frontend.layers import has_setter
from jitcore.frontend.liveness import annotate_liveness
from jitcore.frontend.protected import Protected
from jitcore.frontend.static_items import Item
from jitcore.frontend.structure import (
    RESULT,
    Branch,
    ForLoop,
    Return,
    SetFlag,
    Simple,
    Statement,
    WhileLoop,
    always_true,
    structure_function,
)
from jitcore.frontend.unsupported import first_unsupported
from jitcore.ir.graph import Value
from jitcore.ir.types import ANY, INT

__all__ = ["Statements"]

_ENDLESS = 2**63 - 1
_JUMPS = (ast.Return, ast.Break, ast.Continue)


class Statements(Protected):
    """Emits the statements of one function."""

    def function(self) -> None:
        """Emit the whole body and return its result from the graph."""
        body = function_body(self.source.node)
        unsupported = first_unsupported(body)
        if unsupported is not None:
            self.unsupported(unsupported)
        statements = structure_function(body, self)
        annotate_liveness(statements, self.live_reads)
        self.run(statements)
        result = self.environment.bindings.get(RESULT)
        value = result.value if result is not None else self.uninitialized(RESULT)
        self.graph.block.add_return(value)

    def run(self, statements: Sequence[Statement]) -> None:
        """Emit statements one after the other."""
        for statement in statements:
            scope_before = self.scope
            self.scope = statement.scope
            with self.at(_header(statement.node)):
                self._statement(statement)
            self.scope = scope_before

    def _statement(self, statement: Statement) -> None:
        match statement:
            case Simple():
                self._simple(statement.node)
            case Return():
                value = statement.value
                self.bind(RESULT, self.emit(value) if value else self.constant(None))
                if statement.is_last:
                    self.environment.reach = Reach.RETURNED
            case SetFlag():
                if statement.name in statement.live:
                    self.bind(statement.name, self.constant(statement.value))
            case Branch():
                self._branch(statement)
            case WhileLoop():
                self._while(statement)
            case ForLoop():
                self._for(statement)
            case _:
                self.protected(statement)

    # Control flow

    def _branch(self, statement: Branch) -> None:
        test = statement.test
        if isinstance(test, str):
            condition = self.environment.bindings[test].value
        else:
            condition = self.condition(test)

        def then() -> list[Value]:
            self.run(statement.then)
            return []

        def orelse() -> list[Value]:
            self.run(statement.orelse)
            return []

        self.branch(condition, then, orelse, statement.live)

    def _while(self, loop: WhileLoop) -> None:
        first = self.condition(loop.test)

        def body(_: Value) -> Value:
            self.run(loop.body)
            if not loop.go_on:
                return self.condition(loop.test)
            go_on = self.environment.bindings[loop.go_on].value
            if always_true(loop.test):
                return go_on

            def test() -> list[Value]:
                return [self.condition(loop.test)]

            return self.branch(go_on, test, lambda: [self.constant(False)])[0]

        limit = self.node("prim::Constant", (), {"value": _ENDLESS}, outputs=(INT,)).output
        self._prepare_loop(loop)
        self.loop(
            "prim::Loop",
            (limit, first),
            ("i", INT),
            loop.carried,
            body,
            deleted=_deleted(loop.node),
            endless=always_true(loop.test),
        )

    def _for(self, loop: ForLoop) -> None:
        items = self.static_items(loop.iterable)
        if items is not None:
            self._unrolled(loop, items)
            return
        iterable = self.emit(loop.iterable)

        def body(item: Value) -> Value:
            self.assign(loop.target, item)
            self.run(loop.body)
            if not loop.go_on:
                return self.constant(True)
            return self.environment.bindings[loop.go_on].value

        name = loop.target.id if isinstance(loop.target, ast.Name) else "item"
        self._prepare_loop(loop)
        deleted = _deleted(loop.node)
        self.loop("prim::For", (iterable,), (name, ANY), loop.carried, body, deleted=deleted)

    def _unrolled(self, loop: ForLoop, items: Sequence[Item]) -> None:
        """One iteration after the other, for elements that are known."""
        for number, item in enumerate(items):
            self.assign_item(loop.target, item)
            self.run(loop.body)
            if loop.go_on and number < len(items) - 1:
                rest = items[number + 1 :]

                def go_on() -> list[Value]:
                    self._unrolled(loop, rest)  # noqa: B023
                    return []

                going = self.environment.bindings[loop.go_on].value
                self.branch(going, go_on, lambda: [])
                return

    def _prepare_loop(self, loop: WhileLoop | ForLoop) -> None:
        """Forget variables that an iteration assigns and nobody reads outside of it."""
        for name in loop.assigned:
            if name not in loop.carried:
                self.environment.bindings.pop(name, None)

    # Simple statements

    def _simple(self, node: ast.AST) -> None:
        match node:
            case ast.Expr():
                self._expression_statement(node)
            case ast.Assign():
                self._assign_statement(node)
            case ast.AnnAssign():
                if node.value is not None:
                    self.assign(node.target, self.emit(node.value))
            case ast.AugAssign():
                self._augmented(node)
            case ast.Delete():
                for target in node.targets:
                    self._delete(target)
            case _:
                self._other_statement(node)

    def _other_statement(self, node: ast.AST) -> None:
        match node:
            case ast.Assert():
                self._assert(node)
            case ast.Raise():
                self._raise(node)
            case ast.FunctionDef():
                self._function_definition(node)
            case ast.Import() | ast.ImportFrom():
                self._import(node)
            case ast.Pass() | ast.Global() | ast.Nonlocal():
                pass
            case _:
                self.unsupported(node)

    def _expression_statement(self, node: ast.Expr) -> None:
        # Docstrings, and the three dots of an empty body.
        if not isinstance(node.value, ast.Constant):
            self.emit(node.value)

    def _assign_statement(self, node: ast.Assign) -> None:
        target = node.targets[0]
        if isinstance(target, ast.Name) and self._is_only_called(target.id, node.value):
            # What counts is whether it is bound.
            self.bind(target.id, self.constant(None))
            return
        if len(node.targets) == 1 and self._assign_pairwise(target, node.value):
            return
        value = self.emit(node.value)
        for target in node.targets:
            self.assign(target, value)

    def _assign_pairwise(self, target: ast.expr, value: ast.expr) -> bool:
        """``a, b = b, a`` without a tuple in between; whether the shapes allow it."""
        if not isinstance(target, ast.Tuple | ast.List) or not isinstance(value, ast.Tuple):
            return False
        starred = any(isinstance(part, ast.Starred) for part in (*target.elts, *value.elts))
        if starred or len(target.elts) != len(value.elts):
            return False
        values = [self.emit(part) for part in value.elts]
        for part, one in zip(target.elts, values, strict=True):
            self.assign(part, one)
        return True

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign a value to any target."""
        with self.at(target):
            match target:
                case ast.Name():
                    self.bind(target.id, value)
                case ast.Tuple() | ast.List():
                    self._unpack(target, value)
                case ast.Subscript():
                    container = self.emit(target.value)
                    self.set_item(container, self.emit(target.slice), value)
                case ast.Attribute():
                    self._set_attribute(self.emit(target.value), target.attr, value)
                case _:
                    self.unsupported(target)

    def _set_attribute(self, owner: Value, name: str, value: Value) -> None:
        layer = self.layers.get(owner)
        if layer is not None and self.call_setter(layer, name, value):
            return
        if layer is None or self.compiler.frozen is None:
            # Of a layer that is known, `freeze` sees which one it is.
            self.compiler.note_stored(name)
        if owner.constant is not None and type(owner.constant_value) is ModuleType:
            self.compiler.note_stored(of_any_module(name))
        if layer is not None and has_setter(layer.value, name):
            # Python calls it, and it may assign other attributes.
            self.note_stored_by(layer)
        self.node("prim::SetAttr", (owner, value), {"name": name}, outputs=())

    def _unpack(self, target: ast.Tuple | ast.List, value: Value) -> None:
        parts = target.elts
        attributes = {"count": len(parts)}
        stars = [i for i, part in enumerate(parts) if isinstance(part, ast.Starred)]
        if stars:
            attributes["star"] = stars[0]
        node = self.node("prim::Unpack", (value,), attributes, outputs=(ANY,) * len(parts))
        for part, one in zip(parts, node.outputs, strict=True):
            self.assign(part.value if isinstance(part, ast.Starred) else part, one)

    def _augmented(self, node: ast.AugAssign) -> None:
        kind = f"prim::i{BINARY[type(node.op)]}"
        match node.target:
            case ast.Name() as target:
                old = self.read(target)
                self.bind(target.id, self.value(kind, old, self.emit(node.value)))
            case ast.Subscript() as target:
                container, index = self.emit(target.value), self.emit(target.slice)
                old = self.value("prim::getitem", container, index)
                self.set_item(container, index, self.value(kind, old, self.emit(node.value)))
            case ast.Attribute() as target:
                owner = self.emit(target.value)
                static = self.attribute(target)
                if static is not None and isinstance(static.value, property):
                    old = self.read_property(target, static)
                else:
                    old = self.value("prim::GetAttr", owner, name=target.attr)
                new = self.value(kind, old, self.emit(node.value))
                self._set_attribute(owner, target.attr, new)

    def _delete(self, target: ast.expr) -> None:
        match target:
            case ast.Name():
                self.read(target)
                self.unbind(target.id)
            case ast.Subscript():
                container = self.emit(target.value)
                self.node("prim::delitem", (container, self.emit(target.slice)), outputs=())
            case ast.Attribute():
                self.compiler.note_stored(target.attr)
                self.call(delattr, self.emit(target.value), self.constant(target.attr))
            case ast.Tuple() | ast.List():
                for part in target.elts:
                    self._delete(part)
            case _:
                self.unsupported(target)

    def _assert(self, node: ast.Assert) -> None:
        if not __debug__:
            return

        def fail() -> list[Value]:
            arguments = [self.emit(node.msg)] if node.msg is not None else []
            exception = self.call(AssertionError, *arguments)
            self.node("prim::Raise", (exception,), outputs=())
            self.environment.reach = Reach.RAISED
            return []

        self.branch(self.condition(node.test), lambda: [], fail)

    def _raise(self, node: ast.Raise) -> None:
        if node.exc is None and self.handled:
            self.node("prim::Raise", (self.handled[-1],), outputs=())
            self.environment.reach = Reach.RAISED
            return
        if node.exc is None:
            raise UnsupportedError(
                "'raise' without an exception is not supported in a compiled function",
                self.source.range_of(node),
                "Name the exception: raise ValueError(...).",
            )
        inputs = [self.emit(part) for part in (node.exc, node.cause) if part is not None]
        self.node("prim::Raise", inputs, outputs=())
        self.environment.reach = Reach.RAISED

    def _function_definition(self, node: ast.FunctionDef) -> None:
        if self._is_only_called(node.name, node):
            self.bind(node.name, self.constant(None))
            return
        decorators = [self.emit(decorator) for decorator in node.decorator_list]
        value = self.function_value(node)
        for decorator in reversed(decorators):
            value = self.value("prim::Call", decorator, value)
        self.bind(node.name, value)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        names = imported_names(node)
        if all(name in self.imports for name in names):
            for name in names:
                self.bind(name, self.static_value(self.imports[name]))
            return
        values = self.call(importer(node, self.resolver.namespace))
        unpacked = self.node(
            "prim::Unpack", (values,), {"count": len(names)}, outputs=(ANY,) * len(names)
        )
        for name, value in zip(names, unpacked.outputs, strict=True):
            self.bind(name, value)

    def _is_only_called(self, name: str, function: ast.AST) -> bool:
        """Whether a variable stands for this function and is not read but by calls."""
        known = self.local_functions.get(name) is function
        return known and name not in self.function_variables


def _header(node: ast.AST) -> ast.AST:
    """The syntax that gives a statement its place: the test of a branch, not all its lines."""
    if isinstance(node, ast.If):
        return node.test
    return node


def _deleted(loop: ast.AST) -> frozenset[str]:
    """The variables that some ``del`` in a loop may unbind."""
    return frozenset(
        node.id
        for node in ast.walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Del)
    )
