"""What a trace changes while it runs, so that it sees what no protocol shows.

NumPy's functions that make arrays (``np.zeros``), the ``math`` module and the functions of layers
take no part in NumPy's protocols.  While a function is traced, the modules have recording forms of
them in their places, which record in the tracing thread, for code of the user's, and are the plain
functions everywhere else.  The front end looks through them (``frontend.names``).
"""

from __future__ import annotations

import functools
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from jitcore.frontend import is_library
from jitcore.frontend.constants import numpy_name
from jitcore.ir.classes import MISSING
from jitcore.script import ScriptFunction, no_direct_calls
from jitcore.tracing.outside import GENERATORS
from jitcore.tracing.places import is_of_compiler
from jitcore.tracing.state import active
from jitcore.tracing.tracer import Tracer
from jitcore.tracing.values import has_traced

__all__ = ["Patch", "patched", "recording_form"]

_lock = threading.RLock()

Patch = tuple[Any, str, Any]


@contextmanager
def patched() -> Iterator[None]:
    """Record what no protocol shows; one trace at a time."""
    with _lock:
        originals: list[tuple[Any, str, Any]] = []
        try:
            for owner, name, replacement in (*_patches(), *_layer_patches()):
                originals.append((owner, name, vars(owner).get(name, MISSING)))
                setattr(owner, name, replacement)
            with no_direct_calls():
                yield
        finally:
            for owner, name, original in reversed(originals):
                if original is MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, original)


def _layer_patches() -> Sequence[Patch]:
    """Those of layers; where nobody has imported those, there are none."""
    if "jitcore.nn" not in sys.modules:
        return ()
    found: Sequence[Patch] = import_module("jitcore.tracing.layers").layer_patches()
    return found


@functools.cache
def _patches() -> tuple[Patch, ...]:
    modules: tuple[tuple[ModuleType, Callable[..., Any]], ...] = (
        (np, _creating),
        (np.random, _drawing),
        (np.fft, _creating),
        (np.linalg, _creating),
        (math, _of_numbers),
    )
    found: list[Patch] = [(import_module("jitcore.script"), "take_call", _take_call)]
    for module, recording in modules:
        for name, function in vars(module).items():
            if not name.startswith("_") and _is_recordable(module, function):
                found.append((module, name, recording(function)))
            elif isinstance(function, _INDEXED):
                found.append((module, name, _Indexed(function)))
    return tuple(found)


class _Indexed:
    """Stands for ``np.r_`` and its like, which make an array of what they are indexed with."""

    __jitcore_recorded__: Any = None

    def __init__(self, indexed: Any) -> None:
        self.__jitcore_recorded__ = indexed

    def __getitem__(self, index: Any) -> Any:
        recorder = active()
        if recorder is None or is_library(sys._getframe(1).f_code.co_filename):
            return self.__jitcore_recorded__[index]
        return recorder.record(
            "prim::getitem", operator.getitem, (self.__jitcore_recorded__, index)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__jitcore_recorded__, name)


_INDEXED = tuple(type(one).__mro__[-2] for one in (np.r_, np.mgrid))
"""The classes behind ``r_`` and ``c_``, ``mgrid`` and ``ogrid``, which have no public names."""


def _is_recordable(module: ModuleType, function: Any) -> bool:
    """Whether an attribute of a module is a function that a trace should see called."""
    if isinstance(function, (type, ModuleType, np.ufunc)) or not hasattr(function, "__name__"):
        return False
    return module is math or numpy_name(function) is not None


def recording_form(function: Any, form: Callable[..., Any]) -> Callable[..., Any]:
    """Mark what stands in a function's place, so that the front end finds the function."""
    form.__jitcore_recorded__ = function  # type: ignore[attr-defined]
    form.__name__ = function.__name__
    form.__doc__ = function.__doc__
    return form


def _is_called_by_library() -> bool:
    """Whether the caller is no code of the user's, and none of layers."""
    file = sys._getframe(2).f_code.co_filename
    return is_library(file) or is_of_compiler(file)


def _creating(function: Any) -> Callable[..., Any]:
    """Recorded where it is called with traced values, or gives an array or a generator."""

    def form(*args: Any, **keywords: Any) -> Any:
        recorder = active()
        if recorder is None or _is_called_by_library():
            return function(*args, **keywords)
        if has_traced((args, keywords)):
            return recorder.call(function, args, keywords)
        result = function(*args, **keywords)
        if not isinstance(result, (np.ndarray, *GENERATORS)):
            return result
        return recorder.call(function, args, keywords, lambda *args, **keywords: result)

    return recording_form(function, form)


def _drawing(function: Any) -> Callable[..., Any]:
    """Recorded always: it uses or sets the state of NumPy's own generator."""

    def form(*args: Any, **keywords: Any) -> Any:
        recorder = active()
        if recorder is None or _is_called_by_library():
            return function(*args, **keywords)
        return recorder.call(function, args, keywords)

    return recording_form(function, form)


def _of_numbers(function: Any) -> Callable[..., Any]:
    """Recorded where it is called with traced numbers."""

    def form(*args: Any, **keywords: Any) -> Any:
        recorder = active()
        # Of an array NumPy makes a number, or raises.
        numbers = not any(isinstance(one, np.ndarray) for one in args)
        if recorder is None or not numbers or not has_traced(args):
            return function(*args, **keywords)
        return recorder.call(function, args, keywords)

    return recording_form(function, form)


def _take_call(function: ScriptFunction, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """Recorded as a call, with the control flow of the function."""
    recorder = active()
    if not isinstance(recorder, Tracer):
        return function.compile_and_run(args, keywords)
    return recorder.call_script(function, args, keywords)
