"""Characters of texts as their code points: what ``specialize`` makes of operations on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.reference import require
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.lists.list_states import LIST_KINDS
from jitcore.ir.specialize.skeletons import RecordsAreNotValues
from jitcore.ir.types import ANY, CHARACTER, STR

__all__ = ["apply_to_character"]

_ORDERS = frozenset(f"prim::{name}" for name in ("lt", "le", "gt", "ge"))
_COMPARISONS = _ORDERS | {"prim::eq", "prim::ne"}
_KEEPERS = LIST_KINDS | {
    *("prim::ListPop", "prim::TupleConstruct", "prim::CheckBound", "prim::CallFunction"),
}
_ASCII = 128
_NOT_ASCII = "a character whose class only Python knows"


def apply_to_character(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that reads characters; None of all others, and where it keeps them."""
    if not any(value.type == CHARACTER for value in inputs) or node.kind in _KEEPERS:
        return None
    first, kind = inputs[0], node.kind
    if kind in _COMPARISONS:
        return _comparison(worker, node, inputs)
    if kind in ("prim::in_", "prim::notin") and first.type == CHARACTER:
        found = _membership(worker, first, inputs[1])
        return found if kind == "prim::in_" else worker.op("prim::not_", found)
    if kind in ("prim::len", "prim::bool"):
        return worker.constant(1 if kind == "prim::len" else True)
    if kind == "prim::int" and len(inputs) == 1:
        return _defined(worker, _digit, first)
    if kind == "prim::Call" and first.constant_value is ord and len(inputs) == 2:
        return _known_code(inputs[1])
    if kind == "prim::CallMethod" and len(inputs) == 1:
        return _method(worker, first, node.attributes["name"])
    raise RecordsAreNotValues(f"{kind} of a character")


def _comparison(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    codes = [_code(worker, value) for value in inputs]
    if None not in codes:
        return worker.op(node.kind, *codes)
    if not any(value.constant for value in inputs):
        if any(value.type in (STR, ANY) for value in inputs):
            return _left(worker, node, inputs)
    elif node.kind not in _ORDERS:
        return _equality(worker, inputs, is_equal=node.kind == "prim::eq")
    raise RecordsAreNotValues("a character that is compared with something else")


def _left(worker: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    """A comparison with a text that may yet turn out to be a character, as Python has it.

    That is so where a loop is tried out with the type that a variable has before it.
    """
    made = worker.block.append(node.kind, inputs, outputs=(ANY,), source=worker.source)
    made.host_reason = "a character is compared with a text"
    return made.output


def _known_code(character: Value) -> Value:
    if character.node is None or character.node.kind != "prim::RecordState":
        raise RecordsAreNotValues("a character that is not known")
    return character.node.inputs[0]


def _code(worker: BranchBuilder, value: Value) -> Value | None:
    """The code point of a character, or of a text that is one; None of all else."""
    if value.type == CHARACTER:
        return _known_code(value)
    held = value.constant_value
    return worker.constant(ord(held)) if isinstance(held, str) and len(held) == 1 else None


def _equality(worker: BranchBuilder, inputs: Sequence[Value], *, is_equal: bool) -> Value:
    codes = [_code(worker, value) for value in inputs]
    if None not in codes:
        return worker.op("prim::eq" if is_equal else "prim::ne", *codes)
    if not any(isinstance(value.constant_value, str) for value in inputs):
        raise RecordsAreNotValues("a character that is compared with something else")
    return worker.constant(not is_equal)


def _membership(worker: BranchBuilder, character: Value, container: Value) -> Value:
    """Whether a character is in a text that is known, or in a tuple of characters."""
    held = container.constant_value
    if not isinstance(held, str):
        try:
            members = worker.elements(container)
        except Untypable as reason:
            raise RecordsAreNotValues(str(reason)) from reason
        found = worker.constant(False)
        for one in members:
            is_one = _equality(worker, [character, one], is_equal=True)
            found = worker.op("prim::or_", found, is_one)
        return found
    code, found = _known_code(character), worker.constant(False)
    for first, last in _ranges(sorted(set(map(ord, held)))):
        above, below = worker.op("prim::ge", code, first), worker.op("prim::le", code, last)
        found = worker.op("prim::or_", found, worker.op("prim::and_", above, below))
    return found


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The runs of numbers that follow one another, by their first and last."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def _method(worker: BranchBuilder, character: Value, name: str) -> Value:
    if name in _QUESTIONS:
        return _defined(worker, _QUESTIONS[name], character)
    if name in _CHANGES:
        code = _defined(worker, _CHANGES[name], character)
        return worker.emit("prim::RecordState", [code], {}, CHARACTER)
    raise RecordsAreNotValues(f"the method {name} of a character")


def _defined(worker: BranchBuilder, function: Callable[..., Any], character: Value) -> Value:
    try:
        return worker.define(function, _known_code(character))
    except Untypable as reason:
        raise RecordsAreNotValues(str(reason)) from reason


def _digit(code: int) -> int:
    require(code < _ASCII, "NotImplementedError", _NOT_ASCII)
    require(48 <= code <= 57, "ValueError", "invalid literal for int() with base 10")
    return code - 48


def _is_digit(code: int) -> bool:
    require(code < _ASCII, "NotImplementedError", _NOT_ASCII)
    return 48 <= code <= 57


def _is_upper(code: int) -> bool:
    require(code < _ASCII, "NotImplementedError", _NOT_ASCII)
    return 65 <= code <= 90


def _is_lower(code: int) -> bool:
    require(code < _ASCII, "NotImplementedError", _NOT_ASCII)
    return 97 <= code <= 122


def _is_letter(code: int) -> bool:
    return _is_upper(code) or _is_lower(code)


def _is_letter_or_digit(code: int) -> bool:
    return _is_letter(code) or _is_digit(code)


def _is_space(code: int) -> bool:
    require(code < _ASCII, "NotImplementedError", _NOT_ASCII)
    return 9 <= code <= 13 or 28 <= code <= 32


def _upper(code: int) -> int:
    return code - 32 if _is_lower(code) else code


def _lower(code: int) -> int:
    return code + 32 if _is_upper(code) else code


_QUESTIONS: dict[str, Callable[[int], bool]] = {
    "isalnum": _is_letter_or_digit,
    "isalpha": _is_letter,
    "isdecimal": _is_digit,
    "isdigit": _is_digit,
    "islower": _is_lower,
    "isnumeric": _is_digit,
    "isspace": _is_space,
    "isupper": _is_upper,
}
_CHANGES: dict[str, Callable[[int], int]] = {"lower": _lower, "upper": _upper}
