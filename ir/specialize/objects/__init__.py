"""Objects of users' classes as values of their attributes.

Most programs have none: see ``lists`` beside this one.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitcore.ir.specialize.objects import (
        local_records,
        object_lists,
        objects,
        record_results,
        records,
    )

__all__ = ["local_records", "object_lists", "objects", "record_results", "records"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
