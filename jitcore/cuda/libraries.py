"""The array libraries whose arrays on a device calls take and give: one row each.

None of them is imported here: whoever has an array of a library has imported it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import accumulate
from math import prod
from operator import attrgetter, mul
from typing import Any, Final

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.calls import Allocator
from jitcore.cuda.array import Array
from jitcore.cuda.dlpack import DLDevice, read
from jitcore.cuda.pool import Pool, pool_of, scratch_pool_of, zeros_pool_of
from jitcore.cuda.streams import current_stream
from jitcore.ir.bfloat16 import bfloat16, is_bfloat16
from jitcore.ir.dataclass import dataclass

__all__ = ["OWN", "Fields", "Lent", "Library", "device_of", "library_of", "row_of"]

Fields = tuple[int, tuple[int, ...], tuple[int, ...] | None, np.dtype[Any], bool]
"""Address, shape, strides in bytes (None for C order), dtype, read-only."""


def _nothing() -> None:
    return None


def _never(_: object) -> bool:
    return False


def _always(_: object) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Library:
    """What calls need to know of an array library.

    Parameters
    ----------
    name : str
        For messages.
    lies_on : callable
        The number of an array's device, or None where it lies on the host.
    fields : callable
        An array's `Fields`.
    stream : callable
        The stream that the library's work on a device goes to now, from an array and the device.
    allocator : callable
        Where new arrays come from, for a device and a stream.
    adopt : callable
        The library's array over the memory of an `Array`.
    has_layout : callable
        Whether it has arrays with the strides of an ``ndarray``.
    is_own : bool
        Its arrays are jitcore's.
    has_streams : bool
        Each array says which stream its work goes to.
    is_unaware : bool
        Nobody can tell it which streams use its memory, so that it must not get that back before
        they have.
    has_memory : bool
        New arrays lie in the library's own memory, not in that of jitcore's pool.
    api : callable
        The capsule with the library's functions in C (`jitcore.codegen.cuda.exchange`), or None.
    is_plain : callable
        Whether these tell all of an array.
    """

    name: str
    lies_on: Callable[[Any], int | None]
    fields: Callable[[Any], Fields]
    stream: Callable[[Any, int], int]
    allocator: Callable[[int, int], Allocator]
    adopt: Callable[[Array], Any]
    has_layout: Callable[[np.ndarray[Any, Any]], bool] = _always
    is_own: bool = False
    has_streams: bool = False
    is_unaware: bool = False
    has_memory: bool = False
    api: Callable[[], object] = _nothing
    is_plain: Callable[[Any], bool] = _never


def library_of(value: object) -> Library | None:
    """The library of an array on a device; None for anything else."""
    row = row_of(type(value))
    return None if row is None or row.lies_on(value) is None else row


def device_of(value: object) -> int | None:
    """The number of the device that an array lies on; None for anything else."""
    row = row_of(type(value))
    return None if row is None else row.lies_on(value)


def row_of(kind: type) -> Library | None:
    """The library whose arrays may be of this type."""
    found = _by_type.get(kind)
    if found is not None:
        return found
    has_interface = hasattr(kind, "__cuda_array_interface__")
    is_array = has_interface or hasattr(kind, "__dlpack_device__")
    if not is_array or issubclass(kind, np.ndarray | np.generic | type):
        return None
    found = _BY_MODULE.get(kind.__module__.partition(".")[0])
    return _by_type.setdefault(kind, found or (_INTERFACE if has_interface else _DLPACK))


_by_type: dict[type, Library] = {}


class Lent:
    """The memory of an array, for a library on whose current stream its work is.

    There is no stream to wait for: where one is named, CuPy has the host wait.  Nor is the memory
    read-only: PyTorch refuses such arrays, and CuPy has none.
    """

    def __init__(self, array: Array) -> None:
        interface = array.__cuda_array_interface__
        address, _ = interface["data"]
        self.__cuda_array_interface__ = interface | {"data": (address, False), "stream": None}
        self._array = array


# jitcore's own


class _WithZeros:
    """Memory that is zeros, of jitcore's pools: no library has a form for that."""

    __slots__ = ("_device", "_stream")

    def __init__(self, device: int, stream: int) -> None:
        self._device, self._stream = device, stream

    def scratch(self, size: int) -> tuple[int, Any]:
        return self._taken(scratch_pool_of(self._device), size)

    def zeros(self, size: int) -> tuple[int, Any]:
        return self._taken(zeros_pool_of(self._device), size)

    def _taken(self, pool: Pool, size: int) -> tuple[int, Any]:
        made = pool.take(size, self._stream)
        return made.address, made


class _Own(_WithZeros):
    """jitcore's pool."""

    __slots__ = ("_pool",)

    def __init__(self, device: int, stream: int) -> None:
        super().__init__(device, stream)
        self._pool = pool_of(device)

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        block = self._pool.take(prod(shape) * dtype.itemsize, self._stream)
        return block.address, Array(block.address, shape, strides, dtype, block, self._device)

    def block(self, size: int) -> tuple[int, Any]:
        return self._taken(self._pool, size)


def _own_stream(_: object, device: int) -> int:
    return current_stream(device)


def _same(array: Array) -> Any:
    return array


_own_device = attrgetter("device_number")
OWN: Final = Library("jitcore", _own_device, Array.fields, _own_stream, _Own, _same, is_own=True)


# PyTorch

_TORCH_NAMES = {
    "bool": "bool",
    **{name: name for name in ("int8", "int16", "int32", "int64")},
    **{name: name for name in ("uint8", "uint16", "uint32", "uint64")},
    **{name: name for name in ("float16", "float32", "float64", "complex64", "complex128")},
}
_torch_dtypes: dict[Any, np.dtype[Any]] = {}
_torch_of: dict[np.dtype[Any], Any] = {}


def _torch() -> Any:
    torch = sys.modules["torch"]
    if not _torch_dtypes:
        for name in _TORCH_NAMES:
            found = getattr(torch, name, None)
            if found is not None:
                _torch_of[np.dtype(name)] = found
                _torch_dtypes[found] = np.dtype(name)
    return torch


def _torch_dtype(dtype: Any) -> np.dtype[Any]:
    """The dtype of a tensor, in NumPy."""
    torch = _torch()
    found = _torch_dtypes.get(dtype)
    if found is None and dtype == torch.bfloat16:
        found = _torch_dtypes[dtype] = bfloat16()
        _torch_of[found] = dtype
    if found is None:
        raise TypeError(f"NumPy has no dtype like {dtype}; convert the tensor before")
    return found


def _dtype_of_torch(dtype: np.dtype[Any]) -> Any:
    """The dtype of a tensor that holds a result."""
    torch = _torch()
    if is_bfloat16(dtype):
        return torch.bfloat16
    if dtype not in _torch_of:
        raise TypeError(f"PyTorch has no dtype like {dtype}, which the result has")
    return _torch_of[dtype]


def _torch_device(tensor: Any) -> int | None:
    return int(tensor.get_device()) if getattr(tensor, "is_cuda", False) else None


def _torch_api() -> object:
    return getattr(sys.modules["torch"].Tensor, "__dlpack_c_exchange_api__", None)


def _torch_is_plain(tensor: Any) -> bool:
    # What lies in memory says nothing of these.
    if tensor.is_neg() or tensor.is_conj():
        return False
    return not (tensor.requires_grad and sys.modules["torch"].is_grad_enabled())


def _torch_fields(tensor: Any) -> Fields:
    torch = sys.modules["torch"]
    dtype = _torch_dtypes.get(tensor.dtype) or _torch_dtype(tensor.dtype)
    if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
        raise TypeError(
            "a tensor that is not stored as its elements cannot be an argument; "
            "use .to_dense(), .resolve_conj() or .resolve_neg()"
        )
    if tensor.requires_grad and torch.is_grad_enabled():
        raise TypeError(
            "a tensor that requires grad cannot be an argument, since gradients would be lost; "
            "use tensor.detach(), or torch.no_grad()"
        )
    if tensor.is_contiguous():
        return tensor.data_ptr(), tuple(tensor.shape), None, dtype, False
    strides = tuple(step * dtype.itemsize for step in tensor.stride())
    return tensor.data_ptr(), tuple(tensor.shape), strides, dtype, False


def _torch_stream(_: object, device: int) -> int:
    torch = sys.modules["torch"]
    # The public way makes an object of Python first, which takes longer than all the rest.
    raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    return int(raw(device) if raw else torch.cuda.current_stream(device).cuda_stream)


@lru_cache(1024)
def _c_steps(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The elements from each one to the next along each axis, in C order."""
    steps = accumulate((max(1, one) for one in shape[:0:-1]), mul, initial=1)
    return tuple(steps)[::-1] if shape else ()


class _TorchMemory(_WithZeros):
    """PyTorch's own memory."""

    __slots__ = ("_place",)

    def __init__(self, device: int, stream: int) -> None:
        super().__init__(device, stream)
        # Its name is looked through each time.
        self._place = _torch().device("cuda", device)

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        torch = sys.modules["torch"]
        own = _torch_of.get(dtype) or _dtype_of_torch(dtype)
        if strides is None:
            steps = _c_steps(shape)
        else:
            steps = tuple(stride // dtype.itemsize for stride in strides)
        # torch.empty takes twice as long.
        made = torch.empty_strided(shape, steps, dtype=own, device=self._place)
        return made.data_ptr(), made

    def block(self, size: int) -> tuple[int, Any]:
        torch = sys.modules["torch"]
        made = torch.empty(size, dtype=torch.uint8, device=self._place)
        return made.data_ptr(), made


def _torch_adopt(array: Array) -> Any:
    torch, place = _torch(), f"cuda:{array.device_number}"
    if is_bfloat16(array.dtype):
        return torch.as_tensor(Lent(array.as_words()), device=place).view(torch.bfloat16)
    return torch.as_tensor(Lent(array), device=place)


def _steps_forward(array: np.ndarray[Any, Any]) -> bool:
    return all(step >= 0 for step in array.strides)


_TORCH = Library(
    "PyTorch",
    _torch_device,
    _torch_fields,
    _torch_stream,
    _TorchMemory,
    _torch_adopt,
    has_layout=_steps_forward,
    has_memory=True,
    api=_torch_api,
    is_plain=_torch_is_plain,
)


# CuPy


def _cupy_fields(array: Any) -> Fields:
    return array.data.ptr, array.shape, array.strides, array.dtype, False


def _cupy_stream(_: object, device: int) -> int:
    return int(sys.modules["cupy"].cuda.get_current_stream(device).ptr)


class _CupyMemory(_WithZeros):
    """CuPy's own memory."""

    __slots__ = ()

    def empty(
        self, dtype: np.dtype[Any], shape: tuple[int, ...], strides: tuple[int, ...] | None
    ) -> tuple[int, Any]:
        cupy = sys.modules["cupy"]
        if strides is None:
            made = cupy.empty(shape, dtype)
        else:
            size = dtype.itemsize
            for extent in shape:
                size *= extent
            memory = cupy.cuda.alloc(size)
            made = cupy.ndarray(shape, dtype, memptr=memory, strides=strides)
        return made.data.ptr, made

    def block(self, size: int) -> tuple[int, Any]:
        made = sys.modules["cupy"].cuda.alloc(size)
        return made.ptr, made


def _cupy_adopt(array: Array) -> Any:
    cupy = sys.modules["cupy"]
    if is_bfloat16(array.dtype):
        return cupy.asarray(Lent(array.as_words())).view(array.dtype)
    return cupy.asarray(Lent(array))


def _cupy_device(array: Any) -> int | None:
    return int(array.data.device_id)


_CUPY = Library(
    "CuPy", _cupy_device, _cupy_fields, _cupy_stream, _CupyMemory, _cupy_adopt, has_memory=True
)


# Any other, by CUDA's interface


def _interface_of(value: Any) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = value.__cuda_array_interface__
    except AttributeError:
        # Types whose arrays may lie on the host say so in this way.
        return None
    return found


def _interface_device(value: Any) -> int | None:
    interface = _interface_of(value)
    if interface is None:
        return None
    address = interface["data"][0]
    return driver.current().pointer_device(address) if address else driver.current().device()


def _interface_fields(value: Any) -> Fields:
    interface = value.__cuda_array_interface__
    if interface.get("mask") is not None:
        raise TypeError("a masked array on a device cannot be an argument")
    address, read_only = interface["data"]
    strides = interface.get("strides")
    shape = tuple(interface["shape"])
    steps = None if strides is None else tuple(strides)
    return int(address or 0), shape, steps, np.dtype(interface["typestr"]), bool(read_only)


def _interface_stream(value: Any, device: int) -> int:
    """The stream that the array's own work goes to, if it says so."""
    return int(value.__cuda_array_interface__.get("stream") or current_stream(device))


def _numba_adopt(array: Array) -> Any:
    return sys.modules["numba.cuda"].as_cuda_array(array, sync=False)


_INTERFACE = Library(
    "CUDA's array interface",
    _interface_device,
    _interface_fields,
    _interface_stream,
    _Own,
    _same,
    is_own=True,
    has_streams=True,
)

_NUMBA = Library(
    "Numba",
    _interface_device,
    _interface_fields,
    _interface_stream,
    _Own,
    _numba_adopt,
    has_streams=True,
)


# Any other, by DLPack


def _dlpack_device(value: Any) -> int | None:
    try:
        kind, number = value.__dlpack_device__()
    except (AttributeError, TypeError, ValueError, BufferError, RuntimeError):
        # Arrays in several places, of types without memory, or nothing but a name in a trace.
        return None
    return int(number) if kind in (DLDevice.CUDA, DLDevice.CUDA_MANAGED) else None


def _dlpack_fields(value: Any) -> Fields:
    # The caller keeps the array, and the array its memory.
    device = _dlpack_device(value)
    assert device is not None
    return read(value, current_stream(device))


_DLPACK = Library(
    "DLPack",
    _dlpack_device,
    _dlpack_fields,
    _own_stream,
    _Own,
    _same,
    is_own=True,
    is_unaware=True,
)


def _jax_adopt(array: Array) -> Any:
    # JAX asks for DLPack of a version that has no read-only arrays. Its own never change.
    address, shape, strides, dtype, _ = array.fields()
    lent = Array(address, shape, strides, dtype, array.owner, array.device_number)
    return sys.modules["jax"].dlpack.from_dlpack(lent)


def _is_packed(array: np.ndarray[Any, Any]) -> bool:
    """Whether elements lie without gaps, in some order of the axes."""
    axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    return array.transpose(axes).flags.c_contiguous


def _jax_fields(value: Any) -> Fields:
    # JAX computes on streams of its own, and arrays exist before their elements do.
    address, shape, strides, dtype, _ = _dlpack_fields(value.block_until_ready())
    return address, shape, strides, dtype, True


_JAX = Library(
    "JAX",
    _dlpack_device,
    _jax_fields,
    _own_stream,
    _Own,
    _jax_adopt,
    has_layout=_is_packed,
    is_unaware=True,
)

_BY_MODULE: dict[str, Library] = {
    "cupy": _CUPY,
    "jax": _JAX,
    "jaxlib": _JAX,
    "jitcore": OWN,
    "numba": _NUMBA,
    "numba_cuda": _NUMBA,
    "torch": _TORCH,
}
