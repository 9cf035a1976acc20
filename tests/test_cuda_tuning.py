# mypy: allow-untyped-defs, allow-untyped-calls
"""Launch configurations by measurement, on a device whose clock the tests set."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from cuda_machine import fake_machine
from device_runs import run_on_device
from fake_cuda import FakeDriver
from test_cuda_programs import assert_same

import jitcore
from jitcore import cuda
from jitcore.codegen.cache import ObjectCache, StoredObject
from jitcore.codegen.cuda.tuning import DEFAULT, PARAMETERS

X = np.linspace(-2, 2, 1024, dtype=np.float32)
ROWS = X.reshape(2, 512)


class Clock:
    """Says that blocks take the longer, the more their threads differ from ``best``."""

    best = 512

    def __init__(self, fake: FakeDriver) -> None:
        self._fake, self._seen, self._now = fake, 0, 0.0

    def record(self, event, stream=0):
        launches = self._fake.launches[self._seen :]
        self._seen = len(self._fake.launches)
        self._now += sum(abs(one.block[0] - self.best) + 1 for one in launches)
        self._fake._events[event] = self._now


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[FakeDriver]:
    monkeypatch.setenv("JITCORE_CACHE", "1")
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("jitcore.cuda.tuning.CALLS", 2)
    with fake_machine() as made:
        yield made


@pytest.fixture
def clock(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(fake)
    monkeypatch.setattr(fake, "record", made.record)
    return made


def silu(x):
    return x / (1 + np.exp(-x))


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def add_to(x):
    x += 1


def blocks(fake, function, *args):
    """The threads of the blocks of a call's launches."""
    fake.launches.clear()
    result = function(*args)
    return result, [one.block[0] for one in fake.launches]


def test_the_fastest_is_kept(fake, clock):
    compiled = jitcore.script(silu)
    x = jitcore.to(X, "cuda")
    with cuda.autotune():
        compiled(x)
    found, threads = blocks(fake, compiled, x)
    assert threads == [512]
    np.testing.assert_allclose(found.numpy(), silu(X), rtol=1e-6)
    assert "element_threads=512" in str(compiled.explain(x))


def test_rows(fake, clock):
    clock.best = 64
    compiled = jitcore.script(softmax)
    x = jitcore.to(ROWS, "cuda")
    with cuda.autotune():
        compiled(x)
    found, (threads,) = blocks(fake, compiled, x)
    np.testing.assert_allclose(found.numpy(), softmax(ROWS), rtol=1e-5)
    _, (usual,) = blocks(fake, jitcore.script(softmax), x)
    assert threads < usual


def test_without_it_nothing_is_measured(fake, clock):
    compiled = jitcore.script(silu)
    x = jitcore.to(X, "cuda")
    _, threads = blocks(fake, compiled, x)
    assert threads == [DEFAULT.element_threads]


def test_another_process_takes_what_was_measured(fake, clock, monkeypatch):
    x = jitcore.to(X, "cuda")
    with cuda.autotune():
        jitcore.script(silu)(x)

    def again(*_):
        raise AssertionError("measured once more")

    monkeypatch.setattr("jitcore.cuda.tuning.seconds", again)
    with cuda.autotune():
        _, threads = blocks(fake, jitcore.script(silu), x)
    assert threads == [512]
    with cuda.autotune(), pytest.raises(AssertionError, match="once more"):
        jitcore.script(silu)(jitcore.to(X[:512].copy(), "cuda"))


def test_what_lies_on_disk_is_checked(fake, clock, tmp_path):
    x = jitcore.to(X, "cuda")
    with cuda.autotune():
        jitcore.script(silu)(x)
    for path in tmp_path.rglob("*.object"):
        files = ObjectCache(path.parent, 2**20)
        stored = files.load(path.stem)
        assert stored is not None
        if b"element_threads" in stored.objects[0]:
            other = stored.objects[0].replace(b"512", b"513")
            files.store(path.stem, StoredObject((other,), (), ()))
    with cuda.autotune():
        _, threads = blocks(fake, jitcore.script(silu), x)
    assert threads[-1] == 512


def test_arguments_are_written_once(fake, clock):
    x = jitcore.to(X, "cuda")
    used = fake.memory_info()
    with cuda.autotune():
        jitcore.script(add_to)(x)
    np.testing.assert_array_equal(x.numpy(), X + 1)
    cuda.empty_cache()
    assert fake.memory_info() == used
    reversed_rows = jitcore.to(ROWS, "cuda")[::-1, ::2]
    with cuda.autotune():
        jitcore.script(add_to)(reversed_rows)
    np.testing.assert_array_equal(reversed_rows.numpy(), ROWS[::-1, ::2] + 1)


def test_a_configuration_that_does_not_run_is_left_out(fake, clock, monkeypatch):
    clock.best = 1024
    launched = fake._launched
    refused = 1024

    def launch(function, *rest):
        if rest[3] >= refused:
            return 701
        return launched(function, *rest)

    monkeypatch.setattr(fake, "_launched", launch)
    fake._callback = type(fake._callback)(launch)
    x = jitcore.to(X, "cuda")
    with cuda.autotune():
        _, threads = blocks(fake, jitcore.script(silu), x)
    assert threads[-1] == 512


def column_sums(x):
    return x.sum(axis=0), x.max(axis=0)


def total(x):
    return (x * x).sum()


CASES = [
    ("element_threads", silu, np.linspace(-2, 2, 1100, dtype=np.float32)),
    ("element_threads", total, np.linspace(-2, 2, 1100, dtype=np.float32)),
    ("vectors", silu, np.linspace(-2, 2, 1100, dtype=np.float32)),
    ("row_threads", softmax, np.linspace(-2, 2, 1100, dtype=np.float32).reshape(1, 1100)),
    ("column_threads", column_sums, np.linspace(-2, 2, 80, dtype=np.float32).reshape(16, 5)),
]


@pytest.mark.parametrize(("parameter", "function", "argument"), CASES)
def test_every_configuration_gives_the_same(parameter, function, argument):
    for tuning in DEFAULT.alternatives(parameter):
        found = run_on_device(function, (argument,), tuning=tuning).result
        assert_same(found, function(argument))


def test_the_default_is_one_of_what_is_tried():
    assert all(getattr(DEFAULT, name) in values for name, values in PARAMETERS.items())
