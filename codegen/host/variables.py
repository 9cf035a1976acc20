"""Which values of a graph share one Python variable, and what the variables are called.

SSA gives every assignment of ``s`` in a loop a value of its own.  Here they become one variable
again, as far as no value is overwritten while something still reads it.  What a value's life is
follows from the block structure: a *span* is a pair of positions, and a value's spans hold every
position at which its variable must keep it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jitcore.codegen.host.globals import Globals
from jitcore.codegen.host.operators import augmented_sign
from jitcore.codegen.host.text import identifier
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Use, Value
from jitcore.ir.names import base_name

__all__ = ["Variables", "is_constant", "is_literal", "is_repeatable"]

Span = tuple[int, int]

_INDEXED = ("prim::getitem", "prim::setitem", "prim::delitem")


_NOTHING = frozenset(
    [
        "prim::setitem",
        "prim::delitem",
        "prim::SetAttr",
        "prim::Raise",
        "np::store",
        "np::scatter",
        "np::put_mask",
    ]
)


def is_literal(value: Value) -> bool:
    """Whether a value is written where it is used, and has no variable at all.

    A typed write has an output, which is None.
    """
    return is_constant(value) or (value.node is not None and value.node.kind in _NOTHING)


def is_constant(value: Value) -> bool:
    """Whether the node of a value is nothing but its value."""
    return value.node is not None and value.node.kind in ("prim::Constant", "prim::Uninitialized")


def is_repeatable(value: Value) -> bool:
    """Whether a value is a slice, or a tuple of slices and numbers, used in several subscripts.

    ``a[i, 1:] += 1`` has one tuple and two subscripts; both write the tuple out.
    """
    node = value.node
    if node is None or node.kind not in ("prim::slice", "prim::TupleConstruct"):
        return False
    if "named" in node.attributes or base_name(value.name):
        return False
    uses = value.uses
    return bool(uses) and (
        (len(uses) > 1 and all(map(_is_subscript, uses)))
        or all(isinstance(u.user, Node) and _repeats(u.user) for u in uses)
    )


def _repeats(node: Node) -> bool:
    return len(node.outputs) == 1 and is_repeatable(node.output)


def _is_subscript(use: Use) -> bool:
    user = use.user
    if not isinstance(user, Node):
        return False
    return (user.kind in _INDEXED and use.index == 1) or _repeats(user)


class Variables:
    """The variables of one graph.

    Parameters
    ----------
    graph : Graph
    globals_ : Globals
        The program's global names, which variables must not hide.
    """

    def __init__(self, graph: Graph, globals_: Globals) -> None:
        self._globals = globals_
        self._lives = _Lives(graph)
        self._leaders: dict[Value, Value] = {}
        self._members: dict[Value, list[Value]] = {}
        self._spans: dict[Value, list[Span]] = {}
        self._bases: dict[Value, frozenset[str]] = {}
        self._names: dict[Value, str] = {}
        self._used: set[str] = set()
        for value in graph.inputs:
            self._names[value] = self._fresh(identifier(value.name, "x"))
        self._plain = {value.name for value in self._lives.values() if not is_literal(value)}
        self._merge_all(self._lives.nodes)

    def name(self, value: Value) -> str:
        """The variable that holds a value."""
        leader = self._leader(value)
        if leader not in self._names:
            members = self._members.get(leader, [leader])
            named = [self._names[member] for member in members if member in self._names]
            if named:
                self._names[leader] = named[0]
            else:
                self._names[leader] = self._fresh(self._wanted(min(members, key=_preference)))
        return self._names[leader]

    def _wanted(self, value: Value) -> str:
        """The name to ask for: without SSA's number where no other value has that name."""
        hint = _hint(value)
        base = base_name(hint)
        return identifier(base if base and base not in self._plain else hint, "t")

    def temporary(self, hint: str) -> str:
        """A new variable for the program's own purposes."""
        return self._fresh(hint)

    def are_same(self, one: Value, other: Value) -> bool:
        """Whether two values share their variable."""
        return self._leader(one) is self._leader(other)

    def _fresh(self, base: str) -> str:
        name = base
        count = 0
        while name in self._used or self._globals.is_global(name):
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        self._globals.take(name)
        return name

    def _leader(self, value: Value) -> Value:
        while value in self._leaders:
            value = self._leaders[value]
        return value

    # Merging

    def _merge_all(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node.kind in LOOPS:
                # What an iteration hands to the next one is what the loop gives in the end.
                for param, output in zip(node.blocks[0].params[1:], node.outputs, strict=True):
                    self._unite(param, output)
        for node in nodes:
            for source, target in _copies(node):
                if self._may_share(source, target) and not self._overlap(source, target):
                    self._unite(target, source)

    def _unite(self, one: Value, other: Value) -> None:
        first, second = self._leader(one), self._leader(other)
        spans = sorted([*self._class_spans(first), *self._class_spans(second)])
        members = [*self._members.get(first, [first]), *self._members.get(second, [second])]
        self._bases[first] = self._class_bases(first) | self._class_bases(second)
        self._leaders[second] = first
        self._spans[first] = spans
        self._members[first] = members

    def _may_share(self, source: Value, target: Value) -> bool:
        """Whether two values look as if they were one variable of the user's."""
        if is_literal(source) or is_repeatable(source):
            return False
        bases = self._class_bases(self._leader(source))
        return not bases or bool(bases & self._class_bases(self._leader(target)))

    def _class_bases(self, leader: Value) -> frozenset[str]:
        """The names that the user gave to the values of a variable."""
        if leader not in self._bases:
            base = base_name(leader.name)
            self._bases[leader] = frozenset({base} if base else ())
        return self._bases[leader]

    def _class_spans(self, leader: Value) -> list[Span]:
        if leader not in self._spans:
            self._spans[leader] = self._lives.spans(leader)
        return self._spans[leader]

    def _overlap(self, one: Value, other: Value) -> bool:
        first, second = self._leader(one), self._leader(other)
        if first is second:
            return True
        return _intersect(self._class_spans(first), self._class_spans(second))


def _copies(node: Node) -> Iterable[tuple[Value, Value]]:
    """Pairs of values the second of which is the first one, or may take over its variable."""
    if node.blocks and node.kind not in LOOPS:
        for block in node.blocks:
            yield from zip(block.returns, node.outputs, strict=True)
    elif node.kind in LOOPS:
        (body,) = node.blocks
        params = body.params[1:]
        yield from zip(body.returns[1:], params, strict=True)
        yield from zip(node.inputs[-len(params) :] if params else (), params, strict=True)
    elif node.kind == "prim::CheckBound" or augmented_sign(node):
        yield node.inputs[0], node.output


def _preference(value: Value) -> tuple[bool, int, str]:
    """Sorts names given by the user, and short ones, first."""
    hint = _hint(value)
    return (base_name(hint) == "", len(hint), hint)


def _hint(value: Value) -> str:
    node = value.node
    if node is not None and node.kind == "prim::CheckBound" and not base_name(value.name):
        return str(node.attributes["name"])
    return value.name


def _intersect(one: Sequence[Span], other: Sequence[Span]) -> bool:
    """Whether two sorted lists of spans have a position in common."""
    first = second = 0
    while first < len(one) and second < len(other):
        if one[first][1] < other[second][0]:
            first += 1
        elif other[second][1] < one[first][0]:
            second += 1
        else:
            return True
    return False


class _Lives:
    """The spans of a graph's values, over positions that number its nodes and blocks in order.

    A node reads at its ``start`` and writes at the position after it.  A block's returned values
    are read at its ``end``, the variables they go to are written at ``end + 1``, and what decides
    whether a loop goes on is read at ``end + 2``.
    """

    def __init__(self, graph: Graph) -> None:
        self.nodes: list[Node] = []
        self._start: dict[Node, int] = {}
        self._end: dict[Node, int] = {}
        self._block_start: dict[Block, int] = {}
        self._block_end: dict[Block, int] = {}
        self._number(graph.block)

    def _number(self, top: Block) -> None:
        position = 0
        waiting: list[tuple[Node | Block, bool]] = [(top, False)]
        while waiting:
            item, finished = waiting.pop()
            if isinstance(item, Block):
                if finished:
                    self._block_end[item] = position
                    position += 3
                    continue
                self._block_start[item] = position
                position += 1
                waiting.append((item, True))
                waiting += [(node, False) for node in reversed(item.nodes)]
                continue
            if finished:
                self._end[item] = position
                position += 1
                continue
            self.nodes.append(item)
            self._start[item] = position
            position += 2
            if item.blocks:
                waiting.append((item, True))
                waiting += [(block, False) for block in reversed(item.blocks)]

    def values(self) -> Iterable[Value]:
        """All values that nodes and blocks define, but for the graph's inputs."""
        for node in self.nodes:
            yield from node.outputs
            for block in node.blocks:
                yield from block.params

    def spans(self, value: Value) -> list[Span]:
        """Where the variable of a value must keep it, and where it is written."""
        block, begin, spans = self._definition(value)
        uses = [(self._path(use, block), self._position(use)) for use in _reads(value)]
        waiting = [(begin, uses)]
        while waiting:
            begin, uses = waiting.pop()
            spans += self._life(begin, uses, waiting)
        return sorted(spans)

    def _definition(self, value: Value) -> tuple[Block, int, list[Span]]:
        node = value.node
        if node is None:
            assert value.block is not None
            return self._parameter(value.block)
        assert node.block is not None
        if not node.blocks:
            return node.block, self._start[node] + 1, []
        end = self._end[node]
        written = [self._block_end[block] + 1 for block in node.blocks]
        if node.kind not in LOOPS:
            return node.block, end, [(position, position) for position in written]
        return node.block, end, [(written[0], end)]

    def _parameter(self, block: Block) -> tuple[Block, int, list[Span]]:
        owner = block.owner
        if owner is None:
            return block, 0, []
        return block, self._start[owner] + 1, [(self._block_end[block] + 1, self._end[owner])]

    def _position(self, use: Use) -> int:
        if isinstance(use.user, Node):
            return self._start[use.user]
        is_loop = use.user.owner is not None and use.user.owner.kind in LOOPS
        return self._block_end[use.user] + (2 if is_loop and use.index == 0 else 0)

    @staticmethod
    def _path(use: Use, top: Block) -> list[Block]:
        """The blocks around a use that lie in the block of the definition, innermost first."""
        path = []
        block = use.user.block if isinstance(use.user, Node) else use.user
        while block is not top:
            assert block is not None and block.owner is not None
            path.append(block)
            block = block.owner.block
        return path

    def _life(
        self,
        begin: int,
        uses: list[tuple[list[Block], int]],
        waiting: list[tuple[int, list[tuple[list[Block], int]]]],
    ) -> list[Span]:
        """The spans from ``begin`` on in one block; what goes on in an ``If`` is left waiting."""
        if not uses:
            return [(begin, begin)]
        path, position = max(uses, key=lambda use: use[1])
        if not path:
            return [(begin, position)]
        node = path[-1].owner
        assert node is not None
        if node.kind in LOOPS or node.kind == "prim::Try":
            # What a handler reads must outlive the body.
            return [(begin, self._end[node])]
        for block in node.blocks:
            inner = [(way[:-1], where) for way, where in uses if way and way[-1] is block]
            if inner:
                waiting.append((self._block_start[block], inner))
        return [(begin, self._start[node])]


def _reads(value: Value) -> Iterable[Use]:
    """The uses of a value, those of the subscripts that repeat it instead of the tuple's own."""
    for use in value.uses:
        yield use
        if isinstance(use.user, Node) and _repeats(use.user):
            yield from _reads(use.user.output)
