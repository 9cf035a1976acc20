"""Types such as ``list[int]`` and ``int | None`` as values; programs ask ``jitcore.isinstance``."""

from __future__ import annotations

import functools
import operator
import types
import typing
from typing import TYPE_CHECKING, Any

from jitcore.errors import SerializationError

if TYPE_CHECKING:
    from jitcore.serialization.writer import Row, Writer

__all__ = ["describe_annotation", "is_annotation", "make_annotation"]

_ALIASES = (types.GenericAlias, type(typing.List[int]))  # noqa: UP006
_UNIONS = (types.UnionType, type(typing.Optional[int]))  # noqa: UP045
_ORIGINS = (list, dict, set, frozenset, tuple, type)


def is_annotation(value: Any) -> bool:
    """Whether a value is a type with arguments."""
    return isinstance(value, _ALIASES + _UNIONS) and bool(typing.get_args(value))


def describe_annotation(writer: Writer, value: Any, number: int) -> Row:
    """The row of a type with arguments."""
    arguments = [writer.reference(one) for one in typing.get_args(value)]
    origin = typing.get_origin(value)
    if origin in (typing.Union, types.UnionType):
        return {"kind": "annotation", "origin": "union", "arguments": arguments}
    if origin not in _ORIGINS:
        raise SerializationError(f"cannot save the annotation {value}")
    return {"kind": "annotation", "origin": origin.__name__, "arguments": arguments}


def make_annotation(origin: str, arguments: list[Any]) -> Any:
    """The type with these arguments.

    Raises
    ------
    SerializationError
        There is no such type.
    """
    classes = {one.__name__: one for one in _ORIGINS}
    kinds = (type, types.NoneType, *_ALIASES, *_UNIONS)
    if not all(isinstance(one, kinds) or one is Ellipsis or one is typing.Any for one in arguments):
        raise SerializationError("the archive has a type with an argument that is no type")
    try:
        if origin == "union":
            return functools.reduce(operator.or_, arguments)
        return types.GenericAlias(classes[origin], tuple(arguments))
    except (KeyError, TypeError) as error:
        raise SerializationError(f"the archive has no valid type: {error}") from error
