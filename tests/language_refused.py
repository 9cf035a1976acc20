"""What compiled functions refuse: the source, and the place, message and hint of the error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from checking import function_from_source

__all__ = ["REFUSED", "function"]

REFUSED: dict[str, tuple[str, str, str, str]] = {
    "`yield`": (
        "def f(x):\n    for v in x:\n        yield v\n",
        "3:8",
        "'yield' is not supported: a compiled function cannot be a generator",
        "Append the values to a list and return that, or mark the function with @jitcore.ignore",
    ),
    "`yield from`": (
        "def f(x):\n    yield from x\n",
        "2:4",
        "'yield from' is not supported",
        "Extend a list with the values and return that, or mark",
    ),
    "`async`, `await`": (
        "async def f(x):\n    return await x\n",
        "1:0",
        "'f' is a coroutine; 'async def' is not supported",
        "Compile a plain function and call it from the coroutine.",
    ),
    "jumps out of `finally`": (
        "def f(x):\n    try:\n        x = 1 / x\n    finally:\n        return x\n",
        "5:8",
        "'return', 'break' and 'continue' are not supported in a 'finally' block",
        "Put the jump after the 'try' statement",
    ),
    "`except*`": (
        "def f(x):\n    try:\n        x = 1 / x\n    except* ValueError:\n        pass\n",
        "2:4",
        "'except\\*' is not supported",
        "Write one 'except' for each class of exceptions",
    ),
    "classes defined in a function": (
        "def f(x):\n    class C:\n        pass\n    return C()\n",
        "2:4",
        "a class cannot be defined in a compiled function",
        "Define the class at the top level of the module; compiled functions may use it there.",
    ),
    "`locals`, `globals`, `eval`, `exec`": (
        "def f(x):\n    return locals()\n",
        "2:11",
        "'locals' is not supported in a compiled function",
        "Name the variables that you need, in a dict for instance: {'x': x}.",
    ),
}


def function(source: str) -> Callable[..., Any]:
    """The function ``f`` of one of the sources."""
    return function_from_source(source)
