# mypy: allow-untyped-defs, allow-untyped-calls
"""On a GPU: the driver, arrays of all libraries in calls, and results against NumPy's."""

from __future__ import annotations

import ctypes
import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special
from test_vecmath import ULP_LIMIT
from test_vecmath_float32 import errors, points

import jitcore
from jitcore import cuda, nn, script
from jitcore.codegen.cuda import cublas, cublaslt, cudnn, driver
from jitcore.cuda import executor
from jitcore.nn import functional as F
from jitcore.pipeline import NativePlan

pytestmark = pytest.mark.gpu

X = np.linspace(-2, 2, 3 * 1000, dtype=np.float32).reshape(3, 1000)

ADD_ONE = """
.version 7.0
.target sm_70
.address_size 64
.visible .entry add_one(.param .u64 p, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<5>;
    .reg .f32 %f<3>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r2, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    mul.wide.u32 %rd2, %r2, 4;
    add.s64 %rd3, %rd1, %rd2;
    ld.global.f32 %f1, [%rd3];
    add.f32 %f2, %f1, 0f3F800000;
    st.global.f32 [%rd3], %f2;
done:
    ret;
}
"""


def test_what_the_device_is() -> None:
    found = cuda.device_properties()
    assert cuda.is_available() and cuda.device_count() >= 1
    assert found.compute_capability >= (7, 0) and found.multiprocessors > 0
    assert found.warp_size == 32 and found.memory_bytes >= 1 << 30
    free, total = driver.current().memory_info()
    assert 0 < free <= total


def test_a_kernel_through_the_driver() -> None:
    used = driver.current()
    module = used.load_module(ADD_ONE, name="add_one")
    function = used.function(module, "add_one")
    assert used.facts(function).local_bytes == 0
    assert used.blocks_per_multiprocessor(function, 256) > 0
    array = cuda.from_numpy(X)
    parameters = [ctypes.c_uint64(array.address), ctypes.c_uint32(X.size)]
    grid, block = (-(-X.size // 256), 1, 1), (256, 1, 1)
    used.launch(function, grid, block, parameters)
    np.testing.assert_array_equal(array.numpy(), X + 1)
    stream = cuda.Stream()
    used.begin_capture(stream.handle)
    used.launch(function, grid, block, parameters, stream=stream.handle)
    used.launch(function, grid, block, parameters, stream=stream.handle)
    graph = used.instantiate(used.end_capture(stream.handle))
    cuda.synchronize()
    start, stop = used.create_event(), used.create_event()
    used.record(start, stream.handle)
    used.launch_graph(graph, stream.handle)
    used.record(stop, stream.handle)
    assert 0 < used.elapsed(start, stop) < 1
    np.testing.assert_array_equal(array.numpy(), X + 1 + 1 + 1)
    used.destroy_executable(graph)
    stream.close()
    used.unload_module(module)


def test_errors_of_the_driver_say_what_is_wrong() -> None:
    used = driver.current()
    with pytest.raises(cuda.DriverError, match=r"loading broken.*\n.*line"):
        used.load_module(ADD_ONE.replace("add.f32", "add.f99"), name="broken")
    with pytest.raises(cuda.DriverError, match="no_such_kernel"):
        used.function(used.load_module(ADD_ONE, name="add_one"), "no_such_kernel")
    with pytest.raises(MemoryError, match="out of memory"):
        cuda.empty(1 << 50, np.uint8)


@script
def functions_of_libdevice(x):
    return (
        *(np.arccos(x), np.arcsin(x), np.arctan(x), np.cbrt(x), np.cosh(x), special.erf(x)),
        *(np.exp(x), np.exp2(x), np.log(x), np.log10(x), np.log2(x)),
        *(special.expit(x), np.sinh(x), np.tanh(x)),
    )


def test_errors_of_functions_of_float32() -> None:
    plain = functions_of_libdevice.__wrapped__
    for x in points():
        found = functions_of_libdevice(cuda.from_numpy(x))
        with np.errstate(all="ignore"):
            exact = plain(x.astype(np.float64))
        for one, wanted in zip(found, exact, strict=True):
            assert errors(one.numpy(), wanted).max() < ULP_LIMIT


def test_calls_that_need_no_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any) -> Any:
        raise AssertionError("the call went through Python")

    compiled = script(lambda x: (np.exp(x), x.sum(axis=0)))
    x = cuda.from_numpy(X)
    compiled(x), compiled(x)
    monkeypatch.setattr(executor.DeviceExecutor, "run", refused)
    found = compiled(x)
    np.testing.assert_allclose(found[0].numpy(), np.exp(X), rtol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), X.sum(axis=0), rtol=1e-5)


def _cupy(host: Any) -> Any:
    return pytest.importorskip("cupy").asarray(host)


def _torch(host: Any) -> Any:
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch is built without CUDA")
    return torch.from_numpy(host).cuda()


def _numba(host: Any) -> Any:
    pytest.importorskip("numba_cuda")
    return importlib.import_module("numba.cuda").to_device(host)


def _jax(host: Any) -> Any:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX is built without CUDA")
    return jax.numpy.asarray(host)


LIBRARIES = {
    "jitcore": cuda.from_numpy,
    "cupy": _cupy,
    "torch": _torch,
    "numba": _numba,
    "jax": _jax,
}


def soft(x, y):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) + y


@pytest.mark.parametrize("name", LIBRARIES)
def test_libraries(name: str) -> None:
    x, y = LIBRARIES[name](X), LIBRARIES[name](X[:1].copy())
    compiled = script(soft)
    for _ in range(2):
        found = compiled(x, y)
        assert type(found) is type(x)
        np.testing.assert_allclose(jitcore.to(found, "cpu"), soft(X, X[:1]), rtol=1e-5, atol=1e-6)
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


@pytest.mark.parametrize("name", [name for name in LIBRARIES if name != "jax"])
def test_writes(name: str) -> None:
    def add_one(x):
        x += 1
        return x

    x = LIBRARIES[name](X)
    assert script(add_one)(x) is x
    np.testing.assert_array_equal(jitcore.to(x, "cpu"), X + 1)


@pytest.mark.parametrize("name", LIBRARIES)
def test_what_runs_on_the_host(name: str) -> None:
    def parts(x):
        return np.sort(x, axis=0), x[1:], np.linalg.norm(x)

    found = script(parts)(LIBRARIES[name](X))
    for one, wanted in zip(found, parts(X), strict=True):
        np.testing.assert_allclose(jitcore.to(one, "cpu"), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", LIBRARIES)
def test_views_that_are_returned(name: str) -> None:
    """Of layouts that some libraries have no arrays of, or read-only."""
    x = LIBRARIES[name](X)
    for view in (
        lambda x: x.T,
        lambda x: x[:, ::2],
        lambda x: x[::-1],
        lambda x: np.broadcast_to(x, (2, *x.shape)),
        lambda x: x[1:1],
    ):
        compiled = script(view)
        for _ in range(2):
            found = compiled(x)
            assert type(found) is type(x)
            np.testing.assert_array_equal(jitcore.to(found, "cpu"), view(X))


def test_streams_of_two_libraries() -> None:
    def add_into(x, y):
        y += x

    ones = np.ones(1 << 24, np.float32)
    x, y = _torch(ones), _cupy(0 * ones)
    torch, cupy = (importlib.import_module(name) for name in ("torch", "cupy"))
    compiled = script(add_into)
    torch.cuda.synchronize()
    cupy.cuda.Device().synchronize()
    with torch.cuda.stream(torch.cuda.Stream()), cupy.cuda.Stream(non_blocking=True):
        for number in range(1, 21):
            # The call goes to PyTorch's stream, and CuPy reads on its own one.
            compiled(x, y)
            found = y.copy()
            assert float(found.min()) == float(found.max()) == number


def test_numpy_s_functions_on_own_arrays() -> None:
    x = cuda.from_numpy(X)
    np.testing.assert_allclose((np.sqrt(x * x) @ x.T).numpy(), np.sqrt(X * X) @ X.T, rtol=1e-4)
    x[1] = x[0] * 2
    np.testing.assert_array_equal(x[1].numpy(), X[0] * 2)


def test_streams_of_torch() -> None:
    x = _torch(X)
    torch = importlib.import_module("torch")
    with torch.cuda.stream(torch.cuda.Stream()):
        y = x * 2
        found = script(soft)(y, y[:1])
    torch.cuda.synchronize()
    np.testing.assert_allclose(found.cpu().numpy(), soft(X * 2, X[:1] * 2), rtol=1e-5, atol=1e-6)


def test_modules() -> None:
    model = nn.Sequential(nn.Linear(1000, 32), nn.ReLU(), nn.Linear(32, 4)).eval()
    wanted = model(X)
    found = jitcore.script(model).to("cuda")(jitcore.to(X, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-3, atol=1e-4)


def half_chain(x, y):
    return (x * y + x) / (y - 3) - x * 0.5


def total_and_mean(x):
    return x.sum(axis=1), x.mean(), x.max(axis=0)


def test_float16_is_numpy_s() -> None:
    x, y = (np.linspace(-9, 9, X.size).astype(np.float16).reshape(X.shape) * s for s in (1, -0.7))
    x, y = x.astype(np.float16), y.astype(np.float16)
    found = script(half_chain)(*(jitcore.to(one, "cuda") for one in (x, y)))
    np.testing.assert_array_equal(found.numpy(), half_chain(x, y))
    sums = script(total_and_mean)(jitcore.to(x, "cuda"))
    for one, wanted in zip(sums, total_and_mean(x), strict=True):
        assert one.dtype == np.float16
        np.testing.assert_allclose(one.numpy(), wanted, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name", ["cupy", "torch", "jax"])
def test_float16_of_libraries(name: str) -> None:
    x = (X / 4).astype(np.float16)
    found = jitcore.to(script(soft)(LIBRARIES[name](x), LIBRARIES[name](x[:1].copy())), "cpu")
    np.testing.assert_allclose(found, soft(x, x[:1]), rtol=4e-3, atol=1e-3)


def bfloat16_of(name: str, host: Any) -> Any:
    """An array of bfloat16 of a library, by way of float32 where it takes no other from NumPy."""
    if name == "torch":
        return _torch(host).bfloat16()
    narrow = host.astype(pytest.importorskip("ml_dtypes").bfloat16)
    return cuda.from_numpy(narrow) if name == "jitcore" else _jax(narrow)


@pytest.mark.parametrize("name", ["jitcore", "torch", "jax"])
def test_bfloat16_is_ml_dtypes_s(name: str) -> None:
    pytest.importorskip("ml_dtypes")
    moved = [bfloat16_of(name, X * np.float32(scale)) for scale in (3, -0.7)]
    x, y = (jitcore.to(cuda.as_array(one), "cpu") for one in moved)
    compiled = script(bfloat_chain)
    found = compiled(*moved)
    assert all(type(one) is type(moved[0]) for one in found)
    for one, wanted in zip(found, bfloat_chain(x, y), strict=True):
        one = cuda.as_array(one).numpy()
        assert one.dtype == wanted.dtype == x.dtype
        np.testing.assert_array_equal(one.view(np.uint16), wanted.view(np.uint16))
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)
    rows = cuda.as_array(script(soft)(moved[0], moved[0][:1])).numpy()
    wide = soft(x.astype(np.float64), x[:1].astype(np.float64))
    np.testing.assert_allclose(rows.astype(np.float64), wide, rtol=3e-2, atol=1e-2)


def bfloat_chain(x, y):
    return (x * y + x) / (y - 3) - x, x.T + x.T, np.where(x < y, x, -y)


@pytest.mark.parametrize("with_library", [False, True])
def test_products_of_bfloat16(with_library: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = pytest.importorskip("ml_dtypes").bfloat16
    if not with_library:
        monkeypatch.setattr(cublas, "available", lambda: None)
    elif cublas.available() is None:
        pytest.skip("there is no cuBLAS")
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(shape).astype(dtype) for shape in ((304, 256), (256, 136)))
    found = script(lambda x, y: x @ y)(jitcore.to(x, "cuda"), jitcore.to(y, "cuda")).numpy()
    wanted = x.astype(np.float64) @ y.astype(np.float64)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-3)


def linear(x, weight, bias):
    return np.maximum(x @ weight.T + bias, 0)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("with_library", [False, True])
def test_products_and_what_follows(
    dtype: Any, with_library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_library:
        monkeypatch.setattr(cublas, "available", lambda: None)
    elif cublas.available() is None:
        pytest.skip("there is no cuBLAS")
    rng = np.random.default_rng(0)
    shapes = (300, 257), (130, 257), (130,)
    arguments = [(rng.standard_normal(shape) / 8).astype(dtype) for shape in shapes]
    compiled = script(linear)
    found = compiled(*(jitcore.to(one, "cuda") for one in arguments)).numpy()
    wanted = linear(*(one.astype(np.float64) for one in arguments))
    tolerance = {2: 4e-3, 4: 1e-5, 8: 1e-13}[np.dtype(dtype).itemsize]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    notes = str(compiled.explain(*(jitcore.to(one, "cuda") for one in arguments)))
    assert ("computes with the sums" in " ".join(notes.split())) != with_library


@pytest.mark.parametrize(
    "layer",
    [
        nn.Conv2d(8, 16, 3, padding=1),
        nn.Conv2d(8, 8, 3, stride=2, groups=4),
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(2),
        nn.AdaptiveAvgPool2d(2),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_windows_of_images(layer: Any) -> None:
    images = np.random.default_rng(1).standard_normal((4, 8, 20, 22)).astype(np.float32)
    images = images[..., :20]
    wanted = layer(images)
    compiled = script(layer).to("cuda")
    found = compiled(jitcore.to(images, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert all(isinstance(one.plan, NativePlan) for one in compiled.forward.specializations)


@pytest.mark.parametrize(
    "layer",
    [nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(8, 8, 3, 2, groups=4), nn.MaxPool2d(3, 2, 1)],
    ids=lambda layer: type(layer).__name__,
)
def test_images_of_any_extents(layer: Any) -> None:
    rng = np.random.default_rng(1)
    given = [rng.standard_normal((4, 8, *s)).astype(np.float32) for s in ((20, 22), (7, 31))]
    wanted = [layer(images) for images in given]
    compiled = script(layer).to("cuda")
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for images, one in zip(given, wanted, strict=True):
            found = compiled(jitcore.to(images, "cuda"))
            np.testing.assert_allclose(found.numpy(), one, rtol=1e-4, atol=1e-5)
    assert all(isinstance(one.plan, NativePlan) for one in compiled.forward.specializations)


def test_autotune(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITCORE_CACHE_DIR", str(tmp_path))
    x, y = jitcore.to(X, "cuda"), jitcore.to(X[:1], "cuda")
    with cuda.autotune():
        found = script(soft)(x, y)
        again = script(soft)(x, y)
    np.testing.assert_allclose(found.numpy(), soft(X, X[:1]), rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found.numpy(), again.numpy())


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(32, 32), nn.LayerNorm(32), nn.ReLU()) for _ in range(6))
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


@pytest.mark.parametrize("name", LIBRARIES)
def test_replays(name: str) -> None:
    model = Layers().eval()
    ready = jitcore.optimize_for_inference(script(model))
    for number in range(6):
        x = X[:, :32] * np.float32(number)
        found = jitcore.to(ready(LIBRARIES[name](x.copy())), "cpu")
        np.testing.assert_allclose(found, model(x), rtol=1e-3, atol=1e-4)
    report = str(ready.explain(LIBRARIES[name](X[:, :32].copy())))
    assert "where calls are replays of CUDA graphs" in " ".join(report.split())


def biased(x, weight, bias):
    return x @ weight.T + bias


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_bias_is_cublaslt_s(dtype: Any) -> None:
    library = cublaslt.available()
    if library is None or cublas.available() is None:
        pytest.skip("there is no cuBLASLt")
    rng = np.random.default_rng(0)
    shapes = (304, 256), (136, 256), (136,)
    arguments = [(rng.standard_normal(shape) / 8).astype(dtype) for shape in shapes]
    known = len(library._plans)
    found = script(biased)(*(jitcore.to(one, "cuda") for one in arguments)).numpy()
    wanted = biased(*(one.astype(np.float64) for one in arguments))
    tolerance = 4e-3 if dtype == np.float16 else 1e-5
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert len(library._plans) == known + 1 and None not in library._plans.values()


def convolved(x, weight, bias):
    return np.maximum(F.conv2d(x, weight, bias, stride=(1, 2), padding=1, groups=2), 0)


CONVOLVED = (4, 16, 28, 30), (32, 8, 3, 3), (32,)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(np.float16, 4e-3), (np.float32, 1e-5), (np.float64, 1e-12)]
)
def test_convolutions_are_cudnn_s(dtype: Any, tolerance: float) -> None:
    library = cudnn.available()
    if library is None:
        pytest.skip("there is no cuDNN")
    rng = np.random.default_rng(0)
    arguments = [(rng.standard_normal(shape) / 4).astype(dtype) for shape in CONVOLVED]
    known = len(library._plans)
    found = script(convolved)(*(jitcore.to(one, "cuda") for one in arguments)).numpy()
    wanted = convolved(*(one.astype(np.float64) for one in arguments))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert len(library._plans) == known + 1 and None not in library._plans.values()


def test_what_is_not_finite_reaches_the_windows_it_lies_in() -> None:
    rng = np.random.default_rng(0)
    x, weight, bias = (rng.standard_normal(shape).astype(np.float32) for shape in CONVOLVED)
    x[0, 3, 5, 7], x[1, 0, 0, 0], x[2, 9, 27, 29] = np.nan, np.inf, -np.inf
    compiled = script(convolved)
    for place in (None, (5, 2, 1, 1)):
        if place is not None:
            weight[place] = np.inf
        found = compiled(*(jitcore.to(one, "cuda") for one in (x, weight, bias)))
        wanted = convolved(x, weight, bias)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", [
    nn.Conv1d(4, 6, 5, stride=2, padding=3, dilation=2), nn.Conv2d(4, 6, 1),
    nn.Conv2d(8, 8, 3, groups=8), nn.Conv3d(4, 6, (3, 1, 2), padding=(1, 0, 1), bias=False),
])  # fmt: skip
def test_convolutions_of_any_extents(layer: Any) -> None:
    channels = layer.weight.shape[1] * layer.groups
    spatial = layer.weight.ndim - 2
    shapes = [(2, channels, *(12, 9, 8)[:spatial]), (3, channels, *(9, 10, 11)[:spatial])]
    images = [np.random.default_rng(0).standard_normal(one, np.float32) for one in shapes * 2]
    images.append(images[0][:0])
    wanted = [layer(one) for one in images]
    compiled = script(layer.to("cuda"))
    for one, result in zip(images, wanted, strict=True):
        found = compiled(jitcore.to(one, "cuda")).numpy()
        np.testing.assert_allclose(found, result, rtol=1e-4, atol=1e-5)
