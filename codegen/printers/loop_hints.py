"""What LLVM is told about a loop, where its own choice is bad."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from jitcore.codegen.loop_passes.traversal import (
    blocks,
    children,
    has_loops,
    known_trips,
    loads,
    loads_in,
    subexpressions,
    variables,
    walk,
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
    Load,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)
from jitcore.codegen.printers.llvm_instructions import BITS, FLOATS
from jitcore.codegen.printers.loop_metadata import (
    AFTERWARDS,
    INTERLEAVED,
    MASKED,
    NO_VECTORS,
    NOT_UNROLLED,
    NOT_UNROLLED_AFTERWARDS,
    ONE_AT_A_TIME,
    PARTLY_UNROLLED_AFTERWARDS,
    several_at_a_time,
    vector_width,
)
from jitcore.codegen.processor import gathers_slowly

__all__ = [
    "ASSOCIATIVE",
    "MOST_MASKED",
    "Neighbours",
    "joins_flags",
    "loop_hints",
    "vectors_of_sum",
]

SHORT_STEP: Final = 12
"""Statements of a step that is little work: one extremum alone waits as long for the one before."""

LONG_STEP: Final = 8
"""Operations in float32 of a step that is mostly that."""

FUNCTION: Final = 16
"""The operations that a function is counted as."""

OF_A_LOOKUP: Final = 3
"""With so many operations on floats for each element that is looked up vectors gain."""

ASSOCIATIVE: Final = frozenset({"add", "mul", "min", "max", "and", "or", "xor"})
"""What whole numbers and bools may be joined by in any order."""

MOST_KEPT: Final = 128
"""Elements of a row that registers hold, as float64."""

MOST_INTERLEAVED: Final = 4
"""Elements of rows that lie one after the other and are taken apart by shuffles of vectors."""

MOST_REDUCED: Final = 8
"""The same of rows that are reduced and fill less than a vector: to join the elements of one vector
takes longer than to shuffle many.  LLVM takes no longer rows apart (``MaxInterleaveGroupFactor`` in
its ``VectorUtils.cpp``).  Not of rows of functions, each of which is copied for each element: a
softmax of eight would take twice as long to compile."""

LEAST_LANES: Final = 3
"""Sums in memory that a vector holds; of fewer LLVM makes none, and would print that."""

MOST_COPIED: Final = 256
"""Steps of loops in each other that may all become one straight line."""

LANES: Final = 8
LEAST_MASKED: Final = 6
MOST_MASKED: Final = 256


def loop_hints(
    loop: For,
    metadata: Callable[[str], str],
    known: Sequence[str] = (),
    vector_bits: int = 512,
    neighbours: Neighbours | None = None,
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
    neighbours : Neighbours, optional
        What there is beside it and around it.
    """
    beside = neighbours or Neighbours()
    is_read_again = beside.read_again(loop)
    hints = list(known)
    if not hints and beside.is_inner(loop) and is_read_again and _checks_row(loop):
        hints = [NOT_UNROLLED, ONE_AT_A_TIME, MASKED, NOT_UNROLLED_AFTERWARDS]
    most = MOST_INTERLEAVED if beside.has_functions(loop) else MOST_REDUCED
    hints = hints or _hints_of_form(loop, vector_bits, is_read_again, most)
    if not hints:
        return ""
    names = ", ".join(map(metadata, hints))
    return metadata(f"distinct !{{{{self}}, {names}}}")


def _read_again(statements: Sequence[Stmt]) -> set[int]:
    """The identities of loops, inner ones too, that read arrays which a later loop beside reads."""
    found: set[int] = set()
    later: list[tuple[Stmt, set[str]]] = []
    for statement in reversed(statements):
        loops = [one for one in walk([statement]) if isinstance(one, For)]
        roots = {load.root for one in loops for load in loads_in(one.body)} - {""}
        if any(
            not roots.isdisjoint(others) and not _goes_on(statement, other)
            for other, others in later
        ):
            found.update(map(id, loops))
        if roots:
            later.append((statement, roots))
    return found


class Neighbours:
    """What there is beside the loops of a function, and around them."""

    def __init__(self) -> None:
        self._inner: set[int] = set()
        self._read_again: set[int] = set()
        self._beside_functions: set[int] = set()

    def note(self, statements: Sequence[Stmt], *, is_inner: bool) -> None:
        """Note the loops among some statements that are printed next, in a loop or not."""
        self._read_again |= _read_again(statements)
        loops = [one for one in statements if isinstance(one, For)]
        if any(map(_calls, loops)):
            self._beside_functions.update(map(id, loops))
        if is_inner:
            self._inner.update(map(id, loops))

    def is_inner(self, loop: For) -> bool:
        """Whether a loop is a part of another one."""
        return id(loop) in self._inner

    def read_again(self, loop: For) -> bool:
        """Whether a later loop beside one, or beside one around it, reads the same array."""
        return id(loop) in self._read_again

    def has_functions(self, loop: For) -> bool:
        """Whether a loop, or one beside it, calls functions."""
        return id(loop) in self._beside_functions


def _calls(loop: For) -> bool:
    """Whether a loop's own statements call functions of vector math."""
    values = [one.value for one in loop.body if isinstance(one, Let | Assign | Store)]
    parts = (part for x in values for part in subexpressions(x))
    return any(isinstance(x, Call) and x.name != "fma" for x in parts)


def _goes_on(first: Stmt, second: Stmt) -> bool:
    """Whether one loop begins where another one ends."""
    return isinstance(first, For) and isinstance(second, For) and first.stop == second.start


def _hints_of_form(
    loop: For, vector_bits: int, is_read_again: bool, most_reduced: int
) -> list[str]:
    lanes = _lanes_of_sums(loop)
    if lanes and _has_open_stride(loop):
        return [NO_VECTORS]
    if lanes and lanes >= LEAST_LANES:
        return [NOT_UNROLLED, vector_width(min(lanes, vector_bits // 32)), AFTERWARDS]
    adds_up = _adds_up(loop) and not _is_interleaved(loop, vector_bits, most_reduced)
    hints = _sum_hints(loop, vector_bits, is_read_again) if adds_up else []
    if _has_short_rest(loop) and MASKED not in hints:
        hints.append(MASKED)
    is_around = _is_around_sum(loop) or _is_around_lanes(loop) or _is_around_rare_loop(loop)
    if not hints and is_around:
        hints.append(NOT_UNROLLED)
    if not hints and _is_around_row(loop, vector_bits):
        hints.append(NO_VECTORS)
    if not hints and not has_loops(loop.body) and _gathers(loop):
        is_scalar = gathers_slowly() and _is_mostly_lookups(loop)
        hints.append(NO_VECTORS if is_scalar else ONE_AT_A_TIME)
    if NOT_UNROLLED not in hints and _is_around_many(loop):
        hints.append(NOT_UNROLLED)
    return hints


def _lanes_of_sums(loop: For) -> int | None:
    """How many sums in memory a loop adds to, where it does that (`loop_passes.lane_sums`)."""
    is_step = any(
        isinstance(one, Store) and isinstance(one.value, Binary) and one.value.reassoc
        for one in loop.body
    )
    return known_trips(loop) if is_step else None


def _has_open_stride(loop: For) -> bool:
    """Whether elements are loaded that lie as far apart as only a run tells."""
    places = {loop.var.name}
    for one in loop.body:
        if isinstance(one, Let) and not places.isdisjoint(variables(one.value)):
            places.add(one.var.name)
    return any(_has_open_product(load.index, places) for load in loads_in(loop.body))


def _has_open_product(x: Expr, places: set[str]) -> bool:
    """Whether one of some variables is multiplied by what is no constant."""
    is_open = isinstance(x, Binary) and x.op == "mul" and not isinstance(x.x, Const)
    if isinstance(x, Binary) and is_open and not isinstance(x.y, Const):
        return not places.isdisjoint(variables(x))
    return any(_has_open_product(one, places) for one in children(x))


def _is_around_lanes(loop: For) -> bool:
    """Whether a loop runs one that adds to sums in memory.

    Copies of that would read memory in another order than it lies in.
    """
    return any(isinstance(one, For) and _lanes_of_sums(one) for one in loop.body)


def _is_around_rare_loop(loop: For) -> bool:
    """Whether a loop runs another one that hardly ever runs, of which no copies are needed."""
    return any(isinstance(one, If) and one.unlikely and has_loops(one.then) for one in loop.body)


def _is_around_row(loop: For, vector_bits: int) -> bool:
    """Whether a loop runs one of few iterations that writes elements, such as those of a row.

    That is unrolled, and made vectors of where it is long enough.  The same element of several rows
    would be gathered and scattered.
    """
    inner = [one for one in loop.body if isinstance(one, For) and known_trips(one) is not None]
    stores = [part for one in inner for part in one.body if isinstance(part, Store)]
    is_reduced = any(map(_adds_up, inner)) and not any(map(_calls, inner))
    most = MOST_REDUCED if is_reduced else MOST_INTERLEAVED
    are_short = all(_is_interleaved(one, vector_bits, most) for one in inner)
    is_near = all(_lies_near(one, loop.var, most) for one in stores)
    return bool(stores) and not (are_short and is_near)


def _lies_near(store: Store, var: Var, most: int) -> bool:
    """Whether the next iteration of a loop writes no more than a short row further on."""
    waiting: list[Expr] = [store.index]
    while waiting:
        x = waiting.pop()
        if isinstance(x, Binary) and x.op == "mul" and x.x == var:
            return isinstance(x.y, Const) and 0 < x.y.value <= most
        waiting += children(x)
    return False


def _is_interleaved(loop: For, vector_bits: int, most: int) -> bool:
    """Whether a loop is a row so short that vectors hold one element each of several rows."""
    trips = known_trips(loop)
    if trips is None or trips > most:
        return False
    accessed = [load.dtype for load in loads_in(loop.body)]
    accessed += [one.value.dtype for one in loop.body if isinstance(one, Store)]
    size = trips * max((BITS[dtype] for dtype in accessed), default=0)
    return trips <= MOST_INTERLEAVED or size < vector_bits


def _is_around_sum(loop: For) -> bool:
    """Whether a loop of many iterations runs one that adds up.

    That is small enough to be copied for each of them, and each copy would be made vectors of.
    """
    trips = known_trips(loop)
    inner = any(isinstance(one, For) and _adds_up(one) for one in loop.body)
    return inner and trips is not None and trips >= LANES


def _is_around_many(loop: For) -> bool:
    """Whether a loop of some iterations runs another one, and that many steps.

    LLVM copies what is around loops where these are short enough, and each copy would have vectors,
    what is left beside them, and single elements of its own.  Few steps become a straight line.
    """
    trips, inside = known_trips(loop), _steps(loop.body)
    return trips is not None and inside >= 2 * LANES and trips * inside > MOST_COPIED


def _steps(statements: Sequence[Stmt]) -> float:
    """The steps of the innermost loops among statements, at least 1; infinite where not known."""
    steps = 1.0
    for one in statements:
        if isinstance(one, For):
            trips = known_trips(one)
            inner = math.inf if trips is None else trips * _steps(one.body)
        else:
            inner = math.inf if isinstance(one, While) else max(map(_steps, blocks(one)), default=1)
        steps = max(steps, inner)
    return steps


def _gathers(loop: For) -> bool:
    """Whether elements are loaded from where others say.

    A vector of them is a load for each, so that several vectors side by side take no less time;
    LLVM would translate four.
    """
    return any(_lookups(loop))


def _lookups(loop: For) -> Iterator[Load]:
    """The elements that a loop loads from where others say."""
    places = set[str]()
    for one in loop.body:
        yield from (load for load in loads_in([one]) if _follows(load.index, places))
        if isinstance(one, Let) and _follows(one.value, places):
            places.add(one.var.name)


def _is_mostly_lookups(loop: For) -> bool:
    """Whether a loop computes so little with what it looks up that vectors gain nothing."""
    values = [one.value for one in loop.body if isinstance(one, Let | Assign | Store)]
    parts = (part for value in values for part in subexpressions(value))
    casts = sum(isinstance(part, Cast) and part.dtype in FLOATS for part in parts)
    work = casts + sum(map(_float_work, values))
    return work < OF_A_LOOKUP * sum(1 for _ in _lookups(loop))


def _float_work(x: Expr, dtypes: Collection[str] = FLOATS) -> int:
    """The operations in floats of an expression; a function takes many."""
    if isinstance(x, Load):
        return 0
    inner = sum(_float_work(one, dtypes) for one in children(x))
    if x.dtype not in dtypes:
        return inner
    if isinstance(x, Call) and x.name != "fma":
        return inner + FUNCTION
    return inner + isinstance(x, Unary | Binary | Select | Call)


def _follows(x: Expr, places: set[str]) -> bool:
    """Whether an expression depends on loaded elements, which the names in ``places`` do."""
    return any(loads(x)) or not places.isdisjoint(variables(x))


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


def _sum_hints(loop: For, vector_bits: int, is_read_again: bool) -> list[str]:
    """What keeps a loop that adds up from being unrolled before it is vectorized.

    Short sums would become chains of additions, which are not made vectors of again.  Where a step
    is little work, several sums are kept, so that none waits for the one before: but no more than
    there are elements for, or LLVM would make no vectors at all.  What is left beside all sums of a
    short loop is masked.  Elements that are read again must not stay in registers until then, as
    they do once both loops are straight lines: where there are many, they would be written to the
    stack.
    """
    trips = known_trips(loop)
    is_long = trips is None or trips > MOST_KEPT
    afterwards = PARTLY_UNROLLED_AFTERWARDS if is_read_again and is_long else AFTERWARDS
    if joins_flags(loop):
        afterwards = NOT_UNROLLED_AFTERWARDS
    is_wide = _is_mostly_float32(loop, vector_bits)
    lanes, together = vectors_of_sum(loop, vector_bits)
    is_masked = trips is not None and lanes <= trips <= MOST_KEPT and trips % (lanes * together)
    width = [vector_width(lanes)] if is_wide else []
    several = [several_at_a_time(together)] if together > 1 else []
    masked = [MASKED] if is_masked else []
    return [NOT_UNROLLED, *width, *several, *masked, afterwards]


def vectors_of_sum(loop: For, vector_bits: int) -> tuple[int, int]:
    """The lanes of the vectors of a loop that adds up, and how many vectors of sums it keeps."""
    is_wide = _is_mostly_float32(loop, vector_bits)
    lanes = vector_bits // (32 if is_wide else _bits_of_sums(loop))
    work = sum(not isinstance(one, Comment) for one in loop.body)
    return lanes, _vectors_of_sums(known_trips(loop), lanes) if work <= SHORT_STEP else 1


def _checks_row(loop: For) -> bool:
    """Whether a loop finds out whether something holds of a row, such as the places of a gather.

    One vector at a time, some of which is masked, is all that most rows take; for others, what
    reads the row again takes longer.  LLVM would keep loops over fewer elements and over single
    ones beside four vectors: a fifth of what it took to compile a product with a sparse matrix.
    """
    is_open = known_trips(loop) is None and not has_loops(loop.body)
    return is_open and _adds_up(loop) and joins_flags(loop)


def joins_flags(loop: For) -> bool:
    """Whether a loop only finds out whether something holds of any element, or of all.

    A vector of flags is an instruction or two for many elements, so that copies save nothing.
    """
    steps = [one for one in loop.body if isinstance(one, Assign)]
    return all(one.var.dtype == "bool" for one in steps)


def _bits_of_sums(loop: For) -> int:
    """The size of the largest variable that a loop adds up to; a bool is a byte."""
    return max(max(BITS[one.var.dtype], 8) for one in loop.body if isinstance(one, Assign))


def _vectors_of_sums(trips: int | None, lanes: int) -> int:
    """How many vectors of sums a loop keeps."""
    most = INTERLEAVED if trips is None else max(min(trips // lanes, INTERLEAVED), 1)
    return 1 << (most.bit_length() - 1)


def _is_mostly_float32(loop: For, vector_bits: int) -> bool:
    """Whether most of a step is done in float32 before it is added to a float64.

    Without a hint, vectors have as many elements as vectors of the sum have, which leaves half of
    each register empty before.
    """
    values = [one.value for one in loop.body if isinstance(one, Let | Assign | Store)]
    trips = known_trips(loop)
    if any(load.dtype != "float32" for load in loads_in(loop.body)):
        return False
    is_much = sum(_float_work(value, ("float32",)) for value in values) >= LONG_STEP
    return is_much and (trips is None or trips >= vector_bits // 32)


def _has_short_rest(loop: For) -> bool:
    """Whether a loop has few iterations, and some of them do not fill a vector."""
    trips = known_trips(loop)
    if trips is None or loop.step != 1:
        return False
    is_innermost = not has_loops(loop.body)
    return is_innermost and LEAST_MASKED <= trips <= MOST_MASKED and trips % LANES != 0
