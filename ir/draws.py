"""The draws of random generators that compiled code makes by itself.

Each is a method that gives numbers, and stays the call of a method in typed graphs:

    %3 : Float64[n, 2] = prim::CallMethod[name="normal"](%g, %loc, %size, loc=…, size=…)

with all arguments by name, and the size, where there is one, an int or a tuple of ints.  Compiled
code calls the C functions that NumPy itself calls, so that numbers and what is left in the
generator are NumPy's.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value
from jitcore.ir.ops.op import Parameter, parse_parameters
from jitcore.ir.types import (
    FLOAT,
    GENERATOR,
    GENERATORS,
    INT,
    RANDOM_STATE,
    PrimType,
    TensorType,
    Type,
)

__all__ = ["GLOBAL", "Draw", "draw_of", "is_draw"]

GLOBAL: Final = np.random.mtrand._rand
"""The generator that functions such as ``np.random.rand`` draw from."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One method.

    Parameters
    ----------
    text : str
        Its parameters, in the form that ops have.
    result : Type
        Of one number.
    takes_integers : bool
        The arguments are integers; otherwise they are real numbers.
    size : str
        The parameter that asks for an array.
    """

    text: str
    result: Type = FLOAT
    takes_integers: bool = False
    size: str = "size"

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Its parameters in order."""
        return parse_parameters(self.text)

    @property
    def has_shape(self) -> bool:
        """Whether the size may be a tuple, and must not be negative."""
        return self.size == "size"

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """That of an array of its numbers."""
        return np.dtype(np.float64 if self.result == FLOAT else np.int64)

    def gives(self, type_: Type) -> bool:
        """Whether a type is that of one number, or of an array of them."""
        if isinstance(type_, TensorType) and not type_.scalar:
            return type_.is_complete and type_.dtype == self.dtype
        return type_ == self.result

    def takes(self, name: str, value: Value) -> bool:
        """Whether compiled code takes an argument."""
        if name == "endpoint":
            return isinstance(value.constant_value, bool)
        return _is_number(value.type, "iu" if self.takes_integers else "iuf")


def _is_number(type_: Type, kinds: str) -> bool:
    """Whether this is a number that an int64, or a float64 with NumPy's rounding, may stand for."""
    if isinstance(type_, TensorType):
        dtype = type_.dtype
        known = type_.scalar and dtype is not None and dtype.kind in kinds
        return known and (dtype != np.uint64 or "f" in kinds)
    return type_ == INT or (type_ == FLOAT and "f" in kinds)


_INT64: Final = TensorType(np.dtype(np.int64), (), True)
_LOCATED: Final = "loc=0.0, scale=1.0, size=None"
_PLAIN: Final = "size=None, dtype!=None, out!=None"

_ALIKE: Final = {
    "uniform": Draw("low=0.0, high=1.0, size=None"),
    "exponential": Draw("scale=1.0, size=None"),
    "poisson": Draw("lam=1.0, size=None", INT),
    **dict.fromkeys(("normal", "laplace", "gumbel", "logistic"), Draw(_LOCATED)),
}

# ``integers`` and ``randint`` take no dtype here: to them even None is one, and a wrong one.
_ROWS: Final[dict[PrimType, dict[str, Draw]]] = {
    GENERATOR: {
        **_ALIKE,
        "random": Draw(_PLAIN),
        "integers": Draw(
            "low, high=None, size=None, *, endpoint=False", _INT64, takes_integers=True
        ),
        "permutation": Draw("x, axis!=0", INT, takes_integers=True, size="x"),
        "standard_normal": Draw(_PLAIN),
        "standard_exponential": Draw("size=None, dtype!=None, method!='zig', out!=None"),
        "standard_gamma": Draw("shape, size=None, dtype!=None, out!=None"),
        "standard_cauchy": Draw("size=None"),
        "gamma": Draw("shape, scale=1.0, size=None"),
        "beta": Draw("a, b, size=None"),
        "rayleigh": Draw("scale=1.0, size=None"),
        "lognormal": Draw("mean=0.0, sigma=1.0, size=None"),
        "wald": Draw("mean, scale, size=None"),
        "geometric": Draw("p, size=None", INT),
        **dict.fromkeys(("pareto", "power", "weibull"), Draw("a, size=None")),
        **dict.fromkeys(("chisquare", "standard_t"), Draw("df, size=None")),
    },
    RANDOM_STATE: {
        **_ALIKE,
        "random_sample": Draw("size=None"),
        "randint": Draw("low, high=None, size=None", INT, takes_integers=True),
        "permutation": Draw("x", INT, takes_integers=True, size="x"),
        "standard_normal": Draw("size=None"),
        "standard_exponential": Draw("size=None"),
    },
}


def draw_of(generator: Type, name: str) -> Draw | None:
    """The draw that a method of a generator is, or None where it is no such."""
    rows = _ROWS.get(generator) if isinstance(generator, PrimType) else None
    return None if rows is None else rows.get(name)


def is_draw(node: Node) -> bool:
    """Whether a typed node draws numbers by itself, as far as nothing else refuses it."""
    if node.kind != "prim::CallMethod" or node.inputs[0].type not in GENERATORS.values():
        return False
    draw = draw_of(node.inputs[0].type, node.attributes["name"])
    return draw is not None and draw.gives(node.output.type)
