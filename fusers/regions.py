"""Split a graph that is not all native into native regions and what runs in the host program.

A node is native where compiled code can do its work: all its types are known and are numbers,
arrays or tuples of them, and so for every node in its blocks.  Runs of native nodes become
``prim::NativeGroup`` nodes; so do runs of nodes whose types depend on what a host node returns,
because a region is specialized when it is called, with the types its inputs have then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jitcore.fusers.compared_tuples import makers_of_compared
from jitcore.fusers.native_nodes import (
    HOST_KINDS,
    INTERNAL,
    free_values,
    is_hosted,
    is_only_constant,
    native_refusal,
)
from jitcore.ir.dataclass import dataclass
from jitcore.ir.draws import is_draw
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import LOOPS, Block, Graph, Node, Value, copy_node
from jitcore.ir.may_raise import may_raise
from jitcore.ir.nesting import enclosing
from jitcore.ir.ops import TABLE, is_elementwise
from jitcore.ir.running import is_running
from jitcore.ir.types import ANY, NONE, SLICE, ListType, TensorType, TupleType

__all__ = [
    "MIN_WEIGHT",
    "form_region",
    "has_much_to_do",
    "is_inside",
    "is_light",
    "partition",
    "takes_lists",
    "takes_objects",
    "waits_for_types",
    "works_on_arrays",
]

_CONTROL = frozenset({"prim::If", "prim::Loop"})
_ACCESSES = frozenset({"prim::getitem", "prim::setitem", "prim::GetAttr"})
"""What a region that waits for types gains nothing by: a container would only be passed to it."""

_OF_OBJECTS = frozenset({"prim::SetAttr", "prim::CallMethod"})
"""What is done with an object besides reading its attributes."""

_ITERABLES = frozenset(f"prim::{name}" for name in ("zip", "enumerate", "reversed", "range", "len"))
_CONTAINERS = frozenset({"prim::DictConstruct", "prim::SetConstruct"})
_PLUMBING = frozenset({"prim::TupleConstruct", "prim::Unpack"})

MIN_WEIGHT = 2.0
"""Regions lighter than this are left to NumPy: calling them costs more than it saves."""

FEW_NUMBERS = 16.0
"""Work on single numbers below this weight gains less than a microsecond a call, which reading
attributes or looking at the code in arguments takes."""


def _deferrable(block: Block, parted: Collection[Value]) -> set[Node]:
    """The nodes that may be native once the types of what host nodes return are known.

    What depends on nothing but inputs of unknown type is not among them, loops over lists
    and loops that read attributes of objects excepted: such inputs were looked at when the graph
    was specialized, and are nothing that compiled code takes.  For less than a loop neither a list
    nor an object, which ``parted`` are, is passed on.
    """
    return {
        node
        for node in block.nodes
        if node.kind not in _ACCESSES
        and _waits(node, parted)
        and _reads_unknown(node, parted if _is_of_loop(node) else ())
        and not _reads_python_s(node, parted)
    }


def _leave_updates_whole(graph: Graph, parted: Collection[Value]) -> list[Node]:
    """Leave all of ``x += y`` to Python where Python adds; gives what was left.

    The host program writes it as one statement, since NumPy's errors name the target, too.
    """
    left: list[Node] = []
    for store in graph.nodes():
        if not store.attributes.get("in_place"):
            continue
        before, maker = _conversion(store.inputs[1])
        if maker is None or maker.block is None or not native_refusal(maker):
            continue
        if maker in _deferrable(maker.block, parted):
            continue
        first = [one for value in maker.inputs[:1] for one in _conversion(value)[0]]
        left += [store, *before, *(one for one in first if len(one.output.uses) == 1)]
    for node in left:
        node.host_reason = node.host_reason or "Python computes what it is for"
    return left


def _conversion(value: Value) -> tuple[list[Node], Node | None]:
    """The cast that gives a value, if one does, and what gave the value that was cast."""
    node = value.node
    if node is None or node.kind != "np::cast":
        return [], node
    return [node], node.inputs[0].node


def _is_of_loop(node: Node) -> bool:
    """Whether a node is a loop, or what one visits or counts up to is made of it."""
    if node.blocks or node.kind not in _ITERABLES:
        return bool(node.blocks)
    users = (use.user for use in node.output.uses)
    return any(isinstance(user, Node) and _is_of_loop(user) for user in users)


def _waits(node: Node, parted: Collection[Value] = ()) -> bool:
    """Whether only types that are not known yet keep a node, or what is inside it, from code."""
    if node.blocks:
        inside = parted
        if node.kind == "prim::For" and _visits(node.inputs[0], parted):
            inside = [*parted, node.blocks[0].params[0]]
        elif node.kind not in _CONTROL and not _counts(node):
            return False
        return not any(
            block.raises_in_python or not all(_is_ready(one, inside) for one in block.nodes)
            for block in node.blocks
        )
    if is_hosted(node):
        return False
    if node.kind in _OF_OBJECTS and _is_part(node.inputs[0], parted):
        return True
    return node.host_reason is not None and node.kind in TABLE and node.kind not in HOST_KINDS


def _is_part(value: Value, parted: Collection[Value]) -> bool:
    """Whether a value is one of these, or an attribute of one."""
    while value not in parted:
        if value.node is None or value.node.kind != "prim::GetAttr":
            return False
        value = value.node.inputs[0]
    return True


def _counts(node: Node) -> bool:
    """Whether a loop is over a range of numbers whose types are not known yet."""
    made = node.inputs[0].node if node.kind == "prim::For" else None
    return made is not None and made.kind == "prim::range"


def _visits(iterable: Value, lists: Collection[Value]) -> bool:
    """Whether a loop visits a list, or something that is made of one for loops."""
    if iterable in lists:
        return True
    node = iterable.node
    return (
        node is not None
        and node.kind in _ITERABLES
        and any(_visits(value, lists) for value in node.inputs)
    )


def _reads_python_s(node: Node, parted: Collection[Value]) -> bool:
    """Whether a node, or one inside it, reads a dict, a set, or an input that is Python's."""
    for value in node.inputs:
        is_input = value.block is not None and value.block.owner is None
        is_made = value.node is not None and value.node.kind in _CONTAINERS
        if value.type == ANY and value not in parted and (is_input or is_made):
            return True
    return any(_reads_python_s(one, parted) for block in node.blocks for one in block.nodes)


def _is_ready(node: Node, parted: Collection[Value]) -> bool:
    return native_refusal(node) is None or _waits(node, parted) or node.kind in _PLUMBING


def _reads_unknown(node: Node, parted: Collection[Value]) -> bool:
    """Whether a node reads what a host node returns, or what it may take apart."""
    unknown = (value for value in free_values([node]) if value.type == ANY)
    return any(value.node is not None or value in parted for value in unknown)


def takes_lists(graph: Graph) -> bool:
    """Whether a region has loops that wait for what the lists hold that they visit."""
    return bool(graph.find_all_nodes("prim::For"))


def takes_objects(graph: Graph) -> bool:
    """Whether a region does something with objects that are passed to it."""
    found = map(graph.find_all_nodes, ("prim::GetAttr", *_OF_OBJECTS))
    return any(node.inputs[0] in graph.inputs for nodes in found for node in nodes)


def _weight(node: Node) -> float:
    if node.kind in LOOPS or node.kind.startswith("nn::"):
        return 100.0
    if node.kind == "prim::If":
        return sum(_weight(inner) for block in node.blocks for inner in block.nodes)
    if node.kind == "prim::Constant" or not node.outputs:
        return 0.0
    type_ = node.outputs[0].type
    if type_ == ANY:
        return 1.0
    if is_draw(node):
        return 1.0
    if isinstance(type_, TensorType) and not type_.scalar:
        if is_running(node) and len(type_.dims or ()) > 1:
            # Rows are walked side by side, which takes a third of NumPy's time.
            return MIN_WEIGHT
        return 0.0 if _is_view(node) else 1.0
    if node.kind.startswith("math::"):
        return 0.5
    single = is_elementwise(node) or node.kind == "np::item"
    if (node.inputs and single) or node.kind.startswith("prim::"):
        return 0.25
    return 1.0


def is_light(graph: Graph, least_weight: float = MIN_WEIGHT) -> bool:
    """Whether a graph has too little work for a native region."""
    return sum(map(_weight, graph.block.nodes)) < least_weight


def has_much_to_do(graph: Graph) -> bool:
    """Whether there is more in a graph than a few single numbers."""
    return works_on_arrays(graph) or not is_light(graph, FEW_NUMBERS)


def waits_for_types(graph: Graph) -> bool:
    """Whether a region has nodes whose types are known only when it is called."""
    return any(not node.blocks and _waits(node) for node in graph.nodes())


def works_on_arrays(graph: Graph) -> bool:
    """Whether there is more in a graph than single numbers and elements of arrays."""
    return any(map(_works_on_arrays, graph.nodes()))


def _is_view(node: Node) -> bool:
    """Whether a node may give a view; of methods draws are known not to."""
    op = TABLE.get(node.kind)
    return op is not None and op.view and not is_draw(node)


def _works_on_arrays(node: Node) -> bool:
    if node.kind in LOOPS or node.kind.startswith("nn::"):
        return True
    if _is_view(node):
        return False
    values = (*node.outputs, *node.inputs[:1]) if node.kind == "np::store" else node.outputs
    types = (value.type for value in values)
    return any(isinstance(one, TensorType) and one.dims != () for one in types)


def partition(
    graph: Graph,
    *,
    defer: bool = True,
    least_weight: float = MIN_WEIGHT,
    parted: Collection[Value] = (),
    given_up: Collection[Node] = (),
    is_region: bool = False,
) -> bool:
    """Form ``prim::NativeGroup`` nodes in all blocks that run in the host program.

    With ``defer`` they also take in nodes whose types are not known yet, among these loops over
    lists and by attributes of objects, inputs that may be ``parted``; but none that are
    ``given_up``.  Regions lighter than ``least_weight`` are left to the host program.  What is a
    region itself, and is not native as a whole, does not become one region once more.
    """
    given_up = makers_of_compared(graph).union(given_up, _leave_updates_whole(graph, parted))
    options = _Options(defer, least_weight, parted, given_up)
    deferrable = options.deferrable(graph.block)
    apart: Collection[Node] = ()
    left = [node for node in graph.block.nodes if native_refusal(node) and node not in deferrable]
    if is_region and not left:
        apart = [node for node in graph.block.nodes if node in deferrable and node.blocks]
        if len(apart) == 1:
            deferrable.remove(apart[0])
    return _partition_block(graph.block, deferrable, apart, options)


@dataclass(frozen=True, slots=True)
class _Options:
    """What is said of a partition."""

    defer: bool
    least_weight: float
    parted: Collection[Value]
    given_up: Collection[Node]

    def deferrable(self, block: Block) -> set[Node]:
        """The nodes of a block that may be native once their types are known."""
        return _deferrable(block, self.parted).difference(self.given_up) if self.defer else set()


def _partition_block(
    block: Block,
    deferrable: Collection[Node],
    apart: Collection[Node],
    options: _Options,
) -> bool:
    """Form regions in a block, those of nodes that stay ``apart`` by themselves."""
    changed = False
    for node in block.nodes:
        if node.blocks and native_refusal(node) and node not in deferrable:
            for inner in node.blocks:
                changed |= _partition_block(inner, options.deferrable(inner), (), options)
    sequence = _runs(block, deferrable, apart)
    block.nodes = []
    for item in sequence:
        if isinstance(item, Node):
            block.nodes.append(item)
        elif sum(map(_weight, item)) < options.least_weight:
            block.nodes.extend(item)
        else:
            changed = True
            _form_regions(block, item, options.least_weight)
    return changed


def _runs(
    block: Block, deferrable: Collection[Node], apart: Collection[Node]
) -> list[Node | list[Node]]:
    """The nodes of a block in order, those that may be in one region as lists of them."""
    sequence: list[Node | list[Node]] = []
    run: list[Node] = []
    for node in block.nodes:
        if is_only_constant(node):
            sequence.append(node)
            continue
        inside = native_refusal(node) is None or node in deferrable
        if not inside or node in apart or not run:
            run = []
            sequence.append(run if inside else node)
        if inside:
            run.append(node)
        if node in apart:
            run = []
    return sequence


def _form_regions(block: Block, run: list[Node], least_weight: float) -> None:
    for piece in _pieces(run):
        if isinstance(piece, Node):
            block.nodes.append(piece)
        else:
            _form_region(block, piece, least_weight)


def _pieces(run: list[Node]) -> Iterator[Node | list[Node]]:
    """What lies between the nodes of a run that the host program evaluates in their place.

    Those give a view or a copy, and a write that follows would tell which.
    """
    copies = {node for node in run if node.outputs and _stays_host(node) and _may_copy(node)}
    writers = set(filter(_may_write, run)) if copies else set()
    left: list[Node | list[Node]] = [run]
    while left:
        item = left.pop()
        if isinstance(item, Node) or not copies.intersection(item):
            yield item
            continue
        inside = set(item)
        last_write = max((n for n, node in enumerate(item) if node in writers), default=0)
        candidates = (n for n, node in enumerate(item[:last_write]) if node in copies)
        place = next((n for n in candidates if _goes_outside(item[n], inside)), None)
        if place is None:
            yield item
        else:
            parts = (item[:place], item[place], item[place + 1 :])
            left += [part for part in reversed(parts) if part]


def _goes_outside(node: Node, inside: set[Node]) -> bool:
    """Whether a node's output leaves the others, by itself or by what the host program makes."""
    pending, seen = [node], {node}
    while pending:
        one = pending.pop()
        if _leaves(one, inside):
            return True
        for use in (use for value in one.outputs for use in value.uses):
            user = use.user
            if isinstance(user, Node) and user in inside and user not in seen:
                seen.add(user)
                pending += [user] if user.outputs and _stays_host(user) else []
    return False


def _may_copy(node: Node) -> bool:
    effects = node_effects(node)
    if not effects.aliases or not effects.fresh:
        return False
    base = node.inputs[0].node
    return base is None or base.attributes.get("order") != "C"


def _may_write(node: Node) -> bool:
    effects = node_effects(node)
    inner = (one for block in node.blocks for one in block.nodes)
    return bool(effects.writes) or effects.wildcard or any(map(_may_write, inner))


def _form_region(block: Block, nodes: list[Node], least_weight: float) -> None:
    """Append the run as a region; views that leave it follow in the host program."""
    kept, after = _without_escaping_views(nodes)
    if sum(map(_weight, kept)) < least_weight:
        block.nodes.extend([*nodes, *(node for node in after if node not in nodes)])
        return
    form_region(block, kept)
    block.nodes.extend(after)


def _without_escaping_views(nodes: list[Node]) -> tuple[list[Node], list[Node]]:
    """Take out, from the end, what only makes values that the host program holds on to.

    A view that is needed on both sides is made on both sides; so is one that may raise before
    something is written.
    """
    inside = set(nodes)
    after: list[Node] = []
    writes_later = False
    for node in reversed(nodes):
        writes_later = writes_later or _may_write(node)
        if not node.outputs or not _leaves(node, inside) or not _stays_host(node):
            continue
        is_read = any(is_inside(use.user, inside) for value in node.outputs for use in value.uses)
        if is_read or (writes_later and may_raise(node)):
            if not node.blocks:
                after.insert(0, _made_again(node, inside))
            continue
        inside.remove(node)
        after.insert(0, node)
    return [node for node in nodes if node in inside], after


def _made_again(node: Node, inside: set[Node]) -> Node:
    """A copy of a node, read by all users that are not inside."""
    assert node.block is not None
    mapping: dict[Value, Value] = {}
    twin = copy_node(node, node.block, mapping)
    node.block.nodes.remove(twin)
    for old, new in mapping.items():
        for use in [use for use in old.uses if not is_inside(use.user, inside)]:
            if isinstance(use.user, Node):
                use.user.set_input(use.index, new)
            else:
                use.user.set_return(use.index, new)
    return twin


def _leaves(node: Node, inside: set[Node]) -> bool:
    return any(not is_inside(use.user, inside) for value in node.outputs for use in value.uses)


def _stays_host(node: Node) -> bool:
    """Views, and what is no array or number: the host program makes these itself."""
    type_ = node.outputs[0].type
    if isinstance(type_, (TupleType, ListType)) or type_ in (SLICE, *INTERNAL):
        return True
    return _is_view(node) and isinstance(type_, TensorType) and not type_.scalar


def form_region(block: Block, nodes: list[Node], kind: str = "prim::NativeGroup") -> Node:
    """Append one node to a block that has these nodes in a graph of its own."""
    inside = set(nodes)
    graph = Graph()
    mapping: dict[Value, Value] = {}
    inputs: list[Value] = []
    for value in free_values(nodes):
        if value.constant is not None:
            mapping[value] = copy_node(value.constant, graph.block, mapping).output
        else:
            inputs.append(value)
            mapping[value] = graph.block.add_param(value.type, value.name)
    for node in nodes:
        copy_node(node, graph.block, mapping)
    outputs = [
        value
        for node in nodes
        for value in node.outputs
        if any(not is_inside(use.user, inside) for use in value.uses)
    ]
    packed = _packed(graph, [mapping[value] for value in outputs])
    graph.block.add_return(packed)
    region = block.append(
        kind,
        inputs,
        {"graph": graph},
        outputs=[packed.type],
        names=[outputs[0].name] if len(outputs) == 1 else (),
        source=nodes[0].source,
    )
    made = region.outputs
    if len(outputs) > 1:
        types = [value.type for value in outputs]
        count = {"count": len(outputs)}
        names = [value.name for value in outputs]
        made = block.append("prim::Unpack", made, count, outputs=types, names=names).outputs
    for old, new in zip(outputs, made, strict=bool(outputs)):
        for use in [use for use in old.uses if not is_inside(use.user, inside)]:
            if isinstance(use.user, Node):
                use.user.set_input(use.index, new)
            else:
                use.user.set_return(use.index, new)
    for node in nodes:
        node.drop_inputs()
    return region


def _packed(graph: Graph, values: list[Value]) -> Value:
    """The one value a region returns: its only output, a tuple of them, or None."""
    if len(values) == 1:
        return values[0]
    if not values:
        return graph.block.constant(None, NONE)
    type_ = TupleType(tuple(value.type for value in values))
    return graph.block.append("prim::TupleConstruct", values, outputs=(type_,)).output


def is_inside(user: Node | Block, inside: set[Node]) -> bool:
    """Whether a user is one of these nodes, or lies in a block of one."""
    if user in inside:
        return True
    block = user.block if isinstance(user, Node) else user
    return any(one.owner in inside for one in enclosing(block))
