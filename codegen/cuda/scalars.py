"""Scalars that depend on elements, and therefore stay on the device: where they are, and who asks.

Each has a slot in ``scratch``, a small array, or is computed of such anew in each kernel that reads
it.  The host reads a slot only where the program has to go on by the number.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Iterator, Sequence

import numpy as np

from jitcore.codegen.cuda.driver import DriverError
from jitcore.codegen.cuda.host_part import is_element
from jitcore.codegen.cuda.results import FETCHED
from jitcore.codegen.entries.error_sites import ErrorSite
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import bound_names, free_variables, loads, variables
from jitcore.codegen.loops import (
    Binary,
    Call,
    Cast,
    Expr,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lower import Lowered
from jitcore.codegen.lowering.arithmetic import ZERO, add, compare, integer
from jitcore.codegen.lowering.operands import NotNative
from jitcore.codegen.lowering.state import RESULTS

__all__ = ["COUNTERS", "SLOT", "DeviceScalars"]

SLOT = 8
"""Bytes of a device scalar."""

COUNTERS = 2
"""The slots that the counter of blocks takes, so that vectors may begin after it."""

_FAILED = "CUDA error {0}"
"""The driver says more of it (`Driver.error`)."""


class DeviceScalars(ABC):
    """The scalars of the device in one function.

    Parameters
    ----------
    lowered : Lowered
    """

    def __init__(self, lowered: Lowered) -> None:
        self._name = lowered.function.name
        params = {param.name for param in lowered.function.params}
        self._names = bound_names(lowered.function.body) | params
        self.sites = list(lowered.sites)
        self._scratch = Var(numbered("scratch", self._names), "ptr")
        self._size = COUNTERS
        self._slots: dict[str, int] = {}
        self._derived: dict[str, Let] = {}
        self._initial: dict[str, Expr] = {}
        self._single: list[Stmt] = []
        self._is_in_loop = False

    @abstractmethod
    def _flush(self) -> Iterator[Stmt]:
        """Launch what one thread has to do."""

    def _is_of_device(self, x: Expr) -> bool:
        """Whether a value depends on elements."""
        if any(map(is_element, loads(x))):
            return True
        return any(name in self._derived or name in self._slots for name in variables(x))

    def _fetched(self, x: Expr) -> Generator[Stmt, None, Expr]:
        """A value on the host, which waits for the device if it depends on elements."""
        if not self._is_of_device(x):
            return x
        device = Var(numbered(f"{self._name}_fetched", self._names), x.dtype)
        self._take(device, x)
        yield from self._flush()
        return (yield from self._read(self._slots[device.name], x.dtype))

    def _read(self, slot: int, dtype: str) -> Generator[Stmt, None, Expr]:
        """What a slot holds after all work so far."""
        host = Var(numbered("fetched", self._names), dtype)
        status = Var(numbered("status", self._names), "int64")
        target = Cast(add(Cast(RESULTS, "int64"), integer(SLOT * FETCHED)), "ptr")
        place = integer(SLOT * slot)
        source = Cast(Binary("add", Cast(self._scratch, "int64"), place, "int64"), "ptr")
        call = Call("jc_cuda_read", (target, source, integer(SLOT)), "int32", external=True)
        yield Let(status, Cast(call, "int64"))
        yield self._unless_done(status)
        index = integer(FETCHED * SLOT // np.dtype(dtype).itemsize)
        yield Let(host, Load(RESULTS, index, dtype, "results"))
        return host

    def _new_slots(self, count: int) -> int:
        self._size += count
        return self._size - count

    def _take(self, var: Var, value: Expr) -> None:
        """Give a device scalar a value."""
        value = self._inline(value)
        self._settle(var)
        if var.name not in self._slots:
            self._slots[var.name] = self._new_slots(1)
        self._add_single(Store(self._scratch, self._place(var), value, self._scratch.name))

    def _settle(self, var: Var) -> None:
        """Give slots to what was derived of a scalar that is about to change."""
        for name, let in list(self._derived.items()):
            if name in self._derived and self._depends(let.value, var.name):
                value = self._inline(let.value)
                del self._derived[name]
                self._slots[name] = self._new_slots(1)
                place = self._place(let.var)
                self._single.append(Store(self._scratch, place, value, self._scratch.name))

    def _depends(self, x: Expr, name: str) -> bool:
        return any(
            one == name or (one in self._derived and self._depends(self._derived[one].value, name))
            for one in variables(x)
        )

    def _move_to_device(self, var: Var) -> None:
        """Move a variable of the host to the device, with the value it has."""
        if var.name in self._slots:
            return
        if var.name not in self._initial:
            raise NotNative(f"the variable {var.name} moves to the device")
        self._slots[var.name] = self._new_slots(1)
        place = self._place(var)
        self._single.append(
            Store(self._scratch, place, self._initial[var.name], self._scratch.name)
        )

    def _place(self, var: Var) -> Expr:
        return integer(self._slots[var.name] * SLOT // np.dtype(var.dtype).itemsize)

    def _inline(self, x: Expr) -> Expr:
        """A value of device scalars, read from their slots."""

        def change(one: Expr) -> Expr | None:
            if not isinstance(one, Var):
                return None
            if one.name in self._derived:
                return self._inline(self._derived[one.name].value)
            if one.name in self._slots:
                return Load(self._scratch, self._place(one), one.dtype, self._scratch.name)
            return None

        return replaced(x, change)

    def _add_single(self, statement: Store) -> None:
        read = (load for load in loads(statement.value) if load.root != self._scratch.name)
        if self._is_in_loop and any(map(is_element, read)):
            raise NotNative("a loop whose iterations read single elements one after the other")
        self._single.append(with_expressions(statement, self._inline))

    def _bindings(self, body: Sequence[Stmt]) -> list[Stmt]:
        """What a kernel reads of device scalars, bound at its beginning."""
        made: dict[str, Stmt] = {}

        def bind(var: Var) -> None:
            if var.name in made:
                return
            if var.name in self._derived:
                value = self._derived[var.name].value
                for one in free_variables([Let(var, value)]):
                    bind(one)
                made[var.name] = Let(var, value)
            elif var.name in self._slots:
                value = Load(self._scratch, self._place(var), var.dtype, self._scratch.name)
                made[var.name] = Let(var, value)

        for var in free_variables(body):
            bind(var)
        return list(made.values())

    def _site(self, exception: type[BaseException], message: str = "", payload: int = 0) -> Expr:
        site = ErrorSite(exception, message, payload, None, True)
        if site not in self.sites:
            self.sites.append(site)
        return integer(self.sites.index(site) + 1)

    def _unless_done(self, status: Var) -> Stmt:
        """Leave with the driver's status where that is an error."""
        site = self._site(DriverError, _FAILED, 1)
        failed: list[Stmt] = [Store(RESULTS, ZERO, status, "results"), Return(site)]
        return If(compare("ne", status, ZERO), failed, unlikely=True)
