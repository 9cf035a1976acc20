"""Which values of a graph are written inside the expression that uses them.

A value that has no name and one use needs no variable.  It is *nested*, provided that everything
still happens in the graph's order.  A stack shows that: it holds the values computed so far whose
use has not come yet, in order, and a node may take operands from its top only, in the order in
which Python evaluates them.  Whatever has to be computed before the node and is not an operand of
it becomes a statement.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence

from jitcore.codegen.host.operators import ARRAY_OPERATORS, BINARY, UNARY, augmented_sign
from jitcore.codegen.host.variables import Variables, is_constant, is_literal, is_repeatable
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import LOOPS, Block, Node, Value
from jitcore.ir.names import base_name
from jitcore.ir.types import BOOL

__all__ = [
    "STATEMENTS",
    "Late",
    "Plan",
    "ShortCircuit",
    "visible",
]


def _value_first(inputs: Sequence[Value]) -> list[Value]:
    """The order of an assignment, whose last operand is the value."""
    return [inputs[-1], *inputs[:-1]]


STATEMENTS: dict[str, Callable[[Sequence[Value]], list[Value]]] = {
    "prim::setitem": _value_first,
    "prim::SetAttr": _value_first,
    "prim::delitem": list,
    "prim::Raise": list,
    "prim::Unpack": list,
    "np::store": _value_first,
    "np::scatter": _value_first,
    "np::put_mask": _value_first,
}
"""Kinds that are statements of Python, with the order in which these evaluate the operands."""

_LONGEST = 112
_LONGEST_BRANCH = 36
_NAME_WIDTH = 3
_DEEPEST = 3
_MOST_WAITING = 64
_ALWAYS_BOOL = frozenset(
    f"prim::{name}" for name in ["bool", "not_", "is_", "isnot", "in_", "notin", "isinstance"]
)


def visible(nodes: Iterable[Node]) -> list[Node]:
    """The nodes that are written in a place of their own."""
    return [
        node
        for node in nodes
        if not (len(node.outputs) == 1 and (is_constant(node.output) or is_repeatable(node.output)))
    ]


@dataclass(frozen=True, slots=True)
class ShortCircuit:
    """An ``If`` that is ``first and second`` or ``first or second``.

    Where ``tested`` is None, ``first`` is a bool and the ``If``'s own condition; otherwise it is
    any value, and ``tested`` is the node that takes its truth.
    """

    operator: str
    first: Value
    second: Value
    tested: Node | None


@dataclass(frozen=True, slots=True)
class Late:
    """Values that are evaluated after some variables were assigned."""

    values: Sequence[Value]
    assigned: frozenset[str] = frozenset()


def _no_header(node: Node) -> Late:
    return Late(())


class Plan:
    """Decides which values are nested, block by block.

    Parameters
    ----------
    variables : Variables
    """

    def __init__(self, variables: Variables) -> None:
        self.variables = variables
        self.nested: set[Value] = set()
        self._expressions: dict[tuple[Node, int], tuple[set[Value], int] | None] = {}

    def decide(
        self,
        nodes: Sequence[Node],
        final: Late,
        headers: Callable[[Node], Late],
        statement: Node | None = None,
    ) -> None:
        """Decide for the nodes of one block.

        Parameters
        ----------
        nodes : sequence of Node
        final : Late
            What is evaluated, in this order, after the last node.
        headers : callable
            What a node with blocks evaluates; a loop does so once its variables are assigned.
        statement : Node, optional
            An ``If`` that must not become an expression.
        """
        self.nested |= _Stack(self, 0, headers, statement).run(nodes, final)[0]

    def whole(self, nodes: Sequence[Node], final: Value) -> set[Value] | None:
        """The values to nest if all these nodes can be one expression, or None."""
        nested, _ = _Stack(self, 0, _no_header, None, limit=None).run(nodes, Late([final]))
        outputs = [value for node in nodes for value in node.outputs]
        return nested if set(outputs) <= nested else None

    def is_expression(self, node: Node, depth: int = 0) -> bool:
        """Whether an ``If`` is written as a conditional expression, ``and`` or ``or``."""
        return self.expression(node, depth) is not None

    def expression(self, node: Node, depth: int) -> tuple[set[Value], int] | None:
        """The values nested in an ``If`` that is an expression and its width; None otherwise."""
        if node.kind != "prim::If" or len(node.outputs) != 1 or depth > _DEEPEST:
            return None
        key = (node, depth)
        if key not in self._expressions:
            self._expressions[key] = self._expression(node, depth)
        return self._expressions[key]

    def _expression(self, node: Node, depth: int) -> tuple[set[Value], int] | None:
        everything: set[Value] = set()
        total = 0
        for block in node.blocks:
            nodes = visible(block.nodes)
            if len(nodes) > _LONGEST_BRANCH or any(len(one.outputs) != 1 for one in nodes):
                return None
            stack = _Stack(self, depth + 1, _no_header, None)
            nested, width = stack.run(nodes, Late(block.returns))
            if width > _LONGEST_BRANCH or not {one.output for one in nodes} <= nested:
                return None
            everything |= nested
            total += width
        return everything, total

    def short_circuit(self, node: Node) -> ShortCircuit | None:
        """``and`` or ``or``, if that is what an ``If`` with one output is."""
        (condition,) = node.inputs
        (then,), (orelse,) = (block.returns for block in node.blocks)
        test = condition.node
        if test is not None and test.kind == "prim::bool" and len(condition.uses) == 1:
            first = test.inputs[0]
            if orelse is first and not visible(node.blocks[1].nodes):
                return ShortCircuit("and", first, then, test)
            if then is first and not visible(node.blocks[0].nodes):
                return ShortCircuit("or", first, orelse, test)
        if condition.type != BOOL and (test is None or test.kind not in _ALWAYS_BOOL):
            return None
        if orelse.constant_value is False or orelse is condition:
            return ShortCircuit("and", condition, then, None)
        if then.constant_value is True or then is condition:
            return ShortCircuit("or", condition, orelse, None)
        return None

    def names_read(self, value: Value, nested: set[Value] | None = None) -> set[str]:
        """The variables that an expression reads when it is evaluated.

        ``nested`` are values to be nested that the plan does not have yet.
        """
        if is_literal(value):
            return set()
        is_nested = value in self.nested or (nested is not None and value in nested)
        if not is_repeatable(value) and not is_nested:
            return {self.variables.name(value)}
        node = value.node
        assert node is not None
        parts = [*node.inputs, *(part for block in node.blocks for part in block.returns)]
        return {name for part in parts for name in self.names_read(part, nested)}

    def can_nest(self, node: Node, depth: int = 0) -> bool:
        """Whether a node's value may be written inside its user, as far as order permits."""
        if len(node.outputs) != 1 or node.kind in STATEMENTS or node.kind in LOOPS:
            return False
        value = node.output
        if _is_named(value) or (node.blocks and not self.is_expression(node, depth)):
            return False
        if augmented_sign(node) and base_name(node.inputs[0].name):
            # ``x += y`` is a statement.
            if self.variables.are_same(node.inputs[0], value):
                return False
        if len(value.uses) != 1:
            return self._is_short_circuited(node, depth)
        user = value.uses[0].user
        if isinstance(user, Block):
            return user is node.block
        repeated = len(user.outputs) == 1 and is_repeatable(user.output)
        return user.block is node.block and not repeated

    def _is_short_circuited(self, node: Node, depth: int) -> bool:
        """Whether the value is ``first`` of an ``and`` or ``or``, where it has two uses."""
        users = [use.user for use in node.output.uses]
        if len(users) != 2 or node.block is None:
            return False
        # The branch comes next, or after the node that takes the value's truth.
        following = _following(node, 2)
        if following and following[0].kind == "prim::bool" and len(following[0].output.uses) == 1:
            tested = following.pop(0).output
        else:
            tested = node.output
        if not following or following[0].kind != "prim::If" or following[0].inputs != [tested]:
            return False
        branch = following[0]
        returned = any(user in branch.blocks for user in users)
        if not returned or not self.is_expression(branch, depth):
            return False
        short = self.short_circuit(branch)
        return short is not None and short.first is node.output


def _is_augmented_assignment(node: Node) -> bool:
    """Whether this is the operator or the assignment of ``a[i] += y`` or ``a.b += y``.

    So are the write of ``x += y``, and the conversion of what it writes.
    """
    written = node.output.uses[0].user if node.kind == "np::cast" and node.output.uses else node
    if isinstance(written, Node) and written.attributes.get("in_place"):
        return True
    if augmented_sign(node) is not None:
        users = [use.user for use in node.output.uses]
        return len(users) == 1 and isinstance(users[0], Node) and _is_item_assignment(users[0])
    value = node.inputs[-1].node if _is_item_assignment(node) else None
    return value is not None and augmented_sign(value) is not None


def _is_item_assignment(node: Node) -> bool:
    return node.kind in ("prim::setitem", "prim::SetAttr")


def _is_named(value: Value) -> bool:
    """Whether the user gave a value its name; the front end calls what is returned ``result``."""
    base = base_name(value.name)
    if base != "result":
        return bool(base)
    return len(value.uses) != 1 or not isinstance(value.uses[0].user, Block)


def _following(node: Node, count: int) -> list[Node]:
    """The next visible nodes of the block; only nodes close by are looked for."""
    assert node.block is not None
    nodes = node.block.nodes
    start = nodes.index(node) + 1
    return visible(nodes[start : start + count + 4])[:count]


class _Stack:
    """Goes through the nodes of one block with a stack of values that wait for their use."""

    def __init__(
        self,
        plan: Plan,
        depth: int,
        headers: Callable[[Node], Late],
        statement: Node | None,
        limit: int | None = _LONGEST,
    ) -> None:
        self.plan = plan
        self.depth = depth
        self.headers = headers
        self.statement = statement
        self.limit = limit
        self.waiting: list[Value] = []
        self.widths: dict[Value, int] = {}
        self.nested: set[Value] = set()

    def run(self, nodes: Sequence[Node], final: Late) -> tuple[set[Value], int]:
        """The values to nest, and the width of the final expressions together."""
        for node in visible(nodes):
            self._visit(node)
        self.nested.update(self._take(final))
        return self.nested, sum(self._width(value, self.nested) for value in final.values)

    def _visit(self, node: Node) -> None:
        inner = self.plan.expression(node, self.depth) if node is not self.statement else None
        operands = self._operands(node, inner is not None)
        taken = self._take(operands)
        width = _own_width(node) + sum(self._width(value, taken) for value in operands.values)
        width += inner[1] if inner else 0
        # The condition of an expression may be the first operand of ``and``, without a variable.
        fixed = inner is not None or self.limit is None or _is_augmented_assignment(node)
        while taken and not fixed and width > (self.limit or 0):
            # Whatever was computed before the value that gets a variable must get one, too.
            width -= self.widths[taken.pop(0)] - _NAME_WIDTH
            self.waiting.clear()
        self.nested.update(taken)
        if inner is not None:
            self.nested |= inner[0]
        self._give_variables(node.inputs)
        if node is self.statement or not self.plan.can_nest(node, self.depth):
            self.waiting.clear()
            return
        self.waiting.append(node.output)
        self.widths[node.output] = width
        if len(self.waiting) > _MOST_WAITING:
            del self.waiting[0]

    def _give_variables(self, values: Sequence[Value]) -> None:
        """Drop these values from the stack, and what was computed before them."""
        for position in reversed(range(len(self.waiting))):
            if self.waiting[position] in values:
                del self.waiting[: position + 1]
                return

    def _operands(self, node: Node, is_expression: bool) -> Late:
        """What the node evaluates, in Python's order."""
        if node.blocks and not is_expression:
            return self.headers(node)
        order = STATEMENTS.get(node.kind)
        if order is not None:
            return Late(order(node.inputs))
        if node.kind == "np::full":
            return Late([*node.inputs[1:], node.inputs[0]])
        return Late(node.inputs)

    def _take(self, late: Late) -> list[Value]:
        """Pop the longest top of the stack that consists of operands in their order."""
        operands = late.values
        count = 0
        place = len(operands)
        for value in reversed(self.waiting):
            place -= 1
            while place >= 0 and operands[place] is not value:
                place -= 1
            if place < 0:
                break
            count += 1
        if not count:
            return []
        taken = self.waiting[-count:]
        if late.assigned:
            inside = self.nested.union(taken)
            if any(self.plan.names_read(value, inside) & late.assigned for value in taken):
                return []
        del self.waiting[-count:]
        return taken

    def _width(self, value: Value, nested: Container[Value]) -> int:
        if value in nested:
            return self.widths[value]
        node = value.constant
        return len(value.name) if node is None else _literal_width(node.attributes["value"])


def _literal_width(value: object) -> int:
    if value is None:
        return 0  # most often it is an absent part of a slice
    if isinstance(value, int) and value.bit_length() > 64:
        return _LONGEST
    return len(repr(value)) if isinstance(value, int | float | complex | str) else 4


def _own_width(node: Node) -> int:
    """About how many characters a node adds to those of its operands."""
    if node.kind in ("prim::slice", "prim::getitem"):
        return 2
    separators = 2 * len(node.inputs)
    if node.kind in _SIGNS:
        return separators
    namespace, _, name = node.kind.partition("::")
    if "name" in node.attributes:
        name = str(node.attributes["name"])
    extra = sum(len(key) + 8 for key in node.attributes if key not in ("name", "scope", "index"))
    prefix = 1 if namespace == "prim" else len(namespace) + 2
    return prefix + len(name) + separators + extra + sum(map(len, node.keywords))


_DISPLAYS = frozenset(
    f"prim::{name}"
    for name in (
        "TupleConstruct",
        "ListConstruct",
        "SetConstruct",
        "DictConstruct",
        "FormatString",
        "Call",
        "getitem",
        "slice",
        "pow",
    )
)
_SIGNS = _DISPLAYS.union(BINARY, UNARY, ARRAY_OPERATORS, ("np::view", "np::item"))
"""Kinds that are written with signs only."""
