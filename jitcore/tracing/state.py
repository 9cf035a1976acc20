"""Which trace this thread is recording, if any."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = ["Recorder", "active", "is_idle", "is_recording", "paused", "recording"]


class Recorder(Protocol):
    """What traced values ask of the trace they belong to."""

    def record(
        self,
        kind: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run ``function`` on the concrete arguments, append a node, and give the traced result."""

    def call(
        self,
        function: Any,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Record the call of a Python object under the kind that the front end gives it.

        ``run`` is called in its place, by default the object itself.
        """

    def attribute(self, value: Any, name: str) -> Any:
        """Record the reading of an attribute."""

    def method(self, value: Any, name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Record the call of a method."""

    def converted(self, value: Any, to: str) -> None:
        """Note that a traced value becomes one of Python's own, which no graph can follow."""

    def iterated(self, value: Any) -> None:
        """Note that Python iterates over a traced array."""

    def used_elsewhere(self, value: Any) -> None:
        """Note that another thread uses a traced value, which records nothing."""


class _State(threading.local):
    def __init__(self) -> None:
        self.recorders: list[Recorder | None] = []


_state = _State()


def active() -> Recorder | None:
    """The innermost trace of this thread; None where nothing is recorded."""
    return _state.recorders[-1] if _state.recorders else None


def is_idle() -> bool:
    """Whether this thread neither records nor pauses: it has nothing to do with a trace."""
    return not _state.recorders


def is_recording() -> bool:
    """Whether this thread runs a function to trace it."""
    return any(one is not None for one in _state.recorders)


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Record what this thread does."""
    _state.recorders.append(recorder)
    try:
        yield
    finally:
        _state.recorders.pop()


@contextmanager
def paused() -> Iterator[None]:
    """Record nothing: what runs inside is NumPy's or ours, on concrete values."""
    _state.recorders.append(None)
    try:
        yield
    finally:
        _state.recorders.pop()
