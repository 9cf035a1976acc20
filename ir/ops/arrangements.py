"""Parts and copies of arrays: take, repeat, tile, pad, meshgrid, the split family, diff."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Op, Rule, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import FLOAT, INT, Dim, TensorType

__all__ = ["OPS"]


def _along(rank: int, axis: int, entry: str) -> str:
    """An index that is ``entry`` at one axis and takes all of the others."""
    return ", ".join(entry if number == axis else ":" for number in range(rank))


def _dims(value: Value) -> tuple[Dim, ...]:
    return tensor(value).dims or ()


def _is_extent(value: Value) -> bool:
    """Whether a number cannot be negative: a known one, or the extent of an array."""
    if value.constant is not None:
        return bool(value.constant.attributes["value"] >= 0)
    return value.node is not None and value.node.kind == "prim::size"


def _diff_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    count = call.static("n")
    axis = checked_axis(call.static("axis"), rank_of(x))
    if not isinstance(count, int) or not 0 <= count <= 8:
        raise Untypable("np.diff of an order that is not a small number")
    kind = "np::not_equal" if tensor(x).dtype == np.dtype(bool) else "np::subtract"
    for _ in range(count):
        later = b.op("np::view", x, index=_along(rank_of(x), axis, "1:"))
        earlier = b.op("np::view", x, index=_along(rank_of(x), axis, ":-1"))
        x = b.op(kind, later, earlier)
    return x


def _take_rule(b: Builder, call: Call) -> Value:
    x, indices = array_operand(call.value("a")), call.value("indices")
    axis = call.static("axis")
    if axis is None:
        x, axis = b.op("np::reshape", x, -1), 0
    axis = checked_axis(axis, rank_of(x))
    if indices.type == INT:
        taken = b.op("np::view", x, indices, index=_along(rank_of(x), axis, "$0"))
        return b.op("np::item", taken) if rank_of(x) == 1 else b.op("np::copy", taken)
    type_ = tensor(indices)
    if type_.dtype is None or type_.dtype.kind not in "iu" or not type_.dims:
        raise Untypable("np.take of indices that are no array of integers")
    index = b.op("np::cast", indices, dtype=np.dtype(np.int64))
    return b.op("np::gather", x, index, index=_along(rank_of(x), axis, "$0"))


def _repeated(b: Builder, x: Value, counts: Sequence[Value], *, inner: bool) -> Value:
    """Each axis repeated: its elements one after the other (``inner``), or as a whole.

    One axis of repetitions is broadcast beside each axis, and the pairs are then joined.
    """
    entries: list[str] = []
    extents: list[Value] = []
    joined: list[Value] = []
    for axis, count in enumerate(counts):
        size = b.size(x, axis)
        entries += [":", "None"] if inner else ["None", ":"]
        extents += [size, count] if inner else [count, size]
        joined.append(b.op("prim::mul", size, count))
    opened = b.op("np::view", x, index=", ".join(entries))
    spread = b.op("np::copy", b.op("np::broadcast_to", opened, *extents))
    return b.op("np::reshape", spread, *joined)


def _repeat_rule(b: Builder, call: Call) -> Value:
    x, repeats = array_operand(call.value("a")), call.value("repeats")
    axis = call.static("axis")
    if repeats.type != INT or not _is_extent(repeats):
        raise Untypable("np.repeat by something else than one known number")
    if axis is None:
        x, axis = b.op("np::reshape", x, -1), 0
    axis = checked_axis(axis, rank_of(x))
    counts = [repeats if number == axis else b.constant(1) for number in range(rank_of(x))]
    return _repeated(b, x, counts, inner=True)


def _tile_rule(b: Builder, call: Call) -> Value:
    x, reps = array_operand(call.value("A")), call.value("reps")
    counts = [reps] if reps.type == INT else b.elements(reps)
    if not all(count.type == INT and _is_extent(count) for count in counts):
        raise Untypable("np.tile by something else than known numbers")
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


def _pad_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("array"))
    if call.static("mode") != "constant":
        raise Untypable("np.pad in another mode than 'constant'")
    fill = call.static("constant_values")
    if not isinstance(fill, (int, float, np.generic)):
        raise Untypable("np.pad with several values")
    widths = _pad_widths(call.static("pad_width"), rank_of(x))
    extents = [
        b.op("prim::add", b.size(x, axis), before + after)
        for axis, (before, after) in enumerate(widths)
    ]
    holder = np.zeros((), tensor(x).dtype)
    try:
        with np.errstate(all="ignore"):
            holder[()] = fill
    except (OverflowError, TypeError, ValueError) as error:
        raise Untypable(str(error)) from None
    result = b.op("np::full", b.constant(holder[()]), *extents, dtype=tensor(x).dtype)
    index = ", ".join(f"{before}:-{after}" if after else f"{before}:" for before, after in widths)
    middle = b.op("np::view", result, index=index)
    # The extents say the same, but only a symbol for each would show it.
    middle.type = TensorType(tensor(x).dtype, _dims(x))
    b.op("np::store", middle, x)
    return result


def _meshgrid_rule(b: Builder, call: Call) -> Value:
    arrays = [array_operand(one) for one in call.bound["xi"]]
    indexing, copy, sparse = (call.static(name) for name in ("indexing", "copy", "sparse"))
    if indexing not in ("xy", "ij") or not copy or sparse or not arrays:
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
        spread = b.op("np::broadcast_to", b.op("np::view", one, index=index), *extents)
        grids.append(b.op("np::copy", spread))
    return b.make_tuple(grids)


def _cuts(sections: Any, extent: Dim, *, uneven: bool) -> list[tuple[int | None, int | None]]:
    """Where the parts begin and end."""
    if isinstance(sections, (tuple, list)):
        if not all(type(one) is int for one in sections):
            raise Untypable("np.split at places that are no known numbers")
        edges: list[int | None] = [0, *sections, None]
        return list(pairwise(edges))
    if type(sections) is not int or sections <= 0 or not isinstance(extent, int):
        raise Untypable("np.split into a number of parts, of an extent that is not known")
    size, rest = divmod(extent, sections)
    if rest and not uneven:
        raise Untypable("array split does not result in an equal division")
    places = np.cumsum([0] + [size + 1] * rest + [size] * (sections - rest)).tolist()
    return list(pairwise(places))


def _split(b: Builder, call: Call, axis: Any, *, uneven: bool = False, name: str = "ary") -> Value:
    x = array_operand(call.value(name))
    axis = checked_axis(axis, rank_of(x))
    parts = []
    for start, stop in _cuts(call.static("indices_or_sections"), _dims(x)[axis], uneven=uneven):
        entry = f"{start or 0}:{'' if stop is None else stop}"
        parts.append(b.op("np::view", x, index=_along(rank_of(x), axis, entry)))
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


def _gradient_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("f"))
    spacing: list[Value] = call.bound.get("varargs", [])
    dims, dtype = _dims(x), tensor(x).dtype
    if len(dims) != 1 or not isinstance(dims[0], int) or dims[0] < 2:
        raise Untypable("np.gradient of something else than a vector of known extent")
    if len(spacing) > 1 or any(one.type not in (INT, FLOAT) for one in spacing):
        raise Untypable("np.gradient with spacings that are no number")
    if dtype is None or dtype.kind not in "fiu":
        raise Untypable(f"np.gradient of {dtype}")
    if dtype.kind in "iu":
        x = b.op("np::cast", x, dtype=np.dtype(np.float64))
    step = spacing[0] if spacing else b.constant(1.0)

    def slope(later: str, earlier: str, distance: Value) -> Value:
        rise = b.op(
            "np::subtract", b.op("np::view", x, index=later), b.op("np::view", x, index=earlier)
        )
        return b.op("np::divide", rise, distance)

    inside = slope("2:", ":-2", b.op("prim::mul", 2.0, step))
    return b.op("np::concatenate", slope("1:2", "0:1", step), inside, slope("-1:", "-2:-1", step))


OPS: tuple[Op, ...] = (
    row(
        "diff",
        np.diff,
        _diff_rule,
        "a, n=1, axis=-1, prepend!=NOVALUE, append!=NOVALUE",
        "Differences of neighbours.",
        view=True,
    ),
    row("gradient", np.gradient, _gradient_rule, "f, *varargs", "Slopes of a vector."),
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
        "array, pad_width, mode='constant', constant_values=0",
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
