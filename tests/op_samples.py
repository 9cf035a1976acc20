"""What the op matrix is made of: a row's texts, and the samples that come of them.

A row is a kind of the op table and the texts of functions that use it.  A text is an expression
or a block of statements; its free names say what is passed:

====================== =========================================================================
``x``, ``y``, ``z``    matrices of the dtype in turn, in the layout in turn
``p``, ``q``           the same with moderate positive values
``v``, ``w``           vectors as long as the rows
``s``, ``t``           NumPy scalars of the dtype
``mask``, ``places``   a boolean matrix; a vector of row numbers, negative ones among them
``i``, ``j``           ints; ``a``, ``b`` floats; ``flag`` a bool; ``c`` a complex number
``r``                  an array of records
====================== =========================================================================

Rows with ``numbers`` pass those instead, in the order in which the names appear.
"""

from __future__ import annotations

import ast
import builtins
import symtable
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sample_arrays import LAYOUTS, in_layout, values

__all__ = ["TRANSCENDENTAL", "OpInfo", "Sample", "row", "samples"]

SHAPE = (3, 4)
FULLY = 2
"""How many texts of a row meet all dtypes and all layouts."""

TRANSCENDENTAL = 8
"""Both we and NumPy are within 4 units in the last place of the exact value."""

MIXED = ("bH", "if", "?d", "Lq", "fd", "fD", "Bl", "?b", "be", "ef", "ei")
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
        known = _with_halves(info.dtypes)
        dtypes = list(known) if number < FULLY else _some(known, number, 2)
        if info.mixed and number < FULLY and len(names) > 1:
            dtypes += MIXED
        for pair in dtypes:
            ulp = max(info.ulp, info.complex_ulp) if set(pair) & set("FD") else info.ulp
            calls = (_arguments(names, pair, "C"),)
            yield Sample(f"{text} of {_named(pair)}", source, calls, ulp, info.reduction)
        if info.layouts and set(names) & _LAID_OUT:
            dtype = next(one for one in reversed(info.dtypes) if one not in "FD")
            layouts = LAYOUTS if number < FULLY else _some(LAYOUTS, number, 4)
            # One function for all layouts: it meets new shapes again and again.
            calls = tuple(_arguments(names, dtype, layout) for layout in layouts)
            yield Sample(
                f"{text} in {len(layouts)} layouts", source, calls, info.ulp, info.reduction
            )


def _with_halves(dtypes: str) -> str:
    """The dtypes of a row, and float16 where there are other floats."""
    return dtypes + "e" if set(dtypes) & set("fd") else dtypes


def _some(choices: Sequence[str], number: int, count: int) -> list[str]:
    """So many of the choices, others for each number."""
    step = max(len(choices) // count, 1)
    turns = range(min(count, len(choices)))
    return [choices[(number + turn * step) % len(choices)] for turn in turns]


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
    source = f"def f({', '.join(names)}):\n{body}\n"
    (table,) = symtable.symtable(source, "<sample>", "exec").get_children()
    free = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global()}
    assert free <= _KNOWN, f"{text}: nothing is passed for {free - _KNOWN}"
    return source, names


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


_LAID_OUT = {"x", "y", "z", "p", "q", "mask"}
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
    "r": _constant(np.array([(3, 1), (2.5, -7)], [("a", "f8"), ("n", "i4")])),
}
_KNOWN = {"np", "F", "special", "math", "cmath", *vars(builtins)}


def row(kind: str, *texts: str, **more: Any) -> OpInfo:
    return OpInfo(kind, texts, **more)
