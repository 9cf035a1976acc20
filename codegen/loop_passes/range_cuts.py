"""Loops whose iterations choose places by their number become one loop for each choice.

An array that is rolled is read from its other end in the first or the last iterations.  LLVM makes
no vectors of places that are chosen, but it does of each part of the range.

Before::

    for j in range(0, n):
        place = select(j < 1, j + (n - 1), j - 1)
        y[j] = x[place]

After::

    for j in range(0, 1):
        y[j] = x[j + (n - 1)]
    for j in range(1, n):
        y[j] = x[j - 1]
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import copied, replaced, with_expressions, with_loops
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    known_trips,
    subexpressions,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Comment,
    Const,
    Expr,
    For,
    Function,
    Let,
    Select,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import integer, maximum, minimum

__all__ = ["cut_ranges"]

MOST_CUTS = 8
"""Each is a copy of the loop."""


def cut_ranges(function: Function) -> Function:
    """The function with its innermost loops cut where a place is chosen."""
    return replace(function, body=with_loops(function.body, _Cuts(function).loop))


class _Cuts:
    def __init__(self, function: Function) -> None:
        self.names = bound_names(function.body) | {param.name for param in function.params}

    def loop(self, loop: For) -> list[Stmt] | None:
        cuts = sorted(set(_cuts(loop))) if _is_plain(loop) else []
        return list(self.parts(loop, cuts)) if 0 < len(cuts) <= MOST_CUTS else None

    def parts(self, loop: For, cuts: Sequence[int]) -> Iterator[Stmt]:
        """The loop for each part of its range that has iterations, as far as that is known."""
        # No part may end before it begins: what counts its iterations relies on that.
        ends = [minimum(maximum(loop.start, integer(cut)), loop.stop) for cut in cuts]
        starts, stops = [loop.start, *ends], [*ends, loop.stop]
        for number, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            part = self.part(loop, start, stop, cuts[number - 1] if number else None)
            if known_trips(part) != 0:
                yield part

    def part(self, loop: For, start: Expr, stop: Expr, first: int | None) -> For:
        """The loop over a part of its range; all comparisons are known there."""
        body = [with_expressions(one, lambda x: _chosen(x, loop.var, first)) for one in loop.body]
        part = copied(replace(loop, start=start, stop=stop, body=body), self.names, {})
        assert isinstance(part, For)
        return part


def _is_plain(loop: For) -> bool:
    is_flat = all(isinstance(one, Let | Assign | Store | Comment) for one in loop.body)
    return is_flat and loop.step == 1


def _cuts(loop: For) -> Iterator[int]:
    """Where places in memory are chosen by the number of the iteration."""
    for one in loop.body:
        for expression in expressions(one):
            for part in subexpressions(expression):
                if isinstance(part, Select) and part.dtype == "int64":
                    cut = _cut(part.condition, loop.var)
                    if cut is not None:
                        yield cut


def _cut(condition: Expr, var: Var) -> int | None:
    match condition:
        case Binary(op="lt", x=x, y=Const(value=value)) if x == var:
            return int(value)
    return None


def _chosen(x: Expr, var: Var, first: int | None) -> Expr:
    """An expression in the part from a cut on."""

    def change(one: Expr) -> Expr | None:
        cut = _cut(one.condition, var) if isinstance(one, Select) else None
        if not isinstance(one, Select) or cut is None or one.dtype != "int64":
            return None
        is_below = first is None or first < cut
        return _chosen(one.x if is_below else one.y, var, first)

    return replaced(x, change)
