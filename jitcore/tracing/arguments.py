"""What goes into a traced function and what comes out: nested tuples, lists and dicts of arrays."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from jitcore.devices import is_device_array, to
from jitcore.errors import Error
from jitcore.ir.graph import Value
from jitcore.ir.types import (
    ANY,
    TENSOR,
    TupleType,
    Type,
    is_named_tuple,
    type_of_constant,
)
from jitcore.tracing.outside import GENERATORS
from jitcore.tracing.tracer import Tracer
from jitcore.tracing.values import Traced

__all__ = ["as_arguments", "bind_examples", "clone", "leaves", "spread", "traced_result"]

_NUMBERS = (int, float, bool, complex)


def as_arguments(example: Any) -> tuple[Any, ...]:
    """The arguments that an example stands for: one that is no tuple or list is the only one."""
    if isinstance(example, (tuple, list)) and not is_named_tuple(type(example)):
        return tuple(example)
    return (example,)


def bind_examples(
    function: Callable[..., Any], args: tuple[Any, ...], keywords: Mapping[str, Any]
) -> tuple[dict[str, Any], inspect.Signature]:
    """The examples by the names of their parameters, and the signature of the trace.

    Those for ``*args`` and ``**kwargs`` become parameters of their own; parameters without an
    example keep their defaults and are no parameters of the trace.

    Raises
    ------
    TypeError
        They do not fit the function.
    Error
        One is nothing that can be traced.
    """
    found: dict[str, Any] = {}
    kinds: dict[str, Any] = {}
    signature = _signature(function)
    for name, value in signature.bind(*args, **keywords).arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            more = {f"{name}_{number}": item for number, item in enumerate(value)}
            found |= more
            kinds |= dict.fromkeys(more, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found |= value
            kinds |= dict.fromkeys(value, inspect.Parameter.KEYWORD_ONLY)
        else:
            found[name], kinds[name] = value, kind
    for name, value in found.items():
        if any(map(is_device_array, leaves(value))):
            # The graph is that for arrays on the host, where every operation can be recorded.
            found[name] = to(value, "cpu")
        _check(name, found[name])
    parameters = [inspect.Parameter(name, kind) for name, kind in kinds.items()]
    return found, inspect.Signature(sorted(parameters, key=lambda one: one.kind))


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function)
    except ValueError:
        # Some built-in functions have none: it is known only that they take arguments.
        return inspect.signature(lambda *args, **keywords: None)


def _check(name: str, example: Any) -> None:
    for leaf in leaves(example):
        if not isinstance(leaf, (np.ndarray, np.generic, *_NUMBERS, *GENERATORS)):
            raise Error(
                f"the example for '{name}' cannot be traced: it is, or holds, a value of type "
                f"'{type(leaf).__name__}'; only arrays, numbers, random generators, and nested "
                "tuples, lists and dicts of them can"
            )


def leaves(value: Any) -> Iterator[Any]:
    """What nested tuples, lists and dicts hold."""
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from leaves(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    else:
        yield value


def clone(value: Any, memo: dict[int, Any]) -> Any:
    """A copy that shares nothing with the original; equal objects inside stay one object."""
    if id(value) in memo:
        return memo[id(value)][1]
    kind = type(value)
    if is_named_tuple(kind):
        twin: Any = kind(*(clone(item, memo) for item in value))
    elif kind in (tuple, list):
        twin = kind(clone(item, memo) for item in value)
    elif kind is dict:
        twin = {key: clone(item, memo) for key, item in value.items()}
    elif isinstance(value, np.ndarray):
        twin = value.copy(order="K")
    else:
        twin = copy.deepcopy(value)
    memo[id(value)] = (value, twin)
    return twin


def spread(tracer: Tracer, name: str, example: Any) -> Any:
    """The input of a graph for an example, in the form in which the function gets it."""
    value = tracer.graph.block.add_param(_declared(example), name)
    return tracer.wrap(example, value)


def _declared(example: Any) -> Type:
    kind = type(example)
    if isinstance(example, np.ndarray):
        return TENSOR
    if kind is tuple or is_named_tuple(kind):
        return TupleType(tuple(map(_declared, example)), None if kind is tuple else kind)
    return type_of_constant(example) if kind in _NUMBERS else ANY


def traced_result(tracer: Tracer, result: Any, *, strict: bool) -> Value:
    """The graph's value for what a traced function returned.

    Raises
    ------
    Error
        It is nothing that a trace can give.
    """
    if result is None and not tracer.has_effects():
        raise Error(
            "the traced function returned nothing, and wrote nothing that its caller sees: the "
            "trace would do nothing"
        )
    if result is None:
        return tracer.value_of(None)
    untraced = [leaf for leaf in leaves(result) if type(leaf) is not Traced]
    for leaf in untraced:
        if not isinstance(leaf, (np.ndarray, np.generic)):
            raise Error(
                "Only arrays, and tuples, lists and dicts of them, can be output from traced "
                f"functions; this one returned a value of type '{type(leaf).__name__}', which "
                "would be the same in all calls"
            )
    if untraced:
        tracer.warn(
            "An output of the traced function does not depend on its inputs in a way that "
            "the trace sees: it becomes a constant, which might cause the trace to be incorrect"
        )
    if strict:
        _check_containers(tracer, result)
    return tracer.value_of(result)


def _check_containers(tracer: Tracer, result: Any) -> None:
    if isinstance(result, dict):
        raise Error(
            "Encountering a dict at the output of the tracer might cause the trace to be "
            "incorrect: its keys become constants. Use a NamedTuple, or pass strict=False if the "
            "keys are the same for all inputs"
        )
    if isinstance(result, list):
        tracer.warn(
            "Encountering a list at the output of the tracer might cause the trace to be "
            "incorrect: its length becomes a constant. Use a tuple, or pass strict=False if the "
            "length is the same for all inputs"
        )
    if isinstance(result, (tuple, list)):
        for item in result:
            _check_containers(tracer, item)
