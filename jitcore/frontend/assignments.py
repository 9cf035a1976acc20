"""What code that Python runs may assign: attributes of layers, and variables from outside.

Compiled code takes attributes and globals for what they were when the call began.  That is right
as long as nothing on the way assigns them.  What is compiled shows what it assigns; of all else,
callbacks, methods of objects, functions marked with ``ignore``, the bytecode says which names they
may assign, and whom else they reach: by the names of globals, in closures, in containers and in
attributes.  Libraries' code and objects are not looked into: they assign attributes of the user's
through the user's code only.
"""

from __future__ import annotations

import functools
import sys
from collections import namedtuple
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import attrgetter, is_
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np

from jitcore.frontend.constants import final_graph
from jitcore.frontend.function_facts import (
    ANY_ATTRIBUTE,
    ANY_VARIABLE,
    facts_of,
    set_by_name,
)
from jitcore.frontend.names import variable_key
from jitcore.frontend.reached import (
    HEAP_TYPE,
    OfInstances,
    OfOthers,
    Shapes,
    cell_content,
    holds_data,
    is_data,
    is_of_library,
    namespaces_of,
    reached,
    source_of_class,
)
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph

__all__ = [
    "ANY_ATTRIBUTE",
    "ANY_VARIABLE",
    "KnownCode",
    "assigned_by",
    "assigned_by_graph",
    "is_among",
    "is_of_layer",
    "of_any_module",
]


def is_among(name: str, assigned: Collection[str]) -> bool:
    """Whether an attribute, or a variable by its key, is among what code may assign."""
    if name in assigned:
        return True
    _, is_variable, variable = name.partition(" ")
    if is_variable:
        return of_any_module(variable) in assigned or ANY_VARIABLE in assigned
    return ANY_ATTRIBUTE in assigned


def of_any_module(name: str) -> str:
    """What stands for the variables of this name: an attribute may be one of a module."""
    return f"* {name}"


def assigned_by(values: Iterable[Any], known: KnownCode | None = None) -> set[str]:
    """The names of attributes, and the keys of variables, that code may assign which has these.

    Parameters
    ----------
    values : iterable
        What Python gets: functions, which it may call, and objects, whose methods it may call.
    known : KnownCode, optional
        What earlier calls have found.
    """
    known = KnownCode() if known is None else known
    found, seen = set[str](), set[Any]()
    waiting = list(values)
    kept = []
    while waiting:
        one = known.shapes.without_data(waiting.pop())
        key = _key(one)
        if key in seen or known.shapes.is_inert(one) or holds_data(one):
            continue
        seen.add(key)
        kept.append(one)  # or another object could get its identity
        part = known.of(one)
        if part is None:
            found.update(_assigned_here(one, known.shapes))
            waiting += reached(one, known.shapes)
        else:
            assigned, others = part
            found |= assigned
            waiting += others
    return found


def _key(one: Any) -> Any:
    if type(one) is OfInstances:
        return id(one.class_), "instances"
    return (id(one.method), one.is_new) if type(one) is OfOthers else id(one)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Functions and classes, and what decides about the code that they are or reach.

    Parameters
    ----------
    functions, classes : tuple
    cells : tuple
        Those of the functions.
    read_from : tuple of pairs
        The namespaces that the functions read, and under which names.
    """

    functions: tuple[FunctionType, ...]
    classes: tuple[type, ...]
    cells: tuple[CellType, ...]
    read_from: tuple[tuple[dict[str, Any], tuple[str, ...]], ...]

    @classmethod
    def of(cls, code: Iterable[Any]) -> _Origin:
        """The origin of functions and classes, in any of the forms that are looked at."""
        plain = [getattr(one, _PLAIN[type(one)]) if type(one) in _PLAIN else one for one in code]
        functions = tuple(one for one in plain if type(one) is FunctionType)
        cells = tuple(cell for one in functions for cell in one.__closure__ or ())
        own = [one for one in functions if not is_of_library(one)]
        read_from = tuple(place for one in own for place in namespaces_of(one))
        classes = tuple(one for one in plain if type(one) is not FunctionType)
        return cls(functions, classes, cells, read_from)

    def now(self) -> list[Any]:
        """What all of this is made of, to be compared by identity."""
        found = [*chain.from_iterable(map(_MADE_OF, self.functions))]
        for one in self.functions:
            if one.__kwdefaults__:
                found += one.__kwdefaults__.values()
            if one.__dict__:
                found += one.__dict__.values()
        found += map(cell_content, self.cells)
        for namespace, names in self.read_from:
            found += map(namespace.get, names)
        for class_ in self.classes:
            found.append(class_.__mro__)
            for owner in class_.__mro__:
                if owner.__flags__ & HEAP_TYPE:
                    found += vars(owner).values()
        return found


_PLAIN = {OfOthers: "method", OfInstances: "class_"}
_MADE_OF = attrgetter("__code__", "__defaults__", "__kwdefaults__", "__closure__")


@dataclass(frozen=True, slots=True)
class _CodePart:
    """What the code says that a function, or a class, reaches without an object.

    Parameters
    ----------
    found : frozenset of str
        What it assigns.
    origin : _Origin
    before : list
        What that was made of, without what is in ``places``, which nothing here keeps alive.
    places : tuple of int
        Where in this list arrays are and the objects that the code reaches.
    inner : tuple
        Those of these objects that something else in the list holds, a ``staticmethod``.
    """

    found: frozenset[str]
    origin: _Origin
    before: list[Any]
    places: tuple[int, ...]
    inner: tuple[Any, ...]

    @classmethod
    def of(cls, found: Iterable[str], code: Iterable[Any], others: Sequence[Any]) -> _CodePart:
        """What is known of some code that reaches other objects."""
        origin, objects = _Origin.of(code), set(map(id, others))
        before = origin.now()
        pairs = enumerate(before)
        places = tuple(n for n, one in pairs if id(one) in objects or type(one) is np.ndarray)
        direct = {id(before[place]) for place in places}
        inner = tuple(one for one in others if id(one) not in direct)
        for place in places:
            before[place] = None
        return cls(frozenset(found), origin, before, places, inner)

    def others(self) -> list[Any] | None:
        """The objects that the code reaches; None if any of the code is not what it was."""
        now = self.origin.now()
        if len(self.before) != len(now):
            return None
        found = [now[place] for place in self.places]
        for place in self.places:
            now[place] = None
        if any(map(_is_code, found)) or not self._is_as_before(now):
            return None
        return [*found, *self.inner]

    def _is_as_before(self, now: list[Any]) -> bool:
        """Whether all functions and classes are what they were; data may be other data."""
        if all(map(is_, self.before, now)):
            return True
        pairs = zip(self.before, now, strict=True)
        return all(one is other or (is_data(one) and is_data(other)) for one, other in pairs)


class KnownCode:
    """What functions and classes have been found to assign, as long as they stay what they are."""

    def __init__(self) -> None:
        self._parts: dict[Any, _CodePart] = {}
        self.shapes = Shapes()

    def of(self, one: Any) -> tuple[frozenset[str], list[Any]] | None:
        """What a class or a lasting function assigns, and reaches; None of other objects."""
        if not _is_lasting(one):
            return None
        key = _key(one)
        part = self._parts.get(key)
        others = None if part is None else part.others()
        if part is None or others is None:
            if len(self._parts) >= _MAX_KNOWN:
                self._parts.clear()
            part, others = self._looked_at(one)
            self._parts[key] = part
        return part.found, others

    def _looked_at(self, root: Any) -> tuple[_CodePart, list[Any]]:
        found, others, code = set[str](), list[Any](), list[Any]()
        seen, waiting = set[Any](), [root]
        while waiting:
            one = waiting.pop()
            key = _key(one)
            if key in seen or self.shapes.is_inert(one):
                continue
            seen.add(key)
            if _is_code(one):
                code.append(one)
            elif not _is_fixed(one, self.shapes):
                others.append(one)
                continue
            found.update(_assigned_here(one, self.shapes))
            waiting += reached(one, self.shapes)
        return _CodePart.of(found, code, others), others


_MAX_KNOWN = 256
"""Of how many classes and functions something is kept."""


def _is_lasting(one: Any) -> bool:
    """Whether an object is code that is not made anew again and again."""
    if type(one) is FunctionType:
        return one.__closure__ is None and "<locals>" not in one.__qualname__
    return type(one) is OfInstances


def _is_fixed(one: Any, shapes: Shapes) -> bool:
    """Whether an object that a class or a function has stays what it is as long as that has it."""
    class_ = type(one)
    if class_ is BuiltinFunctionType:
        return shapes.is_inert(one.__self__)
    is_member = class_ is property or class_ is _FIELD
    return is_member or source_of_class(class_) in ("dataclasses", "typing")


_FIELD = type(vars(namedtuple("_Pair", "field"))["field"])
"""What a class of named tuples has for each of its fields."""


def _is_code(one: Any) -> bool:
    """Whether an object is a function or a class, of which an `_Origin` says all."""
    return type(one) in (FunctionType, OfInstances, OfOthers) or issubclass(type(one), type)


def assigned_by_graph(graph: Graph) -> Iterator[str]:
    """The attributes that a graph, or one that it calls, assigns."""
    for node in graph.nodes():
        if node.kind == "prim::SetAttr":
            yield str(node.attributes["name"])
        for held in node.attributes.values():
            if isinstance(held, Graph):
                yield from assigned_by_graph(held)


def _assigned_here(one: Any, shapes: Shapes) -> Iterator[str]:
    """What a function assigns itself; what the graphs of a compiled one do."""
    class_ = type(one)
    if class_ is OfOthers:
        found = _assigned_in(one.method, own=False)
        yield from found - _of_layers(one.method) if one.is_new else found
    elif class_ is FunctionType:
        if not is_of_library(one):
            yield from _assigned_in(one)
        elif one.__name__ in _BY_BUILT_IN:
            yield from _BY_BUILT_IN[one.__name__]
    elif shapes.of(class_).is_compiled:
        graph = final_graph(one)
        yield from () if graph is None else assigned_by_graph(graph)
    elif class_ in _BUILT_IN:
        yield from _BY_BUILT_IN.get(one.__name__, ())
    elif class_ is dict:
        yield from _of_namespace(one)


_BUILT_IN = (BuiltinFunctionType, WrapperDescriptorType, MethodWrapperType)
_BY_BUILT_IN = {
    **dict.fromkeys(("setattr", "delattr", "__setattr__", "__delattr__"), (ANY_ATTRIBUTE,)),
    **dict.fromkeys(("exec", "eval"), (ANY_ATTRIBUTE, ANY_VARIABLE)),
}
"""What built-in functions assign that get somewhere as values."""


def is_of_layer(namespace: object) -> bool:
    """Whether a dict is where a layer has its attributes."""
    return type(namespace) is dict and "_registered" in namespace


def _of_namespace(held: dict[Any, Any]) -> Iterator[str]:
    """What code may assign that has a dict, if it is the namespace of a layer or a module."""
    if is_of_layer(held):
        yield ANY_ATTRIBUTE
    elif "__builtins__" in held and "__name__" in held:
        yield ANY_VARIABLE


def _assigned_in(function: FunctionType, *, own: bool = True) -> set[str]:
    """What a function's own code assigns, with what its first parameter gets or without."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    facts = facts_of(code)
    by_name = set_by_name(function) if facts.sets_by_name else ()
    others = {*facts.attributes, *(name for name, is_own in by_name if not is_own)}
    others |= {ANY_ATTRIBUTE, ANY_VARIABLE} if facts.runs_texts else set()
    others |= _of_layers(function, own=own)
    found = {*others, *map(of_any_module, others - {ANY_ATTRIBUTE, ANY_VARIABLE})}
    if own:
        found |= facts.own | {name for name, _ in by_name}
    found |= {variable_key(function.__globals__, name) for name in facts.variables}
    return found | {variable_key(cells[name], name) for name in facts.cells if name in cells}


def _of_layers(function: FunctionType, *, own: bool = False) -> set[str]:
    """What the methods that all layers have assign, where a function calls them."""
    facts, known = facts_of(function.__code__), _methods_of_layers()
    called = facts.methods | facts.own_methods if own else facts.methods
    return set().union(*(known[name] for name in called if name in known))


def _methods_of_layers() -> dict[str, frozenset[str]]:
    """What the methods that all layers have assign, by the names of those that assign anything."""
    module = sys.modules.get("jitcore.nn.module")
    return {} if module is None else _assigning_methods(module.Module)


@functools.lru_cache(maxsize=1)
def _assigning_methods(class_: type) -> dict[str, frozenset[str]]:
    owners = [
        one for one in reversed(class_.__mro__) if source_of_class(one).startswith("jitcore.nn.")
    ]
    methods = {name: one for owner in owners for name, one in vars(owner).items()}
    functions = {name: one for name, one in methods.items() if type(one) is FunctionType}
    found = {name: frozenset(_by_method(name, functions)) for name in functions}
    # What operators and calls lead to is looked at where they are.
    return {name: one for name, one in found.items() if one and name[:2] != "__"}


def _by_method(name: str, functions: Mapping[str, FunctionType]) -> Iterator[str]:
    """What a method assigns, or the others, and functions beside them, that it calls."""
    seen, waiting = set[FunctionType](), [functions[name]]
    while waiting:
        one = waiting.pop()
        if one in seen or one.__name__ in _NOT_FOLLOWED:
            continue
        seen.add(one)
        facts = facts_of(one.__code__)
        yield from facts.attributes | facts.own
        yield from (attribute for attribute, _ in set_by_name(one) if facts.sets_by_name)
        called_here = facts.methods | facts.own_methods
        waiting += [functions[called] for called in called_here if called in functions]
        beside = (one.__globals__.get(called) for called in facts.names)
        waiting += [other for other in beside if type(other) is FunctionType]


_NOT_FOLLOWED = ("__init__", "__call__", "forward")
"""What new layers get, and what is looked at as code of layers."""
