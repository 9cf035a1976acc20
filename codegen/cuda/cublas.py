"""Matrix products of cuBLAS, NVIDIA's library, as a function that native code calls.

============================================ ======================================================
``jc_cuda_gemm_<dtype>(...)``                takes what `products.MATMUL` lists, and gives `DONE`,
                                             `NOT_TAKEN` or `FAILED`
============================================ ======================================================

cuBLAS takes matrices one of whose strides is 1, and whose other one is no less than the extent of
the axis whose stride is 1.  All others are not taken: our own kernel computes these.  float32 is
multiplied as float32, never as TF32, which is cuBLAS's default.

The library is loaded at the first product that is compiled: from where the loader finds it, which
is also the one that PyTorch or CuPy have loaded, or from NVIDIA's packages for Python.
"""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jitcore.codegen.cuda import driver, memory
from jitcore.codegen.cuda.libcuda import LibCuda
from jitcore.codegen.engine import add_maker, add_symbol
from jitcore.ir import log

__all__ = ["DONE", "DTYPES", "FAILED", "NOT_TAKEN", "Cublas", "available", "gemm_symbol", "use"]

DTYPES = {"float32": "S", "float64": "D"}
"""cuBLAS's letters."""

DONE, NOT_TAKEN, FAILED = 0, 1, 2
"""What the native function gives."""

_LARGEST = 2**31 - 1
_AS_IT_IS, _TRANSPOSED = 0, 1  # cublasOperation_t
_REFUSED = frozenset({8, 15})  # of cublasStatus_t: no such device, not supported

_PTR, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


@dataclass(frozen=True, slots=True)
class _Matrices:
    """A batch of matrices: address, strides of the batch, rows and columns, and extents."""

    address: int
    batch: int
    row_stride: int
    column_stride: int
    rows: int
    columns: int

    @property
    def transposed(self) -> _Matrices:
        return _Matrices(
            self.address,
            self.batch,
            self.column_stride,
            self.row_stride,
            self.columns,
            self.rows,
        )

    @property
    def row_distance(self) -> int:
        """How far apart rows of neighbouring elements are; 0 where this is not the layout."""
        if self.columns > 1 and self.column_stride != 1:
            return 0
        if self.rows == 1:
            return self.columns
        return self.row_stride if self.row_stride >= self.columns else 0


class Cublas:
    """The library.

    Parameters
    ----------
    library : object
        With cuBLAS's functions as attributes, as ctypes has them.
    name : str
        What reports call it.
    """

    def __init__(self, library: Any, name: str) -> None:
        self.name = name
        self._library = library
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()
        self._multiply = {
            dtype: getattr(library, f"cublas{letter}gemmStridedBatched")
            for dtype, letter in DTYPES.items()
        }

    def begin(self, device: int) -> int:
        """Make a handle for the thread's current device; cuBLAS's status."""
        with self._lock:
            if device in self._handles:
                return 0
            handle = _PTR()
            status: int = self._library.cublasCreate_v2(ctypes.byref(handle))
            if not status:
                self._handles[device] = handle.value or 0
            return status

    def multiply(self, dtype: str, x: _Matrices, y: _Matrices, z: _Matrices, batches: int) -> int:
        """``z = x @ y`` on the running call's stream and the thread's current device."""
        if not z.row_distance:
            x, y, z = y.transposed, x.transposed, z.transposed
        left, right = _form(x), _form(y)
        distances = left[1], right[1], z.row_distance
        extents = z.columns, z.rows, x.columns
        if not all(0 < one <= _LARGEST for one in (*distances, *extents, batches)):
            return NOT_TAKEN
        number = ctypes.c_float if dtype == "float32" else ctypes.c_double
        one, zero = number(1), number(0)
        handle = _PTR(self._handles[driver.current().device()])
        stream = memory.running_call().stream
        self._check(self._library.cublasSetStream_v2(handle, _PTR(stream)), dtype)
        # cuBLAS counts by columns: matrices by rows are their transposes to it.
        status = self._multiply[dtype](
            handle,
            _I32(right[0]),
            _I32(left[0]),
            *map(_I32, extents),
            ctypes.byref(one),
            _PTR(y.address),
            _I32(right[1]),
            _I64(y.batch),
            _PTR(x.address),
            _I32(left[1]),
            _I64(x.batch),
            ctypes.byref(zero),
            _PTR(z.address),
            _I32(z.row_distance),
            _I64(z.batch),
            _I32(batches),
        )
        if status in _REFUSED:
            return NOT_TAKEN
        self._check(status, dtype)
        return DONE

    def _check(self, status: int, dtype: str) -> None:
        if status:
            raise driver.DriverError(
                f"{self.name} failed with status {status} in a product of {dtype} matrices"
            )


def _form(matrices: _Matrices) -> tuple[int, int]:
    """How cuBLAS has to read matrices, and how far apart their rows or columns are; 0: not."""
    if matrices.row_distance:
        return _AS_IT_IS, matrices.row_distance
    return _TRANSPOSED, matrices.transposed.row_distance


def gemm_symbol(dtype: str) -> str:
    """The native function for a dtype."""
    return f"jc_cuda_gemm_{dtype}"


_used: list[Cublas] = []


@contextmanager
def use(library: Cublas) -> Iterator[Cublas]:
    """Use another library inside a ``with`` block; for tests."""
    _used.append(library)
    try:
        yield library
    finally:
        _used.remove(library)


def available() -> Cublas | None:
    """The library, ready for the thread's current device; None where there is none."""
    found = _current()
    if found is None:
        return None
    status = found.begin(driver.current().device())
    if status:
        log.debug("cuda", f"{found.name} does not begin: status {status}")
    return None if status else found


def _current() -> Cublas | None:
    if _used:
        return _used[-1]
    # The library works by the real driver only, not by one of the tests.
    current = driver.current()
    return _installed(current.version() // 1000) if isinstance(current, LibCuda) else None


@cache
def _installed(newest: int) -> Cublas | None:
    """The newest library that a driver for CUDA of a major version runs."""
    for version in range(newest, 10, -1):
        name = f"cublas64_{version}.dll" if sys.platform == "win32" else f"libcublas.so.{version}"
        for path in (name, *_packaged(name)):
            try:
                return Cublas(ctypes.CDLL(path), f"cuBLAS ({name})")
            except OSError as error:
                log.debug("cuda", str(error))
    return None


def _packaged(name: str) -> list[str]:
    """Where NVIDIA's packages for Python have a library."""
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else spec.submodule_search_locations or []
    folder = "bin/**" if sys.platform == "win32" else "lib"
    return [str(one) for place in places for one in sorted(Path(place).glob(f"*/{folder}/{name}"))]


def _function(dtype: str) -> Callable[..., int]:
    size = 4 if dtype == "float32" else 8

    def multiply(*numbers: int | None) -> int:
        try:
            library = _current()
            if library is None:
                return NOT_TAKEN
            values = [number or 0 for number in numbers]
            rows, columns, terms, batches = values[15:]
            shapes = (rows, terms), (terms, columns), (rows, columns)
            groups = values[:5], values[5:10], values[10:15]
            x, y, z = (
                _Matrices(address + start * size, batch, row, column, *shape)
                for (address, start, batch, row, column), shape in zip(groups, shapes, strict=True)
            )
            return library.multiply(dtype, x, y, z, batches)
        except BaseException as error:
            # Native code has called, which goes to its error site; the call raises this.
            memory.running_call().error = error
            return FAILED

    return multiply


_TYPE = ctypes.CFUNCTYPE(_I64, *[_PTR, *[_I64] * 4] * 3, *[_I64] * 4)
_FUNCTIONS = {gemm_symbol(dtype): _TYPE(_function(dtype)) for dtype in DTYPES}


def _ensure() -> None:
    for name, function in _FUNCTIONS.items():
        add_symbol(name, ctypes.cast(function, _PTR).value or 0)


for _name in _FUNCTIONS:
    add_maker(_name, _ensure)
