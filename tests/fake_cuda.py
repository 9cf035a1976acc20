"""A CUDA driver without a GPU, for tests: `FakeDriver` has what ``codegen.cuda.driver`` says.

Device memory is memory of the host behind a second address.  The address that programs get to
see is protected: whoever reads an element there, as only kernels may, ends the process.

Kernels are Python functions that tests register by name, for `LibCuda.function` to find::

    fake.register("double", ("float32*", "int64"), double)

    def double(launch, x, n):        # x: all of the allocation from the pointer on, as float32
        x[:n] *= 2
"""

from __future__ import annotations

import bisect
import ctypes
import itertools
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jitcore.codegen.cuda.driver import DriverError, FunctionFacts, Properties

__all__ = ["FakeDriver", "Launch"]

Dim3 = tuple[int, int, int]

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [
    ctypes.c_void_p,
    ctypes.c_size_t,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_int,
    ctypes.c_long,
]
_libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]

_U32 = ctypes.c_uint32
_LAUNCH = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    ctypes.c_void_p,
    *[_U32] * 7,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.c_void_p,
)

_CONTEXT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))

_FIRST_CONTEXT = 77

_INVALID_VALUE = 1
_INVALID_HANDLE = 400
_OUT_OF_MEMORY = 2
_NOT_FOUND = 500


@dataclass(frozen=True, slots=True)
class Launch:
    """How a kernel was started."""

    name: str
    grid: Dim3
    block: Dim3
    shared: int
    stream: int


@dataclass(slots=True)
class _Kernel:
    name: str
    parameters: tuple[str, ...]
    run: Callable[..., None]


@dataclass(slots=True)
class _Memory:
    """One allocation: its protected address, the one to use, and its size."""

    address: int
    host: int
    size: int
    device: int


@dataclass(slots=True)
class _Stream:
    captured: list[Callable[[], None]] | None = None


@dataclass
class FakeDriver:
    """A driver whose kernels are Python functions.

    Parameters
    ----------
    devices : int
    memory_bytes : int
        What each device has.
    compute_capability : tuple of two int

    Attributes
    ----------
    launches : list of Launch
    allocated : int
        How many allocations there have been.
    fails_with : int
        A ``CUresult`` that the next launch gives.
    """

    devices: int = 1
    memory_bytes: int = 1 << 30
    compute_capability: tuple[int, int] = (9, 0)
    launches: list[Launch] = field(default_factory=list)
    allocated: int = 0
    fails_with: int = 0

    def __post_init__(self) -> None:
        self._new_handle = itertools.count(1001).__next__
        self._threads = threading.local()
        self._kernels: dict[str, _Kernel] = {}
        self._functions: dict[int, _Kernel] = {}
        self._memories: dict[int, _Memory] = {}
        # Threads allocate and free while others search: each search has a list of its own.
        self._starts: list[int] = []
        self._streams: dict[int, _Stream] = {0: _Stream()}
        self._ended: set[int] = set()
        self._events: dict[int, float] = {}
        self._graphs: dict[int, list[Callable[[], None]]] = {}
        self._modules: dict[int, str] = {}
        self.errors: list[BaseException] = []
        self._launching = threading.RLock()
        self._allocating = threading.RLock()
        self._callback = _LAUNCH(self._launched)
        self._context_callback = _CONTEXT(self._tell_context)

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    @property
    def launch_address(self) -> int:
        return ctypes.cast(self._callback, ctypes.c_void_p).value or 0

    @property
    def context_address(self) -> int:
        return ctypes.cast(self._context_callback, ctypes.c_void_p).value or 0

    def context(self, device: int) -> int:
        return _FIRST_CONTEXT + device

    def _tell_context(self, place: Any) -> int:
        """What ``cuCtxGetCurrent`` is here."""
        place[0] = self.context(self.device())
        return 0

    def register(self, name: str, parameters: Sequence[str], run: Callable[..., None]) -> None:
        """Make a Python function a kernel.

        Parameters
        ----------
        name : str
            What modules are asked for.
        parameters : sequence of str
            A dtype for each parameter; with ``*`` it is a pointer to such elements, which the
            function sees as an array of all of the allocation from there on.
        run : callable
            Called with a `Launch` and the parameters.
        """
        self._kernels[name] = _Kernel(name, tuple(parameters), run)

    def error(self, code: int, what: str) -> DriverError:
        return DriverError(f"CUDA error {code} while {what}: no such luck", code)

    def version(self) -> int:
        return 13000

    def device_count(self) -> int:
        return self.devices

    def properties(self, device: int | None = None) -> Properties:
        return Properties(
            name="fake device",
            compute_capability=self.compute_capability,
            multiprocessors=4,
            warp_size=32,
            threads_per_block=1024,
            threads_per_multiprocessor=2048,
            registers_per_multiprocessor=65536,
            shared_bytes_per_block=48 * 1024,
            shared_bytes_per_multiprocessor=228 * 1024,
            l2_bytes=50 << 20,
            memory_bytes=self.memory_bytes,
        )

    def device(self) -> int:
        return self._entered[-1]

    @property
    def _entered(self) -> list[int]:
        """The devices that this thread has entered, the current one last."""
        devices: list[int] = self._threads.__dict__.setdefault("devices", [0])
        return devices

    def enter(self, device: int) -> bool:
        if not 0 <= device < self.devices:
            raise DriverError(f"there is no device {device}", 101)
        if self.device() == device:
            return False
        self._entered.append(device)
        return True

    def leave(self) -> None:
        self._entered.pop()

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        entered = self.enter(device)
        try:
            yield
        finally:
            if entered:
                self.leave()

    def pointer_device(self, address: int) -> int:
        return self._find(address).device

    def _find(self, address: int) -> _Memory:
        starts = self._starts
        place = bisect.bisect_right(starts, address) - 1
        found = self._memories.get(starts[place]) if place >= 0 else None
        if found is not None and address <= found.address + found.size:
            return found
        raise DriverError(f"{address:#x} is no memory of the device", _INVALID_VALUE)

    def host_address(self, address: int, size: int = 0) -> int:
        """Where the host can read and write what lies at an address of the device."""
        found = self._find(address)
        if address + size > found.address + found.size:
            raise DriverError(f"{size} bytes at {address:#x} reach beyond the memory", 700)
        return found.host + address - found.address

    # Code

    def load_module(self, image: bytes | str, *, name: str) -> int:
        handle = self._new_handle()
        self._modules[handle] = name
        return handle

    def unload_module(self, module: int) -> None:
        del self._modules[module]

    def function(self, module: int, name: str) -> int:
        if name not in self._kernels:
            raise DriverError(f"there is no kernel {name}", _NOT_FOUND)
        handle = self._new_handle()
        self._functions[handle] = self._kernels[name]
        return handle

    def facts(self, function: int) -> FunctionFacts:
        return FunctionFacts(registers=32, local_bytes=0, shared_bytes=0, most_threads=1024)

    def blocks_per_multiprocessor(self, function: int, threads: int, shared: int = 0) -> int:
        return 2048 // threads

    def launch(
        self,
        function: int,
        grid: Dim3,
        block: Dim3,
        parameters: Sequence[object],
        *,
        shared: int = 0,
        stream: int = 0,
    ) -> None:
        addresses = (ctypes.c_void_p * max(1, len(parameters)))(
            *map(ctypes.addressof, parameters)  # type: ignore[arg-type]
        )
        code = self._launched(function, *grid, *block, shared, stream, addresses, None)
        if code:
            raise DriverError(f"the launch failed with {code}", code)

    def _launched(self, function: int, *rest: Any) -> int:
        """What ``cuLaunchKernel`` is here: one kernel runs at a time."""
        with self._launching:
            return self._launch_one(function, *rest)

    def _launch_one(self, function: int, *rest: Any) -> int:
        *sizes, shared, stream, parameters, _ = rest
        if self.fails_with:
            code, self.fails_with = self.fails_with, 0
            return code
        try:
            kernel = self._functions[function]
            launch = Launch(kernel.name, tuple(sizes[:3]), tuple(sizes[3:]), shared, stream or 0)
            values = [
                self._value(type_, parameters[number])
                for number, type_ in enumerate(kernel.parameters)
            ]
            self.launches.append(launch)
            self._do(lambda: kernel.run(launch, *values), stream or 0)
        except BaseException as error:
            # Native code has called: it only knows the code.
            self.errors.append(error)
            return _INVALID_VALUE
        return 0

    def _value(self, type_: str, address: int) -> Any:
        if type_.endswith("*"):
            pointer = ctypes.c_uint64.from_address(address).value
            return self.elements(pointer, np.dtype(type_[:-1]))
        dtype = np.dtype(type_)
        raw: Any = (ctypes.c_char * dtype.itemsize).from_address(address)
        return np.frombuffer(raw, dtype)[0]

    def elements(self, pointer: int, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """What lies on the device from an address on, to the end of the allocation."""
        if not pointer:
            return np.empty(0, dtype)
        found = self._find(pointer)
        count = (found.address + found.size - pointer) // dtype.itemsize
        raw: Any = (ctypes.c_char * (count * dtype.itemsize)).from_address(
            self.host_address(pointer)
        )
        return np.frombuffer(raw, dtype)

    def _do(self, work: Callable[[], None], stream: int) -> None:
        captured = self._streams[stream].captured if stream in self._streams else None
        if captured is None:
            work()
        else:
            captured.append(work)

    # Memory

    def allocate(self, size: int, stream: int = 0) -> int:
        if sum(one.size for one in list(self._memories.values())) + size > self.memory_bytes:
            raise DriverError(f"CUDA error 2 while allocating {size} bytes", _OUT_OF_MEMORY)
        pages = -(-max(1, size) // mmap.PAGESIZE) * mmap.PAGESIZE
        file = os.memfd_create("device memory")
        try:
            os.ftruncate(file, pages)
            address, host = (
                _libc.mmap(None, pages, protection, mmap.MAP_SHARED, file, 0)
                for protection in (0, mmap.PROT_READ | mmap.PROT_WRITE)
            )
        finally:
            os.close(file)
        ctypes.memset(host, 0x7F, max(1, size))
        memory = _Memory(address, host, max(1, size), self.device())
        with self._allocating:
            self._memories[address] = memory
            self._starts = sorted(self._memories)
            self.allocated += 1
        return int(address)

    def free(self, address: int, stream: int = 0) -> None:
        self._check(stream)
        with self._allocating:
            found = self._memories.pop(address, None)
            self._starts = sorted(self._memories)
        if found is None:
            raise DriverError(f"{address:#x} was not allocated", _INVALID_VALUE)
        pages = -(-found.size // mmap.PAGESIZE) * mmap.PAGESIZE
        for place in (found.address, found.host):
            _libc.munmap(place, pages)

    def copy_to_device(self, target: int, source: int, size: int, stream: int = 0) -> None:
        if size:
            ctypes.memmove(self.host_address(target, size), source, size)

    def copy_to_host(self, target: int, source: int, size: int, stream: int = 0) -> None:
        if stream in self._streams and self._streams[stream].captured is not None:
            raise DriverError("nobody can wait for a stream that is captured", 900)
        if size:
            ctypes.memmove(target, self.host_address(source, size), size)

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        def work() -> None:
            ctypes.memmove(self.host_address(target, size), self.host_address(source, size), size)

        if size:
            self._do(work, stream)

    def fill(self, target: int, byte: int, size: int, stream: int = 0) -> None:
        if size:
            place = self.host_address(target, size)
            self._do(lambda: _fill(place, byte, size), stream)

    def memory_info(self) -> tuple[int, int]:
        used = sum(one.size for one in list(self._memories.values()))
        return self.memory_bytes - used, self.memory_bytes

    # Streams, events and graphs

    def create_stream(self) -> int:
        handle = self._new_handle()
        self._streams[handle] = _Stream()
        return handle

    def destroy_stream(self, stream: int) -> None:
        del self._streams[stream]
        self._ended.add(stream)

    def _check(self, stream: int) -> None:
        """On a device, work for a stream that has ended may end the process."""
        if stream in self._ended:
            raise DriverError(f"{stream} is no stream any more", _INVALID_HANDLE)

    def synchronize(self, stream: int | None = None) -> None:
        if stream is not None and stream not in self._streams:
            raise DriverError(f"{stream} is no stream", _INVALID_VALUE)

    def create_event(self) -> int:
        return self._new_handle()

    def destroy_event(self, event: int) -> None:
        self._events.pop(event, None)

    def record(self, event: int, stream: int = 0) -> None:
        self._check(stream)
        self._events[event] = time.perf_counter()

    def is_done(self, event: int) -> bool:
        return event in self._events

    def wait_for(self, event: int, stream: int = 0) -> None:
        self._check(stream)
        if event not in self._events:
            raise DriverError("the event was not recorded", _INVALID_VALUE)

    def elapsed(self, start: int, stop: int) -> float:
        if not {start, stop} <= self._events.keys():
            raise DriverError("an event was not recorded", _INVALID_HANDLE)
        return self._events[stop] - self._events[start]

    def begin_capture(self, stream: int) -> None:
        if stream == 0:
            raise DriverError("the default stream cannot be captured", 900)
        self._streams[stream].captured = []

    def end_capture(self, stream: int) -> int:
        graph = self._new_handle()
        self._graphs[graph] = self._streams[stream].captured or []
        self._streams[stream].captured = None
        return graph

    def destroy_graph(self, graph: int) -> None:
        del self._graphs[graph]

    def instantiate(self, graph: int) -> int:
        executable = self._new_handle()
        self._graphs[executable] = self._graphs.pop(graph)
        return executable

    def launch_graph(self, executable: int, stream: int = 0) -> None:
        for work in self._graphs[executable]:
            work()

    def destroy_executable(self, executable: int) -> None:
        del self._graphs[executable]


def _fill(address: int, byte: int, size: int) -> None:
    ctypes.memset(address, byte, size)
