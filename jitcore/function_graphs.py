"""The graphs of functions: those that users compile, and those that come in as values."""

from __future__ import annotations

from collections.abc import Collection
from types import FunctionType, MethodType
from typing import Any

from jitcore.errors import CompilationError
from jitcore.frontend import compile_function, is_library
from jitcore.frontend.constants import function_mark, saved_program, wrapped_function
from jitcore.frontend.names import Place
from jitcore.ir.graph import Graph
from jitcore.ir.ops import kind_of
from jitcore.ir.types import OpenFunction

__all__ = ["compile_argument", "graph_of"]


def graph_of(
    function: FunctionType | MethodType | OpenFunction,
    assigned: Collection[str] = (),
    varying: Collection[Place] = (),
) -> Graph:
    """The graph of a function's source; `CompilationError` where it cannot be compiled."""
    return compile_function(function, lookup_op=kind_of, assigned=assigned, varying=varying)


def compile_argument(function: Any, assigned: Collection[str] = ()) -> Graph | None:
    """The graph of a Python function that came in as an argument; None of what is left alone.

    Parameters
    ----------
    function : callable or OpenFunction
    assigned : collection of str
        The attributes and variables that its caller may assign before it calls the function.
    """
    is_open = isinstance(function, OpenFunction)
    plain = function.template if is_open else wrapped_function(function)
    if plain is None or is_library(plain.__code__.co_filename) or function_mark(plain) == "ignore":
        return None
    program = saved_program(plain)
    if program is not None:
        graph: Graph = program.graph()
        return graph
    try:
        return graph_of(function if is_open else plain, assigned)
    except CompilationError:
        # Nobody asked for it to be compiled: Python calls it.
        return None
