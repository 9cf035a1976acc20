"""Reading names: local variables, and what the function was built from (captures)."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

import numpy as np

from jitcore.frontend.bindings import (
    assignment_counts,
    function_body,
    local_functions,
    names_used_as_values,
    parameter_names,
    read_names,
    stable_names,
)
from jitcore.frontend.builder import Builder
from jitcore.frontend.callees import Compiler, LocalScope
from jitcore.frontend.environment import Binding
from jitcore.frontend.imports import static_imports
from jitcore.frontend.names import Resolver, Static
from jitcore.frontend.unsupported import can_be_inlined
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Capture, Graph, Value
from jitcore.ir.types import ANY, TENSOR, Type
from jitcore.source import FunctionNode, FunctionSource

__all__ = ["CapturedInputs", "Variables"]

Key = tuple[int, str]


@dataclass(slots=True)
class CapturedInputs:
    """The captures of a graph by identity, so that each is recorded once."""

    statics: dict[Key, Static] = field(default_factory=dict)
    captures: dict[Key, Capture] = field(default_factory=dict)


class Variables(Builder):
    """Reads local variables and resolves all other names.

    Parameters
    ----------
    source : FunctionSource
    graph : Graph
    resolver : Resolver
    compiler : Compiler
        Compiles the functions that this one calls.
    scope : LocalScope
        For a nested function, what it sees of the function around it.
    """

    def __init__(
        self,
        source: FunctionSource,
        graph: Graph,
        resolver: Resolver,
        compiler: Compiler,
        scope: LocalScope,
    ) -> None:
        super().__init__(source, graph)
        self.resolver = resolver
        self.compiler = compiler
        body = function_body(source.node)
        counts = assignment_counts(body)
        counts.update(parameter_names(source.node.args))
        self.locals = frozenset([*counts, *scope.variables])
        outer = {name: node for name, node in scope.functions.items() if name not in counts}
        defined = list(local_functions(body))
        inlined = {n: f for n, f in defined if counts[n] == 1 and can_be_inlined(f)}
        self.local_functions: dict[str, FunctionNode] = {**outer, **inlined}
        self.function_variables = scope.function_variables - counts.keys()
        self.function_variables |= {name for name, _ in defined if name not in inlined}
        self.function_variables |= names_used_as_values(body, inlined)
        self.stable = (scope.stable - counts.keys()) | stable_names(body, counts)
        self.imports = static_imports(body, counts, resolver)
        self.used_at_once: set[ast.AST] = set()
        self.captured = CapturedInputs()
        self.search_count = 0

    # Local variables

    def read(self, node: ast.Name) -> Value:
        """The value of a name, local or not."""
        name = node.id
        if name not in self.locals:
            return self.static_value(self.resolver.name(name))
        return self.read_local(name)

    def read_local(self, name: str) -> Value:
        """The value of a local variable, checked where it may be unbound."""
        binding = self.environment.bindings.get(name)
        if binding is not None and binding.bound is None:
            return binding.value
        if binding is None:
            value, flag = self.uninitialized(name), self.constant(False)
        else:
            value, flag = binding.value, binding.bound or self.constant(True)
        checked = self.value("prim::CheckBound", value, flag, name=name)
        # From here on the variable is bound.
        self.environment.bindings[name] = Binding(checked)
        return checked

    def local_reads(self, node: ast.AST) -> frozenset[str]:
        """The local variables a piece of syntax reads, those of the functions it calls too."""
        found: set[str] = set()
        waiting = [node]
        while waiting:
            names = (read_names(waiting.pop()) & self.locals) - found
            found |= names
            waiting += [self.local_functions[n] for n in sorted(names) if n in self.local_functions]
        return frozenset(found)

    # All other names

    def static(self, node: ast.expr) -> Static | None:
        """The object an expression names, where that is known without running the function."""
        if isinstance(node, ast.Name):
            if node.id in self.locals:
                return self._imported(node.id)
            static = self.resolver.name(node.id)
            return None if static.value is MISSING else static
        if isinstance(node, ast.Attribute):
            base = self.static(node.value)
            return None if base is None else self.resolver.attribute(base, node.attr)
        return None

    def _imported(self, name: str) -> Static | None:
        """The module that a local variable surely holds, imported by the function."""
        binding = self.environment.bindings.get(name)
        surely = binding is not None and binding.bound is None
        return self.imports.get(name) if surely else None

    def static_value(self, static: Static) -> Value:
        """The value of a static object: a constant, or an input where its contents may change."""
        self.record(static)
        if static.value is MISSING:
            return self._missing_name(static.path)
        if static.is_constant:
            return self.constant(static.value)
        return self.captured_input(static)

    def record(self, static: Static) -> None:
        """Note that the graph is right only while this object is what its name stands for."""
        guarded = static.guarded
        if guarded is None or guarded.key in self.captured.captures:
            return
        capture = Capture(
            guarded.path,
            guarded.read,
            guarded.value,
            container=guarded.container,
            key=guarded.name,
        )
        self.captured.statics[guarded.key] = guarded
        self.captured.captures[guarded.key] = capture
        self.graph.captures.append(capture)

    def captured_input(self, static: Static) -> Value:
        """The graph input that stands for a captured object."""
        self.record(static)
        capture = self.captured.captures[static.key]
        if capture.input is None:
            type_: Type = TENSOR if isinstance(static.value, np.ndarray) else ANY
            # ``w`` of ``model.w``, and of ``f.__defaults__['w']``.
            name = re.findall(r"\w+", static.path)[-1]
            capture.input = self.graph.block.add_param(type_, name)
        return capture.input

    def _missing_name(self, name: str) -> Value:
        message = self.resolver.missing_message(name)
        arguments = (self.constant(NameError), self.constant(message), self.constant(name))
        exception = self.node("prim::Call", arguments, keywords=("name",)).output
        self.node("prim::Raise", (exception,), outputs=())
        return self.uninitialized(name)
