"""``freeze``: a copy of a scripted module whose parameters and attributes are constants."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import FunctionType, MethodType
from typing import Any

from jitcore.errors import Error
from jitcore.freezing.attributes import PRESERVED, Kept, all_attributes, method_graphs
from jitcore.freezing.frozen_function import FrozenFunction
from jitcore.freezing.optimizing import run_frozen_optimizations
from jitcore.frontend.layers import HOOKS, is_users, script_state
from jitcore.function_graphs import compile_argument
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.classes import MISSING
from jitcore.ir.graph import Constants, Graph
from jitcore.ir.passes.canonicalize import canonicalize
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.specialize.specialize import specialize
from jitcore.ir.types import ANY, type_of_constant
from jitcore.module import (
    ScriptModule,
    compiled_names,
    expose_methods,
    interface_of,
    set_state,
    twin,
)
from jitcore.nn.module import Module
from jitcore.nn.registry import joined

__all__ = ["dump_alias_db", "flat_graph", "freeze"]

_STRUCTURE = ("_registered", "_forward_pre_hooks", "_forward_hooks")


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
        are to stay; ``"encoder.scale"`` is an attribute of a module inside.  A module can be
        replaced afterwards where its class annotates it with an `interface`.
    optimize_numerics : bool
        Let passes change the last digits of results; see `run_frozen_optimizations`.

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
    mod = _checked(mod)
    preserved = _names(preserved_attrs)
    copied = twin(mod, {}, always=True)
    _copy_containers(copied)
    if "forward" in copied.__dict__:
        raise Error(
            f"freeze: 'forward' was set on the {_original(copied).__name__} itself, and is not the "
            "method of its class; derive a class that has this forward"
        )
    kept: Kept = {}
    for one in copied.modules():
        if one.__dict__.get("training"):
            kept[id(one.__dict__), "training"] = "its module is in training mode"
    kept.update(_read_by_python(copied))
    is_compiled = "forward" in (*compiled_names(_original(copied)), *_compiled(copied))
    methods: dict[str, Any] = {"forward": copied} if is_compiled else {}
    for name in preserved:
        if _is_method(copied, name):
            methods[name] = _script_module(copied, name.rpartition(".")[0])
        else:
            kept |= dict.fromkeys(_preserved(copied, name), PRESERVED)
    if not methods:
        raise Error(
            f"freeze: {_original(copied).__name__} has no forward; name methods in preserved_attrs"
        )
    graphs = method_graphs(copied, methods, kept, _replaceable(copied, kept))
    _fold(copied, graphs, kept, {path: _numerics(mod, path) for path in graphs})
    run_frozen_optimizations(copied, optimize_numerics, list(methods))
    return copied


def dump_alias_db(mod: ScriptModule | Graph) -> str:
    """Which attributes a frozen module still has, and why each was not folded.

    Parameters
    ----------
    mod : ScriptModule or Graph
        What `freeze` gave.  Of a graph the text says which values may share memory, and what
        writes to it.

    Returns
    -------
    str
        One line for each attribute.

    Raises
    ------
    Error
        It is neither a frozen module nor a graph.
    """
    if isinstance(mod, Graph):
        return AliasAnalysis(mod).dump()
    reasons = script_state(mod, "_frozen_reasons")
    if reasons is None:
        what = "dump_alias_db expects a module that freeze() has made, or a graph"
        raise Error(f"{what}; found {type(mod).__name__}")
    return "\n".join(f"{path}: {reason}" for path, reason in sorted(reasons.items()))


def _read_by_python(root: ScriptModule) -> Iterator[tuple[tuple[int, str], str]]:
    """The attributes that methods may read which Python calls by itself, and those reasons."""
    if any(getattr(root, name) for name in HOOKS):
        yield from ((one, "its module has hooks, which may use it") for one in all_attributes(root))
    for module in root.modules():
        for name in ("__getattr__", "__getattribute__"):
            if is_users(_original(module), name):
                reason = f"its module has a method {name}, which may use it"
                yield from ((one, reason) for one in all_attributes(module))


def _checked(mod: Module) -> ScriptModule:
    if not isinstance(mod, ScriptModule):
        raise Error(
            "Freezing expects a ScriptModule as input, found "
            f"{type(mod).__name__}; use jitcore.script() to script a module"
        )
    if script_state(mod, "_frozen_reasons") is not None:
        raise Error("Freezing expects a module that is not frozen")
    if mod.training:
        raise Error(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() "
            f"on your module before freezing: this {_original(mod).__name__} is in training mode"
        )
    return mod


def _names(preserved_attrs: Sequence[str] | None) -> list[str]:
    names = [preserved_attrs] if isinstance(preserved_attrs, str) else list(preserved_attrs or ())
    if isinstance(preserved_attrs, str) or not all(isinstance(name, str) for name in names):
        raise Error(f"freeze: preserved_attrs must be a list of names, found {preserved_attrs!r}")
    return names


def _copy_containers(root: ScriptModule) -> None:
    """Give a copy of a module lists, dicts and sets of its own; those that were one stay one."""
    memo: dict[int, Any] = {}
    for module in root.modules():
        for name, value in module.__dict__.items():
            if name not in _STRUCTURE:
                module.__dict__[name] = _own(value, memo)


def _own(value: Any, memo: dict[int, Any]) -> Any:
    """A value with all containers in it copied."""
    if type(value) is tuple:
        items = [_own(item, memo) for item in value]
        same = all(new is old for new, old in zip(items, value, strict=True))
        return value if same else tuple(items)
    if type(value) not in (list, dict, set):
        return value
    if id(value) not in memo:
        memo[id(value)] = made = type(value)()
        if isinstance(value, dict):
            made.update((key, _own(item, memo)) for key, item in value.items())
        elif isinstance(value, list):
            made.extend(_own(item, memo) for item in value)
        else:
            made.update(value)
    return memo[id(value)]


def _compiled(module: ScriptModule) -> dict[str, Any]:
    """The compiled methods of a module, by their names."""
    methods: dict[str, Any] = script_state(module, "_compiled_methods")
    return methods


def _original(module: Module) -> type:
    assert isinstance(module, ScriptModule)
    return module.__jitcore_original__


def _script_module(root: Module, path: str) -> ScriptModule:
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
    defined = inspect.getattr_static(_original(owner), name, MISSING)
    if isinstance(defined, FunctionType) or name in _compiled(owner):
        return True
    if not name or defined is MISSING or hasattr(type(defined), "__get__"):
        raise Error(f"Unknown name: {path}")
    # What the class gives to all of its modules becomes an attribute of this one.
    owner.__dict__[name] = defined
    return False


def _preserved(root: ScriptModule, path: str) -> Iterator[tuple[int, str]]:
    """The attributes that a name preserves: one, or all of a module's."""
    place, _, name = path.rpartition(".")
    owner = root.get_submodule(place)
    yield id(owner.__dict__), name
    if isinstance(owner.__dict__[name], Module):
        yield from all_attributes(owner.__dict__[name])


def _replaceable(root: ScriptModule, kept: Kept) -> Iterator[tuple[int, str]]:
    """The preserved modules for which another one may be set, as an interface says."""
    for module in root.modules():
        for name, value in module.__dict__.items():
            key = id(module.__dict__), name
            if key in kept and isinstance(value, Module) and interface_of(_original(module), name):
                yield key


# What becomes of the rest


def _numerics(root: Module, path: str) -> str | None:
    """What `script` was told about the arithmetic of a method."""
    place, _, name = path.rpartition(".")
    owner = _script_module(root, place)
    method = _compiled(owner).get(name)
    found: str | None = script_state(owner, "_numerics") if method is None else method.numerics
    return found


def _fold(
    root: ScriptModule, graphs: dict[str, Graph], kept: Kept, numerics: Mapping[str, str | None]
) -> None:
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
    # A module that is in two places stays in both.
    staying |= {
        id(one)
        for one in root.modules()
        if any(id(inner) in staying for inner in one.modules() if inner is not root)
    }
    methods = {path: _method(places[path], path.rpartition(".")[2]) for path in graphs}
    for module in list(root.modules()):
        assert isinstance(module, ScriptModule)
        _strip(module, kept, staying)
    for path, graph in graphs.items():
        owner = places[path]
        assert isinstance(owner, ScriptModule)
        name = path.rpartition(".")[2]
        _compiled(owner)[name] = FrozenFunction(
            methods[path], flat_graph(graph), graph, numerics[path]
        )
        expose_methods(owner, [name])
    set_state(root, _frozen_reasons=reasons)


def _method(owner: Module, name: str) -> Any:
    """A method as Python calls it, or what stands for it in a module that was loaded."""
    assert isinstance(owner, ScriptModule)
    method = inspect.getattr_static(_original(owner), name)
    if isinstance(method, FunctionType):
        return MethodType(method, owner)
    return _compiled(owner)[name].__wrapped_function__


def flat_graph(graph: Graph) -> Graph:
    """The graph with all calls inlined and what is known of constants, for arguments of any type.

    Functions of layers stay one node each.
    """
    final = {c.input: c.value for c in graph.captures if isinstance(c.container, Constants)}
    types = [type_of_constant(final[one]) if one in final else ANY for one in graph.inputs]
    flat = specialize(graph, types, compile_function=compile_argument, layer_functions="kept")
    dead_code_elimination(flat)
    canonicalize(flat)
    return flat


def _chain(root: ScriptModule, path: str) -> Iterator[Module]:
    """The modules that a dotted name of an attribute leads through."""
    module: Any = root
    for name in path.split("."):
        if isinstance(module, Module):
            yield module
            module = module.__dict__.get(name)
    if isinstance(module, Module):
        yield module


def _strip(module: ScriptModule, kept: Kept, staying: set[int]) -> None:
    held = module.__dict__
    set_state(module, _frozen_summary=module._summary())
    gone = [
        name
        for name, value in held.items()
        if name not in _STRUCTURE and (id(held), name) not in kept and id(value) not in staying
    ]
    register = held["_registered"]
    held["_registered"] = {name: kind for name, kind in register.items() if name not in gone}
    for name in gone:
        del held[name]
    set_state(module, _folded=frozenset(gone))
    if gone:  # methods that are graphs would ask for what has gone
        _compiled(module).clear()
