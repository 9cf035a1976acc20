"""The parts of Python that compiled functions cannot use: what to say, what to write instead."""

from __future__ import annotations

import ast

__all__ = ["BUILTINS", "describe", "first_unsupported"]

_PLAIN_PYTHON = "Do it in plain Python, outside the compiled function"

_SYNTAX: dict[str, tuple[str, str]] = {
    "Try": (
        "'try' is not supported in a compiled function",
        "Test for the condition with 'if', or catch the exception in the code that calls the "
        "compiled function.",
    ),
    "TryStar": (
        "'try' is not supported in a compiled function",
        "Catch the exceptions in the code that calls the compiled function.",
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
    "Import": (
        "'import' is not supported in a compiled function",
        "Import at the top of the file.",
    ),
    "ImportFrom": (
        "'import' is not supported in a compiled function",
        "Import at the top of the file.",
    ),
    "Match": (
        "'match' is not supported in a compiled function",
        "Write it with 'if' and 'elif'.",
    ),
    "TypeAlias": (
        "'type' is not supported in a compiled function",
        "Define the type at the top level of the module.",
    ),
    "With": (
        "'with' is supported only with scopes of jitcore, such as jitcore.strict_fusion()",
        "Enter the context in the code that calls the compiled function.",
    ),
    "Lambda": (
        "a lambda can only be called in a compiled function, not passed on or stored elsewhere",
        "Define the function at the top level of the module and pass it by its name.",
    ),
    "FunctionDef": (
        "a function defined in a compiled function can only be called, by its name",
        "Define the function at the top level of the module and pass it by its name.",
    ),
    "GeneratorExp": (
        "a generator expression is supported only as the sole argument of sum, min, max, any, "
        "all, list, tuple, set, frozenset or sorted",
        "Write a list: [... for ...].",
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
    "super": ("'super' is not supported", "Name the base class: Base.method(self, ...)."),
    "breakpoint": (
        "'breakpoint' is not supported in a compiled function",
        "Set JITCORE_JIT=0 to run plain Python under a debugger.",
    ),
}
"""Built-in functions that look at the frame they are called from."""

_ANYWHERE = frozenset(_SYNTAX) - {
    "With",
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

    ``yield`` and ``global`` change the whole function even where they are never reached.
    """
    waiting: list[ast.AST] = list(reversed(body))
    while waiting:
        node = waiting.pop()
        if type(node).__name__ in _ANYWHERE:
            return node
        waiting += reversed(list(ast.iter_child_nodes(node)))
    return None
