"""Sums of products over chosen axes: einsum, tensordot; diagonals and matrices of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.graph import Value
from jitcore.ir.ops.elementwise import cast_to
from jitcore.ir.ops.op import Builder, Call, Op, Untypable, common_dtype, tensor
from jitcore.ir.ops.shaping import array_operand, checked_axis, rank_of, row
from jitcore.ir.types import FLOAT, INT, SUPPORTED, Dim, TensorType

__all__ = ["OPS"]

Axes = Sequence[int]


def _product(b: Builder, values: Sequence[Value]) -> Value:
    result = b.constant(1)
    for value in values:
        result = b.op("prim::mul", result, value)
    return result


def _grouped(b: Builder, x: Value, first: Axes, second: Axes) -> Value:
    """A matrix of two groups of axes; a group without axes leaves its place out."""
    sizes = [[b.size(x, axis) for axis in group] for group in (first, second)]
    x = b.op("np::transpose", x, axes=(*first, *second))
    if len(first) <= 1 and len(second) <= 1:
        return x
    return b.op("np::reshape", x, *(_product(b, group) for group in sizes if group))


def _contract(b: Builder, x: Value, y: Value, pairs: Sequence[tuple[int, int]]) -> Value:
    """Sum products over pairs of axes; the result has the other axes of ``x``, then of ``y``."""
    summed = [axis for axis, _ in pairs], [axis for _, axis in pairs]
    free = [
        [axis for axis in range(rank_of(value)) if axis not in axes]
        for value, axes in zip((x, y), summed, strict=True)
    ]
    extents = [b.size(x, axis) for axis in free[0]] + [b.size(y, axis) for axis in free[1]]
    left = _grouped(b, x, free[0], summed[0])
    right = _grouped(b, y, summed[1], free[1])
    result = b.op("np::matmul", left, right)
    if len(free[0]) <= 1 and len(free[1]) <= 1:
        return result
    return b.op("np::reshape", result, *extents)


def _check_dtypes(values: Sequence[Value]) -> np.dtype[Any]:
    dtype = common_dtype(*(array_operand(value).type.dtype for value in values))  # type: ignore[attr-defined]
    if dtype.char not in SUPPORTED or dtype.kind == "b":
        raise Untypable(f"a contraction of {dtype}")
    return dtype


def _tensordot_axes(axes: Any, ranks: tuple[int, int]) -> list[tuple[int, int]]:
    if isinstance(axes, int):
        if not 1 <= axes <= min(ranks):
            raise Untypable("np.tensordot over no axes")
        return list(zip(range(ranks[0] - axes, ranks[0]), range(axes), strict=True))
    first, second = ([one] if isinstance(one, int) else list(one) for one in axes)
    if len(first) != len(second) or not first:
        raise Untypable("shape-mismatch for sum")
    pairs = [
        (checked_axis(one, ranks[0]), checked_axis(two, ranks[1]))
        for one, two in zip(first, second, strict=True)
    ]
    if any(len(set(column)) != len(column) for column in zip(*pairs, strict=True)):
        raise Untypable("an axis is summed over twice")
    return pairs


def _tensordot_rule(b: Builder, call: Call) -> Value:
    x, y = call.value("a"), call.value("b")
    _check_dtypes([x, y])
    pairs = _tensordot_axes(call.static("axes"), (rank_of(x), rank_of(y)))
    if len(pairs) == rank_of(x) == rank_of(y):
        # NumPy gives a 0-d array here, where a product of vectors is a scalar.
        pairs = [(one + 1, two) for one, two in pairs]
        x = b.op("np::expand_dims", x, axis=0)
        return b.op("np::reshape", _contract(b, x, y, pairs))
    return _contract(b, x, y, pairs)


def _parse_subscripts(text: Any, count: int) -> tuple[list[str], str]:
    """The letters of each operand and of the result."""
    if not isinstance(text, str):
        raise Untypable("np.einsum of subscripts that are no known text")
    text = text.replace(" ", "")
    left, arrow, right = text.partition("->")
    operands = left.split(",")
    if "." in text or len(operands) != count or not all(one.isalpha() for one in operands):
        raise Untypable("np.einsum with an ellipsis or without axes")
    if not arrow:
        right = "".join(sorted(letter for letter in set(left) - {","} if left.count(letter) == 1))
    if any(len(set(one)) != len(one) for one in (*operands, right)):
        raise Untypable("np.einsum of a diagonal")
    if not set(right) <= set(left) - {","}:
        raise Untypable("np.einsum gives an axis that no operand has")
    return operands, right


def _einsum_rule(b: Builder, call: Call) -> Value:
    values: list[Value] = call.bound.get("operands", [])
    if len(values) not in (1, 2):
        raise Untypable("np.einsum of more than two operands")
    letters, result = _parse_subscripts(call.static("subscripts"), len(values))
    dtype = _check_dtypes(values)
    if np.sum(np.zeros(1, dtype)).dtype != dtype:
        raise Untypable(f"a sum that stays in {dtype}")
    if any(rank_of(value) != len(one) for value, one in zip(values, letters, strict=True)):
        raise Untypable("np.einsum of operands with other ranks")
    _check_extents(values, letters)
    if len(values) == 1:
        return _reordered(b, _summed(b, values[0], letters[0], result, dtype), letters[0], result)
    # What only one operand has and the result has not is summed there first.
    for number in (0, 1):
        kept = set(letters[1 - number]) | set(result)
        values[number] = _summed(b, values[number], letters[number], kept, dtype)
        letters[number] = "".join(letter for letter in letters[number] if letter in kept)
    values = [cast_to(b, value, dtype) for value in values]
    if not all(letters):
        raise Untypable("np.einsum that sums all of one operand")
    return _einsum_of_two(b, values, letters, result, dtype)


def _check_extents(values: Sequence[Value], letters: Sequence[str]) -> None:
    """Equal letters must have equal extents; NumPy would even broadcast those of 1."""
    known: dict[str, Any] = {}
    for value, one in zip(values, letters, strict=True):
        for letter, dim in zip(one, tensor(value).dims or (), strict=True):
            other = known.setdefault(letter, dim)
            both_known = isinstance(dim, int) and isinstance(other, int)
            if dim != other and (both_known or 1 in (dim, other)):
                raise Untypable("np.einsum of extents that differ")


def _summed(b: Builder, x: Value, letters: str, kept: Any, dtype: np.dtype[Any]) -> Value:
    axes = tuple(axis for axis, letter in enumerate(letters) if letter not in kept)
    return b.op("np::sum", x, axis=axes, dtype=dtype) if axes else x


def _reordered(b: Builder, x: Value, letters: str, result: str) -> Value:
    """The axes in the result's order; those that are summed are gone already."""
    left = [letter for letter in letters if letter in result]
    if not left:
        return x
    return b.op("np::transpose", x, axes=tuple(left.index(letter) for letter in result))


def _einsum_of_two(
    b: Builder, values: Sequence[Value], letters: Sequence[str], result: str, dtype: np.dtype[Any]
) -> Value:
    shared = [letter for letter in letters[0] if letter in letters[1]]
    summed = [letter for letter in shared if letter not in result]
    if summed == shared and shared:
        pairs = [(letters[0].index(one), letters[1].index(one)) for one in summed]
        product = _contract(b, values[0], values[1], pairs)
        free = "".join(one for one in letters[0] + letters[1] if one not in summed)
        return _reordered(b, product, free, result)
    order = result + "".join(summed)
    opened = []
    for value, one in zip(values, letters, strict=True):
        axes = tuple(one.index(letter) for letter in order if letter in one)
        index = ", ".join(":" if letter in one else "None" for letter in order)
        opened.append(b.op("np::view", b.op("np::transpose", value, axes=axes), index=index))
    product = b.op("np::multiply", *opened)
    axes = tuple(range(len(result), len(order)))
    return b.op("np::sum", product, axis=axes, dtype=dtype) if axes else product


def _diagonal_rule(b: Builder, call: Call) -> Value:
    x = array_operand(call.value("a"))
    rank, dims = rank_of(x), tensor(x).dims or ()
    one, two = (checked_axis(call.static(name), rank) for name in ("axis1", "axis2"))
    offset = call.static("offset")
    if one == two or not isinstance(offset, int):
        raise Untypable("np.diagonal of one axis")
    rows, columns = dims[one], dims[two]
    if isinstance(rows, int) and isinstance(columns, int):
        length: Dim = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    elif rows == columns and offset == 0:
        length = rows
    else:
        length = b.fresh_dim(("diagonal", rows, columns, offset))
    others = tuple(dim for axis, dim in enumerate(dims) if axis not in (one, two))
    attributes = {"offset": offset, "axis1": one, "axis2": two}
    return b.emit("np::diagonal", [x], attributes, TensorType(tensor(x).dtype, (*others, length)))


def _trace_rule(b: Builder, call: Call) -> Value:
    places = {name: call.static(name) for name in ("offset", "axis1", "axis2")}
    diagonal = b.op("np::diagonal", call.value("a"), **places)
    dtype = call.static("dtype")
    return b.op("np::sum", diagonal, axis=-1, **({} if dtype is None else {"dtype": dtype}))


def _matrix_of(diagonal: Any, offset: Any, dtype: Any) -> Any:
    size = len(diagonal)
    extent = size + abs(offset)
    matrix = np.zeros((extent, extent), dtype)
    if offset >= 0:
        for place in range(size):
            matrix[place, place + offset] = diagonal[place]
    else:
        for place in range(size):
            matrix[place - offset, place] = diagonal[place]
    return matrix


def _diag_rule(b: Builder, call: Call) -> Value:
    v, offset = array_operand(call.value("v")), call.static("k")
    if rank_of(v) == 2:
        return b.op("np::diagonal", v, offset=offset)
    if rank_of(v) != 1 or not isinstance(offset, int):
        raise Untypable("np.diag of something else than a vector or a matrix")
    return b.define(_matrix_of, v, offset, tensor(v).dtype)


def _diagflat_rule(b: Builder, call: Call) -> Value:
    v, offset = array_operand(call.value("v")), call.static("k")
    if not isinstance(offset, int):
        raise Untypable("np.diagflat with an offset that is not known")
    return b.define(_matrix_of, b.op("np::ravel", v), offset, tensor(v).dtype)


def _overwritten_diagonal(matrix: Any, value: Any) -> Any:
    for place in range(min(matrix.shape[0], matrix.shape[1])):
        matrix[place, place] = value


def _fill_diagonal_rule(b: Builder, call: Call) -> Value:
    x, value = array_operand(call.value("a")), call.value("val")
    is_number = value.type in (INT, FLOAT)
    if rank_of(x) != 2 or not (is_number or (tensor(value).scalar)) or call.static("wrap"):
        raise Untypable("np.fill_diagonal of something else than a matrix, with a number")
    return b.define(_overwritten_diagonal, x, value)


OPS: tuple[Op, ...] = (
    row(
        "einsum",
        np.einsum,
        _einsum_rule,
        "subscripts, *operands, out!=None, dtype!=None, order!='K', casting!='safe', "
        "optimize!=False",
        "Sums of products by the names of axes.",
        view=True,
    ),
    row(
        "tensordot",
        np.tensordot,
        _tensordot_rule,
        "a, b, axes=2",
        "Sums of products over pairs of axes.",
    ),
    row(
        "diagonal",
        np.diagonal,
        _diagonal_rule,
        "a, offset=0, axis1=0, axis2=1",
        "A diagonal, a read-only view.",
        view=True,
        methods={"diagonal": None},
    ),
    row(
        "trace",
        np.trace,
        _trace_rule,
        "a, offset=0, axis1=0, axis2=1, dtype=None, out!=None",
        "The sum of a diagonal.",
        methods={"trace": None},
    ),
    row(
        "diag",
        np.diag,
        _diag_rule,
        "v, k=0",
        "A matrix of this diagonal, or the diagonal of a matrix.",
        view=True,
    ),
    row("diagflat", np.diagflat, _diagflat_rule, "v, k=0", "A matrix of this diagonal."),
    row(
        "fill_diagonal",
        np.fill_diagonal,
        _fill_diagonal_rule,
        "a, val, wrap=False",
        "Write a number to a diagonal.",
        writes=(0,),
        pure=False,
    ),
)
