"""Device memory of jitcore's own arrays: a pool that keeps what was freed for the next array."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict
from weakref import WeakKeyDictionary

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import COUNTER_BYTES
from jitcore.codegen.cuda.driver import Driver, DriverError

__all__ = ["Block", "Pool", "ScratchPool", "pool_of", "scratch_pool_of"]

_GRAIN = 512
"""Sizes are rounded up to these many bytes: every element type is aligned, vectors too."""

_LARGE_GRAIN = 2 << 20
"""From this size on to these, the size of a device's pages."""

_OUT_OF_MEMORY = 2


class Block:
    """Memory of a pool, which gets it back when nothing refers to the block any more.

    Parameters
    ----------
    pool : Pool
    address, size : int
    stream : int
        In whose order the memory is given out again.
    """

    __slots__ = ("_others", "_pool", "address", "size", "stream")

    def __init__(self, pool: Pool, address: int, size: int, stream: int) -> None:
        self._pool = pool
        self.address = address
        self.size = size
        self.stream = stream
        self._others: set[int] | None = None

    def used_on(self, stream: int) -> None:
        """Note that work on a stream reads or writes the memory."""
        if stream != self.stream:
            self._others = (self._others or set()) | {stream}

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a block of device memory has one owner and cannot be copied")

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._pool.give_back(self.address, self.size, self.stream, self._others)


class Pool:
    """The memory of one device.

    Work on a stream happens in order, so that memory which is freed while a kernel still uses it
    may be given at once to what comes later on the same stream.

    Parameters
    ----------
    driver : Driver
    device : int
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self.device = device
        self._kept: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._lock = threading.RLock()

    def is_of(self, block: Block) -> bool:
        """Whether memory is this pool's, and not that of another device or driver."""
        return block._pool is self

    def take(self, size: int, stream: int = 0) -> Block:
        """Memory of at least this many bytes; MemoryError where there is none."""
        rounded = _rounded(size)
        with self._lock:
            kept = self._kept.get((stream, rounded))
            address = kept.pop() if kept else 0
        if not address:
            with self._driver.on_device(self.device):
                address = self._allocate(rounded, stream)
        return Block(self, address, rounded, stream)

    def _allocate(self, size: int, stream: int) -> int:
        try:
            return self._driver.allocate(size, stream)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
        self.release()
        try:
            return self._driver.allocate(size, stream)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
            raise MemoryError(str(error)) from error

    def give_back(self, address: int, size: int, stream: int, others: set[int] | None) -> None:
        """Keep memory for the next one who wants it on the stream."""
        if others:
            with self._driver.on_device(self.device):
                self._wait_for(others, stream)
        with self._lock:
            self._kept[stream, size].append(address)

    def _wait_for(self, others: set[int], stream: int) -> None:
        """Have a stream wait for what others have been asked so far."""
        event = self._driver.create_event()
        try:
            for other in others:
                self._driver.record(event, other)
                self._driver.wait_for(event, stream)
        finally:
            self._driver.destroy_event(event)

    def kept_bytes(self) -> int:
        """The size of the memory that nobody uses."""
        with self._lock:
            return sum(size * len(kept) for (_, size), kept in self._kept.items())

    def release(self) -> None:
        """Give all memory that nobody uses back to the driver."""
        with self._lock:
            kept, self._kept = self._kept, defaultdict(list)
        with self._driver.on_device(self.device):
            for (stream, _), addresses in kept.items():
                for address in addresses:
                    self._driver.free(address, stream)

    def forget(self, stream: int) -> None:
        """Move the memory of a stream that has done all its work, and ends, to the default one."""
        with self._lock:
            for of_stream, size in list(self._kept):
                if of_stream == stream:
                    self._kept[0, size] += self._kept.pop((stream, size))


class ScratchPool(Pool):
    """Memory whose first bytes are zeros: whoever uses it leaves them so."""

    def _allocate(self, size: int, stream: int) -> int:
        address = super()._allocate(size, stream)
        self._driver.fill(address, 0, COUNTER_BYTES, stream)
        return address


def _rounded(size: int) -> int:
    grain = _LARGE_GRAIN if size >= _LARGE_GRAIN else _GRAIN
    return max(1, -(-size // grain)) * grain


_pools: WeakKeyDictionary[Driver, dict[tuple[type[Pool], int], Pool]] = WeakKeyDictionary()
_lock = threading.Lock()


def pool_of(device: int) -> Pool:
    """The pool of a device."""
    return _pool(Pool, device)


def scratch_pool_of(device: int) -> Pool:
    """The pool of a device for memory with a counter."""
    return _pool(ScratchPool, device)


def _pool(kind: type[Pool], device: int) -> Pool:
    current = driver.current()
    with _lock:
        pools = _pools.setdefault(current, {})
        if (kind, device) not in pools:
            pools[kind, device] = kind(current, device)
        return pools[kind, device]
