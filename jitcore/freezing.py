"""``freeze``: a copy of a scripted module whose parameters and attributes are constants."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.codegen.host import build_host, print_host
from jitcore.errors import Error
from jitcore.frontend import compile_function
from jitcore.frontend.layers import Frozen
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import LOOPS, Graph, Node, Value
from jitcore.ir.ops import TABLE, kind_of
from jitcore.ir.passes.specialize import specialize
from jitcore.ir.types import ANY, type_of_constant
from jitcore.module import ScriptModule, compiled_names, twin
from jitcore.nn.module import Module
from jitcore.nn.registry import joined
from jitcore.script import ScriptFunction, compile_argument

__all__ = ["FrozenFunction", "dump_alias_db", "freeze"]

_STRUCTURE = ("_registered", "_forward_pre_hooks", "_forward_hooks")

Kept = dict[tuple[int, str], str]
"""Why attributes stay, by the identity of the module's ``__dict__`` and the name."""


def freeze(
    mod: Module,
    preserved_attrs: Sequence[str] | None = None,
    optimize_numerics: bool = True,
) -> ScriptModule:
    """A copy of a module that has its parameters, submodules and attributes in its code.

    Parameters
    ----------
    mod : ScriptModule
        In eval mode; it stays as it is.
    preserved_attrs : sequence of str, optional
        Attributes and modules that are to stay attributes, and methods besides ``forward`` that
        are to stay; ``"encoder.scale"`` is an attribute of a module inside.
    optimize_numerics : bool
        Let passes change the last digits of results; none does so far.

    Returns
    -------
    ScriptModule
        Without parameters.  Attributes stay that are preserved, that a method which stays assigns
        or writes in place, and those that share memory with one of these; `dump_alias_db` says
        which and why.  Arrays are not copied.

    Raises
    ------
    Error
        It is not a script module, is in training mode, is frozen, or has no such attribute.

    Examples
    --------
    >>> from jitcore import freeze, nn, script
    >>> frozen = freeze(script(nn.Linear(4, 2)).eval())
    >>> list(frozen.parameters())
    []
    """
    copied = twin(_checked(mod), {}, always=True)
    preserved = list(preserved_attrs or ())
    kept: Kept = {}
    methods = {name: copied for name in compiled_names(_original(copied)) if name == "forward"}
    for name in preserved:
        if _is_method(copied, name):
            methods[name] = _script_module(copied, name.rpartition(".")[0])
        else:
            kept |= dict.fromkeys(_preserved(copied, name), "it is preserved")
    if not methods:
        raise Error(
            f"freeze: {copied.original_name} has no forward; name methods in preserved_attrs"
        )
    graphs = _graphs(copied, methods, kept)
    _fold(copied, graphs, kept)
    return copied


def dump_alias_db(mod: ScriptModule) -> str:
    """Which attributes a frozen module still has, and why each was not folded.

    Parameters
    ----------
    mod : ScriptModule
        What `freeze` gave.

    Returns
    -------
    str
        One line for each attribute.

    Raises
    ------
    Error
        It is not frozen.
    """
    if mod._frozen_reasons is None:
        raise Error("dump_alias_db expects a frozen module; freeze() makes one")
    return "\n".join(f"{path}: {reason}" for path, reason in sorted(mod._frozen_reasons.items()))


def _checked(mod: Module) -> ScriptModule:
    if not isinstance(mod, ScriptModule):
        raise Error(
            "Freezing expects a ScriptModule as input, found "
            f"{type(mod).__name__}; use jitcore.script() to script a module"
        )
    if mod._frozen_reasons is not None:
        raise Error("Freezing expects a module that is not frozen")
    if mod.training:
        raise Error(
            "Freezing is only possible for modules in eval mode; call .eval() on the module before"
        )
    return mod


def _original(module: Module) -> type:
    assert isinstance(module, ScriptModule)
    return module.__jitcore_original__


def _script_module(root: ScriptModule, path: str) -> ScriptModule:
    found = root.get_submodule(path)
    assert isinstance(found, ScriptModule)
    return found


def _is_method(root: ScriptModule, path: str) -> bool:
    """Whether a dotted name is that of a method.

    Raises
    ------
    Error
        There is no such attribute.
    """
    place, _, name = path.rpartition(".")
    try:
        owner = _script_module(root, place)
    except AttributeError:
        raise Error(f"Unknown name: {path}") from None
    if name in owner.__dict__:
        return False
    if not isinstance(inspect.getattr_static(_original(owner), name, None), FunctionType):
        raise Error(f"Unknown name: {path}")
    return True


def _preserved(root: ScriptModule, path: str) -> Iterator[tuple[int, str]]:
    """The attributes that a name preserves: one, or all of a module's."""
    place, _, name = path.rpartition(".")
    owner = root.get_submodule(place)
    yield id(owner.__dict__), name
    if isinstance(owner.__dict__[name], Module):
        yield from _all_of(owner.__dict__[name])


def _all_of(module: Module) -> Iterator[tuple[int, str]]:
    for one in module.modules():
        for name in one.__dict__:
            yield id(one.__dict__), name


# Which attributes stay


def _graphs(root: ScriptModule, methods: dict[str, Any], kept: Kept) -> dict[str, Graph]:
    """The methods' graphs, with all calls inlined; adds to ``kept`` what they may change."""
    while True:
        names: dict[int, set[str]] = {}
        for namespace, name in kept:
            names.setdefault(namespace, set()).add(name)
        graphs = {path: _graph(path, owner, Frozen(names)) for path, owner in methods.items()}
        before = len(kept)
        for graph in graphs.values():
            for key, reason in _changed(root, graph):
                kept.setdefault(key, reason)
        if len(kept) == before:
            return graphs


def _graph(path: str, owner: ScriptModule, frozen: Frozen) -> Graph:
    function = inspect.getattr_static(_original(owner), path.rpartition(".")[2])
    graph = compile_function(MethodType(function, owner), lookup_op=kind_of, frozen=frozen)
    return graph


def _changed(root: ScriptModule, graph: Graph) -> Iterator[tuple[tuple[int, str], str]]:
    """The attributes that a graph assigns or writes, or that Python gets with their module."""
    values = {c.input: c.value for c in graph.captures if c.input is not None}
    types = [
        type_of_constant(values[one]) if isinstance(values.get(one), np.ndarray) else one.type
        for one in graph.inputs
    ]
    flat = specialize(graph, types, compile_function=compile_argument)
    for node in flat.nodes():
        for value in node.inputs:
            held = value.constant.attributes["value"] if value.constant else None
            if isinstance(held, Module):
                yield from _used(root, node, held)
    for written, node in _written(flat):
        reason = f"it is written in place by {node.kind} at {node.source}"
        yield from ((key, reason) for key in _sharing(root, written))


def _used(root: ScriptModule, node: Node, layer: Module) -> Iterator[tuple[tuple[int, str], str]]:
    name = node.attributes.get("name")
    if node.kind in ("prim::GetAttr", "prim::SetAttr"):
        reason = f"it may be assigned, and {node.kind} at {node.source} uses it"
        yield (id(layer.__dict__), str(name)), reason
        return
    if node.kind in _ABOUT_OBJECTS or name == "_noted":
        return
    reason = f"its module is used as a value by {node.kind} at {node.source}"
    if any(layer is one for one in root.modules()):
        yield from ((key, reason) for key in _all_of(layer))


_ABOUT_OBJECTS = ("prim::is_", "prim::isnot", "prim::isinstance", "prim::type")
"""What asks which object a module is, and not what is in it."""


def _written(graph: Graph) -> Iterator[tuple[Any, Node]]:
    """The attributes' values that nodes write, with the nodes."""
    origins: dict[Value, Any] = {
        capture.input: capture.value for capture in graph.captures if capture.input is not None
    }
    for node in graph.find_all_nodes("prim::Constant"):
        if isinstance(node.attributes["value"], np.ndarray | list | dict | set):
            origins[node.output] = node.attributes["value"]
    for value, held in origins.items():
        for node in _writers(graph, value):
            yield held, node


def _writers(graph: Graph, value: Value) -> Iterator[Node]:
    """The nodes that write to a value, or to what may share its memory."""
    tracked = {value}
    before = 0
    while len(tracked) > before:
        before = len(tracked)
        for node in graph.nodes():
            if node.blocks:
                _track_blocks(node, tracked)
                continue
            effects = node_effects(node)
            sharing = effects.keeps if _is_fresh(node) else (*effects.aliases, *effects.keeps)
            if any(node.inputs[i] in tracked for i in sharing):
                tracked.update(node.outputs)
    for node in graph.nodes():
        if not node.blocks and any(node.inputs[i] in tracked for i in node_effects(node).writes):
            yield node


def _is_fresh(node: Node) -> bool:
    """Whether an op gives a new array, which its row says even of operands of unknown types."""
    op = TABLE.get(node.kind)
    return op is not None and not op.view and not node_effects(node).writes


def _track_blocks(node: Node, tracked: set[Value]) -> None:
    """Follow values into a node's blocks and out of them; all of a loop's count as one."""
    returned = [value for block in node.blocks for value in block.returns]
    if node.kind in LOOPS and any(value in tracked for value in (*node.inputs, *returned)):
        tracked.update(param for block in node.blocks for param in block.params)
        tracked.update(node.outputs)
        return
    for block in node.blocks:
        for output, value in zip(node.outputs, block.returns, strict=False):
            if value in tracked:
                tracked.add(output)


def _sharing(root: ScriptModule, written: Any) -> Iterator[tuple[int, str]]:
    """The attributes that are, or share memory with, what is written."""
    for module in root.modules():
        for name, value in module.__dict__.items():
            both = isinstance(value, np.ndarray) and isinstance(written, np.ndarray)
            if value is written or (both and np.may_share_memory(value, written)):
                yield id(module.__dict__), name


# What becomes of the rest


def _fold(root: ScriptModule, graphs: dict[str, Graph], kept: Kept) -> None:
    """Take all other attributes off the modules, and give them their frozen methods."""
    reasons = {
        joined(path, name): kept[id(module.__dict__), name]
        for path, module in root.named_modules()
        for name in module.__dict__
        if (id(module.__dict__), name) in kept and name not in _STRUCTURE
    }
    places = {path: root.get_submodule(path.rpartition(".")[0]) for path in graphs}
    staying = {id(one) for path in places for one in _chain(root, path)}
    staying |= {id(one) for path in reasons for one in _chain(root, path)}
    for module in list(root.modules()):
        assert isinstance(module, ScriptModule)
        _strip(module, kept, staying)
    for path, graph in graphs.items():
        owner = places[path]
        assert isinstance(owner, ScriptModule)
        name = path.rpartition(".")[2]
        owner._compiled_methods[name] = FrozenFunction(owner, name, graph)
    root._frozen_reasons = reasons


def _chain(root: ScriptModule, path: str) -> Iterator[Module]:
    """The modules that a dotted name of an attribute leads through."""
    module: Any = root
    for name in path.split("."):
        if isinstance(module, Module):
            yield module
        module = getattr(module, name, None)
    if isinstance(module, Module):
        yield module


def _strip(module: ScriptModule, kept: Kept, staying: set[int]) -> None:
    held = module.__dict__
    module._frozen_summary = module._summary()
    gone = [
        name
        for name, value in held.items()
        if name not in _STRUCTURE and (id(held), name) not in kept and id(value) not in staying
    ]
    register = held["_registered"]
    held["_registered"] = {name: kind for name, kind in register.items() if name not in gone}
    for name in gone:
        del held[name]
    module._folded = frozenset(gone)


class FrozenFunction(ScriptFunction):
    """A method of a frozen module: its graph is final, and has no need of the module's source."""

    def __init__(self, owner: ScriptModule, name: str, graph: Graph) -> None:
        self._final = graph
        self._host: Callable[..., Any] | None = None
        super().__init__(MethodType(inspect.getattr_static(_original(owner), name), owner))

    def _build(self) -> Graph:
        return self._final

    @property
    def code(self) -> str:
        """The graph as Python source."""
        return print_host(self.graph, name=self.__name__, places=True).source

    def _plain(self, *parameters: Any) -> Any:
        """The graph as a host program in which nothing is fused."""
        if self._host is None:
            self._host = build_host(specialize(self._final, [ANY] * len(self._final.inputs)))
        return self._host(*parameters, *self._captured())
