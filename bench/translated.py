"""Copies of the programs that compute with another library in NumPy's place."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

from bench import programs

__all__ = ["copy_with", "programs_with"]


def programs_with(np: Any, special: Any) -> ModuleType:
    """The module `bench.programs` with other modules under the names ``np`` and ``special``."""
    return copy_with(programs, np=np, special=special)


def copy_with(module: ModuleType, *, np: Any, **others: Any) -> ModuleType:
    """A copy of a module that finds other modules under some names."""
    name = f"{module.__name__}_{np.__name__}"
    assert module.__file__ is not None
    spec = importlib.util.spec_from_file_location(name, module.__file__)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    made.__dict__.update(np=np, **others)
    return made
