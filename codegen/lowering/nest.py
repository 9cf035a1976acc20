"""Loop nests over the elements of arrays: which axes are walked as one, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from jitcore.codegen.loops import Binary, Const, Expr
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    integer,
    minimum,
    multiply,
    product,
)
from jitcore.codegen.lowering.elements import Elements, Index, scans_in, store, uncollapsed
from jitcore.codegen.lowering.operands import ArrayRef, Lazy, Operand
from jitcore.codegen.lowering.orders import Rearranger, preferred_axes
from jitcore.codegen.lowering.state import Lowering

__all__ = ["INDEX_NAMES", "blocks_of_columns", "collapse", "nest", "write"]

INDEX_NAMES = "ijklmnpq"


def collapse(
    lowering: Lowering,
    dims: Sequence[Expr],
    operands: Sequence[Operand],
    borders: frozenset[int] = frozenset(),
) -> tuple[int, ...]:
    """How many adjacent axes may be walked as one: the sizes of the groups, from the first axis.

    ``operands`` are walked with their last axes at the last axes of ``dims``, without stretching.
    Axes in ``borders`` stay apart from the axis after them.
    """
    rank = len(dims)
    joined = [axis not in borders for axis in range(rank - 1)]
    for operand in operands:
        status = [axis >= rank - _rank(operand) for axis in range(rank)]
        _restrict_all(lowering, operand, status, joined)
    groups: list[int] = []
    for axis in range(rank):
        if axis and joined[axis - 1]:
            groups[-1] += 1
        else:
            groups.append(1)
    return tuple(groups)


def _rank(operand: Operand) -> int:
    return operand.rank if isinstance(operand, (ArrayRef, Lazy)) else 0


def _restrict_all(
    lowering: Lowering, operand: Operand, walked: list[bool], joined: list[bool]
) -> None:
    """Split axes that an operand, or what it is made of, cannot walk as one."""
    seen: set[tuple[int, tuple[bool, ...]]] = set()
    waiting = [(operand, walked)]
    while waiting:
        one, walked = waiting.pop()
        if not isinstance(one, (ArrayRef, Lazy)) or (id(one), tuple(walked)) in seen:
            continue
        seen.add((id(one), tuple(walked)))
        _restrict(lowering, one, walked, joined)
        if isinstance(one, Lazy) and one.is_aligned:
            pairs = list(zip(one.operands, one.modes, strict=True))
            waiting.extend((x, _walked(walked, modes, joined)) for x, modes in reversed(pairs))


def _restrict(
    lowering: Lowering, operand: ArrayRef | Lazy, walked: list[bool], joined: list[bool]
) -> None:
    """Split axes that this operand cannot walk as one; ``walked`` says along which it moves."""
    for axis in range(len(joined)):
        if walked[axis] != walked[axis + 1]:
            joined[axis] = False
    first = len(walked) - operand.rank
    for axis in range(max(first, 0), len(joined)):
        if isinstance(operand, ArrayRef):
            moves = walked[axis] and walked[axis + 1]
            if moves and not _adjacent(lowering, operand, axis - first):
                joined[axis] = False
        elif not operand.is_aligned:
            joined[axis] = False


def _walked(walked: list[bool], modes: Sequence[Expr | None], joined: list[bool]) -> list[bool]:
    """Along which axes an operand moves, whose user moves along ``walked``."""
    missing = len(walked) - len(modes)
    result = [False] * missing
    for axis, mode in enumerate(modes, missing):
        result.append(walked[axis] and mode != ZERO)
        if mode is not None and mode != ZERO:  # stretched or not: only the run shows
            for neighbour in (axis - 1, axis):
                if 0 <= neighbour < len(joined):
                    joined[neighbour] = False
    return result


def _adjacent(lowering: Lowering, array: ArrayRef, axis: int) -> bool:
    """Whether an axis and the next one can be walked with the stride of the next."""
    if array.dims[axis] == ONE:
        return True
    inner = axis + 1
    # An axis of extent 1 is not walked, whatever its stride; the one after it is.
    while inner < array.rank - 1 and array.dims[inner] == ONE:
        inner += 1
    step = multiply(array.strides[inner], array.dims[inner])
    return array.strides[axis] == lowering.emitter.shared("stride", step)


@contextmanager
def nest(
    lowering: Lowering,
    dims: Sequence[Expr],
    groups: Sequence[int] | None = None,
    *,
    parallel: bool = False,
    ordered: bool = False,
) -> Iterator[Index]:
    """Loops over extents, one for each group of axes; gives the index inside.

    With ``parallel`` the outermost one of several iterations may be shared out among threads; on a
    device all of them are, but where they are ``ordered``.
    """
    is_device = lowering.target.is_device and not ordered
    sizes = tuple(groups) if groups is not None else (1,) * len(dims)
    emitter = lowering.emitter
    extents: list[Expr] = []
    axis = 0
    for size in sizes:
        extents.append(emitter.shared("size", product(dims[axis : axis + size])))
        axis += size
    with emitter.nest(), ExitStack() as stack:
        entries = []
        for number, extent in enumerate(extents):
            is_outermost = all(one == ONE for one in extents[:number])
            is_parallel = is_device or (parallel and is_outermost)
            name = INDEX_NAMES[min(number, len(INDEX_NAMES) - 1)]
            loop = emitter.loop(name, ZERO, extent, parallel=is_parallel)
            entries.append(stack.enter_context(loop))
        yield Index(tuple(entries), sizes)


COLUMN_BYTES = 4096
"""What a block of columns has of each row: enough for the processor to foresee what is read."""


@contextmanager
def blocks_of_columns(
    lowering: Lowering, around: Sequence[Expr], row: Sequence[Expr], itemsize: int
) -> Iterator[Callable[[], AbstractContextManager[Index]]]:
    """A parallel loop over blocks of columns, where there is none over what is ``around``.

    Gives what makes the loops over a row, or over the block's part of it.
    """
    emitter = lowering.emitter
    columns = COLUMN_BYTES // itemsize
    is_short = len(row) == 1 and isinstance(row[0], Const) and row[0].value < 2 * columns
    if around or len(row) != 1 or is_short:
        yield lambda: nest(lowering, row)
        return
    size = integer(columns)
    count = Binary("quot", add(row[0], integer(columns - 1)), size, "int64")
    with emitter.nest(), emitter.loop("block", ZERO, count, parallel=True) as block:
        first = emitter.copy("first", multiply(block, size))
        last = emitter.copy("last", minimum(add(first, size), row[0]))

        @contextmanager
        def along() -> Iterator[Index]:
            with emitter.nest(), emitter.loop("j", first, last) as column:
                yield Index((column,), (1,))

        yield along


def write(lowering: Lowering, pairs: Sequence[tuple[ArrayRef, Operand]]) -> None:
    """One nest that writes values, all of the same extents, to arrays."""
    scans = scans_in(lowering, [value for _, value in pairs])
    if scans:
        _write_along(lowering, pairs, scans)
        return
    ways = {preferred_axes(target) for target, _ in pairs}
    axes = ways.pop()
    if not ways and axes != tuple(range(len(axes))):
        rearranged = Rearranger(lowering, axes)
        pairs = [(rearranged(target), rearranged(value)) for target, value in pairs]
    dims = pairs[0][0].dims
    groups = collapse(lowering, dims, [one for pair in pairs for one in pair])
    elements = Elements(lowering)
    lowering.note_nest(len(groups), [target.root for target, _ in pairs])
    with nest(lowering, dims, groups, parallel=True) as index:
        values = [elements(operand, _last(index, operand)) for _, operand in pairs]
        for (target, _), value in zip(pairs, values, strict=True):
            store(lowering, target, index, value)


def _write_along(
    lowering: Lowering, pairs: Sequence[tuple[ArrayRef, Operand]], scans: Sequence[Lazy]
) -> None:
    """Loops over rows, each from its first element to its last."""
    dims = pairs[0][0].dims
    elements = Elements(lowering)
    lowering.note_nest(len(dims), [target.root for target, _ in pairs])
    with nest(lowering, dims[:-1], parallel=True) as outer:
        elements.begin_scans(scans)
        with lowering.emitter.loop("k", ZERO, dims[-1]) as k:
            index = uncollapsed([*outer.entries, k])
            values = [elements(operand, _last(index, operand)) for _, operand in pairs]
            for (target, _), value in zip(pairs, values, strict=True):
                store(lowering, target, index, value)


def _last(index: Index, operand: Operand) -> Index:
    """The index of an operand that has all axes of the nest, or of a scalar."""
    return index if _rank(operand) else Index((), ())
