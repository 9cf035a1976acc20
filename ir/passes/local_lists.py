"""Lists that grow in a function and are seen by nobody else while they do, as values.

Before::

    graph(%n : int):
      %0 : int = prim::Constant[value=1]()
      %l : Any = prim::ListConstruct()
      prim::For(%n)
        block0(%i : Any):
          %1 : Any = prim::CallMethod[name="append"](%l, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2)
      %3 : Any = prim::len(%l)
      return (%3)

After::

    graph(%n : int):
      %0 : int = prim::Constant[value=1]()
      %l : Any = prim::ListValue()
      %l.2 : Any = prim::For(%n, %l)
        block0(%i : Any, %l.1 : Any):
          %1 : Any = prim::ListAppend(%l.1, %i)
          %2 : bool = prim::Constant[value=True]()
          -> (%2, %1)
      %3 : Any = prim::len(%l.2)
      return (%3)

``specialize`` turns such a value into an array and a length where all elements have one type.  A
list stays as it is where something else may know it before it is complete: where it is stored,
passed on or returned from a block, and changed afterwards.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.passes.inline import inline
from jitcore.ir.passes.list_arguments import known_arguments, promote_arguments
from jitcore.ir.passes.list_uses import carried_values, is_local, makes_copy, repeated_display
from jitcore.ir.passes.list_values import Promotion

__all__ = ["with_local_lists"]


def with_local_lists(
    graph: Graph, *, only_written: bool = False, arguments: Collection[int] = ()
) -> Graph | None:
    """A copy of a generic graph in which such lists are values; None where it has none.

    With ``only_written``, lists that never change stay what they are.  The ``arguments`` are the
    numbers of inputs that are lists, of which values are made as well.
    """
    if not arguments and not _makes_lists(graph):
        return None
    twin = graph.copy()
    passed = {twin.inputs[number] for number in arguments}
    inline(twin, partial(_concerns_lists, passed))
    made = known_arguments(twin, arguments)
    found: dict[Node, None] = dict.fromkeys(made)
    lists = {node.output for node in made}
    for node in twin.nodes():
        if _may_be_local(node, lists) and is_local(node, only_written=only_written):
            found[node] = None
            lists |= {node.output} | (carried_values(node.output) or set())
    for node in found:
        if node not in made:
            Promotion(node).run()
    promote_arguments(made)
    return twin if found else None


def _may_be_local(node: Node, lists: Collection[Value]) -> bool:
    """Whether a node makes a list: a display, or a copy of a list that is known."""
    if makes_copy(node):
        return any(value in lists or _is_range(value) for value in node.inputs)
    return node.kind == "prim::ListConstruct" or repeated_display(node) is not None


def _is_range(value: Value) -> bool:
    return value.node is not None and value.node.kind == "prim::range"


def _concerns_lists(passed: Collection[Value], call: Node) -> bool:
    """Whether a called function makes lists, or gets one that is known here and may change it."""
    if "layer" in call.attributes:
        return False
    made = (value.node for value in call.inputs)
    takes_list = any(one is not None and one.kind == "prim::ListConstruct" for one in made)
    takes_list = takes_list or any(value in passed for value in call.inputs)
    return takes_list or _makes_lists(call.attributes["graph"])


def _makes_lists(graph: Graph) -> bool:
    """Whether a function, or one that it calls, has a list display, or makes lists by calls."""
    waiting, seen = [graph], {graph}
    while waiting:
        for node in waiting.pop().nodes():
            if node.kind == "prim::ListConstruct" or _is_call(node):
                return True
            callee = node.attributes.get("graph")
            if isinstance(callee, Graph) and callee not in seen:
                seen.add(callee)
                waiting.append(callee)
    return False


def _is_call(node: Node) -> bool:
    return node.kind == "prim::Call" and makes_copy(node)
