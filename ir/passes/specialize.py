"""Specialize a graph for the types of its inputs: infer types and make Python's choices.

Before, with ``%x : Float32[n]`` and ``%k : int``::

    graph(%x : Tensor, %k : Tensor):
      %1 = prim::add(%x, %k)
      %2 = prim::CallMethod[name="sum"](%1)
      return (%2)

After::

    graph(%x : Float32[n], %k : int):
      %1 : Float32 = np::cast[dtype=float32](%k)
      %2 : Float32[n] = np::add(%x, %1)
      %3 : Float32 = np::sum[axis=(0,), keepdims=False](%2)
      return (%3)

It is an abstract interpreter: it walks the old graph with an environment from old to new values and
lets the op table's rules emit typed nodes.  Branches on constants vanish, loops over tuples unroll,
calls are inlined.  Where the two branches of an ``If`` give a variable types that have no common
type (``None`` and an array, ``int`` and ``float``), the rest of the block is specialized twice,
once in each branch.  A loop whose variables change their type in the first iteration (``s = 0``
before ``s = s + x[i]``) has that iteration peeled.  Both are limited by a budget; beyond it such a
variable has type ``Any`` and its users run in the host program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from jitcore.ir import log
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.ops.op import Call, NeedsConstant, Op, Untypable, bind
from jitcore.ir.passes.changing_lists import forget_names, is_changing
from jitcore.ir.passes.characters import apply_to_character
from jitcore.ir.passes.chosen_elements import chosen_element
from jitcore.ir.passes.list_arguments import is_value_argument
from jitcore.ir.passes.list_heap import is_shared
from jitcore.ir.passes.list_results import list_results
from jitcore.ir.passes.list_states import (
    apply_to_list,
    pop_from_list,
    python_list,
    remove_list_states,
)
from jitcore.ir.passes.local_lists import ListMode, with_local_lists
from jitcore.ir.passes.local_records import Methods
from jitcore.ir.passes.metadata import changing_arrays
from jitcore.ir.passes.objects import OBJECT_TYPES, apply_to_object, object_inputs
from jitcore.ir.passes.python_parts import is_surely_native, python_s_part
from jitcore.ir.passes.record_results import return_objects
from jitcore.ir.passes.records import call_changing_method, remove_record_states
from jitcore.ir.passes.shared_arguments import is_nested, start_heap
from jitcore.ir.passes.shared_lists import MoreIsKnown, SharedLists
from jitcore.ir.passes.shared_results import give_shared
from jitcore.ir.passes.shared_states import apply_to_shared, apply_to_stored, unpacked_list
from jitcore.ir.passes.skeletons import (
    UNINITIALIZED,
    ListsAreNotValues,
    SharedListsDiffer,
)
from jitcore.ir.passes.special_methods import special_method
from jitcore.ir.passes.specialize_branches import BranchBuilder, Environment
from jitcore.ir.passes.specialize_loops import visit_loop
from jitcore.ir.passes.typed_builder import CompileFunction, LayerFunctions, unpacked
from jitcore.ir.types import (
    ANY,
    INT,
    NONE,
    OBJECT,
    ListType,
    LocalListType,
    TensorType,
    TupleType,
    Type,
    UnionType,
    is_number,
    is_scalar_tensor,
    symbols_in,
)

__all__ = ["CompileFunction", "LayerFunctions", "Specializer", "specialize"]


def specialize(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None = None,
    compile_function: CompileFunction | None = None,
    wanted: set[int] | None = None,
    *,
    layer_functions: LayerFunctions = "kernels",
    is_native: bool = False,
    notes_attributes: bool = False,
    refusals: list[str] | None = None,
) -> Graph:
    """The typed graph of ``graph`` for inputs of these types.

    Parameters
    ----------
    graph : Graph
        A generic or a typed graph; it is not changed.
    types : sequence of Type
        One for each input.
    constants : mapping from int to object, optional
        Inputs that are known at compile time.  They stay inputs, but nothing reads them.
    compile_function : callable, optional
        The front end, for Python functions that turn up as values.
    wanted : set of int, optional
        Takes the numbers of the inputs that would have to be constants for more to be typed.
    layer_functions : str
        What becomes of functions of layers (``nn::conv2d``): calls that are ``"kept"`` as they are,
        nodes where ``"kernels"`` can do the call, or ``"definitions"`` where those are processors'.
    is_native : bool
        The graph is of no use if it does not become one native function as a whole.  Where it is
        taken to become that, lists of numbers are taken apart and made, and objects are their
        attributes; it then ``must_be_native``.
    notes_attributes : bool
        Note what attributes of arguments are wherever they are set: exceptions ask for it.
    refusals : list of str, optional
        Takes the reasons why lists, texts and objects that might be values are Python's.

    Returns
    -------
    Graph
    """
    if not is_native:
        types = [ANY if isinstance(one, (ListType, *OBJECT_TYPES)) else one for one in types]
    lists = tuple(number for number, one in enumerate(types) if isinstance(one, ListType))
    methods: Methods | None = None
    if is_native and compile_function is not None:
        methods = Methods(compile_function, notes_attributes=notes_attributes)
    objects = methods.function(graph, object_inputs(types)) if methods is not None else None
    graphs = (graph,) if objects is None else (objects, graph)
    modes = _LIST_MODES if is_native else _LIST_MODES[1:]
    are_nested = any(isinstance(one, ListType) and is_nested(one) for one in types)
    for original, arguments, mode in product(graphs, (lists, ()) if lists else ((),), modes):
        promoted = with_local_lists(
            original, mode, arguments, are_nested=are_nested and bool(arguments)
        )
        if promoted is None:
            if mode != "local" or original is graph:
                continue
            promoted = original
        known = _known_types(promoted, types, has_objects=original is objects)
        shared = SharedLists() if mode == "shared" else None
        try:
            return _with_shared_lists(
                shared,
                partial(
                    _specialized,
                    promoted,
                    known,
                    constants,
                    compile_function,
                    wanted,
                    layer_functions,
                    is_native=is_native,
                    methods=methods if original is objects else None,
                    shared=shared,
                ),
            )
        except ListsAreNotValues as reason:
            _log_lists(graph, reason)
            if refusals is not None:
                refusals.append(str(reason))
    known = _known_types(graph, types, has_objects=False)
    return _specialized(graph, known, constants, compile_function, wanted, layer_functions)


_LIST_MODES: tuple[ListMode, ...] = ("shared", "local", "written")

MAX_ATTEMPTS = 30
"""How often a graph is begun anew because more is known of its lists."""


def _with_shared_lists(shared: SharedLists | None, attempt: Callable[[], Graph]) -> Graph:
    """Try until nothing more is found out of the lists that several may know."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except MoreIsKnown:
            continue
        except SharedListsDiffer as found:
            if shared is None:
                raise
            with suppress(MoreIsKnown):
                shared.unify(*found.types)
    raise ListsAreNotValues("lists of which one attempt after another finds out more")


def _known_types(graph: Graph, types: Sequence[Type], *, has_objects: bool) -> list[Type]:
    """The types of the inputs; nothing is known of lists and objects that are no values."""

    def is_known(value: Value, type_: Type) -> bool:
        if isinstance(type_, OBJECT_TYPES):
            return has_objects
        return not isinstance(type_, ListType) or is_value_argument(value)

    pairs = zip(graph.inputs, types, strict=True)
    return [type_ if is_known(value, type_) else ANY for value, type_ in pairs]


def _log_lists(graph: Graph, reason: ListsAreNotValues) -> None:
    log.debug("specialize", lambda: f"{graph.name}: its lists stay Python's: {reason}")


def _specialized(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None,
    compile_function: CompileFunction | None,
    wanted: set[int] | None,
    layer_functions: LayerFunctions,
    *,
    is_native: bool = False,
    methods: Methods | None = None,
    shared: SharedLists | None = None,
) -> Graph:
    """One attempt; raises ``ListsAreNotValues`` where lists that were promoted must not be."""
    target = Graph(graph.name)
    target.doc = graph.doc
    worker = Specializer(target, compile_function)
    worker.layer_functions = layer_functions
    worker.input_symbols = frozenset(symbol for type_ in types for symbol in symbols_in(type_))
    worker.changing = changing_arrays(graph)
    worker.methods = methods
    environment: Environment = {}
    for number, (param, type_) in enumerate(zip(graph.inputs, types, strict=True)):
        is_constant = constants is not None and number in constants
        new = target.block.add_param(OBJECT if is_constant else type_, param.name)
        if constants is not None and is_constant:
            environment[param] = worker.constant(constants[number])
        else:
            environment[param] = worker.without_type(worker.opened(new), param)
    inputs = dict(zip(graph.inputs, target.inputs, strict=True))
    for capture in graph.captures:
        own = inputs[capture.input] if capture.input else None
        target.captures.append(replace(capture, input=own))
    if shared is not None:
        worker.shared = shared
        worker.keeps_ints = True
        start_heap(worker, graph, inputs)
    values = worker.walk(graph.block, 0, environment)
    if shared is not None:
        shared.settle(INT)
        values = give_shared(worker, values)
    for value in return_objects(worker, values):
        target.block.add_return(worker.known_to_python(value))
    remove_record_states(target)
    if methods is not None and wanted is not None:
        # What would make this native has to be known also where it is given up.
        wanted.update(_input_numbers(target, worker.wanted))
    if (worker.keeps_ints or methods is not None) and not is_surely_native(target.block):
        # Python's own code would not get an int of any size into the array, and has no objects.
        if not (is_native and list_results(target) and is_surely_native(target.block)):
            raise ListsAreNotValues(python_s_part(target.block))
        target.must_be_native = True
    target.must_be_native |= methods is not None or shared is not None
    remove_list_states(target)
    if layer_functions == "kept":
        forget_names(target)
    if wanted is not None:
        wanted.update(_input_numbers(target, worker.wanted))
    return target


def _input_numbers(graph: Graph, values: Sequence[Value]) -> Iterator[int]:
    """The numbers of the graph inputs among these values."""
    for value in values:
        if value in graph.inputs:
            yield graph.inputs.index(value)


class Specializer(BranchBuilder):
    """Walks the old graph and emits the new one."""

    def inline(self, graph: Graph, args: Sequence[Value]) -> Value:
        """Walk another graph in place with these values for its inputs."""
        if len(args) != len(graph.inputs):
            raise Untypable(f"{graph.name} takes {len(graph.inputs)} arguments, not {len(args)}")
        (result,) = self.walk(graph.block, 0, dict(zip(graph.inputs, args, strict=True)))
        return self.known_to_python(result)

    def known_to_python(self, value: Value) -> Value:
        """A value that leaves the part of the program that knows it for a local list."""
        return python_list(self, value) if isinstance(value.type, LocalListType) else value

    def walk(self, block: Block, start: int, environment: Environment) -> list[Value]:
        """Specialize a block's nodes from number ``start``; gives what the block returns."""
        for number in range(start, len(block.nodes)):
            node = block.nodes[number]
            self.source = node.source or self.source
            self.scope_attribute = node.attributes.get("scope")
            if node.kind == "prim::If":
                absorbed = self.visit_if(node, environment, (block, number + 1))
                if absorbed is not None:
                    return absorbed
            elif node.kind in ("prim::Loop", "prim::For"):
                absorbed = self.visit_loop(node, environment, (block, number + 1))
                if absorbed is not None:
                    return absorbed
            elif node.kind in ("prim::Try", "prim::With"):
                self.visit_protected(node, environment)
            elif node.kind == "prim::Raise":
                inputs = [self.known_to_python(environment[value]) for value in node.inputs]
                inputs[:1] = [self.noted(value) for value in inputs[:1]]
                self.block.append(node.kind, inputs, outputs=(), source=node.source)
                return [self.uninitialized() for _ in block.returns]
            else:
                self.visit(node, environment)
        return [environment[value] for value in block.returns]

    def visit(self, node: Node, environment: Environment) -> None:
        """Specialize one node without blocks."""
        inputs = [environment[value] for value in node.inputs]
        if node.kind == "prim::Constant":
            environment[node.output] = self.visit_constant(node)
            return
        if node.kind == "prim::ListPop":
            environment.update(zip(node.outputs, pop_from_list(self, inputs), strict=True))
            return
        if node.kind == "prim::RecordCall":
            environment.update(
                zip(node.outputs, call_changing_method(self, node, inputs), strict=True)
            )
            return
        if node.kind == "prim::Unpack" and is_shared(inputs[0]) and "star" not in node.attributes:
            parts = unpacked_list(self, inputs[0], len(node.outputs))
            environment.update(zip(node.outputs, parts, strict=True))
            return
        if node.kind == "prim::Unpack":
            inputs = list(map(self.known_to_python, inputs))
            for value, part in zip(node.outputs, self.visit_unpack(node, inputs), strict=True):
                environment[value] = self.without_type(part, value)
            return
        result = self.apply_or_keep(node, inputs)
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
        if not is_display or not is_changing(original):
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
        apply_to_stored(self, node, inputs)
        for number, value in enumerate(inputs):
            if isinstance(value.type, UnionType) and node.kind not in _UNION_KEEPERS:
                return self.for_each_alternative(node, inputs, number)
        from_shared = apply_to_shared(self, node, inputs)
        if from_shared is not None:
            return from_shared
        from_character = apply_to_character(self, node, inputs)
        if from_character is not None:
            return from_character
        from_record = apply_to_object(self, node, inputs)
        if from_record is not None:
            return from_record
        from_list = apply_to_list(self, node, inputs)
        if from_list is not None:
            return from_list
        try:
            if node.kind == "prim::getitem" and _is_choice(*inputs):
                elements = self.elements(inputs[0])
                return chosen_element(self, elements, inputs[1], "tuple index out of range")
            return self.apply(node, inputs)
        except Untypable as reason:
            if isinstance(reason, NeedsConstant):
                self.wanted.append(unpacked(reason.value))
            return self.generic(node, inputs, str(reason))

    def for_each_alternative(self, node: Node, inputs: list[Value], number: int) -> Value:
        """Apply an op to a union: once for each type it may have, chosen by the tag."""
        union = inputs[number]
        assert isinstance(union.type, UnionType) and union.node is not None
        tag, *held = union.node.inputs
        parts = iter(held)
        values = [
            self.constant(None) if one == NONE else next(parts) for one in union.type.alternatives
        ]

        def choose(first: int) -> Value:
            def run(which: int) -> list[Value]:
                changed = [*inputs[:number], values[which], *inputs[number + 1 :]]
                return [self.apply_or_keep(node, changed)]

            if first == len(values) - 1:
                return run(first)[0]
            is_this = self.op("prim::eq", tag, first)
            if is_this.constant is not None:
                return run(first)[0] if is_this.constant.attributes["value"] else choose(first + 1)
            return self.split(is_this, [lambda: run(first), lambda: [choose(first + 1)]])[0]

        return choose(0)

    def visit_constant(self, node: Node) -> Value:
        value = node.attributes["value"]
        known = node.output.type
        return self.constant(value, None if known in (ANY, OBJECT) else known)

    def visit_unpack(self, node: Node, inputs: list[Value]) -> list[Value]:
        """``a, b = x``: the elements of a tuple, or the rows of an array of known length."""
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
        return op.rule(self, call)

    def layer_function(self, op: Op, call: Call, layers: Sequence[Any]) -> Value:
        """A function of layers: what its row makes of the call, or the code of the function."""
        if self.layer_functions == "kept":
            raise Untypable("functions of layers are kept")
        before = self.mark()
        try:
            if op.for_processors and self.layer_functions == "definitions":
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


_FOREIGN = {
    "np::call": "NumPy's own function runs, as there is no row for it in the op table",
    **dict.fromkeys(
        [f"prim::{name}" for name in ("ListConstruct", "SetConstruct", "DictConstruct")],
        "it makes a Python object; compiled code has numbers, arrays and tuples",
    ),
}
"""Why there is no row for some kinds."""

_NOTES = frozenset({"starred", "scope", "layers"})

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
