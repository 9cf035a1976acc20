# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays of other libraries go into calls without a copy, and results come back as theirs."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import array_libraries
import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, script
from jitcore.cuda import dlpack, libraries, numpy_calls

NAMES = ["Torch", "Cupy", "Numba", "Jax", "Interface", "Dlpack"]
GIVES_ITS_OWN = NAMES[:4]

X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine(devices=2) as made:
        yield made


@pytest.fixture
def library(
    fake: FakeDriver, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Any:
    return installed(request.param, monkeypatch)


def installed(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Have a library's stand-in imported."""
    made = getattr(array_libraries, name)()
    monkeypatch.setitem(sys.modules, made.__name__, made)
    # The tables belong to the library that was there first.
    monkeypatch.setattr(libraries, "_torch_dtypes", {})
    monkeypatch.setattr(libraries, "_torch_of", {})
    # A stand-in has no functions that could compute for NumPy's.
    monkeypatch.setattr(numpy_calls, "_cupy", lambda: None)
    return made


def every(names: list[str]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("library", names, indirect=True)


@every(NAMES)
def test_calls(library: Any) -> None:
    compiled = script(lambda x, k: (np.exp(x) * k, x.sum()))
    x = library.array(cuda.from_numpy(X))
    for _ in range(2):
        found, total = compiled(x, 2.0)
        wanted = library.array if library.__class__.__name__ in GIVES_ITS_OWN else cuda.Array
        assert type(found) is wanted and type(total) is wanted
        np.testing.assert_allclose(found.numpy(), np.exp(X) * 2, rtol=1e-6)
        np.testing.assert_allclose(total.numpy(), X.sum(), atol=1e-6)
    assert len(compiled.specializations) == 1


@every([name for name in NAMES if name != "Jax"])
def test_writes_go_to_the_array_itself(library: Any) -> None:
    def add_one(x):
        x += 1
        return x

    held = cuda.from_numpy(X)
    x = library.array(held)
    assert script(add_one)(x) is x
    np.testing.assert_array_equal(held.numpy(), X + 1)


@every(["Jax"])
def test_arrays_that_never_change(library: Any) -> None:
    def add_one(x):
        x += 1

    held = cuda.from_numpy(X)
    with pytest.raises(ValueError, match="read-only"):
        script(add_one)(library.array(held))
    np.testing.assert_array_equal(held.numpy(), X)


@every(NAMES)
def test_layouts(library: Any) -> None:
    held = cuda.from_numpy(X)
    for view, host in ((held.T, X.T), (held[:, ::2], X[:, ::2]), (held[1:1], X[1:1])):
        found = script(lambda x: x * 2)(library.array(view))
        np.testing.assert_array_equal(found.numpy(), host * 2)


@every(GIVES_ITS_OWN)
def test_results_of_host_code(library: Any) -> None:
    def parts(x):
        return np.sort(x, axis=1), x[::-1], x[1:], np.histogram(x)[0]

    held = cuda.from_numpy(X)
    found = script(parts)(library.array(held))
    for one, wanted in zip(found, parts(X), strict=True):
        assert type(one) is library.array
        np.testing.assert_array_equal(one.numpy(), wanted)
    if not isinstance(library, array_libraries.Jax):
        tail = found[2].held
        assert held.address < tail.address < held.address + held.nbytes


@every(GIVES_ITS_OWN)
def test_views_that_are_returned(library: Any) -> None:
    held = cuda.from_numpy(X)
    x = library.array(held)
    for view in (lambda x: x.T, lambda x: x[::-1], lambda x: x):
        found = script(view)(x)
        assert type(found) is library.array
        np.testing.assert_array_equal(found.numpy(), view(X))
    assert found is x


@every(NAMES)
def test_moving(library: Any) -> None:
    held = cuda.from_numpy(X)
    array = library.array(held)
    np.testing.assert_array_equal(jitcore.to(array, "cpu"), X)
    assert jitcore.to(array, "cuda") is array
    taken = cuda.as_array(array)
    assert type(taken) is cuda.Array and taken.address == held.address
    moved = jitcore.to(array, "cuda:1")
    assert type(moved) is cuda.Array and moved.device.index == 1
    np.testing.assert_array_equal(moved.numpy(), X)


@pytest.mark.parametrize("library", ["Torch", "Cupy"], indirect=True)
def test_the_library_s_current_stream(fake: FakeDriver, library: Any) -> None:
    library.stream = fake.create_stream()
    script(lambda x: x + 1)(library.array(cuda.from_numpy(X)))
    assert fake.launches[-1].stream == library.stream


@pytest.mark.parametrize("library", ["Interface", "Numba"], indirect=True)
def test_the_array_s_own_stream(fake: FakeDriver, library: Any) -> None:
    one, two = (library.array(cuda.from_numpy(X)) for _ in range(2))
    one.stream, two.stream = fake.create_stream(), fake.create_stream()
    waits: list[int] = []
    fake.wait_for = lambda event, stream=0: waits.append(stream)  # type: ignore[method-assign]
    script(lambda x, y: x + y)(one, two)
    assert fake.launches[-1].stream == one.stream
    assert one.stream in waits


def test_libraries_may_be_mixed(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, cupy = (installed(name, monkeypatch) for name in ("Torch", "Cupy"))
    x, y = torch.array(cuda.from_numpy(X)), cupy.array(cuda.from_numpy(X))
    found = script(lambda x, y: x + y)(y, x)
    assert type(found) is cupy.array
    np.testing.assert_array_equal(found.numpy(), X + X)


def test_sorting_and_transforms_are_cupy_s(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy = installed("Cupy", monkeypatch)
    monkeypatch.setattr(numpy_calls, "_cupy", lambda: cupy)
    asked: list[str] = []

    def recorded(function: Any) -> Any:
        def call(array: Any, *args: Any, **keywords: Any) -> Any:
            asked.append(function.__name__)
            found = function(array.numpy(), *args, **keywords)
            return cupy.array(cuda.from_numpy(found))

        return call

    cupy.sort = recorded(np.sort)
    cupy.fft = SimpleNamespace(fft=recorded(np.fft.fft))

    def sorted_twice(x):
        return np.sort(x * -2, axis=0) + 1

    def transformed(x):
        return np.fft.fft(x[:, ::-1])

    for function, name in ((sorted_twice, "sort"), (transformed, "fft")):
        compiled, x = script(function), cupy.array(cuda.from_numpy(X))
        for _ in range(2):
            found = compiled(x)
            assert type(found) is cupy.array
            np.testing.assert_allclose(found.numpy(), function(X), rtol=1e-6)
        assert asked == [name, name]
        asked.clear()
        assert f"{name} by CuPy, on the device" in str(compiled.explain(x))
        asked.clear()


def test_without_cupy_sorting_is_the_host_s(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(numpy_calls, "_cupy", lambda: None)
    compiled, x = script(lambda x: np.sort(x) * 2), cuda.from_numpy(X)
    np.testing.assert_array_equal(compiled(x).numpy(), np.sort(X) * 2)
    said = str(compiled.explain(x))
    assert "others on the host, on copies of the arrays" in said and "np::sort" in said


@pytest.mark.parametrize("library", ["Torch"], indirect=True)
def test_tensors_that_are_refused(library: Any) -> None:
    function = script(lambda x: x + 1)
    for name, value, message in [
        ("requires_grad", True, "gradients would be lost"),
        ("layout", "sparse", "not stored as its elements"),
        ("negative", True, "not stored as its elements"),
    ]:
        tensor = library.array(cuda.from_numpy(X))
        setattr(tensor, name, value)
        with pytest.raises(TypeError, match=message):
            function(tensor)
    with pytest.raises(TypeError, match="NumPy has no dtype like torch.float16"):
        function(library.array(cuda.from_numpy(X.astype(np.float16))))


@pytest.mark.parametrize("library", ["Torch"], indirect=True)
def test_tensors_on_the_host_are_no_device_arrays(library: Any) -> None:
    tensor = library.array(cuda.from_numpy(X))
    tensor.is_cuda = False
    assert not jitcore.devices.is_device_array(tensor)


@pytest.mark.parametrize("library", ["Dlpack"], indirect=True)
def test_other_devices_of_dlpack(library: Any) -> None:
    array = library.array(cuda.from_numpy(X))
    array.kind = 1
    assert not jitcore.devices.is_device_array(array)


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_keeps_the_memory(fake: FakeDriver, versioned: bool) -> None:
    array = cuda.from_numpy(X.T)
    capsule = array.__dlpack__(max_version=(1, 0) if versioned else None)
    address = array.address
    before = len(dlpack._exported)
    del array
    gc.collect()
    assert len(dlpack._exported) == before

    class Once:
        def __dlpack__(self, **keywords: Any) -> Any:
            return capsule

    start, shape, strides, dtype, read_only, device, owner = dlpack.take(Once(), 0)
    assert (start, shape, dtype, read_only, device) == (address, (4, 3), X.dtype, False, 0)
    assert strides == X.T.strides
    del owner
    gc.collect()
    assert len(dlpack._exported) == before - 1


def test_a_capsule_that_nobody_takes(fake: FakeDriver) -> None:
    before = len(dlpack._exported)
    capsule = cuda.from_numpy(X).__dlpack__()
    assert len(dlpack._exported) == before + 1
    del capsule
    gc.collect()
    assert len(dlpack._exported) == before


def test_dlpack_of_what_is_read_only(fake: FakeDriver) -> None:
    view = np.broadcast_to(cuda.from_numpy(X), (2, 3, 4))
    with pytest.raises(BufferError, match="DLPack 1.0"):
        view.__dlpack__()
    assert view.__dlpack__(max_version=(1, 0)) is not None
    with pytest.raises(BufferError, match="without a copy"):
        view.__dlpack__(copy=True)
