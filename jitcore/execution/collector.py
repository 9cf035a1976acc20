"""Python's collector of cycles, which waits while something is compiled.

Graphs are made of objects that refer to each other and stay.  The collector looks at all of them
again and again, and frees nothing: that took a quarter of the time of a graph of 10,000 nodes.

A fork waits for what other threads compile, too.  They import what compiles, and the lock of a
module that a thread imports is never released in the child, which would wait for ever.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import jitcore.codegen.forks  # noqa: F401  # see below

__all__ = ["waiting_collector"]

_MANY: Final = 8_000
"""So many new objects are those of the first compilation, which imports what compiles: that makes
16,000 and more."""


class _State:
    """Which threads compile, and whether the collector was on before the first of them."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.threads: list[int] = []
        self.was_on = False
        self.has_kept = False

    def enter(self) -> None:
        with self.lock:
            if not self.threads:
                self.was_on = gc.isenabled()
                gc.disable()
            self.threads.append(threading.get_ident())

    def leave(self) -> None:
        with self.lock:
            # A process that was forked in the block leaves it with the collector on.
            if (own := threading.get_ident()) in self.threads:
                self.threads.remove(own)
            if not self.threads and self.was_on:
                self.keep()
                gc.enable()
            self.lock.notify_all()

    def begin_fork(self) -> None:
        """Wait until no other thread compiles, and have none begin before `end_fork`.

        Who forks in the middle of a compilation has locks for which the others may wait, and so
        waits for nobody.
        """
        self.lock.acquire()
        own = threading.get_ident()
        self.lock.wait_for(lambda: not self.threads or own in self.threads)

    def end_fork(self) -> None:
        """Let others compile again."""
        self.lock.release()

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
        if self.threads and self.was_on:
            gc.enable()
        self.lock, self.threads = threading.Condition(), []


_state = _State()
# What compiles takes other locks for which a fork waits as well: those are registered before, by
# the import above, and so taken later.
os.register_at_fork(
    before=_state.begin_fork,
    after_in_parent=_state.end_fork,
    after_in_child=_state.begin_anew,
)


@contextmanager
def waiting_collector() -> Iterator[None]:
    """Have no cycles collected in the block."""
    _state.enter()
    try:
        yield
    finally:
        _state.leave()
