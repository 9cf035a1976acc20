"""What NumPy's functions, operators and methods do with jitcore's own arrays on a device.

What changes only the form of an array is done here, on its shadow.  All else is CuPy's work, on
the same memory, where that is installed and has the function, and otherwise NumPy's, on copies.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from jitcore.cuda.array import Array

__all__ = ["Operators", "has_attribute"]

# fmt: off
_METHODS = frozenset({
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip",
    "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "dot", "fill", "flatten",
    "item", "max", "mean", "min", "nonzero", "partition", "prod", "put", "ravel", "repeat",
    "round", "searchsorted", "sort", "std", "sum", "take", "tobytes", "tolist", "trace", "var",
})
# fmt: on
"""Methods of ``ndarray`` that read or write elements."""

_FORM_METHODS = frozenset(["diagonal", "squeeze", "swapaxes", "transpose", "view"])
"""Methods of ``ndarray`` that give a view of another form."""

_FORM_FUNCTIONS: frozenset[Callable[..., Any]] = frozenset(
    {
        np.broadcast_to,
        np.diagonal,
        np.expand_dims,
        np.flip,
        np.iscomplexobj,
        np.isrealobj,
        np.moveaxis,
        np.ndim,
        np.rollaxis,
        np.rot90,
        np.shape,
        np.size,
        np.squeeze,
        np.swapaxes,
        np.transpose,
    }
)
"""Functions that read no element of their first argument, and no other array."""


def has_attribute(kind: type, name: str) -> bool:
    """Whether arrays of a class on a device have an attribute, where NumPy's arrays have it."""
    known = name in _METHODS or name in _FORM_METHODS or hasattr(kind, name)
    return known or not hasattr(np.ndarray, name)


class Operators(np.lib.mixins.NDArrayOperatorsMixin):
    """The protocols of NumPy and of Python's containers and numbers."""

    __slots__ = ()
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def shadow(self) -> np.ndarray[Any, Any]:
        """An ``ndarray`` of the same form, whose elements nobody may touch."""
        raise NotImplementedError

    def of_shadow(self, shadow: np.ndarray[Any, Any]) -> Array:
        """A view of this array that has the form of a view of its shadow."""
        raise NotImplementedError

    def numpy(self) -> np.ndarray[Any, Any]:
        """A copy on the host."""
        raise NotImplementedError

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **keywords: Any) -> Any:
        function = ufunc if method == "__call__" else getattr(ufunc, method)
        return _run(function, inputs, keywords)

    def __array_function__(
        self, function: Callable[..., Any], types: Any, args: Any, keywords: Mapping[str, Any]
    ) -> Any:
        if function in _FORM_FUNCTIONS and args and args[0] is self:
            return self._formed(function(self.shadow(), *args[1:], **keywords))
        return _run(function, args, keywords)

    def __getattr__(self, name: str) -> Any:
        if name in _METHODS:
            return functools.partial(_method, name, self)
        if name in _FORM_METHODS:
            return functools.partial(self._form_method, name)
        raise AttributeError(f"an array on a device has no attribute {name!r}")

    def _form_method(self, name: str, *args: Any, **keywords: Any) -> Any:
        return self._formed(getattr(self.shadow(), name)(*args, **keywords))

    def _formed(self, result: Any) -> Any:
        return self.of_shadow(result) if isinstance(result, np.ndarray) else result

    @property
    def T(self) -> Array:
        """The array with its axes in reverse."""
        return self.of_shadow(self.shadow().T)

    @property
    def real(self) -> Array:
        """A view of the real parts."""
        return self.of_shadow(self.shadow().real)

    @property
    def imag(self) -> Array:
        """The imaginary parts: a view for complex elements, zeros for others."""
        if self.dtype.kind != "c":
            zeros: Array = _run(np.imag, (self,), {})
            return zeros
        return self.of_shadow(self.shadow().imag)

    def reshape(self, *shape: Any, order: Any = "C") -> Any:
        """The array in another shape: a view where there can be one, else a copy."""
        try:
            return self.of_shadow(self.shadow().reshape(*shape, order=order, copy=False))
        except ValueError:
            # There is no such view, or no such shape, which NumPy says in its own words.
            return _run(np.ndarray.reshape, (self, *shape), {"order": order})

    def __getitem__(self, index: Any) -> Any:
        if not _is_basic(index):
            return _run(operator.getitem, (self, index), {})
        return self.of_shadow(self.shadow()[_open(index)])

    def __setitem__(self, index: Any, value: Any) -> None:
        if _is_basic(index):
            # The part alone has to make the way to the host and back.
            _run(operator.setitem, (self[index], ..., value), {})
        else:
            _run(operator.setitem, (self, index, value), {})

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[number] for number in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return value in self.numpy()

    def __bool__(self) -> bool:
        return bool(self.numpy())

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __complex__(self) -> complex:
        return complex(self.numpy())

    def __index__(self) -> int:
        return operator.index(self.numpy())

    def __format__(self, specification: str) -> str:
        if self.shape:
            return object.__format__(self, specification)
        return format(self.numpy()[()], specification)

    __hash__ = None  # type: ignore[assignment]  # as of ndarray: it is compared by its elements


def _is_basic(index: Any) -> bool:
    """Whether an index gives a view."""
    items = index if isinstance(index, tuple) else (index,)
    return all(
        item is None
        or item is Ellipsis
        or isinstance(item, slice)
        or (isinstance(item, int | np.integer) and not isinstance(item, bool))
        for item in items
    )


def _open(index: Any) -> Any:
    """An index that gives an array also where that has no axes."""
    items = index if isinstance(index, tuple) else (index,)
    return items if any(item is Ellipsis for item in items) else (*items, ...)


def _method(name: str, array: Any, /, *args: Any, **keywords: Any) -> Any:
    if name in ("item", "tolist", "tobytes"):
        return getattr(array.numpy(), name)(*args, **keywords)
    return _run(getattr(np.ndarray, name), (array, *args), keywords)


def _run(function: Callable[..., Any], args: Any, keywords: Mapping[str, Any]) -> Any:
    """Call a function of NumPy; what does so needs these classes, and is imported late."""
    return importlib.import_module("jitcore.cuda.numpy_calls").call(function, args, keywords)
