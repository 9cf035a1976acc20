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
        "Append the values to a list and return that.",
    ),
    "`yield from`": (
        "def f(x):\n    yield from x\n",
        "2:4",
        "'yield from' is not supported",
        "Extend a list with the values and return that.",
    ),
    "`async`, `await`": (
        "async def f(x):\n    return await x\n",
        "1:0",
        "'f' is a coroutine; 'async def' is not supported",
        "Compile a plain function and call it from the coroutine.",
    ),
    "recursion": (
        "def f(n):\n    return 1 if n < 2 else n * f(n - 1)\n",
        "2:31",
        "'f' calls itself",
        "Write it as a loop.",
    ),
    "`global`": (
        "def f(x):\n    global y\n    y = x\n",
        "2:4",
        "'global' is not supported in a compiled function",
        "Return the new value and assign it to the global where the function is called.",
    ),
    "`nonlocal`": (
        "def f(n):\n    k = 0\n    def g():\n        nonlocal k\n        k += 1\n    g()\n"
        "    return k\n",
        "4:8",
        "'nonlocal' is not supported in a compiled function",
        "Return the new value and assign it where the function is called.",
    ),
    "functions that outlive changes of what they read": (
        "def f(n):\n    fs = []\n    for i in range(n):\n        fs.append(lambda: i)\n"
        "    return fs\n",
        "4:18",
        "this function reads 'i', which is assigned more than once",
        "Fix the value with a default, i=i",
    ),
    "jumps out of `finally`": (
        "def f(x):\n    try:\n        x = 1 / x\n    finally:\n        return x\n",
        "5:8",
        "'return', 'break' and 'continue' are not supported in a 'finally' block",
        "Put them after the 'try' statement.",
    ),
    "`except*`": (
        "def f(x):\n    try:\n        x = 1 / x\n    except* ValueError:\n        pass\n",
        "2:4",
        "'except\\*' is not supported",
        "Catch the exceptions in the code that calls the compiled function.",
    ),
    "`match`": (
        "def f(x):\n    match x:\n        case 1:\n            return 2\n",
        "2:4",
        "'match' is not supported",
        "Write it with 'if' and 'elif'.",
    ),
    "classes defined in a function": (
        "def f(x):\n    class C:\n        pass\n    return C()\n",
        "2:4",
        "a class cannot be defined in a compiled function",
        "Define the class at the top level of the module.",
    ),
    "`locals`, `globals`, `eval`, `exec`": (
        "def f(x):\n    return locals()\n",
        "2:11",
        "'locals' is not supported",
        "Name the variables that you need.",
    ),
}


def function(source: str) -> Callable[..., Any]:
    """The function ``f`` of one of the sources."""
    return function_from_source(source)
