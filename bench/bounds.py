"""What the machine can do: memory bandwidth and arithmetic, measured with the same threads.

The bandwidth is that of STREAM's triad or scale (McCalpin, "Memory Bandwidth and Machine Balance",
1995) on as many bytes as a row of the benchmark moves, so that what fits a cache is held to the
cache.  A line that is written is read before, so that writing takes longer: rows that write as much
as they read are held to scale, which does so too, and those that write next to nothing to reading.
"""

# mypy: allow-untyped-defs, allow-untyped-calls, disable-error-code="untyped-decorator"
from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, prange

__all__ = ["arithmetic_rate", "bandwidth"]

SECONDS = 0.02
"""How long one sample takes."""

SAMPLES = 5


def triad(a, b, c, repeats):
    for repeat in range(repeats):
        scale = 0.5 + repeat
        for i in prange(a.size):
            a[i] = b[i] + scale * c[i]
    return a[0]


def scale(a, b, repeats):
    for repeat in range(repeats):
        factor = 0.5 + repeat
        for i in prange(a.size):
            a[i] = factor * b[i]
    return a[0]


def read(a, b, c, repeats):
    total = 0.0
    for repeat in range(repeats):
        part = 0.0
        for i in prange(a.size):
            part += a[i] + b[i] - c[i]
        total += part * repeat
    return total


def multiply_add(x, out, repeats):
    """Four independent chains of eight multiplications and additions an element: 67 operations."""
    for repeat in range(repeats):
        k = x[repeat % x.size]
        for i in prange(x.size):
            v = x[i]
            a, b, c, d = v, v + k, v - k, v * k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            a, b, c, d = a * v + k, b * v + k, c * v + k, d * v + k
            out[i] = a + b + (c + d)


MULTIPLY_ADD_OPERATIONS = 3 + 8 * 8 + 3


@cache
def _compiled(function, parallel):
    # A sum only becomes vector instructions where its order is free.
    fastmath = {"reassoc", "nsz"} if function is read else False
    return njit(parallel=parallel, fastmath=fastmath)(function)


def _seconds(function, parallel, arguments):
    """The least time of one repetition."""
    kernel = _compiled(function, parallel)
    kernel(*arguments, 1)
    start = time.perf_counter()
    kernel(*arguments, 1)
    repeats = max(1, round(SECONDS / max(time.perf_counter() - start, 1e-9)))
    best = float("inf")
    for _ in range(SAMPLES):
        start = time.perf_counter()
        kernel(*arguments, repeats)
        best = min(best, (time.perf_counter() - start) / repeats)
    return best


WRITTEN = {read: 0.0, triad: 1 / 3, scale: 1 / 2}
"""The part of its bytes that each of them writes."""


@cache
def _rate(function: Callable[..., Any], work_bytes: int, threads: int) -> float:
    count = 2 if function is scale else 3
    arrays = tuple(np.ones(max(work_bytes // (8 * count), 8)) for _ in range(count))
    ways = (False, True) if threads > 1 else (False,)
    moved = sum(array.nbytes for array in arrays)
    return float(max(moved / _seconds(function, parallel, arrays) for parallel in ways))


def bandwidth(work_bytes: int, written: float, threads: int) -> float:
    """Bytes a second that two or three arrays of so many bytes together are moved at.

    Parameters
    ----------
    work_bytes : int
        Bytes of all arrays; rounded to a power of two, so that rows share measurements.
    written : float
        Which part of the bytes is written; the loop that comes closest to it is measured.
    threads : int
        How many threads may be used.
    """
    function = min(WRITTEN, key=lambda one: abs(WRITTEN[one] - written))
    return _rate(function, 1 << max(work_bytes - 1, 255).bit_length(), threads)


@cache
def arithmetic_rate(dtype: str, threads: int) -> float:
    """Additions and multiplications a second, each rounded, of ``float32`` or ``float64``.

    One thread's rate times the threads: starting them for so short a loop would be measured too.
    """
    # 16 KiB an array: both stay in the first cache.
    x = np.full(16384 // np.dtype(dtype).itemsize, 0.5, dtype)
    seconds = _seconds(multiply_add, False, (x, np.empty_like(x)))
    return float(threads * x.size * MULTIPLY_ADD_OPERATIONS / seconds)
