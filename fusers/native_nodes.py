"""Which nodes compiled code can do the work of, and why it cannot do that of the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.draws import is_draw
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.held_lists import HeldListType
from jitcore.ir.ops import TABLE
from jitcore.ir.structured import VoidType, has_native_type, is_structured
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    ELLIPSIS,
    FLOAT,
    GENERATORS,
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
    "HOST_KINDS",
    "INTERNAL",
    "free_values",
    "is_hosted",
    "is_native_graph",
    "is_only_constant",
    "native_refusal",
    "refuse_bfloat16",
]

_PLAIN = (INT, FLOAT, BOOL, COMPLEX, NONE, ELLIPSIS, SLICE)
INTERNAL = (PrimType("range"), PrimType("iterator"), PrimType("Uninitialized"))
HOST_KINDS = frozenset(
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

_LIST_KINDS = frozenset(
    f"prim::List{name}"
    for name in (
        *("Items", "Length", "Write", "Make", "Room", "Get", "Put", "Move", "View"),
        *("TakeShared", "Memo", "WriteShared", "MakeShared", "MakeRows"),
    )
)
"""What takes numbers out of lists and puts them in: only in graphs that are all native."""


def is_native_type(type_: Type) -> bool:
    if isinstance(type_, TensorType):
        dtype = type_.dtype
        # Arrays of objects are buffers of lists of arrays.
        of_references = dtype == REFERENCE and type_.rank == 1
        return has_native_type(type_) or (type_.is_complete and of_references)
    if isinstance(type_, TupleType | RecordType):
        return all(map(is_native_type, type_.elements))
    if isinstance(type_, UnionType):
        # The texts among them are constants.
        return all(one == STR or is_native_type(one) for one in type_.alternatives)
    if isinstance(type_, KnownType | ObjectListType | HeldListType | VoidType):
        return True
    return type_ in _PLAIN or type_ in INTERNAL or type_ in GENERATORS.values()


def _values(node: Node) -> list[Value]:
    params = [param for block in node.blocks for param in block.params]
    return [*node.inputs, *node.outputs, *params]


def is_only_constant(node: Node) -> bool:
    return node.kind == "prim::Constant"


def _has_foreign_type(node: Node) -> bool:
    if node.kind in _LIST_KINDS:
        return False
    return not all(
        is_native_type(value.type) or value.constant is not None for value in _values(node)
    )


_RECORD_KINDS = frozenset({"np::view", "np::field", "np::record", "np::transpose", "prim::size"})


def _has_records(node: Node) -> bool:
    if node.kind in _RECORD_KINDS:
        return False
    return any(is_structured(value.type) for value in _values(node))


def _reads_refused_constant(node: Node) -> bool:
    read = [*node.inputs, *(value for block in node.blocks for value in block.returns)]
    constants = (value.constant for value in read)
    return any(one is not None and one.host_reason is not None for one in constants)


def _chooses_generator(node: Node) -> bool:
    params = (param for block in node.blocks for param in block.params)
    chosen = (*node.outputs, *params) if node.blocks else ()
    return any(value.type in GENERATORS.values() for value in chosen)


Refusal = tuple[str, Callable[[Node], bool]]

REFUSALS: tuple[Refusal, ...] = (
    ("it calls Python", lambda node: node.kind in HOST_KINDS and not is_draw(node)),
    ("it has no native form: NumPy computes it", lambda node: is_hosted(node)),
    ("exceptions are caught in Python", lambda node: node.kind == "prim::Try"),
    ("it changes how NumPy treats floating-point errors", lambda node: node.kind == "prim::With"),
    (
        "a type is known only when the program runs, or is not a number or an array",
        _has_foreign_type,
    ),
    ("of structured arrays, compiled code has only the fields", _has_records),
    ("it reads a constant that compiled code cannot hold", _reads_refused_constant),
    ("a variable may be one of several random generators", _chooses_generator),
    (
        "a node inside it runs in the host program",
        lambda node: any(map(_block_refusal, node.blocks)),
    ),
)


def is_hosted(node: Node) -> bool:
    op = TABLE.get(node.kind)
    return op is not None and op.hosted


def _block_refusal(block: Block) -> bool:
    """Whether something in a block of a native node would run in the host program."""
    if block.raises_in_python:
        # Compiled code does not raise by itself: the host program starts anew, and does.
        return not all(
            is_native_type(value.type) or value.constant is not None
            for value in free_values(block.nodes)
        )
    return any(map(native_refusal, block.nodes))


def native_refusal(node: Node) -> str | None:
    """Why this node is not native, or None."""
    if is_only_constant(node):
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
    return is_native_type(value.type) or isinstance(value.type, ListType)


def _is_returned(node: Node) -> bool:
    """Whether a node is a tuple of what may leave a native function: lists, texts, objects too."""
    if node.kind != "prim::TupleConstruct":
        return False
    return all(
        _may_pass(one) or one.constant is not None or (one.node and _is_returned(one.node))
        for one in node.inputs
    )


def free_values(nodes: Sequence[Node]) -> list[Value]:
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
