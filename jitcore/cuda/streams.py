"""Streams: queues of work for a device, and the one that a thread uses."""

from __future__ import annotations

import operator
import threading
import weakref
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import STREAMS
from jitcore.cuda.pool import Pool, pools_of

__all__ = ["Event", "Stream", "current_stream", "is_same_stream", "order_streams", "synchronize"]

_threads = threading.local()
_lock = threading.Lock()


class Stream:
    """A queue of work: what is asked of one stream happens in order, beside that of others.

    Inside a ``with`` block everything this thread asks of jitcore's own arrays goes to the stream.
    Calls with arrays of CuPy and PyTorch use the current stream of those libraries.

    Parameters
    ----------
    handle : int or object, optional
        A ``CUstream`` of somebody else's, who keeps it, or a stream of another library, which has
        CUDA's protocol for that (``__cuda_stream__``); by default a new stream.
    device : int
        The device's number.

    Raises
    ------
    TypeError
        It is no stream.
    RuntimeError
        A closed one is used.

    Examples
    --------
    >>> import jitcore
    >>> stream = jitcore.cuda.Stream()  # doctest: +SKIP
    >>> with stream:  # doctest: +SKIP
    ...     result = f(x)
    >>> stream.synchronize()  # doctest: +SKIP
    """

    def __init__(self, handle: Any = None, *, device: int = 0) -> None:
        self._driver = driver.current()
        self.device = device
        self._is_closed = False
        # A stream of another library ends with its object.
        self._given = handle
        self._pools: tuple[Pool, ...] = ()
        if handle is None:
            self._pools = pools_of(device)
        self.handle = self._new() if handle is None else _handle_of(handle)

    def _new(self) -> int:
        """A stream that nobody uses."""
        with suppress(IndexError):
            return self._pools[0].streams.pop()
        with self._driver.on_device(self.device):
            return self._driver.create_stream()

    def __repr__(self) -> str:
        return f"<jitcore.cuda.Stream {self.handle:#x} of device {self.device}>"

    def __cuda_stream__(self) -> tuple[int, int]:
        """CUDA's protocol for streams of any library: its version, and the handle."""
        self._check()
        return 0, self.handle

    def __enter__(self) -> Self:
        self._check()
        # Programs run their parts on the default stream in this way, too.
        _count(1 if self.handle else 0)
        _stack().append(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _stack().pop()
        _count(-1 if self.handle or self._is_closed else 0)

    def synchronize(self) -> None:
        """Wait until all work asked of the stream is done."""
        self._check()
        with self._driver.on_device(self.device):
            self._driver.synchronize(self.handle)

    def close(self) -> None:
        """Wait for its work and end a stream; it cannot be used any more."""
        if self._pools and self.handle:
            self.synchronize()
            for pool in self._pools:
                pool.forget(self.handle)
            self._pools[0].streams.append(self.handle)
            self.handle, self._is_closed = 0, True

    def _check(self) -> None:
        if self._is_closed:
            raise RuntimeError("the stream was closed; make a new one: jitcore.cuda.Stream()")


def _handle_of(stream: Any) -> int:
    """The ``CUstream`` that a number is, or a stream of any library."""
    is_stream = hasattr(type(stream), "__cuda_stream__")
    try:
        handle = operator.index(stream.__cuda_stream__()[1] if is_stream else stream)
    except TypeError:
        handle = -1
    if handle < 0:
        raise TypeError(
            "expected the number of a CUstream, or a stream of a library that has __cuda_stream__; "
            f"found {stream!r}"
        )
    return handle


def _count(change: int) -> None:
    """Note for direct calls that another block works on a stream of its own, or has ended."""
    with _lock:
        STREAMS.value += change


def _stack() -> list[Stream]:
    if not hasattr(_threads, "streams"):
        _threads.streams = []
    found: list[Stream] = _threads.streams
    return found


def current_stream(device: int) -> int:
    """The stream of this thread for jitcore's own arrays on a device; 0 is the default one."""
    for stream in reversed(_stack()):
        if stream.device == device:
            return stream.handle
    return 0


def is_same_stream(one: int, other: int) -> bool:
    """Whether two handles are the same stream; 1 is the default one by its own name."""
    return one == other or {one, other} == {0, 1}


def order_streams(before: int, after: int, device: int) -> None:
    """Have a stream wait for what another one has been asked so far."""
    if is_same_stream(before, after):
        return
    used = driver.current()
    with used.on_device(device):
        event = used.create_event()
        used.record(event, before)
        used.wait_for(event, after)
        used.destroy_event(event)


class Event:
    """A point in the work of a stream; two of them measure time on the device.

    Parameters
    ----------
    device : int
        The device's number.

    Examples
    --------
    >>> import jitcore
    >>> start, stop = jitcore.cuda.Event(), jitcore.cuda.Event()  # doctest: +SKIP
    >>> start.record()  # doctest: +SKIP
    >>> result = f(x)  # doctest: +SKIP
    >>> stop.record()  # doctest: +SKIP
    >>> start.seconds_until(stop)  # doctest: +SKIP
    """

    def __init__(self, *, device: int = 0) -> None:
        self._driver = driver.current()
        self.device = device
        with self._driver.on_device(device):
            self.handle = self._driver.create_event()
        weakref.finalize(self, self._driver.destroy_event, self.handle)

    def record(self, stream: Any = None) -> None:
        """Put the event after all that a stream was asked for; by default this thread's own.

        Parameters
        ----------
        stream : Stream, int or object, optional
            A stream of this or another library, or a ``CUstream``.
        """
        with self._driver.on_device(self.device):
            handle = current_stream(self.device) if stream is None else _handle_of(stream)
            self._driver.record(self.handle, handle)

    def seconds_until(self, later: Event) -> float:
        """The seconds between two recorded events; waits for the later one."""
        with self._driver.on_device(self.device):
            return self._driver.elapsed(self.handle, later.handle)


def synchronize(device: int | None = None) -> None:
    """Wait until a device has done all that was asked of it.

    Parameters
    ----------
    device : int, optional
        By default the current one.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.cuda.synchronize()  # doctest: +SKIP
    """
    used = driver.current()
    with used.on_device(used.device() if device is None else device):
        used.synchronize()
