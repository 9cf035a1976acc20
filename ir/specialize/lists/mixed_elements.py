"""Elements of a list that are numbers of several types, or None: a code and the numbers.

A list of such elements has an array of codes, which say what each of them is, and one array for
each dtype among its types: ``float`` and ``numpy.float64`` share one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from jitcore.ir.graph import Block, Value
from jitcore.ir.specialize.value_kinds import alternatives_of, converted, dtype_of_number
from jitcore.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    LocalListType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    scalar_type,
)

__all__ = [
    "code_of",
    "is_mixed",
    "is_of_one_dtype",
    "mixed_leaf_types",
    "mixed_numbers",
    "tag_of_code",
    "translated_tag",
    "widened_buffers",
]

_CODES: dict[Type, int] = {INT: 0, FLOAT: 1, BOOL: 2, NONE: 3}

_FIRST_SCALAR = 4
"""The codes of NumPy's scalars follow, in the order of the numbers of their dtypes."""


def code_of(type_: Type) -> int:
    """What stands for a type in an array of codes."""
    if isinstance(type_, TensorType) and type_.dtype is not None:
        return _FIRST_SCALAR + type_.dtype.num
    return _CODES[type_]


def mixed_leaf_types(type_: UnionType) -> Iterator[Type]:
    """The types of the numbers that such an element is made of."""
    yield INT
    yield from _leading(type_).values()


def _leading(type_: UnionType) -> dict[np.dtype[Any] | None, Type]:
    """For each dtype the first alternative that has it."""
    found: dict[np.dtype[Any] | None, Type] = {}
    for one in type_.held:
        found.setdefault(dtype_of_number(one), one)
    return found


def mixed_numbers(item: Value, type_: UnionType, block: Block) -> Iterator[Value]:
    """The code of an element, and its number for each dtype."""
    yield _code(item, block)
    held = {dtype_of_number(one.type): one for one in alternatives_of(item)}
    for dtype, one in _leading(type_).items():
        yield converted(block, held[dtype] if dtype in held else block.constant(0, INT), one)


def _code(item: Value, block: Block) -> Value:
    codes = [code_of(one.type) for one in alternatives_of(item)]
    if not isinstance(item.type, UnionType):
        return block.constant(codes[0], INT)
    assert item.node is not None
    return translated_tag(item.node.inputs[0], codes, block)


def tag_of_code(code: Value, type_: UnionType, block: Block) -> Value:
    """Which alternative of a union a code stands for."""
    tag = block.constant(0, INT)
    for number, one in enumerate(type_.alternatives[1:], 1):
        tag = _plus(tag, _is(code, "prim::eq", code_of(one), block), number, block)
    return tag


def translated_tag(tag: Value, numbers: Sequence[int], block: Block) -> Value:
    """The number in the place that a tag says: a sum of comparisons."""
    if list(numbers) == list(range(len(numbers))):
        return tag
    result = block.constant(numbers[0], INT)
    for number in range(1, len(numbers)):
        reached = _is(tag, "prim::ge", number, block)
        result = _plus(result, reached, numbers[number] - numbers[number - 1], block)
    return result


def _is(value: Value, kind: str, number: int, block: Block) -> Value:
    return block.append(kind, [value, block.constant(number, INT)], outputs=(BOOL,)).output


def _plus(value: Value, condition: Value, step: int, block: Block) -> Value:
    """A number, and a step more where a condition holds."""
    as_int = block.append("prim::int", [condition], outputs=(INT,)).output
    scaled = block.append("prim::mul", [as_int, block.constant(step, INT)], outputs=(INT,)).output
    return block.append("prim::add", [value, scaled], outputs=(INT,)).output


def is_mixed(element: Type | None) -> bool:
    """Whether there are numbers of several types in the elements of a list."""
    if isinstance(element, TupleType | RecordType):
        return any(map(is_mixed, element.elements))
    return isinstance(element, UnionType)


def is_of_one_dtype(element: Type) -> bool:
    """Whether elements are numbers with one dtype, those of several types too, or arrays."""
    if isinstance(element, TupleType | RecordType):
        return False
    if isinstance(element, UnionType):
        is_number = len(element.held) == len(element.alternatives)
        return is_number and len(LocalListType(element).dtypes) == 2
    return len(LocalListType(element).dtypes) == 1


def widened_buffers(
    block: Block, buffers: Sequence[Value], before: Type, after: Type
) -> Iterator[Value]:
    """The arrays of a list whose elements may have more types from here on."""
    if not is_mixed(after) or before == after:
        return iter(buffers)
    first = buffers[0].type
    assert isinstance(first, TensorType) and first.dims is not None
    size = block.append("prim::size", [buffers[0]], {"dim": 0}, outputs=(INT,)).output

    def make(kind: str, dtype: np.dtype[Any], *values: Value) -> Value:
        type_ = TensorType(dtype, first.dims)
        return block.append(kind, [*values, size], {"dtype": dtype}, outputs=(type_,)).output

    return _widened(block, iter(buffers), make, before, after)


def _widened(
    block: Block, buffers: Iterator[Value], make: Callable[..., Value], before: Type, after: Type
) -> Iterator[Value]:
    if isinstance(before, TupleType | RecordType):
        assert isinstance(after, TupleType | RecordType)
        for pair in zip(before.elements, after.elements, strict=True):
            yield from _widened(block, buffers, make, *pair)
        return
    dtypes = LocalListType(before).dtypes
    own = list(islice(buffers, len(dtypes)))
    if not isinstance(after, UnionType):
        yield from own
        return
    of_codes, *wanted = LocalListType(after).dtypes
    if not isinstance(before, UnionType):
        code = converted(block, block.constant(code_of(before), INT), scalar_type(of_codes))
        own, dtypes = [make("np::full", of_codes, code), *own], (of_codes, *dtypes)
    yield own[0]
    known = dict(zip(dtypes[1:], own[1:], strict=True))
    for dtype in wanted:
        yield known[dtype] if dtype in known else make("np::empty", dtype)
