"""Which Python objects may stand in a graph as constants, and the types they have there."""

from __future__ import annotations

import typing
from enum import Enum
from functools import lru_cache
from types import (
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    EllipsisType,
    FunctionType,
    GenericAlias,
    GetSetDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    NoneType,
    UnionType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from jitcore.ir.graph import Graph
from jitcore.ir.types import ANY, MAX_TUPLES, Type, type_of_constant

__all__ = [
    "constant_type",
    "final_graph",
    "function_mark",
    "is_constant",
    "is_layer",
    "is_number",
    "is_stable_module",
    "marker",
    "numpy_name",
    "saved_program",
    "unrecorded",
    "wrapped_function",
]

_ATOMS = (int, float, bool, complex, str, bytes, range, NoneType, EllipsisType)

_DEFINITIONS = (
    Enum,
    np.dtype,
    type,
    ModuleType,
    FunctionType,
    BuiltinFunctionType,
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
    np.ufunc,
    GenericAlias,
    UnionType,
    type(typing.List[int]),  # noqa: UP006
    type(typing.Optional[int]),  # noqa: UP045
)
"""Objects whose identity is all that matters: only a rebinding of their name is a change."""

_STABLE_MODULES = frozenset({"numpy", "math", "cmath", "builtins", "operator"})


def is_constant(value: object, nesting: int = MAX_TUPLES) -> bool:
    """Whether an object cannot change, so that a graph may be built from its value.

    Tuples in more than ``nesting`` others are like any objects.
    """
    kind = type(value)  # what ``__class__`` says may be anything
    if kind in _ATOMS:
        return True
    if issubclass(kind, tuple | frozenset):
        items: Any = value
        return nesting > 0 and all(is_constant(item, nesting - 1) for item in items)
    if issubclass(kind, np.generic):
        return not issubclass(kind, np.void)
    if issubclass(kind, _DEFINITIONS) or is_layer(value):
        return True
    if wrapped_function(value) is not None or final_graph(value) is not None:
        return True
    return numpy_name(value) is not None


def is_number(value: object) -> bool:
    """Whether a value is a number, or a tuple of numbers; a bool chooses between two graphs."""
    if type(value) is tuple:
        return all(map(is_number, value))
    return type(value) in (int, float, complex) or issubclass(type(value), np.number)


def constant_type(value: object) -> Type:
    """The type of a ``prim::Constant`` that holds ``value``."""
    too_big = type(value) is int and not -(2**63) <= value < 2**63
    return ANY if too_big else type_of_constant(value)


def wrapped_function(value: object) -> FunctionType | None:
    """A plain Python function, or the one inside a compiled function; None for all else."""
    if type(value) is FunctionType:
        return value
    # A bound method has the attributes of its function, but takes other arguments.
    if issubclass(type(value), type | ModuleType | MethodType):
        return None
    inner = marker(value, "__wrapped_function__")
    return inner if type(inner) is FunctionType and final_graph(value) is None else None


def final_graph(value: object) -> Graph | None:
    """The graph of a compiled function that has no source, a trace; None for all else."""
    found = marker(value, "__jitcore_graph__")
    return found if type(found) is Graph else None


def saved_program(value: object) -> Any:
    """What a plain function that was loaded from a file runs; None for all else."""
    return vars(value).get("__jitcore_program__") if type(value) is FunctionType else None


def unrecorded(value: Any) -> Any:
    """A function of a module as it is while nothing is traced; see ``tracing.patches``."""
    held = type(value) is FunctionType or hasattr(type(value), "__jitcore_recorded__")
    return vars(value).get("__jitcore_recorded__", value) if held else value


def is_layer(value: object) -> bool:
    """Whether an object is a ``jitcore.nn.Module``; asked without importing those."""
    return marker(type(value), "__jitcore_module__") is True


def function_mark(value: object) -> str | None:
    """What `jitcore.ignore` or one of its like has said about a function; None without one."""
    mark = vars(value).get("__jitcore_mark__") if type(value) is FunctionType else None
    return mark if isinstance(mark, str) else None


def marker(value: object, name: str) -> Any:
    """An attribute that only jitcore's own objects have, or None."""
    try:
        return getattr(value, name, None)
    except Exception:
        # A proxy's __getattr__ may raise anything; the object is none of ours then.
        return None


def is_stable_module(value: object) -> bool:
    """Whether the attributes of a module, or of a class, are taken as they are for ever."""
    is_module = issubclass(type(value), ModuleType)
    name = marker(value, "__name__" if is_module else "__module__")
    return isinstance(name, str) and name.split(".")[0] in _STABLE_MODULES


def numpy_name(value: object) -> str | None:
    """The name under which ``numpy`` has a public function: ``"linalg.solve"``, or None."""
    owner = value.__self__ if type(value) is BuiltinFunctionType else None
    if type(owner) is np.ufunc and type(value) is BuiltinFunctionType:
        ufunc = numpy_name(owner)
        return f"{ufunc}.{value.__name__}" if ufunc else None
    if not _is_numpy_function(value):
        return None
    own = marker(value, "__name__")
    if isinstance(own, str) and unrecorded(vars(np).get(own)) is value and own[0] != "_":
        return own
    # All of NumPy's modules are looked through only where that is not the answer.
    return _numpy_functions(len(vars(np))).get(id(value))


@lru_cache(maxsize=1)
def _numpy_functions(names_in_numpy: int) -> dict[int, str]:
    """The public functions of NumPy by identity; the outermost of several names wins.

    NumPy imports some of its modules, ``random`` and ``fft``, when they are first asked for: there
    is another name in it then.
    """
    names: dict[int, str] = {}
    modules: list[tuple[str, ModuleType]] = [("", np)]
    seen = {id(np)}
    for prefix, module in modules:
        # vars() rather than dir(): nothing must be imported by looking.
        for name, value in vars(module).items():
            if name.startswith("_"):
                continue
            if isinstance(value, ModuleType):
                inside = value.__name__.startswith("numpy.") and id(value) not in seen
                if inside:
                    seen.add(id(value))
                    modules.append((f"{prefix}{name}.", value))
            elif _is_numpy_function(unrecorded(value)):
                names.setdefault(id(unrecorded(value)), f"{prefix}{name}")
    return names


def _is_numpy_function(value: Any) -> bool:
    if issubclass(type(value), type) or not callable(value):
        return False
    if type(value) is np.ufunc:
        return True
    module = marker(value, "__module__")
    if type(value) is BuiltinFunctionType and module is None:
        # Methods of NumPy's own objects, such as numpy.random.rand.
        module = type(value.__self__).__module__
    return isinstance(module, str) and module.split(".")[0] == "numpy"
