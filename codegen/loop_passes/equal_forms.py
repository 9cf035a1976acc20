"""What makes functions of loop nests the same code: equal forms, whatever their names are.

A program that calls one of its functions twice has each nest of that twice, over other arrays.
To write the code of a nest takes far longer than to find out that there is one like it.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any

from jitcore.codegen.loops import Comment, Const, Function, Var

__all__ = ["form_of"]


def form_of(function: Function) -> Hashable:
    """What is equal for functions that do the same with their parameters.

    Variables, and what is known to be memory of its own, are numbered as they occur.
    """
    form = _Form()
    for one in (function.params, function.body, function.result, function.optimized):
        form.add(one)
    return tuple(form.parts)


def _is_negative_nan(value: Any) -> bool:
    """Whether a number is NaN with a sign, which its text does not show."""
    return bool(value != value and math.copysign(1.0, value) < 0)


class _Form:
    """The parts of a form, one after the other."""

    def __init__(self) -> None:
        self.parts: list[Any] = []
        self._variables: dict[str, int] = {}
        self._memory: dict[str, int] = {"": 0}

    def add(self, x: Any) -> None:
        """Append what a statement, an expression, or a field of one is."""
        kind = type(x)
        if kind is Var:
            number = self._variables.setdefault(x.name, len(self._variables))
            self.parts += (Var, number, x.dtype)
        elif kind is Const:
            # Not the value: 0.0 and -0.0 are equal, and so are 1 and True.
            self.parts += (Const, repr(x.value), _is_negative_nan(x.value), x.dtype)
        elif kind is list or kind is tuple:
            for one in x:
                self.add(one)
            # Behind the last one.
            self.parts.append(list)
        elif not hasattr(kind, "__slots__"):
            self.parts.append(x)
        elif kind is not Comment:
            self._add_record(x)

    def _add_record(self, x: Any) -> None:
        self.parts.append(type(x))
        for name in type(x).__slots__:
            value = getattr(x, name)
            if name == "root":
                value = self._memory.setdefault(value, len(self._memory))
            self.add(value)
