"""Magnitudes that are only compared with constants: their squares are.

A root is a monotone function, also as it is rounded, so that a constant has a square which all
numbers are compared with in its place.  The magnitude of a complex number is rounded several times,
and its square decides where it is not almost the constant's.  So a loop asks the squares, by blocks
of elements, and whether any is too near; the few blocks with such ones are computed as NumPy does.

Before::

    for i in range(0, 9000):
        t = complex_absolute(x[2 * i], x[2 * i + 1])
        y[i] = t < 2.0

After::

    for block in range(0, 35):
        first = block * 256
        nearest = 2**32 - 1
        for i in range(0, 256):
            square = fma(x[2 * (first + i)], ...)
            y[first + i] = square < 3.999...
            nearest = min(nearest, bits(square) - bits(3.999...))
        if nearest <= bits(4.000...) - bits(3.999...):
            for i in range(0, 256):
                t = complex_absolute(x[2 * (first + i)], x[2 * (first + i) + 1])
                y[first + i] = t < 2.0
    for i in range(8960, 9000):
        ...

Where the iterations read what they write, squares are asked before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Final

import numpy as np

from jitcore.codegen.loop_passes.rewriting import (
    copied,
    numbered,
    replaced,
    with_expressions,
    with_loops,
)
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    calls_c,
    expressions,
    free_variables,
    known_trips,
    overlap,
    read_roots,
    subexpressions,
    variables,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Expr,
    For,
    If,
    Let,
    Stmt,
    Store,
    Unary,
    Var,
)
from jitcore.codegen.lowering.arithmetic import (
    ZERO,
    add,
    both,
    constant,
    either,
    integer,
    maximum,
    multiply,
    subtract,
)

__all__ = ["compare_squares"]

BLOCK: Final = 256
"""How many elements are computed once more where one of them is too near."""

LEAST_TRIPS: Final = 16
"""With fewer elements there is nothing to gain."""

_FLOATS: Final = ("float32", "float64")
_MAGNITUDES: Final = ("complex_absolute", "hypot")
_FLIPPED: Final = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_LIMITS: Final = (2.0**-20, 2.0**20)
"""The constants whose squares, and those of what is near, are normal numbers."""

_ROUNDINGS: Final = 32.0
"""How many roundings, each half a unit in the last place, the squares may be wrong by.

NumPy's magnitude has four, which count twice in its square, and other functions at most eight;
ours has two, and that of the constant one.
"""


def compare_squares(statements: Sequence[Stmt]) -> list[Stmt]:
    """The statements with loops that compare squares."""
    names = bound_names(statements) | {var.name for var in free_variables(statements)}

    def changed(loop: For) -> Sequence[Stmt] | None:
        if not all(isinstance(one, Let | Assign | Store | Comment) for one in loop.body):
            return None
        body = _without_roots(loop.body)
        loop = loop if body is None else replace(loop, body=body)
        found = _Speculation(loop, names).statements()
        return [loop] if found is None and body is not None else found

    return with_loops(statements, changed)


def _without_roots(body: Sequence[Stmt]) -> list[Stmt] | None:
    """A body that compares what is under roots; None where no root is only compared."""
    assigned = _assigned(body)
    values = {one.var.name: one.value for one in body if isinstance(one, Let) and not one.mutable}
    roots = {
        name: value.x
        for name, value in values.items()
        if isinstance(value, Unary) and value.op == "sqrt" and value.dtype in _FLOATS
    }
    roots = {name: x for name, x in roots.items() if isinstance(x, Var) and x.name not in assigned}
    only = _only_compared(body, roots)
    if not only:
        return None

    def compared(x: Expr) -> Expr | None:
        found = _comparison(x)
        if found is None or found[1].name not in only:
            return None
        op, root, number = found
        square = roots[root.name]
        bound = Const(_last_square(op, number), square.dtype)
        test = Binary(op, square, bound, "bool")
        if op in ("gt", "ge") or _is_positive(square, values):
            return test
        return both(Binary("ge", square, Const(0.0, square.dtype), "bool"), test)

    kept = [one for one in body if not (isinstance(one, Let) and one.var.name in only)]
    return [with_expressions(one, lambda x: replaced(x, compared)) for one in kept]


def _last_square(op: str, number: Const) -> float:
    """What is compared as ``op`` says instead of the root of it: of all such numbers the last."""
    dtype = np.dtype(number.dtype).type
    limit = dtype(number.value)
    square, (down, up) = limit * limit, (dtype(-np.inf), dtype(np.inf))
    # The least number whose root is at least the limit.
    while np.sqrt(square) >= limit:
        square = np.nextafter(square, down)
    while np.sqrt(square) < limit:
        square = np.nextafter(square, up)
    if op in ("le", "gt"):
        # The greatest number whose root is the limit at most.
        while np.sqrt(np.nextafter(square, up)) <= limit:
            square = np.nextafter(square, up)
        if np.sqrt(square) > limit:
            square = np.nextafter(square, down)
    return float(square)


def _is_positive(x: Expr, values: Mapping[str, Expr]) -> bool:
    """Whether a number is surely not below zero, unless it is NaN."""
    match x:
        case Var():
            return x.name in values and _is_positive(values[x.name], values)
        case Const():
            return bool(x.value >= 0)
        case Unary():
            return x.op == "fabs"
        case Binary("mul"):
            return x.x == x.y
        case Binary("add"):
            return _is_positive(x.x, values) and _is_positive(x.y, values)
        case Call("fma"):
            return x.args[0] == x.args[1] and _is_positive(x.args[2], values)
    return False


def _comparison(x: Expr) -> tuple[str, Var, Const] | None:
    """The comparison of a variable with a moderate number, which is on the right."""
    if not isinstance(x, Binary) or x.op not in _FLIPPED:
        return None
    op, one, other = x.op, x.x, x.y
    if isinstance(one, Const):
        op, one, other = _FLIPPED[op], other, one
    if not isinstance(one, Var) or not isinstance(other, Const) or other.dtype not in _FLOATS:
        return None
    return (op, one, other) if _LIMITS[0] <= other.value <= _LIMITS[1] else None


def _only_compared(body: Sequence[Stmt], made: Mapping[str, object]) -> set[str]:
    """Which variables are read by comparisons with moderate numbers, and by nothing else."""
    parts = [x for one in body for x in expressions(one)]
    read = Counter(name for x in parts for name in variables(x))
    compared: Counter[str] = Counter()
    for part in (inner for x in parts for inner in subexpressions(x)):
        found = _comparison(part)
        if found is not None:
            compared[found[1].name] += 1
    return {name for name in made if 0 < compared[name] == read[name]}


class _Speculation:
    """A loop over elements, which computes most of them without their magnitudes."""

    def __init__(self, loop: For, names: set[str]) -> None:
        self._loop = loop
        self._names = names
        calls = {
            one.var.name: one.value
            for one in loop.body
            if isinstance(one, Let) and isinstance(one.value, Call) and _is_magnitude(one.value)
        }
        only = [one for name, one in calls.items() if name in _only_compared(loop.body, calls)]
        # One number says how near the squares are, so that they have one dtype.
        self._magnitudes = {
            name: one for name, one in calls.items() if one in only and one.dtype == only[0].dtype
        }
        self._distances: list[Expr] = []
        self._span = 0
        self._before: list[Stmt] = []

    def statements(self) -> list[Stmt] | None:
        """What takes the place of the loop; None where it has no such magnitudes."""
        loop, trips = self._loop, known_trips(self._loop)
        is_short = trips is not None and trips < LEAST_TRIPS
        if not self._magnitudes or loop.step != 1 or is_short or not self._is_plain():
            return None
        if trips is not None and trips <= BLOCK:
            return self._block(loop.start, trips)
        if trips is not None:
            middle = add(loop.start, integer(trips // BLOCK * BLOCK))
            rest = [replace(loop, start=middle)] if trips % BLOCK else []
            return [self._blocks(integer(trips // BLOCK)), *rest]
        stop, blocks = (Var(numbered(name, self._names), "int64") for name in ("stop", "blocks"))
        length = maximum(subtract(stop, loop.start), ZERO)
        return [
            Let(stop, loop.stop),
            Let(blocks, Binary("quot", length, integer(BLOCK), "int64")),
            self._blocks(blocks),
            replace(loop, start=self._first(blocks), stop=stop),
        ]

    def _blocks(self, count: Expr) -> For:
        loop = self._loop
        block, first = (Var(numbered(name, self._names), "int64") for name in ("block", "first"))
        body = [Let(first, self._first(block)), *self._block(first, BLOCK)]
        return For(block, ZERO, count, body, parallel=loop.parallel)

    def _first(self, block: Expr) -> Expr:
        """The first element of a block."""
        return add(self._loop.start, multiply(block, integer(BLOCK)))

    def _is_plain(self) -> bool:
        """Whether the body can be computed twice, or asked before what the magnitudes are."""
        body, assigned = self._loop.body, _assigned(self._loop.body)
        parts = [part for one in self._magnitudes.values() for part in one.args]
        if any(isinstance(part, Var) and part.name in assigned for part in parts):
            return False
        if any(isinstance(one, Let) and one.mutable for one in body):
            return False
        if any(calls_c(x) for one in body for x in expressions(one)):
            return False
        return self._is_apart or (self._loop.parallel and _reads_first(body))

    @property
    def _is_apart(self) -> bool:
        """Whether the loop reads nothing of what it writes."""
        return not overlap(read_roots(self._loop.body), written_roots(self._loop.body))

    def _block(self, start: Expr, count: int) -> list[Stmt]:
        """So many elements from ``start`` on."""
        loop = self._loop
        body = self._of_squares()
        dtype = self._distances[0].dtype
        nearest = Var(numbered("nearest", self._names), dtype)
        near = Assign(nearest, self._least(nearest))
        is_near = Binary("le", nearest, Const(self._span, dtype), "bool")

        def of_elements(body: list[Stmt]) -> Stmt:
            index = Var(numbered(loop.var.name, self._names), "int64")
            own: dict[str, Expr] = {loop.var.name: add(start, index)}
            parts = [copied(one, self._names, own) for one in body]
            return For(index, ZERO, integer(count), parts)

        exact = of_elements(loop.body)
        begin = Let(nearest, Const(int(np.iinfo(dtype).max), dtype), mutable=True)
        if self._is_apart:
            sums = [one.var for one in loop.body if isinstance(one, Assign)]
            kept = [Var(numbered("before", self._names), var.dtype) for var in sums]
            before = [Let(one, var) for one, var in zip(kept, sums, strict=True)]
            again = [Assign(var, one) for one, var in zip(kept, sums, strict=True)]
            return [begin, *before, of_elements([*body, near]), If(is_near, [*again, exact])]
        asked = [one for one in body if isinstance(one, Let)]
        return [begin, of_elements([*asked, near]), If(is_near, [exact], [of_elements(body)])]

    def _least(self, nearest: Var) -> Expr:
        """The least distance there is."""
        least: Expr = self._distances[0]
        for one in self._distances[1:]:
            least = Binary("min", least, one, nearest.dtype)
        return Binary("min", nearest, least, nearest.dtype)

    def _of_squares(self) -> list[Stmt]:
        """The body with squares in the place of magnitudes."""
        body: list[Stmt] = []
        for one in self._loop.body:
            if isinstance(one, Let) and one.var.name in self._magnitudes:
                continue
            made = with_expressions(one, lambda x: replaced(x, self._compared))
            body += [*self._before, made]
            self._before = []
        return body

    def _compared(self, x: Expr) -> Expr | None:
        """A comparison of a magnitude, as one of the square that ``_before`` computes."""
        found = _comparison(x)
        if found is None or found[1].name not in self._magnitudes:
            return None
        op, magnitude, number = found
        first, second = self._magnitudes[magnitude.name].args
        dtype = number.dtype
        product = Binary("mul", second, second, dtype)
        square = self._bound("square", Call("fma", (first, first, product), dtype))
        low, high = _limits(number)
        bits = f"u{np.dtype(dtype).name.replace('float', 'int')}"
        first_bits, last_bits = (int(one.view(f"u{one.itemsize}")) for one in (low, high))
        # Of numbers that are not negative, the order is that of their bits; NaN is the last.
        distance = Binary("sub", Cast(square, bits, bits=True), Const(first_bits, bits), bits)
        self._distances.append(self._bound("distance", distance))
        self._span = max(self._span, last_bits - first_bits)
        if op in ("lt", "le"):
            return self._bound("is_beyond", Binary("lt", square, constant(low, dtype), "bool"))
        # What is infinite beside a NaN is large.
        sizes = (Unary("fabs", part, dtype) for part in (first, second))
        are_infinite = (Binary("eq", size, Const(np.inf, dtype), "bool") for size in sizes)
        is_large: Expr = Binary("gt", square, constant(high, dtype), "bool")
        return self._bound("is_beyond", reduce(either, are_infinite, is_large))

    def _bound(self, name: str, value: Expr) -> Var:
        var = Var(numbered(name, self._names), value.dtype)
        self._before.append(Let(var, value))
        return var


def _limits(number: Const) -> tuple[np.floating[Any], np.floating[Any]]:
    """The squares between which is that of all numbers that are too near to one."""
    unit = float(np.finfo(number.dtype).eps) / 2
    square, convert = float(number.value) ** 2, np.dtype(number.dtype).type
    return convert(square * (1 - _ROUNDINGS * unit)), convert(square * (1 + _ROUNDINGS * unit))


def _assigned(body: Sequence[Stmt]) -> set[str]:
    """The variables that get new values."""
    return {one.var.name for one in body if isinstance(one, Assign)}


def _reads_first(body: Sequence[Stmt]) -> bool:
    """Whether nothing is added up, nor read after the same memory is written."""
    written = set[str]()
    for one in body:
        if isinstance(one, Assign) or overlap(read_roots([one]), written):
            return False
        written |= written_roots([one])
    return True


def _is_magnitude(x: Call) -> bool:
    """Whether a call gives the size of two numbers that are variables or constants."""
    is_known = x.name in _MAGNITUDES and not x.external and x.dtype in _FLOATS
    return is_known and all(isinstance(one, Var | Const) for one in x.args)
