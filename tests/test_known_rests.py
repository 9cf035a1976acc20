# mypy: allow-untyped-defs, allow-untyped-calls
"""What known lengths leave beside whole blocks of vectors, in the shortest vector for that."""

from __future__ import annotations

import re

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.engine import vector_bits


def by_three(x):
    return x / 3.0


def to_unit_length(x):
    return x / np.sqrt(np.sum(x * x))


def rooted(x):
    return np.sqrt(np.abs(x) / 7.0)


def columns(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def numbers(dtype: str, shape: int | tuple[int, int]) -> np.ndarray:
    random = np.random.default_rng(0)
    x = random.standard_normal(shape) * 10.0 ** random.integers(-30, 30, shape)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("left", [1, 7, 8, 9, 16, 17, 31, 32, 33, 48, 63])
def test_all_bits_are_those_of_numpy(dtype: str, left: int) -> None:
    x = numbers(dtype, 320 + left)
    x[-1:] = np.inf
    for function in (by_three, rooted):
        check(function, x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [33, 40, 65, 72, 80, 96])
def test_rests_beside_sums(dtype: str, width: int) -> None:
    x = np.random.default_rng(1).standard_normal((20, width)).astype(dtype)
    check(columns, x, ulp=64)
    check(to_unit_length, x[0].copy(), ulp=16)


@pytest.mark.parametrize(("left", "lanes"), [(16, 16), (9, 16), (32, 32), (25, 32), (33, 64)])
def test_the_rest_has_the_shortest_vector(left: int, lanes: int) -> None:
    if vector_bits() != 512:
        pytest.skip("such loops are printed for processors with masks")
    compiled = script(by_three)
    compiled(numbers("float32", 640 + left))
    text = compiled.kernels[0].llvm
    masked = {int(one) for one in re.findall(r"call .*llvm\.masked\.store\.v(\d+)f32", text)}
    assert masked == ({lanes} if left != lanes else set())
    # Of the blocks, and of a rest that fills its vector.
    plain = {int(one) for one in re.findall(r"store <(\d+) x float>", text)}
    assert plain == ({64, lanes} if left == lanes else {64})
