"""Arrays of numbers, lists and other arrays: array, asarray, atleast_1d."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from jitcore.ir import reference
from jitcore.ir.bfloat16 import computed_in, is_stored
from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, rank_of, row
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    ListType,
    TensorType,
    TupleType,
    is_scalar_tensor,
)

__all__ = [
    "OPS",
    "as_array",
    "check_scalar_fits",
    "default_dtype",
    "require_one_shape",
    "stored_dtype",
]

_NUMBERS = {INT: np.int64, FLOAT: np.float64, COMPLEX: np.complex128, BOOL: np.bool_}


def default_dtype(value: Value) -> np.dtype[Any]:
    """The dtype NumPy gives an array of this number, NumPy scalar or array."""
    if value.type in _NUMBERS:
        return np.dtype(_NUMBERS[value.type])
    dtype = tensor(value).dtype
    assert dtype is not None
    return dtype


def stored_dtype(dtype: Any) -> np.dtype[Any]:
    """A dtype that compiled code stores."""
    try:
        found: np.dtype[Any] = np.dtype(dtype)
    except TypeError as error:
        raise Untypable(str(error)) from None
    if not is_stored(found):
        raise Untypable(f"dtype {found} is not compiled")
    return found


def check_scalar_fits(value: Value, dtype: np.dtype[Any]) -> None:
    """NumPy raises where a NumPy scalar does not fit the integers of a part of an array.

    It wraps around, as a cast does, where an array is stored, or where an index is an array.
    """
    if not isinstance(value.type, TensorType) or not value.type.scalar or dtype.kind not in "iu":
        return
    source = tensor(value).dtype
    if source is not None and not np.can_cast(source, dtype, "safe"):
        raise Untypable(f"a {source} that {dtype} may not hold")


# Lists of lists ---------------------------------------------------------------------------


def _leaves(b: Builder, value: Value) -> tuple[tuple[int, ...], list[Value]]:
    """The shape of nested lists, and what is in them, in order."""
    if not isinstance(value.type, (TupleType, ListType)):
        return (), [value]
    items = b.elements(value)
    found = [_leaves(b, item) for item in items]
    shapes = {shape for shape, _ in found}
    if len(shapes) > 1:
        raise Untypable("an array of lists of unequal lengths")
    inner = shapes.pop() if shapes else ()
    return (len(items), *inner), [leaf for _, leaves in found for leaf in leaves]


_INHOMOGENEOUS = (
    "setting an array element with a sequence. The requested array has an inhomogeneous shape "
    "after {rank} dimensions. The detected shape was {shape} + inhomogeneous part."
)


def require_one_shape(b: Builder, shape: tuple[int, ...], leaves: Sequence[Value]) -> None:
    """Raise as NumPy does where the arrays in lists are not of one shape."""
    dims = dims_of(leaves[0])
    for leaf in leaves[1:]:
        own = dims_of(leaf)
        if len(own) != len(dims):
            raise Untypable("an array of arrays of unequal ranks")
        for axis, (one, two) in enumerate(zip(own, dims, strict=True)):
            if one == two:
                continue
            known = (*shape, *dims[:axis])
            if any(isinstance(dim, str) for dim in known):
                raise Untypable("an array of matrices whose shapes may differ")
            same = b.op("prim::eq", b.size(leaf, axis), b.size(leaves[0], axis))
            text = _INHOMOGENEOUS.format(rank=len(known), shape=known)
            b.op("prim::require", same, exception="ValueError", message=text)


def _filled(b: Builder, shape: tuple[int, ...], leaves: Sequence[Value], dtype: Any) -> Value:
    """A new array, element by element."""
    if not leaves:
        return b.op("np::empty", *shape, dtype=dtype)
    require_one_shape(b, shape, leaves)
    dims = dims_of(leaves[0])
    extents = [b.size(leaves[0], axis) for axis in range(len(dims))]
    result = b.op("np::empty", *shape, *extents, dtype=dtype)
    for place, leaf in zip(product(*map(range, shape)), leaves, strict=True):
        index = b.constant((*place, Ellipsis) if dims else place)
        b.op("prim::setitem", result, index, _element(b, leaf, dtype))
    return result


def _element(b: Builder, leaf: Value, dtype: np.dtype[Any]) -> Value:
    """An element of a list in the array's dtype, which integers, NumPy's too, have to fit."""
    own = tensor(leaf).dtype if is_scalar_tensor(leaf.type) else None
    if own is not None and own.kind in "iu" and dtype.kind in "iu" and not np.can_cast(own, dtype):
        leaf = b.op("prim::int", leaf)
    return cast_to(b, leaf, dtype)


def _leaf_dtypes(leaves: Sequence[Value]) -> Iterator[np.dtype[Any]]:
    for leaf in leaves:
        if leaf.type not in _NUMBERS and not isinstance(leaf.type, TensorType):
            raise Untypable(f"an array of {leaf.type}")
        yield default_dtype(leaf)


def _of_list(b: Builder, value: Value, dtype: Any) -> Value:
    shape, leaves = _leaves(b, value)
    if len(leaves) > _LONGEST:
        raise Untypable("an array of a long list")
    natural: np.dtype[Any] = np.dtype(bool if leaves else np.float64)
    natural = reduce(common_dtype, _leaf_dtypes(leaves), natural)
    asked = stored_dtype(natural if dtype is None else dtype)
    if not np.can_cast(natural, asked, "same_kind"):
        raise Untypable(f"an array of {asked} of numbers of {natural}")
    return _filled(b, shape, leaves, asked)


_LONGEST = 64
"""As many elements are written one by one."""


def as_array(b: Builder, value: Value) -> Value:
    """An array as it is; of a list or a tuple of numbers the array NumPy makes of it."""
    if isinstance(value.type, (TupleType, ListType)):
        return _of_list(b, value, None)
    return array_operand(value)


def _array_rule(b: Builder, call: Call) -> Value:
    x, dtype = call.value("object"), call.static("dtype")
    order = call.static("order")
    if order not in ("K", "C"):
        raise Untypable(f"np.array in order {order!r}")
    if call.static("copy") is not True:
        raise Untypable("np.array that may not copy")
    if isinstance(x.type, (TupleType, ListType)):
        return _of_list(b, x, dtype)
    natural = default_dtype(x)
    asked = natural if dtype is None else stored_dtype(dtype)
    if isinstance(x.type, TensorType) and not x.type.scalar:
        converted = x if asked == natural else b.op("np::cast", x, dtype=asked)
        if asked == natural or order == "C":
            return b.op("np::copy", converted, order=order)
        return converted
    if not np.can_cast(natural, asked, "same_kind"):
        raise Untypable(f"an array of {asked} of a number of {natural}")
    return b.op("np::full", cast_to(b, x, stored_dtype(asked)), dtype=asked)


def _asarray_rule(b: Builder, call: Call) -> Value:
    x, dtype = call.value("a"), call.static("dtype")
    if isinstance(x.type, (TupleType, ListType)):
        return _of_list(b, x, dtype)
    if not isinstance(x.type, TensorType) or x.type.scalar:
        return b.op("np::array", x, dtype=dtype)
    if dtype is None or np.dtype(dtype) == x.type.dtype:
        return x
    return b.op("np::cast", x, dtype=stored_dtype(dtype))


def _at_least_rule(rank: int) -> Any:
    """``atleast_1d`` and its kin of one array."""

    def rule(b: Builder, call: Call) -> Value:
        given: list[Value] = call.bound["arys"]
        if len(given) != 1:
            raise Untypable("several arrays")
        (x,) = given
        if not isinstance(x.type, TensorType) or x.type.scalar:
            x = b.op("np::array", x)
        have = rank_of(x)
        if have >= rank:
            return x
        if have == 0:
            return b.op("np::view", x, index=", ".join(["None"] * rank))
        opened = ":, :, None" if have == 2 else "None, :, None" if rank == 3 else "None, :"
        return b.op("np::view", x, index=opened)

    return rule


# Out of arrays -------------------------------------------------------------------------


def _item_method_rule(b: Builder, call: Call) -> Value:
    x = call.value("a")
    places: list[Value] = call.bound.get("args", [])
    type_ = tensor(x)
    if len(places) == 1 and len(type_.dims or ()) > 1 and places[0].type == INT:
        raise Untypable("item by a place in the flattened array")
    if not places and all(dim == 1 for dim in type_.dims or ()):
        places = [b.constant(0)] * len(type_.dims or ())
    if len(places) != len(type_.dims or ()) or any(place.type != INT for place in places):
        raise Untypable("item of other places")
    found = x if type_.scalar else b.op("prim::getitem", x, b.make_tuple(places))
    kinds = {"i": "int", "u": "int", "f": "float", "c": "complex", "b": "bool"}
    assert type_.dtype is not None
    return b.op(f"prim::{kinds[computed_in(type_.dtype).kind]}", found)


def _item_method(x: Any, *args: Any) -> Any:
    return x.item(*args)


def _listed_rule(b: Builder, call: Call) -> Value:
    x = call.value("x")
    type_ = tensor(x)
    if rank_of(x) != 1 or type_.scalar:
        raise Untypable("a list of something else than numbers")
    return b.emit("np::listed", [x], {}, TensorType(type_.dtype, type_.dims))


OPS: tuple[Op, ...] = (
    row(
        "listed",
        reference.listed,
        _listed_rule,
        "x",
        "The array of a list of these numbers, of float64 where there are none.",
        functions=(),
    ),
    row(
        "array",
        np.array,
        _array_rule,
        "object, dtype=None, *, copy=True, order='K', subok!=False, ndmin!=0, ndmax!=0, like!=None",
        "A new array of numbers, lists of them, or arrays.",
    ),
    row(
        "asarray",
        np.asarray,
        _asarray_rule,
        "a, dtype=None, order!=None, *, device!=None, copy!=None, like!=None",
        "An array as it is, or converted.",
        view=True,
    ),
    *(
        row(
            f"atleast_{rank}d",
            getattr(np, f"atleast_{rank}d"),
            _at_least_rule(rank),
            "*arys",
            f"An array as it is, or with new axes up to {rank}.",
            view=True,
        )
        for rank in (1, 2, 3)
    ),
    row(
        "item_method",
        _item_method,
        _item_method_rule,
        "a, *args",
        "The method ``item``: a Python number.",
        functions=(),
        methods={"item": None},
    ),
)
