"""Results of device functions: NumPy scalars stay on the device, Python numbers go to the host."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from jitcore.codegen.entries.signature import (
    ArrayResult,
    ConstantResult,
    InputResult,
    Result,
    ScalarResult,
    TupleResult,
    UnionResult,
)
from jitcore.codegen.lowering.operands import NotNative
from jitcore.ir.types import ObjectMaker

__all__ = ["FETCHED", "host_slots", "with_device_scalars"]

FETCHED = 15
"""The result slot through which scalars come from the device: entries have 16 at least."""


def _parts(result: Result) -> Iterator[Result]:
    """The single results of one, one for each slot or pair of slots."""
    if isinstance(result, TupleResult):
        if isinstance(result.named, ObjectMaker):
            raise NotNative("an object that a function for a device makes and gives")
        for element in result.elements:
            yield from _parts(element)
    elif isinstance(result, UnionResult):
        yield ScalarResult("int", np.dtype(np.int64))
        for one in result.alternatives:
            yield from _parts(one)
    elif not isinstance(result, ConstantResult | InputResult):
        yield result


def host_slots(result: Result) -> frozenset[int]:
    """The slots of a result that hold what has to be on the host: numbers of Python, and parts."""
    found: list[int] = []
    slot = 0
    for part in _parts(result):
        is_pair = isinstance(part, ScalarResult) and part.dtype.kind == "c"
        if is_pair or (isinstance(part, ScalarResult) and part.kind != "numpy"):
            found.extend(range(slot, slot + 1 + is_pair))
        slot += 1 + is_pair
    if slot > FETCHED:
        raise NotNative("so many results of a function for a device")
    return frozenset(found)


def with_device_scalars(result: Result, slots: set[int]) -> Result:
    """A result with arrays in the place of the scalars in some slots."""
    return _Rewriter(slots).result(result)


class _Rewriter:
    """Walks a result and counts its slots."""

    def __init__(self, slots: set[int]) -> None:
        self._slots = slots
        self._next = 0

    def result(self, result: Result) -> Result:
        """The result with the scalars of the device as arrays."""
        match result:
            case TupleResult(elements):
                return replace(result, elements=tuple(map(self.result, elements)))
            case UnionResult():
                before, self._next = self._next, self._next + sum(1 for _ in _parts(result))
                if self._slots & set(range(before, self._next)):
                    raise NotNative("a result of one of several types that is on the device")
            case ArrayResult():
                self._next += 1
            case ScalarResult(_, dtype):
                first = self._next
                self._next += 2 if dtype.kind == "c" else 1
                if first in self._slots:
                    return ArrayResult()
        return result
