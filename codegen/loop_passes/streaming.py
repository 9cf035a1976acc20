"""Large results are written past the caches.

A processor reads a line of memory into its caches before it writes a part of it.  Where an array is
larger than all of them, that line has been written back before anyone reads it: a third of the
memory's time is lost, of a loop that reads one array and writes one.  Stores that go past the
caches, whole lines at a time, do without.

So a loop over such arrays computes a block of its results in the first cache, where vectors need
no alignment, and ``jc_stream`` (`codegen.runtime.streams`) writes it from there.  Blocks are small,
or the processor would read and write in turns: with 16 KiB a loop took as long as before, with 4
KiB two thirds of that.

Before::

    for i in range(16777216):
        store(result, i, load(x, i) + 1)

After::

    for block in range(16384):
        first = block * 1024
        last = min(first + 1024, 16777216)
        for i in range(first, last):
            store(results, i - first, load(x, i) + 1)
        jc_stream(result, first * 4, results, (last - first) * 4)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, reduce

from jitcore.codegen.loop_passes.accesses import ELEMENT, Access, Accesses
from jitcore.codegen.loop_passes.rewriting import replaced, unused_name, with_blocks
from jitcore.codegen.loop_passes.traversal import (
    STACK,
    STREAM,
    bound_names,
    children,
    expressions,
    known_trips,
    names_in,
    variables,
)
from jitcore.codegen.loops import (
    Call,
    Comment,
    Do,
    Expr,
    For,
    Function,
    Let,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ZERO, add, integer, minimum, multiply, subtract
from jitcore.codegen.printers.llvm_instructions import memory_bytes

__all__ = ["BLOCK_BYTES", "stream_results"]

BLOCK_BYTES = 4 * 1024
"""What a block's results take of the first cache."""

BEYOND_CACHE = 2
"""So many times as large as the cache all arrays together are at least.  Of smaller ones much is
still there when they are read again: as many bytes as a cache of 32 MB holds took up to 1.4 times
as long, and a stencil on twice as many 1.4 times."""

LEAST_ROW = 4 * 1024
"""Bytes of a row; shorter ones have too many ends that do not fill a line."""


def stream_results(function: Function, cache_bytes: int) -> Function:
    """The function with its loops over arrays of known extents that are larger than the caches.

    Parameters
    ----------
    function : Function
    cache_bytes : int
        The size of the largest cache.
    """
    body = _Streaming(function, cache_bytes).block(function.body)
    return replace(function, body=body)


class _Streaming:
    def __init__(self, function: Function, cache_bytes: int) -> None:
        self.function = function
        self.cache_bytes = cache_bytes
        self.around: list[For] = []

    @cached_property
    def names(self) -> set[str]:
        return names_in(self.function)

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        return [self.statement(one) for one in statements]

    def statement(self, statement: Stmt) -> Stmt:
        if not isinstance(statement, For):
            return with_blocks(statement, self.block)
        stores = self.stores(statement)
        if stores:
            return self.streamed(statement, stores)
        self.around.append(statement)
        changed = with_blocks(statement, self.block)
        self.around.pop()
        return changed

    def stores(self, loop: For) -> list[Store]:
        """What a loop stores, where that should go past the caches; else nothing."""
        trips = known_trips(loop)
        stores = [one for one in loop.body if isinstance(one, Store)]
        if trips is None or loop.step != 1 or not stores:
            return []
        if any(memory_bytes(one.value.dtype) * trips < LEAST_ROW for one in stores):
            return []
        if not all(map(_is_plain, loop.body)):
            return []
        found = Accesses()
        found.nest(loop)
        written = {one.root for one in found.found if one.is_write}
        read = {one.root for one in found.found if not one.is_write}
        if len(written) < len(stores) or "" in written | read or written & read:
            return []
        if not all(_is_dense(one) for one in found.found if one.is_write):
            return []
        outside = bound_names(loop.body)
        if any(outside & set(variables(x)) for one in stores for x in (one.pointer, one.index)):
            return []
        is_large = self.moved(found.found, loop) > BEYOND_CACHE * self.cache_bytes
        return stores if is_large else []

    def moved(self, accesses: Sequence[Access], loop: For) -> int:
        """The bytes of all arrays that a loop and those around it read or write."""
        sizes: dict[str, int] = {}
        for access in accesses:
            if access.place is None:
                continue
            names = {name for name, factor in access.place.terms if factor}
            trips = [known_trips(one) or 1 for one in self.around if one.var.name in names]
            own = known_trips(loop) or 1
            elements = reduce(int.__mul__, trips, own if ELEMENT in names else 1)
            size = elements * memory_bytes(access.dtype)
            sizes[access.root] = max(size, sizes.get(access.root, 0))
        return sum(sizes.values())

    def variable(self, name: str, dtype: str = "int64") -> Var:
        return Var(unused_name(name, self.names), dtype)

    def streamed(self, loop: For, stores: Sequence[Store]) -> For:
        """The loop over blocks."""
        bytes_of = {id(one): memory_bytes(one.value.dtype) for one in stores}
        size = max(BLOCK_BYTES // sum(bytes_of.values()) // 64, 1) * 64
        number, first, last = (self.variable(name) for name in ("block", "first", "last"))
        buffers = {id(one): self.variable("results", "ptr") for one in stores}
        body: list[Stmt] = [
            Let(first, add(loop.start, multiply(number, integer(size)))),
            Let(last, minimum(add(first, integer(size)), loop.stop)),
        ]
        for one in stores:
            room = integer(size * bytes_of[id(one)])
            body.append(Let(buffers[id(one)], Call(STACK, (room,), "ptr", external=True)))
        place = subtract(loop.var, first)
        inner: list[Stmt] = [
            Store(buffers[id(one)], place, one.value, buffers[id(one)].name)
            if isinstance(one, Store)
            else one
            for one in loop.body
        ]
        body.append(For(loop.var, first, last, inner))
        for one in stores:
            width = integer(bytes_of[id(one)])
            begin = replaced(one.index, lambda x: first if x == loop.var else None)
            length = multiply(subtract(last, first), width)
            args = (one.pointer, multiply(begin, width), buffers[id(one)], length)
            body.append(Do(Call(STREAM, args, "void", external=True)))
        trips = known_trips(loop)
        assert trips is not None
        return For(number, ZERO, integer(-(-trips // size)), body, parallel=loop.parallel)


def _is_plain(statement: Stmt) -> bool:
    """Whether a statement computes or stores an element, without a function that takes longer."""
    if isinstance(statement, Let) and statement.mutable:
        return False
    if isinstance(statement, Let | Store):
        return not any(map(_has_calls, expressions(statement)))
    return isinstance(statement, Comment)


def _has_calls(x: Expr) -> bool:
    return (isinstance(x, Call) and x.name != "fma") or any(map(_has_calls, children(x)))


def _is_dense(access: Access) -> bool:
    """Whether iterations write to neighbouring elements, one after the other."""
    return access.place is not None and (ELEMENT, 1) in access.place.terms
