"""The parts of Python that compiled functions cannot use: what to say, what to write instead."""

from __future__ import annotations

import ast

from jitcore.frontend.bindings import function_body
from jitcore.frontend.source import FunctionNode
from jitcore.frontend.syntax import child_nodes

__all__ = ["BUILTINS", "can_be_inlined", "describe", "first_unsupported"]

_PLAIN_PYTHON = "Do it in plain Python, outside the compiled function"
_IN_PYTHON = (
    "mark the function with @jitcore.ignore: compiled code may call it, and Python runs it."
)

_SYNTAX: dict[str, tuple[str, str]] = {
    "TryStar": (
        "'except*' is not supported in a compiled function",
        f"Write one 'except' for each class of exceptions, or {_IN_PYTHON}",
    ),
    "Finally": (
        "'return', 'break' and 'continue' are not supported in a 'finally' block",
        "Put the jump after the 'try' statement; a variable can say whether it is due.",
    ),
    "Yield": (
        "'yield' is not supported: a compiled function cannot be a generator",
        f"Append the values to a list and return that, or {_IN_PYTHON}",
    ),
    "YieldFrom": (
        "'yield from' is not supported: a compiled function cannot be a generator",
        f"Extend a list with the values and return that, or {_IN_PYTHON}",
    ),
    "Await": (
        "'await' is not supported in a compiled function",
        f"{_PLAIN_PYTHON}, and pass the result in.",
    ),
    "AsyncFor": (
        "'async for' is not supported in a compiled function",
        f"{_PLAIN_PYTHON}, and pass the items in as a list.",
    ),
    "AsyncWith": (
        "'async with' is not supported in a compiled function",
        f"{_PLAIN_PYTHON}.",
    ),
    "AsyncFunctionDef": (
        "'async def' is not supported in a compiled function",
        "Define the coroutine outside and call the compiled function from it.",
    ),
    "ClassDef": (
        "a class cannot be defined in a compiled function",
        "Define the class at the top level of the module; compiled functions may use it there.",
    ),
    "TypeAlias": (
        "'type' is not supported in a compiled function",
        "Define the type at the top level of the module.",
    ),
    "Lambda": (
        "the code of this function cannot be told from that of another one on the same line",
        "Put each function on a line of its own.",
    ),
    "FunctionDef": (
        "the code of this function cannot be told from that of another one on the same line",
        "Put each function on a line of its own.",
    ),
    "GeneratorExp": (
        "the code of this generator cannot be told from that of another one on the same line",
        "Put each generator on a line of its own.",
    ),
    "Starred": (
        "a starred expression is not supported here",
        "Build the tuple first, and use it by its name.",
    ),
}

BUILTINS: dict[str, tuple[str, str]] = {
    "locals": (
        "'locals' is not supported in a compiled function",
        "Name the variables that you need, in a dict for instance: {'x': x}.",
    ),
    "globals": (
        "'globals' is not supported in a compiled function",
        "Name the globals that you need; a 'global' statement lets the function assign them.",
    ),
    "vars": (
        "'vars' without an argument is not supported in a compiled function",
        "Name the variables that you need, in a dict for instance: {'x': x}.",
    ),
    "dir": (
        "'dir' without an argument is not supported in a compiled function",
        "Name the variables that you need.",
    ),
    "eval": (
        "'eval' is not supported in a compiled function",
        f"Write the expression into the function, or {_IN_PYTHON}",
    ),
    "exec": (
        "'exec' is not supported in a compiled function",
        f"Write the statements into the function, or {_IN_PYTHON}",
    ),
    "breakpoint": (
        "'breakpoint' is not supported in a compiled function",
        "Set JITCORE_JIT=0 to run plain Python under a debugger.",
    ),
}
"""Built-in functions that look at the frame they are called from."""

_ANYWHERE = frozenset(_SYNTAX) - {
    "Lambda",
    "FunctionDef",
    "GeneratorExp",
    "Starred",
}


def describe(kind: str) -> tuple[str, str]:
    """What is not supported about a kind of node, and the hint what to write instead."""
    plain = (f"this syntax ({kind}) is not supported in a compiled function", f"{_PLAIN_PYTHON}.")
    return _SYNTAX.get(kind, plain)


def first_unsupported(body: list[ast.stmt]) -> ast.AST | None:
    """The first node that is not supported wherever it stands, unreachable code included.

    ``yield`` changes the whole function even where it is never reached.  What is inside a nested
    function is no part of this one.
    """
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in _ANYWHERE:
            return node
        if not isinstance(node, (ast.FunctionDef, ast.Lambda)):
            waiting += reversed(child_nodes(node))
    return None


def can_be_inlined(node: FunctionNode) -> bool:
    """Whether a call of a nested function can become its graph; else it is a Python function."""
    if not isinstance(node, ast.Lambda) and node.decorator_list:
        return False
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if not all(map(_is_literal, defaults)):
        return False
    return first_unsupported(function_body(node)) is None


def _is_literal(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant)
