"""What is done with values that are more than their types say, a kind of values a file.

Each file is imported with the first node that has to do with such a value: few programs have some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Final

from jitcore.ir.graph import Node, Value
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.typed_builder import is_known_dict
from jitcore.ir.specialize.value_kinds import holds_object
from jitcore.ir.types import (
    CHARACTER,
    GENERATORS,
    LocalListType,
    SharedListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
)

__all__ = [
    "apply_by_value",
    "apply_to_mixed",
    "call_foreign",
    "concerns_lists",
    "concerns_numbers",
    "is_foreign",
    "is_shared",
    "made_generator",
    "without_row",
]

Apply = Callable[[BranchBuilder, Node, list[Value]], "Value | None"]


def is_shared(value: Value) -> bool:
    """Whether a value is a reference to a list in the heap."""
    return isinstance(value.type, SharedListType)


def concerns_lists(worker: BranchBuilder, node: Node, inputs: list[Value]) -> bool:
    """Whether a node may have to do with lists that are values, or with some in the heap."""
    if worker.shared is not None or node.kind.startswith("prim::List"):
        return True
    return any(isinstance(value.type, LocalListType | SharedListType) for value in inputs)


def concerns_numbers(worker: BranchBuilder, node: Node, inputs: list[Value]) -> bool:
    """Whether a node surely has to do with numbers and arrays of them only."""
    if worker.shared is not None or worker.methods is not None or node.kind in _OF_ANY_VALUES:
        return False
    is_list = node.kind.startswith("prim::List")
    return not is_list and all(_is_of_numbers(value.type) for value in inputs)


def _is_of_numbers(type_: Type) -> bool:
    if type(type_) is TensorType:
        return type_.dtype is not None and type_.dtype.names is None
    return is_number(type_)


_OF_ANY_VALUES: Final = frozenset({"prim::raises"})
"""Kinds that say something of the program, whatever their inputs are."""


def is_foreign(node: Node, inputs: list[Value]) -> bool:
    """Whether a node calls a function of NumPy without a row, or draws random numbers."""
    if node.kind == "prim::Call":
        return made_generator(inputs) is not None
    is_draw = node.kind == "prim::CallMethod" and inputs[0].type in GENERATORS.values()
    return node.kind == "np::call" or is_draw


def made_generator(inputs: Sequence[Value]) -> Type | None:
    """The type of the generator that a call makes, or None."""
    node = inputs[0].constant
    held = None if node is None else node.attributes["value"]
    return GENERATORS.get(held) if isinstance(held, type) else None


def apply_to_mixed(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """What a node gives for numbers of several types together; None of all other nodes."""
    if not any(isinstance(value.type, UnionType) for value in inputs):
        return None
    return _function("mixed_numbers.apply_to_mixed")(worker, node, inputs)


def without_row(node: Node) -> Node:
    """The call of a function of NumPy as it were if the function had no row."""
    name = node.kind.removeprefix("np::")
    return Node(None, "np::call", (), {**node.attributes, "name": name}, node.keywords, node.source)


def call_foreign(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value:
    """What such a node gives."""
    found = _function("foreign_calls.call_foreign")(worker, node, inputs)
    assert found is not None
    return found


def apply_by_value(worker: BranchBuilder, node: Node, inputs: list[Value]) -> Value | None:
    """The result of a node that has to do with such values; None of all others."""
    for is_concerned, place in _PLACES:
        if is_concerned(worker, node, inputs):
            found = _function(place)(worker, node, inputs)
            if found is not None:
                return found
    return None


@cache
def _function(place: str) -> Apply:
    """A function, from ``file.function``."""
    file, _, name = place.rpartition(".")
    found: Apply = getattr(import_module(f"jitcore.ir.specialize.{file}"), name)
    return found


def _asks_for_errors(_: BranchBuilder, node: Node, __: list[Value]) -> bool:
    return node.kind == "prim::raises"


def _has_characters(_: BranchBuilder, __: Node, inputs: list[Value]) -> bool:
    return any(value.type == CHARACTER for value in inputs)


def _may_have_objects(worker: BranchBuilder, _: Node, inputs: list[Value]) -> bool:
    return worker.methods is not None or any(holds_object(value.type) for value in inputs)


def _has_known_dicts(_: BranchBuilder, __: Node, inputs: list[Value]) -> bool:
    return any(map(is_known_dict, inputs))


def _has_known_lists(_: BranchBuilder, __: Node, inputs: list[Value]) -> bool:
    types = [value.type for value in inputs]
    return any(isinstance(one, TupleType) and one.named is list for one in types)


_PLACES: Final = (
    (_asks_for_errors, "raised_errors.ask_first"),
    (concerns_lists, "lists.shared_states.apply_to_shared"),
    (_has_characters, "characters.apply_to_character"),
    (_may_have_objects, "objects.objects.apply_to_object"),
    (concerns_lists, "lists.list_states.apply_to_list"),
    (_has_known_dicts, "known_dicts.apply_to_known_dict"),
    (_has_known_lists, "known_lists.apply_to_known_list"),
)
