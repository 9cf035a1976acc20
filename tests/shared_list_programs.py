"""Programs with lists that several names and lists refer to, and calls of them."""
# mypy: allow-untyped-defs, allow-untyped-calls, allow-incomplete-defs

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

PROGRAMS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def program(*calls):
    """Note a function and the arguments of calls."""

    def note(function):
        PROGRAMS.append((function, calls))
        return function

    return note


@program((5, 4), (0, 3), (1, 1))
def table(n, m):
    dp = [[0] * (m + 1) for _ in range(n + 1)]
    for i in range(n + 1):
        dp[i][0] = i
    for j in range(m + 1):
        dp[0][j] = j
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            dp[i][j] = min(dp[i - 1][j] + 1, dp[i][j - 1] + 1, dp[i - 1][j - 1] + (i % 3 != j % 2))
    return dp[n][m]


@program((4, 3), (3, 0), (1, 5))
def one_row(n, m):
    rows = [[0] * m] * n
    for i in range(n):
        for j in range(m):
            rows[i][j] += i + j
    t = 0
    for row in rows:
        for x in row:
            t = t * 3 + x
    return t


@program((5,), (2,), (1,))
def alias(n):
    rows = [[i, i + 1] for i in range(n)]
    row = rows[0]
    row[0] = 7
    row.append(9)
    rows.append(row)
    rows[n].append(11)
    return len(rows[0]) * 1000 + rows[0][0] * 100 + rows[n][3] + len(rows)


@program((6,), (1,), (30,))
def bfs(n):
    adj: list[Any] = [[] for _ in range(n)]
    for i in range(n):
        adj[i].append((i * 7 + 1) % n)
        adj[(i * 5 + 2) % n].append(i)
    dist = [-1] * n
    dist[0] = 0
    queue = [0]
    for u in queue:
        for v in adj[u]:
            if dist[v] < 0:
                dist[v] = dist[u] + 1
                queue.append(v)
    t = 0
    for d in dist:
        t = t * 31 % 1000003 + d
    return t, len(queue)


@program((5,), (0,), (12,))
def pascal(n):
    rows = [[1]]
    for _ in range(n):
        last = rows[-1]
        row = [1]
        for j in range(len(last) - 1):
            row.append(last[j] + last[j + 1])
        row.append(1)
        rows.append(row)
    return sum(rows[-1]), len(rows), max(rows[n])


@program((5,), (0,), (12,))
def methods(n):
    rows = [[3, 1, 2] for _ in range(3)]
    rows[0].extend([n, n + 1])
    rows[1].insert(1, n)
    rows[2].sort()
    rows[0].reverse()
    rows[1].remove(3)
    x = rows[0].pop()
    y = rows[1].pop(0)
    rows[2].extend(rows[2])
    rows[2] += rows[0]
    rows[0].clear()
    del rows[1][0]
    rows[1][0:1] = [8, 9, n]
    t = 0
    for i, row in enumerate(rows):
        for j, v in enumerate(row):
            t = (t * 17 + v * (i + 1) + j) % 99991
    return (
        t,
        x,
        y,
        len(rows[0]),
        len(rows[1]),
        rows[2].index(2),
        rows[2].count(3),
        2 in rows[2],
        n in rows[1],
    )


@program((4,), (7,))
def copies(n):
    a = [[i * j for j in range(n)] for i in range(n)]
    b = [row[:] for row in a]
    c = [list(row) for row in a]
    b[1][1] = 100
    c[2].append(5)
    d = a[1] + a[2]
    d[0] = 77
    e = a
    e[0][0] = 55
    return (
        a[0][0],
        a[1][1],
        b[1][1],
        len(c[2]),
        len(a[2]),
        d[0],
        sum(d),
        sorted(a[2], reverse=True)[0],
    )


@program((4,), (7,))
def swaps(n):
    a = [[i * j + i for j in range(n)] for i in range(n)]
    a[0], a[n - 1] = a[n - 1], a[0]
    for i in range(n):
        a[i].reverse()
    t = 0
    for i in range(n):
        for j in range(n):
            t = t * 7 % 10007 + a[i][j]
    return t


@program((6, 9, 5), (4, 4, 10))
def life(h, w, steps):
    grid = [[(i * 3 + j * 5) % 4 == 0 for j in range(w)] for i in range(h)]
    for _ in range(steps):
        new = [[False] * w for _ in range(h)]
        for i in range(h):
            for j in range(w):
                count = 0
                for di in (-1, 0, 1):
                    for dj in (-1, 0, 1):
                        if (di != 0 or dj != 0) and grid[(i + di) % h][(j + dj) % w]:
                            count += 1
                new[i][j] = count == 3 or (grid[i][j] and count == 2)
        grid = new
    t = 0
    for row in grid:
        for x in row:
            t = t * 2 % 1000003 + x
    return t


@program((9,), (20,))
def quick(n):
    values = [(i * 37) % 11 for i in range(n)]
    stack = [[0, n - 1]]
    while stack:
        lo, hi = stack.pop()
        if lo >= hi:
            continue
        p = values[hi]
        k = lo
        for i in range(lo, hi):
            if values[i] < p:
                values[i], values[k] = values[k], values[i]
                k += 1
        values[k], values[hi] = values[hi], values[k]
        stack.append([lo, k - 1])
        stack.append([k + 1, hi])
    t = 0
    for v in values:
        t = t * 12 % 100003 + v
    return t


@program((5,), (8,))
def buckets(n):
    b: list[Any] = [[] for _ in range(4)]
    for i in range(n):
        b[i * i % 4].append(i * 0.5)
    flat = []
    for x in b:
        x.sort()
        for v in x:
            flat.append(v)
    return len(flat), sum(flat), len(b[0]), len(b[3])


@program((5,), (8,))
def weighted(n):
    g: list[Any] = [[] for _ in range(n)]
    for i in range(n):
        g[i].append(((i + 1) % n, i * 0.5))
        g[(i * 3) % n].append((i, 1.0))
    t = 0.0
    for u in range(n):
        for v, w in g[u]:
            t += v * w
    return t


@program((5,), (2,))
def cube(n):
    a = [[[0] * n for _ in range(n)] for _ in range(n)]
    for i in range(n):
        for j in range(n):
            for k in range(n):
                a[i][j][k] = i * j + k
    a[0][1][0] = 50
    p = a[0]
    p.append([7])
    t = 0
    for plane in a:
        for row in plane:
            for x in row:
                t = t * 3 % 10007 + x
    return t


@program((5,), (2,), (0,))
def empty_rows(n):
    a: list[Any] = [[] for _ in range(n)]
    t = 0
    for r in a:
        for _ in r:
            t += 1
    return t, len(a)


@program((5, 3), (2, 9), (0, 0))
def out_of_range(n, i):
    a = [[1] * 3 for _ in range(n)]
    return a[1][i]


@program((5, 3), (2, 9), (0, 0))
def out_of_range_set(n, i):
    a = [[1] * 3 for _ in range(4)]
    a[n][i] = 2
    return a[0][0]


@program((5,), (0,))
def identity(n):
    a = [[1], [1], [2]]
    b = a[0]
    a[1] = b
    return a[0] is a[1], a[0] is a[2], a[0] is not a[2], a[2] is None, a is not None


@program((3,), (1,))
def branches(n):
    a = [1, 2, 3]
    b = [4.0]
    c = [5, 6]
    x = a if n > 2 else c
    x.append(n)
    return len(a), len(c), sum(x), b[0]


@program(
    (4,),
)
def iter_grow(n):
    a = [n]
    for v in a:
        if v > 0:
            a.append(v - 1)
            a.append(v - 2)
    return len(a), sum(a)


@program(
    (4,),
)
def mixed(n):
    a: list[Any] = [[1], [2.0]]
    a[0].append(n)
    return a[0][1], a[1][0]


@program((4,), (0,))
def subsets(n):
    out: list[Any] = [[]]
    for i in range(n):
        more = []
        for s in out:
            t = s[:]
            t.append(i)
            more.append(t)
        out.extend(more)
    t = 0
    for one in out:
        t += len(one) * 3 + sum(one)
    return t, len(out)


@program((4,), (1,))
def literal_graph(n):
    adj = [[1, 2], [2, 3], [3], [0]]
    seen = [False] * 4
    stack = [n % 4]
    order = []
    while stack:
        u = stack.pop()
        if seen[u]:
            continue
        seen[u] = True
        order.append(u)
        for v in adj[u]:
            stack.append(v)
    return order


def add_edge(adj, u, v):
    adj[u].append(v)
    adj[v].append(u)


@program((4,), (9,))
def helper(n):
    adj: list[Any] = [[] for _ in range(n)]
    for i in range(1, n):
        add_edge(adj, i, i // 2)
    return [len(x) for x in adj]


@program((5,), (0,), (12,))
def triangle(n):
    rows = [[1]]
    for _ in range(n):
        last = rows[-1]
        row = [1]
        for j in range(len(last) - 1):
            row.append(last[j] + last[j + 1])
        row.append(1)
        rows.append(row)
    return rows


@program((5,), (0,))
def zeros(n):
    return [[0] * n for _ in range(n)]


@program((5,), (0,))
def same(n):
    a = [[0] * n] * n
    for i in range(n):
        a[i][i] = i
    return a, n


@program((4,), (0,))
def all_subsets(n):
    out: list[Any] = [[]]
    for i in range(n):
        more = []
        for s in out:
            t = s[:]
            t.append(i)
            more.append(t)
        out.extend(more)
    return out


@program((4,), (1,))
def weighted_graph(n):
    g: list[Any] = [[] for _ in range(n)]
    for i in range(n):
        g[i].append(((i + 1) % n, i * 0.5))
        g[(i * 3) % n].append((i, 1.0))
    return g, len(g), g[0]


@program((3,), (1,))
def cube_of_flags(n):
    a = [[[i * j > k for k in range(n)] for j in range(n)] for i in range(n)]
    a[0][0] = a[n - 1][n - 1]
    return a


@program((3,), (2,))
def later(n):
    rows = [[i] for i in range(n)]
    pair = (rows, n)
    rows[0][0] = 99
    return pair


@program((3,), (2,))
def floats(n):
    row = [1.5] * n
    other = row
    other.append(2.5)
    return row


@program((5,))
def primes(n):
    f: list[Any] = [[] for _ in range(n)]
    for i in range(2, n):
        for j in range(i, n, i):
            f[j].append(i)
    return f


@program((3,), (1,))
def flags(n):
    seen = [[False] * n for _ in range(n)]
    seen[0][n - 1] = True
    return seen, [row.count(True) for row in seen], [not x for x in seen[0]]


@program((3,), (0,), (-2,))
def repeated_and_equal(n):
    row = [1, 2]
    rows = [row, row * n, n * row]
    rows[1].append(2)
    return rows[0] == row * 1, rows[1] == rows[2], rows[1] != [1, 2, 2], rows


@program((1.0,), (float("nan"),))
def equal_floats(x):
    rows = [[x], [x]]
    return rows[0] == rows[1], rows[0] != rows[1]


@program((5,), (0,))
def rows_of_rows(n):
    rows = [[i] for i in range(n)]
    rows.insert(1, [n])
    copied = rows[:]
    copied.append([7])
    rows[0:1] = [[8], [9]]
    del rows[-1]
    return rows, copied, rows[-1] is copied[-2]


@program((4,), (1,))
def queue_of_pairs(n):
    queue: list[Any] = [(0, [1])]
    k, path = queue[0]
    while queue:
        k, path = queue.pop()
        if k < n:
            queue.append((k + 1, [*path, k] if k < 0 else path + [k]))
    return k, path


@program((3,), (0,))
def pairs_with_lists(n):
    found = [(i, [i]) for i in range(n)]
    for k, row in found:
        row.append(k)
    return found, n


@program((3,), (0,))
def lists_in_single_tuples(n):
    rows = [[i] for i in range(n)]
    found = [(row,) for row in rows]
    rows.append([n])
    found.append((rows[-1],))
    return found, rows


@program((3,), (5,), (0,))
def product(n):
    a = [[i + j * 0.5 for j in range(n)] for i in range(n)]
    b = [[i - j * 0.25 for j in range(n)] for i in range(n)]
    return [[sum(a[i][k] * b[k][j] for k in range(n)) for j in range(n)] for i in range(n)]


@program((3,), (1,), (0,))
def array_of_rows(n):
    rows = [[i * j for j in range(n)] for i in range(n)]
    rows[0].append(1)
    rows[0].pop()
    return np.array(rows), np.array(rows).sum()


@program((3,), (2,), (0,))
def array_of_several_lengths(n):
    return np.array([[i * j for j in range(i)] for i in range(1, n)])
