"""Machine code of LLVM's modules, which a thread beside the one that compiles writes as well.

llvmlite lets one thread into LLVM at a time.  LLVM writes code of several modules at the same time
where these are of different contexts and each thread has target machines of its own (LLVM
Programmer's Manual, "Threads and LLVM").  So the function that writes is called without llvmlite's
lock, and is all that the thread beside calls: it waits for Python's global lock once a module.

What that thread has not begun when its code is asked for, is written by who asks.  So nothing
depends on it, and it ends when nothing is left to write.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llvmlite.binding import ffi

__all__ = ["Emission"]

_NAME: str = ffi.lib._name
_emit = ctypes.CDLL(_NAME).LLVMPY_TargetMachineEmitToMemory
_emit.restype = ctypes.c_void_p
_emit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

# These take no time, in which no other thread has to run.
_quick = ctypes.PyDLL(_NAME)
_start_of, _size_of = _quick.LLVMPY_GetBufferStart, _quick.LLVMPY_GetBufferSize
_start_of.restype, _size_of.restype = ctypes.c_void_p, ctypes.c_size_t
_dispose, _dispose_message = _quick.LLVMPY_DisposeMemoryBuffer, _quick.LLVMPY_DisposeString
for _function in (_start_of, _size_of, _dispose, _dispose_message):
    _function.argtypes = [ctypes.c_void_p]


class Emission:
    """The object code of a module.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
    machine : function
        Gives the target machine of the thread beside for True, and of all others for False.
    """

    def __init__(self, module: Any, machine: Callable[[bool], Any]) -> None:
        self._module = module
        self._machine = machine
        self._machine_beside: Any = None
        self._is_written = threading.Event()
        self._code: bytes | None = None
        self._message = ""

    def begin(self) -> None:
        """Have it written beside; nothing in the module's context may be read or changed then."""
        self._machine_beside = self._machine(True)
        _beside.take(self)

    def code(self) -> bytes:
        """The object code; RuntimeError where LLVM refuses to write it."""
        if self._machine_beside is None or _beside.leave(self):
            self._write(self._machine(False))
        self._is_written.wait()
        if self._code is None:
            raise RuntimeError(self._message)
        return self._code

    def write_beside(self) -> None:
        """Write the code, in the thread beside."""
        self._write(self._machine_beside)

    def _write(self, machine: Any) -> None:
        try:
            message = ctypes.c_void_p()
            buffer = _emit(machine, self._module, True, ctypes.byref(message))
            if buffer:
                self._code = ctypes.string_at(_start_of(buffer), _size_of(buffer))
                _dispose(buffer)
            elif message.value is not None:
                self._message = ctypes.string_at(message.value).decode(errors="replace")
                _dispose_message(message)
        finally:
            self._is_written.set()


class _Beside:
    """The thread beside, and what it will write."""

    def __init__(self) -> None:
        self.writing = threading.Lock()
        self._waiting: deque[Emission] = deque()
        self._thread: threading.Thread | None = None

    def take(self, emission: Emission) -> None:
        """Have the code written after that of all before it."""
        self._waiting.append(emission)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="jitcore emission")
            # Where no thread can be started, who asks for code writes it.
            with suppress(RuntimeError):
                self._thread.start()

    def leave(self, emission: Emission) -> bool:
        """Whether the thread has not begun with it, and does not any more."""
        try:
            self._waiting.remove(emission)
        except ValueError:
            return False
        return True

    def _run(self) -> None:
        while self._waiting:
            with self.writing:
                try:
                    emission = self._waiting.popleft()
                except IndexError:
                    return
                emission.write_beside()


_beside = _Beside()
# The child of a fork finds LLVM whole, and no code half written.
os.register_at_fork(
    before=_beside.writing.acquire,
    after_in_parent=_beside.writing.release,
    after_in_child=_beside.writing.release,
)
