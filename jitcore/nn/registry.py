"""The register of a module: which attributes are parameters, buffers and modules."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np

from jitcore.devices import is_device_array
from jitcore.nn.arrays import Array
from jitcore.nn.parameter import Buffer, Parameter

__all__ = ["BUFFERS", "PARAMETERS", "Kind", "Registry", "joined"]


class Kind(enum.Enum):
    """What an attribute of a module is registered as."""

    PARAMETER = "parameter"
    FIXED_PARAMETER = "parameter that is not trained"
    BUFFER = "buffer"
    TEMPORARY_BUFFER = "buffer that is not saved"
    MODULE = "module"


PARAMETERS = (Kind.PARAMETER, Kind.FIXED_PARAMETER)
BUFFERS = (Kind.BUFFER, Kind.TEMPORARY_BUFFER)


class Registry:
    """Attributes, some of which are registered as parameters, buffers or modules inside.

    ``_registered`` has their names, in the order they came, and the values are ordinary
    attributes, so that reading one costs nothing more than in any other object.  A change makes
    it another dict, so that compiled code sees the change by identity.
    """

    __jitcore_module__: ClassVar[bool] = True
    _registered: dict[str, Kind]

    def __init__(self) -> None:
        self.__dict__["_registered"] = {}

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Parameter):
            kind = Kind.PARAMETER if value.requires_grad else Kind.FIXED_PARAMETER
            self._register(name, value.data, kind)
        elif isinstance(value, Buffer):
            self._register(name, value.data, _buffer_kind(value.persistent))
        elif isinstance(value, Registry):
            self._register(name, value, Kind.MODULE)
        elif name in self.__dict__.get("_registered", ()):
            self.__dict__[name] = self._replacement(name, value)
        else:
            super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        self._set_kind(name, None)

    def _set_kind(self, name: str, kind: Kind | None) -> None:
        """Register a name, in its place if it has one, or with None forget it."""
        others = {one: held for one, held in self._registered.items() if kind or one != name}
        self.__dict__["_registered"] = {**others, name: kind} if kind else others

    def _register(self, name: str, value: Any, kind: Kind) -> None:
        if "_registered" not in self.__dict__:
            raise AttributeError(
                f"cannot assign {kind.value} '{name}' before {type(self).__name__} has called "
                "super().__init__()"
            )
        # A name that changes its kind goes to the end, as one that is new.
        if self._registered.get(name) is not kind:
            self._set_kind(name, None)
            self._set_kind(name, kind)
        self.__dict__[name] = value

    def _replacement(self, name: str, value: Any) -> Any:
        """The value for a registered name, if it may take this one."""
        kind = self._registered[name]
        if value is None:
            return None
        if kind is not Kind.MODULE and isinstance(value, (np.ndarray, np.generic)):
            return np.asarray(value)
        if kind is not Kind.MODULE and is_device_array(value):
            return value
        expected = "a Module" if kind is Kind.MODULE else "an array"
        raise TypeError(
            f"cannot assign '{type(value).__name__}' to {kind.value} '{name}' of "
            f"{type(self).__name__}: expected {expected} or None"
        )

    def _check_new_name(self, name: str, kinds: tuple[Kind, ...]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"a name must be a string, found {type(name).__name__}")
        if "." in name:
            raise KeyError(f"a name must not contain '.', found {name!r}")
        if name == "":
            raise KeyError("a name must not be empty")
        if self._registered.get(name) not in kinds and hasattr(self, name):
            raise KeyError(f"{type(self).__name__} already has an attribute '{name}'")

    def register_parameter(self, name: str, param: Parameter | Array | None) -> None:
        """Add a parameter; None keeps the name for one that may come.

        Raises
        ------
        KeyError
            The name is taken, empty, or has a dot.
        TypeError
            It is no parameter and no array.
        """
        self._check_new_name(name, PARAMETERS)
        if param is not None and not isinstance(param, (Parameter, np.ndarray)):
            raise TypeError(
                f"cannot register '{type(param).__name__}' as parameter '{name}': expected a "
                "Parameter, an array or None"
            )
        if param is None:
            self._register(name, None, Kind.PARAMETER)
        else:
            setattr(self, name, Parameter(param) if isinstance(param, np.ndarray) else param)

    def register_buffer(self, name: str, tensor: Array | None, persistent: bool = True) -> None:
        """Add a buffer: an array that belongs to the module's state and is not trained.

        Parameters
        ----------
        name : str
        tensor : array or None
        persistent : bool
            Whether it is part of the state dict.

        Raises
        ------
        KeyError
            The name is taken, empty, or has a dot.
        TypeError
            It is no array.
        """
        self._check_new_name(name, BUFFERS)
        if tensor is not None and not isinstance(tensor, (np.ndarray, np.generic)):
            raise TypeError(
                f"cannot register '{type(tensor).__name__}' as buffer '{name}': expected an array "
                "or None"
            )
        value = None if tensor is None else np.asarray(tensor)
        self._register(name, value, _buffer_kind(persistent))

    def add_module(self, name: str, module: Registry | None) -> None:
        """Add a module inside this one.

        Raises
        ------
        KeyError
            The name is taken, empty, or has a dot.
        TypeError
            It is no module.
        """
        if module is not None and not isinstance(module, Registry):
            raise TypeError(f"expected a Module or None, found {type(module).__name__}")
        self._check_new_name(name, (Kind.MODULE,))
        self._register(name, module, Kind.MODULE)

    register_module = add_module

    def _element_names(self) -> list[str] | None:
        """The attributes that are the elements of a container, in order; None of all others."""
        return None

    def _of_kind(self, kinds: tuple[Kind, ...]) -> Iterator[tuple[str, Any]]:
        for name, kind in list(self._registered.items()):
            if kind in kinds:
                yield name, self.__dict__[name]


def _buffer_kind(persistent: bool) -> Kind:
    return Kind.BUFFER if persistent else Kind.TEMPORARY_BUFFER


def joined(prefix: str, name: str) -> str:
    """A dotted name."""
    return f"{prefix}.{name}" if prefix else name
