"""Device memory of jitcore's own arrays: a pool that keeps what was freed for the next array."""

from __future__ import annotations

import sys
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from threading import get_ident
from weakref import WeakKeyDictionary

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import COUNTER_BYTES
from jitcore.codegen.cuda.driver import Driver, DriverError

__all__ = [
    "Block",
    "Pool",
    "ScratchPool",
    "ZerosPool",
    "pool_of",
    "pools_of",
    "scratch_pool_of",
    "zeros_pool_of",
]

_GRAIN = 512
"""Sizes are rounded up to these many bytes: every element type is aligned, vectors too."""

_LARGE_GRAIN = 2 << 20
"""From this size on to these, the size of a device's pages."""

_OUT_OF_MEMORY = 2

_PER_THREAD = 2
"""``CU_STREAM_PER_THREAD``: another stream in each thread.  They do not wait for each other, but
for the default stream, as that does for all of them (CUDA driver API, stream synchronization
behavior)."""

_DEFAULTS = frozenset({1, _PER_THREAD})
"""Streams in whose place the default one, 0, orders what is done with memory."""


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
        order = 0 if stream in _DEFAULTS else stream
        if order != self.stream:
            self._others = (self._others or set()) | {order}

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

    Attributes
    ----------
    noted : dict of int to tuple
        By threads: a stream, and the arrays of others that calls there have read (`note`).
    streams : list of int
        Those that nobody uses any more.  They stay, as there may be memory in their order.
    """

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver = driver
        self.device = device
        self._kept: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._foreign: deque[tuple[int, Sequence[object]]] = deque()
        self.noted: dict[int, tuple[int, list[object]]] = {}
        self.streams: list[int] = []
        self._lock = threading.RLock()

    def is_of(self, block: Block) -> bool:
        """Whether memory is this pool's, and not that of another device or driver."""
        return block._pool is self

    def take(self, size: int, stream: int = 0) -> Block:
        """Memory of at least this many bytes; MemoryError where there is none."""
        rounded = _rounded(size)
        order = 0 if stream in _DEFAULTS else stream
        with self._lock:
            kept = self._kept.get((order, rounded))
            address = kept.pop() if kept else 0
        if not address:
            self._let_go()
            with self._driver.on_device(self.device):
                address = self._allocate(rounded, order)
        if stream == _PER_THREAD:
            # Another thread's stream may have used the memory, for which the default one waits.
            with self._driver.on_device(self.device):
                self._wait_for({order}, stream)
        return Block(self, address, rounded, order)

    def _allocate(self, size: int, stream: int) -> int:
        try:
            return self._driver.allocate(size, stream)
        except DriverError as error:
            if error.code != _OUT_OF_MEMORY:
                raise
        for pool in _made_pools(self._driver, self.device):
            pool.release()
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

    def keep(self, arrays: Sequence[object], stream: int) -> None:
        """Keep arrays of others until a stream has done what it was asked for so far.

        They are let go after that, where others are kept or the driver is asked for memory.
        """
        entered = self._driver.enter(self.device)
        try:
            event = self._driver.create_event()
            self._driver.record(event, stream)
            with self._lock:
                finished = self._finished()
                self._foreign.append((event, arrays))
        finally:
            if entered:
                self._driver.leave()
        # Whoever hears that an array ends does so without the lock.
        del finished

    def note(self, array: object, stream: int) -> None:
        """Note that this thread's call on a stream reads an array of others."""
        if stream != self.noted.get(get_ident(), (stream,))[0]:
            self.keep_noted()
        self.noted.setdefault(get_ident(), (stream, []))[1].append(array)

    def keep_noted(self) -> None:
        """Keep what this thread's calls have read, until the device is done with it."""
        stream, arrays = self.noted.pop(get_ident(), (0, []))
        if arrays:
            self.keep(arrays, stream)

    def _finished(self) -> list[Sequence[object]]:
        """Take those out that nobody reads any more."""
        found = list[Sequence[object]]()
        while self._foreign and self._driver.is_done(self._foreign[0][0]):
            event, arrays = self._foreign.popleft()
            self._driver.destroy_event(event)
            found.append(arrays)
        return found

    def _let_go(self) -> None:
        if self._foreign:
            with self._driver.on_device(self.device), self._lock:
                finished = self._finished()
            del finished

    def kept_bytes(self) -> int:
        """The size of the memory that nobody uses."""
        with self._lock:
            return sum(size * len(kept) for (_, size), kept in self._kept.items())

    def release(self) -> None:
        """Give all memory that nobody uses back to the driver."""
        self._let_go()
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


class ZerosPool(Pool):
    """Memory that is zeros: whoever uses it leaves it so."""

    def _allocate(self, size: int, stream: int) -> int:
        address = super()._allocate(size, stream)
        self._driver.fill(address, 0, size, stream)
        return address


def _rounded(size: int) -> int:
    grain = _LARGE_GRAIN if size >= _LARGE_GRAIN else _GRAIN
    return (size + grain - 1) & -grain or grain


_pools: WeakKeyDictionary[Driver, dict[tuple[type[Pool], int], Pool]] = WeakKeyDictionary()
_lock = threading.Lock()


def pool_of(device: int) -> Pool:
    """The pool of a device."""
    return _pool(Pool, device)


def scratch_pool_of(device: int) -> Pool:
    """The pool of a device for memory with a counter."""
    return _pool(ScratchPool, device)


def zeros_pool_of(device: int) -> Pool:
    """The pool of a device for memory that is zeros."""
    return _pool(ZerosPool, device)


def _made_pools(used: Driver, device: int) -> list[Pool]:
    """Those of a device that there are so far."""
    with _lock:
        found = _pools.get(used, {}).items()
        return [pool for (_, number), pool in found if number == device]


def pools_of(device: int) -> tuple[Pool, ...]:
    """All pools of a device."""
    return pool_of(device), scratch_pool_of(device), zeros_pool_of(device)


def _pool(kind: type[Pool], device: int) -> Pool:
    current = driver.current()
    with _lock:
        pools = _pools.setdefault(current, {})
        if (kind, device) not in pools:
            pools[kind, device] = kind(current, device)
        return pools[kind, device]
