"""What code a graph may run that came in with its arguments.

A graph takes attributes and variables for what they were when a call began, which is right as
long as nothing assigns them on the way.  What the arguments bring along may do so: functions,
methods of objects and what stands behind operators.  It counts only where the graph may run it:
``len(d)`` of a dict runs none of what is in it, and ``d["k"] * 2`` that of one element.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property, partial
from types import FunctionType, MethodType, ModuleType
from typing import Any

from jitcore.frontend.assignments import KnownCode, assigned_by, is_among, is_of_layer
from jitcore.frontend.names import variable_key
from jitcore.frontend.reached import holds_data, is_data, is_only_held, namespace_of
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Use, Value

__all__ = ["ArgumentCode"]

_EXACT = (list, dict, tuple, set, frozenset)
"""The classes whose own operations run no code of what they hold, but for comparisons."""

_ITEMS = (list, dict, tuple)

_FUNCTIONS = frozenset(map(id, (FunctionType, MethodType, partial)))
"""Identities, because classes may have a class of the user's, with a hash of its own."""

_LOOKING = ("prim::len", "prim::bool")
"""What only asks a container itself."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Something in an argument that a graph works with.

    Parameters
    ----------
    input : int
    steps : tuple of pairs
        The items, ``("item", key)``, and attributes, ``("attribute", name)``, that lead to it.
    use : str
        ``"run"``: its code, or that of what is in it, may be run; ``"ask"``: only its own, not that
        of its items; ``"pass"``: none, something in it is read.
    """

    input: int
    steps: tuple[tuple[str, Any], ...]
    use: str


class ArgumentCode:
    """The code in arguments that may change what a graph takes for granted.

    Parameters
    ----------
    graph : Graph

    Attributes
    ----------
    taken : frozenset of str
        The attributes and variables whose values the graph takes for granted during a call.
    parameters : int
        How many inputs of the graph are arguments; the others are captured.
    """

    def __init__(self, graph: Graph) -> None:
        self.taken = _taken(graph)
        captured = sum(one.input is not None for one in graph.captures)
        self.parameters = len(graph.inputs) - captured
        self._graph = graph
        self._known = KnownCode()

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        found = dict.fromkeys(_parts(self._graph))
        # What is inside of a part comes with it.
        whole = {(one.input, one.steps) for one in found if one.use == "run"}
        return tuple(one for one in found if not _is_within(one, whole))

    def assigned(self, args: Sequence[Any]) -> set[str]:
        """The attributes and variables that code in the arguments may assign."""
        given = self.of(args)
        return assigned_by(given, self._known) if given else set()

    def is_settled(self, args: Sequence[Any]) -> bool:
        """Whether code in the arguments assigns nothing that the graph takes for granted."""
        return not self.is_concerned(args, self.assigned(args) - self._graph.assigned)

    def of(self, args: Sequence[Any]) -> list[Any]:
        """The objects in the arguments whose code a call may run."""
        found: list[Any] = []
        for part in self._parts if self.taken or _is_beside_function(args) else ():
            found += _found(args[part.input], part)
        return found

    def is_known(self, args: Sequence[Any]) -> bool:
        """Whether a call with all arguments of these classes runs the same code of theirs."""
        if not (self.taken or _is_beside_function(args)):
            return True
        return all(_says_all(args[part.input], part) for part in self._parts)

    def is_concerned(self, args: Sequence[Any], found: Collection[str]) -> bool:
        """Whether what code in the arguments assigns is something that a call takes for granted.

        A function that comes in may read what the code beside it assigns.
        """
        if not found:
            return False
        return any(is_among(name, found) for name in self.taken) or _is_beside_function(args)


def _is_beside_function(args: Sequence[Any]) -> bool:
    """Whether there is a function, which may read globals, and something else with code."""
    if _FUNCTIONS.isdisjoint(map(id, map(type, args))):
        return False
    return sum(not is_data(one) for one in args) > 1


def _taken(graph: Graph) -> frozenset[str]:
    """The attributes and variables that a graph reads when a call begins, and not later."""
    captures = [one for one in graph.captures if not issubclass(type(one.value), ModuleType)]
    keys = {variable_key(one.container, one.key) for one in captures if one.key is not None}
    # Paths in files begin at the layer itself.
    of_layers = {one.key for one in captures if one.key and is_of_layer(one.container)}
    attributes = {one.path.rpartition(".")[2] for one in captures if "." in one.path}
    return frozenset(keys | of_layers | attributes)


def _parts(graph: Graph) -> Iterator[_Part]:
    captured = {one.input for one in graph.captures if one.input is not None}
    for number, value in enumerate(graph.inputs):
        if value not in captured:
            yield from _worked_with(value, _Part(number, (), "run"), graph.block)


def _worked_with(value: Value, part: _Part, returning: Block | None) -> Iterator[_Part]:
    """The parts of an argument that a graph works with, where a value is one part of it.

    What the block that is ``returning`` gives back goes to the caller as it is.
    """
    for use in value.uses:
        if isinstance(use.user, Block):
            if use.user is not returning:
                yield part
            continue
        yield from _worked_with_by(use.user, use, part, returning)


def _worked_with_by(node: Node, use: Use, part: _Part, returning: Block | None) -> Iterator[_Part]:
    step = _step(node) if use.index == 0 else None
    called = node.attributes.get("graph")
    if step is not None:
        inner = _Part(part.input, (*part.steps, step), "run")
        yield _Part(part.input, inner.steps, "pass")
        yield from _worked_with(node.outputs[0], inner, returning)
    elif node.kind in _LOOKING:
        yield _Part(part.input, part.steps, "ask")
    elif node.kind == "prim::CallFunction" and isinstance(called, Graph):
        yield from _worked_with(called.inputs[use.index], part, None)
    else:
        yield part


def _step(node: Node) -> tuple[str, Any] | None:
    """The item or attribute that a node reads by a name that the graph says."""
    if node.kind == "prim::GetAttr":
        return "attribute", node.attributes["name"]
    if node.kind == "prim::getitem" and node.inputs[1].constant is not None:
        key = node.inputs[1].constant_value
        return ("item", key) if type(key) in (int, str) else None
    return None


def _is_within(part: _Part, whole: set[tuple[int, tuple[tuple[str, Any], ...]]]) -> bool:
    """Whether another part has a part in it."""
    longest = len(part.steps) + (part.use != "run")
    return any((part.input, part.steps[:length]) in whole for length in range(longest))


def _found(value: Any, part: _Part) -> tuple[Any, ...]:
    """What a part of an argument is, or what on the way to it may run code; nothing of data."""
    for kind, name in part.steps:
        if is_data(value):
            return ()
        if kind == "item" and _is_one_of(value, _ITEMS):
            try:
                value = value[name]
            except (KeyError, IndexError, TypeError):
                return ()  # as the call will say
        elif kind == "attribute" and is_only_held(value, name):
            value = namespace_of(value)[name]
        else:
            return (value,)
    is_free = part.use == "pass" or (part.use == "ask" and _is_one_of(value, _EXACT))
    return () if is_free or is_data(value) or holds_data(value) else (value,)


def _says_all(value: Any, part: _Part) -> bool:
    """Whether the class of an argument says all about the code in a part of it."""
    if type(value) is tuple and part.use == "run":
        return all(map(is_data, value))
    is_asked = part.use == "ask" and not part.steps
    is_read = part.use == "pass" and len(part.steps) == 1 and part.steps[0][0] == "item"
    is_free = (is_asked and _is_one_of(value, _EXACT)) or (is_read and _is_one_of(value, _ITEMS))
    return is_free or is_data(value)


def _is_one_of(value: Any, classes: tuple[type, ...]) -> bool:
    return any(type(value) is one for one in classes)
