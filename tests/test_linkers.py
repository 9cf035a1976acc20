"""Linkers give way to new ones, and end with the last of their libraries."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from jitcore.codegen import emission, engine, linkers
from jitcore.codegen.engine import CompiledModule, load_objects
from jitcore.codegen.linkers import Linkers

UNARY = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
Load = Callable[[], CompiledModule]


def called(module: CompiledModule) -> int:
    return int(UNARY(module.address("f"))(1))


@pytest.fixture(name="ended")
def fixture_ended(load: Load, monkeypatch: pytest.MonkeyPatch) -> list[emission.Linker]:
    """The linkers that have ended; each has four libraries, the first one's are all of the test."""
    found: list[emission.Linker] = []
    gc.collect()  # what other tests have left
    end = emission.Linker.end

    def noted(linker: emission.Linker) -> None:
        found.append(linker)
        end(linker)

    monkeypatch.setattr(emission.Linker, "end", noted)
    monkeypatch.setattr(linkers, "LIBRARIES_OF_ONE", 4)
    monkeypatch.setattr(engine, "_LINKERS", Linkers())
    return found


@pytest.fixture(name="load")
def fixture_load() -> Load:
    """Loads a function that adds one."""
    text = "define i64 @f(i64 %x) {\n  %y = add i64 %x, 1\n  ret i64 %y\n}\n"
    objects = engine.compile_module(text, name="f", effort="none").objects
    return lambda: load_objects(objects, ("f",), name="f")


@pytest.mark.parametrize("count", [3, 4, 5, 9])
def test_linkers_end_with_their_last_library(
    ended: list[emission.Linker], load: Load, count: int
) -> None:
    modules = [load() for _ in range(count)]
    assert [called(one) for one in modules] == [2] * count
    first, *others = modules
    modules.clear()
    del others
    gc.collect()
    # The last one may have more; the first one's first library lives.
    assert len(ended) == max(count // 4 - 1, 0)
    assert called(first) == 2
    del first
    gc.collect()
    assert len(ended) == count // 4
    assert called(load()) == 2


def test_a_program_that_compiles_for_ever_has_few_linkers(
    ended: list[emission.Linker], load: Load
) -> None:
    kept = load()
    assert [called(load()) for _ in range(40)] == [2] * 40
    gc.collect()
    assert len(ended) == 41 // 4 - 1
    assert called(kept) == 2


def test_a_library_that_cannot_be_linked_keeps_no_linker(
    ended: list[emission.Linker], load: Load
) -> None:
    for _ in range(9):
        with pytest.raises(engine.EngineError):
            load_objects((b"junk",), ("f",), name="junk")
    modules = [load() for _ in range(4)]
    assert [called(one) for one in modules] == [2] * 4
    del modules
    gc.collect()
    assert ended


def test_the_collector_ends_libraries_in_any_order(
    ended: list[emission.Linker], load: Load
) -> None:
    for _ in range(6):
        around: list[object] = [load() for _ in range(7)]
        around.append(around)
        del around
        gc.collect()
    assert len(ended) >= 9
    assert called(load()) == 2


def test_threads_drop_libraries_while_others_link(ended: list[emission.Linker], load: Load) -> None:
    wrong: list[int] = []

    def work() -> None:
        kept = [load() for _ in range(3)]
        for number in range(60):
            kept[number % 3] = load()
            wrong.extend(found for found in map(called, kept) if found != 2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong
    gc.collect()
    assert len(ended) >= 4 * 60 // 4 - 1


AT_THE_END = """
import threading
from jitcore.codegen import engine, linkers

linkers.LIBRARIES_OF_ONE = 3
text = "define i64 @f(i64 %x) {{\\n  ret i64 %x\\n}}\\n"
objects = engine.compile_module(text, name="f", effort="none").objects
kept = [engine.load_objects(objects, ("f",), name="f") for _ in range(8)]
around = kept[::2]
around.append(around)

def go_on():
    while True:
        kept[1] = engine.load_objects(objects, ("f",), name="f")

for _ in range({threads}):
    threading.Thread(target=go_on, daemon=True).start()
threading.Event().wait(0.2)
"""


@pytest.mark.parametrize("threads", [0, 2])
def test_the_process_ends_with_libraries(threads: int) -> None:
    program = AT_THE_END.format(threads=threads)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=100)
