"""Which loops may run on several threads, and how much work they are.

Lowering marks the loops whose iterations are independent.  Such a loop can be cut into parts where
nothing in it leaves the loop, changes a variable around it, or calls for memory.  No reduction is
cut here (`lowering.walks` and `lowering.leading_axes` cut long ones, by their extents alone), so
the number of threads never changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loop_passes.rewriting import replaced, simplified
from jitcore.codegen.loop_passes.traversal import (
    PREFETCH,
    STREAM,
    blocks,
    bound_names,
    children,
    expressions,
    free_variables,
    has_effect,
    known_trips,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, maximum, multiply, subtract

__all__ = ["CALL_WORK", "UNKNOWN_TRIPS", "part_function", "slot_index", "work_of"]

CALL_WORK = 8
"""A function of vector math takes about as long as so many additions."""

_QUOTIENT_WORK = {"float32": 2, "float64": 5}
"""Divisions and roots: a processor takes 10 or 16 cycles for a vector of 16 or 8 numbers."""

_PRODUCT_WORK = 3
"""A quotient by the divisor's inverse (`shared_divisors`)."""

UNKNOWN_TRIPS = 16
"""What is assumed of loops whose number of iterations shows only inside of another loop."""

# No variable of a loop has a dot in its name.
CONTEXT = Var("part.context", "ptr")
FIRST, LAST = Var("part.first", "int64"), Var("part.last", "int64")


def work_of(loop: For) -> Expr | None:
    """The work of all iterations, in operations on one element.

    Returns
    -------
    Expr or None
        int64; None where the loop must run on one thread, or has a single iteration.
    """
    is_single = known_trips(loop) == 1
    if not loop.parallel or is_single or loop.step != 1 or not _can_be_cut(loop):
        return None
    trips = maximum(subtract(loop.stop, loop.start), ZERO)
    return multiply(trips, _work(loop.body, bound_names(loop.body), _spans(loop.body)))


def _can_be_cut(loop: For) -> bool:
    bound = bound_names([loop])
    for statement in walk(loop.body):
        if isinstance(statement, Return):
            return False
        if isinstance(statement, Do) and statement.call.name not in (PREFETCH, STREAM):
            return False
        if isinstance(statement, Assign) and statement.var.name not in bound:
            return False
        if any(map(has_effect, expressions(statement))):
            return False
    return not _jumps_out(loop.body)


def _jumps_out(body: Sequence[Stmt]) -> bool:
    """Whether a ``Break`` ends the loop that this is the body of; ``Continue`` is harmless."""
    for statement in body:
        if isinstance(statement, Break):
            return True
        if isinstance(statement, If) and any(map(_jumps_out, blocks(statement))):
            return True
    return False


def _spans(statements: Sequence[Stmt]) -> dict[Expr, Expr]:
    """The lengths of blocks: how far their ends are from their starts, and counts of what is left.

    For ``stop = min(start + n, ...)`` that is n, and so it is for ``count = min(n, ...)``.
    """
    found: dict[Expr, Expr] = {}
    for one in walk(statements):
        match one:
            case Let(var, Binary("min", Binary("add", start, (Const() | Var()) as length), _)):
                found[Binary("sub", var, start, "int64")] = length
            case Let(var, Binary("min", Const() as length, _)):
                found[var] = length
    return found


def _work(body: Sequence[Stmt], bound: set[str], spans: dict[Expr, Expr]) -> Expr:
    """The work of one iteration, from what is known before the loop."""
    total: Expr = ZERO
    for statement in body:
        total = add(total, integer(sum(map(_operations, expressions(statement)))))
        match statement:
            case For():
                trips = _trips(statement, spans)
                if any(name in bound for name in variables(trips)):
                    trips = integer(UNKNOWN_TRIPS)
                inner = multiply(maximum(trips, ZERO), _work(statement.body, bound, spans))
                total = add(total, inner)
            case While():
                once = add(_work(statement.head, bound, spans), _work(statement.body, bound, spans))
                total = add(total, multiply(integer(UNKNOWN_TRIPS), once))
            case If():
                for block in blocks(statement):
                    total = add(total, _work(block, bound, spans))
            case Store():
                total = add(total, integer(1))
    return total


def _trips(loop: For, spans: dict[Expr, Expr]) -> Expr:
    """The number of iterations, where that is not negative."""
    length = simplified(replaced(_length(loop, spans), spans.get))
    if loop.step == 1:
        return length
    if isinstance(length, Const):
        return integer(-(-length.value // loop.step))
    return Binary("quot", add(length, integer(loop.step - 1)), integer(loop.step), "int64")


def _length(loop: For, spans: dict[Expr, Expr]) -> Expr:
    length = subtract(loop.stop, loop.start)
    match loop.start, loop.stop:
        case _, Binary("add", start, added) if start == loop.start:
            return added
        case Binary("add", start, taken), stop if length not in spans:
            # What is left beside whole steps.
            return subtract(subtract(stop, start), taken)
    return length


def _operations(expression: Expr) -> int:
    """The operations of an expression; what computes an address costs nothing beside them."""
    match expression:
        case Const() | Var():
            return 0
        case Load():
            return 1
        case Binary(_, _, _, "int64"):
            return 1
    return _work_of_one(expression) + sum(map(_operations, children(expression)))


def _work_of_one(expression: Expr) -> int:
    """The work of an operation, beside that of its operands."""
    match expression:
        case Binary("div", dtype=dtype) | Unary("sqrt", dtype=dtype) | Call("root", dtype=dtype):
            return _QUOTIENT_WORK.get(dtype, 1)
        case Call("divide"):
            return _PRODUCT_WORK
        case Call():
            return CALL_WORK
    return 1


def part_function(loop: For, name: str) -> tuple[Function, tuple[Var, ...]]:
    """A function that runs some iterations, and the variables that its context holds.

    Parameters
    ----------
    loop : For
    name : str

    Returns
    -------
    function : Function
        Its parameters are the address of the context, and the first iteration and the end.
    variables : tuple of Var
        Number ``k`` lies in the k-th word of the context.
    """
    free = tuple(var for var in free_variables(loop.body) if var.name != loop.var.name)
    body: list[Stmt] = [
        Let(var, Load(CONTEXT, slot_index(number, var.dtype), var.dtype))
        for number, var in enumerate(free)
    ]
    body.append(For(loop.var, FIRST, LAST, loop.body))
    return Function(name, (CONTEXT, FIRST, LAST), body, "void", internal=True), free


def slot_index(number: int, dtype: str) -> Const:
    """The place of word ``number`` of the context, counted in elements of a dtype."""
    sizes = {"bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "float16": 2}
    size = sizes.get(dtype, 4 if dtype in ("int32", "uint32", "float32") else 8)
    return integer(number * 8 // size)
