"""Copies of the programs that compute with another library in NumPy's place."""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

from bench import programs

__all__ = ["programs_with"]


def programs_with(np: Any, special: Any) -> ModuleType:
    """The module `bench.programs` with other modules under the names ``np`` and ``special``."""
    name = f"bench.programs_{np.__name__}"
    spec = importlib.util.spec_from_file_location(name, programs.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.__dict__.update(np=np, special=special)
    return module
