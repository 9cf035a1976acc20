"""Expressions: operators, displays, subscripts, comprehensions, f-strings."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitcore.frontend.bindings import Comprehension, assigned_names, target_names
from jitcore.frontend.environment import Binding
from jitcore.frontend.names import Static
from jitcore.frontend.static_items import StaticItems
from jitcore.ir.graph import Value
from jitcore.ir.types import ANY, BOOL, STR

__all__ = ["BINARY", "COMPARISONS", "UNARY", "Expressions"]

BINARY: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.MatMult: "matmul",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
}

UNARY: dict[type[ast.unaryop], str] = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}

COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "isnot",
    ast.In: "in_",
    ast.NotIn: "notin",
}

_ALWAYS_BOOL = (ast.Is, ast.IsNot, ast.In, ast.NotIn)

_CONVERSIONS: dict[int, Callable[..., str]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}


class Expressions(StaticItems):
    """Emits expressions; calls are in a class of their own."""

    def emit(self, node: ast.expr) -> Value:
        """Emit an expression and give its value."""
        method: Callable[[Any], Value] | None = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            self.unsupported(node)
        # As `at` does, which takes longer than most expressions.
        before, self.where = self.where, self.source.range_of(node)
        value = method(node)
        self.where = before
        return value

    def condition(self, node: ast.expr) -> Value:
        """Python's truth of an expression, each part of which is tested at most once."""
        with self.at(node):
            if isinstance(node, ast.Constant):
                return self.constant(bool(node.value))
            if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
                return self._not(node.operand)
            if isinstance(node, ast.BoolOp):
                conjunction = isinstance(node.op, ast.And)
                return self._condition_chain(node.values, conjunction=conjunction)
            if isinstance(node, ast.Compare) and len(node.ops) > 1:
                return self._comparison_chain(self.emit(node.left), node, 0, as_condition=True)
            return self.truth(self.emit(node))

    def _condition_chain(self, operands: Sequence[ast.expr], *, conjunction: bool) -> Value:
        first = self.condition(operands[0])
        if len(operands) == 1:
            return first

        def proceed() -> list[Value]:
            return [self._condition_chain(operands[1:], conjunction=conjunction)]

        def stop() -> list[Value]:
            return [self.constant(not conjunction)]

        arms = (proceed, stop) if conjunction else (stop, proceed)
        return self.branch(first, *arms)[0]

    def _not(self, operand: ast.expr) -> Value:
        chain = isinstance(operand, ast.BoolOp) or (
            isinstance(operand, ast.Compare) and len(operand.ops) > 1
        )
        inner = self.condition(operand) if chain else self.emit(operand)
        return self.node("prim::not_", (inner,), outputs=(BOOL,)).output

    # Leaves

    def _Lambda(self, node: ast.Lambda) -> Value:
        return self.function_value(node)

    def _GeneratorExp(self, node: ast.GeneratorExp) -> Value:
        return self.generator_value(node)

    def _Constant(self, node: ast.Constant) -> Value:
        return self.constant(node.value)

    def _Name(self, node: ast.Name) -> Value:
        return self.read(node)

    def _Attribute(self, node: ast.Attribute) -> Value:
        static = self.attribute(node)
        if static is None or (static.receiver and not isinstance(static.value, property)):
            if static is not None and static.receiver is not None:
                self.note_stored_by(static.receiver)  # whoever gets the method may call it
            return self.value("prim::GetAttr", self.emit(node.value), name=node.attr)
        if issubclass(type(static.value), property):
            return self.read_property(node, static)
        return self.static_value(static)

    def _NamedExpr(self, node: ast.NamedExpr) -> Value:
        value = self.emit(node.value)
        self.bind(node.target.id, value)
        return value

    # Operators

    def _BinOp(self, node: ast.BinOp) -> Value:
        # A long sum is a deep tree of left operands, which recursion need not follow.
        spine = [node]
        while isinstance(spine[-1].left, ast.BinOp):
            spine.append(spine[-1].left)
        value = self.emit(spine[-1].left)
        for operation in reversed(spine):
            right = self.emit(operation.right)
            with self.at(operation):
                value = self.value(f"prim::{BINARY[type(operation.op)]}", value, right)
        return value

    def _UnaryOp(self, node: ast.UnaryOp) -> Value:
        if isinstance(node.op, ast.Not):
            return self._not(node.operand)
        operand = node.operand
        if isinstance(node.op, ast.USub) and isinstance(operand, ast.Constant):
            value = operand.value
            if isinstance(value, int | float | complex) and not isinstance(value, bool):
                return self.constant(-value)
        return self.value(f"prim::{UNARY[type(node.op)]}", self.emit(operand))

    def _BoolOp(self, node: ast.BoolOp) -> Value:
        return self._bool_chain(node.values, conjunction=isinstance(node.op, ast.And))

    def _bool_chain(self, operands: Sequence[ast.expr], *, conjunction: bool) -> Value:
        first = self.emit(operands[0])
        if len(operands) == 1:
            return first

        def proceed() -> list[Value]:
            return [self._bool_chain(operands[1:], conjunction=conjunction)]

        def stop() -> list[Value]:
            return [first]

        arms = (proceed, stop) if conjunction else (stop, proceed)
        return self.branch(self.truth(first), *arms)[0]

    def _IfExp(self, node: ast.IfExp) -> Value:
        condition = self.condition(node.test)
        return self.branch(
            condition, lambda: [self.emit(node.body)], lambda: [self.emit(node.orelse)]
        )[0]

    def _Compare(self, node: ast.Compare) -> Value:
        is_known = self.is_element_name(node)
        if is_known is not None:
            return self.constant(is_known)
        return self._comparison_chain(self.emit(node.left), node, 0, as_condition=False)

    def _comparison_chain(
        self, left: Value, node: ast.Compare, index: int, *, as_condition: bool
    ) -> Value:
        """The comparisons from ``index`` on; the rest runs only where this one holds."""
        operator = node.ops[index]
        right = self.emit(node.comparators[index])
        kind = f"prim::{COMPARISONS[type(operator)]}"
        type_ = BOOL if isinstance(operator, _ALWAYS_BOOL) else ANY
        result = self.node(kind, (left, right), outputs=(type_,)).output
        if index == len(node.ops) - 1:
            return self.truth(result) if as_condition else result
        truth = self.truth(result)

        def proceed() -> list[Value]:
            return [self._comparison_chain(right, node, index + 1, as_condition=as_condition)]

        # As a value, a chain that stops early is the comparison's own result.
        return self.branch(truth, proceed, lambda: [truth if as_condition else result])[0]

    # Displays and subscripts

    def _Tuple(self, node: ast.Tuple) -> Value:
        if _has_star(node.elts):
            return self.call(tuple, self._starred_display(node.elts, "List", "append", "extend"))
        return self.value("prim::TupleConstruct", *map(self.emit, node.elts))

    def _List(self, node: ast.List) -> Value:
        if _has_star(node.elts):
            return self._starred_display(node.elts, "List", "append", "extend")
        return self.value("prim::ListConstruct", *map(self.emit, node.elts))

    def _Set(self, node: ast.Set) -> Value:
        if _has_star(node.elts):
            return self._starred_display(node.elts, "Set", "add", "update")
        return self.value("prim::SetConstruct", *map(self.emit, node.elts))

    def _starred_display(
        self, elements: Sequence[ast.expr], kind: str, one: str, many: str
    ) -> Value:
        """A display with ``*x`` in it: an empty collection that grows."""
        result = self.value(f"prim::{kind}Construct")
        for element in elements:
            starred = isinstance(element, ast.Starred)
            item = self.emit(element.value if isinstance(element, ast.Starred) else element)
            self.value("prim::CallMethod", result, item, name=many if starred else one)
        return result

    def _Dict(self, node: ast.Dict) -> Value:
        if None not in node.keys:
            pairs = [
                self.emit(part)
                for pair in zip(node.keys, node.values, strict=True)
                for part in pair
                if part is not None
            ]
            return self.value("prim::DictConstruct", *pairs)
        result = self.value("prim::DictConstruct")
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                self.value("prim::CallMethod", result, self.emit(value), name="update")
            else:
                self.set_item(result, self.emit(key), self.emit(value))
        return result

    def set_item(self, container: Value, index: Value, value: Value) -> None:
        """``container[index] = value``."""
        self.node("prim::setitem", (container, index, value), outputs=())

    def _Slice(self, node: ast.Slice) -> Value:
        parts = [
            self.emit(part) if part is not None else self.constant(None)
            for part in (node.lower, node.upper, node.step)
        ]
        return self.value("prim::slice", *parts)

    def _Subscript(self, node: ast.Subscript) -> Value:
        static = self.static(node)
        if static is not None:
            return self.static_value(static)
        container = self.emit(node.value)
        return self.value("prim::getitem", container, self.emit(node.slice))

    # Text

    def _JoinedStr(self, node: ast.JoinedStr) -> Value:
        if all(isinstance(part, ast.Constant) for part in node.values):
            return self.constant("".join(ast.literal_eval(part) for part in node.values))
        parts = [self.emit(part) for part in node.values]
        return self.node("prim::FormatString", parts, outputs=(STR,)).output

    def _FormattedValue(self, node: ast.FormattedValue) -> Value:
        value = self.emit(node.value)
        if node.conversion in _CONVERSIONS:
            value = self.call(_CONVERSIONS[node.conversion], value)
        if node.format_spec is None:
            return self.call(format, value)
        return self.call(format, value, self.emit(node.format_spec))

    # Comprehensions

    def _ListComp(self, node: ast.ListComp) -> Value:
        return self.collect(node, "List", "append")

    def _SetComp(self, node: ast.SetComp) -> Value:
        return self.collect(node, "Set", "add")

    def _DictComp(self, node: ast.DictComp) -> Value:
        result: list[Value] = []

        def start() -> None:
            result.append(self.value("prim::DictConstruct"))

        def add() -> None:
            self.set_item(result[0], self.emit(node.key), self.emit(node.value))

        self._comprehend(node, start, add)
        return result[0]

    def collect(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, kind: str, method: str
    ) -> Value:
        """All elements of a comprehension in a new list or set."""
        first = node.generators[0]
        items = None
        if kind == "List" and len(node.generators) == 1 and not first.ifs:
            items = self.static_items(first.iter)
        if items is not None:
            return self._collected(node, items)
        result: list[Value] = []

        def start() -> None:
            result.append(self.value(f"prim::{kind}Construct"))

        def add() -> None:
            self.value("prim::CallMethod", result[0], self.emit(node.elt), name=method)

        self._comprehend(node, start, add)
        return result[0]

    def _collected(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp, items: Any) -> Value:
        """The list of a comprehension whose items are known."""
        target = node.generators[0].target
        values = []
        with self._inner_scope(target_names(target)):
            for item in items:
                self.assign_item(target, item)
                values.append(self.emit(node.elt))
        return self.value("prim::ListConstruct", *values)

    def search(self, node: ast.GeneratorExp, *, wanted: bool) -> Value:
        """``any`` (``wanted``) or ``all`` of a generator: stops at the first decisive element."""
        self.search_count += 1
        flag = f".found.{self.search_count}" if wanted else f".holds.{self.search_count}"

        def start() -> None:
            self.bind(flag, self.constant(not wanted))

        def test() -> None:
            self.bind(flag, self.condition(node.elt))

        def go_on() -> Value:
            value = self.environment.bindings[flag].value
            return self.node("prim::not_", (value,), outputs=(BOOL,)).output if wanted else value

        self._comprehend(node, start, test, (flag, go_on))
        return self.environment.bindings.pop(flag).value

    def _comprehend(
        self,
        node: Comprehension,
        start: Callable[[], None],
        element: Callable[[], None],
        search: tuple[str, Callable[[], Value]] | None = None,
    ) -> None:
        """Emit the loops of a comprehension.

        Parameters
        ----------
        node : Comprehension
        start : callable
            Emits what comes after the first iterable and before the loops.
        element : callable
            Emits what is done with each element.
        search : tuple of str and callable, optional
            A flag that an element sets, and what emits whether the loops go on.
        """
        if any(generator.is_async for generator in node.generators):
            self.unsupported(node, "AsyncFor")
        items = None if search is not None else self.static_items(node.generators[0].iter)
        iterable = None if items is not None else self.emit(node.generators[0].iter)
        start()
        carried = assigned_names([node])
        if search is not None:
            carried.append(search[0])
        inner = [name for part in node.generators for name in target_names(part.target)]
        with self._inner_scope(inner):
            go_on = search[1] if search else lambda: self.constant(True)
            if iterable is not None:
                self._generate(iterable, node.generators, carried, element, go_on)
                return
            for item in items or ():
                self.assign_item(node.generators[0].target, item)
                self._filter(
                    node.generators[0].ifs,
                    lambda: self._inner_generators(node.generators[1:], carried, element, go_on),
                )

    def _inner_generators(
        self,
        generators: Sequence[ast.comprehension],
        carried: Sequence[str],
        element: Callable[[], None],
        go_on: Callable[[], Value],
    ) -> None:
        """The loops of a comprehension inside of the first."""
        if not generators:
            return element()
        inner = self.emit(generators[0].iter)
        return self._generate(inner, generators, carried, element, go_on)

    def _generate(
        self,
        iterable: Value,
        generators: Sequence[ast.comprehension],
        carried: Sequence[str],
        element: Callable[[], None],
        go_on: Callable[[], Value],
    ) -> None:
        first, *rest = generators

        def proceed() -> None:
            self._inner_generators(rest, carried, element, go_on)

        def body(item: Value) -> Value:
            self.assign(first.target, item)
            self._filter(first.ifs, proceed)
            return go_on()

        with self.at(first.target):
            name = first.target.id if isinstance(first.target, ast.Name) else "item"
            self.loop("prim::For", (iterable,), (name, ANY), carried, body)

    def _filter(self, tests: Sequence[ast.expr], proceed: Callable[[], None]) -> None:
        """Run ``proceed`` where all tests hold."""
        if not tests:
            return proceed()

        def inside() -> list[Value]:
            self._filter(tests[1:], proceed)
            return []

        self.branch(self.condition(tests[0]), inside, lambda: [])
        return None

    @contextmanager
    def _inner_scope(self, names: Sequence[str]) -> Iterator[None]:
        """Make names local to a comprehension; they are unbound at first."""
        locals_before, stable_before = self.locals, self.stable
        self.locals = locals_before | frozenset(names)
        # All functions made by a comprehension see the last item.
        self.stable = stable_before - frozenset(names)
        bindings = self.environment.bindings
        hidden: dict[str, Binding] = {n: bindings.pop(n) for n in names if n in bindings}
        cells_before = self.cells
        self.cells = [{n: c for n, c in one.items() if n not in names} for one in cells_before]
        with self.comprehension_cells(names):
            yield
        self.cells = cells_before
        self.locals, self.stable = locals_before, stable_before
        for name in names:
            self.environment.bindings.pop(name, None)
        self.environment.bindings.update(hidden)

    def assign(self, target: ast.expr, value: Value) -> None:
        """Assign to any target; statements define it."""
        raise NotImplementedError

    def note_stored_by(self, layer: Static) -> None:
        """Note what a layer may assign in code that is not compiled; calls define it."""
        raise NotImplementedError

    def read_property(self, node: ast.Attribute, static: Static) -> Value:
        """What a property of a layer gives; calls define it."""
        raise NotImplementedError


def _has_star(elements: Sequence[ast.expr]) -> bool:
    return any(isinstance(element, ast.Starred) for element in elements)
