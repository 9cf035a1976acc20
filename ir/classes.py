"""What Python's functions and classes say about calls and attributes, and where they say it."""

from __future__ import annotations

import abc
import gc
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from enum import Enum
from functools import partial
from types import (
    BuiltinFunctionType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    ModuleType,
)
from typing import Any

import numpy as np

from jitcore.ir.graph import Capture

__all__ = [
    "MISSING",
    "bind_arguments",
    "class_attribute",
    "class_captures",
    "function_of",
    "has_default",
    "has_plain_attributes",
    "is_definition",
    "is_record_class",
]


class _Missing:
    """The value of a capture whose name did not exist when the graph was built."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""``Capture.value``, and what ``Capture.read`` gives, while a name does not exist."""

_DEFINITIONS = (FunctionType, type, ModuleType, np.ufunc, Enum)


def bind_arguments(
    function: FunctionType,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    default: Callable[[inspect.Parameter], Any],
    rest: Callable[[Sequence[Any]], Any],
) -> list[Any] | None:
    """The values of all parameters in the order of the function's graph, as Python binds them.

    Parameters
    ----------
    function : function
    positional, keywords : sequence, mapping
        The arguments.
    default : callable
        Makes a value of the default of a parameter.
    rest : callable
        Makes a value of the arguments that ``*args`` takes.

    Returns
    -------
    list or None
        None where the arguments do not fit, or the function takes ``**keywords``.
    """
    signature = inspect.signature(function, follow_wrapped=False)
    try:
        bound = signature.bind(*positional, **keywords).arguments
    except TypeError:
        return None
    values = []
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            return None
        if parameter.kind is parameter.VAR_POSITIONAL:
            values.append(rest(bound.get(parameter.name, ())))
        elif parameter.name in bound:
            values.append(bound[parameter.name])
        else:
            values.append(default(parameter))
    return values


def class_attribute(class_: type, name: str, above: type | None = None) -> Any:
    """What a class or one of its bases defines under a name, undescribed; ``MISSING`` if none.

    With ``above``, only the bases after that one are asked, as ``super`` does.
    """
    for owner in _owners(class_, above):
        if name in vars(owner):
            return vars(owner)[name]
    return MISSING


def function_of(held: Any) -> Any:
    """What a class has under a name: of what `script` has made of a function, that function."""
    owners = type(held).__mro__
    is_final = any("__jitcore_graph__" in vars(owner) for owner in owners)
    if is_final or not any("__jitcore_compiles__" in vars(owner) for owner in owners):
        return held
    plain = held.__wrapped_function__
    return plain if type(plain) is FunctionType else held


def class_captures(class_: type, name: str, above: type | None = None) -> Iterator[Capture]:
    """What must stay the same for ``class_attribute`` to give the same again.

    Classes that Python code can change are captured: each that is asked for the name, in order.
    """
    for owner in _owners(class_, above):
        if owner.__flags__ & _HEAP_TYPE:
            path = f"{owner.__qualname__}.{name}"
            (namespace,) = gc.get_referents(vars(owner))
            held = vars(owner).get(name, MISSING)
            read = _reader(owner, name)
            yield Capture(path, read, held, container=namespace, key=name)
        if name in vars(owner):
            return


def _owners(class_: type, above: type | None) -> Sequence[type]:
    owners = class_.__mro__
    return owners[owners.index(above) + 1 :] if above in owners else owners


_HEAP_TYPE = 1 << 9


def has_plain_attributes(class_: Any) -> bool:
    """Whether reading an attribute of an object of a user's class runs no code but properties."""
    if type(class_) not in (type, abc.ABCMeta):
        return False
    if not all(owner.__flags__ & _HEAP_TYPE for owner in class_.__mro__[:-1]):
        return False
    if class_attribute(class_, "__getattr__") is not MISSING:
        return False
    if not isinstance(class_attribute(class_, "__dict__"), GetSetDescriptorType | _Missing):
        return False
    return class_.__getattribute__ is object.__getattribute__ and class_ is not object


def has_default(class_: type, name: str) -> bool:
    """Whether an object that does not have an attribute itself has one from its class."""
    held = class_attribute(class_, name)
    return held is not MISSING and not isinstance(held, MemberDescriptorType)


def is_record_class(class_: Any) -> bool:
    """Whether objects of a class are made by ``__init__`` and have plain attributes."""
    if not has_plain_attributes(class_) or getattr(class_, "__abstractmethods__", None):
        return False
    if class_attribute(class_, "__del__") is not MISSING or class_.__new__ is not object.__new__:
        return False
    if not all(map(partial(_is_plain, class_), ("__setattr__", "__delattr__"))):
        return False
    return isinstance(function_of(class_attribute(class_, "__init__")), FunctionType)


def _is_plain(class_: Any, name: str) -> bool:
    """Whether ``__setattr__`` is Python's own, or raises in a frozen dataclass."""
    held = class_attribute(class_, name)
    if held is vars(object)[name]:
        return True
    is_generated = isinstance(held, FunctionType) and held.__code__.co_filename == "<string>"
    return is_generated and is_dataclass(class_)


def _reader(class_: type, name: str) -> Callable[[], Any]:
    return lambda: vars(class_).get(name, MISSING)


def is_definition(value: Any) -> bool:
    """Whether all that matters about an object is which one it is.

    A method of an object of Python's, such as the ``append`` of a list, is another one each time it
    is read, and other callable objects have contents, which may change.
    """
    if type(value) is BuiltinFunctionType:
        return isinstance(value.__self__, ModuleType | type | None)
    return issubclass(type(value), _DEFINITIONS)
