"""Subscripts, attributes and methods: Python's protocols on arrays become typed ops here.

The text of an index is one of the IR's small languages: entries separated by commas, each ``None``,
an int, a slice ``start:stop:step`` with absent parts empty, or ``$k`` for operand number ``k``;
ints and slice parts may be ``$k`` too.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jitcore.ir import reference
from jitcore.ir.graph import Value
from jitcore.ir.ops.conversion import as_array
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.grids import grid, grid_of_one
from jitcore.ir.ops.op import Builder, Call, NeedsConstant, Op, Untypable, static_value, tensor
from jitcore.ir.shapes import BroadcastError, slice_length
from jitcore.ir.structured import VoidType, field_type, is_structured
from jitcore.ir.types import (
    ANY,
    BOOL,
    INT,
    NONE,
    SLICE,
    STR,
    Dim,
    ListType,
    TensorType,
    TupleType,
)

__all__ = [
    "OPS",
    "TYPED_VIEWS",
    "Index",
    "expanded",
    "index_view",
    "is_mask",
    "only_mask",
    "read",
    "split_index",
]

_LARGEST_PLACE = np.uint64(2**63 - 1)


TYPED_VIEWS = frozenset(
    [
        "np::view",
        "np::transpose",
        "np::reshape",
        "np::ravel",
        "np::broadcast_to",
        "np::diagonal",
        "np::sliding_window_view",
        "np::real",
        "np::imag",
        "np::field",
    ]
)
"""The kinds of typed graphs that give other forms of their operand's memory."""


class Index:
    """An index being normalized: entries as text, operands, and the dims that come out."""

    def __init__(self, b: Builder, x: Value) -> None:
        self.b = b
        self.x = x
        self.source_dims = list(tensor(x).dims or ())
        self.axis = 0
        self.entries: list[str] = []
        self.operands: list[Value] = []
        self.dims: list[Dim] = []
        self.arrays: list[tuple[int, Value]] = []

    def operand(self, value: Value) -> str:
        self.operands.append(value)
        return f"${len(self.operands) - 1}"

    def take_axis(self) -> Dim:
        if self.axis >= len(self.source_dims):
            raise Untypable("too many indices")
        self.axis += 1
        return self.source_dims[self.axis - 1]

    def add(self, entry: Value) -> None:
        """One entry of the index, given as a value."""
        node = entry.constant
        if entry.type == NONE:
            self.entries.append("None")
            self.dims.append(1)
        elif entry.type == SLICE:
            self.add_slice(entry)
        elif entry.type == INT:
            dim = self.take_axis()
            if node is None:
                self.entries.append(self.operand(entry))
            else:
                number = node.attributes["value"]
                if isinstance(dim, int) and not -dim <= number < dim:
                    raise Untypable(f"index {number} is out of bounds")
                self.entries.append(str(number))
        else:
            self.add_array(entry)

    def add_array(self, entry: Value) -> None:
        type_ = tensor(entry, "an index")
        assert type_.dtype is not None
        if type_.dtype.kind not in "iu":
            raise Untypable(f"an index of dtype {type_.dtype}")
        if type_.dims == ():
            self.take_axis()
            self.entries.append(self.operand(self.b.op("prim::int", self.signed(entry))))
            return
        self.take_axis()
        self.arrays.append((len(self.entries), entry))
        self.entries.append(self.operand(cast_to(self.b, entry, np.dtype(np.int64))))

    def signed(self, entry: Value) -> Value:
        """One integer as one that Python's indices may be."""
        if tensor(entry).dtype != np.uint64:
            return entry
        fits = self.b.op("np::less_equal", entry, self.b.constant(_LARGEST_PLACE))
        message = "Python int too large to convert to C long"
        self.b.op("prim::require", fits, exception="OverflowError", message=message)
        return cast_to(self.b, entry, np.dtype(np.int64))

    def add_slice(self, entry: Value) -> None:
        dim = self.take_axis()
        start, stop, step = _slice_parts(self.b, entry)
        known = [_known_part(part) for part in (start, stop, step)]
        if known[2] == 0:
            raise Untypable("slice step cannot be zero")
        texts = [self.part_text(part) for part in (start, stop, step)]
        text = ":".join(texts[:2]) + (f":{texts[2]}" if texts[2] not in ("", "1") else "")
        self.entries.append(text)
        self.dims.append(self.slice_dim(dim, (start, stop, step), known))

    def part_text(self, part: Value | None) -> str:
        if part is None:
            return ""
        known = _known_part(part)
        return self.operand(part) if known is None else str(known)

    def slice_dim(
        self, dim: Dim, parts: tuple[Value | None, ...], known: Sequence[int | None]
    ) -> Dim:
        constant = all(
            part is None or one is not None for part, one in zip(parts, known, strict=True)
        )
        if constant and isinstance(dim, int):
            return slice_length(dim, *known)
        start, stop, step = known
        if constant and (step or 1) == 1:
            return self.linear_dim(dim, start or 0, stop)
        if constant and step == -1 and start is None and stop is None:
            return dim
        key = tuple(
            one if part is None or one is not None else part
            for part, one in zip(parts, known, strict=True)
        )
        return self.b.fresh_dim(("slice", dim, key))

    def linear_dim(self, dim: Dim, start: int, stop: int | None) -> Dim:
        """A slice of step 1 with constant bounds of an axis whose extent is a symbol."""
        if start == 0 and stop is None:
            return dim
        if start >= 0 and (stop is None or stop < 0):
            # max(n - start + stop, 0) whatever n is, so the sum alone is the key.
            return self.b.fresh_dim(("shorter", dim, start - (stop or 0)))
        if start < 0 and stop is not None and 0 > stop >= start:
            return self.b.fresh_dim(("slice", dim, start, stop))
        return self.b.fresh_dim(("slice", dim, start, stop))

    @property
    def text(self) -> str:
        return ", ".join(self.entries)


def _slice_parts(b: Builder, entry: Value) -> list[Value | None]:
    """Start, stop and step of a slice as ``int`` values, None where absent."""
    node = entry.node
    if node is not None and node.kind == "prim::slice":
        return [_slice_part(b, value) for value in node.inputs]
    if entry.constant is not None:
        held = entry.constant.attributes["value"]
        parts = (held.start, held.stop, held.step)
        return [None if part is None else b.constant(part) for part in parts]
    raise Untypable("a slice that is not written in place")


def _slice_part(b: Builder, value: Value) -> Value | None:
    if value.type == NONE:
        return None
    if value.type == INT:
        return value
    if (isinstance(value.type, TensorType) and value.type.scalar) or value.type == BOOL:
        return b.op("prim::int", value)
    raise Untypable(f"a slice bound of type {value.type}")


def _known_part(part: Value | None) -> int | None:
    if part is None or part.constant is None:
        return None
    value = part.constant.attributes["value"]
    return int(value)


def expanded(b: Builder, x: Value, index: Value) -> list[Value]:
    """The entries of an index with its Ellipsis, or the axes it leaves out, spelled as slices."""
    entries = b.elements(index) if isinstance(index.type, TupleType) else [index]
    entries = [as_array(b, one) if isinstance(one.type, ListType) else one for one in entries]
    rank = len(tensor(x).dims or ())
    used = 0
    for entry in entries:
        if entry.type == ANY:
            raise Untypable("an index whose type is not known")
        if isinstance(entry.type, TensorType) and entry.type.dtype == np.dtype(bool):
            used += len(entry.type.dims or ())
        elif entry.type != NONE and not _is_ellipsis(entry):
            used += 1
    if used > rank:
        raise Untypable("too many indices")
    full = [b.constant(slice(None), SLICE) for _ in range(rank - used)]
    for number, entry in enumerate(entries):
        if _is_ellipsis(entry):
            return [*entries[:number], *full, *entries[number + 1 :]]
    return [*entries, *full]


def _is_ellipsis(entry: Value) -> bool:
    return entry.constant is not None and entry.constant.attributes["value"] is Ellipsis


def is_mask(entry: Value) -> bool:
    return isinstance(entry.type, TensorType) and entry.type.dtype == np.dtype(bool)


def read(b: Builder, x: Value, index: Value) -> Value:
    """``x[index]`` of an array or a NumPy scalar."""
    type_ = tensor(x)
    if type_.scalar:
        raise Untypable("a NumPy scalar is indexed")
    entries = expanded(b, x, index)
    if any(is_mask(entry) for entry in entries):
        return b.op("np::compress", x, only_mask(entries))
    built = Index(b, x)
    for entry in entries:
        built.add(entry)
    if built.arrays:
        return _gather(b, x, built)
    view = index_view(b, x, built)
    asked_for_scalar = all(
        entry.type == INT or isinstance(entry.type, TensorType) for entry in entries
    )
    has_ellipsis = isinstance(index.type, TupleType) and any(map(_is_ellipsis, b.elements(index)))
    if built.dims == [] and asked_for_scalar and not has_ellipsis and not _is_ellipsis(index):
        kind = "np::record" if is_structured(x.type) else "np::item"
        return b.op(kind, view)
    # An array without axes is a place as an int is, but what it chooses is a copy.
    return b.op("np::copy", view, order="K") if any(map(_is_0d_array, entries)) else view


def _is_0d_array(entry: Value) -> bool:
    type_ = entry.type
    return isinstance(type_, TensorType) and type_.dims == () and not type_.scalar


def index_view(b: Builder, x: Value, built: Index) -> Value:
    type_ = tensor(x)
    attributes = {"index": built.text}
    return b.emit(
        "np::view", [x, *built.operands], attributes, TensorType(type_.dtype, tuple(built.dims))
    )


def only_mask(entries: Sequence[Value]) -> Value:
    first, *rest = entries
    if not is_mask(first) or any(not _is_full_slice(entry) for entry in rest):
        raise Untypable("a boolean mask among other indices")
    if tensor(first).dims == ():
        raise Untypable("a boolean mask without dimensions")
    return first


def _is_full_slice(entry: Value) -> bool:
    return entry.constant is not None and entry.constant.attributes["value"] == slice(None)


def _gather_dims(b: Builder, built: Index) -> tuple[Dim, ...]:
    """The dims of an advanced index: the index arrays' own, first or where they stand together."""
    try:
        shape = b.broadcast([tensor(value).dims or () for _, value in built.arrays])
    except BroadcastError as error:
        raise Untypable(str(error)) from None
    places = [number for number, entry in enumerate(built.entries) if _is_advanced(built, entry)]
    before: list[Dim] = []
    after: list[Dim] = []
    slices = iter(built.dims)
    for number in range(len(built.entries)):
        if number in places:
            continue
        (before if number < places[0] else after).append(next(slices))
    if places[-1] - places[0] + 1 != len(places):
        return (*shape, *before, *after)
    return (*before, *shape, *after)


def _is_advanced(built: Index, entry: str) -> bool:
    """Integers count as index arrays when there is an index array."""
    return ":" not in entry and entry != "None"


def _gather(b: Builder, x: Value, built: Index, order: str = "K") -> Value:
    dims = _gather_dims(b, built)
    type_ = TensorType(tensor(x).dtype, dims)
    attributes = {"index": built.text} | ({"order": "C"} if order == "C" else {})
    return b.emit("np::gather", [x, *built.operands], attributes, type_)


def split_index(text: str) -> list[str]:
    """The entries of an index's text."""
    return [entry.strip() for entry in text.split(",")] if text.strip() else []


def _entry_value(b: Builder, entry: str, operands: Sequence[Value]) -> Value:
    def part(text: str) -> Value:
        if text == "":
            return b.constant(None)
        if text.startswith("$"):
            return operands[int(text[1:])]
        return b.constant(int(text))

    if entry == "None":
        return b.constant(None)
    if ":" in entry:
        pieces = [*entry.split(":"), ""][:3]
        return b.op("prim::slice", *(part(piece) for piece in pieces))
    return part(entry)


def _typed_index(b: Builder, call: Call) -> tuple[Value, Index, list[Value]]:
    x = call.value("x")
    operands: list[Value] = call.bound.get("operands", [])
    built = Index(b, x)
    for entry in split_index(call.static("index")):
        built.add(_entry_value(b, entry, operands))
    return x, built, operands


def _view_rule(b: Builder, call: Call) -> Value:
    x, built, _ = _typed_index(b, call)
    if built.arrays:
        raise Untypable("a view by index arrays")
    return index_view(b, x, built)


def _gather_rule(b: Builder, call: Call) -> Value:
    x, built, _ = _typed_index(b, call)
    return _gather(b, x, built, call.static("order"))


def _scatter_rule(b: Builder, call: Call) -> Value:
    operands = call.bound["operands"]
    call.bound["operands"], value = operands[:-1], operands[-1]
    x, built, _ = _typed_index(b, call)
    return b.emit("np::scatter", [x, *built.operands, value], {"index": built.text}, NONE)


def _item_rule(b: Builder, call: Call) -> Value:
    type_ = tensor(call.value("x"))
    if type_.dims != ():
        raise Untypable("np::item of an array with axes")
    if type_.scalar:
        return call.value("x")
    return b.emit("np::item", [call.value("x")], {}, TensorType(type_.dtype, (), True))


def _field_rule(b: Builder, call: Call) -> Value:
    x, name = call.value("x"), call.static("name")
    type_ = field_type(tensor(x), name)
    if type_ is None:
        raise Untypable(f"compiled code does not read a field {name!r} of {x.type}")
    return b.emit("np::field", [x], {"name": name}, type_)


def _record_rule(b: Builder, call: Call) -> Value:
    type_ = tensor(call.value("x"))
    if type_.dims != () or type_.dtype is None:
        raise Untypable("np::record of an array with axes")
    return b.emit("np::record", [call.value("x")], {}, VoidType(type_.dtype))


def _getitem_rule(b: Builder, call: Call) -> Value:
    x, index = call.value("x"), call.value("index")
    if x.type == ANY or index.type == ANY:
        raise Untypable("a subscript of or by a value whose type is not known")
    if isinstance(x.type, TensorType):
        return read(b, x, index)
    if isinstance(x.type, TupleType):
        return _tuple_item(b, x, index)
    if x.type == STR and x.constant is not None and index.constant is not None:
        try:
            return b.constant(x.constant.attributes["value"][index.constant.attributes["value"]])
        except (IndexError, TypeError) as error:
            raise Untypable(str(error)) from None
    if x.constant is not None and x.constant.attributes["value"] is np.mgrid:
        return _grid(b, index)
    raise Untypable(f"a subscript of {x.type}")


def _grid(b: Builder, index: Value) -> Value:
    """``np.mgrid[…]``."""
    if index.type == SLICE:
        return grid_of_one(b, _slice_parts(b, index))
    entries = b.elements(index)
    if not all(entry.type == SLICE for entry in entries):
        raise Untypable("np.mgrid of something else than slices")
    return grid(b, [_slice_parts(b, entry) for entry in entries])


def _tuple_item(b: Builder, x: Value, index: Value) -> Value:
    elements = b.elements(x)
    if index.type == SLICE:
        bounds = _slice_parts(b, index)
        known = []
        for bound in bounds:
            known.append(None if bound is None else static_value(bound, "a tuple's slice bound"))
        return b.make_tuple(elements[slice(*known)])
    if index.constant is None:
        raise NeedsConstant("a tuple's index", index)
    number = index.constant.attributes["value"]
    if not isinstance(number, (int, np.integer)) or not -len(elements) <= number < len(elements):
        raise Untypable("a tuple index out of range")
    return elements[int(number)]


def _compress_rule(b: Builder, call: Call) -> Value:
    x, mask = tensor(call.value("x")), tensor(call.value("mask"))
    covered = len(mask.dims or ())
    _check_mask(x, mask)
    dims = (b.fresh_dim(), *(x.dims or ())[covered:])
    return b.emit(
        "np::compress", [call.value("x"), call.value("mask")], {}, TensorType(x.dtype, dims)
    )


def _check_mask(x: TensorType, mask: TensorType) -> None:
    for one, two in zip(x.dims or (), mask.dims or (), strict=False):
        if isinstance(one, int) and isinstance(two, int) and one != two:
            raise Untypable("boolean index did not match indexed array")


def _put_mask_rule(b: Builder, call: Call) -> Value:
    x, mask, value = (call.value(name) for name in ("x", "mask", "value"))
    _check_mask(tensor(x), tensor(mask))
    if tensor(x).dtype != tensor(value).dtype:
        raise Untypable("np::put_mask of another dtype")
    return b.emit("np::put_mask", [x, mask, value], {}, NONE)


OPS: tuple[Op, ...] = (
    Op(
        "prim::getitem", reference.getitem, _getitem_rule, "x, index", view=True, doc="A subscript."
    ),
    Op(
        "np::view",
        reference.view,
        _view_rule,
        "x, *operands, index=''",
        view=True,
        doc="Basic indexing, always a view.",
    ),
    Op(
        "np::field",
        reference.field,
        _field_rule,
        "x, name",
        view=True,
        doc="A field of a structured array, always a view.",
    ),
    Op(
        "np::record",
        reference.record,
        _record_rule,
        "x",
        view=True,
        doc="The record in a structured array without axes.",
    ),
    Op("np::item", reference.item, _item_rule, "x", doc="The scalar in a 0-d array."),
    Op(
        "np::gather",
        reference.gather,
        _gather_rule,
        "x, *operands, index='', order='K'",
        doc="Advanced indexing, a copy.",
    ),
    Op(
        "np::scatter",
        reference.scatter,
        _scatter_rule,
        "x, *operands, index=''",
        writes=(0,),
        pure=False,
        doc="Assignment by advanced indexing.",
    ),
    Op(
        "np::compress",
        reference.compress,
        _compress_rule,
        "x, mask",
        doc="The elements where a mask holds.",
    ),
    Op(
        "np::put_mask",
        reference.put_mask,
        _put_mask_rule,
        "x, mask, value",
        writes=(0,),
        pure=False,
        doc="Write where a mask holds.",
    ),
)
