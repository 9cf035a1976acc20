# mypy: allow-untyped-defs, allow-untyped-calls
"""Convolutions of cuDNN on a device: what it is asked for, and when our own kernels do it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from fake_cudnn import NOT_SUPPORTED, FakeCudnn

import jitcore
from checking import function_from_source
from jitcore import nn
from jitcore.codegen.cuda import cudnn
from jitcore.codegen.cuda.driver import DriverError
from jitcore.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(2, 4, 9, 8)).astype(np.float32)
W = RNG.normal(size=(6, 4, 3, 2)).astype(np.float32)
B = RNG.normal(size=6).astype(np.float32)


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


@pytest.fixture
def library(fake: FakeDriver) -> Iterator[FakeCudnn]:
    made = FakeCudnn()
    with cudnn.use(cudnn.Cudnn(made, "cuDNN (a fake)")):
        yield made


def plain(x, weight):
    return F.conv2d(x, weight)


def layer(x, weight, bias):
    return np.maximum(F.conv2d(x, weight, bias, padding=1), 0)


def moved(*arrays):
    return [jitcore.to(one, "cuda") for one in arrays]


def normal(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def close_to(found, wanted, tolerance=1e-5):
    assert found.dtype == wanted.dtype and found.shape == wanted.shape
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance)


def raised(function, x):
    """The text of the error that a function raises."""
    with pytest.raises(ValueError) as error:
        function(x)
    return str(error.value)


OPTIONS: list[tuple[int, dict[str, Any]]] = [
    (1, {}),
    (1, {"stride": 3, "padding": 2, "dilation": 2}),
    (1, {"groups": 2}),
    (2, {}),
    (2, {"stride": (2, 1), "padding": (1, 2)}),
    (2, {"dilation": (1, 2), "padding": 3, "groups": 4}),
    (2, {"padding": "valid"}),
    (3, {}),
    (3, {"stride": (1, 2, 3), "padding": (2, 0, 1), "groups": 2}),
]


@pytest.mark.parametrize(("rank", "options"), OPTIONS)
@pytest.mark.parametrize("with_bias", [False, True])
def test_geometries(fake, library, rank, options, with_bias):
    groups = options.get("groups", 1)
    x = normal(2, 4, *(9, 8, 7)[:rank])
    weight = normal(8, 4 // groups, *(3, 2, 3)[:rank])
    bias = normal(8) if with_bias else None
    given = "".join(f", {name}={value!r}" for name, value in options.items())
    source = f"def f(x, weight, bias):\n    return F.conv{rank}d(x, weight, bias{given})\n"
    convolved = function_from_source(source, F=F)
    compiled = jitcore.script(convolved)
    arrays = [one if one is None else jitcore.to(one, "cuda") for one in (x, weight, bias)]
    wanted = convolved(x, weight, bias)
    close_to(compiled(*arrays), wanted)
    ((of_x, of_w, of_y, parts),) = library.convolutions
    missing = (1,) * (rank == 1)
    assert of_x == (*x.shape[:2], *missing, *x.shape[2:])
    assert of_w == (*weight.shape[:2], *missing, *weight.shape[2:])
    assert of_y == (*wanted.shape[:2], *missing, *wanted.shape[2:]) and parts == groups
    assert len(fake.launches) == with_bias


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float16, 5e-3), (np.float64, 1e-5)])
def test_dtypes(fake, library, dtype, tolerance):
    for number, kind in enumerate((np.float32, dtype), start=1):
        arrays = [one.astype(kind) for one in (X, W, B)]
        close_to(jitcore.script(layer)(*moved(*arrays)), layer(*arrays), tolerance)
        assert len(library.convolutions) == len(fake.launches) == number


def test_the_library_chooses_once_for_each_shape(fake, library):
    model = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=1)
    shapes = [(2, 4, 9, 8), (3, 4, 9, 8), (3, 4, 6, 11), (1, 4, 6, 6), (5, 4, 1, 1)]
    images = [normal(*shape) for shape in shapes * 2]
    wanted = [model(x) for x in images]
    compiled = jitcore.script(model.to("cuda"))
    for x, result in zip(images, wanted, strict=True):
        close_to(compiled(jitcore.to(x, "cuda")), result)
    assert [one[0] for one in library.convolutions] == shapes * 2
    assert library.chosen == len(shapes) and len(fake.launches) == 2 * len(shapes)


def test_images_that_do_not_lie_in_c_order(fake, library):
    x = normal(2, 9, 8, 4)

    def of_last(x, weight):
        return F.conv2d(x.transpose(0, 3, 1, 2)[:, :, ::2], weight.transpose(0, 1, 3, 2))

    weight = normal(6, 4, 2, 3)
    close_to(jitcore.script(of_last)(*moved(x, weight)), of_last(x, weight))
    assert len(library.convolutions) == 1


def test_what_it_reads_is_there_before_and_what_it_writes_after(fake, library):
    def twice(x, weight):
        total = x.sum()
        for _ in range(2):
            x = F.conv2d(x / total, weight, padding=1) + x
        return x, x.max()

    weight = normal(4, 4, 3, 3)
    found = jitcore.script(twice)(*moved(X, weight))
    for one, wanted in zip(found, twice(X, weight), strict=True):
        np.testing.assert_allclose(one.numpy(), wanted, rtol=1e-4, atol=1e-5)
    assert len(library.convolutions) == 2


def test_elements_that_are_set_one_by_one(fake, library):
    def changed(x, weight):
        x[0, 1, 2, 3] = x[1, 1, 2, 3] * 2
        return F.conv2d(x, weight)

    x = X.copy()
    found = jitcore.script(changed)(*moved(x, W))
    close_to(found, changed(x, W))
    assert len(library.convolutions) == 1


REFUSALS: dict[str, dict[str, Any]] = {
    "descriptors": {"describes_with": 2000},
    "no way": {"proposes": ()},
    "only transforms": {"proposes": (4, 5, 6, 7)},
    "only large ones": {"proposes": (2,)},
    "only in any order": {"proposes": (3,)},
    "a question": {"chooses_with": NOT_SUPPORTED},
    "not supported": {"fails_with": NOT_SUPPORTED + 2},
}


@pytest.mark.parametrize("problem", REFUSALS)
def test_our_kernels_do_what_the_library_does_not_take(fake, library, problem):
    for name, value in REFUSALS[problem].items():
        setattr(library, name, value)
    compiled = jitcore.script(layer)
    for x in (X, X[:, :, :7].copy()):
        close_to(compiled(*moved(x, W, B)), layer(x, W, B))
    assert len(library.convolutions) == (2 if problem == "not supported" else 0)
    assert len(fake.launches) > 4


def test_a_batch_without_images(fake, library):
    model = nn.Conv2d(4, 6, 3)
    images = [normal(count, 4, 9, 8) for count in (2, 0, 3, 0)]
    wanted = [model(x) for x in images]
    compiled = jitcore.script(model.to("cuda"))
    for x, result in zip(images, wanted, strict=True):
        close_to(compiled(jitcore.to(x, "cuda")), result)
    assert len(library.convolutions) == 2


def test_kernels_larger_than_the_images(fake, library):
    model = nn.Conv2d(4, 6, 3)
    images = [normal(count, 4, count + 5, 8) for count in (2, 3, 4, 5)]
    wanted = [model(x) for x in images]
    small = [normal(2, 4, rows, 8) for rows in (2, 0)]
    errors = [raised(model, x) for x in small]
    compiled = jitcore.script(model.to("cuda"))
    for x, result in zip(images, wanted, strict=True):
        close_to(compiled(jitcore.to(x, "cuda")), result)
    assert [raised(compiled, jitcore.to(x, "cuda")) for x in small] == errors
    assert len(library.convolutions) == len(images)


def test_other_channels_than_the_kernels(fake, library):
    model = nn.Conv2d(4, 6, 3)
    images = [normal(count, 4, 9, count + 5) for count in (2, 3, 4, 5)]
    wanted = [model(x) for x in images]
    x = normal(6, 5, 9, 8)
    error = raised(model, x)
    compiled = jitcore.script(model.to("cuda"))
    for one, result in zip(images, wanted, strict=True):
        close_to(compiled(jitcore.to(one, "cuda")), result)
    assert raised(compiled, jitcore.to(x, "cuda")) == error
    assert len(library.convolutions) == len(images)


class GivenBias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight: Any = nn.Parameter(W.copy())

    def forward(self, x, bias):
        return F.conv2d(x, self.weight, bias)


@pytest.mark.parametrize("with_library", [False, True])
def test_other_biases_than_the_channels(fake, library, with_library):
    library.begins_with = 0 if with_library else 1001
    compiled = jitcore.script(GivenBias().to("cuda"))
    for count in (2, 3, 4, 5):
        x, bias = normal(count, 4, 9, count + 5), normal(6)
        close_to(compiled(*moved(x, bias)), F.conv2d(x, W, bias))
    for count in (1, 5, 7):
        bias = normal(count)
        wanted = raised(lambda x, bias=bias: F.conv2d(x, W, bias), X)
        assert raised(lambda x, bias=bias: compiled(x, *moved(bias)), *moved(X)) == wanted
    assert bool(library.convolutions) == with_library


def test_uneven_frames_and_integers_have_no_library(fake, library):
    def same(x, weight):
        return F.conv2d(x, weight, padding="same")

    close_to(jitcore.script(same)(*moved(X, W)), same(X, W))
    numbers = [np.rint(8 * one).astype(np.int64) for one in (X, W)]
    close_to(jitcore.script(plain)(*moved(*numbers)), plain(*numbers))
    assert not library.convolutions


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-5), (np.float16, 5e-3)])
def test_a_library_that_does_not_begin(fake, library, dtype, tolerance):
    library.begins_with = 1001
    compiled = jitcore.script(layer)
    arrays = [one.astype(dtype) for one in (X, W, B)]
    close_to(compiled(*moved(*arrays)), layer(*arrays), tolerance)
    assert not library.convolutions and "cuDNN" not in str(compiled.explain(*moved(*arrays)))
    assert fake.launches


@pytest.mark.parametrize("function", ["cudnnConvolutionForward", "cudnnSetConvolutionGroupCount"])
def test_the_library_fails(fake, library, function):
    setattr(library, function, lambda *args: 5000)
    with pytest.raises(DriverError, match=r"cuDNN \(a fake\) failed with status 5000"):
        jitcore.script(layer)(*moved(X, W, B))


def test_the_stream_of_the_call(fake, library):
    arrays = moved(X, W, B)
    with jitcore.cuda.Stream() as stream:
        jitcore.script(layer)(*arrays)
        assert library.stream == stream.handle != 0


def test_explain_says_who_convolves(fake, library):
    compiled = jitcore.script(layer)
    compiled(*moved(X, W, B))
    text = " ".join(str(compiled.explain(*moved(X, W, B))).split())
    assert "cuDNN (a fake) computes convolutions, and kernels those that it does not take" in text


def test_a_model(fake, library):
    model = nn.Sequential(
        nn.Conv2d(4, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=2, bias=False), nn.AdaptiveAvgPool2d(1),
    ).eval()  # fmt: skip
    ready = jitcore.optimize_for_inference(jitcore.script(model))
    for _ in range(6):
        x = normal(3, 4, 12, 10)
        found = ready(jitcore.to(x, "cuda"))
        np.testing.assert_allclose(found.numpy(), model(x), rtol=1e-4, atol=1e-5)
    assert library.chosen == 2 and len(library.convolutions) >= 4
