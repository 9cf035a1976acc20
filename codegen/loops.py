"""The loop-nest IR: what kernels are made of, between the graph and the printers.

It is small and typed.  Every expression has a dtype, which is a NumPy dtype name (``"float32"``,
``"bool"``, ``"int64"`` ...) or ``"ptr"``, an address.  Nothing is implicit: no promotion, no
broadcasting, no bounds checks, no complex numbers (lowering splits those into two reals).
Pointers address elements: ``Load(p, i, "float32")`` reads the i-th float32 after ``p``.

    expression = Const | Var | Unary | Binary | Select | Cast | Load | Call
    statement  = Let | Assign | Store | For | While | If | Break | Continue | Return | Do | Comment

Primitives (``op`` of Unary and Binary), whose operands have one dtype:

=============== ==================================================================
add sub mul     integers wrap; floats are IEEE
div             floats only, IEEE
quot rem        integers, toward zero as in C; the divisor must not be 0; the least
                integer by -1 wraps: the quotient is itself, the remainder 0
frem            floats, C's fmod
shl shr         shift count from 0 to below the width; shr is arithmetic for signed
                integers
and or xor      integers and bools
eq ne lt le gt ge   give bool; ``ne`` is true and the others are false for NaN
min max         integers as expected; floats as NumPy's minimum and maximum: NaN wins,
                x where both are NaN; of two equal operands, such as 0.0 and -0.0, it is
                y, and x in float16
copysign        floats
neg             ``-x``, which wraps for integers
not             bitwise for integers, logical for bools
sqrt fabs floor ceil trunc rint     floats, correctly rounded; rint to even
inverse_root_estimate   float32 and float64, in vectors for AVX-512 only: 1 / sqrt(x) for
                normal x > 0 with a relative error below 2**-14
popcount clz ctz                    integers; clz and ctz of 0 are the width
add_overflows sub_overflows mul_overflows   int64, give bool
=============== ==================================================================

Operations on float16 are those of float32, rounded; there is no ``fma`` for it.  On bfloat16 there
are none: it is loaded, stored, chosen, and converted, which goes by way of float32.

``Call`` names either a scalar function of ``vecmath`` (``"exp"``), or, with ``external=True``, a C
symbol (``"lgamma"``, ``"malloc"``), whose argument dtypes are those of its arguments.  The function
of vector math is the one for the dtype of the result, which all its arguments have, but for the
int64 exponent of ``ldexp``; where the result is bool, it is the one for the first argument's dtype.
``fma`` is a Call, rounded once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from jitcore.ir.dataclass import dataclass

__all__ = [
    "Assign",
    "Binary",
    "Break",
    "Call",
    "Cast",
    "Comment",
    "Const",
    "Continue",
    "Do",
    "Expr",
    "For",
    "Function",
    "If",
    "Let",
    "Load",
    "Return",
    "Select",
    "Stmt",
    "Store",
    "Unary",
    "Var",
    "While",
]


@dataclass(frozen=True, slots=True)
class Const:
    """A literal; ``value`` is a Python bool, int or float that the dtype represents exactly."""

    value: Any
    dtype: str


@dataclass(frozen=True, slots=True)
class Var:
    """A name bound by ``Let``, by a ``For`` or as a parameter."""

    name: str
    dtype: str


@dataclass(frozen=True, slots=True)
class Unary:
    op: str
    x: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Binary:
    """An operation on two operands of one dtype.

    ``reassoc`` is for the steps of reductions: ``add``, ``sub``, ``mul``, ``min`` and ``max`` of
    floats.  Steps may then be taken in another order and grouping, and ``min`` and ``max`` may take
    either zero of 0.0 and -0.0; NaN still wins.  ``minnum`` and ``maxnum`` are such steps for
    numbers alone: where NaN is among them, nothing may depend on what they give.  On integers it
    changes nothing.

    A product with ``contract`` may become one operation with such an addition that takes it.  It
    stays what it is beside that: two factors in a row are not multiplied with each other first.
    """

    op: str
    x: Expr
    y: Expr
    dtype: str
    reassoc: bool = False
    contract: bool = False


@dataclass(frozen=True, slots=True)
class Select:
    """``x if condition else y``; both are evaluated."""

    condition: Expr
    x: Expr
    y: Expr
    dtype: str


@dataclass(frozen=True, slots=True)
class Cast:
    """A conversion with ``astype``'s meaning; with ``bits`` a reinterpretation of the same size.

    Narrower integers take the low bits.  To float it rounds to nearest, once, but from integers to
    float16 by way of float32.  To bool it is ``x != 0``, true for NaN.  Floats become integers
    toward zero; what does not fit, NaN included, becomes what compilers for x86-64 make of it.  For
    int64 and int32 that is the least integer.  For uint32 it is the low bits of the int64, for
    shorter integers those of the int32.  For uint64, numbers down to -2**63 wrap, NaN and what is
    below give 2**63, and 2**64 and above give 0.
    """

    x: Expr
    dtype: str
    bits: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Element ``index`` (int64) after ``pointer``; ``root`` names the memory it lies in.

    Accesses with different non-empty roots never overlap.  Where ``unit`` is not 0, ``index``
    counts steps of so many bytes, which are less than an element.
    """

    pointer: Expr
    index: Expr
    dtype: str
    root: str = ""
    unit: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A function of ``vecmath`` or a C symbol; ``dtype`` is ``"void"`` where nothing comes back."""

    name: str
    args: tuple[Expr, ...]
    dtype: str
    external: bool = False


Expr = Const | Var | Unary | Binary | Select | Cast | Load | Call


@dataclass(slots=True)
class Let:
    """Bind a name once; ``mutable`` ones may be given new values by ``Assign``."""

    var: Var
    value: Expr
    mutable: bool = False


@dataclass(slots=True)
class Assign:
    """A new value for a mutable variable."""

    var: Var
    value: Expr


@dataclass(slots=True)
class Store:
    """Write an element; its place is given as in ``Load``."""

    pointer: Expr
    index: Expr
    value: Expr
    root: str = ""
    unit: int = 0


@dataclass(slots=True)
class For:
    """``for var in range(start, stop, step)`` over int64, with ``step`` a positive constant.

    The bounds are evaluated once.  The counter must not wrap: ``stop + step - 1`` has to be an
    int64.  ``parallel`` says that the iterations are independent.
    """

    var: Var
    start: Expr
    stop: Expr
    body: list[Stmt]
    step: int = 1
    parallel: bool = False


@dataclass(slots=True)
class While:
    """Run ``head`` and evaluate ``condition``; while it holds run ``body`` and start again."""

    head: list[Stmt]
    condition: Expr
    body: list[Stmt]


@dataclass(slots=True)
class If:
    condition: Expr
    then: list[Stmt]
    orelse: list[Stmt] = field(default_factory=list)
    unlikely: bool = False


@dataclass(slots=True)
class Break:
    pass


@dataclass(slots=True)
class Continue:
    pass


@dataclass(slots=True)
class Return:
    """Leave the function with a status (int64); 0 is success."""

    value: Expr


@dataclass(slots=True)
class Do:
    """Evaluate a call for its effect."""

    call: Call


@dataclass(slots=True)
class Comment:
    """A line for the reader of the printed source; ``line`` is where it stands in the user's."""

    text: str


Stmt = Let | Assign | Store | For | While | If | Break | Continue | Return | Do | Comment


@dataclass(slots=True)
class Function:
    """A kernel or a native function: typed parameters, statements, and a result dtype.

    Native functions return a status in int64.  A scalar function of ``vecmath`` returns its value
    through ``Return``.  One that is not ``optimized`` is quick to compile instead.  What is
    ``internal`` is called by other functions of its module only, and stays a function.
    """

    name: str
    params: Sequence[Var]
    body: list[Stmt]
    result: str = "int64"
    doc: str = ""
    optimized: bool = True
    internal: bool = False
