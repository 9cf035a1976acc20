"""The collector of cycles waits while something is compiled, and goes on afterwards."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from jitcore import script
from jitcore.execution import compilation
from jitcore.execution.collector import _State, waiting_collector
from jitcore.ir.graph import Graph
from jitcore.pipeline import optimize


@pytest.fixture(autouse=True)
def collector_is_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_it_waits_in_the_block_and_in_those_inside() -> None:
    with waiting_collector():
        with waiting_collector():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_it_stays_off_where_it_was_off() -> None:
    gc.disable()
    with waiting_collector():
        pass
    assert not gc.isenabled()


def test_it_goes_on_after_an_error() -> None:
    with pytest.raises(KeyError), waiting_collector():
        raise KeyError
    assert gc.isenabled()


def test_it_waits_for_all_threads() -> None:
    entered, leave = threading.Event(), threading.Event()

    def work() -> None:
        with waiting_collector():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    with waiting_collector():
        pass
    assert not gc.isenabled()
    leave.set()
    thread.join()
    assert gc.isenabled()


def test_it_waits_while_a_function_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []

    def noted(graph: Graph) -> None:
        seen.append(gc.isenabled())
        optimize(graph)

    monkeypatch.setattr(compilation, "optimize", noted)
    doubled = script(lambda x: x * 2 + 1)
    assert doubled(np.ones(3)).tolist() == [3.0] * 3
    assert seen == [False]
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_it_goes_on_in_a_process_forked_meanwhile() -> None:
    with waiting_collector():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.isenabled() else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()


def is_old(value: object) -> bool:
    return any(one is value for one in gc.get_objects(generation=2))


def made_inside(state: _State) -> list[list[int]]:
    state.enter()
    made: list[list[int]] = [[] for _ in range(10_000)]
    state.leave()
    return made


def test_what_the_first_compilation_makes_is_old_at_once() -> None:
    state = _State()
    first, second = made_inside(state), made_inside(state)
    assert is_old(first)
    assert not is_old(second)
    gc.freeze()
    frozen = gc.get_freeze_count()
    third = made_inside(_State())
    assert gc.get_freeze_count() == frozen
    assert not is_old(third)
    gc.unfreeze()
