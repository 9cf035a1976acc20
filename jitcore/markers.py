"""What a program says to the compiler: which functions to leave alone, and what types are meant."""

from __future__ import annotations

import builtins
import functools
import types
import typing
from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

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
    target: Any = function
    if builtins.isinstance(function, property):
        target = function.fget
    elif builtins.isinstance(function, (staticmethod, classmethod)):
        target = function.__func__
    try:
        target.__jitcore_mark__ = mark
    except AttributeError:
        found = type(function).__name__
        raise TypeError(f"{mark}() takes a function written in Python; found {found}") from None
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
    if not callable(fn):
        raise TypeError(f"script_if_tracing() takes a function; found {type(fn).__name__}")
    return ScriptIfTracing(fn)


@ignore
def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether a value has a type, the types of a container's elements included.

    Parameters
    ----------
    obj : object
    target_type : type or tuple of types
        Classes, ``list[int]``, ``dict[str, float]``, ``tuple[int, str]``, ``Optional[int]``,
        ``Union[int, str]``, ``Literal["a"]``, ``NDArray[np.float32]`` and nested ones.  An empty
        container has any type of its kind.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.isinstance([1, 2], list[int]), jitcore.isinstance([1, "a"], list[int])
    (True, False)
    """
    if builtins.isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    target_type = _without_alias(target_type)
    if target_type is None:
        return obj is None
    if target_type is Any:
        return True
    origin, arguments = typing.get_origin(target_type), typing.get_args(target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in arguments)
    if origin is typing.Literal:
        return any(type(obj) is type(one) and obj == one for one in arguments)
    if origin is None:
        return builtins.isinstance(obj, target_type)
    return builtins.isinstance(obj, origin) and _has_arguments(obj, origin, arguments)


def _without_alias(target_type: Any) -> Any:
    """What the name that a ``type`` statement makes stands for; ``NDArray`` is one in NumPy 2.5."""
    origin = typing.get_origin(target_type)
    if builtins.isinstance(origin, _ALIAS):
        return _without_alias(origin.__value__[typing.get_args(target_type)])
    if builtins.isinstance(target_type, _ALIAS):
        return _without_alias(target_type.__value__)
    return target_type


_ALIAS: Any = getattr(typing, "TypeAliasType", ())
"""From Python 3.12 on."""


def _has_arguments(obj: Any, origin: Any, arguments: tuple[Any, ...]) -> bool:
    """Whether a container's or an array's elements have the types that an annotation names."""
    if not arguments:
        return True
    if issubclass(origin, np.ndarray):
        shape, dtype = arguments
        elements = typing.get_args(dtype)
        return isinstance(obj.shape, shape) and all(_is_kind(obj.dtype.type, k) for k in elements)
    if not issubclass(origin, Collection):
        raise TypeError(f"isinstance() looks into containers only; found {origin.__name__}[...]")
    if issubclass(origin, Mapping):
        key, value = arguments
        return all(isinstance(k, key) and isinstance(v, value) for k, v in obj.items())
    if issubclass(origin, tuple) and Ellipsis not in arguments:
        return len(obj) == len(arguments) and all(map(isinstance, obj, arguments))
    return all(isinstance(item, arguments[0]) for item in obj)


def _is_kind(scalar: type, kind: Any) -> bool:
    """Whether elements of a scalar type have a kind: a scalar type, or a union of some."""
    if kind is Any:
        return True
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return any(_is_kind(scalar, one) for one in typing.get_args(kind))
    return issubclass(scalar, typing.get_origin(kind) or kind)
