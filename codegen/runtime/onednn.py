"""Products by oneDNN, where that is enabled and installed; see `enable_onednn_fusion`.

Compiled code calls ``jc_onednn_product`` with the arguments of the kernel of our own
(``kernels.products``).  A primitive is made for each geometry and kept.  What oneDNN has no
primitive for, our kernel computes, and so does the child of a fork, where OpenMP has no threads.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jitcore.codegen.engine import add_maker, add_symbol
from jitcore.codegen.kernels import products
from jitcore.codegen.kernels.tiles import lanes_of
from jitcore.codegen.runtime import onednn_library as api
from jitcore.codegen.runtime.threads import get_num_threads

__all__ = ["enable_onednn_fusion", "onednn_fusion_enabled", "product_symbol"]

_ARRAYS = 5
_NUMBERS = 6 + 18
_SIGNATURE = ctypes.CFUNCTYPE(
    None,
    *(ctypes.c_void_p, ctypes.c_int64) * _ARRAYS,
    *(ctypes.c_int64,) * _NUMBERS,
    ctypes.c_float,
    ctypes.c_float,
)
"""What a kernel for products takes, as ``kernels.products`` says."""

_lock = threading.RLock()
_enabled = False
_is_child = False


def onednn_fusion_enabled() -> bool:
    """Whether functions that are compiled from now on use oneDNN.

    Returns
    -------
    bool
    """
    return _enabled


def enable_onednn_fusion(enabled: bool) -> None:
    """Let oneDNN compute convolutions and packed linear layers in float32, or stop that.

    It is off by default: the kernels of our own are as fast on the processors that we know, and
    need no other library.  Functions that are compiled already stay as they are.

    Parameters
    ----------
    enabled : bool

    Raises
    ------
    RuntimeError
        oneDNN is not installed: ``pip install "jitcore[onednn]"``; or it cannot be loaded.

    Examples
    --------
    >>> from jitcore import enable_onednn_fusion, onednn_fusion_enabled
    >>> enable_onednn_fusion(False)
    >>> onednn_fusion_enabled()
    False
    """
    global _enabled
    path = api.find_library() if enabled else None
    if enabled and path is None:
        raise RuntimeError(
            'oneDNN is not installed: pip install "jitcore[onednn]", or do without it, which is '
            "the default"
        )
    if path is not None:
        try:
            api.load(path)
        except (OSError, api.LibraryError) as error:
            raise RuntimeError(f"oneDNN cannot be loaded: {error}") from error
    _enabled = bool(enabled)


def product_symbol(vectors: int) -> str:
    """The name of the function for float32 products with panels of so many vectors."""
    return f"jc_onednn_product_{vectors}"


@dataclass(frozen=True, slots=True)
class _Case:
    """What a primitive is made for."""

    numbers: tuple[int, ...]
    has_bias: bool
    has_residual: bool
    width: int


@dataclass(slots=True)
class _Plan:
    """A primitive, and what brings the weights into its format where that is not ours."""

    convolution: api.Primitive
    reorder: api.Primitive | None
    buffer: Any


_plans: dict[_Case, _Plan | None] = {}


def _make(vectors: int) -> None:
    """Add the symbol: a function that calls oneDNN, or our own kernel."""
    products.compiled("float32", vectors)
    own = _SIGNATURE(products.compiled("float32", vectors).address(_own_symbol(vectors)))
    width = vectors * lanes_of("float32").count

    def product(*args: Any) -> None:
        try:
            done = _run(args, width)
        except (OSError, MemoryError, api.LibraryError):
            done = False  # an exception cannot leave a callback; our kernel writes all anew
        if not done:
            own(*args)

    callback = _SIGNATURE(product)
    _callbacks.append(callback)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    add_symbol(product_symbol(vectors), address)


_callbacks: list[Any] = []
"""They live as long as compiled code may call them."""


def _own_symbol(vectors: int) -> str:
    return products.symbol("float32", vectors)


def _run(args: tuple[Any, ...], width: int) -> bool:
    """Compute by oneDNN; False where it cannot."""
    path = api.find_library()
    if _is_child or path is None:
        return False
    x, packed, bias, residual, out = (
        (args[2 * number] or 0) + 4 * args[2 * number + 1] if args[2 * number] else 0
        for number in range(_ARRAYS)
    )
    first = 2 * _ARRAYS
    numbers = args[first : first + _NUMBERS]
    case = _Case(numbers, bool(bias), bool(residual), width)
    with _lock:
        plan = _plan(api.load(path), case)
        if plan is None:
            return False
        weights = packed
        if plan.reorder is not None:
            weights = plan.buffer.ctypes.data
            plan.reorder({api.SOURCE: packed, api.RESULT: weights})
        addresses = {api.SOURCE: x, api.WEIGHTS: weights, api.RESULT: out}
        if bias:
            addresses[api.BIAS] = bias
        if residual:
            addresses[api.POST_OP | api.SECOND_SOURCE] = residual
        plan.convolution.library.set_threads(get_num_threads())
        plan.convolution(addresses)
    _limit(out, numbers, *args[first + _NUMBERS :])
    return True


def _limit(out: int, numbers: tuple[int, ...], low: float, high: float) -> None:
    """Limit the result; oneDNN's own operations make limits of NaN."""
    pixels, _, _, groups, columns = numbers[:5]
    memory = (ctypes.c_float * (pixels * groups * columns)).from_address(out)
    result = np.ctypeslib.as_array(memory)
    if low != -math.inf:
        np.maximum(result, np.float32(low), out=result)
    if high != math.inf:
        np.minimum(result, np.float32(high), out=result)


def _plan(library: api.Library, case: _Case) -> _Plan | None:
    if case not in _plans:
        try:
            _plans[case] = _planned(library, case)
        except (api.LibraryError, KeyError):  # no such primitive or format
            _plans[case] = None
    return _plans[case]


def _planned(library: api.Library, case: _Case) -> _Plan | None:
    pixels, channels, apart, groups, columns, _, *geometry = case.numbers
    inside, out, kernel, stride, pad, dilation = (geometry[k : k + 3] for k in range(0, 18, 3))
    if pixels == 0 or channels == 0 or columns == 0 or apart != channels * groups:
        return None
    rank = 3 if kernel[0] > 1 or inside[0] > 1 else 2
    batch = pixels // math.prod(out)
    axes = slice(3 - rank, 3)
    after = [
        (o - 1) * s + d * (k - 1) + 1 - n - p
        for n, o, k, s, p, d in zip(inside, out, kernel, stride, pad, dilation, strict=True)
    ]
    source = _images(library, batch, inside[axes], apart)
    target = _images(library, batch, out[axes], columns * groups)
    shape = [columns, channels, *kernel[axes]]
    spatial = "cde"[:rank]
    if groups > 1:
        shape = [groups, *shape]
        tag = f"aB{'def'[:rank]}c{case.width}b"
    else:
        tag = f"A{spatial}b{case.width}a"
    weights = library.tagged(shape, tag)
    wanted = library.tagged(shape, "any")
    bias = library.tagged([columns * groups], "a") if case.has_bias else None
    attribute = library.adding(target) if case.has_residual else None
    description = api.Handle()
    library.call(
        "convolution_forward_primitive_desc_create",
        ctypes.byref(description),
        library.engine,
        api.INFERENCE,
        library.algorithms["convolution_direct"],
        source,
        wanted,
        bias,
        target,
        api.dims_of(stride[axes]),
        api.dims_of([one - 1 for one in dilation[axes]]),
        api.dims_of(pad[axes]),
        api.dims_of(after[axes]),
        attribute,
    )
    chosen = library.weights_of(description)
    memories = {api.SOURCE: source, api.WEIGHTS: chosen, api.RESULT: target}
    if bias is not None:
        memories[api.BIAS] = bias
    if case.has_residual:
        memories[api.POST_OP | api.SECOND_SOURCE] = target
    convolution = api.Primitive(library, description, memories)
    if library.are_equal(chosen, weights):
        return _Plan(convolution, None, None)
    buffer = np.empty(library.size_of(chosen) // 4 + 1, np.float32)
    return _Plan(convolution, library.reorder(weights, chosen), buffer)


def _images(library: api.Library, batch: int, extents: list[int], channels: int) -> api.Handle:
    """Channels-last images."""
    dims = [batch, channels, *extents]
    strides = [math.prod(extents) * channels, 1]
    for axis in range(len(extents)):
        strides.append(math.prod(extents[axis + 1 :]) * channels)
    return library.strided(dims, strides)


def _note_fork() -> None:
    global _is_child
    _is_child = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)

for _vectors in (1, 2, 3, 4):
    add_maker(product_symbol(_vectors), partial(_make, _vectors))
