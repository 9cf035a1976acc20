"""Control flow of the front end: graphs, run by the interpreter, do what Python does."""

from __future__ import annotations

import linecache
import random
import re
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

import pytest

from jitcore.frontend import compile_function
from jitcore.ir.interpreter import run
from jitcore.ir.ops import kind_of
from jitcore.ir.verifier import verify

_COUNT = iter(range(1 << 30))


def define(text: str, name: str = "f", **names: Any) -> FunctionType:
    """Run the text of a function, registered with linecache as a notebook's cell is."""
    file = f"<frontend test {next(_COUNT)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = dict(names)
    exec(compile(text, file, "exec"), namespace)
    function = namespace[name]
    assert isinstance(function, FunctionType)
    return function


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """What a call gives: its result, or the type and text of its exception."""
    try:
        return ("value", call())
    except NameError as error:
        # What a comprehension reads of the function around it is a free variable up to Python
        # 3.11, and the error then not an UnboundLocalError.
        return (NameError, re.findall("'.*?'", str(error))[0])
    except Exception as error:
        return (type(error), str(error), repr(error.__cause__))


def check(function: FunctionType, calls: Iterable[tuple[Any, ...]]) -> None:
    """Compare the function's graph with the function; lists among the arguments show effects."""
    graph = compile_function(function, lookup_op=kind_of)
    verify(graph)
    for args in calls:
        ours = [list(arg) if isinstance(arg, list) else arg for arg in args]
        theirs = [list(arg) if isinstance(arg, list) else arg for arg in args]
        assert outcome(lambda: run(graph, ours)) == outcome(lambda: function(*theirs))
        assert ours == theirs


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
    return a and b or c, not (a or b), (a or b) and c, a if b else c


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


# Defined from text, since pytest rewrites the assert statements of its modules.
asserting = define(
    """
def asserting(x):
    assert x > 0, f"{x=} is not positive"
    assert x < 10
    return x
""",
    "asserting",
)


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
    return f"{a!r:>10}|{b:.{2}f}|{a}|{'lit'}|{b!s}{{}}|", f"plain", f"{a=}"  # noqa: F541


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

    shift = lambda x: x + offset  # noqa: E731
    offset = b
    first = scaled(1)
    offset = 100
    return first, scaled(1, by=3), scaled(50), (lambda u, *v: (u, v, a))(1, 2, 3)


CASES: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (find_first, [([3, 4, 5], 4), ([], 1), ([1], 2)]),
    (nested_loops, [(n, m) for n in range(5) for m in range(6)]),
    (while_else, [(3,), (5,), (9,), (0,)]),
    (endless, [(-5,), (10,)]),
    (endless_return, [(0,), (3,), (30,)]),
    (maybe_unbound, [(0,), (1,), (2,), (3,)]),
    (unbound_after_delete, [(n,) for n in range(6)]),
    (delete_twice, [(0,), (1,)]),
    (early_returns, [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]),
    (implicit_none, [(0,), (1,)]),
    (nothing, [()]),
    (chained, [(1, 2, 3, 3), (1, 2, 3, 4), (2, 1, 0, 0), (1, 1, 1, 1)]),
    (swap, [(1, 2, 3)]),
    (boolean_values, [(a, b, c) for a in (0, 1) for b in ("", "b") for c in ([], [1])]),
    (walrus, [([1, 2, 3, 4],), ([1, 2, 0],), ([1],)]),
    (walrus_in_branch, [(0, 5), (1, 5)]),
    (augmented, [([1, 2, 3, 4], 2)]),
    (asserting, [(3,), (-1,), (11,)]),
    (raising, [(0,), (1,), (2,), (3,), (4,)]),
    (loop_returns_always, [([],), ([4, 5],)]),
    (continue_in_while, [(n,) for n in (0, 1, 5, 12)]),
    (comprehensions, [(0,), (7,)]),
    (generators, [([1, 2, 3],), ([],), ([9, 0],)]),
    (search_stops_early, [([1, 0, 2, 3, 1],), ([0, 0, 3],), ([],)]),
    (comprehension_unbound, [(0,), (2,)]),
    (texts, [("a", 2.5), ([1], 3)]),
    (displays, [([1, 2], 3), ((), 1)]),
    (star_calls, [([1, 2], 3)]),
    (slices, [([1, 2, 3, 4, 5], 3)]),
    (nested_functions, [(1, 2)]),
]


@pytest.mark.parametrize(("function", "calls"), CASES, ids=[case[0].__name__ for case in CASES])
def test_graph_does_what_the_function_does(
    function: FunctionType, calls: list[tuple[Any, ...]]
) -> None:
    check(function, calls)


class ProgramWriter:
    """Writes random functions in which every evaluation leaves a mark in ``log``."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.marks = 0
        self.lines: list[str] = []

    def program(self) -> str:
        while True:
            self.lines = ["def f(log, fuel, a, b):"]
            self.block(1, 0, 0)
            self.line(1, self.random.choice(["return a, b, c", "return d", "pass"]))
            text = "\n".join(self.lines) + "\n"
            try:
                compile(text, "", "exec")
            except SyntaxError:
                # A walrus that rebinds a comprehension's variable, say.
                continue
            return text

    def line(self, indent: int, text: str) -> None:
        self.lines.append("    " * indent + text)

    def name(self) -> str:
        return self.random.choice("abcde")

    def mark(self) -> str:
        self.marks += 1
        return f"mark(log, fuel, {self.marks}, {self.leaf()})"

    def leaf(self) -> str:
        return self.random.choice([self.name(), str(self.random.randrange(4))])

    def expression(self, depth: int = 2) -> str:
        if depth == 0:
            return self.random.choice([self.leaf(), self.mark()])
        one, two, three = (self.expression(depth - 1) for _ in range(3))
        form = self.random.randrange(9)
        forms = [
            f"({one} + {two})",
            f"({one} and {two})",
            f"({one} or {two})",
            f"(not {one})",
            f"({one} < {two} <= {three})",
            f"({one} if {two} else {three})",
            f"({self.name()} := {one})",
            f"sum([{one} for {self.name()} in range(2)])",
            f"any({one} for {self.name()} in range(3))",
        ]
        return forms[form]

    def block(self, indent: int, depth: int, loops: int) -> None:
        for _ in range(self.random.randint(1, 4)):
            self.statement(indent, depth, loops)

    def statement(self, indent: int, depth: int, loops: int) -> None:
        simple = [
            lambda: self.line(indent, f"{self.name()} = {self.expression()}"),
            lambda: self.line(indent, f"{self.name()} += {self.expression(1)}"),
            lambda: self.line(indent, f"{self.name()}, {self.name()} = {self.name()}, {self.mark()}"),
            lambda: self.line(indent, self.mark()),
            lambda: self.line(indent, self.jump(loops)),
        ]
        compound = [self.branch, self.branch, self.for_loop, self.while_loop]
        if depth < 3 and self.random.random() < 0.55:
            self.random.choice(compound)(indent, depth + 1, loops)
        else:
            self.random.choice(simple)()

    def jump(self, loops: int) -> str:
        jumps = [f"return {self.expression(1)}", f"del {self.name()}", f"assert {self.mark()}"]
        jumps += ["raise ValueError(a)"] if self.random.random() < 0.3 else []
        return self.random.choice(jumps + ["break", "continue", "continue"] * min(loops, 1) * 2)

    def branch(self, indent: int, depth: int, loops: int) -> None:
        self.line(indent, f"if {self.expression()}:")
        self.block(indent + 1, depth, loops)
        if self.random.random() < 0.3:
            self.line(indent, f"elif {self.expression(1)}:")
            self.block(indent + 1, depth, loops)
        if self.random.random() < 0.5:
            self.line(indent, "else:")
            self.block(indent + 1, depth, loops)

    def for_loop(self, indent: int, depth: int, loops: int) -> None:
        count = self.random.randrange(4)
        self.line(indent, f"for {self.name()} in range({count}):")
        self.finish_loop(indent, depth, loops)

    def while_loop(self, indent: int, depth: int, loops: int) -> None:
        self.line(indent, f"while {self.random.choice([self.expression(1), 'True'])}:")
        self.line(indent + 1, "mark(log, fuel, 0, 0)")
        self.finish_loop(indent, depth, loops)

    def finish_loop(self, indent: int, depth: int, loops: int) -> None:
        self.block(indent + 1, depth, loops + 1)
        if self.random.random() < 0.4:
            self.line(indent, "else:")
            self.block(indent + 1, depth, loops)


class ExhaustedError(Exception):
    """A random program ran for long enough."""


def mark(log: list[Any], fuel: list[int], number: int, value: Any) -> Any:
    """Note an evaluation; nothing runs for ever."""
    log.append((number, value))
    fuel[0] -= 1
    if fuel[0] < 0:
        raise ExhaustedError(number)
    return value


@pytest.mark.parametrize("seed", range(150))
def test_random_program(seed: int) -> None:
    text = ProgramWriter(seed).program()
    function = define(text, mark=len)
    # The function that leaves marks is called as it is: compiling it is another test's subject.
    function.__globals__["mark"] = _Opaque(mark)
    check(function, [([], [40], a, b) for a, b in ((0, 0), (1, 0), (0, 2), (3, 1))])


class _Opaque:
    """A callable object, which compiled code calls as it is."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, *args: Any) -> Any:
        return self.function(*args)
