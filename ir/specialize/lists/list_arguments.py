"""Lists of numbers that a caller passes, as values.

Before, where the first argument is known to be a list::

    graph(%l : Any, %n : int):
      prim::For(%n)
        block0(%i : Any):
          %0 : Any = prim::CallMethod[name="append"](%l, %i)
          %1 : bool = prim::Constant[value=True]()
          -> (%1)
      return (%l)

After::

    graph(%l : Any, %n : int):
      %l.1 : Any = prim::ListArgument[written=True](%l)
      %l.3 : Any = prim::For(%n, %l.1)
        block0(%i : Any, %l.2 : Any):
          %0 : Any = prim::ListAppend(%l.2, %i)
          %1 : bool = prim::Constant[value=True]()
          -> (%1, %0)
      prim::ListWrite(%l, %l.3)
      return (%l)

The numbers are read when the function begins, and what has changed is written back when it ends.
Nobody can tell the difference where nothing else sees the list meanwhile, and where the function
begins anew, in Python, when there is an exception.  A function that stores the list, or gives it
to code that is not compiled, keeps it as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from jitcore.ir.graph import Block, Graph, Node, Use, Value
from jitcore.ir.specialize.lists.list_uses import (
    READING_KINDS,
    is_copied,
    is_protected,
    is_read,
    is_write,
)
from jitcore.ir.specialize.lists.list_values import Promotion

__all__ = ["is_value_argument", "known_arguments", "promote_arguments", "share_arguments"]


def known_arguments(graph: Graph, arguments: Collection[int]) -> dict[Node, Value]:
    """The inputs with these numbers of which values can be made, by the nodes that make them."""
    found = {}
    for number in arguments:
        made = _named(graph.inputs[number])
        if made is not None:
            found[made] = graph.inputs[number]
    return found


def promote_arguments(known: Mapping[Node, Value]) -> None:
    """Make values of arguments."""
    for made, argument in known.items():
        is_written = any(map(is_write, made.output.uses))
        made.add_input(argument)
        last = Promotion(made).run()
        if is_written:
            made.attributes["written"] = True
            assert made.block is not None
            made.block.append("prim::ListWrite", [argument, last], outputs=())


def share_arguments(graph: Graph, known: Mapping[Node, Value], arguments: Collection[int]) -> None:
    """Make references to shared lists of arguments, those that are ``known`` among them."""
    named = {argument: made for made, argument in known.items()}
    for argument in [graph.inputs[number] for number in arguments]:
        made = named.get(argument) or _name_for(argument)
        made.add_input(argument)
        made.attributes["shared"] = True


def is_value_argument(argument: Value) -> bool:
    """Whether a list that is an input has been made a value, or nothing reads it."""
    return all(_only_returns(use) or _is_end(use.user) for use in argument.uses)


def _is_end(user: Node | Block) -> bool:
    return isinstance(user, Node) and user.kind in ("prim::ListArgument", "prim::ListWrite")


def _named(argument: Value) -> Node | None:
    """What stands for an argument in all uses but the return of it, where these are known."""
    if not argument.uses:
        return None
    made = _name_for(argument)
    if all(_is_known(use, made) for use in made.output.uses):
        return made
    made.output.replace_all_uses_with(argument)
    made.destroy()
    return None


def _name_for(argument: Value) -> Node:
    """What stands for an argument in all uses but the return of it."""
    assert argument.block is not None
    others = [use for use in argument.uses if not _only_returns(use)]
    made = argument.block.insert(0, "prim::ListArgument", names=[argument.name])
    for use in others:
        _redirect(use, made.output)
    return made


def _redirect(use: Use, value: Value) -> None:
    if isinstance(use.user, Node):
        use.user.set_input(use.index, value)
    else:
        use.user.set_return(use.index, value)


def _only_returns(use: Use) -> bool:
    """Whether a use gives the caller the list itself, perhaps in a tuple."""
    node = use.user
    if isinstance(node, Block):
        return node.owner is None
    return node.kind == "prim::TupleConstruct" and all(map(_only_returns, node.output.uses))


def _is_known(use: Use, made: Node) -> bool:
    """Whether a use reads or changes the list and does nothing else with it."""
    if is_write(use):
        return not is_protected(use, made)
    return is_read(use, made.output) or is_copied(use) or _makes_array(use)


def _makes_array(use: Use) -> bool:
    """Whether one of NumPy's functions reads the list at once."""
    node = use.user
    if not isinstance(node, Node) or not node.kind.startswith("np::"):
        return False
    return node.kind in READING_KINDS and use.index == 0
