"""Calls of ``sort``, ``sorted``, ``min`` and ``max`` with a ``key``, where all may become native.

Before::

    %f = prim::Call(%maker, %defaults, %keyword_defaults, %k)
    %m = prim::min(%values, key=%f)

After, where ``%maker`` makes functions of one lambda, whose graph takes ``%k`` besides::

    %m = prim::CallFunction[name="least_by"](%values, %k)

and in the graph of ``least_by``, calls of ``key`` are calls of that graph.  A function that is
known stays an operand.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.ops import keyed_functions, kind_of
from jitcore.ir.passes.inline import inline
from jitcore.ir.specialize.typed_builder import CompileFunction
from jitcore.ir.types import OpenFunction

__all__ = ["call_with_key", "keyed_definition"]

_SORTED = (keyed_functions.sorted_by, keyed_functions.sorted_down_by)
_SORT = (keyed_functions.sort_by, keyed_functions.sort_down_by)
_EXTREMES = {"prim::min": keyed_functions.least_by, "prim::max": keyed_functions.greatest_by}


@dataclass(frozen=True, slots=True)
class _Key:
    """What stands for calls of a key: a kind of node, and what it takes behind the element."""

    kind: str
    held: tuple[Value, ...] = ()
    graph: Graph | None = None


def keyed_definition(node: Node) -> Any:
    """What such a call does, as a function that can be compiled; None of all other nodes."""
    if "key" not in node.keywords or "starred" in node.attributes:
        return None
    positional = node.inputs[: len(node.inputs) - len(node.keywords)]
    if node.kind in _EXTREMES:
        return _EXTREMES[node.kind] if (len(positional), node.keywords) == (1, ("key",)) else None
    is_method = node.kind == "prim::CallMethod" and node.attributes["name"] == "sort"
    is_call = node.kind == "prim::Call" and positional[0].constant_value is sorted
    if not (is_method or is_call) or len(positional) != (1 if is_method else 2):
        return None
    if is_method and node.output.uses:
        return None
    is_descending = _argument(node, "reverse")
    if not set(node.keywords) <= {"key", "reverse"}:
        return None
    known = False if is_descending is None else is_descending.constant_value
    return (_SORT if is_method else _SORTED)[known] if isinstance(known, bool) else None


def _argument(node: Node, name: str) -> Value | None:
    given = node.inputs[len(node.inputs) - len(node.keywords) :]
    return dict(zip(node.keywords, given, strict=True)).get(name)


def call_with_key(node: Node, compile_function: CompileFunction) -> None:
    """Call the definition, where the key is a function whose code is known."""
    definition, function = keyed_definition(node), _argument(node, "key")
    assert function is not None
    values = node.inputs[1 if node.kind == "prim::Call" else 0]
    key, graph = _key_of(function, compile_function), compile_function(definition)
    is_known = key is not None or isinstance(function.constant_value, FunctionType)
    if graph is None or not is_known or (key is not None and values in key.held):
        return
    graph = graph.copy()
    inline(graph, lambda call: True)
    if key is not None:
        _bind_key(graph, key)
    for one in graph.nodes():
        one.source = node.source
    inputs = [values, function] if key is None else [values, *key.held]
    attributes = {"graph": graph, "name": definition.__name__}
    made = node.insert_before("prim::CallFunction", inputs, attributes)
    made.source = node.source
    node.output.replace_all_uses_with(made.output)
    node.destroy()
    _destroy_unused(function)


def _destroy_unused(value: Value) -> None:
    """Destroy what has made a function that nobody calls any more."""
    node = value.node
    if node is None or node.kind != "prim::Call" or value.uses:
        return
    operands = node.inputs[1:3]
    node.destroy()
    for one in operands:
        if one.node is not None and not one.uses:
            one.node.destroy()


def _key_of(function: Value, compile_function: CompileFunction) -> _Key | None:
    """What calls of a key are, where it has a row in the op table, or is made right there."""
    kind = kind_of(function.constant_value)
    if kind is not None:
        return _Key(kind)
    node = function.node
    if node is None or node.kind != "prim::Call" or len(node.inputs) < 3:
        return None
    make = node.inputs[0].constant_value
    notes = vars(make).get("__jitcore_maker__") if isinstance(make, FunctionType) else None
    if notes is None or notes.shared or any(_has_parts(one) for one in node.inputs[1:3]):
        return None
    held = dict(zip(notes.captured, node.inputs[3:], strict=True))
    template = OpenFunction.of(make((), {}, *(None for _ in held)))
    names: tuple[str, ...] = template.variables
    loaded = vars(make).get("__jitcore_program__")
    if loaded is not None:
        # It runs a graph, which has the variables for captures.
        names = ()
    if set(names) != held.keys():
        return None
    graph = compile_function(template) if loaded is None else loaded.graph()
    takes_one = graph is not None and len(graph.inputs) == 1 + len(held)
    if graph is None or not takes_one or any(one.input for one in graph.captures):
        return None
    return _Key("prim::CallFunction", tuple(held[name] for name in names), graph)


def _has_parts(display: Value) -> bool:
    return display.node is None or bool(display.node.inputs)


def _bind_key(graph: Graph, key: _Key) -> None:
    """Have a definition's graph do what a key does, and take what that reads around it."""
    function = graph.inputs[1]
    held = [graph.block.add_param(name=value.name) for value in key.held]
    attributes = {} if key.graph is None else {"graph": key.graph, "name": "key"}
    for call in [use.user for use in function.uses]:
        assert isinstance(call, Node) and call.kind == "prim::Call"
        made = call.insert_before(key.kind, [call.inputs[1], *held], attributes)
        call.output.replace_all_uses_with(made.output)
        call.destroy()
    graph.block.params.remove(function)
