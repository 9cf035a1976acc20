"""Scans: loops that join elements to a variable and keep what it is after each of them.

The threads of a block take as many elements as they are at a time.  They scan those together, and
join what the variable was before; sums of floats are therefore added up in another order than on
the host, as in all reductions of threads.

A long scan with nothing around it takes three kernels, since blocks do not wait for each other:
every block of the first joins a chunk of the elements, the second, of one block, scans what they
made, and in the third every block scans its chunk, beginning with what is before that.  How long
the chunks are depends on the extent alone, and so does the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jitcore.codegen.cuda.kernels import BLOCK, MAX_THREADS, Launch, Mapped, by_first_thread
from jitcore.codegen.cuda.nests import ELEMENT_THREADS, blocks_for, check_nest, extent_of
from jitcore.codegen.cuda.reductions import Parts, share_reduction
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Const,
    Expr,
    For,
    If,
    Let,
    Load,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.accumulators import identity
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    compare,
    integer,
    minimum,
    multiply,
    select,
    subtract,
)
from jitcore.codegen.rewriting import numbered
from jitcore.codegen.traversal import bound_names, expressions, loads_in, variables

__all__ = ["is_scan", "scan_by_blocks", "scan_by_chunks", "scanned_variables", "share_scan"]

CHUNKS = 1024
"""The most chunks of a scan: one for each thread of the block that scans what they made."""

SHORTEST = 4096
"""One block is as fast for fewer elements."""

_ASSOCIATIVE = frozenset({"add", "mul", "min", "max"})


@dataclass(frozen=True, slots=True)
class _Step:
    """``bound = var op element; var = bound``."""

    var: Var
    bound: Var
    op: str
    element: Expr


def is_scan(loop: For) -> bool:
    """Whether all that an iteration takes over from the one before is the variables of scans."""
    return _steps(loop) is not None


def scanned_variables(loop: For) -> list[Var]:
    """The variables that a scan takes from one iteration to the next."""
    return [step.var for step in _steps(loop) or ()]


def _steps(loop: For) -> list[_Step] | None:
    if loop.step != 1:
        return None
    bound = bound_names([loop])
    values = {one.var.name: one.value for one in loop.body if isinstance(one, Let)}
    steps: list[_Step] = []
    for statement in loop.body:
        match statement:
            case Assign(var, Var() as value) if var.name not in bound:
                step = values.get(value.name)
                if not isinstance(step, Binary) or step.x != var or step.op not in _ASSOCIATIVE:
                    return None
                steps.append(_Step(var, value, step.op, step.y))
            case Let(mutable=False) | Store() | Comment():
                continue
            case _:
                return None
    names = {step.var.name for step in steps}
    own = {step.bound.name for step in steps}
    others = [one.value for one in loop.body if isinstance(one, Let) and one.var.name not in own]
    read = [name for x in (*others, *(step.element for step in steps)) for name in variables(x)]
    return steps if steps and not names & set(read) else None


def share_scan(loop: For, names: set[str]) -> list[Stmt]:
    """The loop as the work of a block's threads."""
    steps = _steps(loop)
    assert steps is not None
    base = Var(numbered("base", names), "int64")
    place = Var(numbered("place", names), "int64")
    is_real = compare("lt", place, loop.stop)
    body: list[Stmt] = [
        Let(place, add(base, Call("cuda.thread", (), "int64"))),
        # Threads beyond the end read the last element, and have no part in the scan.
        Let(loop.var, minimum(place, subtract(loop.stop, ONE))),
        *_scanned(loop.body, {step.bound.name: step for step in steps}, is_real, names),
        Assign(base, add(base, Call("cuda.threads", (), "int64"))),
    ]
    return [Let(base, loop.start, mutable=True), While([], compare("lt", base, loop.stop), body)]


def _scanned(
    statements: Sequence[Stmt], steps: dict[str, _Step], is_real: Expr, names: set[str]
) -> Iterator[Stmt]:
    parts: dict[str, Var] = {}
    for statement in statements:
        match statement:
            case Let(var) if var.name in steps:
                step = steps[var.name]
                dtype = var.dtype
                part = Var(numbered(f"{step.var.name}_part", names), dtype)
                parts[step.var.name] = part
                neutral = identity(step.op, np.dtype(dtype))
                yield Let(part, select(is_real, step.element, neutral))
                scanned = Call(f"cuda.scan_{step.op}", (part,), dtype)
                yield Let(var, Binary(step.op, step.var, scanned, dtype))
            case Assign(var, Var()) if var.name in parts:
                step = next(one for one in steps.values() if one.var == var)
                whole = Call(f"cuda.block_{step.op}", (parts[var.name],), var.dtype)
                yield Assign(var, Binary(step.op, var, whole, var.dtype))
            case Store():
                yield If(is_real, [replace(statement)])
            case _:
                yield statement
