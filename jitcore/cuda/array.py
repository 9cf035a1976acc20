"""``Array``: jitcore's own arrays on a CUDA device."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from jitcore.codegen.cuda import driver
from jitcore.codegen.cuda.memory import array_strides, make_shadow, release_array
from jitcore.codegen.entries.array_orders import order_number
from jitcore.cuda.dlpack import DLDevice, export
from jitcore.cuda.operators import Operators
from jitcore.cuda.pool import Block, pool_of
from jitcore.cuda.streams import current_stream, order_streams
from jitcore.devices import device
from jitcore.ir.bfloat16 import is_stored

__all__ = ["Array", "array", "empty", "from_numpy"]

_INTERFACE_VERSION = 3


class Array(Operators):
    """An array on a CUDA device.

    Has ``__cuda_array_interface__`` and ``__dlpack__``, so that CuPy, PyTorch, JAX and Numba take
    it without a copy.  NumPy's functions and operators work on it: through CuPy where that is
    installed, otherwise in NumPy, on a copy.  What gives a number in NumPy gives an array without
    axes, since to have the number the host would have to wait for the device: `item` does.

    Parameters
    ----------
    address : int
    shape : tuple of int
    strides : tuple of int or None
        In bytes; None for C order.
    dtype : numpy.dtype
    owner : object
        What keeps the memory.
    device_number : int
    read_only : bool

    Attributes
    ----------
    shape, strides : tuple of int
    dtype : numpy.dtype
    device : jitcore.device
    device_number : int
    address : int
        Of the first element.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> x = jitcore.to(np.ones(3), "cuda")  # doctest: +SKIP
    >>> (x + 1).numpy()  # doctest: +SKIP
    array([2., 2., 2.])
    """

    __array_priority__: ClassVar[float] = 200
    __slots__ = (
        "__weakref__",
        "_kept_shadow",
        "_strides",
        "address",
        "device_number",
        "dtype",
        "owner",
        "read_only",
        "shape",
    )

    def __init__(
        self,
        address: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        dtype: np.dtype[Any],
        owner: object,
        device_number: int = 0,
        *,
        read_only: bool = False,
    ) -> None:
        self.address = address
        self.shape = shape
        self._strides = strides
        self.dtype = dtype
        self.owner = owner
        self.device_number = device_number
        self.read_only = read_only
        self._kept_shadow: np.ndarray[Any, Any] | None = None

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes from each element to the next along each axis."""
        return self.shadow().strides

    @property
    def device(self) -> device:
        """Where the array lies."""
        return device("cuda", self.device_number)

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """The bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    def fields(self) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, np.dtype[Any], bool]:
        """Address, shape, strides, dtype, and whether the array must not be written to."""
        return self.address, self.shape, self._strides, self.dtype, self.read_only

    def shadow(self) -> np.ndarray[Any, Any]:
        """An ``ndarray`` of the same form, whose elements nobody may touch."""
        return make_shadow(self, *self.fields())

    def kept_shadow(self) -> np.ndarray[Any, Any]:
        """A shadow that is there for calls; it does not keep the memory."""
        if self._kept_shadow is None:
            self._kept_shadow = make_shadow(None, *self.fields())
        return self._kept_shadow

    def keep_shadow(self, shadow: np.ndarray[Any, Any]) -> None:
        """Keep the shadow under which a call has made this array."""
        release_array(shadow)
        self.take_shadow(shadow)

    def take_shadow(self, shadow: np.ndarray[Any, Any]) -> None:
        """Keep a shadow that keeps no more than the array's memory."""
        self._kept_shadow = shadow

    def of_shadow(self, shadow: np.ndarray[Any, Any]) -> Array:
        """A view of this array that has the form of a view of its shadow."""
        address: int = shadow.__array_interface__["data"][0]
        return Array(
            address,
            shadow.shape,
            None if shadow.flags.c_contiguous else shadow.strides,
            shadow.dtype,
            self.owner,
            self.device_number,
            read_only=not shadow.flags.writeable,
        )

    def as_words(self) -> Array:
        """The same memory as int16: CUDA's array interface has no name for bfloat16."""
        form = self.address, self.shape, self._strides, np.dtype(np.int16)
        return Array(*form, self, self.device_number, read_only=self.read_only)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Version 3 of the interface that CUDA's array libraries share."""
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.address if self.size else 0, self.read_only),
            "strides": self._strides,
            # 1 is how the interface says 0, which it leaves to whoever forgot.
            "stream": current_stream(self.device_number) or 1,
            "version": _INTERFACE_VERSION,
        }

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError("jitcore's arrays are exported where they lie, without a copy")
        if stream != -1:
            # 1 and 2 are the default streams, under the numbers that CUDA itself knows.
            self._wait_on(1 if stream is None else stream)
        return export(self, versioned=max_version is not None and max_version >= (1, 0))

    def _wait_on(self, stream: int) -> None:
        """Have another stream wait for what this thread has asked for so far."""
        order_streams(current_stream(self.device_number), stream, self.device_number)
        if isinstance(self.owner, Block):
            self.owner.used_on(stream)

    def used_on(self, stream: int) -> None:
        """Have the memory stay until a stream has done what it was asked for with it so far."""
        if isinstance(self.owner, Block):
            self.owner.used_on(stream)
        else:
            pool_of(self.device_number).keep([self.owner], stream)

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLDevice.CUDA, self.device_number

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host, of the same shape; waits for the device."""
        shadow = self.shadow()
        if not self.size:
            return np.empty(self.shape, self.dtype)
        low, high = np.lib.array_utils.byte_bounds(shadow)
        raw = np.empty(high - low, np.uint8)
        used = driver.current()
        with used.on_device(self.device_number):
            stream = current_stream(self.device_number)
            used.copy_to_host(raw.ctypes.data, low, high - low, stream)
        found: np.ndarray[Any, Any] = np.ndarray(
            self.shape, self.dtype, raw.data, self.address - low, shadow.strides
        )
        return found if self._strides is None else found.copy("K")

    def __copy__(self) -> Array:
        made = empty(
            self.shape, self.dtype, strides=self._packed_strides(), device_number=self.device_number
        )
        if made.strides != self.strides:
            made[...] = self
            return made
        used = driver.current()
        stream = current_stream(self.device_number)
        with used.on_device(self.device_number):
            used.copy(made.address, self.address, self.nbytes, stream)
        self.used_on(stream)
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        return from_numpy, (self.numpy(), self.device_number)

    def _packed_strides(self) -> tuple[int, ...] | None:
        """The strides of a copy, whose axes lie in the same order."""
        if self._strides is None or not self.size:
            return None
        axes = sorted(range(self.ndim), key=lambda axis: -abs(self.strides[axis]))
        return array_strides(order_number(axes, self.itemsize), self.shape, self.itemsize)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        raise TypeError(
            f"an array on {self.device} is not copied to the host unasked; use .numpy(), "
            "or jitcore.to(array, 'cpu')"
        )

    def __repr__(self) -> str:
        text = repr(self.numpy())
        return f"{text[:-1]}, device={str(self.device)!r})" if text.endswith(")") else text


def empty(
    shape: int | tuple[int, ...],
    dtype: Any = np.float64,
    *,
    strides: tuple[int, ...] | None = None,
    device_number: int = 0,
    stream: int | None = None,
) -> Array:
    """A new array whose elements have not been set.

    Parameters
    ----------
    shape : int or tuple of int
    dtype : dtype
    strides : tuple of int, optional
        In bytes; they must cover a block of memory without gaps.
    device_number : int
    stream : int, optional
        Of the work that will use it; by default this thread's.

    Examples
    --------
    >>> import jitcore
    >>> jitcore.cuda.empty((2, 3)).shape  # doctest: +SKIP
    (2, 3)
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    kind = np.dtype(dtype)
    if not is_stored(kind):
        raise TypeError(
            "arrays on a device hold booleans, integers, floats of up to 64 bits or complex "
            f"numbers of two of these, in the machine's byte order; found dtype {kind}"
        )
    used = current_stream(device_number) if stream is None else stream
    block = pool_of(device_number).take(math.prod(extents) * kind.itemsize, used)
    return Array(block.address, extents, strides, kind, block, device_number)


def from_numpy(
    host: np.ndarray[Any, Any], device_number: int = 0, *, stream: int | None = None
) -> Array:
    """A copy of a host array on a device; what is contiguous stays so in its order.

    Parameters
    ----------
    host : numpy.ndarray
    device_number : int
    stream : int, optional
        The stream the copy goes to; by default this thread's.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> jitcore.cuda.from_numpy(np.ones(3)).shape  # doctest: +SKIP
    (3,)
    """
    plain = np.asarray(host)
    is_c = plain.flags.c_contiguous
    packed = plain if is_c or plain.flags.f_contiguous else plain.copy("K")
    strides = None if packed.flags.c_contiguous else packed.strides
    used_stream = current_stream(device_number) if stream is None else stream
    made = empty(
        plain.shape, plain.dtype, strides=strides, device_number=device_number, stream=used_stream
    )
    used = driver.current()
    with used.on_device(device_number):
        used.copy_to_device(made.address, packed.ctypes.data, packed.nbytes, used_stream)
    return made


def array(value: Any, dtype: Any = None, *, device_number: int = 0) -> Array:
    """A new array of what NumPy makes an array of.

    Parameters
    ----------
    value : array_like
    dtype : dtype, optional
    device_number : int

    Examples
    --------
    >>> import jitcore
    >>> jitcore.cuda.array([1.0, 2.0]).dtype  # doctest: +SKIP
    dtype('float64')
    """
    return from_numpy(np.array(value, dtype), device_number)
