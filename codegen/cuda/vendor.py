"""What NVIDIA's libraries share: where they lie, and how those for matrices see matrices."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.callbacks import Callback, add_callback
from jitcore.codegen.cuda.libcuda import LibCuda
from jitcore.ir import log
from jitcore.ir.dataclass import dataclass

__all__ = [
    "DONE",
    "DTYPES",
    "FAILED",
    "LARGEST",
    "NOT_TAKEN",
    "PRODUCT_PARAMETERS",
    "REFUSED",
    "Kind",
    "Library",
    "MatrixBatch",
    "Vendor",
    "add_function",
    "batches_of",
    "read_as",
]

DONE, NOT_TAKEN, FAILED = 0, 1, 2
"""What native functions that call a library give."""

REFUSED = frozenset({8, 15})
"""Of ``cublasStatus_t``: no such device, not supported."""

LARGEST = 2**31 - 1
"""The largest extent."""

PRODUCT_PARAMETERS = (*("ptr", "i64", "i64", "i64", "i64") * 3, *["i64"] * 4)
"""The LLVM types of what `products.MATMUL` lists."""

_AS_IT_IS, _TRANSPOSED = 0, 1  # cublasOperation_t


@dataclass(frozen=True, slots=True)
class Kind:
    """How matrices of a dtype are multiplied: the libraries' numbers, and the dtype of factors."""

    number: int  # cudaDataType_t
    result: int  # cudaDataType_t
    computed_in: int  # cublasComputeType_t
    scaled_in: int  # cudaDataType_t
    factor: Any
    itemsize: int
    result_itemsize: int


DTYPES = {
    "bfloat16": Kind(14, 0, 68, 0, ctypes.c_float, 2, 4),
    "float16": Kind(2, 2, 68, 0, ctypes.c_float, 2, 2),
    "float32": Kind(0, 0, 68, 0, ctypes.c_float, 4, 4),
    "float64": Kind(1, 1, 70, 1, ctypes.c_double, 8, 8),
}
"""The dtypes of factors.  Sums of float16 are kept in float32, as NumPy's are, and so are those of
bfloat16, whose products are float32."""


@dataclass(frozen=True, slots=True)
class MatrixBatch:
    """A batch of matrices: address, strides of the batch, rows and columns, and extents."""

    address: int
    batch: int
    row_stride: int
    column_stride: int
    rows: int
    columns: int

    @property
    def transposed(self) -> MatrixBatch:
        return MatrixBatch(
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


def batches_of(dtype: str, values: Sequence[int]) -> tuple[MatrixBatch, MatrixBatch, MatrixBatch]:
    """The matrices of a product, from the numbers that `products.MATMUL` lists."""
    kind = DTYPES[dtype]
    rows, columns, terms = values[15:18]
    shapes = (rows, terms), (terms, columns), (rows, columns)
    groups = values[:5], values[5:10], values[10:15]
    x, y, z = (
        MatrixBatch(address + start * size, batch, row, column, *shape)
        for (address, start, batch, row, column), shape, size in zip(
            groups, shapes, (kind.itemsize, kind.itemsize, kind.result_itemsize), strict=True
        )
    )
    return x, y, z


def read_as(matrices: MatrixBatch) -> tuple[int, int]:
    """How a library has to read matrices, and how far apart rows or columns are; 0: not at all."""
    if matrices.row_distance:
        return _AS_IT_IS, matrices.row_distance
    return _TRANSPOSED, matrices.transposed.row_distance


class Library(ABC):
    """One of the libraries, with a handle for each device.

    Parameters
    ----------
    library : object
        With the library's functions as attributes, as ctypes has them.
    name : str
        What reports call it.
    """

    def __init__(self, library: Any, name: str) -> None:
        self.name = name
        self._library = library
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()

    @abstractmethod
    def _create(self, handle: Any) -> int:
        """Make a handle where a pointer is; the library's status."""

    def begin(self, device: int) -> int:
        """Make a handle for the thread's current device; the library's status."""
        with self._lock:
            if device in self._handles:
                return 0
            handle = ctypes.c_void_p()
            status = self._create(handle)
            if not status:
                self._handles[device] = handle.value or 0
            return status

    def _handle(self, device: int) -> Any:
        return ctypes.c_void_p(self._handles[device])


L = TypeVar("L", bound=Library)


class Vendor(Generic[L]):
    """Where one of the libraries comes from.

    Parameters
    ----------
    file : str
        The name of its file, without what systems put around it.
    title : str
        What reports call it.
    make : callable
        From the library as ctypes has it, and what reports call the file.
    versions : sequence of int
        Those in the names of its files, the newest first; none where they are CUDA's.
    """

    def __init__(
        self,
        file: str,
        title: str,
        make: Callable[[Any, str], L],
        versions: Sequence[int] = (),
    ) -> None:
        self._file, self._title, self._make = file, title, make
        self._versions = versions
        self._used: list[L] = []
        self._installed: dict[int, L | None] = {}

    @contextmanager
    def use(self, library: L) -> Iterator[L]:
        """Use another library inside a ``with`` block; for tests."""
        self._used.append(library)
        try:
            yield library
        finally:
            self._used.remove(library)

    def available(self) -> L | None:
        """The library, ready for the thread's current device; None where there is none."""
        found = self._current()
        if found is None:
            return None
        status = found.begin(driver.current().device())
        if status:
            log.debug("cuda", f"{found.name} does not begin: status {status}")
        return None if status else found

    def function(self, call: Callable[[L, list[int]], int]) -> Callable[..., int]:
        """What native code calls: ``call`` with the library and the numbers that it is given."""

        def called(*numbers: int | None) -> int:
            library = self._current()
            if library is None:
                return NOT_TAKEN
            return call(library, [number or 0 for number in numbers])

        return called

    def _current(self) -> L | None:
        if self._used:
            return self._used[-1]
        # The library works by the real driver only, not by one of the tests.
        current = driver.current()
        if not isinstance(current, LibCuda):
            return None
        newest = current.version() // 1000
        if newest not in self._installed:
            found = _loaded(self._file, self._versions or range(newest, 10, -1))
            made = None if found is None else self._make(found[0], f"{self._title} ({found[1]})")
            self._installed[newest] = made
        return self._installed[newest]


def add_function(symbol: str, parameters: Sequence[str], function: Callable[..., int]) -> None:
    """Have native code find a function that gives `DONE`, `NOT_TAKEN` or `FAILED`.

    Parameters
    ----------
    symbol : str
    parameters : sequence of str
        LLVM types.
    function : callable
        Such as `Vendor.function` gives.
    """
    add_callback(Callback(symbol, "i64", tuple(parameters), function, failed=FAILED))


def _loaded(name: str, versions: Sequence[int]) -> tuple[Any, str] | None:
    """The library of the first of these versions that there is, and its file's name.

    It is taken from where the loader finds it, which is also the one that PyTorch or CuPy have
    loaded, or from NVIDIA's packages for Python.
    """
    for version in versions:
        file = f"{name}64_{version}.dll" if sys.platform == "win32" else f"lib{name}.so.{version}"
        for path in (file, *_packaged(file)):
            try:
                return ctypes.CDLL(path), file
            except OSError as error:
                log.debug("cuda", str(error))
    return None


def _packaged(file: str) -> list[str]:
    spec = importlib.util.find_spec("nvidia")
    places = [] if spec is None else spec.submodule_search_locations or []
    folder = "bin/**" if sys.platform == "win32" else "lib"
    return [str(one) for place in places for one in sorted(Path(place).glob(f"*/{folder}/{file}"))]
