"""The parts of Python that compiled functions cannot use: what to say, what to write instead."""

from __future__ import annotations

import ast

from jitcore.frontend.bindings import function_body
from jitcore.source import FunctionNode

__all__ = ["BUILTINS", "can_be_inlined", "describe", "first_unsupported"]

_PLAIN_PYTHON = "Do it in plain Python, outside the compiled function"

_SYNTAX: dict[str, tuple[str, str]] = {
    "TryStar": (
        "'except*' is not supported in a compiled function",
        "Catch the exceptions in the code that calls the compiled function.",
    ),
    "Finally": (
        "'return', 'break' and 'continue' are not supported in a 'finally' block",
        "Put them after the 'try' statement.",
    ),
    "Global": (
        "'global' is not supported in a compiled function",
        "Return the new value and assign it to the global where the function is called.",
    ),
    "Nonlocal": (
        "'nonlocal' is not supported in a compiled function",
        "Return the new value and assign it where the function is called.",
    ),
    "Yield": (
        "'yield' is not supported: a compiled function cannot be a generator",
        "Append the values to a list and return that.",
    ),
    "YieldFrom": (
        "'yield from' is not supported: a compiled function cannot be a generator",
        "Extend a list with the values and return that.",
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
        "Define the class at the top level of the module.",
    ),
    "Match": (
        "'match' is not supported in a compiled function",
        "Write it with 'if' and 'elif'.",
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
    "locals": ("'locals' is not supported", "Name the variables that you need."),
    "globals": ("'globals' is not supported", "Name the globals that you need."),
    "vars": ("'vars' without an argument is not supported", "Name the variables that you need."),
    "dir": ("'dir' without an argument is not supported", "Name the variables that you need."),
    "eval": ("'eval' is not supported", "Write the expression into the function."),
    "exec": ("'exec' is not supported", "Write the statements into the function."),
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

    ``yield`` and ``global`` change the whole function even where they are never reached.  What is
    inside a nested function is no part of this one.
    """
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in _ANYWHERE:
            return node
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += reversed(list(ast.iter_child_nodes(node)))
    return None


def can_be_inlined(node: FunctionNode) -> bool:
    """Whether a call of a nested function can become its graph; else it is a Python function."""
    if not isinstance(node, ast.Lambda) and node.decorator_list:
        return False
    defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
    if not all(map(_is_literal, defaults)):
        return False
    found = first_unsupported(function_body(node))
    # A Python function of its own could not assign the variables of this one.
    return found is None or isinstance(found, ast.Nonlocal)


def _is_literal(node: ast.expr) -> bool:
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant)
