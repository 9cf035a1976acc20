"""Common subexpression elimination: what was computed before is not computed again."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from functools import cached_property
from typing import Any

import numpy as np

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis, Location
from jitcore.ir.effects import is_immutable, node_effects
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Value
from jitcore.ir.ops import TABLE

__all__ = ["common_subexpression_elimination", "constant_key"]


def common_subexpression_elimination(graph: Graph, analysis: AliasAnalysis | None = None) -> bool:
    """Replace a node by an earlier one that surely gives the same.

    Before::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : Float32[n] = np::add(%x, %y)
          %1 : Float32[n] = np::add(%x, %y)
          %2 : Float32[n] = np::multiply(%0, %1)
          np::store(%x, %y)
          %3 : Float32[n] = np::add(%x, %y)
          %4 : Float32[n] = np::multiply(%2, %3)
          return (%4)

    After::

        graph(%x : Float32[n], %y : Float32[n]):
          %0 : Float32[n] = np::add(%x, %y)
          %2 : Float32[n] = np::multiply(%0, %0)
          np::store(%x, %y)
          %3 : Float32[n] = np::add(%x, %y)
          %4 : Float32[n] = np::multiply(%2, %3)
          return (%4)

    Memory that a node reads must not be written in between.  New arrays are shared only where
    nobody writes to them and at most one of them gets out of the graph.

    Parameters
    ----------
    graph : Graph
    analysis : AliasAnalysis, optional
        Of the graph as it is, where that is at hand.
    """
    return _Elimination(graph, analysis or AliasAnalysis(graph)).run()


class _Elimination:
    """One walk over the graph; a time is the number of nodes met so far."""

    def __init__(self, graph: Graph, analysis: AliasAnalysis) -> None:
        self.graph = graph
        self.analysis = analysis
        self.scopes: list[dict[Hashable, Node]] = []
        self.met_at: dict[Node, int] = {}
        self.written_at: dict[Location, int] = {}
        self.now = 0
        self.changed = False

    # Few graphs compute the same array twice.  Where a number or another value without memory
    # is replaced before that, neither of these becomes another one.

    @cached_property
    def leaving_memory(self) -> set[Value]:
        return _leaving_memory(self.graph, self.analysis)

    @cached_property
    def leaving_objects(self) -> set[Value]:
        values = (value for node in self.graph.nodes() for value in node.outputs)
        return set(filter(_leaves, values))

    def run(self) -> bool:
        self._block(self.graph.block)
        return self.changed

    def _block(self, block: Block) -> None:
        self.scopes.append({})
        kept: list[Node] = []
        for node in block.nodes:
            self.now += 1
            if node.blocks:
                self._inside(node)
            elif self._visit(node):
                continue
            kept.append(node)
            self._note_writes(node)
        block.nodes = kept
        self.scopes.pop()

    def _inside(self, node: Node) -> None:
        if node.kind in LOOPS:
            # An iteration sees the writes of the one before.
            self._note_writes(node)
            self.now += 1
        for inner in node.blocks:
            self._block(inner)

    def _visit(self, node: Node) -> bool:
        """Replace a node by a known one, or remember it; whether it was replaced."""
        key = _key(node) if self._is_shareable(node) else None
        if key is None:
            return False
        earlier = next((scope[key] for scope in reversed(self.scopes) if key in scope), None)
        if earlier is not None and self._may_replace(node, earlier):
            log.update("cse", lambda: f"replace {node!r} by %{earlier.output.name}")
            self._replace(node, earlier)
            return True
        self.scopes[-1][key] = node
        self.met_at[node] = self.now
        return False

    def _is_shareable(self, node: Node) -> bool:
        if len(node.outputs) != 1 or self.analysis.has_effects(node):
            return False
        row = TABLE.get(node.kind)
        return node.kind in _PURE or (row is not None and row.pure)

    def _may_replace(self, node: Node, earlier: Node) -> bool:
        since = self.met_at[earlier]
        if any(self._is_written_after(one, since) for one in self.analysis.reads(node)):
            return False
        if is_immutable(node.output.type):
            return True
        outputs = {node.output, earlier.output}
        repeats = earlier.block is not node.block and node.output in self.leaving_objects
        if repeats or outputs <= self.leaving_objects:
            return False
        if not node_effects(node).fresh:
            return True
        return not outputs <= self.leaving_memory and not any(
            map(self.analysis.has_writers, outputs)
        )

    def _replace(self, node: Node, earlier: Node) -> None:
        self.changed = True
        if not is_immutable(node.output.type):
            for leaving in (self.leaving_memory, self.leaving_objects):
                if node.output in leaving:
                    leaving.add(earlier.output)
        node.output.replace_all_uses_with(earlier.output)
        node.drop_inputs()
        node.block = None

    def _note_writes(self, node: Node) -> None:
        for location in self.analysis.writes(node):
            self.written_at[location] = self.now

    def _is_written_after(self, location: Location, since: int) -> bool:
        wildcard = self.analysis.wildcard
        if self.written_at.get(location, -1) > since:
            return True
        if location is wildcard:
            return any(at > since for one, at in self.written_at.items() if one.escapes)
        return location.escapes and self.written_at.get(wildcard, -1) > since


# These have no row, or one that calls them impure; equal ones are equal all the same.
_PURE = frozenset({"prim::Constant", "prim::CheckBound", "prim::Uninitialized"})
# Their results are always objects of their own.
_NEW_OBJECTS = frozenset({"np::view", "np::transpose", "np::reshape", "np::broadcast_to"})


def _leaving_memory(graph: Graph, analysis: AliasAnalysis) -> set[Value]:
    """Values with memory that something outside the graph may know at its end."""
    out: set[Location] = set()
    for value in graph.outputs:
        out |= analysis.reachable(value)
    return {
        value
        for node in graph.nodes()
        for value in node.outputs
        if any(one in out or one.escapes for one in analysis.points_to(value))
    }


def _leaves(value: Value) -> bool:
    """Whether the object itself may get out of the graph, or its identity be looked at."""
    if is_immutable(value.type):
        return False
    for use in value.uses:
        user = use.user
        if isinstance(user, Block) or user.blocks or user.kind in ("prim::is_", "prim::isnot"):
            return True
        effects = node_effects(user)
        if effects.wildcard or use.index in (*effects.keeps, *effects.stores):
            return True
        gives_it = any(not is_immutable(output.type) for output in user.outputs)
        if use.index in effects.aliases and gives_it and user.kind not in _NEW_OBJECTS:
            return True
    return False


def _key(node: Node) -> Hashable | None:
    """What two nodes have in common if they compute the same; None where that has no form."""
    try:
        attributes = tuple(
            (name, constant_key(held)) for name, held in sorted(node.attributes.items())
        )
    except _NoKeyError:
        return None
    types = tuple(value.type for value in node.outputs)
    return (node.kind, attributes, tuple(node.inputs), node.keywords, types)


class _NoKeyError(Exception):
    """A value that only identity tells apart."""


def constant_key(held: Any) -> Hashable:
    """A key that two attribute values share only if nothing can tell them apart.

    So ``1``, ``1.0`` and ``True`` differ, as do ``0.0`` and ``-0.0``.  Python's NaNs are told apart
    by their identity, since containers ask for that.
    """
    if issubclass(type(held), Graph | list | dict | set):
        raise _NoKeyError
    if type(held) in (float, complex) and held != held:
        return (type(held), id(held))
    if type(held) is float:
        return (float, struct.pack("<d", held))
    if type(held) is complex:
        return (complex, struct.pack("<dd", held.real, held.imag))
    if type(held) in (tuple, frozenset):
        return (type(held), tuple(map(constant_key, held)))
    is_plain = type(held) is np.ndarray or issubclass(type(held), np.generic)
    if is_plain and held.dtype.names is None:
        if held.dtype.hasobject:
            raise _NoKeyError
        return (type(held), held.dtype.str, held.shape, held.tobytes())
    if type(held) in (int, bool, str, bytes, type(None), type(Ellipsis)):
        return (type(held), held)
    if issubclass(type(held), np.dtype):
        return (np.dtype, held.str, str(held))
    return (type(held), id(held))
