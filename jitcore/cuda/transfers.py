"""Moving arrays between the host and devices."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.cuda.array import Array, from_numpy
from jitcore.cuda.libraries import Library, library_of
from jitcore.cuda.streams import current_stream, order_streams
from jitcore.devices import device, is_device_array

__all__ = ["Arrays", "as_array", "moved"]


def moved(value: Any, target: device) -> Any:
    """An array on a device; the same one where it lies there already.

    Parameters
    ----------
    value : array
        Of NumPy, or on a device, of any library.
    target : device
    """
    if isinstance(value, np.ndarray):
        _check(target)
        return from_numpy(value, target.index)
    library = library_of(value)
    assert library is not None
    if target.type == "cpu":
        return as_array(value).numpy()
    number = library.lies_on(value)
    if number == target.index:
        return value
    _check(target)
    return from_numpy(as_array(value).numpy(), target.index)


def as_array(value: Any) -> Array:
    """An `Array` over the memory of any library's array on a device.

    Parameters
    ----------
    value : array

    Raises
    ------
    TypeError
        It is no array on a device.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.cuda.as_array(tensor).shape  # doctest: +SKIP
    (2, 3)
    """
    if isinstance(value, Array):
        return value
    library = library_of(value)
    if library is None:
        raise TypeError(f"expected an array on a CUDA device, found {type(value).__name__}")
    number = library.lies_on(value)
    assert number is not None
    address, shape, strides, dtype, read_only = library.fields(value)
    made = Array(address, shape, strides, dtype, value, number, read_only=read_only)
    order_streams(library.stream(value, number), current_stream(number), number)
    return made


class Arrays:
    """The arguments of a program that works with jitcore's own arrays.

    Parameters
    ----------
    library : Library
        Whose arrays the results become.
    values : sequence
        Arrays of all libraries, numbers, and tuples of such.

    Attributes
    ----------
    values : list
        The same with an `Array` over the memory of each array.
    """

    def __init__(self, library: Library, values: Sequence[Any]) -> None:
        self._library = library
        self._given: dict[int, tuple[Any, Any]] = {}
        self.values = [self._taken(value) for value in values]

    def _taken(self, value: Any) -> Any:
        if isinstance(value, tuple):
            items = [self._taken(item) for item in value]
            return tuple(items) if type(value) is tuple else type(value)(*items)
        if not is_device_array(value):
            return value
        made = as_array(value)
        self._given[id(made)] = (made, value)
        return made

    def result(self, value: Any) -> Any:
        """What a result of the program is for the caller."""
        if id(value) in self._given:
            return self._given[id(value)][1]
        if isinstance(value, Array):
            fits = self._library.has_layout(value.shadow())
            return self._library.adopt(value if fits else copy(value))
        if isinstance(value, tuple):
            items = [self.result(item) for item in value]
            return tuple(items) if type(value) is tuple else type(value)(*items)
        return value


def _check(target: device) -> None:
    """Raise where there is no such device."""
    reason = driver.why_unavailable()
    if reason:
        raise driver.DriverError(f"cannot use {target}: {reason}")
    count = driver.current().device_count()
    if target.index >= count:
        raise driver.DriverError(
            f"there is no device {target}; this machine has {count}, numbered from 0"
        )
