"""Runs printed kernels without a GPU, on the memory of a `FakeDriver`.

A kernel's source is the same as on a GPU; ``cuda`` and the primitives are those of this module.
The threads of a block are greenlets, which run until they wait for each other: from the first to
the last, and after each barrier the other way round, so that a barrier that is missing shows as a
wrong result.  A barrier that not all threads reach is an error.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import contextvars
import ctypes
import functools
import itertools
import math
import operator
import re
from dataclasses import dataclass, field
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from fake_cuda import FakeDriver, Launch
from greenlet import greenlet
from scipy import special

from jitcore.codegen.cuda import matmul

WARP = 32

_driver: list[FakeDriver] = []


# Threads and blocks ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Dim3:
    x: int
    y: int = 0
    z: int = 0


@dataclass(slots=True)
class _Block:
    """What the threads of a block have in common."""

    threads: int
    arrays: dict[int, np.ndarray[Any, Any]] = field(default_factory=dict)
    given: dict[int, list[Any]] = field(default_factory=dict)
    joined: dict[Any, Any] = field(default_factory=dict)


class _Thread(greenlet):  # type: ignore[misc]
    """A thread; ``switch`` runs it on, and gives what it waits for."""

    def __init__(self, place: int, kernel: Any) -> None:
        super().__init__(kernel)
        self.place = _Dim3(place)
        self.arrays = itertools.count()
        self.exchanges = itertools.count()
        # NumPy's error state is a variable of the context.
        self.gr_context = contextvars.copy_context()


class _Shared:
    """Shared memory."""

    @staticmethod
    def array(shape, dtype):
        """The array that a thread asks for in its turn: the same one for all of the block."""
        number = next(cuda.thread.arrays)
        found = cuda.block.arrays.get(number)
        if found is None:
            found = cuda.block.arrays[number] = np.empty(shape, _dtype(dtype))
            # Nobody may count on what the memory was.
            found.view(np.uint8).fill(0xA5)
        return found


class _Cuda:
    """What ``numba.cuda`` is to a kernel."""

    thread: _Thread
    block: _Block
    threadIdx: _Dim3
    blockIdx: _Dim3
    blockDim: _Dim3
    gridDim: _Dim3
    shared = _Shared

    @staticmethod
    def jit(function=None, **_):
        return function if function is not None else lambda later: later

    def grid(self, dimensions):
        assert dimensions == 1
        return self.blockIdx.x * self.blockDim.x + self.threadIdx.x

    def gridsize(self, dimensions):
        assert dimensions == 1
        return self.gridDim.x * self.blockDim.x

    def syncthreads(self):
        self.thread.parent.switch("block")

    def run(self, kernel, grid, block, values):
        """Run a kernel for each block in turn."""
        assert grid[1:] == block[1:] == (1, 1)
        self.gridDim, self.blockDim = _Dim3(grid[0]), _Dim3(block[0])
        for place in range(grid[0]):
            self.blockIdx = _Dim3(place)
            self.block = _Block(block[0])
            self._run_block([_Thread(one, kernel) for one in range(block[0])], values)

    def _run_block(self, threads, values):
        waits = dict.fromkeys(threads, "")
        ready = threads
        while ready:
            for thread in ready:
                self.thread, self.threadIdx = thread, thread.place
                waits[thread] = thread.switch(*values) if waits[thread] == "" else thread.switch()
                if thread.dead:
                    waits[thread] = "ended"
            threads = threads[::-1]
            ready = [one for one in threads if waits[one] == "block"]
            if len(ready) != len(threads):
                ready = self._whole_warps(threads, waits)
        if any(one != "ended" for one in waits.values()):
            raise AssertionError("not all threads of the block reach a barrier")

    def _whole_warps(self, threads, waits):
        """The threads of warps that wait for nobody but each other."""
        warps: dict[int, list[_Thread]] = {}
        for one in threads:
            warps.setdefault(one.place.x // WARP, []).append(one)
        whole = [warp for warp in warps.values() if all(waits[one] == "warp" for one in warp)]
        return [one for warp in whole for one in warp]


cuda = _Cuda()


# Memory ----------------------------------------------------------------------------------


class _Type:
    """A type of Numba, which in compiled code makes a number of any size one of its own."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._dtype = _dtype(name)

    def __str__(self) -> str:
        return self._name

    def __call__(self, value):
        if isinstance(value, int) and self._dtype.kind in "iu":
            value = np.uint64(value & (1 << 64) - 1)
        return np.asarray(value).astype(self._dtype)[()]


def _dtype(type_: Any) -> np.dtype[Any]:
    name = str(type_)
    return np.dtype("bool" if name == "boolean" else name)


TYPES = {
    name: _Type(name)
    for name in (
        *("boolean", "float32", "float64"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
}


def _place(address: Any, index: Any, dtype: np.dtype[Any], count: int = 1) -> Any:
    """The elements at an address of the device, as an array that can be written to."""
    size = dtype.itemsize * count
    start = _driver[-1].host_address(int(address) + int(index) * dtype.itemsize, size)
    raw: Any = (ctypes.c_char * size).from_address(start)
    return np.frombuffer(raw, dtype)


def grid_step():
    return cuda.gridsize(1)


def load(address, index, dtype):
    return _place(address, index, _dtype(dtype))[0]


def store(address, index, value):
    value = np.asarray(value)
    dtype = value.dtype if value.dtype != object else np.dtype(np.int64)
    _place(address, index, dtype)[0] = value


def load_vector(address, index, dtype, width):
    found = _dtype(dtype)
    start = int(address) + int(index) * found.itemsize
    assert start % (found.itemsize * width) == 0, "a vector that is not aligned"
    return tuple(_place(address, index, found, width))


def store_vector(address, index, values):
    dtype = np.asarray(values[0]).dtype
    start = int(address) + int(index) * dtype.itemsize
    assert start % (dtype.itemsize * len(values)) == 0, "a vector that is not aligned"
    _place(address, index, dtype, len(values))[:] = values


def load_half(address, index):
    return np.float32(load(address, index, "float16"))


def store_half(address, index, value):
    store(address, index, half_of(value))


def load_halves(address, index, width):
    return tuple(map(np.float32, load_vector(address, index, "float16", width)))


def store_halves(address, index, values):
    store_vector(address, index, tuple(map(half_of, values)))


def half_of(x):
    """A value that float16 represents, as such."""
    assert isinstance(x, np.float32), "a float16 is a float32 in a kernel"
    made = np.float16(x)
    assert made == x or x != x, f"{x} was not rounded to float16"
    return made


def half(x):
    """Rounded to float16, which is a float32 here as on a GPU."""
    return np.float32(np.float16(x))


def bfloat(x):
    """Rounded to bfloat16, which is a float32, too."""
    return np.float32(np.float32(x).astype("bfloat16"))


def bfloat_of(x):
    """A value that bfloat16 represents, as such."""
    assert isinstance(x, np.float32), "a bfloat16 is a float32 in a kernel"
    made = x.astype("bfloat16")
    assert made == x or x != x, f"{x} was not rounded to bfloat16"
    return made


def bfloat_bits(x):
    return bfloat_of(x).view(np.uint16)


def bfloat_from_bits(x):
    return np.float32(np.uint16(x).view("bfloat16"))


def load_bfloat(address, index):
    return np.float32(load(address, index, "bfloat16"))


def store_bfloat(address, index, value):
    store(address, index, bfloat_of(value))


def load_bfloats(address, index, width):
    return tuple(map(np.float32, load_vector(address, index, "bfloat16", width)))


def store_bfloats(address, index, values):
    store_vector(address, index, tuple(map(bfloat_of, values)))


def half_bits(x):
    return half_of(x).view(np.uint16)


def half_from_bits(x):
    return np.float32(np.uint16(x).view(np.float16))


def select(condition, x, y):
    return x if condition else y


def bits(x, dtype):
    return np.asarray(x).view(_dtype(dtype))[()]


def truncate(x, dtype):
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(_dtype(dtype))[()]


def fma(x, y, z):
    """Rounded once for float32; for float64 twice, which the tests have to bear."""
    if np.asarray(x).dtype == np.float32:
        return np.float32(np.float64(x) * np.float64(y) + np.float64(z))
    return x * y + z


def minimum(x, y):
    return x if x != x else (x if x < y else y)


def maximum(x, y):
    return x if x != x else (x if x > y else y)


def minimum_half(x, y):
    return x if x != x else (x if x <= y else y)


def maximum_half(x, y):
    return x if x != x else (x if x >= y else y)


# What threads tell each other -------------------------------------------------------------


def _exchange(x, dtype, derive, scope):
    """What is derived from that which all threads give, once they have given it."""
    block, thread = cuda.block, cuda.thread
    number = next(thread.exchanges)
    given = block.given.setdefault(number, [None] * block.threads)
    given[thread.place.x] = _dtype(dtype).type(x)
    thread.parent.switch(scope)
    key = number if scope == "block" else (number, thread.place.x // WARP)
    if key not in block.joined:
        first = thread.place.x // WARP * WARP
        block.joined[key] = derive(given if scope == "block" else given[first : first + WARP])
    return block.joined[key]


def _joined(join):
    """What the threads of a block hold, joined in their order."""

    def derive(given):
        return functools.reduce(join, given)

    return lambda x, dtype: _exchange(x, dtype, derive, "block")


def _joined_by_columns(join):
    """What the threads with the same place in their warps hold, joined in their order."""

    def derive(given):
        return [functools.reduce(join, given[lane::WARP]) for lane in range(WARP)]

    def whole(x, dtype):
        lane = cuda.threadIdx.x % WARP
        return _exchange(x, dtype, derive, "block")[lane]

    return whole


def _joined_by_warps(join):
    """What the threads of a warp hold, joined in their order."""

    def derive(given):
        return functools.reduce(join, given)

    return lambda x, dtype: _exchange(x, dtype, derive, "warp")


def _before(join):
    """What the threads before a thread hold, joined in order; a wrong value for the first."""

    def derive(given):
        return [given[-1], *itertools.accumulate(given, join)]

    def before(x, dtype):
        place = cuda.threadIdx.x
        return _exchange(x, dtype, derive, "block")[place]

    return before


def of_last_thread(x, dtype):
    """What the last thread of the block holds."""
    return _exchange(x, dtype, lambda given: given[-1], "block")


def add_to(address, index, value):
    place = _place(address, index, value.dtype)
    place += value


def note_least(address, index, value):
    place = _place(address, index, np.dtype(np.int64))
    place[0] = min(place[0], value)


def is_last_block(counter):
    """Whether all other blocks have come here before; the count is 0 again after the last."""

    def derive(_):
        place = _place(counter, 0, np.dtype(np.uint32))
        assert place[0] < cuda.gridDim.x, "a counter that was not 0"
        is_last = bool(place[0] == cuda.gridDim.x - 1)
        place[0] = 0 if is_last else place[0] + 1
        return is_last

    return _exchange(0, "int32", derive, "block")


block_add = _joined(operator.add)
block_mul = _joined(operator.mul)
block_min = _joined(minimum)
block_max = _joined(maximum)
block_and = _joined(operator.and_)
block_or = _joined(operator.or_)

column_add = _joined_by_columns(operator.add)
column_mul = _joined_by_columns(operator.mul)
column_min = _joined_by_columns(minimum)
column_max = _joined_by_columns(maximum)
column_and = _joined_by_columns(operator.and_)
column_or = _joined_by_columns(operator.or_)
warp_add = _joined_by_warps(operator.add)
warp_mul = _joined_by_warps(operator.mul)
warp_min = _joined_by_warps(minimum)
warp_max = _joined_by_warps(maximum)
warp_and = _joined_by_warps(operator.and_)
warp_or = _joined_by_warps(operator.or_)
before_add = _before(operator.add)
before_mul = _before(operator.mul)
before_min = _before(minimum)
before_max = _before(maximum)
before_and = _before(operator.and_)
before_or = _before(operator.or_)
accumulate_add, accumulate_mul, accumulate_sub = operator.add, operator.mul, operator.sub
accumulate_min, accumulate_max = minimum, maximum
least, greatest = minimum, maximum
block_least, block_greatest = block_min, block_max
column_least, column_greatest = column_min, column_max
warp_least, warp_greatest = warp_min, warp_max
accumulate_minnum, accumulate_maxnum = np.fmin, np.fmax
fabs, sqrt, floor, ceil, trunc, rint = np.fabs, np.sqrt, np.floor, np.ceil, np.trunc, np.rint
copysign, negative, invert, fmod = np.copysign, np.negative, np.invert, np.fmod
shift_left, shift_right = np.left_shift, np.right_shift


def quotient(x, y):
    return (
        type(x)(math.trunc(int(x) / int(y))) if abs(int(x)) < 2**53 else type(x)(int(x) // int(y))
    )


def remainder(x, y):
    return np.fmod(x, y)


def _overflows(operation):
    """Whether what an operation on integers gives does not fit their dtype."""

    def overflows(x, y):
        limits = np.iinfo(np.asarray(x).dtype)
        return not limits.min <= operation(int(x), int(y)) <= limits.max

    return overflows


add_overflows = _overflows(operator.add)
sub_overflows = _overflows(operator.sub)
mul_overflows = _overflows(operator.mul)


def clz(x):
    width = 8 * x.dtype.itemsize
    return type(x)(width - (int(x) & (1 << width) - 1).bit_length())


def ctz(x):
    width = 8 * x.dtype.itemsize
    low = int(x) & -int(x)
    return type(x)(low.bit_length() - 1 if low else width)


def popcount(x):
    return type(x)(int(x & np.array(-1).astype(x.dtype)).bit_count())


_LIBDEVICE = {
    **{name: getattr(np, f"arc{name[1:]}") for name in ("acos", "asin", "atan")},
    **{name: getattr(np, name) for name in ("cbrt", "cosh", "exp", "exp2", "log", "log10", "log2")},
    **{"erf": special.erf, "sinh": np.sinh, "tanh": np.tanh},
}
libdevice = SimpleNamespace(
    **{
        f"{name}f": lambda x, one=one: np.float32(one(np.float64(x)))
        for name, one in _LIBDEVICE.items()
    }
)
"""NVIDIA's library; this one is correctly rounded."""


def _simulated(function: Any, fetch: Any) -> Any:
    """A product of matrices of the library, with the primitives of this module."""
    code = function.py_func.__code__
    return FunctionType(code, {**vars(matmul), **globals()}, closure=(CellType(fetch),))


sums_of_floats = _simulated(matmul.sums_of_floats, load)
sums_of_bfloats = _simulated(matmul.sums_of_bfloats, lambda x, n, _: load_bfloat(x, n))
sums_of_halves = _simulated(matmul.sums_of_halves, lambda x, n, _: load_half(x, n))


def add_kernel(driver: FakeDriver, name: str, source: str, parameters: tuple[str, ...]) -> None:
    """Make printed source a kernel of a fake driver."""
    body = re.sub(r"^from numba(\.cuda)? import .*$", "", source, flags=re.MULTILINE)
    for module in ("primitives", "cuda.primitives", "cuda.matmul"):
        body = body.replace(f"from jitcore.codegen.{module} import", f"from {__name__} import")
    namespace: dict[str, Any] = {"cuda": cuda, "__name__": "simulated", **TYPES}
    namespace["libdevice"] = libdevice
    exec(compile(body, f"<kernel {name}>", "exec"), namespace)
    kernel = namespace[name]

    def run(launch: Launch, *values: Any) -> None:
        _driver.append(driver)
        try:
            with np.errstate(all="ignore"):
                cuda.run(kernel, launch.grid, launch.block, values)
        finally:
            _driver.pop()

    driver.register(name, parameters, run)
