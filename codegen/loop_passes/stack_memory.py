"""Small temporary arrays get room on the function's stack.

``malloc`` and ``free`` take as long as some thirty additions, which is most of what a step with
vectors of three elements takes.  And where the loops over such an array are unrolled, LLVM keeps
what lies on the stack in registers.

Before::

    x = malloc(24)
    if x == null:
        free(y)
        return 3
    for i in range(3):
        x[i] = y[i] * 2.0
    ...
    free(x)

After::

    x = jc_stack(24)
    for i in range(3):
        x[i] = y[i] * 2.0
    ...
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import STACK, walk
from jitcore.codegen.loops import Binary, Call, Const, Do, Function, If, Let, Return, Stmt, Var

__all__ = ["put_on_stack"]

MOST = 1024
"""The bytes of an array that is small."""

MOST_IN_ALL = 16 * 1024
"""And of all of them: other threads' stacks may be short."""


def put_on_stack(function: Function) -> Function:
    """The function with its small temporaries on the stack."""
    chosen = dict(_small(function.body))
    if not chosen:
        return function
    return replace(function, body=_block(function.body, chosen))


def _small(statements: Sequence[Stmt]) -> Iterator[tuple[Var, Call]]:
    """The variables that hold small arrays, as many as there is room for, and what gives it."""
    left = MOST_IN_ALL
    for one in walk(statements):
        match one:
            case Let(var, Call("malloc", (Const(value=size),) as args, external=True), False):
                if size <= min(MOST, left):
                    left -= size
                    yield var, Call(STACK, args, "ptr", external=True)


def _block(statements: Sequence[Stmt], chosen: dict[Var, Call]) -> list[Stmt]:
    found: list[Stmt] = []
    for one in statements:
        match one:
            case Let(var=var) if var in chosen:
                found.append(replace(one, value=chosen[var]))
            case Do(Call("free", (Var() as var,))) if var in chosen:
                pass
            case If(Binary("eq", Var() as var, Const(), "bool"), [*_, Return()], []) if (
                var in chosen
            ):
                pass
            case _:
                found.append(with_blocks(one, lambda block: _block(block, chosen)))
    return found
