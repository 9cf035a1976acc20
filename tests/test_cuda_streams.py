# mypy: allow-untyped-defs, allow-untyped-calls
"""Whose work waits for whose: arrays of several libraries and streams in one call."""

from __future__ import annotations

import copy
import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from test_cuda_libraries import installed

import jitcore
from jitcore import cuda, script
from jitcore.codegen.cuda import calls
from jitcore.cuda.pool import Pool, pool_of, scratch_pool_of

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
PER_THREAD = 2


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine(devices=2) as made:
        yield made


class Order:
    """Notes what a driver is asked: launches by their stream, and (which stream, waits for)."""

    def __init__(self, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
        self.noted: list[Any] = []
        self._recorded: dict[int, int] = {}
        record = fake.record

        def note_record(event: int, stream: int = 0) -> None:
            self._recorded[event] = stream
            record(event, stream)

        def note_wait(event: int, stream: int = 0) -> None:
            self.noted.append((stream, self._recorded[event]))

        outer = self

        class Launches(list[Any]):
            def append(self, launch: Any) -> None:
                outer.noted.append(launch.stream)

        monkeypatch.setattr(fake, "record", note_record)
        monkeypatch.setattr(fake, "wait_for", note_wait)
        monkeypatch.setattr(fake, "launches", Launches())


def added(x, y):
    y += x
    return y * 2


def in_place(x):
    x += 1


def pair_of(name: str, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Two arrays that are used on different streams, and these."""
    first, second = fake.create_stream(), fake.create_stream()
    if name in ("Numba", "Interface"):
        library = installed(name, monkeypatch)
        x, y = (library.array(cuda.from_numpy(X)) for _ in range(2))
        x.stream, y.stream = first, second
        return x, y, first, second
    one, other = (installed(kind, monkeypatch) for kind in name.split())
    one.stream, other.stream = first, second
    return *(kind.array(cuda.from_numpy(X)) for kind in (one, other)), first, second


@pytest.mark.parametrize("name", ["Torch Cupy", "Cupy Torch", "Numba", "Interface"])
def test_streams_wait_for_a_call_and_it_for_them(
    name: str, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, first, second = pair_of(name, fake, monkeypatch)
    compiled = script(added)
    for number in range(1, 4):
        with monkeypatch.context() as patch:
            order = Order(fake, patch)
            compiled(x, y)
        assert order.noted[0] == (first, second) and order.noted[-1] == (second, first)
        assert set(order.noted[1:-1]) == {first}
        np.testing.assert_array_equal(y.numpy(), X * (number + 1))


def test_streams_wait_for_a_call_that_fails(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, first, second = pair_of("Torch Cupy", fake, monkeypatch)
    compiled = script(lambda x, y, k: (added(x, y), x[k]))
    order = Order(fake, monkeypatch)
    with pytest.raises(IndexError):
        compiled(x, y, 3)
    assert order.noted[-1] == (second, first)


def test_each_stream_is_waited_for_once(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, first, second = pair_of("Torch Cupy", fake, monkeypatch)
    order = Order(fake, monkeypatch)
    script(lambda x, y, z: x + y + z)(x, y, type(y)(y.held))
    waits = [one for one in order.noted if isinstance(one, tuple)]
    assert waits == [(first, second), (second, first)]


def test_streams_of_what_python_runs(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = installed("Torch", monkeypatch)
    torch.stream = fake.create_stream()
    x, compiled = torch.array(cuda.from_numpy(X)), script(lambda x: (x * 2).T)
    for _ in range(3):
        with monkeypatch.context() as patch:
            order = Order(fake, patch)
            np.testing.assert_array_equal(compiled(x).numpy(), (X * 2).T)
        assert set(order.noted) == {torch.stream}
    order = Order(fake, monkeypatch)
    cuda.as_array(x)
    assert order.noted == [(0, torch.stream)]


def test_the_default_stream_by_another_number(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed("Interface", monkeypatch)
    x, y = (library.array(cuda.from_numpy(X)) for _ in range(2))
    x.stream = 1
    order = Order(fake, monkeypatch)
    compiled = script(added)
    for _ in range(3):
        compiled(x, y)
    assert set(order.noted) == {1}


@pytest.mark.parametrize("name", ["Jax", "Dlpack"])
def test_arrays_live_until_the_device_has_read_them(
    name: str, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, compiled = installed(name, monkeypatch), script(lambda x: x * 2)
    done: list[int] = []
    monkeypatch.setattr(fake, "is_done", done.__contains__)
    events: list[int] = []
    record = fake.record

    def note(event: int, stream: int = 0) -> None:
        events.append(event)
        record(event, stream)

    monkeypatch.setattr(fake, "record", note)
    alive = []
    for _ in range(3):
        x = library.array(cuda.from_numpy(X))
        alive.append(weakref.ref(x))
        np.testing.assert_array_equal(compiled(x).numpy(), X * 2)
        del x
    gc.collect()
    assert all(one() is not None for one in alive) and len(events) == 3
    done.append(events[0])
    cuda.empty(1 << 20)
    gc.collect()
    assert [one() is None for one in alive] == [True, False, False]
    done += events
    cuda.empty_cache()
    gc.collect()
    assert all(one() is None for one in alive)


def test_arrays_of_a_call_without_results_live_as_long(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, compiled = installed("Dlpack", monkeypatch), script(in_place)
    alive = []
    for _ in range(4):
        x = library.array(cuda.from_numpy(X))
        alive.append(weakref.ref(x))
        compiled(x)
    np.testing.assert_array_equal(x.numpy(), X + 1)
    del x
    gc.collect()
    # The last call's is kept until the next call, which says so to the device.
    assert alive[-1]() is not None
    y = library.array(cuda.from_numpy(X))
    compiled(y), cuda.empty(1 << 20)
    gc.collect()
    assert all(one() is None for one in alive)


def test_arrays_live_until_a_call_that_fails_is_done(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library, compiled = installed("Jax", monkeypatch), script(lambda x, k: (x * 2)[k])
    monkeypatch.setattr(fake, "is_done", lambda event: False)
    x = library.array(cuda.from_numpy(X))
    alive = weakref.ref(x)
    with pytest.raises(IndexError):
        compiled(x, 7)
    del x
    gc.collect()
    assert alive() is not None


@pytest.mark.parametrize("pool", [pool_of, scratch_pool_of])
def test_memory_of_streams_that_are_one_in_each_thread(
    pool: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = Order(fake, monkeypatch)
    first = pool(0).take(100, PER_THREAD)
    address = first.address
    # It comes after what the default stream was asked for, and that after all other threads'.
    assert order.noted == [(PER_THREAD, 0)]
    del first
    found = list[int]()

    def other() -> None:
        found.append(pool(0).take(100, PER_THREAD).address)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [address] and order.noted == [(PER_THREAD, 0)] * 2
    assert pool(0).take(100).address == address
    assert len(order.noted) == 2


def test_memory_that_a_stream_of_each_thread_has_used(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cuda.Stream() as stream:
        x = jitcore.to(X, "cuda")
    y = jitcore.to(X, "cuda")
    order = Order(fake, monkeypatch)
    for one in (x, y):
        one.owner.used_on(PER_THREAD)
    del x, y, one
    gc.collect()
    # The default stream waits for those of all threads, also where another one drops the array.
    assert order.noted == [(stream.handle, 0)]


def test_calls_on_a_stream_of_each_thread(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed("Cupy", monkeypatch)
    library.stream = PER_THREAD
    x, compiled = library.array(cuda.from_numpy(X)), script(lambda x: (x + 1, x.sum()))
    for _ in range(3):
        order = Order(fake, monkeypatch)
        found, total = compiled(x)
        np.testing.assert_array_equal(found.numpy(), X + 1)
        np.testing.assert_allclose(total.numpy(), X.sum(), atol=1e-5)
        launches = [one for one in order.noted if not isinstance(one, tuple)]
        assert set(launches) == {PER_THREAD} and set(order.noted) - {PER_THREAD} == {(2, 0)}


def test_arrays_of_other_libraries_on_the_host_are_elsewhere(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = installed("Torch", monkeypatch)
    x, y = (torch.array(cuda.from_numpy(X)) for _ in range(2))
    y.is_cuda = False
    for args in ((x, y), (y, x)):
        with pytest.raises(TypeError, match="[xy] on no CUDA device.*jitcore.to") as caught:
            script(added)(*args)
        assert "on cuda:0" in str(caught.value)


@pytest.mark.parametrize("use", ["call", "two", "copy", "ufunc", "method"])
def test_what_a_view_lies_in_lives_until_the_device_has_read_it(
    use: str, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = installed("Jax", monkeypatch)
    monkeypatch.setattr(fake, "is_done", lambda event: False)
    one, two = script(lambda x: x * 2), script(lambda x, y: x * 2 + y)
    y = jitcore.to(X, "cuda")
    for _ in range(3):
        x = library.array(cuda.from_numpy(X)).block_until_ready()
        view, alive = cuda.as_array(x), weakref.ref(x)
        del x
        if use == "call":
            one(view)
        elif use == "two":
            # Calls of which the first array is another one.
            two(y, view), two(view, view)
        elif use == "copy":
            copy.copy(view)
        else:
            view.sum() if use == "method" else view + 1
        del view
        gc.collect()
        assert alive() is not None


def test_memory_of_another_stream_that_is_copied(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = (jitcore.to(X, "cuda") for _ in range(2))
    with cuda.Stream() as stream:
        copy.copy(x), y + 1
    order = Order(fake, monkeypatch)
    del x
    gc.collect()
    assert order.noted == [(0, stream.handle)]
    del y
    gc.collect()
    assert order.noted == [(0, stream.handle)] * 2


def test_reads_on_several_streams_are_kept_by_each(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted = list[int]()
    monkeypatch.setattr(Pool, "keep", lambda pool, arrays, stream: noted.append(stream))
    pool = pool_of(0)
    for stream in (0, 0, 5, 0):
        pool.note(object(), stream)
    pool.keep_noted()
    assert noted == [0, 5, 0]


def test_consumers_that_name_no_stream_use_the_default_one(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, order = jitcore.to(X, "cuda"), Order(fake, monkeypatch)
    with cuda.Stream() as stream:
        x.__dlpack__(stream=-1)
        assert not order.noted
        x.__dlpack__()
    assert order.noted == [(1, stream.handle)]


def test_memory_outlives_its_stream(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    failures: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", failures.append)
    compiled, shape = script(lambda x: x * 2), script(lambda x: x.shape[0] * 3)
    library = installed("Jax", monkeypatch)
    with cuda.Stream() as stream:
        x, y = (jitcore.to(X, "cuda") for _ in range(2))
    z, foreign = jitcore.to(X, "cuda"), library.array(cuda.from_numpy(X))
    for block in (nullcontext(), stream):
        with block:
            compiled(z)
            for _ in range(3):
                # No array comes back, with which the next call would tell that this one is done.
                assert shape(foreign) == 9
    compiled(y)
    handle = stream.handle
    stream.close()
    stream.close()
    for _ in range(2):
        np.testing.assert_array_equal(compiled(y).numpy(), X * 2)
        assert shape(foreign) == 9
    addresses = {one.address for one in (x, y)}
    del x, y, z
    gc.collect()
    assert not failures
    # The next one goes on with it.
    with cuda.Stream() as other:
        made = [jitcore.to(X, "cuda") for _ in range(8)]
    assert other.handle == handle and addresses <= {one.address for one in made}
    assert cuda.Stream().handle != handle
    del made
    cuda.empty_cache()


def test_what_is_a_stream(fake: FakeDriver) -> None:
    class Theirs:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 1234

    x, compiled = cuda.from_numpy(X), script(lambda x: x + 1)
    own = cuda.Stream()
    for given, handle in ((Theirs(), 1234), (1234, 1234), (own, own.handle), (np.int64(0), 0)):
        with cuda.Stream(given) as stream:
            compiled(x)
        assert stream.handle == fake.launches[-1].stream == handle
    for wrong in ("1234", 1.5, -1, object(), x, Theirs):
        with pytest.raises(TypeError, match="expected the number of a CUstream, .*; found "):
            cuda.Stream(wrong)
        with pytest.raises(TypeError, match="expected the number of a CUstream"):
            cuda.Event().record(wrong)


def test_events_are_recorded_on_any_stream(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    monkeypatch.setattr(fake, "record", lambda event, stream: found.append(stream))
    stream, event = cuda.Stream(), cuda.Event()
    for one in (stream, stream.handle, None):
        event.record(one)
    with stream:
        event.record()
    assert found == [stream.handle, stream.handle, 0, stream.handle]


def test_a_closed_stream_is_not_used(fake: FakeDriver) -> None:
    with cuda.Stream() as stream:
        stream.close()
        stream.close()
    for use in (stream.__enter__, stream.synchronize, stream.__cuda_stream__):
        with pytest.raises(RuntimeError, match="closed"):
            use()
    # Nobody works on a stream any more.
    assert calls.STREAMS.value == 0
