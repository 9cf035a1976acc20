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
passed on or returned from a block, and changed afterwards.  Where all of a function is to be
native, such a list is a shared one (``list_heap``) from the place on where it is made.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from typing import Literal

from jitcore.ir.carried import carried_values, sources_of
from jitcore.ir.graph import Graph, Node, Value
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.passes.inline import inline
from jitcore.ir.specialize.lists.list_arguments import (
    known_arguments,
    promote_arguments,
    share_arguments,
)
from jitcore.ir.specialize.lists.list_extensions import extend_lists_in_place
from jitcore.ir.specialize.lists.list_uses import (
    feeds_arrays,
    is_kept_once,
    is_local,
    kept_uses,
    makes_copy,
    may_copy_array,
    repeated_display,
)
from jitcore.ir.specialize.lists.list_values import Promotion

__all__ = ["ListMode", "with_local_lists"]

ListMode = Literal["shared", "local", "written"]


def with_local_lists(
    graph: Graph,
    mode: ListMode = "local",
    arguments: Collection[int] = (),
    *,
    are_nested: bool = False,
    has_heap: bool = False,
    copies_arrays: bool = False,
) -> Graph | None:
    """A copy of a generic graph in which such lists are values; None where it has none.

    Parameters
    ----------
    graph : Graph
    mode : str
        With ``"written"``, lists that never change stay what they are.  With ``"shared"``, all
        lists that are not local are shared ones; there is no copy where it has none of these.
    arguments : collection of int
        The numbers of inputs that are lists, of which values are made as well, or shared lists.
    are_nested : bool
        Some of these are lists of lists.
    has_heap : bool
        There may be shared lists beside these: objects have some, and their methods make some.
    copies_arrays : bool
        What ``list(x)`` and the like copy is taken for an array where it is no list.
    """
    is_sharing = mode == "shared"
    has_heap &= is_sharing
    if not (arguments or has_heap or _makes_lists(graph)):
        return None
    twin = graph.copy()
    passed = {twin.inputs[number] for number in arguments}
    inline(twin, _is_no_layer if is_sharing else partial(_concerns_lists, passed))
    made = known_arguments(twin, arguments)
    extend_lists_in_place(twin)
    is_taken = is_sharing and (are_nested or len(made) < len(arguments))
    if is_taken:
        share_arguments(twin, made, arguments)
        made = {}
    found: dict[Node, None] = dict.fromkeys(made)
    shared: list[Node] = []
    lists = {node.output for node in made}
    for node in twin.nodes():
        is_of_array = copies_arrays and may_copy_array(node)
        if not (is_of_array or _may_be_local(node, lists)):
            continue
        is_value = is_local(node, only_written=mode == "written")
        if is_value and (is_kept_once(node) or not is_sharing):
            found[node] = None
            lists |= {node.output} | (carried_values(node.output) or set())
        elif is_sharing and _may_be_shared(node):
            shared.append(node)
    if is_sharing:
        mixed = _mixed_lists(found)
        shared += filter(_may_be_shared, mixed)
        found = {node: None for node in found if node not in mixed}
    if is_sharing and not (is_taken or has_heap or shared or any(map(kept_uses, found))):
        return None
    for node in shared:
        _share(node)
    for node in found:
        if node not in made:
            Promotion(node).run()
    promote_arguments(made)
    return twin if found or shared or is_taken or has_heap else None


def _is_no_layer(call: Node) -> bool:
    return "layer" not in call.attributes


def _mixed_lists(found: Collection[Node]) -> list[Node]:
    """Local lists that become variables which may be other lists as well."""
    left = {node: carried_values(node.output) or set() for node in found}
    mixed: list[Node] = []
    while True:
        known = set().union(*left.values(), (node.output for node in left))
        others = [node for node, carried in left.items() if not _are_of(carried, known)]
        if not others:
            return mixed
        mixed += others
        for node in others:
            del left[node]


def _are_of(variables: Collection[Value], known: Collection[Value]) -> bool:
    """Whether variables are surely some of these lists, wherever they have a value."""
    sources = set().union(*map(sources_of, variables))
    return all(
        value in known or (value.node is not None and value.node.kind == "prim::Uninitialized")
        for value in sources
    )


def _may_be_shared(made: Node) -> bool:
    """Whether a list that is not local becomes a shared one where it is made."""
    uses = made.output.uses
    is_repeated = any(isinstance(use.user, Node) and repeated_display(use.user) for use in uses)
    return not (makes_copy(made) or is_repeated or feeds_arrays(made))


def _share(made: Node) -> None:
    """Have a list made as a value that nobody changes, and shared at once."""
    assert made.block is not None
    place = made.block.nodes.index(made) + 1
    name = made.output.name
    reference = made.block.insert(place, "prim::ListShare", names=[name], source=made.source)
    made.output.replace_all_uses_with(reference.output)
    reference.add_input(made.output)
    Promotion(made).run()


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
    takes_list = any(one is not None and _makes_list(one) for one in made)
    takes_list = takes_list or any(value in passed for value in call.inputs)
    return takes_list or _makes_lists(call.attributes["graph"])


def _makes_list(node: Node) -> bool:
    """Whether a node surely makes a list: a display, a repeated one, or a copy by a call."""
    if node.kind == "prim::ListConstruct" or may_copy_array(node):
        return True
    return repeated_display(node) is not None


def _makes_lists(graph: Graph) -> bool:
    """Whether a function, or one that it calls, has a list display, or makes lists by calls."""
    return any(
        node.kind == "prim::ListConstruct" or may_copy_array(node)
        for node in nodes_with_called(graph)
    )
