"""Passes over loop nests, between lowering and the printers."""

from __future__ import annotations

from importlib import import_module
from typing import Any, TypeVar

__all__ = ["run_where"]

T = TypeVar("T")


def run_where(is_needed: bool, place: str, code: T, *args: Any) -> T:
    """Run a pass on what may have something for it to change.

    Parameters
    ----------
    is_needed : bool
        Whether there is what the pass looks for (``loop_passes.needs``).
    place : str
        The pass as ``"file.function"``.  Its file is imported when it is run first: few programs
        need more than a few of the passes.
    code : Function or list of Stmt
    *args
        What else the pass takes.

    Returns
    -------
    Function or list of Stmt
    """
    if not is_needed:
        return code
    file, _, name = place.partition(".")
    changed: T = getattr(import_module(f"{__name__}.{file}"), name)(code, *args)
    return changed
