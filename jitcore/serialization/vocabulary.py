"""The Python objects that a saved program may name: a closed list, by name.

A file names an object, and the list says which one that is; nothing is imported or looked up along
a path that a file gives.  Nothing on the list opens files or runs text.  This keeps loading safe;
it is no sandbox for a program that is called.
"""

from __future__ import annotations

import abc
import builtins
import cmath
import collections
import collections.abc
import contextlib
import copy
import dataclasses
import enum
import functools
import itertools
import math
import operator
import sys
import time
import types
import typing
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from jitcore import errors, futures, markers
from jitcore.frontend.constants import function_mark, numpy_name
from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.serialization.attribute_names import CHECKED_FUNCTIONS, attribute_problem

__all__ = ["MODULES", "is_base_class", "known_name", "known_object"]

MODULES: Mapping[str, ModuleType] = {
    "numpy": np,
    "numpy.fft": np.fft,
    "numpy.linalg": np.linalg,
    "numpy.random": np.random,
    "math": math,
    "cmath": cmath,
    "operator": operator,
    "itertools": itertools,
}
"""What a program may name as modules, to call their functions."""

_NUMPY_MODULES = ("fft", "linalg", "random", "lib.stride_tricks", "emath", "strings", "polynomial")

_REFUSED_TEXT = """
    numpy.DataSource numpy.bmat numpy.from_dlpack numpy.fromfile numpy.fromregex numpy.genfromtxt
    numpy.get_include numpy.geterrcall numpy.info numpy.load numpy.loadtxt numpy.memmap numpy.save
    numpy.savetxt numpy.savez numpy.savez_compressed numpy.set_printoptions numpy.setbufsize
    numpy.seterr numpy.seterrcall numpy.show_config numpy.show_runtime numpy.test
    numpy.nested_iters numpy.lib.stride_tricks.as_strided
    numpy.fft.test numpy.linalg.test numpy.random.test operator.attrgetter operator.methodcaller
"""
_REFUSED = frozenset(_REFUSED_TEXT.split())

_BUILTINS = """
    abs all any ascii bin bool bytearray bytes callable chr classmethod complex delattr dict divmod
    enumerate filter float format frozenset getattr hasattr hash hex id int isinstance issubclass
    iter len list map max min next NotImplemented object oct ord pow print property range repr
    reversed round set setattr slice sorted staticmethod str sum super tuple type zip
"""
_NUMPY_OBJECTS = """
    broadcast c_ dtype errstate index_exp matrix mgrid ndarray ndenumerate ndindex ogrid poly1d r_
    s_ vectorize
"""
_NAMED: tuple[tuple[ModuleType, str], ...] = (
    (abc, "ABC"),
    (builtins, _BUILTINS),
    (collections, "Counter OrderedDict defaultdict deque"),
    (collections.abc, "Mapping Sequence"),
    (contextlib, "nullcontext suppress"),
    (copy, "copy deepcopy"),
    (dataclasses, "asdict astuple replace"),
    (enum, "Enum Flag IntEnum IntFlag StrEnum"),
    (functools, "cmp_to_key partial reduce"),
    (np, _NUMPY_OBJECTS),
    (np.linalg, "LinAlgError"),
    (np.random, "Generator MT19937 PCG64 Philox RandomState SFC64 SeedSequence"),
    (time, "monotonic perf_counter time"),
    (types, "CellType NoneType"),
    (typing, "Any Callable Dict Generic List Optional Set Tuple Union"),
    (warnings, "warn"),
)
"""Objects that are named one by one."""


_OF_LAYERS: Mapping[str, str] = {
    "jitcore.nn.Buffer": "jitcore.nn.parameter",
    "jitcore.nn.Kind": "jitcore.nn.registry",
    "jitcore.nn.Parameter": "jitcore.nn.parameter",
}
"""Classes beside those of layers, and their modules, which only programs with layers import."""


def known_object(name: str) -> Any:
    """The object of a name; ``KeyError`` for all names that are not on the list."""
    if name in _OF_LAYERS:
        return getattr(import_module(_OF_LAYERS[name]), name.rpartition(".")[2])
    return CHECKED_FUNCTIONS[name] if name in CHECKED_FUNCTIONS else _objects()[name]


def known_name(value: Any) -> str | None:
    """The name of an object that is on the list, or None."""
    found = _names().get(id(value))
    if found is not None:
        return found
    if isinstance(value, BuiltinFunctionType) and isinstance(value.__self__, type | np.ufunc):
        # Such a method is another object each time.
        name = f"{_names().get(id(value.__self__))}.{value.__name__}"
        return name if _objects().get(name) == value else None
    for name, replacement in CHECKED_FUNCTIONS.items():
        if value is replacement:
            return name
    for name, module in _OF_LAYERS.items():
        if module in sys.modules and value is known_object(name):
            return name
    return None


@cache
def _names() -> dict[int, str]:
    names: dict[int, str] = {}
    for name, value in _objects().items():
        names.setdefault(id(value), name)
    return names


@cache
def _objects() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for group in (
        _plain_objects(),
        _numpy_functions(),
        _numpy_classes(),
        _module_functions(),
        _methods(),
    ):
        for name, value in group:
            if name not in _REFUSED:
                found.setdefault(name, value)
    return found


def _plain_objects() -> Iterator[tuple[str, Any]]:
    yield from MODULES.items()
    for module, names in _NAMED:
        for name in names.split():
            yield f"{module.__name__}.{name}", getattr(module, name)
    for name, value in vars(builtins).items():
        if isinstance(value, type) and issubclass(value, BaseException):
            yield f"builtins.{name}", value
    yield from _own_objects()


def _own_objects() -> Iterator[tuple[str, Any]]:
    yield "jitcore.isinstance", markers.isinstance
    yield "jitcore.MISSING", MISSING
    yield "jitcore.Future", futures.Future
    yield "jitcore.fork", futures.fork
    yield "jitcore.fork in a script", vars(futures.fork)["__jitcore_scripted__"]
    yield "jitcore.wait", futures.wait
    for name in errors.__all__:
        value = getattr(errors, name)
        if isinstance(value, type):
            yield f"jitcore.{name}", value
    for name, value in vars(reference).items():
        if function_mark(value) == "ignore":
            yield f"jitcore.ir.reference.{name}", value


def _numpy_functions() -> Iterator[tuple[str, Any]]:
    for prefix in ("", *_NUMPY_MODULES):
        module: Any = np
        for part in filter(None, prefix.split(".")):
            module = getattr(module, part)
        for name, value in vars(module).items():
            if name.startswith("_") or isinstance(value, type | ModuleType):
                continue
            path = f"numpy.{prefix}.{name}" if prefix else f"numpy.{name}"
            if numpy_name(value) is not None:
                yield path, value
            if isinstance(value, np.ufunc):
                for method in ("reduce", "accumulate", "outer", "at", "reduceat"):
                    yield f"{path}.{method}", getattr(value, method)


def _numpy_classes() -> Iterator[tuple[str, Any]]:
    for value in vars(np).values():
        if isinstance(value, type) and issubclass(value, np.generic):
            yield f"numpy.{value.__name__}", value
    for name, value in vars(np.exceptions).items():
        if isinstance(value, type):
            yield f"numpy.exceptions.{name}", value


def _module_functions() -> Iterator[tuple[str, Any]]:
    for module in (math, cmath, operator, itertools):
        for name, value in vars(module).items():
            if not name.startswith("_") and callable(value):
                yield f"{module.__name__}.{name}", value


_METHOD_CLASSES = (
    *(bool, bytes, complex, dict, float, frozenset, int, list, object, range, set, slice, str),
    *(tuple, np.ndarray, np.generic, np.dtype),
)
_METHODS = (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
)


_SPECIAL_METHODS = (
    "__hash__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__repr__",
)
"""Those of Python's own classes that other classes take over by name."""


def _methods() -> Iterator[tuple[str, Any]]:
    """Methods as they stand in their classes, such as ``str.upper``."""
    for class_ in _METHOD_CLASSES:
        module = class_.__module__.partition(".")[0]
        for name, held in vars(class_).items():
            if isinstance(held, WrapperDescriptorType) and name in _SPECIAL_METHODS:
                yield f"{module}.{class_.__name__}.{name}", held
            if name.startswith("_") or attribute_problem(name):
                continue
            value = getattr(class_, name)
            if isinstance(value, _METHODS):
                yield f"{module}.{class_.__name__}.{name}", value


def is_base_class(value: Any) -> bool:
    """Whether a class of the list may have classes of a file below it."""
    # By identity: whoever asks has an object of which nothing may be run.
    if any(value is one for one in _BASES):
        return True
    return isinstance(value, type) and issubclass(value, BaseException)


_BASES = (
    *(abc.ABC, typing.Generic, object, list, dict, set, tuple, int, float, str),
    *(collections.OrderedDict, collections.deque, collections.Counter),
)
