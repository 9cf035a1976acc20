"""The host part's statements: what they read, and what they call for memory of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import replace

from jitcore.codegen.cuda.cudnn import CONVOLUTIONS
from jitcore.codegen.loop_passes.rewriting import replaced, with_blocks
from jitcore.codegen.loop_passes.traversal import bound_names, children, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Call,
    Expr,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Var,
)
from jitcore.codegen.lowering.state import RESULTS

__all__ = [
    "HOST_CALLS",
    "before_returns",
    "branches_on_elements",
    "c_arguments",
    "called_on_host",
    "is_element",
    "is_new_memory",
    "moved_variables",
    "on_host",
]

HOST_CALLS = {
    "jc_empty": "jc_cuda_empty",
    "malloc": "jc_cuda_malloc",
    "jc_malloc": "jc_cuda_malloc",
    "free": "jc_cuda_free",
    "jc_free": "jc_cuda_free",
    "jc_decref": "jc_cuda_decref",
    "jc_incref": "jc_incref",
}
"""What the host calls for memory of the device, and to count references to arrays there."""

_NAMES = {**HOST_CALLS, **CONVOLUTIONS}


def is_element(load: Load) -> bool:
    """Whether a load reads the device's memory: all others read headers of arrays."""
    return load.dtype != "ptr" and load.pointer != RESULTS


def is_new_memory(x: Expr, known: Set[str]) -> bool:
    """Whether a value is new memory, or points to its elements.

    Parameters
    ----------
    x : Expr
    known : set of str
        The variables of which that is known.
    """
    match x:
        case Call(name="jc_empty" | "malloc" | "jc_malloc"):
            return True
        case Load(pointer=Var(name=name), dtype="ptr"):
            return name in known
    return False


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


def moved_variables(within: Stmt, is_of_device: Callable[[Expr], bool]) -> list[Var]:
    """The variables from outside a statement that it gives what depends on elements.

    Parameters
    ----------
    within : Stmt
    is_of_device : callable
        Whether a value does by what is known outside.
    """
    bound, of_device = bound_names([within]), _device_names(within, is_of_device)
    assigned = {one.var.name: one.var for one in walk([within]) if isinstance(one, Assign)}
    return [var for name, var in assigned.items() if name in of_device and name not in bound]


def branches_on_elements(within: Stmt, is_of_device: Callable[[Expr], bool]) -> bool:
    """Whether a branch depends on elements, for which the host would have to wait."""
    of_device = _device_names(within, is_of_device)
    branches = (one.condition for one in walk([within]) if isinstance(one, If))
    return any(is_of_device(x) or of_device & set(variables(x)) for x in branches)


def _device_names(within: Stmt, is_of_device: Callable[[Expr], bool]) -> set[str]:
    """The variables in a statement that depend on elements."""
    inside = [one for one in walk([within]) if isinstance(one, Let | Assign)]
    of_device: set[str] = set()
    while True:
        found = {
            one.var.name
            for one in inside
            if is_of_device(one.value) or of_device & set(variables(one.value))
        }
        if found == of_device:
            return found
        of_device = found


def before_returns(statements: Sequence[Stmt], first: Stmt) -> list[Stmt]:
    """Statements with another one before each return."""
    made: list[Stmt] = []
    for one in statements:
        if isinstance(one, Return):
            made.append(first)
        made.append(with_blocks(one, lambda block: before_returns(block, first)))
    return made
