"""Whether a trace does what the function does: for the examples again, and for others."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from jitcore.codegen.host import build_host
from jitcore.errors import TracingCheckError, excerpt
from jitcore.ir.graph import Graph, Node
from jitcore.ir.printer import print_node
from jitcore.tracing.arguments import bind_examples, clone
from jitcore.tracing.outside import GENERATORS, copy_of
from jitcore.tracing.runs import Examples, Run, Subject, run_traced

__all__ = ["check_trace"]

MAX_ALIGNED_LINES = 400
"""Longer texts are compared line by line only; finding similar lines takes cubic time."""

Warn = Callable[[str], None]
Guard = Callable[[], AbstractContextManager[None]]


def check_trace(
    subject: Subject,
    trace: Run,
    examples: Sequence[Examples],
    tolerance: float,
    warn: Warn,
    guard: Guard = nullcontext,
) -> None:
    """Trace the function anew with each of some examples, and compare graphs and results.

    Parameters
    ----------
    subject : Subject
    trace : Run
        The trace that is checked.
    examples : sequence of Examples
    tolerance : float
        Relative and absolute, of floats.
    warn : callable
        Takes the message of a `TracerWarning`.
    guard : callable
        Gives a context around a run of the graph that keeps what the graph may change.

    Raises
    ------
    TracingCheckError
        The function did other operations, or used other constants.
    """
    for one in examples:
        again = run_traced(subject, one, quiet=True)
        problem = _difference(trace.graph, again.graph) or _other_constants(trace, again)
        if problem:
            raise TracingCheckError(f"Tracing failed sanity checks!\n{problem}")
        with guard():
            _compare_results(subject, trace, one, again, tolerance, warn)


def _compare_results(
    subject: Subject, trace: Run, examples: Examples, again: Run, tolerance: float, warn: Warn
) -> None:
    """Warn where the graph gives other results than the function gave."""
    memo: dict[int, Any] = {}
    found, _ = bind_examples(subject.function, examples.args, examples.keywords)
    arguments = {name: clone(value, memo) for name, value in found.items()}
    captured = [
        copy_of(one.read(), one.container) for one in trace.graph.captures if one.input is not None
    ]
    try:
        result = build_host(trace.graph)(*arguments.values(), *captured)
    except Exception as error:
        raise TracingCheckError(
            "Tracing failed sanity checks!\nERROR: The trace raised an exception where the "
            f"function did not: {type(error).__name__}: {error}"
        ) from error
    numbered = zip(_outputs(result), _outputs(again.result), strict=True)
    problems = [
        f"Output nr {number}. of the traced function does not match the corresponding output of "
        f"the Python function. Detailed error:\n{problem}"
        for number, pair in enumerate(numbered, 1)
        if (problem := unequal(*pair, tolerance))
    ]
    problems += [
        f"The traced function does not leave its argument '{name}' as the Python function does. "
        f"Detailed error:\n{problem}"
        for name, value in arguments.items()
        if not isinstance(value, GENERATORS)
        if (problem := unequal(value, again.arguments[name], tolerance))
    ]
    random = [node for node in trace.graph.nodes() if _is_random(node)]
    if problems and random:
        nodes = "\n".join(f"\t{print_node(node)}" for node in random)
        warn(
            "Trace had nondeterministic nodes. Did you forget to call .eval() on your model? "
            f"Nodes:\n{nodes}\nThis may cause errors in trace checking; to turn that off, pass "
            "check_trace=False"
        )
    for problem in problems:
        warn(problem)


def _outputs(result: Any) -> tuple[Any, ...]:
    return result if type(result) is tuple else (result,)


def _is_random(node: Node) -> bool:
    """Whether a node uses a random generator, directly or in a function that it calls."""
    if str(node.attributes.get("name", "")).startswith("random."):
        return True
    graph = node.attributes.get("graph")
    if not isinstance(graph, Graph):
        return False
    drawn = any(isinstance(one.value, GENERATORS) for one in graph.captures)
    return drawn or any(map(_is_random, graph.nodes()))


def unequal(found: Any, expected: Any, tolerance: float) -> str | None:
    """How two results differ; None where they do not."""
    if type(found) is not type(expected):
        return f"expected {type(expected).__name__}, found {type(found).__name__}"
    if isinstance(expected, (np.ndarray, np.generic)):
        return _unequal_arrays(found, expected, tolerance)
    if isinstance(expected, (tuple, list)):
        if len(found) != len(expected):
            return f"expected {len(expected)} elements, found {len(found)}"
        keys: Sequence[Any] = range(len(expected))
    elif isinstance(expected, dict):
        if list(found) != list(expected):
            return f"expected the keys {list(expected)}, found {list(found)}"
        keys = list(expected)
    else:
        return None if found == expected else f"expected {expected!r}, found {found!r}"
    for key in keys:
        problem = unequal(found[key], expected[key], tolerance)
        if problem:
            return f"at [{key!r}]: {problem}"
    return None


def _unequal_arrays(found: Any, expected: Any, tolerance: float) -> str | None:
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return (
            f"expected {expected.dtype} of shape {expected.shape}, "
            f"found {found.dtype} of shape {found.shape}"
        )
    if expected.dtype.kind in "fc":
        same = np.isclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
    else:
        same = np.asarray(found == expected)
    if np.all(same):
        return None
    wrong = np.argwhere(~same)
    first = tuple(map(int, wrong[0]))
    place = f"at {list(first)} " if first else ""
    others = f" and {len(wrong) - 1} other places ({len(wrong) / same.size:.0%})"
    return (
        f"not within the tolerance of {tolerance} {place}"
        f"({found[first]} and {expected[first]}){others if len(wrong) > 1 else ''}"
    )


# Graphs


def _difference(first: Graph, second: Graph) -> str | None:
    """How two graphs of one function differ; None where they do not."""
    if _essence(first) == _essence(second):
        return None
    one, other = str(first).splitlines(), str(second).splitlines()
    lines = ["ERROR: Graphs differed across invocations!", "\tGraph diff:"]
    if max(len(one), len(other)) <= MAX_ALIGNED_LINES:
        diff: Iterator[str] = iter(difflib.ndiff(one, other))
    else:
        diff = difflib.unified_diff(one, other, "trace", "check", lineterm="")
    lines += [f"\t\t{line.rstrip()}" for line in diff]
    nodes = _first_difference(first, second)
    if nodes is not None:
        lines += ["\tFirst diverging operator:", "\tNode diff:"]
        before, after = (print_node(node).splitlines() if node else [] for node in nodes)
        lines += [f"\t\t{line.rstrip()}" for line in difflib.ndiff(before, after)]
        for title, node in zip(("Trace", "Check"), nodes, strict=True):
            if node is not None and node.source is not None:
                lines += [f"\t{title} source location:", excerpt(node.source)]
    return "\n".join(lines)


def _essence(graph: Graph) -> list[str]:
    """A line for each node, whatever its values are called and wherever it comes from."""
    twin = graph.copy()
    values = [*twin.inputs, *(value for node in twin.nodes() for value in node.outputs)]
    for number, value in enumerate(values):
        value.name = str(number)
    lines = [print_node(node).partition(" # ")[0] for node in twin.nodes()]
    bodies = [held for node in twin.nodes() for held in node.attributes.values()]
    inside = [line for held in bodies if isinstance(held, Graph) for line in _essence(held)]
    return [*lines, str([value.name for value in twin.outputs]), *inside]


def _first_difference(first: Graph, second: Graph) -> tuple[Node | None, Node | None] | None:
    """The first nodes that are not the same; None for one that the other graph alone has."""
    pairs = itertools.zip_longest(first.nodes(), second.nodes())
    texts = itertools.zip_longest(_essence(first), _essence(second))
    for (one, other), (text, other_text) in zip(pairs, texts, strict=False):
        if one is None or other is None or text != other_text:
            return one, other
    return None


def _other_constants(trace: Run, again: Run) -> str | None:
    """Which arrays became constants with other values; None where none did."""
    lines: list[str] = []
    for name, value in trace.constants.items():
        problem = unequal(again.constants.get(name), value, 0.0)
        if isinstance(value, np.ndarray) and problem:
            lines.append(f"\t{name}: {problem}")
            place = trace.places[name]
            lines += [] if place is None else ["\tSource location:", excerpt(place)]
    if not lines:
        return None
    title = (
        "ERROR: Array-valued constants differed in value across invocations. This often indicates "
        "that the tracer has encountered untraceable code."
    )
    return "\n".join([title, *lines])
