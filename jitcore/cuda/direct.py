"""Direct entries of what was compiled for a device: calls that need no Python on their way.

They stand in the chain of entries of the executor on the host, behind its own
(`jitcore.codegen.cuda.direct`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitcore.codegen.cuda.callbacks import has_direct
from jitcore.codegen.cuda.direct import DirectEntry, Place, make_direct_entry
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ArrayResult,
    ConstantParam,
    ConstantResult,
    InputResult,
    Param,
    Result,
    ScalarParam,
    ScalarResult,
    TupleParam,
    TupleResult,
)
from jitcore.cuda.array import Array
from jitcore.cuda.compile import DeviceCode
from jitcore.cuda.pool import Block, pool_of
from jitcore.execution.executor import Specialization, capture_guard, guards_of
from jitcore.execution.plans import NativePlan

if TYPE_CHECKING:
    from jitcore.cuda.executor import DeviceExecutor

__all__ = ["direct_entry"]


def direct_entry(executor: DeviceExecutor, found: Specialization) -> DirectEntry | None:
    """The direct entry of a specialization; None where its calls need Python."""
    plan = found.plan
    captures = (*executor.host.graph.captures, *found.assumed)
    if not isinstance(plan, NativePlan) or None in map(capture_guard, captures):
        return None
    if executor.host.replays or not _suits(plan):
        return None
    kernel, driver = plan.kernel, executor.driver
    return make_direct_entry(
        plan.signature,
        kernel.module.address(kernel.lowered.function.name),
        Place(Array, Block, pool_of(executor.device), executor.borders.functions),
        (driver.context_address, driver.context(executor.device)),
        name=kernel.name,
        captures=(*executor.host.captures, *guards_of(found.assumed, found.code)),
    )


def _suits(plan: NativePlan) -> bool:
    """Whether what a native function takes, gives and calls is simple."""
    signature, kernel = plan.signature, plan.kernel
    assert isinstance(kernel, DeviceCode)
    return (
        not (signature.writes or signature.element_writes or signature.draws_globally)
        and all(map(_is_simple, signature.params))
        and _is_plain(signature.result)
        and all(map(_may_be_called, kernel.calls))
    )


_COUNTING = frozenset({"jc_cuda_decref", "jc_incref"})
"""What counts references of arrays."""


def _may_be_called(symbol: str) -> bool:
    """Whether a function that native code calls runs no Python, or knows of direct calls."""
    return has_direct(symbol) or symbol in _COUNTING or not symbol.startswith("jc_")


def _is_simple(param: Param) -> bool:
    if isinstance(param, TupleParam):
        return all(map(_is_simple, param.elements))
    if isinstance(param, ArrayParam):
        # What a native function may return is the array itself, of which it would have a shadow.
        return not param.referenced
    return isinstance(param, ScalarParam | ConstantParam)


def _is_plain(result: Result) -> bool:
    if isinstance(result, TupleResult):
        return all(map(_is_plain, result.elements))
    return isinstance(result, ArrayResult | ScalarResult | ConstantResult | InputResult)
