"""Values of the backward part, which rules combine like numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Union

import numpy as np

from jitcore.ir.graph import Node, Value

if TYPE_CHECKING:
    from jitcore.ir.gradients.reverse import Reverse

__all__ = ["Expression", "Operand", "Term", "function"]

Term = Union["Expression", float]


class Expression:
    """A value of the backward part."""

    def __init__(self, reverse: Reverse, value: Value | None) -> None:
        self.reverse = reverse
        self._value = value

    @property
    def value(self) -> Value:
        """The value, which can be read at the place where nodes are emitted now."""
        assert self._value is not None
        return self._value

    @property
    def known(self) -> float | None:
        """The number that this is whatever the arguments are; None where they decide."""
        return None

    def apply(self, kind: str, *args: Any, **attributes: Any) -> Expression:
        """Emit a node; numbers become constants."""
        return self.reverse.apply(kind, *args, **attributes)

    def __add__(self, other: Term) -> Expression:
        return self.apply("np::add", self, other)

    def __radd__(self, other: Term) -> Expression:
        return self.apply("np::add", other, self)

    def __sub__(self, other: Term) -> Expression:
        return self.apply("np::subtract", self, other)

    def __rsub__(self, other: Term) -> Expression:
        return self.apply("np::subtract", other, self)

    def __mul__(self, other: Term) -> Expression:
        return self.apply("np::multiply", self, other)

    def __rmul__(self, other: Term) -> Expression:
        return self.apply("np::multiply", other, self)

    def __truediv__(self, other: Term) -> Expression:
        return self.apply("np::divide", self, other)

    def __rtruediv__(self, other: Term) -> Expression:
        return self.apply("np::divide", other, self)

    def __neg__(self) -> Expression:
        return self.apply("np::negative", self)

    def equals(self, other: Term) -> Expression:
        """Where two arrays are equal."""
        return self.apply("np::equal", self, other)


class Operand(Expression):
    """What a node of the forward part has read or given.

    It is kept, or computed anew, only where a rule asks for it.
    """

    def __init__(self, reverse: Reverse, forward: Value, reader: Node) -> None:
        super().__init__(reverse, None)
        self.forward = forward
        self.reader = reader

    @property
    def known(self) -> float | None:
        """The number that this is whatever the arguments are; None where they decide."""
        held = self.forward.constant_value
        return float(held) if isinstance(held, int | float | np.number) else None

    @property
    def value(self) -> Value:
        """The value, which can be read at the place where nodes are emitted now."""
        if self._value is None:
            self._value = self.reverse.primals.read(self.forward, self.reader)
        return self._value


def function(kind: str) -> Callable[..., Expression]:
    """A function of expressions that emits nodes of a kind."""

    def call(*args: Any, **attributes: Any) -> Expression:
        first = next(one for one in args if isinstance(one, Expression))
        return first.apply(kind, *args, **attributes)

    return call
