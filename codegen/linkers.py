"""What links object code into the process, and takes it out again.

LLVM's linker keeps some 9 KB of each library for as long as it lives itself, also of those that
were dropped.  So it gives way to a new one after some libraries, and ends with the last of its own:
a program that compiles new functions for ever does not grow.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from jitcore.codegen.emission import Linker

__all__ = ["Library", "Linkers"]

LIBRARIES_OF_ONE = 256
"""To make a linker takes as long as to link some ten libraries."""


class Library:
    """Functions and variables in this process, for as long as this object lives."""

    def __init__(self, generation: _Generation, number: int, loaded: Any) -> None:
        self._generation = generation
        self._number = number
        self._loaded = loaded

    def __getitem__(self, symbol: str) -> int:
        """The address of a symbol; KeyError where there is none."""
        address: int = self._loaded[symbol]
        return address

    def __del__(self) -> None:
        # In this order, which the collector of cycles would not keep.
        self._loaded = None
        self._generation.leave(self._number)


class _Generation:
    """A linker, and those of its libraries that live.

    Libraries end in any thread, and between any two steps of this one: each change here is one
    step of Python's.
    """

    def __init__(self) -> None:
        self.count = 0
        self._linkers = [Linker()]
        self._living: set[int] = set()
        self._is_retired = False

    def begin(self) -> None:
        """Have the linker made beside, since it will be needed soon."""
        self._linkers[0].begin()

    def link(self, link: Callable[[Any], Any]) -> Library:
        """Have a library linked."""
        made = self._linkers[0].made()
        self.count += 1
        number = self.count
        self._living.add(number)
        try:
            return Library(self, number, link(made))
        except BaseException:
            self.leave(number)
            raise

    def leave(self, number: int) -> None:
        """A library is no more."""
        self._living.discard(number)
        self._end()

    def retire(self) -> None:
        """There will be no more libraries."""
        self._is_retired = True
        self._end()

    def _end(self) -> None:
        if self._living or not self._is_retired:
            return
        try:
            linker = self._linkers.pop()
        except IndexError:
            return  # another thread ends it
        linker.end()


class Linkers:
    """One linker after the other; who calls has the compiler's lock."""

    def __init__(self) -> None:
        self._current = _Generation()
        self._names = itertools.count()

    def begin(self) -> None:
        """Have the linker made beside, since it will be needed soon."""
        self._current.begin()

    def link(self, builder: Any) -> Library:
        """Link what a builder of llvmlite's has been given; RuntimeError where that fails."""
        name = f"jitcore.{next(self._names)}"
        current = self._current
        library = current.link(lambda linker: builder.link(linker, name))
        if current.count >= LIBRARIES_OF_ONE:
            self._current = _Generation()
            current.retire()
        return library
