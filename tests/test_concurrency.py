# mypy: allow-untyped-defs, allow-untyped-calls
"""Many threads compile and call the same functions; memory stays what it was."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitcore import fusion_strategy, script
from jitcore.execution.executor import Executor

TABLE = np.arange(5.0)


def chain(x, y):
    return np.sqrt(abs(x * y + 1)) - y


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def relax(x, steps):
    y = x.copy()
    for _ in range(steps):
        y[1:-1] = 0.5 * (y[:-2] + y[2:])
    return y


def in_place(x):
    x += TABLE[0]
    x[x > 1] = 0
    return x.sum()


def several(x, n):
    parts = []
    for i in range(n):
        parts.append(x * i + TABLE[i % 5])
    return parts, (x.shape, n)


def fails(x, i):
    return x[i] + 1


def arguments(random: np.random.Generator) -> list[tuple[Any, tuple[Any, ...]]]:
    """One round of calls, some of them large enough to run without the GIL."""
    n = int(random.choice([0, 1, 7, 64, 3000, 40000]))
    dtype = random.choice([np.float32, np.float64])  # type: ignore[arg-type]
    x, y = random.random((2, n)).astype(dtype)
    image = random.random((int(random.integers(1, 60)), 33)).astype(dtype)
    return [
        (chain, (x, y)),
        (chain, (image[::2], image[0])),
        (softmax, (image,)),
        (relax, (np.resize(x, n + 3), 5)),
        (in_place, (image.copy(),)),
        (several, (y, 3)),
        (fails, (y, n)),
    ]


def outcome(function: Any, args: tuple[Any, ...]) -> Any:
    """What a call gives, or the exception it raises, and what it leaves in its arguments."""
    copies = tuple(arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args)
    try:
        result = function(*copies)
    except IndexError as error:
        result = repr(error)
    return result, copies


def assert_same(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert type(found) is type(expected) and len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other)
    elif isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5 if expected.itemsize == 4 else 1e-12)
    else:
        assert type(found) is type(expected)
        if isinstance(expected, np.floating):
            assert found == pytest.approx(expected, rel=1e-5)
        else:
            assert found == expected


@pytest.mark.parametrize("threads", [8])
def test_threads_compile_and_call_the_same_functions(threads: int) -> None:
    programs = (chain, softmax, relax, in_place, several, fails)
    scripted = {program: script(program) for program in programs}
    start = threading.Barrier(threads)

    def work(seed: int) -> None:
        random = np.random.default_rng(seed)
        start.wait()
        for _ in range(12):
            for program, args in arguments(random):
                expected = outcome(program, args)
                assert_same(outcome(scripted[program], args), expected)

    with fusion_strategy([("STATIC", 6), ("DYNAMIC", 6)]), ThreadPoolExecutor(threads) as pool:
        for future in [pool.submit(work, seed) for seed in range(threads)]:
            future.result()


def test_globals_are_rebound_while_others_read_them() -> None:
    global TABLE
    function = script(in_place)
    before, stop = TABLE, threading.Event()
    function(np.zeros((50, 40)))

    def rebind() -> None:
        global TABLE
        while not stop.is_set():
            TABLE = np.full(5, 0.5)

    thread = threading.Thread(target=rebind)
    TABLE = np.full(5, 0.5)
    thread.start()
    try:
        for _ in range(300):
            assert function(np.zeros((50, 40))) == 1000.0
    finally:
        stop.set()
        thread.join()
        TABLE = before


def test_calls_leave_no_memory_behind() -> None:
    functions = {program: script(program) for program in (chain, softmax, relax, several, fails)}
    rounds = arguments(np.random.default_rng(5))

    def call(count: int) -> None:
        for _ in range(count):
            for program, args in rounds:
                if program in functions:
                    outcome(functions[program], args)

    call(20)
    gc.collect()
    tracemalloc.start()
    call(20)
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    call(200)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert after - before < 4000, f"{after - before} bytes more after 200 rounds"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_child_of_a_fork_does_not_wait_for_a_thread_that_compiles():
    scripted, x = script(chain), np.linspace(-1, 1, 7)
    scripted(x, x)
    is_locked, may_go_on = threading.Event(), threading.Event()

    def compiling():
        with scripted._executor._lock:
            is_locked.set()
            may_go_on.wait()

    assert _status_of_child(scripted, x, compiling, is_locked, may_go_on) == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_child_of_a_fork_finds_nothing_half_made(monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, x = script(chain), np.linspace(-1, 1, 7)
    scripted(x, x)
    is_bound, may_go_on = threading.Event(), threading.Event()
    bind, parent = Executor._bind, os.getpid()

    def slow_bind(*args):
        if os.getpid() == parent:
            is_bound.set()
            may_go_on.wait()
        return bind(*args)

    def compiling():
        y = x.astype(np.float32)
        scripted(y, y)

    monkeypatch.setattr(Executor, "_bind", slow_bind)
    assert _status_of_child(scripted, x, compiling, is_bound, may_go_on) == 0


def _status_of_child(scripted, x, compiling, is_inside, may_go_on):
    """How a child ends that calls a function which a thread of its parent is compiling."""
    thread = threading.Thread(target=compiling)
    thread.start()
    is_inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(600)  # it would wait for ever
        try:
            y = x.astype(np.float32)
            os._exit(0 if np.array_equal(scripted(y, y), chain(y, y)) else 1)
        finally:
            os._exit(2)
    may_go_on.set()
    thread.join()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


IMPORTING = """
import os, signal, sys, threading
import numpy as np
from jitcore import script

def chain(x):
    return np.sqrt(abs(x * x + 1)) - x

scripted, x = script(chain), np.linspace(-1, 1, 7)
is_importing, parent = threading.Event(), os.getpid()

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "jitcore.pipeline" and os.getpid() == parent:
            is_importing.set()
            threading.Event().wait(0.2)  # the other thread forks meanwhile

sys.meta_path.insert(0, Slow())
thread = threading.Thread(target=scripted, args=(x,))
thread.start()
is_importing.wait()
child = os.fork()
signal.alarm(60)  # it would wait for ever
if child == 0:
    os._exit(0 if np.array_equal(scripted(x), chain(x)) else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_a_fork_waits_for_a_thread_that_imports_what_compiles(tmp_path: Path) -> None:
    environment = os.environ | {"JITCORE_CACHE_DIR": str(tmp_path)}
    (tmp_path / "program.py").write_text(IMPORTING)
    command = [sys.executable, str(tmp_path / "program.py")]
    subprocess.run(command, check=True, timeout=100, env=environment)


WAITING = """
import os, signal, sys, threading
from jitcore.codegen.forks import hold_for_forks
from jitcore.execution.collector import waiting_collector

lock, is_compiling = threading.RLock(), threading.Event()
hold_for_forks(lock)  # as what is imported by a compilation does

def compiles():
    with waiting_collector():
        is_compiling.set()
        threading.Event().wait(0.2)  # the other thread forks meanwhile
        with lock:
            pass

def forks():
    child = os.fork()
    if child == 0:
        os._exit(0 if lock.acquire(timeout=5) else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

signal.alarm(60)  # it would wait for ever
thread = threading.Thread(target=compiles)
thread.start()
is_compiling.wait()
if sys.argv[1] == "inside":
    with lock, waiting_collector():
        status = forks()
else:
    status = forks()
thread.join()
sys.exit(status)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("place", ["inside", "outside"])
def test_a_fork_has_no_lock_that_a_compilation_waits_for(place: str) -> None:
    subprocess.run([sys.executable, "-c", WAITING, place], check=True, timeout=100)


IN_LLVM = """
import os, signal, sys, threading
import llvmlite.binding as llvm
import numpy as np
from jitcore import script

def chain(x):
    return np.sqrt(abs(x * x + 1)) - x

scripted, x = script(chain), np.linspace(-1, 1, 7)
scripted(x)
text = "define double @f{0}(double %x) {{ %y = fadd double %x, 1.0\\n ret double %y }}\\n"
module = "".join(text.format(number) for number in range(3000))
has_begun, may_end = threading.Event(), threading.Event()

def compiles():
    while not may_end.is_set():  # as another user of llvmlite does
        has_begun.set()
        llvm.parse_assembly(module)

signal.alarm(60)  # it would wait for ever
thread = threading.Thread(target=compiles, daemon=True)
thread.start()
has_begun.wait()
statuses = set()
for number in range(5):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        y = x.reshape((1,) * number + (7,)).astype(np.float32)
        os._exit(0 if np.array_equal(scripted(y), chain(y)) else 1)
    statuses.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
may_end.set()
thread.join()
sys.exit(statuses != {0})
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_the_child_of_a_fork_finds_nobody_in_llvm(tmp_path: Path) -> None:
    environment = os.environ | {"JITCORE_CACHE": "0"}
    (tmp_path / "program.py").write_text(IN_LLVM)
    command = [sys.executable, str(tmp_path / "program.py")]
    subprocess.run(command, check=True, timeout=100, env=environment)
