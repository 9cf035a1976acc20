"""One run of a function under a tracer."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, SourceRange
from jitcore.tracing.arguments import bind_examples, clone, leaves, spread, traced_result
from jitcore.tracing.patches import patched
from jitcore.tracing.state import recording
from jitcore.tracing.surroundings import captured_names
from jitcore.tracing.tracer import Tracer
from jitcore.tracing.values import concrete

__all__ = ["Examples", "Run", "Subject", "run_traced"]


@dataclass(frozen=True, slots=True)
class Examples:
    """The arguments of one call."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is traced.

    Parameters
    ----------
    function : callable
    name : str
    strict : bool
        Whether lists and dicts may not be returned.
    make_tracer : callable
    functions : iterable of callable
        Whose names from outside are looked for arrays; by default the function's own.
    """

    function: Callable[..., Any]
    name: str
    strict: bool = True
    make_tracer: Callable[..., Tracer] = Tracer
    functions: Iterable[Any] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave.

    Parameters
    ----------
    graph : Graph
    signature : inspect.Signature
        That of the trace.
    arguments : dict
        The copies of the examples that the run worked on, as it left them.
    result : object
        What the function returned.
    constants : dict
        Arrays and objects that became constants, by name.
    places : dict
        Where each of these was used first.
    """

    graph: Graph
    signature: inspect.Signature
    arguments: dict[str, Any]
    result: Any
    constants: dict[str, Any]
    places: dict[str, SourceRange | None]


def run_traced(subject: Subject, examples: Examples, *, quiet: bool = False) -> Run:
    """Run a function on copies of its examples, and record what it does."""
    function = subject.function
    found, signature = bind_examples(function, examples.args, examples.keywords)
    memo: dict[int, Any] = {}
    arguments = {name: clone(value, memo) for name, value in found.items()}
    tracer = subject.make_tracer(subject.name, quiet=quiet)
    for leaf in leaves(tuple(arguments.values())):
        tracer.outside.note(leaf)
    traced = {name: spread(tracer, name, value) for name, value in arguments.items()}
    items = list(traced.items())
    count = len(examples.args)
    for name, value in traced.items():
        tracer.outside.watch(name, value)
    outside = captured_names(tracer, subject.functions or (function,))
    with patched(), outside, recording(tracer):
        result = function(*(value for _, value in items[:count]), **dict(items[count:]))
        output = traced_result(tracer, result, strict=subject.strict)
        for name in tracer.outside.changed():
            tracer.warn(
                f"The traced function changes '{name}', a list or a dict: the trace does not, "
                "which might cause it to be incorrect"
            )
    graph = tracer.finish(output)
    plain = concrete(result)
    return Run(graph, signature, arguments, plain, tracer.outside.constants, tracer.outside.places)
