"""Matrix products of cuBLAS, NVIDIA's library, as a function that native code calls.

============================================ ======================================================
``jc_cuda_gemm_<dtype>(...)``                takes what `products.MATMUL` lists, and gives `DONE`,
                                             `NOT_TAKEN` or `FAILED`
============================================ ======================================================

cuBLAS takes matrices one of whose strides is 1, and whose other one is no less than the extent of
the axis whose stride is 1.  All others are not taken: our own kernel computes these.  float32 is
multiplied as float32, never as TF32, which is cuBLAS's default; sums of float16 are kept in float32
to their end, which is not its default.

The library is loaded at the first product that is compiled.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from jitcore.codegen.cuda import calls, driver
from jitcore.codegen.cuda.vendor import (
    DONE,
    DTYPES,
    LARGEST,
    NOT_TAKEN,
    PRODUCT_PARAMETERS,
    REFUSED,
    Library,
    MatrixBatch,
    Vendor,
    add_function,
    batches_of,
    read_as,
)

__all__ = ["Cublas", "available", "gemm_symbol", "use"]

_EXACT_SUMS = 16  # cublasMath_t: no sums in the dtype of the result
_ANY_ALGORITHM = -1  # cublasGemmAlgo_t

_PTR, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class Cublas(Library):
    """The library."""

    def _create(self, handle: Any) -> int:
        status: int = self._library.cublasCreate_v2(ctypes.byref(handle))
        return status or self._library.cublasSetMathMode(handle, _EXACT_SUMS)

    def multiply(
        self, dtype: str, x: MatrixBatch, y: MatrixBatch, z: MatrixBatch, batches: int
    ) -> int:
        """``z = x @ y`` on the running call's stream and the thread's current device."""
        if not z.row_distance:
            x, y, z = y.transposed, x.transposed, z.transposed
        left, right = read_as(x), read_as(y)
        distances = left[1], right[1], z.row_distance
        extents = z.columns, z.rows, x.columns
        if not all(0 < one <= LARGEST for one in (*distances, *extents, batches)):
            return NOT_TAKEN
        kind = DTYPES[dtype]
        one, zero = kind.factor(1), kind.factor(0)
        handle = self._handle(driver.current().device())
        stream = calls.running_call().stream
        self._check(self._library.cublasSetStream_v2(handle, _PTR(stream)), dtype)
        # cuBLAS counts by columns: matrices by rows are their transposes to it.
        status = self._library.cublasGemmStridedBatchedEx(
            handle,
            _I32(right[0]),
            _I32(left[0]),
            *map(_I32, extents),
            ctypes.byref(one),
            *_given(kind.number, y, right[1]),
            *_given(kind.number, x, left[1]),
            ctypes.byref(zero),
            *_given(kind.result, z, z.row_distance),
            *map(_I32, (batches, kind.computed_in, _ANY_ALGORITHM)),
        )
        if status in REFUSED:
            return NOT_TAKEN
        self._check(status, dtype)
        return DONE

    def _check(self, status: int, dtype: str) -> None:
        if status:
            raise driver.DriverError(
                f"{self.name} failed with status {status} in a product of {dtype} matrices"
            )


def _given(dtype: int, matrices: MatrixBatch, distance: int) -> tuple[Any, ...]:
    """A batch of matrices as cuBLAS's arguments."""
    return _PTR(matrices.address), _I32(dtype), _I32(distance), _I64(matrices.batch)


def gemm_symbol(dtype: str) -> str:
    """The native function for a dtype."""
    return f"jc_cuda_gemm_{dtype}"


_VENDOR = Vendor("cublas", "cuBLAS", Cublas)
use, available = _VENDOR.use, _VENDOR.available


def _function(dtype: str) -> Callable[..., int]:
    def multiply(library: Cublas, values: list[int]) -> int:
        return library.multiply(dtype, *batches_of(dtype, values), values[18])

    return _VENDOR.function(multiply)


for _dtype in DTYPES:
    add_function(gemm_symbol(_dtype), PRODUCT_PARAMETERS, _function(_dtype))
