"""The part of ``specialize`` that treats branches: choosing, merging, and splitting the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.held_lists import HeldListType
from jitcore.ir.nesting import enclosing, with_inner
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize.objects.object_builder import ObjectBuilder
from jitcore.ir.specialize.objects.object_states import Field
from jitcore.ir.specialize.python_parts import python_nodes
from jitcore.ir.specialize.skeletons import (
    UNINITIALIZED,
    ConstantSkeleton,
    ElementSkeleton,
    ListsAreNotValues,
    ListSkeleton,
    RecordsAreNotValues,
    RecordSkeleton,
    ReferenceSkeleton,
    SharedSkeleton,
    Skeleton,
    TupleSkeleton,
    UnionSkeleton,
    common_skeleton,
    is_wide,
    leaves_of,
    needs_native,
)
from jitcore.ir.specialize.typed_builder import CompileFunction, ObjectArgument
from jitcore.ir.specialize.union_facts import UnionFacts
from jitcore.ir.specialize.value_kinds import holds_object
from jitcore.ir.types import (
    ANY,
    INT,
    Dim,
    KnownType,
    LocalListType,
    ObjectListType,
    OpenFunction,
    OpenPartial,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_tracked,
)

__all__ = ["MAX_DUPLICATE", "BranchBuilder", "Environment"]

MAX_DUPLICATE = 200
"""The largest rest of a block that is specialized twice."""

Environment = dict[Value, Value]
"""From the old graph's values to the new one's."""


class BranchBuilder(ObjectBuilder):
    """Emits ``prim::If`` nodes and merges what their branches give."""

    def __init__(self, target: Graph, compile_function: CompileFunction | None = None) -> None:
        super().__init__(target, compile_function)
        self.union_facts = UnionFacts()
        self.given_tuples = set[Value]()
        self.held_lists: list[Value] = []
        self.lists_given = False
        self._fields: dict[Node, list[Field]] = {}

    def open_scope(self, block: Block) -> Block:
        """Emit into ``block`` from now on; gives the block to return to."""
        self.union_facts.open_scope()
        return super().open_scope(block)

    def close_scope(self, outer: Block) -> None:
        """Go back to ``outer``; what was known inside may not hold there."""
        super().close_scope(outer)
        self.union_facts.close_scope()

    def walk(self, block: Block, start: int, environment: Environment) -> list[Value]:
        """Specialize a block's nodes from number ``start``; gives what the block returns."""
        raise NotImplementedError

    def opened(self, value: Value) -> Value:
        """Give a tuple or an object that came from outside visible elements."""
        type_ = value.type
        if isinstance(type_, KnownType):
            return self.constant(type_.value)
        if isinstance(type_, ObjectListType):
            return self.opened_list(value, type_)
        if isinstance(type_, HeldListType) and self.shared is not None:
            return self.held_lists.pop(0)
        if not isinstance(type_, TupleType | RecordType):
            return value
        own = ObjectArgument(value, {})
        if isinstance(type_, RecordType):
            self.objects.append(own)
            self.assume_attributes(type_)
        origin = len(self.objects) - 1
        types = type_.elements
        node = self.block.append("prim::Unpack", [value], {"count": len(types)}, outputs=types)
        parts = [self.opened(one) for one in node.outputs]
        if isinstance(type_, TupleType):
            made = self.make_tuple(parts, type_.named)
            self.given_tuples.add(made)
            return made
        # A list that is not in the heap has no form.
        pairs = zip(type_.names, parts, strict=True)
        held = {name: one for name, one in pairs if not isinstance(one.type, HeldListType)}
        own.attributes.update(held)
        known = tuple(part.type for part in held.values())
        state = RecordType(type_.class_, tuple(held), known, origin)
        record = self.emit("prim::RecordState", list(held.values()), {}, state)
        if is_tracked(state):
            self.object_states.put(record)
        return record

    def opened_list(self, value: Value, type_: ObjectListType) -> Value:
        """Give a list of objects that came from outside the arrays of their attributes."""
        self.assume_attributes(type_)
        dim = self.fresh_dim()
        columns = [
            self.emit("prim::ListItems", [value], {"column": number}, TensorType(dtype, (dim,)))
            for number, dtype in enumerate(type_.dtypes)
        ]
        length = self.emit("prim::ListLength", [value], {}, INT)
        own = replace(type_, number=len(self.object_lists))
        self.object_lists.append(self.emit("prim::ObjectList", [*columns, length], {}, own))
        self.given_lists.append(value)
        return self.object_lists[-1]

    def assume_attributes(self, type_: RecordType | ObjectListType) -> None:
        """Take for granted what the class of an argument says about its attributes."""
        if isinstance(type_.class_, OpenFunction | OpenPartial):
            return
        for name in (*type_.names, *type_.inherited, "__getattr__", "__getattribute__"):
            self.class_attribute(type_.class_, name)

    def uninitialized(self) -> Value:
        """A value of no type, for paths that are never read."""
        return self.emit("prim::Uninitialized", [], {}, UNINITIALIZED)

    def visit_if(
        self, node: Node, environment: Environment, rest: tuple[Block, int]
    ) -> list[Value] | None:
        """Specialize an ``If``; gives the block's returns where the rest was absorbed."""
        condition = environment[node.inputs[0]]
        if condition.constant is not None:
            taken = node.blocks[0 if condition.constant.attributes["value"] else 1]
            values = self.walk(taken, 0, environment)
            if taken.raises:
                return [self.uninitialized() for _ in rest[0].returns]
            environment.update(zip(node.outputs, values, strict=True))
            return None
        made, branches = self.build_branches(
            condition,
            [partial(self.walk, block, 0, dict(environment)) for block in node.blocks],
        )
        merged = self.merge(made, branches)
        if merged is None:
            return self.absorb(made, condition, node, branches, environment, rest)
        environment.update(zip(node.outputs, merged, strict=True))
        return None

    def visit_protected(self, node: Node, environment: Environment) -> None:
        """Specialize ``Try`` or ``With``, whose blocks merge like those of an ``If``."""
        if node.kind == "prim::With" and self.splice_body(node, environment):
            return
        if self.heap:
            raise ListsAreNotValues("shared lists where an exception may be caught")
        inputs = [environment[value] for value in node.inputs]
        made = self.block.append(
            node.kind,
            inputs,
            node.attributes,
            keywords=node.keywords,
            outputs=(),
            source=node.source,
        )
        branches = []
        states = self.object_states.now
        for block in node.blocks:
            outer = self.open_scope(made.add_block())
            self.object_states.now = dict(states)
            local = dict(environment)
            for param in block.params:
                local[param] = self.block.add_param(ANY, param.name)
            branches.append(self.settled_all(self.walk(block, 0, local), states))
            self.close_scope(outer)
        self.object_states.now = states  # objects in blocks of Python's are refused in the end
        merged = self.merge(made, branches)
        if merged is None:
            merged = self.merge_as_any(made, branches)
        environment.update(zip(node.outputs, merged, strict=True))

    def splice_body(self, node: Node, environment: Environment) -> bool:
        """Put the body of a ``With`` in its place where compiled code needs no context.

        That is so under an ``np.errstate`` that asks for nothing but warnings, if all is native.
        """
        settings = [environment[value].constant for value in node.inputs]
        if not all(one is not None and one.attributes["value"] in _QUIET for one in settings):
            return False
        start = self.mark()
        values = self.walk(node.blocks[0], 0, dict(environment))
        if any(python_nodes(self.block.nodes[start.position :])):
            self.roll_back(start)
            return False
        environment.update(zip(node.outputs, values, strict=True))
        return True

    def absorb(
        self,
        made: Node,
        condition: Value,
        node: Node,
        branches: list[list[Value]],
        environment: Environment,
        rest: tuple[Block, int],
    ) -> list[Value] | None:
        """Specialize the rest of the block in each branch, or merge what conflicts as ``Any``."""
        block, start = rest
        cost = 1 + sum(1 for _ in with_inner(block.nodes[start:]))
        if cost > min(self.budget, MAX_DUPLICATE):
            environment.update(zip(node.outputs, self.merge_as_any(made, branches), strict=True))
            return None
        self.budget -= cost
        self.discard(made)

        def branch(inner: Block) -> Callable[[], list[Value]]:
            def run() -> list[Value]:
                local = dict(environment)
                values = self.walk(inner, 0, local)
                if inner.raises:
                    return [self.uninitialized() for _ in block.returns]
                local.update(zip(node.outputs, values, strict=True))
                return self.walk(block, start, local)

            return run

        return self.split(condition, [branch(inner) for inner in node.blocks])

    def split(self, condition: Value, runs: list[Callable[[], list[Value]]]) -> list[Value]:
        """An ``If`` whose branches end the surrounding block."""
        made, branches = self.build_branches(condition, runs)
        merged = self.merge(made, branches)
        return self.merge_as_any(made, branches) if merged is None else merged

    def build_branches(
        self, condition: Value, runs: list[Callable[[], list[Value]]]
    ) -> tuple[Node, list[list[Value]]]:
        """An ``If`` without outputs, and what each branch would return, the heap's parts last."""
        made = self.block.append("prim::If", [condition], outputs=(), source=self.source)
        branches = []
        before, states = self.heap, self.object_states.now
        changed = []
        for run, holds in zip(runs, (True, False), strict=True):
            outer = self.open_scope(made.add_block())
            self.heap, self.object_states.now = before, dict(states)
            self.union_facts.assume(condition, holds=holds)
            try:
                values = self.settled_all(run(), states)
            except Untypable:
                self.close_scope(outer)
                self.heap, self.object_states.now = before, states
                raise
            branches.append([*values, *self.heap])
            changed.append(self.changed_fields(states))
            self.close_scope(outer)
            if made.blocks[-1].raises:
                # What follows is only reached through the other branch.
                self.union_facts.assume(condition, holds=not holds)
        self.heap, self.object_states.now = before, states
        fields = sorted(set().union(*changed))
        for block, branch, own in zip(made.blocks, branches, changed, strict=True):
            branch += [self.field_in(block, states, own, one) for one in fields]
        self._fields[made] = fields
        return made, branches

    def discard(self, node: Node) -> None:
        """Take back a node whose outputs nobody reads."""
        assert node.block is not None and node.block.nodes[-1] is node
        node.drop_inputs()
        node.block.nodes.pop()

    def merge(
        self, made: Node, branches: list[list[Value]], *, unions: bool = False
    ) -> list[Value] | None:
        """Give an ``If`` its outputs; None where some have no common type."""
        plans = []
        for pair in zip(*branches, strict=True):
            skeleton = self.skeleton_of(pair, unions=unions)
            if skeleton is None:
                return None
            rows = [
                leaves_of(value, skeleton, block)
                for value, block in zip(pair, made.blocks, strict=True)
            ]
            leaves = list(zip(*rows, strict=True))
            types = [self.join([one.type for one in column]) for column in leaves]
            if None in types:
                return None
            plans.append((skeleton, leaves, types))
        merged = self.without_hidden(made, [self.add_merged(made, *plan) for plan in plans])
        if made.kind == "prim::If":
            self.union_facts.note_branches(made)
        return merged

    def skeleton_of(self, values: Sequence[Value], *, unions: bool = False) -> Skeleton | None:
        """The skeleton that all of these have, or None.

        In Python's parts of a program a variable may be anything at no cost.
        """
        found = common_skeleton(values, unions=unions)
        if found is None or (not self.is_native and is_wide(found)):
            return None
        self.object_states.freeze_copied(list(values), found)
        return found

    def without_hidden(self, made: Node, merged: list[Value]) -> list[Value]:
        """Take what branches have made of attributes, and the heap's parts, from their values."""
        return self.without_fields(self._fields.get(made, []), merged)

    def without_fields(self, fields: Sequence[Field], values: list[Value]) -> list[Value]:
        """Set attributes to the last of these values, and the heap's parts to those before them."""
        count = len(values) - len(fields)
        self.set_fields(fields, values[count:])
        return self.without_heap(values[:count])

    def without_heap(self, merged: list[Value]) -> list[Value]:
        """Take the heap's parts from the end of what the branches of a node have given."""
        count = len(merged) - len(self.heap)
        self.heap = merged[count:]
        return merged[:count]

    def add_merged(
        self,
        made: Node,
        skeleton: Skeleton,
        leaves: list[tuple[Value, ...]],
        types: list[Type | None],
    ) -> Value:
        """One variable's outputs, put together again."""
        outputs = []
        for column, type_ in zip(leaves, types, strict=True):
            assert type_ is not None
            # Nobody reads a variable where it has no value.
            known = [one for one in column if one.type != UNINITIALIZED] or column
            if all(one is known[0] for one in known) and self.is_outer(known[0], made):
                outputs.append(known[0])
                continue
            outputs.append(made.add_output(type_, _given_name(column)))
            for block, value in zip(made.blocks, column, strict=True):
                block.add_return(value)
        return self.rebuild(skeleton, iter(outputs))

    @staticmethod
    def is_outer(value: Value, made: Node) -> bool:
        """Whether a value was made outside this node."""
        block = value.block if value.node is None else value.node.block
        return all(one.owner is not made for one in enclosing(block))

    def rebuild(self, skeleton: Skeleton, leaves: Iterator[Value]) -> Value:
        """Put leaves back into the tuples and unions they came from."""
        if isinstance(skeleton, TupleSkeleton):
            parts = [self.rebuild(part, leaves) for part in skeleton.parts]
            return self.make_tuple(parts, skeleton.named)
        if isinstance(skeleton, RecordSkeleton):
            parts = [self.rebuild(part, leaves) for part in skeleton.parts]
            types = tuple(part.type for part in parts)
            type_ = RecordType(skeleton.class_, skeleton.names, types, skeleton.origin)
            return self.emit("prim::RecordState", parts, {}, type_)
        if isinstance(skeleton, ListSkeleton):
            parts = [next(leaves) for _ in range(skeleton.count)]
            self.keeps_ints = self.keeps_ints or needs_native(skeleton.element)
            return self.emit("prim::ListState", parts, {}, LocalListType(skeleton.element))
        if isinstance(skeleton, SharedSkeleton):
            return self.emit("prim::SharedList", [next(leaves)], {}, skeleton.type)
        if isinstance(skeleton, ElementSkeleton):
            if isinstance(skeleton.type, ObjectListType):
                return self.object_lists[skeleton.type.number]
            return self.emit("prim::ObjectElement", [next(leaves)], {}, skeleton.type)
        if isinstance(skeleton, UnionSkeleton):
            tag = next(leaves)
            parts = [self.rebuild(one.skeleton, leaves) for one in skeleton.leading]
            held = skeleton.of_parts(parts, self.block)
            union = UnionType(tuple(one.type for one in held))
            return self.emit("prim::UnionConstruct", [tag, *held], {}, union)
        if isinstance(skeleton, ConstantSkeleton):
            return self.constant(skeleton.value)
        if isinstance(skeleton, ReferenceSkeleton):
            return self.object_states.now[skeleton.origin]
        return next(leaves)

    def merge_as_any(self, made: Node, branches: list[list[Value]]) -> list[Value]:
        """Give an ``If`` its outputs, unions or of type ``Any`` where there is no common type."""
        as_unions = self.merge(made, branches, unions=True)
        if as_unions is not None:
            return as_unions
        merged = []
        for pair in zip(*branches, strict=True):
            if any(isinstance(one.type, LocalListType) for one in pair):
                raise ListsAreNotValues("a list, or something else")
            if any(holds_object(one.type) for one in pair):
                raise RecordsAreNotValues("an object, or something else")
            type_ = self.join([one.type for one in pair]) or ANY
            if isinstance(type_, UnionType):
                type_ = ANY
            for block, value in zip(made.blocks, pair, strict=True):
                block.add_return(value)
            merged.append(made.add_output(type_))
        return self.without_hidden(made, merged)

    def join(self, types: Sequence[Type]) -> Type | None:
        """The type that covers all of these, or None."""
        known = [one for one in types if one != UNINITIALIZED]
        if not known:
            return UNINITIALIZED
        result: Type | None = known[0]
        for other in known[1:]:
            result = None if result is None else self.join_two(result, other)
        return None if result is None else self.exported_type(result)

    def exported_type(self, type_: Type) -> Type:
        """A type whose dims may be named outside the scope just left."""
        if not isinstance(type_, TensorType) or type_.dims is None:
            return type_
        return replace(type_, dims=tuple(map(self.exported, type_.dims)))

    def exported(self, dim: Dim) -> Dim:
        """A dim that may be named outside the scope just left."""
        return self.fresh_dim() if dim in self.closed_symbols else dim

    def widen(self, type_: Type, returned: Type, widened: set[Dim]) -> Type | None:
        """The type of a loop's variable, given what it was and what an iteration returns.

        A dim that varies gets a symbol of its own, once.
        """
        if returned == UNINITIALIZED or type_ == UNINITIALIZED:
            return returned if type_ == UNINITIALIZED else type_
        result = self.join_two(type_, returned)
        if not isinstance(result, TensorType) or result.dims is None:
            return result
        assert isinstance(type_, TensorType) and isinstance(returned, TensorType)
        dims = []
        for old, new in zip(type_.dims or (), returned.dims or (), strict=True):
            if old != new and old not in widened:
                old = self.fresh_dim()
                widened.add(old)
            dims.append(old)
        return TensorType(result.dtype, tuple(dims), result.scalar)

    def join_two(self, first: Type, second: Type) -> Type | None:
        """The type that covers both, with a fresh symbol for each dim that differs."""
        if first == second:
            return first
        if ANY in (first, second):
            return ANY
        if not (isinstance(first, TensorType) and isinstance(second, TensorType)):
            return None
        if first.dtype is None or second.dtype is None:
            return TensorType() if not (first.scalar or second.scalar) else None
        if first.dtype != second.dtype or first.scalar != second.scalar:
            return None
        if first.dims is None or second.dims is None or first.rank != second.rank:
            return None
        dims = tuple(
            one if one == other else self.fresh_dim()
            for one, other in zip(first.dims, second.dims, strict=True)
        )
        return TensorType(first.dtype, dims)


_QUIET = ("ignore", "warn")


def _given_name(values: Sequence[Value]) -> str:
    """The user's name among these values' names, if there is one."""
    names = (value.name.split(".")[0] for value in values)
    return next((name for name in names if not name.isdigit()), "")
