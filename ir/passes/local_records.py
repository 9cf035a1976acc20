"""Objects of plain classes that a function makes, or gets, as the values of their attributes.

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

A change gives a new value, so an object may only go elsewhere, into a variable that changes or an
attribute, when nothing changes it any more; what a method gets is looked at afterwards.  Whether it
is one after all, and is nowhere needed as a whole, only ``specialize`` can tell (see ``records``).
An object that is an argument is a ``RecordSelf`` of the input; what it is at the end is returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import FunctionType
from typing import Any

from jitcore.ir.classes import class_attribute, is_record_class
from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.operator_methods import BINARY, UNARY
from jitcore.ir.passes.inline import inline
from jitcore.ir.passes.list_uses import is_protected, place_of
from jitcore.ir.passes.list_values import Promotion
from jitcore.ir.types import OpenFunction

__all__ = ["Methods"]

CompileFunction = Callable[[Any], "Graph | None"]


class Methods:
    """The graphs of functions and methods, with objects as values.

    Parameters
    ----------
    compile_function : callable
        The front end.
    notes_attributes : bool
        Note what attributes of arguments are wherever they are set.
    """

    def __init__(self, compile_function: CompileFunction, *, notes_attributes: bool) -> None:
        self._compile_function = compile_function
        self.notes_attributes = notes_attributes
        self._graphs: dict[FunctionType | OpenFunction, Graph | None] = {}
        self._promoted: dict[tuple[FunctionType, type], Graph | None] = {}

    def function(self, graph: Graph, arguments: Mapping[int, Any]) -> Graph | None:
        """A copy of a function's graph with its objects as values; None where it has none.

        Parameters
        ----------
        graph : Graph
        arguments : mapping from int to type
            The numbers of inputs that are objects, functions, or lists of objects, and the classes
            of objects.  The copy also returns what those are at the end that it changes.
        """
        if not arguments and not _makes_objects(graph):
            return None
        twin = graph.copy()
        passed = {twin.inputs[number] for number in arguments}
        inline(twin, partial(_concerns_objects, passed))
        known = [
            self._named(twin.inputs[number], class_)
            for number, class_ in arguments.items()
            if isinstance(class_, type)
        ]
        has_made = self._promote_made(twin)
        if not all(one.is_possible() for one in known) or not (arguments or has_made):
            return None
        for promotion in known:
            last = promotion.run()
            if promotion.written:
                twin.block.add_return(last)
        return twin

    def _named(self, argument: Value, class_: type) -> _RecordPromotion:
        """What stands for an object that comes from outside, in all its uses."""
        assert argument.block is not None
        made = argument.block.insert(0, "prim::RecordSelf", names=[argument.name])
        argument.replace_all_uses_with(made.output)
        made.add_input(argument)
        return _RecordPromotion(made, class_, self)

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
        inline(twin, partial(_concerns_objects, {twin.inputs[0]}))
        self._promote_made(twin)
        promotion = self._named(twin.inputs[0], class_)
        if not promotion.is_possible():
            return None
        twin.block.add_return(promotion.run())
        return twin

    def plain(self, function: FunctionType | OpenFunction) -> Graph | None:
        """The graph of a function, the variables of one that is open after its parameters."""
        graph = self._graph(function)
        if graph is None:
            return None
        twin = graph.copy()
        inline(twin, partial(_concerns_objects, ()))
        self._promote_made(twin)
        return twin

    def mutates(self, class_: type, call: Node) -> bool:
        """Whether a method that is called may change its object."""
        return self._mutates(class_, call, set())

    def _mutates(self, class_: type, call: Node, seen: set[Any]) -> bool:
        found = class_attribute(class_, call.attributes["name"], call.attributes.get("above"))
        if found in seen:
            return False
        graph = self._graph(found) if isinstance(found, FunctionType) else None
        if graph is None or not graph.inputs:
            return found is not vars(object)["__init__"]
        seen.add(found)
        for use in graph.inputs[0].uses:
            node = use.user
            if not isinstance(node, Node) or use.index != 0:
                continue
            if node.kind == "prim::SetAttr":
                return True
            if node.kind == "prim::CallMethod" and self._mutates(class_, node, seen):
                return True
        return False

    def _graph(self, function: FunctionType | OpenFunction) -> Graph | None:
        if function not in self._graphs:
            found = self._compile_function(function)
            has_inputs = found is not None and any(one.input for one in found.captures)
            self._graphs[function] = None if has_inputs or found is None else _without_super(found)
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


def _without_super(graph: Graph) -> Graph:
    """A method's graph in which ``super().name(...)`` is a call that says where to look."""
    twin = graph.copy()
    for node in twin.find_all_nodes("prim::CallMethod"):
        bases = node.inputs[0].node
        if bases is None or bases.kind != "prim::Call" or len(bases.inputs) != 3:
            continue
        callee, above, own = bases.inputs
        if callee.constant_value is super and isinstance(above.constant_value, type):
            node.set_input(0, own)
            node.attributes["above"] = above.constant_value
            if not bases.output.uses:
                bases.destroy()
    return twin


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


def _concerns_objects(passed: Collection[Value], call: Node) -> bool:
    """Whether a called function makes objects, or gets one that is known here."""
    if "layer" in call.attributes:
        return False
    if any(value in passed or _is_made_here(value) for value in call.inputs):
        return True
    return _makes_objects(call.attributes["graph"])


def _is_made_here(value: Value) -> bool:
    return value.node is not None and _is_made(value.node)


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
            return self.methods.mutates(self.class_, node)
        return node.kind == "prim::SetAttr"

    def is_possible(self) -> bool:
        """Whether nothing changes the object once it is known elsewhere."""
        writes, leaves = [], []
        for use in self.list.uses:
            if self.is_write(use):
                if is_protected(use, self.made):
                    return False
                writes.append(_place(use, self.made))
            elif not self._only_reads(use):
                leaves.append(_place(use, self.made))
        return not writes or not leaves or max(writes) < min(leaves)

    def _fold(self) -> None:
        if self.made.kind == "prim::Call":
            self.made.kind = "prim::RecordMake"

    def _only_reads(self, use: Use) -> bool:
        """Whether a use reads attributes, or gives the object to a method for its call."""
        node = use.user
        if not isinstance(node, Node) or node.kind not in _PASSING:
            return False
        if node.kind == "prim::GetAttr" or use.index == 0:
            return True
        # Where the object changes itself, what the method gets would not.
        return node.inputs[0] is not self.list or not self.is_write(Use(node, 0))

    def _read(self, node: Node, value: Value) -> None:
        if self.written and node.kind in _PASSING:
            numbers = (n for n, operand in enumerate(node.inputs) if operand is self.list)
            known = node.attributes.get("may_change", frozenset())
            node.attributes["may_change"] = known.union(numbers)
        super()._read(node, value)

    def _write(self, node: Node, value: Value) -> Value:
        super()._read(node, value)
        is_call = node.kind == "prim::CallMethod"
        node.kind = "prim::RecordCall" if is_call else "prim::RecordSet"
        return node.add_output(name=self.list.name)


_PASSING = frozenset(
    {
        *("prim::GetAttr", "prim::CallMethod", "prim::RecordCall"),
        *("prim::isinstance", "prim::is_", "prim::isnot"),
        *BINARY,
        *UNARY,
    }
)
"""Kinds that are done with an object when they are done, but for what they give: see ``records``.
"""


def _place(use: Use, made: Node) -> float:
    """The position of a use; an object that leaves a branch may be anywhere from then on."""
    if isinstance(use.user, Block):
        assert made.block is not None
        return len(made.block.nodes) if use.user is made.block else -math.inf
    place = place_of(use, made)
    assert place is not None
    return place
