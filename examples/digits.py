"""Train a classifier of handwritten digits, and run it at every stage that jitcore has for models.

    python examples/digits.py --epochs 20

The digits are the 1797 images of 8 x 8 pixels that scikit-learn ships
(``pip install "jitcore[examples]"``).  A step of the training is one NumPy function with
``@script`` on it, which changes the model's arrays in place; every fifth image is kept for the
test.  The model then runs in plain NumPy, scripted, frozen, and optimized for inference.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore import freeze, nn, optimize_for_inference, script
from jitcore.nn import functional as F

Array = np.ndarray[Any, Any]


def load_digits() -> tuple[Array, Array] | None:
    """The images (N, 1, 8, 8), from 0 to 1, and what they show; None without scikit-learn."""
    try:
        from sklearn import datasets
    except ImportError:
        return None
    digits = datasets.load_digits()
    images = digits.images.astype(np.float32)[:, np.newaxis] / np.float32(16)
    return images, digits.target


def classifier() -> nn.Sequential:
    """One convolution and one linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.25),
        nn.Linear(8 * 64, 10),
    )


@script
def step(kernel, bias, weight, offset, windows, wanted, rate):  # type: ignore[no-untyped-def]
    """One step of gradient descent, in place; gives the mean cross entropy before it.

    ``kernel`` is (8, 9), ``windows`` (N, 9, 64) and ``wanted`` has a one in every row.
    """
    hidden = np.maximum(np.matmul(kernel, windows) + bias[:, np.newaxis], 0)
    features = hidden.reshape(len(hidden), -1)
    scores = features @ weight.T + offset
    scores = scores - scores.max(axis=1, keepdims=True)
    chances = np.exp(scores)
    chances = chances / chances.sum(axis=1, keepdims=True)
    loss = -np.mean(np.log(np.sum(chances * wanted, axis=1)))
    error = (chances - wanted) / len(wanted)
    back = (error @ weight).reshape(hidden.shape) * (hidden > 0)
    weight -= rate * (error.T @ features)
    offset -= rate * error.sum(axis=0)
    kernel -= rate * np.matmul(back, windows.transpose(0, 2, 1)).sum(axis=0)
    bias -= rate * back.sum(axis=(0, 2))
    return loss


def train(model: nn.Sequential, images: Array, labels: Array, epochs: int) -> None:
    """Descend along the gradient of the cross entropy, 32 images at a time."""
    convolution, linear = model[0], model[4]
    # Views: the steps change the model's own arrays.
    kernel = convolution.weight.reshape(8, 9)
    windows = F.unfold(images, 3, padding=1)
    wanted = np.eye(10, dtype=np.float32)[labels]
    generator = np.random.default_rng(0)
    start = time.perf_counter()
    loss = np.float32(0)
    for _ in range(epochs):
        order = generator.permutation(len(images))
        for batch in np.array_split(order, max(len(order) // 32, 1)):
            arrays = (kernel, convolution.bias, linear.weight, linear.bias)
            loss = step(*arrays, windows[batch], wanted[batch], np.float32(0.2))
    seconds = time.perf_counter() - start
    print(f"trained in {seconds:.1f} s, {epochs} epochs; the last loss was {loss:.3f}")


def fastest(function: Callable[[], object], seconds: float = 0.3) -> float:
    """The shortest of many calls, in microseconds."""
    function()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def run(images: Array, labels: Array, epochs: int) -> dict[str, float]:
    """Train and test; gives the accuracy at each stage."""
    test = np.arange(len(images)) % 5 == 0
    nn.manual_seed(0)
    model = classifier()
    train(model, images[~test], labels[~test], epochs)
    model.eval()
    scripted = script(model)
    frozen = freeze(scripted)
    ready = optimize_for_inference(scripted)
    print(frozen.code)
    accuracies = {}
    stages = {"NumPy": model, "scripted": scripted, "frozen": frozen, "for inference": ready}
    for name, stage in stages.items():
        found = stage(images[test]).argmax(axis=1)
        accuracies[name] = float(np.mean(found == labels[test]))
        one = images[:1]
        microseconds = fastest(lambda stage=stage, one=one: stage(one))  # type: ignore[misc]
        print(f"{name:14} {accuracies[name]:6.1%} right, {microseconds:7.1f} us for one image")
    return accuracies


def main() -> None:
    """Load the digits and say what came of them."""
    parser = argparse.ArgumentParser(description="Train a classifier of digits and run it.")
    parser.add_argument("--epochs", type=int, default=20)
    options = parser.parse_args()
    digits = load_digits()
    if digits is None:
        print('The digits come with scikit-learn: pip install "jitcore[examples]"')
        return
    run(*digits, options.epochs)


if __name__ == "__main__":
    main()
