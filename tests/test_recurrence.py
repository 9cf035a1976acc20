"""Recurrent layers by their own kernel: sizes, layouts, and what only the definition takes."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jitcore import nn, optimize_for_inference, script, set_num_threads
from jitcore.nn import functional as F

GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}


def states_of(cell, reverse=False):
    """A function of the input's terms, the states to start from, the weights and the bias."""

    def lstm(projected, hidden, weight, bias):
        return F.lstm_states(projected, hidden, hidden * 0.5, weight, bias, reverse)

    def gru(projected, hidden, weight, bias):
        return F.gru_states(projected, hidden, weight, bias, reverse)

    def rnn(projected, hidden, weight, bias):
        return F.rnn_states(projected, hidden, weight, bias, cell, reverse)

    return {"lstm": lstm, "gru": gru}.get(cell, rnn)


def draw(*shape, dtype="f4", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def arguments(cell, sizes, dtype="f4"):
    steps, rows, width = sizes
    gates = GATES[cell] * width
    weight = draw(gates, width, dtype=dtype, seed=2) / max(width, 1) ** 0.5
    bias = draw(gates, dtype=dtype, seed=3)
    hidden = draw(rows, width, dtype=dtype, seed=1)
    return [draw(steps, rows, gates, dtype=dtype), hidden, weight.astype(dtype), bias]


def kernels(compiled, args):
    nodes = compiled.graph_for(*args).nodes()
    return [node for node in nodes if node.kind.endswith("_states")]


def check(cell, args, reverse=False, native=True):
    function = states_of(cell, reverse)
    compiled = script(function)
    found, expected = _arrays(compiled(*args)), _arrays(function(*args))
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape and one.flags.c_contiguous
        tolerance = 2e-5 if other.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(one, other, tolerance, tolerance)
    assert bool(kernels(compiled, args)) == native
    return found[0]


def _arrays(result):
    if isinstance(result, tuple):
        return [array for one in result for array in _arrays(one)]
    return [result]


SIZES = ((4, 1, 1), (5, 2, 5), (4, 13, 16), (6, 7, 33), (4, 25, 70))
"""Times, rows and widths: single tiles, parts of tiles, and several of both."""


@pytest.mark.parametrize("cell", GATES)
@pytest.mark.parametrize("sizes", SIZES)
def test_sizes(cell, sizes):
    for dtype in ("f4", "f8"):
        args = arguments(cell, sizes, dtype)
        check(cell, args)
        check(cell, [*args[:3], None], reverse=True)


@pytest.mark.parametrize("cell", GATES)
def test_layouts(cell):
    projected, hidden, weight, bias = arguments(cell, (5, 6, 10))
    batches = np.ascontiguousarray(projected.swapaxes(0, 1)).swapaxes(0, 1)
    backwards = projected[::-1, :, ::-1]
    wide = np.repeat(hidden, 2, axis=1)[:, ::2]
    for one in (batches, backwards, projected[1:, ::2]):
        rows = one.shape[1]
        check(cell, [one, hidden[:rows], weight, bias])
        check(cell, [one, wide[:rows], np.asfortranarray(weight), bias[::-1]], reverse=True)


@pytest.mark.parametrize("cell", GATES)
def test_special_numbers_stay_in_their_rows(cell):
    args = arguments(cell, (4, 8, 20))
    args[0][1, 2, ::7] = np.nan
    args[0][0, 5] = np.inf
    args[0][2, 6] = -np.inf
    with np.errstate(invalid="ignore"):
        check(cell, args)


@pytest.mark.parametrize("cell", GATES)
def test_no_rows(cell):
    assert check(cell, arguments(cell, (4, 0, 5))).shape == (4, 0, 5)


@pytest.mark.parametrize("cell", GATES)
def test_what_only_the_definition_takes(cell):
    projected, hidden, weight, bias = arguments(cell, (4, 4, 6))
    halves = [one.astype("f2") for one in (projected, hidden, weight, bias)]
    function, compiled = states_of(cell), script(states_of(cell))
    for found, expected in zip(_arrays(compiled(*halves)), _arrays(function(*halves)), strict=True):
        np.testing.assert_allclose(found, expected, 5e-3, 5e-3)
    assert not kernels(compiled, halves)
    compiled(projected, hidden, weight, bias)
    check(cell, [projected[0], hidden, weight, bias], native=False)
    check(cell, [projected[:3], hidden, weight, bias], native=False)
    for wrong in (projected[:, :2], projected[..., 1:]):
        with pytest.raises(ValueError, match="broadcast"):
            compiled(wrong, hidden, weight, bias)
    with pytest.raises(TypeError, match="linear: the input is float64 and weight is float32"):
        compiled(projected, hidden.astype("f8"), weight, bias)


@pytest.mark.parametrize("cell", GATES)
def test_one_kernel_for_many_extents(cell):
    layer = {"lstm": nn.LSTM, "gru": nn.GRU}.get(cell, nn.RNN)
    options = {"nonlinearity": cell} if layer is nn.RNN else {}
    module = layer(5, 12, batch_first=True, **options).eval()
    ready: Any = optimize_for_inference(script(module))
    for steps, rows in ((2, 3), (5, 4), (3, 9), (7, 2), (1, 6)):
        x = draw(rows, steps, 5)
        np.testing.assert_allclose(ready(x)[0], module(x)[0], 2e-5, 2e-5)
    assert len(ready.forward.specializations) < 5


def test_threads_change_nothing():
    args = arguments("lstm", (5, 30, 150))
    before = set_num_threads(1)
    try:
        alone = check("lstm", args)
        set_num_threads(4)
        np.testing.assert_array_equal(check("lstm", args), alone)
    finally:
        set_num_threads(before)


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers_see_new_weights(layer):
    module = layer(4, 6, 2, batch_first=True, bidirectional=True).eval()
    scripted, x = script(module), draw(3, 5, 4)
    for _ in range(2):
        for found, expected in zip(_arrays(scripted(x)), _arrays(module(x)), strict=True):
            np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
        for one in module.parameters():
            one *= -0.7
    ready = optimize_for_inference(scripted)
    for found, expected in zip(_arrays(ready(x)), _arrays(module(x)), strict=True):
        np.testing.assert_allclose(found, expected, 1e-5, 1e-6)
    packed = [node for node in ready.graph.nodes() if node.keywords == ("packed",)]
    assert sum(node.kind.endswith("_states") for node in packed) == 4
