# mypy: allow-untyped-defs, allow-untyped-calls
"""Calls of compiled functions with arrays on a device, against the same calls on the host."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, script
from jitcore.cuda import executor
from jitcore.cuda.compile import DeviceCode
from jitcore.cuda.pool import pool_of
from jitcore.pipeline import HostPlan, NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine(devices=2) as made:
        yield made


def on_host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(on_host, value))
    return value.numpy() if isinstance(value, cuda.Array) else value


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        assert len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
        return
    if isinstance(wanted, np.ndarray | np.generic):
        assert isinstance(found, cuda.Array)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(found.numpy(), np.asarray(wanted), rtol=1e-6)
        return
    assert type(found) is type(wanted) and (found == wanted or found is wanted)


def check(function: Any, *args: Any, native: bool = True) -> Any:
    """Compare a call on the device, and what it does to its arguments, with plain Python's."""
    device = jitcore.to(args, "cuda")
    host = tuple(one.copy() if isinstance(one, np.ndarray) else one for one in args)
    compiled = script(function)
    found, wanted = compiled(*device), function(*host)
    same(found, wanted)
    arrays = [(one, two) for one, two in zip(device, host, strict=True) if np.ndim(two)]
    for one, two in arrays:
        same(one, two)
    plans = [one.plan for one in compiled.specializations]
    assert isinstance(plans[-1], NativePlan) == native
    return compiled


X = np.linspace(-2, 2, 10, dtype=np.float32)
M = np.arange(12.0).reshape(3, 4)


def chain(x, y):
    return np.exp(x) * 2 + y


def two_results(x):
    return x + 1, (x * 2, 7)


def in_place(x):
    x += 1
    x[2:] *= 3
    return x


def gives_argument(x, y):
    return y


def total(x):
    return x.sum()


def with_numbers(x, k, flag):
    return x * k if flag else x - k


def nothing(x):
    return None


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (chain, (X, X)),
        (chain, (M, M[0])),
        (chain, (X, np.float32(2))),
        (two_results, (X,)),
        (in_place, (X,)),
        (gives_argument, (X, M)),
        (total, (X,)),
        (with_numbers, (X, 2, True)),
        (with_numbers, (X, 2.5, False)),
        (chain, (np.zeros((0, 3)), np.ones(3))),
        (nothing, (X,)),
    ],
)
def test_calls(fake: FakeDriver, function: Any, args: Any) -> None:
    compiled = check(function, *args)
    launches = len(fake.launches)
    compiled(*jitcore.to(args, "cuda"))
    assert len(compiled.specializations) == 1
    if function in (chain, in_place) and args[0].size:
        assert len(fake.launches) > launches


@pytest.mark.parametrize("order", [np.asfortranarray, lambda x: x[:, ::2], lambda x: x.T[::-1]])
def test_layouts(fake: FakeDriver, order: Any) -> None:
    array = cuda.from_numpy(M)
    given = array[:, ::2] if order(M).shape == (3, 2) else None
    check(lambda x: x * 2 + 1, np.asfortranarray(M))
    if given is not None:
        same(script(lambda x: x * 2)(given), M[:, ::2] * 2)
    reverse = array.T[::-1]
    same(script(lambda x: x + 1)(reverse), M.T[::-1] + 1)


def test_arguments_come_back_as_they_are(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    assert script(in_place)(x) is x


def test_tuples(fake: FakeDriver) -> None:
    class Pair(NamedTuple):
        first: Any
        second: Any

    def swapped(pair, k):
        return Pair(pair.second * k, pair.first)

    x, y = jitcore.to((X, M), "cuda")
    found = script(swapped)(Pair(x, y), 2)
    assert type(found) is Pair and found.second is x
    same(found.first, M * 2)


def test_numbers_stay_on_the_device(fake: FakeDriver) -> None:
    copies: list[int] = []
    plain = fake.copy_to_host
    x = jitcore.to(X, "cuda")
    compiled = script(total)
    compiled(x)
    fake.copy_to_host = lambda *args: copies.append(1) or plain(*args)  # type: ignore
    found = compiled(x)
    assert isinstance(found, cuda.Array) and found.shape == () and not copies
    assert float(found) == pytest.approx(float(X.sum()), abs=1e-6) and copies


WEIGHTS: Any = None
TABLE = np.ones(4)


def test_captured_arrays(fake: FakeDriver) -> None:
    global WEIGHTS

    @script
    def weighted(x):
        return x * WEIGHTS

    x = jitcore.to(M, "cuda")
    for factor in (2.0, 3.0):
        WEIGHTS = jitcore.to(np.full(4, factor), "cuda")
        same(weighted(x), M * factor)
    assert len(weighted.specializations) == 1
    # The same function on the host, and again on the device.
    WEIGHTS = np.full(4, 5.0)
    np.testing.assert_array_equal(weighted(M), M * 5)
    with pytest.raises(TypeError, match="x on cuda:0; WEIGHTS on the host"):
        weighted(x)


def test_a_captured_array_alone_decides(fake: FakeDriver) -> None:
    held = jitcore.to(M, "cuda")

    @script
    def scaled(k):
        return held * k

    same(scaled(2.0), M * 2)


def test_mixed_places_are_an_error(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    with pytest.raises(TypeError, match=r"chain\(\) got .* x on cuda:0; y on the host; .*to"):
        script(chain)(x, X)
    with pytest.raises(TypeError, match="x on the host; y on cuda:0"):
        script(chain)(X, x)
    with pytest.raises(TypeError, match="x on cuda:0; y on cuda:1"):
        script(chain)(x, jitcore.to(X, "cuda:1"))
    with pytest.raises(TypeError, match="pair on cuda:0 and the host|pair on cuda:0; pair on"):
        script(lambda pair: pair[0] + pair[1])((x, X))


def test_each_device_has_its_own_code(fake: FakeDriver) -> None:
    compiled = script(chain)
    for number in range(2):
        x = jitcore.to(X, f"cuda:{number}")
        found = compiled(x, x)
        assert found.device == jitcore.device("cuda", number)
        same(found, chain(X, X))
    np.testing.assert_array_equal(compiled(X, X), script(chain)(X, X))
    assert len(compiled.kernels) == 3
    assert fake.device() == 0


def sorted_rows(x):
    x += 1
    return np.sort(x, axis=0)[::-1]


def opaque(x):
    count, _ = np.histogram(x, bins=4)
    return x[1:], count, x


def transposed(x):
    return (x * 2).T


def part(x):
    return x[1:]


def several_views(x, flag):
    y = x + 1
    if flag:
        y = y * x
    return y.reshape(-1)[2:], x[::-1], y.sum()


@pytest.mark.parametrize(
    ("function", "args"), [(transposed, (M,)), (part, (M,)), (several_views, (M, True))]
)
def test_views_that_are_returned_need_no_copy(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, function: Any, args: Any
) -> None:
    compiled = check(function, *args, native=False)
    monkeypatch.setattr(executor, "call_on_host", None)
    launches = len(fake.launches)
    x = jitcore.to(args[0], "cuda")
    found = compiled(x, *args[1:])
    same(found, function(*args))
    assert function is part or len(fake.launches) > launches


@pytest.mark.parametrize("function", [np.linalg.pinv, lambda x: np.sort(np.sort(x), axis=0)])
def test_what_has_nothing_native_runs_on_the_host(fake: FakeDriver, function: Any) -> None:
    @script
    def called(x):
        return function(x)

    same(called(jitcore.to(M, "cuda")), function(M))
    said = " ".join(str(called.explain(jitcore.to(M, "cuda"))).split())
    assert "on the host, on copies of the arrays: not all of it has a form for the device" in said
    assert isinstance(called.specializations[-1].plan, HostPlan)
    assert not fake.launches


def test_numbers_that_host_code_gives_go_to_the_device(fake: FakeDriver) -> None:
    found = script(lambda x: np.linalg.cond(x))(jitcore.to(M, "cuda"))
    assert isinstance(found, cuda.Array) and found.shape == () and found.dtype == np.float64
    same(found, np.linalg.cond(M))


def test_views_that_host_code_gives_are_views(fake: FakeDriver) -> None:
    x = jitcore.to(M, "cuda")
    tail, _, whole = script(opaque)(x)
    assert whole is x
    tail += 10
    assert float(x[1, 0]) == M[1, 0] + 10


def test_captured_arrays_on_the_host_s_way(fake: FakeDriver) -> None:
    held = jitcore.to(M, "cuda")

    @script
    def histogram(x):
        held[0] = x[0]
        return np.histogram(x * held, bins=3)[0]

    wanted = M.copy()
    wanted[0] = M[0]
    same(histogram(jitcore.to(M, "cuda")), np.histogram(M * wanted, bins=3)[0])
    same(held, wanted)


def test_overlapping_arguments(fake: FakeDriver) -> None:
    def shifted(x, y):
        x[...] = y * 2

    x, host = jitcore.to(X, "cuda"), X.copy()
    script(shifted)(x[1:], x[:-1])
    shifted(host[1:], host[:-1])
    same(x, host)


def added(x, y):
    x += y[::-1]
    return y, x.sum()


def of_three(x, y, z):
    x[1:] = y[:-1] * z[1:]
    y[0] = z[3]


def refused(x, y, n):
    x *= 2
    return y[n]


@pytest.mark.parametrize(
    ("function", "places"),
    [(added, (0, 0)), (of_three, (0, 0, 0)), (of_three, (0, 1, 0)), (of_three, (0, 1, 1))],
)
def test_one_array_as_several_arguments(
    fake: FakeDriver, monkeypatch: pytest.MonkeyPatch, function: Any, places: tuple[int, ...]
) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the host does it")

    monkeypatch.setattr("jitcore.cuda.executor.call_on_host", fail)
    compiled = script(function)
    for _ in range(3):
        host = np.arange(12.0), np.arange(12.0) + 1
        given = jitcore.to(host, "cuda")
        found = compiled(*(given[place] for place in places))
        wanted = function(*(host[place] for place in places))
        same(given[0], host[0])
        same(given[1], host[1])
        if function is added:
            assert found[0] is given[0]
            same(found[1], wanted[1])
        # Other arrays go their own way afterwards.
        apart = jitcore.to(tuple(host[place].copy() for place in places), "cuda")
        on_host = [host[place].copy() for place in places]
        compiled(*apart)
        function(*on_host)
        for one, other in zip(apart, on_host, strict=True):
            same(one, other)


def test_errors_where_one_array_is_several_arguments(fake: FakeDriver) -> None:
    compiled, x = script(refused), jitcore.to(np.arange(4.0), "cuda")
    with pytest.raises(IndexError, match="index 4 is out of bounds"):
        compiled(x, x, 4)
    same(x, np.arange(4.0) * 2)
    same(compiled(x, x, 3), np.float64(12.0))


def test_errstate(fake: FakeDriver) -> None:
    x = jitcore.to(np.zeros(3), "cuda")
    compiled = script(lambda x: 1 / x)
    same(compiled(x), np.full(3, np.inf))
    with np.errstate(all="raise"), pytest.raises(FloatingPointError):
        compiled(x)


def test_exceptions_are_those_of_numpy(fake: FakeDriver) -> None:
    x, y = jitcore.to((np.ones(3), np.ones(4)), "cuda")
    with pytest.raises(ValueError, match=r"broadcast together with shapes \(3,\) \(4,\)"):
        script(chain)(x, y)
    compiled = script(lambda x, i: x[i])
    same(compiled(x, 1), np.float64(1.0))
    with pytest.raises(IndexError, match="index 5 is out of bounds for axis 0 with size 3"):
        compiled(x, 5)


def test_read_only_arrays(fake: FakeDriver) -> None:
    x = np.broadcast_to(jitcore.to(np.ones(3), "cuda"), (2, 3))
    same(script(lambda x: x + 1)(x), np.full((2, 3), 2.0))
    with pytest.raises(ValueError, match="read-only"):
        script(in_place)(x)


def test_no_memory(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    compiled = script(lambda x: np.zeros((1 << 28,)) + x[0])
    with pytest.raises(MemoryError, match="CUDA error 2"):
        compiled(x)


def test_a_launch_that_fails(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    compiled = script(chain)
    compiled(x, x)
    for _ in range(2):
        fake.fails_with = 719
        with pytest.raises(cuda.DriverError, match="719 while launching a kernel of chain") as told:
            compiled(x, x)
        assert told.value.code == 719
        same(compiled(x, x), chain(X, X))


def test_streams(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    compiled = script(chain)
    with cuda.Stream() as stream:
        compiled(x, x)
        assert fake.launches[-1].stream == stream.handle
    compiled(x, x)
    assert fake.launches[-1].stream == 0


def test_threads(fake: FakeDriver) -> None:
    compiled, failures = script(chain), []
    compiled(*jitcore.to((X, X), "cuda"))

    def work(number: int) -> None:
        x = jitcore.to(X + number, "cuda")
        for _ in range(5):
            stream = cuda.Stream()
            with stream:
                found = compiled(x, x)
            if not np.allclose(found.numpy(), chain(X + number, X + number)):
                failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not failures


def test_memory_comes_back(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    compiled = script(two_results)
    for _ in range(20):
        compiled(x)
    gc.collect()
    allocated = fake.allocated
    for _ in range(20):
        compiled(x)
    assert fake.allocated == allocated
    assert pool_of(0).kept_bytes() > 0


def test_strategy(fake: FakeDriver) -> None:
    compiled = script(chain)
    with jitcore.fusion_strategy([("STATIC", 1), ("DYNAMIC", 1)]):
        for count in (3, 4, 5):
            x = np.ones(count)
            same(compiled(*jitcore.to((x, x), "cuda")), chain(x, x))
        assert [one.kind for one in compiled.specializations] == ["STATIC", "DYNAMIC"]
        m = np.ones((2, 2))
        same(compiled(*jitcore.to((m, m), "cuda")), chain(m, m))
        assert len(compiled.specializations) == 2


def test_explain(fake: FakeDriver) -> None:
    x = jitcore.to(X, "cuda")
    report = script(chain).explain(x, x)
    assert report.lines[1] == "arrays on cuda:0, fake device"
    assert report.bytes_moved == 2 * X.nbytes
    assert "x   Float32[10], C-contiguous" in str(report)
    compiled = script(sorted_rows)
    said = str(compiled.explain(jitcore.to(M, "cuda")))
    assert "others on the host, on copies of the arrays" in said
    assert "on the host, on copies, part 0\n" in said and "np::sort" in said
    assert "one native function, sorted_rows_region0" in said and "has not run" not in said
    assert "arrays on" not in str(compiled.explain(M))
    assert "cuda.jit" in compiled.kernels[-1].source
    said = str(script(several_views).explain(jitcore.to(M, "cuda"), True))
    assert "runs on the device, in parts; Python makes views" in said


def test_graphs_of_calls(fake: FakeDriver) -> None:
    compiled = script(chain)
    x = jitcore.to(X, "cuda")
    assert "Float32[10]" in str(compiled.graph_for(x, x))
    assert len(compiled.specializations) == 1
    jitcore.warmup(compiled, x, x)
    compiled(x, x)
    graph = jitcore.last_executed_optimized_graph()
    assert graph is compiled.specializations[-1].plan.graph
    kernel = compiled.kernels[-1]
    assert isinstance(kernel, DeviceCode)
    assert "cuda.jit" in kernel.source and kernel.ptx == "no code"


def test_strict_fusion(fake: FakeDriver) -> None:
    @script
    def refused(x):
        with jitcore.strict_fusion():
            return np.sort(x)

    with pytest.raises(jitcore.Error, match="strict_fusion"):
        refused(jitcore.to(X, "cuda"))

    @script
    def beside(x):
        with jitcore.strict_fusion():
            y = x * 2 + 1
        return np.linalg.eigvals(y)

    for launches in (0, 1):
        same(beside(jitcore.to(np.eye(2), "cuda")), beside(np.eye(2)))
        assert len(fake.launches) == launches + 1


def test_without_compilation(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_JIT", "0")
    function = script(chain)
    assert function is chain
    x = jitcore.to(X, "cuda")
    same(function(x, x), chain(X, X))


def test_another_driver_means_other_code() -> None:
    compiled = script(chain)
    for _ in range(2):
        with fake_machine() as fake:
            x = jitcore.to(X, "cuda")
            same(compiled(x, x), chain(X, X))
            assert fake.launches


def test_traces_of_arrays_on_a_device(fake: FakeDriver) -> None:
    def pairwise(x, pair):
        return np.exp(x) * 2 + pair[0] * pair[1]

    given = jitcore.to((X, (X, X[::-1].copy())), "cuda")
    traced = jitcore.trace(pairwise, given)
    launches = len(fake.launches)
    same(traced(*given), pairwise(X, (X, X[::-1])))
    assert len(fake.launches) > launches
    # The examples stay what they were, and the trace holds for arrays on the host.
    assert isinstance(given[1][0], cuda.Array)
    np.testing.assert_allclose(traced(X, (X, X)), pairwise(X, (X, X)), rtol=1e-6)


def test_containers_of_arrays(fake: FakeDriver) -> None:
    def total_of(arrays, named):
        found = named["first"] * 2
        for one in arrays:
            found = found + one
        return found

    given = jitcore.to(([X, X], {"first": X}), "cuda")
    same(script(total_of)(*given), total_of([X, X], {"first": X}))
