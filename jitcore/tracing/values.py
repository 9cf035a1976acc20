"""Traced values: what the traced function gets in place of arrays and numbers.

A traced value holds the concrete one and the graph's value for it.  Everything that NumPy's
protocols and Python's operators let an object see is recorded; where Python insists on a value of
its own (``if x:``, ``range(n)``) the concrete one is given, and the trace is told.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jitcore.frontend.expressions import BINARY, UNARY
from jitcore.ir.graph import Value
from jitcore.ir.types import is_named_tuple
from jitcore.tracing.state import Recorder, active, is_idle

__all__ = ["Shape", "Traced", "concrete", "has_traced"]

# A trace replaces the attribute of the module.
_array = np.array


class Traced:
    """A value that a trace knows.

    It says that it is an instance of the concrete value's class, so that checks of types go as
    they do in plain Python.
    """

    __slots__ = ("_concrete", "_owner", "_value")
    _concrete: Any
    _owner: Recorder
    _value: Value

    def __init__(self, concrete_value: Any, value: Value, owner: Recorder) -> None:
        object.__setattr__(self, "_concrete", concrete_value)
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_owner", owner)

    @property
    def __class__(self) -> Any:
        return type(self._concrete)

    @__class__.setter
    def __class__(self, value: Any) -> None:
        raise TypeError("the class of a traced value cannot be assigned")

    # NumPy's protocols

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        function: Any = ufunc if method == "__call__" else getattr(ufunc, method)
        out = keywords.get("out")
        if isinstance(out, tuple) and len(out) == 1:
            keywords["out"] = out[0]
        return _called(function, inputs, keywords)

    def __array_function__(
        self, function: Any, types: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]
    ) -> Any:
        return _called(function, args, keywords)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        self._note("a NumPy array")
        return _array(self._concrete, dtype, copy=copy)

    # Attributes and items

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            # NumPy and Python look for protocols that traced values do not have.
            raise AttributeError(f"a traced value has no attribute {name!r}")
        if name == "dtype" and isinstance(self._concrete, np.dtype):
            # NumPy asks objects for this where it wants a dtype itself.
            self._note("a NumPy dtype")
            return self._concrete
        held = getattr(self._concrete, name)
        recorder = active()
        if recorder is None:
            return held
        if callable(held) and not isinstance(held, type):
            return _Method(self, name)
        return recorder.attribute(self, name)

    def __setattr__(self, name: str, value: Any) -> None:
        _recorded("prim::SetAttr", _set_attribute(name), (self, value), {"name": name})

    def __getitem__(self, index: Any) -> Any:
        return _recorded("prim::getitem", operator.getitem, (self, index))

    def __setitem__(self, index: Any, value: Any) -> None:
        _recorded("prim::setitem", operator.setitem, (self, index, value))

    def __delitem__(self, index: Any) -> None:
        _recorded("prim::delitem", operator.delitem, (self, index))

    # What Python wants to know

    def _note(self, to: str) -> None:
        recorder = active()
        if recorder is not None:
            recorder.converted(self, to)

    def __bool__(self) -> bool:
        self._note("a Python boolean")
        return bool(self._concrete)

    def __int__(self) -> int:
        self._note("a Python integer")
        return int(self._concrete)

    def __float__(self) -> float:
        self._note("a Python float")
        return float(self._concrete)

    def __complex__(self) -> complex:
        self._note("a Python complex number")
        return complex(self._concrete)

    def __index__(self) -> int:
        found = operator.index(self._concrete)
        self._note("a Python index")
        return found

    def __len__(self) -> int:
        found = len(self._concrete)
        self._note("a Python integer by len()")
        return found

    def __contains__(self, item: Any) -> bool:
        self._note("a Python boolean")
        return concrete(item) in self._concrete

    def __hash__(self) -> int:
        return hash(self._concrete)

    def __iter__(self) -> Iterator[Any]:
        recorder = active()
        if recorder is None or not isinstance(self._concrete, np.ndarray):
            yield from self._concrete
            return
        count = len(self._concrete)
        recorder.iterated(self)
        for number in range(count):
            yield self[number]

    def __repr__(self) -> str:
        return repr(self._concrete)

    def __str__(self) -> str:
        return str(self._concrete)

    def __format__(self, spec: str) -> str:
        return format(self._concrete, spec)

    def __copy__(self) -> Any:
        return self.copy() if isinstance(self._concrete, np.ndarray) else self

    def __deepcopy__(self, memo: Any) -> Any:
        return self.__copy__()

    # Operators that are more than a row in the table below

    def __round__(self, digits: int | None = None) -> Any:
        args = (self,) if digits is None else (self, digits)
        return _recorded("prim::round", builtins.round, args)

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return _called(builtins.pow, (self, other, modulus), {})
        return _recorded("prim::pow", operator.pow, (self, other))

    def __trunc__(self) -> Any:
        return _called(math.trunc, (self,), {})

    def __floor__(self) -> Any:
        return _called(math.floor, (self,), {})

    def __ceil__(self) -> Any:
        return _called(math.ceil, (self,), {})


class Shape(tuple[Any, ...]):
    """The shape of a traced array: a tuple of traced numbers that tells when it is used whole."""

    _note_whole: Callable[[], None]

    def whole(self) -> tuple[Any, ...]:
        """The shape as a plain tuple; the trace holds for arrays of this rank from here on."""
        self._note_whole()
        return tuple(super().__iter__())

    def __getitem__(self, index: Any) -> Any:
        return self.whole()[index] if isinstance(index, slice) else super().__getitem__(index)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.whole())

    def __len__(self) -> int:
        return len(self.whole())

    def __add__(self, other: Any) -> Any:
        return self.whole() + tuple(other)

    def __radd__(self, other: tuple[Any, ...]) -> Any:
        return other + self.whole()

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if type(other) is Shape else other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.whole())


class _Method:
    """A method of a traced value, to be called."""

    def __init__(self, receiver: Traced, name: str) -> None:
        self._receiver = receiver
        self.__name__ = name

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        recorder = active()
        if recorder is None:
            _note_threads((self._receiver,))
            method = getattr(self._receiver._concrete, self.__name__)
            return method(*concrete(args), **concrete(keywords))
        return recorder.method(self._receiver, self.__name__, args, keywords)


def concrete(value: Any) -> Any:
    """A value as it is in plain Python, in containers too."""
    kind = type(value)
    if kind is Traced:
        return value._concrete
    if kind is Shape:
        return tuple(map(concrete, tuple.__iter__(value)))
    if kind in (tuple, list, set):
        return kind(map(concrete, value))
    if kind is dict:
        return {concrete(key): concrete(item) for key, item in value.items()}
    if kind is slice:
        return slice(concrete(value.start), concrete(value.stop), concrete(value.step))
    if is_named_tuple(kind):
        return kind(*map(concrete, value))
    return value


def has_traced(value: Any) -> bool:
    """Whether a value is traced, or holds a traced one."""
    kind = type(value)
    if kind is Traced or kind is Shape:
        return True
    if kind is slice:
        return any(map(has_traced, (value.start, value.stop, value.step)))
    if kind is dict:
        return any(map(has_traced, (*value, *value.values())))
    return (kind in (tuple, list, set) or is_named_tuple(kind)) and any(map(has_traced, value))


def _recorded(
    kind: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    attributes: Mapping[str, Any] | None = None,
) -> Any:
    recorder = active()
    if recorder is None:
        _note_threads(args)
        return function(*concrete(args))
    return recorder.record(kind, function, args, None, attributes)


def _note_threads(args: Sequence[Any]) -> None:
    """Note the use of traced values by a thread that records nothing."""
    if is_idle():
        for one in args:
            if type(one) is Traced:
                one._owner.used_elsewhere(one)


def _called(function: Any, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
    recorder = active()
    if recorder is None:
        _note_threads(args)
        return function(*concrete(args), **concrete(dict(keywords)))
    return recorder.call(function, args, keywords)


def _set_attribute(name: str) -> Callable[[Any, Any], None]:
    return lambda owner, value: setattr(owner, name, value)


def _binary(kind: str, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: _recorded(kind, function, (self, other))


def _reflected(kind: str, function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    return lambda self, other: _recorded(kind, function, (other, self))


def _unary(kind: str, function: Callable[..., Any]) -> Callable[[Any], Any]:
    return lambda self: _recorded(kind, function, (self,))


def _add_operators() -> None:
    for kind in BINARY.values():
        name = kind.rstrip("_")
        function = getattr(operator, kind)
        if kind != "pow":  # It may have a modulus.
            setattr(Traced, f"__{name}__", _binary(f"prim::{kind}", function))
        setattr(Traced, f"__r{name}__", _reflected(f"prim::{kind}", function))
        in_place = getattr(operator, f"i{name}")
        setattr(Traced, f"__i{name}__", _binary(f"prim::i{kind}", in_place))
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        function = getattr(operator, name)
        setattr(Traced, f"__{name}__", _binary(f"prim::{name}", function))
    for name in UNARY.values():
        function = getattr(operator, name)
        setattr(Traced, f"__{name}__", _unary(f"prim::{name}", function))
    setattr(Traced, "__abs__", _unary("prim::abs", builtins.abs))  # noqa: B010
    setattr(Traced, "__divmod__", _binary("prim::divmod", builtins.divmod))  # noqa: B010
    setattr(Traced, "__rdivmod__", _reflected("prim::divmod", builtins.divmod))  # noqa: B010


_add_operators()
