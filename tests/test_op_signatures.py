"""The parameters of rows: a call binds them as NumPy's own function does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitcore.ir.ops import TABLE
from jitcore.ir.ops.op import Parameter, parse_parameters

Function = Callable[..., Any]

NAMED_OTHERWISE = {"start_or_stop": "start"}
"""Names in signatures of NumPy that no caller can write."""


def numpy_functions() -> list[tuple[str, Function]]:
    """The functions of rows that tell their parameters; ufuncs and their methods do not."""
    found = []
    for kind, op in TABLE.items():
        for function in op.functions:
            plain = not isinstance(function, np.ufunc | type) and not isinstance(
                getattr(function, "__self__", None), np.ufunc
            )
            if kind.startswith("np::") and plain:
                found.append((kind, function))
    return found


def positional(function: Function) -> tuple[list[str], bool]:
    """The names of the parameters that have a position, and whether there are any number."""
    parameters = inspect.signature(function).parameters.values()
    names = [one.name for one in parameters if one.kind in (0, 1)]
    some = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return [NAMED_OTHERWISE.get(name, name) for name in names], some


@pytest.mark.parametrize(
    ("kind", "function"), [pytest.param(*one, id=one[0]) for one in numpy_functions()]
)
def test_rows_bind_arguments_as_numpy_does(kind: str, function: Function) -> None:
    wanted, variadic = positional(function)
    if kind == "np::arange":
        # It takes a dtype in the fourth place, though its signature says otherwise.
        wanted.append("dtype")
    row = TABLE[kind].signature
    own = [one.name for one in row if not one.keyword_only and not one.variadic]
    if variadic:
        return
    assert own == wanted[: len(own)]


def test_a_lone_star_begins_the_parameters_that_have_no_position() -> None:
    assert parse_parameters("x, *, axis=None, out!=None") == (
        Parameter("x"),
        Parameter("axis", None, True, False, True),
        Parameter("out", None, False, False, True),
    )
