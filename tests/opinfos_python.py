"""Samples of Python's operators and built-ins, and of the math module."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from op_samples import TRANSCENDENTAL, OpInfo, row
from sample_arrays import DTYPES

__all__ = ["math_rows", "operators_rows", "python_rows"]


def operators_rows() -> Iterator[OpInfo]:
    names = {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
        "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
        "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    }  # fmt: skip
    numbers: tuple[tuple[Any, ...], ...] = (
        (7, 2), (-7, 2), (7, -2), (7, 0), (2**62, 7), (-(2**63), -1), (True, 3), (True, False),
        (7.5, 2.0), (-7.5, 2), (1, 0.0), (float("nan"), 1.0), (float("inf"), -2), (-0.0, 3),
        (2.5, 100), (2 - 1j, 3), (1j, 0.5), (2**62, 2**62),
    )  # fmt: skip
    # The rows of the ufuncs, which these become, meet all dtypes and layouts.
    arrays = {"dtypes": "?bBilLfdD", "ulp": 0, "complex_ulp": 4}
    for name, sign in names.items():
        more = {**arrays, "ulp": TRANSCENDENTAL, "complex_ulp": 16} if name == "pow" else arrays
        # Python itself would not get to the end of two of them.
        endless = {(2**62, 2**62)} if name in ("pow", "lshift") else set()
        pairs = tuple(pair for pair in numbers if pair not in endless)
        yield row(f"prim::{name}", f"i {sign} a", numbers=pairs, ulp=more["ulp"])
        yield row(f"prim::{name}", f"x {sign} y", f"x {sign} 2", mixed=True, **more)
        yield row(
            f"prim::{name}",
            f"x {sign} 2.5",
            f"2 {sign} x",
            f"s {sign} t",
            f"s {sign} 2",
            f"x {sign} s",
            f"a {sign} s",
            **{**more, "dtypes": "?Bilfd"},
        )
        if name not in ("eq", "ne", "lt", "le", "gt", "ge"):
            yield row(
                f"prim::i{name}",
                f"x {sign}= y\nreturn x",
                f"x {sign}= 2",
                f"x[1:] {sign}= x[:-1]\nreturn x",
                f"w = x\nx {sign}= v\nreturn w",
                f"s {sign}= t\nreturn s",
                **{**more, "dtypes": "?bBlfdD"},
            )
            yield row(f"prim::i{name}", f"i {sign}= a\nreturn i", numbers=pairs, ulp=more["ulp"])
    yield row(
        "prim::pow",
        "x ** 3",
        "x ** 0.5",
        "x ** -1",
        "x ** 1",
        "x ** 0",
        "p ** 2.0",
        **{**arrays, "ulp": TRANSCENDENTAL, "complex_ulp": 16},
    )
    yield row("prim::matmul", "p @ q.T", "p @ q[0]", dtypes="blfdD", reduction=True, layouts=True)
    yield row(
        "prim::imatmul",
        "x @= x[:, :3]\nreturn x",
        "z = x[:, :3].copy()\nz @= z\nreturn z",
        dtypes="ld",
        reduction=True,
    )
    for name, sign in (("neg", "-"), ("pos", "+"), ("invert", "~")):
        yield row(f"prim::{name}", f"{sign}x", f"{sign}s", dtypes=DTYPES, layouts=True)
        yield row(f"prim::{name}", f"{sign}i", numbers=((5,), (-(2**63),), (True,), (2.5,), (0.0,)))


_FLOATS = tuple(
    (value,)
    for value in (0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.5, -3.5, 30.25, 1e300, float("inf"),
                  float("-inf"), float("nan"), 3, -3, True, np.float32(0.25), np.float64(1.75))
)  # fmt: skip
_FLOAT_PAIRS = (
    (1.5, 2.0), (-1.5, 2.0), (2.0, -0.5), (-2.0, 0.5), (0.0, -1.0), (0.0, 0.0), (-0.0, 0.0), (3, 2),
    (float("inf"), 2.0), (2.0, float("inf")), (float("nan"), 0.0), (1e300, 3.0), (5.5, 0.0),
    (np.float32(1.5), 3),
)  # fmt: skip
_ANYTHING: tuple[tuple[Any, ...], ...] = (
    (0,), (3,), (-2.5,), (0.0,), (True,), (None,), ((),), ((1, 2),), ("",), (1j,), (np.float32(2),),
    (np.int8(0),), (np.ones(1),), (np.zeros((1, 1)),), (np.ones(3),), ([1],), ({},),
)  # fmt: skip
_NUMERIC = (
    (7,), (-7,), (2.5,), (-2.5,), (3.5,), (True,), (1e20,), (float("nan"),), (float("inf"),),
    (2**62,), (1 + 2j,), (np.float32(2.5),), (np.int8(-3),), (np.uint64(2**63),), (np.ones(()),),
    (np.ones((1, 1)),), (np.ones(3),),
)  # fmt: skip


def python_rows() -> Iterator[OpInfo]:
    yield from _truth_rows()
    yield from _numbers_rows()
    yield from _loops_rows()
    yield from _objects_rows()


def _truth_rows() -> Iterator[OpInfo]:
    yield row("prim::bool", "bool(i)", "1 if i else 2", numbers=_ANYTHING)
    yield row("prim::not_", "not i", numbers=_ANYTHING)
    yield row("prim::is_", "i is None", "i is i", numbers=_ANYTHING)
    yield row("prim::is_", "flag is True", numbers=((True,), (False,), (1,)))
    yield row("prim::isnot", "i is not None", numbers=_ANYTHING)
    yield row("prim::in_", "i in (1, 2, 3)", "i in [1, 2.5]", numbers=((2,), (7,), (2.5,), (True,)))
    yield row("prim::notin", "i not in (1, 2, 3)", numbers=((2,), (7,), (2.0,)))
    yield row("prim::len", "len(x)", "len((x, 1))", "len(range(2, len(x)))", layouts=True)


def _numbers_rows() -> Iterator[OpInfo]:
    for name in ("int", "float", "complex", "abs", "round"):
        yield row(f"prim::{name}", f"{name}(i)", numbers=_NUMERIC)
    yield row("prim::abs", "abs(x)", "abs(s)", dtypes=DTYPES, complex_ulp=4)
    yield row("prim::complex", "complex(a, b)", numbers=((1.5, 2), (1, -0.0), (2.5, None)))
    yield row("prim::round", "round(a, 2)", numbers=((1.2345,), (7,)))
    pairs = ((1, 2), (2.5, 1.5), (1, 1.0), (float("nan"), 1.0), (1.0, float("nan")), (0.0, -0.0),
             (True, 2))  # fmt: skip
    for name in ("min", "max"):
        yield row(
            f"prim::{name}", f"{name}(i, a)", f"{name}(i, a, i)", f"{name}((a, i))", numbers=pairs
        )
    yield row("prim::sum", "sum((i, a, i))", "sum([i, a], 1)", numbers=pairs)
    yield row(
        "prim::divmod", "divmod(i, a)", numbers=((7, 2), (-7, 2), (7.5, -2), (1, 0), (1.0, 0))
    )


def _loops_rows() -> Iterator[OpInfo]:
    yield row(
        "prim::range",
        "n = 0\nfor k in range(i, j, 3):\n    n = n * 3 + k\nreturn n",
        "n = 0\nfor k in range(i, j, -1):\n    n = n * 3 + k\nreturn n",
        numbers=((0, 10), (10, 0), (5, 5), (-7, 8)),
    )
    yield row(
        "prim::range_length",
        "len(range(i, j))",
        "len(range(j, i, -2))",
        numbers=((0, 10), (10, 0), (5, 5), (-7, 8)),
    )
    yield row(
        "prim::slice_length",
        "v[::2] + v[1::2]",
        "v[i:j] - w[i + 1:j + 1]",
        "x[::2] * x[1::2]",
        dtypes="lfd",
    )
    yield row(
        "prim::assume_equal",
        "v[1::2] * v[::2]",
        "n = v[::2].copy()\nn += v[1::2]\nreturn n",
        dtypes="lfd",
    )
    loop = "n = 0\nfor {} in {}:\n    n = n + {}\nreturn n"
    yield row(
        "prim::zip",
        loop.format("k, m", "zip(v, w)", "k * m"),
        loop.format("k, m", "zip(range(5), v)", "m - k"),
    )
    yield row(
        "prim::enumerate",
        loop.format("k, m", "enumerate(v)", "k * m"),
        loop.format("k, m", "enumerate(v, 2)", "k * m"),
    )
    yield row(
        "prim::reversed",
        loop.format("m", "reversed(v)", "m / (n + 1)"),
        loop.format("k", "reversed(range(4))", "k - 2 * n"),
    )
    ranges = ((0, 10), (5, 5), (-7, 8))
    for name in ("any", "all"):
        yield row(f"prim::{name}", f"{name}(v)", f"{name}((s, s > t))", f"{name}(x)")
        yield row(f"prim::{name}", f"{name}(range(i, j))", numbers=ranges)
    for name in ("sum", "min", "max"):
        yield row(f"prim::{name}", f"{name}(v)")
        yield row(f"prim::{name}", f"{name}(range(i, j))", numbers=ranges)


def _objects_rows() -> Iterator[OpInfo]:
    yield row("prim::tuple", "tuple(v.shape)", "tuple([v, 1])", "tuple(range(3))")
    yield row(
        "prim::isinstance",
        "isinstance(i, int)",
        "isinstance(i, (float, np.ndarray))",
        "isinstance(i, np.floating)",
        numbers=_ANYTHING,
    )
    yield row("prim::type", "type(i)", "type(i) is float", numbers=_ANYTHING)
    yield row("prim::TupleConstruct", "(x, 1, (s, None))", "a, b = s, t\nreturn b, a")
    yield row("prim::ListConstruct", "[s, t]", "[x, x]")
    yield row("prim::slice", "x[slice(1, None)]", "k = slice(0, 2)\nreturn x[k, k]")
    yield row("prim::size", "x.shape", "x.shape[0] * x.shape[-1]", "x.size", layouts=True)
    yield row(
        "prim::CheckBound",
        "if s > 0:\n    n = 1\nreturn n",
        "if s < 0:\n    n = 1\nreturn n",
        "for n in range(i - 2):\n    pass\nreturn n",
        dtypes="ld",
    )
    yield row(
        "prim::UnionConstruct",
        "n = None\nif i > 0:\n    n = 2.5\nreturn n",
        "n = i\nif i > 1:\n    n = n / 2\nn = n + 1\nreturn n",
        numbers=((0,), (1,), (7,)),
    )
    yield row("prim::Call", "(lambda n: n + 1)(x)", "np.vectorize(abs)(x)")
    yield row(
        "prim::CallMethod", "x.sum()", "x.tolist()", "x.nosuch()", "x.sum(0).mean()", reduction=True
    )
    yield row(
        "prim::GetAttr",
        "x.T",
        "x.ndim",
        "x.dtype",
        "x.nbytes",
        "x.itemsize",
        "x.real",
        "x.strides",
        "x.flags.writeable",
        "s.dtype",
        "s.shape",
        "np.pi",
        "x.nosuch",
        dtypes="lfD",
        layouts=True,
    )


def math_rows() -> Iterator[OpInfo]:
    for name in (
        "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh "
        "acosh atanh fabs erf erfc gamma lgamma degrees radians cbrt exp2 isnan isinf isfinite "
        "floor ceil trunc frexp modf ulp"
    ).split():
        yield row(f"math::{name}", f"math.{name}(a)", numbers=_FLOATS, ulp=TRANSCENDENTAL)
    for name in "pow atan2 copysign fmod remainder hypot nextafter isclose".split():
        yield row(f"math::{name}", f"math.{name}(a, b)", numbers=_FLOAT_PAIRS, ulp=TRANSCENDENTAL)
    ints = ((12, 8), (7, 0), (5, 2), (3, 9), (-4, 6), (0, 0), (6, -3), (2**62, 3), (60, 30))
    for name in "gcd lcm comb perm".split():
        yield row(f"math::{name}", f"math.{name}(i, j)", numbers=ints)
    for name in "factorial isqrt".split():
        wholes = ((0,), (5,), (10,), (-1,), (25,), (2**62,), (24,), (2.5,))
        yield row(f"math::{name}", f"math.{name}(i)", numbers=wholes[: 5 if "f" in name else None])
    yield row(
        "math::isclose", "math.isclose(a, b, rel_tol=0.5)", "math.isclose(a, b, abs_tol=j)",
        "math.isclose(a, b, 0.5)", numbers=((1.0, 1.5, 1), (2, 2.5, -1), (1e300, -1e300, 0)),
    )  # fmt: skip
    complexes = ((1 + 2j,), (-3.0,), (0j,), (-0.0,), (1e-310 + 1e-311j,), (-2 - 0.5j,), (710j + 1,))
    special = (
        (complex("inf"),),
        (complex("nan"),),
        (complex(1, float("-inf")),),
        (1e308 + 1e308j,),
    )
    for name in "phase polar exp sqrt isnan isinf isfinite".split():
        numbers: tuple[tuple[complex], ...] = (*complexes, (709.5 + 1j,), (3,), (True,))
        # Functions of what is not finite are Python's, which the matrix does not know.
        numbers += special if name in ("phase", "isnan", "isinf", "isfinite") else ()
        yield row(f"cmath::{name}", f"cmath.{name}(a)", numbers=numbers, ulp=8, complex_ulp=8)
    pairs = ((2.0, 0.5), (-1.5, 3.0), (0.0, 1.0), (2.0, 0.0), (-0.0, -0.0), (3, True))
    yield row("cmath::rect", "cmath.rect(a, b)", numbers=pairs, ulp=8, complex_ulp=8)
    yield row("math::log", "math.log(a, b)", numbers=_FLOAT_PAIRS, ulp=TRANSCENDENTAL)
    yield row("math::hypot", "math.hypot(a)", "math.hypot(a, b, a)", numbers=_FLOAT_PAIRS, ulp=8)
    yield row(
        "math::prod", "math.prod((i, j, i))", "math.prod([i, j], start=2.5)",
        "math.prod((), start=j)", "math.prod((i,), 2)", numbers=((2, 3), (2**62, 7), (2.5, True)),
    )  # fmt: skip
    yield row("math::ldexp", "math.ldexp(a, i)", numbers=((1.5, 3), (0.0, 2), (-2.5, -4)))
    for name in "fsum prod".split():
        yield row(f"math::{name}", f"math.{name}(v)", dtypes="ld")
    yield row("math::dist", "math.dist((a, b), (b, a))", numbers=((1.5, 2.0), (0.0, -3.0)))
