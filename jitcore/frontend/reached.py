"""What code may get at that has an object: whom it may call, and what it finds in it.

Nothing of the objects runs: their attributes are read past the ways of their classes.
"""

from __future__ import annotations

import functools
import gc
import operator
import sys
import weakref
from collections import ChainMap, UserDict, UserList, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import chain
from types import (
    BuiltinFunctionType,
    CellType,
    EllipsisType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any

import numpy as np

from jitcore.frontend.constants import marker
from jitcore.frontend.function_facts import facts_of
from jitcore.frontend.layers import HOOKS
from jitcore.frontend.libraries import is_library
from jitcore.ir.dataclass import dataclass

__all__ = [
    "HEAP_TYPE",
    "OfInstances",
    "OfOthers",
    "Shapes",
    "cell_content",
    "holds_data",
    "is_data",
    "is_in_class",
    "is_of_library",
    "is_only_held",
    "is_users_module",
    "namespace_of",
    "namespaces_of",
    "reached",
    "source_of_class",
]


def is_data(value: Any) -> bool:
    """Whether a value is of a class of Python's or NumPy's that has no code of anybody's in it."""
    class_ = type(value)
    if class_ is np.ndarray:
        return not value.dtype.hasobject
    return _is_class_of_data(class_)


def _is_class_of_data(class_: type) -> bool:
    return id(class_) in _DATA or issubclass(class_, np.dtype)


def holds_data(value: Any) -> bool:
    """Whether a value is a plain container that holds nothing but data, or tuples of data."""
    class_ = type(value)
    if class_ is dict:
        return _are_data(value.keys()) and _are_data(value.values())
    if class_ is not list and class_ is not tuple:
        return False
    classes = _classes_in(value)
    return classes <= _DATA or (
        classes == _TUPLE and _classes_in(chain.from_iterable(value)) <= _DATA
    )


def _are_data(values: Iterable[Any]) -> bool:
    return _DATA.issuperset(map(id, map(type, values)))


def _classes_in(values: Iterable[Any]) -> set[int]:
    return set(map(id, map(type, values)))


_PYTHON_S = (int, float, complex, bool, str, bytes, range, type(None), EllipsisType)
_NUMPY_S: set[type] = set(np.sctypeDict.values()) - {np.object_}
_DATA = frozenset(map(id, (*_PYTHON_S, *_NUMPY_S)))
"""Identities, because classes may have a class of the user's, with a hash of its own."""
_TUPLE = {id(tuple)}
_CONTAINERS: tuple[type[Collection[Any]], ...] = (list, tuple, set, frozenset, deque, dict)
_EXACT = frozenset(map(id, _CONTAINERS))
_OPEN = (SimpleNamespace, ChainMap, UserDict, UserList)
"""Classes of Python's whose objects hold what the user has put into them."""


def reached(one: Any, shapes: Shapes) -> Iterable[Any]:
    """What code that has an object may call, or find in it."""
    class_ = type(one)
    if class_ is FunctionType:
        # Libraries' and layers' functions use nothing of the user's but what they are given.
        is_theirs = is_of_library(one) or _is_of_layers(one)
        return _held_by_function(one) if is_theirs else _reached_by_function(one)
    if class_ is OfOthers:
        return _reached_by_function(one.method)
    if class_ is MethodType:
        return (one.__func__, one.__self__)
    if class_ is ModuleType:
        return _named_in(one) if is_users_module(one) else ()
    if class_ is OfInstances or issubclass(class_, type):
        return _members(one)
    if id(class_) in _EXACT:
        return _elements(one, class_)
    shape = shapes.of(class_)
    special = () if shape.special is None else shape.special(one)
    return chain(special, _elements(one, shape.container), _reached_by_object(one, shape, shapes))


def _of_partial(one: Any) -> Iterable[Any]:
    partial = functools.partial
    func, args, keywords = (vars(partial)[name] for name in ("func", "args", "keywords"))
    held = (get.__get__(one) for get in (func, args, keywords))
    return (next(held), *next(held), *next(held).values())


def _of_array(one: Any) -> Iterable[Any]:
    has_objects = np.ndarray.dtype.__get__(one).hasobject
    return list(np.ndarray.flat.__get__(one)) if has_objects else ()


def _referents(one: Any) -> Iterable[Any]:
    return _without_data(gc.get_referents(one))


def _called_by(caller: Any) -> Iterable[Any]:
    """A function that calls the method that a ``methodcaller`` does, on a layer."""
    made, args = caller.__reduce__()
    name = args[0] if made is operator.methodcaller else made.args[0]
    module = sys.modules.get("jitcore.nn.module")
    return () if module is None else (vars(module.Module).get(name),)


_SPECIAL: tuple[tuple[type, Callable[[Any], Iterable[Any]]], ...] = (
    (functools.partial, _of_partial),
    (BuiltinFunctionType, lambda one: (one.__self__,)),
    (operator.methodcaller, _called_by),
    (property, lambda one: (one.fget, one.fset, one.fdel)),
    (np.ndarray, _of_array),
    (weakref.ref, lambda one: (weakref.ref.__call__(one),)),
    *((kind, _referents) for kind in (np.ufunc, defaultdict)),
)
"""What objects hold in a way that only code of Python's or a library's knows."""


def _elements(one: Any, kind: type[Collection[Any]] | None) -> Iterable[Any]:
    """The elements, that are no numbers and the like, of what is a container of this kind."""
    if kind is None:
        return ()
    items = [*dict.keys(one), *dict.values(one)] if kind is dict else list(kind.__iter__(one))
    return _without_data(items)


def _without_data(values: Collection[Any]) -> Collection[Any]:
    if _are_data(values):
        return ()
    return [one for one in values if not is_data(one)]


def _reached_by_function(function: FunctionType) -> Iterator[Any]:
    """The globals that a function may use, and what it holds."""
    for namespace, names in namespaces_of(function):
        yield from _without_modules(map(namespace.get, names))
    yield from _without_modules(_held_by_function(function))


def _held_by_function(function: FunctionType) -> Iterator[Any]:
    """The variables in the closure of a function, its defaults and its attributes."""
    yield from map(cell_content, function.__closure__ or ())
    yield from function.__defaults__ or ()
    yield from (function.__kwdefaults__ or {}).values()
    yield from function.__dict__.values()


def _without_modules(values: Iterable[Any]) -> Iterator[Any]:
    """Values without the modules, of which a function says itself what it reads."""
    return (one for one in values if type(one) is not ModuleType)


def namespaces_of(function: FunctionType) -> Iterator[tuple[dict[str, Any], tuple[str, ...]]]:
    """The globals of a function and of the users' modules that it has, with what it reads there."""
    names = tuple(facts_of(function.__code__).names)
    yield function.__globals__, names
    waiting = [*map(function.__globals__.get, names), *_held_by_function(function)]
    seen = {id(function.__globals__)}
    while waiting:
        value = waiting.pop()
        if type(value) is not ModuleType or id(vars(value)) in seen or not is_users_module(value):
            continue
        seen.add(id(vars(value)))
        yield vars(value), names
        waiting += map(vars(value).get, names)


def _named_in(module: ModuleType) -> Iterator[Any]:
    """What a module has for whoever holds it, which no function says it reads by name."""
    return (value for name, value in vars(module).items() if name[:2] != "__")


def cell_content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None  # a variable without a value


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
    special : function or None
        What gives the values that objects hold in a way that only their class knows.
    container : type or None
        The container that objects are.
    namespace : descriptor or None
        What gives the ``__dict__`` of objects.
    is_compiled : bool
        Objects are compiled functions.
    instances : OfInstances or None
        The code that comes with objects of a layer's or a user's class.
    is_inert : bool
        Objects have no code of the user's and hold nothing that could have any.
    """

    is_layer: bool
    is_users: bool
    slots: tuple[MemberDescriptorType, ...]
    special: Callable[[Any], Iterable[Any]] | None
    container: type[Collection[Any]] | None
    namespace: GetSetDescriptorType | None
    is_compiled: bool
    instances: OfInstances | None
    is_inert: bool

    @property
    def is_plain(self) -> bool:
        """Whether objects hold all that they hold in their ``__dict__``, and are no layers."""
        is_more = self.is_layer or self.is_compiled or bool(self.slots)
        return not is_more and self.special is None and self.container is None

    @classmethod
    def of(cls, class_: type) -> _Shape:
        users = [owner for owner in class_.__mro__ if _is_users_class(owner)]
        members = (member for owner in users for member in vars(owner).values())
        slots = tuple(one for one in members if type(one) is MemberDescriptorType)
        is_users = issubclass(class_, _OPEN) or bool(users)
        container = next((kind for kind in _CONTAINERS if issubclass(class_, kind)), None)
        is_layer = marker(class_, "__jitcore_module__") is True
        namespace = _namespace(class_)
        # Iterators, generators, cells, views of dicts.
        is_python_s = source_of_class(class_).partition(".")[0] in sys.stdlib_module_names
        is_opaque = is_python_s and namespace is None and class_.__flags__ & _HOLDS_OBJECTS
        referents = _referents if is_opaque and not is_users else None
        special = next((get for kind, get in _SPECIAL if issubclass(class_, kind)), referents)
        is_compiled = is_in_class(class_, "__jitcore_graph__")
        original = marker(class_, "__jitcore_original__") or class_
        instances = OfInstances(original) if is_layer or is_users else None
        parts = (special, container, namespace, instances)
        is_form = class_ is OfInstances or class_ is OfOthers
        is_free = not (is_compiled or is_form) and all(part is None for part in parts)
        is_inert = is_free or _is_class_of_data(class_)
        return cls(
            *(is_layer, is_users, slots, special, container, namespace),
            *(is_compiled, instances, is_inert),
        )


_HOLDS_OBJECTS = 1 << 14
"""The flag of classes whose objects the garbage collector follows."""
HEAP_TYPE = 1 << 9
"""The flag of classes whose attributes can be set."""


class Shapes:
    """The shapes of classes, which stay what they are as long as their bases do."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[type, tuple[type, ...], _Shape]] = {}

    def of(self, class_: type) -> _Shape:
        """What looking at the objects of a class starts from."""
        order = class_.__mro__
        found = self._known.get(id(class_))
        if found is None or found[1] is not order:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            found = self._known[id(class_)] = class_, order, _Shape.of(class_)
        return found[2]

    def without_data(self, one: Any) -> Any:
        """An object, or the code that comes with its class where it holds nothing but data."""
        shape = self.of(type(one))
        if shape.instances is None or not shape.is_plain:
            return one
        return shape.instances if _are_data(_held_in(shape.namespace, one).values()) else one

    def is_inert(self, one: Any) -> bool:
        """Whether an object has no code of the user's, and holds nothing that could have any."""
        class_ = type(one)
        if class_ is type:
            return not one.__flags__ & HEAP_TYPE
        if class_ is ModuleType:
            return not is_users_module(one)
        return is_data(one) if class_ is np.ndarray else self.of(class_).is_inert


_MAX_KNOWN = 256


def is_in_class(class_: type, name: str) -> bool:
    return any(name in vars(owner) for owner in class_.__mro__)


def namespace_of(one: Any) -> dict[str, Any]:
    """The ``__dict__`` that an object has, found without code of its class; empty without one."""
    return _held_in(_namespace(type(one)), one)


def _namespace(class_: type) -> GetSetDescriptorType | None:
    found = (vars(owner).get("__dict__") for owner in class_.__mro__)
    return next((one for one in found if type(one) is GetSetDescriptorType), None)


def _held_in(namespace: GetSetDescriptorType | None, one: Any) -> dict[str, Any]:
    found = None if namespace is None else namespace.__get__(one)
    return found if type(found) is dict else {}


def is_only_held(one: Any, name: str) -> bool:
    """Whether to read an attribute gives what an object holds, without any code."""
    owners = type(one).__mro__
    is_plain = not any("__getattribute__" in vars(owner) for owner in owners[:-1])
    is_layer_s = is_in_class(type(one), "__jitcore_module__")
    in_class = is_layer_s or is_in_class(type(one), name)
    return is_plain and not in_class and name in namespace_of(one)


def _reached_by_object(one: Any, shape: _Shape, shapes: Shapes) -> Iterator[Any]:
    """The class of an object, and what it holds."""
    if shape.instances is not None:
        yield shape.instances
    held = _held_in(shape.namespace, one)
    # Not by attributes: an object may have any, made at once, without an end.
    yield from (held[name] for name in ("__wrapped_function__", "__wrapped__") if name in held)
    if shape.is_layer:
        yield from getattr(one, "_compiled_methods", {}).values()
        yield from (hook.function for name in HOOKS for hook in held.get(name, {}).values())
    elif not shape.is_users:
        # An object of a library's may hold functions, and objects, that the user has given it.
        for value in _without_data(held.values()):
            if issubclass(type(value), _FUNCTIONS) or shapes.of(type(value)).is_users:
                yield value
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
class OfInstances:
    """What code may call that has objects of a class."""

    class_: type


@dataclass(frozen=True, slots=True)
class OfOthers:
    """A method of objects that are no layers, or new: what it sets of those concerns nobody.

    Parameters
    ----------
    method : FunctionType
    is_new : bool
        The object is a layer, and new with all that is in it.
    """

    method: FunctionType
    is_new: bool = False


_OF_CLASSES = ("__annotations__", "__dataclass_fields__")
"""Dicts that say what a class is made from, and stay what they are."""


def _members(of: type | OfInstances) -> Iterator[Any]:
    """The members that a class has of users' classes, and layers' ``forward``."""
    class_ = of if isinstance(of, type) else of.class_
    is_layer_s = marker(class_, "__jitcore_module__") is True
    of_others = isinstance(of, type) or not is_layer_s
    for owner in class_.__mro__:
        if source_of_class(owner).startswith("jitcore.nn."):
            yield vars(owner).get("forward")
        elif _is_users_class(owner):
            for name, one in vars(owner).items():
                if type(one) in (GetSetDescriptorType, MemberDescriptorType):
                    continue
                if name in _OF_CLASSES and type(one) is dict:
                    yield from one.values()
                    continue
                is_method = isinstance(one, FunctionType) and not is_of_library(one)
                is_new = name == "__init__" and is_layer_s
                if is_method and (is_new or of_others):
                    yield OfOthers(one, is_new)
                else:
                    yield one.__func__ if type(one) in (staticmethod, classmethod) else one


def _is_users_class(class_: type) -> bool:
    return _is_users_module(source_of_class(class_))


def source_of_class(class_: type) -> str:
    """The name of a class's module; the user may have put anything there."""
    name = marker(class_, "__module__")
    return name if type(name) is str else "__main__"


def is_users_module(module: ModuleType) -> bool:
    """Whether a module is neither Python's nor an installed package's."""
    return _is_users_module(module.__name__)


@functools.lru_cache(maxsize=4096)
def _is_users_module(name: str) -> bool:
    """Whether a module, by its name, is neither Python's nor an installed package's."""
    if name in sys.stdlib_module_names or name.partition(".")[0] == "jitcore":
        return name == "__main__"
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or not is_library(file)


def is_of_library(function: FunctionType) -> bool:
    return is_library(function.__code__.co_filename) and not _is_of_layers(function)


def _is_of_layers(function: FunctionType) -> bool:
    return (function.__module__ or "").startswith("jitcore.nn.")
