"""What Python's functions and classes say about calls and attributes, and where they say it."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

from jitcore.ir.graph import Capture

__all__ = ["MISSING", "bind_arguments", "class_attribute", "class_captures"]


class _Missing:
    """The value of a capture whose name did not exist when the graph was built."""

    def __repr__(self) -> str:
        return "MISSING"


MISSING = _Missing()
"""``Capture.value``, and what ``Capture.read`` gives, while a name does not exist."""


def bind_arguments(
    function: FunctionType,
    positional: Sequence[Any],
    keywords: Mapping[str, Any],
    default: Callable[[Any], Any],
    rest: Callable[[Sequence[Any]], Any],
) -> list[Any] | None:
    """The values of all parameters in the order of the function's graph, as Python binds them.

    Parameters
    ----------
    function : function
    positional, keywords : sequence, mapping
        The arguments.
    default : callable
        Makes a value of a parameter's default.
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
            values.append(default(parameter.default))
    return values


def class_attribute(class_: type, name: str) -> Any:
    """What a class or one of its bases defines under a name, undescribed; ``MISSING`` if none."""
    for owner in class_.__mro__:
        if name in vars(owner):
            return vars(owner)[name]
    return MISSING


def class_captures(class_: type, name: str) -> Iterator[Capture]:
    """What must stay the same for ``class_attribute`` to give the same again.

    Classes that Python code can change are captured: each that is asked for the name, in order.
    """
    for owner in class_.__mro__:
        if owner.__flags__ & _HEAP_TYPE:
            path = f"{owner.__qualname__}.{name}"
            (namespace,) = gc.get_referents(vars(owner))
            held = vars(owner).get(name, MISSING)
            read = _reader(owner, name)
            yield Capture(path, read, held, container=namespace, key=name)
        if name in vars(owner):
            return


_HEAP_TYPE = 1 << 9


def _reader(class_: type, name: str) -> Callable[[], Any]:
    return lambda: vars(class_).get(name, MISSING)
