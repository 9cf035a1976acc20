"""What is left of arguments' descriptions for a purpose: keys of specializations, and refusals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from jitcore.execution.signatures import (
    Description,
    describe_unknown,
    parts_of,
    structure,
    with_parts,
)

__all__ = [
    "Apart",
    "as_python_s",
    "common_extents",
    "dynamic_key",
    "has_changed",
    "short_extents",
    "taken_apart",
    "without_extents",
]

Apart = tuple[tuple[int, Description], ...]
Extent = int | None
_Choose = Callable[[Extent, Extent], Extent]

_APART = frozenset({"list", "object", "objects", "function"})

_SHORT = 64
"""The largest extent of what may be coordinates, colours, features or taps."""


def as_python_s(one: Description) -> Description:
    """The description of a value where compiled code takes no lists and objects apart."""
    return describe_unknown() if one[0] in _APART else one


def taken_apart(descriptions: Sequence[Description]) -> Apart:
    """The lists and objects among the arguments, by their numbers, whatever arrays these have."""
    return tuple(
        (number, structure(one)) for number, one in enumerate(descriptions) if one[0] in _APART
    )


def dynamic_key(
    descriptions: tuple[Description, ...],
    exact: frozenset[int],
    known: Sequence[Description] = (),
) -> tuple[Description, ...]:
    """The descriptions without the extents that a dynamic kernel has symbols for.

    Parameters
    ----------
    descriptions : tuple of Description
    exact : frozenset of int
        The numbers of the arguments all of whose extents it knows.
    known : sequence of Description
        Which extents it knows of the others: where there are numbers here, for all arguments.
        Otherwise it knows those of 1, as it always does.
    """
    others = map(_fitting, descriptions, known or map(without_extents, descriptions))
    return tuple(
        one if number in exact else _merged(one, other, _known_extent)
        for number, (one, other) in enumerate(zip(descriptions, others, strict=True))
    )


def _fitting(description: Description, known: Description) -> Description:
    """What is known of a value; nothing where it has turned out to be of another kind."""
    is_alike = structure(description) == structure(known)
    return known if is_alike else without_extents(description)


def _merged(one: Description, other: Description, choose: _Choose) -> Description:
    """A description of two alike values, with chosen extents; of other ranks with none but 1."""
    if one[0] != "array":
        return with_parts(one, partial(_merged, choose=choose), other)
    kind, dtype, shape, layout = one
    if len(shape) != len(other[2]):
        return without_extents(one)
    return (kind, dtype, tuple(map(choose, shape, other[2])), layout)


def without_extents(description: Description) -> Description:
    """A description with None for all extents but 1."""
    if description[0] == "array":
        kind, dtype, shape, layout = description
        return (kind, dtype, tuple(1 if extent == 1 else None for extent in shape), layout)
    return with_parts(description, without_extents)


def common_extents(one: Description, other: Description) -> Description:
    """A description of two alike values with the extents that both have, and else None."""
    return _merged(one, other, lambda extent, known: extent if extent == known else None)


def short_extents(one: Description) -> Description:
    """A description with None for all extents that are not short."""

    def short(extent: Extent, _: Extent) -> Extent:
        return None if extent is None or extent > _SHORT else extent

    return _merged(one, one, short)


def has_changed(common: Description) -> bool:
    """Whether what values have in common leaves out extents, which were different ones then."""
    if common[0] == "array":
        return None in common[2]
    return any(map(has_changed, parts_of(common)))


def _known_extent(extent: Extent, known: Extent) -> Extent:
    return extent if extent == 1 or known is not None else None
