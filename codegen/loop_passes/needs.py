"""What passes over loop nests look for; where there is none of it they have nothing to change."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loop_passes.traversal import (
    blocks,
    children,
    expressions,
    known_trips,
    walk,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Do,
    For,
    Let,
    Select,
    Stmt,
    Store,
    Unary,
)

__all__ = [
    "Operations",
    "has_choices",
    "has_compared_magnitudes",
    "has_known_stores",
    "has_loops_beside",
    "has_matrix_products",
    "has_ordered_steps",
    "has_parallel_loops",
    "has_parallel_steps",
    "has_sums",
    "has_temporaries",
]


def has_loops_beside(statements: Sequence[Stmt]) -> bool:
    """Whether there are two loops in one block."""
    inside = (block for one in walk(statements) for block in blocks(one))
    return any(sum(isinstance(one, For) for one in block) > 1 for block in (statements, *inside))


def has_parallel_steps(statements: Sequence[Stmt]) -> bool:
    """Whether an iteration of some loop is a parallel loop, and maybe more."""
    return any(
        isinstance(inner, For) and inner.parallel
        for one in walk(statements)
        if isinstance(one, For)
        for inner in one.body
    )


def has_parallel_loops(statements: Sequence[Stmt]) -> bool:
    """Whether threads share a loop."""
    return any(isinstance(one, For) and one.parallel for one in walk(statements))


def has_known_stores(statements: Sequence[Stmt]) -> bool:
    """Whether a loop with a known number of iterations writes to memory."""
    return any(
        isinstance(one, For)
        and known_trips(one) is not None
        and any(isinstance(step, Store) for step in one.body)
        for one in walk(statements)
    )


def has_temporaries(statements: Sequence[Stmt]) -> bool:
    """Whether there are arrays in memory that ``malloc`` gives."""
    return any(
        isinstance(one, Let) and isinstance(one.value, Call) and one.value.name == "malloc"
        for one in walk(statements)
    )


def has_matrix_products(statements: Sequence[Stmt]) -> bool:
    """Whether a matrix is multiplied by a vector in BLAS."""
    return any(
        isinstance(one, Do) and one.call.name.startswith("jc_gemv_") for one in walk(statements)
    )


def has_sums(statements: Sequence[Stmt]) -> bool:
    """Whether something is added up whose order is free."""
    values = (one.value for one in walk(statements) if isinstance(one, Assign))
    return any(isinstance(value, Binary) and value.reassoc for value in values)


def has_ordered_steps(statements: Sequence[Stmt]) -> bool:
    """Whether a loop within another one gives a variable new values in an order that counts."""
    return any(
        isinstance(step, Assign) and not (isinstance(step.value, Binary) and step.value.reassoc)
        for outer in walk(statements)
        if isinstance(outer, For)
        for inner in outer.body
        if isinstance(inner, For)
        for step in inner.body
    )


def has_choices(statements: Sequence[Stmt]) -> bool:
    """Whether one of two values is chosen somewhere."""
    return _CHOICE in _operations_in(statements)


def has_compared_magnitudes(statements: Sequence[Stmt]) -> bool:
    """Whether there are roots, or sizes of complex numbers, and comparisons."""
    found = _operations_in(statements)
    return not (_MAGNITUDES.isdisjoint(found) or _ORDERS.isdisjoint(found))


class Operations:
    """Which operations there are, looked for once in the same statements."""

    def __init__(self) -> None:
        self._statements: Sequence[Stmt] | None = None
        self._found: set[str] = set()

    def has_choices(self, statements: Sequence[Stmt]) -> bool:
        """Whether one of two values is chosen somewhere."""
        return _CHOICE in self._among(statements)

    def has_quotients(self, statements: Sequence[Stmt]) -> bool:
        """Whether there is a division of floats."""
        return "div" in self._among(statements)

    def has_roots(self, statements: Sequence[Stmt]) -> bool:
        """Whether there is a square root."""
        return "sqrt" in self._among(statements)

    def _among(self, statements: Sequence[Stmt]) -> set[str]:
        if statements is not self._statements:
            self._statements, self._found = statements, _operations_in(statements)
        return self._found


_CHOICE = "select"
_MAGNITUDES = frozenset({"complex_absolute", "hypot", "sqrt"})
_ORDERS = frozenset({"lt", "le", "gt", "ge"})


def _operations_in(statements: Sequence[Stmt]) -> set[str]:
    """The operations of all expressions, the functions that are called, and whether any chooses."""
    found: set[str] = set()
    for one in walk(statements):
        waiting = [*expressions(one)]
        while waiting:
            expression = waiting.pop()
            if isinstance(expression, Binary | Unary):
                found.add(expression.op)
            elif isinstance(expression, Call):
                found.add(expression.name)
            elif isinstance(expression, Select):
                found.add(_CHOICE)
            waiting += children(expression)
    return found
