"""Alias analysis: which values may share memory, and which nodes may therefore change places.

As in TorchScript every value has a set of memory locations it may point to.  An output of a view
points where its operand points, new arrays point to a location of their own, and whatever came
from or went to code we do not see points to the *wildcard*.  A location may keep others: the
elements of a list.  The sets grow until nothing changes, so loops need no special case.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitcore.ir.effects import Effects, is_array_view, is_immutable, is_plain_array, node_effects
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Value
from jitcore.ir.may_raise import may_raise
from jitcore.ir.printer import print_node
from jitcore.ir.structured import is_structured
from jitcore.ir.types import OBJECT, TensorType

__all__ = ["AliasAnalysis", "Location", "Locations"]


class Location:
    """A piece of memory that values may point to.

    Attributes
    ----------
    label : str
        The value that it was first seen in.
    contents : set of Location
        What may be kept in it, if it is a container.
    escapes : bool
        Code outside of the graph may know it.
    field : str or None
        The one field of structured arrays that it is.
    """

    __slots__ = ("contents", "escapes", "field", "label")

    def __init__(self, label: str, escapes: bool = False, field: str | None = None) -> None:
        self.label = label
        self.field = field
        self.contents: set[Location] = set()
        self.escapes = escapes

    def __repr__(self) -> str:
        return self.label


Locations = frozenset[Location]
_EMPTY: Locations = frozenset()


def _goes_back(node: Node) -> bool:
    """Whether what is found out later may concern what comes before."""
    return node.kind in LOOPS or "graph" in node.attributes


class AliasAnalysis:
    """What is known about memory in one graph, at the time the analysis was made.

    Parameters
    ----------
    graph : Graph
        It must not change while the analysis is used.
    distinct_inputs : bool
        The graph's inputs are known not to share memory with each other.
    """

    def __init__(self, graph: Graph, *, distinct_inputs: bool = False) -> None:
        self.graph = graph
        self.wildcard = Location("WILDCARD", escapes=True)
        self.wildcard.contents.add(self.wildcard)
        self._points: dict[Value, set[Location]] = {}
        self._own: dict[Value, Location] = {}
        self._effects: dict[Node, Effects] = {}
        self._reads: dict[Node, Locations] = {}
        self._writes: dict[Node, Locations] = {}
        self._values_read: dict[Node, frozenset[Value]] = {}
        self._positions: dict[Node, int] = {}
        self._changed = True
        # Else a value is known before anything reads it, and only memory may change afterwards.
        self._goes_back = any(map(_goes_back, graph.nodes()))
        self._distinct_inputs = distinct_inputs
        for value in graph.inputs:
            self._point(value, self._input_locations(value))
        while self._changed:
            self._changed = False
            self._walked: set[int] = {id(graph)}
            self._walk_block(graph.block)
        self._writers = self._index_writers()

    # What the analysis answers ------------------------------------------------------------

    def points_to(self, value: Value) -> Locations:
        """The locations a value may point to; none for values that have no memory."""
        return frozenset(self._points.get(value, ()))

    def reachable(self, value: Value) -> Locations:
        """The locations a value may point to, and all that is kept in them."""
        return _closure(self._points.get(value, ()))

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether two values may share memory themselves (what they contain does not count)."""
        return self._overlap(self.points_to(a), self.points_to(b))

    def may_contain_alias(self, a: Value, b: Value) -> bool:
        """Whether two values, or anything kept in them, may share memory."""
        return self._overlap(self.reachable(a), self.reachable(b))

    def reads(self, node: Node) -> Locations:
        """The locations that a node, or a node inside it, may read."""
        if _is_leaf(node):
            return self._own_reads(node)
        if node not in self._reads:
            own = (self._own_reads(inner) for inner in self._inside(node))
            self._reads[node] = _EMPTY.union(*own)
        return self._reads[node]

    def writes(self, node: Node) -> Locations:
        """The locations that a node, or a node inside it, may write."""
        if _is_leaf(node):
            return self._own_writes(node)
        if node not in self._writes:
            own = (self._own_writes(inner) for inner in self._inside(node))
            self._writes[node] = _EMPTY.union(*own)
        return self._writes[node]

    def sharing(self, values: Iterable[Value]) -> Iterator[Value]:
        """All values that may share memory with one of these."""
        locations = frozenset().union(*map(self.points_to, values))
        for value, points in self._points.items():
            if self._overlap(locations, frozenset(points)):
                yield value

    def writers(self, value: Value) -> list[Node]:
        """The nodes that may write to a value's memory or to what is kept in it."""
        return self.writers_of(self.reachable(value))

    def writers_of(self, locations: Iterable[Location]) -> list[Node]:
        """The nodes that may write to one of these locations, each of them once."""
        found: dict[Node, None] = {}
        for location in locations:
            for alias in self._may_be(location):
                found.update(dict.fromkeys(self._writers.get(alias, ())))
        return list(found)

    @property
    def has_writes(self) -> bool:
        """Whether any node may write to memory."""
        return bool(self._writers)

    def has_writers(self, value: Value) -> bool:
        """Whether any node may write to a value's memory or to what is kept in it."""
        return bool(self.writers(value))

    def is_written_between(self, values: Iterable[Value], first: Node, last: Node) -> bool:
        """Whether any node after ``first`` and before ``last`` may write to one of these values.

        By now there may be other nodes, too, which write nothing.  For nodes of different blocks
        any writer is one that may come in between.
        """
        writers = {writer for value in values for writer in self.writers(value)}
        if not writers or first.block is None or first.block is not last.block:
            return bool(writers)
        start, end = self._position(first), self._position(last)
        passed = first.block.nodes[start + 1 : end]
        return any(not writers.isdisjoint(self._inside(node)) for node in passed)

    def has_effects(self, node: Node) -> bool:
        """Whether a node does more than give its outputs: it writes, raises on purpose, prints …"""
        return bool(self.writes(node)) or self.is_observable(node)

    def is_observable(self, node: Node) -> bool:
        """Whether a node does something that is seen even if nobody reads memory afterwards."""
        inside = (node,) if _is_leaf(node) else self._inside(node)
        effects = map(self._effects.__getitem__, inside)
        return any(one.observable or one.wildcard for one in effects)

    def escapes(self, value: Value) -> bool:
        """Whether code outside of the graph may know the value's memory while the graph runs."""
        return any(location.escapes for location in self.reachable(value))

    def can_move_before(self, node: Node, other: Node) -> bool:
        """Whether ``node`` may be moved to directly before ``other``, in the same block."""
        return self._can_move(node, other, 0)

    def can_move_after(self, node: Node, other: Node) -> bool:
        """Whether ``node`` may be moved to directly after ``other``, in the same block."""
        return self._can_move(node, other, 1)

    def _can_move(self, node: Node, other: Node, after: int) -> bool:
        if node.block is None or node.block is not other.block:
            return False
        start, end = self._position(node), self._position(other) + after
        nodes = node.block.nodes
        passed = nodes[start + 1 : end] if start < end else nodes[end:start]
        return all(self.commute(node, one) for one in passed)

    def commute(self, a: Node, b: Node) -> bool:
        """Whether two nodes may change places: no dependence, conflict or change of effects."""
        if self._depends(a, b) or self._depends(b, a) or self.conflict(a, b):
            return False
        if self.is_observable(a) and self.is_observable(b):
            return False
        # An exception must find the state of the world that the program had made till then.
        return not (
            (may_raise(a) and self._is_visible(b)) or (may_raise(b) and self._is_visible(a))
        )

    def conflict(self, a: Node, b: Node) -> bool:
        """Whether one of two nodes may write what the other one reads or writes."""
        return (
            self._overlap(self.writes(a), self.reads(b))
            or self._overlap(self.reads(a), self.writes(b))
            or self._overlap(self.writes(a), self.writes(b))
        )

    def dump(self) -> str:
        """The analysis as text, in the spirit of TorchScript's ``dumpAliasDb``."""
        lines = ["===1. GRAPH===", str(self.graph), "", "===2. ALIAS DB==="]
        for value, locations in self._points.items():
            if locations:
                lines.append(f"%{value.name} points to: {_labels(locations)}")
        kept = {location for points in self._points.values() for location in _closure(points)}
        for location in sorted(kept, key=lambda one: one.label):
            if location.contents and location is not self.wildcard:
                lines.append(f"{location.label} contains: {_labels(location.contents)}")
        lines += ["", "===3. WRITES==="]
        for node in self._effects:
            written = self._own_writes(node)
            if written:
                lines.append(print_node(node).partition("\n")[0])
                lines.append(f"  {_labels(written)}")
        return "\n".join(lines)

    # How the sets are found ---------------------------------------------------------------

    def _input_locations(self, value: Value) -> set[Location]:
        if not self._distinct_inputs:
            return {self.wildcard}
        if isinstance(value.type, TensorType) and is_structured(value.type):
            assert value.type.dtype is not None
            names = value.type.dtype.names or ()
            return {Location(f"%{value.name}.{name}", True, name) for name in names}
        location = Location(f"%{value.name}", escapes=True)
        if not is_plain_array(value.type):
            location.contents.add(self.wildcard)
        return {location}

    def _point(self, value: Value, locations: Iterable[Location]) -> None:
        """Let a value point to these locations too."""
        if is_immutable(value.type):
            return
        known = self._points.setdefault(value, set())
        before = len(known)
        known.update(locations)
        self._changed = self._changed or (self._goes_back and len(known) > before)

    def _keep(self, containers: Iterable[Location], contents: set[Location]) -> None:
        """Let these containers keep these locations too."""
        for container in containers:
            if container.escapes:
                self._escape(contents)
                continue
            before = len(container.contents)
            container.contents |= contents
            self._changed = self._changed or len(container.contents) > before

    def _escape(self, locations: Iterable[Location]) -> None:
        """Note that code outside of the graph may know these, and keep anything in them.

        The wildcard stands for all that they may keep, which escapes with them.
        """
        # What is kept in a location that escapes has escaped before.
        waiting = [location for location in locations if not location.escapes]
        while waiting:
            location = waiting.pop()
            if location.escapes:
                continue
            location.escapes = True
            self._changed = True
            waiting += [inner for inner in location.contents if not inner.escapes]
            location.contents = {self.wildcard}

    def _walk_block(self, block: Block) -> None:
        for node in block.nodes:
            effects = self._effects.get(node)
            if effects is None:
                effects = self._effects[node] = node_effects(node)
            if node.blocks:
                self._walk_control_flow(node)
            else:
                self._walk_node(node, effects)

    def _walk_control_flow(self, node: Node) -> None:
        # A loop's block returns whether to go on before the carried values.
        skipped = 1 if node.kind in LOOPS else 0
        carried: list[Value] = []
        if skipped:
            carried = node.inputs[2 if node.kind == "prim::Loop" else 1 :]
            self._walk_loop_entry(node, carried)
        elif node.kind == "prim::Try":
            self._point(node.blocks[1].params[0], {self.wildcard})
        for block in node.blocks:
            self._walk_block(block)
            for output, returned in zip(node.outputs, block.returns[skipped:], strict=True):
                self._point(output, self._points.get(returned, ()))
        for output, initial in zip(node.outputs, carried, strict=False):
            self._point(output, self._points.get(initial, ()))

    def _walk_loop_entry(self, node: Node, carried: list[Value]) -> None:
        (body,) = node.blocks
        if node.kind == "prim::For":
            self._point(body.params[0], _with_contents(self._points.get(node.inputs[0], ())))
        for param, initial, returned in zip(
            body.params[1:], carried, body.returns[1:], strict=True
        ):
            self._point(param, self._points.get(initial, ()))
            self._point(param, self._points.get(returned, ()))

    def _walk_node(self, node: Node, effects: Effects) -> None:
        body = node.attributes.get("graph")
        if isinstance(body, Graph):
            self._walk_body(node, body)
            return
        without_memory = all(is_immutable(output.type) for output in node.outputs)
        if without_memory and not (effects.wildcard or effects.stores or effects.moves):
            return
        if _gives_new_memory(node, effects):
            self._point(node.output, {self._own_location(node.output)})
            return
        if effects.wildcard:
            for value in node.inputs:
                self._escape(self._points.get(value, ()))
        shared = self._shared_by(node, effects)
        if effects.wildcard or _is_outside(node):
            shared.add(self.wildcard)
        for output in node.outputs:
            self._point(output, shared)
            # What may be new or an alias counts as an alias: long chains name no new locations.
            if effects.fresh and not shared and not is_immutable(output.type):
                self._point(output, {self._own_location(output)})
            if effects.keeps or effects.passes:
                self._keep(self._points.get(output, ()), self._kept(node, effects))
        if effects.stores:
            stored = self._points_of(node, effects.stores)
            self._keep(self._points.get(node.inputs[0], ()), stored)
        for location in self._points_of(node, effects.moves):
            self._keep(self._points.get(node.inputs[0], ()), set(location.contents))

    def _shared_by(self, node: Node, effects: Effects) -> set[Location]:
        """What the outputs may point to of what the inputs do."""
        shared = self._points_of(node, effects.aliases)
        if node.kind == "np::field":
            return {one for one in shared if one.field in (None, node.attributes["name"])}
        return shared if is_array_view(node) else _with_contents(shared)

    def _walk_body(self, node: Node, body: Graph) -> None:
        """A held graph is analyzed once, for all the nodes that hold it together."""
        for param, value in zip(body.inputs, node.inputs, strict=False):
            self._point(param, self._points.get(value, ()))
        for param in body.inputs[len(node.inputs) :]:
            self._point(param, {self.wildcard})
        if id(body) not in self._walked:
            self._walked.add(id(body))
            self._walk_block(body.block)
        for output, returned in zip(node.outputs, body.outputs, strict=True):
            self._point(output, self._points.get(returned, ()))

    def _kept(self, node: Node, effects: Effects) -> set[Location]:
        kept = self._points_of(node, effects.keeps)
        for location in self._points_of(node, effects.passes):
            kept |= location.contents
        return kept

    def _own_location(self, value: Value) -> Location:
        if value not in self._own:
            self._own[value] = Location(f"%{value.name}")
        return self._own[value]

    def _points_of(self, node: Node, inputs: Iterable[int]) -> set[Location]:
        found: set[Location] = set()
        for number in inputs:
            found |= self._points.get(node.inputs[number], set())
        return found

    # What nodes do ------------------------------------------------------------------------

    def _inside(self, node: Node) -> Iterator[Node]:
        """The node, the nodes of its blocks and of graphs that it holds, each graph once."""
        waiting = [node]
        seen: set[int] = set()
        while waiting:
            inner = waiting.pop()
            yield inner
            for block in inner.blocks:
                waiting.extend(block.nodes)
            body = inner.attributes.get("graph")
            if isinstance(body, Graph) and id(body) not in seen:
                seen.add(id(body))
                waiting.extend(body.block.nodes)

    def _own_reads(self, node: Node) -> Locations:
        effects = self._effects[node]
        read = _closure(self._points_of(node, effects.reads))
        return read | {self.wildcard} if effects.wildcard else read

    def _own_writes(self, node: Node) -> Locations:
        effects = self._effects[node]
        if not (effects.writes or effects.wildcard):
            return _EMPTY
        written = self._points_of(node, effects.writes)
        if effects.wildcard:
            return _closure(written) | {self.wildcard}
        return frozenset(written)

    def _index_writers(self) -> dict[Location, list[Node]]:
        index: dict[Location, list[Node]] = {}
        for node in self._effects:
            for location in self._own_writes(node):
                index.setdefault(location, []).append(node)
        self._escaping = [one for one in index if one.escapes]
        return index

    def _may_be(self, location: Location) -> list[Location]:
        """The written locations that this one may be."""
        if location is self.wildcard:
            return self._escaping
        return [location, self.wildcard] if location.escapes else [location]

    def _overlap(self, a: Locations, b: Locations) -> bool:
        if not a.isdisjoint(b):
            return True
        return (self.wildcard in a and any(one.escapes for one in b)) or (
            self.wildcard in b and any(one.escapes for one in a)
        )

    def _is_visible(self, node: Node) -> bool:
        return self.is_observable(node) or any(one.escapes for one in self.writes(node))

    def _depends(self, node: Node, maker: Node) -> bool:
        if node not in self._values_read:
            self._values_read[node] = frozenset(_values_read(node))
        return any(value in self._values_read[node] for value in maker.outputs)

    def _position(self, node: Node) -> int:
        assert node.block is not None
        nodes = node.block.nodes
        position = self._positions.get(node, -1)
        if not 0 <= position < len(nodes) or nodes[position] is not node:
            self._positions.update((one, number) for number, one in enumerate(nodes))
        return self._positions[node]


def _is_leaf(node: Node) -> bool:
    """Whether there are no nodes inside."""
    return not node.blocks and "graph" not in node.attributes


def _gives_new_memory(node: Node, effects: Effects) -> bool:
    """Whether a node does no more to memory than read some and make its output's."""
    joins = effects.aliases or effects.keeps or effects.passes or effects.stores or effects.moves
    is_known = effects.fresh and not joins and not effects.wildcard
    return is_known and len(node.outputs) == 1 and not _is_outside(node)


def _is_outside(node: Node) -> bool:
    """Whether a node gives something that the rest of the process may hold as well."""
    if node.kind == "prim::Constant":
        return not is_plain_array(node.output.type)
    return node.kind == "prim::GetAttr" and node.inputs[0].type == OBJECT


def _values_read(node: Node) -> Iterator[Value]:
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        yield from inner.inputs
        for block in inner.blocks:
            yield from block.returns
            waiting.extend(block.nodes)


def _with_contents(locations: Iterable[Location]) -> set[Location]:
    found = set(locations)
    for location in list(found):
        found |= location.contents
    return found


def _closure(locations: Iterable[Location]) -> Locations:
    found = set(locations)
    waiting = list(found)
    while waiting:
        for inner in waiting.pop().contents:
            if inner not in found:
                found.add(inner)
                waiting.append(inner)
    return frozenset(found)


def _labels(locations: Iterable[Location]) -> str:
    return ", ".join(sorted(location.label for location in locations))
