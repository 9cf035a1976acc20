"""The running call: for whom native code works, and on which stream.

All memory is that of the running `Call`: arrays come from the pool of the library that the call's
arguments come from.  One call runs at a time in the whole process, since there is one word for the
stream.  That costs little, because a call only asks the driver for work, which serializes that
itself; where a call waits for the device, others run (`wait`).  A lock was preferred to a word
for each thread because native code is linked without a loader that knows of threads' variables, and
each launch would have to look the word up by a call.

An interrupt arrives between any two instructions.  Nothing here counts on its own steps: whether a
thread has the lock it asks the lock, and what a call leaves behind is found out from its thread's
calls.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from jitcore.ir.dataclass import dataclass

__all__ = [
    "COUNTER_BYTES",
    "DIRECT",
    "INTERRUPTS",
    "STREAM",
    "STREAMS",
    "Allocator",
    "Call",
    "begin",
    "end",
    "running",
    "running_call",
    "wait",
]

STREAM = ctypes.c_uint64(0)
"""The stream of the running call, which native code reads."""

COUNTER_BYTES = 16
"""Where the blocks of a kernel count how many of them are done."""

INTERRUPTS = ctypes.c_int64(0)
"""Set by native code where a function of Python has not answered (`codegen.cuda.callbacks`)."""


DIRECT = ctypes.c_uint64(0)
"""The record of the direct call that runs, if one does (`codegen.cuda.direct`)."""

STREAMS = ctypes.c_int64(0)
"""How many blocks of all threads work on a stream of their own; direct calls only run beside 0."""


class Allocator(Protocol):
    """Where the memory of a call comes from."""

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        """A new array: its address, and what owns it; strides in bytes, None for C order."""
        ...

    def block(self, size: int) -> tuple[int, Any]:
        """Memory for a temporary: its address, and what owns it."""
        ...

    def scratch(self, size: int) -> tuple[int, Any]:
        """The same with `COUNTER_BYTES` of zeros at its begin, which its user leaves zeros."""
        ...

    def zeros(self, size: int) -> tuple[int, Any]:
        """The same with zeros only, which its user leaves zeros."""
        ...


@dataclass(slots=True)
class Call:
    """One running call.

    Parameters
    ----------
    allocator : Allocator
    stream : int
        On which all its work goes.

    Attributes
    ----------
    blocks : dict of int to object
        Temporaries by their address.
    error : BaseException or None
        What went wrong in a function that native code called.
    has_waited : bool
        Whether the host has waited for a number of the device.
    """

    allocator: Allocator
    stream: int
    blocks: dict[int, Any] = field(default_factory=dict)
    error: BaseException | None = None
    has_waited: bool = False


class _Lock:
    """A lock that knows whose it is."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self.is_mine: Callable[[], bool] = lock._is_owned
        """Whether this thread has it."""

    def acquire(self) -> None:
        """Wait for it, unless this thread has it."""
        if not self.is_mine():
            self._lock.acquire()

    def release(self) -> None:
        """Give it back, if this thread has it."""
        if self.is_mine():
            self._lock.release()


class _Thread(threading.local):
    """The calls of one thread, of which the last one runs and the others wait for it."""

    def __init__(self) -> None:
        self.calls: list[Call] = []


_lock = _Lock(threading.RLock())
_thread = _Thread()


@contextmanager
def running(call: Call) -> Iterator[None]:
    """Have native code that runs inside a ``with`` block work for a call."""
    try:
        begin(call)
        yield
    finally:
        end(call)


def begin(call: Call) -> None:
    """Start a call: wait for the one that runs in another thread. `end` has to follow."""
    _thread.calls.append(call)
    _lock.acquire()
    STREAM.value = call.stream


def end(call: Call) -> None:
    """Go back to the call before, which waits in this thread, or let other threads go on.

    Where a function has not answered, the call's error is KeyboardInterrupt.
    """
    if INTERRUPTS.value:
        INTERRUPTS.value = 0
        call.error = call.error or KeyboardInterrupt()
    calls = _thread.calls
    calls[:] = [one for one in calls if one is not call]
    if calls:
        _lock.acquire()
        STREAM.value = calls[-1].stream
    elif _lock.is_mine():
        STREAM.value = 0
        _lock.release()


def running_call() -> Call:
    """The call that native code of this thread works for."""
    return _thread.calls[-1]


def wait(call: Call, work: Callable[[], None]) -> None:
    """Do work while other threads' calls may run.

    No context manager: a generator that an interrupt has left alone would end after the call.
    """
    try:
        _lock.release()
        work()
    finally:
        _lock.acquire()
        STREAM.value = call.stream
