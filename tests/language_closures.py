"""Programs in which functions share variables: closures, ``nonlocal``, ``global``."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import contextlib
import functools

import numpy as np
from language_checking import Table

import jitcore

LEVEL = 1


def level():
    return LEVEL


def raise_level(by=1):
    global LEVEL
    LEVEL += by


@jitcore.ignore
def raise_level_in_python():
    global LEVEL
    LEVEL += 5


def sums(n):
    total = 0

    def add(d=1):
        nonlocal total
        total += d
        return total

    for i in range(n):
        add(i)
    return total, add(), total


def counters(n):
    def counter():
        count = 0

        def step():
            nonlocal count
            count += 1
            return count

        return step

    a, b = counter(), counter()
    return a(), a(), b(), a(), n


def unbound_for_a_while(n):
    def give():
        nonlocal x
        x = n

    def read():
        return x

    for look in (read, lambda: x):
        try:
            look()
        except NameError as error:
            print(type(error).__name__, error)
    try:
        print(x)
    except UnboundLocalError as error:
        print(error)
    give()
    found = read(), x
    del x
    with contextlib.suppress(NameError):
        read()
    x = 7
    return found, read()


def through_two_functions(n):
    total = 0

    def outer():
        def inner():
            nonlocal total
            total += n

        inner()
        inner()
        return total

    return outer(), total, outer()


def a_parameter(n):
    def down():
        nonlocal n
        n -= 1

    down()
    down()
    return n


def deleted_inside(n):
    x = n

    def drop():
        nonlocal x
        del x

    drop()
    return x


def until_it_raises(n):
    last = None

    def visit(i):
        nonlocal last
        last = i
        if i == 3:
            raise ValueError("three")

    try:
        for i in range(n):
            visit(i)
    except ValueError as error:
        return last, str(error)
    return last


def _accumulator(start):
    total = start

    def add(d):
        nonlocal total
        total += d
        return total

    return add


ADD = _accumulator(10)


def variable_of_another_function(d):
    first = ADD(d)
    return first, ADD(-d)


def loop_variables(n):
    late, fixed = [], []
    for i in range(n):
        late.append(lambda: i)
        fixed.append(lambda i=i: i)
    shared = [lambda: j for j in range(n)]
    return [f() for f in late], [f() for f in fixed], [f() for f in shared]


def changes_are_seen(n):
    x = 1
    read = lambda: x
    before = read()
    x = 2
    kept = [read]
    x += n
    return before, kept[0]()


def generator_that_waits(n):
    x = 1
    values = (x * i for i in range(n))
    x = 10
    return list(values)


def defined_before_its_variable(n):
    def scaled():
        return later * n

    functions = [scaled, lambda: later]
    later = 5
    return scaled(), [f() for f in functions]


def perhaps_without_a_value(n):
    if n:
        y = 1

    def read():
        return y

    return read()


def perhaps_without_a_value_in_map(n):
    if n:
        y = 1
    return list(map(lambda v: v + y, [1, 2]))


def shadowed_by_a_comprehension(n):
    i = 50
    inner = [lambda: i for i in range(n)]
    outer = lambda: i
    i = 60
    return [f() for f in inner], outer(), i


def targets_of_all_kinds(n):
    read = lambda: v
    with contextlib.nullcontext(n) as v:
        seen = [read()]
    for v in (1, 2):
        seen.append(read())
    if (v := n * 2) > 0:
        seen.append(read())
    try:
        n / 0
    except ZeroDivisionError as v:  # noqa: F841
        seen.append(str(read()))
    try:
        read()
    except NameError as error:
        seen.append(str(error))
    return seen


def traced(n):
    log = []

    def trace(f):
        @functools.wraps(f)
        def wrapper(*args):
            log.append((f.__name__, args))
            return f(*args)

        return wrapper

    @trace
    def times(v):
        return v * n

    return times(2) + times(3), log


def assigns_a_global(n):
    global LEVEL
    before = LEVEL
    LEVEL = n
    seen = before, LEVEL, level()
    LEVEL = before
    return seen


def calls_what_assigns_a_global(n):
    before = LEVEL
    raise_level()
    once = LEVEL
    for _ in range(n):
        raise_level()
    raise_level_in_python()
    seen = before, once, LEVEL, level()
    raise_level(before - LEVEL)
    return seen, LEVEL


def calls_python_that_assigns_a_global(n):
    before = LEVEL
    raise_level_in_python()
    return LEVEL - before + n


def makes_a_global(n):
    global NOT_DEFINED_YET
    try:
        print(NOT_DEFINED_YET)
    except NameError as error:
        print(error)
    for NOT_DEFINED_YET in range(n):
        pass
    seen = NOT_DEFINED_YET
    del NOT_DEFINED_YET
    try:
        del NOT_DEFINED_YET
    except NameError as error:
        print(error)
    return seen


def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)


def is_even(n):
    return True if n == 0 else is_odd(n - 1)


def is_odd(n):
    return False if n == 0 else is_even(n - 1)


def fourier(x):
    n = len(x)
    if n <= 1:
        return x
    even, odd = fourier(x[::2]), fourier(x[1::2])
    # Rounded, for the comparison is of bits and `exp` may differ in its last one.
    turned = np.round(np.exp(-2j * np.pi * np.arange(n // 2) / n), 12) * odd
    return np.concatenate([even + turned, even - turned])


def of_fourier(x):
    return np.abs(fourier(x)).sum()


def hanoi(n, source="a", over="b", target="c"):
    if n == 0:
        return []
    first = hanoi(n - 1, source, target, over)
    return [*first, (source, target), *hanoi(n - 1, over=source, source=over, target=target)]


def growing(*values):
    return values if len(values) > 4 else growing(*values, 1)


def recursion_inside(g):
    def fill(i, j):
        if not (0 <= i < g.shape[0] and 0 <= j < g.shape[1]) or g[i, j]:
            return 0
        g[i, j] = 1
        return 1 + fill(i + 1, j) + fill(i - 1, j) + fill(i, j + 1) + fill(i, j - 1)

    return fill(1, 1), g


def recursion_of_two(n):
    def is_even(k):
        return True if k == 0 else is_odd(k - 1)

    def is_odd(k):
        return False if k == 0 else is_even(k - 1)

    return is_even(n), is_odd(n)


def wrong_recursion(n):
    return wrong_recursion()


def _countdown(n):
    yield n
    if n:
        yield from _countdown(n - 1)


def of_a_generator(n):
    return list(_countdown(n)), sum(_countdown(n)), [v + 1 for v in _countdown(n)]


class _Range:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i * i


def of_an_iterable_object(n):
    return [v + 1 for v in _Range(n)], max(_Range(n), default=None)


PROGRAMS: Table = {
    "recursion": [
        (factorial, [(1,), (5,), (30,)]),
        (is_even, [(4,), (7,)]),
        (fourier, [(np.arange(8.0),), (np.ones(1),)]),
        (of_fourier, [(np.arange(8.0),)]),
        (hanoi, [(3,)]),
        (growing, [(1,), (1, 2, 3, 4, 5)]),
        (recursion_inside, [(np.zeros((4, 4)),)]),
        (recursion_of_two, [(6,), (3,)]),
        (wrong_recursion, [(1,)]),
    ],
    "generator functions": [
        (of_a_generator, [(4,), (0,)]),
        (of_an_iterable_object, [(4,), (0,)]),
    ],
    "`nonlocal`": [
        (sums, [(5,), (0,)]),
        (counters, [(1,)]),
        (unbound_for_a_while, [(3,)]),
        (through_two_functions, [(3,), (np.arange(2.0),)]),
        (a_parameter, [(3,)]),
        (deleted_inside, [(3,)]),
        (until_it_raises, [(2,), (5,)]),
        (variable_of_another_function, [(2,)]),
    ],
    "functions that see changes": [
        (loop_variables, [(3,), (0,)]),
        (changes_are_seen, [(3,)]),
        (generator_that_waits, [(3,)]),
        (defined_before_its_variable, [(3,)]),
        (perhaps_without_a_value, [(0,), (1,)]),
        (perhaps_without_a_value_in_map, [(0,), (1,)]),
        (shadowed_by_a_comprehension, [(3,)]),
        (targets_of_all_kinds, [(3,)]),
        (traced, [(4,)]),
    ],
    "`global`": [
        (assigns_a_global, [(3,)]),
        (calls_what_assigns_a_global, [(2,), (0,)]),
        (calls_python_that_assigns_a_global, [(2,)]),
        (makes_a_global, [(3,)]),
    ],
}
