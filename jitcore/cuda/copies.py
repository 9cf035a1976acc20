"""Copies of the arrays of a call, in memory that nobody else writes to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.memory import make_shadow
from jitcore.cuda.pool import pool_of

__all__ = ["Copies", "flat"]


class Copies:
    """Copies of arrays on a device, with the strides of the arrays.

    Parameters
    ----------
    values : sequence
        Shadows (`codegen.cuda.memory`) of arrays among them, also in tuples.
    device : int
    stream : int
        In whose order the copies are used.

    Attributes
    ----------
    values : tuple
        The same with shadows of the copies.
    size : int
        Bytes of all copies.
    """

    def __init__(self, values: Sequence[Any], device: int, stream: int) -> None:
        self._driver, self._stream = driver.current(), stream
        self._pool = pool_of(device)
        self._blocks: list[Any] = []
        self.values = tuple(map(self._copied, values))
        self.size = sum(block.size for block in self._blocks)

    def _copied(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self._copied(item) for item in value]
            return tuple(items) if type(value) is tuple else type(value)(*items)
        if type(value) is not np.ndarray:
            return value
        low, high = np.lib.array_utils.byte_bounds(value)
        block = self._pool.take(high - low, self._stream)
        self._blocks.append(block)
        place = block.address + value.__array_interface__["data"][0] - low
        fields = (value.shape, value.strides, value.dtype)
        return make_shadow(block, place, *fields, not value.flags.writeable)

    def fill(self, values: Sequence[Any]) -> None:
        """Give the copies the elements of arrays like those that they were made of."""
        arrays = (one for one in flat(values) if type(one) is np.ndarray)
        for array, block in zip(arrays, self._blocks, strict=True):
            if array.size:
                low, high = np.lib.array_utils.byte_bounds(array)
                self._driver.copy(block.address, low, high - low, self._stream)


def flat(values: Sequence[Any]) -> Iterator[Any]:
    """The values with the items of tuples in their places."""
    for value in values:
        if isinstance(value, tuple):
            yield from flat(value)
        else:
            yield value
