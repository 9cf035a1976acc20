"""Which nodes surely raise no exception, whatever the program's data are.

Only what the types prove counts: a sum of ``Float32[n]`` and ``Float32[n]`` cannot fail, one of
``Float32[n]`` and ``Float32[m]`` can.  Lack of memory is not an exception here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from jitcore.ir import types as t
from jitcore.ir.graph import ITERATORS, Graph, Node, Value
from jitcore.ir.ops import REDUCTIONS, SCANS, TABLE
from jitcore.ir.reference import IndexSlice, parse_index
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import Dim, KnownType, RecordType, TensorType, TupleType, is_number

__all__ = ["may_raise", "raises_itself"]


def may_raise(node: Node) -> bool:
    """Whether a node, or one inside it, may raise an exception."""
    waiting = [node]
    seen: set[int] = set()
    while waiting:
        inner = waiting.pop()
        for block in inner.blocks:
            waiting.extend(block.nodes)
        body = inner.attributes.get("graph")
        if isinstance(body, Graph):
            if id(body) not in seen:
                seen.add(id(body))
                waiting.extend(body.block.nodes)
        elif raises_itself(inner):
            return True
    return False


def raises_itself(node: Node) -> bool:
    """Whether a node may raise an exception apart from what the nodes inside it do."""
    return not _is_safe(node)


_TYPED_ITERATORS = ITERATORS | {"prim::range"}


def _is_safe(node: Node) -> bool:
    if node.kind in _ALWAYS_SAFE:
        return True
    if node.kind in _TYPED_ITERATORS and node.output.type != t.ANY:
        return True
    if node.kind in _UNTYPED_RULES:
        return _UNTYPED_RULES[node.kind](node)
    if not all(_is_known(value) for value in node.inputs):
        return False
    if any(value.type == t.ANY for value in node.outputs):
        return False
    rule = _RULES.get(node.kind)
    if rule is not None:
        return rule(node)
    if node.kind.startswith("math::"):
        return node.kind.removeprefix("math::") in _MATH and _all_numbers(node)
    if _is_elementwise(node):
        return _broadcast(list(map(dims_of, node.inputs)))
    return False


def _is_known(value: Value) -> bool:
    type_ = value.type
    if isinstance(type_, TensorType):
        return type_.is_complete
    if isinstance(type_, TupleType | RecordType | KnownType):
        return True
    return is_number(type_) or type_ in (t.NONE, t.STR, t.DTYPE)


def _all_numbers(node: Node) -> bool:
    return all(is_number(value.type) for value in node.inputs)


def _is_elementwise(node: Node) -> bool:
    row = TABLE.get(node.kind)
    if row is None or node.keywords:
        return False
    function = row.functions[0] if row.functions else None
    is_ufunc = isinstance(function, np.ufunc) and function.signature is None
    return row.scalar is not None or is_ufunc


def _broadcast(shapes: Sequence[tuple[Dim, ...]]) -> bool:
    """Whether shapes surely broadcast: each axis has one extent besides 1."""
    rank = max(map(len, shapes), default=0)
    for axis in range(1, rank + 1):
        extents = {shape[-axis] for shape in shapes if len(shape) >= axis} - {1}
        if len(extents) > 1:
            return False
    return True


def _fits(value: tuple[Dim, ...], target: tuple[Dim, ...]) -> bool:
    """Whether a value of these extents surely broadcasts to the target's."""
    if len(value) > len(target):
        return False
    pairs = zip(reversed(value), reversed(target), strict=False)
    return all(extent in (1, wanted) for extent, wanted in pairs)


def _always(node: Node) -> bool:
    return True


def _arithmetic(node: Node) -> bool:
    return _all_numbers(node) and all(value.type != t.COMPLEX for value in node.inputs)


def _constant_operand(node: Node, accepts: Callable[[float], bool]) -> bool:
    if not _arithmetic(node):
        return False
    constant = node.inputs[1].constant
    return constant is not None and accepts(constant.attributes["value"])


def _division(node: Node) -> bool:
    return _constant_operand(node, lambda divisor: divisor != 0)


def _shift(node: Node) -> bool:
    return _constant_operand(node, lambda count: 0 <= count < 64)


def _numbers(node: Node) -> bool:
    return _all_numbers(node)


def _has_truth(value: Value) -> bool:
    type_ = value.type
    return is_number(type_) or (isinstance(type_, TensorType) and type_.scalar)


def _truth(node: Node) -> bool:
    return all(map(_has_truth, node.inputs))


def _branch(node: Node) -> bool:
    return _has_truth(node.inputs[0])


def _loop(node: Node) -> bool:
    return node.inputs[0].type == t.INT and _has_truth(node.inputs[1])


def _to_float(node: Node) -> bool:
    return all(value.type in (t.INT, t.FLOAT, t.BOOL) for value in node.inputs)


def _power(node: Node) -> bool:
    # Integers to negative powers are an error.
    kinds = {
        value.type.dtype.kind
        for value in node.inputs
        if isinstance(value.type, TensorType) and value.type.dtype is not None
    }
    return kinds <= {"f", "c"} and _broadcast(list(map(dims_of, node.inputs)))


def _dict(node: Node) -> bool:
    """Keys that are constants have a hash, if they are texts or numbers."""
    return all(isinstance(key.constant_value, str | int | float) for key in node.inputs[::2])


def _tuple(node: Node) -> bool:
    return node.attributes.get("named") in (None, list)


def _unpack(node: Node) -> bool:
    type_ = node.inputs[0].type
    if not isinstance(type_, TupleType | RecordType) or "star" in node.attributes:
        return False
    return len(type_.elements) == len(node.outputs)


def _view(node: Node) -> bool:
    dims = list(dims_of(node.inputs[0]))
    for part in parse_index(node.attributes["index"]):
        if part is None:
            continue
        if not dims:
            return False
        extent = dims.pop(0)
        if isinstance(part, IndexSlice):
            if part.step is not None and not (isinstance(part.step, int) and part.step):
                return False
        elif not (isinstance(part, int) and isinstance(extent, int) and -extent <= part < extent):
            return False
    return True


def _reshape(node: Node) -> bool:
    before, after = dims_of(node.inputs[0]), dims_of(node.output)
    numbers = [math.prod(d for d in dims if isinstance(d, int)) for dims in (before, after)]
    symbols = [sorted(d for d in dims if isinstance(d, str)) for dims in (before, after)]
    return numbers[0] == numbers[1] and symbols[0] == symbols[1]


def _broadcast_to(node: Node) -> bool:
    return _fits(dims_of(node.inputs[0]), dims_of(node.output)) and _are_extents(node.inputs[1:])


def _store(node: Node) -> bool:
    target, value = node.inputs
    return _fits(dims_of(value), dims_of(target))


def _are_extents(values: Sequence[Value]) -> bool:
    """Whether these ints are surely not negative."""
    for value in values:
        node = value.node
        if node is None:
            return False
        if node.kind == "prim::Constant":
            held = node.attributes["value"]
            if not isinstance(held, int) or held < 0:
                return False
        elif node.kind not in ("prim::size", "prim::range_length", "prim::len"):
            return False
    return True


def _empty(node: Node) -> bool:
    return _are_extents(node.positional)


def _full(node: Node) -> bool:
    return _are_extents(node.positional[1:])


def _iota(node: Node) -> bool:
    return _are_extents(node.inputs[2:])


def _reduction(node: Node) -> bool:
    return "axis" in node.attributes and len(node.inputs) == 1


def _extremum(node: Node) -> bool:
    if not _reduction(node):
        return False
    dims = dims_of(node.inputs[0])
    axes = node.attributes["axis"]
    if not isinstance(axes, tuple) or any(not isinstance(axis, int) for axis in axes):
        return False
    reduced = [dims[axis] for axis in axes if axis < len(dims)]
    return all(isinstance(extent, int) and extent > 0 for extent in reduced)


def _concatenate(node: Node) -> bool:
    axis = node.attributes.get("axis")
    if not isinstance(axis, int) or not node.inputs:
        return False
    shapes = [list(dims_of(value)) for value in node.inputs]
    if any(axis >= len(shape) for shape in shapes):
        return False
    for shape in shapes:
        shape[axis] = 1
    return all(shape == shapes[0] for shape in shapes)


def _matmul(node: Node) -> bool:
    if len(node.inputs) != 2:
        return False
    x, y = map(dims_of, node.inputs)
    if not x or not y:
        return False
    inner = y[-2] if len(y) > 1 else y[0]
    return x[-1] == inner and _broadcast([x[:-2], y[:-2]])


def _compress(node: Node) -> bool:
    x, mask = map(dims_of, node.inputs)
    return x[: len(mask)] == mask


_MATH = frozenset(
    [
        "asinh",
        "atan",
        "atan2",
        "copysign",
        "degrees",
        "erf",
        "erfc",
        "fabs",
        "isfinite",
        "isinf",
        "isnan",
        "radians",
        "tanh",
    ]
)
_ALWAYS_SAFE = frozenset(
    {
        "prim::Constant",
        "prim::Uninitialized",
        "prim::ListConstruct",
        "prim::ListItems",
        "prim::ListLength",
        "prim::ListGet",
        "prim::ListMake",
        "prim::ListMakeRows",
        "prim::ListMakeShared",
        "prim::ListMemo",
        "prim::ListMove",
        "prim::ListPut",
        "prim::ListRoom",
        "prim::ListTakeShared",
        "prim::ListView",
        "prim::UnionConstruct",
        "prim::is_",
        "prim::isnot",
        "prim::slice",
    }
)
_UNTYPED_RULES: dict[str, Callable[[Node], bool]] = {
    "prim::If": _branch,
    "prim::Loop": _loop,
    "prim::Try": _always,
    "prim::DictConstruct": _dict,
    "prim::TupleConstruct": _tuple,
}
_RULES: dict[str, Callable[[Node], bool]] = {
    **dict.fromkeys(
        [
            f"prim::{name}"
            for name in [
                "add",
                "sub",
                "mul",
                "neg",
                "pos",
                "lt",
                "le",
                "gt",
                "ge",
                "min",
                "max",
                "abs",
            ]
        ],
        _arithmetic,
    ),
    **dict.fromkeys([f"prim::{name}" for name in ["truediv", "floordiv", "mod"]], _division),
    **dict.fromkeys(["prim::lshift", "prim::rshift"], _shift),
    **dict.fromkeys(["prim::and_", "prim::or_", "prim::xor", "prim::invert"], _arithmetic),
    **dict.fromkeys(["prim::eq", "prim::ne", "prim::complex"], _numbers),
    **dict.fromkeys(["prim::bool", "prim::not_"], _truth),
    "prim::float": _to_float,
    "prim::Unpack": _unpack,
    "prim::size": _always,
    "prim::range_length": _always,
    "prim::slice_length": _always,
    "np::power": _power,
    "np::cast": _always,
    "np::copy": _always,
    "np::rolled": _always,
    "np::narrow_product": _always,
    "np::item": _always,
    "np::real": _always,
    "np::imag": _always,
    "np::transpose": _always,
    "np::view": _view,
    "np::reshape": _reshape,
    "np::broadcast_to": _broadcast_to,
    "np::store": _store,
    "np::empty": _empty,
    "np::full": _full,
    "np::iota": _iota,
    **dict.fromkeys(REDUCTIONS | SCANS, _reduction),
    **dict.fromkeys([f"np::{name}" for name in ["min", "max", "argmin", "argmax"]], _extremum),
    "np::concatenate": _concatenate,
    "np::matmul": _matmul,
    "np::compress": _compress,
}
