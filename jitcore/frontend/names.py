"""What a name that is not local means: closure cells, then globals, then built-ins."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from jitcore.frontend.constants import is_constant, is_stable_module, unrecorded
from jitcore.ir.classes import MISSING, class_captures
from jitcore.ir.dataclass import dataclass
from jitcore.markers import ignore

__all__ = ["Place", "Resolver", "Static", "variable_key"]

Place = tuple[int, str]
"""What tells a variable, or an attribute, from others: its namespace's identity, and its name."""


@dataclass(frozen=True, slots=True)
class Static:
    """An object that is known without running the function.

    Parameters
    ----------
    value : object
        The object as it is now.
    path : str
        What the user wrote: ``"np.linalg.solve"``.
    read : callable
        Looks the path up again.
    namespace : int
        The identity of the dict or the cell where the path starts; equal paths of functions in
        different modules differ in it.
    base : Static or None
        What ``value`` is an attribute of.
    stable : bool
        The value cannot change while ``base`` does not: an attribute of NumPy, a built-in.
    container, name : dict or cell, str or None
        Where compiled code finds the object itself: a namespace and the name in it, or a cell.
    receiver : Static or None
        What a method is bound to.
    also : tuple of Static
        What else must stay as it is for the path to lead here.
    """

    value: Any
    path: str
    read: Callable[[], Any]
    namespace: int
    base: Static | None = None
    stable: bool = False
    container: dict[str, Any] | CellType | None = None
    name: str | None = None
    receiver: Static | None = None
    also: tuple[Static, ...] = ()

    @property
    def key(self) -> Place:
        """Equal for two mentions of the same thing."""
        if self.container is not None:
            return id(self.container), self.name or ""
        return self.namespace, self.path

    def guarded(self) -> Iterator[Static]:
        """What must still be the same for ``value`` to be right; nothing for built-ins."""
        if self.base is not None:
            yield from self.base.guarded()
        yield from self.also
        if not self.stable:
            yield self

    @property
    def is_constant(self) -> bool:
        """Whether the value may stand in the graph; otherwise it becomes an input."""
        return is_constant(self.value) or self.stable


def variable_key(container: object, name: str) -> str:
    """What tells a global, or a variable in a cell, from all others."""
    return f"{id(container)} {name}"


class Resolver:
    """Looks up the free names of one function."""

    def __init__(self, function: FunctionType) -> None:
        self.code = function.__code__
        cells = function.__closure__ or ()
        self.cells: dict[str, CellType] = dict(zip(self.code.co_freevars, cells, strict=True))
        self.namespace = function.__globals__
        self._builtins: dict[str, Any] = getattr(function, "__builtins__")  # noqa: B009

    def name(self, name: str) -> Static:
        """What a name stands for; ``MISSING`` where it does not exist now."""
        if name in self.cells:
            namespace: dict[str, Any] | CellType = self.cells[name]
            read = _cell_reader(name, self.cells[name])
        else:
            namespace = self.namespace
            read = _global_reader(name, self.namespace, self._builtins)
        stable = namespace is self.namespace and self._is_builtin(name)
        try:
            return Static(read(), name, read, id(namespace), None, stable, namespace, name)
        except NameError:
            return Static(
                MISSING, name, _or_missing(read), id(namespace), container=namespace, name=name
            )

    def place_of(self, name: str) -> str:
        """What tells the variable that a name stands for from all others."""
        container: object = self.cells.get(name, self.namespace)
        return variable_key(container, name)

    def reader(self, name: str) -> Callable[[], Any]:
        """Gives the variable's value when it is called; Python's NameError where it has none."""
        if name in self.cells:
            return ignore(_cell_reader(name, self.cells[name]))
        return ignore(_global_reader(name, self.namespace, self._builtins))

    def writer(self, name: str) -> Callable[[Any], None]:
        """Assigns the variable when it is called."""
        cell, namespace = self.cells.get(name), self.namespace

        @ignore
        def write(value: Any) -> None:
            if cell is None:
                namespace[name] = value
            else:
                cell.cell_contents = value

        return write

    def deleter(self, name: str) -> Callable[[], None]:
        """Deletes the variable when it is called."""
        read, cell, namespace = self.reader(name), self.cells.get(name), self.namespace

        @ignore
        def delete() -> None:
            read()
            if cell is None:
                del namespace[name]
            else:
                del cell.cell_contents

        return delete

    def object_of(self, node: ast.expr) -> Any:
        """What an expression of names outside of the function is now; None where it is no such."""
        if isinstance(node, ast.Name) and node.id not in self.code.co_varnames:
            value = self.name(node.id).value
            return None if value is MISSING else value
        if isinstance(node, ast.Attribute):
            base = self.object_of(node.value)
            return getattr(base, node.attr, None) if isinstance(base, ModuleType | type) else None
        return None

    def _is_builtin(self, name: str) -> bool:
        return name not in self.namespace and name in self._builtins

    def missing_message(self, name: str) -> str:
        """What Python's NameError says about a name that does not exist."""
        return _CELL_MESSAGE.format(name) if name in self.cells else _GLOBAL_MESSAGE.format(name)

    def attribute(self, base: Static, name: str) -> Static | None:
        """An attribute of a module, a class or a ufunc; None where only a run can tell."""
        if not issubclass(type(base.value), ModuleType | type | np.ufunc):
            return None
        read = _attribute_reader(base.read, name)
        try:
            value = unrecorded(getattr(base.value, name))
        except Exception:
            # A module's __getattr__ and descriptors may raise anything.  The attribute is then
            # looked up when the function runs, and raises there.
            return None
        stable = base.stable or is_stable_module(base.value) or isinstance(base.value, np.ufunc)
        # A class method such as ``dict.fromkeys`` is another object each time, but does the same.
        stable = stable or _is_immutable(base.value)
        held = None if stable else _held_by_class(base, name, value, read)
        if held is not None:
            return held
        namespace = vars(base.value) if isinstance(base.value, ModuleType) else None
        found = namespace if namespace is not None and name in namespace else None
        path = f"{base.path}.{name}"
        return Static(value, path, read, base.namespace, base, stable, found, name)


def _held_by_class(base: Static, name: str, value: Any, read: Callable[[], Any]) -> Static | None:
    """An attribute that a class, or one of its bases, holds just so; None of all others.

    Compiled code finds it in the namespaces of the classes that are asked for it.
    """
    class_ = base.value
    if not isinstance(class_, type) or not _is_plain_metaclass(type(class_), name):
        return None
    asked = tuple(
        Static(one.value, one.path, one.read, id(one.container), base, False, one.container, name)
        for one in class_captures(class_, name)
    )
    held = asked[-1].value if asked else MISSING
    path = f"{base.path}.{name}"
    if held is value:
        return replace(asked[-1], path=path, read=read, also=asked[:-1])
    if isinstance(held, staticmethod) and held.__func__ is value:
        return Static(value, path, read, base.namespace, base, True, also=asked)
    if _is_method_of(class_, held, value):
        function = value.__func__
        return Static(function, path, read, base.namespace, base, True, receiver=base, also=asked)
    return None


def _is_method_of(class_: type, held: object, value: object) -> bool:
    """Whether this is what a class method gives: its function, bound to the class."""
    if not isinstance(held, classmethod) or type(value) is not MethodType:
        return False
    is_its_own = value.__func__ is held.__func__ and value.__self__ is class_
    return is_its_own and isinstance(value.__func__, FunctionType)


def _is_plain_metaclass(class_: type, name: str) -> bool:
    """Whether the classes of a metaclass are asked for an attribute as all classes are."""
    own = [one for one in class_.__mro__ if one not in (type, object)]
    return not any(name in vars(one) or "__getattribute__" in vars(one) for one in own)


def _is_immutable(value: object) -> bool:
    """Whether no attribute of a class can be set."""
    if not isinstance(value, type):
        return False
    return not value.__flags__ & _HEAP_TYPE or bool(value.__flags__ & _IMMUTABLE_TYPE)


_HEAP_TYPE = 1 << 9
_IMMUTABLE_TYPE = 1 << 8

_GLOBAL_MESSAGE = "name '{}' is not defined"
_CELL_MESSAGE = (
    "cannot access free variable '{}' where it is not associated with a value in enclosing scope"
)


def _cell_reader(name: str, cell: CellType) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            raise NameError(_CELL_MESSAGE.format(name), name=name) from None

    return read


def _global_reader(
    name: str, namespace: dict[str, Any], builtins: dict[str, Any]
) -> Callable[[], Any]:
    def read() -> Any:
        found = namespace.get(name, MISSING)
        found = builtins.get(name, MISSING) if found is MISSING else found
        if found is MISSING:
            raise NameError(_GLOBAL_MESSAGE.format(name), name=name)
        return found

    return read


def _or_missing(read_name: Callable[[], Any]) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return read_name()
        except NameError:
            return MISSING

    return read


def _attribute_reader(read_base: Callable[[], Any], name: str) -> Callable[[], Any]:
    def read() -> Any:
        return unrecorded(getattr(read_base(), name))

    return read
