"""Control flow of the front end: graphs, run by the interpreter, do what Python does."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import FunctionType
from typing import Any

import control_flow_subjects as subjects
import pytest
from frontend_checking import check, define

CASES: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (subjects.find_first, [([3, 4, 5], 4), ([], 1), ([1], 2)]),
    (subjects.nested_loops, [(n, m) for n in range(5) for m in range(6)]),
    (subjects.while_else, [(3,), (5,), (9,), (0,)]),
    (subjects.endless, [(-5,), (10,)]),
    (subjects.endless_return, [(0,), (3,), (30,)]),
    (subjects.maybe_unbound, [(0,), (1,), (2,), (3,)]),
    (subjects.unbound_after_delete, [(n,) for n in range(6)]),
    (subjects.delete_twice, [(0,), (1,)]),
    (subjects.early_returns, [(a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]),
    (subjects.implicit_none, [(0,), (1,)]),
    (subjects.nothing, [()]),
    (subjects.chained, [(1, 2, 3, 3), (1, 2, 3, 4), (2, 1, 0, 0), (1, 1, 1, 1)]),
    (subjects.swap, [(1, 2, 3)]),
    (subjects.boolean_values, [(a, b, c) for a in (0, 1) for b in ("", "b") for c in ([], [1])]),
    (subjects.walrus, [([1, 2, 3, 4],), ([1, 2, 0],), ([1],)]),
    (subjects.walrus_in_branch, [(0, 5), (1, 5)]),
    (subjects.augmented, [([1, 2, 3, 4], 2)]),
    (subjects.asserting, [(3,), (-1,), (11,)]),
    (subjects.raising, [(0,), (1,), (2,), (3,), (4,)]),
    (subjects.loop_returns_always, [([],), ([4, 5],)]),
    (subjects.continue_in_while, [(n,) for n in (0, 1, 5, 12)]),
    (subjects.comprehensions, [(0,), (7,)]),
    (subjects.generators, [([1, 2, 3],), ([],), ([9, 0],)]),
    (subjects.search_stops_early, [([1, 0, 2, 3, 1],), ([0, 0, 3],), ([],)]),
    (subjects.comprehension_unbound, [(0,), (2,)]),
    (subjects.texts, [("a", 2.5), ([1], 3)]),
    (subjects.displays, [([1, 2], 3), ((), 1)]),
    (subjects.star_calls, [([1, 2], 3)]),
    (subjects.slices, [([1, 2, 3, 4, 5], 3)]),
    (subjects.nested_functions, [(1, 2)]),
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
            lambda: self.line(indent, f"{self.name()}, {self.name()} = a, {self.mark()}"),
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
