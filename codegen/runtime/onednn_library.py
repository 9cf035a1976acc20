"""oneDNN's C API through ctypes: the few functions that layers need, and constants by name.

The library comes from the distribution ``onednn-cpu-gomp`` (oneDNN 3, Apache-2.0).  Numbers of
format tags and algorithms differ between versions, so they are asked for by name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import metadata
from typing import Any

__all__ = [
    "BIAS",
    "INFERENCE",
    "POST_OP",
    "RESULT",
    "SECOND_SOURCE",
    "SOURCE",
    "WEIGHTS",
    "Handle",
    "Library",
    "LibraryError",
    "Primitive",
    "dims_of",
    "find_library",
    "load",
]

DISTRIBUTION = "onednn-cpu-gomp"

CPU, DEFAULT_STREAM = 1, 1
FLOAT32, ANY = 3, 1
INFERENCE = 96
QUERY_WEIGHTS = 131
SOURCE, SECOND_SOURCE, RESULT, WEIGHTS, BIAS = 1, 2, 17, 33, 41
POST_OP = 16384

_TAGS, _ALGORITHMS = 1 << 10, 1 << 18
"""Names are searched for among so many numbers."""

Handle = ctypes.c_void_p
Dims = ctypes.c_int64 * 12


class LibraryError(RuntimeError):
    """oneDNN refused something; it says no more than a number."""


class _Argument(ctypes.Structure):
    _fields_ = (("number", ctypes.c_int), ("memory", Handle))


def find_library() -> str | None:
    """The path of the shared library, or None where the distribution is not installed."""
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    found = [one for one in files if one.name.startswith("libdnnl.so.3")]
    return str(found[0].locate()) if found else None


def dims_of(numbers: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    """An array as the library takes it."""
    return Dims(*numbers)


class Primitive:
    """A compiled operation: call it with memory by argument number.

    Parameters
    ----------
    library : Library
    description : Handle
        It becomes part of this object.
    memories : dict of int to Handle
        The descriptor of each argument.
    """

    def __init__(self, library: Library, description: Handle, memories: dict[int, Handle]) -> None:
        self.library = library
        self.memories = memories
        self.handle = Handle()
        library.call("primitive_create", ctypes.byref(self.handle), description)

    def __call__(self, addresses: dict[int, int]) -> None:
        """Run it on memory at these addresses, by argument number."""
        library = self.library
        made = []
        try:
            for number, address in addresses.items():
                memory = Handle()
                descriptor = self.memories[number]
                place = Handle(address)
                library.call(
                    "memory_create", ctypes.byref(memory), descriptor, library.engine, place
                )
                made.append((number, memory))
            arguments = (_Argument * len(made))(*(_Argument(*one) for one in made))
            library.call("primitive_execute", self.handle, library.stream, len(made), arguments)
            library.call("stream_wait", library.stream)
        finally:
            for _, memory in made:
                library.call("memory_destroy", memory)


class Library:
    """The library with one engine and one stream; use it from one thread at a time."""

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self.engine, self.stream = Handle(), Handle()
        self.call("engine_create", ctypes.byref(self.engine), CPU, ctypes.c_size_t(0))
        self.call("stream_create", ctypes.byref(self.stream), self.engine, DEFAULT_STREAM)

    def call(self, name: str, *args: Any) -> None:
        """Call ``dnnl_<name>``; LibraryError where it does not succeed."""
        status = getattr(self._functions, f"dnnl_{name}")(*args)
        if status:
            raise LibraryError(f"dnnl_{name} gave status {status}")

    def set_threads(self, count: int) -> None:
        """How many threads the calling thread's operations use from now on."""
        self._openmp.omp_set_num_threads(count)

    @cached_property
    def _openmp(self) -> Any:
        return ctypes.CDLL("libgomp.so.1")

    @cached_property
    def tags(self) -> dict[str, int]:
        """Format tags by name."""
        return self._named("dnnl_fmt_tag2str", _TAGS)

    @cached_property
    def algorithms(self) -> dict[str, int]:
        """Algorithms by name."""
        return self._named("dnnl_alg_kind2str", _ALGORITHMS)

    def _named(self, function: str, count: int) -> dict[str, int]:
        name_of = getattr(self._functions, function)
        name_of.restype = ctypes.c_char_p
        found: dict[str, int] = {}
        for number in range(count):
            found.setdefault(name_of(number).decode(), number)
        return found

    # Descriptions -------------------------------------------------------------------------

    def strided(self, dims: Sequence[int], strides: Sequence[int]) -> Handle:
        """The descriptor of an array with these strides, in elements."""
        made = Handle()
        self.call(
            "memory_desc_create_with_strides",
            ctypes.byref(made),
            len(dims),
            dims_of(dims),
            FLOAT32,
            dims_of(strides),
        )
        return made

    def tagged(self, dims: Sequence[int], tag: str) -> Handle:
        """The descriptor of an array in a format by its name; ``any`` leaves it to the library."""
        made = Handle()
        number = ANY if tag == "any" else self.tags[tag]
        self.call(
            "memory_desc_create_with_tag",
            ctypes.byref(made),
            len(dims),
            dims_of(dims),
            FLOAT32,
            number,
        )
        return made

    def weights_of(self, description: Handle) -> Handle:
        """The descriptor of the weights that an operation wants; it belongs to the operation."""
        query = self._functions.dnnl_primitive_desc_query_md
        query.restype = ctypes.c_void_p
        return Handle(query(description, QUERY_WEIGHTS, 0))

    def are_equal(self, one: Handle, two: Handle) -> bool:
        """Whether two descriptors say the same."""
        return bool(self._functions.dnnl_memory_desc_equal(one, two))

    def size_of(self, descriptor: Handle) -> int:
        """Bytes that an array needs."""
        size = self._functions.dnnl_memory_desc_get_size
        size.restype = ctypes.c_size_t
        return int(size(descriptor))

    def reorder(self, source: Handle, target: Handle) -> Primitive:
        """What copies an array from one format to another."""
        description = Handle()
        self.call(
            "reorder_primitive_desc_create",
            ctypes.byref(description),
            source,
            self.engine,
            target,
            self.engine,
            None,
        )
        return Primitive(self, description, {SOURCE: source, RESULT: target})

    def adding(self, residual: Handle) -> Handle:
        """The attribute that adds an array to the result."""
        operations, attribute = Handle(), Handle()
        self.call("post_ops_create", ctypes.byref(operations))
        self.call("post_ops_append_binary", operations, self.algorithms["binary_add"], residual)
        self.call("primitive_attr_create", ctypes.byref(attribute))
        self.call("primitive_attr_set_post_ops", attribute, operations)
        return attribute


@cache
def load(path: str) -> Library:
    """The one object for a library."""
    return Library(path)
