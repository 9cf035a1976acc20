# mypy: allow-untyped-defs, allow-untyped-calls
"""Gradients with respect to lists, dicts and NamedTuples, which are what they are in Python."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
import pytest

import jitcore

X = np.random.default_rng(np.random.SeedSequence().entropy).normal(size=3)


class Pair(NamedTuple):
    w: Any
    b: Any


def asks_for_list(p):
    return np.sum(p[0]) if isinstance(p, list) and type(p[:1]) is list else 3 * np.sum(p[0])


def asks_for_dict(p):
    return np.sum(p["a"]) if isinstance(p, dict) else 3 * np.sum(p["a"])


def elements(p):
    total = np.sum(p[-1]) * len(p)
    for number, one in enumerate(p[:-1] + p[1:]):
        total = total + np.sum(one) * number
    return total + sum([np.sum(one) for one in tuple(p)])


def fields(p):
    return np.sum(p.w * p.b)


CALLS = [
    (asks_for_list, [X], [np.ones(3)]),
    (asks_for_dict, {"a": X}, {"a": np.ones(3)}),
    (elements, [X, X[:2], X * 2], [np.ones(3), np.full(2, 4.0), np.full(3, 7.0)]),
    (fields, Pair(X, 2.0), Pair(np.full(3, 2.0), float(np.sum(X)))),
]


def _assert_same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    for one, two in zip(found, expected, strict=True):
        assert type(one) is type(two)
        np.testing.assert_allclose(one, two)


@pytest.mark.parametrize(("function", "argument", "expected"), CALLS)
def test_containers_are_of_their_class(function: Any, argument: Any, expected: Any) -> None:
    gradient = jitcore.grad(function)
    for run in (gradient, gradient.__wrapped_function__):
        _assert_same(run(argument), expected)


def appends(p):
    p.append(p[0])
    return np.sum(p[1])


def stores(p):
    p[0] = p[0] * 2
    return np.sum(p[0])


def repeats(p):
    return np.sum((p * 2)[1])


def updates(p):
    p.update(b=p["a"] * 2)
    return np.sum(p["a"])


def passes_on(p):
    random.shuffle(p)
    return np.sum(p[0]) * len(p)


def gets(p):
    return np.sum(p.get("b", p["a"]))


REFUSALS = [
    (appends, [X], "'append' of a list in an argument"),
    (stores, [X], "'setitem' of a list in an argument"),
    (repeats, [X], "'mul' of a list in an argument"),
    (updates, {"a": X}, "goes to Python, which may change it"),
    (passes_on, [X], "goes to Python, which may change it"),
    (passes_on, [2.0], "goes to Python, which may change it"),
    (gets, {"a": X}, "goes to Python, which may change it"),
]


@pytest.mark.parametrize(("function", "argument", "message"), REFUSALS)
def test_what_is_not_understood_is_refused(function: Any, argument: Any, message: str) -> None:
    gradient = jitcore.grad(function)
    for run in (gradient, gradient.__wrapped_function__):
        with pytest.raises(jitcore.CompilationError, match=message):
            run(argument)
        assert len(argument) == 1


def no_such_key(p):
    return np.sum(p["c"])


def adds_tuple(p):
    return np.sum((p + (p[0],))[1])


@pytest.mark.parametrize(
    ("function", "argument", "error"),
    [(no_such_key, {"a": X}, KeyError), (adds_tuple, [X], TypeError)],
)
def test_exceptions_are_those_of_python(function: Any, argument: Any, error: Any) -> None:
    gradient = jitcore.grad(function)
    for run in (gradient, gradient.__wrapped_function__):
        with pytest.raises(error):
            run(argument)
