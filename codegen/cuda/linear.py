"""How the index of an access depends on a loop's counter."""

from __future__ import annotations

from jitcore.codegen.loop_passes.rewriting import replaced, simplified
from jitcore.codegen.loop_passes.traversal import variables
from jitcore.codegen.loops import Binary, Expr, Var
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, add, multiply, subtract

__all__ = ["depends_on", "offset_from", "stride_along"]


def depends_on(x: Expr, name: str) -> bool:
    """Whether an expression reads a variable."""
    return name in variables(x)


def stride_along(index: Expr, name: str) -> Expr | None:
    """What one step of a counter adds to an index; None where that is not always the same.

    Examples
    --------
    >>> from jitcore.codegen.lowering.arithmetic import integer
    >>> i, j = Var("i", "int64"), Var("j", "int64")
    >>> stride_along(add(multiply(i, integer(400)), j), "i")
    Const(value=400, dtype='int64')
    """
    if not depends_on(index, name):
        return ZERO
    match index:
        case Var():
            return ONE
        case Binary("add" | "sub", x, y):
            one, two = stride_along(x, name), stride_along(y, name)
            if one is None or two is None:
                return None
            return add(one, two) if index.op == "add" else subtract(one, two)
        case Binary("mul", x, y):
            factor, other = (y, x) if depends_on(x, name) else (x, y)
            stride = stride_along(other, name)
            if stride is None or depends_on(factor, name):
                return None
            return multiply(stride, factor)
    return None


def offset_from(index: Expr, name: str) -> Expr | None:
    """What an index adds to a counter that it steps along with; None where it is not that."""
    if stride_along(index, name) != ONE:
        return None
    return simplified(replaced(index, lambda one: ZERO if one == Var(name, "int64") else None))
