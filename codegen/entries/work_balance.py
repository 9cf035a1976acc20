"""Which calls are left to Python: those that read much from lists and do little with it.

A search by bisection does: compiled code reads the whole list before it.  So an entry counts what
it has read and what was done, and where that does not pay it leaves calls to Python.  Now and then
a call is taken, as there may be more to do; the more calls have not paid, the later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.guards import Arguments

__all__ = ["Balance", "make_balance"]

_ELEMENTS_PER_ITERATION = 16
"""So many elements are read from a list in the time that Python takes for one iteration."""

_ELEMENTS_FOR_AN_ATTRIBUTE = 10
"""So many elements are read from a list of numbers in the time for an attribute of an object."""

_FREE_ELEMENTS = 1 << 16
"""As many may be read before there has to be work for them."""

_FIRST_PAUSE, _MOST_DOUBLINGS = 6, 16
"""At first 2 ** 6 calls are left to Python before one is taken, then twice as many each time."""

_CHEAP = 256
"""Nobody minds so many elements for each call that is left to Python: pauses need not be longer."""


@dataclass(frozen=True, slots=True)
class Balance:
    """Where an entry keeps what was read from lists so far, and what was done with it.

    Parameters
    ----------
    read : str
        The place of the number of elements.
    inside : str
        Of those that the native function has read by itself in the last call.
    work : str
        Of the number of iterations.
    doublings : str
        Of the number of calls, one after the other, that were taken and did not pay.
    count : str
        How many elements the entry reads for this call; the elements of lists of lists only the
        native function counts.
    """

    read: str
    inside: str
    work: str
    doublings: str
    count: str

    def check(self, code: EntryCode) -> str:
        """Begin what leaves the call to Python; gives the label of what takes it."""
        before = code.load("i64", self.read)
        allowed = code.value(f"mul i64 {code.load('i64', self.work)}, {_ELEMENTS_PER_ITERATION}")
        limit = code.value(f"add i64 {allowed}, {_FREE_ELEMENTS}")
        take, leave = code.new_label("take"), code.new_label("leave")
        pays = code.value(f"icmp sle i64 {before}, {limit}")
        code.effect(f"br i1 {pays}, label %{take}, label %{leave}")
        code.start(leave)
        total = code.value(f"add i64 {self.count}, {code.load('i64', self.inside)}")
        shift = code.value(f"add i64 {code.load('i64', self.doublings)}, {_FIRST_PAUSE}")
        first = code.value(f"lshr i64 {total}, {_FIRST_PAUSE}")
        least = code.value(f"call i64 @llvm.smin.i64(i64 {first}, i64 {_CHEAP})")
        later = code.value(f"lshr i64 {total}, {shift}")
        part = code.value(f"call i64 @llvm.smax.i64(i64 {later}, i64 {least})")
        less = code.value(f"sub i64 {code.value(f'sub i64 {before}, {part}')}, 1")
        code.effect(f"store i64 {less}, ptr {self.read}")
        return take

    def take(self, code: EntryCode, label: str) -> None:
        """Begin what takes the call."""
        code.start(label)
        _add(code, self.read, self.count)

    def note(self, code: EntryCode, results: str, behind: int) -> None:
        """Add the iterations and the elements that the function has left after its results."""
        done, inside = code.load("i64", results, behind), code.load("i64", results, behind + 8)
        _add(code, self.work, done)
        _add(code, self.read, inside)
        code.effect(f"store i64 {inside}, ptr {self.inside}")
        read = code.value(f"add i64 {self.count}, {inside}")
        worth = code.value(f"mul i64 {done}, {_ELEMENTS_PER_ITERATION}")
        pays = code.value(f"icmp sge i64 {worth}, {read}")
        more = code.value(f"add i64 {code.load('i64', self.doublings)}, 1")
        capped = code.value(f"call i64 @llvm.smin.i64(i64 {more}, i64 {_MOST_DOUBLINGS})")
        after = code.value(f"select i1 {pays}, i64 0, i64 {capped}")
        code.effect(f"store i64 {after}, ptr {self.doublings}")


def _add(code: EntryCode, place: str, more: str) -> None:
    total = code.value(f"add i64 {code.load('i64', place)}, {more}")
    code.effect(f"store i64 {total}, ptr {place}")


def make_balance(
    code: EntryCode, found: Arguments, remembered: Callable[[], str]
) -> Balance | None:
    """The balance of an entry; None where it reads no lists.

    Parameters
    ----------
    code : EntryCode
    found : Arguments
    remembered : callable
        Gives the place of another word that keeps its value from call to call; 0 at first.
    """
    lengths = [one.length for one in found.lists if one.param.kind is not None]
    for objects in found.object_lists:
        weight = _ELEMENTS_FOR_AN_ATTRIBUTE * len(objects.param.names)
        lengths.append(code.value(f"mul i64 {objects.length}, {weight}"))
    if not lengths:
        return None
    count = "0"
    for length in lengths:
        count = code.value(f"add i64 {count}, {length}")
    return Balance(remembered(), remembered(), remembered(), remembered(), count)
