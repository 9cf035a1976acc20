"""Reading names: local variables, and what the function was built from (captures)."""

from __future__ import annotations

import ast
import re
from dataclasses import field
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

from jitcore.frontend.bindings import (
    function_body,
    local_functions,
    names_used_as_values,
    parameter_names,
    read_names,
    recursive_names,
    stable_names,
)
from jitcore.frontend.callees import Compiler, LocalScope, NeedsCell
from jitcore.frontend.cells import Cells
from jitcore.frontend.constants import is_layer
from jitcore.frontend.environment import Binding
from jitcore.frontend.imports import static_imports
from jitcore.frontend.layers import (
    after_class,
    class_of,
    elements,
    is_mapping,
    layer_attribute,
)
from jitcore.frontend.names import Resolver, Static
from jitcore.frontend.reached import is_users_module
from jitcore.frontend.source import FunctionNode, FunctionSource
from jitcore.frontend.unsupported import can_be_inlined
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture, Graph, Value
from jitcore.ir.types import ANY, TENSOR, Type

__all__ = ["CapturedInputs", "Variables"]

Key = tuple[int, str]


@dataclass(slots=True)
class CapturedInputs:
    """The captures of a graph by identity, so that each is recorded once."""

    statics: dict[Key, Static] = field(default_factory=dict)
    captures: dict[Key, Capture] = field(default_factory=dict)


class Variables(Cells):
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
        super().__init__(source, graph, resolver, compiler, scope)
        body = function_body(source.node)
        counts = self._declare(body, scope)
        outer = {name: node for name, node in scope.functions.items() if name not in counts}
        defined = list(local_functions(body))
        once = {n: f for n, f in defined if counts[n] == 1 and n not in self.in_cells}
        inlined = {n: f for n, f in once.items() if can_be_inlined(f)}
        for name in recursive_names(inlined):
            del inlined[name]
        self.local_functions: dict[str, FunctionNode] = {**outer, **inlined}
        self.function_variables = scope.function_variables - counts.keys()
        self.function_variables |= {name for name, _ in defined if name not in inlined}
        self.function_variables |= names_used_as_values(body, inlined)
        self.stable = (scope.stable - counts.keys()) | stable_names(body, counts) - self.in_cells
        self.imports = static_imports(body, counts, resolver)
        self.parameter_statics = scope.statics
        self.layers: dict[Value, Static] = {}
        self.used_at_once: set[ast.AST] = set()
        self.captured = CapturedInputs()
        self.search_count = 0

    # Local variables

    def read(self, node: ast.Name) -> Value:
        """The value of a name, local or not."""
        name = node.id
        if name in self.locals:
            return self.read_local(name)
        if self.is_changing(name):
            return self.call(self.resolver.reader(name))
        return self.static_value(self.resolver.name(name))

    def read_local(self, name: str) -> Value:
        """The value of a local variable, checked where it may be unbound."""
        if name in self.cell_variables:
            return self.read_cell(name)
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

    def require_bound(self, name: str) -> None:
        """Ask for a cell for a variable that may have no value when a function captures it."""
        binding = self.environment.bindings.get(name)
        if binding is None or binding.bound is not None:
            raise NeedsCell(self.owner_of(name), name)

    def live_reads(self, node: ast.AST) -> frozenset[str]:
        """The variables that a piece of syntax reads, but for those that cells hold."""
        return self.local_reads(node) - self.cell_variables.keys()

    def local_reads(self, node: ast.AST) -> frozenset[str]:
        """The local variables a piece of syntax reads, those of the functions it calls too."""
        found: set[str] = set()
        waiting = [node]
        while waiting:
            read = read_names(waiting.pop())
            if "super" in read:
                # Without arguments it takes the method's first parameter.
                read |= set(parameter_names(self.source.node.args)[:1])
            names = (read & self.locals) - found
            found |= names
            waiting += [self.local_functions[n] for n in sorted(names) if n in self.local_functions]
        return frozenset(found)

    # All other names

    def static(self, node: ast.expr) -> Static | None:
        """The object an expression names, where that is known without running the function."""
        if isinstance(node, ast.Name):
            if node.id in self.locals:
                return self._held(node.id)
            if self.is_changing(node.id):
                return None
            static = self.resolver.name(node.id)
            return None if static.value is MISSING else static
        if isinstance(node, ast.Attribute):
            found = self.attribute(node)
            return None if found is None or isinstance(found.value, property) else found
        if isinstance(node, ast.Subscript):
            container = self.static(node.value)
            return None if container is None else self._element(container, node.slice)
        if self._is_builtin_call(node, type) and len(node.args) == 1:
            layer = self.static(node.args[0])
            if layer is None or not is_layer(layer.value):
                return None
            self.compiler.note_only_compiled()  # plain Python finds the class of script modules
            return class_of(layer)
        return None

    def attribute(self, node: ast.Attribute) -> Static | None:
        """The attribute that an expression names; a property of a layer as it is."""
        if self._is_builtin_call(node.value, super):
            return self._inherited(node.value, node.attr)
        base = self.static(node.value)
        if base is None:
            return None
        return self.layer_attribute(base, node.attr)

    def layer_attribute(self, base: Static, name: str) -> Static | None:
        """An attribute of a static object; None where only a run can tell."""
        if not is_layer(base.value):
            found = self.resolver.attribute(base, name)
            if found is None or self.is_reassigned(found):
                return None
            is_theirs = isinstance(base.value, ModuleType) and not is_users_module(base.value)
            if found.stable or is_theirs:
                return found
            return None if self.compiler.is_dynamic(name) else found
        frozen = self.compiler.frozen
        if frozen is not None and frozen.assigns(base.value, name):
            return None
        if name == "__class__":
            self.compiler.note_only_compiled()
        elif self.compiler.is_dynamic(name):
            return None
        return layer_attribute(base, name)

    def _is_builtin_call(self, node: ast.expr, builtin: type) -> TypeGuard[ast.Call]:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and not (node.keywords or node.func.id in self.locals)
            and self.resolver.name(node.func.id).value is builtin
        )

    def _inherited(self, call: ast.Call, name: str) -> Static | None:
        """What ``super().name``, or ``super(C, self).name``, is in a method of a layer."""
        if len(call.args) == 2:
            found = self.static(call.args[0])
            defined_in, layer = found and found.value, self.static(call.args[1])
        else:
            first = parameter_names(self.source.node.args)[:1]
            defined_in = self.resolver.name("__class__").value
            layer = self._held(first[0]) if first and not call.args else None
        if layer is None or not isinstance(defined_in, type) or not is_layer(layer.value):
            return None
        return None if self.compiler.is_dynamic(name) else after_class(layer, defined_in, name)

    def _held(self, name: str) -> Static | None:
        """The layer, or the imported module, that a local variable surely holds."""
        binding = self.environment.bindings.get(name)
        if binding is None or binding.bound is not None:
            return None
        return self.layers.get(binding.value) or self.imports.get(name)

    def elements(self, container: Static) -> list[tuple[str, Static]] | None:
        """Names and elements of a container of layers; None of all others."""
        found = elements(container) if is_layer(container.value) else None
        if found is None or any(self.compiler.is_dynamic(name) for name, _ in found):
            return None
        return found

    def _element(self, container: Static, index: ast.expr) -> Static | None:
        """The element of a container of layers at an index that is known."""
        found = self.elements(container)
        known, at = self.known(index)
        if found is None or not known:
            return None
        if is_mapping(container):
            return dict(found).get(at)
        fits = isinstance(at, int) and -len(found) <= at < len(found)
        return found[at][1] if fits else None

    def known(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether the value of an expression is known without running it, and the value."""
        if isinstance(node, ast.Constant):
            return True, node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            known, value = self.known(node.operand)
            is_number = known and isinstance(value, int | float)
            return is_number, -value if is_number else None
        if isinstance(node, ast.Name) and node.id in self.locals:
            binding = self.environment.bindings.get(node.id)
            constant = binding.value.constant if binding and binding.bound is None else None
            return constant is not None, constant.attributes["value"] if constant else None
        if isinstance(node, ast.JoinedStr):
            parts = [self.known(one) for one in node.values]
            return all(known for known, _ in parts), "".join(str(text) for _, text in parts)
        if isinstance(node, ast.FormattedValue) and not node.format_spec and node.conversion < 0:
            known, value = self.known(node.value)
            return known and type(value) in (str, int), value
        return self._known_static(node)

    def _known_static(self, node: ast.expr) -> tuple[bool, Any]:
        """Whether an expression names a text or an int from outside of the function."""
        static = self.static(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if static is None or type(static.value) not in (str, int):
            return False, None
        if self.compiler.is_varying(static):
            return False, None
        frozen = self.compiler.frozen
        if frozen is not None and frozen.keeps(static):
            return False, None
        self.record(static)
        return True, static.value

    def static_value(self, static: Static) -> Value:
        """The value of a static object: a constant, or an input where its contents may change."""
        self.record(static)
        if static.value is MISSING:
            return self._missing_name(static.path)
        if not is_layer(static.value):
            self.compiler.note_python(static.value)
        frozen = self.compiler.frozen
        if frozen is not None and frozen.keeps(static) and not is_layer(static.value):
            return self.captured_input(static)
        if self.compiler.is_varying(static):
            return self.captured_input(static)
        folded = frozen is not None and frozen.folds(static)
        if frozen is not None and folded and issubclass(type(static.value), np.ndarray):
            return self.captured_input(frozen.constant(static))
        if static.is_constant or folded:
            value = self.constant(static.value)
            if is_layer(static.value):
                self.layers[value] = static
            return value
        return self.captured_input(static)

    def record(self, static: Static) -> None:
        """Note that the graph is right only while this object is what its name stands for."""
        if self.compiler.frozen is not None:
            return
        for guarded in static.guarded():
            if guarded.key not in self.captured.captures:
                self._capture(guarded)

    def _capture(self, guarded: Static) -> None:
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
        if static.key not in self.captured.captures:
            self._capture(static)
        capture = self.captured.captures[static.key]
        if capture.input is None:
            type_: Type = TENSOR if issubclass(type(static.value), np.ndarray) else ANY
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
