"""Programs about lists, dicts, sets and strings."""
# The programs are what people write, and some of them are wrong.
# mypy: ignore-errors

from __future__ import annotations

import numpy as np
from language_checking import Table

X = np.linspace(-1.0, 2.0, 7)


# Lists


def list_methods(a):
    b = [1, 2]
    b.append(a)
    b.extend([5, 4])
    b.insert(1, 9)
    c = b.copy()
    last = b.pop()
    second = b.pop(1)
    b.remove(2)
    b.reverse()
    n = c.count(5), c.index(9)
    c.sort()
    d = c[:]
    d.sort(reverse=True)
    b.clear()
    return b, c, d, last, second, n


def list_operators(a):
    b = [1, 2] + [a]
    c = b * 2
    b += [7]
    c *= 2
    return b, c, a in b, 99 not in b, b == [1, 2], b < c, len(c), b != c, 2 * b


def list_slices(a):
    b = [0, 1, 2, 3, 4, a]
    return b[1:3], b[::-1], b[-2:], b[::2], b[10:], b[:0], b[-1], b[5]


def list_slice_assignment(a):
    b = [0, 1, 2, 3, 4, 5]
    b[1:3] = [a]
    c = list(range(6))
    c[::2] = [a, a, a]
    d = [1, 2, 3]
    d[1:1] = [7, 8]
    del c[1:3]
    del b[0]
    d[-1] = a
    d[0] += 5
    return b, c, d


def list_slice_of_names(names, more):
    names[1:2] = more
    names[::2] = names[1::2]
    return names


def list_slice_errors(b, n):
    b[::2] = [n]
    return b


def list_indexing(b, i):
    return b[i]


def list_pop(b):
    return b.pop()


def list_unpacking(b):
    x, y = b
    return x + y


def list_unpacking_with_star(b):
    first, *middle, last = b
    return first, middle, last, [*b, 0, *middle]


def list_mutated_for_the_caller(b, n):
    b.append(n)
    b[0] = n * 2
    return n


def list_aliases(b):
    c = b
    c.append(1)
    d = [b, b]
    d[0].append(2)
    return d, c is b, d[0] is d[1]


def nested_lists(n):
    rows = [[0] * n for _ in range(n)]
    for i in range(n):
        rows[i][i] = i + 1
    flat = [v for row in rows for v in row if v]
    return rows, flat, sum(map(sum, rows))


def list_of_arrays(x, n):
    parts = []
    for i in range(n):
        parts.append(x * i)
    return np.concatenate(parts), np.stack(parts).sum(axis=0), len(parts)


def list_of_tuples(n):
    pairs = [(i, i * i) for i in range(n)]
    total = 0
    for i, square in pairs:
        total += i * square
    pairs.sort(key=lambda pair: -pair[1])
    return total, pairs


def list_grown_in_numeric_loop(n):
    values = [0, 1]
    for i in range(n):
        values.append(values[i] + values[i + 1])
    return values[-1], len(values)


def list_of_some_numbers(x):
    out = []
    for i in range(len(x)):
        if x[i] > 0.5:
            out.append(float(x[i]) * 2)
    return np.array(out), len(out), sum(out)


def list_returned(n):
    values = []
    for i in range(n):
        values.append(i * 0.5)
    return values


def list_of_numpy_scalars(x):
    out = []
    for v in x:
        out.append(v * 2)
    return out


def sieve(n):
    is_prime = []
    for _ in range(n):
        is_prime.append(True)
    count = 0
    for i in range(2, n):
        if is_prime[i]:
            count += 1
            for j in range(i * i, n, i):
                is_prime[j] = False
    return count


def list_items_set(n):
    values = [1.5, 2.5]
    values[n] = 3.0
    return values[n - 1]


def list_with_an_alias(n):
    values = []
    same = values
    for i in range(n):
        values.append(i)
        same.append(-i)
    values.append(100)
    return values, same is values


def list_stored_before_it_grows(n):
    values = [1, 2]
    keeper = {"values": values}
    values.append(n)
    return keeper


def list_of_several_types(n):
    values = []
    for i in range(n):
        values.append(i if i % 2 else 0.5)
    return values


def list_chosen_by_a_branch(n):
    values = [1]
    if n > 2:
        other = values
    else:
        other = [5]
    other.append(n)
    return values, other


def list_that_outgrows_an_int(n):
    values = [1]
    for i in range(n):
        values.append(values[i] * 1000)
    return values[n]


def lists_in_lists_of_loops(n):
    total = 0
    for i in range(n):
        inner = []
        for j in range(i):
            inner.append(j * i)
        if inner:
            total += inner[-1] + len(inner)
    return total


def list_of_numbers_argument(values):
    total = 0.0
    for i in range(len(values)):
        total += values[i] * 0.5
    return total


def list_as_stack(n):
    stack = [n]
    count = 0
    while stack:
        top = stack.pop()
        count += 1
        if top > 1:
            stack.append(top // 2)
            stack.append(top - top // 2 - 1)
    return count


def list_changed_while_iterated(b):
    for v in b:
        if v < 3:
            b.append(v + 2)
    return b


def list_displays_changed_while_iterated(n):
    values = [n, 1]
    for i, v in enumerate(values):
        if v > 0:
            values.append(v - 1)
    for _, b in zip(values, [1, 2, 3]):
        values[0] += b
    same = values
    for v in values:
        if v == 2:
            same.remove(v)
    return values


def list_conversions(s, d):
    return list(s), list(d), list(range(3)), list((1, 2)), list(d.items()), list(zip(s, s))


def list_truth(b):
    if b:
        return b[0]
    if not b:
        return None


def lists_of_mixed_values(x):
    b = [1, "a", 2.5, None, x, (1, 2), [x]]
    return b, b[4].sum(), len(b)


def array_from_list(n):
    return np.array([1.0, 2.0, n]), np.array([[1, 2], [3, n]]), np.asarray([n] * 3)


def list_deletes(b):
    del b[0], b[-1]
    return b


# Comprehensions


def comprehensions(n):
    a = [i * 2 for i in range(n)]
    b = [i for i in a if i % 3 if i > 2]
    c = {i: i * i for i in a}
    d = {i % 3 for i in a}
    e = [(i, j) for i in range(3) for j in range(i)]
    f = [x for x in "abc"]
    return a, b, c, d, e, f


def comprehension_of_arrays(x):
    return np.array([v * 2 for v in x]), [row.sum() for row in x.reshape(-1, 1)]


def comprehension_over_pairs(d):
    return {v: k for k, v in d.items()}, [k + str(i) for i, k in enumerate(d)]


def comprehension_scope(n):
    i = 100
    a = [i for i in range(n)]
    return i, a


def generator_arguments(n):
    return (
        sum(i * i for i in range(n)),
        max(i % 4 for i in range(n)),
        any(i > 3 for i in range(n)),
        all(i < 3 for i in range(n)),
        sorted(-i for i in range(n)),
        ",".join(str(i) for i in range(n)),
        dict((i, str(i)) for i in range(n)),
    )


# Dicts


def dict_methods(d):
    a = d.get("a"), d.get("zz"), d.get("zz", 5)
    b = d.pop("a"), d.pop("zz", None)
    c = d.setdefault("n", 7), d.setdefault("b", 9)
    d.update({"q": 1})
    e = d.copy()
    f = d.popitem()
    keys, values, items = list(d.keys()), list(d.values()), list(d.items())
    e.clear()
    return a, b, c, e, f, keys, values, items, len(d), "b" in d, "a" not in d


def dict_operators(d, k):
    d[k] = 1
    d["x"] = d.get("x", 0) + 1
    d["x"] += 5
    del d["b"]
    return d == {"a": 1}, d | {"m": 3}, d != {}, bool(d)


def dict_lookup(d, k):
    return d[k]


def dict_iteration(d):
    total = 0
    names = ""
    for k in d:
        names += k
        total += d[k]
    for k, v in d.items():
        total += v * len(k)
    for v in d.values():
        total -= v
    return total, names


def dict_of_numbers(n):
    counts = {}
    for i in range(n):
        counts[i % 3] = counts.get(i % 3, 0) + 1
    return counts


def dict_of_lists(words):
    groups = {}
    for word in words:
        groups.setdefault(len(word), []).append(word)
    return groups


def dict_of_arrays(state, rate):
    for name in state:
        state[name] -= rate * state[name]
    state["total"] = sum(float(v.sum()) for v in state.values())
    return state


def dict_keys_of_many_types(a):
    return {1: "i", 2.5: "f", False: "b", (1, 2): "t", "s": a, None: 0, 1j: "c"}


def dict_made(keys, values):
    return (
        dict(zip(keys, values)),
        dict(a=1, b=2),
        dict([("x", 1)]),
        dict(),
        {**{"a": 1}, "b": 2},
        dict.fromkeys(keys, 0),
    )


def dict_mutated_for_the_caller(d):
    d["new"] = len(d)
    inner = d["list"]
    inner.append(1)


# Sets


def set_operations(a):
    s = {1, 2, a}
    t = set([2, 3])
    s.add(7)
    s.discard(1)
    return s | t, s & t, s - t, s ^ t, a in s, len(t), sorted(s), t <= s, frozenset(t)


# Built-in functions of sequences


def zip_and_enumerate(a, b):
    total = 0
    for i, (x, y) in enumerate(zip(a, b)):
        total += i * x * y
    for i, x in enumerate(a, 5):
        total += i - x
    return total, list(zip(a, b, a)), list(enumerate(b, start=2))


def zip_of_unequal(a, b, strict):
    return list(zip(a, b, strict=strict))


def zip_of_arrays(x, y):
    total = 0.0
    for a, b in zip(x, y):
        total += a * b
    return total


def reversed_and_sorted(a):
    total = []
    for v in reversed(a):
        total.append(v)
    for i in reversed(range(3)):
        total.append(i)
    return total, sorted(a), sorted(a, reverse=True), sorted(a, key=abs), list(reversed(a))


def min_max_sum(a, n):
    return (
        min(a),
        max(a),
        sum(a),
        sum(a, 10),
        min(n, 3),
        max(n, 2.5, 7),
        min(a, key=lambda v: -v),
        max([], default=n),
    )


def any_and_all(a):
    return any(a), all(a), any([]), all(()), any(v > 2 for v in a)


def sum_of_lists(a):
    return sum([a, [1]], [0]), sum((1, 2, 3)), sum([0.5, 2])


def map_and_filter(a):
    return list(map(abs, a)), list(filter(None, a)), list(map(lambda v: v * 2, a))


def ranges(n):
    r = range(2, n, 3)
    return list(r), len(r), 5 in r, r[1], r[-1], list(range(n, 0, -2)), r


def range_with_bad_step(n):
    total = 0
    for i in range(0, 5, n):
        total += i
    return total


def iter_and_next(a):
    it = iter(a)
    return next(it), next(it), next(iter([]), None), list(it)


def numbers_of_objects(s):
    return hash(s) == hash(s), id(s) == id(s), callable(s), len(s), repr(s), ascii(s)


PROGRAMS: Table = {
    "lists": [
        (list_methods, [(3,)]),
        (list_operators, [(3,)]),
        (list_slices, [(7,)]),
        (list_indexing, [([1, 2], 1), ([1, 2], 5), ([1], -3), ([1], "a")]),
        (list_pop, [([1, 2],), ([],)]),
        (list_mutated_for_the_caller, [([1, 2], 7)]),
        (list_aliases, [([0],)]),
        (nested_lists, [(3,)]),
        (list_of_arrays, [(X, 3)]),
        (list_of_tuples, [(4,)]),
        (list_as_stack, [(20,)]),
        (list_changed_while_iterated, [([1, 2],)]),
        (list_displays_changed_while_iterated, [(3,)]),
        (list_conversions, [("ab", {"x": 1})]),
        (list_truth, [([],), ([3],)]),
        (lists_of_mixed_values, [(X,)]),
        (array_from_list, [(3.5,)]),
        (list_deletes, [([1, 2, 3, 4],), ([1],)]),
    ],
    "slice assignment of lists": [
        (list_slice_assignment, [(9,)]),
        (list_slice_of_names, [(["a", "b", "c"], ["x", "y"]), (["a"], ["b"])]),
        (list_slice_errors, [([1, 2, 3], 4)]),
    ],
    "unpacking": [
        (list_unpacking, [([1, 2],), ([1, 2, 3],), ([1],)]),
        (list_unpacking_with_star, [([1, 2, 3, 4],), ([1, 2],), ([1],)]),
    ],
    "lists of numbers in loops": [
        (list_grown_in_numeric_loop, [(20,), (0,)]),
        (list_of_some_numbers, [(X,), (X - 9,)]),
        (list_returned, [(4,), (0,), (100,)]),
        (list_of_numpy_scalars, [(X,), (X[:0],)]),
        (sieve, [(50,), (0,)]),
        (list_items_set, [(0,), (1,), (2,), (-2,), (-3,)]),
        (list_with_an_alias, [(3,), (0,)]),
        (list_stored_before_it_grows, [(3,)]),
        (list_of_several_types, [(4,), (0,), (1,)]),
        (list_chosen_by_a_branch, [(1,), (5,)]),
        (list_that_outgrows_an_int, [(3,), (9,)]),
        (lists_in_lists_of_loops, [(5,)]),
        (list_of_numbers_argument, [([1.0, 2.0],), ([],)]),
    ],
    "comprehensions": [
        (comprehensions, [(5,), (0,)]),
        (comprehension_of_arrays, [(X,)]),
        (comprehension_over_pairs, [({"a": 1, "b": 2},)]),
        (comprehension_scope, [(3,)]),
    ],
    "generator expressions as arguments": [(generator_arguments, [(5,), (1,)])],
    "dicts": [
        (dict_methods, [({"a": 1, "b": 2},)]),
        (dict_operators, [({"a": 1, "b": 2}, "k")]),
        (dict_lookup, [({"a": 1}, "a"), ({"a": 1}, "z"), ({1: 2}, 1.0)]),
        (dict_iteration, [({"a": 1, "bb": 2},), ({},)]),
        (dict_of_numbers, [(7,)]),
        (dict_of_lists, [(["a", "bb", "c"],)]),
        (dict_of_arrays, [({"w": X, "b": X[:2].copy()}, 0.5)]),
        (dict_keys_of_many_types, [(3,)]),
        (dict_made, [(["a", "b"], [1, 2])]),
        (dict_mutated_for_the_caller, [({"list": []},)]),
    ],
    "sets": [(set_operations, [(5,)])],
    "`zip`, `enumerate`": [
        (zip_and_enumerate, [([1, 2], [3, 4]), ((1, 2, 3), (4, 5))]),
        (zip_of_unequal, [([1], [1, 2], True), ([1], [1, 2], False)]),
        (zip_of_arrays, [(X, X * 2)]),
    ],
    "`reversed`, `sorted`": [(reversed_and_sorted, [([3, -1, 2],), ((3, -1),)])],
    "`min`, `max`, `sum`, `any`, `all`": [
        (min_max_sum, [([3, 1, 2], 4), ((2.0, -1.0), 1)]),
        (any_and_all, [([0, 3],), ([1, 2],)]),
        (sum_of_lists, [([2],)]),
    ],
    "`map`, `filter`, `iter`, `next`": [
        (map_and_filter, [([-1, 0, 2],)]),
        (iter_and_next, [([1, 2, 3],), ([1],)]),
    ],
    "`range`": [(ranges, [(10,)]), (range_with_bad_step, [(2,), (0,), (-1,)])],
    "`hash`, `id`, `callable`, `repr`": [(numbers_of_objects, [("abc",)])],
}
