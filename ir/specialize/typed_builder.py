"""The ``Builder`` that the op table's rules emit typed nodes with."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from jitcore.ir.classes import bind_arguments, class_attribute, class_captures, function_of
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Capture, Graph, SourceRange, Value
from jitcore.ir.nesting import with_inner
from jitcore.ir.ops import METHODS, TABLE, kind_of, type_of_constant
from jitcore.ir.ops.op import Call, Op, Untypable, bind
from jitcore.ir.shapes import broadcast_dims
from jitcore.ir.specialize.objects.object_states import ObjectStates, States
from jitcore.ir.types import (
    INT,
    Dim,
    LocalListType,
    TensorType,
    TupleType,
    Type,
    is_named_tuple,
)

if TYPE_CHECKING:
    from jitcore.ir.specialize.lists.shared_lists import SharedLists, TakenLists
    from jitcore.ir.specialize.objects.local_records import Methods

__all__ = [
    "CompileFunction",
    "LayerFunctions",
    "ObjectArgument",
    "TypedBuilder",
    "is_known_dict",
    "unpacked",
]

DUPLICATION_BUDGET = 4000
"""How many nodes one specialization may add by splitting and peeling."""

CompileFunction = Callable[[Any], Graph | None]
"""Gives the generic graph of a Python function, or None of what is none of the user's."""

LayerFunctions = Literal["kept", "kernels", "definitions", "device"]
"""What becomes of functions of layers; see `specialize`."""


@cache
def _definition(compile_function: CompileFunction, function: Any) -> Graph | None:
    """The generic graph of an op's definition; these are the same for all programs."""
    return compile_function(function)


def is_known_dict(value: Value) -> bool:
    """Whether this is a dict whose items the graph says, and which nobody changes."""
    node = value.node
    return node is not None and node.kind == "prim::DictConstruct" and "known" in node.attributes


def unpacked(value: Value) -> Value:
    """The tuple that a value is an element of, and all it is in itself; else the value."""
    while value.node is not None and value.node.kind == "prim::Unpack":
        value = value.node.inputs[0]
    return value


MAX_FOLDED_BITS = 256
"""Longer ints are left for the program to compute."""

MAX_KNOWN_RANGE = 64
"""Ranges of more numbers are not opened into tuples."""

_FOLDABLE = (int, float, bool, complex, str, type(None), tuple, np.dtype)
_NEVER_FOLDED = frozenset({"prim::TupleConstruct", "prim::range", "prim::zip", "prim::slice"})


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a block was, the symbols that could be named there, the heap's parts, the objects."""

    position: int
    scopes: list[dict[object, Any]]
    heap: list[Value]
    states: States


@dataclass(slots=True)
class ObjectArgument:
    """An object that is an argument, and the values of its attributes before the call."""

    given: Value
    attributes: dict[str, Value]


class TypedBuilder:
    """Where nodes are emitted, and which symbols of dims may be named there."""

    def __init__(self, target: Graph, compile_function: CompileFunction | None = None) -> None:
        self.block = target.block
        self.source: SourceRange | None = None
        self.scope_attribute: str | None = None
        self.caught: frozenset[SourceRange] = frozenset()
        self.is_caught = False
        self.scopes: list[dict[object, Any]] = [{}]
        self.closed_symbols: set[Dim] = set()
        self.new_symbols = (f"s{number}" for number in itertools.count())
        self.input_symbols: frozenset[Dim] = frozenset()
        self.budget = DUPLICATION_BUDGET
        self.wanted: list[Value] = []
        self.layers: list[Any] = []
        self.lists: dict[Value, Value] = {}
        self.shared: SharedLists | None = None
        self.heap: list[Value] = []
        self.taken: TakenLists | None = None
        self.written_parts: set[int] = set()
        self.keeps_ints = False
        self.is_native = False
        self.layer_functions: LayerFunctions = "kernels"
        self.methods: Methods | None = None
        self.active_methods: list[Any] = []
        self.objects: list[ObjectArgument] = []
        self.made_objects = 0
        self.object_states = ObjectStates()
        self.given_lists: list[Value] = []
        self.object_lists: list[Value] = []
        self.written_columns: set[tuple[int, str]] = set()
        self.changing: set[Value] = set()
        self.compile_function = compile_function

    @property
    def is_for_device(self) -> bool:
        """Whether the threads of a device will run it."""
        return self.layer_functions == "device"

    @property
    def is_by_definition(self) -> bool:
        """Whether what processors have kernels for is compiled from its definition."""
        return self.layer_functions in ("definitions", "device")

    def emit(
        self,
        kind: str,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
        type_: Type,
        keywords: Sequence[str] = (),
    ) -> Value:
        """Append a node with one output; ``keywords`` are the names of its last inputs."""
        node = self.block.append(
            kind,
            inputs,
            attributes,
            outputs=(type_,),
            keywords=keywords,
            source=self.source,
        )
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
        named = type(value) if is_named_tuple(type(value)) else None
        if type_ is None and (named or type(value) is tuple):
            return self.make_tuple([self.constant(item) for item in value], named)
        return self.block.constant(value, type_ or type_of_constant(value), self.source)

    def fresh_dim(self, key: object = None) -> Dim:
        """A new symbol, or the one that this key got before in a scope that is still open."""
        if key is not None:
            for scope in reversed(self.scopes):
                if key in scope:
                    found: Dim = scope[key]
                    return found
        symbol = next(name for name in self.new_symbols if name not in self.input_symbols)
        self.scopes[-1][key if key is not None else ("fresh", symbol)] = symbol
        return symbol

    def broadcast(self, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The dims of operands broadcast together.

        Symbols of inputs are not 1: that an extent is 1 is part of what a graph is typed for.
        """
        return broadcast_dims(shapes, self.fresh_dim, self.input_symbols)

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
        """The elements of a tuple, or of a list display, which nobody changes."""
        node = value.node
        if node is not None and node.kind == "prim::TupleConstruct":
            return list(node.inputs)
        if node is not None and isinstance(value.type, LocalListType):
            if value.type.count is not None:
                return list(node.inputs)
        if node is not None and node.kind == "prim::ListConstruct":
            return list(node.inputs)
        if node is not None and is_known_dict(value):
            return list(node.inputs[::2])
        if node is not None and node.kind == "prim::Constant":
            held = node.attributes["value"]
            if isinstance(held, (tuple, list)):
                return [self.constant(item) for item in held]
        if node is not None and node.kind == "prim::range":
            bounds = [one.constant.attributes["value"] for one in node.inputs if one.constant]
            if len(bounds) == 3 and len(range(*bounds)) <= MAX_KNOWN_RANGE:
                return [self.constant(number) for number in range(*bounds)]
        raise Untypable(f"the elements of {value.type} are not known")

    def call_python(
        self, function: Any, args: Sequence[Value], keywords: Mapping[str, Value] | None = None
    ) -> Value:
        """Call what a value turned out to be: a known op, or a Python function compiled here."""
        kind = kind_of(function) if not keywords else None
        if kind is not None:
            return self.op(kind, *args)
        if isinstance(function, type):
            return self.instantiate(function, args, keywords or {})
        inlined = getattr(type(function), "__jitcore_inlined__", None)
        if inlined is not None:
            found: Value = inlined(function, self, args)
            return found
        graph = self.compile_function(function) if self.compile_function is not None else None
        if graph is None:
            raise Untypable("it calls Python")
        plain = getattr(function, "__wrapped_function__", function)
        bound = bind_arguments(plain, args, keywords or {}, self.default, self.make_tuple)
        if bound is None:
            raise Untypable("the arguments do not fit the parameters")
        for capture in graph.captures:
            self.assume(capture)
        return self.inline(graph, bound)

    def instantiate(
        self, class_: type, args: Sequence[Value], keywords: Mapping[str, Value]
    ) -> Value:
        """Call a class: NamedTuples are tuples here."""
        if not is_named_tuple(class_):
            raise Untypable("it calls Python")
        new: Any = class_.__new__
        bound = bind_arguments(new, [None, *args], keywords, self.default, self.make_tuple)
        if bound is None:
            raise Untypable("the arguments do not fit the fields")
        return self.make_tuple(bound[1:], class_)

    def class_attribute(self, class_: type, name: str, above: type | None = None) -> Any:
        """What a class defines under a name, taken for granted from here on.

        Of a method that is compiled this is the plain function.
        """
        for capture in class_captures(class_, name, above):
            self.assume(capture)
        return function_of(class_attribute(class_, name, above))

    def default(self, parameter: inspect.Parameter) -> Value:
        """A parameter's default, which must not change."""
        if not isinstance(parameter.default, _FOLDABLE):
            raise Untypable("a default has contents that may change")
        return self.constant(parameter.default)

    def assume(self, capture: Capture) -> None:
        """Note that the graph is right only while this object is what it is now."""
        captures = self.block.graph.captures
        if all(capture.path != one.path or capture.value is not one.value for one in captures):
            captures.append(replace(capture, input=None))

    def define(self, function: Any, *args: Any) -> Value:
        """Inline the definition of an op, a Python function, where all of it can be typed."""
        if self.compile_function is None:
            raise Untypable("no front end reads its definition")
        graph = _definition(self.compile_function, function)
        assert graph is not None
        source, start = self.source, self.mark()
        wanted = list(self.wanted)
        values = [arg if isinstance(arg, Value) else self.constant(arg) for arg in args]
        result = self.inline(graph, values)
        self.source = source
        made = self.block.nodes[start.position :]
        for node in with_inner(made):
            node.source = source
        reason = next(filter(None, (node.host_reason for node in with_inner(made))), None)
        if reason is None:
            return result
        given = [unpacked(value) for value in values]
        self.wanted = wanted + [one for one in self.wanted[len(wanted) :] if one in given]
        self.roll_back(start)
        raise Untypable(reason)

    def definition(self, op: Op) -> Graph | None:
        """The generic graph of the function that says what an op does."""
        if self.compile_function is None or op.definition is None:
            return None
        return _definition(self.compile_function, op.definition.function)

    def mark(self) -> Mark:
        """A place in the current block to which `roll_back` can return."""
        scopes = [dict(scope) for scope in self.scopes]
        states = dict(self.object_states.now)
        return Mark(len(self.block.nodes), scopes, list(self.heap), states)

    def roll_back(self, mark: Mark) -> None:
        """Take back all that has been emitted to the current block since ``mark``."""
        self.scopes[:] = mark.scopes
        self.heap = mark.heap
        self.object_states.now = mark.states
        for node in reversed(self.block.nodes[mark.position :]):
            node.destroy()

    def take_back(self, position: int) -> None:
        """Remove what a rule has emitted before it gave up: it would run, and raise errors.

        Where lists or objects are values, others may know of it.
        """
        made = set(self.block.nodes[position:])
        if not made or self.heap or self.object_states.now:
            return
        scope = self.scopes[-1]
        for key in [key for key, one in scope.items() if isinstance(one, Value)]:
            if scope[key].node in made:
                del scope[key]
        for node in reversed(self.block.nodes[position:]):
            node.destroy()

    def fold(self, op: Op, inputs: list[Value], attributes: Mapping[str, Any]) -> Value | None:
        """Compute an op of Python constants now; None where that is not possible."""
        if not op.pure or not op.kind.startswith(("prim::", "math::")):
            return None
        if op.kind in _NEVER_FOLDED or not inputs:
            return None
        if not all(value.constant is not None for value in inputs):
            return None
        values = [value.node.attributes["value"] for value in inputs if value.node]
        if not all(issubclass(type(value), _FOLDABLE) for value in values):
            return None
        try:
            with np.errstate(all="ignore"):
                result = op.reference(*values, **attributes)
        except Exception:  # the program raises it, if it gets here
            return None
        if not isinstance(result, _FOLDABLE) or (
            isinstance(result, int) and result.bit_length() > MAX_FOLDED_BITS
        ):
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
