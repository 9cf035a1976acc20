"""The IR types of annotated parameters, read from the syntax tree without evaluating anything."""

from __future__ import annotations

import ast
import re
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitcore.ir.types import (
    ANY,
    BOOL,
    COMPLEX,
    FLOAT,
    INT,
    NONE,
    STR,
    TENSOR,
    DictType,
    ListType,
    TupleType,
    Type,
)

__all__ = ["annotation_type", "comment_types"]

Resolve = Callable[[ast.expr], Any]
"""Gives the object that a name or a dotted name stands for, or None."""

_PLAIN: dict[Any, Type] = {
    int: INT,
    float: FLOAT,
    bool: BOOL,
    complex: COMPLEX,
    str: STR,
    type(None): NONE,
}

_SIGNATURE_COMMENT = re.compile(r"#\s*type:\s*(\(.*?\)\s*->\s*[^#]+)")
_ARGUMENT_COMMENT = re.compile(r"#\s*type:\s*(?![\s(]|ignore)([^#]+)")


def annotation_type(annotation: ast.expr | None, resolve: Resolve) -> Type:
    """The type an annotation promises.

    No annotation gives ``Tensor``; one without a counterpart in the IR (``Optional[int]``, a
    class) gives ``Any``.
    """
    if annotation is None:
        return TENSOR
    if isinstance(annotation, ast.Constant):
        return _constant(annotation.value, resolve)
    if isinstance(annotation, ast.Subscript):
        return _generic(annotation, resolve)
    found = resolve(annotation)
    if _is_array(found) or _is_array(typing.get_origin(found)):
        return TENSOR
    return _PLAIN.get(found, ANY) if isinstance(found, type) else ANY


def _constant(value: object, resolve: Resolve) -> Type:
    """An annotation that is a literal: None, or the text of another annotation."""
    if value is None:
        return NONE
    if not isinstance(value, str):
        return ANY
    try:
        inner = ast.parse(value, mode="eval").body
    except (SyntaxError, ValueError):
        return ANY
    return annotation_type(inner, resolve)


def _is_array(origin: object) -> bool:
    """Whether this is ``np.ndarray`` or ``NDArray``, which NumPy 2.5 names by a ``type`` statement.

    An annotation can only be the latter where ``numpy.typing`` has been imported.
    """
    module = sys.modules.get("numpy.typing")
    return origin is np.ndarray or (module is not None and origin is module.NDArray)


def _generic(annotation: ast.Subscript, resolve: Resolve) -> Type:
    origin = resolve(annotation.value)
    inner = annotation.slice
    arguments = inner.elts if isinstance(inner, ast.Tuple) else [inner]
    if _is_array(origin):
        return TENSOR
    if origin is tuple or origin is typing.Tuple:  # noqa: UP006
        return _tuple(arguments, resolve)
    types = [annotation_type(argument, resolve) for argument in arguments]
    if (origin is list or origin is typing.List) and len(types) == 1:  # noqa: UP006
        return ListType(types[0])
    if (origin is dict or origin is typing.Dict) and len(types) == 2:  # noqa: UP006
        return DictType(types[0], types[1])
    return ANY


def _tuple(arguments: Sequence[ast.expr], resolve: Resolve) -> Type:
    last = arguments[-1] if arguments else None
    if isinstance(last, ast.Constant) and last.value is Ellipsis:
        return ANY
    return TupleType(tuple(annotation_type(argument, resolve) for argument in arguments))


def comment_types(
    node: ast.FunctionDef | ast.Lambda, lines: Sequence[str], resolve: Resolve
) -> list[Type] | None:
    """The parameter types of a ``# type: (int, float) -> float`` comment; None without one."""
    if isinstance(node, ast.Lambda):
        return None
    # The comment stands between the line of the def and the first statement.
    for line in lines[node.lineno - 1 : node.body[0].lineno]:
        found = _SIGNATURE_COMMENT.search(line)
        if found:
            return _signature_types(found[1], resolve) or _argument_types(node, lines, resolve)
    return None


def _signature_types(text: str, resolve: Resolve) -> list[Type] | None:
    """The types of a signature in a comment; None where it has none, as in ``(...) -> float``."""
    try:
        signature = ast.parse(text.strip(), mode="func_type")
    except (SyntaxError, ValueError):
        return None
    assert isinstance(signature, ast.FunctionType)
    if any(isinstance(argument, ast.Constant) for argument in signature.argtypes):
        return None
    return [annotation_type(argument, resolve) for argument in signature.argtypes]


def _argument_types(node: ast.FunctionDef, lines: Sequence[str], resolve: Resolve) -> list[Type]:
    """The types of parameters that stand in a line each, with a comment: ``x,  # type: int``."""

    def type_of(parameter: ast.arg) -> Type:
        found = _ARGUMENT_COMMENT.search(lines[parameter.lineno - 1])
        if found is None or parameter.annotation is not None:
            return annotation_type(parameter.annotation, resolve)
        return _constant(found[1].strip(), resolve)

    return [type_of(parameter) for parameter in [*node.args.posonlyargs, *node.args.args]]
