"""A text that tells a graph from all others, in this process and in the next.

Printed graphs are for people: two classes of one name print alike.  Here everything is exact, and
what has no exact text (an object of the program) is an error.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

from jitcore.ir.graph import Block, Graph, Node, SourceRange
from jitcore.ir.types import ListType, PrimType, TensorType, TupleType, Type

__all__ = ["NoFingerprint", "exact_text", "fingerprint"]

_PLAIN = (bool, int, float, complex, str, bytes, type(None), type(Ellipsis))
_MODULES = (builtins, np, math)
_HOMES = frozenset({"builtins", "math", "numpy"})


class NoFingerprint(ValueError):
    """Something has no text of which another process could know that it means the same."""


def fingerprint(graph: Graph, files: list[str]) -> str:
    """All that a graph means, as text.

    Parameters
    ----------
    graph : Graph
    files : list of str
        The source files of its nodes, in the order of their appearance; new ones are appended.  The
        text has their numbers, so that it stays the same where a notebook's cell has another name.

    Raises
    ------
    NoFingerprint
        The graph holds an object of the program, or a node is known not to be native.
    """
    return "\n".join(_graph(graph, files))


def _graph(graph: Graph, files: list[str]) -> Iterator[str]:
    yield f"graph {graph.doc!r}"
    yield from _block(graph.block, files)


def _block(block: Block, files: list[str]) -> Iterator[str]:
    yield f"params {[(value.name, _type(value.type)) for value in block.params]}"
    for node in block.nodes:
        yield from _node(node, files)
    yield f"returns {[value.name for value in block.returns]}"


def _node(node: Node, files: list[str]) -> Iterator[str]:
    if node.host_reason is not None:
        raise NoFingerprint(f"{node.kind} is not native: {node.host_reason}")
    outputs = [(value.name, _type(value.type)) for value in node.outputs]
    inputs = [value.name for value in node.inputs]
    yield f"{node.kind} {outputs} {inputs} {node.keywords} {_place(node.source, files)}"
    for name, value in node.attributes.items():
        yield f"attribute {name}"
        if issubclass(type(value), Graph):
            yield from _graph(value, files)
        else:
            yield exact_text(value)
    for block in node.blocks:
        yield "block"
        yield from _block(block, files)


def _place(source: SourceRange | None, files: list[str]) -> str:
    if source is None:
        return ""
    if source.file not in files:
        files.append(source.file)
    number = files.index(source.file)
    return f"{number}:{source.line}:{source.column}:{source.end_line}:{source.end_column}"


def _type(type_: Type) -> str:
    match type_:
        case PrimType():
            return type_.name
        case TensorType():
            return f"array {exact_text(type_.dtype)} {type_.dims} {type_.scalar}"
        case TupleType(named=None):
            return f"({', '.join(map(_type, type_.elements))})"
        case ListType():
            return f"[{_type(type_.element)}]"
    raise NoFingerprint(f"the type {type_}")


def exact_text(value: Any) -> str:
    """The text of a constant.

    Raises
    ------
    NoFingerprint
        It is an object of which only this process can tell what it is.
    """
    kind = type(value)
    if kind in _PLAIN:
        return repr(value) if kind is not float else value.hex()
    if kind in (tuple, list):
        return f"{kind.__name__} ({', '.join(map(exact_text, value))})"
    if issubclass(type(value), np.dtype) and value.isbuiltin == 1:
        return f"dtype {value.char} {value.str}"
    if issubclass(type(value), np.generic) and value.dtype.isbuiltin == 1:
        return f"scalar {value.dtype.char} {value.dtype.str} {value.tobytes().hex()}"
    if issubclass(type(value), ModuleType):
        name = next((one.__name__ for one in _MODULES if one is value), "")
    else:
        name = _public_name(value)
    if not name:
        raise NoFingerprint(f"an object of the class {kind.__name__}")
    return f"name {name}"


def _public_name(value: Any) -> str:
    """The name under which Python or NumPy itself has a function or a class, or nothing."""
    # Asking the object's own class: a proxy would answer for another object.
    if not issubclass(type(value), (type, np.ufunc)) and type(value).__module__ not in _HOMES:
        return ""
    name, home = getattr(value, "__name__", None), getattr(value, "__module__", None)
    is_theirs = isinstance(value, np.ufunc) or str(home).partition(".")[0] in _HOMES
    if not isinstance(name, str) or not is_theirs:
        return ""
    found = (one for one in _MODULES if vars(one).get(name) is value)
    return next((f"{one.__name__}.{name}" for one in found), "")
