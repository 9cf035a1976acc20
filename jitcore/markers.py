"""What a program says to the compiler: which functions to leave alone, and what types are meant."""

from __future__ import annotations

import builtins
import functools
import types
import typing
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, overload

from jitcore.tracing.state import is_recording

__all__ = [
    "Attribute",
    "ScriptIfTracing",
    "annotate",
    "export",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "script_if_tracing",
    "unused",
]

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])
AnyClass = TypeVar("AnyClass", bound=type)
T = TypeVar("T")


class Attribute(NamedTuple):
    """A value with the type that is meant; for attributes of modules.

    Python's own annotations say the same: ``self.names: list[str] = []``.
    """

    value: Any
    type: Any


@overload
def ignore(function: AnyFunction) -> AnyFunction: ...
@overload
def ignore(*, drop: bool = False) -> Callable[[AnyFunction], AnyFunction]: ...
def ignore(function: Any = None, *, drop: bool = False) -> Any:
    """Leave a function or method as it is: compiled code calls Python there.

    Parameters
    ----------
    function : callable
        May use all of Python.
    drop : bool
        Raise instead of calling, as `unused` does.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.ignore
    ... def lines(text):
    ...     yield from text.splitlines()
    >>> @jitcore.script
    ... def count(text):
    ...     return len(list(lines(text)))
    >>> count("a" + chr(10) + "b")
    2
    """
    mark = "unused" if drop else "ignore"
    if function is None:
        return lambda one: _marked(one, mark)
    return _marked(function, mark)


def unused(function: AnyFunction) -> AnyFunction:
    """Do not compile a function or method: compiled code that calls it raises `Error`.

    For parts that only uncompiled code needs, so that the rest can be compiled and saved.
    """
    return _marked(function, "unused")


def export(function: AnyFunction) -> AnyFunction:
    """Compile a method of a module although ``forward`` does not call it; functions always are."""
    return _marked(function, "export")


def _marked(function: AnyFunction, mark: str) -> AnyFunction:
    target: Any = function.fget if builtins.isinstance(function, property) else function
    target.__jitcore_mark__ = mark
    return function


def interface(class_: AnyClass) -> AnyClass:
    """Declare a class to be an interface: its methods say what other classes must have.

    Compiled code calls methods by name, as Python does, so that any object that has them fits.
    """
    if not builtins.isinstance(class_, type):
        raise TypeError(f"interface() takes a class; found {type(class_).__name__}")
    class_.__jitcore_mark__ = "interface"  # type: ignore[attr-defined]
    return class_


def annotate(the_type: type[T] | Any, the_value: T) -> T:
    """``the_value``; tells readers, and the compiler, that ``the_type`` is meant.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.annotate(list[int], [])
    []
    """
    return the_value


def is_scripting() -> bool:
    """Whether this is compiled code: True there, False in plain Python."""
    return False


def is_tracing() -> bool:
    """Whether `trace` runs this function now: False in compiled code, and in plain Python."""
    return is_recording()


class ScriptIfTracing:
    """A function that is called as it is, and as a compiled one where a trace calls it."""

    def __init__(self, function: Any) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped_function__ = function
        self._scripted: Any = None

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if not is_tracing():
            return self.__wrapped_function__(*args, **keywords)
        if self._scripted is None:
            self._scripted = import_module("jitcore.script").script(self.__wrapped_function__)
        return self._scripted(*args, **keywords)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)


def script_if_tracing(fn: Callable[..., Any]) -> ScriptIfTracing:
    """Compile a function when a trace calls it first, so that its control flow is in the trace.

    Everywhere else it stays plain Python.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.script_if_tracing
    ... def clipped(x, limit):
    ...     if x.max() > limit:
    ...         x = np.minimum(x, limit)
    ...     return x
    >>> traced = jitcore.trace(lambda x: clipped(x, 2.0) + 1, np.zeros(3))
    >>> traced(np.array([1.0, 5.0]))
    array([2., 3.])
    """
    return ScriptIfTracing(fn)


@ignore
def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value has a type, the types of a container's elements included.

    Parameters
    ----------
    obj : object
    target_type : type or tuple of types
        Classes, ``list[int]``, ``dict[str, float]``, ``tuple[int, str]``, ``Optional[int]``,
        ``Union[int, str]`` and nested ones.  An empty container has any type of its kind.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.isinstance([1, 2], list[int]), jitcore.isinstance([1, "a"], list[int])
    (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    if target_type is None:
        return obj is None
    if target_type is Any:
        return True
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in arguments)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    return builtins.isinstance(obj, origin) and _has_elements(obj, origin, arguments)


def _has_elements(obj: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a container's elements have the types of its annotation's arguments."""
    if issubclass(origin, dict):
        key, value = arguments
        return all(isinstance(k, key) and isinstance(v, value) for k, v in obj.items())
    if issubclass(origin, tuple) and Ellipsis not in arguments:
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(item, arguments[0]) for item in obj)
