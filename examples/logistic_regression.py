"""Train a classifier by the gradient of its loss, which jitcore finds.

    python examples/logistic_regression.py

The loss is an ordinary NumPy function of parameters in a dict.  ``jitcore.value_and_grad`` gives
its value and its gradient, a dict of the same form, in one compiled function; the gradient written
by hand is there to compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jitcore

Array = np.ndarray[Any, Any]
Parameters = dict[str, Array]


def loss(parameters: Parameters, points: Array, labels: Array) -> Any:
    """The mean cross entropy of labels 0 and 1, and a penalty on large weights."""
    scores = points @ parameters["weights"] + parameters["bias"]
    # log(1 + exp(score)) - label * score, without overflow.
    costs = np.logaddexp(0, scores) - labels * scores
    return np.mean(costs) + 1e-3 * np.sum(parameters["weights"] ** 2)


def gradient_by_hand(parameters: Parameters, points: Array, labels: Array) -> Parameters:
    """What calculus gives."""
    scores = points @ parameters["weights"] + parameters["bias"]
    errors = (1 / (1 + np.exp(-scores)) - labels) / len(labels)
    weights = points.T @ errors + 2e-3 * parameters["weights"]
    return {"weights": weights, "bias": np.asarray(errors.sum())}


def sample(count: int, generator: np.random.Generator) -> tuple[Array, Array]:
    """Points of two classes with different centres."""
    labels = generator.integers(0, 2, count)
    centres = np.array([[-1.0, 0.5, 0.0], [1.0, -0.5, 0.5]])
    points = centres[labels] + generator.normal(size=(count, 3))
    return points, labels.astype(np.float64)


def train(
    points: Array, labels: Array, *, steps: int = 200, rate: float = 0.5
) -> tuple[Parameters, list[float]]:
    """Gradient descent; gives the parameters and the loss before each step."""
    value_and_gradient = jitcore.value_and_grad(loss)
    parameters: Parameters = {"weights": np.zeros(points.shape[1]), "bias": np.zeros(())}
    values = []
    for _ in range(steps):
        value, gradient = value_and_gradient(parameters, points, labels)
        values.append(float(value))
        parameters = {name: one - rate * gradient[name] for name, one in parameters.items()}
    return parameters, values


def accuracy(parameters: Parameters, points: Array, labels: Array) -> float:
    """The share of points on the right side."""
    scores = points @ parameters["weights"] + parameters["bias"]
    return float(np.mean((scores > 0) == (labels > 0)))


def main() -> None:
    """Train, and print what came of it."""
    generator = np.random.default_rng(0)
    points, labels = sample(2000, generator)
    parameters, values = train(points, labels)
    by_hand = gradient_by_hand(parameters, points, labels)
    found = jitcore.grad(loss)(parameters, points, labels)
    apart = max(np.abs(found[name] - by_hand[name]).max() for name in by_hand)
    print(f"loss {values[0]:.4f} -> {values[-1]:.4f}")
    print(f"accuracy on new points {accuracy(parameters, *sample(2000, generator)):.3f}")
    print(f"the gradient is {apart:.1e} from the one written by hand")


if __name__ == "__main__":
    main()
