"""Modules that hold modules or parameters."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self, Union, overload

import numpy as np

from jitcore.nn.arrays import Array
from jitcore.nn.module import Module
from jitcore.nn.parameter import Parameter
from jitcore.nn.registry import Kind

__all__ = ["ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]


NamedModules = Union[Mapping[str, Module], "ModuleDict", Iterable[tuple[str, Module]]]


class _Numbered(Module):
    """Modules with the names "0", "1", and so on, or for ``Sequential`` others in their place."""

    def _all(self) -> list[Module]:
        return [module for _, module in self._of_kind((Kind.MODULE,))]

    def _names(self) -> list[str]:
        return [name for name, _ in self._of_kind((Kind.MODULE,))]

    def _element_names(self) -> list[str] | None:
        return self._names()

    def _name_at(self, index: int) -> str:
        names = self._names()
        place = operator.index(index)
        if not -len(names) <= place < len(names):
            raise IndexError(f"index {place} is out of range for {len(names)} modules")
        return names[place]

    def _refill(self, modules: Iterable[Module]) -> None:
        """Replace everything, numbered anew."""
        kept = list(modules)
        for name in self._names():
            delattr(self, name)
        for number, module in enumerate(kept):
            self.add_module(str(number), module)

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Iterator[Module]:
        return iter(self._all())

    def __contains__(self, module: object) -> bool:
        return any(module is one for one in self._all())

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = self._names()
        for name in names[index] if isinstance(index, slice) else [self._name_at(index)]:
            delattr(self, name)
        if names == [str(number) for number in range(len(names))]:
            self._refill(self._all())

    def append(self, module: Module) -> Self:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Self:
        """Add a module before another, as ``list.insert`` does."""
        modules = self._all()
        modules.insert(index, module)
        self._refill(modules)
        return self

    def pop(self, index: int | slice = -1) -> Module:
        """Remove a module and give it."""
        found: Module = self[index]  # type: ignore[index]
        del self[index]
        return found


class Sequential(_Numbered):
    """Modules of which each takes what the one before it gives.

    Parameters
    ----------
    *args : Module
        Or one dict of names and modules.

    Examples
    --------
    >>> from jitcore import nn
    >>> nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    Sequential(
      (0): Linear(in_features=4, out_features=8, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], Mapping):
            for name, module in args[0].items():
                self.add_module(name, module)
        else:
            for number, module in enumerate(args):
                self.add_module(str(number), module)

    def forward(self, input: Any) -> Any:
        for module in self:
            input = module(input)
        return input

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> Sequential: ...
    def __getitem__(self, index: int | slice) -> Module | Sequential:
        if isinstance(index, slice):
            chosen = dict(list(self._of_kind((Kind.MODULE,)))[index])
            return type(self)(chosen)
        found: Module = self.__dict__[self._name_at(index)]
        return found

    def __add__(self, other: Sequential) -> Sequential:
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __iadd__(self, other: Sequential) -> Self:
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if times <= 0:
            raise ValueError(f"a Sequential can be repeated once or more, found {times}")
        return Sequential(*list(self) * times)

    __rmul__ = __mul__


class ModuleList(_Numbered):
    """A list of modules, which the module that holds it knows.

    Parameters
    ----------
    modules : iterable of Module, optional
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        self.extend(() if modules is None else modules)

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self, index: slice) -> ModuleList: ...
    def __getitem__(self, index: int | slice) -> Module | ModuleList:
        if isinstance(index, slice):
            return type(self)(self._all()[index])
        found: Module = self.__dict__[self._name_at(index)]
        return found

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __repr__(self) -> str:
        if not len(self):
            return f"{self._get_name()}()"
        lines = []
        first = 0
        for text, group in itertools.groupby(repr(module) for module in self):
            count = len(list(group))
            indented = text.replace("\n", "\n  ")
            if count == 1:
                lines.append(f"({first}): {indented}")
            else:
                lines.append(f"({first}-{first + count - 1}): {count} x {indented}")
            first += count
        body = "\n  ".join(lines)
        return f"{self._get_name()}(\n  {body}\n)"


class ModuleDict(Module):
    """A dict of modules, which the module that holds it knows.

    Parameters
    ----------
    modules : mapping, or iterable of pairs, optional
    """

    def __init__(self, modules: NamedModules | None = None) -> None:
        super().__init__()
        self.update({} if modules is None else modules)

    def _element_names(self) -> list[str] | None:
        return self.keys()

    def __getitem__(self, key: str) -> Module:
        if self._registered.get(key) is not Kind.MODULE:
            raise KeyError(key)
        found: Module = self.__dict__[key]
        return found

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        self.pop(key)

    def __len__(self) -> int:
        return len(self.keys())

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self.keys()

    def keys(self) -> list[str]:
        """The names."""
        return [name for name, _ in self.items()]

    def values(self) -> list[Module]:
        """The modules."""
        return [module for _, module in self.items()]

    def items(self) -> list[tuple[str, Module]]:
        """Names with modules."""
        return list(self._of_kind((Kind.MODULE,)))

    def pop(self, key: str) -> Module:
        """Remove a module and give it."""
        found = self[key]
        delattr(self, key)
        return found

    def clear(self) -> None:
        """Remove everything."""
        for key in self.keys():
            delattr(self, key)

    def update(self, modules: NamedModules) -> None:
        """Add modules, or replace those of the same names."""
        pairs = modules.items() if isinstance(modules, (Mapping, ModuleDict)) else modules
        for key, module in pairs:
            self[key] = module


class ParameterList(Module):
    """A list of parameters, which the module that holds it knows; its elements are arrays.

    Parameters
    ----------
    values : iterable of Parameter or array, optional
    """

    def __init__(self, values: Iterable[Parameter | Array] | None = None) -> None:
        super().__init__()
        self.extend(() if values is None else values)

    def _element_names(self) -> list[str] | None:
        return list(self._registered)

    def __len__(self) -> int:
        return len(self._registered)

    def __iter__(self) -> Iterator[Array]:
        return iter([self[index] for index in range(len(self))])

    @overload
    def __getitem__(self, index: int) -> Array: ...
    @overload
    def __getitem__(self, index: slice) -> ParameterList: ...
    def __getitem__(self, index: int | slice) -> Array | ParameterList:
        if isinstance(index, slice):
            return ParameterList(list(self)[index])
        found: Array = self.__dict__[self._name_at(index)]
        return found

    def __setitem__(self, index: int, value: Parameter | Array) -> None:
        setattr(self, self._name_at(index), Parameter(value))

    def __iadd__(self, values: Iterable[Parameter | Array]) -> Self:
        return self.extend(values)

    def _name_at(self, index: int) -> str:
        place = operator.index(index)
        if not -len(self) <= place < len(self):
            raise IndexError(f"index {place} is out of range for {len(self)} parameters")
        return str(place % len(self))

    def append(self, value: Parameter | Array) -> Self:
        """Add a parameter at the end."""
        self.register_parameter(str(len(self)), Parameter(value))
        return self

    def extend(self, values: Iterable[Parameter | Array]) -> Self:
        """Add parameters at the end."""
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(str(number), value) for number, value in enumerate(self))


class ParameterDict(Module):
    """A dict of parameters, which the module that holds it knows; its values are arrays.

    Parameters
    ----------
    parameters : mapping, optional
    """

    def __init__(self, parameters: Mapping[str, Parameter | Array] | None = None) -> None:
        super().__init__()
        self.update({} if parameters is None else parameters)

    def _element_names(self) -> list[str] | None:
        return list(self._registered)

    def __getitem__(self, key: str) -> Array:
        if key not in self._registered:
            raise KeyError(key)
        found: Array = self.__dict__[key]
        return found

    def __setitem__(self, key: str, value: Parameter | Array) -> None:
        self.register_parameter(key, Parameter(value))

    def __delitem__(self, key: str) -> None:
        if key not in self._registered:
            raise KeyError(key)
        delattr(self, key)

    def __len__(self) -> int:
        return len(self._registered)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, key: object) -> bool:
        return key in self._registered

    def keys(self) -> list[str]:
        """The names."""
        return list(self._registered)

    def values(self) -> list[Array]:
        """The parameters."""
        return [self[key] for key in self._registered]

    def items(self) -> list[tuple[str, Array]]:
        """Names with parameters."""
        return [(key, self[key]) for key in self._registered]

    def get(self, key: str, default: Array | None = None) -> Array | None:
        """The parameter of a name, or what is given instead."""
        return dict(self.items()).get(key, default)

    def setdefault(self, key: str, default: Parameter | Array) -> Array:
        """The parameter of a name, which is added where there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Array:
        """Remove a parameter and give it."""
        found = self[key]
        del self[key]
        return found

    def popitem(self) -> tuple[str, Array]:
        """Remove the parameter that was added last, and give its name and itself."""
        if not self:
            raise KeyError("the dict of parameters is empty")
        key = self.keys()[-1]
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all parameters."""
        for key in list(self):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dict of the same arrays."""
        return ParameterDict(dict(self.items()))

    def update(self, parameters: Mapping[str, Parameter | Array]) -> None:
        """Add parameters, or replace those of the same names."""
        for key, value in parameters.items():
            self[key] = value

    def __ior__(self, parameters: Mapping[str, Parameter | Array]) -> Self:
        self.update(parameters)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(name, value) for name, value in self.items())


def _described(name: str, value: Array) -> str:
    size = "x".join(str(extent) for extent in np.shape(value))
    return f"  ({name}): Parameter containing: [numpy.{value.dtype} of size {size}]"
