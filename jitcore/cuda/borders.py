"""How calls on a device take the arrays of a library, and give new ones.

What direct calls ask for (``FUNCTIONS`` of `jitcore.codegen.cuda.direct_runtime`) are methods of a
`Border`, of which an executor has one for each library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitcore.codegen.cuda.calls import Allocator
from jitcore.codegen.cuda.direct_runtime import FUNCTIONS
from jitcore.codegen.cuda.exchange import api_address, place_word
from jitcore.codegen.cuda.shadows import shadow_function
from jitcore.cuda.array import Array
from jitcore.cuda.libraries import OWN, Library
from jitcore.cuda.pool import Block, Pool, pool_of, scratch_pool_of, zeros_pool_of
from jitcore.cuda.results import new_array, with_replaced
from jitcore.cuda.streams import is_same_stream

__all__ = ["Border", "Borders"]

Shadow = np.ndarray[Any, Any]
Functions = tuple[Callable[..., Any], ...]


class Border:
    """What calls on a device ask of one library.

    Parameters
    ----------
    library : Library
    device : int
    """

    def __init__(self, library: Library, device: int) -> None:
        self._library = library
        self._device = device
        self._pool, self._scratch = pool_of(device), scratch_pool_of(device)
        self._zeros = zeros_pool_of(device)
        self._allocators: dict[int, Allocator] = {}
        self._lent: dict[int, object] = {}
        self._new_shadow = shadow_function()
        self.is_plain, self._api = library.is_plain, library.api()
        self.api, self.place = api_address(self._api), place_word(device)
        self.functions: Functions = tuple(getattr(self, name) for name in FUNCTIONS)

    def allocator(self, stream: int) -> Allocator:
        """Where the memory of calls on a stream comes from."""
        found = self._allocators.get(stream)
        if found is None:
            found = self._allocators[stream] = self._library.allocator(self._device, stream)
        return found

    # Arguments

    def read(self, value: Any, stream: int, is_first: bool) -> Shadow | None:
        """The shadow of an array; None where it lies elsewhere or cannot be an argument."""
        library, device = self._library, self._device
        try:
            if library.lies_on(value) != device:
                return None
            if not is_first or library.has_streams:
                if not is_same_stream(library.stream(value, device), stream):
                    # Streams that wait for each other before the call do so after it, too.
                    return None
            if library is OWN:
                return self._read_own(value, stream, is_first)
            if library.is_unaware and not self._note(value, stream, is_first):
                return None
            return self._new_shadow(None, *library.fields(value))
        except Exception:
            # The executor asks for the same again, and raises it for the caller to see.
            return None

    def _note(self, value: Any, stream: int, is_first: bool) -> bool:
        """Note that a call of this thread reads an array; whether `adopt` keeps it afterwards."""
        if is_first:
            self._pool.note(value, stream)
        return is_first

    def _read_own(self, value: Array, stream: int, is_first: bool) -> Shadow | None:
        owner = value.owner
        if type(owner) is Block:
            if not self._pool.is_of(owner):
                return None
            owner.used_on(stream)
        elif not self._note(value, stream, is_first):
            return None
        return value.kept_shadow()

    def stream(self, value: Any) -> int:
        """The stream of a call whose first array is this one."""
        if self._pool.noted:
            # The call before has given no array.
            self._pool.keep_noted()
        return self._library.stream(value, self._device)

    # Memory

    def empty(
        self,
        dtype: np.dtype[Any],
        shape: tuple[int, ...],
        strides: tuple[int, ...] | None,
        size: int,
        stream: int,
    ) -> tuple[int, object]:
        """Address and owner of a new array."""
        if not self._library.has_memory:
            block = self._pool.take(size, stream)
            return block.address, block
        return self.allocator(stream).empty(dtype, shape, strides)

    def lend(self, size: int, stream: int) -> int:
        """The address of memory for a temporary, until `take_back`."""
        address, owner = self.allocator(stream).block(max(1, size))
        self._lent[address] = owner
        return address

    def lend_scratch(self, size: int, stream: int) -> int:
        """The same with a counter that is 0; no library has such memory."""
        return self._lent_by(self._scratch, size, stream)

    def lend_zeros(self, size: int, stream: int) -> int:
        """The same with zeros only."""
        return self._lent_by(self._zeros, size, stream)

    def _lent_by(self, pool: Pool, size: int, stream: int) -> int:
        owner = pool.take(size, stream)
        self._lent[owner.address] = owner
        return owner.address

    def take_back(self, address: int, stream: int) -> None:
        """Let others have what was lent."""
        del self._lent[address]

    # Results

    def adopt(self, value: Any) -> Any:
        """What a native function gives, with the library's arrays in the places of shadows."""
        if self._pool.noted:
            self._pool.keep_noted()
        if type(value) is np.ndarray:
            return self._array(value)
        return with_replaced(value, np.ndarray, self._array)

    def _array(self, shadow: Shadow) -> Any:
        owner: Any = shadow.base
        if type(owner) is not Block:
            return owner
        made = new_array(self._device, shadow)
        return made if self._library.is_own else self._library.adopt(made)


class Borders:
    """The borders that calls on one device have met.

    Parameters
    ----------
    device : int

    Attributes
    ----------
    functions : dict of type to tuple of callable
        What direct calls ask for arrays of a type.
    """

    def __init__(self, device: int) -> None:
        self._device = device
        self._by_library: dict[str, Border] = {}
        self.functions: dict[type, Functions] = {Array: self.of(OWN).functions}

    def of(self, library: Library) -> Border:
        """That of a library."""
        found = self._by_library.get(library.name)
        if found is None:
            found = self._by_library[library.name] = Border(library, self._device)
        return found

    def note(self, kind: type, library: Library) -> None:
        """Have direct calls take arrays of a type from now on."""
        if kind not in self.functions:
            self.functions[kind] = self.of(library).functions
