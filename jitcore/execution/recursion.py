"""Functions that call themselves by their scripted name, as Python runs them.

A call of a script function goes through C, which takes as long as two calls of Python, and counts
twice against the limit of recursion.  So the function is compiled once more from its syntax tree.
Before::

    def f(n):
        return n if n < 2 else f(n - 1) + f(n - 2)

After::

    def f(n):
        return n if n < 2 else (plain if f is scripted else f)(n - 1) + ...

Where the name is bound to something else by then, that is called.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Callable
from types import CellType, CodeType, FunctionType
from typing import Any

from jitcore.errors import CompilationError
from jitcore.execution.function_states import FunctionState
from jitcore.frontend.source import read_source

__all__ = ["calling_itself"]

_PLAIN, _SCRIPTED = "_jitcore_plain", "_jitcore_scripted"
_CHANGED, _FUNCTION = "_jitcore_changed", "_jitcore_function"
_FEATURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def calling_itself(function: Callable[..., Any], scripted: object) -> Callable[..., Any]:
    """The function in a form that calls itself without a call of ``scripted``.

    It gives way to the function itself where that has got other code, or other defaults.  What is
    no plain function, or does not call itself by its own name, is given back as it is.
    """
    if not isinstance(function, FunctionType):
        return function
    try:
        source = read_source(function)
    except CompilationError:
        return function
    calls = _OwnCalls(function.__name__)
    node = calls.visit(copy.deepcopy(source.node))
    if not isinstance(node, ast.FunctionDef) or not calls.found:
        return function
    if getattr(node, "type_params", None):
        # Such a definition has a scope of its own around it.
        return function
    state = FunctionState.of(function)
    cells = {_PLAIN: CellType(), _SCRIPTED: CellType(scripted)}
    inner = _made(function, node, cells)
    if inner is None:
        return function
    cells[_PLAIN].cell_contents = inner
    cells[_FUNCTION] = CellType(function)
    cells[_CHANGED] = CellType(lambda: not state.holds())
    outer = _made(function, _checking(node), cells)
    return function if outer is None else outer


class _OwnCalls(ast.NodeTransformer):
    """Writes calls of a name so that they look at what it is bound to."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        called = node.func
        if not isinstance(called, ast.Name) or called.id != self.name:
            return node
        self.found = True
        test = ast.Compare(called, [ast.Is()], [ast.Name(_SCRIPTED, ast.Load())])
        chosen = ast.IfExp(test, ast.Name(_PLAIN, ast.Load()), called)
        for one in ast.walk(chosen):
            ast.copy_location(one, called)
        return ast.copy_location(ast.Call(chosen, node.args, node.keywords), node)


def _checking(node: ast.FunctionDef) -> ast.FunctionDef:
    """The definition with a first statement that leaves calls to a function that has changed."""
    arguments = node.args
    positional: list[ast.expr] = [
        ast.Name(one.arg, ast.Load()) for one in (*arguments.posonlyargs, *arguments.args)
    ]
    if arguments.vararg is not None:
        positional.append(ast.Starred(ast.Name(arguments.vararg.arg, ast.Load()), ast.Load()))
    named = [ast.keyword(one.arg, ast.Name(one.arg, ast.Load())) for one in arguments.kwonlyargs]
    if arguments.kwarg is not None:
        named.append(ast.keyword(None, ast.Name(arguments.kwarg.arg, ast.Load())))
    call = ast.Call(ast.Name(_FUNCTION, ast.Load()), positional, named)
    check = ast.If(ast.Call(ast.Name(_CHANGED, ast.Load()), [], []), [ast.Return(call)], [])
    first = node.body[0]
    for one in ast.walk(check):
        ast.copy_location(one, first)
    has_text = ast.get_docstring(node, clean=False) is not None
    body = [first, check, *node.body[1:]] if has_text else [check, *node.body]
    return _definition(node, body)


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
