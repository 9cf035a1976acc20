"""Which loops are printed as loops over vectors (``vector_loops``)."""

from __future__ import annotations

from typing import Final

from jitcore.codegen.loop_passes.traversal import bound_names, children, variables
from jitcore.codegen.loops import (
    Binary,
    Call,
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
from jitcore.codegen.printers.vector_calls import is_independent

__all__ = ["is_same_element", "is_vector_loop", "is_vector_value"]

_FLOATS: Final = frozenset({"float32", "float64"})
_UNKNOWN_DTYPES: Final = frozenset({"float16", "bfloat16", "ptr"})
_TRAPS: Final = frozenset({"quot", "rem"})
"""What may end the process in lanes that no element fills."""
_SCALAR_ONLY: Final = frozenset({"frem", "add_overflows", "sub_overflows", "mul_overflows"})


def is_vector_loop(loop: For) -> bool:
    """Whether a loop only computes elements that lie side by side from such elements."""
    inside = frozenset(bound_names([loop]))
    return (
        loop.step == 1
        and is_independent(loop)
        and all(_is_vector_statement(one, loop.var.name, inside) for one in loop.body)
    )


def is_vector_value(x: Expr, loop: For) -> bool:
    """Whether an expression in a loop has a form for vectors; it may be the loop's variable."""
    return _is_vector(x, loop.var.name, frozenset(bound_names([loop])), may_be_index=True)


def _is_vector_statement(statement: Stmt, index: str, inside: frozenset[str]) -> bool:
    match statement:
        case Comment():
            return True
        case Let():
            return not statement.mutable and _is_vector(statement.value, index, inside)
        case Store():
            is_apart = inside.isdisjoint(variables(statement.pointer))
            is_next = _is_next_element(statement.index, index, inside)
            return is_apart and is_next and _is_vector(statement.value, index, inside)
        case _:
            return False


def _is_vector(x: Expr, index: str, inside: frozenset[str], *, may_be_index: bool = False) -> bool:
    """Whether an expression has a form for vectors."""
    if x.dtype in _UNKNOWN_DTYPES:
        return False
    match x:
        case Const():
            return True
        case Var():
            return may_be_index or x.name != index
        case Load():
            return is_same_element(x, inside) or (
                inside.isdisjoint(variables(x.pointer)) and _is_next_element(x.index, index, inside)
            )
        case Binary():
            is_known = x.op not in _TRAPS | _SCALAR_ONLY
        case Call():
            dtypes = {x.dtype, *(one.dtype for one in x.args)}
            is_known = not x.external and dtypes <= _FLOATS
        case _:
            is_known = True
    return is_known and all(
        _is_vector(one, index, inside, may_be_index=may_be_index) for one in children(x)
    )


def is_same_element(x: Load, inside: frozenset[str]) -> bool:
    """Whether all iterations read one element."""
    return inside.isdisjoint(variables(x))


def _is_next_element(x: Expr, index: str, inside: frozenset[str]) -> bool:
    """Whether a place is ``index`` and what no iteration changes."""
    if isinstance(x, Var):
        return x.name == index
    if not isinstance(x, Binary) or x.op not in ("add", "sub"):
        return False
    if _is_next_element(x.x, index, inside):
        return inside.isdisjoint(variables(x.y))
    is_added = x.op == "add" and _is_next_element(x.y, index, inside)
    return is_added and inside.isdisjoint(variables(x.x))
