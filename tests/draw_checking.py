"""Checks of programs that draw random numbers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore import ScriptFunction
from jitcore.execution.plans import NativePlan

__all__ = ["is_native", "outcome", "state_of"]


def state_of(generator: Any) -> str:
    """What a generator draws next, as a text that is compared."""
    if isinstance(generator, np.random.RandomState):
        return repr(generator.get_state(legacy=False))
    return repr(generator.bit_generator.state)


def is_native(scripted: ScriptFunction) -> bool:
    """Whether all that was compiled is machine code from end to end."""
    return all(isinstance(one.plan, NativePlan) for one in scripted.specializations)


def outcome(function: Callable[..., Any], arguments: Sequence[Any]) -> tuple[Any, Any]:
    """What a call gives, or raises."""
    try:
        return "value", function(*arguments)
    except Exception as error:
        return type(error), str(error)
