"""oneDNN in the place of the kernels of our own: where it is installed, the same results."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
import pytest

import jitcore
from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.runtime import onednn_library
from jitcore.nn import functional as F

is_installed = onednn_library.find_library() is not None
needs_library = pytest.mark.skipif(not is_installed, reason="oneDNN is not installed")


@pytest.fixture
def enabled() -> Iterator[None]:
    jitcore.enable_onednn_fusion(True)
    yield
    jitcore.enable_onednn_fusion(False)


def array(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_it_is_off_by_default() -> None:
    assert jitcore.onednn_fusion_enabled() is False


@pytest.mark.skipif(is_installed, reason="oneDNN is installed")
def test_without_the_library_enabling_says_what_to_install() -> None:
    with pytest.raises(RuntimeError, match=r"pip install \"jitcore\[onednn\]\""):
        jitcore.enable_onednn_fusion(True)
    assert jitcore.onednn_fusion_enabled() is False
    jitcore.enable_onednn_fusion(False)


@needs_library
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_convolutions(rank, groups, enabled) -> None:
    function = getattr(F, f"conv{rank}d")

    @script
    def followed(x, w, b, r):
        y = function(x, w, b, stride=2, padding=1, dilation=2, groups=groups) + r
        return np.maximum(y, 0)

    x, w, b = array(2, 4, *(9, 8, 7)[:rank]), array(6, 4 // groups, *(3,) * rank), array(6)
    r = array(*function(x, w, b, 2, 1, 2, groups).shape)
    expected = followed.__wrapped__(x, w, b, r)
    np.testing.assert_allclose(followed(x, w, b, r), expected, rtol=1e-5, atol=1e-5)
    assert "onednn" in followed.kernels[0].source
    x[0, 0] = np.nan
    np.testing.assert_array_equal(
        np.isnan(followed(x, w, b, r)), np.isnan(followed.__wrapped__(x, w, b, r))
    )


@needs_library
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_transposed_convolutions(rank, groups, enabled) -> None:
    function = getattr(F, f"conv_transpose{rank}d")

    @script
    def followed(x, w, b):
        return np.maximum(function(x, w, b, 2, 1, 1, groups), 0)

    x, w, b = array(2, 4, *(5, 4, 3)[:rank]), array(4, 6 // groups, *(3,) * rank), array(6)
    expected = followed.__wrapped__(x, w, b)
    np.testing.assert_allclose(followed(x, w, b), expected, rtol=1e-5, atol=1e-5)
    assert "onednn" in followed.kernels[0].source
    x[0, 0] = np.nan
    np.testing.assert_array_equal(
        np.isnan(followed(x, w, b)), np.isnan(followed.__wrapped__(x, w, b))
    )


@needs_library
def test_models_with_pooling(enabled) -> None:
    model = nn.Sequential(
        *(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU6(), nn.MaxPool2d(2)),
        *(nn.ConvTranspose2d(8, 8, 2, 2), nn.ReLU(), nn.AvgPool2d(3, 2, 1)),
    ).eval()
    ready, x = optimize_for_inference(script(model)), array(2, 3, 12, 10)
    x[0, 1, 3, 3] = np.nan
    np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-5)


def test_a_library_that_cannot_be_loaded(monkeypatch, tmp_path) -> None:
    broken = tmp_path / "libdnnl.so.3"
    broken.write_text("no library")
    monkeypatch.setattr(onednn_library, "find_library", lambda: str(broken))
    with pytest.raises(RuntimeError, match="oneDNN cannot be loaded"):
        jitcore.enable_onednn_fusion(True)
    assert jitcore.onednn_fusion_enabled() is False


@needs_library
def test_linear_layers_and_empty_batches(enabled) -> None:
    model = nn.Sequential(nn.Linear(7, 33), nn.ReLU(), nn.Linear(33, 5)).eval()
    ready = optimize_for_inference(script(model))
    for rows in (1, 5, 40, 0):
        x = array(rows, 7)
        np.testing.assert_allclose(ready(x), model(x), rtol=1e-5, atol=1e-6)


@needs_library
def test_the_child_of_a_fork_uses_other_kernels(enabled) -> None:
    model = optimize_for_inference(script(nn.Sequential(nn.Conv2d(3, 8, 3)).eval()))
    x = array(1, 3, 20, 20)
    expected = model(x)
    child = os.fork()
    if child == 0:
        os._exit(0 if np.allclose(model(x), expected, rtol=1e-5, atol=1e-6) else 1)
    assert os.waitpid(child, 0)[1] == 0
