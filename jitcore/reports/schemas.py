"""Signatures with types, as TorchScript prints them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from inspect import Parameter
from typing import Any

from jitcore.ir.graph import Graph

__all__ = ["schema_text"]

_SHOWN = (bool, int, float, complex, str, type(None))
"""The types of defaults that a schema spells out."""


def schema_text(name: str, parameters: Sequence[Parameter], generic: Graph, typed: Graph) -> str:
    """Name, parameters and return type.

    Parameters
    ----------
    name : str
    parameters : sequence of inspect.Parameter
    generic : Graph
        Its first inputs are the parameters, with the types of their annotations; those behind them
        are captured.
    typed : Graph
        Knows what is returned.
    """
    shown = ", ".join(_parts(parameters, [str(value.type) for value in generic.inputs]))
    return f"{name}({shown}) -> {typed.outputs[0].type}"


def _parts(parameters: Sequence[Parameter], types: Sequence[str]) -> Iterator[str]:
    is_starred = False
    for parameter, type_ in zip(parameters, types, strict=False):
        if parameter.kind is Parameter.KEYWORD_ONLY and not is_starred:
            yield "*"
        is_starred |= parameter.kind in (Parameter.KEYWORD_ONLY, Parameter.VAR_POSITIONAL)
        default = "" if parameter.default is Parameter.empty else f"={_text(parameter.default)}"
        yield f"{type_} {_STARS.get(parameter.kind, '')}{parameter.name}{default}"


_STARS: dict[Any, str] = {Parameter.VAR_POSITIONAL: "*", Parameter.VAR_KEYWORD: "**"}


def _text(default: Any) -> str:
    return repr(default) if isinstance(default, _SHOWN) else "..."
