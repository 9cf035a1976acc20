"""oneDNN's C API through ctypes: the few functions that layers need, and constants by name.

The library comes from the distribution ``onednn-cpu-gomp`` (oneDNN 3, Apache-2.0).  Numbers of
format tags and algorithms differ between versions, so they are asked for by name.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache, cached_property
from importlib import import_module
from typing import Any

from jitcore.ir.dataclass import dataclass

__all__ = [
    "BIAS",
    "POST_OP",
    "RESULT",
    "SCRATCHPAD",
    "SECOND_SOURCE",
    "SOURCE",
    "WEIGHTS",
    "Argument",
    "Binary",
    "Description",
    "Eltwise",
    "Handle",
    "Library",
    "LibraryError",
    "Owned",
    "PostOp",
    "Sum",
    "Window",
    "find_library",
    "load",
]

DISTRIBUTION = "onednn-cpu-gomp"

CPU, DEFAULT_STREAM, USER_SCRATCHPAD = 1, 1, 1
FLOAT32, ANY = 3, 1
INFERENCE = 96
SOURCE, SECOND_SOURCE, RESULT, WEIGHTS, BIAS, SCRATCHPAD = 1, 2, 17, 33, 41, 80
POST_OP = 32768
"""The number of a post-op's argument is this, times one more than the post-op's place, plus the
argument's own."""

_QUERY_NAME, _QUERY_ARGUMENT = 8, 255

_TAGS, _ALGORITHMS = 1 << 10, 1 << 18
"""Names are searched for among so many numbers."""

Handle = ctypes.c_void_p
_Dims = ctypes.c_int64 * 12


class LibraryError(RuntimeError):
    """oneDNN refused something; it says no more than a number."""


class Argument(ctypes.Structure):
    """A primitive's argument: its number, and an object of the library for its memory."""

    _fields_ = (("number", ctypes.c_int), ("memory", Handle))


class Owned:
    """An object of the library, which is destroyed with this one.

    Parameters
    ----------
    library : Library
    kind : str
        As in the name of the function that destroys it: ``"memory_desc"``.
    """

    __slots__ = ("_as_parameter_", "_destroy", "library")

    def __init__(self, library: Library, kind: str) -> None:
        self.library = library
        self._as_parameter_ = Handle()
        self._destroy = library.function(f"{kind}_destroy")

    def __del__(self) -> None:
        if self._as_parameter_:
            self._destroy(self._as_parameter_)

    @property
    def place(self) -> Any:
        """Where a function of the library is to put the object."""
        return ctypes.byref(self._as_parameter_)

    @property
    def address(self) -> int:
        """The object's address."""
        return self._as_parameter_.value or 0


class Description(Owned):
    """An operation for arrays of certain formats, as the library has chosen to compute it.

    Parameters
    ----------
    library : Library
    name : str
        The operation's.
    """

    __slots__ = ("name",)

    def __init__(self, library: Library, name: str) -> None:
        super().__init__(library, "primitive_desc")
        self.name = name

    @property
    def is_reference(self) -> bool:
        """Whether it is computed by the library's plain loops, which are slow."""
        return "ref" in str(self).removeprefix(self.name)

    def __str__(self) -> str:
        found = ctypes.c_char_p()
        self.library.call("primitive_desc_query", self, _QUERY_NAME, 0, ctypes.byref(found))
        return f"{self.name} {(found.value or b'').decode()}"


@dataclass(frozen=True, slots=True)
class Eltwise:
    """A post-op that changes each element: the library's name of it, and its numbers."""

    algorithm: str
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Binary:
    """A post-op with an array, which is broadcast along axes of extent 1."""

    algorithm: str
    descriptor: Owned


@dataclass(frozen=True, slots=True)
class Sum:
    """A post-op that adds what the memory of the result holds before."""


PostOp = Eltwise | Binary | Sum


@dataclass(frozen=True, slots=True)
class Window:
    """How a window moves along the spatial axes, and what is around the image."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    def arrays(self, *names: str) -> list[ctypes.Array[ctypes.c_int64]]:
        """Some of these numbers as the library takes them; it counts dilation from zero."""
        lists = {name: getattr(self, name) for name in names}
        if "dilation" in lists:
            lists["dilation"] = [one - 1 for one in self.dilation]
        return [_Dims(*numbers) for numbers in lists.values()]


def find_library() -> str | None:
    """The path of the shared library, or None where the distribution is not installed."""
    # It imports much of the standard library that has to do with networks, which takes time.
    metadata = import_module("importlib.metadata")
    try:
        files = metadata.files(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return None
    found = [one for one in files if one.name.startswith("libdnnl.so.3")]
    return str(found[0].locate()) if found else None


class Library:
    """The library with one engine and one stream.

    Streams of the processor have no state, so any thread may use it.
    """

    def __init__(self, path: str) -> None:
        self._functions = ctypes.CDLL(path)
        self.engine, self.stream = Owned(self, "engine"), Owned(self, "stream")
        self.call("engine_create", self.engine.place, CPU, ctypes.c_size_t(0))
        self.call("stream_create", self.stream.place, self.engine, DEFAULT_STREAM)

    def function(self, name: str) -> Any:
        """The function ``dnnl_<name>``."""
        return getattr(self._functions, f"dnnl_{name}")

    def call(self, name: str, *args: Any) -> None:
        """Call ``dnnl_<name>``; LibraryError where it does not succeed."""
        status = self.function(name)(*args)
        if status:
            raise LibraryError(f"dnnl_{name} gave status {status}")

    @cached_property
    def openmp(self) -> Any:
        """The library of its threads."""
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

    # Arrays -------------------------------------------------------------------------------

    def strided(self, dims: Sequence[int], strides: Sequence[int]) -> Owned:
        """The descriptor of an array with these strides, in elements."""
        made = Owned(self, "memory_desc")
        numbers = (len(dims), _Dims(*dims), FLOAT32, _Dims(*strides))
        self.call("memory_desc_create_with_strides", made.place, *numbers)
        return made

    def tagged(self, dims: Sequence[int], tag: str) -> Owned:
        """The descriptor of an array in a format by its name; ``any`` leaves it to the library."""
        made = Owned(self, "memory_desc")
        number = ANY if tag == "any" else self.tags.get(tag)
        if number is None:
            raise LibraryError(f"this version has no format {tag}")
        dimensions = (len(dims), _Dims(*dims), FLOAT32, number)
        self.call("memory_desc_create_with_tag", made.place, *dimensions)
        return made

    def reshaped(self, descriptor: Owned, dims: Sequence[int]) -> Owned:
        """The descriptor of the same memory with other extents."""
        made = Owned(self, "memory_desc")
        extents = (len(dims), _Dims(*dims))
        self.call("memory_desc_reshape", made.place, descriptor, *extents)
        return made

    def permuted(self, descriptor: Owned, axes: Sequence[int]) -> Owned:
        """The descriptor of the same memory whose axis ``k`` becomes ``axes[k]``."""
        made = Owned(self, "memory_desc")
        order = (ctypes.c_int * len(axes))(*axes)
        self.call("memory_desc_permute_axes", made.place, descriptor, order)
        return made

    def argument(self, description: Owned, number: int) -> Owned:
        """The descriptor of an argument that an operation wants."""
        query = self.function("primitive_desc_query_md")
        query.restype = ctypes.c_void_p
        found = query(description, _QUERY_ARGUMENT, number)
        if not found:
            raise LibraryError(f"an operation has no argument {number}")
        made = Owned(self, "memory_desc")
        self.call("memory_desc_clone", made.place, Handle(found))
        return made

    def are_equal(self, one: Owned, two: Owned) -> bool:
        """Whether two descriptors say the same."""
        return bool(self.function("memory_desc_equal")(one, two))

    def size_of(self, descriptor: Owned) -> int:
        """Bytes that an array needs."""
        size = self.function("memory_desc_get_size")
        size.restype = ctypes.c_size_t
        return int(size(descriptor))

    def memory(self, descriptor: Owned, address: int) -> Owned:
        """An array at an address."""
        made = Owned(self, "memory")
        self.call("memory_create", made.place, descriptor, self.engine, Handle(address))
        return made

    # Operations ---------------------------------------------------------------------------

    def convolution(
        self,
        arrays: tuple[Owned, Owned, Owned | None, Owned],
        window: Window,
        post_ops: Sequence[PostOp],
    ) -> Description:
        """The description of a convolution of source and weights, with a bias, to a result."""
        return self._convolution("convolution", arrays, window, post_ops)

    def deconvolution(
        self,
        arrays: tuple[Owned, Owned, Owned | None, Owned],
        window: Window,
        post_ops: Sequence[PostOp],
    ) -> Description:
        """The description of a transposed convolution; around the result is what is cut off."""
        return self._convolution("deconvolution", arrays, window, post_ops)

    def _convolution(
        self,
        name: str,
        arrays: tuple[Owned, Owned, Owned | None, Owned],
        window: Window,
        post_ops: Sequence[PostOp],
    ) -> Description:
        algorithm = (INFERENCE, self.algorithms[f"{name}_direct"])
        numbers = window.arrays("stride", "dilation", "before", "after")
        return self._described(f"{name}_forward", *algorithm, *arrays, *numbers, *post_ops)

    def pooling(
        self,
        algorithm: str,
        arrays: tuple[Owned, Owned],
        window: Window,
        post_ops: Sequence[PostOp],
    ) -> Description:
        """The description of the maximum or the mean of windows."""
        kind = (INFERENCE, self.algorithms[algorithm])
        numbers = window.arrays("stride", "kernel", "dilation", "before", "after")
        return self._described("pooling_forward", *kind, *arrays, *numbers, *post_ops)

    def matmul(
        self, arrays: tuple[Owned, Owned, Owned | None, Owned], post_ops: Sequence[PostOp]
    ) -> Description:
        """The description of a product of matrices, with a bias."""
        return self._described("matmul", *arrays, *post_ops)

    def binary(
        self, algorithm: str, arrays: tuple[Owned, Owned, Owned], post_ops: Sequence[PostOp]
    ) -> Description:
        """The description of an elementwise operation on two arrays."""
        return self._described("binary", self.algorithms[algorithm], *arrays, *post_ops)

    def eltwise(
        self, operation: Eltwise, arrays: tuple[Owned, Owned], post_ops: Sequence[PostOp]
    ) -> Description:
        """The description of an elementwise operation on one array."""
        kind = (INFERENCE, self.algorithms[operation.algorithm])
        numbers = (ctypes.c_float(operation.alpha), ctypes.c_float(operation.beta))
        return self._described("eltwise_forward", *kind, *arrays, *numbers, *post_ops)

    def reorder(self, source: Owned, target: Owned) -> Description:
        """The description of a copy from one format to another."""
        return self._described("reorder", source, self.engine, target, self.engine)

    def _described(self, name: str, *args: Any) -> Description:
        """A description; post-ops are the last arguments."""
        post_ops = [one for one in args if isinstance(one, PostOp)]
        others = args[: len(args) - len(post_ops)]
        engine = () if name == "reorder" else (self.engine,)
        made = Description(self, name.removesuffix("_forward"))
        attribute = self._attribute(post_ops)
        self.call(f"{name}_primitive_desc_create", made.place, *engine, *others, attribute)
        return made

    def _attribute(self, post_ops: Sequence[PostOp]) -> Owned:
        """What an operation does afterwards; its scratchpad is an argument."""
        operations = Owned(self, "post_ops")
        self.call("post_ops_create", operations.place)
        for one in post_ops:
            if isinstance(one, Sum):
                scale, zero = ctypes.c_float(1.0), 0
                self.call("post_ops_append_sum", operations, scale, zero, FLOAT32)
                continue
            kind = self.algorithms[one.algorithm]
            if isinstance(one, Binary):
                self.call("post_ops_append_binary", operations, kind, one.descriptor)
            else:
                numbers = (ctypes.c_float(one.alpha), ctypes.c_float(one.beta))
                self.call("post_ops_append_eltwise", operations, kind, *numbers)
        attribute = Owned(self, "primitive_attr")
        self.call("primitive_attr_create", attribute.place)
        self.call("primitive_attr_set_post_ops", attribute, operations)
        self.call("primitive_attr_set_scratchpad_mode", attribute, USER_SCRATCHPAD)
        return attribute

    def primitive(self, description: Description) -> Owned:
        """The machine code of an operation."""
        made = Owned(self, "primitive")
        self.call("primitive_create", made.place, description)
        return made


@cache
def load(path: str) -> Library:
    """The one object for a library."""
    return Library(path)
