"""Programs with lists of arrays, and calls of them."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: list[tuple[Callable[..., Any], tuple[tuple[Any, ...], ...]]] = []


def program(*calls):
    """Note a function and the arguments of calls."""

    def note(function):
        PROGRAMS.append((function, calls))
        return function

    return note


X = np.arange(6.0)
PAIR = [np.arange(3.0), np.ones(3)]
SEVERAL = [np.arange(4.0), np.ones(2), np.array([7.0])]


# Lists that the function makes ------------------------------------------------------------


@program((X, 40), (X[:1], 3), (X, 1))
def history(x, n):
    out = []
    for i in range(n):
        x = x * 0.5 + i
        out.append(x)
    return np.array(out)


@program((X, 5), (X.reshape(2, 3), 4))
def joined(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    parts = np.stack(out), np.stack(out, axis=1), np.stack(out, -1), np.column_stack(out)
    return parts, np.vstack(out), np.hstack(out), np.concatenate(out), np.concatenate(out, axis=-1)


@program((X, 12))
def reduced(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    return np.mean(out, axis=0), np.sum(out), np.max(out, axis=1), sum(out)


@program((X, 8), (X, 0))
def returned(x, n):
    out = []
    for i in range(n):
        y = x * i
        out.append(y)
        if i % 3 == 0:
            out.append(y)
    return out


@program((X, 5))
def written_after_it_was_put(x, n):
    out = []
    y = x * 1
    for i in range(n):
        y += 1
        out.append(y)
        x[i] = i
        out.append(x)
    return out, y


@program((X, 9))
def written_in_the_list(x, n):
    out = []
    for i in range(n):
        out.append(x * i)
    for i in range(n):
        out[i] += 1
        out[i][0] = 7
    return np.array(out), out


@program((5,))
def filled_before(n):
    out = []
    for i in range(n):
        y = np.zeros(4)
        for j in range(4):
            y[j] = i * j
        out.append(y)
    return np.array(out)


@program((X, 6))
def several_extents(x, n):
    out = []
    for i in range(n):
        out.append(x[:i] * 2)
    s = 0.0
    for a in out:
        s += a.sum()
    return s, len(out), np.concatenate(out), out[2]


@program((X, 20))
def window(x, n):
    out = []
    for i in range(n):
        out.append(x + i)
        if len(out) > 3:
            out.pop(0)
    while len(out) > 2:
        x = x - out.pop()
    return out, x


@program((X, 7))
def changed(x, n):
    out = [x]
    for i in range(n):
        out.append(x + i)
    out[0] = x - 1
    out.insert(1, x * 9)
    del out[2]
    part = out[1:3]
    both = out + part
    both[0][0] = 5
    return out, part, both, len(both[1:-1])


@program((X, 6))
def pairs(x, n):
    out = []
    for i in range(n):
        out.append((x + i, i * 0.5))
    s = x * 0
    for a, w in out:
        s = s + a * w
    return s


@program((X, 8))
def lists_of_lists(x, n):
    rows = []
    for i in range(n):
        row = []
        for j in range(i + 1):
            row.append(x * j)
        rows.append(row)
    s = x * 0
    for row in rows:
        for a in row:
            s = s + a
    return s


@program((X, 7))
def chosen(x, n):
    parts = [x * 1.0, x * 2, x]
    s = x * 0
    for i in range(n):
        s = s + parts[i % 3]
    return s


@program((X, 4))
def views(x, n):
    out = []
    for i in range(n):
        y = (x * i)[2:]
        out.append(y)
        out.append(y)
        y[0] = 9
        out.append((x + i).reshape(2, 3)[1])
    out[1][1] = 7
    return out, y


@program((X,))
def one_view_of_an_argument(x):
    y = x[1:]
    out = [y]
    for i in range(int(x[3])):
        out.append(y)
        y[i] = 11
    return out, y


@program((X, 6))
def one_of_two(x, n):
    out = []
    for i in range(n):
        if i % 2:
            y = x * i
        else:
            y = x
        out.append(y)
    return out


@program((X, 5))
def read_while_it_is_written(x, n):
    out = [x]
    for _ in range(n):
        y = out[-1]
        y[1:] = out[0][:-1] + x[1:] * 2
        out.append(x * 1)
    return out


@program((X, 4))
def two_lists(x, n):
    a, b = [], []
    for i in range(n):
        a.append(x * i)
        b.append(a[-1])
        b += [x, a[0]]
    b[0][0] = 77
    return a, b


@program((X, 5))
def made_in_each_iteration(x, n):
    s = x * 0
    for _ in range(n):
        steps = []
        y = x
        for _ in range(5):
            y = y * 0.5
            steps.append(y)
        for y in reversed(steps):
            s = s + y
    return s


@program((X, 5))
def of_no_axes(x, n):
    out = []
    for i in range(n):
        out.append(np.array(x[0] + i))
    return np.array(out), out


@program((X, 5), (X, 9))
def raises(x, n):
    out = []
    for i in range(7):
        out.append(x * i)
    return out[n]


@program((X, 16), (X, 0))
def cannot_be_one_array(x, n):
    out = []
    for i in range(n):
        out.append(x[: 4 + i % 2] * 1)
    return np.stack(out)


# Lists that are arguments -----------------------------------------------------------------


@program((SEVERAL, SEVERAL[::-1]), (PAIR, PAIR), (PAIR, SEVERAL))
def steps_down(params, grads):
    for p, g in zip(params, grads, strict=False):
        p -= 0.5 * g


@program(
    ([np.ones((2, 3)), np.ones((4, 1))], [np.ones((2, 1)), np.ones((4, 1))], 2),
    ([np.ones((2, 3)), np.ones((4, 2))], [np.ones((2, 3)), np.ones((4, 2))], 2),
    ([np.ones((2, 3)), np.ones((4, 2))], [np.ones((2, 3)), np.ones((4, 3))], 2),
)
def broadcast(params, grads, n):
    norms = 0.0
    for _ in range(n):
        for p, g in zip(params, grads, strict=False):
            p *= g * 0.5
            norms += p.sum()
    return norms


@program((SEVERAL,), (PAIR,))
def visited(arrays):
    s, best = 0.0, arrays[0]
    for i, a in enumerate(arrays):
        s += i * a[0] + a.sum()
        if a.sum() > best.sum():
            best = a
    for a in reversed(arrays):
        s = s * 0.5 + a[-1]
    return s, best, arrays[-1], len(arrays), arrays


@program((PAIR,))
def as_arrays(arrays):
    return np.array(arrays), np.concatenate(arrays), np.mean(arrays, axis=0), sum(arrays)


@program((PAIR, X[:3]))
def set_anew(arrays, x):
    for i in range(len(arrays)):
        arrays[i] = arrays[i] + x
    arrays[0], arrays[1] = arrays[1], arrays[0]
    return arrays


@program((SEVERAL, X))
def longer(arrays, x):
    arrays.append(arrays[-1] * 2)
    arrays.append(x)
    first = arrays.pop(0)
    return first, len(arrays)


@program((SEVERAL,))
def copied(arrays):
    out = []
    for a in arrays:
        out.append(a)
        out.append(a * 2)
    return out, arrays[1:], arrays + arrays


@program((SEVERAL, 1), (SEVERAL, 8))
def raises_late(arrays, n):
    for a in arrays:
        a += 1
    return arrays[n]


@program((PAIR, PAIR[0]))
def may_be_the_same(arrays, x):
    x += 1
    arrays[0][:] = x * 2
    x[1] = 5
    return arrays[0].sum() + x.sum()


@program((3,), (1,))
def copies_share_arrays(n):
    a = []
    for i in range(n):
        a.append(np.zeros(3) + i)
    first = a[0]
    sums = [first.sum()]
    copy, joined = list(a), a + a
    copy[0][:] = 9.0
    sums.append(first.sum())
    joined[n][0] = 4.0
    sums.append(first.sum())
    copy.extend(a)
    copy[-1][1] = 5.0
    sums.append(a[n - 1].sum())
    part = a[0:1]
    part[0][2] = 6.0
    sums.append(first.sum())
    return sums


@program((3, 2), (3, 0), (2, -1))
def repeated(n, times):
    a = []
    for i in range(n):
        a.append(np.zeros(3) + i)
    b = a * times
    for x in b:
        x += 1
    return [x.sum() for x in a], len(b), len(2 * a)


@program((PAIR, PAIR), (PAIR, PAIR[:1]), (SEVERAL, SEVERAL))
def products(ones, others):
    total, count = 0.0, 0
    for one, other in zip(ones, others, strict=False):
        total += (one * other).sum()
        count += one[0]
    return total, count


# Of ([x], x): what one name writes the other reads ------------------------------------------


def written_by_both_names(arrays, x):
    p = arrays[0]
    p += x
    x *= 0.5


def read_before_and_after(arrays, x):
    p = arrays[0]
    before = p.sum()
    x += 1
    return p.sum() + before, x


def read_when_both_are_written(arrays, x):
    p = arrays[0]
    p += x
    x += 1
    return p + x


OF_ONE_ARRAY = [written_by_both_names, read_before_and_after, read_when_both_are_written]
