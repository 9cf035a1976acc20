"""What code that Python runs may assign: attributes of layers, and variables from outside.

Compiled code takes attributes and globals for what they were when the call began.  That is right
as long as nothing on the way assigns them.  What is compiled shows what it assigns; of all else,
callbacks, methods of objects, functions marked with ``ignore``, the bytecode says which names they
may assign, and whom else they reach: by the names of globals, in closures, in containers and in
attributes.  Libraries' code and objects are not looked into: they assign attributes of the user's
through the user's code only.
"""

from __future__ import annotations

import ast
import functools
import gc
import sys
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Collection, Iterable, Iterator
from dis import get_instructions
from itertools import chain
from types import (
    CodeType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from jitcore.errors import CompilationError
from jitcore.frontend.bindings import parameter_names
from jitcore.frontend.constants import final_graph, marker
from jitcore.frontend.layers import HOOKS
from jitcore.frontend.libraries import is_library
from jitcore.frontend.names import variable_key
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph
from jitcore.source import has_source, read_source
from jitcore.syntax import nodes_in

__all__ = [
    "ANY_ATTRIBUTE",
    "assigned_by",
    "assigned_by_graph",
    "is_among",
    "is_data",
    "is_only_held",
    "namespace_of",
]

ANY_ATTRIBUTE = "*"
"""Stands for the attributes that code assigns by names which only a run can tell."""


def is_among(name: str, assigned: Iterable[str]) -> bool:
    """Whether an attribute, or a variable by its key, is among what code may assign."""
    return name in assigned or (ANY_ATTRIBUTE in assigned and " " not in name)


def assigned_by(values: Iterable[Any]) -> set[str]:
    """The names of attributes, and the keys of variables, that code may assign which has these.

    Parameters
    ----------
    values : iterable
        What Python gets: functions, which it may call, and objects, whose methods it may call.
    """
    found, seen = set[str](), set[Any]()
    shapes: dict[int, _Shape] = {}
    waiting = list(values)
    kept = []
    while waiting:
        one = waiting.pop()
        key = one if type(one) in (_OfInstances, _OfOthers) else id(one)
        if key in seen or is_data(one):
            continue
        seen.add(key)
        kept.append(one)  # or another object could get its identity
        found.update(_assigned_here(one))
        waiting += _reached(one, shapes)
    return found


def is_data(value: Any) -> bool:
    """Whether a value is of a class of Python's or NumPy's that has no code of anybody's in it."""
    class_ = type(value)
    if class_ is np.ndarray:
        return not value.dtype.hasobject
    return id(class_) in _DATA or issubclass(class_, np.dtype)


def assigned_by_graph(graph: Graph) -> Iterator[str]:
    """The attributes that a graph, or one that it calls, assigns."""
    for node in graph.nodes():
        if node.kind == "prim::SetAttr":
            yield str(node.attributes["name"])
        for held in node.attributes.values():
            if isinstance(held, Graph):
                yield from assigned_by_graph(held)


_PYTHON_S = (int, float, complex, bool, str, bytes, range, type(None), EllipsisType)
_NUMPY_S: set[type] = set(np.sctypeDict.values()) - {np.object_}
_DATA = frozenset(map(id, (*_PYTHON_S, *_NUMPY_S)))
"""Identities, because classes may have a class of the user's, with a hash of its own."""
_CONTAINERS = (list, tuple, set, frozenset, deque)
_EMPTY: tuple[Any, ...] = ([], (), {}, set(), {}.values(), {}.items())
_OPAQUE = (
    *(type({}.keys()), type({}.values()), type({}.items()), MappingProxyType),
    *(type(iter(one)) for one in _EMPTY),
    *(enumerate, filter, map, reversed, zip),
)
"""What holds containers, or iterates over them, and does not say which."""
_OPEN = (SimpleNamespace, ChainMap, UserDict, UserList)
"""Classes of Python's whose objects hold what the user has put into them."""


def _assigned_here(one: Any) -> Iterator[str]:
    """What a function assigns itself; what the graphs of a compiled one do."""
    class_ = type(one)
    if class_ is _OfOthers:
        yield from _assigned_in(one.method, own=False)
    elif class_ is FunctionType:
        if not _is_library(one):
            yield from _assigned_in(one)
    elif _is_in_class(class_, "__jitcore_graph__"):
        graph = final_graph(one)
        yield from () if graph is None else assigned_by_graph(graph)


def _assigned_in(function: FunctionType, *, own: bool = True) -> set[str]:
    """What a function's own code assigns, with what its first parameter gets or without."""
    code = function.__code__
    cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))
    facts = _facts(code)
    found = {*facts.attributes, *(facts.own if own else ())}
    found |= {variable_key(function.__globals__, name) for name in facts.variables}
    found |= {variable_key(cells[name], name) for name in facts.cells if name in cells}
    by_name = _set_by_name(function) if facts.sets_by_name else ()
    return found | {name for name, is_own in by_name if own or not is_own}


def _reached(one: Any, shapes: dict[int, _Shape]) -> Iterable[Any]:
    """What code that has an object may call, or find in it."""
    class_ = type(one)
    if class_ is FunctionType:
        # Layers' functions use nothing of the user's but what they are given.
        return () if _is_library(one) or _is_of_layers(one) else _reached_by_function(one)
    if class_ is _OfOthers:
        return _reached_by_function(one.method)
    if class_ is MethodType:
        return (one.__func__, one.__self__)
    if class_ is ModuleType:
        return ()  # functions say which names of it they read
    if class_ is _OfInstances or issubclass(class_, type):
        return _members(one)
    if any(class_ is kind for kind in (list, dict, tuple, set, frozenset, deque)):
        return _elements(one)
    return chain(_of_special(one), _elements(one), _reached_by_object(one, shapes))


def _of_special(one: Any) -> Iterable[Any]:
    """What the classes of Python's and NumPy's hold that are no containers."""
    class_ = type(one)
    if issubclass(class_, functools.partial):
        partial = functools.partial
        func, args, keywords = (vars(partial)[name] for name in ("func", "args", "keywords"))
        held = (get.__get__(one) for get in (func, args, keywords))
        return (next(held), *next(held), *next(held).values())
    if issubclass(class_, property):
        return (one.fget, one.fset, one.fdel)
    if issubclass(class_, np.ndarray) and np.ndarray.dtype.__get__(one).hasobject:
        return list(np.ndarray.flat.__get__(one))
    return gc.get_referents(one) if any(class_ is kind for kind in _OPAQUE) else ()


def _elements(one: Any) -> Iterable[Any]:
    """The elements of a container that are no numbers and the like."""
    class_ = type(one)
    if issubclass(class_, dict):
        items = [*dict.keys(one), *dict.values(one)]
    else:
        kind = next((kind for kind in _CONTAINERS if issubclass(class_, kind)), None)
        items = [] if kind is None else list(kind.__iter__(one))
    return _without_data(items)


def _without_data(values: Collection[Any]) -> Collection[Any]:
    if _DATA.issuperset(map(id, map(type, values))):
        return ()
    return [one for one in values if not is_data(one)]


def _reached_by_function(function: FunctionType) -> Iterator[Any]:
    """The globals, the variables in closures and the defaults that a function may use."""
    names = _facts(function.__code__).names
    for name in names:
        value = function.__globals__.get(name)
        if isinstance(value, ModuleType):
            yield from _reached_in_module(value, names)
        else:
            yield value
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # a variable without a value
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()


def _reached_in_module(module: ModuleType, names: Iterable[str]) -> Iterator[Any]:
    if _is_users_module(module.__name__):
        yield from (vars(module)[name] for name in names if name in vars(module))


@dataclass(frozen=True, slots=True)
class _Shape:
    """What looking at the objects of a class starts from.

    Parameters
    ----------
    is_layer : bool
    is_users : bool
        A class of the user's is among those that it is made of.
    slots : tuple
        Where objects hold values that users' classes have declared.
    """

    is_layer: bool
    is_users: bool
    slots: tuple[MemberDescriptorType, ...]

    @classmethod
    def of(cls, class_: type) -> _Shape:
        users = [owner for owner in class_.__mro__ if _is_users_class(owner)]
        members = (member for owner in users for member in vars(owner).values())
        slots = tuple(one for one in members if type(one) is MemberDescriptorType)
        is_users = issubclass(class_, _OPEN) or bool(users)
        return cls(marker(class_, "__jitcore_module__") is True, is_users, slots)


def _is_in_class(class_: type, name: str) -> bool:
    return any(name in vars(owner) for owner in class_.__mro__)


def namespace_of(one: Any) -> dict[str, Any]:
    """The ``__dict__`` that an object has, found without code of its class; empty without one."""
    for owner in type(one).__mro__:
        held = vars(owner).get("__dict__")
        if type(held) is GetSetDescriptorType:
            found = held.__get__(one)
            return found if type(found) is dict else {}
    return {}


def is_only_held(one: Any, name: str) -> bool:
    """Whether to read an attribute gives what an object holds, without any code."""
    owners = type(one).__mro__
    is_plain = not any("__getattribute__" in vars(owner) for owner in owners[:-1])
    is_layer_s = _is_in_class(type(one), "__jitcore_module__")
    in_class = is_layer_s or _is_in_class(type(one), name)
    return is_plain and not in_class and name in namespace_of(one)


def _reached_by_object(one: Any, shapes: dict[int, _Shape]) -> Iterator[Any]:
    """The class of an object, and what it holds."""
    class_ = type(one)
    shape = shapes.get(id(class_))  # of objects that are kept, and their classes with them
    if shape is None:
        shape = shapes[id(class_)] = _Shape.of(class_)
        if shape.is_layer or shape.is_users:
            yield _OfInstances(marker(class_, "__jitcore_original__") or class_)
    held = namespace_of(one)
    # Not by attributes: an object may have any, made at once, without an end.
    yield held.get("__wrapped_function__")
    yield held.get("__wrapped__")
    if shape.is_layer:
        yield from getattr(one, "_compiled_methods", {}).values()
        yield from (hook.function for name in HOOKS for hook in held.get(name, {}).values())
    elif not shape.is_users:
        # An object of a library's may hold functions that the user has given it.
        yield from (value for value in held.values() if issubclass(type(value), _FUNCTIONS))
        return
    yield from _without_data(held.values())
    yield from (_in_slot(one, slot) for slot in shape.slots)


def _in_slot(one: Any, slot: MemberDescriptorType) -> Any:
    try:
        return slot.__get__(one, type(one))
    except AttributeError:
        return None


_FUNCTIONS = (FunctionType, MethodType, functools.partial)


@dataclass(frozen=True, slots=True)
class _OfInstances:
    """What code may call that has objects of a class."""

    class_: type


@dataclass(frozen=True, slots=True)
class _OfOthers:
    """A method of objects that are no layers, or new: what it sets of those concerns nobody."""

    method: FunctionType


def _members(of: type | _OfInstances) -> Iterator[Any]:
    """The members that a class has of users' classes, and layers' ``forward``."""
    class_ = of if isinstance(of, type) else of.class_
    of_others = isinstance(of, type) or not marker(class_, "__jitcore_module__")
    for owner in class_.__mro__:
        if _module_of(owner).startswith("jitcore.nn."):
            yield vars(owner).get("forward")
        elif _is_users_class(owner):
            for name, one in vars(owner).items():
                is_method = isinstance(one, FunctionType) and not _is_library(one)
                is_free = of_others or name == "__init__"
                yield _OfOthers(one) if is_free and is_method else getattr(one, "__func__", one)


def _is_users_class(class_: type) -> bool:
    return _is_users_module(_module_of(class_))


def _module_of(class_: type) -> str:
    """The name of a class's module; the user may have put anything there."""
    name = marker(class_, "__module__")
    return name if type(name) is str else "__main__"


@functools.lru_cache(maxsize=4096)
def _is_users_module(name: str) -> bool:
    """Whether a module, by its name, is neither Python's nor an installed package's."""
    if name in sys.stdlib_module_names or name.partition(".")[0] == "jitcore":
        return name == "__main__"
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not is_library(file)


def _is_library(function: FunctionType) -> bool:
    return is_library(function.__code__.co_filename) and not _is_of_layers(function)


def _is_of_layers(function: FunctionType) -> bool:
    return (function.__module__ or "").startswith("jitcore.nn.")


# What one function says


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the code of a function, and of those defined in it, assigns and reads by name.

    What it only assigns to its first parameter, which methods call ``self``, is ``own``.
    """

    attributes: frozenset[str]
    own: frozenset[str]
    variables: frozenset[str]
    cells: frozenset[str]
    names: frozenset[str]
    sets_by_name: bool


@functools.lru_cache(maxsize=4096)
def _facts(code: CodeType) -> _Facts:
    attributes, own, variables, cells, names = (set[str]() for _ in range(5))
    for inner in _codes(code):
        names.update(inner.co_names)
        first = code.co_varnames[0] if inner is code and code.co_argcount else None
        for kind, name, is_own in _stores(inner, first):
            if kind == "ATTR":
                (own if is_own else attributes).add(name)
            else:
                (variables if kind == "GLOBAL" else cells).add(name)
    sets_by_name = not names.isdisjoint(_BY_NAME)
    return _Facts(
        frozenset(attributes),
        frozenset(own - attributes),
        frozenset(variables),
        frozenset(cells),
        frozenset(names),
        sets_by_name,
    )


def _stores(code: CodeType, first: str | None) -> Iterator[tuple[str, str, bool]]:
    """What code assigns: kind, name, and whether it is an attribute of its first parameter."""
    before: list[Any] = []
    is_updated = False
    for one in get_instructions(code):
        what, _, kind = one.opname.partition("_")
        if what in ("STORE", "DELETE") and kind in ("GLOBAL", "DEREF"):
            yield kind, one.argval, False
        elif what in ("STORE", "DELETE") and kind == "ATTR":
            # ``self.x += y`` has read the attribute before.
            is_swapped = before[-1].opname == "SWAP"
            yield kind, one.argval, is_updated if is_swapped else _loads(before[-1], first)
        elif one.opname == "LOAD_ATTR" and before[-1].opname == "COPY":
            is_updated = _loads(before[-2], first)
        before = [*before[-1:], one]


def _loads(instruction: Any, variable: str | None) -> bool:
    return bool(instruction.opname == "LOAD_FAST" and instruction.argval == variable)


_BY_NAME = ("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "vars")
"""Through what attributes are assigned whose names are values."""


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _set_by_name(function: FunctionType) -> Iterator[tuple[str, bool]]:
    """The attributes that a function assigns whose names are values; any, where that is unclear.

    Each comes with whether it is one of the function's first parameter.
    """
    try:
        tree = read_source(function).node if has_source(function) else None
    except CompilationError:
        tree = None  # a file that was edited since
    if tree is None:
        yield ANY_ATTRIBUTE, False
        return
    first = next(iter(parameter_names(tree.args)), None)
    for node in nodes_in(tree):
        found = _target_and_name(node)
        if found is not None:
            target, name = found
            known = isinstance(name, ast.Constant) and isinstance(name.value, str)
            attribute = name.value if isinstance(name, ast.Constant) and known else ANY_ATTRIBUTE
            yield str(attribute), _is_first(target, first)


def _target_and_name(node: ast.AST) -> tuple[ast.expr, ast.expr | None] | None:
    """Whose attribute some syntax assigns by a name that is a value, and the name; None of most."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        owner = _owner_of_namespace(node.value)
        return None if owner is None else (owner, node.slice)
    if not isinstance(node, ast.Call):
        return None
    match node.func, node.args:
        case ast.Name("setattr" | "delattr"), [target, name, *_]:
            return target, name
        case ast.Attribute(_, "__setattr__"), [target, name, _]:
            return target, name
        case ast.Attribute(target, "__setattr__"), [name, _]:
            return target, name
        case ast.Attribute(_, "__delattr__"), [target, name]:
            return target, name
        case ast.Attribute(target, "__delattr__"), [name]:
            return target, name
        case ast.Attribute(namespace, method), _ if method not in _READING:
            owner = _owner_of_namespace(namespace)
            return None if owner is None else (owner, None)
    return None


_READING = ("get", "items", "keys", "values", "copy")
"""The methods of a namespace that change nothing."""


def _owner_of_namespace(node: ast.expr) -> ast.expr | None:
    """The ``x`` of ``x.__dict__`` and ``vars(x)``; None of all else."""
    match node:
        case ast.Attribute(owner, "__dict__") | ast.Call(ast.Name("vars"), [owner]):
            return owner
    return None


def _is_first(node: ast.expr, first: str | None) -> bool:
    """Whether an expression is a method's first parameter, or ``super()``."""
    match node:
        case ast.Name(name) | ast.Call(ast.Name("super" as name), []):
            return name in (first, "super")
    return False
