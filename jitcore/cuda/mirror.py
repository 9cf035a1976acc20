"""Running host code for arrays on a device: on copies, whose changes go back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.memory import make_shadow
from jitcore.cuda.array import Array, from_numpy
from jitcore.cuda.libraries import Library, library_of
from jitcore.devices import is_device_array
from jitcore.ir.bfloat16 import is_stored

__all__ = ["Mirror", "call_on_host"]

HostArray = np.ndarray[Any, Any]


class _Range:
    """Memory of the device that some arrays cover, and a copy of it on the host."""

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.bytes = np.empty(high - low, np.uint8)
        self.before = self.bytes

    def read(self, stream: int) -> None:
        driver.current().copy_to_host(self.bytes.ctypes.data, self.low, self.bytes.size, stream)
        self.before = self.bytes.copy()

    def write_back(self, stream: int) -> None:
        if not np.array_equal(self.before, self.bytes):
            host = self.bytes.ctypes.data
            driver.current().copy_to_device(self.low, host, self.bytes.size, stream)

    def holds(self, address: int) -> bool:
        start: int = self.bytes.ctypes.data
        return start <= address < start + max(1, self.bytes.size)


class Mirror:
    """Copies of device arrays on the host, which share memory where the arrays do.

    Parameters
    ----------
    library : Library
        Makes the arrays that results become.
    device, stream : int
    """

    def __init__(self, library: Library, device: int, stream: int) -> None:
        self._library = library
        self._device = device
        self._stream = stream
        self._ranges: list[_Range] = []
        self._originals: dict[int, tuple[Any, Any]] = {}
        """What stands for an argument, and the argument, by the identity of the former."""
        self._hosts: dict[int, HostArray] = {}
        self._containers: list[tuple[Any, Any, list[Any]]] = []

    def load(self, arrays: Sequence[Any]) -> None:
        """Copy arrays to the host."""
        found = {id(array): array for array in arrays}
        rows = []
        for array in found.values():
            row = library_of(array)
            assert row is not None
            address, shape, strides, dtype, read_only = row.fields(array)
            shadow = make_shadow(array, address, shape, strides, dtype, read_only=read_only)
            rows.append((array, shadow, *np.lib.array_utils.byte_bounds(shadow)))
        self._ranges = [_Range(low, high) for low, high in _merged(row[2:] for row in rows)]
        for one in self._ranges:
            one.read(self._stream)
        for array, shadow, low, _ in rows:
            host = self._host_of(shadow, low)
            self._hosts[id(array)] = host
            self._originals[id(host)] = (host, array)

    def _host_of(self, shadow: HostArray, low: int) -> HostArray:
        if not shadow.size:
            host = np.empty(shadow.shape, shadow.dtype)
        else:
            memory = next(one for one in self._ranges if one.low <= low < one.high)
            first = shadow.__array_interface__["data"][0] - memory.low
            host = np.ndarray(shadow.shape, shadow.dtype, memory.bytes.data, first, shadow.strides)
        host.flags.writeable = shadow.flags.writeable
        return host

    def replaced(self, value: Any) -> Any:
        """What stands for an argument on the host."""
        if isinstance(value, tuple):
            items = [self.replaced(item) for item in value]
            if all(new is old for new, old in zip(items, value, strict=True)):
                return value
            made: Any = tuple(items) if type(value) is tuple else type(value)(*items)
        elif type(value) is list:
            made = [self.replaced(item) for item in value]
            self._containers.append((value, made, list(made)))
        elif type(value) is dict:
            made = {key: self.replaced(item) for key, item in value.items()}
            self._containers.append((value, made, list(made.items())))
        else:
            return self._hosts.get(id(value), value)
        self._originals[id(made)] = (made, value)
        return made

    def keep(self, value: Any) -> None:
        """Have an argument that is the same on the host come back as it is."""
        self._originals.setdefault(id(value), (value, value))

    def write_back(self) -> None:
        """Copy what has changed to the device; change lists and dicts as their twins were."""
        for memory in self._ranges:
            memory.write_back(self._stream)
        for original, twin, before in self._containers:
            now = list(twin) if isinstance(twin, list) else list(twin.items())
            if len(now) == len(before) and all(map(_same_item, now, before)):
                continue
            original.clear()
            if isinstance(twin, list):
                original.extend(map(self.result, twin))
            else:
                original.update((key, self.result(item)) for key, item in twin.items())

    def result(self, value: Any) -> Any:
        """What a result of host code becomes on the device."""
        if id(value) in self._originals:
            return self._originals[id(value)][1]
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if type(value) in (list, tuple):
            return type(value)(self.result(item) for item in value)
        if isinstance(value, tuple):
            return type(value)(*(self.result(item) for item in value))
        if type(value) is dict:
            return {key: self.result(item) for key, item in value.items()}
        return value

    def _array(self, value: Any) -> Any:
        if not is_stored(value.dtype):
            return value
        host = np.asarray(value)
        if isinstance(value, np.ndarray) and host.size:
            low, _ = np.lib.array_utils.byte_bounds(host)
            memory = next((one for one in self._ranges if one.holds(low)), None)
            steps_back = any(stride < 0 for stride in host.strides)
            if memory is not None and (self._library.takes_negative_strides or not steps_back):
                return self._library.adopt(self._view(host, memory))
        made = from_numpy(host, self._device, stream=self._stream)
        return self._library.adopt(made)

    def _view(self, host: HostArray, memory: _Range) -> Array:
        """The part of an argument that a result is."""
        start: int = memory.bytes.ctypes.data
        owners = [array for _, array in self._originals.values() if is_device_array(array)]
        return Array(
            memory.low + host.__array_interface__["data"][0] - start,
            host.shape,
            None if host.flags.c_contiguous else host.strides,
            host.dtype,
            owners,
            self._device,
            read_only=not host.flags.writeable,
        )


def call_on_host(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    *,
    library: Library,
    device: int,
    stream: int,
) -> Any:
    """Call host code on copies of device arrays; what it does to them, it does to the arrays.

    Parameters
    ----------
    function : callable
    args, keywords
        May hold arrays of any library on the device, also in tuples, lists and dicts.
    library : Library
        Makes the arrays that results become.
    device, stream : int

    Returns
    -------
    object
        The function's result.  Arrays are new ones on the device, arguments, or views of them;
        NumPy's scalars are arrays without axes.
    """
    mirror = Mirror(library, device, stream)
    with driver.current().on_device(device):
        mirror.load(list(_device_arrays([*args, *keywords.values()])))
        host_args = [mirror.replaced(one) for one in args]
        host_keywords = {name: mirror.replaced(one) for name, one in keywords.items()}
        for one in args:
            if isinstance(one, np.ndarray | np.generic):
                mirror.keep(one)
        try:
            result = function(*host_args, **host_keywords)
        finally:
            # An exception leaves behind what was done before it, as on the host.
            mirror.write_back()
        return mirror.result(result)


def _device_arrays(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _device_arrays(value)
        elif isinstance(value, dict):
            yield from _device_arrays(list(value.values()))
        elif is_device_array(value):
            yield value


def _merged(bounds: Any) -> Iterator[tuple[int, int]]:
    """Ranges of addresses, those that overlap made one."""
    low = high = 0
    for one_low, one_high in sorted(bounds):
        if one_low < high:
            high = max(high, one_high)
            continue
        if high > low:
            yield low, high
        low, high = one_low, one_high
    if high > low:
        yield low, high


def _same_item(now: Any, before: Any) -> bool:
    if isinstance(now, tuple) and isinstance(before, tuple):
        return len(now) == len(before) and all(x is y for x, y in zip(now, before, strict=True))
    return now is before
