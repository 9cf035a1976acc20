# mypy: allow-untyped-defs, allow-untyped-calls
"""Parallel loops: the pool of threads, and which loops go there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script
from jitcore.codegen.loop_passes.parallel import CALL_WORK, work_of
from jitcore.codegen.loop_passes.traversal import variables
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)

N, X, PLACE, J = Var("n", "int64"), Var("x", "ptr"), Var("i", "int64"), Var("j", "int64")
ZERO, HUNDRED = Const(0, "int64"), Const(100, "int64")


@pytest.fixture(params=[1, 2, 3, 8])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = jitcore.set_num_threads(request.param)
    yield request.param
    jitcore.set_num_threads(before)


def _store(index: Any = PLACE) -> Store:
    value = Binary("add", Load(X, index, "float64"), Const(1.0, "float64"), "float64")
    return Store(X, index, value)


# Which loops ------------------------------------------------------------------------------


def test_work_is_iterations_times_operations() -> None:
    loop = For(PLACE, ZERO, HUNDRED, [_store()], parallel=True)
    inner = For(J, ZERO, HUNDRED, [_store(J)])
    work, outer = work_of(loop), work_of(For(PLACE, ZERO, HUNDRED, [inner], parallel=True))
    assert isinstance(work, Const) and isinstance(outer, Const)
    assert 100 * work.value <= outer.value <= 110 * work.value


@pytest.mark.parametrize(
    "body",
    [
        [Return(ZERO)],
        [If(Const(True, "bool"), [Break()])],
        [Assign(N, ZERO)],
    ],
)
def test_loops_that_cannot_be_cut(body: Any) -> None:
    assert work_of(For(PLACE, ZERO, HUNDRED, [*body, _store()], parallel=True)) is None
    assert work_of(For(PLACE, ZERO, HUNDRED, [_store()])) is None


def test_a_break_of_an_inner_loop_does_not_matter() -> None:
    inner = For(J, ZERO, HUNDRED, [_store(J), Break()])
    assert work_of(For(PLACE, ZERO, HUNDRED, [inner], parallel=True)) is not None


def _value(op: str, dtype: str) -> Any:
    return Binary(op, Load(X, PLACE, dtype), Load(X, N, dtype), dtype)


@pytest.mark.parametrize(("dtype", "least"), [("float64", 4), ("float32", 1)])
def test_divisions_are_more_work_than_additions(dtype: str, least: int) -> None:
    found = []
    for value in (
        _value("add", dtype),
        Call("divide", (Load(X, PLACE, dtype), N, N), dtype),
        _value("div", dtype),
    ):
        loop = For(PLACE, ZERO, HUNDRED, [Store(X, PLACE, value)], parallel=True)
        work = work_of(loop)
        assert isinstance(work, Const)
        found.append(work.value)
    assert found[2] - found[0] == 100 * least
    assert found[1] < found[0] + 100 * CALL_WORK


@pytest.mark.parametrize("length", [Const(64, "int64"), Var("length", "int64")])
def test_what_is_left_beside_whole_steps_counts_as_what_it_is(length: Any) -> None:
    start, stop = Var("start", "int64"), Var("stop", "int64")
    steps = Binary("and", Binary("sub", stop, start, "int64"), Const(-4, "int64"), "int64")
    whole = Binary("add", start, steps, "int64")
    inner: list[Stmt] = [
        Let(start, Binary("mul", PLACE, length, "int64")),
        Let(stop, Binary("min", Binary("add", start, length, "int64"), N, "int64")),
        For(J, start, whole, [_store(J)], 4),
    ]
    rest = For(J, whole, stop, [_store(J)])
    work = work_of(For(PLACE, ZERO, HUNDRED, [*inner, rest], parallel=True))
    assert work is not None
    if isinstance(length, Const):
        without = work_of(For(PLACE, ZERO, HUNDRED, inner, parallel=True))
        assert isinstance(work, Const) and isinstance(without, Const)
        assert work.value - without.value <= 300
    else:
        assert set(variables(work)) == {"length"}


# Results ----------------------------------------------------------------------------------


def elementwise(x, y):
    return np.sqrt(x * x + 1) - y, x > y, (x * 100).astype(np.int32)


def by_rows(x, y):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) + y,)


def in_place(x, y):
    x[1:-1, 1:-1] += 0.25 * y[2:, 1:-1] + y[:-2, 1:-1]
    y *= 2
    return (x.sum(axis=1),)


def edges(x, y):
    first, last, context = x[0, 0], x[0, 1], y[0, 0]
    x[:, -1] = y[:, -2] * last - y[:, 0] * first
    y[1:-1, 1:-1] = x[2:, 1:-1] * context
    return (x[:, -1] + first,)


def matrices(x, y):
    return (x[:300, :200] @ y[:200, :300],)


@pytest.mark.parametrize("function", [elementwise, by_rows, in_place, edges, matrices])
def test_the_number_of_threads_does_not_change_a_bit(
    function: Callable[..., Any], threads: int
) -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 700, 901)) + 3
    compiled = script(function)
    results = []
    for count in (1, threads):
        jitcore.set_num_threads(count)
        arguments = x.copy(), y.copy()
        results.append((compiled(*arguments), arguments))
    (first, one), (second, several) = results
    for a, b in zip((*first, *one), (*second, *several), strict=True):
        assert a.tobytes() == b.tobytes()


def test_names_of_the_program_are_not_those_of_the_parts() -> None:
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        compiled = script(edges)
        for rows in (5, 3, 4, 2):
            x, y = np.random.default_rng(rows).normal(size=(2, rows, 6))
            expected, arguments = (x.copy(), y.copy()), (x.copy(), y.copy())
            assert np.array_equal(edges(*expected)[0], compiled(*arguments)[0])
            assert all(map(np.array_equal, expected, arguments))


def test_many_python_threads_at_once() -> None:
    jitcore.set_num_threads(2)
    compiled = script(elementwise)
    x, y = np.random.default_rng(1).normal(size=(2, 300, 400)) + 3
    expected = elementwise(x, y)
    failures: list[int] = []

    def work(number: int) -> None:
        for _ in range(30):
            result = compiled(x, y)
            if not all(np.array_equal(a, b) for a, b in zip(result, expected, strict=True)):
                failures.append(number)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert not failures


LATE = """
import linecache, signal, sys
import numpy as np, jitcore
from jitcore.codegen.runtime import threads
source = "def f(x, places):\\n    y = x[places] * 2 + 1\\n    return y + y[::-1]\\n"
linecache.cache["p.py"] = (len(source), None, source.splitlines(True), "p.py")
names = {}
exec(compile(source, "p.py", "exec"), names)
f = jitcore.script(names["f"])
random = np.random.default_rng(5)
x = random.normal(size=1000)


def check(n):
    places = random.integers(0, 1000, n)
    assert np.array_equal(f(x, places), names["f"](x, places))


for n in (2, 3, 50, 1000):
    check(n)
assert threads._module is None
if "interrupt" in sys.argv:
    # Where the tests run in the background, the shell has interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    make = threads._make

    def interrupted():
        signal.raise_signal(signal.SIGINT)

    threads._make = interrupted
    for _ in range(2):
        try:
            check(2_000_000)
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("the interrupt is lost")
    threads._make = make
for n in (2_000_000, 10, 2_000_001):
    check(n)
assert threads._module is not None
"""


@pytest.mark.parametrize("way", ["plain", "interrupt"])
def test_workers_are_compiled_by_the_first_large_loop(way: str) -> None:
    subprocess.run([sys.executable, "-c", LATE, way], check=True, timeout=120)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
def test_the_child_of_a_fork_has_threads_of_its_own() -> None:
    program = """
import os, numpy as np, jitcore
jitcore.set_num_threads(3)
source = "def f(x):\\n    return x * 2 + 1\\n"
import linecache
linecache.cache["p.py"] = (len(source), None, source.splitlines(True), "p.py")
names = {}
exec(compile(source, "p.py", "exec"), names)
f = jitcore.script(names["f"])
x = np.arange(1_000_000.0)
for _ in range(3):
    f(x)
children = []
for _ in range(3):
    child = os.fork()
    if child == 0:
        fine = all(np.array_equal(f(x), x * 2 + 1) for _ in range(20))
        os._exit(0 if fine else 1)
    children.append(child)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
assert codes == [0, 0, 0], codes
assert np.array_equal(f(x), x * 2 + 1)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_number_of_threads() -> None:
    before = jitcore.get_num_threads()
    assert jitcore.set_num_threads(5) == before
    assert jitcore.get_num_threads() == 5
    assert jitcore.set_num_threads(before) == 5
    with pytest.raises(ValueError, match="at least 1; found 0"):
        jitcore.set_num_threads(0)
    with pytest.raises(TypeError, match="an int of at least 1; found 'two'"):
        jitcore.set_num_threads("two")  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "code"), [("3", 0), ("0", 1), ("many", 1)])
def test_the_environment_sets_the_number(text: str, code: int) -> None:
    program = "import jitcore; assert jitcore.get_num_threads() == 3"
    environment = {**os.environ, "JITCORE_NUM_THREADS": text}
    ended = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, timeout=60
    )
    assert ended.returncode == code
    if code:
        assert b"JITCORE_NUM_THREADS is a positive integer" in ended.stderr


WRONG_NUMBER = """
import linecache
import numpy as np, jitcore
source = "def f(x):\\n    x += 1\\n    return x * 2\\n"
linecache.cache["p.py"] = (len(source), None, source.splitlines(True), "p.py")
names = {}
exec(compile(source, "p.py", "exec"), names)
x = np.zeros(2_000_000)
try:
    jitcore.script(names["f"])(x)
except ValueError as error:
    assert "JITCORE_NUM_THREADS" in str(error)
else:
    raise AssertionError("the number is not looked at")
assert not x.any()
"""


def test_a_wrong_number_is_found_before_anything_is_written() -> None:
    environment = {**os.environ, "JITCORE_NUM_THREADS": "0"}
    command = [sys.executable, "-c", WRONG_NUMBER]
    subprocess.run(command, env=environment, check=True, timeout=60)


def words_of(text: str, folder: Path) -> list[str]:
    """What a program of its own prints; its functions are read from a file."""
    program = folder / "program.py"
    program.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, str(program)],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    return ran.stdout.split()


FIRST_JOB = """
import ctypes, threading
import jitcore
from jitcore.codegen.runtime import threads

jitcore.set_num_threads(2)
integers = [ctypes.c_int64] * 3
body_type = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
parallel_type = ctypes.CFUNCTYPE(None, body_type, ctypes.c_void_p, *integers)
meeting, met, taken = threading.Barrier(2), set(), []

def body(context, start, stop):
    if threading.get_ident() not in met:
        met.add(threading.get_ident())
        meeting.wait()
    taken.append((start, stop))

parallel_type(threads._address())(body_type(body), None, 0, 1_000_000, 4_000_000)
elements = [element for start, stop in taken for element in range(start, stop)]
print(len(met), sorted(elements) == list(range(1_000_000)))
"""


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores",
)
def test_a_worker_takes_part_in_the_job_it_was_started_for(tmp_path: Path) -> None:
    """The caller waits in its first part until a worker has begun one."""
    assert words_of(FIRST_JOB, tmp_path) == ["2", "True"]


SHARED_CORE = """
import os, time
import numpy as np
import jitcore

@jitcore.script
def polynomial(x):
    y = x * np.float32(0)
    for c in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0):
        y = y * x + np.float32(c)
    return y

# The threads that are made later may run there only, too.
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
jitcore.set_num_threads(2)
x = np.linspace(0, 1, 300_000, dtype=np.float32)
expected = polynomial(x)
everywhere, here = time.process_time(), time.thread_time()
for _ in range(30):
    time.sleep(0.003)
    for _ in range(5):
        polynomial(x)
here = time.thread_time() - here
print((time.process_time() - everywhere) / here, np.array_equal(polynomial(x), expected))
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here")
def test_a_worker_on_the_core_of_its_caller_gives_way(tmp_path: Path) -> None:
    """It takes no parts, nor does it look for more of them, while the caller could work."""
    ratio, is_right = words_of(SHARED_CORE, tmp_path)
    assert is_right == "True"
    assert float(ratio) < 1.3
