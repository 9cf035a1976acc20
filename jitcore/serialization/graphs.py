"""Graphs in archives: the printer's text, in which Python objects stand by number.

A graph that is read back is checked against what the front end makes, kind by kind, before anything
is done with it: kinds and their attributes are a closed list, names are identifiers, and every
object is one that the archive describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib import import_module
from keyword import iskeyword
from types import ModuleType
from typing import Any

from jitcore.codegen.host.text import is_identifier
from jitcore.errors import SerializationError
from jitcore.frontend.constants import constant_type, is_layer
from jitcore.frontend.expressions import BINARY, COMPARISONS, UNARY
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Graph, Node, SourceRange
from jitcore.ir.literals import UnresolvedObject, qualified_name
from jitcore.ir.names import all_values
from jitcore.ir.ops import TABLE, layers
from jitcore.ir.parser import parse_graph
from jitcore.ir.printer import CALL_FUNCTION
from jitcore.ir.types import ANY, TENSOR, DictType, ListType, PrimType, TupleType, Type
from jitcore.ir.verifier import verify
from jitcore.serialization.attribute_names import attribute_problem
from jitcore.serialization.literals import is_literal
from jitcore.serialization.places import excerpt_of
from jitcore.serialization.vocabulary import known_name, known_object

__all__ = ["all_graphs", "graph_text", "read_graph"]

Number = Callable[[Any, Node], int]
"""Gives the number of an object in the archive; the node is where the program uses it."""

MAX_INLINED_NODES = 2_000_000
"""How many nodes a program may have when all its calls are inlined."""

MAX_PLACE = 2**31 - 1
"""Of the line numbers and columns that Python can have."""

_NUMBERED = re.compile(r".* #(\d{1,9})", re.DOTALL)


# Writing


def graph_text(graph: Graph, number: Number) -> str:
    """The text of a graph in which all objects that are no literals stand by their numbers."""
    copied = _copy(graph, {})
    for one in all_graphs(copied):
        for node in one.nodes():
            # The text has no place for the layers that errors name.
            node.attributes.pop("layers", None)
            try:
                _check_uses(node)
                _number_attributes(node, number)
                _check_node(node)
            except ValueError as error:
                raise SerializationError(f"cannot save: {error}{excerpt_of(node)}") from error
    return str(copied)


def _number_attributes(node: Node, number: Number) -> None:
    for name, value in node.attributes.items():
        if not isinstance(value, Graph) and not is_literal(value):
            node.attributes[name] = _numbered(value, number(value, node))


def _numbered(value: Any, number: int) -> UnresolvedObject:
    shown = getattr(value, "__qualname__", None) or qualified_name(value)
    return UnresolvedObject("object", f"{shown} #{number}")


def _copy(graph: Graph, copied: dict[int, Graph]) -> Graph:
    """A copy of a graph and of those that it calls, with types that need no classes."""
    if id(graph) not in copied:
        twin = copied[id(graph)] = graph.copy()
        originals = list(all_values(graph.block))
        for value, original in zip(all_values(twin.block), originals, strict=True):
            # A copy gives numbers anew, and the text is to be that of the original.
            value.name = original.name
            value.type = _plain_type(value.type)
        for node in twin.nodes():
            body = node.attributes.get("graph")
            if isinstance(body, Graph):
                node.attributes["graph"] = _copy(body, copied)
    return copied[id(graph)]


def _plain_type(type_: Type) -> Type:
    """A type as annotations give it; any other is no more than a hint, and is left out."""
    return type_ if _is_plain(type_) else ANY


def _is_plain(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return type_.named is None and all(map(_is_plain, type_.elements))
    if isinstance(type_, ListType):
        return _is_plain(type_.element)
    if isinstance(type_, DictType):
        return _is_plain(type_.key) and _is_plain(type_.value)
    return isinstance(type_, PrimType) or type_ == TENSOR


def all_graphs(graph: Graph) -> list[Graph]:
    """The graph and all that are called from it, each once, in the order of the text."""
    found = [graph]
    seen = {id(graph)}
    for one in found:
        for node in one.nodes():
            body = node.attributes.get("graph")
            if isinstance(body, Graph) and id(body) not in seen:
                seen.add(id(body))
                found.append(body)
    return found


# Reading


def read_graph(text: str, name: str, resolve: Callable[[int], Any], folder: str = "") -> Graph:
    """The graph of a text that `graph_text` wrote.

    Parameters
    ----------
    text : str
    name : str
        Of the entry, for errors.
    resolve : callable
        Gives the object of a number.
    folder : str
        Of the files that the nodes are said to come from.

    Raises
    ------
    SerializationError
        The text is not one that was written by `graph_text`.
    """
    try:
        graph = parse_graph(text)
        verify(graph)
        _check_calls(graph)
    except (ValueError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise SerializationError(f"'{name}' in the archive is no valid graph: {error}") from error
    for one in all_graphs(graph):
        for node in one.nodes():
            if node.kind.startswith("nn::"):
                # The functions of layers define what their kinds mean.
                import_module("jitcore.nn.functional")
            try:
                _complete_place(node, folder)
                _check_node(node)
                _resolve_attributes(node, resolve)
                _check_uses(node)
            except ValueError as error:
                where = f"{node.kind} at {node.source}" if node.source else node.kind
                raise SerializationError(f"'{name}' in the archive, {where}: {error}") from error
        for value in all_values(one.block):
            held = value.constant
            value.type = (
                constant_type(held.attributes["value"]) if held else _plain_type(value.type)
            )
    return graph


def _complete_place(node: Node, folder: str) -> None:
    """Give a node's place the end and the folder that the text does not have."""
    place = node.source
    if place is None:
        return
    if not (0 < place.line <= MAX_PLACE and 0 <= place.column < MAX_PLACE):
        raise ValueError("no file has such a line")
    node.source = SourceRange(
        f"{folder}/{place.file}", place.line, place.column, place.line, place.column + 1
    )


def _check_calls(graph: Graph) -> None:
    """Raise where graphs call each other in a circle, or would be too large when inlined."""
    sizes: dict[int, int | None] = {}

    def size(one: Graph) -> int:
        if id(one) in sizes:
            known = sizes[id(one)]
            if known is None:
                raise ValueError(f"the function '{one.name}' calls itself")
            return known
        sizes[id(one)] = None
        total = 0
        for node in one.nodes():
            body = node.attributes.get("graph")
            total += 1 + (size(body) if isinstance(body, Graph) else 0)
        if total > MAX_INLINED_NODES:
            raise ValueError("the program is too large with its calls inlined")
        sizes[id(one)] = total
        return total

    size(graph)


@dataclass(frozen=True, slots=True)
class _Form:
    """What a kind of node may have: attributes by name with a check of each, and its outputs."""

    attributes: Mapping[str, Callable[[Node, Any], bool]]
    optional: frozenset[str] = frozenset()


def _is_text(node: Node, value: Any) -> bool:
    return isinstance(value, str)


def _is_attribute(node: Node, value: Any) -> bool:
    if not isinstance(value, str) or not is_identifier(value):
        return False
    problem = attribute_problem(value)
    if problem:
        raise ValueError(problem)
    return True


def _is_numpy(node: Node, value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        known_object(f"numpy.{value}")
    except KeyError:
        raise ValueError(f"a saved program must not call NumPy's '{value}'") from None
    return True


def _is_value(node: Node, value: Any) -> bool:
    return is_literal(value) or _number_of(value) is not None


def _is_object(node: Node, value: Any) -> bool:
    return _number_of(value) is not None


def _is_graph(node: Node, value: Any) -> bool:
    return isinstance(value, Graph)


def _is_count(node: Node, value: Any) -> bool:
    return type(value) is int and value == len(node.outputs)


def _is_axis(node: Node, value: Any) -> bool:
    return type(value) is int and 0 <= value < 64


def _is_output(node: Node, value: Any) -> bool:
    return type(value) is int and 0 <= value < len(node.outputs)


def _is_false(node: Node, value: Any) -> bool:
    return value is False


def _is_starred(node: Node, value: Any) -> bool:
    if type(value) is not tuple:
        return False
    return all(type(one) is int and 0 <= one < len(node.positional) for one in value)


_NOTED: Mapping[str, Callable[[Node, Any], bool]] = {"scope": _is_text, "starred": _is_starred}
_PLAIN = _Form({})

_AUGMENTED = tuple(f"i{one}" for one in BINARY.values())
_OPERANDS: dict[str, int] = {
    **{f"prim::{one}": 2 for one in (*BINARY.values(), *_AUGMENTED, *COMPARISONS.values())},
    **{f"prim::{one}": 1 for one in (*UNARY.values(), "not_", "bool")},
}
"""How many operands Python's operators take."""

_OTHERS = """TupleConstruct ListConstruct SetConstruct DictConstruct slice getitem setitem delitem
Call FormatString If Loop For Try"""

_FORMS: dict[str, _Form] = {
    **dict.fromkeys(_OPERANDS, _PLAIN),
    **{f"prim::{one}": _PLAIN for one in _OTHERS.split()},
    **{op.kind: _PLAIN for op in TABLE.values() if op.functions},
    **{f"nn::{name}": _PLAIN for name in layers.NAMES},
    "prim::Constant": _Form({"value": _is_value}),
    "prim::Raise": _Form({"in_python": _is_false}, frozenset({"in_python"})),
    "prim::size": _Form({"dim": _is_axis}),
    "prim::With": _Form({"manager": _is_object}),
    "prim::Uninitialized": _Form({"name": _is_text}),
    "prim::CheckBound": _Form({"name": _is_text}),
    "prim::Unpack": _Form({"count": _is_count, "star": _is_output}, frozenset({"star"})),
    "prim::GetAttr": _Form({"name": _is_attribute}),
    "prim::SetAttr": _Form({"name": _is_attribute}),
    "prim::CallMethod": _Form({"name": _is_attribute}),
    "np::call": _Form({"name": _is_numpy}),
    CALL_FUNCTION: _Form({"graph": _is_graph, "layer": _is_object}, frozenset({"layer"})),
}
"""The kinds that the front end makes, with their attributes."""

_INPUTS: dict[str, tuple[int, int | None]] = {
    **{kind: (count, count) for kind, count in _OPERANDS.items()},
    "prim::type": (1, 1),
    "prim::size": (1, 1),
    "prim::getitem": (2, 2),
    "prim::setitem": (3, 3),
    "prim::delitem": (2, 2),
    "prim::slice": (1, 3),
    "prim::GetAttr": (1, 1),
    "prim::SetAttr": (2, 2),
    "prim::CheckBound": (2, 2),
    "prim::Raise": (1, 2),
    "prim::Call": (1, None),
    "prim::CallMethod": (1, None),
}
"""How many inputs a kind takes."""

_NO_OUTPUT = frozenset({"prim::setitem", "prim::delitem", "prim::SetAttr", "prim::Raise"})
_ANY_OUTPUTS = frozenset(
    {"prim::If", "prim::Loop", "prim::For", "prim::Try", "prim::With", "prim::Unpack"}
)


def _check_node(node: Node) -> None:
    form = _FORMS.get(node.kind)
    if form is None:
        raise ValueError(f"this jitcore knows no kind {node.kind} in files; a newer one may")
    known = {**form.attributes, **_NOTED}
    for name, value in node.attributes.items():
        if name not in known or not known[name](node, value):
            raise ValueError(f"the attribute {name} is not one that the front end makes")
    for name in form.attributes.keys() - form.optional:
        if name not in node.attributes:
            raise ValueError(f"the attribute {name} is missing")
    least, most = _INPUTS.get(node.kind, (0, None))
    if len(node.inputs) < least or (most is not None and len(node.inputs) > most):
        raise ValueError(f"it has {len(node.inputs)} inputs")
    outputs = 0 if node.kind in _NO_OUTPUT else 1
    if node.kind not in _ANY_OUTPUTS and len(node.outputs) != outputs:
        raise ValueError(f"it has {len(node.outputs)} outputs")
    for keyword in node.keywords:
        if keyword != "**" and not (is_identifier(keyword) or iskeyword(keyword)):
            raise ValueError(f"{keyword!r} is no name of an argument")
        if keyword in _hints(node.kind):
            raise ValueError(f"{keyword!r} is no argument that the front end passes")


def _hints(kind: str) -> tuple[str, ...]:
    """The arguments of a kind that only passes give it."""
    op = TABLE.get(kind)
    return () if op is None or op.definition is None else op.definition.hints


def _number_of(value: Any) -> int | None:
    if not isinstance(value, UnresolvedObject) or value.kind != "object":
        return None
    match = _NUMBERED.fullmatch(value.name)
    return int(match[1]) if match else None


def _resolve_attributes(node: Node, resolve: Callable[[int], Any]) -> None:
    for name, value in node.attributes.items():
        number = _number_of(value)
        if number is not None:
            node.attributes[name] = resolve(number)


def _check_uses(node: Node) -> None:
    """Raise where a program uses an object otherwise than a program in a file may."""
    held = node.attributes
    if node.kind == "prim::With" and known_name(held["manager"]) != "numpy.errstate":
        raise ValueError("'with' in this form is for np.errstate alone")
    if node.kind == CALL_FUNCTION and not is_layer(held.get("layer", _A_LAYER)):
        raise ValueError("what is called is the forward of something that is no module")
    if node.kind in ("prim::GetAttr", "prim::SetAttr", "prim::CallMethod"):
        problem = attribute_problem(held["name"])
        if problem:
            raise ValueError(problem)
    if node.kind == "prim::Constant" and isinstance(held["value"], ModuleType):
        _check_module_uses(node)
    if node.kind == "prim::Constant" and held["value"] is type:
        _check_type_uses(node)
    if node.kind == "prim::CallMethod" and held["name"] == "resize" and node.keywords:
        raise ValueError("'resize' may leave other arrays without memory")


class _ALayer:
    __jitcore_module__ = True


_A_LAYER = _ALayer()


def _check_type_uses(node: Node) -> None:
    """Classes are made from descriptions alone."""
    for use in node.output.uses:
        if isinstance(use.user, Node) and use.user.kind == "prim::Call" and use.index == 0:
            if len(use.user.inputs) != 2 or use.user.attributes.get("starred"):
                raise ValueError("a program in a file makes a class")


def _check_module_uses(node: Node) -> None:
    """Modules may be asked for their functions, and not be passed on."""
    module = node.attributes["value"]
    for use in node.output.uses:
        name = None
        if isinstance(use.user, Node) and use.index == 0:
            if use.user.kind in ("prim::GetAttr", "prim::CallMethod"):
                name = use.user.attributes.get("name")
        try:
            known_object(f"{module.__name__}.{name}")
        except KeyError:
            what = f"'{module.__name__}' itself" if name is None else f"'{name}' of it"
            raise ValueError(
                f"the program uses the module {module.__name__} as a value, and {what} is not "
                "what a saved program may use"
            ) from None
