"""How loops of a graph are written as loops of Python.

``prim::For`` is ``for``.  ``prim::Loop`` is ``for`` over a range where it has a trip count, and
``while`` where it has none.  The graph of a ``while`` statement computes the condition twice,
before the loop and at the end of the body; where both compute the same of the loop's variables,
it is written once.
"""

from __future__ import annotations

from dataclasses import field

from jitcore.codegen.host.plan import Plan, visible
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Node, Value

__all__ = ["LoopForm", "loop_form"]

_UNLIMITED = 2**63 - 1
_COMPARABLE = (bool, int, float, complex, str, tuple)


@dataclass(slots=True)
class LoopForm:
    """The parts of a loop as Python has them.

    Parameters
    ----------
    iterable : Value or None
        What ``for`` goes over; for a counted loop, the trip count.
    guard : Value or None
        What must be true for the loop to run at all, where the loop itself does not test it.
    condition : Value or None
        What ``while`` tests, a value of the body; None means ``while True``.
    go_on : Value or None
        What is tested at the end of the body; None where nothing is.
    unpack : Node or None
        The ``prim::Unpack`` that becomes the target of ``for``.
    overrides : dict
        The loop's variables by the values of the body that they have when ``while`` tests.
    skipped : set of Node
        The nodes that compute the condition, before the loop and inside.
    nested : set of Value
        The values of the condition that have no variable.
    """

    iterable: Value | None = None
    guard: Value | None = None
    condition: Value | None = None
    go_on: Value | None = None
    unpack: Node | None = None
    overrides: dict[Value, Value] = field(default_factory=dict)
    skipped: set[Node] = field(default_factory=set)
    nested: set[Value] = field(default_factory=set)


def loop_form(node: Node, plan: Plan) -> LoopForm:
    """The form of a ``prim::For`` or ``prim::Loop``."""
    (body,) = node.blocks
    if node.kind == "prim::For":
        form = LoopForm(iterable=node.inputs[0], go_on=body.returns[0])
        form.unpack = _unpacked(body)
        if form.unpack is not None:
            form.skipped.add(form.unpack)
        return form
    limit, first = node.inputs[:2]
    counted = not _is_unlimited(limit) or bool(body.params[0].uses)
    if not counted:
        found = _Condition(node, plan).find()
        if found is not None:
            return found
    guard = None if _is_true(first) else first
    return LoopForm(limit if counted else None, guard, go_on=body.returns[0])


def _is_unlimited(limit: Value) -> bool:
    node = limit.constant
    return node is not None and node.attributes["value"] >= _UNLIMITED


def _is_true(value: Value) -> bool:
    node = value.constant
    return node is not None and node.attributes["value"] is True


def _is_false(value: Value) -> bool:
    node = value.constant
    return node is not None and node.attributes["value"] is False


def _unpacked(body: Block) -> Node | None:
    """The node that unpacks the item first of all, if nothing else reads the item."""
    item = body.params[0]
    if len(item.uses) != 1:
        return None
    user = item.uses[0].user
    nodes = visible(body.nodes[:8])
    if not isinstance(user, Node) or user.kind != "prim::Unpack" or nodes[:1] != [user]:
        return None
    return user


class _Condition:
    """Looks for a condition that is computed alike before a loop and at the end of its body."""

    def __init__(self, node: Node, plan: Plan) -> None:
        self.node = node
        self.plan = plan
        self.body = node.blocks[0]
        self.before: list[Node] = []
        self.inside: list[Node] = []
        self.overrides: dict[Value, Value] = {}
        self.unchanged: set[Value] = set()

    def find(self) -> LoopForm | None:
        """The loop as ``while``, or None."""
        first, last = self.node.inputs[1], self.body.returns[0]
        form = self._try(first, last, self.body)
        if form is not None:
            return form
        # After ``break`` the test is not made: ``flag and test``.
        branch = last.node
        if branch is None or branch.kind != "prim::If" or len(last.uses) != 1:
            return None
        then, orelse = branch.blocks
        is_flagged = len(branch.outputs) == 1 and _is_false(orelse.returns[0])
        if not is_flagged or visible(orelse.nodes) or visible(self.body.nodes)[-1:] != [branch]:
            return None
        form = self._try(first, then.returns[0], then)
        if form is not None and set(visible(then.nodes)) <= form.skipped:
            form.skipped.add(branch)
            form.go_on = branch.inputs[0]
            return form
        return None

    def _try(self, first: Value, last: Value, block: Block) -> LoopForm | None:
        self.before, self.inside, self.overrides, self.unchanged = [], [], {}, set()
        assert self.node.block is not None
        if not self._match(first, last, self.node.block, block):
            return None
        if self.overrides.keys() & self.unchanged:
            # ``d is b`` where the body ends with ``d = b``: both are one value there.
            return None
        outer = self.node.block.nodes
        before = visible(outer[: outer.index(self.node)])[-len(self.before) :]
        inside = visible(block.nodes)[-len(self.inside) :]
        if self.before and set(before) != set(self.before):
            return None
        if self.inside and set(inside) != set(self.inside):
            return None
        nested: set[Value] = set()
        if self.inside:
            found = self.plan.whole(inside, last)
            if found is None or self.plan.whole(before, first) is None:
                return None
            nested = found
        skipped = {*self.before, *self.inside}
        return LoopForm(condition=last, overrides=self.overrides, skipped=skipped, nested=nested)

    def _match(self, first: Value, last: Value, outer: Block, inner: Block) -> bool:
        """Whether two values are the same function of the loop's variables."""
        if self._is_leaf(first, last):
            return True
        one, two = first.node, last.node
        if one is None or two is None or one.block is not outer or two.block is not inner:
            return False
        if not _are_alike(one, two):
            return False
        if not self.plan.can_nest(one) or not self.plan.can_nest(two):
            return False
        self.before.append(one)
        self.inside.append(two)
        pairs = zip(one.inputs, two.inputs, strict=True)
        if not all(self._match(a, b, outer, inner) for a, b in pairs):
            return False
        return all(self._match_blocks(a, b) for a, b in zip(one.blocks, two.blocks, strict=True))

    def _match_blocks(self, one: Block, two: Block) -> bool:
        before, inside = self.before, self.inside
        self.before, self.inside = [], []
        pairs = zip(one.returns, two.returns, strict=True)
        found = all(self._match(a, b, one, two) for a, b in pairs)
        complete = set(visible(one.nodes)) == set(self.before)
        complete = complete and set(visible(two.nodes)) == set(self.inside)
        self.before, self.inside = before, inside
        return found and complete

    def _is_leaf(self, first: Value, last: Value) -> bool:
        """Whether both are the same value, constant or variable of the loop."""
        if first is last:
            self.unchanged.add(first)
            return True
        one, two = first.constant, last.constant
        if one is not None and two is not None:
            return _is_same(one.attributes["value"], two.attributes["value"])
        params = self.body.params[1:]
        rows = zip(self.node.inputs[2:], self.body.returns[1:], params, strict=True)
        for initial, returned, param in rows:
            if initial is first and returned is last:
                return last.constant is None and self.overrides.setdefault(last, param) is param
        return False


def _are_alike(one: Node, two: Node) -> bool:
    """Whether two nodes do the same with their operands."""
    if (one.kind, one.keywords, len(one.inputs)) != (two.kind, two.keywords, len(two.inputs)):
        return False
    if len(one.outputs) != len(two.outputs) or len(one.blocks) != len(two.blocks):
        return False
    if one.attributes.keys() != two.attributes.keys():
        return False
    return all(_is_same(held, two.attributes[name]) for name, held in one.attributes.items())


def _is_same(held: object, other: object) -> bool:
    if held is other:
        return True
    # 0.0 and -0.0 are equal, and so are (1,) and (True,).
    comparable = type(held) is type(other) and isinstance(held, _COMPARABLE)
    return comparable and held == other and repr(held) == repr(other)
