"""Arrays that never change: the weights of frozen models, and what is made of them once."""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.memory import Buffer
from jitcore.codegen.onednn.planner import Array
from jitcore.ir.dataclass import dataclass

__all__ = ["Known", "known_among", "note_constant", "when_gone"]


@dataclass(eq=False, slots=True)
class _Constant:
    """What is known of an array; nothing here keeps it alive."""

    shape: tuple[int, ...]
    magnitude: float | None = None
    formats: list[tuple[api.Owned, api.Owned, Buffer]] = field(default_factory=list)


_constants: dict[int, _Constant] = {}
"""By address."""

_listeners: list[Callable[[int], None]] = []


def note_constant(array: Array) -> None:
    """Say that nothing will ever write to an array."""
    address = array.ctypes.data
    is_plain = array.dtype == np.float32 and array.flags.c_contiguous and array.size > 0
    if is_plain and address not in _constants:
        _constants[address] = _Constant(array.shape)
        weakref.finalize(array, _forget, address).atexit = False


def when_gone(listener: Callable[[int], None]) -> None:
    """Have a function called with the address of each such array that is no more."""
    _listeners.append(listener)


def _forget(address: int) -> None:
    # Finalizers run at any time, in any thread: nothing here may wait for a lock.
    _constants.pop(address, None)
    for listener in _listeners:
        listener(address)


def known_among(addresses: Sequence[int]) -> tuple[int, ...]:
    """The addresses at which there are such arrays, and zero for the others."""
    return tuple(one if one in _constants else 0 for one in addresses)


class Known:
    """The arrays of a call that never change.

    Parameters
    ----------
    addresses : sequence of int
        Where the arrays that are given lie, as `known_among` gives it.
    """

    def __init__(self, addresses: Sequence[int]) -> None:
        self._addresses = addresses

    def array(self, number: int) -> Array | None:
        """The array with this number, if it never changes; its memory is another's."""
        address = self._addresses[number]
        found = _constants.get(address)
        if found is None:
            return None
        memory: Any = (ctypes.c_float * math.prod(found.shape)).from_address(address)
        return np.ctypeslib.as_array(memory).reshape(found.shape)

    def magnitude(self, array: Array) -> float:
        """The size of its largest element; NaN or infinity where there is one."""
        known = _constants[array.ctypes.data]
        if known.magnitude is None:
            known.magnitude = float(np.abs(array).max())
        return known.magnitude

    def formatted(
        self, array: Array, source: api.Owned, wanted: api.Owned, make: Callable[[], Buffer]
    ) -> Buffer:
        """Its numbers in another format, which are made once."""
        known = _constants[array.ctypes.data]
        for one, other, buffer in known.formats:
            if one.library.are_equal(one, source) and one.library.are_equal(other, wanted):
                return buffer
        buffer = make()
        known.formats.append((source, wanted, buffer))
        return buffer
