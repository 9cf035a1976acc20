"""Nested functions and lambdas as values: real Python functions, made from the user's own code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from jitcore.frontend.callees import NeedsCell
from jitcore.frontend.source import FunctionNode, nested_code
from jitcore.frontend.variables import Variables
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Value
from jitcore.markers import ignore

__all__ = ["FunctionValues", "Maker"]


@dataclass(frozen=True, slots=True)
class Maker:
    """What the function that makes functions of one nested function takes.

    Parameters
    ----------
    captured : tuple of str
        The variables whose values come after the defaults.
    shared : frozenset of str
        Those of them that come as cells, because they may change afterwards.
    """

    captured: tuple[str, ...]
    shared: frozenset[str]


class FunctionValues(Variables):
    """Emits functions that are passed on or stored.

    Python looks at the variables around such a function when that runs.  To fix them when it is
    made is the same for variables that are assigned once, and for functions that are used at once
    and then forgotten (``key=`` of ``sorted``).  Other variables are held by cells, which the
    function gets in the place of their values.
    """

    def function_value(self, node: FunctionNode) -> Value:
        """A new Python function."""
        own = node.name if isinstance(node, ast.FunctionDef) else None
        defaults = [self.emit(default) for default in node.args.defaults]
        named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        pairs = [
            part
            for argument, default in named
            if default is not None
            for part in (self.constant(argument.arg), self.emit(default))
        ]
        return self._made(node, own, defaults, pairs)

    def generator_value(self, node: ast.GeneratorExp) -> Value:
        """A new Python generator; like Python it evaluates the first iterable at once."""
        iterator = self.call(iter, self.emit(node.generators[0].iter))
        return self.value("prim::Call", self._made(node, None, (), ()), iterator)

    def _made(
        self,
        node: FunctionNode | ast.GeneratorExp,
        own: str | None,
        defaults: Sequence[Value],
        keyword_defaults: Sequence[Value],
    ) -> Value:
        code = nested_code(self.resolver.code, node)
        if code is None:
            self.unsupported(node)
        captured = [name for name in code.co_freevars if name in self.locals and name != own]
        for name in captured:
            self._check_captured(node, name)
        shared = frozenset(captured) & self.cell_variables.keys()
        make = _maker(code, self.resolver.namespace, self.resolver.cells, captured, own, shared)
        return self.call(
            make,
            self.value("prim::TupleConstruct", *defaults),
            self.value("prim::DictConstruct", *keyword_defaults),
            *map(self._captured_value, captured),
        )

    def _captured_value(self, name: str) -> Value:
        if name in self.cell_variables:
            return self.cell_variables[name]
        function = self.local_functions.get(name)
        if function is not None and name not in self.function_variables:
            return self.function_value(function)
        return self.read_local(name)

    def emit(self, node: ast.expr) -> Value:
        """Emit an expression; expressions define it."""
        raise NotImplementedError

    def _check_captured(self, node: FunctionNode | ast.GeneratorExp, name: str) -> None:
        """Ask for a cell where a variable may change, or get a value, after it is captured."""
        if name in self.list_cells:
            # A Python function can only share a cell of Python's.
            raise NeedsCell(self.owner_of(name), name)
        if name in self.cell_variables:
            return
        if name not in self.stable and node not in self.used_at_once:
            raise NeedsCell(self.owner_of(name), name)
        if name not in self.local_functions or name in self.function_variables:
            self.require_bound(name)


def _maker(
    code: CodeType,
    namespace: dict[str, Any],
    outer: Mapping[str, CellType],
    captured: list[str],
    own: str | None,
    shared: frozenset[str],
) -> Callable[..., FunctionType]:
    """What makes a function of this code when what it captures is known: values, shared cells."""

    @ignore
    def make(
        defaults: tuple[Any, ...], keyword_defaults: dict[str, Any], *values: Any
    ) -> FunctionType:
        cells = dict(outer)
        for name, value in zip(captured, values, strict=True):
            cells[name] = value if name in shared else CellType(value)
        itself = CellType()
        closure = tuple(itself if name == own else cells[name] for name in code.co_freevars)
        function = FunctionType(code, namespace, code.co_name, defaults or None, closure)
        function.__kwdefaults__ = keyword_defaults or None
        function.__qualname__ = code.co_qualname
        itself.cell_contents = function
        return function

    make.__name__ = make.__qualname__ = code.co_name.strip("<>")
    make.__module__ = str(namespace.get("__name__"))
    vars(make)["__jitcore_maker__"] = Maker(tuple(captured), shared)
    return make
