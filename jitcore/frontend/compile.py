"""One compilation: a function, and all the functions it calls."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection
from types import FunctionType, MethodType
from typing import Any, TypeVar

from jitcore.errors import CompilationError, UnsupportedError
from jitcore.frontend.annotations import annotation_type, comment_types
from jitcore.frontend.assignments import assigned_by, is_among
from jitcore.frontend.bindings import parameter_names
from jitcore.frontend.callees import (
    CallSite,
    Compiled,
    FunctionPlace,
    LocalScope,
    NeedsCell,
    Statics,
)
from jitcore.frontend.constants import is_layer, is_number
from jitcore.frontend.environment import Binding
from jitcore.frontend.layers import Frozen, given_away, root_static
from jitcore.frontend.libraries import is_library
from jitcore.frontend.match_statements import without_match
from jitcore.frontend.names import Place, Resolver, Static
from jitcore.frontend.source import FunctionNode, FunctionSource, has_source, read_source
from jitcore.frontend.statements import Statements
from jitcore.ir.graph import Block, Graph, Node
from jitcore.ir.types import ANY, STR, TENSOR, DictType, OpenFunction, Type

__all__ = ["compile_function"]

LookupOp = Callable[[Any], str | None]
Found = TypeVar("Found")


def compile_function(
    function: FunctionType | MethodType | OpenFunction,
    *,
    lookup_op: LookupOp,
    frozen: Frozen | None = None,
    assigned: Collection[str] = (),
    varying: Collection[Place] = (),
) -> Graph:
    """The generic graph of a Python function.

    Parameters
    ----------
    function : function, method or OpenFunction
        A plain Python function or lambda whose source is known; a method of a layer, which is
        compiled for that layer: the graph has no input for it; or the code of a function, whose
        variables from around it are inputs after the parameters.
    lookup_op : callable
        Gives the kind of the operation that a Python callable is (``"np::mean"`` for
        ``numpy.mean``), or None.
    frozen : Frozen, optional
        The attributes of layers are constants, and nothing that is constant is guarded.
    assigned : collection of str
        The attributes and variables that arguments may assign, as `assigned_by` gives them.
    varying : collection of Place
        Where numbers are that change from call to call: they become inputs, too.

    Returns
    -------
    Graph
        Its inputs are the parameters in order, then the captured objects whose contents may
        change.

    Raises
    ------
    CompilationError
        The source is not known, or something in it is not supported.
    """
    compilation = _Compilation(lookup_op, frozen, assigned, varying)
    if isinstance(function, OpenFunction):
        scope = LocalScope(list(function.variables), stable=frozenset(function.variables))
        return compilation.root(function.template, None, scope)
    layer = function.__self__ if isinstance(function, MethodType) else None
    if isinstance(function, MethodType) and is_layer(layer):
        return compilation.root(_function_of(function), layer)
    if not isinstance(function, FunctionType):
        raise CompilationError(
            f"expected a plain Python function, found {type(function).__name__} {function!r}",
            hint="Wrap it in a function of its own: def f(x): return ...",
        )
    return compilation.root(function, None)


def _function_of(method: MethodType) -> FunctionType:
    function = method.__func__
    assert isinstance(function, FunctionType)
    return function


class _Compilation:
    """Compiles each function once, however often it is called."""

    def __init__(
        self,
        lookup_op: LookupOp,
        frozen: Frozen | None,
        assigned: Collection[str],
        varying: Collection[Place],
    ) -> None:
        self.frozen = frozen
        self._varying = varying
        self._lookup_op = lookup_op
        self._functions: dict[_Key, Compiled] = {}
        self._local: dict[_Key, Compiled] = {}
        self._stack: list[_Key] = []
        self._static: set[str] = set()
        self._stored: set[str] = set(assigned)
        self._python: list[Any] = []
        self._in_cells: set[tuple[FunctionPlace, str]] = set()
        self._is_only_compiled = False

    def root(self, function: FunctionType, layer: Any, scope: LocalScope | None = None) -> Graph:
        """The graph of the function that the user asked for."""
        try:
            parameters = parameter_names(read_source(function).node.args)
            own = parameters[0] if layer is not None else ""
            statics = {own: root_static(layer, own)} if own else {}
            while True:
                try:
                    graph = self._compile(function, statics, scope).graph
                except NeedsCell as found:
                    if self.needs_cell(found.owner, found.name):
                        raise AssertionError(f"internal error: no cell for {found.name}") from None
                    self._in_cells.add((found.owner, found.name))
                    self._forget()
                    continue
                self._stored |= assigned_by(self._python)
                if not any(is_among(name, self._stored) for name in self._static):
                    graph.only_compiled = self._is_only_compiled
                    graph.assigned = frozenset(self._stored)
                    return graph
                # Something was taken for known before it turned out that it may change.
                self._forget()
        except RecursionError:
            raise CompilationError(
                f"'{function.__name__}' is nested too deeply to be compiled",
                hint="Split the function, or its longest expression, into several.",
            ) from None

    def _forget(self) -> None:
        """Begin anew, but with what has turned out on the way."""
        self._functions, self._local, self._static, self._stack = {}, {}, set(), []
        self._python = []

    def needs_cell(self, owner: FunctionPlace, name: str) -> bool:
        """Whether it has turned out that a variable must be held by a cell."""
        return (owner, name) in self._in_cells

    def lookup_op(self, value: Any) -> str | None:
        """The kind of the operation that a Python callable is, or None."""
        return self._lookup_op(value)

    def can_compile(self, function: FunctionType) -> bool:
        """Whether a function is the user's own and its source is known."""
        return not is_library(function.__code__.co_filename) and has_source(function)

    def is_dynamic(self, name: str) -> bool:
        """Whether a global, or attributes of layers, may change while the function runs."""
        if is_among(name, self._stored):
            return True
        self._static.add(name)
        return False

    def is_varying(self, static: Static) -> bool:
        """Whether a number is an input of the graph, because it has been several ones."""
        return static.key in self._varying and is_number(static.value)

    def note_stored(self, name: str) -> None:
        """Note that the function may assign an attribute with this name, or a global."""
        self._stored.add(name)

    def note_only_compiled(self) -> None:
        """Note that compiled code does something else than the plain function."""
        self._is_only_compiled = True

    def note_python(self, value: Any) -> None:
        """Note that Python gets a value: it may assign whatever the value's code assigns."""
        self._python.append(value)

    def is_active(self, function: FunctionType, receiver: Static | None = None) -> bool:
        """Whether a function is being compiled, so that a call of it is recursion.

        That of a class method is, for whichever class; that of a layer is another function.
        """
        if receiver is not None and isinstance(receiver.value, type):
            return any(one is function for one, _ in self._stack)
        return _key(function, {}) in self._stack

    def parameters(self, function: FunctionType, site: CallSite) -> ast.arguments:
        """The parameters of a function that is called."""
        return self._called(lambda: read_source(function).node.args, function.__name__, site)

    def callee(self, function: FunctionType, site: CallSite, statics: Statics) -> Compiled:
        """The graph of a function that is called."""
        key = _key(function, statics)
        if key in self._stack:
            # Without layers the front end asks first, and calls Python.
            raise _recursion(function.__name__, site)
        if key not in self._functions:
            self._functions[key] = self._called(
                lambda: self._compile(function, statics), function.__name__, site
            )
        return self._functions[key]

    def local_callee(
        self,
        source: FunctionSource,
        resolver: Resolver,
        scope: LocalScope,
        site: CallSite,
    ) -> Compiled:
        """The graph of a function that is defined inside the one that calls it."""
        node = source.node
        name = node.name if isinstance(node, ast.FunctionDef) else "<lambda>"
        key = _key(node, scope.statics)
        if key in self._stack:
            raise _recursion(name, site)
        if key not in self._local:
            self._stack.append(key)
            self._local[key] = self._called(
                lambda: self._emit(source, resolver, scope, name), name, site
            )
            self._stack.pop()
        return self._local[key]

    def _called(self, compile_it: Callable[[], Found], name: str, site: CallSite) -> Found:
        """Compile a called function; its errors mention the call."""
        try:
            return compile_it()
        except CompilationError as error:
            error.add_call(name, site.caller, site.where)
            raise

    def _compile(
        self, function: FunctionType, statics: Statics, scope: LocalScope | None = None
    ) -> Compiled:
        resolver = Resolver(function)
        source = without_match(read_source(function), resolver.object_of)
        self._stack.append(_key(function, statics))
        scope = scope or LocalScope(statics=statics)
        compiled = self._emit(source, resolver, scope, function.__name__)
        self._stack.pop()
        return compiled

    def _emit(
        self, source: FunctionSource, resolver: Resolver, scope: LocalScope, name: str
    ) -> Compiled:
        graph = Graph(name)
        if isinstance(source.node, ast.FunctionDef):
            graph.doc = ast.get_docstring(source.node)
        emitter = Statements(source, graph, resolver, self, scope)
        _add_parameters(emitter, scope)
        emitter.function()
        for layer, stored in given_away(emitter.layers):
            self.note_python(layer)
            self._stored.update(stored)
        _drop_unused(graph.block)
        statics = emitter.captured.statics.values()
        captures = emitter.captured.captures
        inputs = [static for static in statics if captures[static.key].input is not None]
        constants = [static for static in statics if captures[static.key].input is None]
        return Compiled(graph, source.node.args, inputs, constants)


def _add_parameters(emitter: Statements, scope: LocalScope) -> None:
    """Make the graph's inputs for the parameters, with the types of their annotations."""
    emitter.make_cells(scope)
    source = emitter.source
    arguments = source.node.args

    def resolve(node: ast.expr) -> Any:
        static = emitter.static(node)
        return None if static is None else static.value

    params = [*arguments.posonlyargs, *arguments.args]
    types = [annotation_type(param.annotation, resolve) for param in params]
    commented = comment_types(source.node, source.lines, resolve)
    if commented is not None and len(commented) == len(types):
        types = commented
    if arguments.vararg is not None:
        params.append(arguments.vararg)
        types.append(ANY)
    params += arguments.kwonlyargs
    types += [annotation_type(param.annotation, resolve) for param in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        params.append(arguments.kwarg)
        types.append(DictType(STR, ANY))
    for param, type_ in zip(params, types, strict=True):
        _add_parameter(emitter, param.arg, type_)
    for name in scope.variables:
        if name in scope.cells:
            emitter.cell_variables[name] = emitter.graph.block.add_param(ANY, name)
        else:
            _add_parameter(emitter, name, TENSOR)


def _add_parameter(emitter: Statements, name: str, type_: Type) -> None:
    static = emitter.parameter_statics.get(name)
    if static is not None:
        value = emitter.static_value(static)
        emitter.layers[value] = static
        emitter.environment.bindings[name] = Binding(value)
    else:
        emitter.bind(name, emitter.graph.block.add_param(type_, name))


_Key = tuple[FunctionType | FunctionNode, frozenset[tuple[str, tuple[int, str]]]]


def _key(function: FunctionType | FunctionNode, statics: Statics) -> _Key:
    """What tells one compiled form of a function from another."""
    return function, frozenset((name, static.key) for name, static in statics.items())


def _drop_unused(block: Block) -> None:
    """Remove constants and uninitialized values that nothing came to use."""
    for node in reversed(block.nodes[:]):
        for inner in node.blocks:
            _drop_unused(inner)
        if _is_plain(node) and not node.output.uses:
            node.destroy()


def _is_plain(node: Node) -> bool:
    return node.kind in ("prim::Constant", "prim::Uninitialized")


def _recursion(name: str, site: CallSite) -> CompilationError:
    return UnsupportedError(
        f"the layer's '{name}' calls itself, directly or through another function; "
        "that is not supported in a compiled function",
        site.where,
        "Write it as a loop, or mark the function with @jitcore.ignore: compiled code may call it, "
        "and Python runs it.",
    )
