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


def maxima_over_the_end(x):
    return F.max_pool2d(x, 3, 2, 1, ceil_mode=True)


def dilated_maxima_over_the_end(x):
    return F.max_pool2d(x, (2, 1), (1, 3), (1, 0), (2, 1), True)


def means_over_the_end(x):
    return F.avg_pool2d(x, (2, 3), (3, 2), (1, 0), ceil_mode=True)


def means_of_pixels_over_the_end(x):
    return F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False)


def mirrored(x):
    return F.pad(x, (1, 2, 0, 3), "reflect")


def stretched(x):
    return F.pad(x, (4, 0, 9, 1), "replicate")


def repeated(x):
    return F.pad(x, (3, 2, 4, 4), "circular")


def sampled(x):
    return F.grid_sample(x, x[:, :2].transpose(0, 2, 3, 1) * 0.7)


def nearest_reflected(x):
    return F.grid_sample(x, x[:, 1:3, ::2].transpose(0, 2, 3, 1), "nearest", "reflection", True)


FUNCTIONS = (
    *(transposed, transposed_with_gaps, means, maxima, doubled, nearly_kept, resized, cubic),
    *(maxima_over_the_end, dilated_maxima_over_the_end),
    *(means_over_the_end, means_of_pixels_over_the_end),
    *(mirrored, stretched, repeated, sampled, nearest_reflected),
)


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


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (dilated_maxima_over_the_end, (2, 4, 5, 0)),
        (mirrored, (2, 4, 3, 9)),
        (mirrored, (2, 4, 9, 2)),
        (stretched, (2, 4, 0, 5)),
        (repeated, (2, 4, 3, 5)),
        (repeated, (2, 4, 5, 2)),
        (sampled, (2, 4, 0, 5)),
    ],
)
def test_extents_that_are_too_small(function, shape):
    compiled = script(function)
    for length in LENGTHS:
        compiled(rng.standard_normal((2, 4, length, length + 1)).astype("f4"))
    x = np.ones(shape, np.float32)
    with pytest.raises(ValueError, match="pad|pool|grid_sample") as expected:
        function(x)
    with pytest.raises(ValueError, match=re.escape(str(expected.value))):
        compiled(x)


def test_grids_of_other_batches():
    @script
    def at(x, grid):
        return F.grid_sample(x, grid)

    for length in LENGTHS:
        x, grid = np.ones((length, 2, 5, length), "f4"), np.zeros((length, 3, 3, 2), "f4")
        np.testing.assert_array_equal(at(x, grid), np.ones((length, 2, 3, 3)))
    with pytest.raises(ValueError, match="a grid of shape .* has not a part for each image"):
        at(x, grid[1:])


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
