"""Arrays that begin between vectors are read and written element by element."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import numpy as np
import pytest
from cuda_machine import fake_machine
from test_cuda_programs import softmax

import jitcore

RNG = np.random.default_rng()


def squared(x):
    return x * x + 1


def turned(x):
    z = np.empty((x.shape[1], x.shape[0]), x.dtype)
    z[:] = x.T
    return z


def running(x):
    return np.cumsum(x, axis=1)


@pytest.mark.parametrize("first", [0, 1, 4])
@pytest.mark.parametrize("function", [squared, softmax, turned, running])
def test_parts_of_arrays_on_a_device(function, first):
    whole = RNG.integers(0, 4, (66, 304)).astype(np.float32)
    with fake_machine():
        # The simulator stops where a vector does not begin at a multiple of its size.
        part = jitcore.to(whole, "cuda")[1:, first:]
        found = jitcore.to(jitcore.script(function)(part), "cpu")
    np.testing.assert_allclose(found, function(whole[1:, first:]), rtol=1e-5)
