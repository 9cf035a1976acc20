"""Machine code of LLVM's modules, which a thread beside the one that compiles writes as well.

llvmlite lets one thread into LLVM at a time.  LLVM writes code of several modules at the same time
where these are of different contexts and each thread has target machines of its own (LLVM
Programmer's Manual, "Threads and LLVM").  So the thread beside calls the function that writes
without llvmlite's lock, and hardly anything else: it waits for Python's global lock once a module.

What that thread has not begun when its code is asked for, is written by who asks, in llvmlite's own
way.  So nothing depends on it.  It ends when nothing is left to write, or when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from llvmlite.binding import ffi

__all__ = ["Emission"]


class _Library:
    """The functions of llvmlite's library, without its lock."""

    def __init__(self, name: str) -> None:
        self.emit = ctypes.CDLL(name).LLVMPY_TargetMachineEmitToMemory
        self.emit.restype = ctypes.c_void_p
        self.emit.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        # These take no time, in which no other thread has to run.
        quick = ctypes.PyDLL(name)
        self.start_of, self.size_of = quick.LLVMPY_GetBufferStart, quick.LLVMPY_GetBufferSize
        self.start_of.restype, self.size_of.restype = ctypes.c_void_p, ctypes.c_size_t
        self.dispose = quick.LLVMPY_DisposeMemoryBuffer
        self.dispose_message = quick.LLVMPY_DisposeString
        for one in (self.start_of, self.size_of, self.dispose, self.dispose_message):
            one.argtypes = [ctypes.c_void_p]


def _find_library(lib: Any) -> _Library | None:
    """Where llvmlite keeps its library is its own affair, so another version may not tell."""
    try:
        return _Library(lib._name)
    except (AttributeError, OSError):
        return None


_library = _find_library(ffi.lib)


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
        if _library is not None:
            self._machine_beside = self._machine(True)
            _beside.take(self)

    def code(self) -> bytes:
        """The object code; RuntimeError where LLVM refuses to write it."""
        if self._machine_beside is None or _beside.leave(self):
            written: bytes = self._machine(False).emit_object(self._module)
            return written
        self._is_written.wait()
        if self._code is None:
            raise RuntimeError(self._message)
        return self._code

    def write_beside(self) -> None:
        """Write the code, in the thread beside."""
        assert _library is not None
        try:
            message = ctypes.c_void_p()
            buffer = _library.emit(self._machine_beside, self._module, True, ctypes.byref(message))
            if buffer:
                start, size = _library.start_of(buffer), _library.size_of(buffer)
                self._code = ctypes.string_at(start, size)
                _library.dispose(buffer)
            elif message.value is not None:
                self._message = ctypes.string_at(message.value).decode(errors="replace")
                _library.dispose_message(message)
        finally:
            self._is_written.set()


class _Beside:
    """The thread beside, and what it will write."""

    def __init__(self) -> None:
        self.writing = threading.Lock()
        self._waiting: deque[Emission] = deque()
        self._thread: threading.Thread | None = None
        self._has_ended = False

    def take(self, emission: Emission) -> None:
        """Have the code written after that of all before it."""
        self._waiting.append(emission)
        if self._thread is None or not self._thread.is_alive():
            # The end of the process waits for one module, see `end`, and not for all.
            self._thread = threading.Thread(target=self._run, name="jitcore emission", daemon=True)
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

    def end(self) -> None:
        """Begin with no more: the process will destroy what LLVM works with."""
        with self.writing:
            self._has_ended = True

    def _run(self) -> None:
        while self._waiting:
            with self.writing:
                if self._has_ended:
                    return
                try:
                    emission = self._waiting.popleft()
                except IndexError:
                    return
                emission.write_beside()
                # What nobody else keeps is given back to LLVM while no fork begins.
                del emission


_beside = _Beside()
atexit.register(_beside.end)
# The child of a fork finds LLVM whole, and no code half written.
os.register_at_fork(
    before=_beside.writing.acquire,
    after_in_parent=_beside.writing.release,
    after_in_child=_beside.writing.release,
)
