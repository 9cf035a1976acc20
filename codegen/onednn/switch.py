"""`enable_onednn_fusion`: whether functions that are compiled from now on use oneDNN."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["enable_onednn_fusion", "onednn_fusion_enabled"]

_enabled = False


def onednn_fusion_enabled() -> bool:
    """Whether functions that are compiled from now on use oneDNN.

    Returns
    -------
    bool
    """
    return _enabled


def enable_onednn_fusion(enabled: bool) -> None:
    """Let oneDNN compute layers in float32, or stop that.

    Convolutions, transposed ones among them, linear maps with packed weights, pooling and large
    products of matrices become groups together with the elementwise operations between them.
    oneDNN chooses the formats of their arrays, which are kept from one to the next, and what it
    computes differs from NumPy in the last digits.  Calls with numbers that are NaN, infinite, or
    larger than 2**24 run jitcore's own kernels.  `explain` says which groups there are and what
    ran.

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
    # Each process asks whether it is on, and few turn it on.
    api: Any = import_module("jitcore.codegen.onednn.library")
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
