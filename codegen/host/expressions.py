"""The nodes of a graph as Python expressions."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, Protocol

import numpy as np

from jitcore.codegen.host.arrays import ARRAY_WRITERS, is_typed
from jitcore.codegen.host.globals import Globals
from jitcore.codegen.host.operators import (
    ARRAY_OPERATORS,
    AUGMENTED,
    BINARY,
    OPPOSITES,
    UNARY,
)
from jitcore.codegen.host.plan import Plan, ShortCircuit
from jitcore.codegen.host.text import Precedence, Text, is_identifier
from jitcore.codegen.host.variables import is_literal, is_repeatable
from jitcore.ir import interpreter
from jitcore.ir.graph import Block, Node, Value
from jitcore.ir.types import BOOL, FLOAT, INT, TensorType

__all__ = ["Expressions", "Functions"]

P = Precedence

_OPERATOR_NAMES = {"prim::is_": "is_", "prim::isnot": "is_not"}

_KIND = re.compile(r"[^\W\d]\w*::[^\W\d][\w.]*")


class Functions(Protocol):
    """Names the functions that a program calls for nodes with graphs."""

    def call_name(self, node: Node) -> str | None:
        """The callee for a node that is a region or holds a graph; None for all others."""

    def captured(self, node: Node) -> list[str]:
        """Further arguments of such a call, which read what the callee's graph captured."""


class Expressions:
    """Writes values and nodes.

    Parameters
    ----------
    plan : Plan
    globals_ : Globals
    functions : Functions
    """

    def __init__(self, plan: Plan, globals_: Globals, functions: Functions) -> None:
        self.plan = plan
        self.variables = plan.variables
        self.globals = globals_
        self.functions = functions
        self.overrides: dict[Value, str] = {}

    # Values

    def value(self, value: Value) -> Text:
        """A value where it is used: its variable, a literal, or the expression nested there."""
        if value in self.overrides:
            return Text(self.overrides[value])
        if is_literal(value):
            return self._literal(value)
        if is_repeatable(value) or value in self.plan.nested:
            assert value.node is not None
            return self.node(value.node)
        return Text(self.variables.name(value))

    def at(self, value: Value, least: Precedence = P.CONDITIONAL) -> str:
        """A value for a place that needs a precedence."""
        return self.value(value).at(least)

    def primary(self, value: Value) -> str:
        """A value that is called, subscripted or asked for an attribute."""
        node = value.constant
        if node is not None:
            return self.globals.primary(node.attributes["value"])
        return self.at(value, P.PRIMARY)

    def condition(self, value: Value) -> Text:
        """A value where only its truth matters."""
        if value in self.plan.nested and value not in self.overrides:
            node = value.node
            assert node is not None
            if node.kind == "prim::bool":
                return self.condition(node.inputs[0])
            if node.kind == "prim::If":
                return self._branch(node, self.condition)
        return self.value(value)

    def negation(self, value: Value) -> str:
        """A condition that holds where the truth of a value is false."""
        node = value.node
        if node is not None and value in self.plan.nested and value not in self.overrides:
            opposite = OPPOSITES.get(node.kind)
            if opposite is not None:
                sign, precedence = BINARY[opposite]
                tighter = Precedence(precedence + 1)
                left, right = (self.at(operand, tighter) for operand in node.inputs)
                return f"{left} {sign} {right}"
            if node.kind == "prim::not_":
                return self.condition(node.inputs[0]).text
            if node.kind == "prim::bool":
                return self.negation(node.inputs[0])
        return f"not {self.condition(value).at(P.NOT)}"

    def _literal(self, value: Value) -> Text:
        node = value.node
        assert node is not None
        if node.kind == "prim::Constant":
            held = node.attributes["value"]
            is_compared = any(_is_identity(use.user) for use in value.uses)
            if type(held) is tuple and is_compared:
                return self.globals.itself(held)
            return self.globals.constant(held)
        if node.kind == "prim::Uninitialized":
            return Text(self.globals.add("UNINITIALIZED", interpreter.UNINITIALIZED))
        return self.globals.constant(None)

    # Nodes

    def node(self, node: Node) -> Text:
        """A node that is an expression."""
        name = self.functions.call_name(node)
        if name is not None:
            arguments = [*map(self.at, node.inputs), *self.functions.captured(node)]
            return Text(f"{name}({', '.join(arguments)})")
        writer = _WRITERS.get(node.kind)
        text = writer(self, node) if writer is not None else None
        return text if text is not None else self._call_reference(node)

    def _call_reference(self, node: Node) -> Text:
        """A call of what the op means, with the node's attributes as keyword arguments."""
        if not _KIND.fullmatch(node.kind):
            raise ValueError(f"{node.kind!r} is no kind of a node")
        function = self.globals.callable(interpreter.function_of(node))
        return Text(f"{function}({', '.join(self.arguments(node))})")

    def arguments(self, node: Node, skip: int = 0, without: Iterable[str] = ()) -> list[str]:
        """The arguments of a call: inputs from number ``skip`` on, then attributes."""
        starred = node.attributes.get("starred", ())
        first = len(node.inputs) - len(node.keywords)
        texts = [
            f"*{self.at(value, P.BIT_OR)}" if number in starred else self.at(value)
            for number, value in enumerate(node.inputs[:first])
        ][skip:]
        for name, value in zip(node.keywords, node.inputs[first:], strict=True):
            if name == "**":
                texts.append(f"**{self.at(value, P.BIT_OR)}")
            else:
                texts.append(_keyword(name, self.at(value)))
        return texts + self.attributes(node, without)

    def attributes(self, node: Node, without: Iterable[str] = ()) -> list[str]:
        """A node's attributes as keyword arguments."""
        hidden = {*interpreter.NOTES, *node.keywords, *without}
        return [
            _keyword(name, self.attribute(held))
            for name, held in node.attributes.items()
            if name not in hidden
        ]

    def attribute(self, held: Any) -> str:
        """An attribute's value; a dtype by the short name that every function takes."""
        if isinstance(held, np.dtype):
            name = self.globals.dtype(held)
            if name is not None:
                return name
        return self.globals.constant(held).text

    # Operators

    def _operator(self, node: Node) -> Text | None:
        return self._apply(node.kind, node)

    def _apply(self, kind: str, node: Node, *, weak: bool = False) -> Text | None:
        if node.keywords or len(node.inputs) != (1 if kind in UNARY else 2):
            return None
        caller = node.attributes.get("caller")
        if caller is not None:
            function = self.globals.add("operate", caller)
            return Text(f"{function}({', '.join(map(self.at, node.inputs))})")
        operand = self._weak_operand if weak else self._operand
        if kind in UNARY:
            sign, precedence = UNARY[kind]
            if kind == "prim::not_":
                return Text(f"not {self.condition(node.inputs[0]).at(P.NOT)}", precedence)
            return Text(f"{sign}{operand(node, 0).at(precedence)}", precedence)
        sign, precedence = BINARY[kind]
        left, right = operand(node, 0), operand(node, 1)
        if kind in _OPERATOR_NAMES and not (_has_identity(node.inputs)):
            function = f"{self.globals.module('operator')}.{_OPERATOR_NAMES[kind]}"
            return Text(f"{function}({left.text}, {right.text})")
        tighter = Precedence(precedence + 1)
        first = tighter if precedence is P.COMPARISON else precedence
        return Text(f"{left.at(first)} {sign} {right.at(tighter)}", precedence)

    def _operand(self, node: Node, number: int) -> Text:
        return self.value(node.inputs[number])

    def _weak_operand(self, node: Node, number: int) -> Text:
        """A NumPy scalar as a Python number, where the other operand has its dtype already."""
        return self.weak(node.inputs[number], node.inputs[:number] + node.inputs[number + 1 :])

    def weak(self, value: Value, others: Sequence[Value]) -> Text:
        """A NumPy scalar beside values of its dtype as the Python number it is (NEP 50)."""
        number = self._converted(value)
        if number is not None and any(
            _has_dtype(one, number[1]) and self._converted(one) is None for one in others
        ):
            return self.value(number[0])
        node = value.constant
        held = node.attributes["value"] if node is not None else None
        if isinstance(held, np.generic) and any(_has_dtype(one, held.dtype) for one in others):
            digits = self.globals.digits(held)
            if digits is not None:
                return digits
        return self.value(value)

    def _converted(self, value: Value) -> tuple[Value, np.dtype[Any]] | None:
        """The Python number that is converted for one operation only, and what it becomes."""
        node = value.node
        if node is None or node.kind != "np::cast" or value not in self.plan.nested:
            return None
        (number,), dtype = node.inputs, node.attributes["dtype"]
        is_weak = dtype.char in _WEAK_CONVERSIONS.get(str(number.type), "")
        return (number, dtype) if is_weak and value not in self.overrides else None

    def _scalar_power(self, node: Node) -> Text | None:
        return self._power(node, weak=True) if _is_float_scalar(node) else None

    def _scalar_absolute(self, node: Node) -> Text | None:
        if not _is_float_scalar(node) or not _has_dtype(node.inputs[0], _dtype_of(node.output)):
            return None
        return Text(f"{self.globals.builtin('abs')}({self.at(node.inputs[0])})")

    def _power(self, node: Node, *, weak: bool = False) -> Text | None:
        if node.keywords or len(node.inputs) != 2:
            return None
        operand = self._weak_operand if weak else self._operand
        base, exponent = operand(node, 0), operand(node, 1)
        # On the left even a sign must be in parentheses, on the right it may stand as it is.
        return Text(f"{base.at(P.LITERAL)} ** {exponent.at(P.UNARY)}", P.POWER)

    def _elementwise(self, node: Node) -> Text | None:
        plain = not node.attributes.keys() - interpreter.NOTES and not node.keywords
        if not plain or not any(map(_is_array, node.inputs)):
            return None
        return self._apply(ARRAY_OPERATORS[node.kind], node, weak=True)

    def _augmented(self, node: Node) -> Text:
        left, right = (self.at(value) for value in node.inputs)
        name = node.kind.removeprefix("prim::").rstrip("_")
        return Text(f"{self.globals.module('operator')}.{name}({left}, {right})")

    def _if(self, node: Node) -> Text:
        return self._branch(node, self.value)

    def _branch(self, node: Node, write: Callable[[Value], Text]) -> Text:
        """An ``If`` as an expression; ``write`` writes its possible values."""
        short = self.plan.short_circuit(node)
        if short is not None and (not short.tested or short.tested.output in self.plan.nested):
            return self._short_circuit(short, write)
        (then,), (orelse,) = (block.returns for block in node.blocks)
        condition = self.condition(node.inputs[0]).at(P.OR)
        # The first value is any expression but another of these, the last one may be.
        first, last = write(then).at(P.OR), write(orelse).at(P.CONDITIONAL)
        return Text(f"{first} if {condition} else {last}", P.CONDITIONAL)

    def _short_circuit(self, short: ShortCircuit, write: Callable[[Value], Text]) -> Text:
        precedence = P.AND if short.operator == "and" else P.OR
        first, second = write(short.first), write(short.second)
        text = f"{first.at(precedence)} {short.operator} {second.at(precedence)}"
        return Text(text, precedence)

    # Displays

    def _tuple(self, node: Node) -> Text:
        items = [self.at(value) for value in node.inputs]
        named = node.attributes.get("named")
        if named is list:
            return self._list(node)
        if named is not None:
            return Text(f"{self.globals.primary(named)}({', '.join(items)})")
        return Text(f"({items[0]},)" if len(items) == 1 else f"({', '.join(items)})", P.LITERAL)

    def _list(self, node: Node) -> Text:
        return Text(f"[{', '.join(map(self.at, node.inputs))}]", P.LITERAL)

    def _set(self, node: Node) -> Text:
        if not node.inputs:
            return Text(f"{self.globals.builtin('set')}()")
        return Text(f"{{{', '.join(map(self.at, node.inputs))}}}", P.LITERAL)

    def _dict(self, node: Node) -> Text:
        texts = list(map(self.at, node.inputs))
        pairs = (f"{key}: {held}" for key, held in zip(texts[::2], texts[1::2], strict=True))
        return Text(f"{{{', '.join(pairs)}}}", P.LITERAL)

    def _format_string(self, node: Node) -> Text:
        """An f-string, or several with calls in between for which Python's syntax has no room."""
        texts: list[Text] = []
        parts = ((self._format_part(value), value) for value in node.inputs)
        for is_inside, group in groupby(parts, lambda pair: pair[0] is not None):
            if is_inside:
                written = "".join(part or "" for part, _ in group)
                texts.append(Text(f"f'{written}'", P.LITERAL))
                continue
            values = [value for _, value in group]
            if not all(map(_is_format_call, values)):
                return self._call_reference(node)
            texts += map(self.value, values)
        if len(texts) == 1:
            return texts[0]
        return Text(" + ".join(text.at(P.PRODUCT) for text in texts), P.SUM)

    def _format_part(self, value: Value) -> str | None:
        """One part of an f-string, or None where Python's syntax has no room for it."""
        found = value.node
        if found is None or value.constant is not None or value not in self.plan.nested:
            return self._format_value(value)
        return self._format_call(found) if _is_format_call(value) else None

    def _format_call(self, node: Node) -> str | None:
        """``{x:.3f}`` for a nested ``format(x, ".3f")``."""
        value, *specification = node.inputs[1:]
        if not specification:
            return self._format_value(value)
        form = self._format_specification(specification[0]) if len(specification) == 1 else None
        return None if form is None else self._format_value(value, f":{form}")

    def _format_value(self, value: Value, form: str = "") -> str | None:
        """``{x}``; an f-string in an f-string is one, and so is what is known."""
        held = value.constant_value
        if value.constant is not None and not form and type(held) in (int, str):
            escaped = "".join("\\'" if char == "'" else repr(char)[1:-1] for char in str(held))
            return escaped.replace("{", "{{").replace("}", "}}")
        if not form and value in self.plan.nested and _is_format_string(value):
            assert value.node is not None
            return _joined(map(self._format_part, value.node.inputs))
        text = self.value(value).text
        return f"{{{text}{form}}}" if _FORMATTED.fullmatch(text) else None

    def _format_specification(self, value: Value) -> str | None:
        """What follows the colon: a text, or one with fields that have no such text themselves."""
        held = value.constant_value
        if isinstance(held, str):
            return held if _SPECIFICATION.fullmatch(held) else None
        if value not in self.plan.nested or not _is_format_string(value):
            return None
        assert value.node is not None
        form = _joined(map(self._format_part, value.node.inputs))
        return form if form is not None and _SPECIFICATION_WITH_FIELDS.fullmatch(form) else None

    # Subscripts and attributes

    def subscript(self, index: Value) -> str:
        """An index as it is written in brackets."""
        node = index.node
        written_out = index in self.plan.nested or is_repeatable(index)
        if node is not None and written_out and index not in self.overrides:
            if _is_slice(node):
                return self._slice_text(node)
            is_tuple = node.kind == "prim::TupleConstruct" and "named" not in node.attributes
            if is_tuple and node.inputs:
                items = [self._entry(value) for value in node.inputs]
                return f"{items[0]}," if len(items) == 1 else ", ".join(items)
        return self.at(index)

    def _entry(self, value: Value) -> str:
        node = value.node
        written_out = value in self.plan.nested or is_repeatable(value)
        if node is not None and written_out and _is_slice(node):
            return self._slice_text(node)
        return self.at(value)

    def _slice_text(self, node: Node) -> str:
        parts = ["" if _is_none(value) else self.at(value, P.OR) for value in node.inputs]
        if len(parts) == 1:
            parts.insert(0, "")  # slice(stop)
        start, stop, step = (*parts, "")[:3]
        return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"

    def _slice(self, node: Node) -> Text:
        return Text(f"{self.globals.builtin('slice')}({', '.join(map(self.at, node.inputs))})")

    def _getitem(self, node: Node) -> Text:
        container, index = node.inputs
        return Text(f"{self.primary(container)}[{self.subscript(index)}]")

    def attribute_of(self, value: Value, name: str) -> str | None:
        """``x.name``, or None for a name that is no identifier."""
        return f"{self.primary(value)}.{name}" if is_identifier(name) else None

    def _get_attribute(self, node: Node) -> Text:
        name = node.attributes["name"]
        text = self.attribute_of(node.inputs[0], name)
        if text is not None:
            return Text(text)
        function = self.globals.builtin("getattr")
        return Text(f"{function}({self.at(node.inputs[0])}, {name!r})")

    # Calls

    def _call(self, node: Node) -> Text:
        return self._called(node, self.primary(node.inputs[0]))

    def _call_method(self, node: Node) -> Text:
        name = node.attributes["name"]
        method = self.attribute_of(node.inputs[0], name)
        if method is None:
            function = self.globals.builtin("getattr")
            method = f"{function}({self.at(node.inputs[0])}, {name!r})"
        return self._called(node, method)

    def _called(self, node: Node, callee: str) -> Text:
        """A call, through what chooses the form of a method where there is something."""
        arguments = self.arguments(node, 1, ("name",))
        caller = node.attributes.get("caller")
        if caller is not None:
            callee, arguments = self.globals.add("call", caller), [callee, *arguments]
        return Text(f"{callee}({', '.join(arguments)})")

    def _call_numpy(self, node: Node) -> Text:
        name = node.attributes["name"]
        interpreter.numpy_function(name)
        if not all(map(is_identifier, name.split("."))):
            raise ValueError(f"{name!r} is no name of a NumPy function")
        function = f"{self.globals.module('np')}.{name}"
        return Text(f"{function}({', '.join(self.arguments(node, 0, ('name',)))})")


_FORMATTED = re.compile(r"[^\W\d][\w.\[\], ()+*/-]*")
_SPECIFICATION = re.compile(r"[\w.,<>^+#% -]*")
_SPECIFICATION_WITH_FIELDS = re.compile(r"([\w.,<>^+#% -]|\{[^\W\d][\w.]*\})*")


def _is_format_string(value: Value) -> bool:
    return value.node is not None and value.node.kind == "prim::FormatString"


def _is_format_call(value: Value) -> bool:
    """Whether this is a call of ``format``, which gives a str."""
    node = value.node
    if node is None or node.kind != "prim::Call" or node.keywords or len(node.inputs) > 3:
        return False
    return node.inputs[0].constant_value is format and "starred" not in node.attributes


def _joined(parts: Iterable[str | None]) -> str | None:
    """Parts one behind the other; None where one of them is None."""
    found = list(parts)
    known = [part for part in found if part is not None]
    return "".join(known) if len(known) == len(found) else None


def _keyword(name: str, text: str) -> str:
    if is_identifier(name):
        return f"{name}={text}"
    if keyword.iskeyword(name):
        return f"**{{{name!r}: {text}}}"
    raise ValueError(f"{name!r} is no name of an argument")


def _is_slice(node: Node) -> bool:
    """Whether this is a slice that has a form with colons."""
    return node.kind == "prim::slice" and 1 <= len(node.inputs) <= 3 and not node.keywords


def _is_none(value: Value) -> bool:
    node = value.constant
    return node is not None and node.attributes["value"] is None


def _has_identity(values: Sequence[Value]) -> bool:
    """Whether ``is`` may be written: Python warns where one side is a number or a text."""
    for value in values:
        node = value.constant
        held = node.attributes["value"] if node is not None else None
        if isinstance(held, int | float | complex | str | bytes | tuple):
            if not isinstance(held, bool):
                return False
    return True


def _is_array(value: Value) -> bool:
    return is_typed(value) and value.constant is None


def _has_dtype(value: Value, dtype: np.dtype[Any] | None) -> bool:
    return _is_array(value) and _dtype_of(value) == dtype


def _dtype_of(value: Value) -> np.dtype[Any] | None:
    return value.type.dtype if isinstance(value.type, TensorType) else None


def _is_float_scalar(node: Node) -> bool:
    """Whether this gives a NumPy scalar, which has operators that are faster than ufuncs."""
    type_ = node.output.type
    if not isinstance(type_, TensorType) or not type_.scalar or type_.dtype is None:
        return False
    return type_.dtype.char in "df" and not node.attributes.keys() - interpreter.NOTES


_WEAK_CONVERSIONS = {str(BOOL): "?", str(INT): "dlq", str(FLOAT): "df"}
"""The dtypes that an operator converts Python's numbers to as their constructors do."""


_Writer = Callable[[Expressions, Node], Text | None]

_WRITERS: dict[str, _Writer] = {
    **ARRAY_WRITERS,
    **dict.fromkeys((*BINARY, *UNARY), Expressions._operator),
    **dict.fromkeys(ARRAY_OPERATORS, Expressions._elementwise),
    **dict.fromkeys(AUGMENTED, Expressions._augmented),
    **{f"{kind}_": Expressions._augmented for kind in AUGMENTED},
    "prim::pow": Expressions._power,
    "np::power": Expressions._scalar_power,
    "np::absolute": Expressions._scalar_absolute,
    "prim::If": Expressions._if,
    "prim::TupleConstruct": Expressions._tuple,
    "prim::ListConstruct": Expressions._list,
    "prim::SetConstruct": Expressions._set,
    "prim::DictConstruct": Expressions._dict,
    "prim::FormatString": Expressions._format_string,
    "prim::slice": Expressions._slice,
    "prim::getitem": Expressions._getitem,
    "prim::GetAttr": Expressions._get_attribute,
    "prim::Call": Expressions._call,
    "prim::CallMethod": Expressions._call_method,
    "np::call": Expressions._call_numpy,
}


def _is_identity(user: Node | Block) -> bool:
    return isinstance(user, Node) and user.kind in _OPERATOR_NAMES
