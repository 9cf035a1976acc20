"""Functions with all kinds of control flow, written as a user would write them, types left out."""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="has-type"
# ruff: noqa: F541, F821


def find_first(items, wanted):
    for index, item in enumerate(items):
        if item == wanted:
            return index
    return -1


def nested_loops(n, m):
    total = 0
    for i in range(n):
        for j in range(m):
            if j == 3:
                continue
            if i * j > 6:
                break
            total += i * 10 + j
        else:
            total += 1000
            continue
        total += 100000
    else:
        total = -total
    return total, n


def while_else(n):
    k = 0
    while k < n:
        k += 1
        if k == 5:
            break
    else:
        return "exhausted", k
    return "broken", k


def endless(n):
    k = 0
    while True:
        k += 3
        if k > n:
            last = k
            break
    return last


def endless_return(n):
    k = 0
    while 1:
        k += 1
        while True:
            k += 1
            if k % 7 == 0:
                return k
            if k % 3 == 0:
                break
        if k > n:
            return -k


def maybe_unbound(n):
    if n > 0:
        x = 1
    for i in range(n - 1):
        y = i
    return x + (y if n > 1 else 0) + i


def unbound_after_delete(n):
    x = 1
    for i in range(n):
        if i == 1:
            del x
        if i == 3:
            x = 5
    return x


def delete_twice(flag):
    x = flag
    if flag:
        del x
    del x
    return 1


def early_returns(a, b):
    if a > 0:
        if b > 0:
            return "both"
        a = -1
    elif b > 0:
        return "b"
    else:
        if a == b:
            pass
        else:
            return "differ"
    return a, b


def implicit_none(a):
    if a:
        return 1


def nothing():
    pass


def chained(a, b, c, d):
    return a < b <= c != d, not a < b < c, a == b == c


def swap(a, b, c):
    a, (b, *c) = c, (a, b, c)
    a, b = b, a
    [a, b] = x, *_ = a, b
    return a, b, c, x, _


def boolean_values(a, b, c):
    return (a and b) or c, not (a or b), (a or b) and c, a if b else c


def walrus(items):
    total = 0
    while (n := len(items)) > 2 and (m := items.pop()):
        total += n * m
    return total, n, [last := item for item in items], last


def walrus_in_branch(a, b):
    if a and (x := b):
        pass
    return x


def augmented(items, k):
    items[k] += 10
    items[k - 1] *= items[k]
    items += [k]
    del items[0]
    x = y = items
    y += [4]
    return x is items


def asserting(x):
    assert x > 0, f"{x=} is not positive"
    assert x < 10
    return x


def raising(kind):
    if kind == 0:
        raise ValueError
    if kind == 1:
        raise KeyError("key") from TypeError("cause")
    if kind == 2:
        error = ZeroDivisionError(kind)
        raise error
    if kind == 3:
        raise kind
    return kind


def loop_returns_always(items):
    for item in items:
        return item
    else:
        last = "none"
    return last


def continue_in_while(n):
    k = total = 0
    while k < n:
        k += 1
        if k % 2:
            continue
        if k % 3:
            total += k
        else:
            total -= 1
            if k > 8:
                continue
            total *= 2
    return total


def comprehensions(n):
    x = "outer"
    squares = [x * x for x in range(n) if x % 2 if x != 5]
    pairs = [(a, b) for a in range(n) for b in range(a) if a + b == n]
    table = {k: [j for j in range(k)] for k in range(n)}
    odd = {k for k in range(n) if k % 2}
    return x, squares, pairs, table, odd


def generators(items):
    return (
        sum(i for i in items),
        min((i for i in items), default=7),
        any(i > 2 for i in items for _ in range(i)),
        all(i < 3 for i in items if i != 9),
        list(i for i in items),
        tuple(-i for i in items),
        sorted((i for i in items), reverse=True),
    )


def search_stops_early(items):
    return any(items.pop() > 2 for _ in range(10)), all(items.pop() for _ in range(10))


def comprehension_unbound(n):
    return [x for i in range(n) if x for x in range(i)]


def texts(a, b):
    return f"{a!r:>10}|{b:.{2}f}|{a}|{'lit'}|{b!s}{{}}|", f"plain", f"{a=}"


def displays(a, b):
    return [*a, b, *a], (b, *a), {*a, b}, {**{1: b}, 2: b, **{3: 4}}, {"k": a, b: 1}


def star_calls(a, b):
    return max(*a, b), "{}{}{x}".format(*a, x=b), print(*a, sep="")


def slices(items, k):
    items[1:k] = [7, 8, 9]
    return items[::2], items[-1], items[k:], items[:-1:k]


def nested_functions(a, b):
    def scaled(x, by=2):
        if x > 10:
            return x
        return shift(x) * by + a

    shift = lambda x: x + offset
    offset = b
    first = scaled(1)
    offset = 100
    return first, scaled(1, by=3), scaled(50), (lambda u, *v: (u, v, a))(1, 2, 3)
