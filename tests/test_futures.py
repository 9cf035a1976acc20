# mypy: allow-untyped-defs, allow-untyped-calls
"""``fork`` and ``wait``: tasks on other threads, in plain Python and in scripted functions."""

from __future__ import annotations

import functools
import gc
import os
import threading
import time
import traceback
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import Future, fork, nn, script, wait


@pytest.fixture(params=[1, 4])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    """Each number of threads gives the same results; with one, whoever waits has to help."""
    before = jitcore.set_num_interop_threads(request.param)
    yield request.param
    jitcore.set_num_interop_threads(before)


def norm(x, order=2):
    return np.sqrt((abs(x) ** order).sum())


def both(x, y):
    first = fork(norm, x)
    second = norm(y)
    return wait(first) + second


def with_keywords(x):
    return fork(norm, x, order=4).wait()


def list_of_futures(x):
    futures: list[Future[np.ndarray]] = []
    for i in range(5):
        futures.append(fork(norm, x * i))
    return [wait(one) for one in futures]


def nested(x):
    def inner(y):
        return fork(norm, y).wait() + 1

    return fork(inner, x).wait() * 2


def branches(x: Any, n: int) -> Any:
    future = fork(norm, x) if n > 0 else fork(np.sum, x)
    for _ in range(n):
        future = fork(norm, x + wait(future))
    return future.wait()


def builtins_and_numpy(x):
    return [fork(np.sort, x).wait()[0], fork(len, x).wait(), *fork(divmod, 17, 5).wait()]


def write_later(x):
    def fill(y):
        y[:] = 7.0

    fork(fill, x).wait()
    return x + 1


def awaited_twice(x):
    future = fork(norm, x)
    return future.wait() + wait(future), future.done(), future.value()


def chained(x):
    return fork(norm, x).then(lambda future: future.wait() * 2).wait()


PROGRAMS = [
    (both, (np.arange(3.0), np.arange(5.0))),
    (with_keywords, (np.arange(4, dtype=np.float32),)),
    (list_of_futures, (np.arange(4.0),)),
    (nested, (np.arange(6.0),)),
    (branches, (np.arange(3.0), 3)),
    (branches, (np.arange(3.0), 0)),
    (builtins_and_numpy, (np.array([3.0, 1.0, 2.0]),)),
    (write_later, (np.zeros(3),)),
    (awaited_twice, (np.arange(3.0),)),
    (chained, (np.arange(3.0),)),
]


@pytest.mark.parametrize(("program", "args"), PROGRAMS)
def test_scripted_as_plain(program: Any, args: Any, threads: int) -> None:
    expected = program(*args)
    function = script(program)
    for _ in range(3):
        found = function(*args)
        # A sum may be added in another order than NumPy's.
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert type(found) is type(expected)


def test_without_fork_the_same() -> None:
    x, y = np.arange(3.0), np.arange(5.0)
    assert script(both)(x, y) == norm(x) + norm(y)


def test_forked_functions_are_compiled() -> None:
    function = script(both)
    function(np.arange(3.0), np.arange(5.0))
    scripted = jitcore.futures._compiled(norm)
    assert isinstance(scripted, jitcore.ScriptFunction)
    scripted(np.arange(3.0), 2)
    assert scripted.kernels


def forks_what_it_gets(function, x):
    return wait(fork(function, x))


def forks_what_it_defines(x, k):
    def scaled(y):
        return y * k + 1

    return wait(fork(scaled, x))


def test_forked_functions_live_as_long_as_the_program_keeps_them() -> None:
    scripted, x = script(forks_what_it_gets), np.arange(3.0)
    kept = []
    for k in range(3):

        def shifted(y, k=k):
            return y + k

        assert np.array_equal(scripted(shifted, x), x + k)
        kept.append(weakref.ref(shifted))
        del shifted
    del scripted  # which knows the function that it was compiled for
    gc.collect()
    assert [one() for one in kept] == [None] * 3


def test_a_wrapper_of_a_forked_function_is_another() -> None:
    def doubled(y):
        return y * 2

    @functools.wraps(doubled)
    def tripled(y):
        return y * 3

    scripted, x = script(forks_what_it_gets), np.arange(3.0)
    assert np.array_equal(scripted(doubled, x), x * 2)
    functools.update_wrapper(tripled, doubled)
    assert np.array_equal(scripted(tripled, x), x * 3)


def test_functions_that_each_call_defines_are_not_compiled_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled = []

    def noted(function):
        compiled.append(function)
        return script(function)

    monkeypatch.setattr(jitcore.futures, "script", noted)
    scripted, x = script(forks_what_it_defines), np.arange(3.0)
    for k in range(30):
        assert np.array_equal(scripted(x, k), x * k + 1)
    assert 0 < len(compiled) <= 10


def fails(x):
    return x[10]


def awaits_failure(x):
    return wait(fork(fails, x))


@pytest.mark.parametrize("function", [awaits_failure, script(awaits_failure)])
def test_exceptions_are_raised_where_they_are_awaited(function: Any, threads: int) -> None:
    for _ in range(2):
        with pytest.raises(IndexError, match="index 10 is out of bounds") as caught:
            function(np.arange(3))
    assert "fails" in "".join(traceback.format_tb(caught.tb))


def test_an_exception_can_be_awaited_again() -> None:
    future = fork(fails, np.arange(3))
    lengths = []
    for _ in range(3):
        with pytest.raises(IndexError) as caught:
            future.wait()
        lengths.append(len(traceback.extract_tb(caught.tb)))
    assert future.done() and len(set(lengths)) == 1
    with pytest.raises(IndexError):
        future.then(lambda one: one.value()).wait()


def test_tasks_await_tasks_however_few_threads_there_are(threads: int) -> None:
    def fibonacci(n: int) -> int:
        if n < 2:
            return n
        first, second = fork(fibonacci, n - 1), fork(fibonacci, n - 2)
        return first.wait() + second.wait()

    assert fork(fibonacci, 12).wait() == 144


def test_thousands_of_tasks(threads: int) -> None:
    futures = [fork(lambda number=number: number * number) for number in range(5000)]
    assert [one.wait() for one in futures] == [number * number for number in range(5000)]


def test_a_chain_of_callbacks(threads: int) -> None:
    future = fork(abs, -1)
    for _ in range(100):
        future = future.then(lambda one: one.value() + 1)
    assert future.wait() == 101


def test_a_task_that_waits_for_itself_says_so() -> None:
    futures: list[Future[Any]] = []
    ready = threading.Event()

    def task() -> Any:
        ready.wait()
        return futures[0].wait()

    futures.append(fork(task))
    ready.set()
    with pytest.raises(RuntimeError, match="waits for itself"):
        futures[0].wait()


def test_values_are_not_there_before_the_task_is_done() -> None:
    go_on = threading.Event()
    future = fork(go_on.wait)
    assert not future.done() and "not done" in repr(future)
    with pytest.raises(RuntimeError, match="not done"):
        future.value()
    go_on.set()
    assert future.wait() is True and "returned" in repr(future)


def test_tasks_have_the_error_state_of_who_forked_them(threads: int) -> None:
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        fork(np.divide, np.ones(1), np.zeros(1)).wait()


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(3, 2)
        self.right = nn.Linear(3, 2)

    def forward(self, x):
        first = fork(self.left, x)
        return self.right(x) + wait(first)


def test_layers_are_forked() -> None:
    model, x = Pair(), np.ones((4, 3), np.float32)
    np.testing.assert_allclose(script(model)(x), model(x), rtol=1e-6)


def test_traces_record_what_tasks_do() -> None:
    traced = jitcore.trace(both, (np.arange(3.0), np.arange(5.0)))
    x, y = np.arange(4.0), np.arange(2.0)
    np.testing.assert_allclose(traced(x, y), both(x, y), rtol=1e-14)


def test_fork_and_wait_say_what_they_take() -> None:
    with pytest.raises(TypeError, match=r"fork\(\) takes a function; found int"):
        fork(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"wait\(\) takes what fork\(\) returned; found int"):
        wait(3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least 1; found 0"):
        jitcore.set_num_interop_threads(0)


def test_the_number_of_threads() -> None:
    before = jitcore.set_num_interop_threads(3)
    assert jitcore.get_num_interop_threads() == 3
    assert jitcore.set_num_interop_threads(before) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX forks processes")
def test_the_child_of_a_process_forks_tasks() -> None:
    assert fork(abs, -2).wait() == 2
    child = os.fork()
    if not child:
        os._exit(0 if fork(abs, -3).wait() == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0


@script
def count(n: int) -> int:
    total = 0
    for i in range(n):
        total = (total * 5 + i) % 1000003
    return total


@script
def large(x):
    for _ in range(20):
        x = np.sqrt(x * x + 1.0)
    return x


@pytest.mark.parametrize(
    "call", [lambda: count(20_000_000), lambda: large(np.ones(2_000_000))], ids=["loop", "large"]
)
def test_compiled_code_lets_other_threads_run(call: Any) -> None:
    count(3)
    large(np.ones(2_000_000))
    # A loaded machine may leave this thread waiting for the whole of a call; never for many.
    assert any(turns_beside(call) > 5 for _ in range(20))


def turns_beside(call: Any) -> int:
    """How often this thread came by while another one was in a call."""
    thread = threading.Thread(target=call)
    thread.start()
    turns = 0
    while thread.is_alive():
        time.sleep(0.0005)
        turns += 1
    return turns


def test_results_made_without_the_lock_are_whole() -> None:
    @script
    def pieces(n: int) -> Any:
        parts = np.zeros(4)
        for i in range(n):
            parts = np.full(4, float(i)) + parts
        return parts, np.arange(n)

    futures = [fork(pieces, 300) for _ in range(40)]
    for future in futures:
        total, numbers = future.wait()
        np.testing.assert_equal(total, np.full(4, sum(range(300)), float))
        np.testing.assert_equal(numbers, np.arange(300))
