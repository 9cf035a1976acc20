"""Entries of host programs, for calls that come again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.engine import CompiledModule, compile_module
from jitcore.codegen.entries.entry import CaptureGuard, Entry, bind
from jitcore.codegen.entries.host_entry import make_host_entry
from jitcore.codegen.entries.signature import GeneratorParam, KindParam, Param, TupleParam
from jitcore.execution.argument_code import ArgumentCode
from jitcore.execution.plans import HostPlan
from jitcore.execution.signatures import Description, describe, describe_unknown, type_and_param
from jitcore.execution.tracebacks import for_user, is_users
from jitcore.execution.trials import Trial
from jitcore.ir.dataclass import dataclass

__all__ = ["HostEntry", "bind_host_entries", "comes_again", "host_entry"]

CALLS_BEFORE_ENTRY = 16
"""How many calls come before an entry is compiled: regions that are of no use show till then."""

MAX_KINDS = 4
"""For how many kinds of arguments a host program gets entries."""


_DESCRIBED = (np.ndarray, int)
"""Of these some are Python's: arrays with odd strides, and ints of more than 64 bits."""


@dataclass(slots=True)
class HostEntry:
    """One entry of a host program, and what it assumes.

    Parameters
    ----------
    entry : Entry
    module : CompiledModule
    params : tuple of Param
    is_known : bool
        Whether this says all about the code that the arguments bring along.
    trial : Trial or None
        Where the plain function may take the calls.
    """

    entry: Entry
    module: CompiledModule
    params: tuple[Param, ...]
    is_known: bool
    trial: Trial | None = None

    @property
    def generality(self) -> int:
        """Of how many arguments only the class is assumed."""
        return sum(map(_unknown_parts, self.params))


def _is_too_general(param: Param) -> bool:
    """Whether a guard would hold for what there may be native code for: arrays and numbers."""
    if isinstance(param, TupleParam):
        return any(map(_is_too_general, param.elements))
    return isinstance(param, KindParam) and param.class_ in _DESCRIBED and param.dtype is None


def _unknown_parts(param: Param) -> int:
    if isinstance(param, TupleParam):
        return sum(map(_unknown_parts, param.elements))
    return isinstance(param, KindParam)


def comes_again(plan: HostPlan, values: Sequence[Any]) -> bool:
    """Count a call with values of these classes; whether it is time for an entry."""
    kinds = tuple(map(type, values))
    if kinds not in plan.calls and len(plan.calls) >= MAX_KINDS:
        return False
    plan.calls[kinds] = plan.calls.get(kinds, 0) + 1
    return plan.calls[kinds] == CALLS_BEFORE_ENTRY


def host_entry(
    key: Sequence[Description],
    values: Sequence[Any],
    guards: Sequence[CaptureGuard],
    *,
    is_known: bool,
    name: str,
) -> HostEntry | None:
    """Compile the entry of a host program; None where it would take too many calls.

    Parameters
    ----------
    key : sequence of Description
        What the program was compiled for.
    values : sequence of object
        An example.
    guards : sequence of CaptureGuard
        Of all captures.
    is_known : bool
        Whether the classes of the arguments say all about the code that they bring along.
    name : str
    """
    params = tuple(map(_param, key, values))
    if any(map(_is_too_general, params)):
        return None
    entry = make_host_entry(params, name=name, captures=guards, translate=for_user)
    module = compile_module(entry.text, name=name, effort="none")
    entry.fill(module)
    return HostEntry(entry, module, params, is_known)


def _param(description: Description, value: Any) -> Param:
    """The guard for what a program was compiled for; of Python's objects the class of one."""
    if description[0] == "tuple":
        parts = zip(description[2:], value, strict=True)
        elements = tuple(_param(one, part) for one, part in parts)
        return TupleParam(elements, description[1])
    _, param = type_and_param(description, "")
    if param is None or isinstance(param, GeneratorParam):
        # A program of Python's locks no generator.
        return KindParam(type(value), _dtype_of_pythons(value))
    return param


def _dtype_of_pythons(value: Any) -> np.dtype[Any] | None:
    """The dtype of an array, where it is Python's by that alone."""
    if type(value) is not np.ndarray:
        return None
    dtype: np.dtype[Any] = value.dtype
    return dtype if describe(np.empty(0, dtype)) == describe_unknown() else None


def bind_host_entries(
    plans: Iterable[HostPlan],
    following: Callable[..., Any],
    code: ArgumentCode,
    *,
    name: str,
) -> list[Callable[..., Any]]:
    """Bind the entries of host programs, each calling the one before where it does not hold.

    The first to be asked are those that assume most.  Where the classes of the arguments do not say
    all about their code, the program runs only if a look at that finds that it assigns nothing
    which the graph takes for granted.  The plain function takes nothing for granted.
    """
    bound = []
    known = [(one, plan) for plan in plans for one in plan.entries]
    for one, plan in sorted(known, key=lambda pair: -pair[0].generality):
        address = one.module.address(one.entry.symbol)
        run = plan.run
        if not (plan.is_plain or one.is_known):
            run = _after_look(run, following, code)
        if one.trial is not None:
            run = one.trial.taker(run)
        program = (run,) if plan.is_plain and is_users(run) else run
        following = bind(address, name, following, program, owner=one)
        bound.append(following)
    return bound


def _after_look(
    run: Callable[..., Any], following: Callable[..., Any], code: ArgumentCode
) -> Callable[..., Any]:
    """A program that runs after a look at the code in the arguments, which otherwise go on."""

    def look_and_run(*values: Any) -> Any:
        args = values[: code.parameters]
        return run(*values) if code.is_settled(args) else following(*args)

    return look_and_run
