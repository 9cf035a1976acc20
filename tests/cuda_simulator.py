"""Runs printed kernels without a GPU, on the memory of a `FakeDriver`.

A kernel's source is the same as on a GPU; ``cuda`` and the primitives are those of this module.
The threads of a block are greenlets.  One warp after the other runs until it waits for the rest of
the block: from the first to the last, and after each barrier the other way round, so that a barrier
that is missing shows as a wrong result.  A barrier that not all threads reach is an error.  Blocks
run one after the other, or by turns.

Primitives that are device functions run as they are; what is simulated is single instructions.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import contextvars
import ctypes
import itertools
import math
import operator
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CellType, FunctionType, SimpleNamespace
from typing import Any

import numpy as np
from fake_cuda import FakeDriver, Launch
from greenlet import greenlet
from scipy import special

from jitcore.codegen.cuda import matmul, scan_primitives
from jitcore.codegen.cuda import primitives as device_primitives

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
    arrays: dict[Any, np.ndarray[Any, Any]] = field(default_factory=dict)
    given: dict[tuple[int, int], dict[int, Any]] = field(default_factory=dict)


class _Thread(greenlet):  # type: ignore[misc]
    """A thread; ``switch`` runs it on, and gives what it waits for."""

    def __init__(self, place: int, kernel: Any) -> None:
        super().__init__(kernel)
        self.place = _Dim3(place)
        self.exchanges = itertools.count()
        self.visits: Counter[Any] = Counter()
        # NumPy's error state is a variable of the context.
        self.gr_context = contextvars.copy_context()


class _Watched(np.ndarray[Any, Any]):
    """An array in shared memory that notes which elements a warp uses together."""

    def __getitem__(self, place):
        self._note(place)
        return super().__getitem__(place)

    def __setitem__(self, place, value):
        self._note(place)
        super().__setitem__(place, value)

    def _note(self, place):
        caller, thread = sys._getframe(2), cuda.thread
        where = id(caller.f_code), caller.f_lasti
        thread.visits[where] += 1
        # Eight bytes are two turns of half a warp.
        size = max(4, self.itemsize)
        turn = thread.place.x * size // (4 * WARP), where, thread.visits[where], id(cuda.block)
        bytes_ = np.ravel_multi_index(np.atleast_1d(place), self.shape) * self.itemsize
        _accesses[-1].setdefault((size, *turn), set()).add(int(bytes_) // size)


_accesses: list[dict[Any, set[int]]] = []
_turns: list[random.Random] = []
_PATIENCE = 10_000


@contextmanager
def blocks_by_turns(seed: int) -> Iterator[None]:
    """All blocks begin in any order, and change places wherever their threads have met."""
    _turns.append(random.Random(seed))
    try:
        yield
    finally:
        _turns.pop()


@contextmanager
def bank_conflicts() -> Iterator[list[int]]:
    """Gives, in the end, how many turns each access of a warp to shared memory takes.

    32 banks have 4 bytes each that can be had at once; other bytes of a bank have to wait (CUDA C++
    Programming Guide, "Shared memory" in the chapter on compute capabilities).
    """
    found: list[int] = []
    _accesses.append({})
    try:
        yield found
    finally:
        for (size, *_), units in _accesses.pop().items():
            found.append(max(Counter(one % (4 * WARP // size) for one in units).values()))


class _Shared:
    """Shared memory."""

    @staticmethod
    def array(shape, dtype):
        """The array of a place in the source: the same one for all of the block, each time."""
        caller = sys._getframe(1)
        place = id(caller.f_code), caller.f_lasti, str(dtype)
        found = cuda.block.arrays.get(place)
        if found is None:
            found = cuda.block.arrays[place] = np.empty(shape, _dtype(dtype)).view(
                _Watched if _accesses else np.ndarray
            )
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

    def shfl_xor_sync(self, mask, value, distance):
        return self._of_lane(mask, value, self.threadIdx.x % WARP ^ distance)

    def shfl_up_sync(self, mask, value, distance):
        lane = self.threadIdx.x % WARP
        return self._of_lane(mask, value, lane - distance if lane >= distance else lane)

    def shfl_sync(self, mask, value, lane):
        return self._of_lane(mask, value, lane)

    def nanosleep(self, _):
        """Let other blocks run, for one of which a thread waits."""
        self.thread.visits["pauses"] += 1
        assert self.thread.visits["pauses"] < _PATIENCE, "a thread waits for what nobody does"
        self.thread.parent.switch("others")

    def _of_lane(self, mask, value, lane):
        """What another thread of the warp gives in its turn."""
        assert mask == 0xFFFFFFFF, "a shuffle without all of a warp"
        thread = self.thread
        place = thread.place.x
        given = self.block.given.setdefault((place // WARP, next(thread.exchanges)), {})
        given[place % WARP] = value
        thread.parent.switch("warp")
        return given[lane]

    def run(self, kernel, grid, block, values):
        """Run a kernel for each block in turn, or for all of them by turns (`blocks_by_turns`)."""
        assert grid[1:] == block[1:] == (1, 1)
        self.gridDim, self.blockDim = _Dim3(grid[0]), _Dim3(block[0])
        left = [self._run_block(_Dim3(one), block[0], kernel, values) for one in range(grid[0])]
        while left:
            place = _turns[-1].randrange(len(left)) if _turns else 0
            if not next(left[place], False):
                del left[place]

    def _run_block(self, place, count, kernel, values):
        """Run a block, which gives True whenever others may run."""
        threads = [_Thread(one, kernel) for one in range(count)]
        block = _Block(count)
        for thread in threads:
            thread.values, thread.waits = values, "begin"
        warps = [threads[first : first + WARP] for first in range(0, count, WARP)]
        while any(not one.dead for one in threads):
            for number, warp in enumerate(warps):
                warps[number] = yield from self._run_warp(place, block, warp)
            warps.reverse()
            if len({one.waits for one in threads}) > 1:
                raise AssertionError("not all threads of the block reach a barrier")
            if _turns:
                yield True

    def _run_warp(self, place, block, warp):
        """Run its threads until they wait for the block; gives them in their next order."""
        while True:
            self.blockIdx, self.block = place, block
            # Those that do not wait for other blocks have gone on as far as they can.
            for thread in [one for one in warp if one.waits == "others"] or warp:
                self.thread, self.threadIdx = thread, thread.place
                given, thread.values = thread.values, ()
                thread.waits = thread.switch(*given)
                if thread.dead:
                    thread.waits = "the end"
            if any(one.waits == "others" for one in warp):
                yield True
                continue
            warp = warp[::-1]
            if any(one.waits != "warp" for one in warp):
                return warp


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


def block_step():
    return cuda.blockDim.x


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


def add_to(address, index, value):
    place = _place(address, index, value.dtype)
    place += value


def note_least(address, index, value):
    place = _place(address, index, np.dtype(np.int64))
    place[0] = min(place[0], value)


def _count_block(counter):
    """How many blocks have counted before; the count is 0 again after the last."""
    place = _place(counter, 0, np.dtype(np.uint32))
    before = int(place[0])
    assert before < cuda.gridDim.x, "a counter that was not 0"
    place[0] = 0 if before == cuda.gridDim.x - 1 else before + 1
    return before


def _count_up(counter):
    place = _place(counter, 0, np.dtype(np.uint32))
    place += 1
    return place[0] - 1


def _publish(address):
    store(address, 0, np.uint32(1))


def _is_published(address):
    return bool(load(address, 0, "uint32"))


accumulate_add, accumulate_mul, accumulate_sub = operator.add, operator.mul, operator.sub
accumulate_min, accumulate_max = minimum, maximum
least, greatest = minimum, maximum
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


def simulated(function: Any) -> Any:
    """A device function as it is, but for the instructions, which are those of this module."""
    if not hasattr(function, "py_func"):
        return function
    own = function.py_func
    missing = set(own.__code__.co_names) & own.__globals__.keys() - globals().keys()
    known = {name: simulated(own.__globals__[name]) for name in missing}
    cells = tuple(CellType(simulated(one.cell_contents)) for one in own.__closure__ or ())
    # Code of its own: functions that only differ in what they close over share no arrays.
    return FunctionType(own.__code__.replace(), {**known, **globals()}, closure=cells)


for _module in (matmul, device_primitives, scan_primitives):
    _found = {name: getattr(_module, name) for name in _module.__all__}
    globals().update(
        {name: simulated(one) for name, one in _found.items() if hasattr(one, "py_func")}
    )


def add_kernel(driver: FakeDriver, name: str, source: str, parameters: tuple[str, ...]) -> None:
    """Make printed source a kernel of a fake driver."""
    body = re.sub(r"^from numba(\.cuda)? import .*$", "", source, flags=re.MULTILINE)
    for module in ("primitives", "cuda.primitives", "cuda.scan_primitives", "cuda.matmul"):
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
