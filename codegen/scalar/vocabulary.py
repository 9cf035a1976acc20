"""The words of the scalar language, for functions that ``scalar.function`` compiles."""

from __future__ import annotations

import math
from typing import Any, Final

__all__ = [
    "Primitive",
    "Scalar",
    "bits",
    "cast",
    "copysign",
    "extern",
    "fabs",
    "floor",
    "fma",
    "frem",
    "inf",
    "inverse_root_estimate",
    "nan",
    "polynomial",
    "quot",
    "rem",
    "rint",
    "select",
    "sqrt",
    "trunc",
]

Scalar = Any
"""The annotation of values in functions that ``function`` compiles."""


class Primitive:
    """A name of the language for functions that are compiled; it cannot be called by Python."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.name}() only has a meaning in source that is compiled to loop IR")


select = Primitive("select")
cast = Primitive("cast")
bits = Primitive("bits")
fma = Primitive("fma")
extern = Primitive("extern")
polynomial = Primitive("polynomial")
quot = Primitive("quot")
rem = Primitive("rem")
frem = Primitive("frem")
sqrt = Primitive("sqrt")
inverse_root_estimate = Primitive("inverse_root_estimate")
fabs = Primitive("fabs")
floor = Primitive("floor")
trunc = Primitive("trunc")
rint = Primitive("rint")
copysign = Primitive("copysign")

inf: Final = math.inf
nan: Final = math.nan
