# mypy: allow-untyped-defs, allow-untyped-calls
"""Modules on a device."""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver

import jitcore
from jitcore import cuda, nn
from jitcore.execution.plans import NativePlan


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(np.arange(1, 5, dtype=np.float32))
        self.shift = nn.Buffer(np.full(4, 0.5, np.float32))
        self.steps: Any = nn.Buffer(np.zeros(1, np.int64))

    def forward(self, x):
        self.steps += 1
        return np.maximum(x * self.weight + self.shift, 0)


X = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)


def test_parameters_and_buffers_move(fake: FakeDriver) -> None:
    module: Any = Scaled()
    module.alias = nn.Parameter(module.weight)
    assert module.to("cuda") is module
    assert all(isinstance(one, cuda.Array) for one in (*module.parameters(), *module.buffers()))
    assert module.alias is module.weight
    module.to("cuda:0", np.float64)
    assert (module.weight.dtype, module.steps.dtype) == (np.float64, np.int64)
    module.to(jitcore.device("cpu"))
    np.testing.assert_array_equal(module.weight, np.arange(1.0, 5.0))
    assert jitcore.to(module, "cuda") is module and isinstance(module.shift, cuda.Array)
    jitcore.to([module], "cpu")
    assert isinstance(module.shift, np.ndarray)
    with pytest.raises(TypeError, match="floats only"):
        module.to("int32")


@pytest.mark.parametrize("scripted", [False, True])
def test_calls(fake: FakeDriver, scripted: bool) -> None:
    plain, module = Scaled(), Scaled()
    if scripted:
        module = jitcore.script(module)
    module.to("cuda")
    found = module(jitcore.to(X, "cuda"))
    assert isinstance(found, cuda.Array)
    np.testing.assert_array_equal(found.numpy(), plain(X))
    assert module.steps.numpy().tolist() == [1]
    assert scripted == bool(fake.launches)


class Remembers(nn.Module):
    def forward(self, x):
        self.last = x * 2
        self.count = len(x)
        return self.last + 1


def test_what_a_module_keeps_lies_on_the_device(fake: FakeDriver) -> None:
    module = jitcore.script(Remembers())
    x = jitcore.to(X, "cuda")
    for _ in range(2):
        np.testing.assert_array_equal(module(x).numpy(), X * 2 + 1)
        assert isinstance(module.last, cuda.Array) and module.count == 2
        np.testing.assert_array_equal(module.last.numpy(), X * 2)


def test_arrays_on_a_device_can_be_parameters(fake: FakeDriver) -> None:
    module: Any = nn.Module()
    module.weight = nn.Parameter(jitcore.to(X, "cuda"))
    module.mean = nn.Buffer(jitcore.to(X, "cuda"))
    assert isinstance(module.weight, cuda.Array)
    module.weight = jitcore.to(X + 1, "cuda")
    assert [name for name, _ in module.named_parameters()] == ["weight"]


def test_a_module_goes_there_and_back(fake: FakeDriver) -> None:
    module = jitcore.script(Scaled())
    wanted = module(X)
    module.to("cuda")
    np.testing.assert_array_equal(module(jitcore.to(X, "cuda")).numpy(), wanted)
    with pytest.raises(TypeError, match=r"x on the host; .*weight.* on cuda:0"):
        module(X)
    module.to("cpu")
    np.testing.assert_array_equal(module(X), wanted)


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = np.random.default_rng(0)
        self.first = nn.Linear(4, 3)
        self.last = nn.Linear(3, 2)
        for one in self.parameters():
            one[...] = generator.normal(size=one.shape)

    def forward(self, x):
        return self.last(nn.functional.relu(self.first(x)))


@pytest.mark.parametrize("prepare", ["script", "freeze", "optimize_for_inference"])
def test_layers(fake: FakeDriver, prepare: str) -> None:
    module = Network().eval()
    wanted = module(X)
    scripted = jitcore.script(module)
    if prepare == "script":
        scripted.to("cuda")
    else:
        scripted = getattr(jitcore, prepare)(scripted)
    found = scripted(jitcore.to(X, "cuda"))
    assert isinstance(found, cuda.Array) and fake.launches
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU()),
        nn.Conv2d(4, 6, 2, stride=2, groups=2, bias=False),
        nn.ConvTranspose2d(4, 3, 3),
        nn.ConvTranspose2d(4, 6, (2, 3), (3, 2), 1, 1, groups=2, bias=False),
        nn.Sequential(nn.ConvTranspose2d(4, 2, 2, 2, dilation=3, padding=2), nn.ReLU()),
        nn.MaxPool2d(2),
        nn.AvgPool2d(3, 1, 1),
        nn.AdaptiveAvgPool2d(1),
    ],
    ids=lambda layer: str(layer).split("(")[0],
)
def test_windows_of_images(fake: FakeDriver, layer: Any) -> None:
    images = np.random.default_rng(2).normal(size=(2, 4, 4, 4)).astype(np.float32)
    wanted = layer(images)
    scripted = jitcore.script(layer).to("cuda")
    found = scripted(jitcore.to(images, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert all(isinstance(one.plan, NativePlan) for one in scripted.forward.specializations)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Sequential(nn.Conv2d(4, 3, 3, padding=1), nn.ReLU()),
        nn.Conv2d(4, 6, 2, stride=2, groups=2, bias=False),
        nn.Conv2d(4, 3, 3, padding="same", dilation=2),
        nn.Conv2d(4, 2, (1, 3), stride=(2, 1), padding=(0, 2)),
        nn.MaxPool2d(3, 2, 1),
        nn.AvgPool2d(3, 1, 1),
        nn.AdaptiveAvgPool2d(1),
    ],
    ids=lambda layer: str(layer).split("(")[0],
)
def test_images_whose_extents_show_when_the_program_runs(fake: FakeDriver, layer: Any) -> None:
    generator = np.random.default_rng(3)
    on_host = copy.deepcopy(layer)
    scripted = jitcore.script(layer).to("cuda")
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        for count, height, width in ((2, 5, 6), (1, 4, 7), (3, 9, 3)):
            images = generator.normal(size=(count, 4, height, width)).astype(np.float32)
            wanted = on_host(images)
            found = scripted(jitcore.to(images, "cuda")).numpy()
            assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    (made,) = scripted.forward.specializations
    assert made.kind == "DYNAMIC" and isinstance(made.plan, NativePlan)


@pytest.mark.parametrize("shape", [(1, 4, 3, 8), (1, 5, 8, 8), (1, 4, 0, 8)])
def test_images_that_do_not_fit(fake: FakeDriver, shape: tuple[int, ...]) -> None:
    layer = nn.Conv2d(4, 3, 5)
    images = np.ones(shape, np.float32)
    with pytest.raises(ValueError) as wanted:
        layer(images)
    scripted = jitcore.script(layer.to("cuda"))
    with jitcore.fusion_strategy([("DYNAMIC", 1)]):
        scripted(jitcore.to(np.ones((1, 4, 8, 8), np.float32), "cuda"))
        with pytest.raises(ValueError) as found:
            scripted(jitcore.to(images, "cuda"))
    assert str(found.value) == str(wanted.value)


def test_attention_runs_in_parts_on_the_device(fake: FakeDriver) -> None:
    module = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = X[None]
    wanted, _ = module(x, x, x)
    frozen = jitcore.freeze(jitcore.script(module))
    given = jitcore.to(x, "cuda")
    found, _ = frozen(given, given, given)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert fake.launches
    assert "runs on the device, in parts" in str(frozen.explain(given, given, given))


@pytest.mark.parametrize(
    "layer", [nn.LocalResponseNorm(3), nn.Unfold(2), nn.Unfold((2, 3), padding=(0, 1), stride=2)]
)
def test_layers_without_kernels_of_their_own(fake: FakeDriver, layer: Any) -> None:
    images = np.random.default_rng().normal(size=(2, 4, 5, 6)).astype(np.float32)
    wanted = layer(images)
    compiled = jitcore.script(layer)
    np.testing.assert_allclose(compiled(images), wanted, rtol=1e-6)
    found = compiled.to("cuda")(jitcore.to(images, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)
    assert all(isinstance(one.plan, NativePlan) for one in compiled.forward.specializations)
    assert fake.launches


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_run_on_the_device(fake: FakeDriver, layer: Any) -> None:
    module = layer(4, 3, 2, bidirectional=True).eval()
    x = X.reshape(2, 1, 4)
    wanted, _ = module(x)
    ready = jitcore.optimize_for_inference(jitcore.script(module))
    found, _ = ready(jitcore.to(x, "cuda"))
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert len(fake.launches) >= 8  # two layers, two directions, two times
    assert "on the host" not in str(ready.explain(jitcore.to(x, "cuda")))


def test_a_saved_module_is_loaded_on_the_host(fake: FakeDriver) -> None:
    module = Network().eval()
    wanted = module(X)
    file = io.BytesIO()
    jitcore.save(jitcore.script(module.to("cuda")), file)
    file.seek(0)
    loaded = jitcore.load(file)
    assert all(type(one) is np.ndarray for one in loaded.parameters())
    np.testing.assert_allclose(loaded(X), wanted, rtol=1e-6)
    twin = copy.deepcopy(module)
    twin.first.weight[...] = 0
    assert isinstance(twin.first.weight, cuda.Array) and module.first.weight.numpy().any()
