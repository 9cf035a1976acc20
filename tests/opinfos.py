"""Samples of every row of the op table: what the op matrix is made of.

A row here is a kind of the table and the texts of functions that use it.  A text is an expression
or a block of statements; its free names say what is passed:

====================== =========================================================================
``x``, ``y``, ``z``    matrices of the dtype in turn, in the layout in turn
``p``, ``q``           the same with moderate positive values
``v``, ``w``           vectors as long as the rows
``s``, ``t``           NumPy scalars of the dtype
``mask``, ``places``   a boolean matrix; a vector of row numbers, negative ones among them
``i``, ``j``           ints; ``a``, ``b`` floats; ``flag`` a bool; ``c`` a complex number
====================== =========================================================================

Rows with ``numbers`` pass those instead, in the order in which the names appear.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sample_arrays import DTYPES, LAYOUTS, in_layout, values

__all__ = ["OPINFOS", "OpInfo", "Sample", "samples"]

SHAPE = (3, 4)
FULLY = 2
"""How many texts of a row meet all dtypes and all layouts."""

TRANSCENDENTAL = 8
"""Both we and NumPy are within 4 units in the last place of the exact value."""

MIXED = ("bH", "if", "?d", "Lq", "fd", "fD", "Bl", "?b")
"""Pairs of dtypes for operands of different ones."""


@dataclass(frozen=True, slots=True)
class OpInfo:
    """Samples of one kind.

    Parameters
    ----------
    kind : str
    texts : tuple of str
    dtypes : str
        The dtypes that the arrays get in turn.
    ulp, reduction :
        As for ``check``.
    complex_ulp : int
        The units in the last place for complex numbers, where they are more.
    layouts : bool
        Whether to try all layouts, for arrays of the last dtype that is not complex.
    mixed : bool
        Whether to try operands of different dtypes.
    numbers : tuple of tuples
        Arguments that are not arrays.
    """

    kind: str
    texts: tuple[str, ...]
    dtypes: str = "ld"
    ulp: int = 0
    reduction: bool = False
    complex_ulp: int = 0
    layouts: bool = False
    mixed: bool = False
    numbers: tuple[tuple[Any, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Sample:
    """A function's source, the arguments of calls in turn, and how exact results must be."""

    label: str
    source: str
    calls: tuple[tuple[Any, ...], ...]
    ulp: int
    reduction: bool


def samples(info: OpInfo) -> Iterator[Sample]:
    """All samples of a row: dtypes first, then pairs of dtypes, then layouts.

    The first two texts meet all dtypes and layouts, each of the others two dtypes and four layouts.
    """
    for number, text in enumerate(info.texts):
        source, names = _function(text)
        if info.numbers:
            calls = tuple(row[: len(names)] for row in info.numbers) if names else ((),)
            yield Sample(text, source, calls, info.ulp, info.reduction)
            continue
        dtypes = list(info.dtypes) if number < FULLY else _some(info.dtypes, number, 2)
        for pair in [*dtypes, *(MIXED if info.mixed and number < FULLY else ())]:
            ulp = max(info.ulp, info.complex_ulp) if set(pair) & set("FD") else info.ulp
            calls = (_arguments(names, pair, "C"),)
            yield Sample(f"{text} of {_named(pair)}", source, calls, ulp, info.reduction)
        if info.layouts:
            dtype = next(one for one in reversed(info.dtypes) if one not in "FD")
            layouts = LAYOUTS if number < FULLY else _some(LAYOUTS, number, 4)
            # One function for all layouts: it meets new shapes again and again.
            calls = tuple(_arguments(names, dtype, layout) for layout in layouts)
            yield Sample(f"{text} in {len(layouts)} layouts", source, calls, info.ulp, info.reduction)


def _some(choices: Sequence[str], number: int, count: int) -> list[str]:
    """So many of the choices, others for each number."""
    step = max(len(choices) // count, 1)
    return [choices[(number + turn * step) % len(choices)] for turn in range(min(count, len(choices)))]


def _named(dtypes: str) -> str:
    return ", ".join(np.dtype(one).name for one in dtypes)


def _function(text: str) -> tuple[str, tuple[str, ...]]:
    """The source of a function with this body, and the names of its parameters."""
    lines = text.splitlines()
    if _is_expression(text):
        lines = [f"return {text}"]
    body = "\n".join(f"    {line}" for line in lines)
    tree = ast.parse(f"def f():\n{body}")
    augmented = {id(node.target) for node in ast.walk(tree) if isinstance(node, ast.AugAssign)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id in _MAKERS]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    first = {node.id: node for node in reversed(found)}
    # A name that is first assigned is a local variable.
    names = tuple(
        dict.fromkeys(
            node.id
            for node in found
            if isinstance(first[node.id].ctx, ast.Load) or id(first[node.id]) in augmented
        )
    )
    return f"def f({', '.join(names)}):\n{body}\n", names


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _arguments(names: tuple[str, ...], dtypes: str, layout: str) -> tuple[Any, ...]:
    return tuple(_MAKERS[name](dtypes, layout) for name in names)


def _matrix(seed: int, tame: bool = False) -> Any:
    def make(dtypes: str, layout: str) -> Any:
        dtype = dtypes[seed % len(dtypes)]
        if layout == "one row" and seed % 2:
            layout = "C"
        return in_layout(layout, dtype, SHAPE, seed, tame=tame)

    return make


def _vector(seed: int) -> Any:
    return lambda dtypes, layout: values(dtypes[seed % len(dtypes)], SHAPE[1:], seed + 5)


def _scalar(seed: int) -> Any:
    return lambda dtypes, layout: values(dtypes[seed % len(dtypes)], (3,), seed + 2, tame=True)[0]


def _constant(value: Any) -> Any:
    return lambda dtypes, layout: value


def _mask(dtypes: str, layout: str) -> Any:
    return in_layout(layout, "?", SHAPE, 9)


_MAKERS: dict[str, Any] = {
    "x": _matrix(0),
    "y": _matrix(1),
    "z": _matrix(2),
    "p": _matrix(0, tame=True),
    "q": _matrix(1, tame=True),
    "v": _vector(0),
    "w": _vector(1),
    "s": _scalar(0),
    "t": _scalar(1),
    "mask": _mask,
    "places": _constant(np.array([2, 0, -1, 0])),
    "i": _constant(2),
    "j": _constant(-3),
    "a": _constant(0.75),
    "b": _constant(-1.5),
    "flag": _constant(True),
    "c": _constant(1.5 - 2j),
}


def _row(kind: str, *texts: str, **more: Any) -> OpInfo:
    return OpInfo(kind, texts, **more)


def _ufuncs() -> Iterator[OpInfo]:
    exact = {"dtypes": DTYPES, "layouts": True}
    for name in (
        "negative positive absolute fabs sign rint floor ceil trunc sqrt square reciprocal degrees "
        "radians rad2deg deg2rad logical_not invert bitwise_count isnan isinf isfinite signbit "
        "spacing conjugate"
    ).split():
        yield _row(f"np::{name}", f"np.{name}(x)", f"np.{name}(s)", complex_ulp=4, **exact)
    for name in (
        "cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos arctan sinh cosh tanh "
        "arcsinh arccosh arctanh"
    ).split():
        yield _row(f"np::{name}", f"np.{name}(x)", f"np.{name}(s)", ulp=TRANSCENDENTAL, **exact)
    # NumPy's own fmax and fmin give either zero for two zeros of unlike sign.
    for name in ("fmax", "fmin"):
        yield _row(f"np::{name}", f"np.{name}(x, y)", mixed=True, ulp=1, **exact)
    for name in (
        "add subtract multiply divide floor_divide remainder fmod maximum minimum equal "
        "not_equal less less_equal greater greater_equal logical_and logical_or logical_xor "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift copysign nextafter heaviside "
        "gcd lcm"
    ).split():
        yield _row(f"np::{name}", f"np.{name}(x, y)", complex_ulp=4, mixed=True, **exact)
        yield _row(
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
        yield _row(
            f"np::{name}",
            f"np.{name}(x, y)",
            ulp=TRANSCENDENTAL,
            complex_ulp=16,
            mixed=True,
            **exact,
        )
    yield _row(
        "np::power",
        "np.power(x, 2)",
        "np.power(x, 3)",
        "np.power(p, q)",
        "np.power(x, -1)",
        dtypes=DTYPES,
        ulp=TRANSCENDENTAL,
        complex_ulp=16,
    )
    yield _row("np::ldexp", "np.ldexp(x, places[:3, None])", "np.ldexp(x, 3)", dtypes="lfd")


def _operators() -> Iterator[OpInfo]:
    names = {
        "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%",
        "pow": "**", "lshift": "<<", "rshift": ">>", "and_": "&", "or_": "|", "xor": "^",
        "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    }  # fmt: skip
    numbers = (
        (7, 2), (-7, 2), (7, -2), (7, 0), (2**62, 7), (-(2**63), -1), (True, 3), (True, False),
        (7.5, 2.0), (-7.5, 2), (1, 0.0), (float("nan"), 1.0), (float("inf"), -2), (-0.0, 3),
        (2.5, 100), (2 - 1j, 3), (1j, 0.5), (2**62, 2**62),
    )  # fmt: skip
    # The rows of the ufuncs, which these become, meet all dtypes and layouts.
    arrays = {"dtypes": "?bBilLfdD", "ulp": 0, "complex_ulp": 4}
    for name, sign in names.items():
        more = {**arrays, "ulp": TRANSCENDENTAL, "complex_ulp": 16} if name == "pow" else arrays
        if name in ("pow", "lshift"):
            numbers = tuple(pair for pair in numbers if pair != (2**62, 2**62))
        yield _row(f"prim::{name}", f"i {sign} a", numbers=numbers, ulp=more["ulp"])
        yield _row(f"prim::{name}", f"x {sign} y", f"x {sign} 2", mixed=True, **more)
        yield _row(
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
            yield _row(
                f"prim::i{name}",
                f"x {sign}= y\nreturn x",
                f"x {sign}= 2",
                f"x[1:] {sign}= x[:-1]\nreturn x",
                f"w = x\nx {sign}= v\nreturn w",
                f"s {sign}= t\nreturn s",
                **{**more, "dtypes": "?bBlfdD"},
            )
            yield _row(f"prim::i{name}", f"i {sign}= a\nreturn i", numbers=numbers, ulp=more["ulp"])
    yield _row(
        "prim::pow",
        "x ** 3",
        "x ** 0.5",
        "x ** -1",
        "x ** 1",
        "x ** 0",
        "p ** 2.0",
        **{**arrays, "ulp": TRANSCENDENTAL, "complex_ulp": 16},
    )
    yield _row("prim::matmul", "p @ q.T", "p @ q[0]", dtypes="blfdD", reduction=True, layouts=True)
    yield _row(
        "prim::imatmul",
        "x @= x[:, :3]\nreturn x",
        "z = x[:, :3].copy()\nz @= z\nreturn z",
        dtypes="ld",
        reduction=True,
    )
    for name, sign in (("neg", "-"), ("pos", "+"), ("invert", "~")):
        yield _row(f"prim::{name}", f"{sign}x", f"{sign}s", dtypes=DTYPES, layouts=True)
        yield _row(
            f"prim::{name}", f"{sign}i", numbers=((5,), (-(2**63),), (True,), (2.5,), (0.0,))
        )


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


def _math() -> Iterator[OpInfo]:
    for name in (
        "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh acosh "
        "atanh fabs erf erfc gamma lgamma degrees radians cbrt exp2 isnan isinf isfinite floor ceil "
        "trunc frexp modf ulp"
    ).split():
        yield _row(f"math::{name}", f"math.{name}(a)", numbers=_FLOATS, ulp=TRANSCENDENTAL)
    for name in "pow atan2 copysign fmod remainder hypot nextafter isclose".split():
        yield _row(f"math::{name}", f"math.{name}(a, b)", numbers=_FLOAT_PAIRS, ulp=TRANSCENDENTAL)
    for name in "gcd lcm comb perm".split():
        yield _row(f"math::{name}", f"math.{name}(i, j)", numbers=((12, 8), (7, 0), (5, 2), (3, 9)))
    for name in "factorial isqrt".split():
        yield _row(f"math::{name}", f"math.{name}(i)", numbers=((0,), (5,), (10,), (-1,)))
    yield _row("math::ldexp", "math.ldexp(a, i)", numbers=((1.5, 3), (0.0, 2), (-2.5, -4)))
    for name in "fsum prod".split():
        yield _row(f"math::{name}", f"math.{name}(v)", dtypes="ld")
    yield _row("math::dist", "math.dist((a, b), (b, a))", numbers=((1.5, 2.0), (0.0, -3.0)))


def _python() -> Iterator[OpInfo]:
    anything = ((0,), (3,), (-2.5,), (0.0,), (True,), (None,), ((),), ((1, 2),), ("",), (1j,),
                (np.float32(2),), (np.int8(0),), (np.ones(1),), (np.zeros((1, 1)),),
                (np.ones(3),), ([1],), ({},))  # fmt: skip
    numeric = ((7,), (-7,), (2.5,), (-2.5,), (3.5,), (True,), (1e20,), (float("nan"),),
               (float("inf"),), (2**62,), (1 + 2j,), (np.float32(2.5),), (np.int8(-3),),
               (np.uint64(2**63),), (np.ones(()),), (np.ones((1, 1)),), (np.ones(3),))  # fmt: skip
    yield _row("prim::bool", "bool(i)", "1 if i else 2", numbers=anything)
    yield _row("prim::not_", "not i", numbers=anything)
    yield _row("prim::is_", "i is None", "i is i", numbers=anything)
    yield _row("prim::is_", "flag is True", numbers=((True,), (False,), (1,)))
    yield _row("prim::isnot", "i is not None", numbers=anything)
    yield _row(
        "prim::in_", "i in (1, 2, 3)", "i in [1, 2.5]", numbers=((2,), (7,), (2.5,), (True,))
    )
    yield _row("prim::notin", "i not in (1, 2, 3)", numbers=((2,), (7,), (2.0,)))
    yield _row("prim::len", "len(x)", "len((x, 1))", "len(range(2, len(x)))", layouts=True)
    for name in ("int", "float", "complex", "abs", "round"):
        yield _row(f"prim::{name}", f"{name}(i)", numbers=numeric)
    yield _row("prim::abs", "abs(x)", "abs(s)", dtypes=DTYPES, complex_ulp=4)
    yield _row("prim::complex", "complex(a, b)", numbers=((1.5, 2), (1, -0.0)))
    yield _row("prim::round", "round(a, 2)", numbers=((1.2345,), (7,)))
    pairs = ((1, 2), (2.5, 1.5), (1, 1.0), (float("nan"), 1.0), (1.0, float("nan")), (0.0, -0.0),
             (True, 2))  # fmt: skip
    for name in ("min", "max"):
        yield _row(
            f"prim::{name}", f"{name}(i, a)", f"{name}(i, a, i)", f"{name}((a, i))", numbers=pairs
        )
    yield _row("prim::sum", "sum((i, a, i))", "sum([i, a], 1)", numbers=pairs)
    yield _row(
        "prim::divmod", "divmod(i, a)", numbers=((7, 2), (-7, 2), (7.5, -2), (1, 0), (1.0, 0))
    )
    yield _row(
        "prim::range",
        "n = 0\nfor k in range(i, j, 3):\n    n = n * 3 + k\nreturn n",
        "n = 0\nfor k in range(i, j, -1):\n    n = n * 3 + k\nreturn n",
        numbers=((0, 10), (10, 0), (5, 5), (-7, 8)),
    )
    yield _row(
        "prim::range_length",
        "len(range(i, j))",
        "len(range(j, i, -2))",
        numbers=((0, 10), (10, 0), (5, 5), (-7, 8)),
    )
    loop = "n = 0\nfor {} in {}:\n    n = n + {}\nreturn n"
    yield _row(
        "prim::zip",
        loop.format("k, m", "zip(v, w)", "k * m"),
        loop.format("k, m", "zip(range(5), v)", "m - k"),
    )
    yield _row(
        "prim::enumerate",
        loop.format("k, m", "enumerate(v)", "k * m"),
        loop.format("k, m", "enumerate(v, 2)", "k * m"),
    )
    yield _row(
        "prim::reversed",
        loop.format("m", "reversed(v)", "m / (n + 1)"),
        loop.format("k", "reversed(range(4))", "k - 2 * n"),
    )
    yield _row("prim::tuple", "tuple(v.shape)", "tuple([v, 1])", "tuple(range(3))")
    yield _row(
        "prim::isinstance",
        "isinstance(i, int)",
        "isinstance(i, (float, np.ndarray))",
        "isinstance(i, np.floating)",
        numbers=anything,
    )
    yield _row("prim::type", "type(i)", "type(i) is float", numbers=anything)
    yield _row("prim::TupleConstruct", "(x, 1, (s, None))", "a, b = s, t\nreturn b, a")
    yield _row("prim::ListConstruct", "[s, t]", "[x, x]")
    yield _row("prim::slice", "x[slice(1, None)]", "k = slice(0, 2)\nreturn x[k, k]")
    yield _row("prim::size", "x.shape", "x.shape[0] * x.shape[-1]", "x.size", layouts=True)
    yield _row(
        "prim::CheckBound",
        "if s > 0:\n    n = 1\nreturn n",
        "if s < 0:\n    n = 1\nreturn n",
        "for n in range(i - 2):\n    pass\nreturn n",
        dtypes="ld",
    )
    yield _row("prim::Call", "(lambda n: n + 1)(x)", "np.vectorize(abs)(x)")
    yield _row(
        "prim::CallMethod", "x.sum()", "x.tolist()", "x.nosuch()", "x.sum(0).mean()", reduction=True
    )
    yield _row(
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


def _indexing() -> Iterator[OpInfo]:
    yield _row(
        "prim::getitem",
        "x[0]",
        "x[-1, 1]",
        "x[1:, ::-2]",
        "x[..., 0]",
        "x[None, :, 1]",
        "x[i]",
        "x[i, j]",
        "x[7]",
        "x[:, j:]",
        "x[0, 0, 0]",
        "x[i:j]",
        "x[s > 100]",
        "v[()]",
        "v[...]",
        "x[flag]",
        "x[-2:, :-1]",
        "x[5:2]",
        "x[::i]",
        dtypes="?bD",
        layouts=True,
    )
    yield _row(
        "prim::setitem",
        "x[0] = v",
        "x[1:, 1] = s",
        "x[...] = 2",
        "x[0, 0] = s",
        "x[:, ::2] = y[:, 1::2]",
        "x[1:] = x[:-1]",
        "x[::-1] = x",
        "x[:] = x[:, ::-1]",
        "x[i] = 7",
        "x[5] = 1",
        "x[0] = 2.5",
        "x[1] = flag",
        "x[:2, :2] = x[:2, :2].T",
        "x[0] = v[:, None]",
        "x[0] += v",
        "x[mask] += 1",
        "x[places] += 1",
        dtypes="?bflD",
        layouts=True,
    )
    yield _row("np::view", "x[1:]", "x[i]", "x[:, -1]", "x[::2, ::-1].T", layouts=True)
    yield _row("np::item", "x[0, 0]", "v[i]", "x.item(0)", "s.item()", dtypes=DTYPES)
    yield _row(
        "np::gather",
        "x[places]",
        "x[:, places]",
        "x[places, places]",
        "x[places[:, None], 1]",
        "x[places, :2]",
        "x[places, None]",
        "x[places > 5]",
        "x[0, :, None][places]",
        "x[places + 9]",
        "x[[0, 1]]",
        "x[None, places, :, 0]",
        dtypes="?lD",
        layouts=True,
    )
    yield _row(
        "np::scatter",
        "x[places] = 1",
        "x[places, places] = s",
        "x[:, places] = v",
        "x[places] = x[:1]",
        "x[places + 9] = 0",
        dtypes="lf",
        layouts=True,
    )
    yield _row("np::store", "x[:] = y", "x[1:] = x[:-1] + 1", dtypes="lD", layouts=True)
    yield _row(
        "np::compress",
        "x[mask]",
        "x[x > 0]",
        "v[v == v]",
        "x[v > 0]",
        "x[mask, None]",
        "x[mask[:, 0]]",
        dtypes="?lf",
        layouts=True,
    )
    yield _row(
        "np::put_mask",
        "x[mask] = 0",
        "x[x < 0] = -x[x < 0]",
        "x[mask] = v[:2]",
        "x[mask[:, 0]] = v",
        dtypes="blf",
        layouts=True,
    )
    yield _row("np::where", "np.where(mask, x, y)", dtypes=DTYPES, layouts=True, mixed=True)
    yield _row(
        "np::where",
        "np.where(x, 1, y)",
        "np.where(mask, x, 2.5)",
        "np.where(x > 0, s, t)",
        "np.where(mask)",
        "np.where(flag, x, y)",
        "np.where(mask, 1, 2)",
        "np.where(mask, 1, 0.5)",
        dtypes="?bfD",
    )
    yield _row(
        "np::clip",
        "np.clip(x, 1, 3)",
        "np.clip(x, 0.5, None)",
        "x.clip(-1, y)",
        "np.clip(x, s, t)",
        "np.clip(s, 1, 2)",
        "np.clip(x, 3, 1)",
        "x.clip(max=2)",
        "np.clip(x, 0, 1000)",
        dtypes="?bBifdD",
        layouts=True,
    )


def _casts() -> Iterator[OpInfo]:
    yield _row("np::cast", "np.add(x, 2.5)", "x + y.astype(np.float64)", dtypes=DTYPES)
    yield _row("np::astype", *(f"x.astype(np.{name})" for name in _DTYPE_NAMES), dtypes=DTYPES)
    yield _row(
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
        yield _row(f"np::{name}", f"np.{name}(i)", f"np.{name}(i + 1)",
                   numbers=((1,), (2.5,), (True,), (300,), (-1,), (np.float32(1.5),), (1j,),
                            (2**70,)))  # fmt: skip
    yield _row(
        "np::round",
        "np.round(x)",
        "x.round()",
        "np.round(x, 1)",
        "np.round(s)",
        dtypes=DTYPES,
        layouts=True,
    )
    yield _row("np::real", "np.real(x)", "x.real", "s.real", dtypes=DTYPES, layouts=True)
    yield _row("np::imag", "np.imag(x)", "x.imag", "s.imag", dtypes="ldFD", layouts=True)
    yield _row(
        "np::nan_to_num",
        "np.nan_to_num(x)",
        "np.nan_to_num(x, nan=1.0, posinf=2.0)",
        "np.nan_to_num(s)",
        dtypes="lfdD",
        layouts=True,
    )
    yield _row(
        "np::angle", "np.angle(x)", "np.angle(x, deg=True)", dtypes="dFD", ulp=TRANSCENDENTAL
    )


_DTYPE_NAMES = (
    "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128"
).split()


def _reductions() -> Iterator[OpInfo]:
    def forms(name: str, *more: str, method: bool = True) -> tuple[str, ...]:
        texts = [
            f"np.{name}(x)",
            f"np.{name}(x, axis=0)",
            f"np.{name}(x, axis=-1, keepdims=True)",
            f"np.{name}(x, keepdims=True)",
            f"np.{name}(x.T, axis=1)",
            f"np.{name}(x, axis=5)",
        ]
        if method:
            texts += [f"x.{name}()", f"x.{name}(1)"]
        return (*texts, *more)

    wide = {"dtypes": "?bBilfdD", "layouts": True}
    for name in ("sum", "prod"):
        texts = forms(
            name,
            f"np.{name}(x, axis=(0, 1))",
            f"np.{name}(x, dtype=np.float64)",
            f"np.{name}(x, where=mask)",
            f"x.{name}(initial=2)",
            f"np.{name}(s)",
            f"np.{name}([s, t])",
            f"np.{name}(x, axis=())",
        )
        yield _row(f"np::{name}", *texts, reduction=True, **wide)
    for name in ("min", "max"):
        yield _row(
            f"np::{name}",
            *forms(name, f"np.{name}(x, axis=(0, 1))", f"np.{name}(s)", f"np.{name}(x, initial=2)"),
            **wide,
        )
    for name in ("all", "any"):
        yield _row(
            f"np::{name}", *forms(name, f"np.{name}(s)", f"np.{name}(x > 0, axis=1)"), **wide
        )
    for name in ("argmin", "argmax"):
        yield _row(f"np::{name}", *forms(name), **wide)
    yield _row("np::count_nonzero", *forms("count_nonzero", method=False), **wide)
    yield _row(
        "np::mean",
        *forms("mean", "np.mean(x, axis=(0, 1))", "np.mean(x, dtype=np.float32)"),
        reduction=True,
        **wide,
    )
    for name in ("var", "std"):
        texts = forms(name, f"np.{name}(x, ddof=1)", f"np.{name}(x, axis=0, ddof=1)")
        yield _row(
            f"np::{name}",
            *(one.replace("x", "p") for one in texts if "x." not in one),
            reduction=True,
            **wide,
        )
    yield _row("np::ptp", *forms("ptp", method=False), **wide)
    for name in ("nansum", "nanprod"):
        yield _row(f"np::{name}", *forms(name, method=False), reduction=True, **wide)
    for name in ("cumsum", "cumprod"):
        yield _row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(v)",
            f"np.{name}(x, axis=0)",
            f"x.{name}(axis=-1)",
            f"np.{name}(x, axis=1, dtype=np.float64)",
            f"np.{name}(x, axis=3)",
            reduction=True,
            **wide,
        )


def _shapes() -> Iterator[OpInfo]:
    every = {"dtypes": "?D", "layouts": True}
    yield _row("np::transpose", "np.transpose(x)", "np.transpose(x, (1, 0))", "x.T", **every)
    yield _row(
        "np::transpose_method",
        "x.transpose()",
        "x.transpose(1, 0)",
        "x.transpose((1, 0))",
        "x.transpose(0, 0)",
        **every,
    )
    yield _row("np::swapaxes", "np.swapaxes(x, 0, 1)", "x.swapaxes(0, -1)", **every)
    yield _row(
        "np::moveaxis", "np.moveaxis(x, 0, -1)", "np.moveaxis(x[None], (0, 1), (1, 2))", **every
    )
    yield _row(
        "np::reshape",
        "x.reshape(-1)",
        "x.reshape(2, -1)",
        "x.reshape((4, 3))",
        "x.reshape(len(x), -1, 1)",
        "x.reshape(5, 5)",
        "x.reshape(x.shape)",
        "x.reshape(-1, x.shape[-1])",
        **every,
    )
    yield _row(
        "np::reshape_function",
        "np.reshape(x, -1)",
        "np.reshape(x, (6, 2))",
        "np.reshape(x, (2, 6), order='F')",
        **every,
    )
    yield _row("np::ravel", "np.ravel(x)", "x.ravel()", "x.ravel('F')", **every)
    yield _row("np::flatten", "x.flatten()", "x.flatten('F')", **every)
    yield _row("np::expand_dims", "np.expand_dims(x, 0)", "np.expand_dims(x, (0, -1))", **every)
    yield _row("np::squeeze", "np.squeeze(x)", "x[:1].squeeze(0)", "np.squeeze(x, axis=0)", **every)
    yield _row("np::flip", "np.flip(x)", "np.flip(x, 0)", "np.flip(x, (0, 1))", **every)
    yield _row("np::flipud", "np.flipud(x)", **every)
    yield _row("np::fliplr", "np.fliplr(x)", **every)
    yield _row("np::broadcast_to", "np.broadcast_to(v, (2, 4)) + 1", **every)
    yield _row(
        "np::broadcast_to_function",
        "np.broadcast_to(x, (2, 3, 4))",
        "np.broadcast_to(s, (2, 2))",
        "np.broadcast_to(x, x.shape)",
        "np.broadcast_to(x, (7, 7))",
        **every,
    )
    yield _row("np::copy", "x.copy()", "np.copy(x)", **every)
    yield _row("np::concatenate", "np.concatenate((x, y))", **every)
    yield _row(
        "np::concatenate_function",
        "np.concatenate([x, y], axis=-1)",
        "np.concatenate((x, y), axis=None)",
        "np.concatenate((x, v))",
        "np.concat([v, w, v])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    yield _row(
        "np::stack",
        "np.stack([x, y])",
        "np.stack((x, y), axis=-1)",
        "np.stack([x, v])",
        "np.stack([s, t])",
        dtypes="?bfD",
        mixed=True,
        layouts=True,
    )
    for name in ("vstack", "hstack", "dstack", "column_stack"):
        yield _row(
            f"np::{name}",
            f"np.{name}((x, y))",
            f"np.{name}([v, w])",
            dtypes="?D",
            mixed=True,
            layouts=True,
        )
    yield _row(
        "np::roll",
        "np.roll(x, 1)",
        "np.roll(v, -2)",
        "np.roll(x, 1, axis=0)",
        "np.roll(x, -9, axis=-1)",
        "np.roll(x, (1, 2), axis=(0, 1))",
        "np.roll(x, i, axis=1)",
        "np.roll(x, 0, axis=0)",
        **every,
    )


def _creation() -> Iterator[OpInfo]:
    sizes = ((3,), (0,), (1,), (-1,))
    yield _row(
        "np::empty", "np.empty((i, 2)).shape", "z = np.empty(i)\nz[:] = 1\nreturn z", numbers=sizes
    )
    yield _row("np::empty_function", "np.empty((2, i), dtype=np.int8).dtype", numbers=sizes)
    for name in ("zeros", "ones"):
        yield _row(
            f"np::{name}",
            f"np.{name}(i)",
            f"np.{name}((i, 2))",
            f"np.{name}((2, 3), int)",
            f"np.{name}(i, dtype=bool)",
            f"np.{name}((i,), np.complex64)",
            f"np.{name}((i, i), order='F')",
            numbers=sizes,
        )
    for name in ("zeros_like", "ones_like"):
        yield _row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(x, dtype=np.float32)",
            f"np.{name}(x, shape=(2, 2))",
            f"np.{name}(s)",
            dtypes=DTYPES,
            layouts=True,
        )
    yield _row(
        "np::empty_like",
        "np.empty_like(x).shape",
        "z = np.empty_like(x)\nz[...] = 3\nreturn z",
        layouts=True,
    )
    yield _row("np::full", "np.full((2, 2), 7)", "np.full(3, 2.5) + v[:3]")
    yield _row(
        "np::full_function",
        "np.full((2, i), 7)",
        "np.full(i, a)",
        "np.full(3, s)",
        "np.full((2, 2), 2.5, dtype=int)",
        "np.full(2, 300, np.int8)",
        "np.full((2, 4), v)",
        "np.full(2, flag)",
        "np.full(2, i, np.float32)",
        dtypes="?bfD",
    )
    yield _row(
        "np::full_like",
        "np.full_like(x, 2)",
        "np.full_like(x, s)",
        "np.full_like(x, 2.5)",
        "np.full_like(x, a, dtype=np.float32)",
        dtypes="?bfD",
        layouts=True,
    )
    yield _row("np::iota", "np.arange(7)", "np.arange(i) * 2", numbers=sizes)
    yield _row(
        "np::arange",
        "np.arange(i)",
        "np.arange(i, 9)",
        "np.arange(9, i, -2)",
        "np.arange(2, i * 4, 3)",
        "np.arange(0.0, 1.0, 0.1)",
        "np.arange(5, dtype=np.float32)",
        "np.arange(i, dtype=np.int8)",
        "np.arange(0.5, i)",
        "np.arange(-1.7, 2)",
        "np.arange(3.0)",
        numbers=sizes,
    )
    yield _row(
        "np::linspace",
        "np.linspace(0, 1, 5)",
        "np.linspace(-1.5, 2, 7)",
        "np.linspace(0.0, 1.0, i)",
        "np.linspace(0, 10, 4, endpoint=False)",
        "np.linspace(1, 1, 3)",
        "np.linspace(2, -3)",
        "np.linspace(0, i, 5)",
        numbers=sizes,
    )
    yield _row(
        "np::eye",
        "np.eye(i)",
        "np.eye(3, 4, k=1)",
        "np.eye(3, k=-1, dtype=int)",
        "np.eye(i, i + 1)",
        numbers=sizes,
    )
    yield _row("np::identity", "np.identity(i)", "np.identity(3, dtype=np.float32)", numbers=sizes)
    for name in ("tril", "triu"):
        yield _row(
            f"np::{name}",
            f"np.{name}(x)",
            f"np.{name}(x, k=1)",
            f"np.{name}(x, -1)",
            dtypes="?bfD",
            layouts=True,
        )
    yield _row(
        "np::asarray",
        "np.asarray(x)",
        "np.asarray(x, dtype=np.float32)",
        "np.asarray(s)",
        "np.asarray([s, t])",
        "np.asarray(2.5)",
        dtypes="?ifd",
        layouts=True,
    )


def _linalg() -> Iterator[OpInfo]:
    products = {"dtypes": "?blfdD", "reduction": True, "layouts": True}
    yield _row(
        "np::matmul",
        "np.matmul(p, q.T)",
        "p @ q.T",
        "np.matmul(p, v[:, None])",
        "v @ w",
        "p @ q",
        "np.matmul(p[None], q.T)",
        "p[:0] @ q.T",
        "p[:, :0] @ q[:, :0].T",
        **products,
    )
    yield _row(
        "np::dot",
        "np.dot(p, q.T)",
        "v.dot(w)",
        "np.dot(p, 2)",
        "np.dot(s, v)",
        "np.dot(p, v)",
        "np.dot(p[None], q.T)",
        **products,
    )
    yield _row("np::inner", "np.inner(p, q)", "np.inner(v, w)", "np.inner(s, 2)", **products)
    yield _row("np::vdot", "np.vdot(v, w)", "np.vdot(p, q)", **products)
    yield _row(
        "np::outer",
        "np.outer(p[0], q[0])",
        "np.outer(p, q[0])",
        "np.outer(v, 2)",
        "np.outer(s, p[0])",
        dtypes="?blfdD",
        mixed=True,
        complex_ulp=4,
    )


def _merged(rows: Iterator[OpInfo]) -> dict[str, tuple[OpInfo, ...]]:
    by_kind: dict[str, tuple[OpInfo, ...]] = {}
    for row in rows:
        if row.numbers:
            row = replace(row, layouts=False)
        by_kind[row.kind] = (*by_kind.get(row.kind, ()), row)
    return by_kind


def _all() -> Iterator[OpInfo]:
    yield from _operators()
    yield from _python()
    yield from _math()
    yield from _indexing()
    yield from _ufuncs()
    yield from _casts()
    yield from _reductions()
    yield from _shapes()
    yield from _creation()
    yield from _linalg()


OPINFOS = _merged(_all())
"""The rows of samples of each kind."""
