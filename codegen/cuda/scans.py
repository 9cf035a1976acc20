"""Scans: loops that join elements to a variable and keep what it is after each of them.

The threads of a block take as many elements as they are at a time.  They scan those together, and
join what the variable was before; sums of floats are therefore added up in another order than on
the host, as in all reductions of threads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from jitcore.codegen.loop_passes.rewriting import numbered
from jitcore.codegen.loop_passes.traversal import bound_names, expressions, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Comment,
    Continue,
    Do,
    Expr,
    For,
    If,
    Let,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.accumulators import identity
from jitcore.codegen.lowering.arithmetic import ONE, add, compare, minimum, select, subtract
from jitcore.ir.dataclass import dataclass

__all__ = ["Step", "is_scan", "scanned_variables", "share_scan", "steps_of"]

_ASSOCIATIVE = frozenset({"add", "mul", "min", "max"})


@dataclass(frozen=True, slots=True)
class Step:
    """``bound = var op element; var = bound``."""

    var: Var
    bound: Var
    op: str
    element: Expr


def is_scan(loop: For) -> bool:
    """Whether all that an iteration takes over from the one before is the variables of scans."""
    return steps_of(loop) is not None


def scanned_variables(loop: For) -> list[Var]:
    """The variables that a scan takes from one iteration to the next."""
    return [step.var for step in steps_of(loop) or ()]


def steps_of(loop: For) -> list[Step] | None:
    """The steps of a scan; None for any other loop."""
    if loop.step != 1:
        return None
    bound = bound_names([loop])
    values = {one.var.name: one.value for one in loop.body if isinstance(one, Let)}
    steps: list[Step] = []
    for statement in loop.body:
        match statement:
            case Assign(var, Var() as value) if var.name not in bound:
                step = values.get(value.name)
                if not isinstance(step, Binary) or step.x != var or step.op not in _ASSOCIATIVE:
                    return None
                steps.append(Step(var, value, step.op, step.y))
            case Let(mutable=False) | Store() | Comment():
                continue
            case If() if _is_apart(statement, bound):
                continue
            case _:
                return None
    names = {step.var.name for step in steps}
    own = {id(one) for one in loop.body if isinstance(one, Let | Assign) and _is_own(one, steps)}
    others = [x for one in walk(loop.body) if id(one) not in own for x in expressions(one)]
    read = [name for x in (*others, *(step.element for step in steps)) for name in variables(x)]
    return steps if steps and not names & set(read) else None


def _is_own(statement: Let | Assign, steps: Sequence[Step]) -> bool:
    """Whether a statement is one of the two that make a step."""
    return any(statement.var in (step.var, step.bound) for step in steps)


def _is_apart(branch: If, bound: set[str]) -> bool:
    """Whether a branch only writes, and takes nothing to the next iteration."""
    for one in walk([branch]):
        if isinstance(one, Assign) and one.var.name not in bound:
            return False
        if isinstance(one, Return | Break | Continue | While | Do):
            return False
    return True


def share_scan(loop: For, names: set[str]) -> list[Stmt]:
    """The loop as the work of a block's threads."""
    steps = steps_of(loop)
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
    statements: Sequence[Stmt], steps: dict[str, Step], is_real: Expr, names: set[str]
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
            case Store() | If():
                yield If(is_real, [statement])
            case _:
                yield statement
