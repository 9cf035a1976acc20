"""Long straight lines of arithmetic, of which several vectors are computed side by side.

Each operation waits for the one before, and what could be done beside it, the next iteration, is
farther away than the processor looks ahead.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from jitcore.codegen import vecmath
from jitcore.codegen.loop_passes.traversal import (
    children,
    expressions,
    known_trips,
    loads_in,
    variables,
    walk,
)
from jitcore.codegen.loops import (
    Binary,
    Call,
    Comment,
    Const,
    Expr,
    For,
    Let,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Unary,
    While,
)
from jitcore.codegen.lowering.arithmetic import ZERO
from jitcore.codegen.printers.llvm_instructions import BITS
from jitcore.codegen.printers.loop_hints import MOST_MASKED
from jitcore.codegen.printers.loop_metadata import (
    INTERLEAVED,
    MASKED,
    NOT_UNROLLED,
    OF_VECTORS,
    ONE_AT_A_TIME,
    several_at_a_time,
    vector_width,
)
from jitcore.codegen.printers.vector_calls import calls_in, is_independent
from jitcore.codegen.printers.vector_forms import is_vector_loop
from jitcore.ir.dataclass import dataclass

__all__ = [
    "MOST_OPERATIONS",
    "SideBySide",
    "is_few",
    "is_straight",
    "only_vector_loops",
    "operations",
    "short_steps",
    "side_by_side",
]

LONG_STEP: Final = 16
LONG_PER_ACCESS: Final = 4
"""Operations of a step that waits for itself, and not for memory."""

MOST_VECTORS: Final = 8
MOST_OF_LONGER: Final = 4
MIDDLE_STEP: Final = 48
"""Steps with more operations, and those with functions, are longer."""

MOST_OPERATIONS: Final = 1200
"""Of all such loops of a module together: more take longer to compile than they save."""

FEW: Final = 64
"""Iterations of loops for which one copy of the code suffices, whose last vector is masked."""

REGISTERS: Final = 16
"""Of processors without AVX-512; those with it have twice as many."""


@dataclass(frozen=True, slots=True)
class SideBySide:
    """How many vectors an iteration of the machine's loop computes.

    Parameters
    ----------
    lanes : int
        The elements of a vector.
    vectors : int
    operations : int
        Of all these vectors.
    is_width : bool
        LLVM is told the number of lanes, too, since it takes fewer where functions work in a wider
        dtype than memory has.  Only for loops that are surely made vectors of.
    """

    lanes: int
    vectors: int
    operations: int
    is_width: bool = False

    @property
    def together(self) -> int:
        """How many iterations are computed side by side."""
        return self.lanes * self.vectors

    def hints(self, is_rest: bool) -> list[str]:
        """What LLVM is told about the loop over whole blocks, or about that over the rest."""
        width = [vector_width(self.lanes)] if self.is_width else []
        if not is_rest:
            return [*width, several_at_a_time(self.vectors)]
        return [*width, ONE_AT_A_TIME, MASKED, *self._of_rest()]

    def hints_of_vectors(self, is_rest: bool) -> list[str]:
        """The same where the loops are printed as loops over vectors."""
        return [*OF_VECTORS, *(self._of_rest() if is_rest else ())]

    def _of_rest(self) -> list[str]:
        """Copies of a long step for the few vectors of the rest would take long to compile."""
        return [NOT_UNROLLED] if self.operations > MIDDLE_STEP * self.vectors else []


def side_by_side(
    loop: For, vector_bits: int, most_operations: int, *, is_inlined: bool
) -> SideBySide | None:
    """How many vectors a loop computes side by side; None where it is no long straight line.

    One alone is for loops that are printed as loops over vectors.

    Parameters
    ----------
    loop : For
    vector_bits : int
        The size of a vector register.
    most_operations : int
        Of all vectors.
    is_inlined : bool
        Whether vector math that the loop calls becomes a part of it.
    """
    trips = known_trips(loop)
    is_short = trips is not None and trips <= MOST_MASKED
    operations = _long_step(loop)
    calls = [call for one in loop.body for x in expressions(one) for call in calls_in(x)]
    can_inline = is_inlined and all(map(is_straight, calls))
    if loop.step != 1 or is_short or not operations or (calls and not can_inline):
        return None
    accessed = [one.value.dtype for one in loop.body if isinstance(one, Store)]
    accessed += [load.dtype for load in loads_in(loop.body)]
    lanes = vector_bits // max([8, *(BITS[dtype] for dtype in accessed)])
    registers = REGISTERS * (2 if vector_bits == 512 else 1)
    needed = _most_registers(loop, lanes, vector_bits)
    vectors = MOST_OF_LONGER if operations > MIDDLE_STEP or calls else MOST_VECTORS
    while vectors > 1 and (vectors * needed > registers or vectors * operations > most_operations):
        vectors //= 2
    if vectors == 1 and (calls or not is_independent(loop)):
        return None
    is_width = bool(calls) and is_independent(loop)
    return SideBySide(lanes, vectors, vectors * operations, is_width)


def only_vector_loops(statements: Sequence[Stmt]) -> bool:
    """Whether all loops of a function may be printed as loops over vectors."""
    loops = (one for one in walk(statements) if isinstance(one, For | While))
    return all(isinstance(one, For) and is_vector_loop(one) for one in loops)


def short_steps(loop: For, vector_bits: int) -> SideBySide | None:
    """How many vectors a loop computes that is printed as one over vectors, and not `side_by_side`.

    They are as many as LLVM would choose, as far as registers hold them.  This is for functions
    with `only_vector_loops`: where LLVM's passes look at the code anyway, more code takes longer.

    Parameters
    ----------
    loop : For
    vector_bits : int
        The size of a vector register.
    """
    trips = known_trips(loop)
    is_short = trips is not None and trips <= MOST_MASKED
    if is_short or any(call for one in loop.body for x in expressions(one) for call in calls_in(x)):
        return None
    computed = [one.var.dtype for one in loop.body if isinstance(one, Let)]
    computed += [one.value.dtype for one in loop.body if isinstance(one, Store)]
    lanes = vector_bits // max([8, *(BITS[dtype] for dtype in computed)])
    needed = _most_registers(loop, lanes, vector_bits)
    vectors = 1 if is_few(loop) else INTERLEAVED
    while vectors > 1 and vectors * needed > 2 * REGISTERS:
        vectors //= 2
    return SideBySide(lanes, vectors, 0)


def is_few(loop: For) -> bool:
    """Whether a loop of unknown length takes a few vectors at most."""
    stop = loop.stop
    return (
        loop.start == ZERO
        and isinstance(stop, Binary)
        and stop.op == "min"
        and isinstance(stop.y, Const)
        and stop.y.value <= FEW
    )


def _long_step(loop: For) -> int:
    """The operations of a step in a straight line, or 0 where it waits for memory or branches."""
    if not all(isinstance(one, Let | Store | Comment) for one in loop.body):
        return 0
    values = [one.value for one in loop.body if isinstance(one, Let | Store)]
    stores = sum(isinstance(one, Store) for one in loop.body)
    accesses = stores + sum(1 for _ in loads_in(loop.body))
    count = sum(map(operations, values))
    is_long = count >= max(LONG_STEP, accesses * LONG_PER_ACCESS)
    return count if is_long else 0


def operations(x: Expr) -> int:
    """The operations of an expression, without those that compute places in memory."""
    if isinstance(x, Load):
        return 0
    own = int(isinstance(x, Unary | Binary | Select | Call))
    if isinstance(x, Call) and not x.external and x.name != "fma":
        own = _operations_of_function(x.name, _own_dtype(x))
    return own + sum(map(operations, children(x)))


@cache
def _operations_of_function(name: str, dtype: str) -> int:
    body = vecmath.function(name, dtype).body
    return sum(operations(x) for one in body for x in expressions(one))


def _own_dtype(call: Call) -> str:
    """The dtype that a function of vector math is for; some give a bool."""
    return call.args[0].dtype if call.dtype == "bool" else call.dtype


def is_straight(call: Call) -> bool:
    """Whether a function is a straight line, which LLVM makes vectors of."""
    return not call.external and _is_straight_line(call.name, _own_dtype(call))


@cache
def _is_straight_line(name: str, dtype: str) -> bool:
    body = vecmath.function(name, dtype).body
    inner = (call for one in body for x in expressions(one) for call in calls_in(x))
    has_lines_only = all(isinstance(one, Let | Return) for one in body)
    return has_lines_only and vecmath.branch(name, dtype) is None and all(map(is_straight, inner))


def _most_registers(loop: For, lanes: int, vector_bits: int) -> int:
    """The registers that values of one step need, where there are most of them.

    Instructions read what is in memory there, and a bool is a mask.
    """
    last = {
        name: place
        for place, one in enumerate(loop.body)
        for x in expressions(one)
        for name in variables(x)
    }
    most, alive = 1, dict[str, int]()
    for place, one in enumerate(loop.body):
        alive = {name: size for name, size in alive.items() if last[name] > place}
        if isinstance(one, Let) and not isinstance(one.value, Load) and one.var.name in last:
            size = 0 if one.var.dtype == "bool" else lanes * BITS[one.var.dtype]
            alive[one.var.name] = -(-size // vector_bits)
        most = max(most, sum(alive.values()))
    return most
