# mypy: allow-untyped-defs, allow-untyped-calls
"""jitcore's own arrays on a device, against the same operations on NumPy's."""

from __future__ import annotations

import copy
import gc
import operator
import pickle
import sys
from collections.abc import Callable, Iterator
from typing import Any

import array_libraries
import ml_dtypes
import numpy as np
import pytest
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda
from jitcore.codegen.cuda import driver
from jitcore.cuda import numpy_calls
from jitcore.cuda.pool import pool_of, scratch_pool_of, zeros_pool_of


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with driver.use(FakeDriver(devices=2)) as made:
        assert isinstance(made, FakeDriver)
        yield made


HOST: dict[str, Any] = {
    "matrix": np.arange(12.0, dtype=np.float32).reshape(3, 4),
    "fortran": np.asfortranarray(np.arange(12).reshape(3, 4)),
    "permuted": np.arange(24.0).reshape(2, 3, 4).transpose(1, 0, 2),
    "scalar": np.array(2.5),
    "empty": np.zeros((0, 3)),
    "complex": np.arange(4) * (1 + 2j),
    "bools": np.array([True, False, True]),
}


def same(found: Any, wanted: Any) -> None:
    """Compare what the device has with what NumPy gave."""
    array = found.numpy() if isinstance(found, cuda.Array) else found
    assert np.shape(array) == np.shape(wanted)
    assert np.asarray(array).dtype == np.asarray(wanted).dtype
    np.testing.assert_array_equal(np.asarray(array), np.asarray(wanted))


@pytest.mark.parametrize("name", HOST)
def test_there_and_back(fake: FakeDriver, name: str) -> None:
    host = HOST[name]
    array = jitcore.to(host, "cuda")
    same(array, host)
    assert array.strides == host.strides or not host.size
    assert (array.ndim, array.size, array.nbytes) == (host.ndim, host.size, host.nbytes)
    assert str(array.device) == "cuda:0"
    assert jitcore.to(array, "cuda") is array
    same(jitcore.to(array, "cpu"), host)


@pytest.mark.parametrize("name", HOST)
def test_what_other_libraries_are_told(fake: FakeDriver, name: str) -> None:
    host = HOST[name]
    array = jitcore.to(host, "cuda")
    told = array.__cuda_array_interface__
    assert (told["shape"], np.dtype(told["typestr"])) == (host.shape, host.dtype)
    assert (told["version"], told["stream"]) == (3, 1)
    assert told["data"] == (array.address if host.size else 0, False)
    assert told["strides"] == (None if host.flags.c_contiguous else host.strides)
    repeated: Any = np.broadcast_to(array, (2, *host.shape))
    told = repeated.__cuda_array_interface__
    assert told["data"] == (array.address if host.size else 0, True)


@pytest.mark.parametrize(
    "index", [0, -1, (1, 2), slice(None, None, -1), (..., 1), None, (slice(1), None), np.int64(1)]
)
def test_basic_indexing_gives_views(fake: FakeDriver, index: Any) -> None:
    host = HOST["matrix"].copy()
    array = cuda.from_numpy(host)
    same(array[index], host[index])
    array[index] = 7
    host[index] = 7
    same(array, host)
    view, of_host = array[index], np.asarray(host[index if isinstance(index, tuple) else (index,)])
    view += 1
    host[index] += 1
    same(array, host)
    assert view.shape == of_host.shape


@pytest.mark.parametrize("index", [[0, 2], np.array([True, False, True]), ([0, 1], [1, 1])])
def test_other_indexing(fake: FakeDriver, index: Any) -> None:
    host = HOST["matrix"].copy()
    array = cuda.from_numpy(host)
    same(array[index], host[index])
    array[index] = -1
    host[index] = -1
    same(array, host)


FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: x + 1,
    lambda x: 2 - x,
    lambda x: x * x,
    lambda x: -x,
    lambda x: x > 3,
    lambda x: np.exp(x),
    lambda x: np.add.reduce(x),
    lambda x: x.sum(),
    lambda x: x.mean(axis=0, keepdims=True),
    lambda x: np.concatenate([x, x], axis=1),
    lambda x: np.where(x > 3, x, 0),
    lambda x: x.T,
    lambda x: x.reshape(-1),
    lambda x: x.T.reshape(6, 2),
    lambda x: np.transpose(x),
    lambda x: np.broadcast_to(x, (2, 3, 4)),
    lambda x: np.flip(x, 1),
    lambda x: x.astype(np.int8),
    lambda x: x @ x.T,
    lambda x: np.linalg.norm(x),
    lambda x: np.sort(x, axis=0),
    lambda x: x.argmax(),
    lambda x: x.real,
    lambda x: x.imag,
    lambda x: np.zeros_like(x),
    lambda x: np.shape(x),
    lambda x: len(x),
    lambda x: [float(row[0]) for row in x],
    lambda x: x.item(3),
    lambda x: x.tolist(),
    lambda x: 5.0 in x,
    lambda x: operator.index(x.argmax()),
]


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions(fake: FakeDriver, number: int) -> None:
    function = FUNCTIONS[number]
    host = HOST["matrix"]
    same(function(cuda.from_numpy(host)), function(host))


def test_views_share_memory(fake: FakeDriver) -> None:
    array = cuda.from_numpy(HOST["matrix"])
    views: list[Any] = [array.T, array.reshape(4, 3), array[1:], np.swapaxes(array, 0, 1)]
    for view in views:
        assert array.address <= view.address < array.address + array.nbytes
    row = array[1]
    array *= 2
    same(row, HOST["matrix"][1] * 2)


def test_results_of_host_code_that_are_views_stay_views(fake: FakeDriver) -> None:
    array = cuda.from_numpy(HOST["matrix"])
    part = np.split(array, 2, axis=1)[1]
    part += 100
    wanted = HOST["matrix"].copy()
    wanted[:, 2:] += 100
    same(array, wanted)


def test_out_is_the_result(fake: FakeDriver) -> None:
    array, out = (jitcore.to(one, "cuda") for one in (np.arange(3.0), np.zeros(3)))
    assert np.sqrt(array, out=out) is out
    same(out, np.sqrt(np.arange(3.0)))


def test_what_is_done_before_an_exception_stays(fake: FakeDriver) -> None:
    array: Any = cuda.from_numpy(np.zeros(3))
    with pytest.raises(IndexError):
        np.put(array, [0, 5], [1.0, 1.0])
    host = np.zeros(3)
    with pytest.raises(IndexError):
        np.put(host, [0, 5], [1.0, 1.0])
    same(array, host)


def test_a_read_only_array_stays_as_it_is(fake: FakeDriver) -> None:
    view = np.broadcast_to(cuda.from_numpy(np.ones(3)), (2, 3))
    with pytest.raises(ValueError, match="read-only"):
        view += 1


def test_nothing_is_copied_to_the_host_unasked(fake: FakeDriver) -> None:
    array = cuda.from_numpy(np.ones(3))
    with pytest.raises(TypeError, match=r"cuda:0 is not copied to the host unasked.*\.numpy"):
        np.asarray(array)


def test_truth_and_text(fake: FakeDriver) -> None:
    assert bool(cuda.from_numpy(np.array(1.0)))
    with pytest.raises(ValueError, match="ambiguous"):
        bool(cuda.from_numpy(np.ones(2)))
    assert repr(cuda.from_numpy(np.ones(2))) == "array([1., 1.], device='cuda:0')"
    assert f"{cuda.from_numpy(np.array(2.5)):.2f}" == "2.50"
    with pytest.raises(TypeError, match="unhashable"):
        hash(cuda.from_numpy(np.ones(2)))


def test_devices(fake: FakeDriver) -> None:
    first, second = (jitcore.to(np.ones(2), f"cuda:{number}") for number in range(2))
    assert fake.pointer_device(second.address) == 1
    assert str(jitcore.to(first, "cuda:1").device) == "cuda:1"
    with pytest.raises(TypeError, match="cuda:0 and cuda:1 cannot be used together"):
        first + second
    with pytest.raises(cuda.DriverError, match=r"no device cuda:2.*has 2"):
        jitcore.to(np.ones(2), "cuda:2")
    moved = jitcore.to({"x": [np.ones(1)], "n": 3, "t": (np.ones(2),)}, "cuda")
    assert isinstance(moved["x"][0], cuda.Array) and moved["n"] == 3
    assert isinstance(moved["t"], tuple)


@pytest.mark.parametrize("name", ["GPU", "cuda:x", "cuda:-1", "cpu:1", "cuda:0:1", ""])
def test_names_of_devices(name: str) -> None:
    with pytest.raises(ValueError, match="device"):
        jitcore.device(name)


def test_devices_are_values() -> None:
    assert jitcore.device("cuda") == jitcore.device("cuda", 0) == jitcore.device("cuda:0")
    assert str(jitcore.device("cuda", 1)) == "cuda:1" and str(jitcore.device("cpu")) == "cpu"
    with pytest.raises(ValueError, match="another number"):
        jitcore.device("cuda:1", 2)
    with pytest.raises(TypeError, match="index is an int; found '1'"):
        jitcore.device("cuda", "1")  # type: ignore[arg-type]


def test_memory_is_used_again(fake: FakeDriver) -> None:
    pool = pool_of(0)
    first = cuda.empty(1000)
    address = first.address
    del first
    gc.collect()
    assert pool.kept_bytes() >= 8000
    second = cuda.empty(1000)
    assert second.address == address and fake.allocated == 1
    other = cuda.Stream()
    with other:
        third = cuda.empty(1000)
    assert third.address != address
    del second, third
    cuda.empty_cache()
    assert pool.kept_bytes() == 0


def test_memory_that_another_stream_uses_waits_for_it(fake: FakeDriver) -> None:
    waits: list[int] = []
    fake.wait_for = lambda event, stream=0: waits.append(stream)  # type: ignore[method-assign]
    array, other = cuda.empty(10), cuda.Stream()
    array.__dlpack__(stream=other.handle)
    assert waits == [other.handle]
    del array
    gc.collect()
    assert waits == [other.handle, 0]


def test_out_of_memory(fake: FakeDriver) -> None:
    kept = cuda.empty(fake.memory_bytes // 2, np.int8)
    del kept
    cuda.empty(fake.memory_bytes - (4 << 20), np.int8)
    with pytest.raises(MemoryError, match="CUDA error 2"):
        cuda.empty(fake.memory_bytes + 1, np.int8)


@pytest.mark.parametrize("pools", [(pool_of, zeros_pool_of), (scratch_pool_of, pool_of)])
def test_memory_that_one_pool_keeps_is_there_for_the_others(fake: FakeDriver, pools: Any) -> None:
    keeps, asks = (pool(0) for pool in pools)
    keeps.take(fake.memory_bytes)
    assert keeps.kept_bytes() == fake.memory_bytes
    assert asks.take(fake.memory_bytes).size == fake.memory_bytes
    assert keeps.kept_bytes() == 0


def test_streams_nest(fake: FakeDriver) -> None:
    outer, inner = cuda.Stream(), cuda.Stream()
    array = cuda.empty(1)
    with outer:
        with inner:
            assert array.__cuda_array_interface__["stream"] == inner.handle
        assert array.__cuda_array_interface__["stream"] == outer.handle
    assert array.__cuda_array_interface__["stream"] == 1
    assert inner.__cuda_stream__() == (0, inner.handle)
    outer.close()
    cuda.synchronize()


def test_dtypes_that_devices_have_not(fake: FakeDriver) -> None:
    for dtype in (object, "U3", np.longdouble, ">f4"):
        with pytest.raises(TypeError, match="dtype"):
            cuda.empty(3, dtype)


@pytest.mark.parametrize("name", HOST)
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies(fake: FakeDriver, name: str, copied: Callable[[Any], Any]) -> None:
    array = jitcore.to(HOST[name], "cuda")
    found = copied(array)
    assert type(found) is cuda.Array and (found.address != array.address or not array.size)
    same(found, HOST[name])
    view = array[..., ::2] if array.ndim else array
    same(copied(view), view.numpy())
    with pytest.raises(TypeError, match="one owner"):
        copy.deepcopy(array.owner)


def test_events_measure_time(fake: FakeDriver) -> None:
    recorded: list[int] = []
    record = fake.record

    def note(event: int, stream: int = 0) -> None:
        recorded.append(stream)
        record(event, stream)

    fake.record = note  # type: ignore[method-assign]
    start, stop = cuda.Event(), cuda.Event()
    with cuda.Stream() as stream:
        start.record()
    stop.record(7)
    assert start.seconds_until(stop) > 0
    assert recorded == [stream.handle, 7]
    handle = start.handle
    assert handle in fake._events
    del start
    assert handle not in fake._events


def test_through_cupy(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = array_libraries.Cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(numpy_calls, "_cupy", lambda: cupy)
    copied: list[Any] = []
    monkeypatch.setattr(numpy_calls, "call_on_host", lambda *args, **_: copied.append(args))
    array, out = (jitcore.to(np.arange(3.0), "cuda") for _ in range(2))
    found = np.exp(array)
    assert type(found) is cuda.Array
    same(found, np.exp(np.arange(3.0)))
    assert np.add(array, 1, out=out) is out
    same(out, np.arange(3.0) + 1)
    # What plain code makes on the host.
    same(array + np.ones(3), np.arange(3.0) + 1)
    same(np.ones(3) + array, 1 + np.arange(3.0))
    assert not copied
    np.sinc(array)
    assert len(copied) == 1
    # CuPy has no read-only arrays.
    view: Any = np.broadcast_to(array, (2, 3))
    same(view + 1, np.broadcast_to(np.arange(3.0), (2, 3)) + 1)
    assert len(copied) == 1
    # Nor has it bfloat16.
    np.exp(jitcore.to(np.ones(3, ml_dtypes.bfloat16), "cuda"))
    assert len(copied) == 2
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(numpy_calls, "_cupy", lambda: cupy)
    for write in (
        lambda: operator.iadd(view, 1),
        lambda: operator.setitem(view, 0, 1),
        lambda: view.fill(1),
        lambda: np.add.at(view, 0, 1),
        lambda: np.copyto(view, 1),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    same(array, np.arange(3.0))
