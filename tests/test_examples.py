"""The examples with models, in small form: every stage gives what plain NumPy gives."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import jitcore
from jitcore import nn

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture
def example(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    """One of the examples as a module."""
    name = str(request.param)
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("example", ["digits"], indirect=True)
def test_digits(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    generator = np.random.default_rng(0)
    shown = generator.random((10, 1, 8, 8)).astype(np.float32)
    labels = generator.integers(0, 10, 300)
    noise = generator.random((300, 1, 8, 8)).astype(np.float32) * np.float32(0.2)
    accuracies = example.run(shown[labels] + noise, labels, epochs=8)
    assert set(accuracies) == {"NumPy", "scripted", "frozen", "for inference"}
    assert min(accuracies.values()) > 0.95
    assert "transposed_linear" in capsys.readouterr().out


@pytest.mark.parametrize("example", ["resnet18"], indirect=True)
def test_resnet18(example: ModuleType) -> None:
    nn.manual_seed(0)
    pixels = np.random.default_rng(0).random((50, 40, 3)).astype(np.float32)
    images = example.prepared(pixels, 64)
    assert images.shape == (1, 3, 64, 64)
    model = example.ResNet18()
    model.layer3, model.layer4, model.fc = nn.Identity(), nn.Identity(), nn.Linear(128, 10)
    scores = example.run(model, images, seconds=0.0)
    for found in scores.values():
        np.testing.assert_allclose(found, scores["NumPy"], 1e-4, 1e-4)


@pytest.mark.parametrize(
    ("example", "library"),
    [("digits", "sklearn"), ("resnet18", "matplotlib")],
    indirect=["example"],
)
def test_without_an_optional_library(
    example: ModuleType,
    library: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{example.__name__}.py"])
    monkeypatch.setitem(sys.modules, library, None)
    example.main()
    assert "pip install" in capsys.readouterr().out


@pytest.mark.parametrize("example", ["logistic_regression"], indirect=True)
def test_logistic_regression(example: ModuleType) -> None:
    points, labels = example.sample(300, np.random.default_rng())
    parameters, values = example.train(points, labels, steps=50)
    assert values[-1] < values[0]
    by_hand = example.gradient_by_hand(parameters, points, labels)
    found = jitcore.grad(example.loss)(parameters, points, labels)
    assert found.keys() == by_hand.keys()
    for name, gradient in by_hand.items():
        np.testing.assert_allclose(found[name], gradient, rtol=1e-9, atol=1e-12)
