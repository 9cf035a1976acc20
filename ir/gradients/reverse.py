"""The backward part: walks the forward part from its end and emits what its rules say.

The derivative with respect to a value is a sum of **contributions**, one for each place that has
read it.  Those of numbers and of most arrays are values.  An array that is written in place, that
a loop reads or that is read in parts has a **buffer** instead, an array that contributions are
added to in place; a view of the array has the same view of the buffer, so that what the program
does to memory is undone step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.effects import node_effects
from jitcore.ir.gradients.activity import (
    ZERO_GRADIENTS,
    Activity,
    NotDifferentiable,
    dtype_of,
    is_view,
    rank_of,
)
from jitcore.ir.gradients.elementwise import Partial
from jitcore.ir.gradients.expressions import Expression, Operand
from jitcore.ir.gradients.primals import Primals
from jitcore.ir.gradients.rules import PARTIALS, RULES
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Value
from jitcore.ir.names import all_values
from jitcore.ir.nesting import block_of, enclosing, place_in
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import dims_of
from jitcore.ir.types import ANY, INT, NONE, Dim, Type, is_ndarray, type_of_constant

__all__ = ["Reverse", "Scope"]

_MAYBE_ARRAYS = ("np::view", "np::reshape", "np::transpose", "np::where")
"""What gives an array without axes where its rule gives what is due to a number."""


@dataclass(slots=True)
class Scope:
    """A block of the backward part.

    Parameters
    ----------
    forward : Block
        The block whose nodes it undoes.
    block : Block
        Where its nodes are.
    known : dict
        Values of the forward part, and what they are here.
    contributions : dict
        What has been found of the derivatives with respect to values.
    buffers : dict
        The buffers of arrays, and the parts of them that belong to views.
    """

    forward: Block
    block: Block
    known: dict[Value, Value] = field(default_factory=dict)
    contributions: dict[Value, list[Value]] = field(default_factory=dict)
    buffers: dict[Value, Value] = field(default_factory=dict)


class Reverse:
    """Emits the backward part of a graph behind its forward part."""

    def __init__(self, graph: Graph, activity: Activity) -> None:
        self.graph = graph
        self.activity = activity
        self.primals = Primals(self)
        self.scope = Scope(graph.block, graph.block)
        self._stack = [self.scope]
        self.node: Node | None = None
        self._position: int | None = None
        self._in_memory: dict[Value, bool] = {}
        self._mirrored: dict[Node, bool] = {}

    # Emission

    def scopes(self) -> Iterator[Scope]:
        """The scopes around the place of emission, from the inside."""
        return reversed(self._stack)

    def emit(
        self, kind: str, inputs: Sequence[Value], attributes: Mapping[str, Any] | None = None
    ) -> Value:
        """Append a node with one output."""
        return self._append(kind, inputs, attributes or {}, ANY)

    def constant(self, value: Any, type_: Type | None = None) -> Value:
        """Append a constant."""
        attributes = {"value": value}
        return self._append("prim::Constant", [], attributes, type_ or type_of_constant(value))

    def _append(
        self, kind: str, inputs: Sequence[Value], attributes: Mapping[str, Any], type_: Type
    ) -> Value:
        return self._append_node(kind, inputs, (type_,), attributes).output

    def _append_node(
        self,
        kind: str,
        inputs: Sequence[Value],
        outputs: Sequence[Type],
        attributes: Mapping[str, Any] | None = None,
    ) -> Node:
        block, source = self.scope.block, self.node.source if self.node is not None else None
        position = len(block.nodes)
        if self._position is not None:
            position, self._position = self._position, self._position + 1
        return block.insert(position, kind, inputs, attributes, outputs=outputs, source=source)

    @contextmanager
    def beginning(self, forward: Block) -> Iterator[Scope]:
        """Emit where the scope that undoes a block begins.

        For a block around the one that is undone now: before the node that undoes the latter.
        """
        stack, scope, position = self._stack, self.scope, self._position
        number = next(n for n, one in enumerate(stack) if one.forward is forward)
        self._stack, self.scope = stack[: number + 1], stack[number]
        self._position = 0
        if number == 0:
            inner = stack[1].block.owner
            assert inner is not None
            self._position = self.scope.block.nodes.index(inner)
        yield self.scope
        self._stack, self.scope, self._position = stack, scope, position

    def apply(self, kind: str, *args: Any, **attributes: Any) -> Expression:
        """Append a node; arguments are expressions, values and numbers."""
        return Expression(self, self.emit(kind, [self.value(one) for one in args], attributes))

    def value(self, one: Any) -> Value:
        """The value of an expression; numbers become constants."""
        if isinstance(one, Expression):
            return one.value
        return one if isinstance(one, Value) else self.constant(one)

    def expression(self, value: Value) -> Expression:
        """A value of the backward part as an expression."""
        return Expression(self, value)

    def open(self, forward: Block, block: Block) -> Scope:
        """Emit to another block from now on."""
        self.scope = Scope(forward, block)
        self._stack.append(self.scope)
        return self.scope

    def close(self) -> None:
        """Go back to the scope around this one."""
        self._stack.pop()
        self.scope = self._stack[-1]

    @contextmanager
    def loop(self, count: Value) -> Iterator[Value]:
        """Emit the body of a loop, for what it does to memory; gives the loop's index."""
        inputs = [count, self.constant(True)]
        made = self._append_node("prim::Loop", inputs, ())
        outer = self.scope
        self.scope = replace(outer, block=made.add_block(), known=dict(outer.known))
        yield self.scope.block.add_param(INT, "i")
        self.scope.block.add_return(self.constant(True))
        self.scope = outer

    # Extents and zeros

    def with_extent(self, dim: str, before: Node | None = None) -> tuple[Value, int] | None:
        """An array, known where a node stands or at the end, that has an extent; and the axis."""
        around = set(enclosing(self.graph.block if before is None else before.block))
        for value in all_values(self.graph.block):
            if dim in dims_of(value) and block_of(value) in around:
                if before is None or _stands_before(value, before):
                    return value, dims_of(value).index(dim)
        return None

    def extents(self, value: Value) -> list[Value]:
        """The extents of an array of the forward part, at the place of emission."""
        return [self.extent(value, axis) for axis in range(rank_of(value))]

    def extent(self, value: Value, axis: int) -> Value:
        """The same of one axis."""
        dim = dims_of(value)[axis]
        if isinstance(dim, int):
            return self.constant(dim)
        found = self.with_extent(dim)
        if found is not None and block_of(found[0]).owner is None:
            return self.emit("prim::size", [found[0]], {"dim": found[1]})
        place = value.node
        if place is None or place.block is None:
            block = block_of(value)
            made = block.insert(0, "prim::size", [value], {"dim": axis}, outputs=(INT,))
        else:
            position = place.block.nodes.index(place) + 1
            made = place.block.insert(
                position, "prim::size", [value], {"dim": axis}, outputs=(INT,)
            )
        return self.primals.at_hand(made.output)

    def zeros(self, value: Value) -> Value:
        """Zeros of the extents and the dtype of a value of the forward part."""
        dtype = dtype_of(value)
        zero = self.constant(dtype.type(0))
        if not dims_of(value):
            return zero
        return self.emit("np::full", [zero, *self.extents(value)], {"dtype": dtype})

    # Contributions

    def base_of(self, value: Value) -> Value:
        """The array whose buffer a view has a part of; the value itself where it is none."""
        while value.node is not None and is_view(value.node) and self._is_mirrored(value.node):
            value = value.node.inputs[0]
        return value

    def _is_mirrored(self, node: Node) -> bool:
        """Whether a view of an array's buffer is what the view of the array is.

        Other views are taken for copies, which their memory must allow.
        """
        if node.kind in ("np::view", "np::transpose"):
            return True
        if node not in self._mirrored:
            self._mirrored[node] = self._is_c_order_reshape(node)
            if not self._mirrored[node] and self.activity.is_overwritten(node.output, node):
                raise NotDifferentiable(
                    f"an array is written to after {name_of(node)} of it was taken",
                    node.source,
                    "Write to the array before, or take a copy.",
                )
        return self._mirrored[node]

    def _is_c_order_reshape(self, node: Node) -> bool:
        """Whether a reshape of an array is surely a view, and one of its buffer, too."""
        made = node.inputs[0].node
        if node.kind != "np::reshape" or made is None:
            return False
        is_new = made.kind in ("np::empty", "np::full")
        return is_new and not {"like", "order"} & set(made.attributes)

    def in_memory(self, value: Value) -> bool:
        """Whether an array's derivative has a buffer."""
        if not is_ndarray(value.type):
            return False
        base = self.base_of(value)
        if base not in self._in_memory:
            is_active = self.activity.is_active(base)
            self._in_memory[base] = is_active and self._needs_buffer(base)
        return self._in_memory[base]

    def _needs_buffer(self, value: Value) -> bool:
        """Whether an array is written in place, read by a loop, or read in parts."""
        if value in self.activity.writes or self.activity.uses_in_loops(value):
            return True
        readers = [use.user for use in value.uses if use.index == 0]
        return any(isinstance(one, Node) and self._reads_part(one) for one in readers)

    def _reads_part(self, node: Node) -> bool:
        if node.kind == "np::gather":
            return True
        if node.kind == "np::view" and takes_part(node.attributes["index"]):
            return True
        is_mirrored = is_view(node) and self._is_mirrored(node)
        return is_mirrored and self._needs_buffer(node.output)

    def buffer(self, value: Value) -> Value:
        """The buffer of an array, or the part of it that belongs to a view."""
        for scope in self.scopes():
            if value in scope.buffers:
                return scope.buffers[value]
            if scope.forward is block_of(value):
                break
        node = value.node
        assert node is not None and is_view(node), f"{value!r} has no buffer here"
        operands = [self.primals.at_hand(one) for one in node.inputs[1:]]
        found = self.emit(node.kind, [self.buffer(node.inputs[0]), *operands], node.attributes)
        self.scope.buffers[value] = found
        return found

    def contribute(self, value: Value, term: Any) -> None:
        """Add a term, of the value's own extents, to the derivative with respect to it."""
        if not self.activity.is_active(value):
            return
        given = self.value(term)
        may_be_array = given.node is not None and given.node.kind in _MAYBE_ARRAYS
        if may_be_array and not is_ndarray(value.type):
            given = self.emit("np::item", [given])
        if self.in_memory(value):
            buffer = self.buffer(value)
            total = self.emit("np::add", [buffer, given])
            self.emit("np::store", [buffer, total])
            return
        self.scope.contributions.setdefault(value, []).append(given)

    def contribute_broadcast(self, value: Value, term: Any, like: Value) -> None:
        """The same for a term of the extents of ``like``, to which the value was broadcast."""
        if self.activity.is_active(value):
            self.contribute(value, self.summed(term, dims_of(like), value))

    def summed(self, term: Any, source: tuple[Dim, ...], value: Value) -> Expression:
        """A term of some extents, summed to those that a value had before it was broadcast."""
        total, dims = self.expression(self.value(term)), dims_of(value)
        if source == dims:
            return total
        if not dims:
            return total.apply("np::sum", total, axis=tuple(range(len(source))), keepdims=False)
        lead = len(source) - len(dims)
        if lead:
            total = total.apply("np::sum", total, axis=tuple(range(lead)), keepdims=False)
        pairs = list(zip(source[lead:], dims, strict=True))
        ones = tuple(axis for axis, (one, two) in enumerate(pairs) if two == 1 and one != 1)
        if ones:
            total = total.apply("np::sum", total, axis=ones, keepdims=True)
        for axis, (one, two) in enumerate(pairs):
            if two not in (1, one):
                total = self._summed_if_one(total, value, axis)
        return total

    def _summed_if_one(self, term: Expression, value: Value, axis: int) -> Expression:
        """A sum along an axis of which only a run tells whether it was broadcast."""
        if isinstance(dims_of(value)[axis], int):
            return term
        is_one = self.emit("prim::eq", [self.extent(value, axis), self.constant(1)])
        made = self.scope.block.append("prim::If", [is_one], outputs=())
        summed, whole = made.add_block(), made.add_block()
        total = summed.append("np::sum", [term.value], {"axis": (axis,), "keepdims": True})
        summed.add_return(total.output)
        whole.add_return(term.value)
        return self.expression(made.add_output(ANY))

    def take(self, value: Value) -> Value | None:
        """What there is of the derivative with respect to a value, which is complete now."""
        if self.in_memory(value):
            # The contributions to a view are those to the array.
            return self.scope.buffers[value] if self.base_of(value) is value else None
        terms = self.scope.contributions.pop(value, [])
        if not terms:
            return None
        total, *rest = terms
        for one in rest:
            total = self.emit("np::add", [total, one])
        return total

    # The walk

    def make_buffers(self, forward: Block) -> None:
        """Make the buffers of the arrays that are defined in a block."""
        outputs = [one for node in list(forward.nodes) for one in node.outputs]
        for value in [*forward.params, *outputs]:
            if self.in_memory(value) and self.base_of(value) is value:
                zero = self.constant(dtype_of(value).type(0))
                inputs = [zero, *self.extents(value)]
                attributes = {"dtype": dtype_of(value)}
                self.scope.buffers[value] = self.emit("np::full", inputs, attributes)

    def run(self, nodes: Sequence[Node]) -> None:
        """Undo the nodes of a block."""
        for node in reversed(nodes):
            self.node = node
            if node.kind == "prim::If":
                self._undo_branch(node)
            elif node.kind in LOOPS:
                self._undo_loop(node)
            elif node.blocks:
                if any(map(self.activity.is_active, node.outputs)) or self._changes_memory(node):
                    raise self.refusal(node)
            else:
                self._undo(node)

    def refusal(self, node: Node) -> NotDifferentiable:
        """The error for what has no gradient."""
        if node.kind == "prim::Unpack" and node.inputs[0].node is not None:
            node = node.inputs[0].node
        reason = f": {node.host_reason}" if node.host_reason else ""
        return NotDifferentiable(
            f"there is no gradient of {name_of(node)}{reason}",
            node.source,
            "Write it with functions that have one, or keep it out of what is differentiated.",
        )

    def _undo(self, node: Node) -> None:
        """Undo a node without blocks."""
        rule = RULES.get(node.kind)
        if self._writes(node):
            if rule is None or node.outputs[0].type != NONE:
                raise self.refusal(node)
            rule(self, node, None)
            return
        if not any(map(self.activity.is_active, node.inputs)):
            return
        taken = [self.take(one) for one in node.outputs if self.activity.is_active(one)]
        given = next((one for one in taken if one is not None), None)
        if given is None or node.kind in ZERO_GRADIENTS:
            return
        self._require_real(node)
        partials = PARTIALS.get(node.kind, ())
        if len(partials) == len(node.inputs):
            self._undo_elementwise(node, partials, self.expression(given))
        elif rule is not None:
            rule(self, node, self.expression(given))
        else:
            raise self.refusal(node)

    def _writes(self, node: Node) -> bool:
        """Whether a node writes to something that is differentiated, or might."""
        effects = node_effects(node)
        return any(self.activity.is_active(node.inputs[number]) for number in effects.writes)

    def _require_real(self, node: Node) -> None:
        active = filter(self.activity.is_active, [*node.inputs, *node.outputs])
        if any(getattr(dtype_of(one), "kind", "") == "c" for one in active):
            raise NotDifferentiable(
                "there is no gradient of complex numbers",
                node.source,
                "Compute with the real and the imaginary part.",
            )

    def _undo_elementwise(
        self, node: Node, partials: Sequence[Partial | None], gradient: Expression
    ) -> None:
        operands = [Operand(self, one, node) for one in node.inputs]
        result = Operand(self, node.output, node)
        for value, partial in zip(node.inputs, partials, strict=True):
            if partial is not None and self.activity.is_active(value):
                term = partial(gradient, result, *operands)
                self.contribute_broadcast(value, term, node.output)

    def _undo_branch(self, node: Node) -> None:
        """``if``: both branches are undone under the same condition."""
        count = len(node.outputs)
        taken = [self.take(one) if self.activity.is_active(one) else None for one in node.outputs]
        if all(one is None for one in taken) and not self._changes_memory(node):
            return
        condition = self.primals.read(node.inputs[0], node)
        made = self.scope.block.append("prim::If", [condition], outputs=(), source=node.source)
        left: list[dict[Value, Value]] = []
        for block in node.blocks:
            scope = self.open(block, made.add_block())
            self.make_buffers(block)
            for given, value in zip(taken, block.returns[:count], strict=True):
                if given is not None:
                    self.contribute(value, given)
            self.run(list(block.nodes))
            outside = [one for one in scope.contributions if block_of(one) is not block]
            left.append({one: self._total(one) for one in outside})
            self.close()
        values = list(dict.fromkeys([*left[0], *left[1]]))
        for scope_left, forward, block in zip(left, node.blocks, made.blocks, strict=True):
            self.open(forward, block)
            for value in values:
                block.add_return(self._settled(scope_left.get(value), value))
            self.close()
        for value in values:
            self.contribute(value, made.add_output(ANY))

    def _changes_memory(self, node: Node) -> bool:
        """Whether something inside of a node writes to an array that is differentiated."""
        blocks = set(node.blocks)
        return any(
            self.activity.is_active(root) and blocks & set(enclosing(one.block))
            for root, writes in self.activity.writes.items()
            for one in writes
        )

    def _settled(self, found: Value | None, value: Value) -> Value:
        """What a variable of a loop or a branch gets: zeros for nothing, and no views.

        The order of an array's axes has to be the same whichever way the program takes.
        """
        if found is None:
            return self.zeros(value)
        row = None if found.node is None else TABLE.get(found.node.kind)
        if rank_of(value) and row is not None and row.view:
            return self.emit("np::copy", [found], {"order": "C"})
        return found

    def _total(self, value: Value) -> Value:
        found = self.take(value)
        assert found is not None
        return found

    def _undo_loop(self, node: Node) -> None:
        """Loops: their iterations are undone from the last one to the first."""
        (body,) = node.blocks
        count = len(node.outputs)
        carried = [n for n in range(count) if self.activity.is_active(body.params[1 + n])]
        given = {n: self.take(node.outputs[n]) for n in carried}
        if all(one is None for one in given.values()) and not self._changes_memory(node):
            return
        if node.kind != "prim::Loop":
            raise NotDifferentiable(
                "there is no gradient of a loop over this", node.source, "Loop over a range."
            )
        initial = [self._settled(given[n], node.outputs[n]) for n in carried]
        trips = self.primals.trips(node)
        inputs = [trips, self.constant(True), *initial]
        made = self.scope.block.append("prim::Loop", inputs, outputs=(), source=node.source)
        scope = self.open(body, made.add_block())
        number = scope.block.add_param(INT, "i")
        params = [scope.block.add_param(ANY) for _ in carried]
        last = self.emit("prim::sub", [trips, self.constant(1)])
        scope.known[body.params[0]] = self.emit("prim::sub", [last, number])
        self.make_buffers(body)
        for n, param in zip(carried, params, strict=True):
            self.contribute(body.returns[1 + n], param)
        self.run(list(body.nodes))
        self.node = node
        totals = [self._settled(self.take(body.params[1 + n]), body.params[1 + n]) for n in carried]
        outside = [one for one in scope.contributions if block_of(one) is not body]
        sums = [self._total(one) for one in outside]
        accumulators = [scope.block.add_param(ANY) for _ in outside]
        scope.block.add_return(self.constant(True))
        added = [
            self.emit("np::add", [one, two]) for one, two in zip(accumulators, sums, strict=True)
        ]
        for value in [*totals, *added]:
            scope.block.add_return(value)
        self.close()
        for value in outside:
            zero = dtype_of(value).type(0)
            made.add_input(
                made.value_before("prim::Constant", [], type_of_constant(zero), {"value": zero})
            )
        results = [made.add_output(ANY) for _ in [*carried, *outside]]
        for n, result in zip(carried, results, strict=False):
            self.contribute(node.inputs[2 + n], result)
        for value, result in zip(outside, results[len(carried) :], strict=True):
            self.contribute(value, result)


def _stands_before(value: Value, node: Node) -> bool:
    """Whether a value, of a block around a node, is known where the node stands."""
    own = value.node
    if own is None or own.block is None:
        return True
    return own.block.nodes.index(own) < place_in(own.block, node)


def name_of(node: Node) -> str:
    return node.kind.partition("::")[2]


def takes_part(index: str) -> bool:
    """Whether an index of a view leaves out elements, or has operands that may."""
    return any(part.strip() not in (":", "None", "::-1") for part in index.split(","))
