"""Calls: operations of the table, NumPy's functions, compiled functions, and all others."""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

from jitcore import markers
from jitcore.errors import Error, UnsupportedError
from jitcore.frontend.assignments import ANY_ATTRIBUTE, assigned_by_graph
from jitcore.frontend.bindings import parameter_names
from jitcore.frontend.callees import (
    CallSite,
    Compiled,
    LocalScope,
    default_statics,
    python_call,
)
from jitcore.frontend.constants import (
    final_graph,
    function_mark,
    is_layer,
    marker,
    numpy_name,
    wrapped_function,
)
from jitcore.frontend.expressions import Expressions
from jitcore.frontend.final_graphs import captured_statics, is_final, parameters_of
from jitcore.frontend.function_facts import makes_objects
from jitcore.frontend.layers import (
    HOOKS,
    layer_class,
    script_state,
)
from jitcore.frontend.names import Static
from jitcore.frontend.source import FunctionNode, has_source
from jitcore.frontend.unsupported import BUILTINS, can_be_inlined
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Value
from jitcore.ir.ops.layers import layer_kind

__all__ = ["Calls"]

_FRAME_BUILTINS = {id(getattr(builtins, name)): name for name in BUILTINS}
_HARMLESS_WITH_ARGUMENTS = ("vars", "dir")
_FORGETFUL = (sorted, min, max, sum, any, all, list, tuple, set, dict, functools.reduce)
"""What uses functions and generators only while it runs itself."""

_FORGETFUL_METHODS = ("sort", "join", "extend", "update")

_COLLECTORS = (sum, min, max, list, tuple, set, frozenset, sorted, dict)

Defaults = dict[str, Callable[[], Value]]


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The evaluated arguments of one call; ``**`` for a name stands for those in a mapping."""

    positional: list[Value]
    keywords: list[tuple[str, Value]]
    starred: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keywords)

    def after(self, receiver: Value) -> _Arguments:
        """The arguments of the function that a method is, with what it is bound to."""
        starred = tuple(number + 1 for number in self.starred)
        return _Arguments([receiver, *self.positional], self.keywords, starred)


class Calls(Expressions):
    """Emits calls."""

    def _Call(self, node: ast.Call) -> Value:
        static = self.static(node.func)
        if static is not None:
            return self._call_static(node, static)
        if isinstance(node.func, ast.Lambda) and can_be_inlined(node.func):
            return self._call_local(node, node.func, "<lambda>")
        if isinstance(node.func, ast.Name) and node.func.id in self.local_functions:
            self.read_local(node.func.id)
            return self._call_local(node, self.local_functions[node.func.id], node.func.id)
        if isinstance(node.func, ast.Attribute):
            if node.func.attr in _FORGETFUL_METHODS:
                self._note_used_at_once(node)
            receiver = self.emit(node.func.value)
            return self._emit_call("prim::CallMethod", node, [receiver], name=node.func.attr)
        return self._emit_call("prim::Call", node, [self.emit(node.func)])

    def _arguments(self, node: ast.Call) -> _Arguments:
        positional: list[Value] = []
        starred: list[int] = []
        for number, argument in enumerate(node.args):
            if isinstance(argument, ast.Starred):
                starred.append(number)
                argument = argument.value
            positional.append(self.emit(argument))
        return _Arguments(positional, self.keywords(node), tuple(starred))

    def keywords(self, node: ast.Call) -> list[tuple[str, Value]]:
        """The keyword arguments of a call; ``**`` for a name stands for those in a mapping."""
        return [(keyword.arg or "**", self.emit(keyword.value)) for keyword in node.keywords]

    def _emit_call(
        self, kind: str, node: ast.Call, first: Sequence[Value] = (), **attributes: Any
    ) -> Value:
        return self._emit_call_with(kind, self._arguments(node), first, **attributes)

    def _emit_call_with(
        self, kind: str, arguments: _Arguments, first: Sequence[Value] = (), **attributes: Any
    ) -> Value:
        if arguments.starred:
            # The numbers are those of the node's inputs.
            attributes["starred"] = tuple(len(first) + number for number in arguments.starred)
        inputs = [*first, *arguments.positional, *(value for _, value in arguments.keywords)]
        return self.node(kind, inputs, attributes, keywords=arguments.names).output

    # Callables that are known

    def _call_static(self, node: ast.Call, static: Static) -> Value:
        self._reject_frame_builtin(node, static.value)
        if any(static.value is one for one in _FORGETFUL) or numpy_name(static.value):
            self._note_used_at_once(node)
        special = self._call_to_compiler(node, static)
        if special is not None:
            return special
        if _is_sole_generator(node):
            found = self._call_on_generator(node, static)
            if found is not None:
                return found
        kind = self._op_kind(static)
        if kind is not None:
            self.record(static)
            return self._emit_call(kind, node)
        name = numpy_name(static.value)
        if name is not None:
            self.record(static)
            return self._emit_call("np::call", node, name=name)
        compiled = self._compiled_graph(static)
        if compiled is not None:
            return self._call_graph(node, static, compiled)
        function = wrapped_function(static.value)
        if function is None or not self.compiler.can_compile(function):
            return self._call_python(node, static)
        if makes_objects(function.__code__):
            return self._call_python(node, static)
        if self.compiler.is_active(function, static.receiver):
            return self._call_again(node, static, function)
        return self._call_function(node, static, function)

    def _call_again(self, node: ast.Call, static: Static, function: FunctionType) -> Value:
        """A recursive call: the function is called anew, by Python."""
        self.record(static)
        arguments = self._arguments(node)
        callee: Any = static.value
        if static.receiver is not None:
            arguments = arguments.after(self.static_value(static.receiver))
            callee = function
        return self._emit_call_with("prim::Call", arguments, [self.constant(python_call(callee))])

    def _compiled_graph(self, static: Static) -> Any:
        """The compiled function without a source, a trace, that is called; None of all else."""
        if static.receiver is None:
            return static.value if final_graph(static.value) is not None else None
        if isinstance(static.receiver.value, type):
            return None
        methods = script_state(static.receiver.value, "_compiled_methods") or {}
        found = methods.get(getattr(static.value, "__name__", None))
        return found if final_graph(found) is not None else None

    def _call_graph(self, node: ast.Call, static: Static, compiled: Any) -> Value:
        """A call of a compiled function that has no source."""
        arguments = self._arguments(node)
        defaults: Defaults = {
            name: functools.partial(self.constant, one.default)
            for name, one in inspect.signature(compiled).parameters.items()
            if one.default is not one.empty
        }
        bound = self._bind(arguments, parameters_of(compiled), defaults)
        if bound is None:
            # Python's own call raises the TypeError.
            return self._call_python(node, static)
        self.record(static)
        graph: Graph = compiled.__jitcore_graph__
        for name in assigned_by_graph(graph):
            self.compiler.note_stored(name)
        for capture, captured in captured_statics(graph):
            if capture.input is not None:
                bound.append(self._captured_of_graph(captured))
            else:
                self.record(captured)
        return self.node("prim::CallFunction", bound, {"graph": graph}).output

    def _captured_of_graph(self, captured: Static) -> Value:
        """The input for what a trace captures; one that is final where the caller is frozen."""
        frozen = self.compiler.frozen
        if frozen is not None and is_final(captured, frozen):
            captured = frozen.constant(captured)
        return self.captured_input(captured)

    def _call_python(self, node: ast.Call, static: Static) -> Value:
        """A call of what stays Python."""
        self.compiler.note_python(static.value)
        if static.receiver is None or static.base is None:
            return self._emit_call("prim::Call", node, [self.static_value(static)])
        self.note_stored_by(static.base)
        self.record(static)
        name = static.path.rpartition(".")[2]
        receiver = self.static_value(static.base)
        return self._emit_call("prim::CallMethod", node, [receiver], name=name)

    # Layers

    def _call_layer(self, node: ast.Call, static: Static) -> Value:
        """A call of a layer: of its ``forward``, unless hooks come before or after."""
        forward = self.layer_attribute(static, "forward")
        hooks = [self.layer_attribute(static, name) for name in HOOKS]
        for one in hooks:
            if one is not None:
                self.record(one)
        plain = forward is not None and not any(one is None or one.value for one in hooks)
        compiled = None if forward is None or not plain else self._compiled_graph(forward)
        if forward is not None and compiled is not None:
            return self._call_graph(node, forward, compiled)
        mark = None if forward is None else function_mark(forward.value)
        if forward is not None and plain and mark == "unused":
            return self._call_static(node, forward)
        function = None if forward is None else wrapped_function(forward.value)
        if forward is not None and function is not None and plain and mark is None:
            if has_source(function) and _is_called_plainly(static.value):
                result = self._call_function(node, forward, function, layer=static)
                if result.node is not None and result.node.kind == "prim::CallFunction":
                    result.node.attributes["layer"] = static.value
                return result
        self.note_stored_by(static)
        return self._emit_call("prim::Call", node, [self.static_value(static)])

    def note_stored_by(self, layer: Static) -> None:
        """Note what a layer may assign in code that is not compiled."""
        self.compiler.note_python(layer.value)

    def _ask_layer(self, node: ast.Call, static: Static) -> Value | None:
        """``len``, ``getattr`` and ``hasattr`` of layers; None of all else."""
        layer = self.static(node.args[0]) if node.args and not node.keywords else None
        if layer is None or not is_layer(layer.value):
            return None
        if static.value is len:
            found = self.elements(layer)
            return None if found is None else self.constant(len(found))
        known, name = self.known(node.args[1]) if len(node.args) > 1 else (False, None)
        if not known or not isinstance(name, str):
            return None
        attribute = self.layer_attribute(layer, name)
        if attribute is None or attribute.receiver is not None:
            self.note_stored_by(layer)
            return None
        if static.value is hasattr:
            self.record(attribute)
            return self.constant(True)
        return self.static_value(attribute)

    def read_property(self, node: ast.Attribute, static: Static) -> Value:
        """What a property of a layer gives."""
        function = static.value.fget
        call = ast.copy_location(ast.Call(node, [], []), node)
        mark = function_mark(function)
        if isinstance(function, FunctionType) and mark != "ignore" and has_source(function):
            also = (*static.also, static)
            return self._call_static(call, replace(static, value=function, stable=True, also=also))
        self.record(static)
        if static.base is not None:
            self.note_stored_by(static.base)
        return self.value("prim::GetAttr", self.emit(node.value), name=node.attr)

    def _call_to_compiler(self, node: ast.Call, static: Static) -> Value | None:
        """A call that says something to the compiler; None of all others."""
        if _asks_how_it_runs(node, static.value):
            self.compiler.note_only_compiled()
        if static.value is markers.is_scripting or static.value is markers.is_tracing:
            return self.constant(static.value is markers.is_scripting)
        if static.value is markers.annotate and len(node.args) == 2 and not node.keywords:
            return self.emit(node.args[1])
        if is_layer(static.value):
            return self._call_layer(node, static)
        scripted = marker(static.value, "__jitcore_scripted__")
        if scripted is not None:
            return self._call_scripted(node, static, scripted)
        if static.value is getattr or static.value is hasattr or static.value is len:
            return self._ask_layer(node, static)
        if (static.value is setattr or static.value is delattr) and len(node.args) > 1:
            self._note_set(node.args[0], node.args[1])
        mark = function_mark(static.value)
        if mark == "ignore":
            return self._call_python(node, static)
        if static.value is super and not node.args:
            return self._super(node)
        if static.value is type:
            class_ = self.static(node)
            return None if class_ is None else self.static_value(class_)
        if mark == "unused":
            self.record(static)
            self.compiler.note_only_compiled()
            message = f"'{static.path}' is marked as unused and cannot be run"
            self.raise_exception(Error, message, in_python=False)
            return self.uninitialized(static.path)
        return None

    def _note_set(self, owner: ast.expr, name: ast.expr) -> None:
        """Note the attribute that ``setattr`` assigns, or that it may be any of a layer's."""
        known, text = self.known(name)
        layer = self.static(owner)
        if known and isinstance(text, str):
            self.compiler.note_stored(text)
        elif layer is not None and is_layer(layer.value):
            for one in layer.value.__dict__:
                self.compiler.note_stored(one)
        else:
            self.compiler.note_stored(ANY_ATTRIBUTE)

    def _call_scripted(self, node: ast.Call, static: Static, scripted: FunctionType) -> Value:
        """A call of what another function stands for in compiled code, such as ``fork``."""
        self.record(static)
        self.compiler.note_only_compiled()
        for argument in node.args:
            passed = self.static(argument)
            if passed is not None:
                self.note_stored_by(passed.receiver or passed)
        return self._emit_call("prim::Call", node, [self.constant(scripted)])

    def _super(self, node: ast.Call) -> Value:
        """``super()`` in a method, with the arguments that Python finds by itself."""
        arguments = self.source.node.args
        first = [*arguments.posonlyargs, *arguments.args][:1]
        defined_in = self.resolver.name("__class__")
        if not first or defined_in.value is MISSING:
            raise UnsupportedError(
                "'super' without arguments is supported only in methods",
                self.source.range_of(node),
                "Name the base class: Base.method(self, ...).",
            )
        return self.call(super, self.static_value(defined_in), self.read_local(first[0].arg))

    def _note_used_at_once(self, node: ast.Call) -> None:
        """Note the lambdas among the arguments of a call that does not keep them."""
        for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
            if isinstance(argument, ast.Lambda | ast.GeneratorExp):
                self.used_at_once.add(argument)
            elif isinstance(argument, ast.Call):
                inner = self.static(argument.func)
                if inner is not None and (inner.value is map or inner.value is filter):
                    self._note_used_at_once(argument)

    def _op_kind(self, static: Static) -> str | None:
        # Other objects need not even be hashable.
        return self.compiler.lookup_op(static.value) if static.is_constant else None

    def _reject_frame_builtin(self, node: ast.Call, value: object) -> None:
        name = _FRAME_BUILTINS.get(id(value))
        if name is None or (name in _HARMLESS_WITH_ARGUMENTS and node.args):
            return
        message, hint = BUILTINS[name]
        raise UnsupportedError(message, self.source.range_of(node), hint)

    def _call_on_generator(self, node: ast.Call, static: Static) -> Value | None:
        """A call such as ``sum(x for ...)``; None where the callable is none of those."""
        generator = node.args[0]
        assert isinstance(generator, ast.GeneratorExp)
        if static.value is any or static.value is all:
            return self.search(generator, wanted=static.value is any)
        if not any(static.value is collector for collector in _COLLECTORS):
            return None
        items = self.collect(generator, "List", "append")
        arguments = _Arguments([items], self.keywords(node), ())
        kind = self._op_kind(static)
        if kind is not None:
            self.record(static)
            return self._emit_call_with(kind, arguments)
        return self._emit_call_with("prim::Call", arguments, [self.static_value(static)])

    def _call_function(
        self, node: ast.Call, static: Static, function: FunctionType, layer: Static | None = None
    ) -> Value:
        """A call of a function that is compiled, which is the ``forward`` of a ``layer`` or not."""
        site = CallSite(self.graph.name, self.where)
        parameters = self.compiler.parameters(function, site)
        self.record(static)
        arguments = self._arguments(node)
        return self._call_with(arguments, static, function, parameters, layer)

    def call_setter(self, layer: Static, name: str, value: Value) -> bool:
        """Assign a property of a layer, where its setter is compiled; gives whether it is."""
        found = self.layer_attribute(layer, name)
        function = None if found is None else getattr(found.value, "fset", None)
        if found is None or not isinstance(function, FunctionType) or not has_source(function):
            return False
        if function_mark(function) == "ignore":
            return False
        site = CallSite(self.graph.name, self.where)
        setter = replace(found, value=function, stable=True, also=(*found.also, found))
        self.record(setter)
        parameters = self.compiler.parameters(function, site)
        self._call_with(_Arguments([value], [], ()), setter, function, parameters)
        return True

    def _call_with(
        self,
        given: _Arguments,
        static: Static,
        function: FunctionType,
        parameters: ast.arguments,
        layer: Static | None = None,
    ) -> Value:
        """A call of a compiled function with arguments that have been evaluated."""
        arguments = given
        if static.receiver is not None:
            arguments = arguments.after(self.static_value(static.receiver))
        defaults = {
            name: self._default_emitter(default)
            for name, default in default_statics(function, static.path).items()
        }
        bound = self._bind(arguments, parameters, defaults)
        if bound is None:
            # Python's own call binds them, or raises the TypeError, with its own words.
            self.compiler.note_python(function)
            if static.receiver is not None:
                self.note_stored_by(static.receiver)
            if layer is not None:
                return self._emit_call_with("prim::Call", given, [self.static_value(layer)])
            return self._emit_call_with("prim::Call", arguments, [self.constant(function)])
        names = parameter_names(parameters)
        kind = _layer_kind(function, names, bound)
        if kind is not None:
            return self.value(kind, *bound)
        site = CallSite(self.graph.name, self.where)
        statics = self._known(zip(names, bound, strict=True))
        if static.receiver is not None:
            statics[names[0]] = static.receiver
        callee = self.compiler.callee(function, site, statics)
        inputs = [v for name, v in zip(names, bound, strict=True) if name not in statics]
        is_starred = parameters.vararg or parameters.kwonlyargs or parameters.kwarg
        if not statics and layer is None and not is_starred:
            callee.graph.plain = static.value
        return self._emit_compiled(callee, inputs)

    def _known(self, values: Iterable[tuple[str, Value]]) -> dict[str, Static]:
        """Those of the values that are layers, by their names."""
        return {name: self.layers[value] for name, value in values if value in self.layers}

    def _default_emitter(self, static: Static) -> Callable[[], Value]:
        self.compiler.note_python(static.value)

        def emit() -> Value:
            constant = static.is_constant
            return self.constant(static.value) if constant else self.captured_input(static)

        return emit

    def _emit_compiled(self, callee: Compiled, bound: Sequence[Value]) -> Value:
        for constant in callee.constants:
            self.record(constant)
        captured = [self.captured_input(static) for static in callee.inputs]
        attributes = {"graph": callee.graph}
        return self.node("prim::CallFunction", [*bound, *captured], attributes).output

    # Functions that are defined in the function

    def _call_local(self, node: ast.Call, function: FunctionNode, name: str) -> Value:
        reads = self.local_reads(function)
        functions = {n: inner for n, inner in self.local_functions.items() if n in reads}
        arguments = self._arguments(node)
        bound = self._bind(arguments, function.args, self._local_defaults(function))
        if bound is None:
            # Python's own call binds starred arguments, and raises the TypeError.
            made = self.function_value(function)
            return self._emit_call_with("prim::Call", arguments, [made])
        variables = sorted(reads)
        for variable in variables:
            if variable not in self.cell_variables:
                self.require_bound(variable)
            bound.append(self.cell_variables.get(variable) or self.read_local(variable))
        names = [*parameter_names(function.args), *variables]
        statics = self._known(zip(names, bound, strict=True))
        scope = LocalScope(
            variables,
            functions,
            statics,
            self.stable,
            self.function_variables,
            reads & self.cell_variables.keys(),
            reads & self.list_cells,
            {variable: self.owner_of(variable) for variable in variables},
        )
        site = CallSite(self.graph.name, self.where)
        source = replace(self.source, node=function)
        callee = self.compiler.local_callee(source, self.resolver, scope, site)
        inputs = [v for one, v in zip(names, bound, strict=True) if one not in statics]
        return self._emit_compiled(callee, inputs)

    def _local_defaults(self, function: FunctionNode) -> Defaults:
        """The defaults of a nested function; only literals mean the same at each call."""
        args = function.args
        positional = [*args.posonlyargs, *args.args]
        pairs = [
            *zip(reversed(positional), reversed(args.defaults), strict=False),
            *zip(args.kwonlyargs, args.kw_defaults, strict=True),
        ]
        defaults: Defaults = {}
        for arg, default in pairs:
            if default is not None:
                defaults[arg.arg] = functools.partial(self.emit, default)
        return defaults

    # Parameters

    def _bind(
        self, arguments: _Arguments, parameters: ast.arguments, defaults: Defaults
    ) -> list[Value] | None:
        """One value for each parameter, as Python binds them; None where they do not fit."""
        names = [arg.arg for arg in (*parameters.posonlyargs, *parameters.args)]
        extra = arguments.positional[len(names) :]
        by_keyword = {arg.arg for arg in (*parameters.args, *parameters.kwonlyargs)}
        bound = dict(zip(names, arguments.positional, strict=False))
        known = {name: value for name, value in arguments.keywords if name in by_keyword}
        more = [pair for pair in arguments.keywords if pair[0] not in by_keyword]
        fits = not arguments.starred and (not extra or parameters.vararg is not None)
        fits = fits and "**" not in arguments.names
        fits = fits and (not more or parameters.kwarg is not None)
        if not fits or bound.keys() & known.keys():
            return None
        bound |= known
        if parameters.vararg is not None:
            bound[parameters.vararg.arg] = self.value("prim::TupleConstruct", *extra)
        if parameters.kwarg is not None:
            parts = [part for name, value in more for part in (self.constant(name), value)]
            bound[parameters.kwarg.arg] = self.value("prim::DictConstruct", *parts)
        order = parameter_names(parameters)
        if not all(name in bound or name in defaults for name in order):
            return None
        return [bound[name] if name in bound else defaults[name]() for name in order]


def _layer_kind(function: FunctionType, names: Sequence[str], bound: Sequence[Value]) -> str | None:
    """The kind of a function of layers, where these arguments are what its row is for."""
    row = layer_kind(function)
    if row is None or row.definition is None:
        return None
    constants = {
        name: value.constant.attributes["value"]
        for name, value in zip(names, bound, strict=True)
        if value.constant is not None
    }
    wanted = row.definition.only_if
    fits = all(name in constants and constants[name] == wanted[name] for name in wanted)
    return row.kind if fits else None


def _is_called_plainly(layer: Any) -> bool:
    """Whether calling a layer means its ``forward`` and its hooks."""
    call = getattr(layer_class(layer), "__call__", None)  # noqa: B004
    return getattr(call, "__module__", None) == "jitcore.nn.module"


def _is_sole_generator(node: ast.Call) -> bool:
    """Whether a call has a generator expression for its only argument but literal keywords."""
    return (
        len(node.args) == 1
        and isinstance(node.args[0], ast.GeneratorExp)
        and all(isinstance(keyword.value, ast.Constant) for keyword in node.keywords)
    )


def _asks_how_it_runs(node: ast.Call, called: Any) -> bool:
    """Whether a call shows what is compiled: it asks, or it warns of a line of its callers."""
    is_of_caller = called is warnings.warn and bool(node.keywords or node.args[2:])
    return called is markers.is_scripting or is_of_caller
