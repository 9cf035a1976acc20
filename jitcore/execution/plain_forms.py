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
where no code could bind it anew, of the functions or of what the arguments bring along.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from inspect import CO_OPTIMIZED
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from jitcore.errors import CompilationError
from jitcore.execution.function_states import PARTS, FunctionState
from jitcore.frontend.assignments import KnownCode, is_among
from jitcore.frontend.constants import wrapped_function
from jitcore.frontend.libraries import is_library
from jitcore.frontend.names import variable_key
from jitcore.frontend.reached import namespaces_of
from jitcore.frontend.source import FunctionSource, read_source
from jitcore.frontend.unsupported import BUILTINS
from jitcore.frontend.written import FEATURES, codes, compiled_quietly, is_as_written
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Capture

__all__ = ["calling_itself", "without_compiled"]

_PLAIN, _KNOWN = "_jitcore_plain_{}", "_jitcore_known_{}"
_CHANGED, _FUNCTION = "_jitcore_changed", "_jitcore_function"
_UNSURE, _CAREFUL = "_jitcore_unsure", "_jitcore_careful"
_DATA = frozenset({int, float, complex, bool, str, bytes, type(None)})


def calling_itself(
    function: Callable[..., Any], scripted: object, captures: Sequence[Capture]
) -> Callable[..., Any]:
    """A function in a form that comes back to itself without a call of a compiled one.

    It gives way to the function itself where one on the way has got other code, or other defaults.
    What is no plain function, or does not come back to itself by names, is given back as it is.
    Where neither the arguments nor what the functions reach brings code along that could bind them
    anew, names that the compiled function takes for granted during a call, its ``captures``, are
    not looked at.
    """
    if not isinstance(function, FunctionType):
        return function
    calls = _Calls(function, scripted)
    cycle = calls.leading_to(lambda callee: callee.function is function)

    def forms(sure: Collection[_Key] = ()) -> _Forms:
        return _Forms(calls, cycle, lambda callee: callee.function in cycle, sure)

    inner = careful = forms()
    if not any(callee.is_compiled for callee in careful.called()):
        return function
    careful_form, states = careful.make(), tuple(map(FunctionState.of, cycle))
    if careful_form is None:
        return function
    taken = [(one.container, one.key) for one in captures if one.input is None and one.key]
    places = _read_places(calls, [variable_key(*one) for one in taken])
    if places:
        inner = forms([(id(container), key) for container, key in taken])
        inner.make()
    around = _questions(states, places or ()) | {_FUNCTION: function, _CAREFUL: careful_form}
    cells = inner.cells(function) | {name: CellType(value) for name, value in around.items()}
    outer = _made(function, _leaving(inner.written(function), is_sure=bool(places)), cells)
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
    sources : dict from FunctionType to FunctionSource
    """

    def __init__(self, root: FunctionType, scripted: object = None) -> None:
        self.root, self._scripted = root, scripted
        self.sources: dict[FunctionType, FunctionSource] = {}
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
            source = read_source(function)
        except CompilationError:
            return {}
        node = source.node
        # Definitions with type parameters have a scope of their own around them.
        if not isinstance(node, ast.FunctionDef) or getattr(node, "type_params", None):
            return {}
        outside = _outside(function)
        called = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
        names = {one.id for one in called if isinstance(one, ast.Name)}
        if names & BUILTINS.keys() - outside.keys():
            # What asks for its own variables would find those of a form.
            return {}
        self.sources[function] = source
        found = {name: self._callee(outside[name]) for name in sorted(names & outside.keys())}
        return {name: callee for name, callee in found.items() if callee is not None}

    def _callee(self, value: object) -> _Callee | None:
        function = wrapped_function(value)
        if function is None or is_library(function.__code__.co_filename):
            return None
        is_plain = value is function or value is self._scripted or _is_function(value)
        return _Callee(value, function) if is_plain else None


_Key = tuple[int, str]
_Place = tuple[dict[str, Any], str, Any]


def _read_places(calls: _Calls, variables: Collection[str]) -> Collection[_Place] | None:
    """What functions read from outside, of which nothing binds these variables anew.

    None where something may do so, or may come to hold what does, or nobody knows.
    """
    code, found = KnownCode(), dict[_Key, _Place]()
    own = {id(callee.value) for called in calls.by_name.values() for callee in called.values()}
    own |= set(map(id, calls.by_name))
    for one in calls.by_name:
        reached = code.of(one)
        if reached is None:
            return None
        assigned, others = reached
        if any(is_among(name, assigned) for name in variables) or not own.issuperset(
            id(other) for other in others if not _is_data(other)
        ):
            return None
        for namespace, names in namespaces_of(one):
            read = ((namespace, name, namespace.get(name, MISSING)) for name in names)
            found.update({(id(namespace), place[1]): place for place in read})
    values = (value for _, _, value in found.values())
    is_closed = all(
        id(value) in own
        or type(value) is ModuleType
        or _is_data(value)
        or value is MISSING
        or code.shapes.is_inert(value)
        for value in values
    )
    return found.values() if is_closed else None


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
    """

    def __init__(
        self,
        calls: _Calls,
        functions: Iterable[FunctionType],
        is_wanted: _Wanted,
        sure: Collection[_Key] = (),
    ) -> None:
        self._calls = calls
        self._sure = sure
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
            is_known = is_as_written(one, "".join(self._calls.sources[one].lines))
            made = _made(one, self.written(one), self.cells(one)) if is_known else None
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
        hidden = set(_bound_inside(own))
        cells = dict(zip(own.co_freevars, function.__closure__ or (), strict=True))
        places = {name: (id(cells.get(name, function.__globals__)), name) for name in names}
        sure = {name for name in names.keys() - hidden if places[name] in self._sure}
        node = copy.deepcopy(self._calls.sources[function].node)
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


def _leaving(node: ast.FunctionDef, *, is_sure: bool) -> ast.FunctionDef:
    """The definition with first statements that leave calls to other functions.

    One that ``is_sure`` leaves all that it is not sure of.
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

    def called(name: str) -> ast.Return:
        return ast.Return(ast.Call(ast.Name(name, ast.Load()), positional, named))

    def asked(name: str, *values: ast.expr) -> ast.Call:
        return ast.Call(ast.Name(name, ast.Load()), list(values), [])

    leave = ast.If(asked(_CHANGED), [called(_FUNCTION)], [])
    if is_sure:
        given = (*positional, *(one.value for one in named))
        leave = ast.If(asked(_UNSURE, *given), [leave, called(_CAREFUL)], [])
    first = node.body[0]
    for one in ast.walk(leave):
        ast.copy_location(one, first)
    has_text = ast.get_docstring(node, clean=False) is not None
    body = [first] if has_text else []
    return _definition(node, [*body, leave, *node.body[has_text:]])


_QUESTIONS = """
def make(values, data_classes, is_data, missing):
    {parameters} = values

    def changed():
        return not ({same})

    def unsure(*arguments):
        for one in arguments:
            if type(one) not in data_classes and not is_data(one):
                return True
        return not ({same} and {bound})

    return changed, unsure
"""


def _questions(states: Sequence[FunctionState], places: Collection[_Place]) -> dict[str, Any]:
    """The functions that calls begin with: written out, since each takes part of a short call."""
    values = [value for one in states for value in (one.function, *one.before)]
    values += [value for place in places for value in place]
    make = _making_questions(len(states), len(places))
    changed, unsure = make(values, _DATA, _is_data, MISSING)
    return {_CHANGED: changed, _UNSURE: unsure}


@lru_cache(maxsize=64)
def _making_questions(states: int, places: int) -> Callable[..., Any]:
    same = [f"f{n}.{part} is f{n}{part}" for n in range(states) for part in PARTS]
    bound = [f"in{n}.get(name{n}, missing) is value{n}" for n in range(places)]
    parameters = [f"f{n}, f{n}" + f", f{n}".join(PARTS) for n in range(states)]
    parameters += [f"in{n}, name{n}, value{n}" for n in range(places)]
    text = _QUESTIONS.format(
        parameters=", ".join(parameters),
        same=" and ".join(same),
        bound=" and ".join(bound) or "True",
    )
    namespace: dict[str, Callable[..., Any]] = {}
    # A file of this package: tracebacks do not show it.
    exec(compile(text, __file__, "exec"), namespace)
    return namespace["make"]


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
    compiled = compiled_quietly(module, old.co_filename, old.co_flags & FEATURES)
    found = next((one for one in codes(compiled) if one.co_name == "factory"), None)
    code = next(codes(found), None) if found is not None else None
    if code is None:
        return None
    code = code.replace(co_qualname=old.co_qualname)
    closure = tuple(own[name] for name in code.co_freevars)
    made = FunctionType(code, function.__globals__, old.co_name, function.__defaults__, closure)
    made.__kwdefaults__, made.__qualname__ = function.__kwdefaults__, function.__qualname__
    made.__module__ = function.__module__
    return made


def _bound_inside(code: CodeType) -> Iterator[str]:
    """Names of variables of a function, and of what is defined in it; a class may bind all its."""
    yield from (*code.co_varnames, *code.co_cellvars)
    for one in codes(code):
        yield from _bound_inside(one)
        if not one.co_flags & CO_OPTIMIZED:
            yield from one.co_names
