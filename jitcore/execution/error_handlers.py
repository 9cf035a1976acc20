"""What a native function that could not finish leads to: the plain function, or an exception."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.codegen.entries.entry import LEFT_TO_PYTHON
from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.host.places import at_place
from jitcore.execution.noted_attributes import set_noted_attributes
from jitcore.execution.plans import NativePlan
from jitcore.execution.tracebacks import for_user, is_users

if TYPE_CHECKING:
    from jitcore.execution.executor import Executor

__all__ = ["are_apart", "error_handler"]

_WITHOUT_ARRAYS = (int, float, bool, complex, str, type(None))


Handler = Callable[..., Any] | tuple[Callable[..., Any]]


def error_handler(executor: Executor, plan: NativePlan, loops: set[Any]) -> Handler:
    """What an entry calls where its function could not finish; see `bind`.

    Parameters
    ----------
    executor : Executor
    plan : NativePlan
    loops : set of SourceRange
        What the executor's program leaves to Python from then on; to say it once is enough.
    """
    sites, signature = plan.sites, plan.signature
    if not any(one.after_write or one.is_assumed for one in sites) and _is_users(executor):
        return (executor.fallback,)

    def note_left(site: ErrorSite) -> None:
        if site.is_assumed:
            executor.note_wrong(plan)
        elif loops:
            executor.left |= loops
            loops.clear()

    def handle(status: int, payload: int, *args: Any) -> Any:
        site = None if status == LEFT_TO_PYTHON else sites[status - 1]
        if site is None or not site.after_write or _may_begin_anew(executor, site, args):
            try:
                result = executor.fallback(*args)
                if site is not None:
                    note_left(site)
                return result
            except Exception as error:
                if executor.depth:  # the program around may catch it
                    raise
                raise for_user(error)  # noqa: B904  # it is the same one
        numbers = (ctypes.c_int64 * site.payload).from_address(payload)
        set_noted_attributes(signature, payload, args)
        raise at_place(site.make(list(numbers)), site.source)

    return handle


def _is_users(executor: Executor) -> bool:
    """Whether Python runs a function as the user has written it, with nothing else around."""
    return executor.is_plain and not executor.depth and is_users(executor.fallback)


def _may_begin_anew(executor: Executor, site: ErrorSite, args: tuple[Any, ...]) -> bool:
    """Whether the plain function may run though arguments are written."""
    # Nobody knows whether an array that the function captures is an argument as well.
    return site.repeats and not executor.captured_inputs and are_apart(args)


def are_apart(args: Sequence[Any]) -> bool:
    """Whether the arrays in these arguments are all known, and none shares memory with another."""
    arrays = [array for value in args for array in _arrays(value)]
    is_known = all(type(one) is np.ndarray for one in arrays)
    return is_known and not any(np.may_share_memory(*pair) for pair in combinations(arrays, 2))


def _arrays(value: Any) -> Iterator[Any]:
    """The arrays in a value, and what may hold arrays that nobody knows."""
    if issubclass(type(value), tuple) or type(value) is list:
        for one in value:
            yield from _arrays(one)
    elif not (type(value) in _WITHOUT_ARRAYS or issubclass(type(value), np.generic)):
        yield value
