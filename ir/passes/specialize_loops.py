"""The part of ``specialize`` that treats loops: fixpoints of types, unrolling and peeling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.passes.chosen_elements import chosen_element, require_choice
from jitcore.ir.passes.list_parts import item_of, length_of
from jitcore.ir.passes.skeletons import (
    LEAF,
    ListsAreNotValues,
    ListSkeleton,
    Skeleton,
    UnionSkeleton,
    common_skeleton,
    declared_types,
    leaves_of,
)
from jitcore.ir.passes.specialize_branches import MAX_DUPLICATE, BranchBuilder, Environment
from jitcore.ir.types import ANY, BOOL, INT, Dim, LocalListType, TensorType, TupleType, Type

__all__ = ["visit_loop"]

Item = Callable[[Value], Value]
"""Makes the value of the loop's variable from the iteration's number."""

FIXPOINT_ROUNDS = 8

MAX_UNROLLED = 64
"""How many nodes a loop over a range may become for the sake of a list's elements."""


def visit_loop(
    worker: BranchBuilder, node: Node, environment: Environment, rest: tuple[Block, int]
) -> list[Value] | None:
    """Specialize a loop; gives the surrounding block's returns where it absorbed the rest."""
    inputs = [environment[value] for value in node.inputs]
    if node.kind == "prim::Loop":
        trip, condition, *carried = inputs
        return _counted(worker, node, environment, rest, trip, condition, carried, lambda i: i)
    iterable, *carried = inputs
    always = worker.constant(True)
    try:
        items = _known_items(worker, iterable)
        if items is None and any(map(_is_known_list, carried)):
            items = _few_numbers(worker, iterable, node.blocks[0])
        if items is not None:
            values = _unrolled(worker, node, environment, items, carried)
            environment.update(zip(node.outputs, values, strict=True))
            return None
        trip, item = _counting(worker, iterable)
    except Untypable:
        return _foreign(worker, node, environment, iterable, carried)
    return _counted(worker, node, environment, rest, trip, always, carried, item)


def _known_items(worker: BranchBuilder, iterable: Value) -> list[Value] | None:
    """All values a loop visits where its iterable is a tuple or a list display, or wraps one."""
    node = iterable.node
    kind = node.kind if node is not None else ""
    if isinstance(iterable.type, TupleType) or kind == "prim::ListConstruct":
        return worker.elements(iterable)
    if _is_known_list(iterable):
        return worker.elements(iterable)
    if node is None or kind not in ("prim::zip", "prim::enumerate", "prim::reversed"):
        return None
    if kind == "prim::enumerate":
        inner = _known_items(worker, node.inputs[0])
        if inner is None:
            return None
        start = node.inputs[1]
        numbers = [worker.op("prim::add", start, number) for number in range(len(inner))]
        return [worker.make_tuple([one, two]) for one, two in zip(numbers, inner, strict=True)]
    columns = [_known_items(worker, value) for value in node.inputs]
    if kind == "prim::reversed":
        return None if columns[0] is None else columns[0][::-1]
    known = [column for column in columns if column is not None]
    if not known:
        return None
    length = min(map(len, known))
    rows: list[list[Value]] = [[] for _ in range(length)]
    for column in columns:
        if column is None:
            return None
        for row, one in zip(rows, column, strict=False):
            row.append(one)
    return [worker.make_tuple(row) for row in rows]


def _is_known_list(value: Value) -> bool:
    return isinstance(value.type, LocalListType) and value.type.count is not None


def _few_numbers(worker: BranchBuilder, iterable: Value, body: Block) -> list[Value] | None:
    """The numbers of a short range: a loop over it keeps the elements of a list known."""
    node = iterable.node
    if node is None or node.kind != "prim::range":
        return None
    known = [_known(value) for value in node.inputs]
    if None in known:
        return None
    numbers = range(*known)
    if len(numbers) * _count(body) > MAX_UNROLLED:
        return None
    return [worker.constant(number) for number in numbers]


def _counting(worker: BranchBuilder, iterable: Value) -> tuple[Value, Item]:
    """Trip count, and how the item follows from the number of the iteration."""
    node = iterable.node
    kind = node.kind if node is not None else ""
    if isinstance(iterable.type, TensorType):
        if not iterable.type.dims:
            raise Untypable("an array of unknown or no dimensions is iterated")
        return worker.size(iterable, 0), lambda i: worker.op("prim::getitem", iterable, i)
    if isinstance(iterable.type, TupleType) or _is_known_list(iterable):
        elements = worker.elements(iterable)
        require_choice(elements)
        return worker.constant(len(elements)), partial(_chosen, worker, elements)
    if isinstance(iterable.type, LocalListType):
        return length_of(worker, iterable), lambda i: item_of(worker, iterable, i)
    if node is None or iterable.type == ANY:
        raise Untypable(f"{iterable.type} is iterated")
    if kind == "prim::range":
        return _range(worker, node)
    if kind == "prim::reversed":
        trip, item = _counting(worker, node.inputs[0])
        last = worker.op("prim::sub", trip, 1)
        return trip, lambda i: item(worker.op("prim::sub", last, i))
    if kind == "prim::enumerate":
        trip, item = _counting(worker, node.inputs[0])
        start = node.inputs[1]
        return trip, lambda i: worker.make_tuple([worker.op("prim::add", start, i), item(i)])
    if kind == "prim::zip":
        parts = [_counting(worker, value) for value in node.inputs]
        trip = parts[0][0]
        for other, _ in parts[1:]:
            trip = worker.op("prim::min", trip, other)
        return trip, lambda i: worker.make_tuple([item(i) for _, item in parts])
    raise Untypable(f"{iterable.type} is iterated")


def _chosen(worker: BranchBuilder, elements: Sequence[Value], number: Value) -> Value:
    """The element of this number, which is in range."""
    return chosen_element(worker, elements, number, "")


def _range(worker: BranchBuilder, node: Node) -> tuple[Value, Item]:
    start, stop, step = node.inputs
    trip = worker.op("prim::range_length", start, stop, step)

    def item(i: Value) -> Value:
        if _is(step, 1):
            return i if _is(start, 0) else worker.op("prim::add", start, i)
        return worker.op("prim::add", start, worker.op("prim::mul", i, step))

    return trip, item


def _is(value: Value, number: int) -> bool:
    return value.constant is not None and value.constant.attributes["value"] == number


def _unrolled(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    items: Sequence[Value],
    carried: Sequence[Value],
) -> list[Value]:
    """One copy of the body for each item, inside ``If``s where a ``break`` may come."""
    body = node.blocks[0]
    values = list(carried)
    for number, item in enumerate(items):
        local = dict(environment)
        local.update(zip(body.params, [item, *values], strict=True))
        go_on, *values = worker.walk(body, 0, local)
        if go_on.constant is not None and go_on.constant.attributes["value"]:
            continue
        if number + 1 == len(items) or go_on.constant is not None:
            break
        left = items[number + 1 :]
        return worker.split(
            go_on,
            [partial(_unrolled, worker, node, environment, left, values), partial(list, values)],
        )
    return values


def _counted(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    rest: tuple[Block, int],
    trip: Value,
    condition: Value,
    carried: Sequence[Value],
    item: Item,
) -> list[Value] | None:
    """A loop with a trip count: typed as it stands, or with its first iteration peeled."""
    if _is_never(trip, condition):
        environment.update(zip(node.outputs, carried, strict=True))
        return None
    body = node.blocks[0]
    values = _fixpoint(worker, node, environment, trip, condition, carried, item)
    if values is not None:
        environment.update(zip(node.outputs, values, strict=True))
        return None
    cost = _count(body)
    if cost > worker.budget or trip.type != INT or condition.type != BOOL:
        values = _fixpoint(worker, node, environment, trip, condition, carried, item, as_any=True)
        assert values is not None
        environment.update(zip(node.outputs, values, strict=True))
        return None
    worker.budget -= cost

    def peeled() -> list[Value]:
        return _peeled(worker, node, environment, trip, carried, item)

    if _is_surely(trip, condition):
        environment.update(zip(node.outputs, peeled(), strict=True))
        return None
    runs = worker.op("prim::gt", trip, 0)
    if not _is(condition, 1):
        runs = worker.op("prim::and_", runs, condition)
    return _guarded(worker, node, environment, rest, runs, peeled, list(carried))


def _guarded(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    rest: tuple[Block, int],
    runs: Value,
    peeled: Callable[[], list[Value]],
    carried: list[Value],
) -> list[Value] | None:
    """The peeled loop where it runs at all, the values before it otherwise."""
    made, branches = worker.build_branches(runs, [peeled, lambda: carried])
    merged = worker.merge(made, branches)
    if merged is not None:
        environment.update(zip(node.outputs, merged, strict=True))
        return None
    block, start = rest
    cost = sum(1 + sum(_count(inner) for inner in one.blocks) for one in block.nodes[start:])
    if cost > min(worker.budget, MAX_DUPLICATE):
        values = worker.merge_as_any(made, branches)
        environment.update(zip(node.outputs, values, strict=True))
        return None
    worker.budget -= cost
    worker.discard(made)

    def after(first: Callable[[], list[Value]]) -> Callable[[], list[Value]]:
        def run() -> list[Value]:
            local = dict(environment)
            local.update(zip(node.outputs, first(), strict=True))
            return worker.walk(block, start, local)

        return run

    return worker.split(runs, [after(peeled), after(lambda: carried)])


def _peeled(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    trip: Value,
    carried: Sequence[Value],
    item: Item,
) -> list[Value]:
    """The first iteration by itself, then a loop over the others."""
    body = node.blocks[0]
    local = dict(environment)
    local.update(zip(body.params, [item(worker.constant(0)), *carried], strict=True))
    go_on, *values = worker.walk(body, 0, local)
    left = worker.op("prim::sub", trip, 1)

    def later(i: Value) -> Value:
        return item(worker.op("prim::add", i, 1))

    if _is_never(left, go_on):
        return values
    found = _fixpoint(worker, node, environment, left, go_on, values, later)
    if found is None:
        found = _fixpoint(worker, node, environment, left, go_on, values, later, as_any=True)
    assert found is not None
    return found


def _fixpoint(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    trip: Value,
    condition: Value,
    carried: Sequence[Value],
    item: Item,
    *,
    as_any: bool = False,
) -> list[Value] | None:
    """Build the loop with the types its variables keep; None where one has no such type."""
    skeletons: list[Skeleton] = [common_skeleton([value]) or LEAF for value in carried]
    unknown: set[int] = set()
    initial, types = _initial_leaves(worker, carried, skeletons, unknown)
    widened: set[Dim] = set()
    for _ in range(FIXPOINT_ROUNDS):
        made, returned = _build(
            worker, node, environment, [trip, condition, *initial], types, skeletons, item
        )
        wanted = _wanted_skeletons(carried, skeletons, returned, unknown, unions=as_any)
        if wanted != skeletons:
            worker.discard(made)
            if not as_any and not _only_lists_differ(skeletons, wanted):
                return None
            skeletons = wanted
            initial, types = _initial_leaves(worker, carried, skeletons, unknown)
            continue
        results = _return_leaves(made, returned, skeletons)
        joined = [
            worker.widen(one, two.type, widened) for one, two in zip(types, results, strict=True)
        ]
        if None in joined and not as_any:
            worker.discard(made)
            return None
        if joined == types:
            outputs = iter(
                [made.add_output(one, leaf.name) for one, leaf in zip(types, results, strict=True)]
            )
            return [worker.rebuild(shape, outputs) for shape in skeletons]
        worker.discard(made)
        types = [one or ANY for one in joined]
    raise AssertionError("the types of a loop's variables do not settle")


def _build(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    inputs: Sequence[Value],
    types: Sequence[Type],
    skeletons: Sequence[Skeleton],
    item: Item,
) -> tuple[Node, list[Value]]:
    """One attempt at the loop, and the variables' values after an iteration."""
    made = worker.block.append("prim::Loop", inputs, outputs=(), source=node.source)
    body = node.blocks[0]
    outer = worker.open_scope(made.add_block())
    index = worker.block.add_param(INT, "i" if node.kind == "prim::For" else body.params[0].name)
    names = _leaf_names(body.params[1:], skeletons, inputs[2:])
    params = iter(
        [worker.block.add_param(one, name) for one, name in zip(types, names, strict=True)]
    )
    local = dict(environment)
    values = [worker.rebuild(shape, params) for shape in skeletons]
    local.update(zip(body.params, [item(index), *values], strict=True))
    go_on, *returned = worker.walk(body, 0, local)
    worker.block.add_return(go_on)
    worker.close_scope(outer)
    return made, returned


def _leaf_names(
    variables: Sequence[Value], skeletons: Sequence[Skeleton], initial: Sequence[Value]
) -> list[str]:
    """A name for each leaf of a loop's variables: the variable's, where it is one value."""
    names: list[str] = []
    for variable, shape in zip(variables, skeletons, strict=True):
        start = len(names)
        count = len(list(declared_types(shape)))
        leaves = initial[start : start + count]
        names += [variable.name] if count == 1 else [value.name for value in leaves]
    return names


def _initial_leaves(
    worker: BranchBuilder,
    carried: Sequence[Value],
    skeletons: Sequence[Skeleton],
    unknown: set[int],
) -> tuple[list[Value], list[Type]]:
    """What goes into the loop, and the types its variables start with."""
    leaves: list[Value] = []
    types: list[Type] = []
    for number, (value, shape) in enumerate(zip(carried, skeletons, strict=True)):
        own = list(leaves_of(value, shape, worker.block))
        leaves.extend(own)
        if number in unknown:
            types.append(ANY)
            continue
        for declared, leaf in zip(declared_types(shape), own, strict=True):
            types.append(declared or leaf.type)
    return leaves, types


def _only_lists_differ(before: Sequence[Skeleton], after: Sequence[Skeleton]) -> bool:
    """Whether all that changed is that empty lists got elements."""
    return all(
        one == two or (one == ListSkeleton(None) and isinstance(two, ListSkeleton))
        for one, two in zip(before, after, strict=True)
    )


def _wanted_skeletons(
    carried: Sequence[Value],
    skeletons: Sequence[Skeleton],
    returned: Sequence[Value],
    unknown: set[int],
    *,
    unions: bool,
) -> list[Skeleton]:
    """The skeletons that both the values before the loop and those of an iteration have.

    Variables that have none, or whose type is lost on the way, go into ``unknown``: they stay one
    value of type ``Any``.
    """
    wanted: list[Skeleton] = []
    for number, (before, shape, after) in enumerate(zip(carried, skeletons, returned, strict=True)):
        both = common_skeleton([before, after], unions=unions)
        if number in unknown or both is None or (shape != LEAF and after.type == ANY):
            unknown.add(number)
            wanted.append(LEAF)
            continue
        if isinstance(shape, UnionSkeleton) and isinstance(both, UnionSkeleton):
            known = {*shape.alternatives, *both.alternatives}
            both = UnionSkeleton(tuple(sorted(known, key=str)))
        wanted.append(both)
    return wanted


def _return_leaves(
    made: Node, returned: Sequence[Value], skeletons: Sequence[Skeleton]
) -> list[Value]:
    """Give a loop's body its returns."""
    block = made.blocks[0]
    leaves = [
        leaf
        for value, shape in zip(returned, skeletons, strict=True)
        for leaf in leaves_of(value, shape, block)
    ]
    for leaf in leaves:
        block.add_return(leaf)
    return leaves


def _foreign(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    iterable: Value,
    carried: Sequence[Value],
) -> list[Value] | None:
    """A ``For`` over something only Python can iterate; its body is specialized all the same."""
    if any(isinstance(value.type, LocalListType) for value in (iterable, *carried)):
        raise ListsAreNotValues("a list in a loop of Python's")
    body = node.blocks[0]
    types: list[Type] = [value.type for value in carried]
    widened: set[Dim] = set()
    for _ in range(FIXPOINT_ROUNDS):
        made = worker.block.append(
            "prim::For", [iterable, *carried], outputs=(), source=node.source
        )
        outer = worker.open_scope(made.add_block())
        params = [worker.block.add_param(ANY, body.params[0].name)]
        params += [
            worker.block.add_param(one, param.name)
            for one, param in zip(types, body.params[1:], strict=True)
        ]
        local = dict(environment)
        local.update(zip(body.params, [worker.open_tuple(one) for one in params], strict=True))
        returned = worker.walk(body, 0, local)
        for value in returned:
            worker.block.add_return(value)
        worker.close_scope(outer)
        joined = [
            _foreign_type(worker, one, two.type, widened)
            for one, two in zip(types, returned[1:], strict=True)
        ]
        if joined == types:
            values = [
                made.add_output(one, value.name) for one, value in zip(types, carried, strict=True)
            ]
            opened = [worker.open_tuple(one) for one in values]
            environment.update(zip(node.outputs, opened, strict=True))
            return None
        worker.discard(made)
        types = joined
    raise AssertionError("the types of a loop's variables do not settle")


def _foreign_type(worker: BranchBuilder, before: Type, after: Type, widened: set[Dim]) -> Type:
    """The type of a variable of a foreign loop, whose tuples stay in one piece."""
    if isinstance(after, TupleType) and before != after:
        return ANY
    return worker.widen(before, after, widened) or ANY


def _count(block: Block) -> int:
    return sum(1 + sum(_count(inner) for inner in node.blocks) for node in block.nodes)


def _is_never(trip: Value, condition: Value) -> bool:
    return _is(condition, 0) or _is(trip, 0) or (_known(trip) or 1) < 0


def _is_surely(trip: Value, condition: Value) -> bool:
    return _is(condition, 1) and (_known(trip) or 0) > 0


def _known(value: Value) -> Any:
    return value.constant.attributes["value"] if value.constant is not None else None
