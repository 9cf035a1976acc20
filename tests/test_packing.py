"""Weights in the panels that kernels read: the same numbers as NumPy's, and nothing beside them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.codegen.engine import library
from jitcore.codegen.kernels.packing import symbol
from jitcore.codegen.kernels.tiles import lanes_of
from jitcore.ir.ops.layer_kernels import pack
from jitcore.nn import functional as F

Array = np.ndarray[Any, np.dtype[Any]]


def packed(weight: Array, groups: int, vectors: int) -> Array:
    """What the kernel makes of weights; memory around the result must stay as it is."""
    name = symbol(weight.dtype.name, vectors)
    function = ctypes.CFUNCTYPE(
        None, *(ctypes.c_void_p, ctypes.c_int64) * 2, *(ctypes.c_int64,) * 4
    )(library(name).address(name))
    columns, channels = len(weight) // groups, weight.shape[1]
    taps = int(np.prod(weight.shape[2:]))
    width = vectors * lanes_of(weight.dtype.name).count
    shape = (groups, -(-columns // width), *weight.shape[2:], channels, width)
    memory = np.full(int(np.prod(shape)) + 2, np.nan, weight.dtype)
    function(weight.ctypes.data, 0, memory.ctypes.data, 1, groups, columns, channels, taps)
    assert np.isnan(memory[[0, -1]]).all()
    return memory[1:-1].reshape(shape)


SHAPES = (
    ((1, 1), 1),
    ((5, 3), 1),
    ((70, 33), 1),
    ((64, 16, 3, 3), 1),
    ((20, 7, 1, 5), 4),
    ((33, 2, 2, 3, 2), 3),
    ((130, 65, 3), 2),
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("shape", "groups"), SHAPES)
def test_panels(shape: tuple[int, ...], groups: int, dtype: str) -> None:
    weight = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    for vectors in lanes_of(dtype).tiles:
        width = vectors * lanes_of(dtype).count
        np.testing.assert_array_equal(packed(weight, groups, vectors), pack(weight, groups, width))


def test_weights_that_change_between_calls_are_seen() -> None:
    """They are packed at each call: nothing is kept that could be out of date."""
    weight = np.random.default_rng(1).standard_normal((20, 3, 3, 3)).astype(np.float32)
    x = np.random.default_rng(2).standard_normal((2, 3, 9, 8)).astype(np.float32)

    def convolved(x: Array) -> Array:
        return F.conv2d(x, weight, None, 1, 1)

    compiled = script(convolved)
    for _ in range(4):
        np.testing.assert_allclose(compiled(x), convolved(x), 1e-4, 1e-5)
        weight[3, 1] += 1
        weight[7:9].T[...] *= -1
