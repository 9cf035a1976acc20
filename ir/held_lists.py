"""Lists that are attributes of arguments."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.types import ListType, RecordType, TupleType, Type

__all__ = ["HeldListType", "holds_held"]


@dataclass(frozen=True, slots=True)
class HeldListType(ListType):
    """A list that is an attribute of an argument, of which only the object is passed on."""

    @property
    def dtypes(self) -> tuple[np.dtype[Any], ...]:
        """None: the function reads it by itself."""
        return ()


def holds_held(type_: Type) -> bool:
    """Whether there are lists in the objects of a type."""
    if isinstance(type_, TupleType | RecordType):
        return any(map(holds_held, type_.elements))
    return isinstance(type_, HeldListType)
