"""Machine code of LLVM's modules, which a thread beside the one that compiles writes as well.

llvmlite lets one thread into LLVM at a time.  LLVM works on several modules at the same time where
these are of different contexts and each thread has target machines of its own (LLVM Programmer's
Manual, "Threads and LLVM").  So the thread beside calls what optimizes a module and what writes its
code without llvmlite's lock, and hardly anything else: it waits for Python's global lock between
these steps.

What that thread has not begun when its code is asked for, is written by who asks, in llvmlite's own
way.  So nothing depends on it.  It ends when nothing is left to write, or when the process ends.
"""

from __future__ import annotations

import atexit
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal

import llvmlite.binding as llvm
from llvmlite.binding import ffi
from llvmlite.binding.newpassmanagers import NewPassManager

from jitcore.codegen.forks import hold_for_forks

__all__ = [
    "OF_REGISTERS",
    "SPEED_LEVEL",
    "TUNING",
    "Effort",
    "Emission",
    "InvalidCode",
    "Linker",
    "optimize",
]

Effort = Literal["none", "code", "registers", "loops", "loops only"]
"""What is optimized: nothing, machine code only, straight lines before that, or loops as well.

The last but one is LLVM's O3 pipeline.  The last is the same without vectors of what is no loop: of
long straight lines LLVM 22 now and then makes code in which a vector is read before it is there,
and writing machine code of that ends the process.  So what comes of the pipeline is verified, which
takes a fiftieth of its time, and such code is made anew.  To choose and schedule machine code well
takes five to eight times as long as to translate line by line, which does for what mostly calls
other functions.
"""

SPEED_LEVEL: Final = 3
"""O2 takes up to half of the time, but no longer unrolls loops of few trips inside of others: the
nearest of eight centres of 65,536 points took six times as long."""
TUNING: Final = (
    "loop_vectorization",
    "slp_vectorization",
    "loop_interleaving",
    "loop_unrolling",
)
OF_REGISTERS: Final = (
    "sroa",
    "simplify_cfg",
    "loop_rotate",
    "instruction_combine",
    "simplify_cfg",
)
"""The passes that a module gets whose loops stay as they are."""


class _Passes:
    """The passes for a module, which use what this target machine knows."""

    def __init__(self, effort: Effort, machine: Any) -> None:
        options = llvm.create_pipeline_tuning_options(speed_level=SPEED_LEVEL)
        for option in TUNING:
            setattr(options, option, option != "slp_vectorization" or effort != "loops only")
        self.builder = llvm.create_pass_builder(machine, options)
        if effort != "registers":
            self.manager = self.builder.getModulePassManager()
            return
        self.manager = llvm.create_new_module_pass_manager()
        for name in OF_REGISTERS:
            getattr(self.manager, f"add_{name}_pass")()

    def dispose(self) -> None:
        """Give LLVM back what it made for them."""
        # llvmlite's own class for it inherits a _dispose() that does nothing, before the real one.
        NewPassManager._dispose(self.manager)
        self.manager.detach()


def _passes(effort: Effort, machine: Any) -> _Passes | None:
    """The passes for a module, where it gets any."""
    return _Passes(effort, machine) if effort not in ("none", "code") else None


class InvalidCode(RuntimeError):
    """LLVM's passes made code that is none."""


def optimize(module: Any, effort: Effort, machine: Any) -> None:
    """Optimize a module, in llvmlite's own way.

    Raises
    ------
    InvalidCode
        It has to be made anew, as ``"loops only"``.
    """
    passes = _passes(effort, machine)
    if passes is not None:
        passes.manager.run(module, passes.builder)
        passes.dispose()
    if effort == "loops":
        try:
            module.verify()
        except RuntimeError as error:
            raise InvalidCode(str(error)) from error


class _Library:
    """The functions of llvmlite's library, without its lock."""

    def __init__(self, name: str) -> None:
        slow, pointer = ctypes.CDLL(name), ctypes.c_void_p
        self.run_passes = slow.LLVMPY_RunNewModulePassManager
        self.run_passes.restype, self.run_passes.argtypes = None, [pointer] * 3
        self.verify = slow.LLVMPY_VerifyModule
        self.verify.restype, self.verify.argtypes = ctypes.c_bool, [pointer, pointer]
        self.emit = slow.LLVMPY_TargetMachineEmitToMemory
        self.emit.restype = pointer
        self.emit.argtypes = [pointer, pointer, ctypes.c_int, pointer]
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


class _LockOfLLVM:
    """The lock of llvmlite, which lets one thread into LLVM at a time."""

    def __init__(self, held: Any) -> None:
        self._held = held

    def acquire(self) -> None:
        self._held.__enter__()

    def release(self) -> None:
        self._held.__exit__(None, None, None)


# A library ends in any thread, and other users of llvmlite compile in theirs.  Who forks takes this
# lock last, since all that compiles takes it within its own.
with suppress(AttributeError):  # another version may keep it elsewhere
    hold_for_forks(_LockOfLLVM(ffi.lib._lock))


Doer = Literal["beside", "who needs it"]


class Work:
    """Something that the thread beside does, or who needs it first."""

    def __init__(self) -> None:
        self._is_begun = False
        self._doer: dict[Literal["doer"], Doer] = {}
        self._is_done = threading.Event()

    def begin(self) -> None:
        """Have it done beside, once, where that thread can work without llvmlite's lock."""
        is_new = not (self._is_begun or self._is_done.is_set())
        if _library is not None and is_new:
            self._is_begun = True
            _beside.take(self)

    def finish(self) -> None:
        """Do it, where the thread beside has not begun, or wait until it is done.

        Who is interrupted anywhere in here may call it again.
        """
        if self._taken_by("who needs it") == "who needs it" and not self._is_done.is_set():
            _beside.leave(self)
            self.write()
            self._is_done.set()
        self._is_done.wait()

    def run_beside(self) -> None:
        """Do it, in the thread beside, where nobody else does."""
        if self._taken_by("beside") == "beside":
            try:
                self.write_beside()
            finally:
                self._is_done.set()

    def _taken_by(self, doer: Doer) -> Doer:
        """Who does it: the first who asks, in one step, and then the same whoever asks."""
        return self._doer.setdefault("doer", doer)

    def write(self) -> None:
        """Do it, in llvmlite's own way."""
        raise NotImplementedError

    def write_beside(self) -> None:
        """Do it in the thread beside."""
        self.write()


class Emission(Work):
    """The object code of a module, which is optimized before.

    Parameters
    ----------
    module : llvmlite.binding.ModuleRef
    effort : str
    machine : function
        Gives the target machine of the thread beside for True, and of all others for False.
    """

    def __init__(self, module: Any, effort: Effort, machine: Callable[[bool], Any]) -> None:
        super().__init__()
        self._module = module
        self._effort = effort
        self._machine = machine
        self._machine_beside: Any = None
        self._passes_beside: _Passes | None = None
        self._code: bytes | None = None
        self._message = ""
        self._is_invalid = False

    def begin(self) -> None:
        """Have it written beside; nothing in the module's context may be read or changed then."""
        if _library is not None:
            self._machine_beside = self._machine(True)
            # To ask what a machine is, does not disturb the thread that works with it.
            self._passes_beside = _passes(self._effort, self._machine_beside)
            super().begin()

    def code(self) -> bytes:
        """The object code; RuntimeError where LLVM refuses to write it, or `InvalidCode`."""
        self.finish()
        # Never twice, also where an interrupt comes in between.
        passes, self._passes_beside = self._passes_beside, None
        if passes is not None:
            passes.dispose()
        if self._is_invalid:
            raise InvalidCode(self._message)
        if self._code is None:
            raise RuntimeError(self._message)
        return self._code

    def write(self) -> None:
        """Write the code, in llvmlite's own way."""
        machine = self._machine(False)
        try:
            optimize(self._module, self._effort, machine)
        except InvalidCode as error:
            self._is_invalid, self._message = True, str(error)
            return
        self._code = machine.emit_object(self._module)

    def write_beside(self) -> None:
        """Write the code, in the thread beside."""
        library, module, passes = _library, self._module, self._passes_beside
        assert library is not None
        if passes is not None:
            library.run_passes(passes.manager, module, passes.builder)
        message = ctypes.c_void_p()
        if self._effort == "loops" and library.verify(module, ctypes.byref(message)):
            self._is_invalid = True
            self._take(message)
            return
        self._take(message)
        buffer = library.emit(self._machine_beside, module, True, ctypes.byref(message))
        if buffer:
            start, size = library.start_of(buffer), library.size_of(buffer)
            self._code = ctypes.string_at(start, size)
            library.dispose(buffer)
        else:
            self._take(message)

    def _take(self, message: ctypes.c_void_p) -> None:
        """Keep LLVM's message, where there is one, and give its memory back."""
        if message.value is not None:
            assert _library is not None
            self._message = ctypes.string_at(message.value).decode(errors="replace")
            _library.dispose_message(message)
            message.value = None


class Linker(Work):
    """What links code, which takes as long to make as a small function to compile."""

    def __init__(self) -> None:
        super().__init__()
        self._made: Any = None

    def made(self) -> Any:
        """LLVM's object for it; the target is known before."""
        self.finish()
        if self._made is None:
            self.write()
        return self._made

    def write(self) -> None:
        """Make it."""
        self._made = llvm.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
        # It must outlive every library, also while the interpreter ends.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._made))

    def end(self) -> None:
        """Give it back to LLVM: none of its libraries is left, and none will come."""
        made, self._made = self._made, None
        if made is not None:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(made))


class _Beside:
    """The thread beside, and what it will do."""

    def __init__(self) -> None:
        self.writing = threading.Lock()
        self._waiting: deque[Work] = deque()
        self._thread: threading.Thread | None = None
        self._has_ended = False

    def take(self, work: Work) -> None:
        """Have it done after all before it."""
        self._waiting.append(work)
        if self._thread is None or not self._thread.is_alive():
            # The end of the process waits for one module, see `end`, and not for all.
            self._thread = threading.Thread(target=self._run, name="jitcore emission", daemon=True)
            # Where no thread can be started, who asks for code writes it.
            with suppress(RuntimeError):
                self._thread.start()

    def leave(self, work: Work) -> None:
        """Keep it no longer: who needs it does it."""
        with suppress(ValueError):
            self._waiting.remove(work)

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
                    work = self._waiting.popleft()
                except IndexError:
                    return
                work.run_beside()
                # What nobody else keeps is given back to LLVM while no fork begins.
                del work


_beside = _Beside()
atexit.register(_beside.end)
# The child of a fork finds LLVM whole, and no code half written.
hold_for_forks(_beside.writing)
