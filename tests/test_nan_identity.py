"""NaNs in containers, which Python finds by their identity, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore import script

NAN = float("nan")
OTHER = float("nan")


def tuple_of_one(x, y):
    return (x,) == (x,), (x,) != (x,), (x, y) == (x, y)


def tuples_of_two(x, y):
    return (x, 1.0) == (y, 1.0), (x,) != (y,)


def member_of_tuple(x, y):
    return x in (y, 2.0), x not in (1.0, y), x in (x, y)


def captured_in_tuple(x, y):
    return x in (NAN, 2.0), (x, y) == (OTHER, NAN), x in (np.nan,)


def captured_in_list(x, y):
    return NAN in [x, y], OTHER not in [y], np.nan in [x]


def captured_in_argument(x, y):
    return NAN in x, OTHER in x, x.count(NAN)


def captured_in_rows(x, y):
    return NAN in x[0], (NAN, 1) in [(y, 1)], (NAN, 1) in [(OTHER, 1)]


def captured_twice(x, y):
    return (NAN,) == (NAN,), (NAN,) == (OTHER,), NAN in [OTHER]


def results(x, y):
    one, two = x * 2.0, y * 2.0
    return (one,) == (one,), (one,) == (two,), one in (two, 1.0)


def results_of_the_same(x, y):
    one, two = x * 2.0, x * 2.0
    return (one,) == (two,), (x - y,) == (x - y,), (math.sqrt(x),) == (math.sqrt(x),)


def elements(x, y):
    made = np.full(3, x)
    one, two = float(made[0]), float(made[1])
    three = float(made[0])
    return (
        (one,) == (two,),
        (one,) == (three,),
        (one,) == (one,),
        two in (three, 1.0),
        float(x) in (x,),
    )


def chosen(x, y):
    one = x * 2.0
    two = one if y > 0.0 or x != x else y
    return (one,) == (two,), two in (one, 3.0)


def after_a_write(x, y):
    made = np.zeros(3)
    made[0] = 1.0
    return (x,) == (y,), str(made.tolist())


PROGRAMS = [
    *(tuple_of_one, tuples_of_two, member_of_tuple, captured_in_tuple, captured_in_list),
    *(captured_twice, results, results_of_the_same, elements, chosen, after_a_write),
]


def agree(plain: Callable[..., Any], pairs: list[tuple[Any, Any]]) -> None:
    compiled = script(plain)
    for _ in range(2):
        for pair in pairs:
            assert compiled(*pair) == plain(*pair), pair


@pytest.mark.parametrize("plain", PROGRAMS)
def test_floats(plain: Callable[..., Any]) -> None:
    floats = [NAN, OTHER, np.nan, 1.0, 2.0]
    agree(plain, [(x, y) for x in floats for y in floats])


def test_complex_numbers() -> None:
    one, two = complex(NAN, 1.0), complex(1.0, NAN)
    agree(tuples_of_two, [(one, one), (one, two), (two, two), (1j, 1j)])
    agree(tuple_of_one, [(one, one), (one, two), (1j, 2j)])


def test_lists() -> None:
    lists = [[NAN, 1.0], [OTHER], [1.0, OTHER, NAN], [2.0]]
    agree(captured_in_argument, [(one, 1.0) for one in lists])
    agree(captured_in_rows, [([one, [3.0]], NAN) for one in lists])


def test_tuples_that_are_arguments() -> None:
    def plain(one, two):
        return one == two, one != two

    pairs = [((x, 1.0), (y, 1.0)) for x in (NAN, OTHER, 1.0) for y in (NAN, 1.0)]
    agree(plain, pairs)
