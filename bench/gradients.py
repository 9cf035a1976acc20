"""Values and gradients of losses, beside JAX and PyTorch: ``python -m bench.gradients``.

Calls take turns, so that all of them see the same machine; a figure is the median of 15 rounds of
calls in microseconds.  JAX runs ``jit(value_and_grad(f))``, PyTorch builds its graph anew in each
call.  Results are compared before anything is timed.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import jitcore
from bench import losses
from bench.translated import copy_with

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None
try:
    import torch
except ImportError:
    torch = None

ROUNDS = 15
MIN_SECONDS = 0.02


def _array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def _classifier_arguments() -> list[Any]:
    labels = np.eye(10, dtype=np.float32)[np.arange(256) % 10]
    weights = [_array(64, 128) / 8, _array(128), _array(128, 10) / 8, _array(10)]
    return [*weights, _array(256, 64), labels]


LOSSES: list[tuple[str, tuple[int, ...], list[Any]]] = [
    ("classifier", (0, 1, 2, 3), _classifier_arguments()),
    ("pointwise", (0, 1), [_array(1000, 1000) for _ in range(4)]),
    ("pointwise", (0, 1), [_array(1000) for _ in range(4)]),
    ("recurrence", (0, 1, 2), [_array(32, 32) / 6, _array(32, 16) / 6, _array(32), _array(50, 16)]),
]
"""A loss, the numbers of the arguments that it is differentiated by, and the arguments."""


def _with_jax(name: str, numbers: tuple[int, ...], arguments: Sequence[Any]) -> Any:
    function = getattr(copy_with(losses, np=jnp), name)
    compiled = jax.jit(jax.value_and_grad(function, argnums=numbers))
    given = [jnp.asarray(one) for one in arguments]
    return lambda: jax.block_until_ready(compiled(*given))


def _with_torch(name: str, numbers: tuple[int, ...], arguments: Sequence[Any]) -> Any:
    function = getattr(copy_with(losses, np=torch), name)
    given = [torch.from_numpy(one) for one in arguments]
    wanted = [given[number].requires_grad_() for number in numbers]

    def call():
        value = function(*given)
        return value, torch.autograd.grad(value, wanted)

    return call


def _contestants(
    name: str, numbers: tuple[int, ...], arguments: Sequence[Any]
) -> dict[str, Callable[[], Any]]:
    compiled = jitcore.value_and_grad(getattr(losses, name), argnums=numbers)
    alone = jitcore.script(getattr(losses, name))
    found = {"jitcore": lambda: compiled(*arguments), "value alone": lambda: alone(*arguments)}
    if jax is not None:
        found["JAX"] = _with_jax(name, numbers, arguments)
    if torch is not None:
        found["PyTorch"] = _with_torch(name, numbers, arguments)
    return found


def _check(contestants: dict[str, Callable[[], Any]]) -> None:
    value, gradients = contestants["jitcore"]()
    for name in contestants.keys() - {"jitcore", "value alone"}:
        other, others = contestants[name]()
        for one, two in zip([value, *gradients], [other, *others], strict=True):
            expected = np.asarray(two.detach() if name == "PyTorch" else two)
            scale = max(float(np.abs(one).max()), 1e-30)
            np.testing.assert_allclose(one / scale, expected / scale, atol=2e-4)


def _seconds(call: Callable[[], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        call()
    return time.perf_counter() - start


def _times(contestants: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds a call, medians of turns.

    The first calls of a turn are not timed: the threads of the one before still wait for work then,
    each on a core of its own.
    """
    counts = {}
    for name, call in contestants.items():
        shortest = min(_seconds(call, 1) for _ in range(5))
        counts[name] = max(1, int(MIN_SECONDS / shortest))
    rounds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, call in contestants.items():
            _seconds(call, counts[name])
            rounds[name].append(_seconds(call, counts[name]) / counts[name] * 1e6)
    return {name: statistics.median(times) for name, times in rounds.items()}


def main() -> None:
    """Print a row for each loss."""
    for loss, numbers, arguments in LOSSES:
        contestants = _contestants(loss, numbers, arguments)
        _check(contestants)
        times = _times(contestants)
        own = times["jitcore"]
        texts = [f"{name} {found:.1f} ({found / own:.2f})" for name, found in times.items()]
        print(f"{loss} {arguments[0].shape}: {', '.join(texts)}")


if __name__ == "__main__":
    main()
