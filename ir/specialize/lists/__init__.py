"""Python's lists as values: arrays and a length, a heap where several names refer to them.

Most programs have none, so `specialize` reads these files as attributes of this package, and each
is imported with the first list that needs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jitcore.ir.specialize.lists import (
        changing_lists,
        list_arguments,
        list_heap,
        list_parts,
        list_results,
        list_states,
        listed_arrays,
        local_lists,
        mixed_elements,
        shared_arguments,
        shared_lists,
        shared_results,
        shared_states,
    )

__all__ = [
    "changing_lists",
    "list_arguments",
    "list_heap",
    "list_parts",
    "list_results",
    "list_states",
    "listed_arrays",
    "local_lists",
    "mixed_elements",
    "shared_arguments",
    "shared_lists",
    "shared_results",
    "shared_states",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return import_module(f"{__name__}.{name}")
