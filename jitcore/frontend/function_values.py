"""Nested functions and lambdas as values: real Python functions, made from the user's own code."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, NoReturn

from jitcore.errors import UnsupportedError
from jitcore.frontend.bindings import nonlocal_names
from jitcore.frontend.variables import Variables
from jitcore.ir.graph import Value
from jitcore.markers import ignore
from jitcore.source import FunctionNode, nested_code

__all__ = ["FunctionValues"]


class FunctionValues(Variables):
    """Emits functions that are passed on or stored.

    What such a function reads of the variables around it is fixed when it is made.  Python looks
    at the variables when the function runs; the two are the same for variables that are assigned
    once, and for functions that are used at once and then forgotten (``key=`` of ``sorted``).
    """

    def function_value(self, node: FunctionNode) -> Value:
        """A new Python function."""
        for name in nonlocal_names(node) & self.locals:
            self._refuse(node, name, "assigns")
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
        make = _maker(code, self.resolver.namespace, self.resolver.cells, captured, own)
        return self.call(
            make,
            self.value("prim::TupleConstruct", *defaults),
            self.value("prim::DictConstruct", *keyword_defaults),
            *map(self._captured_value, captured),
        )

    def _captured_value(self, name: str) -> Value:
        function = self.local_functions.get(name)
        if function is not None and name not in self.function_variables:
            return self.function_value(function)
        return self.read_local(name)

    def emit(self, node: ast.expr) -> Value:
        """Emit an expression; expressions define it."""
        raise NotImplementedError

    def _check_captured(self, node: FunctionNode | ast.GeneratorExp, name: str) -> None:
        """Raise where a variable may be changed, or may have no value, when it is captured."""
        if name not in self.stable and node not in self.used_at_once:
            self._refuse(node, name, "reads")
        if name in self.local_functions and name not in self.function_variables:
            return
        binding = self.environment.bindings.get(name)
        if binding is None or binding.bound is not None:
            raise UnsupportedError(
                f"'{name}', which this function reads, may have no value here",
                self.source.range_of(node),
                f"Give '{name}' a value before the function is defined.",
            )

    def _refuse(self, node: FunctionNode | ast.GeneratorExp, name: str, verb: str) -> NoReturn:
        if isinstance(node, ast.GeneratorExp):
            hint = "Write a list: [... for ...]."
        else:
            hint = f"Fix the value with a default, {name}={name}, or only call the function."
        what = "generator" if isinstance(node, ast.GeneratorExp) else "function"
        raise UnsupportedError(
            f"this {what} {verb} '{name}', which is assigned more than once, and is passed on "
            "or stored",
            self.source.range_of(node),
            hint,
        )


def _maker(
    code: CodeType,
    namespace: dict[str, Any],
    outer: Mapping[str, CellType],
    captured: list[str],
    own: str | None,
) -> Callable[..., FunctionType]:
    """What makes a function of this code when the values that it captures are known."""

    @ignore
    def make(
        defaults: tuple[Any, ...], keyword_defaults: dict[str, Any], *values: Any
    ) -> FunctionType:
        cells = {**outer, **{name: CellType(v) for name, v in zip(captured, values, strict=True)}}
        itself = CellType()
        closure = tuple(itself if name == own else cells[name] for name in code.co_freevars)
        function = FunctionType(code, namespace, code.co_name, defaults or None, closure)
        function.__kwdefaults__ = keyword_defaults or None
        function.__qualname__ = code.co_qualname
        itself.cell_contents = function
        return function

    make.__name__ = make.__qualname__ = code.co_name.strip("<>")
    return make
