"""Loops that divide by a number again and again multiply by its inverse, and correct the product.

A vector of quotients takes a processor ten to sixteen cycles, and three products with a test half
of that or less (`printers.vector_branches`).  The quotients are the same.

Before::

    for j in range(0, 512):
        y[j] = x[j] / s

After::

    inverse = 1.0 / s
    for j in range(0, 512):
        y[j] = divide(x[j], s, inverse)

Where a loop divides several numbers by another one of each iteration (`x / r`, `y / r`, `z / r`),
it does so by its inverse, too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jitcore.codegen.loop_passes.rewriting import (
    numbered,
    replaced,
    with_expressions,
    with_loops,
)
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    known_trips,
    names_in,
    subexpressions,
    variables,
)
from jitcore.codegen.loops import Binary, Call, Const, Expr, For, Function, Let, Stmt, Var
from jitcore.codegen.printers.vector_calls import REGISTERS
from jitcore.codegen.printers.vector_forms import is_vector_loop

__all__ = ["is_quotient", "share_divisors"]


def share_divisors(function: Function, vector_bits: int) -> Function:
    """The function with loops over vectors that divide by one number by its inverse.

    Parameters
    ----------
    function : Function
    vector_bits : int
        The size of a vector register.  Loops are printed as loops over vectors where it is 512.
    """
    if vector_bits != 512:
        return function
    sharing = _Sharing(function, vector_bits)
    return replace(function, body=with_loops(function.body, sharing.loop))


class _Sharing:
    def __init__(self, function: Function, vector_bits: int) -> None:
        self.vector_bits = vector_bits
        self.names = names_in(function)

    def loop(self, loop: For) -> list[Stmt] | None:
        is_dividing = any(map(is_quotient, _parts(loop))) and is_vector_loop(loop)
        return self.shared(loop) if is_dividing else None

    def least_trips(self, loop: For) -> int:
        """How many iterations repay the test for moderate numbers.

        A register of float64 takes 16 cycles to divide, the root of a norm waits for that, and the
        products take 3: norms of rows of 8 to 63 take half to three quarters of the time.
        """
        is_double = any(is_quotient(part) and part.dtype == "float64" for part in _parts(loop))
        return self.vector_bits // 64 if is_double else REGISTERS * self.vector_bits // 32

    def shared(self, loop: For) -> list[Stmt]:
        """The loop, and before it what is the same in all iterations of the divisors."""
        trips = known_trips(loop)
        if trips is not None and trips < self.least_trips(loop):
            return [loop]
        before, loop = _hoisted(loop) if trips else ([], loop)
        inside = bound_names([loop])
        inverses: dict[Expr, Expr] = {}

        def inverse(divisor: Expr) -> Expr:
            if divisor not in inverses:
                one = Const(1.0, divisor.dtype)
                var = Var(numbered("inverse", self.names), divisor.dtype)
                before.append(Let(var, Binary("div", one, divisor, divisor.dtype)))
                inverses[divisor] = var
            return inverses[divisor]

        def by_inverse(x: Expr) -> Expr | None:
            if not isinstance(x, Binary) or not is_quotient(x):
                return None
            if x.y not in inverses and not _is_shared(x.y, inside):
                return None
            if x.y in inverses and x.x == Const(1.0, x.dtype):
                return inverses[x.y]
            return Call("divide", (replaced(x.x, by_inverse), x.y, inverse(x.y)), x.dtype)

        body: list[Stmt] = []
        often = _divided_by_often(loop)
        for one in loop.body:
            body.append(with_expressions(one, lambda x: replaced(x, by_inverse)))
            if isinstance(one, Let) and one.var in often:
                var = Var(numbered("inverse", self.names), one.var.dtype)
                body.append(Let(var, Binary("div", Const(1.0, var.dtype), one.var, var.dtype)))
                inverses[one.var] = var
        return [*before, replace(loop, body=body)]


def _parts(loop: For) -> Iterator[Expr]:
    return (part for one in loop.body for x in expressions(one) for part in subexpressions(x))


def is_quotient(x: Expr) -> bool:
    """Whether an expression divides floats."""
    return isinstance(x, Binary) and x.op == "div" and x.dtype in ("float32", "float64")


def _is_shared(divisor: Expr, inside: set[str]) -> bool:
    """Whether all iterations divide by the same number, which takes a division."""
    if isinstance(divisor, Const):
        value = float(divisor.value)
        # LLVM multiplies by the inverse of a power of two, which is exact.
        return 0 < value < math.inf and math.frexp(value)[0] != 0.5
    return isinstance(divisor, Var) and divisor.name not in inside


def _divided_by_often(loop: For) -> set[Expr]:
    """The variables of a loop that several numbers are divided by."""
    divisors = Counter(x.y for x in _parts(loop) if isinstance(x, Binary) and is_quotient(x))
    return {divisor for divisor, count in divisors.items() if count > 1}


def _hoisted(loop: For) -> tuple[list[Stmt], For]:
    """What a loop binds to the same number in each of its iterations, and the loop after it."""
    inside = bound_names([loop])
    before: list[Stmt] = []
    body: list[Stmt] = []
    for one in loop.body:
        is_same = isinstance(one, Let) and inside.isdisjoint(variables(one.value))
        (before if is_same else body).append(one)
        if is_same and isinstance(one, Let):
            inside.discard(one.var.name)
    return before, replace(loop, body=body)
