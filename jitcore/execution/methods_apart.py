"""Methods that are compiled for themselves, because Python runs the programs that call them.

Where Python has an object, it finds the methods of that by itself, each time anew.  What it has
found is then called by its compiled form, which is made once for each function and falls back to
the plain one.  A form is watched in its first calls: where nothing in it turns out to be native,
where it calls itself, and where Python runs its program and has done the same calls sooner, the
plain function is called from then on.
"""

from __future__ import annotations

import dis
import functools
import operator
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from threading import get_ident
from time import perf_counter
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.execution.functions_apart import compiled_apart
from jitcore.execution.plans import NativePlan
from jitcore.execution.specializations import Specialization
from jitcore.execution.trials import TIMED_CALLS, Turns
from jitcore.frontend.constants import function_mark, is_layer
from jitcore.frontend.function_facts import facts_of, makes_objects
from jitcore.frontend.libraries import is_library
from jitcore.frontend.source import has_source
from jitcore.ir.classes import MISSING, class_attribute, is_record_class
from jitcore.ir.graph import Graph, Node
from jitcore.ir.types import ANY

__all__ = ["MethodForms"]

WATCHED_CALLS = 4
"""How many calls of a form show what it is worth."""

FIRST_TIMED = 40
LAST_TIMED = FIRST_TIMED + TIMED_CALLS
"""Which calls of a form that Python runs are timed; by then it has entries of its own."""

_REASON = "a method that is compiled for itself, where the object's class has one"

_OPERATORS: dict[str, tuple[str, Callable[..., Any]]] = {
    f"prim::{name}": (f"__{name.strip('_')}__", getattr(operator, name))
    for name in (
        *("add", "sub", "mul", "truediv", "floordiv", "mod", "matmul"),
        *("lshift", "rshift", "and_", "or_", "xor"),
    )
}
"""The binary operators by their kinds: the left operand's method, and Python's own function."""

Function = Callable[..., Any]


class MethodForms:
    """The compiled forms of the methods that one program, and what it calls, have come upon.

    Parameters
    ----------
    numerics : str or None
        The program's arithmetic, as `script` was told.

    Attributes
    ----------
    call : callable
        Calls its first argument, which is a method, a class or an object, with the others.
    """

    def __init__(self, numerics: str | None) -> None:
        self._numerics = numerics
        self._classes: set[type] = set()
        self._named: dict[str, set[FunctionType]] = {}
        self._forms: dict[Any, Function] = {}
        self.call = self._caller()
        self._operators: dict[str, Function] = {}

    def know(self, values: Iterable[Any]) -> None:
        """Take the classes of values, and those that are values, for classes of objects to come."""
        for value in values:
            parts = list(value.values()) if type(value) is dict else value
            if type(value) in (list, tuple, dict):
                self._know_class(type(next(iter(parts), None)))
            self._know_class(value if _is_class(value) else type(value))

    def mark(self, graph: Graph) -> frozenset[str]:
        """Have a typed graph call methods that may be worth it by their forms; gives their names.

        Before::

            %y : Any = prim::CallMethod[name="step"](%x)

        After::

            %y : Any = prim::CallMethod[name="step", caller=<call>](%x)

        Operators are called so, too, where their operands may be objects.
        """
        self.know(one.value for one in graph.captures)
        self.know(
            node.attributes["value"] for node in graph.nodes() if node.kind == "prim::Constant"
        )
        marked = set()
        for node in graph.nodes():
            name = self._wanted(node)
            if name is not None and self._is_worthwhile(name):
                is_operator = node.kind in _OPERATORS
                node.attributes["caller"] = self._operator(node.kind) if is_operator else self.call
                node.host_reason = _REASON
                marked.add(name)
        return frozenset(marked)

    def forms_of(self, names: Iterable[str]) -> Iterator[tuple[FunctionType, Any]]:
        """The methods of these names that were called, with their forms; None where Python is."""
        wanted = set(names)
        for function, form in list(self._forms.items()):
            if function.__name__ in wanted:
                yield function, None if form is function else getattr(form, "form", form)

    def are_plain(self, names: Iterable[str]) -> bool:
        """Whether all methods of these names have turned out to be Python's."""
        return not any(map(self._is_worthwhile, names))

    def _wanted(self, node: Node) -> str | None:
        """The name of the method that a node may call; None where it calls none."""
        if node.kind == "prim::CallMethod":
            name: str = node.attributes["name"]
            return name
        if node.kind in _OPERATORS:
            is_known = any(value.type != ANY for value in node.inputs[:1])
            return None if is_known else _OPERATORS[node.kind][0]
        if node.kind != "prim::Call":
            return None
        callee = node.inputs[0].constant
        if callee is None:
            return "__call__"
        value = callee.attributes["value"]
        init = _initializer(value) if _is_class(value) else None
        # Other classes may have an ``__init__`` that is worth it.
        return "__init__" if init is not None and self._may_gain(init) else None

    def _know_class(self, class_: type) -> None:
        waiting = [class_]
        while waiting:
            for owner in waiting.pop().__mro__:
                if owner not in self._classes and not is_layer(owner):
                    self._classes.add(owner)
                    waiting += self._know_methods(owner)

    def _know_methods(self, owner: type) -> Iterator[type]:
        """Note the methods of a class; gives the classes that they name."""
        for name, held in list(vars(owner).items()):
            if type(held) is not FunctionType or not _is_of_user(held):
                continue
            self._named.setdefault(name, set()).add(held)
            yield from filter(_is_class, _named_by(held))

    def _is_worthwhile(self, name: str) -> bool:
        """Whether a method of this name is called by a form, or may be."""
        return any(map(self._may_gain, list(self._named.get(name, ()))))

    def _may_gain(self, function: FunctionType) -> bool:
        form = self._forms.get(function)
        return self._works(function, set()) if form is None else form is not function

    def _works(self, function: FunctionType, seen: set[FunctionType]) -> bool:
        """Whether there is a loop, or something of NumPy's, in a function or what it may call."""
        if function in seen:
            return False
        seen.add(function)
        if _has_loop(function.__code__):
            return True
        return any(
            one is np or (type(one) is FunctionType and _is_of_user(one) and self._works(one, seen))
            for one in self._called_by(function)
        )

    def _called_by(self, function: FunctionType) -> Iterator[Any]:
        """What a function may call: globals, and methods of that name in any class."""
        yield from _named_by(function)
        facts = facts_of(function.__code__)
        for name in facts.methods | facts.own_methods:
            yield from list(self._named.get(name, ()))

    def _caller(self) -> Function:
        forms, made_for = self._forms, self._made_for

        def call(callee: Any, /, *args: Any, **keywords: Any) -> Any:
            kind = type(callee)
            if kind is MethodType:
                function = callee.__func__
                if type(function) is FunctionType:
                    form = forms.get(function) or made_for(function, callee.__self__)
                    return form(callee.__self__, *args, **keywords)
            elif issubclass(kind, type):
                if (init := _initializer(callee)) is not None:
                    return construct(callee, init, args, keywords)
            elif kind is not FunctionType:
                function = class_attribute(kind, "__call__")
                if type(function) is FunctionType:
                    form = forms.get(function) or made_for(function, callee)
                    return form(callee, *args, **keywords)
            return callee(*args, **keywords)

        def construct(
            class_: Any, function: FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]
        ) -> Any:
            """What ``type.__call__`` does for a class that has only an ``__init__`` of its own."""
            # With the arguments: where ``__new__`` was set and deleted, Python refuses them.
            made = object.__new__(class_, *args, **keywords)
            form = forms.get(function) or made_for(function, made)
            result = form(made, *args, **keywords)
            if result is not None:
                # Python has its own words for that.
                type("Wrong", (), {"__init__": lambda self: result})()
            return made

        return call

    def _operator(self, kind: str) -> Function:
        """What does a binary operator, by the form of the left operand's method if it has one."""
        if kind not in self._operators:
            self._operators[kind] = self._operating(*_OPERATORS[kind])
        return self._operators[kind]

    def _operating(self, name: str, plain: Function) -> Function:
        forms, made_for = self._forms, self._made_for

        def operate(left: Any, right: Any, /) -> Any:
            kind, other = type(left), type(right)
            function = class_attribute(kind, name)
            # Python asks an object of a derived class first.
            is_first = other is kind or kind not in other.__mro__
            if type(function) is FunctionType and is_first and not _may_refuse(function):
                form = forms.get(function) or made_for(function, left)
                result = form(left, right)
                return _refused(left, right, name, plain) if result is NotImplemented else result
            return plain(left, right)

        return operate

    def _made_for(self, function: FunctionType, receiver: Any) -> Function:
        """What is called for a function from now on."""
        self._know_class(type(receiver))
        return self._forms.setdefault(function, self._compiled(function, receiver))

    def _compiled(self, function: FunctionType, receiver: Any) -> Function:
        may_be = _is_of_user(function) and not is_layer(receiver) and has_source(function)
        if not may_be or function_mark(function) or not self._works(function, set()):
            return function
        form = compiled_apart(function, self._numerics)
        if form is None:
            return function
        form.methods = form._executor.methods = self
        is_other = form.is_recursive or form.current_graph().only_compiled
        return function if is_other else _Watched(function, form, self)

    def leave(self, function: FunctionType) -> None:
        """Call the plain function from now on."""
        self._forms[function] = function

    def settle(self, function: FunctionType, form: Any) -> None:
        """Decide what is called, by what the first calls of a form have shown."""
        known: list[Specialization] = form.specializations
        if not known or not _is_of_use(known[-1]):
            self.leave(function)
        elif all(isinstance(one.plan, NativePlan) for one in known):
            if not self._reaches(function, function, set()):
                self._forms[function] = form

    def _reaches(self, function: FunctionType, wanted: FunctionType, seen: set[Any]) -> bool:
        """Whether a function may call another one, as far as names say it."""
        for one in self._called_by(function):
            if one is wanted:
                return True
            if type(one) is FunctionType and one not in seen:
                seen.add(one)
                if self._reaches(one, wanted, seen):
                    return True
        return False


class _Watched:
    """A form whose calls by one another are noticed: each would take several of Python's frames."""

    __slots__ = ("calls", "form", "forms", "function", "running", "turns")

    def __init__(self, function: FunctionType, form: Any, forms: MethodForms) -> None:
        self.function, self.form, self.forms = function, form, forms
        self.running = set[int]()
        self.calls = 0
        self.turns = Turns(form, function)

    def __call__(self, /, *args: Any, **keywords: Any) -> Any:
        thread = get_ident()
        if thread in self.running:
            self.forms.leave(self.function)
            return self.function(*args, **keywords)
        self.running.add(thread)
        called: Function = self.turns.next() if self.calls < LAST_TIMED else self.form
        begin = perf_counter()
        try:
            return called(*args, **keywords)
        finally:
            took = perf_counter() - begin
            self.running.discard(thread)
            self.calls += 1
            if self.calls > FIRST_TIMED:
                self._note(called, took)
            elif self.calls % WATCHED_CALLS == 0:
                self.forms.settle(self.function, self.form)

    def _note(self, called: Function, took: float) -> None:
        if self.calls <= LAST_TIMED:
            self.turns.note(called, took)
        if self.calls == LAST_TIMED:
            if self.turns.saved:
                self.forms.leave(self.function)
        elif self.calls % WATCHED_CALLS == 0:
            self.forms.settle(self.function, self.form)


def _is_of_use(found: Specialization) -> bool:
    """Whether something that pays is native in what calls run, or in methods that it calls."""
    if isinstance(found.plan, NativePlan):
        much: bool = import_module("jitcore.fusers.regions").has_much_to_do(found.typed)
        return much
    within = (one for region in found.plan.regions.values() for one in region.specializations)
    return bool(found.plan.methods) or any(map(_is_of_use, within))


def _may_refuse(function: FunctionType) -> bool:
    """Whether a method says that it does not know an operand; Python goes on then."""
    return "NotImplemented" in function.__code__.co_names


def _refused(left: Any, right: Any, name: str, plain: Function) -> Any:
    """What Python does after the left operand's method has refused: it asks the right one's."""
    kind, other = type(left), type(right)
    asked = (kind, other) if name == "__mul__" else (kind,)
    if any(issubclass(one, _SEQUENCES) for one in asked):
        # These have ways of their own to be added and repeated.
        return plain(left, right)
    reflected = class_attribute(other, f"__r{name[2:]}")
    if other is not kind and reflected is not MISSING:
        result = reflected.__get__(right, other)(left)
        if result is not NotImplemented:
            return result
    # Python has its own words for that.
    return plain(*(type(one.__name__, (), {})() for one in (kind, other)))


_SEQUENCES = (list, tuple, str, bytes, bytearray)


def _is_class(value: object) -> bool:
    """Whether something is a class, which only its type knows for sure."""
    return issubclass(type(value), type)


def _initializer(class_: type) -> FunctionType | None:
    """The ``__init__`` of a class of records; None where it is compiled already."""
    if not is_record_class(class_):
        return None
    found = class_attribute(class_, "__init__")
    return found if isinstance(found, FunctionType) else None


def _is_of_user(function: FunctionType) -> bool:
    """Whether a function may be compiled for itself."""
    code = function.__code__
    return not (makes_objects(code) or is_library(code.co_filename))


def _named_by(function: FunctionType) -> Iterator[Any]:
    """What a function may find in its globals by the names in its code."""
    for name in facts_of(function.__code__).names:
        if name in function.__globals__:
            yield function.__globals__[name]


@functools.lru_cache(maxsize=4096)
def _has_loop(code: CodeType) -> bool:
    jumps = {*dis.hasjrel, *dis.hasjabs}
    is_back = any(
        one.opcode in jumps and one.argval <= one.offset for one in dis.get_instructions(code)
    )
    inner = (one for one in code.co_consts if isinstance(one, CodeType))
    return is_back or any(map(_has_loop, inner))
