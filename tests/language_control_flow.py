"""Programs about branches, loops, exceptions and contexts."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import collections
import contextlib

import numpy as np
from language_checking import Table

import jitcore

X = np.linspace(-1.0, 2.0, 7)
DEBUG = False


def branches(a):
    if a > 3:
        b = 1
    elif a > 1:
        b = 2
    else:
        b = 3
    return b


def branch_leaves_a_name_unbound(a):
    if a > 1:
        b = 2
    return b


def conditional_expressions(a, x):
    y = x if a else -x
    return y, 1 if a > 2 else 2.0, "p" if a > 0 else "n" if a < 0 else "z"


def static_conditions(x):
    if DEBUG:
        x = undefined_function(x)
    if False:
        x = x.nothing
    if hasattr(x, "shape") and x.ndim == 1:
        return x * 2
    return x


def short_circuits(a, b):
    return a and b, a or b, not a, (a or 1) and b, a > 1 and b > 1, a == 1 or 1 / (a - 1) > 0


def chained_comparisons(a, b, c):
    return a < b < c, a < b <= c != 5, 1 < a < 5 < 7


def chained_comparison_of_arrays(x):
    return x[0] < x[1] < x[2]


def while_loop(n):
    total = 0
    while n > 0:
        total += n
        n -= 1
    return total


def for_loops(x, t, s):
    total = 0.0
    for v in x:
        total += v
    for v in t:
        total += v
    for _ in s:
        total += 1
    for i in range(2, 10, 3):
        total += i
    return total


def loop_over_rows(x):
    total = np.zeros(x.shape[1])
    for row in x:
        total += row
    return total


def loop_over_0d(x):
    for v in x:
        x = v
    return x


def loop_over_int(n):
    total = 0
    for v in n:
        total += v
    return total


def only_continues(n):
    total = 1
    for _ in range(n):
        for _ in [n, 2]:
            continue
            total = n
        total = -total
    return total


def break_and_continue(n):
    total = 0
    for i in range(n):
        if i == 2:
            continue
        if i > 6:
            break
        for j in range(i):
            if j == 3:
                break
            total += j
        total += i
    return total


def early_returns(x, limit):
    for i in range(len(x)):
        if x[i] > limit:
            return i
        if x[i] < -100:
            return -1
    return len(x)


def early_return_of_other_types(n):
    for i in range(n):
        if i == 3:
            return "three"
    if n == 2:
        return None
    return 1.5


def loop_variable_after_the_loop(n):
    for i in range(n):
        pass
    return i


def loop_else(n):
    for i in range(n):
        if i == 3:
            break
    else:
        return "no break"
    return "break"


def while_else(n):
    while n > 0:
        n -= 2
        if n == 3:
            break
    else:
        n = 100
    return n


def nested_loops_with_return(x):
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            if x[i, j] > 2:
                return i, j
    return None


def asserts(a):
    assert a > 0
    assert a < 10, f"{a} is too large"
    return a


def raises(kind):
    if kind == 0:
        raise ValueError("bad value")
    if kind == 1:
        raise KeyError
    if kind == 2:
        raise RuntimeError("outer") from TypeError("inner")
    if kind == 3:
        raise IndexError("a", 2)
    return kind


def raise_leaves_a_name_unbound(a):
    if a > 1:
        b = 1
    else:
        raise ValueError(a)
    return b


Span = collections.namedtuple("Span", ["start", "stop"])


def named_tuple_or_tuple(a, name):
    known = {"a": a}
    return (Span(a, a + 1) if name in known else divmod(a, 3)) if a < 10 else Span(a, a)


class CustomError(Exception):
    def __init__(self, code):
        super().__init__(f"code {code}")
        self.code = code


def raises_custom(a):
    if a > 0:
        raise CustomError(a)
    return a


def walrus(values):
    total = 0
    if (n := len(values)) > 2:
        total += n
    while (k := total % 7) != 0:
        total += k + 1
        if total > 50:
            break
    return n, total, [y for v in values if (y := v * 2) > 2], y


def deleted(a):
    b = a
    del b
    c = [1, 2, 3]
    del c[0]
    return b if a > 100 else c


def deleted_item(a):
    found = {"kept": a, "lost": 2 * a}
    del found["lost"]
    return list(found)


def deleted_on_a_path(a):
    b = 1
    if a:
        del b
    return b


def augmented(a, x):
    a += 1
    a -= 2
    a *= 3
    b = a / 2
    b //= 2
    b %= 5
    c = a
    c **= 2
    c <<= 1
    c >>= 1
    c |= 8
    c &= 12
    c ^= 1
    x *= 2
    x[1:3] += 1
    x[0] -= 1
    return a, b, c, x


def augmented_containers(d, t):
    d["a"] += 1
    d["l"] += [1]
    t += (3,)
    s = "a"
    s *= 3
    return d, t, s


def multiple_targets(n):
    a = b = [n]
    a.append(1)
    c, d = e = 1, 2
    (f, g), [h, i] = (c, d), e
    f, g = g, f
    return a, b, a is b, c, d, e, f, g, h, i


def nothing_at_all():
    pass


def docstring_only():
    """Nothing else."""


def ellipsis_body(): ...


class Recorder:
    """A context manager that notes what happens."""

    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("enter")
        return len(self.log)

    def __exit__(self, kind, value, trace):
        self.log.append("exit" if kind is None else kind.__name__)
        return False


class Suppressor(Recorder):
    """Swallows exceptions."""

    def __exit__(self, kind, value, trace):
        self.log.append("suppressed")
        return True


def with_user_context(log, n):
    with Recorder(log) as number:
        log.append(number * n)
        if n > 5:
            raise ValueError(n)
    log.append("after")
    return log


def with_return_inside(log, n):
    with Recorder(log):
        if n > 2:
            return "early"
        log.append(n)
    return "late"


def with_in_loop(log, n):
    for i in range(n):
        with Recorder(log):
            if i == 1:
                continue
            if i == 3:
                break
            log.append(i)
    return log


def with_suppression(log, n):
    y = 0
    with Suppressor(log):
        y = 1
        if n > 1:
            raise ValueError
        y = 2
    return y, log


def with_two_contexts(log):
    with Recorder(log) as a, Recorder(log) as b:
        log.append(a + b)
    return log


def with_numpy_errstate(x):
    with np.errstate(divide="ignore", invalid="ignore"):
        y = 1 / x
    return y


def with_numpy_errstate_raising(x):
    with np.errstate(divide="raise"):
        y = 1 / x
    return y


def with_nullcontext(x):
    with contextlib.nullcontext(3) as k:
        return x * k


def with_suppress(d):
    with contextlib.suppress(KeyError):
        del d["a"]
    return d


def with_strict_fusion(x):
    with jitcore.strict_fusion():
        return x * 2 + 1


def tries(d, k):
    try:
        v = d[k]
    except KeyError:
        v = -1
    return v


def tries_with_everything(log, a):
    try:
        log.append(1 / a)
    except ZeroDivisionError as error:
        log.append(str(error))
        if a is False:
            raise
    except (TypeError, ValueError):
        log.append("type")
    else:
        log.append("fine")
    finally:
        log.append("finally")
    return log


def try_with_return(a):
    for i in range(5):
        try:
            if i == a:
                return i
            if i == a + 1:
                continue
            if i == 4:
                break
        finally:
            a -= 1
    return a


def try_leaves_values(x, i):
    total = 0.0
    try:
        for k in range(10):
            total += x[k]
            if k == i:
                raise ValueError("stop")
    except (IndexError, ValueError) as e:
        return total, type(e).__name__
    return total


def try_nested(a):
    try:
        try:
            return [1, 2][a]
        except KeyError:
            return "never"
    except IndexError as e:
        raise ValueError("outer") from e


PROGRAMS: Table = {
    "`if`, conditional expressions": [
        (branches, [(5,), (2,), (0,)]),
        (branch_leaves_a_name_unbound, [(2,), (0,)]),
        (named_tuple_or_tuple, [(5, "a"), (5, "b"), (10, "a")]),
        (conditional_expressions, [(1, X), (0, X), (-1, X)]),
        (static_conditions, [(X,), (3,)]),
    ],
    "`and`, `or`, chained comparisons": [
        (short_circuits, [(1, 2), (0, 3), (2, 0), (1.5, "a")]),
        (chained_comparisons, [(1, 2, 3), (3, 2, 1), (2, 3, 5)]),
        (chained_comparison_of_arrays, [(X,)]),
    ],
    "`while`, `for`": [
        (while_loop, [(5,), (0,)]),
        (for_loops, [(X, (1, 2.5), "ab"), (X, [1], {"a": 1})]),
        (loop_over_rows, [(np.arange(6.0).reshape(2, 3),)]),
        (loop_over_0d, [(np.float64(3),), (np.array(3),)]),
        (loop_over_int, [(3,), ([1, 2],)]),
        (loop_variable_after_the_loop, [(3,), (0,)]),
    ],
    "`break`, `continue`, `return` anywhere": [
        (break_and_continue, [(10,), (0,)]),
        (only_continues, [(3,), (0,)]),
        (early_returns, [(X, 0.5), (X, 5.0)]),
        (early_return_of_other_types, [(5,), (2,), (1,)]),
        (nested_loops_with_return, [(np.arange(6.0).reshape(2, 3),), (np.zeros((2, 2)),)]),
    ],
    "`else` of loops": [(loop_else, [(5,), (2,)]), (while_else, [(5,), (4,), (7,)])],
    "`assert`, `raise`": [
        (asserts, [(5,), (-1,), (50,)]),
        (raises, [(0,), (1,), (2,), (3,), (4,)]),
        (raise_leaves_a_name_unbound, [(2,), (0,)]),
        (raises_custom, [(0,), (3,)]),
    ],
    "`:=`": [(walrus, [([1, 2, 3],), ([5],)])],
    "`del`": [
        (deleted, [(1,), (200,)]),
        (deleted_item, [(3,)]),
        (deleted_on_a_path, [(True,), (False,)]),
    ],
    "augmented assignment": [
        (augmented, [(3, X)]),
        (augmented_containers, [({"a": 1, "l": []}, (1, 2))]),
    ],
    "assignment to several targets": [(multiple_targets, [(3,)])],
    "empty bodies": [(nothing_at_all, [()]), (docstring_only, [()]), (ellipsis_body, [()])],
    "`with`": [
        (with_user_context, [([], 2), ([], 7)]),
        (with_return_inside, [([], 2), ([], 7)]),
        (with_in_loop, [([], 5)]),
        (with_suppression, [([], 1), ([], 5)]),
        (with_two_contexts, [([],)]),
        (with_nullcontext, [(X,)]),
        (with_suppress, [({"a": 1},), ({},)]),
    ],
    "`with np.errstate`": [
        (with_numpy_errstate, [(X,), (np.array([0.0, 1.0]),)]),
        (with_numpy_errstate_raising, [(X,), (np.array([0.0, 1.0]),)]),
    ],
    "`with strict_fusion()`": [(with_strict_fusion, [(X,)])],
    "`try`": [
        (tries, [({"a": 1}, "a"), ({"a": 1}, "b"), ([1], "b")]),
        (tries_with_everything, [([], 2), ([], 0), ([], "a"), ([], False), ([], None)]),
        (try_with_return, [(2,), (0,), (9,)]),
        (try_leaves_values, [(X, 2), (X, 20)]),
        (try_nested, [(1,), (5,), ("a",)]),
    ],
}
