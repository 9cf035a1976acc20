"""Places that are a known distance apart: loops that become functions of their own see that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import renamed, with_blocks, with_expressions
from jitcore.codegen.loop_passes.traversal import variables, walk
from jitcore.codegen.loops import Binary, Const, Expr, For, Function, Let, Stmt, Var

__all__ = ["compute_near_values"]

_MOST_VARIABLES = 3
"""What is computed of more variables is passed as it is."""


def compute_near_values(function: Function) -> Function:
    """Compute sums with constants inside of the loops that threads share.

    Before::

        offset = n + 1
        parallel for i in range(rows):
            for j in range(columns): ... x[n + 2*j] + x[offset + 2*j] ...

    After::

        offset = n + 1
        parallel for i in range(rows):
            for j in range(columns): ... x[n + 2*j] + x[n + 1 + 2*j] ...

    Such a loop is a function that gets the values of variables, and LLVM knows nothing of them but
    what that function says.  Elements that lie beside one another it loads as vectors, whatever the
    extents are.
    """
    mutable = {one.var.name for one in walk(function.body) if isinstance(one, Let) and one.mutable}
    return replace(function, body=_block(function.body, {}, mutable))


def _block(statements: Sequence[Stmt], around: Mapping[str, Expr], mutable: set[str]) -> list[Stmt]:
    """The statements, where some variables are known to be these expressions."""
    near, found = dict(around), list[Stmt]()
    for one in statements:
        if isinstance(one, Let) and not one.mutable:
            value = renamed(one.value, near)
            if _is_near(value, mutable):
                near[one.var.name] = value
        if isinstance(one, For) and one.parallel and near:
            body = [with_expressions(step, lambda x: renamed(x, near)) for step in one.body]
            found.append(replace(one, body=body))
        else:
            found.append(with_blocks(one, lambda block: _block(block, near, mutable)))
    return found


def _is_near(x: Expr, mutable: set[str]) -> bool:
    """Whether an expression adds constants to a few variables, or multiplies them."""
    names = variables(x)
    is_short = 0 < len(names) <= _MOST_VARIABLES and mutable.isdisjoint(names)
    return is_short and isinstance(x, Binary) and _is_linear(x)


def _is_linear(x: Expr) -> bool:
    match x:
        case Const(dtype="int64") | Var(dtype="int64"):
            return True
        case Binary("add" | "sub", one, other, "int64"):
            return _is_linear(one) and _is_linear(other)
        case Binary("mul", Const(), other, "int64") | Binary("mul", other, Const(), "int64"):
            return _is_linear(other)
    return False
