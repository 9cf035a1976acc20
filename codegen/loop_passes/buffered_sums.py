"""Sums of what takes roots are added up from a buffer in the cache.

Roots are estimated in loops over vectors, which compute elements and nothing else
(`estimated_roots`).  A store and a load take a tenth of the time that this saves.

Before::

    for k in range(0, n):
        t1 = load(x, k)
        t2 = sqrt(t1)
        t3 = 1.0 / t2
        total = total + float64(t3)

After::

    buffer = stack(2048)
    for first in range(0, n, 512):
        count = minimum(512, n - first)
        for k in range(first, first + count):
            t1 = load(x, k)
            t2 = sqrt(t1)
            t3 = 1.0 / t2
            buffer[k - first] = t3
        for place in range(0, count):
            total = total + float64(buffer[place])
"""

from __future__ import annotations

from dataclasses import replace

from jitcore.codegen.loop_passes.estimated_roots import takes_roots
from jitcore.codegen.loop_passes.rewriting import numbered, with_loops
from jitcore.codegen.loop_passes.traversal import STACK, names_in, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    Function,
    Let,
    Load,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, subtract
from jitcore.codegen.lowering.float_sums import SUM_TAIL
from jitcore.codegen.printers.llvm_instructions import memory_bytes
from jitcore.codegen.printers.vector_forms import is_vector_loop

__all__ = ["buffer_sums"]

BUFFER_BYTES = 2048
"""A part of the first cache, and of a page: a few calls fill it, and few of its sums are joined."""


def buffer_sums(function: Function, vector_bits: int, in_halves: bool = False) -> Function:
    """The function with sums that are added up from buffers.

    Parameters
    ----------
    function : Function
    vector_bits : int
        The size of a vector register.
    in_halves : bool
        Whether the processor computes one of 512 bits as two halves.
    """
    if vector_bits != 512:
        return function
    buffers = _Buffers(function, vector_bits, in_halves)
    return replace(function, body=with_loops(function.body, buffers.loop))


class _Buffers:
    def __init__(self, function: Function, vector_bits: int, in_halves: bool) -> None:
        self.vector_bits = vector_bits
        self.in_halves = in_halves
        self.names = names_in(function)
        lets = [one for one in walk(function.body) if isinstance(one, Let)]
        self.multiples = {one.var: one.value for one in lets if isinstance(one.value, Binary)}

    def loop(self, loop: For) -> list[Stmt] | None:
        return self.by_buffer(loop) if self.is_needed(loop) else None

    def is_needed(self, loop: For) -> bool:
        """Whether a loop adds up what takes roots, enough of it to fill registers."""
        if not _is_sum(loop) or self.is_rest(loop):
            return False
        return takes_roots(loop, self.vector_bits, self.in_halves)

    def is_rest(self, loop: For) -> bool:
        """Whether a loop has what is left beside whole vectors, less than registers hold."""
        tail = Const(-SUM_TAIL, "int64")
        whole = self.multiples.get(loop.start) if isinstance(loop.start, Var) else None
        return whole == Binary("and", loop.stop, tail, "int64")

    def by_buffer(self, loop: For) -> list[Stmt] | None:
        """The loop over buffers; None where it has to stay."""
        steps = [one for one in loop.body if isinstance(one, Assign)]
        size = BUFFER_BYTES // max(memory_bytes(_term(one).dtype) for one in steps)
        length = subtract(loop.stop, loop.start)
        first, place = self.variable("first"), self.variable("place")
        count: Expr = integer(size)
        if not isinstance(length, Const) or length.value % size:
            count = self.variable("count")
        known = minimum(integer(size), subtract(length, first))
        counted: list[Stmt] = [Let(count, known)] if isinstance(count, Var) else []
        buffers = [self.variable("buffer", "ptr") for _ in steps]
        roots = [numbered("buffer", self.names) for _ in steps]
        start = add(loop.start, first)
        body: list[Stmt] = []
        added: list[Stmt] = []
        for one in loop.body:
            if not isinstance(one, Assign):
                body.append(one)
                continue
            buffer, root, term = buffers[len(added)], roots[len(added)], _term(one)
            body.append(Store(buffer, subtract(loop.var, start), term, root))
            added.append(replace(one, value=_with_term(one, Load(buffer, place, term.dtype, root))))
        filled = replace(loop, start=start, stop=add(start, count), body=body)
        if not is_vector_loop(filled):
            return None
        room = Call(STACK, (integer(BUFFER_BYTES),), "ptr", external=True)
        loops: list[Stmt] = [*counted, filled, For(place, ZERO, count, added)]
        return [
            *(Let(buffer, room) for buffer in buffers),
            For(first, ZERO, length, loops, step=size),
        ]

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(numbered(name, self.names), dtype)


def _is_sum(loop: For) -> bool:
    """Whether a loop only adds up what it computes, in any order."""
    steps = [one for one in loop.body if isinstance(one, Assign)]
    others = [one for one in loop.body if not isinstance(one, Assign)]
    lets = [one for one in others if isinstance(one, Let) and not one.mutable]
    comments = sum(isinstance(one, Comment) for one in others)
    if loop.step != 1 or not steps or len(lets) + comments != len(others):
        return False
    read = {name for one in lets for name in variables(one.value)}
    read |= {name for one in steps if _is_step(one) for name in variables(_term(one))}
    return all(map(_is_step, steps)) and read.isdisjoint(one.var.name for one in steps)


def _is_step(one: Assign) -> bool:
    """Whether the order of a variable's new values is free, which are of floats."""
    value = one.value
    is_free = isinstance(value, Binary) and value.reassoc and value.x == one.var
    return is_free and _term(one).dtype in ("float32", "float64")


def _term(step: Assign) -> Expr:
    """What a step adds, before it is converted."""
    assert isinstance(step.value, Binary)
    term = step.value.y
    return term.x if isinstance(term, Cast) and term.x.dtype == "float32" else term


def _with_term(step: Assign, term: Load) -> Expr:
    assert isinstance(step.value, Binary)
    dtype = step.value.y.dtype
    return replace(step.value, y=term if term.dtype == dtype else Cast(term, dtype))
