"""What LLVM is told about a loop, where its own choice is bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jitcore.codegen.loop_passes.traversal import children, known_trips, loads_in, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Expr,
    For,
    Let,
    Load,
    Select,
    Store,
    Unary,
    While,
)
from jitcore.codegen.printers.llvm_instructions import FLOATS
from jitcore.codegen.printers.loop_metadata import (
    AFTERWARDS,
    MASKED,
    NO_VECTORS,
    NOT_UNROLLED,
    SEVERAL_AT_A_TIME,
    vector_width,
)

__all__ = ["loop_hints"]

SHORT_STEP: Final = 8
"""Statements of a step that is little work."""

LONG_STEP: Final = 16
LONG_PER_ACCESS: Final = 4
"""Operations of a step that waits for itself, and not for memory."""

LONGEST_STEP: Final = 48
"""Several steps with more operations need more registers than there are: they take no less time,
but longer to compile."""

ASSOCIATIVE: Final = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
"""What whole numbers and bools may be joined by in any order."""

LANES: Final = 8
LEAST_MASKED: Final = 6
MOST_MASKED: Final = 256


def loop_hints(
    loop: For, metadata: Callable[[str], str], known: Sequence[str] = (), vector_bits: int = 512
) -> str:
    """The name of a loop's metadata, or nothing.

    Parameters
    ----------
    loop : For
    metadata : callable
        Adds a node of metadata, in which ``{self}`` stands for itself, and gives its name.
    known : sequence of str
        The hints, where they follow from something else than the loop's form.
    vector_bits : int
        The size of a vector register.
    """
    hints = known or _hints_of_form(loop, vector_bits)
    if not hints:
        return ""
    names = ", ".join(map(metadata, hints))
    return metadata(f"distinct !{{{{self}}, {names}}}")


def _hints_of_form(loop: For, vector_bits: int) -> list[str]:
    hints = _sum_hints(loop, vector_bits) if _adds_up(loop) else []
    if not hints and _is_long_chain(loop):
        hints.append(SEVERAL_AT_A_TIME)
    if _has_short_rest(loop):
        hints.append(MASKED)
    if not hints and _is_around_sum(loop):
        hints.append(NOT_UNROLLED)
    if not hints and _is_around_row(loop):
        hints.append(NO_VECTORS)
    return hints


def _is_around_row(loop: For) -> bool:
    """Whether a loop runs one of few iterations that writes elements, such as those of a row.

    That is unrolled, and made vectors of where it is long enough.  The same element of several rows
    would be gathered and scattered.
    """
    inner = [one for one in loop.body if isinstance(one, For)]
    return any(
        known_trips(one) is not None and any(isinstance(part, Store) for part in one.body)
        for one in inner
    )


def _is_around_sum(loop: For) -> bool:
    """Whether a loop of many iterations runs one that adds up.

    That is small enough to be copied for each of them, and each copy would be made vectors of.
    """
    trips = known_trips(loop)
    inner = any(isinstance(one, For) and _adds_up(one) for one in loop.body)
    return inner and trips is not None and trips >= LANES


def _adds_up(loop: For) -> bool:
    """Whether a loop's own statements are steps of a reduction."""
    trips = known_trips(loop)
    is_short = trips is not None and trips < LANES
    steps = [one for one in loop.body if isinstance(one, Assign)]
    return any(_may_be_reordered(one) or (not is_short and _is_exact_step(one)) for one in steps)


def _may_be_reordered(step: Assign) -> bool:
    return isinstance(step.value, Binary) and step.value.reassoc


def _is_exact_step(step: Assign) -> bool:
    """Whether whole numbers or bools are joined, which is the same in any order."""
    value = step.value
    return (
        isinstance(value, Binary)
        and value.op in ASSOCIATIVE
        and value.dtype not in FLOATS
        and value.x == step.var
        and step.var.name not in variables(value.y)
    )


def _sum_hints(loop: For, vector_bits: int) -> list[str]:
    """What keeps a loop that adds up from being unrolled before it is vectorized.

    Short sums would become chains of additions, which are not made vectors of again.  Where a step
    is little work, several sums are kept, so that none waits for the one before.
    """
    work = [one for one in loop.body if not isinstance(one, Comment)]
    several = [SEVERAL_AT_A_TIME] if len(work) <= SHORT_STEP else []
    width = [vector_width(vector_bits // 32)] if _is_mostly_float32(loop, vector_bits) else []
    return [NOT_UNROLLED, *width, *several, AFTERWARDS]


def _is_mostly_float32(loop: For, vector_bits: int) -> bool:
    """Whether most of a step is done in float32 before it is added to a float64.

    Without a hint, vectors have as many elements as vectors of the sum have, which leaves half of
    each register empty before.
    """
    values = [one.value for one in loop.body if isinstance(one, Let | Assign | Store)]
    trips = known_trips(loop)
    if any(load.dtype != "float32" for load in loads_in(loop.body)):
        return False
    is_much = sum(map(_float32_work, values)) >= LONG_STEP // 2
    return is_much and (trips is None or trips >= 2 * vector_bits // 32)


def _float32_work(x: Expr) -> int:
    """The operations in float32 of an expression; a function takes many."""
    if isinstance(x, Load):
        return 0
    inner = sum(map(_float32_work, children(x)))
    if x.dtype != "float32":
        return inner
    if isinstance(x, Call) and x.name != "fma":
        return inner + LONG_STEP
    return inner + isinstance(x, Unary | Binary | Select | Call)


def _is_long_chain(loop: For) -> bool:
    """Whether a step is much arithmetic on few numbers, in a straight line.

    Each operation waits for the one before, and what could be done beside it, the next iteration,
    is farther away than the processor looks ahead.  So several are computed side by side.
    """
    if not all(isinstance(one, Let | Store | Comment) for one in loop.body):
        return False
    values = [one.value for one in loop.body if isinstance(one, Let | Store)]
    stores = sum(isinstance(one, Store) for one in loop.body)
    accesses = stores + sum(1 for _ in loads_in(loop.body))
    operations = sum(map(_operations, values))
    if any(map(_has_calls, values)) or operations < max(LONG_STEP, accesses * LONG_PER_ACCESS):
        return False
    if operations > LONGEST_STEP:
        return False
    trips = known_trips(loop)
    return trips is None or trips > MOST_MASKED


def _operations(x: Expr) -> int:
    """The operations of an expression, without those that compute places in memory."""
    if isinstance(x, Load):
        return 0
    return isinstance(x, Unary | Binary | Select) + sum(map(_operations, children(x)))


def _has_calls(x: Expr) -> bool:
    return (isinstance(x, Call) and x.name != "fma") or any(map(_has_calls, children(x)))


def _has_short_rest(loop: For) -> bool:
    """Whether a loop has few iterations, and some of them do not fill a vector."""
    trips = known_trips(loop)
    if trips is None or loop.step != 1:
        return False
    is_innermost = not any(isinstance(one, For | While) for one in walk(loop.body))
    return is_innermost and LEAST_MASKED <= trips <= MOST_MASKED and trips % LANES != 0
