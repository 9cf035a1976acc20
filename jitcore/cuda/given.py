"""The arguments of a call on a device, as entries take them."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from jitcore.codegen.cuda.memory import make_shadow
from jitcore.cuda.array import Array
from jitcore.cuda.libraries import OWN, Library, row_of
from jitcore.cuda.pool import Block, pool_of
from jitcore.cuda.streams import is_same_stream, order_streams

if TYPE_CHECKING:
    from jitcore.cuda.executor import DeviceExecutor

__all__ = ["Given", "MixedPlacesError", "places_of"]

_ON_HOST = frozenset({int, float, bool, complex, str, type(None), list, dict})
"""Arguments that are the same for a device."""


class MixedPlacesError(TypeError):
    """The arrays of a call lie in different places."""


class _Shadows(tuple[Any, ...]):
    """Values with shadows among them, as whoever prints the variables of a frame may see them."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} values, arrays on a device among them>"


class Given:
    """The arguments of one call as entries take them.

    The call's work comes after that of the streams that its arrays are used on.  Where a ``with``
    block around the call ends, it comes before whatever these streams are asked for next.

    Parameters
    ----------
    executor : DeviceExecutor
    values : tuple
        The arguments, then what is captured.

    Attributes
    ----------
    shadows : tuple
        The same values with shadows in the places of arrays.
    library : Library
        That of the first array: results are its arrays.
    stream : int

    Raises
    ------
    MixedPlacesError
        The arrays lie in different places.
    """

    __slots__ = (
        "_device",
        "_executor",
        "_kept",
        "_others",
        "library",
        "shadows",
        "stream",
        "values",
    )
    library: Library

    def __init__(self, executor: DeviceExecutor, values: tuple[Any, ...]) -> None:
        self._executor = executor
        self._device = executor.device
        self._others: set[int] = set()
        self._kept: list[Any] = []
        self.values = values
        self.stream = -1
        self.shadows = _Shadows(
            [
                value if type(value) in _ON_HOST else self._shadow(value, number)
                for number, value in enumerate(values)
            ]
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for stream in self._others:
            order_streams(self.stream, stream, self._device)
        if self._kept:
            pool_of(self._device).keep(self._kept, self.stream)

    def _shadow(self, value: Any, number: int) -> Any:
        if type(value) is not Array:
            return self._shadow_of_other(value, number)
        # Most calls have several arrays of jitcore's own, whose streams are the same.
        is_known = self.stream >= 0 and self.library.is_own
        if not is_known or value.device_number != self._device:
            self._place(value, OWN, value.device_number)
        owner = value.owner
        if type(owner) is not Block:
            self._kept.append(value)
        elif owner.stream != self.stream:
            owner.used_on(self.stream)
        return value.kept_shadow()

    def _shadow_of_other(self, value: Any, number: int) -> Any:
        row = row_of(type(value))
        if row is None:
            return self._other(value, number)
        device = row.lies_on(value)
        if device is None:
            raise self._executor.mixed(self.values)
        self._place(value, row, device)
        self._executor.borders.note(type(value), row)
        if row.is_unaware:
            self._kept.append(value)
        address, shape, strides, dtype, read_only = row.fields(value)
        return make_shadow(value, address, shape, strides, dtype, read_only)

    def _place(self, value: Any, row: Library, device: int) -> None:
        """See that an array lies where the others do, and that its stream and theirs agree."""
        if device != self._device:
            raise self._executor.mixed(self.values)
        if self.stream < 0:
            self.library = row
            self.stream = row.stream(value, self._device)
        elif row is not self.library or row.has_streams:
            other = row.stream(value, self._device)
            if not is_same_stream(other, self.stream) and other not in self._others:
                order_streams(other, self.stream, self._device)
                self._others.add(other)

    def _other(self, value: Any, number: int) -> Any:
        if isinstance(value, np.ndarray):
            constant = self._executor.constant_array(value, number)
            if constant is None:
                raise self._executor.mixed(self.values)
            return self._shadow(constant, number)
        if not isinstance(value, tuple):
            return value
        items = [self._shadow(item, number) for item in value]
        return tuple(items) if type(value) is tuple else type(value)(*items)


def places_of(value: Any) -> list[str]:
    """Where the arrays in an argument lie."""
    if isinstance(value, tuple):
        return [place for item in value for place in places_of(item)]
    if isinstance(value, np.ndarray):
        return ["the host"]
    row = None if type(value) in _ON_HOST else row_of(type(value))
    if row is None:
        return []
    number = row.lies_on(value)
    return ["no CUDA device" if number is None else f"cuda:{number}"]
