"""What a traced function has from outside: names, attributes of modules, and constants."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from jitcore.ir.graph import Capture, Graph, SourceRange, Value
from jitcore.ir.types import ANY, TENSOR

__all__ = ["GENERATORS", "Outside", "copy_of"]

GENERATORS = (np.random.Generator, np.random.RandomState)


def copy_of(value: Any, container: Any = None) -> Any:
    """What a trace works on in the place of an array or a random generator, which then stay.

    The generator of dropout (``container`` is its module's namespace) is used itself, so that runs
    differ and the check can say so.
    """
    if isinstance(value, np.ndarray):
        return value.copy(order="K")
    namespace = str(container.get("__name__")) if isinstance(container, dict) else ""
    if isinstance(value, GENERATORS) and not namespace.startswith("jitcore.nn."):
        return copy.deepcopy(value)
    return value


_CONTAINERS = (list, dict, tuple)


def _contents(value: Any) -> Any:
    """The identities of what is in a container."""
    if isinstance(value, dict):
        return [(key, _contents(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return list(map(_contents, value))
    return id(value)


class Outside:
    """The captured inputs of a graph.

    Attributes
    ----------
    constants : dict
        The arrays and objects that the trace has found in no place that calls could read again.
    places : dict
        Where each of these was used first.
    """

    def __init__(self, graph: Graph) -> None:
        self.constants: dict[str, Any] = {}
        self.places: dict[str, SourceRange | None] = {}
        self._graph = graph
        self._values: dict[int, tuple[Any, Value]] = {}
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._arrays: dict[int, np.ndarray[Any, Any]] = {}
        self._watched: dict[int, tuple[str, Any, Any]] = {}

    def constant(self, held: Any, where: SourceRange | None) -> Value:
        """The input for an object that all calls use."""
        if id(held) not in self._values:
            name = f"constant_{len(self.constants)}"
            self.constants[name] = held
            self.places[name] = where
            self._values[id(held)] = (held, self._input(name, self.constants, name, held))
        return self._values[id(held)][1]

    def capture(self, path: str, container: Any, key: str, value: Any) -> tuple[Any, Value]:
        """A new input for what each call reads from a place, and what stands for it in this run."""
        return self._copied(value, container), self._input(path, container, key, value)

    def _copied(self, value: Any, container: Any) -> Any:
        if id(value) not in self._copies:
            twin = copy_of(value, container)
            self._copies[id(value)] = (value, twin)
            self.note(twin)
        return self._copies[id(value)][1]

    def _input(self, path: str, container: Any, key: str, value: Any) -> Value:
        def read() -> Any:
            try:
                return container[key] if isinstance(container, dict) else container.cell_contents
            except (KeyError, ValueError):
                raise NameError(f"'{path}', which the trace reads, is gone", name=path) from None

        type_ = TENSOR if isinstance(value, np.ndarray) else ANY
        new = self._graph.block.add_param(type_, path.rpartition(".")[2])
        self._graph.captures.append(Capture(path, read, value, new, container, key))
        return new

    def note(self, value: Any) -> None:
        """Note that an array has not been made by the traced function."""
        if isinstance(value, np.ndarray):
            self._arrays[id(value)] = value

    def shares_memory(self, array: np.ndarray[Any, Any]) -> bool:
        """Whether an array may share memory with one from outside."""
        return any(np.may_share_memory(array, one) for one in self._arrays.values())

    def has_view(self, array: Any) -> bool:
        """Whether an object is a view of an array from outside, and not that array."""
        base = array.base if isinstance(array, np.ndarray) else None
        while isinstance(base, np.ndarray) and base.base is not None:
            base = base.base
        return base is not None and id(base) in self._arrays

    def watch(self, path: str, value: Any) -> None:
        """Note what is in a list, a dict or a tuple that the function has from outside."""
        if isinstance(value, _CONTAINERS) and id(value) not in self._watched:
            self._watched[id(value)] = (path, value, _contents(value))

    def changed(self) -> list[str]:
        """The containers in which something is no longer what it was."""
        watched = self._watched.values()
        return [path for path, value, before in watched if _contents(value) != before]

    def drop_unused(self) -> None:
        """Remove the inputs that no node came to use."""
        for capture in self._graph.captures[:]:
            if capture.input is not None and not capture.input.uses:
                self._graph.block.params.remove(capture.input)
                self._graph.captures.remove(capture)
