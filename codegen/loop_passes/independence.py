"""Loops of the program whose iterations have nothing to do with each other."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.loop_passes.accesses import Access, Accesses
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    expressions,
    reads_by_call,
    variables,
    walk,
)
from jitcore.codegen.loops import Do, For

__all__ = ["writes_apart"]


def writes_apart(loop: For) -> bool:
    """Whether each iteration has a part of all written memory to itself.

    Variables that go from one iteration to the next are not looked at.
    """
    if any(isinstance(one, Do) for one in walk(loop.body)):
        return False
    if any(reads_by_call(x) for one in walk(loop.body) for x in expressions(one)):
        return False
    found = Accesses()
    found.block(loop.body)
    written = {one.root for one in found.found if one.is_write}
    if any(one.root == "" for one in found.found):
        return False
    return all(
        _are_apart([one for one in found.found if one.root == root], loop) for root in written
    )


def _are_apart(accesses: Sequence[Access], loop: For) -> bool:
    """Whether accesses to one array are to other elements in each iteration."""
    places = [one.place for one in accesses if one.place is not None]
    pointers = {(one.pointer, one.dtype) for one in accesses}
    forms = {place.terms for place in places}
    inside = bound_names(loop.body)
    is_fixed = all(inside.isdisjoint(variables(pointer)) for pointer, _ in pointers)
    if len(places) < len(accesses) or len(pointers) > 1 or len(forms) > 1 or not is_fixed:
        return False
    step = abs(dict(places[0].terms).get(loop.var.name, 0))
    ends = [place.constant for place in places]
    low = min(end + one.reach[0] for end, one in zip(ends, accesses, strict=True))
    high = max(end + one.reach[1] for end, one in zip(ends, accesses, strict=True))
    return step > high - low
