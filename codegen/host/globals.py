"""The global names of a host program, and literals for constants.

Local variables have the first choice of names: where a user's variable is called ``len``, the
program's global for the built-in gets another name.
"""

from __future__ import annotations

import builtins
import cmath
import math
import operator
from collections.abc import Callable, Iterable
from functools import partial
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import numpy as np

from jitcore.codegen.host.text import Precedence, Text, identifier

__all__ = ["Globals"]

_LITERAL_BITS = 4096
_LITERAL_LENGTH = 200
_MODULES: dict[str, ModuleType] = {"np": np, "math": math, "operator": operator}
_NAMED = (FunctionType, BuiltinFunctionType, type, ModuleType, np.ufunc, type(np.sum), partial)


class Globals:
    """Names for the objects that a program refers to.

    Parameters
    ----------
    reserved : iterable of str
        Names that local variables have or may get.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self.namespace: dict[str, Any] = {}
        self._taken = set(reserved)
        self._names: dict[tuple[str, int], str] = {}
        self._kept: list[Any] = []
        self._functions: set[str] = set()
        self._constants = 0

    def is_global(self, name: str) -> bool:
        """Whether the name is that of an object or of a function of the program."""
        return name in self.namespace or name in self._functions

    def take(self, name: str) -> None:
        """Say that a local variable has this name."""
        self._taken.add(name)

    def function(self, hint: str, *, free: bool) -> str:
        """A name for a function of the program; ``free`` if no code refers to it by name."""
        name = hint if free else self.reserve(hint)
        self._functions.add(name)
        self._taken.add(name)
        return name

    def reserve(self, name: str) -> str:
        """``name``, or one like it that nothing has; from now on it is taken."""
        found = name
        count = 0
        while found in self._taken:
            count += 1
            found = f"{name}_{count}"
        self._taken.add(found)
        return found

    def add(self, hint: str, value: Any) -> str:
        """The name of an object, which is new where the object has none yet."""
        key = ("", id(value))
        if key not in self._names:
            # An object that is gone could leave its id to another one.
            self._kept.append(value)
            self._names[key] = self.reserve(identifier(hint.strip("_"), "f"))
            self.namespace[self._names[key]] = value
        return self._names[key]

    def module(self, name: str) -> str:
        """The name of ``np``, ``math`` or ``operator``."""
        return self.add(name, _MODULES[name])

    def builtin(self, name: str) -> str:
        """The name of a built-in: its own, unless a variable has taken that."""
        if name not in self._taken:
            return name
        return self.add(f"builtin_{name}", getattr(builtins, name))

    def callable(self, function: Any) -> str:
        """A function by its public name in NumPy, ``math`` or the built-ins, or by a new one."""
        name = getattr(function, "__name__", "") if isinstance(function, _NAMED) else ""
        public = self._public(name, function)
        return public if public is not None else self.add(name or "f", function)

    def _public(self, name: str, value: Any) -> str | None:
        if not isinstance(name, str) or not name or name.startswith("_"):
            return None
        if vars(builtins).get(name) is value:
            return self.builtin(name)
        for module, held in _MODULES.items():
            if vars(held).get(name) is value:
                return f"{self.module(module)}.{name}"
        return None

    def constant(self, value: Any) -> Text:
        """A constant as a literal that evaluates to exactly it, or by name."""
        text = self.literal(value)
        if text is not None:
            return text
        if isinstance(value, ModuleType):
            known = next((name for name, held in _MODULES.items() if held is value), None)
            return Text((known and self.module(known)) or self.add(value.__name__, value))
        if isinstance(value, _NAMED):
            return Text(self.callable(value))
        return Text(self._numbered(value))

    def primary(self, value: Any) -> str:
        """A constant that is called, subscripted or asked for an attribute."""
        text = self.constant(value)
        return text.text if text.precedence is Precedence.PRIMARY else self._numbered(value)

    def itself(self, value: Any) -> Text:
        """A constant by name, as the very object that it is."""
        return Text(self._named(("", id(value)), value))

    def _numbered(self, value: Any) -> str:
        # Literals that are equal are one constant, whether they are one object or not.
        text = self.literal(value)
        return self._named(("", id(value)) if text is None else (text.text, 0), value)

    def _named(self, key: tuple[str, int], value: Any) -> str:
        if key not in self._names:
            self._names[key] = self.add(f"c{self._constants}", value)
            self._constants += 1
        return self._names[key]

    def dtype(self, dtype: np.dtype[Any]) -> str | None:
        """``np.float32`` for a dtype that NumPy has a public scalar class for, or None."""
        name = "bool" if dtype == np.dtype(bool) else dtype.name
        if dtype.isnative and dtype.kind in "biufc" and getattr(np, name, None) is dtype.type:
            return f"{self.module('np')}.{name}"
        return None

    # Literals

    def literal(self, value: Any) -> Text | None:
        """The literal that evaluates to exactly this value, or None where there is none."""
        writer = _WRITERS.get(type(value))
        if writer is not None:
            return writer(self, value)
        if isinstance(value, np.dtype):
            name = self.dtype(value)
            return Text(f"{self.module('np')}.dtype({name})") if name else None
        if isinstance(value, np.generic):
            name = self.dtype(value.dtype)
            digits = self.digits(value) if name else None
            return Text(f"{name}({digits.text})") if digits else None
        return None

    def digits(self, value: np.generic) -> Text | None:
        """The literal of a Python number that the scalar's dtype turns into exactly this scalar."""
        if value.dtype.kind not in "biufc":
            return None
        for number in _numbers(value):
            if value.dtype.type(number).tobytes() == value.tobytes():
                return self.literal(number)
        return None

    def _word(self, value: Any) -> Text:
        # No primary: Python warns where a literal is called or subscripted.
        return Text("..." if value is Ellipsis else repr(value), Precedence.LITERAL)

    def _int(self, value: int) -> Text:
        text = str(value) if value.bit_length() < _LITERAL_BITS else hex(value)
        return Text(text, Precedence.UNARY if value < 0 else Precedence.LITERAL)

    def _float(self, value: float) -> Text | None:
        if math.isnan(value):
            # Containers find a NaN by its identity, so that others are no literals.
            return Text(f"{self.module('np')}.nan") if value is np.nan else None
        text = repr(value)
        if math.isinf(value):
            text = text.replace("inf", f"{self.module('np')}.inf")
        negative = math.copysign(1.0, value) < 0
        return Text(text, Precedence.UNARY if negative else Precedence.LITERAL)

    def _complex(self, value: complex) -> Text | None:
        real, imaginary = self._float(value.real), self._float(value.imag)
        if real is None or imaginary is None:
            return None
        plain = cmath.isfinite(value) and math.copysign(1.0, value.imag) > 0
        if plain and (value.real or math.copysign(1.0, value.real) > 0):
            return Text(repr(value), Precedence.LITERAL)
        return Text(f"{self.builtin('complex')}({real.text}, {imaginary.text})")

    def _text(self, value: str | bytes) -> Text | None:
        return Text(repr(value), Precedence.LITERAL) if len(value) <= _LITERAL_LENGTH else None

    def _items(self, values: tuple[Any, ...]) -> list[str] | None:
        texts = [self.literal(value) for value in values]
        found = [text.text for text in texts if text is not None]
        fits = len(found) == len(texts) and sum(map(len, found)) <= _LITERAL_LENGTH
        return found if fits else None

    def _tuple(self, value: tuple[Any, ...]) -> Text | None:
        items = self._items(value)
        if items is None:
            return None
        inner = f"{items[0]}," if len(items) == 1 else ", ".join(items)
        return Text(f"({inner})", Precedence.LITERAL)

    def _slice(self, value: slice) -> Text | None:
        items = self._items((value.start, value.stop, value.step))
        return Text(f"{self.builtin('slice')}({', '.join(items)})") if items else None

    def _range(self, value: range) -> Text:
        parts = (value.start, value.stop, value.step)
        return Text(f"{self.builtin('range')}({', '.join(self._int(part).text for part in parts)})")


_WRITERS: dict[type, Callable[[Globals, Any], Text | None]] = {
    type(None): Globals._word,
    type(Ellipsis): Globals._word,
    bool: Globals._word,
    int: Globals._int,
    float: Globals._float,
    complex: Globals._complex,
    str: Globals._text,
    bytes: Globals._text,
    tuple: Globals._tuple,
    slice: Globals._slice,
    range: Globals._range,
}


def _numbers(value: np.generic) -> list[Any]:
    """Python numbers that may stand for the scalar, the shortest first."""
    item = value.item()
    # The shortest digits that give a float32 are fewer than those of it as a float64.
    return [float(str(value)), item] if value.dtype.kind == "f" else [item]
