"""Python's collector of cycles, which waits while something is compiled.

Graphs are made of objects that refer to each other and stay.  The collector looks at all of them
again and again, and frees nothing: that took a quarter of the time of a graph of 10,000 nodes.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["waiting_collector"]

_MANY: Final = 8_000
"""So many new objects are those of the first compilation, which imports what compiles: that makes
16,000 and more."""


class _State:
    """How many threads compile, and whether the collector was on before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.users = 0
        self.was_on = False
        self.has_kept = False

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                self.was_on = gc.isenabled()
                gc.disable()
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            # A process that was forked in the block leaves it with the collector on.
            self.users = max(self.users - 1, 0)
            if self.users == 0 and self.was_on:
                self.keep()
                gc.enable()

    def keep(self) -> None:
        """Count what the first compilation has made as old, without looking at all of it.

        Otherwise the next collection would, which took a twentieth of a first call.  It is done
        once only: who compiles again and again would never have anything collected.
        """
        # Who has frozen objects wants them to stay so.
        if not self.has_kept and gc.get_count()[0] > _MANY and not gc.get_freeze_count():
            self.has_kept = True
            gc.freeze()
            gc.unfreeze()

    def begin_anew(self) -> None:
        """In a forked process no other thread goes on compiling."""
        if self.users and self.was_on:
            gc.enable()
        self.lock, self.users = threading.Lock(), 0


_state = _State()
os.register_at_fork(after_in_child=_state.begin_anew)


@contextmanager
def waiting_collector() -> Iterator[None]:
    """Have no cycles collected in the block."""
    _state.enter()
    try:
        yield
    finally:
        _state.leave()
