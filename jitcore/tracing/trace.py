"""``trace``: a function that an example run has recorded."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from types import FunctionType, MethodType
from typing import Any

from jitcore import config
from jitcore.errors import Error, TracerWarning
from jitcore.frontend.constants import is_layer
from jitcore.graph_function import GraphFunction
from jitcore.script import ScriptFunction
from jitcore.tracing.arguments import as_arguments
from jitcore.tracing.checking import check_trace
from jitcore.tracing.places import user_place
from jitcore.tracing.runs import Examples, Subject, run_traced
from jitcore.tracing.state import paused
from jitcore.tracing.values import concrete

__all__ = ["TracedFunction", "trace", "trace_module", "warn_user"]


class TracedFunction(GraphFunction):
    """A function that `trace` recorded; its plain form runs the recorded graph."""

    def __repr__(self) -> str:
        return f"<jitcore.TracedFunction {self.__qualname__}{self._signature}>"


def trace(
    func: Any,
    example_inputs: Any = (),
    check_trace: bool = True,
    check_inputs: Iterable[Any] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    *,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
) -> Any:
    """Compile what a function or a module does for example inputs.

    The function runs once, with arrays that record every operation.  What it does with Python's
    own values is not recorded: branches are those that the examples take, loops have as many
    iterations.  Shapes are recorded, so that the trace holds for arrays of other shapes.

    Parameters
    ----------
    func : function, jitcore.nn.Module or its ``forward``
    example_inputs : tuple, array or dict
        The arguments of the run; an array or a dict is the only one.  Arrays, numbers and random
        generators, and nested tuples, lists, dicts and NamedTuples of them.  They are copied,
        arrays on a device to the host.
    check_trace : bool
        Trace the function once more, and compare graphs and results.
    check_inputs : iterable, optional
        More arguments to check with, each like ``example_inputs``; by default these themselves.
        Without ``check_trace`` nothing is checked.
    check_tolerance : float
        Relative and absolute, for the comparison of results.
    strict : bool
        Refuse to return a dict, and warn about a list, whose structure becomes a constant.
    example_kwarg_inputs : dict, optional
        Arguments by keyword.

    Returns
    -------
    ScriptFunction or ScriptModule
        With ``JITCORE_JIT=0`` in the environment ``func`` itself comes back.

    Warns
    -----
    TracerWarning
        At each line of the function that may do something else for other inputs.

    Raises
    ------
    TracingCheckError
        The function did other operations when it was traced again.
    Error
        Something in the inputs or the outputs cannot be traced.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> def scaled(x, y):
    ...     return x / np.sqrt(x.shape[0]) + y
    >>> traced = jitcore.trace(scaled, (np.ones(4), np.zeros(4)))
    >>> traced(np.ones(16), np.zeros(16))[:2]
    array([0.25, 0.25])
    """
    if not config.enabled():
        return func
    if isinstance(func, type):
        raise Error(f"trace() takes a function or a module; '{func.__name__}' is a class")
    examples = _examples(example_inputs, example_kwarg_inputs)
    others = [_examples(one) for one in check_inputs or ()]
    checks = (others or [examples]) if check_trace else []
    owner = func.__self__ if isinstance(func, MethodType) else None
    if is_layer(func) or is_layer(owner):
        modules = import_module("jitcore.tracing.modules")
        module = func if is_layer(func) else modules.owner_of_forward(func)
        methods = {"forward": (examples, checks)}
        with paused():
            return modules.trace_methods(module, methods, check_tolerance, strict=strict)
    # A trace around this one sees what comes out of it, and not how it is made.
    with paused():
        return _trace_function(func, examples, checks, check_tolerance, strict=strict)


def trace_module(
    mod: Any,
    inputs: Mapping[str, Any],
    check_trace: bool = True,
    check_inputs: Iterable[Mapping[str, Any]] | None = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    *,
    example_inputs_is_kwarg: bool = False,
) -> Any:
    """Compile what methods of a module do for example inputs.

    Parameters
    ----------
    mod : jitcore.nn.Module
    inputs : dict
        The examples of each method that is traced, by its name; see `trace`.
    check_trace, check_tolerance, strict
        As in `trace`.
    check_inputs : iterable of dict, optional
        Each like ``inputs``.
    example_inputs_is_kwarg : bool
        The examples of each method are a dict of keyword arguments.

    Returns
    -------
    ScriptModule
        With the same parameters; it has the traced methods, and those marked with `export`.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> traced = jitcore.trace_module(jitcore.nn.Linear(3, 2), {"forward": np.ones((1, 3), "f4")})
    >>> traced(np.ones((5, 3), "f4")).shape
    (5, 2)
    """
    if not config.enabled():
        return mod
    if not is_layer(mod):
        raise AttributeError(f"trace_module expects a module, found {type(mod).__name__}")
    if not isinstance(inputs, Mapping):
        raise TypeError(
            "trace_module expects the examples of each method in a dict, such as "
            f"{{'forward': x}}; found {type(inputs).__name__}"
        )

    def example(value: Any) -> Examples:
        return _examples((), value) if example_inputs_is_kwarg else _examples(value)

    others = list(check_inputs or ())
    methods = {}
    for name, value in inputs.items():
        examples = example(value)
        checks = [example(one[name]) for one in others if name in one] or [examples]
        methods[name] = (examples, checks if check_trace else [])
    modules = import_module("jitcore.tracing.modules")
    with paused():
        return modules.trace_methods(mod, methods, check_tolerance, strict=strict)


def _examples(value: Any, keywords: Mapping[str, Any] | None = None) -> Examples:
    """The arguments of a run; those that a trace around this one has are concrete here."""
    return Examples(concrete(as_arguments(value)), concrete(dict(keywords or {})))


def _trace_function(
    function: Callable[..., Any],
    examples: Examples,
    checks: Sequence[Examples],
    tolerance: float,
    *,
    strict: bool,
) -> TracedFunction:
    name = getattr(function, "__name__", type(function).__name__)
    inner = function.__wrapped_function__ if isinstance(function, ScriptFunction) else function
    subject = Subject(function, name, strict, functions=(inner,))
    run = run_traced(subject, examples)
    check_trace(subject, run, checks, tolerance, warn_user)
    return TracedFunction(
        run.graph,
        run.signature,
        name=name,
        qualname=getattr(function, "__qualname__", name),
        module=getattr(function, "__module__", None),
        doc=function.__doc__ if isinstance(inner, FunctionType | MethodType) else None,
    )


def warn_user(message: str) -> None:
    """Give a `TracerWarning` at the line that asked for the trace."""
    place = user_place()
    if place is None:
        warnings.warn(message, TracerWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, TracerWarning, place.file, place.line)
