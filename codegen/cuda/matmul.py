"""A matrix product as a device function: tiles in shared memory, 4 by 4 elements for each thread.

Every block computes 64 by 64 elements of one product.  In turns of 16 it brings parts of the rows
and columns that it needs to shared memory, and each thread multiplies what its 16 elements need;
the way of computing is that of V. Volkov and J. W. Demmel, "Benchmarking GPUs to tune dense linear
algebra", SC 2008.
"""

from __future__ import annotations

from typing import Any

import numba.cuda

from jitcore.codegen import primitives
from jitcore.codegen.cuda.products import THREADS, TILE

__all__ = ["sums_of_bfloats", "sums_of_floats", "sums_of_halves"]

STEP = 16
"""Terms that are in shared memory at a time."""

cuda: Any = numba.cuda
fma: Any = primitives.fma
load: Any = primitives.load
load_bfloat: Any = primitives.load_bfloat
load_half: Any = primitives.load_half


def _sums(fetch: Any) -> Any:
    """A device function that computes what one thread has of a product.

    ``fetch`` reads an element.
    """

    @cuda.jit(device=True)
    def sums(  # type: ignore[no-untyped-def]
        x, x_first, x_row, x_column,
        y, y_first, y_row, y_column,
        first_row, first_column, rows, columns, terms, dtype,
    ):  # fmt: skip
        """16 sums, by rows; the arguments are those of ``products.SUMS``, and the sums' dtype."""
        left = cuda.shared.array((STEP, TILE), dtype)
        right = cuda.shared.array((STEP, TILE), dtype)
        thread = cuda.threadIdx.x
        own_row = (thread // 16) * 4
        own_column = (thread % 16) * 4
        c00 = c01 = c02 = c03 = dtype(0)
        c10 = c11 = c12 = c13 = dtype(0)
        c20 = c21 = c22 = c23 = dtype(0)
        c30 = c31 = c32 = c33 = dtype(0)
        k = 0
        while k < terms:
            place = thread
            while place < STEP * TILE:
                # Neighbouring threads read neighbouring elements, whichever axis those lie along.
                if x_column == 1:
                    term, row = place % STEP, place // STEP
                else:
                    term, row = place // TILE, place % TILE
                if k + term < terms and first_row + row < rows:
                    index = x_first + (first_row + row) * x_row + (k + term) * x_column
                    left[term, row] = fetch(x, index, dtype)
                else:
                    left[term, row] = dtype(0)
                if y_column == 1:
                    term, column = place // TILE, place % TILE
                else:
                    term, column = place % STEP, place // STEP
                if k + term < terms and first_column + column < columns:
                    index = y_first + (k + term) * y_row + (first_column + column) * y_column
                    right[term, column] = fetch(y, index, dtype)
                else:
                    right[term, column] = dtype(0)
                place += THREADS
            cuda.syncthreads()
            for term in range(STEP):
                a0, a1 = left[term, own_row], left[term, own_row + 1]
                a2, a3 = left[term, own_row + 2], left[term, own_row + 3]
                b0, b1 = right[term, own_column], right[term, own_column + 1]
                b2, b3 = right[term, own_column + 2], right[term, own_column + 3]
                c00, c01 = fma(a0, b0, c00), fma(a0, b1, c01)
                c02, c03 = fma(a0, b2, c02), fma(a0, b3, c03)
                c10, c11 = fma(a1, b0, c10), fma(a1, b1, c11)
                c12, c13 = fma(a1, b2, c12), fma(a1, b3, c13)
                c20, c21 = fma(a2, b0, c20), fma(a2, b1, c21)
                c22, c23 = fma(a2, b2, c22), fma(a2, b3, c23)
                c30, c31 = fma(a3, b0, c30), fma(a3, b1, c31)
                c32, c33 = fma(a3, b2, c32), fma(a3, b3, c33)
            cuda.syncthreads()
            k += STEP
        return (
            c00, c01, c02, c03, c10, c11, c12, c13,
            c20, c21, c22, c23, c30, c31, c32, c33,
        )  # fmt: skip

    return sums


@cuda.jit(device=True)
def _fetch(address, index, dtype):  # type: ignore[no-untyped-def]
    return load(address, index, dtype)


@cuda.jit(device=True)
def _fetch_half(address, index, _dtype):  # type: ignore[no-untyped-def]
    return load_half(address, index)


@cuda.jit(device=True)
def _fetch_bfloat(address, index, _dtype):  # type: ignore[no-untyped-def]
    return load_bfloat(address, index)


sums_of_floats = _sums(_fetch)
sums_of_bfloats = _sums(_fetch_bfloat)
sums_of_halves = _sums(_fetch_half)
