"""A cuBLAS without a GPU, for tests: C functions that multiply what lies on a `FakeDriver`."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_cuda import FakeDriver

from jitcore.codegen.cuda import driver

__all__ = ["FakeCublas"]

_PTR, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
_CREATE = ctypes.CFUNCTYPE(_I32, ctypes.POINTER(_PTR))
_SET_STREAM = ctypes.CFUNCTYPE(_I32, _PTR, _PTR)
_MATRICES = (_PTR, _I32, _I32, _I64)
_GEMM = ctypes.CFUNCTYPE(
    _I32, _PTR, *[_I32] * 5, _PTR, *_MATRICES, *_MATRICES, _PTR, *_MATRICES, *[_I32] * 3
)
_SET_MODE = ctypes.CFUNCTYPE(_I32, _PTR, _I32)
_KINDS: dict[int, tuple[Any, Any, int]] = {
    2: (np.float16, np.float32, 68),
    0: (np.float32, np.float32, 68),
    1: (np.float64, np.float64, 70),
    14: ("bfloat16", np.float32, 68),
}
"""By cuBLAS's number of a dtype: it, in what its sums are kept, and cuBLAS's number of that."""

_RESULTS = {14: 0}
"""The dtypes of products that have another one than their factors."""

_HANDLE = 4711
_INVALID_VALUE = 7


@dataclass
class FakeCublas:
    """The functions that jitcore asks for.

    Attributes
    ----------
    products : list of tuple
        For each product: the form of both factors, three extents, and the number of matrices.
    stream : int or None
        The last one that was set.
    fails_with : int
        A ``cublasStatus_t`` that products give.
    begins_with : int
        What handles' creation gives.
    """

    products: list[tuple[int, ...]] = field(default_factory=list)
    stream: int | None = None
    fails_with: int = 0
    begins_with: int = 0

    def __post_init__(self) -> None:
        self._mode = 0
        self.cublasCreate_v2 = _CREATE(self._create)
        self.cublasSetStream_v2 = _SET_STREAM(self._set_stream)
        self.cublasSetMathMode = _SET_MODE(self._set_mode)
        self.cublasGemmStridedBatchedEx = _GEMM(self._gemm)

    def _create(self, place):
        place[0] = _HANDLE
        return self.begins_with

    def _set_stream(self, handle, stream):
        assert handle == _HANDLE
        self.stream = stream or 0
        return 0

    def _set_mode(self, handle, mode):
        assert handle == _HANDLE
        self._mode = mode
        return 0

    def _gemm(self, handle, form_a, form_b, m, n, k, alpha, *rest):
        """``c = op(a) @ op(b)`` by columns, with the checks of the library."""
        a, of_a, a_apart, a_batch, b, of_b, b_apart, b_batch, beta, *others = rest
        c, of_c, c_apart, c_batch, count, computed_in, _ = others
        assert of_a == of_b and of_c == _RESULTS.get(of_a, of_a) and computed_in == _KINDS[of_a][2]
        # No sums in the dtype of the result.
        assert self._mode == 16
        dtype, wide = map(np.dtype, _KINDS[of_a][:2])
        assert np.frombuffer(_raw(alpha, wide.itemsize), wide)[0] == 1
        assert np.frombuffer(_raw(beta, wide.itemsize), wide)[0] == 0
        a_shape = (k, m) if form_a else (m, k)
        b_shape = (n, k) if form_b else (k, n)
        if a_apart < a_shape[0] or b_apart < b_shape[0] or c_apart < m:
            return _INVALID_VALUE
        self.products.append((form_a, form_b, m, n, k, count))
        if self.fails_with:
            return self.fails_with
        left = _matrices(a, dtype, a_shape, a_apart, a_batch, count)
        right = _matrices(b, dtype, b_shape, b_apart, b_batch, count)
        left = left.swapaxes(1, 2) if form_a else left
        right = right.swapaxes(1, 2) if form_b else right
        target = _matrices(c, np.dtype(_KINDS[of_c][0]), (m, n), c_apart, c_batch, count)

        def work() -> None:
            target[...] = left.astype(wide) @ right.astype(wide)

        fake = driver.current()
        assert isinstance(fake, FakeDriver)
        fake._do(work, self.stream or 0)
        return 0


def _raw(address: int, size: int) -> Any:
    return (ctypes.c_char * size).from_address(address)


def _matrices(address, dtype, shape, apart, batch, count):
    """Matrices by columns, as a stack of the host's memory behind the device's."""
    fake = driver.current()
    assert isinstance(fake, FakeDriver)
    last = batch * (count - 1) + apart * (shape[1] - 1) + shape[0] - 1
    size = (last + 1) * dtype.itemsize
    elements = np.frombuffer(_raw(fake.host_address(address, size), size), dtype)
    strides = tuple(step * dtype.itemsize for step in (batch, 1, apart))
    return np.lib.stride_tricks.as_strided(elements, (count, *shape), strides)
