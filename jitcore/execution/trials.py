"""Which of two functions does the same calls sooner: they take some calls in turns.

What a host program gains by its regions may be less than what it costs to get to them.  How much
that is depends on the processor, on what Python's objects do and on the data, so it is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from time import perf_counter
from typing import Any

__all__ = ["Trial", "Turns"]

TIMED_CALLS = 40
"""How many calls are timed; the later half of each function's counts.

CPython 3.11 makes a function's bytecode faster once it has been called eight times
(``QUICKENING_WARMUP_DELAY`` in its ``Include/internal/pycore_code.h``), and the plain function may
not have been called before.
"""

SHORT = 5e-3
"""Calls that take longer, in seconds, are left to compiled code."""

MUCH_LONGER = 4
"""How many times as long as those that were timed is a call that counts against Python."""

TURN_OF_OTHERS = 2e-2
"""A call that the scheduler has made wait for other programs seldom takes longer, in seconds.

Measured on a machine with two cores and six programs: up to 12 ms.
"""

ALLOWANCE = 5e-2
"""How many seconds such calls may take beyond what the others have saved: some turns of others."""

Function = Callable[..., Any]


class Turns:
    """The times of calls that two functions take in turns.

    Parameters
    ----------
    compiled, plain : callable
    """

    __slots__ = ("_by_compiled", "_by_plain", "compiled", "plain")

    def __init__(self, compiled: Function, plain: Function) -> None:
        self.compiled, self.plain = compiled, plain
        self._by_compiled: list[float] = []
        self._by_plain: list[float] = []

    def next(self) -> Function:
        """The compiled function; the plain one, if that has taken less time so far.

        A plain function that takes long is called once, and none where the compiled one does.  One
        call of it does not count that may have waited for other programs.
        """
        is_short = self._by_compiled and min(self._by_compiled) < SHORT
        longest = max(self._by_plain, default=0.0)
        forgiven = longest if longest < TURN_OF_OTHERS else 0.0
        is_behind = sum(self._by_plain) - forgiven <= sum(self._by_compiled)
        return self.plain if is_short and is_behind else self.compiled

    def note(self, called: Function, took: float) -> None:
        """Note how many seconds one of them took for a call."""
        (self._by_plain if called is self.plain else self._by_compiled).append(took)

    @property
    def is_over(self) -> bool:
        """Whether enough calls have been timed."""
        return len(self._by_compiled) + len(self._by_plain) >= TIMED_CALLS

    @property
    def usual(self) -> float:
        """The seconds that the plain function took, as a rule."""
        return _settled_median(self._by_plain)

    @property
    def saved(self) -> float:
        """By how many seconds the plain function is sooner, as a rule; 0 where it is not."""
        if not self._by_plain:
            return 0.0
        return max(_settled_median(self._by_compiled) - _settled_median(self._by_plain), 0.0)


class Trial:
    """A host program and the plain function, of which one takes the calls of an entry.

    Where that is the plain function, it stays as long as calls that take much longer than those
    that were timed, since there is more to do in them, do not cost what the others save.

    Parameters
    ----------
    plain : callable
        The plain function; takes the arguments, without what the program captures.
    values, own : int
        How many values an entry passes on, and how many of them are arguments.
    settled : callable
        Called when another function takes the calls.

    Attributes
    ----------
    is_plain : bool
        Whether the plain function takes the calls now.
    """

    def __init__(self, plain: Function, values: int, own: int, settled: Callable[[], None]) -> None:
        self.is_plain = False
        self._plain, self._values, self._own = plain, values, own
        self._settled = settled
        self._is_over = False
        self._turns: Turns | None = None
        self._saved = ALLOWANCE
        self._gain = self._usual = 0.0

    def taker(self, program: Function) -> Function:
        """What takes the calls of the entry, where the program is this one."""
        if self._is_over:
            return program
        if self.is_plain:
            return self._watching()
        plain, own = self._plain, self._own
        self._turns = Turns(program, lambda *values: plain(*values[:own]))
        return self._in_turns

    def _in_turns(self, *values: Any) -> Any:
        turns = self._turns
        assert turns is not None
        called = turns.next()
        begin = perf_counter()
        try:
            return called(*values)
        finally:
            turns.note(called, perf_counter() - begin)
            if turns.is_over and not (self._is_over or self.is_plain):
                self._gain = turns.saved
                self.is_plain = self._gain > 0
                self._usual = turns.usual if self.is_plain else 0.0
                self._is_over = not self.is_plain
                self._settled()

    def _watching(self) -> Function:
        """The plain function, as long as that is sooner; most calls cost no more than the clock."""
        limit = MUCH_LONGER * self._usual
        form = _watched_form(self._values, self._own)
        watched: Function = form(self._plain, perf_counter, limit, self._note_long)
        return watched

    def _note_long(self, took: float, usual_calls: int) -> None:
        """Note a call that took much longer than those before it, of which there were so many."""
        self._saved += usual_calls * self._gain - took
        if self._saved < 0 and self.is_plain:
            self.is_plain, self._is_over = False, True
            self._settled()


_WATCHED = """
def form(plain, clock, limit, note_long):
    usual_calls = 0

    def watched({values}):
        nonlocal usual_calls
        begin = clock()
        try:
            return plain({own})
        finally:
            took = clock() - begin
            if took < limit:
                usual_calls += 1
            else:
                note_long(took, usual_calls)
                usual_calls = 0

    return watched
"""


@cache
def _watched_form(values: int, own: int) -> Function:
    """What times the calls of a plain function; to pass ``*values`` on would take as long again."""
    names = [f"value_{number}" for number in range(values)]
    text = _WATCHED.format(values=", ".join(names), own=", ".join(names[:own]))
    namespace: dict[str, Function] = {}
    # A file of this package: tracebacks do not show it.
    exec(compile(text, __file__, "exec"), namespace)
    return namespace["form"]


def _settled_median(values: list[float]) -> float:
    """The median of the later half."""
    later = sorted(values[len(values) // 2 :])
    return later[len(later) // 2]
