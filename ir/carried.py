"""What variables of loops and branches may be the value of, and what becomes their value."""

from __future__ import annotations

from jitcore.ir.graph import LOOPS, Block, Node, Use, Value

__all__ = ["carried_to", "carried_values", "is_carried", "sources_of"]


def is_carried(use: Use) -> bool:
    """Whether a value becomes that of a variable that a loop or a branch gives."""
    user = use.user
    if isinstance(user, Block):
        return user.owner is not None
    return user.kind in LOOPS and use.index >= (1 if user.kind == "prim::For" else 2)


def carried_to(use: Use) -> list[Value] | None:
    """The variables whose value it becomes; None where these are not followed."""
    user = use.user
    if isinstance(user, Node):
        number = use.index - (1 if user.kind == "prim::For" else 2)
        return [user.blocks[0].params[1 + number], user.outputs[number]]
    owner = user.owner
    if owner is not None and owner.kind == "prim::If":
        return [owner.outputs[use.index]]
    if owner is None or owner.kind not in LOOPS or use.index == 0:
        return None
    return [user.params[use.index], owner.outputs[use.index - 1]]


def carried_values(value: Value) -> set[Value] | None:
    """All variables of loops and branches that a value becomes; None where these are not known."""
    waiting, seen = [value], set[Value]()
    while waiting:
        for use in filter(is_carried, waiting.pop().uses):
            carried = carried_to(use)
            if carried is None:
                return None
            waiting += [one for one in carried if one not in seen]
            seen.update(carried)
    return seen


def sources_of(value: Value) -> set[Value]:
    """What a variable of a loop or a branch may be the value of."""
    if value.node is None:
        assert value.block is not None and value.block.owner is not None
        return _loop_sources(value.block.owner, value.block.params.index(value) - 1)
    number = value.node.outputs.index(value)
    if value.node.kind in LOOPS:
        return _loop_sources(value.node, number)
    return {block.returns[number] for block in value.node.blocks if not block.raises}


def _loop_sources(loop: Node, number: int) -> set[Value]:
    """What a variable of a loop may be the value of."""
    first = 1 if loop.kind == "prim::For" else 2
    return {loop.inputs[first + number], loop.blocks[0].returns[1 + number]}
