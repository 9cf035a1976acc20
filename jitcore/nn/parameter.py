"""What marks an array as a parameter or a buffer when it is assigned to a module."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from jitcore.devices import is_device_array
from jitcore.nn.arrays import Array

__all__ = ["Buffer", "Parameter"]


class Parameter:
    """Marks an array as a parameter of the module that it is assigned to.

    The module keeps the array itself: ``module.weight`` is then a plain ``numpy.ndarray``, and so
    is everything computed with it.  A subclass of ``ndarray`` would make every operation on a
    parameter slower, and its results would be of the subclass, views of them included, so that
    eager and compiled calls would differ.  Because parameters are arrays, to share one between
    modules assign ``Parameter(other.weight)``, which does not copy.

    Parameters
    ----------
    data : array_like
        An array is not copied; anything else becomes an array, of float32 where NumPy would make
        float64.
    requires_grad : bool
        Whether the parameter is to be trained.

    Examples
    --------
    >>> import numpy as np
    >>> from jitcore import nn
    >>> class Scale(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.factor = nn.Parameter(np.ones(3, np.float32))
    >>> type(Scale().factor)
    <class 'numpy.ndarray'>
    """

    __slots__ = ("data", "requires_grad")

    def __init__(self, data: npt.ArrayLike | Parameter, requires_grad: bool = True) -> None:
        self.data: Array = data.data if isinstance(data, Parameter) else _array(data)
        self.requires_grad = requires_grad

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.data, dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{self.data!r}"


class Buffer:
    """Marks an array as a buffer of the module that it is assigned to; see ``Parameter``.

    Parameters
    ----------
    data : array_like
    persistent : bool
        Whether the buffer is part of the state dict.
    """

    __slots__ = ("data", "persistent")

    def __init__(self, data: npt.ArrayLike, *, persistent: bool = True) -> None:
        self.data = _array(data)
        self.persistent = persistent

    def __repr__(self) -> str:
        return f"Buffer containing:\n{self.data!r}"


def _array(data: npt.ArrayLike) -> Array:
    if isinstance(data, np.ndarray):
        return data.view(np.ndarray) if type(data) is not np.ndarray else data
    if is_device_array(data):
        held: Any = data  # it does what modules ask of an array
        return held
    found = np.asarray(data)
    return found.astype(np.float32) if found.dtype == np.float64 else found
