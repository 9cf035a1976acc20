"""Functions of layers whose images get other extents with every call."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import re

import numpy as np
import pytest

from jitcore import script
from jitcore.nn import functional as F
from jitcore.pipeline import NativePlan

rng = np.random.default_rng(5)
WEIGHT = rng.standard_normal((4, 3, 3, 3)).astype("f4")
LENGTHS = (6, 7, 5, 9, 4)


def transposed(x):
    return F.conv_transpose2d(x, WEIGHT, None, 2, 1, 1)


def transposed_with_gaps(x):
    return F.conv_transpose2d(x, WEIGHT[:, :, :1], None, (3, 2), 0, (2, 0), 1, (1, 2))


def means(x):
    return F.adaptive_avg_pool2d(x, (4, 3))


def maxima(x):
    return F.adaptive_max_pool2d(x, 3)


def doubled(x):
    return F.interpolate(x, scale_factor=2)


def nearly_kept(x):
    return F.interpolate(x, scale_factor=1.15, mode="bilinear")


def resized(x):
    return F.interpolate(x, size=(4, 9), mode="bilinear", align_corners=True)


def cubic(x):
    return F.interpolate(x, scale_factor=(0.5, 1.5), mode="bicubic")


FUNCTIONS = (transposed, transposed_with_gaps, means, maxima, doubled, nearly_kept, resized, cubic)


def is_compiled(compiled, x):
    """Whether a call is one native function, or one and Python's views of what it gives."""
    graph = compiled.graph_for(x)
    if isinstance(compiled.specializations[-1].plan, NativePlan):
        return True
    kinds = [node.kind for node in graph.block.nodes]
    return not any(one.startswith("nn::") or one in ("np::call", "prim::Loop") for one in kinds)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_no_extent_falls_to_numpy(function):
    compiled = script(function)
    for number, length in enumerate(LENGTHS):
        x = rng.standard_normal((1 + number % 3, 4, length, length + 2)).astype("f4")
        found, expected = compiled(x), function(x)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, 1e-5, 1e-5)
        assert not np.shares_memory(found, x)
        assert is_compiled(compiled, x)


@pytest.mark.parametrize("function", [means, maxima, doubled, resized])
def test_images_without_pixels(function):
    compiled = script(function)
    for length in LENGTHS:
        compiled(rng.standard_normal((2, 4, length, length + 1)).astype("f4"))
    x = np.ones((2, 4, 0, 3), np.float32)
    with pytest.raises(ValueError, match=r"interpolate|adaptive") as expected:
        function(x)
    with pytest.raises(ValueError, match=re.escape(str(expected.value))):
        compiled(x)


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_an_image_of_the_same_extents_is_a_new_one(mode):
    x = rng.standard_normal((2, 4, 4, 9)).astype("f4")
    for found in (
        F.interpolate(x, size=(4, 9), mode=mode),
        script(resized)(x),
        F.adaptive_avg_pool2d(x, (4, 9)),
    ):
        assert not np.shares_memory(found, x)
        np.testing.assert_array_equal(found, x)
