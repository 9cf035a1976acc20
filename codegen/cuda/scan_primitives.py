"""What printed kernels import for scans: what is before a lane, a warp, a thread, a tile.

The tiles of a long scan are the work of blocks that run at the same time, and go on as far as they
can before they wait for others.  That is "decoupled look-back" (D. Merrill and M. Garland,
"Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA, NVR-2016-002), but for one
thing: there a tile begins with the prefix of the nearest tile that has one by then, so that sums of
floats are rounded in another way in each run.  Here the order is fixed.  As many tiles as a block
has threads are a group.  A tile joins those before it in its group, of which each thread waits for
one, as a tree, and begins with the prefix that the last tile of the group before has left.  Only
from group to group does one prefix wait for another, which takes less time than to move what is
scanned of a group: some two megabytes.
"""

from __future__ import annotations

from typing import Any

import numba.cuda
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from jitcore.codegen.cuda import primitives
from jitcore.codegen.cuda.primitives import JOINS
from jitcore.codegen.primitives import load, store

__all__ = [
    "before_add",
    "before_and",
    "before_lanes_add",
    "before_lanes_and",
    "before_lanes_max",
    "before_lanes_min",
    "before_lanes_mul",
    "before_lanes_or",
    "before_max",
    "before_min",
    "before_mul",
    "before_or",
    "before_tiles_add",
    "before_tiles_and",
    "before_tiles_max",
    "before_tiles_min",
    "before_tiles_mul",
    "before_tiles_or",
    "before_warps_add",
    "before_warps_and",
    "before_warps_max",
    "before_warps_min",
    "before_warps_mul",
    "before_warps_or",
    "next_tile",
    "of_last_lane",
    "of_last_thread",
    "of_last_tile_add",
    "of_last_tile_and",
    "of_last_tile_max",
    "of_last_tile_min",
    "of_last_tile_mul",
    "of_last_tile_or",
]

cuda: Any = numba.cuda
_WORD = ir.IntType(32)
_ALL_LANES = 0xFFFFFFFF

_PAUSE = 20
"""Nanoseconds until a thread looks once more for what it waits for."""

_SUM = 8
"""Where the sum of a tile's record lies, behind the word that tells that it is there."""


# One block ------------------------------------------------------------------------------------


def _before_threads(join: Any) -> Any:
    """A device function that joins what the threads before a thread hold; the first gets anything.

    The method is that of W. D. Hillis and G. L. Steele, "Data parallel algorithms", Communications
    of the ACM 29, 1986, in each warp; each warp goes through what those before it have.
    """

    @cuda.jit(device=True)
    def before(x, dtype):  # type: ignore[no-untyped-def]
        parts = cuda.shared.array(32, dtype)
        lane = cuda.threadIdx.x & 31
        warp = cuda.threadIdx.x >> 5
        distance = 1
        while distance < 32:
            other = cuda.shfl_up_sync(_ALL_LANES, x, distance)
            if lane >= distance:
                x = join(other, x)
            distance <<= 1
        if lane == 31:
            parts[warp] = x
        x = cuda.shfl_up_sync(_ALL_LANES, x, 1)
        cuda.syncthreads()
        if warp > 0:
            all_before = parts[0]
            number = 1
            while number < warp:
                all_before = join(all_before, parts[number])
                number += 1
            x = all_before if lane == 0 else join(all_before, x)
        cuda.syncthreads()
        return x

    return before


def _before_lanes(join: Any) -> Any:
    """The same for the lanes of one warp; the first gets ``absent``."""

    @cuda.jit(device=True)
    def before(x, absent, _dtype):  # type: ignore[no-untyped-def]
        lane = cuda.threadIdx.x & 31
        distance = 1
        while distance < 32:
            other = cuda.shfl_up_sync(_ALL_LANES, x, distance)
            if lane >= distance:
                x = join(other, x)
            distance <<= 1
        x = cuda.shfl_up_sync(_ALL_LANES, x, 1)
        return x if lane > 0 else absent

    return before


def _before_warps(join: Any) -> Any:
    """The same for warps, whose lanes all have what the warp holds; the first gets ``absent``."""

    @cuda.jit(device=True)
    def before(x, absent, dtype):  # type: ignore[no-untyped-def]
        parts = cuda.shared.array(32, dtype)
        warp = cuda.threadIdx.x >> 5
        if cuda.threadIdx.x & 31 == 0:
            parts[warp] = x
        cuda.syncthreads()
        x = absent
        number = 0
        while number < warp:
            x = join(x, parts[number])
            number += 1
        cuda.syncthreads()
        return x

    return before


@cuda.jit(device=True)
def of_last_lane(x, _dtype):  # type: ignore[no-untyped-def]
    """What the last lane of the warp holds."""
    return cuda.shfl_sync(_ALL_LANES, x, 31)


@cuda.jit(device=True)
def of_last_thread(x, dtype):  # type: ignore[no-untyped-def]
    """What the last thread of the block holds."""
    place = cuda.shared.array(1, dtype)
    if cuda.threadIdx.x == cuda.blockDim.x - 1:
        place[0] = x
    cuda.syncthreads()
    x = place[0]
    cuda.syncthreads()
    return x


# All blocks -----------------------------------------------------------------------------------


@intrinsic
def _count_up(_context: Any, counter: Any) -> Any:
    """How many have counted before."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
        type_ = ir.FunctionType(_WORD, [ir.IntType(64)])
        text = "atom.relaxed.gpu.global.add.u32 $0, [$1], 1;"
        return builder.asm(type_, text, "=r,l,~{memory}", args, True)

    return types.uint32(types.int64), code


@intrinsic
def _publish(_context: Any, address: Any) -> Any:
    """Set a word to 1; who sees it sees what this thread has written before."""

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        type_ = ir.FunctionType(ir.VoidType(), [ir.IntType(64)])
        builder.asm(type_, "st.release.gpu.global.u32 [$0], 1;", "l,~{memory}", args, True)
        return context.get_dummy_value()

    return types.void(types.int64), code


@intrinsic
def _is_published(_context: Any, address: Any) -> Any:
    """Whether a word is set."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
        type_ = ir.FunctionType(_WORD, [ir.IntType(64)])
        text = "ld.acquire.gpu.global.u32 $0, [$1];"
        word = builder.asm(type_, text, "=r,l,~{memory}", args, True)
        return builder.icmp_unsigned("!=", word, _WORD(0))

    return types.boolean(types.int64), code


@cuda.jit(device=True)
def next_tile(counter):  # type: ignore[no-untyped-def]
    """The number of the block's tile: all before it have been taken by blocks that run.

    The device may start blocks in any order, so that theirs may not be waited for.
    """
    place = cuda.shared.array(1, types.uint32)
    if cuda.threadIdx.x == 0:
        place[0] = _count_up(counter)  # type: ignore[call-arg]
    cuda.syncthreads()
    return types.int64(place[0])


@cuda.jit(device=True)
def _leave(record, x):  # type: ignore[no-untyped-def]
    store(record + _SUM, 0, x)  # type: ignore[call-arg]
    _publish(record)


@cuda.jit(device=True)
def _left(record, dtype):  # type: ignore[no-untyped-def]
    """What a tile has left in its record, once it has."""
    while not _is_published(record):  # type: ignore[call-arg]
        cuda.nanosleep(_PAUSE)
    return load(record + _SUM, 0, dtype)


def _before_tiles(join: Any, block: Any) -> Any:
    """A device function that joins what the tiles before a block's own hold.

    ``whole`` is what the own one does, ``begin`` what is before the first one, and ``absent``
    changes nothing.  Tiles have records of 16 bytes from ``records`` on, all 0 in the beginning.
    There the last tile of a group leaves all up to its end, and so does the last of all.
    """

    @cuda.jit(device=True)
    def before(whole, begin, absent, tile, records, dtype):  # type: ignore[no-untyped-def]
        prefix = cuda.shared.array(1, dtype)
        thread = cuda.threadIdx.x
        place = tile & (cuda.blockDim.x - 1)
        own = records + 16 * tile
        first = own - 16 * place
        is_end = place == cuda.blockDim.x - 1 or tile == cuda.gridDim.x - 1
        if thread == 0:
            if not is_end:
                _leave(own, whole)
            prefix[0] = begin if place == tile else _left(first - 16, dtype)
        x = _left(first + 16 * thread, dtype) if thread < place else absent
        x = block(x, dtype)
        x = join(prefix[0], x)
        if thread == 0 and is_end:
            _leave(own, join(x, whole))
        cuda.syncthreads()
        return x

    return before


@cuda.jit(device=True)
def _of_last_tile(records, dtype):  # type: ignore[no-untyped-def]
    """What the last tile has left, for a block that knows it has."""
    last = records + 16 * (cuda.gridDim.x - 1)
    return load(last + _SUM, 0, dtype)  # type: ignore[call-arg]


before_add = _before_threads(JOINS["add"])
before_mul = _before_threads(JOINS["mul"])
before_min = _before_threads(JOINS["min"])
before_max = _before_threads(JOINS["max"])
before_and = _before_threads(JOINS["and"])
before_or = _before_threads(JOINS["or"])
before_lanes_add = _before_lanes(JOINS["add"])
before_lanes_mul = _before_lanes(JOINS["mul"])
before_lanes_min = _before_lanes(JOINS["min"])
before_lanes_max = _before_lanes(JOINS["max"])
before_lanes_and = _before_lanes(JOINS["and"])
before_lanes_or = _before_lanes(JOINS["or"])
before_warps_add = _before_warps(JOINS["add"])
before_warps_mul = _before_warps(JOINS["mul"])
before_warps_min = _before_warps(JOINS["min"])
before_warps_max = _before_warps(JOINS["max"])
before_warps_and = _before_warps(JOINS["and"])
before_warps_or = _before_warps(JOINS["or"])
before_tiles_add = _before_tiles(JOINS["add"], primitives.block_add)
before_tiles_mul = _before_tiles(JOINS["mul"], primitives.block_mul)
before_tiles_min = _before_tiles(JOINS["min"], primitives.block_min)
before_tiles_max = _before_tiles(JOINS["max"], primitives.block_max)
before_tiles_and = _before_tiles(JOINS["and"], primitives.block_and)
before_tiles_or = _before_tiles(JOINS["or"], primitives.block_or)
of_last_tile_add = _of_last_tile
of_last_tile_mul = _of_last_tile
of_last_tile_min = _of_last_tile
of_last_tile_max = _of_last_tile
of_last_tile_and = _of_last_tile
of_last_tile_or = _of_last_tile
