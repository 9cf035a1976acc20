"""What jitcore needs of the CUDA driver: devices, modules, memory, streams, events, graphs.

``Driver`` says what there is; ``codegen.cuda.libcuda`` has it on a machine with a GPU.  Addresses,
streams, modules, functions, events and graphs are plain integers, as the driver's handles are;
stream 0 is the default stream.  Everything runs on the current device of the calling thread, which
is the first one in a thread that has chosen none.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Protocol

from jitcore.ir.dataclass import dataclass

__all__ = [
    "Driver",
    "DriverError",
    "FunctionFacts",
    "Properties",
    "current",
    "is_available",
    "use",
    "why_unavailable",
]


class DriverError(RuntimeError):
    """The CUDA driver is missing or refused something.

    Parameters
    ----------
    message : str
        What was refused, why, and what to do.
    code : int
        The driver's ``CUresult``; 0 where the driver was not asked.
    """

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True, slots=True)
class Properties:
    """A device.

    Parameters
    ----------
    name : str
    compute_capability : tuple of two int
    multiprocessors : int
    warp_size : int
    threads_per_block, threads_per_multiprocessor : int
        The most there may be.
    registers_per_multiprocessor : int
    shared_bytes_per_block : int
    shared_bytes_per_multiprocessor : int
    l2_bytes, memory_bytes : int
    """

    name: str
    compute_capability: tuple[int, int]
    multiprocessors: int
    warp_size: int
    threads_per_block: int
    threads_per_multiprocessor: int
    registers_per_multiprocessor: int
    shared_bytes_per_block: int
    shared_bytes_per_multiprocessor: int
    l2_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class FunctionFacts:
    """What a kernel needs: registers and bytes of local memory a thread, shared bytes a block."""

    registers: int
    local_bytes: int
    shared_bytes: int
    most_threads: int


class Driver(Protocol):
    """The driver's functions; all raise `DriverError` where the driver refuses."""

    @property
    def launch_address(self) -> int:
        """The address of ``cuLaunchKernel``.

        Its C type is ``i32 (ptr function, i32 grid x, y, z, i32 block x, y, z, i32 shared bytes,
        ptr stream, ptr parameters, ptr extra)``; the parameters are an array of the addresses of
        the kernel's arguments.
        """
        ...

    @property
    def context_address(self) -> int:
        """The address of ``cuCtxGetCurrent``: ``i32 (ptr to a context)``."""
        ...

    def context(self, device: int) -> int:
        """What that gives in a thread whose current device this is."""
        ...

    def error(self, code: int, what: str) -> DriverError:
        """What to raise where a launch has given a code that is not 0, while doing something."""
        ...

    def version(self) -> int:
        """The newest CUDA the driver knows: 13000 is 13.0."""
        ...

    def device_count(self) -> int: ...

    def properties(self, device: int | None = None) -> Properties:
        """What a device is; that of the thread by default."""
        ...

    def device(self) -> int:
        """The number of this thread's current device; 0 where it has none yet."""
        ...

    def enter(self, device: int) -> bool:
        """Make a device the current one of this thread; whether `leave` has to follow."""
        ...

    def leave(self) -> None:
        """Go back to the device before."""
        ...

    def on_device(self, device: int) -> AbstractContextManager[None]:
        """Make a device the current one of this thread inside a ``with`` block."""
        ...

    def pointer_device(self, address: int) -> int:
        """The number of the device that memory lies on."""
        ...

    # Code

    def load_module(self, image: bytes | str, *, name: str) -> int:
        """Load a cubin or PTX for the current device; the error has the compiler's own log."""
        ...

    def unload_module(self, module: int) -> None: ...

    def function(self, module: int, name: str) -> int:
        """A kernel in a module."""
        ...

    def facts(self, function: int) -> FunctionFacts: ...

    def blocks_per_multiprocessor(self, function: int, threads: int, shared: int = 0) -> int:
        """How many blocks of a kernel run on a multiprocessor at the same time."""
        ...

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: Sequence[object],
        *,
        shared: int = 0,
        stream: int = 0,
    ) -> None:
        """Start a kernel; the parameters are objects of ctypes."""
        ...

    # Memory

    def allocate(self, size: int, stream: int = 0) -> int:
        """New memory that a stream may use from here on; at least one byte."""
        ...

    def free(self, address: int, stream: int = 0) -> None:
        """Give memory back when the stream has come to this point."""
        ...

    def copy_to_device(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copy from the host; the source may be changed when this returns."""
        ...

    def copy_to_host(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copy to the host, which waits for the stream."""
        ...

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copy on the device."""
        ...

    def fill(self, target: int, byte: int, size: int, stream: int = 0) -> None: ...

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes of the current device."""
        ...

    # Streams, events and graphs

    def create_stream(self) -> int:
        """A stream that does not wait for the default stream."""
        ...

    def destroy_stream(self, stream: int) -> None: ...

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream, or for all work of the current device."""
        ...

    def create_event(self) -> int: ...

    def destroy_event(self, event: int) -> None: ...

    def record(self, event: int, stream: int = 0) -> None: ...

    def is_done(self, event: int) -> bool:
        """Whether a stream has come to an event that was recorded there."""
        ...

    def wait_for(self, event: int, stream: int = 0) -> None:
        """Have a stream wait for an event."""
        ...

    def elapsed(self, start: int, stop: int) -> float:
        """Seconds between two recorded events; waits for the second."""
        ...

    def begin_capture(self, stream: int) -> None:
        """Record what this thread asks of a stream as a graph, in place of doing it."""
        ...

    def end_capture(self, stream: int) -> int:
        """The graph of what was recorded."""
        ...

    def destroy_graph(self, graph: int) -> None: ...

    def instantiate(self, graph: int) -> int:
        """An executable form of a graph, which is given back."""
        ...

    def launch_graph(self, executable: int, stream: int = 0) -> None: ...

    def destroy_executable(self, executable: int) -> None: ...


_LIBRARY = "jitcore.codegen.cuda.libcuda"

_INSTALL = (
    "a GPU needs NVIDIA's driver for it (libcuda.so.1 or nvcuda.dll; `nvidia-smi` shows whether it "
    'runs), and the compiler\'s packages: pip install "jitcore[cuda]"'
)

_lock = threading.Lock()
_used: list[Driver] = []


def current() -> Driver:
    """The driver of this process; DriverError where there is none."""
    if _used:
        return _used[-1]
    return _installed()


@contextmanager
def use(driver: Driver) -> Iterator[Driver]:
    """Use another driver inside a ``with`` block, in all threads: tests have one without a GPU."""
    with _lock:
        _used.append(driver)
    try:
        yield driver
    finally:
        with _lock:
            _used.remove(driver)


def why_unavailable() -> str:
    """Why there is no device to run on; nothing where there is one."""
    try:
        count = current().device_count()
    except DriverError as error:
        return str(error)
    return "" if count else f"the CUDA driver finds no device; {_INSTALL}"


def is_available() -> bool:
    """Whether there is a driver with at least one device."""
    return not why_unavailable()


@cache
def _installed() -> Driver:
    try:
        driver: Driver = importlib.import_module(_LIBRARY).LibCuda()
    except OSError as error:
        raise DriverError(f"there is no CUDA driver ({error}); {_INSTALL}") from error
    return driver
