"""The ``Builder`` that the op table's rules emit typed nodes with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitcore.ir.graph import Block, Graph, SourceRange, Value
from jitcore.ir.ops import METHODS, TABLE, kind_of, type_of_constant
from jitcore.ir.ops.op import Call, Op, Untypable, bind
from jitcore.ir.types import INT, Dim, TensorType, TupleType, Type

__all__ = ["CompileFunction", "TypedBuilder"]

DUPLICATION_BUDGET = 4000
"""How many nodes one specialization may add by splitting and peeling."""

CompileFunction = Callable[[Any], Graph | None]
"""Gives the generic graph of a Python function, or None of what is none of the user's."""

_FOLDABLE = (int, float, bool, complex, str, type(None), tuple)
_NEVER_FOLDED = frozenset({"prim::TupleConstruct", "prim::range", "prim::zip", "prim::slice"})


class TypedBuilder:
    """Where nodes are emitted, and which symbols of dims may be named there."""

    def __init__(self, target: Graph, compile_function: CompileFunction | None = None) -> None:
        self.block = target.block
        self.source: SourceRange | None = None
        self.scope_attribute: str | None = None
        self.scopes: list[dict[object, Any]] = [{}]
        self.closed_symbols: set[Dim] = set()
        self.symbol_count = 0
        self.budget = DUPLICATION_BUDGET
        self.wanted: list[Value] = []
        self.compile_function = compile_function

    def emit(
        self, kind: str, inputs: Sequence[Value], attributes: Mapping[str, Any], type_: Type
    ) -> Value:
        """Append a node with one output."""
        node = self.block.append(kind, inputs, attributes, outputs=(type_,), source=self.source)
        if self.scope_attribute:
            node.attributes["scope"] = self.scope_attribute
        return node.output

    def op(self, kind: str, *args: Any, **attributes: Any) -> Value:
        """Apply the rule of another op to Values and plain constants."""
        op = TABLE[kind]
        values = [arg if isinstance(arg, Value) else self.constant(arg) for arg in args]
        bound = bind(op.signature, values, (), attributes)
        folded = self.fold(op, values, attributes)
        if folded is not None:
            return folded
        return op.rule(self, Call(kind, bound, op.signature, self.source))

    def constant(self, value: Any, type_: Type | None = None) -> Value:
        """Append a constant; tuples become ``prim::TupleConstruct`` of constants."""
        if type_ is None and isinstance(value, tuple):
            elements = [self.constant(item) for item in value]
            return self.make_tuple(elements, type(value) if hasattr(value, "_fields") else None)
        return self.block.constant(value, type_ or type_of_constant(value), self.source)

    def fresh_dim(self, key: object = None) -> Dim:
        """A new symbol, or the one that this key got before in a scope that is still open."""
        if key is not None:
            for scope in reversed(self.scopes):
                if key in scope:
                    found: Dim = scope[key]
                    return found
        symbol = f"s{self.symbol_count}"
        self.symbol_count += 1
        self.scopes[-1][key if key is not None else ("fresh", symbol)] = symbol
        return symbol

    def open_scope(self, block: Block) -> Block:
        """Emit into ``block`` from now on; gives the block to return to."""
        outer, self.block = self.block, block
        self.scopes.append({})
        return outer

    def close_scope(self, outer: Block) -> None:
        """Go back to ``outer``; symbols made since ``open_scope`` may not be named there."""
        self.block = outer
        self.closed_symbols.update(
            symbol for symbol in self.scopes.pop().values() if isinstance(symbol, str)
        )

    def size(self, value: Value, axis: int) -> Value:
        """The extent of an axis; equal symbols give the same value."""
        assert isinstance(value.type, TensorType) and value.type.dims is not None
        dim = value.type.dims[axis]
        if isinstance(dim, int):
            return self.constant(dim)
        for scope in reversed(self.scopes):
            if ("size", dim) in scope:
                known: Value = scope["size", dim]
                return known
        result = self.emit("prim::size", [value], {"dim": axis}, INT)
        self.scopes[-1]["size", dim] = result
        return result

    def make_tuple(self, elements: Sequence[Value], named: Any = None) -> Value:
        """Append a ``prim::TupleConstruct``."""
        attributes = {"named": named} if named else {}
        type_ = TupleType(tuple(one.type for one in elements), named)
        return self.emit("prim::TupleConstruct", elements, attributes, type_)

    def elements(self, value: Value) -> list[Value]:
        """The elements of a tuple, or of a list display nobody else has touched yet."""
        node = value.node
        if node is not None and node.kind == "prim::TupleConstruct":
            return list(node.inputs)
        if node is not None and node.kind == "prim::ListConstruct" and not value.uses:
            return list(node.inputs)
        if node is not None and node.kind == "prim::Constant":
            held = node.attributes["value"]
            if isinstance(held, (tuple, list)):
                return [self.constant(item) for item in held]
        raise Untypable(f"the elements of {value.type} are not known")

    def call_python(self, function: Any, args: Sequence[Value]) -> Value:
        """Call what a value turned out to be: a known op, or a Python function compiled here."""
        kind = kind_of(function)
        if kind is not None:
            return self.op(kind, *args)
        graph = self.compile_function(function) if self.compile_function is not None else None
        if graph is None:
            raise Untypable("it calls Python")
        return self.inline(graph, list(args))

    def fold(self, op: Op, inputs: list[Value], attributes: Mapping[str, Any]) -> Value | None:
        """Compute an op of Python constants now; None where that is not possible."""
        if not op.pure or not op.kind.startswith(("prim::", "math::")):
            return None
        if op.kind in _NEVER_FOLDED or not inputs:
            return None
        if not all(value.constant is not None for value in inputs):
            return None
        values = [value.node.attributes["value"] for value in inputs if value.node]
        if not all(isinstance(value, _FOLDABLE) for value in values):
            return None
        try:
            result = op.reference(*values, **attributes)
        except Exception:  # the program raises it, if it gets here
            return None
        if not isinstance(result, _FOLDABLE) or (isinstance(result, int) and abs(result) >= 2**63):
            return None
        return self.constant(result)

    def method(self, name: str) -> tuple[Op, str | None]:
        """The op that an ndarray method is, and the method's own parameters after the array."""
        if name not in METHODS:
            raise Untypable(f"method {name!r} of an array")
        return METHODS[name]

    def inline(self, graph: Graph, args: Sequence[Value]) -> Value:
        """Specialize another graph in place, with these values for its inputs."""
        raise NotImplementedError
