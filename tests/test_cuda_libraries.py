# mypy: allow-untyped-defs, allow-untyped-calls
"""Arrays of other libraries go into calls without a copy, and results come back as theirs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, NamedTuple

import array_libraries
import ml_dtypes
import numpy as np
import pytest
from array_libraries import exchange_api
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, script
from jitcore.cuda import executor, libraries, numpy_calls

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


def in_place(x):
    x += 1


@contextmanager
def counted_slow_calls() -> Iterator[list[Any]]:
    """The calls that take the way through the executor."""
    run, found = executor.DeviceExecutor.run, list[Any]()

    def noted(self: Any, args: Any, captured: Any = ()) -> Any:
        found.append(args)
        return run(self, args, captured)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor.DeviceExecutor, "run", noted)
        yield found


class Pair(NamedTuple):
    first: Any
    second: Any


@every(NAMES)
def test_direct_calls(library: Any) -> None:
    def program(p, k, y):
        total = p.first.sum(axis=0)
        return p.first * k + p.second, (total, y), np.concatenate([p.first.T, y.T]), p.first[0, 0]

    compiled = script(program)
    # Some of these layouts have specializations of their own.
    for view in (lambda x: x, lambda x: x[:, ::2]):
        x, y = library.array(view(cuda.from_numpy(X))), library.array(view(cuda.from_numpy(X * 2)))
        host = view(X)
        ones = np.ones(host.shape[1], np.float32)
        row = library.array(cuda.from_numpy(ones))
        for turn in range(3):
            with counted_slow_calls() as slow:
                found = compiled(Pair(x, row), 3.0, y)
            assert bool(slow) == (turn == 0)
            wanted = program(Pair(host, ones), np.float32(3), view(X * 2))
            assert found[1][1] is y
            ours = library.array if library.__class__.__name__ in GIVES_ITS_OWN else cuda.Array
            for one, other in zip(
                (found[0], found[1][0], found[2], found[3]),
                (wanted[0], wanted[1][0], wanted[2], wanted[3]),
                strict=True,
            ):
                assert type(one) is ours
                held = one if ours is cuda.Array else one.held
                assert held.shape == np.shape(other) and held.strides == np.asarray(other).strides
                np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


@every(["Torch", "Cupy", "Numba", "Interface"])
def test_direct_calls_that_write(library: Any) -> None:
    def add_one(x):
        x += 1
        return x

    held = cuda.from_numpy(X)
    x, compiled = library.array(held), script(add_one)
    compiled(x), compiled(x)
    with counted_slow_calls() as slow:
        assert compiled(x) is x
    assert not slow
    np.testing.assert_array_equal(held.numpy(), X + 1 + 1 + 1)


@every(["Torch", "Cupy", "Numba", "Interface"])
def test_direct_calls_with_arrays_of_ours(
    library: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights often are jitcore's, and their work may be asked of another stream."""
    compiled = script(lambda x, y: x * y + 1)
    ours, x = cuda.from_numpy(X), library.array(cuda.from_numpy(X))
    compiled(x, ours), compiled(ours, x)
    with counted_slow_calls() as slow:
        found, other = compiled(x, ours), compiled(ours, x)
    assert not slow and type(other) is cuda.Array
    for one in (found, other):
        np.testing.assert_array_equal(one.numpy(), X * X + 1)
    waits = list[int]()
    monkeypatch.setattr(fake, "wait_for", lambda event, stream: waits.append(stream))
    with cuda.Stream() as stream, counted_slow_calls() as slow:
        compiled(ours, x), compiled(x, ours)
    # Those libraries work on the default stream, whatever ours is: the streams wait for each other.
    others = library.__class__.__name__ in ("Torch", "Cupy")
    own, theirs = stream.handle, 0 if others else stream.handle
    assert [one.stream for one in fake.launches[-2:]] == [own, theirs]
    assert waits == ([own, 0, 0, own] if others else []) and bool(slow) == others


@every(["Torch"])
def test_what_direct_calls_do_not_take(library: Any, fake: FakeDriver) -> None:
    compiled = script(lambda x: x * 2)
    x = library.array(cuda.from_numpy(X))
    compiled(x), compiled(x)
    x.negative = True
    with pytest.raises(TypeError, match="resolve_neg"):
        compiled(x)
    x.negative = False
    elsewhere = library.array(cuda.from_numpy(X, 1))
    np.testing.assert_array_equal(compiled(elsewhere).numpy(), X * 2)
    assert compiled(elsewhere).held.device_number == 1
    both = script(lambda x, y: x + y)
    both(x, x), both(x, x)
    with pytest.raises(TypeError, match="different places"):
        both(x, elsewhere)
    with pytest.raises(TypeError, match="different places"):
        both(x, X)


def unread(*args: Any) -> Any:
    raise AssertionError("this is asked by Python only")


@contextmanager
def read_in_c(library: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """See that no array inside the block is read by Python."""
    with monkeypatch.context() as patch, counted_slow_calls() as slow:
        patch.setattr(library.array, "is_contiguous", unread)
        patch.setattr(library.array, "get_device", unread)
        patch.setattr(library._C, "_cuda_getCurrentRawStream", unread)
        yield
    assert not slow


@every(["Torch"])
@pytest.mark.parametrize("dtype", ["?", "B", "i", "q", "f", "d", "F", "bfloat16"])
def test_arrays_that_a_library_reads_in_c(
    library: Any, monkeypatch: pytest.MonkeyPatch, dtype: str
) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else np.dtype(dtype)
    base = (X * 3).astype(kind)
    turned = np.stack([base, base]).transpose(2, 0, 1)
    compiled = script(lambda x, y: np.copyto(y, np.where(x == 1, x, y)))
    for x in (base, base[::2, 1:], turned, base[0], base[0, 0, None][0:0], base[:, :0], base.T):
        y = np.ones_like(x)
        given = [library.array(_device_view(one)) for one in (x, y)]
        compiled(*given), compiled(*given)
        with read_in_c(library, monkeypatch):
            compiled(*given)
        np.testing.assert_array_equal(given[1].numpy(), np.where(x == 1, x, y))


def _device_view(x: np.ndarray[Any, Any]) -> cuda.Array:
    """An array on the device with an array's strides."""
    made = cuda.empty(x.shape, x.dtype, strides=x.strides) if x.size else cuda.from_numpy(x)
    made[...] = cuda.from_numpy(x)
    return made


@every(["Torch"])
def test_what_is_not_read_in_c(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def add(x, y):
        y += x

    for capsule in (exchange_api(major=2), exchange_api(has_read=False), None, object()):
        with monkeypatch.context() as patch:
            patch.setattr(library.array, "__dlpack_c_exchange_api__", capsule)
            compiled = script(add)
            x, y = (library.array(cuda.from_numpy(X)) for _ in range(2))
            compiled(x, y), compiled(x, y)
            with pytest.raises(AssertionError), read_in_c(library, patch):
                compiled(x, y)
            np.testing.assert_array_equal(y.numpy(), X + X + X)
    # Tensors that the functions in C do not tell all of, or have no form for.
    compiled = script(add)
    for name, value, error in (
        ("negative", True, TypeError),
        ("requires_grad", True, TypeError),
        ("layout", "sparse", TypeError),
    ):
        x, y = (library.array(cuda.from_numpy(X)) for _ in range(2))
        compiled(x, y), compiled(x, y)
        with read_in_c(library, monkeypatch):
            compiled(x, y)
        setattr(x, name, value)
        with pytest.raises(error):
            compiled(x, y)
        np.testing.assert_array_equal(y.numpy(), X + X + X + X)


@every(["Torch"])
def test_streams_that_a_library_tells_in_c(
    library: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = cuda.Stream()
    for has_stream in (True, False):
        capsule = exchange_api(has_stream=has_stream)
        monkeypatch.setattr(library.array, "__dlpack_c_exchange_api__", capsule)
        compiled, x = script(in_place), library.array(cuda.from_numpy(X))
        library.stream = 0
        compiled(x), compiled(x)
        library.stream = stream.handle
        if has_stream:
            with read_in_c(library, monkeypatch):
                compiled(x)
        else:
            compiled(x)
        assert fake.launches[-1].stream == stream.handle
        np.testing.assert_array_equal(x.numpy(), X + 1 + 1 + 1)


@every(["Torch", "Cupy"])
def test_memory_that_a_library_does_not_have(
    library: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled, x = script(lambda x: (x * 2, x.sum())), library.array(cuda.from_numpy(X))
    compiled(x), compiled(x)

    def fails(*args: Any, **keywords: Any) -> Any:
        raise failure

    for failure in (MemoryError("no more"), KeyboardInterrupt()):
        with monkeypatch.context() as patch:
            patch.setattr(library, "empty", fails)
            patch.setattr(library, "empty_strided", fails, raising=False)
            with pytest.raises(type(failure)):
                compiled(x)
        with monkeypatch.context() as patch:
            patch.setattr(type(x), "dtype", property(fails))
            patch.setattr(type(x), "is_neg", fails, raising=False)
            with pytest.raises(type(failure)):
                compiled(x)
    with counted_slow_calls() as slow:
        np.testing.assert_array_equal(compiled(x)[0].numpy(), X * 2)
    assert not slow


@every([name for name in NAMES if name != "Jax"])
def test_writes_go_to_the_array_itself(library: Any) -> None:
    def add_one(x):
        x += 1
        return x

    held = cuda.from_numpy(X)
    x = library.array(held)
    assert script(add_one)(x) is x
    np.testing.assert_array_equal(held.numpy(), X + 1)


@every(["Jax", "Numba", "Interface"])
def test_arrays_that_never_change(library: Any) -> None:
    def add_one(x):
        x += 1

    held = cuda.from_numpy(X)
    fixed = cuda.Array(held.address, X.shape, None, X.dtype, held, read_only=True)
    with pytest.raises(ValueError, match="read-only"):
        script(add_one)(library.array(held if library.__name__ == "jax" else fixed))
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


@every(GIVES_ITS_OWN)
def test_results_that_libraries_have_no_form_for(
    library: Any, fake: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read-only, of no extent along an axis, or with gaps: a copy where it has to be."""
    waits = list[int | None]()
    x = library.array(cuda.from_numpy(X))
    for view in (
        lambda x: np.broadcast_to(x, (2, 3, 4)),
        lambda x: x[:, ::2],
        lambda x: x[::-1, 1:],
        lambda x: np.diagonal(x),
        lambda x: x[1:1],
        lambda x: x[..., None].T,
    ):
        compiled = script(view)
        for _ in range(2):
            with monkeypatch.context() as patch:
                patch.setattr(fake, "synchronize", waits.append)
                found = compiled(x)
            assert type(found) is library.array
            np.testing.assert_array_equal(found.numpy(), view(X))
    assert not waits


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


@every(["Cupy"])
def test_a_device_s_current_stream(fake: FakeDriver, library: Any) -> None:
    other = fake.create_stream()
    library.streams = {1: other}
    for number, stream in ((0, 0), (1, other)):
        script(lambda x: x + 1)(library.array(cuda.from_numpy(X, number)))
        assert fake.launches[-1].stream == stream


@pytest.mark.parametrize("library", ["Interface", "Numba"], indirect=True)
def test_the_array_s_own_stream(fake: FakeDriver, library: Any) -> None:
    one, two = (library.array(cuda.from_numpy(X)) for _ in range(2))
    one.stream, two.stream = fake.create_stream(), fake.create_stream()
    waits: list[int] = []
    fake.wait_for = lambda event, stream=0: waits.append(stream)  # type: ignore[method-assign]
    script(lambda x, y: x + y)(one, two)
    assert fake.launches[-1].stream == one.stream
    assert one.stream in waits


@every(["Interface"])
def test_interfaces_of_other_versions(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}

    def interface(array: Any) -> dict[str, Any]:
        names = ("shape", "typestr", "data")
        return {name: array.held.__cuda_array_interface__[name] for name in names} | told

    monkeypatch.setattr(library.array, "__cuda_array_interface__", property(interface))
    compiled, x = script(lambda x: x + 1), library.array(cuda.from_numpy(X))
    for version in ({"version": 0}, {"version": 2, "strides": None, "mask": None}):
        told.update(version)
        for _ in range(3):
            np.testing.assert_array_equal(compiled(x).numpy(), X + 1)
    told["mask"] = x
    with pytest.raises(TypeError, match="masked"):
        compiled(x)


def test_libraries_may_be_mixed(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, cupy = (installed(name, monkeypatch) for name in ("Torch", "Cupy"))
    x, y = torch.array(cuda.from_numpy(X)), cupy.array(cuda.from_numpy(X))
    found = script(lambda x, y: x + y)(y, x)
    assert type(found) is cupy.array
    np.testing.assert_array_equal(found.numpy(), X + X)
    ours, both = cuda.from_numpy(X), script(lambda x, y: (x + y, y))
    for _ in range(2):
        assert both(x, ours)[1] is ours


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
