"""The typed forms of NumPy's operations as expressions: views, elements, casts, new arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from jitcore.codegen.host.text import Precedence, Text
from jitcore.ir.graph import Node, Value
from jitcore.ir.reference import IndexOperand, IndexPart, IndexSlice, parse_index
from jitcore.ir.types import BOOL, COMPLEX, FLOAT, INT, TensorType

if TYPE_CHECKING:
    from jitcore.codegen.host.expressions import Expressions

__all__ = ["ARRAY_WRITERS", "index_text", "is_typed"]

P = Precedence

# From Python's numbers, the dtypes whose own constructor converts exactly as ``astype`` does.
_EXACT_CONVERSIONS = {
    str(BOOL): "?bhilqBHILQefdFD",
    str(INT): "?dD",
    str(FLOAT): "?efdFD",
    str(COMPLEX): "?FD",
}


def is_typed(value: Value) -> bool:
    """Whether this is an array or a NumPy scalar; ``Tensor`` alone may be anything."""
    return isinstance(value.type, TensorType) and value.type.dtype is not None


def _rank(node: Node) -> int | None:
    type_ = node.output.type
    return type_.rank if isinstance(type_, TensorType) else None


def index_text(
    writer: Expressions, node: Node, operands: Sequence[Value], *, view: bool, scalar: bool
) -> str:
    """The text of an attribute ``index``, with its operands written in.

    ``view`` asks for a form that never gives a scalar, unless ``scalar`` wants one.
    """
    parts = parse_index(node.attributes["index"])
    texts = [_index_part(writer, part, operands) for part in parts]
    has_axis = any(part is None or isinstance(part, IndexSlice) for part in parts)
    if view and not scalar and not (has_axis or _rank(node) not in (None, 0)):
        texts.append("...")
    if not texts:
        return "()" if scalar or not view else "..."
    return ", ".join(texts)


def _index_part(writer: Expressions, part: IndexPart, operands: Sequence[Value]) -> str:
    def bound(one: int | IndexOperand | None) -> str:
        if isinstance(one, IndexOperand):
            return writer.at(operands[one.number], P.OR)
        return "" if one is None else str(one)

    if part is None:
        return "None"
    if not isinstance(part, IndexSlice):
        return bound(part)
    text = f"{bound(part.start)}:{bound(part.stop)}"
    return text if part.step is None else f"{text}:{bound(part.step)}"


def _view(writer: Expressions, node: Node) -> Text:
    index = index_text(writer, node, node.inputs[1:], view=True, scalar=False)
    return Text(f"{writer.primary(node.inputs[0])}[{index}]")


def _item(writer: Expressions, node: Node) -> Text:
    (value,) = node.inputs
    found = value.node
    if found is not None and found.kind == "np::view" and value in writer.plan.nested:
        if _rank(found) == 0:
            index = index_text(writer, found, found.inputs[1:], view=True, scalar=True)
            return Text(f"{writer.primary(found.inputs[0])}[{index}]")
    if found is not None and found.kind == "np::field" and value in writer.plan.nested:
        return _item_of_field(writer, found)
    return Text(f"{writer.primary(value)}[()]")


def _item_of_field(writer: Expressions, field: Node) -> Text:
    """A number of a record: ``x[i]["name"]`` gives it without an array in between."""
    (value,) = field.inputs
    name, found = field.attributes["name"], value.node
    if found is not None and found.kind == "np::view" and value in writer.plan.nested:
        index = index_text(writer, found, found.inputs[1:], view=True, scalar=True)
        return Text(f"{writer.primary(found.inputs[0])}[{index}][{name!r}]")
    return Text(f"{writer.primary(value)}[{name!r}][()]")


def _field(writer: Expressions, node: Node) -> Text:
    return Text(f"{writer.primary(node.inputs[0])}[{node.attributes['name']!r}]")


def _gather(writer: Expressions, node: Node) -> Text | None:
    if "order" in node.attributes:
        return None
    index = index_text(writer, node, node.inputs[1:], view=False, scalar=False)
    return Text(f"{writer.primary(node.inputs[0])}[{index}]")


def _compress(writer: Expressions, node: Node) -> Text:
    return Text(f"{writer.primary(node.inputs[0])}[{writer.at(node.inputs[1])}]")


# NumPy's functions in their typed forms


def _cast(writer: Expressions, node: Node) -> Text | None:
    (value,) = node.inputs
    dtype = node.attributes["dtype"]
    name = writer.globals.dtype(dtype)
    if name is None:
        return None
    if isinstance(value.type, TensorType) and is_typed(value):
        if value.type.scalar:
            # Gives what ``astype`` does, without an array in between.
            return Text(f"{name}({writer.at(value)})")
        return Text(f"{writer.primary(value)}.astype({name})")
    exact = _EXACT_CONVERSIONS.get(str(value.type), "")
    return Text(f"{name}({writer.at(value)})") if dtype.char in exact else None


def _size(writer: Expressions, node: Node) -> Text:
    (value,) = node.inputs
    axis = writer.globals.constant(node.attributes["dim"]).text
    if isinstance(value.type, TensorType) and is_typed(value) and not value.type.scalar:
        return Text(f"{writer.primary(value)}.shape[{axis}]")
    return Text(f"{writer.globals.module('np')}.shape({writer.at(value)})[{axis}]")


def _shaped(writer: Expressions, node: Node) -> Text | None:
    """``np.reshape`` and ``np.broadcast_to`` with the extents together."""
    extents = node.inputs[1:]
    if node.keywords or not all(value.type == INT for value in extents):
        return None
    function = f"{writer.globals.module('np')}.{node.kind.removeprefix('np::')}"
    attributes = writer.attributes(node)
    shape = _shape(writer, extents)
    return Text(f"{function}({', '.join([writer.at(node.inputs[0]), shape, *attributes])})")


def _empty(writer: Expressions, node: Node) -> Text | None:
    if node.keywords or "dtype" not in node.attributes:
        return None
    dtype = writer.attribute(node.attributes["dtype"])
    return Text(f"{writer.globals.module('np')}.empty({_shape(writer, node.inputs)}, {dtype})")


def _full(writer: Expressions, node: Node) -> Text | None:
    if node.keywords or "dtype" not in node.attributes or not node.inputs:
        return None
    value, *extents = node.inputs
    dtype = writer.attribute(node.attributes["dtype"])
    arguments = f"{_shape(writer, extents)}, {writer.at(value)}, {dtype}"
    return Text(f"{writer.globals.module('np')}.full({arguments})")


def _shape(writer: Expressions, extents: Sequence[Value]) -> str:
    texts = [writer.at(value) for value in extents]
    return f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"


def _concatenate(writer: Expressions, node: Node) -> Text | None:
    if node.keywords or "starred" in node.attributes:
        return None
    attributes = writer.attributes(node)
    arguments = [_shape(writer, node.inputs), *attributes]
    return Text(f"{writer.globals.module('np')}.concatenate({', '.join(arguments)})")


def _part(writer: Expressions, node: Node) -> Text | None:
    """``np.real`` and ``np.imag`` of arrays are attributes."""
    value = node.inputs[0] if len(node.inputs) == 1 else None
    if value is None or "starred" in node.attributes or not is_typed(value):
        return None
    return Text(f"{writer.primary(value)}.{node.kind.removeprefix('np::')}")


ARRAY_WRITERS: dict[str, Callable[[Expressions, Node], Text | None]] = {
    "prim::size": _size,
    "np::view": _view,
    "np::item": _item,
    "np::record": _item,
    "np::field": _field,
    "np::gather": _gather,
    "np::compress": _compress,
    "np::cast": _cast,
    "np::reshape": _shaped,
    "np::broadcast_to": _shaped,
    "np::empty": _empty,
    "np::full": _full,
    "np::concatenate": _concatenate,
    "np::real": _part,
    "np::imag": _part,
}
"""By kind; a writer gives None where the op's own function must be called."""
