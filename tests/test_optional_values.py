"""Variables and results that are sometimes None, compared with plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

import math
from typing import Any, NamedTuple

import numpy as np
import pytest

from checking import check
from jitcore import script
from jitcore.execution.plans import NativePlan


class Peak(NamedTuple):
    """A value and its place."""

    height: float
    place: int


class Root:
    """A number and how it was found."""

    def __init__(self, value, steps):
        self.value = value
        self.steps = steps

    def __eq__(self, other):
        return vars(self) == vars(other)


def first(x, level):
    for i in range(len(x)):
        if x[i] > level:
            return x[i], i
    return None


def last(x, level):
    found = None
    for i in range(len(x)):
        if x[i] > level:
            found = (x[i], i)
    return found


def least_above(x, level):
    best = None
    for i in range(len(x)):
        if x[i] > level and (best is None or best[0] > x[i]):
            best = x[i], i
    return best


def refined(x, level):
    found = first(x, level)
    if found is None:
        return -1.0
    return found[0] + found[1]


def refined_by_not(x, level):
    found = first(x, level)
    if not (found is None or level > 10):
        return found[1]
    return 0


def refined_by_and(x, level):
    one, two = first(x, level), first(-x, -level)
    if one is not None and two is not None and one[1] > two[1]:
        return one[1] - two[1]
    return None


def refined_by_raise(x, level):
    found = first(x, level)
    if found is None:
        raise ValueError("nothing is above")
    value, place = found
    return value * place


def refined_after_loop(x, level):
    place = None
    for i in range(len(x)):
        if x[i] > level:
            place = i
    if place is None:
        raise LookupError("nothing is above")
    return x[place:].sum()


def refined_by_truth(x, level):
    found = None
    for value in x:
        if value > level:
            found = value
    if found:
        return found * 2
    return found


def refined_by_class(x, level):
    found = 1 if level > 2 else 2.5
    for i in range(3):
        if x[0] > i:
            found = level
    if isinstance(found, int):
        return found // 2
    return found / 4


def refined_in_loop(x, level):
    low: Any = None
    high: Any = None
    for i in range(len(x)):
        if x[i] > level:
            if low is None:
                low = i
            high = i
    if low is None:
        return None
    return x[low : high + 1].sum(), low, high


def condition_of_loop(x, level):
    found, i = None, 0
    while found is None and i < len(x):
        if x[i] > level:
            found = x[i]
        i += 1
    return found, i


def not_refined(x, level):
    value, place = first(x, level)
    return value - place


def not_refined_after_write(x, level):
    place: Any = None
    for i in range(len(x)):
        if x[i] > level:
            place = i
    x[0] = 7.0
    return place + 1


def attribute_of_none(x, level):
    found: Any = None
    for i in range(len(x)):
        if x[i] > level:
            found = Peak(x[i], i)
    x[0] = 5.0
    return found.height


def both_ways(x, level):
    return first(x, level), first(x, 2 * level) is None


def arrays(x, level):
    if level > 3:
        return x * 2
    if level > 2:
        return x * 3, level
    return None


def array_in_loop(x, level):
    kept = None
    for i in range(len(x)):
        if x[i] > level:
            kept = x * i
    if kept is None:
        return x.copy()
    return kept


def argument_or_none(x, level):
    return x if level > 3 else None


def view_or_none(x, level):
    return x[1:] if level > 3 else None


def named(x, level):
    for i in range(len(x)):
        if x[i] > level:
            return Peak(x[i], i)
    return None


def bisected(x, level):
    low, high = 0.0, level
    if math.cos(low) * math.cos(high) > 0:
        return None
    steps = 0
    while high - low > 1e-9:
        steps += 1
        middle = (low + high) / 2
        if math.cos(middle) > 0:
            low = middle
        else:
            high = middle
    return Root(low, steps)


def nested(x, level):
    best = None
    for i in range(len(x)):
        inner = None
        for j in range(i):
            if x[j] * x[i] > level:
                inner = i, j
        if inner is not None and (best is None or inner[1] > best[0][1]):
            best = inner, x[i]
    return best


def partly_none(x, level):
    if level > 3:
        return 1, None
    if level > 2:
        return 2, level
    return None


def outside_of_loop(x, level):
    found = first(x, level)
    for i in range(int(level)):
        if found is None:
            raise ValueError("nothing")
        x[i % len(x)] += found[0]
    return found


PROGRAMS: list[Any] = [
    *(first, last, least_above, refined, refined_by_not, refined_by_and, refined_by_raise),
    *(refined_after_loop, refined_by_truth, refined_by_class, refined_in_loop, condition_of_loop),
    *(not_refined, not_refined_after_write, attribute_of_none, both_ways, arrays, array_in_loop),
    *(argument_or_none, named, bisected, nested, partly_none, outside_of_loop),
]


@pytest.mark.parametrize("level", [-1.0, 0.0, 2.0, 2.5, 3.0, 3.5, 9.0])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: str(one.__name__))
def test_like_python(program, level):
    check(program, np.array([0.0, 1.0, 3.0, 2.0, 4.0]), level)
    check(program, np.zeros(0), level)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda one: str(one.__name__))
def test_machine_code(program):
    compiled = script(program)
    compiled(np.arange(5.0), 3.5)
    (found,) = compiled.specializations
    assert isinstance(found.plan, NativePlan)


def test_views_are_python_s():
    for level in (1.0, 4.0):
        check(view_or_none, np.arange(5.0), level)


def test_identity():
    compiled, x = script(argument_or_none), np.arange(3.0)
    assert compiled(x, 4.0) is x
    assert compiled(x, 1.0) is None


def test_results_are_not_kept():
    """Only what is returned is made, and nothing of it stays behind."""
    compiled, x = script(arrays), np.arange(4.0)
    for _ in range(3):
        result = compiled(x, 3.5)
        assert result.base is None and result.flags.owndata
        result[:] = 0
        assert compiled(x, 1.0) is None
        pair = compiled(x, 2.5)
        assert type(pair) is tuple and np.array_equal(pair[0], x * 3)


def test_errors_end_with_the_line():
    compiled = script(not_refined_after_write)
    x = np.arange(4.0)
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        compiled(x, 10.0)
    assert x[0] == 7.0
    assert caught.traceback[-1].lineno == not_refined_after_write.__code__.co_firstlineno + 5


def more_axes(x, level):
    for _ in range(int(level) + 1):
        x = np.arctan(x[None]) - x
    return x.shape


def longer_tuples(x, level):
    found: Any = ()
    for i in range(int(level) + 1):
        if x[i % len(x)] < level:
            found = (*found, i)
    return found


def deeper_tuples(x, level):
    found: Any = level
    for i in range(int(level)):
        found = (found, i)
    return found


def deeper_tuples_for_nothing(x, level):
    found: Any = x[0]
    for i in range(int(level)):
        found = (found, i)
    return len(x)


@pytest.mark.parametrize(
    "program", [more_axes, longer_tuples, deeper_tuples, deeper_tuples_for_nothing]
)
def test_types_without_end(program):
    for level in (0.0, 2.0, 6.0):
        check(program, np.arange(4.0), level)


def ands_a_float(x, level):
    x[0] += 1
    below = x[0] - 0.5
    unused = level & 3  # noqa: F841
    return below


def beyond_a_text(x, level):
    x[0] += 1
    if level > 5:
        return "s"[3]
    return x[0]


@pytest.mark.parametrize("program", [ands_a_float, beyond_a_text])
def test_what_raises_is_kept(program):
    for level in (0.5, 7.5):
        check(program, np.arange(4.0), level)


def first_item(x, y):
    x[0] = y
    return x


@pytest.mark.parametrize("given", [(), (1,), (1, 1), (2,)])
def test_arrays_go_where_items_are(given):
    for x in (np.arange(3.0), np.ones((3, 2)), np.ones((2, 1))):
        check(first_item, x, np.full(given, 5.0))
