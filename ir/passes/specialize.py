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
type (``None`` and an array, ``int`` and ``float``), the rest of the block is specialized twice, once
in each branch.  A loop whose variables change their type in the first iteration (``s = 0`` before
``s = s + x[i]``) has that iteration peeled.  Both are limited by a budget; beyond it such a
variable has type ``Any`` and its users run in the host program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from jitcore.ir.graph import Block, Graph, Node, SourceRange, Value
from jitcore.ir.ops import TABLE, kind_of, type_of_constant
from jitcore.ir.ops.op import Call, NeedsConstant, Op, Parameter, Untypable
from jitcore.ir.passes.skeletons import (
    UNINITIALIZED,
    Skeleton,
    TupleSkeleton,
    UnionSkeleton,
    common_skeleton,
    declared_types,
    leaves_of,
)
from jitcore.ir.types import (
    ANY,
    INT,
    NONE,
    OBJECT,
    Dim,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["Specializer", "bind", "specialize"]

DUPLICATION_BUDGET = 4000
"""How many nodes one specialization may add by splitting and peeling."""

MAX_DUPLICATE = 200
"""The largest rest of a block that is specialized twice."""

Environment = dict[Value, Value]
CompileFunction = Callable[[Any], Graph | None]


def specialize(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None = None,
    compile_function: CompileFunction | None = None,
    wanted: set[int] | None = None,
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

    Returns
    -------
    Graph
    """
    target = Graph(graph.name)
    target.doc = graph.doc
    worker = Specializer(target, compile_function)
    environment: Environment = {}
    for number, (param, type_) in enumerate(zip(graph.inputs, types, strict=True)):
        is_constant = constants is not None and number in constants
        new = target.block.add_param(OBJECT if is_constant else type_, param.name)
        if constants is not None and is_constant:
            environment[param] = worker.constant(constants[number])
        else:
            environment[param] = worker.open_tuple(new)
    for capture in graph.captures:
        stand_in = environment.get(capture.input) if capture.input else None
        target.captures.append(type(capture)(capture.path, capture.read, capture.value, stand_in))
    for value in worker.walk(graph.block, 0, environment):
        target.block.add_return(value)
    if wanted is not None:
        wanted.update(_input_numbers(target, worker.wanted))
    return target


def _input_numbers(graph: Graph, values: Sequence[Value]) -> Iterator[int]:
    """The numbers of the graph inputs among these values; a tuple's elements stand for it."""
    for value in values:
        while value.node is not None and value.node.kind == "prim::Unpack":
            value = value.node.inputs[0]
        if value in graph.inputs:
            yield graph.inputs.index(value)


class Specializer:
    """The state of one specialization; it is the ``Builder`` that the op table's rules use."""

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

    # Builder ------------------------------------------------------------------------------

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
            return self.tuple(elements, type(value) if hasattr(value, "_fields") else None)
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

    def tuple(self, elements: Sequence[Value], named: Any = None) -> Value:
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

    # Structure ----------------------------------------------------------------------------

    def open_tuple(self, value: Value) -> Value:
        """Give a tuple that came from outside visible elements."""
        if not isinstance(value.type, TupleType):
            return value
        types = value.type.elements
        node = self.block.append("prim::Unpack", [value], {"count": len(types)}, outputs=types)
        return self.tuple([self.open_tuple(one) for one in node.outputs], value.type.named)

    def inline(self, graph: Graph, args: Sequence[Value]) -> Value:
        """Walk another graph in place with these values for its inputs."""
        if len(args) != len(graph.inputs):
            raise Untypable(f"{graph.name} takes {len(graph.inputs)} arguments, not {len(args)}")
        (result,) = self.walk(graph.block, 0, dict(zip(graph.inputs, args, strict=True)))
        return result

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
            elif node.kind == "prim::Raise":
                inputs = [environment[value] for value in node.inputs]
                self.block.append(node.kind, inputs, outputs=(), source=node.source)
                return [self.uninitialized() for _ in block.returns]
            else:
                self.visit(node, environment)
        return [environment[value] for value in block.returns]

    def uninitialized(self) -> Value:
        """A value of no type, for paths that are never read."""
        return self.emit("prim::Uninitialized", [], {}, UNINITIALIZED)

    def visit(self, node: Node, environment: Environment) -> None:
        """Specialize one node without blocks."""
        inputs = [environment[value] for value in node.inputs]
        if node.kind == "prim::Constant":
            environment[node.output] = self.visit_constant(node)
            return
        if node.kind == "prim::Unpack":
            environment.update(zip(node.outputs, self.visit_unpack(node, inputs), strict=True))
            return
        result = self.apply_or_keep(node, inputs)
        if node.outputs:
            self.name_after(result, node.output)
            environment[node.output] = result

    def name_after(self, value: Value, original: Value) -> None:
        """Give a value that has only a number the name it had in the user's program."""
        base = original.name.split(".")[0]
        if value.name.isdigit() and not base.isdigit() and value.constant is None:
            value.name = self.block.graph.unique_name(base)

    def apply_or_keep(self, node: Node, inputs: list[Value]) -> Value:
        """Type one node, or keep it generic with the reason."""
        for number, value in enumerate(inputs):
            if isinstance(value.type, UnionType) and node.kind not in _UNION_KEEPERS:
                return self.for_each_alternative(node, inputs, number)
        try:
            return self.apply(node, inputs)
        except Untypable as reason:
            if isinstance(reason, NeedsConstant):
                self.wanted.append(reason.value)
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
        """``a, b = x``: the elements of a tuple, the rows of an array of known length, or generic."""
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
            return self.inline(node.attributes["graph"], inputs)
        if node.kind == "prim::Uninitialized":
            return self.emit(node.kind, [], node.attributes, UNINITIALIZED)
        op = TABLE.get(node.kind)
        if op is None:
            raise Untypable(f"{node.kind} runs in the host program")
        if "starred" in node.attributes:
            inputs, keywords = self.open_starred(node, inputs), node.keywords
        else:
            keywords = node.keywords
        attributes = {
            key: value
            for key, value in node.attributes.items()
            if key not in ("starred", "scope", "untyped")
        }
        if node.kind in ("prim::Call", "prim::CallMethod"):
            bound = _bind_call(node, inputs, keywords)
        else:
            bound = bind(op.signature, inputs, keywords, attributes)
        folded = None if node.keywords else self.fold(op, inputs, attributes)
        if folded is not None:
            return folded
        return op.rule(self, Call(node.kind, bound, op.signature, node.source))

    def open_starred(self, node: Node, inputs: list[Value]) -> list[Value]:
        """Put the elements of starred arguments in their places."""
        result = []
        for number, value in enumerate(inputs):
            if number in node.attributes["starred"]:
                result.extend(self.elements(value))
            else:
                result.append(value)
        return result

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

    def generic(self, node: Node, inputs: Sequence[Value], reason: str) -> Value:
        """Keep a node as it is, with results of unknown type, and say why."""
        attributes = {**node.attributes, "untyped": reason}
        made = self.block.append(
            node.kind,
            inputs,
            attributes,
            outputs=(ANY,) * len(node.outputs),
            names=[value.name for value in node.outputs],
            keywords=node.keywords,
            source=node.source,
        )
        return made.outputs[0] if made.outputs else self.constant(None)

    # If -----------------------------------------------------------------------------------

    def visit_if(
        self, node: Node, environment: Environment, rest: tuple[Block, int]
    ) -> list[Value] | None:
        """Specialize an ``If``; gives the block's returns where the rest was absorbed."""
        condition = environment[node.inputs[0]]
        if condition.constant is not None:
            taken = node.blocks[0 if condition.constant.attributes["value"] else 1]
            values = self.walk(taken, 0, environment)
            if self.ends_in_raise(taken):
                return [self.uninitialized() for _ in rest[0].returns]
            environment.update(zip(node.outputs, values, strict=True))
            return None
        made, branches = self.build_branches(
            condition,
            [lambda block=block: self.walk(block, 0, dict(environment)) for block in node.blocks],
        )
        merged = self.merge(made, branches)
        if merged is not None:
            environment.update(zip(node.outputs, merged, strict=True))
            return None
        return self.absorb(made, condition, node, branches, environment, rest)

    @staticmethod
    def ends_in_raise(block: Block) -> bool:
        """Whether this block surely raises."""
        return any(node.kind == "prim::Raise" for node in block.nodes)

    def absorb(
        self,
        made: Node,
        condition: Value,
        node: Node,
        branches: list[list[Value]],
        environment: Environment,
        rest: tuple[Block, int],
    ) -> list[Value] | None:
        """Specialize the rest of the block in each branch, or merge what conflicts as ``Any``."""
        block, start = rest
        cost = 1 + sum(1 for _ in _nodes_after(block, start))
        if cost > min(self.budget, MAX_DUPLICATE):
            environment.update(zip(node.outputs, self.merge_as_any(made, branches), strict=True))
            return None
        self.budget -= cost
        self.discard(made)

        def branch(inner: Block) -> Callable[[], list[Value]]:
            def run() -> list[Value]:
                local = dict(environment)
                values = self.walk(inner, 0, local)
                if self.ends_in_raise(inner):
                    return [self.uninitialized() for _ in block.returns]
                local.update(zip(node.outputs, values, strict=True))
                return self.walk(block, start, local)

            return run

        return self.split(condition, [branch(inner) for inner in node.blocks])

    def split(self, condition: Value, runs: list[Callable[[], list[Value]]]) -> list[Value]:
        """An ``If`` whose branches end the surrounding block."""
        made, branches = self.build_branches(condition, runs)
        merged = self.merge(made, branches)
        return self.merge_as_any(made, branches) if merged is None else merged

    def build_branches(
        self, condition: Value, runs: list[Callable[[], list[Value]]]
    ) -> tuple[Node, list[list[Value]]]:
        """An ``If`` without outputs, and what each branch would return."""
        made = self.block.append("prim::If", [condition], outputs=(), source=self.source)
        branches = []
        for run in runs:
            outer = self.open_scope(made.add_block())
            branches.append(run())
            self.close_scope(outer)
        return made, branches

    def discard(self, node: Node) -> None:
        """Take back a node whose outputs nobody reads."""
        assert node.block is not None and node.block.nodes[-1] is node
        node.drop_inputs()
        node.block.nodes.pop()

    def merge(
        self, made: Node, branches: list[list[Value]], *, unions: bool = False
    ) -> list[Value] | None:
        """Give an ``If`` its outputs; None where some have no common type."""
        plans = []
        for pair in zip(*branches, strict=True):
            skeleton = common_skeleton(pair, unions=unions)
            if skeleton is None:
                return None
            rows = [
                leaves_of(value, skeleton, block)
                for value, block in zip(pair, made.blocks, strict=True)
            ]
            leaves = list(zip(*rows, strict=True))
            types = [
                declared or self.join([one.type for one in column])
                for declared, column in zip(declared_types(skeleton), leaves, strict=True)
            ]
            if None in types:
                return None
            plans.append((skeleton, leaves, types))
        return [self.add_merged(made, *plan) for plan in plans]

    def add_merged(
        self,
        made: Node,
        skeleton: Skeleton,
        leaves: list[tuple[Value, ...]],
        types: list[Type | None],
    ) -> Value:
        """One variable's outputs, put together again."""
        outputs = []
        for column, type_ in zip(leaves, types, strict=True):
            assert type_ is not None
            if all(value is column[0] for value in column) and self.is_outer(column[0], made):
                outputs.append(column[0])
                continue
            outputs.append(made.add_output(type_, _given_name(column)))
            for block, value in zip(made.blocks, column, strict=True):
                block.add_return(value)
        return self.rebuild(skeleton, iter(outputs))

    @staticmethod
    def is_outer(value: Value, made: Node) -> bool:
        """Whether a value was made outside this node."""
        block: Block | None = value.node.block if value.node is not None else value.block
        while block is not None:
            if block.owner is made:
                return False
            block = block.owner.block if block.owner is not None else None
        return True

    def rebuild(self, skeleton: Skeleton, leaves: Iterator[Value]) -> Value:
        """Put leaves back into the tuples and unions they came from."""
        if isinstance(skeleton, TupleSkeleton):
            parts = [self.rebuild(part, leaves) for part in skeleton.parts]
            return self.tuple(parts, skeleton.named)
        if isinstance(skeleton, UnionSkeleton):
            count = 1 + sum(one != NONE for one in skeleton.alternatives)
            held = [next(leaves) for _ in range(count)]
            type_ = UnionType(skeleton.alternatives)
            return self.emit("prim::UnionConstruct", held, {"types": skeleton.alternatives}, type_)
        return next(leaves)

    def merge_as_any(self, made: Node, branches: list[list[Value]]) -> list[Value]:
        """Give an ``If`` its outputs, unions or of type ``Any`` where there is no common type."""
        as_unions = self.merge(made, branches, unions=True)
        if as_unions is not None:
            return as_unions
        merged = []
        for pair in zip(*branches, strict=True):
            type_ = self.join([one.type for one in pair]) or ANY
            for block, value in zip(made.blocks, pair, strict=True):
                block.add_return(value)
            merged.append(made.add_output(type_))
        return merged

    def join(self, types: Sequence[Type]) -> Type | None:
        """The type that covers all of these, or None."""
        known = [one for one in types if one != UNINITIALIZED]
        if not known:
            return UNINITIALIZED
        result: Type | None = known[0]
        for other in known[1:]:
            result = None if result is None else self.join_two(result, other)
        if isinstance(result, TensorType) and result.dims is not None:
            dims = tuple(self.exported(dim) for dim in result.dims)
            result = TensorType(result.dtype, dims, result.scalar)
        return result

    def exported(self, dim: Dim) -> Dim:
        """A dim that may be named outside the scope just left."""
        return self.fresh_dim() if dim in self.closed_symbols else dim

    def widen(self, type_: Type, returned: Type, widened: set[Dim]) -> Type | None:
        """The type of a loop's variable, given what it was and what an iteration returns.

        A dim that varies gets a symbol of its own, once.
        """
        if returned == UNINITIALIZED or type_ == UNINITIALIZED:
            return returned if type_ == UNINITIALIZED else type_
        result = self.join_two(type_, returned)
        if not isinstance(result, TensorType) or result.dims is None:
            return result
        assert isinstance(type_, TensorType) and isinstance(returned, TensorType)
        dims = []
        for old, new in zip(type_.dims or (), returned.dims or (), strict=True):
            if old != new and old not in widened:
                old = self.fresh_dim()
                widened.add(old)
            dims.append(old)
        return TensorType(result.dtype, tuple(dims), result.scalar)

    def join_two(self, first: Type, second: Type) -> Type | None:
        """The type that covers both, with a fresh symbol for each dim that differs."""
        if first == second:
            return first
        if ANY in (first, second):
            return ANY
        if not (isinstance(first, TensorType) and isinstance(second, TensorType)):
            return None
        if first.dtype is None or second.dtype is None:
            return TensorType() if not (first.scalar or second.scalar) else None
        if first.dtype != second.dtype or first.scalar != second.scalar:
            return None
        if first.dims is None or second.dims is None or first.rank != second.rank:
            return None
        dims = tuple(
            one if one == other else self.fresh_dim()
            for one, other in zip(first.dims, second.dims, strict=True)
        )
        return TensorType(first.dtype, dims)

    # Loops --------------------------------------------------------------------------------

    def visit_loop(
        self, node: Node, environment: Environment, rest: tuple[Block, int]
    ) -> list[Value] | None:
        """Specialize ``prim::Loop`` or ``prim::For``."""
        from jitcore.ir.passes.specialize_loops import visit_loop

        return visit_loop(self, node, environment, rest)


_UNION_KEEPERS = frozenset(
    {"prim::TupleConstruct", "prim::ListConstruct", "prim::UnionConstruct", "prim::CallFunction"}
)
_FOLDABLE = (int, float, bool, complex, str, type(None), tuple)
_NEVER_FOLDED = frozenset({"prim::TupleConstruct", "prim::range", "prim::zip", "prim::slice"})


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


def bind(
    signature: Sequence[Parameter],
    inputs: Sequence[Value],
    keywords: Sequence[str],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Arguments by parameter name; a variadic parameter takes the rest as a list.

    Raises
    ------
    Untypable
        They do not fit, or pass an argument that only NumPy handles.
    """
    bound: dict[str, Any] = dict(attributes)
    positional = list(inputs[: len(inputs) - len(keywords)])
    for parameter in signature:
        if parameter.variadic:
            bound[parameter.name] = positional
            positional = []
            break
        if not positional:
            break
        bound[parameter.name] = positional.pop(0)
    if positional:
        raise Untypable("too many arguments")
    by_name = {parameter.name: parameter for parameter in signature}
    for name, value in zip(keywords, inputs[len(inputs) - len(keywords) :], strict=True):
        if name not in by_name or name in bound:
            raise Untypable(f"argument {name!r} is not compiled")
        bound[name] = value
    for name, value in bound.items():
        parameter = by_name.get(name)
        if parameter is not None and not parameter.compiled and not _is_default(value, parameter):
            raise Untypable(f"argument {name!r} is not compiled")
    return bound


def _is_default(value: Any, parameter: Parameter) -> bool:
    if isinstance(value, Value):
        if value.constant is None:
            return False
        value = value.constant.attributes["value"]
    return bool(type(value) is type(parameter.default) and value == parameter.default)


def _nodes_after(block: Block, start: int) -> Iterator[Node]:
    def walk(nodes: Sequence[Node]) -> Iterator[Node]:
        for node in nodes:
            yield node
            for inner in node.blocks:
                yield from walk(inner.nodes)

    return walk(block.nodes[start:])


def _given_name(values: Sequence[Value]) -> str:
    """The user's name among these values' names, if there is one."""
    names = (value.name.split(".")[0] for value in values)
    return next((name for name in names if not name.isdigit()), "")
