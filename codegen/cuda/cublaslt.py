"""Products with a bias of cuBLASLt, NVIDIA's library, as a function that native code calls.

============================================ ======================================================
``jc_cuda_gemm_bias_<dtype>(...)``           takes what `products.MATMUL` lists, then the pointer to
                                             the bias and where it begins; gives what cuBLAS's do
============================================ ======================================================

A bias is one number for each column.  It is added to the sums in the dtype that they are kept in,
before they are rounded.  The library offers ReLU and GELU as well: they are not used, because it
does not promise that ReLU keeps NaN, and its GELU is an approximation.

How the library goes about a product it chooses once for each form, by its own heuristics.
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
    Kind,
    Library,
    MatrixBatch,
    Vendor,
    add_function,
    batches_of,
    read_as,
)
from jitcore.ir import log
from jitcore.ir.dataclass import dataclass

__all__ = ["BIASED", "CublasLt", "available", "biased_symbol", "use"]

BIASED = ("float16", "float32")
"""The dtypes of products with a bias."""

_WORKSPACE = 32 << 20
"""Bytes that a product may use besides its matrices, as NVIDIA advises for its newest devices."""

_MOST_ALIGNED = 256
"""The library cares for no larger multiples of addresses."""

# cublasLtMatmulDescAttributes_t
_FORM_A, _FORM_B, _EPILOGUE, _BIAS_POINTER = 3, 4, 7, 8
_BIAS = 4  # cublasLtEpilogue_t
# cublasLtMatmulPreferenceAttributes_t
_MOST_WORKSPACE, _FIRST_ALIGNMENT = 1, 5
_BATCHES, _APART = 5, 6  # cublasLtMatrixLayoutAttribute_t

_PTR, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_U32, _U64, _SIZE = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t


class _Choice(ctypes.Structure):
    """``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", _U64 * 8),
        ("workspace", _SIZE),
        ("status", _I32),
        ("waves", ctypes.c_float),
        ("reserved", _I32 * 4),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """How a product of one form is done; the library's objects are kept for good."""

    descriptor: Any
    layouts: tuple[Any, Any, Any]
    choice: _Choice


class CublasLt(Library):
    """The library."""

    def __init__(self, library: Any, name: str) -> None:
        super().__init__(library, name)
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def _create(self, handle: Any) -> int:
        status: int = self._library.cublasLtCreate(ctypes.byref(handle))
        return status

    def multiply(
        self, dtype: str, x: MatrixBatch, y: MatrixBatch, z: MatrixBatch, batches: int, bias: int
    ) -> int:
        """``z = x @ y + bias`` on the running call's stream and the thread's current device."""
        left, right = read_as(x), read_as(y)
        distances = left[1], right[1], z.row_distance
        extents = z.columns, z.rows, x.columns
        if not all(0 < one <= LARGEST for one in (*distances, *extents, batches)):
            return NOT_TAKEN
        device = driver.current().device()
        handle = self._handle(device)
        aligned = (_aligned(y.address), _aligned(x.address), _aligned(z.address))
        apart = y.batch, x.batch, z.batch
        key = (device, dtype, left, right, extents, z.row_distance, batches, apart, aligned)
        if key not in self._plans:
            self._plans[key] = self._planned(handle, *key[1:])
        plan = self._plans[key]
        if plan is None:
            return NOT_TAKEN
        call = calls.running_call()
        size = plan.choice.workspace
        # What comes later on the stream may have the memory, as all temporaries.
        place, _owner = call.allocator.block(size) if size else (0, None)
        one, zero = DTYPES[dtype].factor(1), DTYPES[dtype].factor(0)
        layout_a, layout_b, layout_c = plan.layouts
        self._set("MatmulDesc", plan.descriptor, _BIAS_POINTER, _PTR(bias))
        status = self._library.cublasLtMatmul(
            handle,
            plan.descriptor,
            ctypes.byref(one),
            *(_PTR(y.address), layout_a, _PTR(x.address), layout_b),
            ctypes.byref(zero),
            *(_PTR(z.address), layout_c, _PTR(z.address), layout_c),
            ctypes.byref(plan.choice),
            *(_PTR(place), _SIZE(size), _PTR(call.stream)),
        )
        if status in REFUSED:
            return NOT_TAKEN
        self._check(status)
        return DONE

    def _planned(
        self,
        handle: Any,
        dtype: str,
        left: tuple[int, int],
        right: tuple[int, int],
        extents: tuple[int, int, int],
        distance: int,
        batches: int,
        apart: tuple[int, int, int],
        aligned: tuple[int, int, int],
    ) -> _Plan | None:
        """How the library does products of a form; None where it does not."""
        kind = DTYPES[dtype]
        columns, rows, terms = extents
        descriptor = self._made("MatmulDesc", _I32(kind.computed_in), _I32(kind.scaled_in))
        self._set("MatmulDesc", descriptor, _FORM_A, _I32(right[0]))
        self._set("MatmulDesc", descriptor, _FORM_B, _I32(left[0]))
        self._set("MatmulDesc", descriptor, _EPILOGUE, _U32(_BIAS))
        # The library counts by columns: matrices by rows are their transposes to it.
        shapes = (
            (columns, terms) if right[0] == 0 else (terms, columns),
            (terms, rows) if left[0] == 0 else (rows, terms),
            (columns, rows),
        )
        sides = zip(shapes, (right[1], left[1], distance), apart, strict=True)
        layouts = tuple(self._layout(kind, *side, batches) for side in sides)
        preference = self._made("MatmulPreference")
        self._set("MatmulPreference", preference, _MOST_WORKSPACE, _U64(_WORKSPACE))
        a, b, c = aligned
        for number, multiple in enumerate((a, b, c, c)):
            self._set("MatmulPreference", preference, _FIRST_ALIGNMENT + number, _U32(multiple))
        choice, found = _Choice(), _I32()
        status = self._library.cublasLtMatmulAlgoGetHeuristic(
            handle,
            descriptor,
            *(layouts[0], layouts[1], layouts[2], layouts[2]),
            preference,
            _I32(1),
            ctypes.byref(choice),
            ctypes.byref(found),
        )
        self._library.cublasLtMatmulPreferenceDestroy(preference)
        if status not in REFUSED:
            self._check(status)
        if status or not found.value or choice.status:
            log.debug("cuda", f"{self.name} has no {dtype} product of {rows}x{terms}x{columns}")
            return None
        return _Plan(descriptor, (layouts[0], layouts[1], layouts[2]), choice)

    def _layout(
        self, kind: Kind, shape: tuple[int, int], distance: int, apart: int, batches: int
    ) -> Any:
        extents = (_U64(shape[0]), _U64(shape[1]), _I64(distance))
        made = self._made("MatrixLayout", _I32(kind.number), *extents)
        self._set("MatrixLayout", made, _BATCHES, _I32(batches))
        self._set("MatrixLayout", made, _APART, _I64(apart))
        return made

    def _made(self, what: str, *args: Any) -> Any:
        """A new object of the library."""
        made = _PTR()
        create = getattr(self._library, f"cublasLt{what}Create")
        self._check(create(ctypes.byref(made), *args))
        return made

    def _set(self, what: str, made: Any, attribute: int, value: Any) -> None:
        function = getattr(self._library, f"cublasLt{what}SetAttribute")
        size = _SIZE(ctypes.sizeof(value))
        self._check(function(made, _I32(attribute), ctypes.byref(value), size))

    def _check(self, status: int) -> None:
        if status:
            raise driver.DriverError(f"{self.name} failed with status {status} in a product")


def _aligned(address: int) -> int:
    """What an address is known to be a multiple of."""
    return min(address & -address, _MOST_ALIGNED)


def biased_symbol(dtype: str) -> str:
    """The native function for a dtype."""
    return f"jc_cuda_gemm_bias_{dtype}"


_VENDOR = Vendor("cublasLt", "cuBLASLt", CublasLt)
use, available = _VENDOR.use, _VENDOR.available


def _function(dtype: str) -> Callable[..., int]:
    def multiply(library: CublasLt, values: list[int]) -> int:
        bias = values[19] + values[20] * DTYPES[dtype].itemsize
        return library.multiply(dtype, *batches_of(dtype, values), values[18], bias)

    return _VENDOR.function(multiply)


for _dtype in BIASED:
    add_function(biased_symbol(_dtype), (*PRODUCT_PARAMETERS, "ptr", "i64"), _function(_dtype))
