"""Lists of lists that are arguments, and those that are returned: between Python and the heap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.loops import Call, Expr, Load, Store, Var
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, compare, integer
from jitcore.codegen.lowering.lists import contents, list_argument, new_list
from jitcore.codegen.lowering.operands import ArrayRef, NotNative, Operand, Owner, row_major
from jitcore.codegen.lowering.state import NULL, Lowering, Rule
from jitcore.codegen.runtime.shared_lists import (
    CODE_DTYPES,
    COLUMNS,
    FIRST_LIST,
    HAS_LISTS,
    HEADER_WORDS,
    KINDS,
    MAX_WIDTH,
    MEMO,
    PART_WORDS,
    READ,
    ROOM,
    ROOT_WORDS,
    ROW_WORDS,
    ROWS,
    ROWS_OBJECT,
    WIDTH,
)
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import TensorType

__all__ = ["RULES"]

_WORDS = np.dtype(np.int64)


_Kind = int | str | tuple[int, ...]
"""What is in a column, as `list_results` says."""


def _code(kind: _Kind) -> int:
    """What the runtime knows the kind of a number, or of references to lists of a part, by."""
    if isinstance(kind, int):
        return FIRST_LIST + kind
    return KINDS.index(kind if isinstance(kind, str) else "mixed")


class _Table:
    """The table that functions of the runtime know the heap by (``runtime/shared_lists.py``)."""

    def __init__(self, lowering: Lowering, parts: Sequence[Sequence[_Kind]]) -> None:
        if lowering.target.is_device:
            raise NotNative("lists of lists are read and made on the host")
        self.lowering = lowering
        words = HEADER_WORDS + len(parts) * PART_WORDS
        self.memory = lowering.allocate("lists", (integer(words),), _WORDS, escapes=False)
        self.parts = [[_code(kind) for kind in kinds] for _, *kinds in parts]
        self.put(2, integer(len(parts)))
        for number, (width, *_) in enumerate(parts):
            assert isinstance(width, int)
            if width > MAX_WIDTH:
                raise NotNative(f"lists of tuples with more than {MAX_WIDTH} elements")
            self.put(self.word(number, WIDTH), integer(width))
            has_lists = any(code >= FIRST_LIST for code in self.parts[number])
            self.put(self.word(number, HAS_LISTS), integer(int(has_lists)))
            for code, word in self.columns(number):
                self.put(word, integer(code))
            for kind, (_, word) in zip(parts[number][1:], self.columns(number), strict=True):
                if isinstance(kind, tuple):
                    packed = sum(place << 8 * n for n, place in enumerate(kind))
                    self.put(word + 2, integer(packed))

    @property
    def pointer(self) -> Expr:
        return self.memory.pointer

    def word(self, part: int, place: int) -> int:
        return HEADER_WORDS + part * PART_WORDS + place

    def put(self, word: int, value: Expr) -> None:
        memory = self.memory
        self.lowering.emitter.emit(Store(memory.pointer, integer(word), value, memory.root))

    def get(self, name: str, word: int, dtype: str = "int64") -> Expr:
        load = Load(self.memory.pointer, integer(word), dtype, self.memory.root)
        return self.lowering.emitter.copy(name, load)

    def columns(self, part: int) -> Iterator[tuple[int, int]]:
        """The code and the first word of each column of a part."""
        for column, code in enumerate(self.parts[part]):
            yield code, self.word(part, COLUMNS + 3 * column)

    def clear(self) -> None:
        """Say that nothing was read yet."""
        for number in range(len(self.parts)):
            for place in (MEMO, *READ, *ROOM, ROWS_OBJECT):
                self.put(self.word(number, place), ZERO)
            for column in range(MAX_WIDTH):
                self.put(self.word(number, COLUMNS + 3 * column + 2), ZERO)

    def fill(self, arrays: Sequence[Value]) -> None:
        """Note where the heap lies now: for each part a memo, the rows and the columns."""
        operands = iter([contents(self.lowering, value)[1].pointer for value in arrays])
        for number in range(len(self.parts)):
            self.put(self.word(number, MEMO), next(operands))
            self.put(self.word(number, ROWS), next(operands))
            for _, word in self.columns(number):
                self.put(word + 1, next(operands))


def _take_shared(lowering: Lowering, node: Node) -> Operand:
    """Read lists that are arguments into new arrays."""
    table = _Table(lowering, node.attributes["parts"])
    table.clear()
    count = len(node.inputs)
    roots = lowering.allocate("roots", (integer(ROOT_WORDS * count),), _WORDS, escapes=False)
    for number, (value, part) in enumerate(zip(node.inputs, node.attributes["roots"], strict=True)):
        for word, content in enumerate((list_argument(lowering, value).pointer, integer(part))):
            place = integer(ROOT_WORDS * number + word)
            lowering.emitter.emit(Store(roots.pointer, place, content, roots.root))
    args = (table.pointer, roots.pointer, integer(count))
    call = Call("jc_take_shared", args, "int64", external=True)
    status = lowering.emitter.copy("failed", call)
    lowering.fail(compare("ne", status, ZERO), None, "lists with other elements")
    found: list[Operand] = []
    for number in range(count):
        load = Load(roots.pointer, integer(ROOT_WORDS * number + 2), "int64", roots.root)
        found.append(lowering.emitter.copy("place", load))
    outputs = iter(node.outputs[count:])
    for number in range(len(table.parts)):
        found += _taken_part(lowering, table, number, outputs)
    return found[0] if len(found) == 1 else tuple(found)


def _taken_part(
    lowering: Lowering, table: _Table, number: int, outputs: Iterator[Value]
) -> list[Operand]:
    """The memo, the rows and how many words they are, the columns and how many elements."""
    row_room, room = (table.get("room", table.word(number, place)) for place in ROOM)
    rows_read, read = (table.get("read", table.word(number, place)) for place in READ)

    def memory(word: int, extent: Expr, dtype: np.dtype[Any]) -> ArrayRef:
        made = table.get("object", word, "ptr")
        owner = Owner(made, is_object=True)
        lowering.own(owner)
        pointer = lowering.emitter.let("numbers", Load(made, integer(2), "ptr"))
        return _taken_array(lowering, next(outputs), pointer, extent, dtype, owner)

    memo = table.get("memo", table.word(number, MEMO), "ptr")
    owner = _memo_owner(lowering, memo)
    found: list[Operand] = [_taken_array(lowering, next(outputs), memo, row_room, _WORDS, owner)]
    found += [memory(table.word(number, ROWS_OBJECT), row_room, _WORDS), rows_read]
    next(outputs)
    for code, word in table.columns(number):
        dtype = CODE_DTYPES[code] if code < FIRST_LIST else _WORDS
        found.append(memory(word + 2, room, dtype))
    next(outputs)
    lowering.count_elements_read(read)
    return [*found, read]


def _memo_owner(lowering: Lowering, memo: Expr) -> Owner:
    owner = Owner(memo, is_object=False, release="jc_free_memo")
    lowering.own(owner)
    return owner


def _taken_array(
    lowering: Lowering,
    value: Value,
    pointer: Expr,
    extent: Expr,
    dtype: np.dtype[Any],
    owner: Owner,
) -> ArrayRef:
    type_ = value.type
    assert isinstance(type_, TensorType) and type_.dims is not None
    assert isinstance(pointer, Var)
    lowering.never_one.add(extent)
    lowering.define(type_.dims[0], extent)
    root = frozenset({pointer.name})
    return ArrayRef(
        pointer, (extent,), (ONE,), dtype, root, owner=owner, whole=True, order=row_major(1)
    )


def _memo(lowering: Lowering, node: Node) -> Operand:
    """What says which lists are objects: those that were read, and room for all others."""
    words = lowering.scalar(node.inputs[0])
    known: Expr = NULL
    read: Expr = ZERO
    if len(node.inputs) > 1:
        known, read = lowering.array(node.inputs[1]).pointer, lowering.scalar(node.inputs[2])
    call = Call("jc_new_memo", (known, read, words), "ptr", external=True)
    pointer = lowering.emitter.copy("memo", call)
    lowering.fail(compare("eq", pointer, NULL), MemoryError)
    owner = _memo_owner(lowering, pointer)
    return _taken_array(lowering, node.output, pointer, words, _WORDS, owner)


def _write_shared(lowering: Lowering, node: Node) -> Operand:
    """Give lists that were read the elements that they have now."""
    parts = node.attributes["parts"]
    read, arrays = node.inputs[: len(parts)], node.inputs[len(parts) :]
    table = _Table(lowering, parts)
    table.fill(arrays)
    for number, value in enumerate(read):
        table.put(table.word(number, READ[0]), lowering.scalar(value))
    lowering.lists_end = True
    for number in node.attributes["written"]:
        args = (table.pointer, integer(number))
        call = Call("jc_write_shared", args, "int64", external=True)
        status = lowering.emitter.let("failed", call)
        lowering.fail(compare("ne", status, ZERO), MemoryError)
    return ()


def _make_shared(lowering: Lowering, node: Node) -> Operand:
    """A list in the heap, and all lists in it, as Python's."""
    place, *arrays = node.inputs
    table = _Table(lowering, node.attributes["parts"])
    table.fill(arrays)
    args = (table.pointer, integer(node.attributes["part"]), lowering.scalar(place))
    return new_list(lowering, node, Call("jc_list_of_shared", args, "ptr", external=True))


def _make_rows(lowering: Lowering, node: Node) -> Operand:
    """A list of tuples of numbers, or of NumPy's scalars, with a column for each of them.

    It is a heap with a single list, whose elements are the first ones of the columns.
    """
    *columns, count = node.inputs
    table = _Table(lowering, [node.attributes["kinds"]])
    words = integer(ROW_WORDS)
    memo = lowering.emitter.copy("memo", Call("jc_new_memo", (NULL, ZERO, words), "ptr", True))
    lowering.fail(compare("eq", memo, NULL), MemoryError)
    _memo_owner(lowering, memo)
    rows = lowering.allocate("rows", (words,), _WORDS, escapes=False)
    length = lowering.scalar(count)
    for place, word in enumerate((ZERO, length, length)):
        lowering.emitter.emit(Store(rows.pointer, integer(place), word, rows.root))
    table.put(table.word(0, MEMO), memo)
    table.put(table.word(0, ROWS), rows.pointer)
    for (_, first), column in zip(table.columns(0), columns, strict=True):
        table.put(first + 1, contents(lowering, column)[1].pointer)
    args = (table.pointer, ZERO, ZERO)
    return new_list(lowering, node, Call("jc_list_of_shared", args, "ptr", external=True))


RULES: dict[str, Rule] = {
    "prim::ListMakeRows": _make_rows,
    "prim::ListMakeShared": _make_shared,
    "prim::ListMemo": _memo,
    "prim::ListTakeShared": _take_shared,
    "prim::ListWriteShared": _write_shared,
}
