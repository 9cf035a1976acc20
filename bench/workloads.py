"""The table of workloads: a program, its arguments at a size, and the arithmetic it must do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench import programs

__all__ = ["DTYPES", "SIZES", "WORKLOADS", "Workload"]

Array = NDArray[Any]
Arguments = tuple[Array, ...]
Make = Callable[[np.random.Generator, int, "np.dtype[Any]"], Arguments]

SIZES = {"64": 64, "4K": 4096, "256K": 1 << 18, "4M": 1 << 22, "16M": 1 << 24}
"""Numbers of elements; matrices have the square root of that many rows."""

DTYPES = ("float32", "float64")

INTEGERS = {"float32": np.int32, "float64": np.int64}
COMPLEX = {"float32": np.complex64, "float64": np.complex128}

EXPONENTIAL = 14
"""Operations of one exp, log, sine or arcsine: a reduction of the argument and a polynomial.

Cephes' float32 functions (expf.c, logf.c, sinf.c) need 12 to 16; those in float64 need more, so
that the bound that follows is low for them.
"""


def _elements(arguments: Arguments, results: Any) -> int:
    return max(array.size for array in arguments)


def _pairs(arguments: Arguments, results: Any) -> int:
    return arguments[-1].size ** 2


def _steps_until_escape(arguments: Arguments, results: Any) -> int:
    return int(results.sum())


@dataclass(frozen=True)
class Workload:
    """One program of the benchmark.

    Attributes
    ----------
    function : callable
        From `bench.programs`; the forms for peers have the same name.
    make : callable
        The arguments for a random generator, a number of elements and a float dtype.
    operations : int
        Additions, multiplications and comparisons that an element needs at least, divisions and
        square roots counted as one each; transcendental functions as `EXPONENTIAL`.
    tolerance : float
        Error allowed to results, in units of the epsilon of the largest of them.
    differing : float
        Part of the results that may differ by more, where rounding decides about branches.
    reads : int
        How often the arguments are read at least, from where all of them lie: twice where each
        result needs a reduction over all rows first.
    work : callable
        How often the operations are done, from the arguments and NumPy's results.
    """

    function: Callable[..., Any]
    make: Make
    operations: int
    tolerance: float = 200.0
    differing: float = 0.0
    reads: int = 1
    work: Callable[[Arguments, Any], int] = field(default=_elements)

    @property
    def name(self) -> str:
        """The name of the program, and of the forms of it for peers."""
        return self.function.__name__

    def arguments(self, size: int, dtype: str) -> Arguments:
        """The same arrays each time, for a number of elements and ``float32`` or ``float64``."""
        return self.make(np.random.default_rng(size), size, np.dtype(dtype))


def _uniform(low: float, high: float, count: int) -> Make:
    """Some vectors of numbers between two bounds."""

    def make(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
        return tuple(random.uniform(low, high, size).astype(dtype) for _ in range(count))

    return make


def _matrix(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    side = isqrt(size)
    return (random.standard_normal((side, side)).astype(dtype),)


def _matrix_and_vectors(count: int) -> Make:
    """A matrix, and some vectors as long as its rows."""

    def make(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
        vectors = (random.uniform(0.5, 1.5, isqrt(size)).astype(dtype) for _ in range(count))
        return (*_matrix(random, size, dtype), *vectors)

    return make


def _options(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    ranges = ((10.0, 50.0), (10.0, 50.0), (0.25, 2.0))
    return tuple(random.uniform(low, high, size).astype(dtype) for low, high in ranges)


def _gates(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    gates = random.standard_normal((4, size)).astype(dtype)
    return gates, random.standard_normal(size).astype(dtype)


def _heights(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    side = isqrt(size)
    return (random.uniform(0.0, 90.0, (side, side)).astype(dtype),)


def _plane(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    re, im = random.uniform(-2.0, 0.6, size), random.uniform(-1.2, 1.2, size)
    return re.astype(dtype), im.astype(dtype)


def _bodies(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    bodies = isqrt(size)
    position = random.standard_normal((3, bodies)).astype(dtype)
    return position, random.uniform(0.1, 1.0, bodies).astype(dtype)


def _integers(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    of = INTEGERS[dtype.name]
    return tuple(random.integers(1, 1 << 20, size).astype(of) for _ in range(2))


def _complex(random: np.random.Generator, size: int, dtype: np.dtype[Any]) -> Arguments:
    return tuple(
        (random.standard_normal(size) + 1j * random.standard_normal(size)).astype(
            COMPLEX[dtype.name]
        )
        for _ in range(2)
    )


WORKLOADS = (
    Workload(programs.pointwise_chain, _uniform(0.5, 2.0, 3), 9),
    Workload(programs.gelu_tanh, _uniform(-4.0, 4.0, 1), 8 + EXPONENTIAL, 2000.0),
    Workload(programs.gelu_erf, _uniform(-4.0, 4.0, 1), 4 + EXPONENTIAL, 2000.0),
    Workload(programs.silu, _uniform(-6.0, 6.0, 1), 3 + EXPONENTIAL),
    Workload(programs.black_scholes, _options, 60 + 4 * EXPONENTIAL, 4000.0),
    Workload(programs.lstm_cell, _gates, 9 + 5 * EXPONENTIAL, 1000.0),
    Workload(programs.softmax, _matrix, 4 + EXPONENTIAL),
    Workload(programs.layer_norm, _matrix_and_vectors(2), 8, 1000.0),
    Workload(programs.rms_norm, _matrix_and_vectors(1), 4),
    Workload(programs.squared_distance, _uniform(-1.0, 1.0, 2), 3, 5000.0),
    Workload(programs.logsumexp, _matrix, 3 + EXPONENTIAL),
    Workload(programs.normalized_columns, _matrix, 6, 2000.0, reads=2),
    Workload(programs.stencil, _matrix, 7, 1000.0),
    Workload(programs.hillshade, _heights, 16 + 5 * EXPONENTIAL, 4000.0),
    Workload(programs.haversine, _uniform(-1.2, 1.2, 4), 12 + 5 * EXPONENTIAL, 20000.0),
    Workload(programs.polynomial, _uniform(-1.0, 1.0, 1), 18, 5000.0),
    Workload(programs.mandelbrot, _plane, 10, 0.0, 0.002, work=_steps_until_escape),
    Workload(programs.n_body, _bodies, 20, 20000.0, work=_pairs),
    Workload(programs.masked_statistics, _uniform(0.0, 1.0, 1), 5, 20000.0),
    Workload(programs.integer_chain, _integers, 10, 0.0),
    Workload(programs.complex_chain, _complex, 30, 1000.0),
)
