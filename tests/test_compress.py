# mypy: allow-untyped-defs, allow-untyped-calls
"""Elements under a mask, taken out vector by vector."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.kernels.selection import can_compress, symbol

DTYPES = "bool int8 uint16 float16 int32 float32 int64 float64 complex64 complex128".split()


def taken(x, mask):
    return x[mask]


def from_the_middle(x, mask):
    return x[5:][mask[5:]], x[:-3][mask[3:]]


def other_layouts(x, mask):
    return x[::-1][mask], x[::2][mask[1::2]], x[mask[::-1]]


def in_a_loop(x, mask):
    found = x
    flags = mask
    while len(found) > 3:
        found = found[flags]
        flags = flags[flags]
        flags[0] = False
    return found


def _arguments(dtype: str, shape: tuple[int, ...], density: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    return (rng.normal(size=shape) * 100).astype(dtype), rng.random(shape) < density


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 0.98, 1.0])
@pytest.mark.parametrize("shape", [(0,), (1,), (63,), (64,), (65,), (1000,), (30, 41), (3, 0)])
def test_every_size_and_density(dtype: str, density: float, shape: tuple[int, ...]) -> None:
    check(taken, *_arguments(dtype, shape, density))


@pytest.mark.parametrize("function", [from_the_middle, other_layouts])
def test_views(function: Callable[..., Any]) -> None:
    check(function, *_arguments("float64", (300,), 0.4))


def test_what_shrinks() -> None:
    check(in_a_loop, *_arguments("complex128", (2000,), 0.9))


@pytest.mark.parametrize("dtype", [one for one in DTYPES if one != "float16"])
def test_vectors_are_moved_where_the_processor_can(dtype: str) -> None:
    compiled = script(taken)
    compiled(*_arguments(dtype, (500,), 0.5))
    (kernel,) = compiled.kernels
    itemsize = np.dtype(dtype).itemsize
    assert (f"{symbol(itemsize)}(" in kernel.source) == can_compress(itemsize)
