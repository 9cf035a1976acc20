"""Runs printed kernels in Numba's CUDA simulator, on the memory of a `FakeDriver`.

A kernel's source is the same as on a GPU; only the primitives are those of this module, which are
plain functions of NumPy scalars.
"""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
import math
import operator
import re
from types import FunctionType
from typing import Any

import numba.cuda
import numpy as np
from fake_cuda import FakeDriver, Launch
from numba import int64
from numba.cuda import simulator

from jitcore.codegen.cuda import matmul

cuda: Any = numba.cuda
_driver: list[FakeDriver] = []


def _dtype(type_: Any) -> np.dtype[Any]:
    name = str(type_)
    return np.dtype("bool" if name == "boolean" else name)


def _place(address: Any, index: Any, dtype: np.dtype[Any], count: int = 1) -> Any:
    """The elements at an address of the device, as an array that can be written to."""
    size = dtype.itemsize * count
    start = _driver[-1].host_address(int(address) + int(index) * dtype.itemsize, size)
    raw: Any = (ctypes.c_char * size).from_address(start)
    return np.frombuffer(raw, dtype)


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


def _joined(join):
    """What the threads of a block hold, joined in their order."""

    @simulator.jit(device=True)
    def whole(x, dtype):
        # The simulator knows shared arrays by the line that makes them, whatever the dtype.
        parts = cuda.shared.array(1024, int64).view(_dtype(dtype))
        parts[cuda.threadIdx.x] = x
        cuda.syncthreads()
        result = parts[0]
        for other in range(1, cuda.blockDim.x):
            result = join(result, parts[other])
        cuda.syncthreads()
        return result

    return whole


def _joined_by_columns(join):
    """What the threads with the same place in their warps hold, joined in their order."""

    @simulator.jit(device=True)
    def whole(x, dtype):
        parts = cuda.shared.array(1024, int64).view(_dtype(dtype))
        parts[cuda.threadIdx.x] = x
        cuda.syncthreads()
        lane = cuda.threadIdx.x % 32
        result = parts[lane]
        for other in range(lane + 32, cuda.blockDim.x, 32):
            result = join(result, parts[other])
        cuda.syncthreads()
        return result

    return whole


def _joined_by_warps(join):
    """What the threads of a warp hold, joined in their order."""

    @simulator.jit(device=True)
    def whole(x, dtype):
        parts = cuda.shared.array(1024, int64).view(_dtype(dtype))
        parts[cuda.threadIdx.x] = x
        cuda.syncthreads()
        first = cuda.threadIdx.x // 32 * 32
        result = parts[first]
        for other in range(first + 1, first + 32):
            result = join(result, parts[other])
        cuda.syncthreads()
        return result

    return whole


def _scanned(join):
    """What a thread and those before it hold, joined in their order."""

    @simulator.jit(device=True)
    def whole(x, dtype):
        parts = cuda.shared.array(1024, int64).view(_dtype(dtype))
        parts[cuda.threadIdx.x] = x
        cuda.syncthreads()
        result = parts[0]
        for other in range(1, cuda.threadIdx.x + 1):
            result = join(result, parts[other])
        cuda.syncthreads()
        return result

    return whole


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
scan_add = _scanned(operator.add)
scan_mul = _scanned(operator.mul)
scan_min = _scanned(minimum)
scan_max = _scanned(maximum)
accumulate_add, accumulate_mul, accumulate_sub = operator.add, operator.mul, operator.sub
fabs, sqrt, floor, ceil, trunc, rint = np.fabs, np.sqrt, np.floor, np.ceil, np.trunc, np.rint
copysign, negative, invert, fmod = np.copysign, np.negative, np.invert, np.fmod
shift_left, shift_right = np.left_shift, np.right_shift


def quotient(x, y):
    return (
        type(x)(math.trunc(int(x) / int(y))) if abs(int(x)) < 2**53 else type(x)(int(x) // int(y))
    )


def remainder(x, y):
    return np.fmod(x, y)


def popcount(x):
    return type(x)(int(x & np.array(-1).astype(x.dtype)).bit_count())


def _simulated(function: Any) -> Any:
    """A device function of the library, with the primitives of this module."""
    code = function.py_func.__code__
    return simulator.jit(device=True)(FunctionType(code, {**vars(matmul), **globals()}))


put_row = _simulated(matmul.put_row)
matmul_tile = _simulated(matmul.matmul_tile)


def _without_cuda(line: re.Match[str]) -> str:
    names = [name for name in line[1].split(", ") if name != "cuda"]
    return f"from numba import {', '.join(names)}" if names else ""


def add_kernel(driver: FakeDriver, name: str, source: str, parameters: tuple[str, ...]) -> None:
    """Make printed source a kernel of a fake driver."""
    body = re.sub(r"^from numba import (.*)$", _without_cuda, source, flags=re.MULTILINE)
    for module in ("primitives", "cuda.primitives", "cuda.matmul"):
        body = body.replace(f"from jitcore.codegen.{module} import", f"from {__name__} import")
    namespace: dict[str, Any] = {"cuda": simulator, "__name__": "simulated"}
    exec(compile(body, f"<kernel {name}>", "exec"), namespace)
    kernel = namespace[name]
    # The simulator puts its own form in the place of this module while a kernel runs.
    namespace["cuda"] = cuda

    def run(launch: Launch, *values: Any) -> None:
        _driver.append(driver)
        try:
            with np.errstate(all="ignore"):
                kernel[launch.grid, launch.block](*values)
        finally:
            _driver.pop()

    driver.register(name, parameters, run)
