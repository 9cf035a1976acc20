"""Random Python functions that are full of control flow."""

from __future__ import annotations

import random

__all__ = ["random_program"]

VARIABLES = "abcd"


def random_program(seed: int) -> str:
    """The source of ``f(a, b, xs, log)``: two ints, a list of three, a noting function."""
    return _Program(random.Random(seed)).source()


class _Program:
    def __init__(self, numbers: random.Random) -> None:
        self.numbers = numbers
        self.loops = 0

    def source(self) -> str:
        lines = ["c = 1", *(["d = a"] if self.chance(0.8) else []), *self.block(0, inside=False)]
        return "\n".join(["def f(a, b, xs, log):", *indented(lines), "    return a, b, c, d", ""])

    def chance(self, probability: float) -> bool:
        return self.numbers.random() < probability

    def pick(self, *choices: str) -> str:
        return self.numbers.choice(choices)

    def variable(self) -> str:
        return self.pick(*VARIABLES)

    # Expressions

    def expression(self, depth: int = 0) -> str:
        if depth > 2 or self.chance(0.35):
            return self.pick(*VARIABLES, str(self.numbers.randint(-3, 5)))
        one, two = self.expression(depth + 1), self.expression(depth + 1)
        return self.pick(
            f"({one} {self.pick('+', '-', '*', '//', '%', '&')} {two})",
            f"({one} {self.pick('+', '-', '*', '//', '%', '&')} {two})",
            f"({one} {self.pick('and', 'or')} {two})",
            f"({one} if {self.condition(depth + 1)} else {two})",
            f"log({one})",
            f"xs[{one} % 3]",
            f"-{one} ** 2",
        )

    def condition(self, depth: int = 0) -> str:
        sign = self.pick("<", ">", "==", "!=", "<=", "in", "not in")
        right = "xs" if "in" in sign else self.variable()
        test = f"{self.expression(depth + 1)} {sign} {right}"
        if depth < 2 and self.chance(0.25):
            return f"({test} {self.pick('and', 'or')} {self.condition(depth + 1)})"
        return self.pick(
            test,
            test,
            f"(not {test})",
            f"({self.variable()} < {self.expression(depth + 1)} <= {self.variable()})",
            self.expression(depth + 1),
        )

    # Statements

    def block(self, depth: int, *, inside: bool) -> list[str]:
        """Some statements; ``inside`` a loop they may leave it."""
        count = self.numbers.randint(1, 4)
        return [line for _ in range(count) for line in self.statement(depth, inside=inside)]

    def statement(self, depth: int, *, inside: bool) -> list[str]:
        if depth > 3 or self.chance(0.55):
            return self.simple(inside=inside)
        if self.chance(0.5):
            return self.branch(depth, inside=inside)
        lines = self.loop(depth)
        if self.chance(0.2):
            lines += ["else:", *indented(self.block(depth + 1, inside=inside))]
        return lines

    def simple(self, *, inside: bool) -> list[str]:
        if inside and self.chance(0.07):
            return [self.pick("break", "continue")]
        if self.chance(0.05):
            return [self.pick(f"return {self.expression()}", f"del {self.variable()}")]
        one, two = self.expression(), self.expression()
        sign = self.pick("=", "=", "+=", "-=", "*=")
        return [
            self.pick(
                f"{self.variable()} {sign} {one}",
                f"{self.variable()} {sign} {one}",
                f"{self.variable()}, {self.variable()} = {one}, {two}",
                f"xs[{two} % 3] {sign} {one}",
                f"log({one})",
            )
        ]

    def branch(self, depth: int, *, inside: bool) -> list[str]:
        if self.chance(0.05):
            return [f"if {self.condition()}:", f"    raise ValueError({self.expression()})"]
        lines = [f"if {self.condition()}:", *indented(self.block(depth + 1, inside=inside))]
        if self.chance(0.3):
            lines += [f"elif {self.condition()}:"]
            lines += indented(self.block(depth + 1, inside=inside))
        if self.chance(0.4):
            lines += ["else:", *indented(self.block(depth + 1, inside=inside))]
        return lines

    def loop(self, depth: int) -> list[str]:
        body = indented(self.block(depth + 1, inside=True))
        if self.chance(0.4):
            self.loops += 1
            counter = f"k{self.loops}"
            test = f"{counter} < {self.numbers.randint(0, 3)}"
            test = self.pick(test, f"{test} and {self.condition(1)}")
            return [f"{counter} = 0", f"while {test}:", f"    {counter} += 1", *body]
        header = self.pick(
            f"for {self.variable()} in range({self.expression(2)} % 4):",
            f"for {self.variable()} in xs:",
            f"for {self.variable()}, {self.variable()} in enumerate(xs):",
        )
        return [header, *body]


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
