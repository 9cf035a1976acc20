"""Split a graph that is not all native into native regions and what runs in the host program.

A node is native where compiled code can do its work: all its types are known and are numbers,
arrays or tuples of them, and so for every node in its blocks.  Runs of native nodes become
``prim::NativeGroup`` nodes; so do runs of nodes whose types depend on what a host node returns,
because a region is specialized when it is called, with the types its inputs have then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from jitcore.fusers.elementwise import is_elementwise
from jitcore.ir.bfloat16 import is_bfloat16, is_stored
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Block, Graph, Node, Value, copy_node
from jitcore.ir.ops import TABLE
from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    DTYPE,
    ELLIPSIS,
    FLOAT,
    INT,
    NONE,
    REFERENCE,
    SLICE,
    STR,
    KnownType,
    ListType,
    ObjectListType,
    PrimType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = [
    "MIN_WEIGHT",
    "dissolve",
    "is_light",
    "is_native_graph",
    "native_refusal",
    "partition",
    "refuse_bfloat16",
    "waits_for_types",
    "works_on_arrays",
]

_PLAIN = (INT, FLOAT, BOOL, COMPLEX, NONE, DTYPE, ELLIPSIS, SLICE)
_INTERNAL = (PrimType("range"), PrimType("iterator"), PrimType("Uninitialized"))
_HOST_KINDS = frozenset(
    {
        "prim::Call",
        "prim::CallMethod",
        "prim::CallFunction",
        "prim::For",
        "prim::ListConstruct",
        "np::call",
        "prim::NativeGroup",
    }
)

_CONTROL = frozenset({"prim::If", "prim::Loop"})
_ACCESSES = frozenset({"prim::getitem", "prim::setitem", "prim::GetAttr"})
"""What a region that waits for types gains nothing by: a container would only be passed to it."""

_LIST_KINDS = frozenset(
    f"prim::List{name}"
    for name in (
        *("Items", "Length", "Write", "Make", "Room", "Get", "Put", "Move", "View"),
        *("TakeShared", "Memo", "WriteShared", "MakeShared"),
    )
)
"""What takes numbers out of lists and puts them in: only in graphs that are all native."""

_LOOPS = frozenset({"prim::Loop", "prim::For"})
_PLUMBING = frozenset({"prim::TupleConstruct", "prim::Unpack"})

MIN_WEIGHT = 2.0
"""Regions lighter than this are left to NumPy: calling them costs more than it saves."""


def _is_native_type(type_: Type) -> bool:
    if isinstance(type_, TensorType):
        dtype = type_.dtype
        # Arrays of objects are buffers of lists of arrays.
        of_references = dtype == REFERENCE and type_.rank == 1
        return type_.is_complete and dtype is not None and (is_stored(dtype) or of_references)
    if isinstance(type_, TupleType | RecordType):
        return all(map(_is_native_type, type_.elements))
    if isinstance(type_, UnionType):
        # The texts among them are constants.
        return all(one == STR or _is_native_type(one) for one in type_.alternatives)
    return isinstance(type_, KnownType | ObjectListType) or type_ in _PLAIN or type_ in _INTERNAL


def _values(node: Node) -> list[Value]:
    params = [param for block in node.blocks for param in block.params]
    return [*node.inputs, *node.outputs, *params]


def _is_only_constant(node: Node) -> bool:
    return node.kind == "prim::Constant"


def _has_foreign_type(node: Node) -> bool:
    if node.kind in _LIST_KINDS:
        return False
    return not all(
        _is_native_type(value.type) or value.constant is not None for value in _values(node)
    )


def _reads_refused_constant(node: Node) -> bool:
    read = [*node.inputs, *(value for block in node.blocks for value in block.returns)]
    constants = (value.constant for value in read)
    return any(one is not None and one.host_reason is not None for one in constants)


Refusal = tuple[str, Callable[[Node], bool]]

REFUSALS: tuple[Refusal, ...] = (
    ("it calls Python", lambda node: node.kind in _HOST_KINDS),
    ("it has no native form: NumPy computes it", lambda node: _is_hosted(node)),
    ("exceptions are caught in Python", lambda node: node.kind == "prim::Try"),
    ("it changes how NumPy treats floating-point errors", lambda node: node.kind == "prim::With"),
    (
        "a type is known only when the program runs, or is not a number or an array",
        _has_foreign_type,
    ),
    ("it reads a constant that compiled code cannot hold", _reads_refused_constant),
    (
        "a node inside it runs in the host program",
        lambda node: any(map(_block_refusal, node.blocks)),
    ),
)


def _is_hosted(node: Node) -> bool:
    op = TABLE.get(node.kind)
    return op is not None and op.hosted


def _block_refusal(block: Block) -> bool:
    """Whether something in a block of a native node would run in the host program."""
    if block.raises_in_python:
        # Compiled code does not raise by itself: the host program starts anew, and does.
        return not all(
            _is_native_type(value.type) or value.constant is not None
            for value in _free_values(block.nodes)
        )
    return any(map(native_refusal, block.nodes))


def native_refusal(node: Node) -> str | None:
    """Why this node is not native, or None."""
    if _is_only_constant(node):
        return None
    if node.host_reason is not None:
        return node.host_reason
    return next((reason for reason, predicate in REFUSALS if predicate(node)), None)


def refuse_bfloat16(graph: Graph) -> bool:
    """Leave what has to do with bfloat16 to NumPy; whether there is any."""
    found = [node for node in graph.nodes() if any(map(_has_bfloat16, _values(node)))]
    for node in found:
        node.host_reason = "bfloat16 is compiled for devices only"
    return bool(found)


def _has_bfloat16(value: Value) -> bool:
    dtype = value.type.dtype if isinstance(value.type, TensorType) else None
    return dtype is not None and is_bfloat16(dtype)


def is_native_graph(graph: Graph) -> bool:
    """Whether all of a graph is native, views of arrays among the results excepted."""
    inputs = all(_may_pass(value) or not value.uses for value in graph.inputs)
    nodes = graph.block.nodes
    return inputs and not any(native_refusal(one) and not _is_returned(one) for one in nodes)


def _may_pass(value: Value) -> bool:
    """Whether a value may come into a native function or leave it: lists do that, too."""
    return _is_native_type(value.type) or isinstance(value.type, ListType)


def _is_returned(node: Node) -> bool:
    """Whether a node is a tuple of what may leave a native function: lists, texts, objects too."""
    if node.kind != "prim::TupleConstruct":
        return False
    return all(
        _may_pass(one) or one.constant is not None or (one.node and _is_returned(one.node))
        for one in node.inputs
    )


def _deferrable(block: Block) -> set[Node]:
    """The nodes that may be native once the types of what host nodes return are known.

    What depends on nothing but inputs of unknown type is not among them: these inputs were looked
    at when the graph was specialized, and are nothing that compiled code takes.
    """
    return {
        node
        for node in block.nodes
        if node.kind not in _ACCESSES and _waits(node) and _reads_unknown_result(node)
    }


def _waits(node: Node) -> bool:
    """Whether only types that are not known yet keep a node, or what is inside it, from code."""
    if node.blocks:
        return node.kind in _CONTROL and not any(
            block.raises_in_python or not all(map(_is_ready, block.nodes)) for block in node.blocks
        )
    if _is_hosted(node):
        return False
    return node.host_reason is not None and node.kind in TABLE and node.kind not in _HOST_KINDS


def _is_ready(node: Node) -> bool:
    return native_refusal(node) is None or _waits(node) or node.kind in _PLUMBING


def _reads_unknown_result(node: Node) -> bool:
    return any(value.type == ANY and value.node is not None for value in _free_values([node]))


def _weight(node: Node) -> float:
    if node.kind == "prim::Loop" or node.kind.startswith("nn::"):
        return 100.0
    if node.kind == "prim::If":
        return sum(_weight(inner) for block in node.blocks for inner in block.nodes)
    if node.kind == "prim::Constant" or not node.outputs:
        return 0.0
    type_ = node.outputs[0].type
    if type_ == ANY:
        return 1.0
    if isinstance(type_, TensorType) and not type_.scalar:
        return 0.0 if TABLE.get(node.kind) is not None and TABLE[node.kind].view else 1.0
    single = is_elementwise(node) or node.kind == "np::item"
    if (node.inputs and single) or node.kind.startswith("prim::"):
        return 0.25
    return 1.0


def is_light(graph: Graph) -> bool:
    """Whether a graph has too little work for a native region."""
    return sum(map(_weight, graph.block.nodes)) < MIN_WEIGHT


def waits_for_types(graph: Graph) -> bool:
    """Whether a region has nodes whose types are known only when it is called."""
    return any(not node.blocks and _waits(node) for node in graph.nodes())


def works_on_arrays(graph: Graph) -> bool:
    """Whether there is more in a graph than single numbers and elements of arrays."""
    return any(map(_works_on_arrays, graph.nodes()))


def _works_on_arrays(node: Node) -> bool:
    if node.kind in _LOOPS or node.kind.startswith("nn::"):
        return True
    op = TABLE.get(node.kind)
    if op is not None and op.view:
        return False
    values = (*node.outputs, *node.inputs[:1]) if node.kind == "np::store" else node.outputs
    types = (value.type for value in values)
    return any(isinstance(one, TensorType) and one.dims != () for one in types)


def dissolve(region: Node) -> None:
    """Put what is in a region into the host program, in the region's place."""
    block, graph = region.block, region.attributes["graph"]
    assert block is not None
    count = len(block.nodes)
    mapping: dict[Value, Value] = dict(zip(graph.inputs, region.inputs, strict=True))
    for node in graph.block.nodes:
        copy_node(node, block, mapping)
    made = block.nodes[count:]
    del block.nodes[count:]
    place = block.nodes.index(region)
    block.nodes[place:place] = made
    (result,) = graph.block.returns
    result = mapping.get(result, result)
    _forward_elements(region.output, result)
    region.output.replace_all_uses_with(result)
    region.destroy()
    if result.node is not None and result.node.kind == "prim::TupleConstruct" and not result.uses:
        result.node.destroy()


def _forward_elements(output: Value, result: Value) -> None:
    """Where several results came out as a tuple, its elements are at hand now."""
    if result.node is None or result.node.kind != "prim::TupleConstruct":
        return
    users = {use.user for use in output.uses if isinstance(use.user, Node)}
    for user in (one for one in users if one.kind == "prim::Unpack"):
        for unpacked, element in zip(user.outputs, result.node.inputs, strict=True):
            unpacked.replace_all_uses_with(element)
        user.destroy()


def partition(graph: Graph, *, defer: bool = True, least_weight: float = MIN_WEIGHT) -> bool:
    """Form ``prim::NativeGroup`` nodes in all blocks that run in the host program.

    With ``defer`` they also take in nodes whose types are not known yet.  Regions lighter than
    ``least_weight`` are left to the host program.
    """
    return _partition_block(graph.block, defer, least_weight)


def _partition_block(block: Block, defer: bool, least_weight: float) -> bool:
    changed = False
    deferrable = _deferrable(block) if defer else set()
    for node in block.nodes:
        if node.blocks and native_refusal(node) and node not in deferrable:
            for inner in node.blocks:
                changed |= _partition_block(inner, defer, least_weight)
    runs: list[list[Node]] = [[]]
    sequence: list[Node | list[Node]] = []
    for node in block.nodes:
        if _is_only_constant(node):
            sequence.append(node)
            continue
        inside = native_refusal(node) is None or node in deferrable
        if not inside:
            sequence.append(node)
            runs.append([])
            continue
        if not runs[-1]:
            sequence.append(runs[-1])
        runs[-1].append(node)
    block.nodes = []
    for item in sequence:
        if isinstance(item, Node):
            block.nodes.append(item)
        elif sum(map(_weight, item)) < least_weight:
            block.nodes.extend(item)
        else:
            changed = True
            _form_regions(block, item, least_weight)
    return changed


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
    _make_region(block, kept)
    block.nodes.extend(after)


def _without_escaping_views(nodes: list[Node]) -> tuple[list[Node], list[Node]]:
    """Take out, from the end, what only makes values that the host program holds on to.

    A view that is needed on both sides is made on both sides.
    """
    inside = set(nodes)
    after: list[Node] = []
    for node in reversed(nodes):
        if not node.outputs or not _leaves(node, inside) or not _stays_host(node):
            continue
        if any(_is_inside(use.user, inside) for value in node.outputs for use in value.uses):
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
        for use in [use for use in old.uses if not _is_inside(use.user, inside)]:
            if isinstance(use.user, Node):
                use.user.set_input(use.index, new)
            else:
                use.user.set_return(use.index, new)
    return twin


def _leaves(node: Node, inside: set[Node]) -> bool:
    return any(not _is_inside(use.user, inside) for value in node.outputs for use in value.uses)


def _stays_host(node: Node) -> bool:
    """Views, and what is no array or number: the host program makes these itself."""
    type_ = node.outputs[0].type
    if isinstance(type_, (TupleType, ListType)) or type_ in (SLICE, *_INTERNAL):
        return True
    op = TABLE.get(node.kind)
    return op is not None and op.view and isinstance(type_, TensorType) and not type_.scalar


def _make_region(block: Block, nodes: list[Node]) -> None:
    inside = set(nodes)
    graph = Graph()
    mapping: dict[Value, Value] = {}
    inputs: list[Value] = []
    for value in _free_values(nodes):
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
        if any(not _is_inside(use.user, inside) for use in value.uses)
    ]
    packed = _packed(graph, [mapping[value] for value in outputs])
    graph.block.add_return(packed)
    region = block.append(
        "prim::NativeGroup",
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
        for use in [use for use in old.uses if not _is_inside(use.user, inside)]:
            if isinstance(use.user, Node):
                use.user.set_input(use.index, new)
            else:
                use.user.set_return(use.index, new)
    for node in nodes:
        node.drop_inputs()


def _packed(graph: Graph, values: list[Value]) -> Value:
    """The one value a region returns: its only output, a tuple of them, or None."""
    if len(values) == 1:
        return values[0]
    if not values:
        return graph.block.constant(None, NONE)
    type_ = TupleType(tuple(value.type for value in values))
    return graph.block.append("prim::TupleConstruct", values, outputs=(type_,)).output


def _is_inside(user: Node | Block, inside: set[Node]) -> bool:
    """Whether a user is one of these nodes, or lies in a block of one."""
    node = user if isinstance(user, Node) else user.owner
    while node is not None:
        if node in inside:
            return True
        node = node.block.owner if node.block is not None else None
    return False


def _free_values(nodes: list[Node]) -> list[Value]:
    """The values these nodes read that they do not make themselves, in order of first use."""
    made: set[Value] = set()
    free: dict[Value, None] = {}

    def visit(node: Node) -> None:
        for value in node.inputs:
            if value not in made:
                free.setdefault(value)
        for block in node.blocks:
            made.update(block.params)
            for inner in block.nodes:
                visit(inner)
            for value in block.returns:
                if value not in made:
                    free.setdefault(value)
        made.update(node.outputs)

    for node in nodes:
        visit(node)
    return list(free)
