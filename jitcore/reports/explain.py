"""``explain``: what was compiled for a call, what was fused, what was not and why."""

from __future__ import annotations

import inspect
import reprlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.codegen.runtime.functions import memory_in_use, most_memory_in_use
from jitcore.devices import is_device_array
from jitcore.execution import strategy
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.execution.signatures import Description
from jitcore.frontend.layers import script_state
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass
from jitcore.reports.differences import assumption, differences
from jitcore.reports.nodes import apart_lines, plan_lines, table, unfused_bytes, wrapped

if TYPE_CHECKING:
    from jitcore.execution.executor import Executor, Specialization
    from jitcore.script import ScriptFunction

__all__ = ["Explanation", "explain", "explain_call", "report_on"]

_SHOWN = 4
"""As many earlier specializations are compared with a call that fits none."""

_KINDS = ("STATIC", "DYNAMIC")

_RECURSION = (
    "it calls itself, and to look at the arguments again at each level would cost more than "
    "compiled code saves"
)

_SOONER = "that has done calls like this one sooner"


@dataclass(slots=True)
class Explanation:
    """The report on one call, or on what was compiled last, without a call.

    Attributes
    ----------
    result : object
        What the call gave; None without a call, where times and sizes are 0.
    seconds : float
        Wall time of the call, without compilation.
    compilation_seconds : float
        Wall time of the compilation that this call needed; 0 where it needed none.
    bytes_moved : int
        Size of the arrays that went in and came out.
    peak_bytes : int
        The most that large temporaries and results of compiled code took at once, of the process.
    lines : list of str
        The report.
    """

    result: Any
    seconds: float
    compilation_seconds: float
    bytes_moved: int
    peak_bytes: int = 0
    lines: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def __repr__(self) -> str:
        return str(self)


def explain(function: ScriptFunction) -> Any:
    """A callable that runs ``function`` and gives an `Explanation`.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.script
    ... def f(x):
    ...     return np.tanh(x) * 2 + 1
    >>> report = jitcore.explain(f)(np.ones(3))
    >>> report.result.shape
    (3,)
    """
    try:
        return compiled_form(function).explain
    except AttributeError:
        found = type(function).__name__
        raise TypeError(f"explain() takes what script() gave; found {found}") from None


def compiled_form(function: Any) -> Any:
    """What `script` gave, of a module its ``forward``: the module may have any names itself."""
    is_module = script_state(function, "_compiled_methods") is not None
    return function.forward if is_module else function


def explain_call(
    function: ScriptFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation:
    """Run a call and report on it."""
    changed = _changed_captures(function)
    bound, captured = function._arrange(args, kwargs)
    executor, inputs = function._executor.placed((*bound, *captured))
    earlier = list(executor.specializations)
    begin = time.perf_counter()
    found = None if function.is_recursive else executor.specialization(inputs)
    compiled = time.perf_counter()
    most_memory_in_use()
    before = memory_in_use()
    executor.wait()
    begin_call = time.perf_counter()
    result = function(*args, **kwargs)
    executor.wait()
    seconds = time.perf_counter() - begin_call
    if found is not None and not any(found is one for one in executor.specializations):
        # The call has shown that some functions do better when they are compiled for themselves.
        found = executor.specialization(inputs)
    peak = most_memory_in_use() - before
    is_new = found is not None and not any(found is one for one in earlier)
    compilation = compiled - begin if is_new else 0.0
    report = Explanation(result, seconds, compilation, _bytes_moved(bound, captured, result), peak)
    report.lines.append(_heading(function))
    if executor.on_device:
        report.lines.extend(_place(executor, found))
    if function.is_recursive:
        report.lines.extend(wrapped("runs in Python, as it is: ", _RECURSION))
    else:
        report.lines.extend(_fate(executor, found, inputs, earlier, compilation))
        if found is not None and _is_left(found.plan):
            report.lines.extend(wrapped("runs in Python, as it is, by now: ", _SOONER))
    if changed:
        report.lines.append(f"The graph was built anew, as {' and '.join(changed)} has changed.")
    if found is not None:
        report.lines.extend(_program_lines(function, executor, found))
    report.lines.extend(("", *_measured(report, found)))
    return report


def report_on(
    function: ScriptFunction, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Explanation:
    """Report on a call; without arguments that the function needs, on what was compiled last."""
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = (one for one in function._parameters if one.kind not in starred)
    if not args and not kwargs and any(one.default is one.empty for one in needed):
        return _report_on_last(function)
    return function._explain_call(args, kwargs)


def _report_on_last(function: ScriptFunction) -> Explanation:
    """Report on the specialization that was compiled last, without a call.

    Raises
    ------
    TypeError
        Nothing has been compiled yet.
    """
    report = Explanation(None, 0.0, 0.0, 0, lines=[_heading(function)])
    if function.is_recursive:
        report.lines.extend(wrapped("runs in Python, as it is: ", _RECURSION))
        return report
    names = ", ".join(one.name for one in function._parameters)
    places = [one for one in function._executor.everywhere() if one.specializations]
    if not places:
        raise TypeError(
            f"{function.__name__} has not been compiled for any arguments yet: "
            f"give those of a call, as in explain({names})"
        )
    executor = places[-1]
    found = executor.specializations[-1]
    if executor.on_device:
        report.lines.extend(_place(executor, found))
    report.lines.append(f"specialization {len(executor.specializations)}, {found.kind}, the last")
    if _is_left(found.plan):
        report.lines.extend(wrapped("runs in Python, as it is, by now: ", _SOONER))
    report.lines.extend(_program_lines(function, executor, found))
    report.lines.extend(
        ("", *wrapped("nothing was called: ", f"explain({names}) calls, and times"))
    )
    return report


def _heading(function: ScriptFunction) -> str:
    plain = function.__wrapped_function__
    return f"{plain.__qualname__}{inspect.signature(plain)}"


def _program_lines(
    function: ScriptFunction, executor: Executor, found: Specialization
) -> Iterator[str]:
    """What a specialization assumes, and which part of its program runs where."""
    yield from ("", "assumes", *_assumptions(function, found), "")
    yield from plan_lines(found.plan)
    yield from apart_lines(_forms(executor, found.plan))


def _is_left(plan: NativePlan | HostPlan) -> bool:
    """Whether some calls of a program are done by the plain function, which has been faster."""
    entries = plan.entries if isinstance(plan, HostPlan) else []
    return any(one.trial is not None and one.trial.is_plain for one in entries)


def _forms(executor: Executor, plan: NativePlan | HostPlan) -> Iterator[tuple[Any, Any]]:
    """The functions, and the methods, that a program calls by their own compiled forms."""
    if isinstance(plan, HostPlan):
        yield from executor.apart.items()
        if executor.methods is not None:
            yield from executor.methods.forms_of(plan.methods)


def _place(executor: Executor, found: Specialization | None) -> Iterator[str]:
    """On which device a call runs."""
    yield f"arrays on {executor.place}"
    if found is None:
        yield "runs on the host; arrays are copied there and back"
    elif isinstance(found.plan, HostPlan):
        library = " and ".join(dict.fromkeys(found.plan.library_calls))
        if library:
            yield f"{library} by CuPy, on the device"
        if found.plan.reason:
            yield from wrapped("runs on the host, on copies of the arrays: ", found.plan.reason)
        elif _has_host_parts(found.plan):
            yield "runs in parts: on the device the regions that have a form for it,"
            yield "all others on the host, on copies of the arrays"
        else:
            yield "runs on the device, in parts; Python makes views, and what is no array"


def _has_host_parts(plan: HostPlan) -> bool:
    """Whether some of a device's program runs on copies: parts, or regions without another form."""
    places = (place for region in plan.regions.values() for place in region.everywhere())
    inner = (one.plan for place in places for one in place.specializations)
    return bool(plan.host_parts) or any(isinstance(one, HostPlan) and one.reason for one in inner)


def _changed_captures(function: ScriptFunction) -> list[str]:
    """Globals and closure cells that the graph took for constants and that differ now."""
    captures = function._graph.captures
    return [one.path for one in captures if one.input is None and one.read() is not one.value]


def _fate(
    executor: Executor,
    found: Specialization | None,
    inputs: tuple[Any, ...],
    earlier: Sequence[Specialization],
    compilation: float,
) -> Iterator[str]:
    """Which specialization takes the call, or why none does."""
    names = [value.name for value in executor.graph.inputs]
    given = {kind: executor.describer.describe(inputs, static=kind == "STATIC") for kind in _KINDS}
    if found is None:
        allowed = f"the fusion strategy {strategy.current()} allows no further specialization"
        yield from wrapped("runs unfused, through NumPy: ", allowed)
        yield from _comparison(earlier, given, names)
        return
    number = next(n for n, one in enumerate(executor.specializations, start=1) if one is found)
    label = f"specialization {number}, {found.kind}"
    if number <= len(earlier):
        yield f"{label}, compiled earlier"
        return
    yield f"{label}, compiled for this call in {_duration(compilation)}"
    yield from _comparison(earlier, given, names)


def _comparison(
    earlier: Sequence[Specialization],
    given: Mapping[str, Sequence[Description]],
    names: Sequence[str],
) -> Iterator[str]:
    """Why none of the specializations that there were takes the call."""
    for number, one in list(enumerate(earlier, start=1))[-_SHOWN:]:
        found = differences(one.key, given[one.kind], names)
        yield from wrapped(
            f"  not specialization {number}: ", "; ".join(found) or "other constants"
        )


def _assumptions(function: ScriptFunction, found: Specialization) -> Iterator[str]:
    inputs = found.typed.inputs
    rows = [
        (value.name, assumption(key, value.name))
        for value, key in zip(inputs, found.key, strict=True)
    ]
    constants = [one for one in function._graph.captures if one.input is None]
    rows += [
        (one.path, "still absent" if one.value is MISSING else f"still {reprlib.repr(one.value)}")
        for one in constants
        if not isinstance(one.value, ModuleType)
    ]
    modules = [one.path for one in constants if isinstance(one.value, ModuleType)]
    if modules:
        rows.append((", ".join(modules), f"still the same module{'s' * (len(modules) > 1)}"))
    if rows:
        _, *lines = table(["", ""], rows, indent=2)
        yield from lines


def _measured(report: Explanation, found: Specialization | None) -> Iterator[str]:
    moved = f"{_size(report.bytes_moved)} of arguments and results"
    rate = ""
    if report.bytes_moved and report.seconds > 0:
        rate = f", {report.bytes_moved / report.seconds / 1e9:.2g} GB/s"
    yield f"this call: {_duration(report.seconds)}, {moved}{rate}"
    if report.peak_bytes:
        yield f"  at most {_size(report.peak_bytes)} of results and large temporaries at once"
    if found is not None and isinstance(found.plan, NativePlan):
        unfused = unfused_bytes(found.typed)
        if unfused is not None and unfused > report.bytes_moved:
            yield f"  operation by operation NumPy would move {_size(unfused)}"
        if not {"raise", "call", "print", "log"}.isdisjoint(np.geterr().values()):
            yield "  np.errstate asks for more than warnings, so that the call ran through NumPy"


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.1f} us"


def _size(count: int) -> str:
    if count >= 1e6:
        return f"{count / 1e6:.1f} MB"
    return f"{count / 1e3:.1f} kB" if count >= 1e3 else f"{count} bytes"


def _bytes_moved(*groups: Any) -> int:
    """The size of all arrays in nested tuples, lists and dicts, each counted once."""
    arrays: dict[int, int] = {}
    stack: list[Any] = list(groups)
    while stack:
        one = stack.pop()
        if isinstance(one, (tuple, list)):
            stack.extend(one)
        elif isinstance(one, dict):
            stack.extend(one.values())
        elif isinstance(one, np.ndarray) or is_device_array(one):
            arrays[id(one)] = one.nbytes
    return sum(arrays.values())
