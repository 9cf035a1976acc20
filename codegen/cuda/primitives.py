"""What printed kernels import besides ``codegen.primitives``: vectors, and reductions of blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba.cuda
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

__all__ = [
    "JOINS",
    "accumulate_add",
    "accumulate_mul",
    "accumulate_sub",
    "add_to",
    "bfloat",
    "block_add",
    "block_and",
    "block_greatest",
    "block_least",
    "block_max",
    "block_min",
    "block_mul",
    "block_or",
    "block_step",
    "column_add",
    "column_and",
    "column_greatest",
    "column_least",
    "column_max",
    "column_min",
    "column_mul",
    "column_or",
    "fabs",
    "greatest",
    "grid_step",
    "is_last_block",
    "least",
    "load_bfloats",
    "load_halves",
    "load_vector",
    "maximum",
    "maximum_half",
    "minimum",
    "minimum_half",
    "negative",
    "note_least",
    "rint",
    "store_bfloats",
    "store_halves",
    "store_vector",
    "trunc",
    "warp_add",
    "warp_and",
    "warp_greatest",
    "warp_least",
    "warp_max",
    "warp_min",
    "warp_mul",
    "warp_or",
]

cuda: Any = numba.cuda
_BYTE, _SHORT, _WORD = ir.IntType(8), ir.IntType(16), ir.IntType(32)
_PAIR = ir.VectorType(ir.HalfType(), 2)
_ALL_LANES = 0xFFFFFFFF
_word = types.uint32  # of places in shared memory: signed ones may count from the end


# What the compiler behind numba.cuda, NVVM, knows no intrinsic for ------------------------------


def _library(name: str) -> Any:
    """A function of NVIDIA's libdevice, which is correctly rounded or exact."""

    def typer(_context: Any, x: Any) -> Any:
        def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
            symbol = f"__nv_{name}f" if x == types.float32 else f"__nv_{name}"
            function = builder.module.globals.get(symbol)
            if function is None:
                type_ = ir.FunctionType(args[0].type, [args[0].type])
                function = ir.Function(builder.module, type_, symbol)
            return builder.call(function, args)

        return x(x), code

    return intrinsic(typer)


fabs = _library("fabs")
trunc = _library("trunc")
rint = _library("rint")


@intrinsic
def negative(_context: Any, x: Any) -> Any:
    """``-x``."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
        if isinstance(x, types.Float):
            return builder.fsub(args[0].type(-0.0), args[0])
        return builder.neg(args[0])

    return x(x), code


def _joined(method: str) -> Any:
    """A step of a reduction, in the order of the source.

    NVVM fuses a product with a sum that it may reorder, also where nobody has allowed that.
    """

    def typer(_context: Any, x: Any, y: Any) -> Any:
        def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return getattr(builder, method)(*args)

        return x(x, y), code

    return intrinsic(typer)


accumulate_add = _joined("fadd")
accumulate_mul = _joined("fmul")
accumulate_sub = _joined("fsub")


def _step(text: str) -> Any:
    """How far it is to a thread's next iteration, asked for anew each time.

    Where it stays the same, the compiler unrolls loops that go on by it, for which it first divides
    to know how often they run.  That takes longer than to load what most threads have to do.
    """

    def typer(_context: Any) -> Any:
        def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
            type_ = ir.FunctionType(ir.IntType(64), [])
            return builder.asm(type_, text, "=l", args, True)

        return types.int64(), code

    return intrinsic(typer)


block_step = _step("{ .reg .b32 threads; mov.u32 threads, %ntid.x; cvt.u64.u32 $0, threads; }")
grid_step = _step(
    "{ .reg .b32 blocks, threads; mov.u32 blocks, %nctaid.x; mov.u32 threads, %ntid.x; "
    "mul.wide.u32 $0, blocks, threads; }"
)


def _extremum(comparison: str, instruction: str = "") -> Any:
    """NumPy's minimum or maximum: NaN wins.

    Compute capability 8.0 has an instruction for float32 that does the same, but for the choice
    between 0.0 and -0.0.
    """

    def typer(_context: Any, x: Any, y: Any) -> Any:
        def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
            if instruction and x == types.float32:
                type_ = ir.FunctionType(ir.FloatType(), [ir.FloatType()] * 2)
                text = f"{instruction}.NaN.f32 $0, $1, $2;"
                return builder.asm(type_, text, "=f,f,f", args, False)
            if isinstance(x, types.Float):
                better = builder.select(builder.fcmp_ordered(comparison, *args), *args)
                return builder.select(
                    builder.fcmp_unordered("uno", args[0], args[0]), args[0], better
                )
            is_signed = x in types.signed_domain
            compare = builder.icmp_signed if is_signed else builder.icmp_unsigned
            return builder.select(compare(comparison, *args), *args)

        return x(x, x), code

    return intrinsic(typer)


@intrinsic
def bfloat(_context: Any, x: Any) -> Any:
    """Round a float32 to what bfloat16 represents; for compute capability 8.0 and above."""

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
        type_ = ir.FunctionType(_SHORT, [ir.FloatType()])
        upper = builder.asm(type_, "cvt.rn.bf16.f32 $0, $1;", "=h,f", args, False)
        bits = builder.shl(builder.zext(upper, _WORD), _WORD(16))
        return builder.bitcast(bits, ir.FloatType())

    return types.float32(types.float32), code


minimum = _extremum("<")
maximum = _extremum(">")
least = _extremum("<", "min")
greatest = _extremum(">", "max")
minimum_half = _extremum("<=")
maximum_half = _extremum(">=")


# Vectors ----------------------------------------------------------------------------------


def _element_type(type_: Any) -> ir.Type:
    """How an element lies in memory."""
    if type_ == types.boolean:
        return _BYTE
    floats = {types.float32: ir.FloatType(), types.float64: ir.DoubleType()}
    return floats.get(type_) or ir.IntType(type_.bitwidth)


def _vector_pointer(builder: Any, address: Any, index: Any, type_: Any, width: int) -> Any:
    """A pointer to so many elements, and the bytes they take."""
    element = _element_type(type_)
    pointer = builder.inttoptr(address, element.as_pointer())
    place = builder.gep(pointer, [index], inbounds=True, source_etype=element)
    size = 1 if type_ == types.boolean else type_.bitwidth // 8
    vector = ir.VectorType(element, width)
    return builder.bitcast(place, vector.as_pointer()), vector, size * width


@intrinsic(prefer_literal=True)
def load_vector(_context: Any, address: Any, index: Any, dtype: Any, width: Any) -> Any:
    """``width`` elements of type ``dtype``, from ``index`` on, as a tuple.

    Their address has to be a multiple of their size.
    """
    if not isinstance(width, types.IntegerLiteral):
        return None
    count, element = width.literal_value, dtype.dtype
    result: Any = types.UniTuple(element, count)  # type: ignore[no-untyped-call]

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer, vector, size = _vector_pointer(builder, args[0], args[1], element, count)
        loaded = builder.load(pointer, align=size, typ=vector)
        lanes = [builder.extract_element(loaded, ir.IntType(32)(n)) for n in range(count)]
        if element == types.boolean:
            lanes = [builder.icmp_unsigned("!=", lane, _BYTE(0)) for lane in lanes]
        return context.make_tuple(builder, result, lanes)

    return result(types.int64, types.int64, dtype, width), code


@intrinsic
def store_vector(_context: Any, address: Any, index: Any, values: Any) -> Any:
    """Write a tuple of values to the elements from ``index`` on."""
    element, count = values.dtype, values.count

    def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        pointer, vector, size = _vector_pointer(builder, args[0], args[1], element, count)
        whole = vector(ir.Undefined)
        for number in range(count):
            lane = builder.extract_value(args[2], number)
            if element == types.boolean:
                lane = builder.zext(lane, _BYTE)
            whole = builder.insert_element(whole, lane, ir.IntType(32)(number))
        builder.store(whole, pointer, align=size)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, values), code


def _load_pairs(split: Callable[[Any, Any], list[Any]]) -> Any:
    """Like `load_vector`, of numbers of two bytes: an even number of them, as float32.

    ``split`` makes two float32 of a word that was loaded.
    """

    def typer(_context: Any, address: Any, index: Any, width: Any) -> Any:
        if not isinstance(width, types.IntegerLiteral):
            return None
        count = width.literal_value
        result: Any = types.UniTuple(types.float32, count)  # type: ignore[no-untyped-call]

        def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer, vector = _pairs_pointer(builder, args[0], args[1], count)
            loaded = builder.load(pointer, align=2 * count, typ=vector)
            words = (builder.extract_element(loaded, _WORD(n)) for n in range(count // 2))
            lanes = [lane for word in words for lane in split(builder, word)]
            return context.make_tuple(builder, result, lanes)

        return result(types.int64, types.int64, width), code

    return intrinsic(prefer_literal=True)(typer)


def _store_pairs(joined: Callable[[Any, Any, Any], Any]) -> Any:
    """Like `store_vector`, of float32 that two bytes represent: an even number of them.

    ``joined`` makes the word to store of two of them.
    """

    def typer(_context: Any, address: Any, index: Any, values: Any) -> Any:
        count = values.count

        def code(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            pointer, vector = _pairs_pointer(builder, args[0], args[1], count)
            whole = vector(ir.Undefined)
            for number in range(count // 2):
                pair = (builder.extract_value(args[2], 2 * number + lane) for lane in range(2))
                word = joined(builder, *pair)
                whole = builder.insert_element(whole, word, _WORD(number))
            builder.store(whole, pointer, align=2 * count)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, values), code

    return intrinsic(typer)


def _split_halves(builder: Any, word: Any) -> list[Any]:
    pair = builder.bitcast(word, _PAIR)
    halves = (builder.extract_element(pair, _WORD(lane)) for lane in range(2))
    return [builder.fpext(half, ir.FloatType()) for half in halves]


def _joined_halves(builder: Any, low: Any, high: Any) -> Any:
    pair = _PAIR(ir.Undefined)
    for lane, value in enumerate((low, high)):
        half = builder.fptrunc(value, ir.HalfType())
        pair = builder.insert_element(pair, half, _WORD(lane))
    return builder.bitcast(pair, _WORD)


def _split_bfloats(builder: Any, word: Any) -> list[Any]:
    pair = builder.shl(word, _WORD(16)), builder.and_(word, _WORD(0xFFFF0000))
    return [builder.bitcast(one, ir.FloatType()) for one in pair]


def _joined_bfloats(builder: Any, low: Any, high: Any) -> Any:
    low, high = builder.bitcast(low, _WORD), builder.bitcast(high, _WORD)
    return builder.or_(builder.lshr(low, _WORD(16)), high)


def _pairs_pointer(builder: Any, address: Any, index: Any, count: int) -> Any:
    """A pointer to so many numbers of two bytes, as words: vectors of halves are moved singly."""
    pointer = builder.inttoptr(address, ir.HalfType().as_pointer())
    place = builder.gep(pointer, [index], inbounds=True, source_etype=ir.HalfType())
    vector = ir.VectorType(_WORD, count // 2)
    return builder.bitcast(place, vector.as_pointer()), vector


load_halves = _load_pairs(_split_halves)
store_halves = _store_pairs(_joined_halves)
load_bfloats = _load_pairs(_split_bfloats)
store_bfloats = _store_pairs(_joined_bfloats)


# Blocks -----------------------------------------------------------------------------------


@intrinsic
def _count_block(_context: Any, counter: Any) -> Any:
    """How many blocks have counted before this one; the last of them sets the counter to 0.

    What the thread has written is seen by the one that counts after it.
    """

    def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
        text = (
            "{ .reg .b32 last; mov.u32 last, %nctaid.x; sub.u32 last, last, 1; "
            "atom.acq_rel.gpu.inc.u32 $0, [$1], last; }"
        )
        type_ = ir.FunctionType(_WORD, [ir.IntType(64)])
        return builder.asm(type_, text, "=r,l,~{memory}", args, True)

    return types.int32(types.int64), code


def _at_once(operation: str) -> Any:
    """A change of an integer in memory that others may change at the same time."""

    def typed(_context: Any, address: Any, index: Any, value: Any) -> Any:
        bits = value.bitwidth

        def code(_: Any, builder: Any, _signature: Any, args: Any) -> Any:
            address, index, value = args
            place = builder.add(address, builder.mul(index, ir.IntType(64)(bits // 8)))
            type_ = ir.FunctionType(ir.VoidType(), [ir.IntType(64), ir.IntType(bits)])
            text = f"red.relaxed.gpu.global.{operation}{bits} [$0], $1;"
            constraints = f"l,{'l' if bits == 64 else 'r'},~{{memory}}"
            builder.asm(type_, text, constraints, [place, value], True)

        return types.void(types.int64, types.int64, value), code

    return intrinsic(typed)


add_to = _at_once("add.u")
note_least = _at_once("min.s")


@cuda.jit(device=True)
def is_last_block(counter):  # type: ignore[no-untyped-def]
    """Whether all other blocks have come here before this one.

    The method is that of the sample ``threadFenceReduction`` of NVIDIA's CUDA toolkit.
    """
    place = cuda.shared.array(1, types.int32)
    if cuda.threadIdx.x == 0:
        place[0] = _count_block(counter)  # type: ignore[call-arg]
    cuda.syncthreads()
    return place[0] == cuda.gridDim.x - 1


def _block_reduction(join: Any, neutral: float | None) -> Any:
    """A device function that joins what the threads of a block hold, as a tree.

    Each warp joins its own by butterflies, then every warp those of all warps.  ``neutral`` stands
    for warps that are not there; None where the first warp's part may count once more.
    """

    @cuda.jit(device=True)
    def joined(x, dtype):  # type: ignore[no-untyped-def]
        parts = cuda.shared.array(32, dtype)
        lane = cuda.threadIdx.x & 31
        warp = cuda.threadIdx.x >> 5
        distance = 16
        while distance > 0:
            x = join(x, cuda.shfl_xor_sync(_ALL_LANES, x, distance))
            distance >>= 1
        if lane == 0:
            parts[_word(warp)] = x
        cuda.syncthreads()
        if lane < cuda.blockDim.x >> 5:
            x = parts[_word(lane)]
        elif neutral is None:
            x = parts[0]
        else:
            x = dtype(neutral)
        distance = 16
        while distance > 0:
            x = join(x, cuda.shfl_xor_sync(_ALL_LANES, x, distance))
            distance >>= 1
        cuda.syncthreads()
        return x

    return joined


def _warp_reduction(join: Any) -> Any:
    """A device function that joins what the threads of a warp hold, by butterflies."""

    @cuda.jit(device=True)
    def joined(x, _dtype):  # type: ignore[no-untyped-def]
        distance = 16
        while distance > 0:
            x = join(x, cuda.shfl_xor_sync(_ALL_LANES, x, distance))
            distance >>= 1
        return x

    return joined


def _column_reduction(join: Any) -> Any:
    """A device function that joins what threads with the same place in their warps hold.

    The warps of the block write their parts side by side; each thread adds up those of its place.
    """

    @cuda.jit(device=True)
    def joined(x, dtype):  # type: ignore[no-untyped-def]
        parts = cuda.shared.array((32, 32), dtype)
        lane = cuda.threadIdx.x & 31
        parts[_word(cuda.threadIdx.x >> 5), _word(lane)] = x
        cuda.syncthreads()
        x = parts[0, _word(lane)]
        other = 1
        while other < cuda.blockDim.x >> 5:
            x = join(x, parts[_word(other), _word(lane)])
            other += 1
        cuda.syncthreads()
        return x

    return joined


@cuda.jit(device=True)
def _add(x, y):  # type: ignore[no-untyped-def]
    return x + y


@cuda.jit(device=True)
def _mul(x, y):  # type: ignore[no-untyped-def]
    return x * y


@cuda.jit(device=True)
def _and(x, y):  # type: ignore[no-untyped-def]
    return x & y


@cuda.jit(device=True)
def _or(x, y):  # type: ignore[no-untyped-def]
    return x | y


@cuda.jit(device=True)
def _min(x, y):  # type: ignore[no-untyped-def]
    return minimum(x, y)


@cuda.jit(device=True)
def _max(x, y):  # type: ignore[no-untyped-def]
    return maximum(x, y)


@cuda.jit(device=True)
def _least(x, y):  # type: ignore[no-untyped-def]
    return least(x, y)


@cuda.jit(device=True)
def _greatest(x, y):  # type: ignore[no-untyped-def]
    return greatest(x, y)


JOINS = {"add": _add, "mul": _mul, "min": _min, "max": _max, "and": _and, "or": _or}
"""What of the operations on two values is not an instruction of one warp or block."""

block_add = _block_reduction(_add, -0.0)
block_mul = _block_reduction(_mul, 1)
block_min = _block_reduction(_min, None)
block_max = _block_reduction(_max, None)
block_least = _block_reduction(_least, None)
block_greatest = _block_reduction(_greatest, None)
block_and = _block_reduction(_and, None)
block_or = _block_reduction(_or, None)
warp_add = _warp_reduction(_add)
warp_mul = _warp_reduction(_mul)
warp_min = _warp_reduction(_min)
warp_max = _warp_reduction(_max)
warp_least = _warp_reduction(_least)
warp_greatest = _warp_reduction(_greatest)
warp_and = _warp_reduction(_and)
warp_or = _warp_reduction(_or)
column_add = _column_reduction(_add)
column_mul = _column_reduction(_mul)
column_min = _column_reduction(_min)
column_max = _column_reduction(_max)
column_least = _column_reduction(_least)
column_greatest = _column_reduction(_greatest)
column_and = _column_reduction(_and)
column_or = _column_reduction(_or)
