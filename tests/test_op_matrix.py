"""The op matrix: every row of the op table, over dtypes and layouts, against plain NumPy."""

from __future__ import annotations

import pytest
from graph_checking import interpreted
from op_samples import Sample, samples
from sample_arrays import OVERLAPS, overlapping
from scipy import special

from checking import Tolerance, assert_same, check, function_from_source, outcome_of
from jitcore.ir.ops import TABLE
from jitcore.nn import functional
from jitcore.script import script
from opinfos import OPINFOS

KINDS = sorted(OPINFOS)


def test_every_row_of_the_table_has_samples() -> None:
    assert sorted(TABLE) == KINDS


def all_samples(kind: str) -> list[Sample]:
    return [sample for info in OPINFOS[kind] for sample in samples(info)]


def fail_with(failures: list[str], tried: int) -> None:
    if failures:
        shown = "\n".join(failures[:20])
        pytest.fail(f"{len(failures)} of {tried} samples differ\n{shown}", pytrace=False)


def described(sample: Sample, number: int, error: BaseException) -> str:
    name = "" if type(error) is AssertionError else f"{type(error).__name__}: "
    call = f", call {number}" if len(sample.calls) > 1 else ""
    return f"* {sample.label!r}{call}: {name}{error}"


@pytest.mark.parametrize("kind", KINDS)
def test_graphs_mean_what_numpy_means(kind: str) -> None:
    failures = []
    found = all_samples(kind)
    for sample in found:
        function = function_from_source(sample.source, F=functional, special=special)
        # The interpreter adds up as NumPy does, so only the largest arguments need the tolerance.
        tolerance = Tolerance(sample.ulp, 1.0 if sample.reduction else None)
        for number, args in enumerate(sample.calls):
            expected = outcome_of(function, args)
            try:
                for name, run in interpreted(function, args):
                    actual = outcome_of(run, args)
                    assert_same(expected, actual, tolerance, name, any_error=True)
            except Exception as error:
                failures.append(described(sample, number, error))
    fail_with(failures, len(found))


@pytest.mark.parametrize("kind", KINDS)
def test_compiled_code_does_what_numpy_does(kind: str) -> None:
    failures = []
    found = all_samples(kind)
    for sample in found:
        function = function_from_source(sample.source, F=functional, special=special)
        compiled = script(function)
        for number, args in enumerate(sample.calls):
            try:
                check(
                    function,
                    *args,
                    script=lambda _, compiled=compiled: compiled,
                    ulp=sample.ulp,
                    reduction=sample.reduction,
                )
            except Exception as error:
                failures.append(described(sample, number, error))
    fail_with(failures, len(found))


IN_PLACE = (
    "x[...] = y + 1",
    "x += y",
    "x[1:] = y[:-1]",
    "x[:] = y * 2 - x",
    "y -= x\nx *= y",
    "x[::2] = y[1::2]",
    "x[:, 0] = y[0]\nreturn x @ y",
    "z = x + y\nx[0] = 5\nreturn z, y",
    "for k in range(3):\n        x[k + 1] = x[k] + y[k]",
    "x[0, 0] = 7\nreturn y[0, 0], y.sum()",
)


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("body", IN_PLACE)
def test_arguments_that_overlap(body: str, overlap: str) -> None:
    lines = body.replace("\n    ", "\n").splitlines()
    source = "def f(x, y):\n" + "\n".join(f"    {line}" for line in lines) + "\n"
    function = function_from_source(source)
    for dtype in "ld":
        check(function, *overlapping(overlap, dtype), reduction=True)
