"""Objects of plain classes that a function makes for itself, as the values of their attributes.

Before, where ``Sum`` is a class whose method ``add`` changes it::

    graph(%n : int):
      %0 : object = prim::Constant[value=Sum]()
      %s : Any = prim::Call(%0)
      prim::For(%n)
        block0(%i : Any):
          %1 : Any = prim::CallMethod[name="add"](%s, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2)
      %3 : Any = prim::GetAttr[name="total"](%s)
      return (%3)

After::

    graph(%n : int):
      %0 : object = prim::Constant[value=Sum]()
      %s : Any = prim::RecordMake(%0)
      %s.2 : Any = prim::For(%n, %s)
        block0(%i : Any, %s.1 : Any):
          %1 : Any, %4 : Any = prim::RecordCall[name="add"](%s.1, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2, %4)
      %3 : Any = prim::GetAttr[name="total"](%s.2)
      return (%3)

A change gives a new value, so an object may only go elsewhere, into a variable that changes, an
attribute or an argument, when nothing changes it any more.  Whether it is one after all, and is
nowhere needed as a whole, only ``specialize`` can tell (see ``records``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import FunctionType
from typing import Any

from jitcore.ir.classes import MISSING, class_attribute
from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.passes.inline import inline
from jitcore.ir.passes.list_uses import is_protected, place_of
from jitcore.ir.passes.list_values import Promotion

__all__ = ["Methods", "is_record_class"]

CompileFunction = Callable[[Any], "Graph | None"]

_HOOKS = ("__getattr__", "__del__", "__slots__")
_PLAIN = ("__new__", "__setattr__", "__getattribute__", "__delattr__")


def is_record_class(class_: Any) -> bool:
    """Whether objects of a class are made by ``__init__`` and have plain attributes."""
    if type(class_) is not type or class_.__module__ == "builtins":
        return False
    if any(class_attribute(class_, name) is not MISSING for name in _HOOKS):
        return False
    if any(getattr(class_, name) is not getattr(object, name) for name in _PLAIN):
        return False
    return isinstance(class_attribute(class_, "__init__"), FunctionType)


class Methods:
    """The graphs of functions and methods, with objects as values.

    Parameters
    ----------
    compile_function : callable
        The front end.
    """

    def __init__(self, compile_function: CompileFunction) -> None:
        self._compile_function = compile_function
        self._graphs: dict[FunctionType, Graph | None] = {}
        self._promoted: dict[tuple[FunctionType, type], Graph | None] = {}

    def function(self, graph: Graph) -> Graph | None:
        """A copy of a function's graph with its objects as values; None where it makes none."""
        if not _makes_objects(graph):
            return None
        twin = graph.copy()
        inline(twin, _concerns_objects)
        return twin if self._promote_made(twin) else None

    def method(self, function: FunctionType, class_: type) -> Graph | None:
        """A method's graph, which gives its result and what ``self`` is then.

        None where ``self`` may become known to others while it changes, or there is no graph.
        """
        key = function, class_
        if key not in self._promoted:
            self._promoted[key] = None
            self._promoted[key] = self._method(function, class_)
        return self._promoted[key]

    def _method(self, function: FunctionType, class_: type) -> Graph | None:
        graph = self._graph(function)
        if graph is None or not graph.inputs:
            return None
        twin = graph.copy()
        inline(twin, _concerns_objects)
        self._promote_made(twin)
        own = twin.inputs[0]
        made = twin.block.insert(0, "prim::RecordSelf", names=[own.name])
        own.replace_all_uses_with(made.output)
        made.add_input(own)
        promotion = _RecordPromotion(made, class_, self)
        if not promotion.is_possible():
            return None
        twin.block.add_return(promotion.run())
        return twin

    def mutates(self, class_: type, name: str) -> bool:
        """Whether a method may change its object."""
        return self._mutates(class_, name, set())

    def _mutates(self, class_: type, name: str, seen: set[str]) -> bool:
        found = class_attribute(class_, name)
        graph = self._graph(found) if isinstance(found, FunctionType) else None
        if graph is None or not graph.inputs:
            return True
        seen.add(name)
        for use in graph.inputs[0].uses:
            node = use.user
            if not isinstance(node, Node) or use.index != 0:
                continue
            if node.kind == "prim::SetAttr":
                return True
            if node.kind == "prim::CallMethod":
                called = node.attributes["name"]
                if called not in seen and self._mutates(class_, called, seen):
                    return True
        return False

    def _graph(self, function: FunctionType) -> Graph | None:
        if function not in self._graphs:
            found = self._compile_function(function)
            has_inputs = found is not None and any(one.input for one in found.captures)
            self._graphs[function] = None if has_inputs else found
        return self._graphs[function]

    def _promote_made(self, graph: Graph) -> bool:
        """Make values of the objects that a graph makes."""
        found = [
            _RecordPromotion(node, node.inputs[0].constant_value, self)
            for node in graph.nodes()
            if _is_made(node)
        ]
        possible = [one for one in found if one.is_possible()]
        for promotion in possible:
            promotion.run()
        return bool(possible)


def _is_made(node: Node) -> bool:
    if node.kind != "prim::Call" or "starred" in node.attributes or "**" in node.keywords:
        return False
    return is_record_class(node.inputs[0].constant_value)


def _makes_objects(graph: Graph) -> bool:
    """Whether a function, or one that it calls, makes objects of such a class."""
    waiting, seen = [graph], {graph}
    while waiting:
        for node in waiting.pop().nodes():
            if _is_made(node):
                return True
            callee = node.attributes.get("graph")
            if isinstance(callee, Graph) and callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


def _concerns_objects(call: Node) -> bool:
    if "layer" in call.attributes:
        return False
    made = (value.node for value in call.inputs)
    takes_object = any(node is not None and _is_made(node) for node in made)
    return takes_object or _makes_objects(call.attributes["graph"])


class _RecordPromotion(Promotion):
    """Replaces one object by the values it has one after the other."""

    def __init__(self, made: Node, class_: type, methods: Methods) -> None:
        self.class_ = class_
        self.methods = methods
        super().__init__(made)

    def is_write(self, use: Use) -> bool:
        """Whether a use sets an attribute, or calls a method that may do so."""
        node = use.user
        if not isinstance(node, Node) or use.index != 0:
            return False
        if node.kind == "prim::CallMethod":
            return self.methods.mutates(self.class_, node.attributes["name"])
        return node.kind == "prim::SetAttr"

    def is_possible(self) -> bool:
        """Whether nothing changes the object once it is known elsewhere."""
        writes, leaves = [], []
        for use in self.list.uses:
            if self.is_write(use):
                if is_protected(use, self.made):
                    return False
                writes.append(_place(use, self.made))
            elif not _reads(use):
                leaves.append(_place(use, self.made))
        return not writes or not leaves or max(writes) < min(leaves)

    def _fold(self) -> None:
        if self.made.kind == "prim::Call":
            self.made.kind = "prim::RecordMake"

    def _read(self, node: Node, value: Value) -> None:
        if self.written and node.kind in _MEMBERS and node.inputs[0] is self.list:
            node.attributes["may_change"] = True
        super()._read(node, value)

    def _write(self, node: Node, value: Value) -> Value:
        super()._read(node, value)
        is_call = node.kind == "prim::CallMethod"
        node.kind = "prim::RecordCall" if is_call else "prim::RecordSet"
        return node.add_output(name=self.list.name)


_MEMBERS = frozenset({"prim::GetAttr", "prim::CallMethod"})


def _reads(use: Use) -> bool:
    """Whether a use reads an attribute or calls a method."""
    node = use.user
    return isinstance(node, Node) and use.index == 0 and node.kind in _MEMBERS


def _place(use: Use, made: Node) -> float:
    """The position of a use; an object that leaves a branch may be anywhere from then on."""
    if isinstance(use.user, Block):
        assert made.block is not None
        return len(made.block.nodes) if use.user is made.block else -math.inf
    place = place_of(use, made)
    assert place is not None
    return place
