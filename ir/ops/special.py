"""The ufuncs of ``scipy.special`` that have a native form.

SciPy is not imported here.  A function of it is one of these rows when the program that passes it
has imported it, and its dtypes come from SciPy's own ufunc.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.ops.elementwise import UFUNC_PARAMETERS, ufunc_rule
from jitcore.ir.ops.op import Op, Scalar

__all__ = ["OPS", "SpecialFunction", "special_kind"]

_MODULE = "scipy.special"


@dataclass(frozen=True, slots=True)
class SpecialFunction:
    """A ufunc of ``scipy.special``, which is imported when it is asked for."""

    name: str

    @property
    def ufunc(self) -> np.ufunc:
        """SciPy's own."""
        found: np.ufunc = getattr(importlib.import_module(_MODULE), self.name)
        return found

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        return self.ufunc(*args, **keywords)


def _row(name: str, text: str, doc: str, names: Sequence[str] = ("x",)) -> Op:
    function = SpecialFunction(name)
    kind = f"special::{name}"
    scalar = Scalar(f=text)
    return Op(
        kind,
        function,
        ufunc_rule(kind, lambda: function.ufunc, names, scalar),
        ", ".join([*names, UFUNC_PARAMETERS]),
        scalar,
        doc=doc,
    )


OPS: tuple[Op, ...] = (
    _row("erf", "erf(x)", "The error function."),
    _row("erfc", "erfc(x)", "1 - erf(x)."),
    _row("erfcx", "erfcx(x)", "exp(x**2) erfc(x)."),
    _row("expit", "sigmoid(x)", "The logistic function."),
    _row("logit", "logit(x)", "The inverse of the logistic function."),
    _row(
        "log_expit",
        "-(log1p(exp(-fabs(x))) - select(x < 0, x, 0))",
        "The logarithm of the logistic function.",
    ),
    _row("ndtr", "ndtr(x)", "The distribution function of the normal distribution."),
    _row("log_ndtr", "log_ndtr(x)", "The logarithm of ndtr."),
    _row("gamma", "gamma(x)", "The gamma function."),
    _row("gammaln", "gammaln(x)", "The logarithm of the absolute value of the gamma function."),
    _row(
        "xlogy",
        "select((x == 0) & (y == y), 0, x * log(y))",
        "x log(y), 0 where x is 0.",
        ("x", "y"),
    ),
    _row(
        "xlog1py",
        "select((x == 0) & (y == y), 0, x * log1p(y))",
        "x log(1 + y), 0 where x is 0.",
        ("x", "y"),
    ),
    _row(
        "entr",
        "select(x > 0, -x * log(x), select(x == 0, 0, select(x < 0, -inf, x)))",
        "-x log(x), an element of an entropy.",
    ),
    _row(
        "rel_entr", "rel_entr(x, y)", "x log(x / y), an element of a relative entropy.", ("x", "y")
    ),
    _row(
        "exprel",
        "select(x == 0, 1, select(x == inf, inf, expm1(x) / x))",
        "(exp(x) - 1) / x.",
    ),
    _row("exp10", "pow(10, x)", "10**x."),
    _row("exp2", "exp2(x)", "2**x."),
    _row("expm1", "expm1(x)", "exp(x) - 1."),
    _row("log1p", "log1p(x)", "log(1 + x)."),
    _row("cbrt", "cbrt(x)", "The cube root."),
)

_KINDS = {op.reference.name: op.kind for op in OPS if isinstance(op.reference, SpecialFunction)}


def special_kind(function: Any) -> str | None:
    """The kind of a function of ``scipy.special`` that has a row here; None of all others."""
    module = sys.modules.get(_MODULE)
    if module is None or not isinstance(function, np.ufunc):
        return None
    kind = _KINDS.get(function.__name__)
    return kind if kind and getattr(module, function.__name__) is function else None
