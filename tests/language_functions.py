"""Programs about functions: calls, parameters, closures, globals, markers."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import functools
import math
import operator
import warnings

import numpy as np
from language_checking import Table

import jitcore

X = np.linspace(-1.0, 2.0, 7)
FACTOR = 3
TABLE = np.array([1.0, 2.0, 4.0])
NAMES = ["a", "b"]
OPTIONS = {"rate": 0.5, "steps": 3}
COUNTER = [0]


def helper(x, k=2, *, offset=0):
    """Doubled, or so."""
    return x * k + offset


@jitcore.script
def scripted_helper(x, k=2):
    return x * k


def variadic(first, *rest, scale=1):
    total = first
    for one in rest:
        total = total + one
    return total * scale


def keyworded(x, **options):
    return x * options.get("k", 1), sorted(options)


def two_results(x):
    return x + 1, x - 1


def mutates(values, x):
    values.append(len(values))
    x[0] = 99.0


def pass_through(value):
    return value


def warns_its_caller(x, k):
    if k > 1:
        warnings.warn(f"{k} is large", DeprecationWarning, stacklevel=2)
    return x * k


def calls(x):
    return helper(x), helper(x, 3), helper(k=4, x=x, offset=1), scripted_helper(x, k=5)


def calls_with_bad_arguments(kind, x):
    if kind == 0:
        return helper()
    if kind == 1:
        return helper(x, 1, 2)
    if kind == 2:
        return helper(x, q=1)
    if kind == 3:
        return helper(x, x=1)
    return helper(x)


def calls_variadic(x):
    return variadic(x), variadic(x, 1, 2), variadic(1, 2, scale=3), variadic(*(1, 2), 3)


def calls_with_keywords(x):
    return keyworded(x, k=2), keyworded(x)


def calls_with_unpacked_arguments(args, options):
    return helper(*args, **options), np.clip(*args, 0, 1), max(*args)


def several_results(x):
    up, down = two_results(x)
    return up * down, two_results(down)[0]


def aliases_through_calls(values, x):
    mutates(values, x)
    same = pass_through(values)
    same.append("end")
    return same, same is values, pass_through(x) is x


def parameters(a, /, b, *rest, c=3, **more):
    return a, b, rest, c, more


def own_variadic(*xs):
    total = 0
    for x in xs:
        total = total + x
    return total, len(xs), xs


def assignments_in_defaults(x):
    g = lambda y, z=(c := 2): y + z

    def h(y, *, k=(w := x)):
        return y + k

    return g(x), c, h(x), w


def own_keyword_only(x, *, k, m=2):
    return x * k * m


def mutable_default(x, seen=[]):
    return x, len(seen)


def closures_read(x):
    k = 3

    def inner(y, m=2):
        return y * k * m

    add = lambda a, b: a + b
    return inner(x), inner(x, m=5), add(inner(x, 1), k), (lambda q: q - 1)(k)


def closure_sees_changes(n):
    total = 0

    def show():
        return total * 10

    for i in range(n):
        total += i
    return show()


def closure_mutates(n):
    log = []

    def note(k):
        log.append(k)

    for i in range(n):
        note(i * 2)
    return log


def closure_passed_on(values):
    k = 10
    return sorted(values, key=lambda v: (v - k) ** 2), list(map(lambda v: v + k, values))


def closure_escapes(k):
    def inner(y):
        return y * k

    return inner


def closure_chosen(x, flag):
    if flag:
        f = lambda v: v * 2
    else:
        f = lambda v: v * 3
    return f(x)


def function_argument(f, x):
    return f(x) + f(x * 2)


def function_from_table(name, x):
    table = {"sin": np.sin, "helper": helper}
    return table[name](x)


def function_in_variable(x, flag):
    f = np.maximum if flag else np.minimum
    return f(x, 0.5)


def partials(x):
    f = functools.partial(helper, k=5)
    return f(x), functools.reduce(operator.add, [1, 2, 3])


def globals_read(x):
    return x * FACTOR, TABLE * 2, len(NAMES), OPTIONS["rate"], NAMES[0]


def global_mutated(n):
    COUNTER.append(n)
    del COUNTER[1:]
    COUNTER[0] = 0
    return len(COUNTER)


def missing_global(x):
    if x > 0:
        return not_defined_anywhere
    return x


def imports_inside(x):
    import math as m
    import os.path
    from math import pi

    import numpy.linalg

    if x[0] > 100:
        from collections import OrderedDict

        return OrderedDict(x=1)
    return x * m.sin(0.0) + pi, os.path.join("a", "b"), numpy.linalg.norm(x * 0)


def import_that_fails(x):
    try:
        import there_is_no_such_module as fast
    except ImportError:
        fast = None
    return x if fast is None else fast


def import_of_a_missing_name(x):
    from math import no_such_function

    return no_such_function(x)


def native_with_import(x):
    from math import sqrt

    import numpy as numeric

    total = sqrt(4.0)
    for v in x:
        total += numeric.float64(v) * 2
    return total


def random_walk(rng, n):
    place = 0.0
    for _ in range(n):
        place += rng.normal(0.0, 0.5) if rng.random() < 0.9 else rng.choice([-3.0, 3.0])
    return place, rng.permutation(n), rng.integers(5)


def random_counts(rng, n):
    total = 0
    for _ in range(n):
        total += rng.binomial(9, 0.5) + rng.integers(3)
    return total


def math_functions(a):
    return (
        math.floor(a),
        math.ceil(a),
        math.trunc(a),
        math.sqrt(a),
        math.fabs(a),
        math.isnan(a),
        math.isinf(a),
        math.isfinite(a),
        math.copysign(a, -1.0),
        math.fmod(a, 2.0),
        math.modf(a),
        math.frexp(a),
        math.ldexp(a, 2),
        math.gcd(12, 18),
        math.lcm(4, 6),
        math.factorial(5),
        math.comb(5, 2),
        math.perm(5, 2),
        math.remainder(a, 2.0),
        math.hypot(3.0, 4.0),
        math.degrees(0.0),
        math.radians(0.0),
        math.pi,
        math.e,
        math.inf,
        math.tau,
        math.isclose(a, a),
        math.prod([1, 2, 3]),
        math.dist((0.0, 0.0), (3.0, 4.0)),
        math.fsum([0.1] * 10),
    )


def math_errors(a):
    return math.sqrt(a)


RECORDS = np.array([(1, 2.5, True), (7, -1, False)] * 3, [("n", "i4"), ("x", "f8"), ("on", "?")])


def moves_records(records, step):
    total = 0.0
    for one in records:
        if one["on"]:
            one["x"] += step * one["n"]
        total += one["x"]
    records["n"] *= 2
    return total, records["x"] - records[0]["x"]


def sorts_records(records):
    return np.sort(records, order="x"), records[1]


def attributes_of_objects(x):
    return x.shape, x.ndim, x.size, x.dtype, x.T.shape, x.itemsize, x.flags.c_contiguous


def has_and_get_attributes(x, name):
    return hasattr(x, "shape"), hasattr(x, "nope"), getattr(x, "ndim"), getattr(x, name, "none")


@jitcore.ignore
def ignored(x):
    try:
        return float(x.sum())
    except AttributeError:
        return -1.0


@jitcore.unused
def unused(x):
    yield x


@jitcore.export
def exported(x):
    return x * 4


def calls_ignored(x):
    y = x * 2
    return ignored(y) + 1, ignored("text")


def calls_unused(x, flag):
    if flag:
        return unused(x)
    return x


def calls_exported(x):
    return exported(x)


def helper_of_nobody(x):
    return x + 1


def calls_helper_of_nobody(x):
    return helper_of_nobody(x)


def decorated(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) + 1

    return wrapper


@decorated
def wrapped(x):
    return x * 2


def calls_wrapped(x):
    return wrapped(x)


@functools.lru_cache
def cached(n):
    return n * n


def calls_cached(n):
    return cached(n) + cached(n)


PROGRAMS: Table = {
    "calls of functions": [
        (calls, [(X,), (3,)]),
        (several_results, [(X,)]),
        (assignments_in_defaults, [(X,), (3,)]),
        (calls_with_bad_arguments, [(0, X), (1, X), (2, X), (3, X), (4, X)]),
        (calls_wrapped, [(X,)]),
        (calls_cached, [(4,)]),
    ],
    "aliases through calls": [(aliases_through_calls, [([1], X)])],
    "`*args`": [
        (calls_variadic, [(2,)]),
        (own_variadic, [(), (1, 2), (X, X)]),
    ],
    "`**kwargs`, unpacked arguments": [
        (calls_with_keywords, [(2,)]),
        (calls_with_unpacked_arguments, [((1, 2), {"offset": 3}), ([1, 2], {})]),
        (parameters, [(1, 2), (1, 2, 3, 4)]),
    ],
    "defaults": [
        (mutable_default, [(3,)]),
    ],
    "nested functions and lambdas": [
        (closures_read, [(X,), (2,)]),
        (closure_sees_changes, [(4,)]),
        (closure_mutates, [(3,)]),
        (closure_chosen, [(X, True), (X, False)]),
    ],
    "functions as arguments of Python's": [(closure_passed_on, [([5, 12, 9],)])],
    "functions as values": [
        (function_argument, [(np.sin, np.zeros(2)), (helper, X), (abs, -3)]),
        (function_from_table, [("helper", X), ("zz", X)]),
        (function_in_variable, [(X, True), (X, False)]),
        (partials, [(X,)]),
    ],
    "globals": [
        (globals_read, [(X,)]),
        (global_mutated, [(4,)]),
        (missing_global, [(0,), (1,)]),
    ],
    "`warnings.warn`": [(warns_its_caller, [(X, 1), (X, 2)])],
    "`import` in a function": [
        (imports_inside, [(X,)]),
        (import_that_fails, [(X,)]),
        (import_of_a_missing_name, [(X,)]),
        (native_with_import, [(X,)]),
    ],
    "`math`": [
        (math_functions, [(2.5,), (0.25,)]),
        (math_errors, [(-1.0,), (4.0,)]),
    ],
    "random numbers": [
        (random_walk, [(np.random.default_rng(1), 9)]),
        (random_counts, [(np.random.default_rng(1), 9)]),
    ],
    "`hasattr`, `getattr`": [(has_and_get_attributes, [(X, "size"), (X, "zz")])],
    "attributes of arrays": [(attributes_of_objects, [(X,), (np.zeros((2, 3), "f4"),)])],
    "structured arrays": [
        (moves_records, [(RECORDS, 0.5), (RECORDS[::2], 2)]),
        (sorts_records, [(RECORDS,)]),
    ],
    "`ignore`": [(calls_ignored, [(X,)])],
    "`unused`": [(calls_unused, [(X, False)])],
    "`export`": [(calls_exported, [(X,)])],
}
