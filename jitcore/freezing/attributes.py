"""Which attributes of a module stay when it is frozen, because a method that stays needs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import chain
from types import MemberDescriptorType, MethodType
from typing import Any

import numpy as np

from jitcore.errors import Error
from jitcore.frontend import compile_function
from jitcore.frontend.constants import final_graph, is_constant
from jitcore.frontend.final_graphs import folded, of_layer
from jitcore.frontend.layers import Frozen, layer_class, script_state
from jitcore.function_graphs import compile_argument
from jitcore.ir.effects import Effects, node_effects
from jitcore.ir.graph import LOOPS, Graph, Node, Value
from jitcore.ir.ops import TABLE, kind_of
from jitcore.ir.passes.frozen.ranks import is_in_place
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY, type_of_constant
from jitcore.module import ScriptModule
from jitcore.nn.module import Module

__all__ = ["PRESERVED", "Kept", "all_attributes", "method_graphs"]

Kept = dict[tuple[int, str], str]
"""Why attributes stay, by the identity of the module's ``__dict__`` and the name."""

PRESERVED = "it is preserved"
"""The reason where the user has said so."""


def method_graphs(
    root: ScriptModule,
    methods: dict[str, Any],
    kept: Kept,
    replaceable: Iterable[tuple[int, str]] = (),
) -> dict[str, Graph]:
    """The methods' graphs, with all calls inlined; adds to ``kept`` what they may change.

    Parameters
    ----------
    root : ScriptModule
    methods : dict
        The modules that they belong to, by their paths.
    kept : dict
        The attributes that stay, and why.
    replaceable : iterable
        Those that somebody may assign between calls.
    """
    assigned = set(replaceable)
    while True:
        frozen = Frozen(_by_namespace(kept), _by_namespace(assigned))
        graphs = {path: _graph(path, owner, frozen) for path, owner in methods.items()}
        before = len(kept), len(assigned)
        for graph in graphs.values():
            flat = _specialized(graph)
            for key, reason in chain(_changed(root, flat), _read_at_calls(graph)):
                kept.setdefault(key, reason)
            assigned.update(_assigned(flat))
        for graph in graphs.values():
            _check_preserved(graph, kept, assigned)
        if (len(kept), len(assigned)) == before:
            return graphs


def _read_at_calls(graph: Graph) -> Iterator[tuple[tuple[int, str], str]]:
    """What a loaded graph reads of modules at each call: lists, dicts and other objects."""
    for capture in graph.captures:
        if capture.input is not None and not isinstance(capture.value, np.ndarray):
            if of_layer(capture):
                yield (id(capture.container), str(capture.key)), "it is read at each call"


def _check_preserved(graph: Graph, kept: Kept, assigned: Container[tuple[int, str]]) -> None:
    """Raise where an attribute that is to stay is a constant in a graph that was loaded."""
    for capture in graph.captures:
        key = id(capture.container), str(capture.key)
        is_mode = key in kept and key[1] == "training"
        changes = kept.get(key) == PRESERVED or key in assigned or is_mode
        if changes and capture.input is None and not isinstance(capture.value, Module):
            raise Error(
                f"freeze: '{capture.key}' is a constant in what the module was loaded from, so it "
                "cannot be preserved or assigned; freeze the module before it is saved"
            )


def _by_namespace(keys: Iterable[tuple[int, str]]) -> dict[int, set[str]]:
    names: dict[int, set[str]] = {}
    for namespace, name in keys:
        names.setdefault(namespace, set()).add(name)
    return names


def _assigned(graph: Graph) -> Iterator[tuple[int, str]]:
    """The attributes of modules that a graph assigns."""
    for node in graph.find_all_nodes("prim::SetAttr"):
        held = _constant(node.inputs[0])
        if isinstance(held, Module):
            yield id(held.__dict__), str(node.attributes["name"])


def _is_module(value: Any) -> bool:
    return isinstance(value, Module)


def _constant(value: Value) -> Any:
    return value.constant.attributes["value"] if value.constant else None


def _graph(path: str, owner: ScriptModule, frozen: Frozen) -> Graph:
    name = path.rpartition(".")[2]
    traced = final_graph(script_state(owner, "_compiled_methods").get(name))
    if traced is not None:
        return folded(traced, frozen)
    function = inspect.getattr_static(layer_class(owner), name)
    graph = compile_function(MethodType(function, owner), lookup_op=kind_of, frozen=frozen)
    return graph


def _specialized(graph: Graph) -> Graph:
    """The graph with all calls inlined and without the branches that constants decide."""
    values = {c.input: c.value for c in graph.captures if c.input is not None}
    types = [
        type_of_constant(values[one]) if isinstance(values.get(one), np.ndarray) else ANY
        for one in graph.inputs  # annotations do not bind callers
    ]
    return specialize(graph, types, compile_function=compile_argument, layer_functions="kept")


def _changed(root: ScriptModule, flat: Graph) -> Iterator[tuple[tuple[int, str], str]]:
    """The attributes that a graph assigns or writes, or that Python gets with their module."""
    for node in flat.nodes():
        for value in node.inputs:
            held = _constant(value)
            if isinstance(held, Module):
                yield from _used(root, node, held)
    for block in flat.blocks():
        reason = "its module is returned" if block is flat.block else "its module is one of several"
        for held in filter(_is_module, map(_constant, block.returns)):
            yield from ((key, reason) for key in _within(root, held))
    for written, node in _written(flat):
        reason = f"it is written in place by {_asked(node)}"
        yield from ((key, reason) for key in _sharing(root, written))


def _used(root: ScriptModule, node: Node, layer: Module) -> Iterator[tuple[tuple[int, str], str]]:
    name = node.attributes.get("name")
    form = (
        _form_in_class(layer, str(name)) if node.kind in ("prim::GetAttr", "prim::SetAttr") else ""
    )
    if form:
        reason = f"its module's {form} {name} is used as a value at {_place(node)}"
        yield from ((key, reason) for key in _within(root, layer))
        return
    if node.kind in ("prim::GetAttr", "prim::SetAttr"):
        reason = f"it may be assigned, and {_asked(node)} uses it"
        yield (id(layer.__dict__), str(name)), reason
        held = layer.__dict__.get(str(name))
        if isinstance(held, Module):
            yield from ((key, reason) for key in _within(root, held))
        return
    if node.kind in _ABOUT_OBJECTS or name == "_noted":
        return
    reason = f"its module is used as a value by {_asked(node)}"
    yield from ((key, reason) for key in _within(root, layer))


def _asked(node: Node) -> str:
    return f"{node.kind} at {_place(node)}"


def _place(node: Node) -> str:
    return "an unknown place" if node.source is None else node.source.place


def _form_in_class(layer: Module, name: str) -> str:
    """What Python runs for an attribute of a module, which may use all others; nothing for most."""
    defined = inspect.getattr_static(layer_class(layer), name, None)
    if isinstance(defined, property | cached_property):
        return "property"
    is_method = name not in layer.__dict__ and callable(getattr(defined, "__func__", defined))
    return "method" if is_method else ""


def _within(root: ScriptModule, layer: Module) -> Iterator[tuple[int, str]]:
    """All attributes of a module, if it is one of those that are frozen."""
    if any(layer is one for one in root.modules()):
        yield from all_attributes(layer)


_ABOUT_OBJECTS = ("prim::is_", "prim::isnot", "prim::isinstance", "prim::type")
"""What asks which object a module is, and not what is in it."""


def _written(graph: Graph) -> Iterator[tuple[Any, Node]]:
    """The attributes' values that nodes write, with the nodes."""
    effects = {node: node_effects(node) for node in graph.nodes() if not node.blocks}
    writers = [node for node, effect in effects.items() if effect.writes]
    if not writers:
        return
    origins: dict[Value, Any] = {
        capture.input: capture.value for capture in graph.captures if capture.input is not None
    }
    for node in graph.find_all_nodes("prim::Constant"):
        if not isinstance(node.attributes["value"], Module):
            origins[node.output] = node.attributes["value"]
    for node in graph.find_all_nodes("prim::GetAttr"):
        held = _constant(node.inputs[0])
        if isinstance(held, Module):
            origins[node.output] = held.__dict__.get(node.attributes["name"])
    reached = _reached(graph, origins, effects)
    for node in writers:
        for number in effects[node].writes:
            for origin in reached.get(node.inputs[number], ()):
                yield origins[origin], node


def _reached(
    graph: Graph, origins: Iterable[Value], effects: Mapping[Node, Effects]
) -> dict[Value, set[Value]]:
    """From where each value may have its memory."""
    reached: dict[Value, set[Value]] = {origin: {origin} for origin in origins}
    changed = True

    def flow(sources: Iterable[Value], targets: Iterable[Value]) -> None:
        nonlocal changed
        found: set[Value] = set().union(*(reached.get(one, ()) for one in sources))
        for target in targets if found else ():
            known = reached.setdefault(target, set())
            changed = changed or not found <= known
            known |= found

    while changed:
        changed = False
        for node in graph.nodes():
            if node.blocks:
                _flow_through_blocks(node, flow)
            else:
                flow([node.inputs[one] for one in _shared(node, effects[node])], node.outputs)
    return reached


def _shared(node: Node, effects: Effects) -> tuple[int, ...]:
    """The inputs whose memory an output may have."""
    op = TABLE.get(node.kind)
    if op is not None and not op.view and not effects.writes:
        # Its row says that the result is new, even of operands of unknown types.
        return effects.keeps
    # Whatever is added to an array in place, the result is that array.
    return effects.writes if is_in_place(node) else (*effects.aliases, *effects.keeps)


def _flow_through_blocks(
    node: Node, flow: Callable[[Iterable[Value], Iterable[Value]], None]
) -> None:
    """Follow values into a node's blocks and out of them; all of a loop's count as one."""
    returned = [value for block in node.blocks for value in block.returns]
    if node.kind in LOOPS:
        params = [param for block in node.blocks for param in block.params]
        flow([*node.inputs, *returned], [*params, *node.outputs])
        return
    for block in node.blocks:
        for output, value in zip(node.outputs, block.returns, strict=False):
            flow([value], [output])


def _sharing(root: ScriptModule, written: Any) -> Iterator[tuple[int, str]]:
    """The attributes that are, hold, or share memory with, what is written."""
    targets = list(_objects(written))
    for module in root.modules():
        for name, value in module.__dict__.items():
            if any(_shares(one, other) for one in _objects(value) for other in targets):
                yield id(module.__dict__), name


def _objects(value: Any) -> Iterator[Any]:
    """What can be written in a value: itself, and what containers and objects hold."""
    waiting, seen = [value], set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, _IMMUTABLE) or is_constant(one):
            continue
        seen.add(id(one))
        if not isinstance(one, tuple):
            yield one
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple | set):
            waiting += one
        else:
            waiting += _held(one)


_IMMUTABLE = (int, float, complex, str, bytes, np.generic, np.dtype, Module)
"""What holds nothing that can be written, and modules, whose attributes count by themselves."""


def _held(value: Any) -> Iterator[Any]:
    """The values of an object's own attributes."""
    yield from getattr(value, "__dict__", {}).values()
    for class_ in type(value).__mro__:
        for member in vars(class_).values():
            if isinstance(member, MemberDescriptorType) and hasattr(value, member.__name__):
                yield getattr(value, member.__name__)


def _shares(one: Any, other: Any) -> bool:
    both = isinstance(one, np.ndarray) and isinstance(other, np.ndarray)
    return one is other or (both and np.may_share_memory(one, other))


def all_attributes(module: Module) -> Iterator[tuple[int, str]]:
    """All attributes of a module and of those inside."""
    for one in module.modules():
        for name in one.__dict__:
            yield id(one.__dict__), name
