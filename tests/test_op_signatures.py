"""The parameters of rows: a call binds them as NumPy's own function does."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from checking import check
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


def ufuncs() -> list[tuple[str, np.ufunc]]:
    found = [(kind, one) for kind, op in TABLE.items() for one in op.functions]
    return [(kind, one) for kind, one in found if isinstance(one, np.ufunc) and one.nout == 1]


@pytest.mark.parametrize(("kind", "function"), ufuncs())
def test_of_ufuncs_only_the_output_has_a_position(kind: str, function: np.ufunc) -> None:
    parameters = parse_parameters(TABLE[kind].parameters)
    places = [one.name for one in parameters if not one.keyword_only]
    assert places[function.nin :] in (["out"], [])


X = np.arange(6.0).reshape(2, 3)

numpy: Any = np

CALLS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "a ufunc with more than an output": (lambda x: numpy.add(x, x, None, True), (X,)),
    "a product likewise": (lambda x: numpy.matmul(x, x.T, None, "same_kind"), (X,)),
    "one axis, given as a number": (lambda x, k: numpy.transpose(x, k), (X[0], 0)),
    "too few axes": (lambda x, k: numpy.transpose(x, k), (X, 1)),
    "an axis that is none": (lambda x: numpy.transpose(x, 0), (X,)),
    "a part of two arrays": (lambda x: numpy.real(x, x), (X,)),
    "a part with a keyword": (lambda x: numpy.imag(x, axis=0), (X,)),
    "a part of what is starred": (lambda x: numpy.real(*x), ([X + 1j],)),
    "a part of a tuple's element": (lambda x: numpy.imag(*x), ((X + 1j,),)),
    "a running sum along a tuple": (lambda x: numpy.cumsum(x, (0,)), (X,)),
    "a running sum along nothing": (lambda x: numpy.cumsum(x, ()), (X,)),
    "a running sum along a float": (lambda x: numpy.cumsum(x, 1.0), (X,)),
    "a flip along a float": (lambda x: numpy.flip(x, 1.0), (X,)),
    "a reduction that keeps a tuple": (lambda x: numpy.std(x, keepdims=(0,)), (X,)),
    "bounds of two kinds": (lambda x: numpy.clip(x, 1.0, 2.0, max=5), (X,)),
    "one bound": (lambda x: numpy.clip(x, 1.0), (X,)),
    "one bound by name": (lambda x: numpy.clip(x, max=1.0), (X,)),
    "one bound of a method": (lambda x: x.clip(1.0), (X,)),
    "the upper bound of a method": (lambda x: x.clip(max=1.0), (X,)),
    "a bound of a method by another name": (lambda x: x.clip(a_max=1.0), (X,)),
    "a method that scalars have not": (lambda x: x[0, 0].dot(x), (X,)),
    "a reduction that keeps a number": (lambda x: numpy.sum(x, keepdims=1), (X,)),
}


@pytest.mark.parametrize("what", CALLS)
def test_what_numpy_refuses_and_what_it_takes(what: str) -> None:
    function, args = CALLS[what]
    check(function, *args)
