"""Layers that oneDNN computes, and what it does after them, against NumPy."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from onednn_runs import (
    activities,
    array,
    compare,
    compare_function,
    compare_model,
    implementations,
    needs_library,
    symbols,
)

import jitcore
from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.onednn import functions
from jitcore.codegen.onednn import library as onednn_library
from jitcore.codegen.onednn.memory import Execute
from jitcore.nn import functional as F


@pytest.fixture
def enabled() -> Iterator[None]:
    jitcore.enable_onednn_fusion(True)
    yield
    jitcore.enable_onednn_fusion(False)


@needs_library
@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank, groups, enabled) -> None:
    function = getattr(F, f"conv{rank}d")

    def followed(x, w, b, r):
        y = function(x, w, b, stride=2, padding=1, dilation=2, groups=groups) + r
        return np.maximum(y, 0)

    x, w, b = array(2, 4, *(9, 8, 7)[:rank]), array(8, 4 // groups, *(3,) * rank), array(8)
    r = array(*function(x, w, b, 2, 1, 2, groups).shape)
    compare_function(followed, x, w, b, r)


@needs_library
@pytest.mark.parametrize("padding", ["same", (0, 2)])
def test_frames(padding, enabled) -> None:
    def framed(x, w):
        return F.conv2d(x, w, None, 1, padding, (1, 2))

    compare_function(framed, array(1, 5, 9, 11), array(7, 5, 4, 3))


@needs_library
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_depthwise_convolutions(rank, enabled) -> None:
    model = nn.Sequential(
        getattr(nn, f"Conv{rank}d")(6, 6, 3, stride=2, padding=1, groups=6), nn.ReLU6()
    )
    compare_model(model, array(2, 6, *(9, 8, 7)[:rank]))


@needs_library
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(
    "stride, padding, more, is_whole",
    [(2, 1, 1, True), (3, 0, 0, True), (2, 0, 0, False), (1, 1, 0, False)],
)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank, stride, padding, more, is_whole, groups, enabled) -> None:
    """Those whose phases have equally many pixels are one primitive, the others are phases."""
    function = getattr(F, f"conv_transpose{rank}d")

    def followed(x, w, b, r):
        return np.maximum(function(x, w, b, stride, padding, more, groups) + r, 0)

    x, w, b = array(2, 4, *(5, 4, 3)[:rank]), array(4, 6 // groups, *(3,) * rank), array(6)
    r = array(*function(x, w, b, stride, padding, more, groups).shape)
    compiled = script(followed)
    compare(compiled, followed, x, w, b, r)
    kinds = [one.split()[0] for one in implementations(compiled)]
    assert kinds.count("deconvolution") == (is_whole and groups == 1)


@needs_library
def test_what_follows_a_transposed_convolution_is_a_post_op(enabled) -> None:
    model = nn.Sequential(
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(32, 16, 2, 2)),
        *(nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ConvTranspose2d(16, 3, 4, 2, 1)),
    )
    forward = compare_model(model, array(2, 16, 9, 8), array(1, 16, 5, 6))
    kinds = [one.split()[0] for one in implementations(forward)]
    assert kinds.count("deconvolution") == kinds.count("convolution") == 2
    # The image, and the result.
    assert kinds.count("reorder") <= 2


@needs_library
def test_transposed_convolutions_of_numbers_that_are_not_finite(enabled) -> None:
    model = nn.Sequential(nn.ConvTranspose2d(16, 8, 2, 2), nn.ReLU()).eval()
    ready: Any = optimize_for_inference(script(model))
    x = array(1, 16, 4, 5)
    x[0, 3, 2, 1] = np.nan
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)
    (group,) = activities(ready.forward)
    assert (group.calls, group.left) == (0, 1)


@needs_library
@pytest.mark.parametrize(
    "pool",
    [
        nn.MaxPool2d(3, 2, 1),
        nn.MaxPool2d(2, dilation=2),
        nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.AvgPool2d(3, 2, 1),
        nn.AvgPool2d(3, 2, 1, count_include_pad=False),
        nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False),
        nn.AvgPool2d(2, divisor_override=3),
        nn.AdaptiveAvgPool2d(4),
    ],
    ids=repr,
)
def test_pooling_after_a_convolution(pool, enabled) -> None:
    forward = compare_model(nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), pool), array(2, 3, 12, 8))
    assert sum("pooling" in one for one in implementations(forward)) == 1


@needs_library
def test_a_mean_that_counts_some_of_what_lies_outside(enabled) -> None:
    model = nn.Sequential(nn.Conv2d(3, 20, 3, padding=1), nn.AvgPool2d(3, 2, 1, ceil_mode=True))
    ready: Any = optimize_for_inference(script(model.eval()))
    x = array(1, 3, 12, 12)
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)
    assert "border" in activities(ready.forward)[0].reason


@needs_library
@pytest.mark.parametrize("rank", [1, 3])
def test_pooling_of_other_ranks(rank, enabled) -> None:
    model = nn.Sequential(
        getattr(nn, f"MaxPool{rank}d")(3, 2, 1), getattr(nn, f"AvgPool{rank}d")(2)
    )
    compare_model(model, array(2, 5, *(12, 9, 8)[:rank]))


@needs_library
def test_linear_layers(enabled) -> None:
    model = nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 5), nn.Tanh())
    forward = compare_model(model, *(array(rows, 7) for rows in (1, 5, 40)), array(2, 3, 7))
    assert all(one.startswith(("matmul", "reorder")) for one in implementations(forward))


@needs_library
def test_products_of_matrices(enabled) -> None:
    def product(x, y, b):
        return np.maximum(x @ y + b, 0)

    compare_function(product, array(70, 64), array(64, 80), array(80), atol=1e-4)
    compare_function(product, array(70, 64), array(80, 64).T, array(80), atol=1e-4)
    small = script(product)
    small(array(3, 4), array(4, 5), array(5))
    assert not activities(small)


@needs_library
@pytest.mark.parametrize(
    "activation",
    [
        *(nn.ReLU(), nn.ReLU6(), nn.LeakyReLU(0.1), nn.LeakyReLU(1.5), nn.Hardtanh(-0.5, 0.25)),
        *(nn.Tanh(), nn.Sigmoid(), nn.SiLU(), nn.Hardswish(), nn.Hardsigmoid()),
        *(nn.GELU(), nn.GELU("tanh"), nn.ELU(), nn.ELU(-0.7), nn.SELU(), nn.CELU(0.5)),
        *(nn.Mish(), nn.Softplus(), nn.Softplus(2.5, 30.0), nn.LogSigmoid()),
    ],
    ids=repr,
)
def test_activations_are_post_ops(activation, enabled) -> None:
    model = nn.Sequential(nn.Conv2d(16, 16, 3), activation, nn.Conv2d(16, 16, 1), activation)
    forward = compare_model(model, array(1, 16, 9, 9))
    kinds = [one.split()[0] for one in implementations(forward)]
    assert kinds.count("convolution") == 2
    assert set(kinds) <= {"convolution", "reorder"}


@needs_library
def test_operations_between_layers(enabled) -> None:
    def between(x, w, v, scale, other):
        y = F.conv2d(x, w) * np.float32(0.5)
        y = y * scale.reshape(-1, 1, 1) - other
        z = F.conv2d(np.minimum(np.float32(2) - y, other) + y, v)
        z = scale.reshape(-1, 1, 1) - np.maximum(z, scale.reshape(-1, 1, 1))
        return np.maximum(F.conv2d(z + z, v) * z, np.float32(-0.5))

    other, scale = array(2, 8, 6, 6), array(8)
    weights = (array(8, 4, 3, 3), array(8, 8, 1, 1))
    # Large terms cancel.
    compare_function(between, array(2, 4, 8, 8), *weights, scale, other, atol=1e-3)


@needs_library
def test_results_that_are_broadcast(enabled) -> None:
    first, second = nn.Linear(6, 5), nn.Linear(4, 5)

    class Broadcast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = first, second

        def forward(self, x: Any, y: Any) -> Any:
            return self.first(x) + self.second(y) * 2

    model = Broadcast().eval()
    ready: Any = optimize_for_inference(script(model))
    compare(ready.forward, model, array(3, 6), array(1, 4))
    compare(ready.forward, model, array(1, 6), array(3, 4))


@needs_library
def test_normalization_that_is_not_folded(enabled) -> None:
    norm = nn.BatchNorm2d(8)
    norm.running_mean = array(8)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), norm, nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    compiled = script(model)
    compare(compiled.forward, model, array(2, 3, 9, 9))
    assert len(activities(compiled.forward)) == 1


@needs_library
def test_layers_in_loops(enabled) -> None:
    def repeated(x, w, count):
        total = x * 0
        for _ in range(count):
            x = np.maximum(F.conv2d(x, w, None, 1, 1), 0)
            total += x
        return total

    compare_function(repeated, array(1, 4, 6, 6), array(4, 4, 3, 3) / 9, 5)


@needs_library
def test_arrays_that_are_written_after_they_are_read(enabled) -> None:
    def update(x, w):
        y = F.conv2d(x, w, None, 1, 1)
        x[:] = 1
        return F.conv2d(y + x, w, None, 1, 1)

    compiled, w = script(update), array(4, 4, 3, 3)
    x, y = array(1, 4, 6, 6), array(1, 4, 6, 6)
    np.testing.assert_allclose(compiled(x, w), update(y, w), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(x, y)


@needs_library
def test_float64_is_computed_by_our_own_kernels(enabled) -> None:
    plain, x, w = script(F.conv2d), array(1, 3, 8, 8).astype(float), array(4, 3, 3, 3).astype(float)
    np.testing.assert_allclose(plain(x, w), F.conv2d(x, w), rtol=1e-12, atol=1e-12)
    assert not activities(plain)


# Residuals --------------------------------------------------------------------------------


def in_place_sums(compiled) -> int:
    """How many primitives write over memory of the plan that an earlier one has written."""
    written: set[Any] = set()
    count = 0
    for symbol in symbols(compiled):
        for plan in functions._functions[symbol].plans.values():
            assert not isinstance(plan, str)
            for step in plan.steps:
                if not isinstance(step, Execute):
                    continue
                result = step.arguments[onednn_library.RESULT][0]
                count += result in written
                written.add(result)
    return count


class Joined(nn.Module):
    """Two ways that are added; what is returned besides is read later than the sum is written."""

    def __init__(self, join) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(16, 16, 3, padding=1), nn.Conv2d(16, 16, 1)
        self.third, self.linear = nn.Conv2d(16, 16, 3, padding=1), nn.Linear(16, 16)
        self.join = join

    def forward(self, x: Any) -> Any:
        return self.join(self, x)


def joined_by_one(model, x):
    y = np.maximum(model.first(x), 0)
    return np.maximum(model.third(model.second(y)) + y, 0)


def joined_with_its_source(model, x):
    y = np.maximum(model.first(x), 0)
    return np.maximum(model.third(y) + y, 0)


def joined_and_read_again(model, x):
    y = np.maximum(model.first(x), 0)
    z = np.maximum(model.third(model.second(y)) + y, 0)
    return model.second(z + y)


def joined_and_returned(model, x):
    y = np.maximum(model.first(x), 0)
    return np.concatenate((y, np.maximum(model.third(model.second(y)) + y, 0)))


def joined_twice(model, x):
    y = np.maximum(model.first(x), 0)
    return (model.third(model.second(y)) + y) * y


def joined_with_what_is_given(model, x):
    return model.third(model.second(x)) + x


@needs_library
@pytest.mark.parametrize(
    "join, count",
    [
        (joined_by_one, 1),
        (joined_with_its_source, 0),
        (joined_and_read_again, 0),
        (joined_and_returned, 0),
        (joined_twice, 0),
    ],
)
def test_residuals_are_added_in_place(join, count, enabled) -> None:
    model = Joined(join)
    forward = compare_model(model, array(2, 16, 9, 9), atol=1e-4)
    assert in_place_sums(forward) == count


@needs_library
def test_what_is_given_is_not_written(enabled) -> None:
    model, x = Joined(joined_with_what_is_given), array(1, 16, 9, 9)
    forward = compare_model(model, x, atol=1e-4)
    forward(x)
    np.testing.assert_array_equal(x, array(1, 16, 9, 9))


@needs_library
def test_residuals_of_linear_maps_are_added_in_place(enabled) -> None:
    def join(model, x):
        y = np.maximum(model.linear(x), 0)
        return model.linear(np.maximum(model.linear(y), 0)) + y

    forward = compare_model(Joined(join), array(40, 16))
    assert in_place_sums(forward) == 1
