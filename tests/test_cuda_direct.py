# mypy: allow-untyped-defs, allow-untyped-calls
"""Calls with arrays on a device that go from the caller to the driver without Python."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, nn, script
from jitcore.codegen.cuda import calls, divided
from jitcore.cuda import executor
from jitcore.cuda.pool import Pool, pool_of


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine(devices=2) as made:
        yield made
    assert (calls.DIRECT.value, calls.STREAM.value, calls.STREAMS.value) == (0, 0, 0)


@contextmanager
def directly(is_direct: bool = True) -> Iterator[None]:
    """See that calls inside the block are direct, or that they are not."""
    run, found = executor.DeviceExecutor.run, list[Any]()

    def noted(self: Any, args: Any, captured: Any = ()) -> Any:
        found.append(self)
        return run(self, args, captured)

    executor.DeviceExecutor.run = noted  # type: ignore[method-assign]
    try:
        yield
    finally:
        executor.DeviceExecutor.run = run  # type: ignore[method-assign]
    assert bool(found) != is_direct


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple | list):
        assert type(found) is type(wanted) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    elif isinstance(wanted, np.ndarray | np.generic):
        assert isinstance(found, cuda.Array)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        if wanted.size:
            assert found.strides == wanted.strides
        np.testing.assert_allclose(
            found.numpy().astype(complex), np.asarray(wanted).astype(complex), rtol=1e-5
        )
    else:
        assert type(found) is type(wanted) and found == wanted


class Pair(NamedTuple):
    first: Any
    second: Any


def chain(x, y, z):
    return np.sqrt(x * x + y * y) + z


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def twice(x):
    y = x + 1
    return y, (y, x), x * 2, 7, None


def listed(x):
    y = x * 2
    return x + 1, [y, 3], y


def in_place(x):
    x += 1
    return x


def sums(x):
    return x.sum(), x.sum(axis=0), np.cumsum(x)


def pair(p, k):
    return Pair(p.first * k, p.second)


def with_branch(x, flag):
    return x * 2 if flag else x - 1


def stacked(x):
    return np.concatenate([x, x + 1])


WEIGHT = np.arange(4.0, dtype=np.float32)
X = np.linspace(-2, 3, 24, dtype=np.float32).reshape(6, 4)
CASES = [
    (chain, (X, X + 1, X[0])),
    (chain, (X.T.copy().T, X.T.copy().T, 2.5)),
    (chain, (X.transpose(1, 0), X.transpose(1, 0), np.float32(2))),
    (chain, (X.astype(np.float16), X.astype(np.float16), X[0].astype(np.float16))),
    (chain, (np.zeros((0, 3)), np.zeros((0, 3)), np.ones(3))),
    (softmax, (X,)),
    (twice, (X.astype(np.int16),)),
    (twice, (X + 1j * X[::-1],)),
    (listed, (X,)),
    (in_place, (X,)),
    (sums, (X,)),
    (pair, (Pair(X, X[0]), 3)),
    (with_branch, (X, True)),
    (with_branch, (X.astype(np.int64), False)),
    (stacked, (X > 0,)),
]


@pytest.mark.parametrize(("function", "args"), CASES)
def test_results(fake: FakeDriver, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
    compiled = script(function)
    given, host = jitcore.to(args, "cuda"), copy.deepcopy(args)
    for turn in range(3):
        with directly(is_direct=turn > 0):
            found = compiled(*given)
        wanted = function(*host)
        same(found, wanted)
        for one, other in zip(given, host, strict=True):
            if isinstance(other, np.ndarray):
                same(one, other)
                assert (found is one) == (wanted is other)
    if function is twice:
        assert found[0] is found[1][0] and found[1][1] is given[0]
    if function is listed:
        assert found[1][0] is found[2]


class Holder:
    def __init__(self, held: Any) -> None:
        self.held = held


def test_arrays_in_objects_that_are_made(fake: FakeDriver) -> None:
    compiled, x = script(lambda x: Holder(x + 1)), jitcore.to(X, "cuda")
    for _ in range(3):
        found = compiled(x)
        assert type(found) is Holder
        np.testing.assert_array_equal(jitcore.to(found.held, "cpu"), X + 1)


def test_results_are_arguments_of_direct_calls(fake: FakeDriver) -> None:
    compiled = script(lambda x: x + 1)
    x = compiled(jitcore.to(X, "cuda"))
    with directly():
        for _ in range(5):
            x = compiled(x)
    assert np.array_equal(x.numpy(), X + 1 + 1 + 1 + 1 + 1 + 1)
    with cuda.Stream(), directly():
        x = compiled(x)
    assert np.array_equal(x.numpy(), X + 1 + 1 + 1 + 1 + 1 + 1 + 1)


def test_arguments_that_direct_calls_made_come_back(fake: FakeDriver) -> None:
    compiled, returned = script(lambda x: x + 1), script(in_place)
    x = compiled(compiled(jitcore.to(X, "cuda")))
    with cuda.Stream():
        assert returned(x) is x
    assert returned(x) is x


def test_what_a_call_costs(fake: FakeDriver) -> None:
    compiled, x = script(chain), jitcore.to(X, "cuda")
    for _ in range(3):
        compiled(x, x, x)
    count = 0

    def note(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        # A driver of CUDA's own runs no Python.
        count += event == "call" and "fake_cuda" not in frame.f_code.co_filename

    launch = fake._functions.values()
    for kernel in launch:
        kernel.run = lambda *args: None
    sys.setprofile(note)
    compiled(x, x, x)
    sys.setprofile(None)
    # Memory is taken and given back, and an array made.
    assert count < 16


def test_modules(fake: FakeDriver) -> None:
    model: Any = nn.Sequential(nn.LayerNorm(4), nn.GELU())
    with np.errstate(all="ignore"):
        wanted = model(X)
    compiled, x = script(model).to("cuda"), jitcore.to(X, "cuda")
    compiled(x), compiled(x)
    with directly():
        np.testing.assert_allclose(compiled(x).numpy(), wanted, rtol=1e-4, atol=1e-5)
    before = [one.numpy() for one in compiled.parameters()]
    compiled[0].weight += 1
    with directly():
        found = compiled(x)
    for one, other in zip(model.parameters(), before, strict=True):
        one[...] = other
    model[0].weight += 1
    np.testing.assert_allclose(found.numpy(), model(X), rtol=1e-4, atol=1e-5)


CAPTURED: Any = None


def captured(x):
    return x * CAPTURED


def test_captured_arrays(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    names = captured.__globals__
    monkeypatch.setitem(names, "CAPTURED", jitcore.to(WEIGHT, "cuda"))
    compiled, x = script(captured), jitcore.to(X, "cuda")
    compiled(x), compiled(x)
    with directly():
        same(compiled(x), X * WEIGHT)
    monkeypatch.setitem(names, "CAPTURED", jitcore.to(WEIGHT + 1, "cuda"))
    names["CAPTURED"].kept_shadow()
    with directly():
        same(compiled(x), X * (WEIGHT + 1))
    monkeypatch.setitem(names, "CAPTURED", 3)
    same(compiled(x), X * 3)


def test_constants_that_change(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(captured.__globals__, "CAPTURED", 2)
    compiled, x = script(captured), jitcore.to(X, "cuda")
    compiled(x), compiled(x)
    with directly():
        same(compiled(x), X * 2)
    monkeypatch.setitem(captured.__globals__, "CAPTURED", 5)
    same(compiled(x), X * 5)


def test_other_places_and_streams(fake: FakeDriver) -> None:
    compiled, x = script(lambda x: x * 2), jitcore.to(X, "cuda")
    y = jitcore.to(X, "cuda:1")
    for _ in range(2):
        compiled(x), compiled(y)
    stream = cuda.Stream()
    with stream, directly():
        found = compiled(x)
        same(found, X * 2)
    assert fake.launches[-1].stream == stream.handle == found.owner.stream
    # Its memory is not given to others before that stream is done with it.
    assert x.owner._others == {stream.handle}
    with directly():
        same(compiled(x), X * 2)
    # The second device is not the thread's current one.
    with directly(is_direct=False):
        assert compiled(y).device_number == 1
    with fake.on_device(1):
        with directly():
            assert compiled(y).device_number == 1
        with directly(is_direct=False):
            assert compiled(x).device_number == 0
    with cuda.Stream(0), directly():
        same(compiled(x), X * 2)
    with stream:
        of_stream = jitcore.to(X, "cuda")
    with directly():
        same(compiled(of_stream), X * 2)
    assert of_stream.owner._others == {0}
    with directly(is_direct=False), pytest.raises(TypeError, match="different places"):
        script(lambda x, y: x + y)(x, y)


def test_errstate(fake: FakeDriver) -> None:
    compiled, x = script(lambda x: 1 / x), jitcore.to(X + 7, "cuda")
    compiled(x), compiled(x)
    with directly():
        compiled(x)
    zeros = jitcore.to(np.zeros_like(X), "cuda")
    zeros.kept_shadow()
    with np.errstate(all="raise"), directly(is_direct=False), pytest.raises(FloatingPointError):
        compiled(zeros)


def test_errors(fake: FakeDriver) -> None:
    compiled, x = script(lambda x, k: x[k] * 2), jitcore.to(X, "cuda")
    compiled(x, 1), compiled(x, 1)
    with directly():
        same(compiled(x, -1), X[-1] * 2)
    with pytest.raises(IndexError) as found:
        compiled(x, 6)
    with pytest.raises(IndexError) as wanted:
        X[6]
    assert str(found.value) == str(wanted.value)
    fake.fails_with = 719
    with pytest.raises(RuntimeError, match="719"):
        compiled(x, 1)
    with directly():
        same(compiled(x, 1), X[1] * 2)


def test_memory_that_is_not_there(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled, x = script(lambda x: (x + 1, x.sum())), jitcore.to(X, "cuda")
    compiled(x), compiled(x)
    pool_of(0).release()
    cuda.empty_cache()
    fake.memory_bytes = 0
    with pytest.raises(MemoryError):
        compiled(x)
    fake.memory_bytes = 1 << 30
    with directly():
        same(compiled(x), (X + 1, X.sum()))
    assert pool_of(0).kept_bytes() > 0


def test_temporaries_are_given_back(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(divided, "LEAST_ROW", 64)
    rows = np.ones((2, 256), np.float32)
    compiled, x = script(lambda x: x.sum(axis=1)), jitcore.to(rows, "cuda")
    compiled(x), compiled(x)
    with directly():
        compiled(x)
        allocated = fake.allocated
        for _ in range(5):
            same(compiled(x), rows.sum(axis=1))
    assert fake.allocated == allocated and "joining the parts" in compiled.kernels[-1].source


def test_interrupts(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    take, interrupted = Pool.take, False

    def taken(self: Pool, size: int, stream: int = 0) -> Any:
        if interrupted:
            raise KeyboardInterrupt
        return take(self, size, stream)

    monkeypatch.setattr(Pool, "take", taken)
    compiled, x = script(lambda x: (x + 1, x.sum())), jitcore.to(X, "cuda")
    compiled(x), compiled(x)
    interrupted = True
    with pytest.raises(KeyboardInterrupt):
        compiled(x)
    interrupted = False
    assert calls.DIRECT.value == 0
    with directly():
        same(compiled(x), (X + 1, X.sum()))


def test_threads(fake: FakeDriver) -> None:
    """Calls on streams, which take turns, and direct ones, which come in between."""
    compiled, x = script(lambda x: (x + 1, x.sum())), jitcore.to(X, "cuda")
    wanted = X + 1, X.sum()
    compiled(x), compiled(x)
    failures = list[BaseException]()

    def work(handles: list[int]) -> None:
        try:
            for _ in range(25):
                same(compiled(x), wanted)
                stream = cuda.Stream()
                handles.append(stream.handle)
                with stream:
                    same(compiled(x), wanted)
        except BaseException as error:
            failures.append(error)

    before, handles = sys.getswitchinterval(), list[int]()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(handles,)) for _ in range(4)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    finally:
        sys.setswitchinterval(before)
    assert not failures
    streams = {one.stream for one in fake.launches}
    assert streams == {0, *handles}


def test_host_arrays_still_enter_first(fake: FakeDriver) -> None:
    compiled, x = script(chain), jitcore.to(X, "cuda")
    assert np.array_equal(compiled(X, X, X), chain(X, X, X))
    same(compiled(x, x, x), chain(X, X, X))
    assert np.array_equal(compiled(X, X, X), chain(X, X, X))
    with directly():
        same(compiled(x, x, x), chain(X, X, X))
    assert jitcore.last_executed_optimized_graph() is compiled.specializations[-1].plan.graph
