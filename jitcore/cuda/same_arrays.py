"""Calls that give one array as several arguments.

What is compiled takes arrays that it writes for memory of their own.  One array under two names is
the function in which both parameters are one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitcore.devices import is_device_array
from jitcore.ir.graph import Graph

__all__ = ["first_places", "with_one_parameter", "with_parameters_merged"]


def first_places(values: Sequence[Any]) -> tuple[int, ...]:
    """For each value its own number; for an array that came before the number it had there."""
    firsts: dict[int, int] = {}
    return tuple(
        firsts.setdefault(id(value), number) if is_device_array(value) else number
        for number, value in enumerate(values)
    )


def with_parameters_merged(graph: Graph, places: Sequence[int]) -> Graph:
    """The function without the parameters that are others (`first_places`)."""
    made = graph.copy()
    made.plain = None
    inputs = list(made.inputs)
    for number, place in enumerate(places):
        if place != number:
            inputs[number].replace_all_uses_with(inputs[place])
            made.inputs.remove(inputs[number])
    return made


def with_one_parameter(function: Callable[..., Any], places: Sequence[int]) -> Callable[..., Any]:
    """The same for the function that a graph was made of."""
    kept = [number for number, place in enumerate(places) if place == number]

    def merged(*args: Any) -> Any:
        given = dict(zip(kept, args, strict=True))
        return function(*(given[place] for place in places))

    return merged
