# mypy: allow-untyped-defs, allow-untyped-calls
"""What is asked of the CUDA driver, by a library that only answers; and the fake one for tests."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, nn
from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.driver import DriverError
from jitcore.codegen.cuda.libcuda import LibCuda

CONTEXT, DEVICES = 0x1000, 2


def _value(argument: Any) -> Any:
    return getattr(argument, "value", argument)


class Library:
    """``libcuda.so`` as far as it is asked: each function notes its call and gives its code."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.codes: dict[str, list[int]] = {}
        self.context = [0]
        self.log = b""
        self.pools = 1
        self.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self._call(name, *arguments)

    def _call(self, name: str, *arguments: Any) -> int:
        self.calls.append((name, *map(_value, arguments)))
        code = self.codes.get(name) or [0]
        result = code.pop(0)
        if result == 0 and hasattr(self, f"_{name}"):
            getattr(self, f"_{name}")(*arguments)
        if name == "cuModuleLoadDataEx" and result:
            ctypes.memmove(arguments[4][0], self.log, len(self.log))
        return result

    def named(self, name: str) -> list[tuple[Any, ...]]:
        return [one[1:] for one in self.calls if one[0] == name]

    def _cuDeviceGetCount(self, place: Any) -> None:
        place._obj.value = DEVICES

    def _cuDeviceGet(self, place: Any, number: int) -> None:
        place._obj.value = 10 + number

    def _cuDeviceGetAttribute(self, place: Any, attribute: int, handle: int) -> None:
        place._obj.value = self.pools if attribute == 115 else attribute

    def _cuDevicePrimaryCtxRetain(self, place: Any, handle: int) -> None:
        place._obj.value = CONTEXT + handle

    def _cuCtxGetCurrent(self, place: Any) -> None:
        place._obj.value = self.context[-1]

    def _cuCtxSetCurrent(self, context: Any) -> None:
        self.context[-1] = context.value

    def _cuCtxPushCurrent_v2(self, context: Any) -> None:
        self.context.append(context.value)

    def _cuCtxPopCurrent_v2(self, place: Any) -> None:
        self.context.pop()

    def _cuCtxGetDevice(self, place: Any) -> None:
        place._obj.value = self.context[-1] - CONTEXT - 10

    def _cuPointerGetAttribute(self, place: Any, attribute: int, address: Any) -> None:
        place._obj.value = 1

    def _cuMemAllocAsync(self, place: Any, size: Any, stream: Any) -> None:
        place._obj.value = 0xABC000

    def _cuMemAlloc_v2(self, place: Any, size: Any) -> None:
        place._obj.value = 0xDEF000

    def _cuModuleLoadDataEx(self, place: Any, *rest: Any) -> None:
        place._obj.value = 77

    def _cuGetErrorString(self, code: int, place: Any) -> None:
        place._obj.value = b"something is wrong"


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    made = Library()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: made)
    return made


def test_a_device_s_properties(library: Library) -> None:
    used = LibCuda()
    found = used.properties(1)
    assert found.compute_capability == (75, 76)
    assert (found.multiprocessors, found.warp_size, found.l2_bytes) == (16, 10, 38)
    assert used.properties(1) is found
    assert used.device_count() == DEVICES
    assert used.launch_address == ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value
    asked = vars(library)["cuCtxGetCurrent"] = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 0)
    assert used.context_address == ctypes.cast(asked, ctypes.c_void_p).value
    assert used.context(1) == CONTEXT + 11


def test_the_current_device_is_put_back(library: Library) -> None:
    used = LibCuda()
    with used.on_device(0):
        assert used.device() == 0
        with used.on_device(1):
            assert used.device() == 1
            assert not used.enter(1)
        assert used.device() == 0
    # A thread that had none has the first one from then on.
    assert library.context == [CONTEXT + 10]


def test_a_thread_without_a_device_gets_the_first(library: Library) -> None:
    used = LibCuda()
    library.codes["cuStreamCreate"] = [201, 0]
    used.create_stream()
    assert library.context == [CONTEXT + 10]
    library.codes["cuStreamCreate"] = [201]
    with pytest.raises(DriverError, match="CUDA error 201 in cuStreamCreate"):
        used.create_stream()


@pytest.mark.parametrize("pools", [True, False])
def test_memory(library: Library, pools: bool) -> None:
    library.pools = int(pools)
    used = LibCuda()
    address = used.allocate(0, stream=5)
    name = "cuMemAllocAsync" if pools else "cuMemAlloc_v2"
    assert library.named(name)[0][1] == 1
    assert bool(library.named("cuMemPoolSetAttribute")) == pools
    used.free(address, stream=5)
    freed = library.named("cuMemFreeAsync" if pools else "cuMemFree_v2")
    assert freed == ([(address, 5)] if pools else [(address,)])
    used.copy(2, 1, 0)
    used.copy_to_host(100, address, 8, stream=3)
    assert library.named("cuMemcpyDtoHAsync_v2") == [(100, address, 8, 3)]
    assert library.named("cuStreamSynchronize") == [(3,)]
    assert not library.named("cuMemcpyDtoDAsync_v2")


def test_errors(library: Library) -> None:
    used = LibCuda()
    library.codes["cuMemAllocAsync"] = [2]
    with pytest.raises(DriverError, match=r"error 2 in .* while allocating 8 bytes: some.*free"):
        used.allocate(8)
    library.codes["cuModuleLoadDataEx"] = [218]
    library.log = b"line 3: no such instruction"
    with pytest.raises(DriverError, match="loading kernel: something is wrong\nline 3") as caught:
        used.load_module("text", name="kernel")
    assert caught.value.code == 218
    library.codes["cuStreamCreate"] = [3]
    with pytest.raises(DriverError, match="error 3 in .*forked.*spawn"):
        used.create_stream()
    assert used.load_module(b"\x7fELF", name="kernel") == 77
    error = used.error(700, "launching a kernel of f")
    assert re.search("700 in cuLaunchKernel while launching a .* of f: some.*anew", str(error))
    assert error.code == 700


def test_what_a_launch_passes_on(library: Library) -> None:
    used = LibCuda()
    seen: list[tuple[int, ...]] = []
    pointer = ctypes.POINTER(ctypes.c_void_p)

    def launched(function, gx, gy, gz, bx, by, bz, shared, stream, parameters, extra):
        value = ctypes.c_int64.from_address(parameters[0]).value
        seen.append((function, gx, gy, gz, bx, by, bz, shared, stream, value))
        return 0

    types: list[Any] = [
        ctypes.c_void_p,
        *[ctypes.c_uint] * 7,
        ctypes.c_void_p,
        pointer,
        ctypes.c_void_p,
    ]
    library.cuLaunchKernel = ctypes.CFUNCTYPE(ctypes.c_int, *types)(launched)
    used.launch(9, (1, 2, 3), (4, 5, 6), [ctypes.c_int64(-7)], shared=8, stream=11)
    assert seen == [(9, 1, 2, 3, 4, 5, 6, 8, 11, -7)]


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    driver._installed.cache_clear()
    try:
        assert not driver.is_available() and cuda.device_count() == 0
        for ask in (
            driver.current,
            lambda: jitcore.to(np.ones(2), "cuda"),
            lambda: jitcore.to({"x": [np.ones(2)]}, jitcore.device("cuda", 1)),
            lambda: nn.Linear(2, 2).to("cuda"),
            lambda: cuda.empty(3),
            lambda: cuda.array([1.0]),
            cuda.Stream,
            cuda.Event,
            cuda.synchronize,
            cuda.device_properties,
            cuda.driver_version,
            cuda.empty_cache,
        ):
            with pytest.raises(DriverError, match=r'cannot open .*pip install "jitcore\[cuda\]"'):
                ask()
    finally:
        driver._installed.cache_clear()


def test_a_driver_without_a_device(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    library.codes["cuInit"] = [100] * 3
    driver._installed.cache_clear()
    try:
        assert not driver.is_available() and cuda.device_count() == 0
        with pytest.raises(DriverError, match="cuda:0: CUDA error 100 .*CUDA_VISIBLE_DEVICES"):
            jitcore.to(np.ones(2), "cuda")
    finally:
        driver._installed.cache_clear()


def test_compiling_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba_cuda", None)
    for function in (lambda x: x * 2 + 1, lambda x: np.sort(x * 2)):
        compiled = jitcore.script(function)
        with driver.use(FakeDriver()):
            x = jitcore.to(np.ones(3), "cuda")
            for ask in (compiled.explain, compiled, compiled):
                with pytest.raises(DriverError, match=r'numba-cuda.*install "jitcore\[cuda\]"'):
                    ask(x)
        np.testing.assert_array_equal(compiled(np.ones(3)), function(np.ones(3)))


def test_whether_a_stream_has_come_to_an_event(library: Library) -> None:
    used = LibCuda()
    library.codes["cuEventQuery"] = [600, 0, 700]
    assert not used.is_done(5) and used.is_done(5)
    with pytest.raises(DriverError, match="error 700 in cuEventQuery"):
        used.is_done(5)
    assert library.named("cuEventQuery") == [(5,)] * 3


def test_graphs_are_given_back(library: Library) -> None:
    used = LibCuda()
    used.instantiate(8)
    library.codes["cuGraphInstantiateWithFlags"] = [2]
    with pytest.raises(DriverError):
        used.instantiate(9)
    assert library.named("cuGraphDestroy") == [(8,), (9,)]


def test_drivers_for_tests_nest() -> None:
    outer, inner = FakeDriver(), FakeDriver(devices=0)
    with driver.use(outer):
        with driver.use(inner):
            assert driver.current() is inner
            assert "finds no device" in driver.why_unavailable()
        assert driver.current() is outer and driver.is_available()


def test_the_fake_driver_runs_kernels_and_graphs() -> None:
    fake = FakeDriver()

    def scale(launch: Any, x: np.ndarray[Any, Any], factor: Any) -> None:
        x[:3] *= factor

    fake.register("scale", ("float32*", "float32"), scale)
    function = fake.function(fake.load_module("", name="m"), "scale")
    host = np.ones(3, np.float32)
    address = fake.allocate(12)
    fake.copy_to_device(address, host.ctypes.data, 12)
    parameters = [ctypes.c_uint64(address), ctypes.c_float(3)]
    fake.launch(function, (1, 1, 1), (32, 1, 1), parameters)
    stream = fake.create_stream()
    fake.begin_capture(stream)
    fake.launch(function, (1, 1, 1), (32, 1, 1), parameters, stream=stream)
    graph = fake.instantiate(fake.end_capture(stream))
    for _ in range(2):
        fake.launch_graph(graph, stream)
    fake.copy_to_host(host.ctypes.data, address, 12)
    assert host.tolist() == [27.0] * 3
    with pytest.raises(DriverError, match="reach beyond"):
        fake.copy_to_host(host.ctypes.data, address, 16)


def test_nobody_reads_the_fake_device_s_memory() -> None:
    program = """if True:
        import ctypes, sys
        from fake_cuda import FakeDriver
        address = FakeDriver().allocate(8)
        print("before", flush=True)
        ctypes.string_at(address, 1)
        print("after", flush=True)
    """
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == "before\n" and done.returncode < 0


def test_programs_on_the_host_import_nothing_of_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\n"
        # What the interpreter itself imports when it starts is no matter.
        "before = set(sys.modules)\n"
        "import numpy as np\n"
        "import jitcore\n"
        "@jitcore.script\n"
        "def double(x):\n"
        "    return np.sort(x * 2 + 1)\n"
        "double(jitcore.to(np.ones(3), 'cpu')), jitcore.device('cuda')\n"
        "print([name for name in set(sys.modules) - before if 'cuda' in name])\n"
    )
    done = subprocess.run(
        [sys.executable, str(program)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ":".join(sys.path), "JITCORE_CACHE": "0"},
    )
    assert done.stdout == "[]\n", done.stderr
