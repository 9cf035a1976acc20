# mypy: allow-untyped-defs, allow-untyped-calls
"""Elements under a mask, taken out and put back vector by vector."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.engine import compile_module, has_feature
from jitcore.codegen.kernels import selection
from jitcore.codegen.kernels.selection import compress_symbol, expand_symbol

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
def test_vectors_are_moved(dtype: str) -> None:
    compiled = script(taken)
    compiled(*_arguments(dtype, (500,), 0.5))
    (kernel,) = compiled.kernels
    assert f"{compress_symbol(np.dtype(dtype).itemsize)}(" in kernel.source


MOVES = [
    False,
    pytest.param(
        True, marks=pytest.mark.skipif(not has_feature("avx512vbmi2"), reason="no such lanes here")
    ),
]


@pytest.mark.parametrize("moves", MOVES)
@pytest.mark.parametrize("itemsize", selection.SIZES)
def test_with_and_without_lanes_that_move(
    itemsize: int, moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(selection, "_moves_lanes", lambda itemsize: moves)
    random = np.random.default_rng(itemsize)
    texts = selection._compress_text(itemsize), selection._expand_text(itemsize)
    modules = [compile_module(text, name=f"selection{k}") for k, text in enumerate(texts)]
    types = [ctypes.c_void_p, ctypes.c_int64] * 3 + [ctypes.c_int64] * 2
    take, put_back = (
        ctypes.CFUNCTYPE(None, *types[:count])(module.address(symbol(itemsize)))
        for count, module, symbol in zip(
            (8, 7), modules, (compress_symbol, expand_symbol), strict=True
        )
    )
    for length, density in product((0, 1, 63, 64, 200, 1999), (0, 0.01, 0.1, 0.5, 0.95, 1)):
        mask = random.random(length) < density
        source = random.integers(0, 256, (length, itemsize), dtype=np.uint8)
        count, room = int(mask.sum()), np.zeros((int(mask.sum()) + 9, itemsize), np.uint8)
        places = mask.ctypes.data, 0, source.ctypes.data, 0, room.ctypes.data, 3
        take(*places, length, count)
        np.testing.assert_array_equal(room[3 : count + 3], source[mask])
        assert not room[:3].any() and not room[count + 3 :].any()
        other, expected = source[::-1].copy(), source[::-1].copy()
        expected[mask] = source[mask]
        put_back(mask.ctypes.data, 0, room.ctypes.data, 3, other.ctypes.data, 0, length)
        np.testing.assert_array_equal(other, expected)


# Put back ---------------------------------------------------------------------------------


def put(x, mask, values):
    x[mask] = values


def put_computed(x, mask, values):
    x[mask] = values[::-1] + values
    return x


def put_changed(x, mask, values):
    x[mask] = np.sqrt(x[mask]) * 3
    x[x > 10] = np.cbrt(x[x > 10])
    return x


def put_rest(x, mask, values):
    x[~mask] = x[~mask][::-1]
    x[5:][mask[5:]] = x[:-5][mask[5:]].copy()
    return x


def put_reversed(x, mask, values):
    x[mask] = x[mask][::-1]
    x[::2][mask[::2]] = values[:1]
    x[~mask] = x[mask][::-1].max(initial=-1)


def put_sorted(x, mask, values):
    x[mask] = np.sort(values)[::-1]
    return x[mask]


def put_from_another(x, mask, values):
    y = x[::-1] * 2
    x[mask] = y[mask]
    x[mask & (x > 5)] = values[0]


def mask_changes(x, mask, values):
    flags = x > 0
    taken = np.sqrt(x[flags])
    flags[3] = not flags[3]
    try:
        x[flags] = taken
    except ValueError as error:
        return str(error)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("density", [0.02, 0.5, 1.0])
@pytest.mark.parametrize("shape", [(0,), (65,), (1000,), (30, 41)])
def test_put(dtype: str, density: float, shape: tuple[int, ...]) -> None:
    x, mask = _arguments(dtype, shape, density)
    values = x.ravel()[::-1][: mask.sum()].copy()
    check(put, x, mask, values)
    check(put, x, mask, values[::-1])
    check(put, x, mask, np.ones(1, dtype))


PUT = (
    put_computed,
    put_changed,
    put_rest,
    put_reversed,
    put_sorted,
    put_from_another,
    mask_changes,
)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("function", PUT)
def test_put_what_is_computed(function: Callable[..., Any], dtype: str) -> None:
    for length in (1, 40, 333, 5000):
        x, mask = _arguments(dtype, (length,), 0.5)
        check(function, np.abs(x), mask, x[mask], ulp=4)
        check(function, abs(x[::-1]), mask[::-1], x[mask], ulp=4)


def test_put_values_of_another_length() -> None:
    x, mask = _arguments("float64", (200,), 0.5)
    compiled = script(put)
    for extra in (0, -1, 1, 0):
        values = np.arange(float(mask.sum() + extra))
        check(put, x, mask, values)
        if extra:
            with pytest.raises(ValueError, match="NumPy boolean array indexing assignment"):
                compiled(x, mask, values)
        else:
            compiled(x, mask, values)
    check(put, x, np.zeros(200, bool), np.ones(2))


def test_a_mask_may_be_what_is_written() -> None:
    _, mask = _arguments("bool", (500,), 0.5)
    check(put, mask, mask, np.arange(mask.sum()) % 3 == 0)


@pytest.mark.parametrize("dtype", [one for one in DTYPES if one != "float16"])
def test_vectors_are_put(dtype: str) -> None:
    compiled = script(put)
    x, mask = _arguments(dtype, (500,), 0.5)
    compiled(x, mask, x[mask])
    (kernel,) = compiled.kernels
    assert f"{expand_symbol(np.dtype(dtype).itemsize)}(" in kernel.source


def test_a_mask_is_counted_once() -> None:
    def cube_roots(x):
        large = x > 10
        x[large] = np.cbrt(x[large])

    compiled = check(cube_roots, np.arange(100.0), ulp=4)
    (kernel,) = compiled.kernels
    assert compiled.graph_for(np.arange(100.0)).find_all_nodes("np::put_mask")
    assert f"{expand_symbol(8)}(" in kernel.source
    assert kernel.source.count("count: int64 = 0") == 1
    assert "count_3" not in kernel.source
