"""The host part's statements: what they read, and what they call for memory of the device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.cuda.cudnn import CONVOLUTIONS
from jitcore.codegen.loop_passes.rewriting import replaced, with_blocks
from jitcore.codegen.loop_passes.traversal import children
from jitcore.codegen.loops import Call, Expr, Load, Return, Stmt
from jitcore.codegen.lowering.state import RESULTS

__all__ = [
    "COUNTING",
    "HOST_CALLS",
    "before_returns",
    "c_arguments",
    "called_on_host",
    "is_element",
    "on_host",
]

HOST_CALLS = {
    "jc_empty": "jc_cuda_empty",
    "malloc": "jc_cuda_malloc",
    "jc_malloc": "jc_cuda_malloc",
    "free": "jc_cuda_free",
    "jc_free": "jc_cuda_free",
}
"""What the host calls for memory of the device."""

_NAMES = {**HOST_CALLS, **CONVOLUTIONS}

COUNTING = frozenset({"jc_incref", "jc_decref"})
"""What counts references to arrays, on a device as on the host."""


def is_element(load: Load) -> bool:
    """Whether a load reads the device's memory: all others read headers of arrays."""
    return load.dtype != "ptr" and load.pointer != RESULTS


def c_arguments(x: Expr) -> Iterator[Expr]:
    """What an expression's calls of C functions are given."""
    if isinstance(x, Call) and x.external:
        yield from x.args
    for child in children(x):
        yield from c_arguments(child)


def on_host(x: Expr) -> Expr:
    """An expression with the device's functions in the place of the host's and of lowering's."""

    def change(one: Expr) -> Expr | None:
        return called_on_host(one) if isinstance(one, Call) and one.name in _NAMES else None

    return replaced(x, change)


def called_on_host(call: Call) -> Call:
    """A call with the device's function, and those in its arguments."""
    name = _NAMES.get(call.name, call.name)
    return replace(call, name=name, args=tuple(map(on_host, call.args)))


def before_returns(statements: Sequence[Stmt], first: Stmt) -> list[Stmt]:
    """Statements with another one before each return."""
    made: list[Stmt] = []
    for one in statements:
        if isinstance(one, Return):
            made.append(first)
        made.append(with_blocks(one, lambda block: before_returns(block, first)))
    return made
