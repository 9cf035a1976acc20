# mypy: allow-untyped-defs, allow-untyped-calls
"""Numbers that are broadcast are operands as they are."""

from __future__ import annotations

import numpy as np
import pytest
from pass_checking import check_pass, check_unchanged, examples

from jitcore import script
from jitcore.ir.passes.spread_scalars import use_spread_scalars


def test_the_docstring_s_example():
    check_pass(use_spread_scalars, *examples(use_spread_scalars))


UNCHANGED = [
    # The result has the extents of what is broadcast alone.
    """
    graph(%x : Float64[1], %s : Float64, %k : int):
      %0 : Float64[n] = np::broadcast_to(%s, %k)
      %1 : Float64[n] = np::add(%x, %0)
      return (%1)
    """,
    # An array may be written to, after which the view shows something else.
    """
    graph(%x : Float64[n], %s : Float64[], %k : int):
      %0 : Float64[n] = np::broadcast_to(%s, %k)
      %1 : Float64[n] = np::add(%x, %0)
      return (%1)
    """,
]


@pytest.mark.parametrize("text", UNCHANGED)
def test_other_operands_stay(text):
    check_unchanged(use_spread_scalars, text)


def spread(x, s, t):
    y = np.broadcast_to(s, x.shape)
    z = y * t
    return x * y, z - y, np.sqrt(z * z) + x, np.where(x > y, z, y), z.sum()


def narrow(x, s):
    return np.broadcast_to(s, (3, 2)) + x


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("shape", [(7,), (3, 5), (0, 2), ()])
def test_same_as_numpy(dtype, shape):
    rng = np.random.default_rng()
    x = (rng.normal(size=shape) * 9).astype(dtype)
    s, t = dtype(rng.integers(1, 9)), dtype(rng.integers(1, 9))
    compiled = script(spread)
    for given in (np.ascontiguousarray(x), np.asfortranarray(x)) if x.ndim else (x,):
        for one, other in zip(compiled(given, s, t), spread(given, s, t), strict=True):
            assert (one.dtype, np.shape(one)) == (other.dtype, np.shape(other))
            assert type(one) is type(other)
            assert np.ndim(one) == 0 or one.strides == other.strides
            np.testing.assert_allclose(one, other, rtol=1e-6)


def test_arrays_that_are_stretched():
    x = np.random.default_rng().normal(size=(1, 2))
    np.testing.assert_array_equal(script(narrow)(x, np.float64(2)), narrow(x, np.float64(2)))
