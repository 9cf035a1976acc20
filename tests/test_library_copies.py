"""Copies of arrays by the C library: which loops those are, and that nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.codegen.loop_passes.library_copies import copy_by_library
from jitcore.codegen.loop_passes.traversal import walk
from jitcore.codegen.loops import Do

Program = Callable[..., Any]


def copied(x: Any) -> Any:
    return x.copy()


def twice(x: Any) -> Any:
    return np.concatenate((x, x))


def without_ends(x: Any) -> Any:
    return x[1:-1].copy()


def written(x: Any) -> Any:
    y = np.empty_like(x)
    y[...] = x
    x[...] = 0
    return y


def onto_itself(x: Any) -> Any:
    x[1:] = x[:-1]
    return x


PROGRAMS = (copied, twice, without_ends, written, onto_itself)


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64", "complex128"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: one.__name__)
def test_values_are_those_of_numpy(program: Program, dtype: str) -> None:
    for size in (0, 1, 2, 100, 3000):
        x = np.random.default_rng(size).integers(-9, 9, size).astype(dtype)
        check(program, x)
        check(program, np.repeat(x, 2)[::2])


@pytest.mark.parametrize(("size", "is_medium"), [(64, False), (1000, True), (2**22, False)])
def test_copies_of_medium_size_are_calls(size: int, is_medium: bool) -> None:
    compiled = script(copied)
    compiled(np.zeros(size))
    function = copy_by_library(compiled.kernels[0].lowered.function)
    calls = [one.call.name for one in walk(function.body) if isinstance(one, Do)]
    assert ("memcpy" in calls) == is_medium


def test_what_overlaps_is_no_copy() -> None:
    compiled = script(onto_itself)
    compiled(np.zeros(1000))
    function = copy_by_library(compiled.kernels[0].lowered.function)
    calls = [one.call for one in walk(function.body) if isinstance(one, Do)]
    assert not any(one.name == "memcpy" and one.args[0] == one.args[1] for one in calls)
