"""Functions that a module calls before and after its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from jitcore.ir.dataclass import dataclass

__all__ = ["Hook", "Hooks", "RemovableHandle", "add_hook", "run_after", "run_before"]

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Hook:
    """A function, and whether it takes the call's keyword arguments."""

    function: Callable[..., Any]
    with_kwargs: bool


Hooks = dict[int, Hook]


class RemovableHandle:
    """Removes a hook; as a context manager, at the end of the block."""

    def __init__(self, module: object, name: str, number: int) -> None:
        self._module = module
        self._name = name
        self.id = number

    def remove(self) -> None:
        """Remove the hook; nothing happens the second time."""
        hooks: Hooks = getattr(self._module, self._name)
        kept = {number: hook for number, hook in hooks.items() if number != self.id}
        setattr(self._module, self._name, kept)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def add_hook(
    module: object, name: str, function: Callable[..., Any], *, prepend: bool, with_kwargs: bool
) -> RemovableHandle:
    """Put a hook after the others of the module's attribute ``name``, or before them.

    The attribute becomes another dict, so that compiled code sees the change by identity.
    """
    number = next(_numbers)
    added = {number: Hook(function, with_kwargs)}
    kept: Hooks = getattr(module, name)
    setattr(module, name, {**added, **kept} if prepend else {**kept, **added})
    return RemovableHandle(module, name, number)


def run_before(
    hooks: Hooks, module: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call the hooks, each of which may give other arguments.

    Raises
    ------
    TypeError
        A hook that takes keyword arguments gives neither None nor two values.
    """
    for hook in list(hooks.values()):
        if not hook.with_kwargs:
            found = hook.function(module, args)
            if found is not None:
                args = found if isinstance(found, tuple) else (found,)
            continue
        found = hook.function(module, args, kwargs)
        if found is None:
            continue
        if not isinstance(found, tuple) or len(found) != 2:
            raise TypeError(
                "a forward pre-hook with with_kwargs=True must give None or a tuple of arguments "
                f"and keyword arguments, found {found!r}"
            )
        args, kwargs = found
    return args, kwargs


def run_after(
    hooks: Hooks, module: object, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> Any:
    """Call the hooks, each of which may give another result."""
    for hook in list(hooks.values()):
        if hook.with_kwargs:
            found = hook.function(module, args, kwargs, result)
        else:
            found = hook.function(module, args, result)
        if found is not None:
            result = found
    return result
