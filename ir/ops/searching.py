"""Places of elements: nonzero and its kin, searchsorted, digitize, bincount, interp.

The searches go the same way as NumPy's own (``npysort/binsearch.cpp`` and ``compiled_base.c``), so
that they end at the same place in arrays that are not sorted, too.  `independent_searches` has
those for devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array, default_dtype
from jitcore.ir.ops.elementwise import cast_to, in_array
from jitcore.ir.ops.independent_searches import (
    digitized,
    first_above,
    first_not_below,
    interpolated,
)
from jitcore.ir.ops.op import (
    Builder,
    Call,
    Op,
    Rule,
    Untypable,
    common_dtype,
    tensor,
    tensor_dtype,
)
from jitcore.ir.ops.shaping import array_operand, rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.types import (
    FLOAT,
    INT,
    SUPPORTED,
    ListType,
    TupleType,
    is_scalar_tensor,
)

__all__ = ["OPS", "summed_by_place"]

_DOUBLE = np.dtype(np.float64)


# Where something is -----------------------------------------------------------------------


def _flat_places(x: Any) -> Any:
    flat = x.ravel()
    found = np.empty(np.count_nonzero(flat), np.intp)
    place = count = 0
    # Every place is written, and written over where nothing is: that needs no branch.
    while count < found.size:
        found[count] = place
        count += int(flat[place] != 0)
        place += 1
    return found


def _places_in_matrix(x: Any) -> Any:
    # As in NumPy, what is returned are the columns of an array.
    places = np.empty((np.count_nonzero(x) + 1, 2), np.intp)
    count = 0
    for first in range(x.shape[0]):
        for second in range(x.shape[1]):
            places[count, 0] = first
            places[count, 1] = second
            count += int(x[first, second] != 0)
    return places[:-1, 0], places[:-1, 1]


def _places_in_stack(x: Any) -> Any:
    places = np.empty((np.count_nonzero(x) + 1, 3), np.intp)
    count = 0
    for first in range(x.shape[0]):
        for second in range(x.shape[1]):
            for third in range(x.shape[2]):
                places[count, 0] = first
                places[count, 1] = second
                places[count, 2] = third
                count += int(x[first, second, third] != 0)
    return places[:-1, 0], places[:-1, 1], places[:-1, 2]


def _flatnonzero_rule(b: Builder, call: Call) -> Value:
    return b.define(_flat_places, array_operand(call.value("a")))


def _nonzero_rule(b: Builder, call: Call) -> Value:
    return b.make_tuple(_places(b, array_operand(call.value("a"))))


def _places(b: Builder, x: Value) -> list[Value]:
    """One array of places for each axis."""
    rank = rank_of(x)
    if rank == 1:
        return [b.define(_flat_places, x)]
    if rank not in (2, 3):
        raise Untypable(f"np.nonzero of an array of {rank} dimensions")
    return b.elements(b.define(_places_in_matrix if rank == 2 else _places_in_stack, x))


def _argwhere_rule(b: Builder, call: Call) -> Value:
    rows = [
        b.op("np::view", one, index="None, :") for one in _places(b, array_operand(call.value("a")))
    ]
    # As in NumPy, the numbers along one axis lie together.
    return b.op("np::transpose", b.op("np::concatenate", *rows, axis=0))


# Sorted arrays ----------------------------------------------------------------------------


def _precedes(x: Any, y: Any) -> Any:
    """The order of sorted arrays, in which NaN come last."""
    return x < y or (y != y and x == x)


def _first_not_below(array: Any, wanted: Any) -> Any:
    found = np.empty(wanted.shape, np.intp)
    places, keys = found.reshape(-1), wanted.ravel()
    low, high = 0, array.size
    for number in range(keys.size):
        key = keys[number]
        if _precedes(keys[max(number - 1, 0)], key):
            high = array.size
        else:
            low = 0
            high = min(high + 1, array.size)
        while low < high:
            middle = low + (high - low) // 2
            if _precedes(array[middle], key):
                low = middle + 1
            else:
                high = middle
        places[number] = low
    return found


def _first_above(array: Any, wanted: Any) -> Any:
    found = np.empty(wanted.shape, np.intp)
    places, keys = found.reshape(-1), wanted.ravel()
    low, high = 0, array.size
    for number in range(keys.size):
        key = keys[number]
        if not _precedes(key, keys[max(number - 1, 0)]):
            high = array.size
        else:
            low = 0
            high = min(high + 1, array.size)
        while low < high:
            middle = low + (high - low) // 2
            if not _precedes(key, array[middle]):
                low = middle + 1
            else:
                high = middle
        places[number] = low
    return found


def _by_threads(b: Builder) -> bool:
    """Whether each key is looked for by itself, and Python starts anew in unsorted arrays."""
    return b.is_for_device and b.is_native


def _search(b: Builder, array: Value, keys: Value, side: Any) -> Value:
    """``np.searchsorted`` of one dtype; the keys may have any shape."""
    if side not in ("left", "right"):
        raise Untypable("np.searchsorted on a side that is not known")
    in_turn = {"left": _first_not_below, "right": _first_above}
    apart = {"left": first_not_below, "right": first_above}
    definition = (apart if _by_threads(b) else in_turn)[side]
    found = b.define(definition, array, _with_axis(b, keys))
    return found if tensor(keys).dims else _only(b, found)


def _with_axis(b: Builder, value: Value) -> Value:
    """A vector of one element where there is no axis."""
    type_ = tensor(value)
    if type_.scalar:
        return b.op("np::full", value, 1, dtype=type_.dtype)
    return value if type_.dims else b.op("np::view", value, index="None")


def _only(b: Builder, value: Value) -> Value:
    return b.op("np::item", b.op("np::view", value, index="0"))


def _searchsorted_rule(b: Builder, call: Call) -> Value:
    array, keys = as_array(b, call.value("a")), call.value("v")
    if isinstance(keys.type, (TupleType, ListType)):
        keys = as_array(b, keys)
    if rank_of(array) != 1:
        raise Untypable("np.searchsorted in something else than a vector")
    return _search(b, *_of_one_dtype(b, array, keys), call.static("side"))


def _of_one_dtype(b: Builder, array: Value, keys: Value) -> tuple[Value, Value]:
    dtype = tensor(array).dtype
    assert dtype is not None
    common = common_dtype(dtype, default_dtype(keys))
    if common.char not in SUPPORTED or common.kind == "c":
        raise Untypable(f"np.searchsorted in {common}")
    return cast_to(b, array, common), cast_to(b, keys, common)


def _direction(bins: Any) -> Any:
    """1 where the bins increase, -1 where they decrease."""
    first = 1
    while first < bins.size and bins[first] == bins[first - 1]:
        first += 1
    if first >= bins.size:
        return 1
    sign = 1 if bins[first - 1] < bins[first] else -1
    for number in range(first + 1, bins.size):
        turns = bins[number - 1] > bins[number] if sign > 0 else bins[number - 1] < bins[number]
        require(not turns, "ValueError", "bins must be monotonically increasing or decreasing")
    return sign


def _digitized(x: Any, bins: Any, doubles: Any, side: Any) -> Any:
    if _direction(doubles) > 0:
        return np.searchsorted(bins, x, side)
    return len(bins) - np.searchsorted(bins[::-1], x, side)


def _digitize_rule(b: Builder, call: Call) -> Value:
    x, bins = in_array(b, call.value("x")), as_array(b, call.value("bins"))
    if rank_of(bins) != 1 or "c" in (tensor_dtype(bins).kind, default_dtype(x).kind):
        raise Untypable("np.digitize of complex numbers, or in a matrix of bins")
    side = "left" if call.static("right") else "right"
    definition = digitized if _by_threads(b) else _digitized
    return b.define(definition, x, bins, cast_to(b, bins, _DOUBLE), side)


# Counting and interpolation ---------------------------------------------------------------


def _extent_of_counts(x: Any, minlength: Any) -> Any:
    require(minlength >= 0, "ValueError", "'minlength' must not be negative")
    if x.size == 0:
        return minlength
    require(x.min() >= 0, "ValueError", "'list' argument must have no negative elements")
    return max(int(x.max()) + 1, minlength)


def _counts(x: Any, minlength: Any) -> Any:
    counts = np.zeros(_extent_of_counts(x, minlength), np.intp)
    for number in range(x.size):
        counts[x[number]] += 1
    return counts


MOST_SUMMED = 4096
"""Places of sums on a device, each of which looks at all elements."""


def summed_by_place(places: Any, weights: Any, count: Any) -> Any:
    """What is added up at each of so many places, for devices: always in the same order."""
    require(
        count <= MOST_SUMMED, "NotImplementedError", "sums at more than 4096 places on a device"
    )
    numbers = np.arange(count)
    return np.where(places == numbers[:, None], weights, 0.0).sum(axis=1)


def _require_elements(x: Any) -> None:
    """Leave what has no elements to NumPy: it does not look at weights then, and counts ints."""
    require(x.size > 0, "NotImplementedError", "counts of no elements, whatever weights they have")


def _weighted_counts_on_device(x: Any, weights: Any, minlength: Any) -> Any:
    size = _extent_of_counts(x, minlength)
    require(
        x.size == weights.size, "ValueError", "The weights and list don't have the same length."
    )
    return summed_by_place(x, weights, size)


def _weighted_counts(x: Any, weights: Any, minlength: Any) -> Any:
    size = _extent_of_counts(x, minlength)
    require(
        x.size == weights.size, "ValueError", "The weights and list don't have the same length."
    )
    counts = np.zeros(size)
    for number in range(x.size):
        counts[x[number]] += weights[number]
    return counts


def _bincount_rule(b: Builder, call: Call) -> Value:
    x, weights = array_operand(call.value("x")), call.optional("weights")
    dtype = tensor(x).dtype
    if rank_of(x) != 1 or dtype is None or not np.can_cast(dtype, np.intp, "safe"):
        raise Untypable("np.bincount of something else than a vector of integers")
    x = cast_to(b, x, np.dtype(np.intp))
    minlength = call.bound.get("minlength", 0)
    if isinstance(minlength, Value) and minlength.type != INT:
        raise Untypable("np.bincount with a minlength that is no int")
    (extent,) = tensor(x).dims or (None,)
    if weights is None or extent == 0:
        return b.define(_counts, x, minlength)
    kind = tensor(array_operand(weights)).dtype
    if rank_of(weights) != 1 or kind is None or not np.can_cast(kind, _DOUBLE, "safe"):
        raise Untypable("np.bincount with weights that are no vector of floats")
    if not isinstance(extent, int):
        if not b.is_native:
            raise Untypable("np.bincount with weights of what may have no elements")
        b.define(_require_elements, x)
    definition = _weighted_counts_on_device if b.is_for_device else _weighted_counts
    return b.define(definition, x, cast_to(b, weights, _DOUBLE), minlength)


_NEAR = 8


def _interval(key: Any, array: Any, guess: Any) -> Any:
    """The number of the last sample that is not above a key, -1 before all, the length after."""
    size = len(array)
    if key > array[size - 1]:
        return size
    if key < array[0]:
        return -1
    if size <= 4:
        place = 1
        while place < size and key >= array[place]:
            place += 1
        return place - 1
    guess = max(min(guess, size - 3), 1)
    return _before(key, array, guess) if key < array[guess] else _after(key, array, guess)


def _before(key: Any, array: Any, guess: Any) -> Any:
    # Not the same as >=, for samples that are NaN.
    if not key < array[guess - 1]:
        return guess - 1
    low = guess - _NEAR if guess > _NEAR and key >= array[guess - _NEAR] else 0
    return _bisected(key, array, low, guess - 1)


def _after(key: Any, array: Any, guess: Any) -> Any:
    size = len(array)
    if key < array[guess + 1]:
        return guess
    if key < array[guess + 2]:
        return guess + 1
    near = guess < size - _NEAR - 1 and key < array[guess + _NEAR]
    return _bisected(key, array, guess + 2, guess + _NEAR if near else size)


def _bisected(key: Any, array: Any, low: Any, high: Any) -> Any:
    while low < high:
        middle = low + (high - low) // 2
        if key >= array[middle]:
            low = middle + 1
        else:
            high = middle
    return low - 1


def _interpolated(wanted: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    size = len(xp)
    require(size == len(fp), "ValueError", "fp and xp are not of the same length.")
    require(size > 0, "ValueError", "array of sample points is empty")
    found = np.empty(wanted.shape)
    values, keys = found.reshape(-1), wanted.ravel()
    before = fp[0] if left is None else left
    after = fp[size - 1] if right is None else right
    place = 0
    for number in range(keys.size):
        key = keys[number]
        if key != key:
            values[number] = fp[0] if size == 1 else key
            continue
        place = _interval(key, xp, place)
        if place < 0:
            values[number] = before
        elif place >= size:
            values[number] = after
        elif place == size - 1 or xp[place] == key:
            values[number] = fp[place]
        else:
            slope = (fp[place + 1] - fp[place]) / (xp[place + 1] - xp[place])
            value = slope * (key - xp[place]) + fp[place]
            if value != value:
                value = slope * (key - xp[place + 1]) + fp[place + 1]
                if value != value and fp[place] == fp[place + 1]:
                    value = fp[place]
            values[number] = value
    return found


def _doubles(b: Builder, value: Value, rank: int | None = None) -> Value:
    dtype = tensor(value).dtype
    if dtype is None or not np.can_cast(dtype, _DOUBLE, "safe"):
        raise Untypable(f"np.interp of {dtype}")
    if rank is not None and rank_of(array_operand(value)) != rank:
        raise Untypable("np.interp between something else than vectors")
    return cast_to(b, value, _DOUBLE)


def _interp_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    x = cast_to(b, x, _DOUBLE) if x.type in (INT, FLOAT) else _doubles(b, x)
    xp, fp = (_doubles(b, as_array(b, call.value(name)), 1) for name in ("xp", "fp"))
    ends: list[Any] = []
    for name in ("left", "right"):
        end = call.optional(name)
        if end is not None and not (end.type in (INT, FLOAT) or is_scalar_tensor(end.type)):
            raise Untypable(f"np.interp with a {name} that is no number")
        ends.append(None if end is None else cast_to(b, end, _DOUBLE))
    definition = interpolated if _by_threads(b) else _interpolated
    found = b.define(definition, _with_axis(b, x), xp, fp, *ends)
    return found if tensor(x).dims else _only(b, found)


def _search_row(name: str, rule: Rule, parameters: str, doc: str, **more: Any) -> Op:
    return row(name, getattr(np, name), rule, parameters, doc, **more)


OPS: tuple[Op, ...] = (
    _search_row("flatnonzero", _flatnonzero_rule, "a", "The places of what is not zero."),
    _search_row(
        "nonzero",
        _nonzero_rule,
        "a",
        "The places of what is not zero, one array for each axis.",
        methods={"nonzero": None},
    ),
    _search_row("argwhere", _argwhere_rule, "a", "The places of what is not zero, as rows."),
    _search_row(
        "searchsorted",
        _searchsorted_rule,
        "a, v, side='left', sorter!=None",
        "Where elements belong in a sorted array.",
        methods={"searchsorted": None},
    ),
    _search_row(
        "digitize", _digitize_rule, "x, bins, right=False", "The numbers of the bins of elements."
    ),
    _search_row(
        "bincount",
        _bincount_rule,
        "x, weights=None, minlength=0",
        "How often each number occurs.",
    ),
    _search_row(
        "interp",
        _interp_rule,
        "x, xp, fp, left=None, right=None, period!=None",
        "Linear interpolation between samples.",
    ),
)
