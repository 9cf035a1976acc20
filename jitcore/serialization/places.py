"""What errors say about an object that cannot be saved, and where a program uses it."""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from jitcore.errors import excerpt
from jitcore.ir.graph import Node

__all__ = ["excerpt_of", "is_known_by_name", "shown"]


def is_known_by_name(value: Any) -> bool:
    """Whether ``pickle`` finds a function or a class by its module and its name in there."""
    found: Any = sys.modules.get(value.__module__)
    for name in getattr(value, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    return found is value


def shown(value: Any) -> str:
    """An object as errors name it."""
    if isinstance(value, FunctionType | BuiltinFunctionType | np.ufunc):
        return f"the function '{value.__qualname__}'"
    if isinstance(value, type):
        return f"the class '{value.__qualname__}'"
    if isinstance(value, ModuleType):
        return f"the module '{value.__name__}'"
    return f"an object of the class '{type(value).__qualname__}'"


def excerpt_of(node: Node) -> str:
    """The line of the program that a node comes from, on lines of its own."""
    return "" if node.source is None else f"\n{excerpt(node.source)}"
