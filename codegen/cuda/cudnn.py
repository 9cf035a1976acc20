"""Convolutions of cuDNN, NVIDIA's library, as a function that native code calls.

============================================ ======================================================
``jc_cuda_convolve_<dtype>(...)``            takes what `CONVOLUTION_PARAMETERS` says, and gives
                                             `DONE`, `NOT_TAKEN` or `FAILED`
============================================ ======================================================

Images, kernels and results are arrays in C order, channels before the spatial axes.  float32 is
multiplied as float32, never as TF32; sums of float16 are kept in float32 to their end.

How the library goes about a convolution it chooses once for each shape, by its own heuristics, but
only among the ways that add up the products of a window: what Winograd's method and Fourier
transforms make of an infinity or a NaN reaches windows that it does not lie in.  All of these add
up in the same order each time.

The library is loaded at the first convolution that is compiled.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

from jitcore.codegen.cuda import calls, driver
from jitcore.codegen.cuda.vendor import DONE, LARGEST, NOT_TAKEN, Library, Vendor, add_function
from jitcore.codegen.targets import CONVOLUTION
from jitcore.ir import log
from jitcore.ir.dataclass import dataclass

__all__ = ["CONVOLUTIONS", "Cudnn", "available", "use"]

CONVOLUTION_PARAMETERS = (*("ptr", "i64") * 3, *["i64"] * 5, *["i64"] * 18)
"""The LLVM types of what a convolution takes.

The memory of images, kernels and results, each with where they begin, in elements; then the images
of the batch, their channels, those of the result, groups, and spatial axes.  Of three spatial axes,
the first of which have an extent of 1 where there are fewer: the images' extents, the results',
the kernels', strides, how many zeros are before and after, and dilations."""

_AXES = 3
_LEAST_AXES = 2  # of cuDNN's images

_CHANNELS_FIRST = 0  # cudnnTensorFormat_t
_CROSS_CORRELATION = 1  # cudnnConvolutionMode_t
_OF_WINDOWS = frozenset({0, 1, 2, 3})
"""Of ``cudnnConvolutionFwdAlgo_t``: products of matrices, and sums in loops."""

_DETERMINISTIC = 1  # cudnnDeterminism_t
_ALGORITHMS = 8  # of cudnnConvolutionFwdAlgo_t

_WORKSPACE = 256 << 20
"""Bytes that a convolution may use besides its arrays."""

_PTR, _I32, _SIZE = ctypes.c_void_p, ctypes.c_int32, ctypes.c_size_t


@dataclass(frozen=True, slots=True)
class _Kind:
    """How images of a dtype are convolved: the library's numbers, and the dtype of factors."""

    number: int  # cudnnDataType_t
    computed_in: int  # cudnnDataType_t
    mathematics: int  # cudnnMathType_t
    factor: Any
    itemsize: int


_FUSED, _TENSOR_CORES = 3, 1  # cudnnMathType_t: neither converts its operands
_KINDS = {
    "float16": _Kind(2, 0, _TENSOR_CORES, ctypes.c_float, 2),
    "float32": _Kind(0, 0, _FUSED, ctypes.c_float, 4),
    "float64": _Kind(1, 1, _FUSED, ctypes.c_double, 8),
}


CONVOLUTIONS = {f"{CONVOLUTION}{dtype}": f"jc_cuda_convolve_{dtype}" for dtype in _KINDS}
"""The native functions, by the names that lowering gives their calls."""


class _Measured(ctypes.Structure):
    """``cudnnConvolutionFwdAlgoPerf_t``."""

    _fields_ = (
        ("algorithm", _I32),
        ("status", _I32),
        ("time", ctypes.c_float),
        ("workspace", _SIZE),
        ("determinism", _I32),
        ("mathematics", _I32),
        ("reserved", _I32 * 3),
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """How convolutions of one shape are done; the library's objects are kept for good."""

    images: Any
    kernels: Any
    convolution: Any
    results: Any
    algorithm: int
    workspace: int

    @property
    def described(self) -> tuple[Any, Any, Any, Any]:
        """The four descriptors, in the order in which the library asks for them."""
        return self.images, self.kernels, self.convolution, self.results


class Cudnn(Library):
    """The library."""

    def __init__(self, library: Any, name: str) -> None:
        super().__init__(library, name)
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def _create(self, handle: Any) -> int:
        status: int = self._library.cudnnCreate(ctypes.byref(handle))
        return status

    def convolve(self, dtype: str, memory: Sequence[int], shape: Sequence[int]) -> int:
        """Convolve on the running call's stream and the thread's current device.

        Parameters
        ----------
        dtype : str
        memory : sequence of int
            Three addresses.
        shape : sequence of int
            The numbers that `CONVOLUTION_PARAMETERS` lists behind these.
        """
        device = driver.current().device()
        handle = self._handle(device)
        key = (device, dtype, *shape)
        if key not in self._plans:
            self._plans[key] = self._planned(handle, dtype, shape)
        plan = self._plans[key]
        if plan is None:
            return NOT_TAKEN
        call = calls.running_call()
        self._check(self._library.cudnnSetStream(handle, _PTR(call.stream)))
        # What comes later on the stream may have the memory, as all temporaries.
        place, _owner = call.allocator.block(plan.workspace) if plan.workspace else (0, None)
        images, kernels, results = map(_PTR, memory)
        one, zero = _KINDS[dtype].factor(1), _KINDS[dtype].factor(0)
        status = self._library.cudnnConvolutionForward(
            handle,
            ctypes.byref(one),
            *(plan.images, images, plan.kernels, kernels, plan.convolution),
            *(_I32(plan.algorithm), _PTR(place), _SIZE(plan.workspace)),
            ctypes.byref(zero),
            *(plan.results, results),
        )
        if _is_refusal(status):
            return NOT_TAKEN
        self._check(status)
        return DONE

    def _planned(self, handle: Any, dtype: str, shape: Sequence[int]) -> _Plan | None:
        """How the library does convolutions of a shape; None where it does not."""
        kind, (batch, channels, columns, groups, axes) = _KINDS[dtype], shape[:5]
        unused = _AXES - max(axes, _LEAST_AXES)
        # The lists are those of `CONVOLUTION_PARAMETERS`, one number for each axis.
        extents, positions, taps, strides, zeros, dilations = (
            shape[start + unused : start + _AXES] for start in range(5, len(shape), _AXES)
        )
        images, results = (batch, channels, *extents), (batch, columns, *positions)
        kernels = (columns, channels // groups, *taps)
        arrays = map(math.prod, (images, results, kernels))
        if not all(0 < one <= LARGEST for one in (*arrays, *strides, *dilations)):
            return None
        moves = (_numbers(one) for one in (zeros, strides, dilations))
        numbers = _I32(kind.number)
        described = (
            self._made("Tensor", "TensorNd", numbers, *_laid_out(images)),
            self._made(
                "Filter",
                "FilterNd",
                *(numbers, _I32(_CHANNELS_FIRST), _I32(len(kernels)), _numbers(kernels)),
            ),
            self._made(
                "Convolution",
                "ConvolutionNd",
                *(_I32(len(taps)), *moves, _I32(_CROSS_CORRELATION), _I32(kind.computed_in)),
            ),
            self._made("Tensor", "TensorNd", numbers, *_laid_out(results)),
        )
        if None in described:
            return None
        convolution = described[2]
        self._check(self._library.cudnnSetConvolutionMathType(convolution, _I32(kind.mathematics)))
        self._check(self._library.cudnnSetConvolutionGroupCount(convolution, _I32(groups)))
        return self._chosen(handle, described, f"{dtype} convolution of {images} by {kernels}")

    def _chosen(self, handle: Any, described: tuple[Any, ...], what: str) -> _Plan | None:
        """The first of the library's proposals that adds up the products of a window."""
        found, measured = _I32(), (_Measured * _ALGORITHMS)()
        status = self._library.cudnnGetConvolutionForwardAlgorithm_v7(
            handle, *described, _I32(_ALGORITHMS), ctypes.byref(found), measured
        )
        for one in measured[: found.value] if not status else ():
            size = _SIZE()
            if one.status or one.algorithm not in _OF_WINDOWS:
                continue
            # The proposal may have been made for other mathematics than the convolution's.
            status = self._library.cudnnGetConvolutionForwardWorkspaceSize(
                handle, *described, _I32(one.algorithm), ctypes.byref(size)
            )
            is_small = not status and size.value <= _WORKSPACE
            if is_small and one.determinism == _DETERMINISTIC:
                images, kernels, convolution, results = described
                return _Plan(images, kernels, convolution, results, one.algorithm, size.value)
        log.debug("cuda", f"{self.name} has no {what}: status {status}")
        return None

    def _made(self, what: str, fields: str, *args: Any) -> Any:
        """A new descriptor; None where the library does not take what it would describe."""
        made = _PTR()
        create = getattr(self._library, f"cudnnCreate{what}Descriptor")
        self._check(create(ctypes.byref(made)))
        status = getattr(self._library, f"cudnnSet{fields}Descriptor")(made, *args)
        if _is_refusal(status):
            log.debug("cuda", f"{self.name} describes no such {what}: status {status}")
            return None
        self._check(status)
        return made

    def _check(self, status: int) -> None:
        if status:
            raise driver.DriverError(f"{self.name} failed with status {status} in a convolution")


def _is_refusal(status: int) -> bool:
    """Whether ``cudnnStatus_t`` says of well-formed arrays that it does nothing with such ones.

    These are all kinds of bad parameters, and of what is not supported.
    """
    return 2000 <= status < 4000


def _numbers(values: Sequence[int]) -> Any:
    """An array of C's integers."""
    return (_I32 * len(values))(*values)


def _laid_out(shape: Sequence[int]) -> tuple[Any, Any, Any]:
    """The rank, extents and strides of an array in C order."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return _I32(len(shape)), _numbers(shape), _numbers(strides[::-1])


_VENDOR = Vendor("cudnn", "cuDNN", Cudnn, versions=(9,))
use, available = _VENDOR.use, _VENDOR.available


def _function(dtype: str) -> Callable[..., int]:
    size = _KINDS[dtype].itemsize

    def convolve(library: Cudnn, values: list[int]) -> int:
        starts = zip(values[:6:2], values[1:6:2], strict=True)
        memory = [address + start * size for address, start in starts]
        return library.convolve(dtype, memory, values[6:])

    return _VENDOR.function(convolve)


for _dtype in _KINDS:
    _symbol = CONVOLUTIONS[f"{CONVOLUTION}{_dtype}"]
    add_function(_symbol, CONVOLUTION_PARAMETERS, _function(_dtype))
