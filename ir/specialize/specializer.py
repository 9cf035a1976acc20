"""The abstract interpreter that ``specialize`` is: it walks a graph and emits a typed one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from typing import Any

from jitcore.ir.graph import LOOPS, Block, Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.ops.op import Call, NeedsConstant, Op, Untypable, bind
from jitcore.ir.specialize import lists
from jitcore.ir.specialize.branches import BranchBuilder, Environment
from jitcore.ir.specialize.by_value import (
    apply_by_value,
    apply_to_mixed,
    call_foreign,
    concerns_lists,
    concerns_numbers,
    is_foreign,
    is_shared,
    without_row,
)
from jitcore.ir.specialize.chosen_elements import chosen_element
from jitcore.ir.specialize.loops import visit_loop
from jitcore.ir.specialize.named_callers import names_callers
from jitcore.ir.specialize.set_shapes import set_shape
from jitcore.ir.specialize.skeletons import (
    UNINITIALIZED,
)
from jitcore.ir.specialize.special_methods import special_method
from jitcore.ir.specialize.typed_builder import unpacked
from jitcore.ir.specialize.union_operands import for_each_alternative
from jitcore.ir.structured import is_structured
from jitcore.ir.types import (
    ANY,
    INT,
    OBJECT,
    LocalListType,
    TensorType,
    TupleType,
    UnionType,
    is_number,
    is_scalar_tensor,
)

__all__ = ["Specializer"]


class Specializer(BranchBuilder):
    """Walks the old graph and emits the new one."""

    def inline(self, graph: Graph, args: Sequence[Value]) -> Value:
        """Walk another graph in place with these values for its inputs."""
        if len(args) != len(graph.inputs):
            raise Untypable(f"{graph.name} takes {len(graph.inputs)} arguments, not {len(args)}")
        if graph.only_compiled:
            self.block.graph.only_compiled = True
        self.caught |= graph.caught
        (result,) = self.walk(graph.block, 0, dict(zip(graph.inputs, args, strict=True)))
        return self.known_to_python(result)

    def known_to_python(self, value: Value) -> Value:
        """A value that leaves the part of the program that knows it for a local list."""
        if isinstance(value.type, LocalListType):
            return lists.list_states.python_list(self, value)
        return value

    def walk(self, block: Block, start: int, environment: Environment) -> list[Value]:
        """Specialize a block's nodes from number ``start``; gives what the block returns."""
        is_caught = self.is_caught
        values = self._walk(block, start, environment)
        self.is_caught = is_caught
        return values

    def note_caught(self, is_caught: bool) -> None:
        """Note that the program catches what is raised here, or where this is called."""
        self.is_caught = is_caught or self.source in self.caught
        if self.is_caught and self.source is not None:
            self.block.graph.caught |= {self.source}

    def _walk(self, block: Block, start: int, environment: Environment) -> list[Value]:
        is_caught = self.is_caught
        for number in range(start, len(block.nodes)):
            node = block.nodes[number]
            self.source = node.source or self.source
            self.scope_attribute = node.attributes.get("scope")
            self.note_caught(is_caught)
            if node.kind == "prim::If":
                absorbed = self.visit_if(node, environment, (block, number + 1))
                if absorbed is not None:
                    return absorbed
            elif node.kind in LOOPS:
                absorbed = self.visit_loop(node, environment, (block, number + 1))
                if absorbed is not None:
                    return absorbed
            elif node.kind in ("prim::Try", "prim::With"):
                self.visit_protected(node, environment)
            elif node.kind == "prim::Raise":
                inputs = [self.known_to_python(environment[value]) for value in node.inputs]
                inputs[:1] = [self.noted(value) for value in inputs[:1]]
                self.block.append(
                    node.kind, inputs, node.attributes, outputs=(), source=node.source
                )
                return [self.uninitialized() for _ in block.returns]
            else:
                self.visit(node, environment)
        return [self.union_facts.narrowed(environment[value]) for value in block.returns]

    def visit(self, node: Node, environment: Environment) -> None:
        """Specialize one node without blocks."""
        inputs = [self.union_facts.narrowed(environment[value]) for value in node.inputs]
        if node.kind == "prim::Constant":
            environment[node.output] = self.visit_constant(node)
            return
        if node.kind == "prim::SetShape":
            set_shape(self, node, environment)
            return
        if node.kind == "prim::ListPop":
            environment.update(
                zip(node.outputs, lists.list_states.pop_from_list(self, inputs), strict=True)
            )
            return
        if self.methods is not None and node.kind.startswith("prim::List"):
            # Copies of objects are kept in lists.
            inputs = self.settled_all(inputs, self.object_states.now)
            for value in inputs:
                self.object_states.freeze(value)
        if node.kind == "prim::Unpack" and is_shared(inputs[0]) and "star" not in node.attributes:
            parts = lists.shared_states.unpacked_list(self, inputs[0], len(node.outputs))
            environment.update(zip(node.outputs, parts, strict=True))
            return
        if node.kind == "prim::Unpack":
            parts = for_each_alternative(self, node, inputs, 0, partial(self.visit_unpack, node))
            for value, part in zip(node.outputs, parts, strict=True):
                environment[value] = self.without_type(part, value)
            return
        result = self.apply_or_keep(node, inputs)
        if node.kind == "prim::not_":
            self.union_facts.note_negation(result, inputs[0])
        if node.outputs:
            self.name_after(result, node.output)
            result = self.without_elements(result, node.output)
            environment[node.output] = self.without_type(result, node.output)

    def without_type(self, value: Value, original: Value) -> Value:
        """An array whose metadata the program sets, as a value that may have any type."""
        type_ = value.type
        if original not in self.changing or not isinstance(type_, TensorType) or type_.scalar:
            return value
        made = self.block.append("prim::same", [value], outputs=(ANY,), source=self.source)
        made.host_reason = "the program sets its shape, strides or dtype in place"
        return made.output

    def without_elements(self, value: Value, original: Value) -> Value:
        """A list display that may change, as a list of which nothing is known."""
        is_display = value.node is not None and value.node.kind == "prim::ListConstruct"
        if not is_display or not lists.changing_lists.is_changing(original):
            return value
        made = self.block.append("prim::same", [value], outputs=(value.type,), source=self.source)
        made.host_reason = "a list that the program may change"
        return made.output

    def name_after(self, value: Value, original: Value) -> None:
        """Give a value that has only a number the name it had in the user's program."""
        base = original.name.split(".")[0]
        if value.name.isdigit() and not base.isdigit() and value.constant is None:
            value.name = self.block.graph.unique_name(base)

    def apply_or_keep(self, node: Node, inputs: list[Value]) -> Value:
        """Type one node, or keep it generic with the reason."""

        def apply(changed: list[Value]) -> list[Value]:
            return [self.apply_or_keep(node, changed)]

        if concerns_numbers(self, node, inputs):
            return self.applied(node, inputs)
        has_lists = concerns_lists(self, node, inputs)
        if has_lists:
            lists.list_parts.take_place(self, node, inputs)
            lists.shared_states.apply_to_stored(self, node, inputs)
        from_mixed = apply_to_mixed(self, node, inputs)
        if from_mixed is not None:
            return from_mixed
        for number, value in enumerate(inputs):
            if not isinstance(value.type, UnionType) or node.kind in _UNION_KEEPERS:
                continue
            if not (has_lists and lists.shared_states.keeps_mixed(node, inputs, number)):
                if self.budget < 0:
                    return self.generic(node, inputs, "values of several types in a long program")
                return for_each_alternative(self, node, inputs, number, apply)[0]
        found = _apply_to_structured(self, node, inputs) or apply_by_value(self, node, inputs)
        return self.applied(node, inputs) if found is None else found

    def applied(self, node: Node, inputs: list[Value]) -> Value:
        """Type one node by its op's rule, or keep it generic with the reason."""
        try:
            if node.kind == "prim::getitem" and _is_choice(*inputs):
                elements = self.elements(inputs[0])
                return chosen_element(self, elements, inputs[1], "tuple index out of range")
            return self.apply(node, inputs)
        except Untypable as reason:
            if isinstance(reason, NeedsConstant):
                self.wanted.append(unpacked(reason.value))
            return self.generic(node, inputs, str(reason))

    def visit_constant(self, node: Node) -> Value:
        value = node.attributes["value"]
        known = node.output.type
        return self.constant(value, None if known in (ANY, OBJECT) else known)

    def visit_unpack(self, node: Node, inputs: list[Value]) -> list[Value]:
        """``a, b = x``: the elements of a tuple, or the rows of an array of known length."""
        inputs = list(map(self.known_to_python, inputs))
        (value,) = inputs
        count = len(node.outputs)
        if "star" not in node.attributes:
            try:
                found = self.elements(value)
            except Untypable:
                found = []
            if not found and isinstance(value.type, TensorType) and value.type.dims:
                if value.type.dims[0] == count:
                    found = [self.op("prim::getitem", value, number) for number in range(count)]
            if len(found) == count:
                return found
        made = self.block.append(
            "prim::Unpack", inputs, node.attributes, outputs=(ANY,) * count, source=node.source
        )
        return made.outputs

    def apply(self, node: Node, inputs: list[Value]) -> Value:
        """Type one node by its op's rule."""
        if node.kind == "prim::CallFunction":
            return self.call_function(node, inputs)
        if node.kind == "prim::Uninitialized":
            return self.emit(node.kind, [], node.attributes, UNINITIALIZED)
        if is_foreign(node, inputs):
            return call_foreign(self, node, inputs)
        op = TABLE.get(node.kind)
        if op is None:
            raise Untypable(_FOREIGN.get(node.kind, "compiled code has no form of it"))
        if "starred" in node.attributes:
            inputs, keywords = self.open_starred(node, inputs), node.keywords
        else:
            keywords = node.keywords
        attributes = {key: value for key, value in node.attributes.items() if key not in _NOTES}
        if node.kind in ("prim::Call", "prim::CallMethod"):
            bound = _bind_call(node, inputs, keywords)
        else:
            bound = bind(op.signature, inputs, keywords, attributes)
        special = special_method(self, node.kind, inputs)
        if special is not None:
            return special
        folded = None if node.keywords else self.fold(op, inputs, attributes)
        if folded is not None:
            return folded
        call = Call(node.kind, bound, op.signature, node.source)
        if op.definition is not None:
            return self.layer_function(op, call, node.attributes.get("layers", ()))
        position = len(self.block.nodes)
        try:
            result = op.rule(self, call)
        except Untypable:
            self.take_back(position)
            if not op.sampled:
                raise
            return call_foreign(self, without_row(node), inputs)
        return self.opened(result) if op.hosted else result

    def layer_function(self, op: Op, call: Call, layers: Sequence[Any]) -> Value:
        """A function of layers: what its row makes of the call, or the code of the function."""
        if self.layer_functions == "kept":
            raise Untypable("functions of layers are kept")
        before = self.mark()
        try:
            if op.for_processors and self.is_by_definition:
                raise Untypable("devices have no kernel for it")
            result = op.rule(self, call)
        except Untypable:
            self.roll_back(before)
        else:
            self.note_layers(result.node, layers)
            return self.opened(result)
        graph = self.definition(op)
        if graph is None:
            raise Untypable("no front end reads its definition")
        source, outer = self.source, self.layers
        self.layers = [*outer, *layers]
        assert op.definition is not None
        known = [one for one in op.signature if one.name not in op.definition.hints]
        args = [call.bound.get(one.name, one.default) for one in known]
        values = [arg if isinstance(arg, Value) else self.constant(arg) for arg in args]
        # What the code reads from around itself (a generator) is not guarded here: it must not be
        # read where the call has these arguments.
        captured = [self.constant(one.value) for one in graph.captures if one.input is not None]
        result = self.inline(graph, [*values, *captured])
        self.source, self.layers = source, outer
        if any(one.uses for one in captured):
            self.roll_back(before)
            raise Untypable(f"{graph.name} reads what may change")
        return result

    def note_layers(self, node: Node | None, layers: Sequence[Any]) -> None:
        """Note on a function of layers which layers it is in, for its errors to name them."""
        if node is not None and node.kind.startswith("nn::") and (self.layers or layers):
            node.attributes["layers"] = (*self.layers, *layers)

    def call_function(self, node: Node, inputs: list[Value]) -> Value:
        """Walk the graph of a function in place; ``layer`` is the layer whose ``forward`` it is."""
        if names_callers(node.attributes["graph"]):
            raise Untypable("it warns of the calls that led to it, which have to stay calls")
        layer = node.attributes.get("layer")
        self.layers += [] if layer is None else [layer]
        result = self.inline(node.attributes["graph"], inputs)
        self.layers = self.layers[: len(self.layers) - (layer is not None)]
        return result

    def noted(self, exception: Value) -> Value:
        """An exception with a note for each layer around, as eager calls add them."""
        for layer in reversed(self.layers):
            receiver = self.constant(layer)
            inputs, attributes = (receiver, exception), {"name": "_noted"}
            node = self.block.append("prim::CallMethod", inputs, attributes, source=self.source)
            exception = node.output
        return exception

    def open_starred(self, node: Node, inputs: list[Value]) -> list[Value]:
        """Put the elements of starred arguments in their places."""
        result = []
        for number, value in enumerate(inputs):
            if number in node.attributes["starred"]:
                result.extend(self.elements(value))
            else:
                result.append(value)
        return result

    def generic(self, node: Node, inputs: Sequence[Value], reason: str) -> Value:
        """Keep a node as it is, with results of unknown type, and say why."""
        made = self.block.append(
            node.kind,
            inputs,
            node.attributes,
            outputs=(ANY,) * len(node.outputs),
            names=[value.name for value in node.outputs],
            keywords=node.keywords,
            source=node.source,
        )
        made.host_reason = reason
        self.note_layers(made, node.attributes.get("layers", ()))
        return made.outputs[0] if made.outputs else self.constant(None)

    def visit_loop(
        self, node: Node, environment: Environment, rest: tuple[Block, int]
    ) -> list[Value] | None:
        """Specialize ``prim::Loop`` or ``prim::For``."""
        return visit_loop(self, node, environment, rest)


def _is_choice(container: Value, index: Value) -> bool:
    """Whether a number that only a run tells chooses between numbers of one type."""
    if not isinstance(container.type, TupleType) or index.type != INT or index.constant:
        return False
    types = set(container.type.elements)
    return len(types) == 1 and all(is_number(one) or is_scalar_tensor(one) for one in types)


_FOREIGN = dict.fromkeys(
    [f"prim::{name}" for name in ("ListConstruct", "SetConstruct", "DictConstruct")],
    "it makes a Python object; compiled code has numbers, arrays and tuples",
)
"""Why there is no row for some kinds."""


def _apply_to_structured(worker: Specializer, node: Node, inputs: list[Value]) -> Value | None:
    if node.kind == "prim::raises" or not any(is_structured(value.type) for value in inputs):
        return None
    # Few programs have such arrays.
    rules = import_module("jitcore.ir.specialize.structured_arrays")
    try:
        found: Value | None = rules.apply_to_structured(worker, node, inputs)
    except Untypable as reason:
        return worker.generic(node, inputs, str(reason))
    return found


_NOTES = frozenset({"caller", "starred", "scope", "layers"})

_UNION_KEEPERS = frozenset(
    {"prim::TupleConstruct", "prim::ListConstruct", "prim::UnionConstruct", "prim::CallFunction"}
)


def _bind_call(node: Node, inputs: list[Value], keywords: Sequence[str]) -> dict[str, Any]:
    """The parts of a call whose callee's parameters are not known yet."""
    positional = inputs[: len(inputs) - len(keywords)]
    return {
        **node.attributes,
        "f" if node.kind == "prim::Call" else "x": positional[0],
        "values": positional[1:],
        "keyword_values": inputs[len(positional) :],
        "keywords": keywords,
    }
