# mypy: allow-untyped-defs, allow-untyped-calls
"""Stacks that are added up are no arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_checking import check_pass, examples

from checking import Tolerance, check, check_within
from jitcore import fusion_strategy, script
from jitcore.ir.passes.sunk_stacks import sink_stacks


def angular_momentum(m, r, v):
    return (m[:, None] * np.cross(r, v)).sum(axis=0)


def centre(m, r, v):
    return (np.stack((r[:, 1], m * v[:, 0]), axis=-1) ** 2 + v[0, :2]).mean(axis=0)


def twice(m, r, v):
    c = np.cross(r, v)
    return (c * c).sum(axis=0), c.sum(axis=0) / m.sum()


def with_itself(m, r, v):
    c = np.cross(r, v)
    d = c * 2.0 + m[:, None]
    return (d * c - np.abs(d)).sum(axis=0), np.where(c > d, c, d).mean(axis=0)


def also_a_result(m, r, v):
    c = np.cross(r, v)
    return c, c.sum(axis=0)


def written_meanwhile(m, r, v):
    pairs = np.stack((r[:, 0], m), axis=1)
    r[:, 0] = 0.0
    m *= 2.0
    return pairs.sum(axis=0), (pairs * m[:, None]).sum(axis=0)


def written_itself(m, r, v):
    c = np.stack((m, m, m), axis=1)
    d = c * 2.0
    d[1:] += r[1:]
    return d.sum(axis=0), c.sum(axis=1), c.max(axis=0)


def of_two(m, r, v):
    first, second = np.stack((m, r[:, 0]), axis=-1), np.stack((v[:, 1], m), axis=-1)
    product = first * second + first
    return product.sum(axis=0), (second - product).mean(axis=0), second.sum(axis=0)


def of_two_written(m, r, v):
    first, second = np.stack((m, r[:, 0]), axis=-1), np.stack((v[:, 1], m), axis=-1)
    v[:, 1] += 1.0
    return (np.stack((r[:, 1], m), axis=-1) * second).sum(axis=0), (first * 2.0).sum(axis=0)


@pytest.mark.parametrize("kind", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        angular_momentum,
        centre,
        twice,
        with_itself,
        of_two,
        of_two_written,
        also_a_result,
        written_meanwhile,
        written_itself,
    ],
)
def test_sums_of_stacks(function: Callable[..., Any], dtype: str, kind: str) -> None:
    with fusion_strategy([(kind, 9)]):
        for count in (2, 5, 300):
            random = np.random.default_rng(count)
            m, r, v = (random.normal(size=(count, *rest)) for rest in ((), (3,), (3,)))
            plain = m.astype(dtype), r.astype(dtype), v.astype(dtype)
            turned = plain[0][::-1], np.asfortranarray(plain[1]), plain[2]
            for args in (plain, turned):
                # NumPy adds up each column from its first element on.
                check_within(function, args, script, Tolerance(scale=9.0 * count))


def test_no_rows_and_special_values() -> None:
    check(angular_momentum, np.empty(0), np.empty((0, 3)), np.empty((0, 3)))
    r = np.full((4, 3), np.inf)
    with np.errstate(invalid="ignore"):
        check(angular_momentum, np.ones(4), r, np.ones((4, 3)))
    check(angular_momentum, np.ones(2), np.full((2, 3), -0.0), np.zeros((2, 3)))


@pytest.mark.parametrize(("function", "count"), [(angular_momentum, 3), (of_two, 2)])
def test_there_is_no_array(function: Callable[..., Any], count: int) -> None:
    m, r, v = np.ones(50), np.ones((50, 3)), np.ones((50, 3))
    graph = script(function).graph_for(m, r, v)
    joined = {str(node.output.type) for node in graph.find_all_nodes("np::concatenate")}
    assert joined == {f"Float64[{count}]"}


def test_the_example_of_the_pass() -> None:
    check_pass(sink_stacks, *examples(sink_stacks))
