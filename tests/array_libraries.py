"""Stand-ins for the array libraries with devices: as much of each as jitcore asks for.

Their arrays are jitcore's own under another class, and remember which library they are of.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from jitcore import cuda
from jitcore.codegen.cuda import driver

__all__ = ["Cupy", "Dlpack", "Interface", "Jax", "Numba", "Torch"]


class _Wrapped:
    """An array of some library over the memory of one of ours."""

    def __init__(self, held: cuda.Array) -> None:
        self.held = held

    def numpy(self) -> np.ndarray[Any, Any]:
        return self.held.numpy()

    @property
    def nbytes(self) -> int:
        return self.held.nbytes


def _of_interface(value: Any) -> cuda.Array:
    """What libraries make of CUDA's array interface: the host waits for a stream that it names."""
    interface = value.__cuda_array_interface__
    address, _ = interface["data"]
    if interface["stream"] is not None:
        driver.current().synchronize(interface["stream"])
    number = driver.current().pointer_device(address) if address else 0
    dtype = np.dtype(interface["typestr"])
    return cuda.Array(address, interface["shape"], interface["strides"], dtype, value, number)


def _fill(tensor: TorchTensor, target: int) -> int:
    """``dltensor_from_py_object_no_sync`` of a ``DLPackExchangeAPI``."""
    held, rank = tensor.held, len(tensor.shape)
    if tensor.layout != "strided":
        return -1
    code, bits = {"bfloat16": (4, 16)}.get(held.dtype.name) or (
        {"b": 6, "i": 0, "u": 1, "f": 2, "c": 5}[held.dtype.kind],
        8 * held.itemsize,
    )
    forms = [(ctypes.c_int64 * rank)(*one) for one in (tensor.shape, tensor.stride())]
    tensor.kept, offset = forms, 16
    device = 2 if tensor.is_cuda else 1, held.device_number
    words = (tensor.data_ptr() - offset, *device, rank, code, bits, 1)
    fields = struct.pack("qiiiBBHQQQ", *words, *map(ctypes.addressof, forms), offset)
    ctypes.memmove(target, fields, len(fields))
    return 0


def _work_stream(kind: int, number: int, target: int) -> int:
    """``current_work_stream`` of the same."""
    stream = sys.modules["torch"].stream
    ctypes.c_void_p.from_address(target).value = stream
    return 0 if kind == 2 else -1


_fill_pointer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(_fill)
_stream_pointer = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(
    _work_stream
)
_NAME = b"dlpack_exchange_api"


def exchange_api(major: int = 1, has_stream: bool = True, has_read: bool = True) -> Any:
    """The capsule with a ``DLPackExchangeAPI`` of the stand-in for PyTorch."""
    both = _fill_pointer, _stream_pointer
    read, ask = (ctypes.cast(one, ctypes.c_void_p).value or 0 for one in both)
    given = read if has_read else 0, ask if has_stream else 0
    words = (ctypes.c_uint64 * 7)(major | 3 << 32, 0, 0, 0, 0, *given)
    _exchange_apis.append(words)
    new = ctypes.pythonapi.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(words), _NAME, None)


_exchange_apis: list[Any] = []


class TorchTensor(_Wrapped):
    is_cuda = True
    layout = "strided"
    requires_grad = False
    negative = False
    kept: Any = None

    @property
    def shape(self) -> list[int]:
        return list(self.held.shape)

    @property
    def dtype(self) -> str:
        return f"torch.{self.held.dtype}"

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.held.__cuda_array_interface__

    def get_device(self) -> int:
        return self.held.device_number

    def is_contiguous(self) -> bool:
        return bool(self.held.shadow().flags.c_contiguous)

    def stride(self) -> list[int]:
        return [step // self.held.itemsize for step in self.held.strides]

    def data_ptr(self) -> int:
        return self.held.address

    def view(self, dtype: str) -> TorchTensor:
        held, kind = self.held, np.dtype(dtype.removeprefix("torch."))
        form = held.address, held.shape, held.strides, kind
        return TorchTensor(cuda.Array(*form, held, held.device_number))

    def is_conj(self) -> bool:
        return False

    def is_neg(self) -> bool:
        return self.negative

    __dlpack_c_exchange_api__ = exchange_api()


TorchTensor.__module__ = "torch"


class Torch(ModuleType):
    """PyTorch."""

    array = Tensor = TorchTensor
    strided = "strided"
    stream = 0

    def __init__(self) -> None:
        super().__init__("torch")
        numbers = ("bool", "int32", "int64", "float32", "float64", "complex64", "uint8")
        for name in (*numbers, "bfloat16"):
            setattr(self, name, f"torch.{name}")
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: self.stream)

    def is_grad_enabled(self) -> bool:
        return True

    def device(self, kind: str, number: int) -> Any:
        assert kind == "cuda"
        return SimpleNamespace(index=number)

    def empty(self, shape: Any, *, dtype: str, device: Any) -> TorchTensor:
        number = device.index
        return TorchTensor(cuda.empty(shape, dtype.removeprefix("torch."), device_number=number))

    def empty_strided(self, shape: Any, steps: Any, *, dtype: str, device: Any) -> TorchTensor:
        kind = np.dtype(dtype.removeprefix("torch."))
        strides = tuple(step * kind.itemsize for step in steps)
        number = device.index
        return TorchTensor(cuda.empty(shape, kind, strides=strides, device_number=number))

    def as_tensor(self, value: Any, *, device: str) -> TorchTensor:
        if value.__cuda_array_interface__["data"][1]:
            raise TypeError("the read only flag is not supported, should always be False")
        held = _of_interface(value)
        if any(step < 0 for step in held.strides):
            raise ValueError("negative strides")
        return TorchTensor(held)


class CupyArray(_Wrapped):
    def __init__(self, held: Any, dtype: Any = None, *, memptr: Any = None, strides: Any = None):
        if memptr is not None:
            assert memptr.held.size >= math.prod(held) * np.dtype(dtype).itemsize
            held = cuda.Array(memptr.ptr, held, strides, np.dtype(dtype), memptr)
        super().__init__(held)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    @property
    def strides(self) -> tuple[int, ...]:
        return self.held.strides

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.held.dtype

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.held.address, device_id=self.held.device_number)

    def view(self, dtype: np.dtype[Any]) -> CupyArray:
        held = self.held
        return CupyArray(cuda.Array(held.address, held.shape, held.strides, dtype, held))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.held.__cuda_array_interface__

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None) -> Any:
        """Computes as CuPy does on the device, which here is done on the host."""
        if any(isinstance(one, np.ndarray) for one in inputs):
            raise TypeError("CuPy takes no arrays of the host")
        values = [one.numpy() if isinstance(one, CupyArray) else one for one in inputs]
        found = np.asarray(getattr(ufunc, method)(*values))
        if out is None:
            return CupyArray(cuda.from_numpy(found))
        driver.current().copy_to_device(out[0].held.address, found.ctypes.data, found.nbytes)
        return out[0]

    def __array_function__(self, function: Any, types: Any, args: Any, keywords: Any) -> Any:
        """Calls CuPy's function of the same name."""
        part = sys.modules["cupy"]
        for name in (*function.__module__.split(".")[1:], function.__name__):
            part = getattr(part, name)
        return part(*args, **keywords)  # type: ignore[operator]


CupyArray.__module__ = "cupy"


class Cupy(ModuleType):
    """CuPy."""

    array = CupyArray
    stream = 0
    streams: ClassVar[dict[int, int]] = {}

    def __init__(self) -> None:
        super().__init__("cupy")

        def alloc(size: int) -> Any:
            made = cuda.empty(size, np.uint8)
            return SimpleNamespace(ptr=made.address, held=made)

        def current(device: int = -1) -> Any:
            return SimpleNamespace(ptr=self.streams.get(device, self.stream))

        self.exp = self.add = np.exp
        self.cuda = SimpleNamespace(
            alloc=alloc,
            get_current_stream=current,
            Device=lambda number: nullcontext(),
            ExternalStream=lambda handle: nullcontext(),
        )

    def empty(self, shape: Any, dtype: Any) -> CupyArray:
        return CupyArray(cuda.empty(shape, dtype))

    ndarray = CupyArray

    def asarray(self, value: Any) -> CupyArray:
        if isinstance(value, np.ndarray):
            return CupyArray(cuda.from_numpy(value))
        return CupyArray(_of_interface(value))


class NumbaArray(_Wrapped):
    stream = 0

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.held.__cuda_array_interface__ | {"stream": self.stream or None}


NumbaArray.__module__ = "numba.cuda.cudadrv.devicearray"


class Numba(ModuleType):
    """``numba.cuda``."""

    array = NumbaArray

    def __init__(self) -> None:
        super().__init__("numba.cuda")

    def as_cuda_array(self, value: cuda.Array, sync: bool) -> NumbaArray:
        assert not sync
        return NumbaArray(value)


class JaxArray(_Wrapped):
    is_ready = False

    def block_until_ready(self) -> JaxArray:
        self.is_ready = True
        return self

    def __dlpack__(self, *, stream: int | None = None, max_version: Any = None) -> Any:
        assert self.is_ready
        return self.held.__dlpack__(stream=stream, max_version=max_version)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.held.__dlpack_device__()


JaxArray.__module__ = "jaxlib._jax"


class Jax(ModuleType):
    """JAX."""

    array = JaxArray

    stream = 1

    def __init__(self) -> None:
        super().__init__("jax")
        self.dlpack = SimpleNamespace(from_dlpack=self._from_dlpack)

    def _from_dlpack(self, array: cuda.Array) -> JaxArray:
        axes = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
        if not array.shadow().transpose(axes).flags.c_contiguous:
            raise RuntimeError("UNIMPLEMENTED: only trivial (compact) striding is supported")
        # Of a version that has no read-only arrays.
        array.__dlpack__(stream=self.stream)
        return JaxArray(array)


class InterfaceArray(_Wrapped):
    """An array of a library nobody has heard of, with CUDA's interface."""

    stream: int | None = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return self.held.__cuda_array_interface__ | {"stream": self.stream}


class Interface(ModuleType):
    """A library nobody has heard of."""

    array = InterfaceArray

    def __init__(self) -> None:
        super().__init__("unheard")


class DlpackArray(_Wrapped):
    """An array that has nothing but DLPack, of the time before 1.0."""

    kind = 2

    def __dlpack__(self, *, stream: int | None = None) -> Any:
        return self.held.__dlpack__(stream=stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.held.device_number


class Dlpack(ModuleType):
    """Another one."""

    array = DlpackArray

    def __init__(self) -> None:
        super().__init__("another")
