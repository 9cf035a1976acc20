"""A cuDNN without a GPU, for tests: convolutions of what lies on a `FakeDriver`."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from fake_cuda import FakeDriver

from jitcore.codegen.cuda import driver

__all__ = ["NOT_SUPPORTED", "FakeCudnn"]

_KINDS = {2: (np.float16, 0, 1), 0: (np.float32, 0, 3), 1: (np.float64, 1, 3)}
"""By the library's number of a dtype: it, the number of the dtype that sums are kept in, and that
of the only mathematics that computes with float16 by tensor cores and with others exactly."""

_HANDLE = 4711
_WORKSPACE = 1000
_BAD_PARAMETER, NOT_SUPPORTED = 2000, 3000
_WINOGRAD, _FIRST, _TOO_LARGE, _IN_ANY_ORDER, _BY_PRODUCTS = 6, 0, 2, 3, 1
_MOST_WORKSPACE = 1 << 40


@dataclass
class FakeCudnn:
    """The functions that jitcore asks for, which check what they are given.

    Attributes
    ----------
    convolutions : list of tuple
        For each convolution: the shapes of images, kernels and results, and the groups.
    chosen : int
        How often it was asked how to do one.
    stream : int or None
        The last one that was set.
    begins_with, describes_with, chooses_with, fails_with : int
        A ``cudnnStatus_t`` that handles' creation, descriptors of images, the question how to do a
        convolution, and convolutions give.
    proposes : tuple of int
        The algorithms that it proposes, the fastest first.
    """

    convolutions: list[tuple[Any, ...]] = field(default_factory=list)
    chosen: int = 0
    stream: int | None = None
    begins_with: int = 0
    describes_with: int = 0
    chooses_with: int = 0
    fails_with: int = 0
    proposes: tuple[int, ...] = (_WINOGRAD, _FIRST, _TOO_LARGE, _IN_ANY_ORDER, _BY_PRODUCTS)

    def __post_init__(self) -> None:
        self._objects: dict[int, dict[str, Any]] = {}

    def _new(self, place):
        number = 100 + len(self._objects)
        self._objects[number] = {}
        place._obj.value = number
        return 0

    cudnnCreateTensorDescriptor = _new
    cudnnCreateFilterDescriptor = _new
    cudnnCreateConvolutionDescriptor = _new

    def cudnnCreate(self, place):
        place._obj.value = _HANDLE
        return self.begins_with

    def cudnnSetStream(self, handle, stream):
        assert handle.value == _HANDLE
        self.stream = stream.value or 0
        return 0

    def cudnnSetTensorNdDescriptor(self, made, kind, rank, extents, strides):
        assert len(extents) == len(strides) == rank.value in (4, 5)
        if min(extents) < 1:
            return _BAD_PARAMETER
        fields = {"kind": kind.value, "shape": tuple(extents), "strides": tuple(strides)}
        self._objects[made.value].update(fields)
        return self.describes_with

    def cudnnSetFilterNdDescriptor(self, made, kind, order, rank, extents):
        assert len(extents) == rank.value in (4, 5) and order.value == 0
        if min(extents) < 1:
            return _BAD_PARAMETER
        self._objects[made.value].update(kind=kind.value, shape=tuple(extents))
        return 0

    def cudnnSetConvolutionNdDescriptor(
        self, made, axes, zeros, strides, dilations, mode, computed_in
    ):
        assert len(zeros) == len(strides) == len(dilations) == axes.value in (2, 3)
        assert mode.value == 1 and min(zeros) >= 0
        if min(*strides, *dilations) < 1:
            return _BAD_PARAMETER
        numbers = list(zip(zeros, strides, dilations, strict=True))
        self._objects[made.value].update(numbers=numbers, computed_in=computed_in.value)
        return 0

    def cudnnSetConvolutionMathType(self, made, mathematics):
        self._objects[made.value]["mathematics"] = mathematics.value
        return 0

    def cudnnSetConvolutionGroupCount(self, made, groups):
        self._objects[made.value]["groups"] = groups.value
        return 0

    def cudnnGetConvolutionForwardAlgorithm_v7(
        self, handle, images, kernels, convolution, results, most, found, places
    ):
        assert handle.value == _HANDLE
        self._checked(images, kernels, convolution, results)
        self.chosen += 1
        proposed = self.proposes[: most.value]
        for place, algorithm in zip(places, proposed, strict=False):
            place.algorithm = algorithm
            place.status = NOT_SUPPORTED if algorithm == _FIRST else 0
            place.determinism = int(algorithm != _IN_ANY_ORDER)
        found._obj.value = len(proposed)
        return self.chooses_with

    def cudnnGetConvolutionForwardWorkspaceSize(
        self, handle, images, kernels, convolution, results, algorithm, size
    ):
        self._checked(images, kernels, convolution, results)
        is_large = algorithm.value == _TOO_LARGE
        size._obj.value = _MOST_WORKSPACE if is_large else _WORKSPACE
        return 0

    def _checked(self, *described):
        """The four descriptors' fields, if they are for arrays of one dtype that fit together."""
        images, kernels, convolution, results = (self._objects[one.value] for one in described)
        assert images["kind"] == kernels["kind"] == results["kind"]
        _, computed_in, mathematics = _KINDS[images["kind"]]
        assert convolution["computed_in"] == computed_in
        assert convolution["mathematics"] == mathematics
        batch, channels, *extents = images["shape"]
        columns, part, *taps = kernels["shape"]
        assert part * convolution["groups"] == channels and columns % convolution["groups"] == 0
        axes = zip(extents, taps, convolution["numbers"], strict=True)
        positions = [
            (extent + 2 * zeros - dilation * (tap - 1) - 1) // stride + 1
            for extent, tap, (zeros, stride, dilation) in axes
        ]
        assert results["shape"] == (batch, columns, *positions)
        return images, kernels, convolution, results

    def cudnnConvolutionForward(self, handle, alpha, images, x, kernels, w, convolution, *rest):
        algorithm, workspace, size, beta, results, y = rest
        assert handle.value == _HANDLE and (alpha._obj.value, beta._obj.value) == (1, 0)
        assert algorithm.value == _BY_PRODUCTS and size.value == _WORKSPACE
        of_x, of_w, form, of_y = self._checked(images, kernels, convolution, results)
        dtype, computed_in, _ = _KINDS[of_x["kind"]]
        factor = ctypes.c_double if computed_in else ctypes.c_float
        assert type(alpha._obj) is type(beta._obj) is factor
        fake = driver.current()
        assert isinstance(fake, FakeDriver)
        fake.host_address(workspace.value, size.value)
        self.convolutions.append((of_x["shape"], of_w["shape"], of_y["shape"], form["groups"]))
        if self.fails_with:
            return self.fails_with
        source = _array(fake, x.value, dtype, of_x)
        weight = _array(fake, w.value, dtype, of_w)
        target = _array(fake, y.value, dtype, of_y)

        def work() -> None:
            target[...] = _convolved(source, weight, form, computed_in)

        fake._do(work, self.stream or 0)
        return 0


def _array(fake, address, dtype, described):
    """An array of the host's memory behind the device's; kernels lie in C order."""
    shape, size = described["shape"], np.dtype(dtype).itemsize
    elements = fake.elements(address, np.dtype(dtype))
    if "strides" not in described:
        return elements[: np.prod(shape)].reshape(shape)
    strides = [step * size for step in described["strides"]]
    return np.lib.stride_tricks.as_strided(elements, shape, strides)


def _convolved(x, weight, form, computed_in):
    """The definition: a sum over the taps, each of which sees a part of the images."""
    wide = np.float64 if computed_in else np.float32
    zeros = [(0, 0), (0, 0), *((number[0], number[0]) for number in form["numbers"])]
    images = np.pad(x, zeros).astype(wide)
    groups = []
    spans = weight.shape[2:]
    parts = np.split(images, form["groups"], axis=1)
    for part, kernels in zip(parts, np.split(weight, form["groups"]), strict=True):
        total: Any = 0
        for tap in np.ndindex(*spans):
            seen = []
            axes = zip(part.shape[2:], spans, tap, form["numbers"], strict=True)
            for extent, span, place, (_, stride, dilation) in axes:
                end = extent - dilation * (span - 1 - place)
                seen.append(slice(place * dilation, end, stride))
            column: Any = kernels[:, :, *tap].astype(wide)
            total = total + np.einsum("oc,nc...->no...", column, part[:, :, *seen])
        groups.append(total)
    return np.concatenate(groups, axis=1)
