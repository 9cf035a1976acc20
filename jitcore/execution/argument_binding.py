"""The arguments of a call in the order of a function's parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["in_order", "parameter_binder"]


def parameter_binder(signature: inspect.Signature) -> Callable[..., tuple[Any, ...]]:
    """A function that takes what a signature says and gives the values of all its parameters.

    Python itself binds the arguments, several times as fast as `inspect.Signature.bind`.

    Parameters
    ----------
    signature : inspect.Signature

    Returns
    -------
    callable
        It raises TypeError where the arguments do not fit.

    Examples
    --------
    >>> def f(a, b=2, *rest, key=None, **others): ...
    >>> parameter_binder(inspect.signature(f))(1, key="k", more=5)
    (1, 2, (), 'k', {'more': 5})
    """
    defaults: dict[str, Any] = {}
    bare = []
    for number, parameter in enumerate(signature.parameters.values()):
        default = parameter.default
        if default is not parameter.empty:
            # Defaults are read outside of the lambda's scope, so parameters do not hide them.
            defaults[f"default_{number}"] = default
            default = _Name(f"default_{number}")
        bare.append(parameter.replace(annotation=parameter.empty, default=default))
    declared = str(inspect.Signature(bare))[1:-1]
    values = "".join(f"{parameter.name}, " for parameter in bare)
    binder: Callable[..., tuple[Any, ...]] = eval(f"lambda {declared}: ({values})", defaults)
    return binder


def in_order(
    function: Callable[..., Any], parameters: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """A function that takes the values of all parameters in order; the same where that does."""
    if all(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters):
        return function

    def call(*values: Any) -> Any:
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter, value in zip(parameters, values, strict=True):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords.update(value)
            else:
                args.append(value)
        return function(*args, **keywords)

    return call


class _Name:
    """A default that a signature prints as a name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name
