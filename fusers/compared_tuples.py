"""Tuples of which a program asks whether they are one object.

Compiled code has the elements of a tuple, and puts them into a new tuple for Python.  Where a typed
graph is left with such a question, Python runs the function as it is.  Where neither side has a
type before the program runs, no region may give what is asked about:

    %p : Any = prim::NativeGroup(%pairs)            %p : Any = prim::For(%pairs, …)
    %q : Any = prim::getitem(%pairs, %0)      ->    %q : Any = prim::getitem(%pairs, %0)
    %y : Any = prim::is_(%p, %q)                    %y : Any = prim::is_(%p, %q)
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import chain, product

from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.operator_methods import BINARY, UNARY
from jitcore.ir.types import ANY, TupleType

__all__ = ["WHICH_TUPLE", "makers_of_compared", "question_of_tuples"]

WHICH_TUPLE = (
    "whether tuples are one object, which compiled code cannot say; so Python runs all of it"
)

_IDENTITIES = ("prim::is_", "prim::isnot")
_FUNCTIONS = (id, operator.is_, operator.is_not)
_ARITHMETIC = frozenset({*BINARY, *UNARY})
_PARTS = frozenset({"prim::TupleConstruct", "prim::Unpack"})


def question_of_tuples(graph: Graph) -> Node | None:
    """What asks, in a typed graph, for the identity of what may be a tuple taken apart."""
    unknown: Node | None = None
    for node in _questions(graph):
        types = [value.type for value in _compared(node)]
        has_tuple = any(isinstance(one, TupleType) for one in types)
        if has_tuple and all(one == ANY or isinstance(one, TupleType) for one in types):
            return node
        if set(types) == {ANY}:
            unknown = node
    return unknown if unknown is not None and any(map(_gets_away, _values(graph))) else None


def makers_of_compared(graph: Graph) -> set[Node]:
    """The nodes that may give on an object without a type that is compared, or what may hold it.

    Arithmetic makes new objects.
    """
    pairs = (_compared(node) for node in _questions(graph))
    owners = [one for pair in pairs if {value.type for value in pair} == {ANY} for one in pair]
    if not owners:
        return set()
    alias = AliasAnalysis(graph)
    return {
        node
        for node in graph.nodes()
        if node.kind.startswith("prim::") and node.kind not in _ARITHMETIC
        for value, owner in product(node.outputs, owners)
        if value is owner or alias.may_contain_alias(value, owner)
    }


def _questions(graph: Graph) -> Iterator[Node]:
    found = map(graph.find_all_nodes, (*_IDENTITIES, "prim::Call"))
    return (node for node in chain.from_iterable(found) if _compared(node))


def _compared(node: Node) -> list[Value]:
    """What a node asks the identity of; nothing where it does not, or knows one side."""
    if node.kind in _IDENTITIES:
        asked = node.inputs
    else:
        callee = node.inputs[0].constant
        function = None if callee is None else callee.attributes["value"]
        asked = node.inputs[1:] if any(function is one for one in _FUNCTIONS) else []
    return [] if any(map(_is_no_tuple, asked)) else list(asked)


def _is_no_tuple(value: Value) -> bool:
    constant = value.constant
    return constant is not None and not isinstance(constant.attributes["value"], tuple)


def _gets_away(value: Value) -> bool:
    """Whether a tuple may come back as a value without a type, and as a new tuple then."""
    if not isinstance(value.type, TupleType):
        return False
    return any(_takes(use.user, use.index) for use in value.uses)


def _takes(user: Node | Block, number: int) -> bool:
    """Whether a user may give a tuple on, by itself or from what it keeps it in."""
    if isinstance(user, Block):
        return user.owner is not None
    if user.kind in _PARTS:
        return False
    effects = node_effects(user)
    given = (effects.aliases, effects.keeps, effects.passes, effects.stores, effects.moves)
    return effects.wildcard or any(number in numbers for numbers in given)


def _values(graph: Graph) -> Iterator[Value]:
    yield from graph.inputs
    for node in graph.nodes():
        yield from node.outputs
        for block in node.blocks:
            yield from block.params
