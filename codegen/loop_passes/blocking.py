"""Cut loops over steps into blocks of elements, where an element needs no other one.

A recurrence along an axis, or an iteration that goes over the same arrays again and again, reads
all of its memory in each step.  Where no element of a step depends on another element of any step,
a block of elements can take all the steps first, out of the cache; and blocks are independent, so
that several threads can share them.

Before::

    for k in range(steps):
        for i in range(n):                      # parallel
            c[i * stride + k] = c[i * stride + k - 1] * b[i]

After::

    for block in range((n + 31) // 32):         # parallel
        first = block * 32
        last = min(first + 32, n)
        for k in range(steps):
            for i in range(first, last):
                c[i * stride + k] = c[i * stride + k - 1] * b[i]

Each element is computed as before, so results keep their bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jitcore.codegen.loop_passes.accesses import ELEMENT, Access, Accesses
from jitcore.codegen.loop_passes.rewriting import unused_name, with_blocks
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    calls_c,
    expressions,
    known_trips,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Comment,
    Const,
    Expr,
    For,
    If,
    Let,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, multiply
from jitcore.codegen.lowering.ranges import Linear
from jitcore.ir.dataclass import dataclass

__all__ = ["BLOCK_BYTES", "block_steps"]

BLOCK_BYTES = 64 * 1024
"""The memory of one block: what a second-level cache holds beside the next one."""

LINE_BYTES = 64
"""What a processor reads at least, and keeps."""

LEAST_BLOCK = 8
MOST_STEPS = 2**16
"""Longer loops over steps are not looked at, unless their steps use the same places."""


def block_steps(statements: Sequence[Stmt], notes: list[str]) -> list[Stmt]:
    """The statements with loops over steps cut into blocks, wherever that changes nothing.

    Parameters
    ----------
    statements : sequence of Stmt
        The body of a function.
    notes : list of str
        Takes a line for each loop that is cut.
    """
    names = bound_names(statements)

    def blocked(statement: Stmt) -> Stmt:
        changed = with_blocks(statement, lambda block: [blocked(one) for one in block])
        plan = _plan(changed) if isinstance(changed, For) else None
        if plan is None:
            return changed
        notes.append(f"blocks of {plan.size} elements take all steps of the loop over {plan.name}")
        return plan.apply(names)

    return [blocked(one) for one in statements]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A loop over steps that can be cut, and the number of elements in a block."""

    loop: For
    extent: Expr
    size: int

    @property
    def name(self) -> str:
        """That of the loop's counter."""
        return self.loop.var.name

    def apply(self, names: set[str]) -> For:
        """The loop over blocks."""
        block, first, last = (
            Var(unused_name(f"{self.name}_{part}", names), "int64")
            for part in ("block", "first", "last")
        )
        body = [
            For(one.var, first, last, one.body) if isinstance(one, For) else one
            for one in self.loop.body
        ]
        rounded = add(self.extent, integer(self.size - 1))
        count = Binary("quot", rounded, integer(self.size), "int64")
        steps = For(self.loop.var, self.loop.start, self.loop.stop, body, self.loop.step)
        inside: list[Stmt] = [
            Let(first, multiply(block, integer(self.size))),
            Let(last, minimum(add(first, integer(self.size)), self.extent)),
            steps,
        ]
        return For(block, ZERO, count, inside, parallel=True)


def _plan(loop: For) -> _Plan | None:
    """How to cut a loop over steps; None where it must stay, or nothing would be gained."""
    nests = [one for one in loop.body if isinstance(one, For)]
    steps = known_trips(loop)
    if loop.parallel or not nests or (steps is not None and steps < 2):
        return None
    extent = nests[0].stop
    bound = {one.var.name for one in loop.body if isinstance(one, Let)} | {loop.var.name}
    if any(name in bound for name in variables(extent)):
        return None
    if not all(_is_part(one, extent) for one in loop.body):
        return None
    accesses = Accesses()
    for one in loop.body:
        if isinstance(one, For):
            accesses.nest(one)
        else:
            accesses.statement(one)
    if not _are_independent(accesses.found, loop.var.name, steps, extent):
        return None
    size = _block_size(accesses.found)
    if isinstance(extent, Const) and extent.value < 2 * size:
        return None
    return _Plan(loop, extent, size)


def _is_part(statement: Stmt, extent: Expr) -> bool:
    """Whether a statement of the loop may be done once a block: a nest, or a pure value."""
    match statement:
        case Comment():
            return True
        case Let(_, value, mutable):
            return not mutable and not calls_c(value)
        case For(_, start, stop, body, step, parallel):
            same = start == ZERO and stop == extent and step == 1
            return parallel and same and _stays_inside(body)
    return False


def _stays_inside(body: Sequence[Stmt]) -> bool:
    """Whether a nest only computes and stores, and changes no variable of its surroundings."""
    inside = list(walk(body))
    bound = bound_names(body)
    return all(
        isinstance(one, Comment | Let | Store | For | If)
        or (isinstance(one, Assign) and one.var.name in bound)
        for one in inside
    ) and not any(calls_c(one) for statement in inside for one in expressions(statement))


# Independence -----------------------------------------------------------------------------


def _are_independent(
    accesses: Sequence[Access], step: str, steps: int | None, extent: Expr
) -> bool:
    """Whether what one element writes, in any step, no other element ever reads or writes."""
    written = {one.root for one in accesses if one.is_write}
    if "" in written or not written:
        return False
    touching = {one for one in accesses if one.root in written or not one.root}
    most = int(extent.value) - 1 if isinstance(extent, Const) else None
    return all(
        _stay_apart(x, y, step, steps, most)
        for x in touching
        if x.is_write
        for y in touching
        if x.root == y.root or not y.root
    )


def _stay_apart(x: Access, y: Access, step: str, steps: int | None, most: int | None) -> bool:
    """Whether two accesses only ever meet in the same element."""
    if (x.root, x.pointer, x.dtype) != (y.root, y.pointer, y.dtype):
        return False
    if x.place is None or y.place is None:
        return False
    stride, per_step = _factor(x.place, ELEMENT), _factor(x.place, step)
    difference = x.place.plus(y.place, -1)
    if difference.terms or stride == 0:
        return False
    reach = x.reach[0] - y.reach[1], x.reach[1] - y.reach[0]
    distances = _distances(difference.constant, per_step, steps)
    return distances is not None and not _meet(distances, stride, reach, most)


def _factor(form: Linear, name: str) -> int:
    return dict(form.terms).get(name, 0)


def _distances(constant: int, per_step: int, steps: int | None) -> Sequence[int] | None:
    """How far apart the same element's places are in two steps, in all cases there are."""
    if per_step == 0:
        return [constant]
    if steps is None or steps > MOST_STEPS:
        return None
    return range(constant - per_step * (steps - 1), constant + per_step * steps, per_step)


def _meet(distances: Sequence[int], stride: int, reach: tuple[int, int], most: int | None) -> bool:
    """Whether ``stride * n + distance + r`` is 0 for some ``n`` but 0, and ``r`` within reach."""
    away = np.asarray(distances, np.int64)
    low, high = -away - reach[1], -away - reach[0]
    if stride < 0:
        low, high = -high, -low
    first, last = -(-low // abs(stride)), high // abs(stride)
    if most is not None:
        first, last = np.maximum(first, -most), np.minimum(last, most)
    return bool(np.any((first <= last) & ((first != 0) | (last != 0))))


# Size -------------------------------------------------------------------------------------


def _block_size(accesses: Sequence[Access]) -> int:
    """As many elements as the cache holds, with all that is read and written for them."""
    streams = dict(_streams(accesses))
    size = BLOCK_BYTES // max(sum(streams.values()), 1)
    return max(size - size % LEAST_BLOCK, LEAST_BLOCK)


def _streams(accesses: Sequence[Access]) -> Iterator[tuple[object, int]]:
    """What is read and written, and how many bytes of it belong to one element."""
    for access in accesses:
        itemsize = np.dtype(access.dtype).itemsize
        if access.place is None:
            yield access, LINE_BYTES
            continue
        stride = abs(_factor(access.place, ELEMENT)) * itemsize
        span = (access.reach[1] - access.reach[0]) * itemsize
        line = access.place.constant * itemsize // LINE_BYTES
        yield (access.pointer, access.place.terms, line), min(stride, LINE_BYTES) + span
