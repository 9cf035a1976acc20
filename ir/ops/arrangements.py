"""Parts and copies of arrays: take, repeat, tile, pad, meshgrid, the split family."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor, tensor_dims
from jitcore.ir.ops.shaping import array_operand, checked_axis, index_along, rank_of, row
from jitcore.ir.reference import require
from jitcore.ir.types import INT, Dim, ListType, TensorType, TupleType

__all__ = ["OPS"]


def _is_extent(value: Value) -> bool:
    """Whether a number cannot be negative: a known one, or the extent of an array."""
    if value.constant is not None:
        return bool(value.constant.attributes["value"] >= 0)
    return value.node is not None and value.node.kind == "prim::size"


def _take_rule(b: Builder, call: Call) -> Value:
    x, indices = array_operand(call.value("a")), call.value("indices")
    axis = call.static("axis")
    if axis is None:
        x, axis = b.op("np::ravel", x), 0
    axis = checked_axis(axis, rank_of(x))
    if indices.type == INT:
        taken = b.op("np::view", x, indices, index=index_along(rank_of(x), axis, "$0"))
        return b.op("np::item", taken) if rank_of(x) == 1 else b.op("np::copy", taken, order="C")
    type_ = tensor(indices)
    if type_.dtype is None or type_.dtype.kind not in "iu" or not type_.dims:
        raise Untypable("np.take of indices that are no array of integers")
    index = b.op("np::cast", indices, dtype=np.dtype(np.int64))
    # The function gives its results in C order, which indexing does not.
    return b.op("np::gather", x, index, index=index_along(rank_of(x), axis, "$0"), order="C")


def _repeated(b: Builder, x: Value, counts: Sequence[Value], *, inner: bool) -> Value:
    """Each axis repeated: its elements one after the other (``inner``), or as a whole.

    One axis of repetitions is broadcast beside each axis that has several elements and is repeated,
    and the pairs are then joined.
    """
    entries: list[str] = []
    extents: list[Value] = []
    joined: list[Value] = []
    for axis, (count, dim) in enumerate(zip(counts, tensor_dims(x), strict=True)):
        size = b.size(x, axis)
        if dim == 1 or _is_one(count):
            entries.append(":")
            joined.append(count if dim == 1 else size)
            extents.append(joined[-1])
            continue
        entries += [":", "None"] if inner else ["None", ":"]
        extents += [size, count] if inner else [count, size]
        joined.append(b.op("prim::mul", size, count))
    result = b.op("np::empty", *joined, dtype=tensor(x).dtype)
    if len(extents) == len(joined):
        b.op("np::store", result, x)
    else:
        opened = b.op("np::view", x, index=", ".join(entries))
        b.op("np::store", b.op("np::reshape", result, *extents), opened)
    return result


def _is_one(count: Value) -> bool:
    return count.constant is not None and count.constant_value == 1


def _require_count(b: Builder, count: Value) -> None:
    if not _is_extent(count):
        enough = b.op("prim::ge", count, 0)
        message = "negative dimensions are not allowed"
        b.op("prim::require", enough, exception="ValueError", message=message)


def _each_repeated(x: Any, counts: Any) -> Any:
    is_for_all = counts.size == 1
    message = "operands could not be broadcast together with shape ({},) ({},)"
    fits = is_for_all or counts.size == x.shape[0]
    require(fits, "ValueError", message, x.shape[0], counts.size)
    total = 0
    for number in range(x.shape[0]):
        count = int(counts[0 if is_for_all else number])
        is_count = is_for_all or count >= 0
        require(is_count, "ValueError", "repeats may not contain negative values.")
        total += count
    require(total >= 0, "ValueError", "negative dimensions are not allowed")
    places, place = np.empty(total, np.intp), 0
    for number in range(x.shape[0]):
        for _ in range(int(counts[0 if is_for_all else number])):
            places[place] = number
            place += 1
    return x[places]


def _repeat_each(b: Builder, x: Value, counts: Value, axis: int) -> Value:
    """A number of repetitions for each place of an axis."""
    dtype = tensor(counts).dtype
    if rank_of(counts) != 1 or axis != 0 or dtype is None or dtype.kind not in "iu":
        raise Untypable("np.repeat along another axis than the first")
    return b.define(_each_repeated, x, b.op("np::cast", counts, dtype=np.dtype(np.intp)))


def _repeat_rule(b: Builder, call: Call) -> Value:
    x, repeats = array_operand(call.value("a")), call.value("repeats")
    axis = call.static("axis")
    if axis is None:
        x, axis = b.op("np::ravel", x), 0
    axis = checked_axis(axis, rank_of(x))
    if isinstance(repeats.type, (TensorType, TupleType, ListType)):
        return _repeat_each(b, x, as_array(b, repeats), axis)
    if repeats.type != INT:
        raise Untypable(f"np.repeat by {repeats.type}")
    _require_count(b, repeats)
    counts = [repeats if number == axis else b.constant(1) for number in range(rank_of(x))]
    return _repeated(b, x, counts, inner=True)


def _tile_rule(b: Builder, call: Call) -> Value:
    x, reps = array_operand(call.value("A")), call.value("reps")
    counts = [reps] if reps.type == INT else b.elements(reps)
    if not all(count.type == INT for count in counts):
        raise Untypable("np.tile by something else than numbers")
    for count in counts:
        _require_count(b, count)
    missing = len(counts) - rank_of(x)
    if missing > 0:
        index = ", ".join(["None"] * missing + [":"] * rank_of(x))
        x = b.op("np::view", x, index=index)
    counts = [b.constant(1)] * -missing + counts
    return _repeated(b, x, counts, inner=False)


def _pad_widths(widths: Any, rank: int) -> list[tuple[int, int]]:
    try:
        pairs = np.broadcast_to(np.asarray(widths), (rank, 2)).tolist()
    except ValueError as error:
        raise Untypable(str(error)) from None
    if not all(type(one) is int and one >= 0 for pair in pairs for one in pair):
        raise Untypable("np.pad by widths that are no known numbers")
    return [(before, after) for before, after in pairs]


def _edge_places(size: Any, start: Any, stop: Any) -> Any:
    return np.clip(np.arange(start, stop), 0, size - 1)


def _wrapped_places(size: Any, start: Any, stop: Any) -> Any:
    return np.arange(start, stop) % size


def _symmetric_places(size: Any, start: Any, stop: Any) -> Any:
    places = np.arange(start, stop) % (2 * size)
    return np.where(places < size, places, 2 * size - 1 - places)


def _reflected_places(size: Any, start: Any, stop: Any) -> Any:
    period = max(2 * (size - 1), 1)
    places = np.arange(start, stop) % period
    return np.where(places < size, places, period - places)


_PLACES = {
    "edge": _edge_places,
    "wrap": _wrapped_places,
    "symmetric": _symmetric_places,
    "reflect": _reflected_places,
}


def _pad_rule(b: Builder, call: Call) -> Value:
    x, mode = as_array(b, call.value("array")), call.static("mode")
    widths = _pad_widths(call.static("pad_width"), rank_of(x))
    if not widths:
        return b.op("np::copy", x)
    if mode == "constant":
        return _framed(b, x, widths, call.static("constant_values"))
    definition = _PLACES.get(mode)
    if definition is None or call.static("constant_values") != 0:
        raise Untypable(f"np.pad in mode {mode!r}")
    for axis, width in enumerate(widths):
        if not any(width):
            continue
        some = b.op("prim::gt", b.size(x, axis), 0)
        message = f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
        b.op("prim::require", some, exception="ValueError", message=message)
    return _continued(b, x, widths, definition)


def _continued(b: Builder, x: Value, widths: Sequence[tuple[int, int]], definition: Any) -> Value:
    """A frame of the array's own elements, axis by axis; later axes take the corners."""
    extents = [
        b.op("prim::add", b.size(x, axis), before + after)
        for axis, (before, after) in enumerate(widths)
    ]
    result = b.op("np::empty", *extents, dtype=tensor(x).dtype, like=x, order="A")
    entries = [f"{before}:-{after}" if after else f"{before}:" for before, after in widths]
    b.op("np::store", b.op("np::view", result, index=", ".join(entries)), x)
    for axis, (before, after) in enumerate(widths):
        size = b.size(x, axis)
        done, later = [":"] * axis, entries[axis + 1 :]
        inside = b.op("np::view", result, index=", ".join([*done, entries[axis], *later]))
        for entry, start, stop in (
            (f":{before}", b.constant(-before), b.constant(0)),
            (f"-{after}:", size, b.op("prim::add", size, after)),
        ):
            if entry in (":0", "-0:"):
                continue
            elements = b.op("np::take", inside, b.define(definition, size, start, stop), axis=axis)
            side = b.op("np::view", result, index=", ".join([*done, entry, *later]))
            b.op("np::store", side, elements)
    return result


def _framed(b: Builder, x: Value, widths: Sequence[tuple[int, int]], fill: Any) -> Value:
    """A frame of one number, or of one for each side of each axis."""
    fills = _fills(fill, tensor(x).dtype, rank_of(x))
    extents = [
        b.op("prim::add", b.size(x, axis), before + after)
        for axis, (before, after) in enumerate(widths)
    ]
    dtype = tensor(x).dtype
    frame = {"dtype": dtype, "like": x, "order": "A"}
    result = b.op("np::full", b.constant(fills[-1][0]), *extents, **frame)
    entries = [f"{before}:-{after}" if after else f"{before}:" for before, after in widths]
    if len({number.tobytes() for pair in fills for number in pair}) > 1:
        # The sides of later axes take the corners.
        for axis, (before, after) in enumerate(widths):
            others = [":"] * axis, entries[axis + 1 :]
            for entry, number, width in (
                (f":{before}", fills[axis][0], before),
                (f"-{after}:", fills[axis][1], after),
            ):
                if width:
                    index = ", ".join([*others[0], entry, *others[1]])
                    b.op("np::store", b.op("np::view", result, index=index), b.constant(number))
    middle = b.op("np::view", result, index=", ".join(entries))
    # The extents say the same, but only a symbol for each would show it.
    middle.type = TensorType(dtype, tensor_dims(x))
    b.op("np::store", middle, x)
    return result


def _fills(fill: Any, dtype: Any, rank: int) -> Any:
    """The numbers before and after each axis, in the array's dtype."""
    holder = np.zeros((rank, 2), dtype)
    try:
        with np.errstate(all="ignore"):
            holder[...] = fill
    except (OverflowError, TypeError, ValueError) as error:
        raise Untypable(str(error)) from None
    return holder


def _meshgrid_rule(b: Builder, call: Call) -> Value:
    arrays = [array_operand(one) for one in call.bound["xi"]]
    indexing, copy, sparse = (call.static(name) for name in ("indexing", "copy", "sparse"))
    if indexing not in ("xy", "ij") or not copy or not arrays:
        raise Untypable("np.meshgrid of views")
    if any(rank_of(one) != 1 for one in arrays):
        raise Untypable("np.meshgrid of something else than vectors")
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = [1, 0]
    extents: list[Any] = [None] * len(arrays)
    for place, one in zip(places, arrays, strict=True):
        extents[place] = b.size(one, 0)
    grids = []
    for place, one in zip(places, arrays, strict=True):
        index = ", ".join(":" if number == place else "None" for number in range(len(arrays)))
        opened = b.op("np::view", one, index=index)
        spread = opened if sparse else b.op("np::broadcast_to", opened, *extents)
        grids.append(b.op("np::copy", spread, order="C"))
    return b.make_tuple(grids)


def _cuts(sections: Any, extent: Dim, *, uneven: bool) -> list[tuple[int | None, int | None]]:
    """Where the parts begin and end."""
    if isinstance(sections, (tuple, list)):
        if not all(type(one) is int for one in sections):
            raise Untypable("np.split at places that are no known numbers")
        edges: list[int | None] = [0, *sections, None]
        return list(pairwise(edges))
    if type(sections) is not int or sections <= 0 or not isinstance(extent, int):
        raise Untypable("np.split into a number of parts that is not known")
    size, rest = divmod(extent, sections)
    if rest and not uneven:
        raise Untypable("array split does not result in an equal division")
    places = np.cumsum([0] + [size + 1] * rest + [size] * (sections - rest)).tolist()
    return list(pairwise(places))


def _equal_parts(b: Builder, x: Value, axis: int, count: int) -> Value:
    """Parts of equal extents, which are known only at run time."""
    extent = b.size(x, axis)
    even = b.op("prim::eq", b.op("prim::mod", extent, count), 0)
    message = "array split does not result in an equal division"
    b.op("prim::require", even, exception="ValueError", message=message)
    size = b.op("prim::floordiv", extent, count)
    dim = b.fresh_dim(("part", extent, count))
    dims = tuple(dim if one == axis else own for one, own in enumerate(tensor_dims(x)))
    parts = []
    for number in range(count):
        start, stop = b.op("prim::mul", size, number), b.op("prim::mul", size, number + 1)
        part = b.op("np::view", x, start, stop, index=index_along(rank_of(x), axis, "$0:$1"))
        part.type = TensorType(tensor(x).dtype, dims)
        parts.append(part)
    return b.op("prim::ListConstruct", *parts)


def _split(b: Builder, call: Call, axis: Any, *, uneven: bool = False, name: str = "ary") -> Value:
    x = array_operand(call.value(name))
    axis = checked_axis(axis, rank_of(x))
    sections = call.static("indices_or_sections")
    if type(sections) is int and sections > 0 and not isinstance(tensor_dims(x)[axis], int):
        if not uneven:
            return _equal_parts(b, x, axis, sections)
    parts = []
    for start, stop in _cuts(sections, tensor_dims(x)[axis], uneven=uneven):
        entry = f"{start or 0}:{'' if stop is None else stop}"
        parts.append(b.op("np::view", x, index=index_along(rank_of(x), axis, entry)))
    return b.op("prim::ListConstruct", *parts)


def _split_rule(*, uneven: bool) -> Rule:
    return lambda b, call: _split(b, call, call.static("axis"), uneven=uneven)


def _split_along(least: int, axis: int) -> Rule:
    """``vsplit`` and its kin, which need so many axes."""

    def rule(b: Builder, call: Call) -> Value:
        rank = rank_of(array_operand(call.value("ary")))
        if rank < least:
            raise Untypable("an array of too few dimensions is split")
        # np.hsplit cuts vectors along their only axis.
        return _split(b, call, 0 if rank == 1 else axis)

    return rule


OPS: tuple[Op, ...] = (
    row(
        "take",
        np.take,
        _take_rule,
        "a, indices, axis=None, out!=None, mode!='raise'",
        "Elements at places along an axis.",
        methods={"take": None},
    ),
    row(
        "repeat",
        np.repeat,
        _repeat_rule,
        "a, repeats, axis=None",
        "Every element several times.",
        methods={"repeat": None},
    ),
    row("tile", np.tile, _tile_rule, "A, reps", "The whole array several times."),
    row(
        "pad",
        np.pad,
        _pad_rule,
        "array, pad_width, mode='constant', *, constant_values=0",
        "A frame of one value.",
    ),
    row(
        "meshgrid",
        np.meshgrid,
        _meshgrid_rule,
        "*xi, copy=True, sparse=False, indexing='xy'",
        "The coordinates of a grid.",
    ),
    row(
        "split",
        np.split,
        _split_rule(uneven=False),
        "ary, indices_or_sections, axis=0",
        "Parts along an axis, views.",
        view=True,
        pure=False,
    ),
    row(
        "array_split",
        np.array_split,
        _split_rule(uneven=True),
        "ary, indices_or_sections, axis=0",
        "Parts along an axis, perhaps of unlike extents, views.",
        view=True,
        pure=False,
    ),
    row(
        "vsplit",
        np.vsplit,
        _split_along(2, 0),
        "ary, indices_or_sections",
        "Groups of rows, views.",
        view=True,
        pure=False,
    ),
    row(
        "hsplit",
        np.hsplit,
        _split_along(1, 1),
        "ary, indices_or_sections",
        "Groups of columns, views.",
        view=True,
        pure=False,
    ),
    row(
        "dsplit",
        np.dsplit,
        _split_along(3, 2),
        "ary, indices_or_sections",
        "Parts along the third axis, views.",
        view=True,
        pure=False,
    ),
)
