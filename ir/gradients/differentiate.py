"""From a typed graph of a function to a graph of its value and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitcore.ir.effects import node_effects
from jitcore.ir.gradients.activity import Activity, NotDifferentiable, dtype_of
from jitcore.ir.gradients.reverse import Reverse
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.shapes import dims_of
from jitcore.ir.specialize.skeletons import UNINITIALIZED
from jitcore.ir.specialize.typed_builder import is_known_dict
from jitcore.ir.types import ANY, FLOAT, TensorType, TupleType, Type, is_ndarray

__all__ = ["differentiate"]


def differentiate(
    typed: Graph, arguments: Sequence[int], *, is_one: bool, with_value: bool, has_aux: bool
) -> Graph:
    """The graph of a function's gradient.

    Before::

        graph(%x : Float64[n]):
          %1 : Float64[n] = np::square(%x)
          %2 : Float64 = np::sum[axis=(0,), keepdims=False](%1)
          return (%2)

    After, with types that `specialize` finds out::

        graph(%x : Float64[n]):
          %1 : Float64[n] = np::square(%x)
          %2 : Float64 = np::sum[axis=(0,), keepdims=False](%1)
          %3 : int = prim::size[dim=0](%x)
          %4 : Float64 = prim::Constant[value=np.float64(1.0)]()
          %5 = np::broadcast_to(%4, %3)
          %6 = np::multiply(%5, 2.0)
          %7 = np::multiply(%6, %x)
          return (%7)

    Parameters
    ----------
    typed : Graph
    arguments : sequence of int
        The inputs with respect to which it is differentiated.
    is_one : bool
        The gradient is that of one argument, and no tuple.
    with_value : bool
        The graph gives the function's value, too.
    has_aux : bool
        The function gives a pair, of which the second part is passed on.

    Returns
    -------
    Graph

    Raises
    ------
    NotDifferentiable
    """
    graph = typed.copy()
    _refuse_lists_of_arrays(graph)
    _refuse_changes_of_containers(graph)
    (result,) = graph.outputs
    aux: Value | None = None
    if has_aux:
        result, aux = _pair(graph, result)
    leaves = {number: _leaves(graph, number) for number in arguments}
    _require_float(graph, result)
    seeds = [leaf for number in arguments for leaf in _flat(leaves[number])]
    activity = Activity(graph, seeds)
    activity.require_plain_writes()
    reverse = Reverse(graph, activity)
    nodes = list(graph.block.nodes)
    reverse.make_buffers(graph.block)
    if activity.is_active(result):
        reverse.contribute(result, reverse.constant(dtype_of(result).type(1)))
    reverse.run(nodes)
    reverse.node = None
    given, forward = set[Value](), set(nodes)
    gradients = [_gradient(reverse, leaves[number], given, forward) for number in arguments]
    found = gradients[0] if is_one else reverse.emit("prim::TupleConstruct", gradients)
    value = reverse.emit("prim::TupleConstruct", [result, aux]) if aux is not None else result
    if with_value:
        found = reverse.emit("prim::TupleConstruct", [value, found])
    elif aux is not None:
        found = reverse.emit("prim::TupleConstruct", [found, aux])
    graph.block.set_return(0, found)
    return graph


def _refuse_lists_of_arrays(graph: Graph) -> None:
    """Refuse lists whose elements are references: only native code has them."""
    found = graph.find_node("prim::ListRoom")
    if found is not None:
        reader = graph.find_node("prim::ListGet")
        raise NotDifferentiable(
            "there is no gradient of a program in which a number chooses an array from a list",
            found.source if reader is None else reader.source,
            "Use an array with one more axis.",
        )


def _refuse_changes_of_containers(graph: Graph) -> None:
    """Refuse that Python gets a list or a dict of an argument, which is not the caller's here."""
    for node in graph.nodes():
        if node_effects(node).wildcard and any(map(_is_opened, node.inputs)):
            raise NotDifferentiable(
                "a list or a dict of an argument goes to Python, which may change it",
                node.source,
                "Pass what is in it.",
            )


def _is_opened(value: Value) -> bool:
    """Whether this is a list or a dict that was an argument, or a tuple with such in it."""
    if is_known_dict(value) or _holds_list(value.type):
        return True
    node = value.node
    if node is None or node.kind != "prim::TupleConstruct":
        return False
    return any(map(_is_opened, node.inputs))


def _holds_list(type_: Type) -> bool:
    if not isinstance(type_, TupleType):
        return False
    return type_.named is list or any(map(_holds_list, type_.elements))


def _pair(graph: Graph, result: Value) -> tuple[Value, Value]:
    node = result.node
    if node is None or node.kind != "prim::TupleConstruct" or len(node.inputs) != 2:
        raise NotDifferentiable(
            f"with has_aux '{graph.name}' has to return a pair of the value and what goes with it; "
            f"it returns {result.type}"
        )
    return node.inputs[0], node.inputs[1]


def _require_float(graph: Graph, result: Value) -> None:
    if result.type == ANY:
        _raise_for_python(graph, result)
    dtype = dtype_of(result)
    if dtype is None or dtype.kind != "f" or dims_of(result):
        raise NotDifferentiable(
            f"'{graph.name}' has to return one float to be differentiated; it returns "
            f"{result.type}",
            None if result.node is None else result.node.source,
            "Sum the elements up, say.",
            in_python=result.type == UNINITIALIZED,
        )


def _raise_for_python(graph: Graph, result: Value) -> None:
    """Say what it is that Python computes, since the result depends on it."""
    refused = [one for one in graph.nodes() if one.host_reason]
    found = [one for one in refused if one.kind not in ("prim::DictConstruct", "prim::same")]
    node = next(iter([*found, *refused]), result.node)
    reason = "" if node is None or node.host_reason is None else f": {node.host_reason}"
    raise NotDifferentiable(
        f"there is no gradient of what only Python computes{reason}",
        None if node is None else node.source,
        "Write it with functions of NumPy that are compiled; explain() of the function, scripted, "
        "says which are.",
        in_python=True,
    )


_Leaves = Value | list[Any]


def _leaves(graph: Graph, number: int) -> _Leaves:
    """The arrays and numbers in an argument; tuples of them as lists."""
    return _opened(graph, graph.inputs[number], f"argument {number}")


def _opened(graph: Graph, value: Value, place: str) -> _Leaves:
    if not isinstance(value.type, TupleType):
        _require_differentiable(graph, value.type, place)
        return value
    types = value.type.elements
    others = [use.user for use in value.uses]
    node = graph.block.insert(0, "prim::Unpack", [value], {"count": len(types)}, outputs=types)
    for other in others:
        if not isinstance(other, Node) or other.kind != "prim::Unpack":
            raise NotDifferentiable(
                f"'{graph.name}' uses {place}, a tuple, in other ways than by its elements",
                other.source if isinstance(other, Node) else None,
                "Pass what is in it as arguments of their own.",
            )
        for old, new in zip(other.outputs, node.outputs, strict=True):
            old.replace_all_uses_with(new)
        other.destroy()
    return [_opened(graph, one, f"{place}, element {n}") for n, one in enumerate(node.outputs)]


def _flat(leaves: _Leaves) -> list[Value]:
    return [leaves] if isinstance(leaves, Value) else [v for one in leaves for v in _flat(one)]


def _require_differentiable(graph: Graph, type_: Type, place: str) -> None:
    is_float = isinstance(type_, TensorType) and type_.dtype is not None and type_.dtype.kind == "f"
    if not is_float and type_ != FLOAT:
        raise NotDifferentiable(
            f"there is no gradient of '{graph.name}' with respect to {place}, which is {type_}: "
            "gradients are with respect to floats, arrays of floats, and tuples, lists and dicts "
            "of these"
        )


def _gradient(reverse: Reverse, leaves: _Leaves, given: set[Value], forward: set[Node]) -> Value:
    """The gradient with respect to an argument, in new memory."""
    if not isinstance(leaves, Value):
        parts = [_gradient(reverse, one, given, forward) for one in leaves]
        return reverse.emit("prim::TupleConstruct", parts)
    found = reverse.take(leaves)
    if found is None:
        found = reverse.zeros(leaves)
    if leaves.type == FLOAT:
        return reverse.emit("prim::float", [found])
    if not is_ndarray(leaves.type):
        return reverse.emit("np::positive", [found])
    if not dims_of(leaves):
        return reverse.emit("np::full", [found], {"dtype": dtype_of(leaves)})
    node = found.node
    is_new = node is not None and node not in forward and not _may_be_view(node)
    is_only_one = found not in given
    given.add(found)
    return found if is_new and is_only_one else reverse.emit("np::copy", [found], {"order": "C"})


def _may_be_view(node: Node) -> bool:
    row = TABLE.get(node.kind)
    return bool(node.blocks) or row is None or row.view
