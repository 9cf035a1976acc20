"""Scalar code written as Python: one-line expressions and straight-line functions to loop IR.

The op table gives every elementwise operation as one line of Python (``"x * y"``), and ``vecmath``
is written as plain Python functions.  Both mean loop IR, and this module is the compiler between.
The language is small and strict:

* Arithmetic needs operands of one dtype.  A literal takes the dtype of its partner, or the dtype of
  the whole expression where it has none.  Comparisons give ``bool``.
* ``//``, ``%`` and ``**`` have NumPy's meaning and become calls of ``vecmath``'s ``floor_divide``,
  ``remainder`` and ``pow``; ``quot``, ``rem`` and ``frem`` are the C operations.
* ``x if c else y`` and ``select(c, x, y)`` evaluate both sides.
* ``cast("float64", x)`` converts, ``bits("int32", x)`` reinterprets its bits, and
  ``extern("lgamma", x)`` calls C.
* In an expression any other call is a call of ``vecmath``; in a function it is one of another
  Python function of the same kind, which is compiled in place.
* What is known at compile time (numbers, tuples, attributes of module-level objects) is computed by
  Python itself, exactly as written; ``[f(k) for k in range(4)]`` is a tuple of four scalars.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jitcore.codegen import loops
from jitcore.codegen.scalar.translator import (
    Body,
    ScalarError,
    Translator,
    literal,
    parse_function,
    run,
)

__all__ = ["ScalarError", "expression", "function"]


def expression(text: str, operands: Mapping[str, loops.Expr], dtype: str) -> loops.Expr:
    """The loop IR of a one-line Python expression.

    Parameters
    ----------
    text : str
        Such as ``"select(x > 0, x, 0)"``.
    operands : mapping of str to Expr
        What the names stand for.
    dtype : str
        The dtype of literals without a typed partner; the text may use it as ``dtype``.

    Raises
    ------
    ScalarError
        Where the text is outside the language or mixes dtypes.
    """
    translator = Translator(text, dict(operands) | {"dtype": dtype}, {}, dtype, None)
    return translator.typed(translator.visit(_parse(text)), dtype)


def function(
    python_function: Callable[..., Any],
    dtype: str,
    parameters: Mapping[str, str] | None = None,
    name: str = "",
) -> loops.Function:
    """Compile assignments and one final return to a scalar ``Function``.

    Parameters
    ----------
    python_function : function
        A module-level function whose source can be read.  A parameter called ``dtype`` stands for
        the string ``dtype`` and is none of the result.
    dtype : str
        The dtype of the parameters.
    parameters : mapping of str to str, optional
        The dtypes of parameters that have another one.
    name : str, optional
        The name of the result, which is the Python function's otherwise.

    Raises
    ------
    ScalarError
        Where the source is outside the language or mixes dtypes.
    """
    definition = parse_function(python_function)
    dtypes = parameters or {}
    given = [arg.arg for arg in definition.args.args if arg.arg != "dtype"]
    params = [loops.Var(arg, dtypes.get(arg, dtype)) for arg in given]
    body = Body()
    scope: dict[str, Any] = {var.name: var for var in params}
    for var in params:
        body.unique(var.name)
    value = run(python_function, scope | {"dtype": dtype}, dtype, body)
    if isinstance(value, tuple):
        raise ScalarError(f"{definition.name} returns a tuple; a scalar function has one result")
    result = value if isinstance(value, loops.Expr) else literal(value, dtype, definition.name)
    body.statements.append(loops.Return(result))
    return loops.Function(
        name or definition.name,
        params,
        body.statements,
        result.dtype,
        inspect.getdoc(python_function) or "",
    )


@cache
def _parse(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ScalarError(f"{text!r} is no Python expression: {error.msg}") from error
