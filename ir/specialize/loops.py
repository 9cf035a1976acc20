"""The part of ``specialize`` that treats loops: fixpoints of types, unrolling and peeling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.ops.op import Untypable
from jitcore.ir.specialize import lists
from jitcore.ir.specialize.alike_loops import chosen_by_extents
from jitcore.ir.specialize.branches import MAX_DUPLICATE, BranchBuilder, Environment
from jitcore.ir.specialize.objects.object_states import Field, attributes_of
from jitcore.ir.specialize.python_parts import is_surely_native
from jitcore.ir.specialize.skeletons import (
    LEAF,
    UNINITIALIZED,
    ListsAreNotValues,
    ListSkeleton,
    Skeleton,
    UnionSkeleton,
    common_skeleton,
    declared_types,
    joined_unions,
    leaves_of,
    without_origins,
)
from jitcore.ir.specialize.value_kinds import alternatives_of, kind_of_value
from jitcore.ir.specialize.visited_items import (
    Items,
    count_nodes,
    counted_items,
    few_numbers,
    is_known,
    is_known_list,
    known_constant,
    known_items,
)
from jitcore.ir.types import (
    ANY,
    BOOL,
    INT,
    Dim,
    LocalListType,
    SharedListType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["visit_loop"]

FIXPOINT_ROUNDS = 16


def visit_loop(
    worker: BranchBuilder, node: Node, environment: Environment, rest: tuple[Block, int]
) -> list[Value] | None:
    """Specialize a loop; gives the surrounding block's returns where it absorbed the rest."""
    inputs = [worker.union_facts.narrowed(environment[value]) for value in node.inputs]
    if node.kind == "prim::Loop":
        trip, condition, *carried = inputs
        visited = Items(trip, lambda i: i)
        return _counted(worker, node, environment, rest, visited, condition, carried)
    iterable, *carried = inputs
    always = worker.constant(True)
    try:
        items = known_items(worker, iterable)
        if items is None and any(map(is_known_list, carried)):
            items = few_numbers(worker, iterable, node.blocks[0])
        if items is not None:
            values = _unrolled(worker, node, environment, items, carried)
            environment.update(zip(node.outputs, values, strict=True))
            return None
        visited = counted_items(worker, iterable)
    except Untypable:
        return _foreign(worker, node, environment, iterable, carried)
    start = visited.goes_on(worker, always, partial(worker.constant, 0))

    def build(items: Items) -> list[Value] | None:
        return _fixpoint(worker, node, environment, items, start, carried)

    chosen = chosen_by_extents(worker, node, iterable, visited, build)
    if chosen is not None:
        environment.update(zip(node.outputs, chosen, strict=True))
        return None
    return _counted(worker, node, environment, rest, visited, start, carried)


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
    visited: Items,
    condition: Value,
    carried: Sequence[Value],
) -> list[Value] | None:
    """A loop with a trip count: typed as it stands, or with its first iteration peeled."""
    trip = visited.trip
    if _is_never(trip, condition):
        environment.update(zip(node.outputs, carried, strict=True))
        return None
    body = node.blocks[0]
    values = _fixpoint(worker, node, environment, visited, condition, carried)
    if values is not None:
        environment.update(zip(node.outputs, values, strict=True))
        return None
    cost = count_nodes(body)
    if cost > worker.budget or trip.type != INT or condition.type != BOOL:
        values = _fixpoint(worker, node, environment, visited, condition, carried, as_any=True)
        assert values is not None
        environment.update(zip(node.outputs, values, strict=True))
        return None
    worker.budget -= cost

    def peeled() -> list[Value]:
        return _peeled(worker, node, environment, visited, carried)

    if _is_surely(trip, condition):
        environment.update(zip(node.outputs, peeled(), strict=True))
        return None
    runs = worker.op("prim::gt", trip, 0)
    if not is_known(condition, 1):
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
    cost = sum(1 + sum(count_nodes(inner) for inner in one.blocks) for one in block.nodes[start:])
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
    visited: Items,
    carried: Sequence[Value],
) -> list[Value]:
    """The first iteration by itself, then a loop over the others."""
    body = node.blocks[0]
    local = dict(environment)
    first = visited.item(worker.constant(0))
    local.update(zip(body.params, [first, *carried], strict=True))
    go_on, *values = worker.walk(body, 0, local)
    left = visited.later(worker)
    go_on = left.goes_on(worker, go_on, partial(worker.constant, 0))
    if _is_never(left.trip, go_on):
        return values
    found = _fixpoint(worker, node, environment, left, go_on, values)
    if found is None:
        found = _fixpoint(worker, node, environment, left, go_on, values, as_any=True)
    assert found is not None
    return found


def _fixpoint(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    visited: Items,
    condition: Value,
    carried: Sequence[Value],
    *,
    as_any: bool = False,
) -> list[Value] | None:
    """Build the loop with the types its variables keep; None where one has no such type."""
    before, states = worker.heap, worker.object_states.now
    carried = [*worker.settled_all(carried, states), *before]
    fields: list[Field] = []
    skeletons: list[Skeleton] = [common_skeleton([value]) or LEAF for value in carried]
    unknown: set[int] = set()
    initial, types = _initial_leaves(worker, carried, skeletons, unknown)
    widened: set[Dim] = set()
    for count in range(FIXPOINT_ROUNDS):
        made, returned, changed = _build(
            worker, node, environment, condition, initial, types, skeletons, visited, fields
        )
        worker.heap, worker.object_states.now = before, states
        if changed:
            worker.discard(made)
            fields += changed
            more = [attributes_of(states[origin])[name] for origin, name in changed]
            carried += worker.settled_all(more, states)
            skeletons += [common_skeleton([value]) or LEAF for value in carried[len(skeletons) :]]
            initial, types = _initial_leaves(worker, carried, skeletons, unknown)
            continue
        wanted = _wanted_skeletons(worker, carried, skeletons, returned, unknown, unions=as_any)
        if wanted != skeletons:
            helps = not as_any and _peeling_helps(carried, skeletons, returned, wanted)
            worker.discard(made)
            if helps:
                return None
            if count >= FIXPOINT_ROUNDS // 2:
                # A tuple that each iteration puts into another one has ever new forms.
                pairs = enumerate(zip(wanted, skeletons, strict=True))
                unknown |= {number for number, (one, before) in pairs if one != before}
                wanted = [LEAF if n in unknown else one for n, one in enumerate(wanted)]
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
        in_python = _python_unions(worker, made, skeletons)
        if joined == types and in_python:
            worker.discard(made)
            unknown |= in_python
            skeletons = [LEAF if n in unknown else one for n, one in enumerate(skeletons)]
            initial, types = _initial_leaves(worker, carried, skeletons, unknown)
            continue
        if joined == types:
            outputs = iter(
                [
                    _after_loop(made.add_output(one, last.name), first, last)
                    for one, first, last in zip(types, initial, results, strict=True)
                ]
            )
            found = [worker.rebuild(shape, outputs) for shape in skeletons]
            return worker.without_fields(fields, found)
        worker.discard(made)
        types = [one or ANY for one in joined]
    raise AssertionError("the types of a loop's variables do not settle")


def _after_loop(output: Value, first: Value, last: Value) -> Value:
    """What a loop gives, which is known where its iterations leave the same object there."""
    before, after = first.constant, last.constant
    if before is None or after is None:
        return output
    return first if before.attributes["value"] is after.attributes["value"] else output


def _python_unions(worker: BranchBuilder, made: Node, skeletons: Sequence[Skeleton]) -> set[int]:
    """The numbers of the unions that a loop carries which Python runs.

    There a value of any type costs nothing, and a region gets it with the type that it has.
    """
    unions = {n for n, one in enumerate(skeletons) if isinstance(one, UnionSkeleton)}
    return unions if unions and not is_surely_native(made.blocks[0]) else set()


def _build(
    worker: BranchBuilder,
    node: Node,
    environment: Environment,
    condition: Value,
    initial: Sequence[Value],
    types: Sequence[Type],
    skeletons: Sequence[Skeleton],
    visited: Items,
    fields: Sequence[Field],
) -> tuple[Node, list[Value], list[Field]]:
    """One attempt at the loop, the variables' values after an iteration, and what else changes.

    The parts of the heap, and attributes that the loop changes, are its last variables.
    """
    inputs = [visited.trip, condition, *initial]
    made = worker.block.append("prim::Loop", inputs, outputs=(), source=node.source)
    body = node.blocks[0]
    outer = worker.open_scope(made.add_block())
    index = worker.block.add_param(INT, "i" if node.kind == "prim::For" else body.params[0].name)
    states = worker.object_states
    states.now = dict(states.now)  # objects that an iteration makes are not known behind the loop
    held = [attributes_of(states.now[origin])[name] for origin, name in fields]
    variables = [*body.params[1:], *worker.heap, *held]
    names = _leaf_names(variables, skeletons, initial)
    params = iter(
        [worker.block.add_param(one, name) for one, name in zip(types, names, strict=True)]
    )
    local = dict(environment)
    states.open_loop()
    found = [worker.rebuild(shape, params) for shape in skeletons]
    values = worker.without_fields(fields, found)
    start = dict(states.now)
    local.update(zip(body.params, [visited.item(index), *values], strict=True))
    go_on, *returned = worker.walk(body, 0, local)
    go_on = visited.goes_on(worker, go_on, partial(worker.op, "prim::add", index, 1))
    returned = worker.settled_all(returned, start)
    changed = worker.changed_fields(start)
    held = [attributes_of(states.now[origin])[name] for origin, name in fields]
    returned += [*worker.heap, *worker.settled_all(held, start)]
    states.close_loop()
    worker.block.add_return(go_on)
    worker.close_scope(outer)
    return made, returned, sorted(set(changed).difference(fields))


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
            if declared is not None and leaf.type == UNINITIALIZED:
                types.append(worker.exported_type(declared))
            else:
                # A union that is one leaf has alternatives that loops cannot carry.
                types.append(ANY if isinstance(leaf.type, UnionType) else leaf.type)
    return leaves, types


def _peeling_helps(
    carried: Sequence[Value],
    before: Sequence[Skeleton],
    returned: Sequence[Value],
    after: Sequence[Skeleton],
) -> bool:
    """Whether variables have other types after an iteration than before it.

    That is not so where empty lists got elements, where only the objects differ that are meant, and
    where a variable that may have another type may also still have the one that it had.
    """
    return not all(
        without_origins(one) == without_origins(two)
        or (one == ListSkeleton(None) and isinstance(two, ListSkeleton))
        or (isinstance(two, ListSkeleton) and lists.mixed_elements.is_mixed(two.element))
        or (isinstance(two, UnionSkeleton) and _kinds(start) <= _kinds(end))
        for start, one, end, two in zip(carried, before, returned, after, strict=True)
    )


def _kinds(value: Value) -> set[str | None]:
    return set(map(kind_of_value, alternatives_of(value)))


def _wanted_skeletons(
    worker: BranchBuilder,
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
        both = worker.skeleton_of([before, after], unions=unions)
        if number in unknown or both is None or (shape != LEAF and after.type == ANY):
            unknown.add(number)
            wanted.append(LEAF)
            continue
        wanted.append(joined_unions(shape, both))
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
    lists = (LocalListType, SharedListType)
    if worker.heap or any(isinstance(value.type, lists) for value in (iterable, *carried)):
        raise ListsAreNotValues("a list in a loop of Python's")
    body, states = node.blocks[0], worker.object_states.now
    types: list[Type] = [
        ANY if isinstance(value.type, UnionType) else value.type for value in carried
    ]
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
        worker.object_states.now = dict(states)
        local = dict(environment)
        local.update(zip(body.params, [worker.opened(one) for one in params], strict=True))
        returned = worker.walk(body, 0, local)
        worker.object_states.now = states
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
            opened = [worker.opened(one) for one in values]
            environment.update(zip(node.outputs, opened, strict=True))
            return None
        worker.discard(made)
        types = joined
    raise AssertionError("the types of a loop's variables do not settle")


def _foreign_type(worker: BranchBuilder, before: Type, after: Type, widened: set[Dim]) -> Type:
    """The type of a variable of a foreign loop, whose tuples stay in one piece."""
    if isinstance(after, UnionType) or (isinstance(after, TupleType) and before != after):
        return ANY
    return worker.widen(before, after, widened) or ANY


def _is_never(trip: Value, condition: Value) -> bool:
    return is_known(condition, 0) or is_known(trip, 0) or (known_constant(trip) or 1) < 0


def _is_surely(trip: Value, condition: Value) -> bool:
    return is_known(condition, 1) and (known_constant(trip) or 0) > 0
