"""The CUDA driver itself, through ctypes: what ``codegen.cuda.driver`` says, on a GPU.

The functions are those of ``cuda.h``; where it renames one to a newer form (``cuMemAlloc`` is
``cuMemAlloc_v2``), the library's own symbol stands here.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from jitcore.codegen.cuda.driver import DriverError, FunctionFacts, Properties

__all__ = ["LibCuda"]

_NAME = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

_OUT_OF_MEMORY = 2
_INVALID_CONTEXT = 201
_NOT_READY = 600

# CUdevice_attribute
_DEVICE: Final = {
    "threads_per_block": 1,
    "shared_bytes_per_block": 8,
    "warp_size": 10,
    "multiprocessors": 16,
    "l2_bytes": 38,
    "threads_per_multiprocessor": 39,
    "shared_bytes_per_multiprocessor": 81,
    "registers_per_multiprocessor": 82,
}
_CAPABILITY = (75, 76)
_MEMORY_POOLS = 115

# CUfunction_attribute
_MOST_THREADS, _SHARED, _LOCAL, _REGISTERS = 0, 1, 3, 4

_ERROR_LOG, _ERROR_LOG_SIZE = 5, 6  # CUjit_option
_RELEASE_THRESHOLD = 4  # CUmemPool_attribute
_ORDINAL = 9  # CUpointer_attribute
_NON_BLOCKING = 1  # CUstream_flags
_RELAXED = 2  # CUstreamCaptureMode

_LOG_BYTES = 16 * 1024

_HINTS: Final = {
    _OUT_OF_MEMORY: "free arrays that are no longer needed, or work on parts of the data",
    3: "a process that was forked cannot use the GPU if its parent has: start processes by spawn",
    100: "no device is visible; look at CUDA_VISIBLE_DEVICES and nvidia-smi",
    209: "the code was compiled for another kind of device",
    222: "the PTX is newer than the driver: install cuda-toolkit of the driver's version",
    700: "a kernel reached memory that it must not; the process has to be started anew",
    803: "the driver and this process's CUDA libraries are of different versions",
}

_Handle = ctypes.c_void_p


class LibCuda:
    """The CUDA driver.

    Raises
    ------
    OSError
        The library is not there.
    DriverError
        It cannot be initialized.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL(_NAME)
        self._call("cuInit", ctypes.c_uint(0))
        self._contexts: dict[int, int] = {}
        self._pools: dict[int, bool] = {}
        self._properties: dict[int, Properties] = {}
        self._lock = threading.RLock()
        self.launch_address = self._address("cuLaunchKernel")

    @property
    def context_address(self) -> int:
        return self._address("cuCtxGetCurrent")

    def _address(self, name: str) -> int:
        found = ctypes.cast(getattr(self._library, name), ctypes.c_void_p).value
        assert found is not None
        return found

    def _call(self, name: str, *arguments: Any, what: str = "") -> None:
        """Call a function and raise what its code says."""
        function = getattr(self._library, name)
        code = function(*arguments)
        if code == _INVALID_CONTEXT and self._begin_thread():
            code = function(*arguments)
        if code:
            raise DriverError(self._message(code, name, what), code)

    def _begin_thread(self) -> bool:
        """Give a thread that has used no device so far the first one, as CUDA's runtime does."""
        current = _Handle()
        if self._library.cuCtxGetCurrent(ctypes.byref(current)) or current.value:
            return False
        return not self._library.cuCtxSetCurrent(_Handle(self.context(0)))

    def _message(self, code: int, name: str, what: str) -> str:
        text = ctypes.c_char_p()
        self._library.cuGetErrorString(code, ctypes.byref(text))
        reason = (text.value or b"unknown error").decode()
        hint = f"; {_HINTS[code]}" if code in _HINTS else ""
        where = f" while {what}" if what else ""
        return f"CUDA error {code} in {name}{where}: {reason}{hint}"

    def error(self, code: int, what: str) -> DriverError:
        return DriverError(self._message(code, "cuLaunchKernel", what), code)

    def _int(self, name: str, *arguments: Any) -> int:
        """An int that a function writes to where its first argument points."""
        found = ctypes.c_int()
        self._call(name, ctypes.byref(found), *arguments)
        return found.value

    def _handle(self, name: str, *arguments: Any, what: str = "") -> int:
        """A handle that a function writes to where its first argument points."""
        found = _Handle()
        self._call(name, ctypes.byref(found), *arguments, what=what)
        return found.value or 0

    def version(self) -> int:
        return self._int("cuDriverGetVersion")

    # Devices

    def device_count(self) -> int:
        return self._int("cuDeviceGetCount")

    def properties(self, device: int | None = None) -> Properties:
        number = self.device() if device is None else device
        if number not in self._properties:
            self._properties[number] = self._read_properties(number)
        return self._properties[number]

    def _read_properties(self, device: int) -> Properties:
        handle = self._device_handle(device)
        name = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", name, 256, handle)
        memory = ctypes.c_size_t()
        self._call("cuDeviceTotalMem_v2", ctypes.byref(memory), handle)
        major, minor = (self._attribute(one, handle) for one in _CAPABILITY)
        numbers = {key: self._attribute(one, handle) for key, one in _DEVICE.items()}
        return Properties(
            name=name.value.decode(errors="replace"),
            compute_capability=(major, minor),
            memory_bytes=memory.value,
            **numbers,
        )

    def _device_handle(self, device: int) -> int:
        return self._int("cuDeviceGet", device)

    def _attribute(self, attribute: int, handle: int) -> int:
        return self._int("cuDeviceGetAttribute", attribute, handle)

    def context(self, device: int) -> int:
        """The device's primary context, which all libraries share; kept for good."""
        with self._lock:
            if device not in self._contexts:
                handle = self._device_handle(device)
                self._contexts[device] = self._handle("cuDevicePrimaryCtxRetain", handle)
                self._pools[device] = bool(self._attribute(_MEMORY_POOLS, handle))
                if self._pools[device]:
                    self._keep_memory(handle)
            return self._contexts[device]

    def _keep_memory(self, handle: int) -> None:
        """Have the device's pool keep what was freed: asking the system anew takes long."""
        pool = self._handle("cuDeviceGetDefaultMemPool", handle)
        everything = ctypes.c_uint64(2**64 - 1)
        threshold = ctypes.byref(everything)
        self._call("cuMemPoolSetAttribute", _Handle(pool), _RELEASE_THRESHOLD, threshold)

    def device(self) -> int:
        current = _Handle()
        self._call("cuCtxGetCurrent", ctypes.byref(current))
        if not current.value:
            return 0
        return self._int("cuCtxGetDevice")

    def enter(self, device: int) -> bool:
        context = self._contexts.get(device) or self.context(device)
        current = _Handle()
        # Every call of a compiled function asks: it fails only before cuInit.
        self._library.cuCtxGetCurrent(ctypes.byref(current))
        # A thread keeps its first device, as with CUDA's runtime: direct calls change none.
        begins = not current.value and device == 0
        if current.value == context or (begins and self._begin_thread()):
            return False
        self._call("cuCtxPushCurrent_v2", _Handle(context))
        return True

    def leave(self) -> None:
        popped = _Handle()
        self._call("cuCtxPopCurrent_v2", ctypes.byref(popped))

    @contextmanager
    def on_device(self, device: int) -> Iterator[None]:
        entered = self.enter(device)
        try:
            yield
        finally:
            if entered:
                self.leave()

    def _has_pool(self, device: int) -> bool:
        self.context(device)
        return self._pools[device]

    def pointer_device(self, address: int) -> int:
        found = ctypes.c_int()
        what = "looking for the device of an array's memory"
        place = ctypes.c_uint64(address)
        self._call("cuPointerGetAttribute", ctypes.byref(found), _ORDINAL, place, what=what)
        return found.value

    # Code

    def load_module(self, image: bytes | str, *, name: str) -> int:
        code = image.encode() if isinstance(image, str) else image
        log = ctypes.create_string_buffer(_LOG_BYTES)
        options = (ctypes.c_int * 2)(_ERROR_LOG, _ERROR_LOG_SIZE)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
        try:
            return self._handle(
                "cuModuleLoadDataEx", code + b"\0", 2, options, values, what=f"loading {name}"
            )
        except DriverError as error:
            text = log.value.decode(errors="replace").strip()
            if not text:
                raise
            raise DriverError(f"{error}\n{text}", error.code) from None

    def unload_module(self, module: int) -> None:
        self._call("cuModuleUnload", _Handle(module))

    def function(self, module: int, name: str) -> int:
        what = f"looking for the kernel {name}"
        return self._handle("cuModuleGetFunction", _Handle(module), name.encode(), what=what)

    def facts(self, function: int) -> FunctionFacts:
        def attribute(number: int) -> int:
            return self._int("cuFuncGetAttribute", number, _Handle(function))

        return FunctionFacts(
            registers=attribute(_REGISTERS),
            local_bytes=attribute(_LOCAL),
            shared_bytes=attribute(_SHARED),
            most_threads=attribute(_MOST_THREADS),
        )

    def blocks_per_multiprocessor(self, function: int, threads: int, shared: int = 0) -> int:
        return self._int(
            "cuOccupancyMaxActiveBlocksPerMultiprocessor",
            _Handle(function),
            threads,
            ctypes.c_size_t(shared),
        )

    def launch(
        self,
        function: int,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        parameters: Sequence[Any],
        *,
        shared: int = 0,
        stream: int = 0,
    ) -> None:
        addresses = (ctypes.c_void_p * max(1, len(parameters)))(*map(ctypes.addressof, parameters))
        sizes = map(ctypes.c_uint, (*grid, *block, shared))
        what = f"starting a kernel on a grid of {grid} with blocks of {block}"
        self._call(
            "cuLaunchKernel",
            _Handle(function),
            *sizes,
            _Handle(stream),
            addresses,
            None,
            what=what,
        )

    # Memory

    def allocate(self, size: int, stream: int = 0) -> int:
        found = ctypes.c_uint64()
        place, count = ctypes.byref(found), ctypes.c_size_t(max(1, size))
        what = f"allocating {size} bytes"
        device = self.device()
        with self.on_device(device):
            if self._has_pool(device):
                self._call("cuMemAllocAsync", place, count, _Handle(stream), what=what)
            else:
                self._call("cuMemAlloc_v2", place, count, what=what)
        return found.value

    def free(self, address: int, stream: int = 0) -> None:
        what = "freeing memory"
        if self._has_pool(self.pointer_device(address)):
            self._call("cuMemFreeAsync", ctypes.c_uint64(address), _Handle(stream), what=what)
        else:
            # It waits for all work of the device, so that no stream uses the memory any more.
            self._call("cuMemFree_v2", ctypes.c_uint64(address), what=what)

    def copy_to_device(self, target: int, source: int, size: int, stream: int = 0) -> None:
        self._copy("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(target), _Handle(source), size, stream)
        # The source may be page-locked: then the copy only begins here.
        self.synchronize(stream)

    def copy_to_host(self, target: int, source: int, size: int, stream: int = 0) -> None:
        self._copy("cuMemcpyDtoHAsync_v2", _Handle(target), ctypes.c_uint64(source), size, stream)
        self.synchronize(stream)

    def copy(self, target: int, source: int, size: int, stream: int = 0) -> None:
        places = ctypes.c_uint64(target), ctypes.c_uint64(source)
        self._copy("cuMemcpyDtoDAsync_v2", *places, size, stream)

    def _copy(self, name: str, target: Any, source: Any, size: int, stream: int) -> None:
        if size:
            what = f"copying {size} bytes"
            self._call(name, target, source, ctypes.c_size_t(size), _Handle(stream), what=what)

    def fill(self, target: int, byte: int, size: int, stream: int = 0) -> None:
        if size:
            place, count = ctypes.c_uint64(target), ctypes.c_size_t(size)
            self._call("cuMemsetD8Async", place, ctypes.c_ubyte(byte), count, _Handle(stream))

    def memory_info(self) -> tuple[int, int]:
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        with self.on_device(self.device()):
            self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    # Streams, events and graphs

    def create_stream(self) -> int:
        return self._handle("cuStreamCreate", _NON_BLOCKING)

    def destroy_stream(self, stream: int) -> None:
        self._call("cuStreamDestroy_v2", _Handle(stream))

    def synchronize(self, stream: int | None = None) -> None:
        what = "waiting for the device"
        if stream is None:
            self._call("cuCtxSynchronize", what=what)
        else:
            self._call("cuStreamSynchronize", _Handle(stream), what=what)

    def create_event(self) -> int:
        return self._handle("cuEventCreate", 0)

    def destroy_event(self, event: int) -> None:
        self._call("cuEventDestroy_v2", _Handle(event))

    def record(self, event: int, stream: int = 0) -> None:
        self._call("cuEventRecord", _Handle(event), _Handle(stream))

    def is_done(self, event: int) -> bool:
        code: int = self._library.cuEventQuery(_Handle(event))
        if code not in (0, _NOT_READY):
            raise DriverError(self._message(code, "cuEventQuery", ""), code)
        return not code

    def wait_for(self, event: int, stream: int = 0) -> None:
        self._call("cuStreamWaitEvent", _Handle(stream), _Handle(event), 0)

    def elapsed(self, start: int, stop: int) -> float:
        milliseconds = ctypes.c_float()
        self._call("cuEventSynchronize", _Handle(stop))
        place = ctypes.byref(milliseconds)
        self._call("cuEventElapsedTime", place, _Handle(start), _Handle(stop))
        return milliseconds.value / 1000

    def begin_capture(self, stream: int) -> None:
        self._call("cuStreamBeginCapture_v2", _Handle(stream), _RELAXED)

    def end_capture(self, stream: int) -> int:
        found = _Handle()
        self._call("cuStreamEndCapture", _Handle(stream), ctypes.byref(found))
        return found.value or 0

    def destroy_graph(self, graph: int) -> None:
        self._call("cuGraphDestroy", _Handle(graph))

    def instantiate(self, graph: int) -> int:
        try:
            return self._handle("cuGraphInstantiateWithFlags", _Handle(graph), ctypes.c_uint64(0))
        finally:
            self.destroy_graph(graph)

    def launch_graph(self, executable: int, stream: int = 0) -> None:
        self._call("cuGraphLaunch", _Handle(executable), _Handle(stream))

    def destroy_executable(self, executable: int) -> None:
        self._call("cuGraphExecDestroy", _Handle(executable))
