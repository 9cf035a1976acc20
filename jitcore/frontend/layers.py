"""Layers and models as the front end sees them: their attributes, elements and calls are static.

``self.conv.weight`` in a method of a ``jitcore.nn.Module`` is a path like that of a global: it is
looked up when the graph is built, and what it led through is guarded.  Attributes that the program
itself assigns are not static; they are read and written when it runs.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from itertools import chain
from types import FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import numpy as np

from jitcore.errors import CompilationError
from jitcore.frontend.constants import is_layer, marker
from jitcore.frontend.names import Static, stored_variables
from jitcore.ir.classes import MISSING, class_captures
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Constants, Graph, Node, Use, Value
from jitcore.source import has_source, read_source
from jitcore.syntax import nodes_in

__all__ = [
    "HOOKS",
    "Frozen",
    "after_class",
    "elements",
    "is_mapping",
    "layer_attribute",
    "layer_class",
    "root_static",
    "stored_by_graph",
    "stored_by_layer",
    "stored_by_others",
    "stored_names",
]

HOOKS = ("_forward_pre_hooks", "_forward_hooks")
"""The attributes of layers that hold what is called before and after ``forward``."""


@dataclass(frozen=True, slots=True)
class Frozen:
    """How attributes are compiled when their values are final.

    Parameters
    ----------
    kept : dict
        The names of those that may still change, by the identity of the layer's ``__dict__``;
        they are inputs of the graph.  All others are constants.
    assigned : dict
        Those among them that the program itself assigns; likewise.
    constants : dict
        The arrays among these, by their paths.  They are inputs of the graph as well, because
        that is how native code takes arrays, but nothing ever replaces them.
    """

    kept: Mapping[int, Collection[str]]
    assigned: Mapping[int, Collection[str]] = field(default_factory=dict)
    constants: Constants = field(default_factory=Constants)

    def constant(self, static: Static) -> Static:
        """The place of a final array."""
        value, name = static.value, static.path.partition(".")[2] or static.path
        while self.constants.get(name, value) is not value:  # of another trace, say
            name += "_"
        self.constants[name] = value
        constants = self.constants
        return Static(value, name, lambda: value, id(constants), None, False, constants, name)

    def assigns(self, layer: Any, name: str) -> bool:
        """Whether the program assigns this attribute of a layer."""
        return name in self.assigned.get(id(layer.__dict__), ())

    def keeps(self, static: Static) -> bool:
        """Whether an object is an attribute of a layer that may still change."""
        return static.name in self.kept.get(id(static.container), ())

    def folds(self, static: Static) -> bool:
        """Whether an object is an attribute of a layer that is final."""
        base = static.base
        return base is not None and is_layer(base.value) and not self.keeps(static)


_CONTAINERS = "jitcore.nn.containers"


def root_static(layer: Any, name: str) -> Static:
    """The object that a method belongs to, which is what it is as long as the method is."""
    return Static(layer, name, lambda: layer, id(layer), stable=True)


def layer_class(layer: Any) -> type:
    """The class that defines a layer's methods; a scripted layer has one of its own besides."""
    found = marker(type(layer), "__jitcore_original__")
    return found if isinstance(found, type) else type(layer)


def layer_attribute(base: Static, name: str) -> Static | None:
    """An attribute of a layer as Python finds it; None where only a run can tell.

    A property is given as it is, with the layer as its receiver.
    """
    held = base.value.__dict__
    defined = _class_attribute(base, layer_class(base.value), name)
    is_data = defined is not None and hasattr(type(defined.value), "__set__")
    if name in held and not is_data:
        return _held(base, name, held[name])
    if defined is None or isinstance(defined.value, MemberDescriptorType):
        return None
    hidden = () if is_data else (_held(base, name, MISSING),)
    return _bound(replace(defined, also=(*hidden, *defined.also)), base)


def after_class(base: Static, class_: type, name: str) -> Static | None:
    """What ``super().name`` is in a method that ``class_`` defines."""
    order = layer_class(base.value).__mro__
    if class_ not in order:
        return None
    for owner in order[order.index(class_) + 1 :]:
        if name in vars(owner):
            found = _class_attribute(base, owner, name)
            return None if found is None else _bound(found, base)
    return None


def _held(base: Static, name: str, value: Any) -> Static:
    namespace = base.value.__dict__

    def read() -> Any:
        # Whoever reads this has found the path to be as it was.
        return namespace.get(name, MISSING)

    path = f"{base.path}.{name}"
    return Static(value, path, read, id(namespace), base, container=namespace, name=name)


def _class_attribute(base: Static, class_: type, name: str) -> Static | None:
    """What a class says about a name, with the classes that were asked before."""
    asked = [
        Static(one.value, one.path, one.read, id(one.container), base, False, one.container, name)
        for one in class_captures(class_, name)
    ]
    if asked and asked[-1].value is not MISSING:
        return replace(asked[-1], also=tuple(asked[:-1]))
    return None


def _bound(found: Static, base: Static) -> Static | None:
    """What reading an attribute that a class defines gives."""
    value = found.value
    if isinstance(value, FunctionType | property):
        return replace(found, receiver=base)
    if isinstance(value, staticmethod | classmethod):
        function = value.__func__
        if not isinstance(function, FunctionType):
            return None
        bound = replace(found, stable=True, value=function, also=(*found.also, found))
        if isinstance(value, staticmethod):
            return bound
        class_ = layer_class(base.value)
        owner = Static(class_, class_.__name__, lambda: class_, id(class_))
        return replace(bound, receiver=owner)
    return None if hasattr(type(value), "__get__") else found


def elements(container: Static) -> list[tuple[str, Static]] | None:
    """Names and elements of a container of layers or parameters; None of all others."""
    names = getattr(container.value, "_element_names", _none)()
    class_ = layer_class(container.value)
    methods = ("__iter__", "__getitem__", "__len__", "__contains__", "keys", "values", "items")
    if names is None or any(_module_of(class_, one) not in (None, _CONTAINERS) for one in methods):
        return None
    register = _held(container, "_registered", container.value.__dict__["_registered"])
    found = []
    for name in names:
        element = _held(container, name, container.value.__dict__[name])
        found.append((name, replace(element, also=(register,))))
    return found


def _none() -> None:
    return None


def is_mapping(container: Static) -> bool:
    """Whether iterating over a container gives names."""
    return hasattr(layer_class(container.value), "keys")


def _module_of(class_: type, name: str) -> str | None:
    """The Python module in which a class's method is defined."""
    return getattr(getattr(class_, name, None), "__module__", None)


# What code that is not compiled may assign


def stored_names(function: FunctionType) -> Iterator[str]:
    """The attributes, of whatever objects, that a Python function assigns or deletes itself."""
    if not has_source(function):
        return
    try:
        tree = read_source(function).node
    except CompilationError:
        # A file that was edited since: what the function does cannot be known.
        return
    yield from filter(None, map(_stored_name, nodes_in(tree)))


def _stored_name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.attr
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id in ("setattr", "delattr") and len(node.args) >= 2:
            name = node.args[1]
            if isinstance(name, ast.Constant) and isinstance(name.value, str):
                return name.value
    return None


def stored_by_layer(layer: Any) -> Iterator[str]:
    """The attributes that a layer which Python runs may assign, hooks and all inside included."""
    for one in layer.modules():
        for owner in layer_class(one).__mro__:
            if owner.__module__.startswith("jitcore.nn."):
                functions: list[Any] = [vars(owner).get("forward")]
            else:
                functions = [value for name, value in vars(owner).items() if name != "__init__"]
            for function in functions:
                setter = function.fset if isinstance(function, property) else function
                if isinstance(setter, FunctionType):
                    yield from stored_names(setter)
        for method in getattr(one, "_compiled_methods", {}).values():
            if method.is_final:
                yield from chain.from_iterable(map(stored_by_graph, method.all_graphs()))
        for name in HOOKS:
            for hook in getattr(one, name).values():
                if isinstance(hook.function, FunctionType):
                    yield from stored_names(hook.function)


def stored_by_others(layers: Mapping[Value, Static]) -> Iterator[str]:
    """The attributes of layers that code may assign which gets a layer as a value.

    That is what is called with it, and what finds it in a list or in a variable of two values.
    """
    for value, static in layers.items():
        if not is_layer(static.value):  # the class of a class method
            continue
        others = [use for use in value.uses if not _asks_only(use)]
        if others:
            yield from stored_by_layer(static.value)
        if not all(map(_is_read, others)):
            yield from (name for name in static.value.__dict__ if name not in _STRUCTURE)


_STRUCTURE = ("_registered", *HOOKS)
_ASKING = ("prim::is_", "prim::isnot", "prim::isinstance", "prim::type")
_OF_FIRST = ("prim::GetAttr", "prim::SetAttr")
_CALLED = ("prim::CallMethod", "prim::Call", "prim::len", "prim::bool")


def _asks_only(use: Use) -> bool:
    """Whether a layer is only asked for an attribute, called, or asked which one it is."""
    if isinstance(use.user, Block) or use.user.attributes.get("name") == "__dict__":
        return False
    return use.user.kind in _ASKING or (use.user.kind in _OF_FIRST and use.index == 0)


def _is_read(use: Use) -> bool:
    """Whether a layer is an argument of a built-in function that may call methods at most."""
    if isinstance(use.user, Node) and use.user.kind in _CALLED and use.index == 0:
        return True
    called = use.user.inputs[0].constant if isinstance(use.user, Node) else None
    return called is not None and any(called.attributes["value"] is one for one in _READERS)


_READERS = (getattr, hasattr, id, isinstance, print, repr, str, type)


def stored_by_graph(graph: Graph) -> Iterator[str]:
    """The attributes that a graph, or one that it calls, assigns."""
    for node in graph.nodes():
        if node.kind == "prim::SetAttr":
            yield str(node.attributes["name"])
        for held in node.attributes.values():
            if isinstance(held, Graph):
                yield from stored_by_graph(held)


def stored_through(value: Any) -> Iterator[str]:
    """The attributes that code may assign which finds layers in a list, a dict or an object."""
    if is_layer(value):
        return
    waiting, seen = [value], set[int]()
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.pop()
        if isinstance(one, FunctionType):
            yield from stored_variables(one, has_source)
        elif not isinstance(one, _WITHOUT_LAYERS) and id(one) not in seen:
            seen.add(id(one))
            yield from stored_by_layer(one) if is_layer(one) else _stored_by_class(one)
            waiting += _held_by(one)


_MOST_OBJECTS = 1000
_WITHOUT_LAYERS = type | ModuleType | np.ndarray | np.generic | int | float | complex | str | None


def _stored_by_class(one: Any) -> Iterator[str]:
    """What the methods of an object may assign."""
    for function in _methods(one):
        yield from stored_names(function)


def _methods(one: Any) -> list[FunctionType]:
    if isinstance(one, MethodType):
        return [one.__func__] if isinstance(one.__func__, FunctionType) else []
    defined = chain.from_iterable(vars(owner).values() for owner in type(one).__mro__)
    return [function for function in defined if isinstance(function, FunctionType)]


def _held_by(one: Any) -> list[Any]:
    """What an object holds, and its methods."""
    if is_layer(one):
        return []
    if isinstance(one, dict):
        return list(one.values())
    if isinstance(one, list | tuple | set | frozenset):
        return list(one)
    if isinstance(one, MethodType):
        return [one.__self__]
    return [*_methods(one), *getattr(one, "__dict__", {}).values()]
