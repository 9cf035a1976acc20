"""Loops over the same elements that follow each other become one: one kernel, which reads once.

Before::

    for k in range(n): total += x[k] * x[k]
    for i in range(n): y[i] = x[i] * s

After::

    for k in range(n):
        total += x[k] * x[k]
        y[k] = x[k] * s

The value and the gradient of a function have such loops.  No iteration may read what the other loop
writes, and nothing is gained where they read nothing in common.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jitcore.codegen.cuda.nests import is_independent
from jitcore.codegen.cuda.reductions import reductions_of
from jitcore.codegen.loop_passes.rewriting import replaced, with_blocks, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    loads_in,
    read_roots,
    variables,
    walk,
    written_roots,
)
from jitcore.codegen.loops import Assign, Comment, Expr, For, Let, Stmt, Store, Var

__all__ = ["with_siblings_merged"]


def with_siblings_merged(statements: Sequence[Stmt]) -> list[Stmt]:
    """Statements of the host with loops merged that are over the same elements."""
    made: list[Stmt] = []
    for one in statements:
        statement = with_blocks(one, with_siblings_merged) if not isinstance(one, For) else one
        place = _before(made)
        first = made[place] if place is not None else None
        if isinstance(statement, For) and isinstance(first, For) and place is not None:
            merged = _merged(first, statement, made[place + 1 :])
            if merged is not None:
                made[place] = merged
                continue
        made.append(statement)
    return made


def _before(statements: Sequence[Stmt]) -> int | None:
    """The place of the last loop, behind which scalars are bound and nothing else happens."""
    for place in reversed(range(len(statements))):
        one = statements[place]
        if isinstance(one, For):
            return place
        is_plain = isinstance(one, Let) and not one.mutable and not list(loads_in([one]))
        if not is_plain and not isinstance(one, Comment):
            return None
    return None


def _merged(first: For, second: For, between: Sequence[Stmt]) -> For | None:
    if not (_is_flat(first) and _is_flat(second)) or reductions_of(second):
        return None
    if (first.start, first.stop) != (second.start, second.stop) or not is_independent(second):
        return None
    if not is_independent(first) and not reductions_of(first):
        return None
    changing = bound_names([*between]) | {
        one.var.name for one in walk([first]) if isinstance(one, Assign)
    }
    read = {name for one in walk([second]) for x in expressions(one) for name in variables(x)}
    if changing & read or (bound_names([first]) & bound_names(second.body)):
        return None
    if not _are_apart(first, second):
        return None

    def renamed(x: Expr) -> Expr | None:
        return first.var if isinstance(x, Var) and x.name == second.var.name else None

    body = [with_expressions(one, lambda x: replaced(x, renamed)) for one in second.body]
    return replace(first, body=[*first.body, *body])


def _is_flat(loop: For) -> bool:
    """Whether a loop has nothing inside but values that it binds, joins or stores."""
    if loop.step != 1:
        return False
    kinds = (Let, Assign, Store, Comment)
    return all(isinstance(one, kinds) for one in loop.body)


def _are_apart(first: For, second: For) -> bool:
    """Whether neither touches what the other one writes, and both read something in common."""
    reads = [read_roots(one.body) for one in (first, second)]
    writes = [written_roots(one.body) for one in (first, second)]
    if "" in reads[0] | reads[1] | writes[0] | writes[1] or not reads[0] & reads[1]:
        return False
    return not (writes[0] & (reads[1] | writes[1])) and not writes[1] & reads[0]
