"""Histograms, as NumPy's own algorithm counts them (``lib/_histograms_impl.py``)."""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, tensor
from jitcore.ir.ops.searching import summed_by_place
from jitcore.ir.ops.shaping import rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.types import FLOAT, INT, TensorType, TupleType

__all__ = ["OPS"]

_DOUBLE = np.dtype(np.float64)
_LONG = np.dtype(np.int64)

_BLOCK = 65536
"""NumPy adds up the weights of so many elements before it adds them to the histogram."""


def _outer_edges(a: Any, low: Any, high: Any) -> Any:
    """The least and the greatest number that are counted."""
    if low is None:
        least, greatest = a.min(), a.max()
        finite = np.isfinite(least) and np.isfinite(greatest)
        require(finite, "ValueError", "autodetected range is not finite")
        return least, greatest
    require(not low > high, "ValueError", "max must be larger than min in range parameter.")
    finite = np.isfinite(low) and np.isfinite(high)
    require(finite, "ValueError", "supplied range is not finite")
    return low, high


def _distance(least: Any, greatest: Any) -> Any:
    """How far two numbers of one type are apart: exact, where no float holds these integers."""
    if isinstance(least, np.signedinteger):
        return np.float64(greatest.astype(np.uint64) - least.astype(np.uint64))
    return greatest - least if isinstance(least, np.number) else np.float64(greatest - least)


def _edge(number: Any, first: Any, last: Any, bins: Any, dtype: Any) -> Any:
    """What ``np.linspace(first, last, bins + 1, dtype=dtype)`` has at a place."""
    step = _distance(first, last) / bins
    line = number.astype(step.dtype) * step + first
    return np.where(number == bins, last, line).astype(dtype, copy=False)


def _places(x: Any, kept: Any, first: Any, last: Any, width: Any, bins: Any) -> Any:
    """The number of the bin of each element; those not kept have one behind the last.

    Edges are computed where they are needed: that is less work than to gather them.
    """
    guess = np.clip(((x - first) / width * bins).astype(np.intp), 0, bins - 1)
    # Rounding may lead to a neighbour of the right bin.
    guess = guess - (x < _edge(guess, first, last, bins, x.dtype))
    is_above = x >= _edge(guess + 1, first, last, bins, x.dtype)
    guess = guess + (is_above & (guess != bins - 1))
    return np.where(kept, guess, bins)


def _kept(x: Any, least: Any, greatest: Any, first: Any, last: Any) -> Any:
    """Which elements count.  Integers are compared as such: no float holds all of them."""
    if x.dtype.kind == "i":
        return (x >= least) & (x <= greatest)
    return (x >= first) & (x <= last)


def _counted(
    a: Any, weights: Any, bins: Any, low: Any, high: Any, dtype: Any, on_device: Any
) -> Any:
    require(bins >= 1, "ValueError", "`bins` must be positive, when an integer")
    counts = np.zeros(bins + 1, np.intp if weights is None else weights.dtype)
    if low is None and a.size == 0:
        return counts[:bins].copy(), np.linspace(0, 1, bins + 1).astype(dtype, copy=False)
    least, greatest = _outer_edges(a, low, high)
    first, last, width = least * 1.0, greatest * 1.0, _distance(least, greatest)
    if least == greatest:
        first, last = first - 0.5, last + 0.5
        width = _distance(first, last)
    edges = np.linspace(first, last, bins + 1).astype(dtype, copy=False)
    increasing = not np.any(edges[:-1] >= edges[1:])
    require(increasing, "ValueError", "Too many bins for data range.")
    # A device counts all elements at once.
    length = 2**62 if on_device else _BLOCK
    for start in range(0, a.size, length):
        block = a[start : start + length]
        kept = _kept(block, least, greatest, first, last)
        places = _places(block.astype(dtype, copy=False), kept, first, last, width, bins)
        if weights is None:
            for number in range(places.size):
                counts[places[number]] += 1
        elif on_device:
            counts[:bins] = summed_by_place(places, weights, bins).astype(counts.dtype)
        else:
            parts = np.zeros(bins + 1)
            for number in range(places.size):
                parts[places[number]] += weights[start + number]
            counts += parts.astype(counts.dtype)
    return counts[:bins].copy(), edges


def _densities(
    a: Any, weights: Any, bins: Any, low: Any, high: Any, dtype: Any, on_device: Any
) -> Any:
    counts, edges = _counted(a, weights, bins, low, high, dtype, on_device)
    return counts / np.diff(edges).astype(np.float64) / counts.sum(), edges


def _counted_between(a: Any, edges: Any) -> Any:
    """Bins with edges of any distance, for devices; the last one has its second edge, too."""
    falls = np.any(edges[:-1] > edges[1:])
    require(not falls, "ValueError", "`bins` must increase monotonically, when an array")
    known = not np.any(edges != edges)
    require(known, "NotImplementedError", "np.histogram on a device between edges that are NaN")
    places = np.searchsorted(edges, a, "right")
    found = np.zeros(edges.size + 1, np.intp)
    for number in range(places.size):
        found[places[number]] += 1
    counts = found[1 : edges.size].copy()
    if edges.size > 1:
        counts[-1] += np.count_nonzero(a == edges[-1])
    return counts, edges


def _densities_between(a: Any, edges: Any) -> Any:
    counts, _ = _counted_between(a, edges)
    return counts / np.diff(edges).astype(np.float64) / counts.sum(), edges


def _histogram_rule(b: Builder, call: Call) -> Value:
    a, weights = as_array(b, call.value("a")), call.optional("weights")
    bins = call.bound.get("bins", b.constant(10))
    if isinstance(bins, Value) and isinstance(bins.type, TensorType) and rank_of(bins) == 1:
        return _between_rule(b, call, a, bins)
    if not isinstance(bins, Value) or bins.type != INT:
        raise Untypable("np.histogram with bins that are no int")
    low, high = _range(b, call)
    kind = _counted_dtype(a)
    if kind.kind in "iu":
        a = cast_to(b, a, _LONG)
    if weights is not None:
        weights = _weights(b, a, as_array(b, weights))
    dtype = kind if kind.kind == "f" else _DOUBLE
    definition = _densities if call.static("density") else _counted
    on_device = b.constant(b.is_for_device)
    return b.define(definition, _flat(b, a), weights, bins, low, high, dtype, on_device)


def _between_rule(b: Builder, call: Call, a: Value, edges: Value) -> Value:
    if not b.is_for_device:
        raise Untypable("np.histogram between edges, which NumPy finds in what it has sorted")
    if call.optional("weights") is not None or call.optional("range") is not None:
        raise Untypable("np.histogram between edges with weights or a range")
    for one in (a, edges):
        _counted_dtype(one)
    definition = _densities_between if call.static("density") else _counted_between
    return b.define(definition, _flat(b, a), edges)


def _counted_dtype(a: Value) -> np.dtype[Any]:
    dtype = tensor(a).dtype
    if dtype is None or not (dtype.name in ("float32", "float64") or dtype.kind in "iu"):
        raise Untypable(f"np.histogram of {dtype}")
    if dtype == np.uint64:
        raise Untypable("np.histogram of uint64")
    return dtype


def _flat(b: Builder, x: Value) -> Value:
    return x if rank_of(x) == 1 else b.op("np::ravel", x)


def _range(b: Builder, call: Call) -> tuple[Value | None, Value | None]:
    """The ends of the argument ``range``, as Python numbers."""
    given = call.optional("range")
    if given is None:
        return None, None
    if not isinstance(given.type, TupleType) or len(given.type.elements) != 2:
        raise Untypable("np.histogram in a range that is no pair")
    low, high = b.elements(given)
    if any(end.type not in (INT, FLOAT) for end in (low, high)):
        raise Untypable("np.histogram in a range of something else than Python numbers")
    return low, high


def _weights(b: Builder, a: Value, weights: Value) -> Value:
    dtype = tensor(weights).dtype
    if dtype is None or dtype.kind not in "iuf":
        raise Untypable(f"np.histogram with weights of {dtype}")
    if rank_of(weights) != rank_of(a):
        raise Untypable("np.histogram with weights of another rank")
    for axis in range(rank_of(a)):
        same = b.op("prim::eq", b.size(a, axis), b.size(weights, axis))
        b.op("prim::require", same, exception="ValueError", message=_SHAPES_DIFFER)
    return _flat(b, weights)


_SHAPES_DIFFER = "weights should have the same shape as a."

OPS: tuple[Op, ...] = (
    row(
        "histogram",
        np.histogram,
        _histogram_rule,
        "a, bins=10, range=None, density=None, weights=None",
        "How many elements there are in each of several bins.",
    ),
)
