"""What is left of arguments' descriptions for a purpose: keys of specializations, and refusals."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.execution.signatures import Description, describe_unknown, structure, with_parts

__all__ = ["Apart", "as_python_s", "dynamic_key", "taken_apart"]

Apart = tuple[tuple[int, Description], ...]

_APART = frozenset({"list", "object", "objects", "function"})


def as_python_s(one: Description) -> Description:
    """The description of a value where compiled code takes no lists and objects apart."""
    return describe_unknown() if one[0] in _APART else one


def taken_apart(descriptions: Sequence[Description]) -> Apart:
    """The lists and objects among the arguments, by their numbers, whatever arrays these have."""
    return tuple(
        (number, structure(one)) for number, one in enumerate(descriptions) if one[0] in _APART
    )


def dynamic_key(
    descriptions: tuple[Description, ...], exact: frozenset[int]
) -> tuple[Description, ...]:
    """The descriptions without the extents that dynamic kernels have symbols for."""
    return tuple(
        one if number in exact else _without_extents(one) for number, one in enumerate(descriptions)
    )


def _without_extents(description: Description) -> Description:
    if description[0] == "array":
        kind, dtype, shape, layout = description
        return (kind, dtype, tuple(1 if extent == 1 else None for extent in shape), layout)
    return with_parts(description, _without_extents)
