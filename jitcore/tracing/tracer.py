"""``Tracer``: builds the generic graph of a function while that runs."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jitcore.codegen.host import build_host
from jitcore.errors import TracerWarning
from jitcore.frontend.constants import constant_type, is_constant, numpy_name
from jitcore.frontend.expressions import BINARY
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Capture, Graph, Node, SourceRange, Value
from jitcore.ir.ops import TABLE, kind_of
from jitcore.ir.types import ANY, TENSOR, Type, is_named_tuple, type_of_constant
from jitcore.script import ScriptFunction
from jitcore.tracing.outside import Outside
from jitcore.tracing.places import (
    calling_frame,
    is_in_subscript,
    names_assigned,
    place_of,
    user_place,
)
from jitcore.tracing.state import paused
from jitcore.tracing.values import Shape, Traced, concrete, has_traced

__all__ = ["Tracer"]

_WITHOUT_OUTPUT = ("prim::setitem", "prim::delitem", "prim::SetAttr")

_STRUCTURAL = (
    "prim::Constant",
    "prim::ListConstruct",
    "prim::TupleConstruct",
    "prim::Unpack",
    "prim::getitem",
    "prim::size",
    "prim::slice",
)
"""What does nothing but give its outputs."""

_WRITERS = frozenset(
    [
        *_WITHOUT_OUTPUT,
        *(kind for kind, row in TABLE.items() if row.writes),
        *(f"prim::i{kind}" for kind in BINARY.values()),
        *("prim::CallMethod", "prim::Call", "prim::CallFunction", "np::call"),
    ]
)
"""What writes, or calls what may."""

_FROZEN = (
    "the trace cannot follow Python values, so this one becomes a constant, which might cause the "
    "trace to be incorrect for other inputs"
)

_PLAIN = (str, bytes, type, slice, range, type(Ellipsis), type(NotImplemented))
"""What is no data of the program, and left as it is."""


class Tracer:
    """Records one run of one function.

    Parameters
    ----------
    name : str
        The graph's name.
    quiet : bool
        Give no warnings, as when a trace is checked.
    twins : dict, optional
        Path and twin of each module, by the module's identity: what the trace is to read its
        attributes from.

    Attributes
    ----------
    graph : Graph
    outside : Outside
        What the function has from elsewhere.
    layer_graphs : dict
        The graphs of layers that are called as such, by the layers' identities.
    assigned : dict
        The attributes of modules that the function has assigned, by the identity of the module's
        ``__dict__`` and the name.
    """

    def __init__(
        self, name: str, *, quiet: bool = False, twins: Mapping[int, tuple[str, Any]] | None = None
    ) -> None:
        self.graph = Graph(name)
        self.quiet = quiet
        self.is_running = True
        self.assigned: dict[tuple[int, str], Any] = {}
        self._twins = dict(twins or {})
        self.outside = Outside(self.graph)
        self._captured: dict[tuple[int, str], Traced] = {}
        self.layer_graphs: dict[int, Graph | None] = {}
        self._programs: dict[int, tuple[Graph, Callable[..., Any]]] = {}
        self._required: set[Node] = set()
        self._fixed: set[Value] = set()
        self._where: SourceRange | None = None
        self._warned: set[tuple[str, str, int]] = set()

    # Nodes

    def record(
        self,
        kind: str,
        function: Callable[..., Any],
        args: Sequence[Any],
        keywords: Mapping[str, Any] | None = None,
        attributes: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run ``function`` on the concrete arguments, append a node, and give the traced result."""
        keywords = dict(keywords or {})
        with paused():
            result = function(*concrete(list(args)), **concrete(keywords))
        frame = calling_frame()
        self._where = None if frame is None else place_of(frame)
        operands = [*args, *keywords.values()]
        inputs = [self.value_of(one) for one in operands]
        type_ = TENSOR if isinstance(result, np.ndarray) else ANY
        outputs = () if kind in _WITHOUT_OUTPUT else (type_,)
        node = self.node(kind, inputs, attributes, outputs=outputs, keywords=tuple(keywords))
        if frame is None or not is_in_subscript(frame):
            self._note_writes(node, operands)
        if not outputs:
            return None
        names = () if frame is None else names_assigned(frame)
        if len(names) == 1:
            self.name(node.output, names[0])
        return self.wrap(result, node.output, names)

    def node(
        self,
        kind: str,
        inputs: Sequence[Value] = (),
        attributes: Mapping[str, Any] | None = None,
        *,
        outputs: Sequence[Type] = (ANY,),
        keywords: Sequence[str] = (),
    ) -> Node:
        """Append a node at the current place."""
        return self.graph.block.append(
            kind, inputs, attributes, outputs=outputs, keywords=keywords, source=self._where
        )

    def name(self, value: Value, name: str) -> None:
        """Name a value after a variable of the user's, if it has no name yet."""
        if value.name.isdigit():
            value.name = self.graph.unique_name(name)

    def wrap(self, result: Any, value: Value, names: Sequence[str] = ()) -> Any:
        """What the traced function gets for a result; the arrays in containers are traced."""
        kind = type(result)
        if result is None or isinstance(result, _PLAIN):
            return result
        if kind in (tuple, list) or is_named_tuple(kind):
            return self.unpack(result, value, names)
        if kind is dict:
            return {key: self._item(value, key, item) for key, item in result.items()}
        return Traced(result, value, self)

    def unpack(self, result: Any, value: Value, names: Sequence[str] = ()) -> Any:
        """A tuple or list whose elements are the outputs of a ``prim::Unpack``."""
        count = len(result)
        unpacked = self.node("prim::Unpack", [value], {"count": count}, outputs=[ANY] * count)
        if len(names) == count:
            for output, name in zip(unpacked.outputs, names, strict=True):
                self.name(output, name)
        items = [self.wrap(*pair) for pair in zip(result, unpacked.outputs, strict=True)]
        kind = type(result)
        return kind(*items) if is_named_tuple(kind) else kind(items)

    def _item(self, container: Value, key: Any, item: Any) -> Any:
        index = self.value_of(key)
        return self.wrap(item, self.node("prim::getitem", [container, index]).output)

    # Values

    def value_of(self, held: Any) -> Value:
        """The graph's value for an argument, traced or not."""
        kind = type(held)
        if kind is Traced:
            return held._value if held._owner is self else self.value_of(held._concrete)
        if kind is Shape:
            return self.value_of(held.whole())
        if kind is slice:
            return self._construct("prim::slice", (held.start, held.stop, held.step))
        if kind is tuple and (has_traced(held) or not is_constant(held)):
            return self._construct("prim::TupleConstruct", held)
        if is_named_tuple(kind):
            return self._construct("prim::Call", (kind, *held))
        if kind is list:
            return self._construct("prim::ListConstruct", held)
        if kind is set:
            return self._construct("prim::SetConstruct", sorted(held, key=repr))
        if kind is dict:
            pairs = [part for pair in held.items() for part in pair]
            return self._construct("prim::DictConstruct", pairs)
        if kind is not np.ndarray and is_constant(held):
            type_ = constant_type(held)
            return self.node("prim::Constant", (), {"value": held}, outputs=(type_,)).output
        return self._constant(held)

    def _construct(self, kind: str, parts: Sequence[Any]) -> Value:
        return self.node(kind, [self.value_of(part) for part in parts]).output

    def _constant(self, held: Any) -> Value:
        """An array or an object that the function has from elsewhere."""
        if isinstance(held, np.ndarray) and self.outside.shares_memory(held):
            self.warn(
                "An array that shares memory with an input is used as a constant: it was taken "
                "out of the input in a way that the trace did not see, which might cause the "
                "trace to be incorrect for other inputs"
            )
        return self.outside.constant(held, self._where)

    def capture(self, path: str, container: Any, key: str, value: Any) -> Traced:
        """The input for what a name or an attribute stands for, which each call reads anew."""
        place = (id(container), key)
        if place not in self._captured:
            held, new = self.outside.capture(path, container, key, value)
            self._captured[place] = Traced(held, new, self)
        return self._captured[place]

    def captured_at(self, container: Any, key: str) -> Traced | None:
        """What has been captured at a place."""
        return self._captured.get((id(container), key))

    def has_effects(self) -> bool:
        """Whether any node may write to something that is there before or after a call."""
        return any(node.kind in _WRITERS or "out" in node.keywords for node in self.graph.nodes())

    def finish(self, output: Value) -> Graph:
        """The graph, which returns ``output``; without what nothing came to use."""
        graph = self.graph
        self.is_running = False
        graph.block.add_return(output)
        for node in reversed(graph.block.nodes[:]):
            if node.kind not in _STRUCTURAL or node in self._required:
                continue
            if not any(one.uses for one in node.outputs):
                node.destroy()
        self.outside.drop_unused()
        return graph

    def knows(self, layer: Any) -> bool:
        """Whether a module is the one that is traced, or is in it."""
        return id(layer) in self._twins

    def twin(self, layer: Any) -> tuple[str, Any]:
        """A module's path, and the module that the trace has in its place."""
        return self._twins.get(id(layer), (type(layer).__name__, layer))

    # Calls

    def call(
        self,
        function: Any,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        run: Callable[..., Any] | None = None,
    ) -> Any:
        """Record the call of a Python object under the kind that the front end gives it.

        ``run`` is called in its place, by default the object itself.
        """
        kind = kind_of(function)
        if kind is not None:
            return self.record(kind, run or function, args, keywords)
        name = numpy_name(function)
        if name is not None:
            return self.record("np::call", run or function, args, keywords, {"name": name})
        return self.record("prim::Call", _call, (function, *args), keywords)

    def method(self, value: Any, name: str, args: Sequence[Any], keywords: dict[str, Any]) -> Any:
        """Record the call of a method."""
        if name in ("tolist", "tobytes"):
            self.converted(value, "a Python list" if name == "tolist" else "Python bytes")
            return getattr(value._concrete, name)(*concrete(args), **concrete(keywords))

        def call_method(receiver: Any, *rest: Any, **named: Any) -> Any:
            return getattr(receiver, name)(*rest, **named)

        return self.record(
            "prim::CallMethod", call_method, (value, *args), keywords, {"name": name}
        )

    def attribute(self, value: Any, name: str) -> Any:
        """Record the reading of an attribute."""
        held = getattr(value._concrete, name)
        is_array = isinstance(value._concrete, (np.ndarray, np.generic))
        if is_array and name == "ndim":
            self._fix_rank(value, held)
            return held
        if is_array and name == "shape":
            return self._shape(value, len(held))
        if isinstance(held, (str, type)):
            self.converted(value, f"a Python constant (its {name})")
            return held
        return self.record(
            "prim::GetAttr", lambda one: getattr(one, name), (value,), None, {"name": name}
        )

    def _shape(self, value: Any, rank: int) -> Shape:
        shape = Shape(self._size(value, axis) for axis in range(rank))
        shape._note_whole = lambda: self._fix_rank(value, rank)
        return shape

    def _fix_rank(self, value: Any, rank: int) -> None:
        """Have calls fail where an array has another rank, on which what follows depends."""
        if value._value in self._fixed:
            return
        self._fixed.add(value._value)
        whole = self.node("prim::GetAttr", [value._value], {"name": "shape"}).output
        outputs = [ANY] * rank
        node = self.node("prim::Unpack", [whole], {"count": rank}, outputs=outputs)
        self._required.add(node)

    def _size(self, value: Any, axis: int) -> Any:
        return self.record("prim::size", lambda one: one.shape[axis], (value,), None, {"dim": axis})

    def call_script(
        self, function: ScriptFunction, args: Sequence[Any], keywords: Mapping[str, Any]
    ) -> Any:
        """Record the call of a compiled function, whose control flow stays."""
        bound = inspect.signature(function).bind(*args, **keywords)
        bound.apply_defaults()
        with paused():
            graph = function.current_graph()
        return self.call_graph(graph, list(bound.arguments.values()))

    def call_graph(self, graph: Graph, args: Sequence[Any], **attributes: Any) -> Any:
        """Record the call of a graph; ``args`` are its parameters, in order."""
        captured = [self._captured_by(one) for one in graph.captures if one.input is not None]
        if id(graph) not in self._programs:
            with paused():
                self._programs[id(graph)] = (graph, build_host(graph))
        program = self._programs[id(graph)][1]
        return self.record(
            "prim::CallFunction", program, [*args, *captured], None, {"graph": graph, **attributes}
        )

    def _captured_by(self, capture: Capture) -> Any:
        value = capture.read()
        if type(value) is Traced or capture.container is None or capture.key is None:
            return value
        return self.capture(capture.path, capture.container, capture.key, value)

    # Warnings

    def warn(self, message: str) -> None:
        """Give a `TracerWarning` at the user's line, once for each line."""
        place = user_place()
        file, line = (place.file, place.line) if place is not None else ("<unknown>", 0)
        if self.quiet or (message, file, line) in self._warned:
            return
        self._warned.add((message, file, line))
        warnings.warn_explicit(message, TracerWarning, file, line)

    def used_elsewhere(self, value: Any) -> None:
        """Note that another thread uses a traced value, which records nothing."""
        if self.is_running:
            self.converted(value, "a value of another thread")

    def converted(self, value: Any, to: str) -> None:
        """Note that a traced value becomes one of Python's own, which no graph can follow."""
        what = "array" if isinstance(value._concrete, np.ndarray) else "value"
        self.warn(f"Converting a traced {what} to {to}: {_FROZEN}")

    def iterated(self, value: Any) -> None:
        """Note that Python iterates over a traced array."""
        self.warn(
            "Iterating over a traced array: the number of iterations becomes a constant, which "
            "might cause the trace to be incorrect for arrays of other shapes"
        )

    def _note_writes(self, node: Node, operands: Sequence[Any]) -> None:
        """Warn of writes to views; assignments to subscripts are written out in the source."""
        views = [type(one) is Traced and self.outside.has_view(one._concrete) for one in operands]
        if node.kind == "prim::setitem" or not any(views):
            return
        # What a method does depends on the types.
        block = Graph().block
        typed = [block.add_param(type_of_constant(concrete(one))) for one in operands]
        twin = block.append(node.kind, typed, node.attributes, keywords=node.keywords)
        if any(views[number] for number in node_effects(twin).writes):
            self.warn(
                "An in-place write to a view of an array that comes from outside: other "
                "references to its memory see it only where they share it in later calls as "
                "they do now, which might cause the trace to be incorrect"
            )


def _call(function: Any, *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)
