"""Branches, loops and exceptions."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Call,
    Const,
    Do,
    Expr,
    For,
    If,
    Stmt,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import (
    FALSE,
    ONE,
    TRUE,
    ZERO,
    both,
    compare,
    not_,
)
from jitcore.codegen.lowering.broadcasting import type_dims
from jitcore.codegen.lowering.copied_arrays import CopiedArray, settle
from jitcore.codegen.lowering.merging import Merge, is_placeholder, placeholder
from jitcore.codegen.lowering.operands import (
    ArrayRef,
    NotNative,
    Operand,
    Order,
    Owner,
    Pair,
    Static,
    row_major,
)
from jitcore.codegen.lowering.orders import lasting_order
from jitcore.codegen.lowering.state import NULL, Lowering, Rule
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Node, Value

__all__ = ["RULES"]

ENDLESS = 2**63 - 1
"""The trip count of a ``while`` loop."""


# Branches ---------------------------------------------------------------------------------


def _if(lowering: Lowering, node: Node) -> Operand:
    condition = lowering.scalar(node.inputs[0])
    bodies: list[list[Stmt]] = []
    branches: list[Sequence[Operand] | None] = []
    contiguous: set[int] = set()
    before, ends = lowering.lists_end, []
    for number, block in enumerate(node.blocks):
        body: list[Stmt] = []
        bodies.append(body)
        lowering.lists_end = before
        with lowering.scope(body):
            lowering.ranges.assume_condition(condition, holds=number == 0)
            branches.append(_branch(lowering, block, contiguous))
        ends.append(lowering.lists_end)
    lowering.lists_end = any(ends)
    merge = Merge(lowering, branches, contiguous)
    outputs = [merge.output(number, value) for number, value in enumerate(node.outputs)]
    for body, assignments in zip(bodies, merge.assignments, strict=True):
        body.extend(Assign(var, value) for var, value in assignments)
    then, orelse = bodies
    lowering.emitter.emit(If(condition, then, orelse))
    if branches and all(branch is None for branch in branches):
        lowering.unreachable()
    outputs = [merge.settled(operand) for operand in outputs]
    for operand in outputs:
        if isinstance(operand, ArrayRef) and operand.owner is not None:
            lowering.own(operand.owner)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _branch(lowering: Lowering, block: Block, contiguous: set[int]) -> list[Operand] | None:
    """What a branch returns, with a reference kept to each array; None if it never ends."""
    if block.raises and not lowering.has_written and not _raises_constant(block):
        # Nothing has happened yet: the plain function starts anew, and raises.
        lowering.fail(TRUE, None, "an exception")
        return None
    try:
        lowering.block(block)
    except NotNative as reason:
        if block.raises:
            # Where the exception is made is no reason to run that alone in Python.
            reason.node = block.owner
        raise
    if lowering.emitter.terminated:
        return None
    operands = [_returned(lowering, value) for value in block.returns]
    for operand in operands:
        if isinstance(operand, ArrayRef):
            lowering.keep(operand.owner)
            if lowering.is_contiguous(operand):
                contiguous.add(id(operand))
    return operands


def _raises_constant(block: Block) -> bool:
    """Whether a block does nothing but raise a built-in exception that is known now."""
    *made, raised = (node for node in block.nodes if node.kind != "prim::Constant")
    if raised.kind != "prim::Raise" or len(made) > 1:
        return False
    call = made[0] if made else raised
    if call.keywords:
        return False
    exception, *message = map(_held, call.inputs)
    known = isinstance(exception, type) and exception in vars(builtins).values()
    return known and all(isinstance(one, str) for one in message)


def _held(value: Value) -> object:
    return None if value.constant is None else value.constant.attributes["value"]


def _returned(lowering: Lowering, value: Value) -> Operand:
    operand = lowering.operand(value)
    if isinstance(operand, tuple):
        raise NotNative("a tuple leaves a block")
    return operand


# Loops ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """What stays true of an array that a loop carries, however often the loop runs.

    Parameters
    ----------
    at_start : bool
        It begins where its pointer points.
    contiguous : bool
        It is in C order without gaps.
    whole, nullable : bool
        As for ``ArrayRef`` and ``Owner``.
    owned : bool
        It may be an allocation of this function.
    roots : frozenset of str
    order : tuple of int or None
        As for ``ArrayRef``.
    """

    at_start: bool
    contiguous: bool
    whole: bool
    nullable: bool
    owned: bool
    roots: frozenset[str]
    order: Order | None

    def joined(self, other: Form) -> Form:
        """What is true of both."""
        return Form(
            self.at_start and other.at_start,
            self.contiguous and other.contiguous,
            self.whole and other.whole,
            self.nullable or other.nullable,
            self.owned or other.owned,
            self.roots | other.roots,
            _joined_order(self.order, other.order),
        )


def _joined_order(one: Order | None, two: Order | None) -> Order | None:
    """The order of a variable that has one or the other; a placeholder has an empty one."""
    if not one or not two:
        return None if one is None or two is None else one or two
    return one if one == two else None


def _form(lowering: Lowering, array: ArrayRef) -> Form:
    if is_placeholder(array):
        return Form(True, True, True, False, False, frozenset(), ())
    return Form(
        array.offset == ZERO,
        lowering.is_contiguous(array),
        array.whole,
        array.owner is None or array.owner.nullable,
        array.owner is not None,
        array.roots,
        lasting_order(array),
    )


class Carried:
    """One variable that a loop carries from iteration to iteration."""

    def __init__(
        self, lowering: Lowering, param: Value, initial: Operand, form: Form | None
    ) -> None:
        self.lowering = lowering
        self.param = param
        self.initial = initial
        self.form = form
        self.known_dims: list[Expr | None] = []
        if isinstance(initial, ArrayRef):
            self.known_dims = [lowering.symbol(dim) for dim in type_dims(param)]
        self.vars: dict[str, Var] = {}
        self.owner: Owner | None = None
        for key, value in self._pieces(initial).items():
            suffix = f"_{key}" if key else ""
            self.vars[key] = lowering.emitter.mutable(f"{param.name}{suffix}", value)
        if form is not None and form.owned:
            self._declare_owner(initial)

    def _declare_owner(self, initial: ArrayRef) -> None:
        self.lowering.keep(initial.owner)
        var = self.lowering.emitter.mutable(f"{self.param.name}_object", _address(initial))
        assert self.form is not None
        self.owner = Owner(var, is_object=True, nullable=self.form.nullable)
        self.lowering.own(self.owner)

    def _pieces(self, operand: Operand) -> dict[str, Expr]:
        """The expressions that make up an operand, by the suffix of their variables."""
        if isinstance(operand, Pair):
            return {"re": operand.re, "im": operand.im}
        if not isinstance(operand, ArrayRef):
            return {"": operand}
        assert self.form is not None
        pieces = {"": operand.pointer}
        if not self.form.at_start:
            pieces["offset"] = operand.offset
        for axis, known in enumerate(self.known_dims):
            if known is None:
                pieces[f"d{axis}"] = operand.dims[axis]
        if not self.form.contiguous:
            pieces |= {f"s{axis}": stride for axis, stride in enumerate(operand.strides)}
        return pieces

    def current(self, value: Value) -> Operand:
        """The value the variable has now, in variables that will not change."""
        copy = self.lowering.emitter.copy
        found = {key: copy(var.name, var) for key, var in self.vars.items()}
        if isinstance(self.initial, Pair):
            return Pair(found["re"], found["im"])
        if not isinstance(self.initial, ArrayRef):
            return found[""]
        return self._current_array(value, found)

    def _current_array(self, value: Value, found: dict[str, Var]) -> ArrayRef:
        assert self.form is not None
        lowering = self.lowering
        lowering.note_carried(found[""])
        dims: list[Expr] = []
        for axis, (dim, known) in enumerate(zip(type_dims(value), self.known_dims, strict=True)):
            dims.append(lowering.define(dim, known or found[f"d{axis}"]))
        strides: tuple[Expr, ...]
        if self.form.contiguous:
            strides = lowering.strides(dims)
        else:
            strides = tuple(found[f"s{axis}"] for axis in range(len(dims)))
        return ArrayRef(
            found[""],
            tuple(dims),
            strides,
            self.initial.dtype,
            self.form.roots,
            found.get("offset", ZERO),
            owner=self.owner,
            whole=self.form.whole,
            # Nothing is read of a variable without a value.
            order=row_major(len(dims)) if self.form.order == () else self.form.order,
        )

    def prepare(self, operand: Operand) -> list[tuple[Var, Expr]]:
        """Keep what an iteration returns; gives the assignments that make it current."""
        if isinstance(operand, Static):
            operand = placeholder(self.param)
            if isinstance(operand, Static):
                return []
        assignments = [(self.vars[key], value) for key, value in self._pieces(operand).items()]
        if self.owner is not None:
            self.lowering.keep(operand.owner)
            assert isinstance(self.owner.pointer, Var)
            # A copy: another carried variable's object may be assigned first.
            address = self.lowering.emitter.copy("next_object", _address(operand))
            assignments.append((self.owner.pointer, address))
        return assignments

    def drop_old(self) -> None:
        """Give up the reference of the iteration before."""
        if self.owner is not None:
            drop = Call("jc_decref", (self.owner.pointer,), "void", external=True)
            self.lowering.emitter.emit(Do(drop))


def _address(array: ArrayRef) -> Expr:
    return NULL if array.owner is None else array.owner.pointer


def _loop(lowering: Lowering, node: Node) -> Operand:
    block = node.blocks[0]
    initial = [lowering.operand(value) for value in node.inputs[2:]]
    for number, param in enumerate(block.params[1:]):
        if initial[number] == Static(None):
            initial[number] = placeholder(param)
    forms = lowering.loop_forms.setdefault(
        node,
        [
            _form(lowering, one) if isinstance(one, ArrayRef) and not is_copied else None
            for one, is_copied in zip(initial, _are_copied(lowering, block), strict=True)
        ],
    )
    # A body that returns arrays of another form than it was lowered for is lowered again.
    while True:
        snapshot = lowering.snapshot()
        attempt = LoopAttempt(lowering, node, initial, forms)
        found = attempt.lower()
        joined = [
            one if one is None or two is None else one.joined(two)
            for one, two in zip(forms, found, strict=True)
        ]
        if joined == forms:
            break
        forms[:] = joined
        lowering.restore(snapshot)
    assert len(block.returns) == len(initial) + 1
    outputs = attempt.outputs()
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def _are_copied(lowering: Lowering, block: Block) -> list[bool]:
    """For each variable of a loop whether its elements are copied."""
    return [param in lowering.copied for param in block.params[1:]]


class LoopAttempt:
    """A loop lowered under the assumption that its carried arrays have certain forms."""

    def __init__(
        self,
        lowering: Lowering,
        node: Node,
        initial: Sequence[Operand],
        forms: Sequence[Form | None],
    ) -> None:
        self.lowering = lowering
        self.node = node
        self.block = node.blocks[0]
        self.initial = initial
        self.carried: list[Carried | CopiedArray | None] = []
        for number, (operand, form) in enumerate(zip(initial, forms, strict=True), 1):
            param = self.block.params[number]
            is_constant = self.block.returns[number] is param or isinstance(
                operand, (Static, tuple)
            )
            if is_constant:
                self.carried.append(None)
            elif param in lowering.copied and isinstance(operand, ArrayRef):
                self.carried.append(CopiedArray(lowering, node, param, operand))
            else:
                self.carried.append(Carried(lowering, param, operand, form))

    def lower(self) -> list[Form | None]:
        """Emit the loop; gives the forms of the arrays that an iteration returns."""
        trip, condition = (self.lowering.scalar(value) for value in self.node.inputs[:2])
        if condition == TRUE and not (isinstance(trip, Const) and trip.value == ENDLESS):
            return self._counted(trip)
        return self._conditional(trip, condition)

    def _counted(self, trip: Expr) -> list[Form | None]:
        emitter = self.lowering.emitter
        index = Var(emitter.unique(self.block.params[0].name), "int64")
        body: list[Stmt] = []
        with self.lowering.loop_of_program(), self.lowering.scope(body):
            self.lowering.ranges.counts(index, trip)
            emitter.declare(index)
            forms, go_on = self._body(index)
        with emitter.inside(body):
            if go_on != TRUE and not emitter.terminated:
                emitter.emit(If(not_(go_on), self._break(index, trip)))
        self.lowering.count_work(trip)
        emitter.emit(For(index, ZERO, trip, body))
        return forms

    def _conditional(self, trip: Expr, condition: Expr) -> list[Form | None]:
        emitter = self.lowering.emitter
        flag = emitter.mutable("go_on", condition)
        count = emitter.mutable("count", ZERO)
        body: list[Stmt] = []
        with self.lowering.loop_of_program(), self.lowering.scope(body):
            index = emitter.copy(self.block.params[0].name, count)
            self.lowering.ranges.at_least(index, 0)
            forms, go_on = self._body(index)
        with emitter.inside(body):
            emitter.assign(flag, go_on)
            emitter.assign(count, Binary("add", count, ONE, "int64"))
        is_endless = isinstance(trip, Const) and trip.value == ENDLESS
        more = flag if is_endless else both(flag, compare("lt", count, trip))
        emitter.emit(While([], more, body))
        self.lowering.count_work(count)
        return forms

    def _break(self, index: Expr, trip: Expr) -> list[Stmt]:
        """Leave the loop; of its iterations, those that are left were counted before."""
        body: list[Stmt] = []
        with self.lowering.emitter.inside(body):
            left = Binary("sub", Binary("add", index, ONE, "int64"), trip, "int64")
            self.lowering.count_work(left)
            self.lowering.emitter.emit(Break())
        return body

    def _body(self, index: Expr) -> tuple[list[Form | None], Expr]:
        """One iteration, in which earlier ones may have written to arguments."""
        self.lowering.loop_depth += 1
        try:
            return self._iteration(index)
        finally:
            self.lowering.loop_depth -= 1

    def _iteration(self, index: Expr) -> tuple[list[Form | None], Expr]:
        lowering, block = self.lowering, self.block
        lowering.bind(block.params[0], index)
        for param, carried, operand in zip(
            block.params[1:], self.carried, self.initial, strict=True
        ):
            lowering.bind(param, operand if carried is None else carried.current(param))
        lowering.block(block)
        if lowering.emitter.terminated:
            return [None] * len(self.carried), FALSE
        go_on = lowering.emitter.let("go_on", lowering.scalar(block.returns[0]))
        forms = self._carry([_returned(lowering, value) for value in block.returns[1:]])
        return forms, go_on

    def _carry(self, returned: Sequence[Operand]) -> list[Form | None]:
        lowering = self.lowering
        pairs = [(one, two) for one, two in zip(self.carried, returned, strict=True) if one]
        forms: list[Form | None] = []
        for carried, operand in zip(self.carried, returned, strict=True):
            is_array = isinstance(carried, Carried) and isinstance(operand, ArrayRef)
            forms.append(_form(lowering, operand) if is_array else None)
        assignments = [one for carried, operand in pairs for one in carried.prepare(operand)]
        for carried, _ in pairs:
            carried.drop_old()
        for var, value in assignments:
            lowering.emitter.assign(var, value)
        settle(self.carried)
        return forms

    def outputs(self) -> list[Operand]:
        """The values after the last iteration."""
        found = []
        for value, carried, operand in zip(
            self.node.outputs, self.carried, self.initial, strict=True
        ):
            found.append(operand if carried is None else carried.current(value))
        return found


# Exceptions -------------------------------------------------------------------------------


def _call(lowering: Lowering, node: Node) -> Operand:
    """A call that makes an exception of a built-in class with constant arguments."""
    callee, *args = (lowering.operand(value) for value in node.inputs)
    made: Any = callee.value if isinstance(callee, Static) else None
    if not (isinstance(made, type) and issubclass(made, Exception)) or node.keywords:
        raise NotNative("a call of a Python object")
    if made not in vars(builtins).values():
        raise NotNative(f"{made.__name__} is not a built-in exception")
    message = [one.value if isinstance(one, Static) else None for one in args]
    if len(message) > 1 or not all(isinstance(one, str) for one in message):
        raise NotNative("an exception whose message is not constant")
    return Static(made(*message))


def _raise(lowering: Lowering, node: Node) -> Operand:
    operand = lowering.operand(node.inputs[0])
    value: Any = operand.value if isinstance(operand, Static) else None
    if isinstance(value, type) and issubclass(value, Exception):
        value = value()
    if not isinstance(value, Exception) or type(value).__module__ != "builtins":
        raise NotNative("an exception that is not a constant")
    message = str(value.args[0]) if value.args else ""
    lowering.fail(TRUE, type(value), message.replace("{", "{{").replace("}", "}}"))
    return ()


def _check_bound(lowering: Lowering, node: Node) -> Operand:
    value, flag = node.inputs
    name = node.attributes["name"]
    message = f"cannot access local variable '{name}' where it is not associated with a value"
    lowering.fail(not_(lowering.scalar(flag)), UnboundLocalError, message)
    operand = lowering.operand(value)
    return placeholder(node.output) if operand == Static(None) else operand


RULES: dict[str, Rule] = {
    "prim::If": _if,
    "prim::Loop": _loop,
    "prim::Call": _call,
    "prim::Raise": _raise,
    "prim::CheckBound": _check_bound,
}
