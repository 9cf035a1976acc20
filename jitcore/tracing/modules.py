"""Traces of modules: script modules with traced methods."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MethodType
from typing import Any

import numpy as np

from jitcore.frontend.layers import HOOKS
from jitcore.module import ScriptModule, set_graph_methods, twin
from jitcore.nn.module import Module
from jitcore.tracing.checking import check_trace
from jitcore.tracing.runs import Examples, Subject, run_traced
from jitcore.tracing.trace import TracedFunction, warn_user
from jitcore.tracing.tracer import Tracer

__all__ = ["owner_of_forward", "trace_methods"]

Methods = Mapping[str, tuple[Examples, Sequence[Examples]]]


def owner_of_forward(method: MethodType) -> Module:
    """The module whose ``forward`` a method is.

    Raises
    ------
    AttributeError
        It is another method.
    """
    if method.__name__ != "forward":
        raise AttributeError(
            "trace doesn't support compiling individual module's functions; use trace_module"
        )
    owner = method.__self__
    assert isinstance(owner, Module)
    return owner


def trace_methods(
    module: Module, methods: Methods, tolerance: float, *, strict: bool
) -> ScriptModule:
    """A script module with the same parameters whose methods are traced.

    Parameters
    ----------
    module : Module
        Stays as it is.
    methods : dict
        The examples for each method, and those to check it with.
    tolerance : float
    strict : bool
    """
    if isinstance(module, ScriptModule):
        warn_user(
            "The input to trace is already a ScriptModule, tracing it is a no-op. Returning the "
            "object as is."
        )
        return module
    made = twin(module, {})
    # They are in the trace.
    made.__dict__ |= {name: {} for name in HOOKS}
    traced = {
        name: _trace_method(module, made, name, examples, checks, tolerance, strict=strict)
        for name, (examples, checks) in methods.items()
    }
    set_graph_methods(made, traced)
    return made


def _trace_method(
    module: Module,
    made: ScriptModule,
    name: str,
    examples: Examples,
    checks: Sequence[Examples],
    tolerance: float,
    *,
    strict: bool,
) -> TracedFunction:
    function: Any = getattr(module, name)

    def call(*args: Any, **keywords: Any) -> Any:
        # Calling the module runs its hooks.
        return (module if name == "forward" else function)(*args, **keywords)

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    twins = {
        id(one): (f"self.{path}" if path else "self", made.get_submodule(path))
        for path, one in module.named_modules()
    }
    functions = [type(one).forward for one in module.modules()]
    subject = Subject(
        call,
        name,
        strict,
        functools.partial(Tracer, twins=twins),
        [*functions, function],
    )
    with _kept(made):
        run = run_traced(subject, examples)
        kept = functools.partial(_kept, made)
        check_trace(subject, run, checks, tolerance, warn_user, kept)
    for capture in run.graph.captures:
        # It was a copy.
        capture.value = capture.read()
    return TracedFunction(
        run.graph,
        run.signature,
        name=name,
        qualname=f"{made.__jitcore_original__.__name__}.{name}",
        module=type(module).__module__,
        doc=function.__doc__,
    )


@contextmanager
def _kept(module: ScriptModule) -> Iterator[None]:
    """Keep the attributes of a module, and what is in its arrays."""
    before = [(one.__dict__, dict(one.__dict__)) for one in module.modules()]
    for held, _ in before:
        for name, value in held.items():
            if isinstance(value, np.ndarray):
                held[name] = value.copy(order="K")
    try:
        yield
    finally:
        for held, saved in before:
            held.clear()
            held.update(saved)
