"""Ints that count: they start from small constants and only ever change by small constants.

A loop that adds 1 to an int cannot bring it beyond 64 bits while anybody waits for the result, so
``count += 1`` needs no check for that, which would keep LLVM from making vectors of the loop.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.types import INT

__all__ = ["LARGEST", "counters"]

LARGEST: Final = 2**62
"""What no counter reaches: Python needs decades for so many steps."""

_LARGEST_START: Final = 2**32
_LARGEST_STEP: Final = 64


def counters(graph: Graph) -> set[Value]:
    """The ints of a typed graph that stay below `LARGEST`.

    Each is a small constant, one of its sources and a small step, or one of its sources.  All that
    may be one are taken for counters first; those with a source that is none are then struck out.
    """
    sources = dict(_candidates(graph))
    found = set(sources)
    users: defaultdict[Value, list[Value]] = defaultdict(list)
    for value, ones in sources.items():
        for one in ones:
            users[one].append(value)
    struck = [one for one in users if one not in found]
    while struck:
        for value in users[struck.pop()]:
            if value in found:
                found.remove(value)
                struck.append(value)
    return found


def _candidates(graph: Graph) -> Iterator[tuple[Value, list[Value]]]:
    """Values with the ones that they come from by small steps."""
    for node in graph.nodes():
        for value, sources in _of_node(node):
            if value.type == INT:
                yield value, sources


def _of_node(node: Node) -> Iterator[tuple[Value, list[Value]]]:
    match node.kind:
        case "prim::Constant" if _is_small(node.output, _LARGEST_START):
            yield node.output, []
        case "prim::Uninitialized":
            yield node.output, []
        case "prim::add" | "prim::sub":
            yield from _of_sum(node)
        case "prim::If":
            for number, value in enumerate(node.outputs):
                yield value, [block.returns[number] for block in node.blocks]
        case "prim::Loop":
            (block,) = node.blocks
            carried = zip(block.params[1:], node.outputs, strict=True)
            for number, (param, value) in enumerate(carried):
                sources = [node.inputs[2 + number], block.returns[1 + number]]
                yield param, sources
                yield value, sources


def _of_sum(node: Node) -> Iterator[tuple[Value, list[Value]]]:
    x, y = node.inputs
    if _is_small(y, _LARGEST_STEP):
        yield node.output, [x]
    elif node.kind == "prim::add" and _is_small(x, _LARGEST_STEP):
        yield node.output, [y]


def _is_small(value: Value, limit: int) -> bool:
    held = value.constant_value
    return type(held) is int and abs(held) <= limit
