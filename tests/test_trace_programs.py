"""Traces of random programs, and of the samples of every op, do what the plain functions do."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from op_samples import Sample, samples
from scipy import special

from checking import Tolerance, assert_same, check_within, function_from_source, outcome_of
from jitcore import Error, TracerWarning, TracingCheckError, trace
from jitcore.ir.interpreter import run
from jitcore.nn import functional
from opinfos import OPINFOS
from programs import random_program

PROGRAMS = 80
PER_TEST = 20

KINDS = sorted(kind for kind in OPINFOS if kind.startswith("np::"))
PER_KIND = 2

WITHOUT_ARRAYS = {"np::ndarray"}
"""Kinds none of whose samples give an array, as what a trace is made of has to."""


def traced_or_none(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """A trace without a check of its own; None where the function gives what no trace can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return trace(function, args, strict=False)
        except TracingCheckError:
            raise
        except Error:
            return None


@pytest.mark.parametrize("first", range(0, PROGRAMS, PER_TEST))
def test_random_programs(first: int) -> None:
    tried = 0
    for seed in range(first, first + PER_TEST):
        program = random_program(seed)
        function = function_from_source(program.source)
        if outcome_of(function, program.args).error is not None:
            continue
        traced = traced_or_none(function, program.args)
        if traced is None:
            continue
        tried += 1
        tolerance = Tolerance()
        if program.scale is not None:
            tolerance = Tolerance(64, 10 * program.scale, single=True)
        found = partial(_plain_form, traced)
        check_within(function, program.args, found, tolerance)
    assert tried > PER_TEST // 2


def _plain_form(traced: Any, function: Callable[..., Any]) -> Any:
    return traced.__wrapped__


def function_of(sample: Sample) -> Callable[..., Any]:
    return function_from_source(sample.source, F=functional, special=special)


def some_samples(kind: str) -> list[Sample]:
    """Some of those to which NumPy has an answer."""
    found = [
        sample
        for info in OPINFOS[kind]
        for sample in samples(info)
        if outcome_of(function_of(sample), sample.calls[0]).error is None
    ]
    return found[:: max(1, len(found) // PER_KIND)]


@pytest.mark.parametrize("kind", KINDS)
def test_operations(kind: str) -> None:
    tried = 0
    for sample in some_samples(kind):
        function, args = function_of(sample), sample.calls[0]
        expected = outcome_of(function, args)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", TracerWarning)
            traced = traced_or_none(function, args)
        if traced is None or any(one.category is TracerWarning for one in caught):
            continue
        tried += 1
        tolerance = Tolerance(sample.ulp, 1.0 if sample.reduction else None)
        found = outcome_of(lambda *given: run(traced._graph, given), args)
        assert_same(expected, found, tolerance, sample.source)
    assert bool(tried) == (kind not in WITHOUT_ARRAYS)
