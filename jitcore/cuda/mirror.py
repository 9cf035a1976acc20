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

_ALIGNMENT = 64
"""More than any element needs."""


class _Range:
    """Memory of the device that some arrays cover, and a copy of it on the host."""

    def __init__(self, low: int, high: int, owners: list[Any]) -> None:
        self.low = low
        self.high = high
        self.owners = owners
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
        self._made: dict[int, tuple[HostArray, Any]] = {}
        """Arrays that results hold, and what they became, by the identity of the former."""
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
        bounds = _merged(row[2:] for row in rows)
        self._ranges = [_Range(low, high, list(found.values())) for low, high in bounds]
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

    def write_back(self, results: Sequence[Any]) -> None:
        """Copy what has changed to the device; change lists and dicts as their twins were.

        What the results of host code share with each other, and with what is in those lists and
        dicts now, is shared on the device.
        """
        for memory in self._ranges:
            memory.write_back(self._stream)
        self._share([*results, *(_items(twin) for _, twin, _ in self._containers)])
        for original, twin, before in self._containers:
            now = _items(twin)
            if len(now) == len(before) and all(map(_same_item, now, before)):
                continue
            original.clear()
            if isinstance(twin, list):
                original.extend(map(self.result, twin))
            else:
                original.update((key, self.result(item)) for key, item in twin.items())

    def _share(self, values: Sequence[Any]) -> None:
        """Copy memory that several new arrays have in common once, and make them views of it."""
        found = {id(array): array for array in self._new_arrays(values)}
        if len(found) < 2:
            return
        arrays = [(array, *np.lib.array_utils.byte_bounds(array)) for array in found.values()]
        for low, high in _merged(row[1:] for row in arrays):
            inside = [array for array, at, _ in arrays if low <= at < high]
            if len(inside) > 1:
                memory, shift = self._copied(low, high)
                for array in inside:
                    view = self._view(array, shift, [memory])
                    self._made[id(array)] = (array, self._library.adopt(view))

    def _copied(self, low: int, high: int) -> tuple[Array, int]:
        """A device's copy of the host's memory between two addresses, and how far from it."""
        # The copy begins at an address that is no less aligned than the arrays in it need.
        before = low % _ALIGNMENT
        packed = np.zeros(before + high - low, np.uint8)
        packed[before:] = make_shadow(None, low, (high - low,), None, np.dtype(np.uint8))
        made = from_numpy(packed, self._device, stream=self._stream)
        return made, made.address + before - low

    def _new_arrays(self, values: Sequence[Any]) -> Iterator[HostArray]:
        """The arrays in results that are neither arguments nor parts of them."""
        for value in values:
            if id(value) in self._originals:
                continue
            if isinstance(value, tuple) or type(value) is list:
                yield from self._new_arrays(value)
            elif type(value) is dict:
                yield from self._new_arrays(list(value.values()))
            elif isinstance(value, np.ndarray) and value.size and is_stored(value.dtype):
                if self._can_view(value) and self._range_of(value) is None:
                    yield value

    def _can_view(self, host: HostArray) -> bool:
        """Whether the library has arrays with such strides."""
        return self._library.has_layout(host)

    def _range_of(self, host: HostArray) -> _Range | None:
        """The copy that an array is a part of."""
        low, _ = np.lib.array_utils.byte_bounds(host)
        return next((one for one in self._ranges if one.holds(low)), None)

    def result(self, value: Any) -> Any:
        """What a result of host code becomes on the device."""
        if id(value) in self._originals:
            return self._originals[id(value)][1]
        if id(value) in self._made:
            return self._made[id(value)][1]
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
        if not isinstance(value, np.ndarray):
            return self._copy(host)
        memory = self._range_of(host) if host.size and self._can_view(host) else None
        if memory is None:
            made = self._copy(host)
        else:
            shift = memory.low - memory.bytes.ctypes.data
            made = self._library.adopt(self._view(host, shift, memory.owners))
        # An object that results hold several times stays one.
        self._made[id(value)] = (value, made)
        return made

    def _copy(self, host: HostArray) -> Any:
        return self._library.adopt(from_numpy(host, self._device, stream=self._stream))

    def _view(self, host: HostArray, shift: int, owners: list[Any]) -> Array:
        """The part of a device's memory that a result is, given how far that is from here."""
        return Array(
            host.__array_interface__["data"][0] + shift,
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
        results: list[Any] = []
        try:
            results.append(function(*host_args, **host_keywords))
        finally:
            # An exception leaves behind what was done before it, as on the host.
            mirror.write_back(results)
        return mirror.result(results[0])


def _device_arrays(values: Sequence[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple | list):
            yield from _device_arrays(value)
        elif isinstance(value, dict):
            yield from _device_arrays(list(value.values()))
        elif is_device_array(value):
            yield value


def _items(container: Any) -> list[Any]:
    return list(container) if isinstance(container, list) else list(container.items())


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
