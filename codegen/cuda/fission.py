"""Few long lines that are read several times: a nest for each time, which many blocks can share.

Before, where there are ``n`` lines of ``m`` elements::

    for i in range(n):
        total = 0.0
        for k in range(m): total += x[i * m + k]
        mean = total / m
        for k in range(m): y[i * m + k] = x[i * m + k] - mean

After::

    for i in range(n):
        total = 0.0
        for k in range(m): total += x[i * m + k]
        totals[i] = total
    for i in range(n):
        total = totals[i]
        mean = total / m
        for k in range(m): y[i * m + k] = x[i * m + k] - mean

As one kernel, of a block for each line, it reads memory once, but leaves most of a device idle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from jitcore.codegen.cuda.divided import (
    Several,
    divided,
    is_reduction,
    least_part,
    line_blocks,
    line_number,
)
from jitcore.codegen.cuda.nests import chain, extent_of, is_independent, nest_of
from jitcore.codegen.cuda.reductions import reductions_of
from jitcore.codegen.loop_passes.rewriting import numbered
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    free_variables,
    overlap,
    read_roots,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Comment,
    Const,
    Expr,
    For,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import both, compare, integer, maximum, multiply, product

__all__ = ["fission"]

FEW_BLOCKS = 32
"""So many blocks use a quarter of a large device, which is less than to read lines anew costs."""


def fission(nest: For, is_column: Callable[[For, For], bool], names: set[str]) -> Several | None:
    """A nest as one for each of its inner loops; None where it has but one, or it never pays.

    Parameters
    ----------
    nest : For
    is_column : callable
        Whether the neighbours in memory are the iterations of the first loop, not of the second.
    names : set of str
        The names that are taken; gets the new ones.
    """
    if not is_independent(nest):
        return None
    loops, body = chain(nest, is_independent)
    inner = [one for one in body if isinstance(one, For)]
    if len(inner) < 2 or not all(map(_is_apart, inner)) or not _is_plain(loops, body, inner):
        return None
    by_column = any(is_column(loops[-1], one) for one in inner)
    blocks = line_blocks(product(map(extent_of, loops)), by_column)
    longest = extent_of(inner[0])
    for one in inner[1:]:
        longest = maximum(longest, extent_of(one))
    is_long = compare("ge", longest, integer(2 * least_part(by_column)))
    pays = both(compare("le", blocks, integer(FEW_BLOCKS)), is_long)
    if pays == Const(False, "bool"):
        return None
    made = _Fission(loops, body, names)
    nests = [divided(one, is_column, names) or (one, "a time of several") for one in made.nests]
    return Several([], pays, made.memory(), nests)


def _is_apart(loop: For) -> bool:
    """Whether all elements of a line may be taken at once."""
    is_simple = all(isinstance(one, Let | Assign | Store | Comment) for one in loop.body)
    return is_simple and (is_independent(loop) or is_reduction(loop))


def _is_plain(loops: Sequence[For], body: Sequence[Stmt], inner: Sequence[For]) -> bool:
    """Whether extents are the host's, and numbers of a line can be had again where need be."""
    own = bound_names([*body, *loops]) | {one.var.name for one in loops}
    if any(own & {one.name for one in free_variables([replace(x, body=[])])} for x in inner):
        return False
    lets = [one for one in body if isinstance(one, Let)]
    if overlap(read_roots(lets), written_roots(body)):
        return False
    steps = [one.var.name for loop in inner for one in reductions_of(loop)]
    mutable = {one.var.name for one in lets if one.mutable}
    is_known = all(isinstance(one, Let | Store | Comment | For) for one in body)
    return is_known and len(steps) == len(set(steps)) and mutable == set(steps)


class _Fission:
    """Writes the nests."""

    def __init__(self, loops: Sequence[For], body: Sequence[Stmt], names: set[str]) -> None:
        self._loops, self._names = loops, names
        self._lets = {one.var.name: one for one in body if isinstance(one, Let)}
        self._memory: dict[str, Var] = {}
        bodies = [self._with_numbers(piece) for piece in _pieces(body)]
        self.nests = [nest_of(self._loops, self._kept(body)) for body in bodies]

    def memory(self) -> list[tuple[Var, Expr]]:
        """What keeps the numbers of lines, and how many bytes that takes."""
        count = product(map(extent_of, self._loops))
        return [
            (pointer, multiply(count, integer(np.dtype(self._lets[name].var.dtype).itemsize)))
            for name, pointer in self._memory.items()
        ]

    def _with_numbers(self, piece: Sequence[Stmt]) -> list[Stmt]:
        """What a loop does with a line, and before it the numbers that it takes from others."""
        begin: dict[str, Let] = {}

        def bind(statements: Sequence[Stmt]) -> None:
            for var in free_variables(statements):
                let = self._lets.get(var.name)
                if let is None or var.name in begin:
                    continue
                if let.mutable:
                    let = Let(var, self._number(var))
                else:
                    bind([let])
                begin[var.name] = let

        bind(piece)
        return [*begin.values(), *piece]

    def _number(self, var: Var) -> Load:
        """The number of a line that an earlier nest has left."""
        if var.name not in self._memory:
            name = numbered(f"{var.name}_of_lines", self._names)
            self._memory[var.name] = Var(name, "ptr")
        pointer = self._memory[var.name]
        return Load(pointer, line_number(self._loops), var.dtype, pointer.name)

    def _kept(self, body: list[Stmt]) -> list[Stmt]:
        """A nest's statements, and its numbers that others need."""
        own = [one.var for one in body if isinstance(one, Let) and one.mutable]
        place = line_number(self._loops)
        kept = [(self._memory[one.name], one) for one in own if one.name in self._memory]
        return [*body, *(Store(pointer, place, var, pointer.name) for pointer, var in kept)]


def _pieces(body: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """The statements of each inner loop: those before it, and for the last one those behind it."""
    last = max(number for number, one in enumerate(body) if isinstance(one, For))
    begin = 0
    for number, one in enumerate(body):
        if isinstance(one, For):
            end = len(body) if number == last else number + 1
            yield list(body[begin:end])
            begin = end
