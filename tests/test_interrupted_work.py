"""An interrupt anywhere in waiting for machine code leaves nothing that nobody does."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from jitcore.codegen import emission
from jitcore.codegen.cache import ObjectCache
from jitcore.codegen.engine import begin_module


class Counted(emission.Work):
    """Work that tells how often it was done."""

    def __init__(self) -> None:
        super().__init__()
        self.times = 0

    def write(self) -> None:
        self.times += 1


class Held(emission.Work):
    """Work that keeps the thread beside until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.may_end = threading.Event(), threading.Event()

    def write(self) -> None:
        self.has_begun.set()
        assert self.may_end.wait(60)


@pytest.fixture(name="held")
def fixture_held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """The thread beside is busy with this."""
    monkeypatch.setattr(emission, "_beside", emission._Beside())
    held = Held()
    held.begin()
    assert held.has_begun.wait(60)
    yield held
    held.may_end.set()
    held.finish()


def interrupted(function: Callable[[], Any], after: int) -> bool:
    """Whether an interrupt comes after so many bytecodes of a function of the work's file."""
    left = after

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if frame.f_code.co_filename != emission.__file__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def is_finished(work: emission.Work) -> bool:
    """Whether somebody who asks for it does it, or need not."""
    thread = threading.Thread(target=work.finish, daemon=True)
    thread.start()
    thread.join(10)
    return not thread.is_alive()


@pytest.mark.parametrize("step", ["begin", "finish"])
def test_work_that_was_interrupted_is_done_when_asked_for(held: Held, step: str) -> None:
    count, was_interrupted = 0, True
    while was_interrupted:
        work = Counted()
        if step == "finish":
            work.begin()
        was_interrupted = interrupted(getattr(work, step), count)
        assert is_finished(work), f"after {count} bytecodes of {step}"
        assert 1 <= work.times <= 2
        count += 1
    assert count > 10


def test_work_is_done_once(held: Held) -> None:
    works = [Counted() for _ in range(20)]
    for work in works:
        work.begin()
    for work in works[::2]:
        work.finish()
    held.may_end.set()
    for work in works:
        work.finish()
    assert [work.times for work in works] == [1] * 20


def test_code_is_there_where_keeping_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    text = "define i64 @interrupted() {\n  ret i64 71\n}\n"
    module = begin_module(text, name="interrupted")

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ObjectCache, "store", interrupt)
        module.address("interrupted")
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(module.address("interrupted"))() == 71
