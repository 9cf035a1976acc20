"""Sums of elements that lie apart are kept in sixteen numbers.

LLVM makes no vectors of elements whose distance only a run tells, and one sum is a chain: each
addition waits for the one before it, and rounds a larger number than partial sums are.  Where the
distance is known and small it shuffles vectors, but leaves a round of all of them to single
elements, so that it loads nothing beyond the last one, and these are such a chain again.  NumPy's
pairwise sums have eight partial sums of at most sixteen elements; a block here has sixteen of at
most 32 (`lowering.float_sums`).

Before::

    for k in range(0, n):
        x_element = load(x, k * step)
        total = total + x_element

After, where a run finds that the step is not 1::

    whole = n & -16
    for k in range(whole, n):
        x_element = load(x, k * step)
        total = total + x_element
    apart, ..., apart_16 = 0.0, ..., 0.0
    for k in range(0, whole, 16):
        x_element, ..., x_element_16 = (load(x, (k + j) * step) for j in range(16))
        apart, ..., apart_16 = apart + x_element, ..., apart_16 + x_element_16
    total = total + (((apart + apart_2) + (apart_3 + apart_4)) + ...)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import numbered, renamed, with_loops
from jitcore.codegen.loop_passes.traversal import (
    children,
    known_trips,
    loads_in,
    names_in,
    variables,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Const,
    Expr,
    For,
    Function,
    If,
    Let,
    Stmt,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    TRUE,
    add,
    both,
    compare,
    constant,
    integer,
    subtract,
)
from jitcore.codegen.printers.loop_hints import MOST_REDUCED

__all__ = ["add_apart"]

SUMS = 16
"""How many numbers a sum is kept in: half of the registers, and more than wait for each other."""

LEAST_TRIPS = 2 * SUMS

MOST_STEPS = 4
"""Statements of a step: each is there sixteen times."""


def add_apart(function: Function) -> Function:
    """The function with sums of float64 that lie apart in several numbers."""
    return replace(function, body=with_loops(function.body, _Sums(function).loop))


class _Sums:
    def __init__(self, function: Function) -> None:
        self.names = names_in(function)

    def loop(self, loop: For) -> list[Stmt] | None:
        if not _is_sum(loop):
            return None
        steps = [step for load in loads_in(loop.body) for step in _steps(load.index, loop.var)]
        known = [step.value for step in steps if isinstance(step, Const)]
        unknown = {step.name: step for step in steps if isinstance(step, Var)}
        if any(1 < abs(step) <= MOST_REDUCED for step in known):
            return self.apart(loop)
        if not unknown:
            return None
        are_one: Expr = TRUE
        for step in unknown.values():
            are_one = both(are_one, compare("eq", step, integer(1)))
        ones = {name: integer(1) for name in unknown}
        body = [_with_value(one, lambda x: renamed(x, ones)) for one in loop.body]
        return [If(are_one, [replace(loop, body=body)], self.apart(loop))]

    def variable(self, name: str, dtype: str) -> Var:
        return Var(numbered(name, self.names), dtype)

    def apart(self, loop: For) -> list[Stmt]:
        """What is left beside whole rounds, the rounds, and the sum of their sums."""
        totals = [one.var for one in loop.body if isinstance(one, Assign)]
        sums = {
            total.name: [self.variable("apart", total.dtype) for _ in range(SUMS)]
            for total in totals
        }
        length = subtract(loop.stop, loop.start)
        whole = add(loop.start, _rounds(length))
        rest = [] if whole == loop.stop else [replace(loop, start=whole)]
        own = [one for of_total in sums.values() for one in of_total]
        opened = [Let(one, constant(0.0, one.dtype), mutable=True) for one in own]
        body = [one for number in range(SUMS) for one in self.copied(loop, number, sums)]
        rounds = For(loop.var, loop.start, whole, body, step=SUMS)
        joined = [
            Assign(total, Binary("add", total, _tree(sums[total.name]), total.dtype))
            for total in totals
        ]
        return [*rest, *opened, rounds, *joined]

    def copied(self, loop: For, number: int, sums: dict[str, list[Var]]) -> list[Stmt]:
        """A step of the loop, for one of the numbers that sums are kept in."""
        entry = add(loop.var, integer(number))
        own: dict[str, Expr] = {loop.var.name: entry} if number else {}
        found: list[Stmt] = []
        for one in loop.body:
            if isinstance(one, Let):
                var = self.variable(one.var.name, one.var.dtype) if number else one.var
                found.append(Let(var, renamed(one.value, own)))
                own[one.var.name] = var
            elif isinstance(one, Assign):
                var = sums[one.var.name][number]
                term = renamed(_term(one), own)
                found.append(Assign(var, Binary("add", var, term, var.dtype)))
        return found


def _is_sum(loop: For) -> bool:
    """Whether a loop does nothing but add up cheap elements of float64."""
    trips = known_trips(loop)
    lets = [one for one in loop.body if isinstance(one, Let) and not one.mutable]
    steps = [one for one in loop.body if isinstance(one, Assign)]
    plain = len(lets) + len(steps)
    comments = sum(isinstance(one, Comment) for one in loop.body)
    if loop.step != 1 or not steps or plain > MOST_STEPS or plain + comments < len(loop.body):
        return False
    totals = {one.var.name for one in steps}
    values = [*(one.value for one in lets), *map(_term, steps)]
    is_free = all(map(_is_free, steps)) and len(totals) == len(steps)
    is_own = totals.isdisjoint(name for value in values for name in variables(value))
    is_long = trips is None or trips >= LEAST_TRIPS
    return is_free and is_own and is_long and not any(map(_calls, values))


def _is_free(step: Assign) -> bool:
    value = step.value
    return (
        isinstance(value, Binary)
        and value.op == "add"
        and value.reassoc
        and value.dtype == "float64"
        and value.x == step.var
    )


def _term(step: Assign) -> Expr:
    return step.value.y if isinstance(step.value, Binary) else step.value


def _calls(x: Expr) -> bool:
    return isinstance(x, Call) or any(map(_calls, children(x)))


def _steps(index: Expr, var: Var) -> list[Expr]:
    """What a variable is multiplied by in an index."""
    if not isinstance(index, Binary):
        return []
    if index.op in ("add", "sub"):
        return [*_steps(index.x, var), *_steps(index.y, var)]
    return [index.y] if index.op == "mul" and index.x == var else []


def _rounds(length: Expr) -> Expr:
    """The largest multiple of a round that a length holds."""
    if isinstance(length, Const):
        return integer(length.value - length.value % SUMS)
    return Binary("and", length, integer(-SUMS), "int64")


def _tree(terms: Sequence[Var]) -> Expr:
    sums: list[Expr] = [*terms]
    while len(sums) > 1:
        pairs = zip(sums[::2], sums[1::2], strict=True)
        sums = [Binary("add", x, y, x.dtype) for x, y in pairs]
    return sums[0]


def _with_value(one: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    return replace(one, value=change(one.value)) if isinstance(one, Let | Assign) else one
