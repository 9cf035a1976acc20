"""What each ufunc computes at one element: the ``scalar`` column of the elementwise rows."""

from __future__ import annotations

from dataclasses import replace

from jitcore.ir.ops.op import Scalar

__all__ = ["SCALARS"]


def _all(text: str, c: tuple[str, str] | str | None = None, b: str | None = None) -> Scalar:
    return Scalar(f=text, i=text, u=text, b=b or text, c=c, cheap=True)


def _number(text: str, c: tuple[str, str] | str | None = None) -> Scalar:
    return Scalar(f=text, i=text, u=text, c=c)


def _float(text: str, c: tuple[str, str] | str | None = None) -> Scalar:
    return Scalar(f=text, c=c)


def _integer(text: str, b: str | None = None) -> Scalar:
    return Scalar(i=text, u=text, b=b)


_C_ORDER = (
    "(x_re {op} y_re) and (x_im == x_im) and (y_im == y_im) or (x_re == y_re) and (x_im {eq} y_im)"
)


SCALARS: dict[str, Scalar | None] = {
    "add": Scalar(
        f="x + y", i="x + y", u="x + y", b="x or y", c=("x_re + y_re", "x_im + y_im"), cheap=True
    ),
    "subtract": replace(_number("x - y", ("x_re - y_re", "x_im - y_im")), cheap=True),
    "multiply": Scalar(
        f="x * y",
        i="x * y",
        u="x * y",
        b="x and y",
        # NumPy's loops over arrays fuse where the processor can; its scalars never do.
        c=("fma(x_re, y_re, -(x_im * y_im))", "fma(x_re, y_im, x_im * y_re)"),
        c_scalars=("x_re * y_re - x_im * y_im", "x_re * y_im + x_im * y_re"),
        cheap=True,
    ),
    "divide": Scalar(
        f="x / y",
        # Smith's algorithm (CACM 5, 1962), as NumPy divides complex numbers.
        c=(
            "complex_divide_re(x_re, x_im, y_re, y_im)",
            "complex_divide_im(x_re, x_im, y_re, y_im)",
        ),
    ),
    "floor_divide": Scalar(f="floor_divide(x, y)", i="floor_divide(x, y)", u="floor_divide(x, y)"),
    "remainder": Scalar(f="remainder(x, y)", i="remainder(x, y)", u="remainder(x, y)"),
    "fmod": Scalar(f="fmod(x, y)", i="fmod(x, y)", u="fmod(x, y)"),
    "power": Scalar(
        f="select(y == 2, x * x, pow(x, y))",
        i="pow(x, y)",
        u="pow(x, y)",
        f_arrays="power_in_arrays(x, y)",
    ),
    "float_power": _float("pow(x, y)"),
    "negative": replace(_number("-x", ("-x_re", "-x_im")), cheap=True),
    "positive": _number("x", ("x_re", "x_im")),
    "absolute": Scalar(
        f="fabs(x)",
        i="select(x < 0, -x, x)",
        u="x",
        b="x",
        c="complex_absolute(x_re, x_im)",
        c_scalars="hypot_of_scalars(x_re, x_im)",
        cheap=True,
    ),
    "fabs": _float("fabs(x)"),
    "sign": Scalar(
        f="select(x > 0, 1, select(x < 0, -1, select(x == 0, 0, x)))",
        i="select(x > 0, 1, select(x < 0, -1, 0))",
        u="select(x > 0, 1, 0)",
    ),
    "rint": _float("rint(x)", ("rint(x_re)", "rint(x_im)")),
    "floor": Scalar(f="floor(x)", i="x", u="x", b="x"),
    "ceil": Scalar(f="ceil(x)", i="x", u="x", b="x"),
    "trunc": Scalar(f="trunc(x)", i="x", u="x", b="x"),
    "sqrt": _float("sqrt(x)"),
    "cbrt": _float("cbrt(x)"),
    "square": Scalar(
        f="x * x",
        i="x * x",
        u="x * x",
        c=("fma(x_re, x_re, -(x_im * x_im))", "fma(x_re, x_im, x_im * x_re)"),
        c_scalars=("x_re * x_re - x_im * x_im", "x_re * x_im + x_im * x_re"),
        cheap=True,
    ),
    # Of the integer 0 it is what the processor makes of infinity.
    "reciprocal": _float("1 / x"),
    "exp": _float("exp(x)", ("complex_exp_re(x_re, x_im)", "complex_exp_im(x_re, x_im)")),
    "exp2": _float("exp2(x)"),
    "expm1": _float("expm1(x)"),
    "log": _float("log(x)"),
    "log2": _float("log2(x)"),
    "log10": _float("log10(x)"),
    "log1p": _float("log1p(x)"),
    "logaddexp": _float("logaddexp(x, y)"),
    "logaddexp2": _float("logaddexp2(x, y)"),
    "sin": _float("sin(x)"),
    "cos": _float("cos(x)"),
    "tan": _float("tan(x)"),
    "arcsin": _float("arcsin(x)"),
    "arccos": _float("arccos(x)"),
    "arctan": _float("arctan(x)"),
    "arctan2": _float("arctan2(x, y)"),
    "sinh": _float("sinh(x)"),
    "cosh": _float("cosh(x)"),
    "tanh": _float("tanh(x)"),
    "arcsinh": _float("arcsinh(x)"),
    "arccosh": _float("arccosh(x)"),
    "arctanh": _float("arctanh(x)"),
    "hypot": _float("hypot(x, y)"),
    "maximum": Scalar(f="max(x, y)", i="max(x, y)", u="max(x, y)", b="x or y", cheap=True),
    "minimum": Scalar(f="min(x, y)", i="min(x, y)", u="min(x, y)", b="x and y", cheap=True),
    "fmax": Scalar(f="fmax(x, y)", i="max(x, y)", u="max(x, y)", b="x or y"),
    "fmin": Scalar(f="fmin(x, y)", i="min(x, y)", u="min(x, y)", b="x and y"),
    "equal": _all("x == y", "(x_re == y_re) and (x_im == y_im)", b="not (x ^ y)"),
    "not_equal": _all("x != y", "(x_re != y_re) or (x_im != y_im)", b="x ^ y"),
    "less": _all("x < y", _C_ORDER.format(op="<", eq="<"), b="(not x) and y"),
    "less_equal": _all("x <= y", _C_ORDER.format(op="<", eq="<="), b="(not x) or y"),
    "greater": _all("x > y", _C_ORDER.format(op=">", eq=">"), b="x and (not y)"),
    "greater_equal": _all("x >= y", _C_ORDER.format(op=">", eq=">="), b="x or (not y)"),
    "logical_and": Scalar(
        f="(x != 0) and (y != 0)",
        i="(x != 0) and (y != 0)",
        u="(x != 0) and (y != 0)",
        b="x and y",
        c="((x_re != 0) or (x_im != 0)) and ((y_re != 0) or (y_im != 0))",
    ),
    "logical_or": Scalar(
        f="(x != 0) or (y != 0)",
        i="(x != 0) or (y != 0)",
        u="(x != 0) or (y != 0)",
        b="x or y",
        c="(x_re != 0) or (x_im != 0) or (y_re != 0) or (y_im != 0)",
    ),
    "logical_xor": Scalar(
        f="(x != 0) ^ (y != 0)",
        i="(x != 0) ^ (y != 0)",
        u="(x != 0) ^ (y != 0)",
        b="x ^ y",
        c="((x_re != 0) or (x_im != 0)) ^ ((y_re != 0) or (y_im != 0))",
    ),
    "logical_not": Scalar(
        f="x == 0", i="x == 0", u="x == 0", b="not x", c="(x_re == 0) and (x_im == 0)"
    ),
    "bitwise_and": _integer("x & y", b="x and y"),
    "bitwise_or": _integer("x | y", b="x or y"),
    "bitwise_xor": _integer("x ^ y", b="x ^ y"),
    "invert": _integer("~x", b="not x"),
    "left_shift": _integer("shift_left(x, y)"),
    "right_shift": _integer("shift_right(x, y)"),
    "bitwise_count": Scalar(
        i="cast('uint8', popcount(select(x < 0, -x, x)))", u="cast('uint8', popcount(x))"
    ),
    "isnan": Scalar(
        f="x != x", i="x != x", u="x != x", b="False", c="(x_re != x_re) or (x_im != x_im)"
    ),
    "isinf": Scalar(
        f="fabs(x) == inf",
        i="x != x",
        u="x != x",
        b="False",
        c="(fabs(x_re) == inf) or (fabs(x_im) == inf)",
    ),
    "isfinite": Scalar(
        f="fabs(x) < inf",
        i="x == x",
        u="x == x",
        b="True",
        c="(fabs(x_re) < inf) and (fabs(x_im) < inf)",
    ),
    "signbit": Scalar(f="copysign(1, x) < 0"),
    "copysign": _float("copysign(x, y)"),
    "nextafter": _float("nextafter(x, y)"),
    "spacing": _float("spacing(x)"),
    "heaviside": _float("heaviside(x, y)"),
    "gcd": _integer("gcd(x, y)"),
    "lcm": _integer("lcm(x, y)"),
    "conjugate": Scalar(f="x", i="x", u="x", c=("x_re", "-x_im")),
    "ldexp": None,
}
