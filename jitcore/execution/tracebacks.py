"""Tracebacks of compiled functions: what a user sees of them are the user's own lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import CodeType, FunctionType, TracebackType
from typing import Any, TypeVar

from jitcore.codegen.host.places import in_user_code, is_generated, is_internal
from jitcore.errors import Error
from jitcore.frontend.libraries import is_library

__all__ = ["for_user", "is_users", "speaks_for_python"]

AnyException = TypeVar("AnyException", bound=BaseException)
AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])

_SPEAKERS: set[CodeType] = set()


def speaks_for_python(function: AnyFunction) -> AnyFunction:
    """Mark a function of this package whose exceptions are those of the user's call."""
    _SPEAKERS.add(function.__code__)
    return function


def for_user(error: AnyException) -> AnyException:
    """An exception that leaves a compiled function, without what this package did in between.

    What this package itself got wrong keeps all of its traceback.
    """
    if error.__cause__ is None and error.__context__ is None:
        _clean(error)
        return error
    for one in _chain(error):
        _clean(one)
    return error


def is_users(function: Callable[..., Any]) -> bool:
    """Whether a function is a user's as it was written: its exceptions stay as they are."""
    if type(function) is not FunctionType:
        return False
    file = function.__code__.co_filename
    return not (is_library(file) or is_generated(file))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception and those that led to it, each once."""
    seen: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and not any(one is other for other in seen):
            seen.append(one)
            yield one
            waiting += [one.__cause__, one.__context__]


def _clean(error: BaseException) -> None:
    first = _after_package(error.__traceback__)
    if first is not None:
        error.__traceback__ = first
        return
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    if last is None:
        return
    file = last.tb_frame.f_code.co_filename
    is_ours = is_internal(file) and not is_generated(file)
    if not is_ours or isinstance(error, Error) or last.tb_frame.f_code in _SPEAKERS:
        in_user_code(error)


def _after_package(step: TracebackType | None) -> TracebackType | None:
    """A traceback without the package's frames, where they are its first ones only; else None."""
    while step is not None and is_internal(step.tb_frame.f_code.co_filename):
        step = step.tb_next
    first = step
    while step is not None:
        file = step.tb_frame.f_code.co_filename
        if is_internal(file) or is_generated(file):
            return None
        step = step.tb_next
    return first
