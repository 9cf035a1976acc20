"""Arrays and random generators that a function has from closures and globals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.frontend import is_library
from jitcore.tracing.outside import GENERATORS
from jitcore.tracing.tracer import Tracer
from jitcore.tracing.values import Traced

__all__ = ["captured_names"]


@contextmanager
def captured_names(tracer: Tracer, functions: Iterable[Any]) -> Iterator[None]:
    """Have traced values in the places of what functions, and those they call, have from outside.

    A name that the function itself has given a traced value gets the concrete one in the end.
    """
    places = list(_places(functions))
    before = [(place, name, held) for place, name in places if (held := _read(place, name))]
    try:
        for place, name, (held,) in before:
            if type(held) is np.ndarray or isinstance(held, GENERATORS):
                _write(place, name, tracer.capture(name, place, name, held))
            else:
                tracer.outside.watch(name, held)
        yield
    finally:
        _restore(tracer, places, {(id(p), name): held for p, name, (held,) in before})


def _restore(
    tracer: Tracer,
    places: list[tuple[dict[str, Any] | CellType, str]],
    before: dict[tuple[int, str], Any],
) -> None:
    for place, name in places:
        now = _read(place, name)
        if not now or type(now[0]) is not Traced or now[0]._owner is not tracer:
            continue
        if now[0] is tracer.captured_at(place, name):
            _write(place, name, before[id(place), name])
            continue
        _write(place, name, now[0]._concrete)
        tracer.warn(
            f"The traced function assigns '{name}', a variable from outside: the trace does not, "
            "which might cause it to be incorrect"
        )


def _places(functions: Iterable[Any]) -> Iterator[tuple[dict[str, Any] | CellType, str]]:
    """The cells and globals that functions read, with those of the functions found in them."""
    waiting = [_plain(one) for one in functions]
    seen: set[tuple[int, str]] = set()
    while waiting:
        function = waiting.pop()
        if function is None or is_library(function.__code__.co_filename):
            continue
        for place, name in _names(function):
            if (id(place), name) in seen:
                continue
            seen.add((id(place), name))
            yield place, name
            waiting += [_plain(held) for held in _read(place, name)]


def _plain(value: Any) -> FunctionType | None:
    if isinstance(value, MethodType):
        value = value.__func__
    return value if type(value) is FunctionType else None


def _names(function: FunctionType) -> Iterator[tuple[dict[str, Any] | CellType, str]]:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        yield cell, name
    for name in _globals_of(function.__code__):
        if name in function.__globals__:
            yield function.__globals__, name


def _globals_of(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _globals_of(constant)


def _read(place: dict[str, Any] | CellType, name: str) -> tuple[Any, ...]:
    """What is there, in a tuple; an empty one where nothing is."""
    if isinstance(place, dict):
        return (place[name],) if name in place else ()
    try:
        return (place.cell_contents,)
    except ValueError:
        return ()


def _write(place: dict[str, Any] | CellType, name: str, value: Any) -> None:
    if isinstance(place, dict):
        place[name] = value
    else:
        place.cell_contents = value
