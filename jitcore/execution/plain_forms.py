"""Plain functions in a form that calls plain functions where its names are of compiled ones.

A call of a compiled function goes through C, which takes as long as two calls of Python, and counts
twice against the limit of recursion; the first ones compile.  Where Python runs a function, and is
to run those that it calls as well, they are compiled once more from their syntax trees.  Before::

    def even(n):
        return n == 0 or odd(n - 1)

After, where ``odd`` is the name of a compiled function::

    def even(n):
        return n == 0 or (plain if odd is compiled else odd)(n - 1)

Here ``plain`` is that function in such a form.  Where the name is bound to something else by then,
that is called.  What a compiled function takes for granted during a call is not looked at in one
whose arguments bring no code along that could bind it anew.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import CellType, CodeType, FunctionType
from typing import Any, cast

import numpy as np

from jitcore.errors import CompilationError
from jitcore.execution.function_states import FunctionState
from jitcore.frontend.constants import wrapped_function
from jitcore.frontend.libraries import is_library
from jitcore.frontend.source import read_source
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture

__all__ = ["calling_itself", "without_compiled"]

_PLAIN, _KNOWN = "_jitcore_plain_{}", "_jitcore_known_{}"
_CHANGED, _FUNCTION = "_jitcore_changed", "_jitcore_function"
_UNSURE, _CAREFUL = "_jitcore_unsure", "_jitcore_careful"
_DATA = frozenset({int, float, complex, bool, str, bytes, type(None)})
_FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def calling_itself(
    function: Callable[..., Any], scripted: object, captures: Sequence[Capture]
) -> Callable[..., Any]:
    """A function in a form that comes back to itself without a call of a compiled one.

    It gives way to the function itself where one on the way has got other code, or other defaults.
    What is no plain function, or does not come back to itself by names, is given back as it is.
    Where the arguments bring no code along, names that the compiled function takes for granted
    during a call, its ``captures``, are not looked at.
    """
    if not isinstance(function, FunctionType):
        return function
    calls = _Calls(function, scripted)
    cycle = calls.leading_to(lambda callee: callee.function is function)
    careful = _Forms(calls, cycle, lambda callee: callee.function in cycle)
    if not any(callee.is_compiled for callee in careful.called()):
        return function
    taken = {(id(one.container), one.key): one for one in captures if _is_variable(one)}
    quick = _Forms(calls, cycle, lambda callee: callee.function in cycle, taken)
    careful_form = careful.make()
    if careful_form is None or quick.make() is None:
        return function
    states = tuple(map(FunctionState.of, cycle))
    known = tuple(taken[place] for place in quick.unseen)
    around: dict[str, Any] = {
        _CHANGED: lambda *_: not all(map(FunctionState.holds, states)),
        _FUNCTION: function,
        _UNSURE: lambda *values: not (all(map(_is_data, values)) and all(map(_holds, known))),
        _CAREFUL: careful_form,
    }
    cells = quick.cells(function) | {name: CellType(value) for name, value in around.items()}
    body = quick.written(function)
    outer = _made(function, _leaving(body, {_CHANGED: _FUNCTION, _UNSURE: _CAREFUL}), cells)
    return function if outer is None else outer


def without_compiled(
    function: Callable[..., Any], known: Iterable[object]
) -> Callable[..., Any] | None:
    """A function in a form that calls plain functions in the place of all compiled ones.

    None where some of those that are ``known`` are not called by names, or have no such form.
    """
    if not isinstance(function, FunctionType):
        return None
    calls = _Calls(function)
    leading = calls.leading_to(lambda callee: callee.is_compiled)
    forms = _Forms(calls, leading, lambda callee: callee.is_compiled or callee.function in leading)
    if not {id(callee.value) for callee in forms.called()}.issuperset(map(id, known)):
        return None
    return forms.make()


@dataclass(frozen=True, slots=True)
class _Callee:
    """What a name stands for that is called, and the plain function that does the same.

    Parameters
    ----------
    value : object
    function : FunctionType
    """

    value: object
    function: FunctionType

    @property
    def is_compiled(self) -> bool:
        """Whether the name stands for a compiled function."""
        return self.value is not self.function


_Wanted = Callable[[_Callee], bool]


class _Calls:
    """Which functions of users call which others by names, from one on.

    Parameters
    ----------
    root : FunctionType
    scripted : object
        The root's compiled form, of whatever class.

    Attributes
    ----------
    by_name : dict from FunctionType to dict
        What each function calls.
    nodes : dict from FunctionType to ast.FunctionDef
    """

    def __init__(self, root: FunctionType, scripted: object = None) -> None:
        self.root, self._scripted = root, scripted
        self.nodes: dict[FunctionType, ast.FunctionDef] = {}
        self.by_name: dict[FunctionType, dict[str, _Callee]] = {}
        waiting = [root]
        for one in waiting:
            if one not in self.by_name:
                self.by_name[one] = self._called_by(one)
                waiting += [callee.function for callee in self.by_name[one].values()]

    def leading_to(self, is_wanted: _Wanted) -> set[FunctionType]:
        """The functions that call what is wanted, by themselves or through others."""
        found: set[FunctionType] = set()
        while True:
            more = {
                one
                for one, called in self.by_name.items()
                if any(is_wanted(callee) or callee.function in found for callee in called.values())
            }
            if more == found:
                return found
            found = more

    def _called_by(self, function: FunctionType) -> dict[str, _Callee]:
        """What a function calls by names from outside; nothing where its source is not known."""
        try:
            node = read_source(function).node
        except CompilationError:
            return {}
        # Definitions with type parameters have a scope of their own around them.
        if not isinstance(node, ast.FunctionDef) or getattr(node, "type_params", None):
            return {}
        self.nodes[function] = node
        outside = _outside(function)
        called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
        names = {one.id for one in called if isinstance(one, ast.Name)}
        found = {name: self._callee(outside[name]) for name in sorted(names & outside.keys())}
        return {name: callee for name, callee in found.items() if callee is not None}

    def _callee(self, value: object) -> _Callee | None:
        function = wrapped_function(value)
        if function is None or is_library(function.__code__.co_filename):
            return None
        is_plain = value is function or value is self._scripted or _is_function(value)
        return _Callee(value, function) if is_plain else None


def _is_variable(capture: Capture) -> bool:
    """Whether this is what a graph takes for the constant value of a variable."""
    return capture.input is None and capture.key is not None


def _holds(capture: Capture) -> bool:
    """Whether a variable is bound to what it was."""
    if type(capture.container) is CellType:
        return _held(capture.container) is capture.value
    return capture.container.get(capture.key) is capture.value


def _is_data(value: Any) -> bool:
    """Whether a value surely brings no code along, as its class says."""
    kind = type(value)
    if kind is tuple:
        return all(map(_is_data, value))
    return kind in _DATA or (kind is np.ndarray and not value.dtype.hasobject)


def _outside(function: FunctionType) -> dict[str, Any]:
    """The variables from outside that a function may read."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return function.__globals__ | {name: _held(cell) for name, cell in cells}


def _held(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty
        return MISSING


def _is_function(value: object) -> bool:
    """Whether this is what `script` makes of a function, and not of a graph or a method."""
    script_function = import_module("jitcore.script").ScriptFunction
    return script_function in type(value).__bases__


class _Forms:
    """Functions in a form that call one another, where they call what is wanted.

    Parameters
    ----------
    calls : _Calls
    functions : set of FunctionType
    is_wanted : callable
    sure : collection
        The places of names that stay what they are.

    Attributes
    ----------
    unseen : set
        Those of them that are not looked at.
    """

    def __init__(
        self,
        calls: _Calls,
        functions: Iterable[FunctionType],
        is_wanted: _Wanted,
        sure: Collection[tuple[int, str | None]] = (),
    ) -> None:
        self._calls = calls
        self._sure = sure
        self.unseen: set[tuple[int, str]] = set()
        self._wanted = {
            one: {name: held for name, held in calls.by_name[one].items() if is_wanted(held)}
            for one in functions
        }
        self._made = {one: CellType() for one in self._wanted}

    def called(self) -> Iterator[_Callee]:
        """All that is wanted."""
        return (one for called in self._wanted.values() for one in called.values())

    def make(self) -> FunctionType | None:
        """The form of the first function; None without."""
        for one, cell in self._made.items():
            made = _made(one, self.written(one), self.cells(one))
            if made is None:
                return None
            cell.cell_contents = made
        root = self._made.get(self._calls.root)
        form: FunctionType | None = None if root is None else root.cell_contents
        return form

    def written(self, function: FunctionType) -> ast.FunctionDef:
        """The definition, with calls that look at what their names are bound to."""
        names = {name: number for number, name in enumerate(self._wanted[function])}
        own = function.__code__
        hidden = {*own.co_varnames, *own.co_cellvars}
        cells = dict(zip(own.co_freevars, function.__closure__ or (), strict=True))
        places = {name: (id(cells.get(name, function.__globals__)), name) for name in names}
        sure = {name for name in names.keys() - hidden if places[name] in self._sure}
        self.unseen |= {places[name] for name in sure}
        node = copy.deepcopy(self._calls.nodes[function])
        return cast(ast.FunctionDef, _ChosenCalls(names, sure).visit(node))

    def cells(self, function: FunctionType) -> dict[str, CellType]:
        """What these calls read."""
        found = {}
        for number, callee in enumerate(self._wanted[function].values()):
            plain = self._made.get(callee.function)
            found[_PLAIN.format(number)] = plain or CellType(callee.function)
            found[_KNOWN.format(number)] = CellType(callee.value)
        return found


class _ChosenCalls(ast.NodeTransformer):
    """Writes calls of some names so that they look at what these are bound to."""

    def __init__(self, names: Mapping[str, int], sure: Collection[str]) -> None:
        self.names, self.sure = names, sure

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Name) or called.id not in self.names:
            return node
        number = self.names[called.id]
        plain, known = (ast.Name(one.format(number), ast.Load()) for one in (_PLAIN, _KNOWN))
        test = ast.Compare(called, [ast.Is()], [known])
        chosen = plain if called.id in self.sure else ast.IfExp(test, plain, called)
        for one in ast.walk(chosen):
            ast.copy_location(one, called)
        return ast.copy_location(ast.Call(chosen, node.args, node.keywords), node)


def _leaving(node: ast.FunctionDef, tests: Mapping[str, str]) -> ast.FunctionDef:
    """The definition with first statements that leave calls to other functions.

    Parameters
    ----------
    node : ast.FunctionDef
    tests : dict from str to str
        The names of functions of all arguments, and of those that take the calls where they hold.
    """
    arguments = node.args
    positional: list[ast.expr] = [
        ast.Name(one.arg, ast.Load()) for one in (*arguments.posonlyargs, *arguments.args)
    ]
    if arguments.vararg is not None:
        positional.append(ast.Starred(ast.Name(arguments.vararg.arg, ast.Load()), ast.Load()))
    named = [ast.keyword(one.arg, ast.Name(one.arg, ast.Load())) for one in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        named.append(ast.keyword(None, ast.Name(arguments.kwarg.arg, ast.Load())))
    first = node.body[0]
    has_text = ast.get_docstring(node, clean=False) is not None
    body = [first] if has_text else []
    for test, taker in tests.items():
        given = [*positional, *(one.value for one in named)]
        call = ast.Call(ast.Name(taker, ast.Load()), positional, named)
        asked = ast.Call(ast.Name(test, ast.Load()), given, [])
        leave = ast.If(asked, [ast.Return(call)], [])
        for one in ast.walk(leave):
            ast.copy_location(one, first)
        body.append(leave)
    return _definition(node, [*body, *node.body[has_text:]])


def _definition(node: ast.FunctionDef, body: list[ast.stmt]) -> ast.FunctionDef:
    """A definition without what Python evaluates when it meets one."""
    old = node.args

    def bare(one: ast.arg | None) -> ast.arg | None:
        return None if one is None else ast.copy_location(ast.arg(one.arg), one)

    def all_bare(given: list[ast.arg]) -> list[ast.arg]:
        return [ast.copy_location(ast.arg(one.arg), one) for one in given]

    parameters = ast.arguments(
        all_bare(old.posonlyargs),
        all_bare(old.args),
        bare(old.vararg),
        all_bare(old.kwonlyargs),
        [None] * len(old.kwonlyargs),
        bare(old.kwarg),
        [],
    )
    return ast.copy_location(_bare_definition(node.name, parameters, body), node)


def _bare_definition(name: str, parameters: ast.arguments, body: list[ast.stmt]) -> ast.FunctionDef:
    made = ast.FunctionDef(name, parameters, body, [])
    if "type_params" in ast.FunctionDef._fields:
        # CPython 3.12 asks for it.
        vars(made)["type_params"] = []
    return made


def _made(
    function: FunctionType, node: ast.FunctionDef, cells: dict[str, CellType]
) -> FunctionType | None:
    """A function of this definition, with the variables and the defaults of another one."""
    old = function.__code__
    own = dict(zip(old.co_freevars, function.__closure__ or (), strict=True)) | cells
    around = ast.arguments([], [ast.arg(name) for name in own], None, [], [], None, [])
    body: list[ast.stmt] = [_definition(node, node.body)]
    if node.name not in own:
        # Else the name would be that of a variable around the function.
        body.insert(0, ast.Global([node.name]))
    factory = _bare_definition("factory", around, body)
    module = ast.fix_missing_locations(ast.Module([factory], []))
    flags = old.co_flags & _FEATURES
    compiled = compile(module, old.co_filename, "exec", flags, dont_inherit=True)
    found = next((one for one in _codes(compiled) if one.co_name == "factory"), None)
    code = next(_codes(found), None) if found is not None else None
    if code is None:
        return None
    code = code.replace(co_qualname=old.co_qualname)
    closure = tuple(own[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, old.co_name, function.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__module__ = function.__module__
    return made


def _codes(code: CodeType) -> Any:
    return (one for one in code.co_consts if isinstance(one, CodeType))
