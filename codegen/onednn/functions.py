"""The functions that compiled code calls: one for each program, which finds or makes a plan.

A function takes the address of each array and how many elements later it begins, those that are
given and then the results, after them the extents and strides that the program does not know, and
last the address of a word for its answer: DONE, or LEFT where oneDNN has no plan for these arrays
or may not compute with their numbers.  Then it has written nothing that matters, and other kernels
do all the work.

The word is UNANSWERED before, and stays so where an exception leaves the function, which Python
then drops; what such a function returns is not even defined.  An interrupt arrives between any two
instructions, the first one included, so no handler of the function's own can do without this.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any

from jitcore.codegen.engine import add_symbol
from jitcore.codegen.forks import hold_for_forks
from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.constants import Known, known_among, when_gone
from jitcore.codegen.onednn.planner import Refused
from jitcore.codegen.onednn.plans import Plan, make_plan
from jitcore.codegen.onednn.program import Program
from jitcore.codegen.runtime.threads import get_num_threads
from jitcore.ir.dataclass import dataclass

__all__ = ["DONE", "UNANSWERED", "Activity", "activity", "define"]

UNANSWERED, LEFT, DONE = range(3)

MAX_PLANS = 32
"""The oldest plan of a function makes room for a new one."""

_Key = tuple[tuple[int, ...], tuple[int, ...], int]
"""The numbers of a call, the addresses of its constants, and the number of threads."""

_lock = threading.RLock()
_is_child = False


@dataclass(slots=True)
class Activity:
    """What a function has done so far.

    Parameters
    ----------
    calls, left : int
        Calls in which oneDNN computed, and those that were left to other kernels.
    reason : str
        Why the last of those was left.
    implementations : Counter of str
        Of the primitives of the last plan that was made.
    """

    calls: int = 0
    left: int = 0
    reason: str = ""
    implementations: Counter[str] = field(default_factory=Counter)


class _Function:
    def __init__(self, library: api.Library, program: Program) -> None:
        self.library = library
        self.program = program
        self.activity = Activity()
        self.plans: dict[_Key, Plan | str] = {}
        arrays = len(program.given) + len(program.results)
        numbers = sum(one is None for known in (*program.given, *program.results) for one in known)
        signature = ctypes.CFUNCTYPE(
            None,
            *(ctypes.c_void_p, ctypes.c_int64) * arrays,
            *(ctypes.c_int64,) * numbers,
            ctypes.c_void_p,
        )
        self.callback = signature(self._call)
        self._arrays = arrays

    @property
    def address(self) -> int:
        """Where compiled code finds it."""
        address = ctypes.cast(self.callback, ctypes.c_void_p).value
        assert address is not None
        return address

    def _call(self, *args: Any) -> None:
        *numbers, answer = args
        try:
            reason = self._run(tuple(numbers))
        except KeyboardInterrupt:
            return
        except Exception as error:
            # It cannot leave a callback; tests and `explain` show it.
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self.activity.left += 1
            self.activity.reason = reason
        else:
            self.activity.calls += 1
        ctypes.c_int64.from_address(answer).value = LEFT if reason else DONE

    def _run(self, args: tuple[Any, ...]) -> str:
        """Compute; otherwise the reason not to."""
        if _is_child:
            return "OpenMP has no threads in the child of a fork"
        end = 2 * self._arrays
        pairs = zip(args[0:end:2], args[1:end:2], strict=True)
        addresses = [(memory or 0) + 4 * offset for memory, offset in pairs]
        fixed = known_among(addresses[: len(self.program.given)])
        threads = get_num_threads()
        with _threads(self.library, threads):
            plan = self._plan((args[end:], fixed, threads))
            if isinstance(plan, str):
                return plan
            done = plan.run(addresses)
        return "" if done else "numbers that are NaN, infinite or very large"

    def _plan(self, key: _Key) -> Plan | str:
        found = self.plans.get(key)
        if found is not None:
            return found
        with _lock:
            if key not in self.plans:
                while len(self.plans) >= MAX_PLANS:
                    self.plans.pop(next(iter(self.plans)), None)
                self.plans[key] = self._made(key)
            return self.plans[key]

    def _made(self, key: _Key) -> Plan | str:
        numbers, fixed, _ = key
        shapes, results = self.program.shapes(numbers)
        try:
            plan = make_plan(self.library, self.program, shapes, results, Known(fixed))
        except (Refused, api.LibraryError) as reason:
            return str(reason)
        self.activity.implementations = Counter(plan.names)
        return plan

    def forget(self, address: int) -> None:
        """Drop the plans that have made something of an array that is gone."""
        for key in list(self.plans):
            if address in key[1]:
                self.plans.pop(key, None)


_functions: dict[str, _Function] = {}
"""They live as long as compiled code may call them."""


def define(program: Program) -> str:
    """The symbol of a program's function, which is made if there is none yet.

    The library is installed: nobody makes programs otherwise.
    """
    symbol, path = program.symbol, api.find_library()
    assert path is not None
    with _lock:
        if symbol not in _functions:
            _functions[symbol] = _Function(api.load(path), program)
            add_symbol(symbol, _functions[symbol].address)
    return symbol


def activity(symbol: str) -> Activity:
    """What a function has done so far."""
    return _functions[symbol].activity


def _forget(address: int) -> None:
    for function in list(_functions.values()):
        function.forget(address)


@contextmanager
def _threads(library: api.Library, count: int) -> Iterator[None]:
    """OpenMP's number of threads, for this thread's calls; others may have one of their own."""
    openmp = library.openmp
    before = openmp.omp_get_max_threads()
    if before == count:
        yield
        return
    openmp.omp_set_num_threads(count)
    try:
        yield
    finally:
        openmp.omp_set_num_threads(before)


def _note_fork() -> None:
    global _is_child
    _is_child = True


when_gone(_forget)
# No thread makes a plan while the process forks.
hold_for_forks(_lock)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)
