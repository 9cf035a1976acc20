"""A cuBLASLt without a GPU, for tests: products with a bias of what lies on a `FakeDriver`."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_cuda import FakeDriver

from jitcore.codegen.cuda import driver

__all__ = ["FakeCublasLt"]

_KINDS = {2: (np.float16, 68), 0: (np.float32, 68)}
"""By the library's number of a dtype: it, and the number of what its sums are kept in."""

_BIAS, _WORKSPACE = 4, 1000
_OTHER_ALGORITHM = 13


@dataclass
class FakeCublasLt:
    """The functions that jitcore asks for, which check what they are given.

    Attributes
    ----------
    stream : int or None
        That of the last product.
    products : list of tuple
        For each product: the shapes of both factors as they lie in memory, the alignments that were
        promised, and the number of matrices.
    chosen : int
        How often it was asked how to do a product.
    refuses : bool
        Whether it has no way of doing one.
    fails_with : int
        A ``cublasStatus_t`` that products give.
    """

    products: list[tuple[Any, ...]] = field(default_factory=list)
    stream: int | None = None
    chosen: int = 0
    refuses: bool = False
    fails_with: int = 0

    def __post_init__(self) -> None:
        self._objects: dict[int, dict[Any, Any]] = {}

    def _new(self, place, **fields):
        number = 100 + len(self._objects)
        self._objects[number] = dict(fields)
        ctypes.cast(place, ctypes.POINTER(ctypes.c_void_p))[0] = number
        return 0

    def _set(self, made, attribute, value, size):
        raw = ctypes.string_at(ctypes.addressof(value._obj), size.value)
        self._objects[made.value][attribute.value] = int.from_bytes(raw, "little")
        return 0

    def cublasLtCreate(self, place):
        return self._new(place)

    def cublasLtMatmulDescCreate(self, place, computed_in, scaled_in):
        return self._new(place, computed_in=computed_in.value, scaled_in=scaled_in.value)

    def cublasLtMatmulPreferenceCreate(self, place):
        return self._new(place)

    def cublasLtMatmulPreferenceDestroy(self, made):
        return 0

    def cublasLtMatrixLayoutCreate(self, place, kind, rows, columns, distance):
        assert distance.value >= rows.value
        shape = rows.value, columns.value
        return self._new(place, kind=kind.value, shape=shape, distance=distance.value)

    cublasLtMatmulDescSetAttribute = _set
    cublasLtMatmulPreferenceSetAttribute = _set
    cublasLtMatrixLayoutSetAttribute = _set

    def cublasLtMatmulAlgoGetHeuristic(
        self, handle, descriptor, a, b, c, d, preference, most, *out
    ):
        choice, found = (one._obj for one in out)
        assert most.value == 1 and self._objects[preference.value][1] >= _WORKSPACE
        self.chosen += 1
        choice.algorithm[0] = _OTHER_ALGORITHM
        choice.workspace = _WORKSPACE
        found.value = 0 if self.refuses else 1
        self._aligned = tuple(self._objects[preference.value][one] for one in (5, 6, 7, 8))
        return 0

    def cublasLtMatmul(self, handle, descriptor, alpha, a, of_a, b, of_b, beta, c, of_c, *rest):
        d, of_d, choice, workspace, size, stream = rest
        asked = self._objects[descriptor.value]
        left, right, target = (self._objects[one.value] for one in (of_a, of_b, of_d))
        dtype, computed_in = _KINDS[target["kind"]]
        assert left["kind"] == right["kind"] == target["kind"]
        assert asked["computed_in"] == computed_in and asked["scaled_in"] == 0
        assert asked[7] == _BIAS and (alpha._obj.value, beta._obj.value) == (1, 0)
        assert choice._obj.algorithm[0] == _OTHER_ALGORITHM
        assert size.value == _WORKSPACE and c.value == d.value and of_c.value == of_d.value
        fake = driver.current()
        assert isinstance(fake, FakeDriver)
        fake.host_address(workspace.value, size.value)
        self.products.append((left["shape"], right["shape"], self._aligned, target[5]))
        if self.fails_with:
            return self.fails_with
        first = _columns(fake, a.value, dtype, left)
        second = _columns(fake, b.value, dtype, right)
        first = first.T if asked[3] else first
        second = second.T if asked[4] else second
        rows = target["shape"][0]
        bias = fake.elements(asked[8], np.dtype(dtype))[:rows, None].astype(np.float32)
        place = _columns(fake, d.value, dtype, target)

        def work() -> None:
            place[...] = first.astype(np.float32) @ second.astype(np.float32) + bias

        self.stream = stream.value or 0
        fake._do(work, self.stream)
        return 0


def _columns(fake, address, dtype, layout):
    """A matrix by columns, of the host's memory behind the device's."""
    rows, columns = layout["shape"]
    size = np.dtype(dtype).itemsize
    elements = fake.elements(address, np.dtype(dtype))
    strides = (size, layout["distance"] * size)
    return np.lib.stride_tricks.as_strided(elements, (rows, columns), strides)
