"""Layers and models as the front end sees them: their attributes, elements and calls are static.

``self.conv.weight`` in a method of a ``jitcore.nn.Module`` is a path like that of a global: it is
looked up when the graph is built, and what it led through is guarded.  Attributes that the program
itself assigns are not static; they are read and written when it runs.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, replace
from types import FunctionType, MemberDescriptorType
from typing import Any

from jitcore.frontend.constants import is_layer, marker
from jitcore.frontend.names import Static
from jitcore.ir.classes import MISSING, class_captures
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Constants, Node, Use, Value

__all__ = [
    "HOOKS",
    "Frozen",
    "after_class",
    "class_of",
    "elements",
    "given_away",
    "has_setter",
    "is_mapping",
    "is_users",
    "layer_attribute",
    "layer_class",
    "root_static",
    "script_state",
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


def script_state(layer: Any, name: str) -> Any:
    """What a script module has besides its attributes, under a name; None of all other objects.

    The module's class may have something else by that name, since the user's comes first.
    """
    slots = marker(type(layer), "__jitcore_state__")
    return None if slots is None else slots[name].__get__(layer)


def class_of(layer: Static) -> Static:
    """The class that a user knows a layer by."""
    class_ = layer_class(layer.value)
    path = f"type({layer.path})"
    return Static(class_, path, lambda: class_, id(class_), layer, stable=True)


def layer_attribute(base: Static, name: str) -> Static | None:
    """An attribute of a layer as Python finds it; None where only a run can tell.

    A property is given as it is, with the layer as its receiver.
    """
    if is_users(type(base.value), "__getattribute__"):
        return None
    if name == "__class__":
        return class_of(base)
    held = base.value.__dict__
    defined = _class_attribute(base, layer_class(base.value), name)
    is_data = defined is not None and hasattr(type(defined.value), "__set__")
    if name in held and not is_data:
        return _held(base, name, held[name])
    if defined is None or isinstance(defined.value, MemberDescriptorType):
        return None
    hidden = () if is_data else (_held(base, name, MISSING),)
    return _bound(replace(defined, also=(*hidden, *defined.also)), base)


def has_setter(layer: Any, name: str) -> bool:
    """Whether the class of a layer has code that sets this attribute."""
    class_ = layer_class(layer)
    defined = inspect.getattr_static(class_, name, None)
    return hasattr(type(defined), "__set__") or is_users(class_, "__setattr__")


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


def is_users(class_: type, name: str) -> bool:
    """Whether a method is defined by neither Python nor jitcore."""
    module = _module_of(class_, name)
    return module is not None and not module.startswith("jitcore.")


def _module_of(class_: type, name: str) -> str | None:
    """The Python module in which a class's method is defined."""
    return getattr(getattr(class_, name, None), "__module__", None)


# Layers that code gets which is not compiled


def given_away(layers: Mapping[Value, Static]) -> Iterator[tuple[Any, list[str]]]:
    """The layers that code gets as values, each with the attributes it may assign to it then.

    That is what is called with one, and what finds it in a list or in a variable of two values.
    """
    for value, static in layers.items():
        if not is_layer(static.value):  # the class of a class method
            continue
        others = [use for use in value.uses if not _asks_only(use)]
        if others:
            is_read = all(map(_is_read, others))
            names = [] if is_read else [n for n in static.value.__dict__ if n not in _STRUCTURE]
            yield static.value, names


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
