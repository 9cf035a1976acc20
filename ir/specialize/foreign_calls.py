"""Types of what NumPy's own functions give, found out by calling them with small arrays.

A function without a row of the op table runs in the host program, and so do the methods of random
generators.  Where the dtype, rank and class of a result follow from those of the arguments, what
comes after is compiled with the rest:

    %2 : Any = np::call[name="fft.fft"](%x)    ->    %2 : Complex128[n] = np::call[name=...](%x)
    %3 : Any = np::abs(%2)                           %3 : Float64[n] = np::abs(%2)

The function is called twice, and extents are different numbers each time: a result's extent that
was that of an operand both times is the operand's, and one that stayed the same is known, unless it
is 0, which may be what is left of a difference.  Where extents or ints are known only to the run,
it is then called with extents of 0 and with ints that are 0 or negative for these; where the class,
dtype or rank of a result is another one then, nothing is known of it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import is_stored
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Untypable, tensor
from jitcore.ir.specialize.branches import BranchBuilder
from jitcore.ir.specialize.by_value import made_generator
from jitcore.ir.specialize.drawing import draw
from jitcore.ir.specialize.typed_builder import TypedBuilder
from jitcore.ir.types import (
    BOOL,
    COMPLEX,
    FLOAT,
    GENERATOR,
    INT,
    NONE,
    RANDOM_STATE,
    Dim,
    ListType,
    TensorType,
    TupleType,
    Type,
    is_named_tuple,
    type_of_constant,
)

__all__ = ["NO_ROW", "call_foreign", "foreign_result"]

NO_ROW = "NumPy's own function runs, as there is no row for it in the op table"
"""Why such a call is in the host program."""

# What these give has a dtype, a rank and extents that no element decides.
_FUNCTIONS = frozenset(
    [
        *("argpartition", "partition", "lexsort", "sort_complex", "correlate", "isin", "choose"),
        *("unravel_index", "ravel_multi_index", "ix_", "diag_indices", "diag_indices_from"),
        *("tri", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from"),
        *("ascontiguousarray", "asfortranarray", "resize", "packbits", "unpackbits"),
        *("frexp", "modf", "fix", "sinc", "unwrap", "i0", "cumulative_sum", "cumulative_prod"),
        *("nanmedian", "nanpercentile", "nanquantile", "histogram2d", "logspace", "vander"),
        *("polyfit", "polyadd", "polysub", "polyder", "polyint", "vecdot", "matvec", "vecmat"),
        *("bartlett", "blackman", "hamming", "hanning", "kaiser"),
        *(f"{name}.reduceat" for name in ("add", "multiply", "maximum", "minimum")),
        *(f"fft.{name}" for name in ("fft", "fft2", "fftn", "ifft", "ifft2", "ifftn", "hfft")),
        *(f"fft.{name}" for name in ("rfft", "rfft2", "rfftn", "irfft", "irfft2", "irfftn")),
        *(f"fft.{name}" for name in ("ihfft", "fftfreq", "rfftfreq", "fftshift", "ifftshift")),
        *(f"linalg.{name}" for name in ("eigh", "eigvalsh", "svd", "svdvals", "qr")),
        *(f"linalg.{name}" for name in ("pinv", "slogdet", "cond", "tensorsolve", "tensorinv")),
        *(f"linalg.{name}" for name in ("matrix_rank", "matrix_power", "multi_dot", "trace")),
        *(f"linalg.{name}" for name in ("matrix_norm", "vector_norm", "outer")),
    ]
)

_DRAWS = frozenset(
    [
        *("beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "f"),
        *("gamma", "geometric", "gumbel", "hypergeometric", "laplace", "logistic", "lognormal"),
        *("logseries", "multinomial", "multivariate_normal", "negative_binomial", "normal"),
        *("pareto", "permutation", "poisson", "power", "rayleigh", "shuffle", "standard_cauchy"),
        *("standard_exponential", "standard_gamma", "standard_normal", "standard_t"),
        *("triangular", "uniform", "vonmises", "wald", "weibull", "zipf", "random"),
    ]
)
_GENERATOR_DRAWS = _DRAWS | {"integers", "permuted", "multivariate_hypergeometric"}
_LEGACY_DRAWS = _DRAWS | {
    *("rand", "randn", "randint", "random_integers", "random_sample", "ranf", "sample", "seed"),
}

# Small extents, in ascending and in descending order: what is the smaller one of two extents in
# one call is the larger one in the other.
_EXTENTS = ((4, 6, 9, 13, 18, 24, 31), (61, 53, 41, 29, 23, 17, 11))

_LARGEST_KNOWN = 64
"""Numbers up to this are passed as they are; larger ones may be extents, and stand for those."""

_MOST_ELEMENTS = 2**20
"""Of an argument: more of them would take long to make."""

_ERRORS = (ValueError, TypeError, IndexError, ArithmeticError, AttributeError, MemoryError)


def call_foreign(b: BranchBuilder, node: Node, inputs: Sequence[Value]) -> Value:
    """Draw a random number, or keep a call of NumPy's own function with the type of its result."""
    drawn = draw(b, node, inputs)
    if drawn is not None:
        return drawn
    type_ = foreign_result(b, node, inputs)
    result = b.emit(node.kind, inputs, node.attributes, type_, node.keywords)
    assert result.node is not None
    result.node.host_reason = NO_ROW
    return b.opened(result)


def foreign_result(b: TypedBuilder, node: Node, inputs: Sequence[Value]) -> Type:
    """The type of what such a node gives.

    Raises
    ------
    Untypable
        It is known only when the program runs.
    """
    made = made_generator(inputs) if node.kind == "prim::Call" else None
    if made is not None:
        return made
    function = _function(node, inputs)
    first, second = (_samples(b, node, inputs, _Extents(numbers)) for numbers in _EXTENTS)
    result = first.result(function)
    found = _common_type(b, (result, first.extents), (second.result(function), second.extents))
    for number in (0, -1):
        try:
            odd = _samples(b, node, inputs, _Extents(_EXTENTS[0], number))
            is_alike = not odd.extents.was_asked or _is_alike(result, odd.result(function))
        except Untypable:
            continue
        if not is_alike:
            raise Untypable("the type of a result depends on the values of arguments")
    return found


class _Extents:
    """The small numbers that stand for the extents of a call's arguments."""

    def __init__(self, numbers: Sequence[int], open_number: int | None = None) -> None:
        self.numbers = numbers
        self.open_number = open_number
        """What all have that only the run tells, if that is one number."""
        self.was_asked = False
        self.found: dict[Dim | Value, int] = {}

    def of(self, extent: Dim | Value) -> int:
        """The number for an extent, or for an int that may be one."""
        if isinstance(extent, int) and extent <= 1:
            return extent
        if self.open_number is not None and not isinstance(extent, int):
            self.was_asked = True
            return self.open_number if isinstance(extent, Value) else 0
        if extent not in self.found:
            if len(self.found) == len(self.numbers):
                raise Untypable("a call with many different extents")
            self.found[extent] = self.numbers[len(self.found)]
        return self.found[extent]


@dataclass(slots=True)
class _Samples:
    """Small arguments for a call, and the extents of these."""

    positional: list[Any]
    keywords: dict[str, Any]
    extents: _Extents

    def result(self, function: Callable[..., Any]) -> Any:
        """What the function gives for them."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return function(*self.positional, **self.keywords)
            except _ERRORS as error:
                raise Untypable(f"{NO_ROW} ({error})") from None


def _samples(b: TypedBuilder, node: Node, inputs: Sequence[Value], extents: _Extents) -> _Samples:
    arguments = inputs if node.kind == "np::call" else inputs[1:]
    samples = [_sample(b, value, extents) for value in arguments]
    if node.attributes.get("name") == "ix_" and any(map(_is_mask, samples)):
        raise Untypable("as many places as a mask has true elements")
    split = len(samples) - len(node.keywords)
    return _Samples(
        samples[:split], dict(zip(node.keywords, samples[split:], strict=True)), extents
    )


def _function(node: Node, inputs: Sequence[Value]) -> Callable[..., Any]:
    name: str = node.attributes["name"]
    if "starred" in node.attributes or "**" in node.keywords:
        raise Untypable(NO_ROW)
    if node.kind == "prim::CallMethod":
        return _draw(name, is_legacy=inputs[0].type == RANDOM_STATE)
    if name == "random.default_rng":
        return np.random.default_rng
    if name.startswith("random."):
        return _draw(name.removeprefix("random."), is_legacy=True)
    if name not in _FUNCTIONS:
        raise Untypable(NO_ROW)
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part)
    function: Callable[..., Any] = found
    return function


def _draw(name: str, *, is_legacy: bool) -> Callable[..., Any]:
    """What draws from a generator of our own, so that nothing is taken from the program's."""
    generator = np.random.RandomState(0) if is_legacy else np.random.Generator(np.random.PCG64(0))
    if name not in (_LEGACY_DRAWS if is_legacy else _GENERATOR_DRAWS):
        raise Untypable("it asks a random generator for something else than numbers")
    own = {"ranf": "random_sample", "sample": "random_sample"}.get(name, name)
    function: Callable[..., Any] = getattr(generator, own)
    return function


def _sample(b: TypedBuilder, value: Value, extents: _Extents) -> Any:
    """A small argument of the type that a value has; constants are what they are."""
    type_ = value.type
    node = value.node
    if value.constant is not None and not isinstance(value.constant_value, np.ndarray):
        return _known(value.constant_value, extents)
    if node is not None and node.kind == "prim::TupleConstruct":
        return _checked_size(tuple(_sample(b, one, extents) for one in node.inputs))
    if node is not None and node.kind == "prim::ListConstruct" and isinstance(type_, ListType):
        return [_sample(b, one, extents) for one in node.inputs]
    if type_ in (FLOAT, COMPLEX):
        return 0.5 if type_ == FLOAT else 0.5j
    if type_ == INT:
        return extents.of(value)
    return _sample_array(tensor(value, "an argument"), extents)


def _known(held: Any, extents: _Extents) -> Any:
    if type(held) is int:
        return extents.of(held) if held > _LARGEST_KNOWN else held
    if type(held) is tuple:
        return _checked_size(tuple(_known(one, extents) for one in held))
    return held


def _checked_size(shape: tuple[Any, ...]) -> tuple[Any, ...]:
    """A tuple that may be the shape of an array, which is not too large then."""
    if math.prod(one for one in shape if type(one) is int) > _MOST_ELEMENTS:
        raise Untypable("an array of many axes")
    return shape


def _is_mask(sample: Any) -> bool:
    return isinstance(sample, np.ndarray) and sample.dtype == np.bool_


def _sample_array(type_: TensorType, extents: _Extents) -> Any:
    """An array whose last two axes are an identity matrix; without two, it has equal parts of 1.

    Integers are 1: where a function scales by them, as ``np.polyfit`` does, zeros would be NaN, of
    which LAPACK prints complaints.
    """
    assert type_.dtype is not None and type_.dims is not None
    shape = _checked_size(tuple(map(extents.of, type_.dims)))
    if not is_stored(type_.dtype):
        raise Untypable(f"an array of {type_.dtype}")
    if len(shape) >= 2:
        return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape).astype(type_.dtype)
    part = 1 / max(1, *shape) if shape else 0.5
    filled = np.full(shape, part if type_.dtype.kind in "fc" else 1).astype(type_.dtype)
    return filled[()] if type_.scalar else filled


def _common_type(
    b: TypedBuilder, first: tuple[Any, _Extents], second: tuple[Any, _Extents]
) -> Type:
    """The type of the results of both calls."""
    (one, extents), (two, others) = first, second
    if type(one) is not type(two):
        raise Untypable("the class of a result depends on extents")
    if isinstance(one, np.random.Generator):
        return GENERATOR
    if type(one) is np.ndarray and is_stored(one.dtype) and one.ndim == two.ndim:
        pairs = zip(one.shape, two.shape, strict=True)
        dims = [_dim(b, pair, extents, others) for pair in pairs]
        return TensorType(one.dtype, tuple(dims))
    if type(one) is tuple or is_named_tuple(type(one)):
        parts = zip(one, two, strict=True)
        types = tuple(_common_type(b, (x, extents), (y, others)) for x, y in parts)
        return TupleType(types, None if type(one) is tuple else type(one))
    found = type_of_constant(one)
    if found in (INT, FLOAT, BOOL, COMPLEX, NONE) or isinstance(one, np.generic):
        return found
    raise Untypable(f"a result of class {type(one).__name__}")


def _is_alike(one: Any, other: Any) -> bool:
    """Whether two results have the same class, dtype and rank, but for their extents."""
    if type(one) is not type(other):
        return False
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype) and one.ndim == other.ndim
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_is_alike, one, other))
    return True


def _dim(b: TypedBuilder, pair: tuple[int, int], extents: _Extents, others: _Extents) -> Dim:
    for extent, number in extents.found.items():
        if (number, others.found[extent]) == pair:
            return b.fresh_dim(("extent", extent)) if isinstance(extent, Value) else extent
    return pair[0] if pair[0] == pair[1] != 0 else b.fresh_dim()
