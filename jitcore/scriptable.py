"""What ``script`` takes besides functions and modules, and what to take instead of the rest."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.errors import CompilationError
from jitcore.frontend import is_library
from jitcore.frontend.constants import function_mark, marker
from jitcore.frontend.source import has_source
from jitcore.function_graphs import graph_of

__all__ = ["check_class", "instead_of", "is_object", "is_shared"]


def is_shared(value: Any) -> bool:
    """Whether a value is a list, a dict or an object: compiled code shares it with its caller."""
    return isinstance(value, (list, dict)) or is_object(value)


def is_object(value: Any) -> bool:
    """Whether a value is an object of a class that the user's Python defines."""
    if isinstance(value, type) or callable(value):
        return False
    files = (function.__code__.co_filename for function in _functions_in(type(value)))
    return not all(map(is_library, files))


def check_class(class_: type) -> None:
    """Compile all methods of a class.

    Raises
    ------
    CompilationError
        One of them uses something that is not supported, or it is a class of modules: each of
        those is compiled for itself.
    """
    scripts_itself = any("__jitcore_original__" in vars(base) for base in class_.__mro__)
    if marker(class_, "__jitcore_module__") is True and not scripts_itself:
        raise CompilationError(
            f"script() takes a module; '{class_.__name__}' is the class of one",
            hint=f"Make a module and script that: script({class_.__name__}(...)).",
        )
    for function in _functions_in(class_):
        marked = function_mark(function) in ("ignore", "unused")
        if not marked and not is_library(function.__code__.co_filename) and has_source(function):
            graph_of(function)


def _functions_in(class_: type) -> Iterator[FunctionType]:
    """The methods that a class has of users' classes, and the functions of its properties."""
    members: dict[str, Any] = {}
    for owner in reversed(class_.__mro__):
        if owner.__module__.partition(".")[0] != "jitcore":  # whose layers are known to compile
            members |= vars(owner)
    for member in members.values():
        if isinstance(member, property):
            parts = (member.fget, member.fset, member.fdel)
        else:
            parts = (getattr(member, "__func__", member), None, None)
        yield from (part for part in parts if isinstance(part, FunctionType))


def instead_of(value: Any) -> str:
    """What to script in place of something that cannot be."""
    if isinstance(value, MethodType):
        return "Put @script on the function in the class, and call the method as before."
    if isinstance(value, functools.partial):
        return "Script a function that makes the call with all its arguments."
    if not callable(value):
        return "Put @script on a function, or call script(function)."
    of_numpy = str(getattr(value, "__module__", "")).partition(".")[0] == "numpy"
    if isinstance(value, (np.ufunc, BuiltinFunctionType)) or of_numpy:
        return "Script the function of yours that calls it."
    if isinstance(getattr(value, "__wrapped__", None), FunctionType):
        return (
            "Put @script right above the function, below the decorator that wraps it; "
            "the function itself is its __wrapped__."
        )
    return "Script a function, and pass it what the object holds."
