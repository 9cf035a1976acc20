"""Samples of NumPy's ufuncs and casts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from op_samples import TRANSCENDENTAL, OpInfo, row
from sample_arrays import DTYPES

from jitcore.ir.ops import TABLE

__all__ = ["casts_rows", "special_rows", "ufuncs_rows"]


def ufuncs_rows() -> Iterator[OpInfo]:
    exact = {"dtypes": DTYPES, "layouts": True}
    for name in (
        "negative positive absolute fabs sign rint floor ceil trunc sqrt square reciprocal degrees "
        "radians rad2deg deg2rad logical_not invert bitwise_count isnan isinf isfinite signbit "
        "spacing conjugate"
    ).split():
        yield row(f"np::{name}", f"np.{name}(x)", complex_ulp=4, **exact)
        yield row(f"np::{name}", f"np.{name}(s)", dtypes="?iBfD", complex_ulp=4)
    for name in (
        "cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
        "arcsinh arccosh arctanh"
    ).split():
        yield row(f"np::{name}", f"np.{name}(x)", ulp=TRANSCENDENTAL, **exact)
        yield row(f"np::{name}", f"np.{name}(s)", dtypes="ifd", ulp=TRANSCENDENTAL)
    # NumPy's own fmax and fmin give either zero for two zeros of unlike sign.
    for name in ("fmax", "fmin"):
        yield row(f"np::{name}", f"np.{name}(x, y)", mixed=True, ulp=1, **exact)
    for name in (
        "add subtract multiply divide floor_divide remainder fmod maximum minimum equal "
        "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift copysign nextafter heaviside "
        "gcd lcm"
    ).split():
        yield row(f"np::{name}", f"np.{name}(x, y)", complex_ulp=4, mixed=True, **exact)
        yield row(
            f"np::{name}",
            f"np.{name}(s, t)",
            f"np.{name}(x, v)",
            f"np.{name}(x, 3)",
            f"np.{name}(a, x)",
            f"np.{name}(s, i)",
            dtypes="?Bif",
            complex_ulp=4,
        )
    for name in ("power", "float_power", "logaddexp", "logaddexp2", "arctan2", "hypot"):
        yield row(
            f"np::{name}",
            f"np.{name}(x, y)",
            ulp=TRANSCENDENTAL,
            complex_ulp=16,
            mixed=True,
            **exact,
        )
    yield row(
        "np::power",
        "np.power(x, 2)",
        "np.power(x, 3)",
        "np.power(p, q)",
        "np.power(x, -1)",
        dtypes=DTYPES,
        ulp=TRANSCENDENTAL,
        complex_ulp=16,
    )
    yield row(
        "np::multiply",
        "x * (1, 2, 3, 4)",
        "[1.5, 2, 3, 4] * x",
        "np.multiply((1, 2), [3, 4])",
        "x[0] *= (1, 2, 3, 4)\nreturn x",
        "s * (1, 2)",
        "(s, s) * x[:, :2]",
        "x * (1, 2, 3)",
        "x * ()",
        dtypes="?bfD",
    )
    yield row("np::equal", "x == (1, 2, 3, 4)", "[1, 2, 3, 4] == x", "s == (1, 2)", dtypes="?bfD")
    yield row("np::exp", "np.exp((1, 2.5))", "np.exp([s, 2])", dtypes="bf", ulp=TRANSCENDENTAL)
    yield row("np::ldexp", "np.ldexp(x, places[:3, None])", "np.ldexp(x, 3)", dtypes="lfd")

    for kind in filter(lambda kind: kind.endswith("_outer"), TABLE):
        name = kind.removeprefix("np::").removesuffix("_outer")
        yield row(
            kind,
            f"np.{name}.outer(p, w)",
            f"np.{name}.outer(v, 2)",
            dtypes="lfd",
            ulp=TRANSCENDENTAL,
        )


def casts_rows() -> Iterator[OpInfo]:
    numbers = ((0,), (1,), (-1,), (255,), (256,), (2**31,), (-(2**31) - 1,), (2**63 - 1,), (2**70,))
    for name in ("int8", "uint8", "int32", "uint32", "uint64"):
        yield row(
            "np::from_int",
            f"np.{name}(3) + i",
            f"np.arange(4, dtype=np.{name}) ^ i",
            f"np.full(3, i, dtype=np.{name})",
            f"np.{name}(3) < i",
            f"np.arange(4, dtype=np.{name}) != i",
            numbers=numbers,
        )
    yield row("np::cast", "np.add(x, 2.5)", "x + y.astype(np.float64)", dtypes=DTYPES)
    yield row("np::astype", *(f"x.astype(np.{name})" for name in _DTYPE_NAMES), dtypes=DTYPES)
    yield row(
        "np::astype",
        "x.astype(x.dtype)",
        "x.astype(float)",
        "s.astype(np.int8)",
        "x.astype(int, copy=False)",
        "x.astype('f4')",
        "np.astype(x, np.float32)",
        dtypes="ld",
        layouts=True,
    )
    for name in _DTYPE_NAMES:
        yield row(f"np::{name}", f"np.{name}(i)", f"np.{name}(i + 1)",
                   numbers=((1,), (2.5,), (True,), (300,), (-1,), (np.float32(1.5),), (1j,),
                            (2**70,)))  # fmt: skip
    yield row(
        "np::round",
        "np.round(x)",
        "x.round()",
        "np.round(x, 1)",
        "np.round(s)",
        dtypes=DTYPES,
        layouts=True,
    )
    yield row(
        "np::conjugate_method",
        "x.conj()",
        "x.conjugate() + x",
        "s.conj()",
        dtypes=DTYPES,
        layouts=True,
    )
    yield row(
        "np::real",
        "np.real(x)",
        "np.real(val=x)",
        "np.real([1, 2j])",
        "np.real(c)",
        "x.real",
        "s.real",
        dtypes=DTYPES,
        layouts=True,
    )
    yield row("np::imag", "np.imag(x)", "x.imag", "s.imag", dtypes="ldFD", layouts=True)
    yield row(
        "np::real_part",
        "(x * y).real + 1",
        "np.conj(x).real.sum(axis=0)",
        dtypes="dFD",
        layouts=True,
    )
    yield row(
        "np::imag_part", "(x * y).imag * v", "np.add(x, y).imag.max()", dtypes="dFD", layouts=True
    )
    yield row(
        "np::nan_to_num",
        "np.nan_to_num(x)",
        "np.nan_to_num(x, nan=1.0, posinf=2.0)",
        "np.nan_to_num(s)",
        dtypes="lfdD",
        layouts=True,
    )
    for name in ("isposinf", "isneginf", "iscomplex", "isreal"):
        yield row(f"np::{name}", f"np.{name}(x)", f"np.{name}(s)", dtypes="?lfdFD", layouts=True)
    yield row(
        "np::divmod", "np.divmod(x, y)", "np.divmod(x, 3)", "np.divmod(s, t)", "np.divmod(i, x)",
        "z, y = np.divmod(x, y)\nreturn z * y", "np.divmod(7, 2)", dtypes="?bBlfdD", mixed=True,
        layouts=True,
    )  # fmt: skip
    yield row("np::angle", "np.angle(x)", "np.angle(x, deg=True)", dtypes="dFD", ulp=TRANSCENDENTAL)


_DTYPE_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 complex64 complex128"
).split()


def special_rows() -> Iterator[OpInfo]:
    """SciPy's own errors are larger than ours."""
    for name in "erf expit exp2 expm1 log1p cbrt".split():
        text = f"special.{name}"
        yield row(
            f"special::{name}",
            f"{text}(x)",
            f"{text}(s)",
            dtypes="?ifdF",
            layouts=True,
            ulp=TRANSCENDENTAL,
            complex_ulp=16,
        )
    for name in "erfc erfcx logit log_expit ndtr log_ndtr gamma gammaln entr exprel exp10".split():
        yield row(f"special::{name}", f"special.{name}(p)", dtypes="ifd", layouts=True, ulp=64)
    for name in ("xlogy", "xlog1py", "rel_entr"):
        text = f"special.{name}"
        yield row(
            f"special::{name}",
            f"{text}(p, q)",
            f"{text}(p, 2)",
            f"x[...] = 0\n{text}(p, q, out=x)\nreturn x",
            dtypes="ifd",
            layouts=True,
            ulp=64,
        )
