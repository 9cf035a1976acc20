"""Locks that a fork waits for: its child finds whole what they guard."""

from __future__ import annotations

import os
import threading
from typing import Any, Final

__all__ = ["hold_for_forks"]

_turn: Final = threading.Lock()
_locks: Final[list[Any]] = []
_held: Final[list[Any]] = []
"""By the thread that forks."""


def hold_for_forks(lock: Any) -> None:
    """Have forks begin with a lock that the child finds free; those of later calls come before."""
    _locks.append(lock)


def _begin() -> None:
    for one in (_turn, *reversed(_locks)):
        one.acquire()
        _held.append(one)


def _end() -> None:
    while _held:
        _held.pop().release()


if hasattr(os, "register_at_fork"):
    # In one place, and imported early: Python calls what was registered last first, and who waits
    # for compilations in other threads must not have a lock that these take.
    os.register_at_fork(before=_begin, after_in_parent=_end, after_in_child=_end)
