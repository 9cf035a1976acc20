"""Programs that catch exceptions, compiled as a whole, beside plain Python."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import Tolerance, assert_same, outcome_of
from jitcore import script
from jitcore.execution.plans import NativePlan


def quotients(a, b):
    made, failed = [], 0
    for x, y in zip(a, b):  # noqa: B905
        try:
            made.append(x / y)
        except ZeroDivisionError:
            made.append(-1.0)
            failed += 1
    return made, failed


def remainders(a, b):
    total = 0
    for x, y in zip(a, b):  # noqa: B905
        try:
            total += int(x) // int(y)
            total += int(x) % int(y)
        except ArithmeticError:
            total -= 1
        else:
            total += 100
    return total


def variables_at_the_raise(a, b):
    state = 0.0
    for x, y in zip(a, b):  # noqa: B905
        step = 1.0
        try:
            step = 2.0
            state += x
            state = state + x / y
            step = 3.0
        except ZeroDivisionError:
            state += step
        state += 10.0 * step
    return state


def order_of_effects(a, b):
    seen = []
    for x, y in zip(a, b):  # noqa: B905
        try:
            seen.append(1.0)
            z = x / y
            seen.append(2.0)
            z = z + math.log(x)
            seen.append(z)
        except ZeroDivisionError:
            seen.append(-2.0)
        except ValueError:
            seen.append(-3.0)
    return seen


def past_the_end(a, b):
    values = np.array(a)
    made = 0.0
    for number in range(len(a)):
        try:
            made += values[number + 2] - values[number]
        except IndexError:
            made += 0.5 * values[number]
    return made


def past_the_end_of_a_list(a, b):
    made = 0.0
    for number in range(len(a)):
        try:
            made += a[number + 3] * b[-number - 2]
        except IndexError:
            made -= a[number]
    return made


def past_the_end_of_rows(a, b):
    rows = np.outer(np.array(a), np.array(b))
    made = 0.0
    for number in range(2 * len(a)):
        try:
            made += rows[number % 13, number]
        except IndexError:
            made -= 1.0
    return made


def past_the_end_by_numpy_s_numbers(a, b):
    values, places = np.array(a), np.arange(-15, 15, 2)
    made = 0.0
    for place in places:
        try:
            made += values[place]
        except IndexError:
            made -= 10.0
    return made


def raised_in_the_body(a, b):
    bad = 0
    for x in a:
        try:
            if x < 0.5:
                raise ValueError("small")
            if x > 0.9:
                raise KeyError(x)
            bad += 1
        except (KeyError, IndexError):
            bad += 100
        except ValueError:
            bad -= 1
    return bad


def one_inside_another(a, b):
    made = 0.0
    for x, y in zip(a, b):  # noqa: B905
        try:
            try:
                made += x / y
            except ValueError:
                made += 1000.0
            made += math.sqrt(x - 0.5)
        except ValueError:
            made += 1.0
        except ZeroDivisionError:
            made += 2.0
    return made


def handlers_that_fail(a, b):
    made = 0.0
    for x, y in zip(a, b):  # noqa: B905
        try:
            try:
                made += x / y
            except ZeroDivisionError:
                made += 1.0
                made += a[len(b)]
        except IndexError:
            made += 7.0
    return made


def at_last(a, b):
    count, made = 0, 0.0
    for x, y in zip(a, b):  # noqa: B905
        try:
            made += x / y
        except ZeroDivisionError:
            made += 3.0
        finally:
            count += 1
    return made, count


def at_last_inside(a, b):
    seen = []
    for number in range(len(a)):
        try:
            try:
                if number % 3 == 0:
                    raise ValueError("third")
                seen.append(a[number + 2] / b[number])
            finally:
                seen.append(-1.0)
        except (ValueError, ArithmeticError):
            seen.append(-2.0)
        except IndexError:
            seen.append(-3.0)
    return seen


def everything_inside(a, b):
    made = 0.0
    for number in range(len(a)):
        try:
            try:
                made += a[number + 2] / b[number]
            except IndexError:
                made += 1.0
            except:
                made += 2.0
                raise
        except ZeroDivisionError:
            made += 4.0
    return made


def exponentials(a, b):
    made = []
    for x in a:
        try:
            made.append(math.exp(x * 1000.0))
        except OverflowError:
            made.append(math.inf)
    return made


def domains(a, b):
    made = []
    for x in [*a, 0.0, -0.0, -1.0, math.inf, math.nan]:
        for kind in range(4):
            try:
                if kind == 0:
                    y = math.sqrt(x - 0.5)
                elif kind == 1:
                    y = math.log(x)
                elif kind == 2:
                    y = math.log2(x)
                else:
                    y = math.log10(x)
            except ValueError:
                y = -5.0
            if y == y:
                made.append(y)
    return made


def until_empty(a, b):
    stack = []
    for x in a:
        stack.append(x)
    total = 0.0
    while True:
        try:
            total += stack.pop()
        except IndexError:
            break
    return total


def continued(a, b):
    made = []
    for x, y in zip(a, b):  # noqa: B905
        try:
            z = x / y
        except ZeroDivisionError:
            continue
        if z > 4.0:
            break
        made.append(z)
    return made


def returned(a, b):
    for number, (x, y) in enumerate(zip(a, b)):  # noqa: B905
        try:
            if x / y > 9.0:
                return number, x
        except ZeroDivisionError:
            return -number, y
    return None


def caught_by_whom_it_calls(a, b):
    return sum([_safe(x, y) for x, y in zip(a, b)])  # noqa: B905


def _safe(x, y):
    try:
        return x / y
    except ZeroDivisionError:
        return 0.25


def passed_on(a, b):
    made = 0.0
    for x, y in zip(a, b):  # noqa: B905
        try:
            made += _checked(x, y)
        except ZeroDivisionError:
            made += 0.125
    return made


def _checked(x, y):
    if x > 0.99:
        raise ZeroDivisionError
    return x / y


def everything(a, b):
    made = 0.0
    for number in range(len(a) + 2):
        try:
            made += a[number] / b[number]
        except:  # noqa: E722
            made += 1.0
    return made


def written_arguments(a, b, out):
    for number in range(len(a) + 1):
        try:
            out[number] = a[number] / b[number]
        except ZeroDivisionError:
            out[number] = -1.0
        except IndexError:
            out[0] = 5.0


def written_and_caught_outside(a, b, out):
    try:
        for number in range(len(a) + 1):
            out[number] = a[number] / b[number]
    except ArithmeticError:
        out[-1] = 77.0


def scalars_of_numpy(a, b):
    x, y = np.array(a), np.array(b)
    made = 0.0
    with np.errstate(all="ignore"):
        for number in range(len(x)):
            try:
                made = max(made, min(x[number] / y[number], 5.0))
            except ZeroDivisionError:
                made = -1.0
    return made


class Gauge:
    def __init__(self, limit):
        self.limit = limit
        self.failed = 0
        self.last = 0.0

    def read(self, x, y):
        self.last = x
        try:
            self.last = x / y
            if self.last > self.limit:
                raise ValueError("too much")
            self.last += math.sqrt(self.last - 0.25)
        except ZeroDivisionError:
            self.failed += 1
        except ValueError:
            self.failed += 100
            return -1.0
        return self.last


def methods(a, b):
    gauge = Gauge(0.75)
    made = 0.0
    for x, y in zip(a, b):  # noqa: B905
        made += gauge.read(x, y)
        made += gauge.last
    return made, gauge.failed


NATIVE = [
    *(quotients, remainders, variables_at_the_raise, order_of_effects, past_the_end),
    *(past_the_end_of_a_list, past_the_end_of_rows, raised_in_the_body, one_inside_another),
    *(handlers_that_fail, at_last, exponentials, domains, until_empty, continued, returned),
    *(
        past_the_end_by_numpy_s_numbers,
        caught_by_whom_it_calls,
        everything,
        scalars_of_numpy,
        methods,
    ),
]


PYTHONS = [passed_on, at_last_inside, everything_inside, written_arguments]
PYTHONS += [written_and_caught_outside]


def numbers(seed: int, zeros: int) -> tuple[list[float], list[float]]:
    chance = random.Random(seed)
    a = [chance.random() for _ in range(12)]
    b = [float(chance.randrange(1, 5)) for _ in range(12)]
    for _ in range(zeros):
        b[chance.randrange(12)] = chance.choice((0.0, -0.0))
    return a, b


@pytest.mark.parametrize("plain", NATIVE, ids=lambda one: one.__name__)
def test_native_programs(plain: Callable[..., Any]) -> None:
    compiled = script(plain)
    for seed, zeros in enumerate((0, 1, 4, 12)):
        args = numbers(seed, zeros)
        expected, found = outcome_of(plain, args), outcome_of(compiled, args)
        assert_same(expected, found, Tolerance(ulp=4), f"seed {seed}")
    assert all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


@pytest.mark.parametrize("zeros", [0, 1, 5])
@pytest.mark.parametrize("plain", PYTHONS, ids=lambda one: one.__name__)
def test_programs_that_python_may_have_to_run(plain: Callable[..., Any], zeros: int) -> None:
    compiled = script(plain)
    for seed in range(4):
        a, b = numbers(seed, zeros)
        args = (a, b, np.full(12, 9.0)) if plain.__code__.co_argcount == 3 else (a, b)
        expected, found = outcome_of(plain, args), outcome_of(compiled, args)
        assert_same(expected, found, Tolerance(), f"seed {seed}")


def test_overflowing_ints_are_python_s() -> None:
    def plain(values, divisor):
        total = 1
        for value in values:
            try:
                total *= value // divisor
            except ZeroDivisionError:
                total += 1
        return total

    compiled = script(plain)
    for divisor in (1, 0, 3):
        values = [10**6 + 7] * 8
        assert compiled(values, divisor) == plain(values, divisor)


def test_last_clauses_after_a_return() -> None:
    def plain(values, limit):
        number = 0
        seen: list[int] = []
        while True:
            try:
                if values[number] > limit:
                    break
                number += 1
            except IndexError:
                return -number, seen
            finally:
                number += 1
                seen.append(number)
        return number, seen

    compiled = script(plain)
    for values in ([1.0, 3.0], [3.0], [], [1.0] * 5):
        assert compiled(values, 2.0) == plain(values, 2.0)
