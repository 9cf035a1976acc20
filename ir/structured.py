"""Structured arrays, whose elements are records of fields, and what compiled code knows of them.

A field of such an array is a view: it begins a few bytes later, and goes from record to record.
That is a view in whole elements of the field's dtype where both the place of the field and the size
of a record are whole elements, as they are in aligned dtypes and in those whose fields have one
size.  Elsewhere records are packed, and places in the view count a few bytes.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import is_stored
from jitcore.ir.dataclass import dataclass
from jitcore.ir.types import SUPPORTED, TensorType, Type

__all__ = [
    "FieldPlace",
    "VoidType",
    "alignment",
    "field_place",
    "field_type",
    "has_native_type",
    "is_structured",
    "is_structured_dtype",
]


@dataclass(frozen=True, slots=True)
class VoidType(Type):
    """One record of a structured array (``numpy.void``), which reads and writes the array's memory.

    Values are made by ``np::record``, and compiled code has none: it goes on with the array.
    """

    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"Record[{TensorType(self.dtype, ())}]"


@dataclass(frozen=True, slots=True)
class FieldPlace:
    """Where a field lies in a record, in elements of its dtype or in units.

    Parameters
    ----------
    dtype : numpy.dtype
    shape : tuple of int
        Of the array that the field is in each record; empty where that is a number.
    start, step : int
        The place in the first record, and the distance from record to record.
    size : int
        The distance from element to element in a record.
    unit : int
        How many bytes these count; 0 where they count elements.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    step: int
    size: int
    unit: int

    @property
    def alignment(self) -> int:
        """What addresses of elements are multiples of."""
        return self.unit or self.dtype.alignment


def is_structured_dtype(dtype: np.dtype[Any]) -> bool:
    """Whether this is a dtype of records that have fields side by side."""
    return dtype.kind == "V" and _has_plain_fields(dtype)


@lru_cache(maxsize=256)
def _has_plain_fields(dtype: np.dtype[Any]) -> bool:
    if dtype.type is not np.void or dtype.hasobject or not dtype.names or dtype.fields is None:
        return False
    # A field with a title has a third entry.
    if any(len(one) > 2 for one in dtype.fields.values()):
        return False
    if not all(name.isidentifier() for name in dtype.names):
        return False
    spans = sorted((one[1], one[1] + one[0].itemsize) for one in dtype.fields.values())
    ends = [0, *(end for _, end in spans)]
    is_apart = all(start >= end for (start, _), end in zip(spans, ends, strict=False))
    return is_apart and any(field_place(dtype, name) is not None for name in dtype.names)


def field_place(dtype: np.dtype[Any], name: str) -> FieldPlace | None:
    """Where a field is; None where there is none of the name, or compiled code cannot read it."""
    fields = dtype.fields
    if fields is None or name not in fields:
        return None
    field, offset = fields[name][:2]
    base = field.base
    size = base.itemsize
    if base.char not in SUPPORTED or not base.isnative:
        return None
    unit = math.gcd(size, offset, dtype.itemsize)
    if unit < size and base.kind == "c":
        return None
    places = (offset // unit, dtype.itemsize // unit, size // unit)
    return FieldPlace(np.dtype(base.str), field.shape, *places, unit if unit < size else 0)


def field_type(type_: TensorType, name: str) -> TensorType | None:
    """The type of a field of a structured array; None where there is no native form of it."""
    if type_.dtype is None or type_.dims is None:
        return None
    place = field_place(type_.dtype, name)
    return None if place is None else TensorType(place.dtype, (*type_.dims, *place.shape))


@lru_cache(maxsize=256)
def alignment(dtype: np.dtype[Any]) -> int:
    """What the address of the first record must be a multiple of, in bytes."""
    places = (field_place(dtype, name) for name in dtype.names or ())
    return max(place.alignment for place in places if place is not None)


def is_structured(type_: Type) -> bool:
    """Whether this is a structured array, or a record of one."""
    if isinstance(type_, VoidType):
        return True
    if not isinstance(type_, TensorType) or type_.dtype is None or type_.dims is None:
        return False
    return not type_.scalar and is_structured_dtype(type_.dtype)


def has_native_type(type_: TensorType) -> bool:
    """Whether compiled code has arrays, or NumPy's scalars, of a type."""
    if not type_.is_complete or type_.dtype is None:
        return False
    return is_stored(type_.dtype) or is_structured(type_)
