"""Groups for oneDNN whose functions leave the work to other kernels: no library is needed."""

# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from jitcore import nn, optimize_for_inference, script
from jitcore.codegen.onednn import functions, post_ops, switch
from jitcore.codegen.onednn import library as onednn_library
from jitcore.codegen.onednn.planner import Refused
from jitcore.codegen.runtime.threads import get_num_threads
from jitcore.fusers import onednn as fuser
from jitcore.ir.parser import parse_graph


class Library:
    """What a function asks of a library before it plans anything."""

    openmp: Any

    def __init__(self) -> None:
        self.openmp = self

    def omp_get_max_threads(self) -> int:
        return get_num_threads()


@pytest.fixture
def plan_by(monkeypatch) -> Callable[[BaseException], None]:
    """Have groups formed, and this raised where a plan would be made."""
    library = Library()
    monkeypatch.setattr(switch, "_enabled", True)
    monkeypatch.setattr(onednn_library, "find_library", lambda: "nowhere")
    monkeypatch.setattr(onednn_library, "load", lambda path: library)

    def plan(error: BaseException) -> None:
        def make_plan(*args):
            raise error

        monkeypatch.setattr(functions, "make_plan", make_plan)

    return plan


def array(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def has_group(compiled) -> bool:
    return "jc_onednn_" in compiled.kernels[-1].source


# Extents ----------------------------------------------------------------------------------


class Beside(nn.Module):
    """An array with one number for each channel is the first operand."""

    def __init__(self, function) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.channels = array(1, 8, 1, 1)
        self.function = function

    def forward(self, x):
        return self.function(self.channels, self.conv(x))


class BesideActivation(Beside):
    def forward(self, x):
        return self.function(self.channels, np.tanh(self.conv(x)))


@pytest.mark.parametrize("function", [np.minimum, np.subtract])
@pytest.mark.parametrize("layer", [Beside, BesideActivation])
def test_results_are_as_large_as_the_largest_operand(layer, function, plan_by) -> None:
    plan_by(Refused("no plan"))
    model = layer(function).eval()
    ready: Any = optimize_for_inference(script(model))
    for shape in ((2, 7, 5), (1, 3, 3), (3, 7, 6), (2, 4, 8), (2, 1, 1), (4, 8, 9)):
        x = array(shape[0], 3, *shape[1:])
        result, expected = ready(x), model(x)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)
        assert has_group(ready.forward)


def test_an_operand_with_the_extents_of_the_result() -> None:
    """Rows whose number the types of the operands do not have are added outside of the group."""
    graph = parse_graph(
        """
graph(%x : Float32[1, 4], %p : Float32[1, 1, 4, 16], %y : Float32[4]):
  %none : None = prim::Constant[value=None]()
  %a : Float32[1, 4] = nn::product[kernel=(), stride=(), padding=(), dilation=(), \
columns=4, low=-inf, high=inf](%x, %p, %none, %none)
  %b : Float32[s0, 4] = np::add(%a, %y)
  return (%b)
        """.strip()
    )
    assert fuser.fuse_onednn_groups(graph)
    assert [node.kind for node in graph.block.nodes][-1] == "np::add"


# Interrupts -------------------------------------------------------------------------------


def product_into(x, w, out):
    out[:] = x @ w


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a terminal: in the background of a shell interrupts are ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("error, terms", [(KeyboardInterrupt(), 65), (SystemExit(), 66)])
def test_an_interrupt_is_raised(error, terms, plan_by, monkeypatch) -> None:
    """Python drops exceptions that leave a callback, as one before its first instruction does."""
    plan_by(error)
    dropped: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: dropped.append(found.exc_value))
    compiled, x, w = script(product_into), array(64, terms), array(terms, 128)
    for _ in range(3):
        out = np.full((64, 128), 7, np.float32)
        with pytest.raises(KeyboardInterrupt):
            compiled(x, w, out)
        np.testing.assert_array_equal(out, 7)
    assert has_group(compiled)
    assert len(dropped) == (0 if isinstance(error, KeyboardInterrupt) else 3)
    plan_by(Refused("no plan"))
    compiled(x, w, out)
    np.testing.assert_allclose(out, x @ w, rtol=1e-4, atol=1e-4)


def test_a_fork_while_another_thread_makes_a_plan() -> None:
    has_lock = threading.Event()

    def plan():
        with functions._lock:
            has_lock.set()
            time.sleep(0.2)

    thread = threading.Thread(target=plan)
    thread.start()
    has_lock.wait()
    child = os.fork()
    if child == 0:
        os._exit(0 if functions._lock.acquire(timeout=5) else 1)
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert functions._lock.acquire(timeout=5)
    functions._lock.release()


# How large results may be -----------------------------------------------------------------


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


@pytest.mark.parametrize("size", [1e-3, 0.3, 0.9, 1.0, 2.0, 50.0])
def test_bounds_of_functions(size) -> None:
    x = np.linspace(-size, size, 401)
    results = {
        "tanh": np.tanh(x),
        "sigmoid": 1 / (1 + np.exp(-x)),
        "silu": x / (1 + np.exp(-x)),
        "hardswish": x * np.clip(x / 6 + 0.5, 0, 1),
        "hardsigmoid": np.clip(x / 6 + 0.5, 0, 1),
        "gelu_tanh": gelu_tanh(x),
        "mish": x * np.tanh(np.logaddexp(0, x)),
        "logsigmoid": -np.logaddexp(0, -x),
    }
    for name, result in results.items():
        _, bound = post_ops._FUNCTIONS[name]
        assert np.abs(result).max() <= bound(size, 0.0), name


@pytest.mark.parametrize("size", [1e-3, 0.3, 0.9, 1.0, 2.0, 50.0])
@pytest.mark.parametrize("number", [0.1, 1.0, 3.0])
def test_bounds_of_functions_with_numbers(size, number) -> None:
    x = np.linspace(-size, size, 401)
    results = {
        "leaky_relu": ({"slope": -number}, np.where(x > 0, x, -number * x)),
        "softplus": ({"beta": number, "threshold": 20.0}, np.logaddexp(0, number * x) / number),
        "elu": (
            {"scale": 1.5, "rate": number, "depth": 2.0},
            np.where(x > 0, 1.5 * x, 2.0 * np.expm1(number * np.minimum(x, 0))),
        ),
    }
    for name, (numbers, result) in results.items():
        found = size
        for change in post_ops._WITH_NUMBERS[name](numbers):
            found = change.bound(found, 0.0)
        assert np.abs(result).max() <= found * (1 + 1e-12), name
