"""Setting attributes of arguments where an exception has ended a native function."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.entries.boxing import count_slots
from jitcore.codegen.entries.error_sites import MAX_PAYLOAD
from jitcore.codegen.entries.signature import (
    ConstantResult,
    ObjectParam,
    Param,
    ScalarResult,
    Signature,
)
from jitcore.ir.types import OpenFunction, OpenPartial

__all__ = ["set_noted_attributes"]

_SLOT = 8


def set_noted_attributes(signature: Signature, slots: int, args: Sequence[Any]) -> None:
    """Set what the native function had set when it left.

    Parameters
    ----------
    signature : Signature
    slots : int
        The address of the result slots.
    args : sequence of object
        Those of the call.
    """
    objects = list(_objects(signature.params, args))
    place = slots + _SLOT * MAX_PAYLOAD
    for noted in signature.noted:
        tag = ctypes.c_int64.from_address(place).value
        place += _SLOT
        for number, result in enumerate(noted.types, start=1):
            if number == tag:
                setattr(objects[noted.write.object], noted.write.name, _value(result, place))
            place += _SLOT * count_slots(result)


def _objects(params: Sequence[Param], values: Sequence[Any]) -> Iterator[Any]:
    """The objects that are arguments, or attributes of these, in the order of `FieldWrite`."""
    for param, value in zip(params, values, strict=False):
        if isinstance(param, ObjectParam):
            yield value
            attributes = (
                param.class_.values_of(value)
                if isinstance(param.class_, OpenFunction | OpenPartial)
                else [getattr(value, name) for name in param.names]
            )
            yield from _objects(param.elements, attributes)


def _value(result: ScalarResult | ConstantResult, place: int) -> Any:
    """What lies in a slot, or in two."""
    if isinstance(result, ConstantResult):
        return result.value
    count = result.dtype.itemsize
    if result.dtype.kind == "c":
        half = count // 2
        text = ctypes.string_at(place, half) + ctypes.string_at(place + _SLOT, half)
    else:
        text = ctypes.string_at(place, count)
    scalar = np.frombuffer(text, result.dtype)[0]
    return scalar if result.kind == "numpy" else scalar.item()
