# mypy: allow-untyped-defs, allow-untyped-calls
"""Gradients of functions called with arrays on a device, whose graphs are ordinary ones."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from cuda_machine import fake_machine
from fake_cuda import FakeDriver
from gradient_checking import differences, is_native

import jitcore
from jitcore import cuda, nn


@pytest.fixture
def fake() -> Iterator[FakeDriver]:
    with fake_machine() as made:
        yield made


def normal(*shape: int) -> Any:
    return np.random.default_rng().normal(size=shape)


def wave(x):
    return np.sum(np.exp(-x * x) * np.sin(x))


def shares(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return np.sum(p * p)


def normalized(x, g):
    centred = x - x.mean(axis=-1, keepdims=True)
    return np.sum((centred / np.sqrt(x.var(axis=-1, keepdims=True) + 1e-5) * g) ** 3)


def error(w, x, y):
    return np.mean((x @ w - y) ** 2)


def gathered(x, i):
    return np.sum(x[i] ** 2) + np.sum(x[i[:2]] * x[i[1:3]])


def entropy(w, x, y):
    scores = x @ w
    scores = scores - scores.max(axis=1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    return -np.mean(logs[np.arange(y.shape[0]), y])


def diffused(u):
    for _ in range(3):
        v = u.copy()
        v[1:-1] = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = v
    return np.sum(u**2)


def decided(x):
    total = x.sum()
    return total * total if total > 0 else -total


def convolved(x, w):
    return np.sum(nn.functional.gelu(nn.functional.conv2d(x, w)) ** 2)


def folded(x):
    """A loop over single elements."""
    total = np.float64(0.0)
    for k in range(x.shape[0]):
        total = total * 0.5 + x[k] * x[k]
    return total


CASES: list[tuple[Any, Any]] = [
    (wave, lambda: (normal(50),)),
    (shares, lambda: (normal(4, 8),)),
    (normalized, lambda: (normal(4, 8), normal(8))),
    (error, lambda: (normal(4), normal(9, 4), normal(9))),
    (gathered, lambda: (normal(6), np.array([1, 5, 1, -2]))),
    (entropy, lambda: (normal(5, 3), normal(7, 5), np.array([0, 1, 2, 0, 1, 2, 2]))),
    (diffused, lambda: (normal(12),)),
    (decided, lambda: (normal(5) + 1,)),
    (decided, lambda: (normal(5) - 1,)),
    (convolved, lambda: (normal(1, 2, 5, 5), normal(2, 2, 3, 3))),
    (folded, lambda: (normal(9),)),
]


@pytest.mark.parametrize(("function", "make"), CASES)
def test_gradients_are_those_of_the_function(fake: FakeDriver, function: Any, make: Any) -> None:
    host = make()
    numbers = tuple(n for n, one in enumerate(host) if one.dtype == np.float64)
    compiled = jitcore.value_and_grad(function, numbers)
    given = jitcore.to(deepcopy(host), "cuda")
    for _ in range(2):
        value, gradients = compiled(*given)
        assert isinstance(value, cuda.Array)
        np.testing.assert_allclose(value.numpy(), function(*host), rtol=1e-9)
        for number, found in zip(numbers, gradients, strict=True):
            assert isinstance(found, cuda.Array) and found.shape == host[number].shape
            on_host = found.numpy()
            for place, wanted in differences(function, host, number, most=6):
                np.testing.assert_allclose(on_host[place], wanted, rtol=1e-4, atol=1e-6)
    assert is_native(compiled)


def test_value_and_gradient_are_one_kernel(fake: FakeDriver) -> None:
    compiled, x = jitcore.value_and_grad(wave), jitcore.to(normal(40), "cuda")
    compiled(x)
    before = len(fake.launches)
    compiled(x)
    assert len(fake.launches) - before == 1


def written_after(x, y):
    total = (x * y).sum()
    x *= 2
    return total


def turned_and_written_after(x, y):
    total = (x[::-1] * y).sum()
    x *= 2
    return total


def read_after(x, y):
    total, z = (x * y).sum(), x + y
    y += z
    return total, z


def scaled(x, y):
    total = (x * y).sum()
    return total, x / total, x - y


def shifted(x, y):
    total = (x[1:] * y[1:]).sum()
    return total, x[:-1] + y[:-1], (x * y).max()


@pytest.mark.parametrize(
    "function", [written_after, turned_and_written_after, read_after, scaled, shifted]
)
def test_loops_are_merged_only_where_nothing_depends_on_it(fake: FakeDriver, function: Any) -> None:
    host = normal(40), normal(40)
    given = jitcore.to(deepcopy(host), "cuda")
    compiled = jitcore.script(function)
    for _ in range(2):
        found, wanted = compiled(*given), function(*host)
        pairs = zip(
            [*(found if isinstance(found, tuple) else [found]), *given],
            [*(wanted if isinstance(wanted, tuple) else [wanted]), *host],
            strict=True,
        )
        for one, other in pairs:
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-9)


def network(parameters, x, y):
    hidden = np.tanh(x @ parameters["weights"][0] + parameters["bias"])
    return np.mean((hidden @ parameters["weights"][1] - y) ** 2)


def test_parameters_in_dicts_and_lists(fake: FakeDriver) -> None:
    parameters = {"weights": [normal(3, 4), normal(4)], "bias": normal(4)}
    x, y = normal(6, 3), normal(6)
    compiled = jitcore.grad(network)
    found = compiled(*jitcore.to((parameters, x, y), "cuda"))
    wanted = compiled(parameters, x, y)
    assert isinstance(found["bias"], cuda.Array)
    for one, other in zip(
        [*found["weights"], found["bias"]], [*wanted["weights"], wanted["bias"]], strict=True
    ):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-9, atol=1e-12)


def test_training_steps_stay_on_the_device(fake: FakeDriver) -> None:
    gradient = jitcore.grad(error)

    @jitcore.script
    def step(w, x, y):
        w -= 0.1 * gradient(w, x, y)

    host = normal(4), normal(9, 4), normal(9)
    given = jitcore.to(deepcopy(host), "cuda")
    before = error(*host)
    for _ in range(4):
        step(*given)
        step(*host)
    np.testing.assert_allclose(given[0].numpy(), host[0], rtol=1e-9)
    assert error(*host) < before and is_native(step)
