"""Elementwise operations on a result that nobody else reads, as parts of what makes it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from jitcore.codegen.onednn import library as api
from jitcore.codegen.onednn.planner import Operand, Planner, Refused
from jitcore.codegen.onednn.program import Operation
from jitcore.ir.dataclass import dataclass

__all__ = ["FULL", "After", "Change", "change_by", "changes_of", "described", "fitting"]

_LIMIT = 3.4028234663852886e38
"""The largest float32."""

_BINARY: dict[str, tuple[str, Callable[[float, float], float]]] = {
    "np::add": ("binary_add", lambda x, y: x + y),
    "np::subtract": ("binary_sub", lambda x, y: x + y),
    "np::multiply": ("binary_mul", lambda x, y: x * y),
    "np::maximum": ("binary_max", max),
    "np::minimum": ("binary_min", max),
}
"""The library's names, and how large a result is at most."""

_FUNCTIONS: dict[str, tuple[api.Eltwise, Callable[[float, float], float]]] = {
    "tanh": (api.Eltwise("eltwise_tanh"), lambda _x, _y: 1),
    "sigmoid": (api.Eltwise("eltwise_logistic"), lambda _x, _y: 1),
    "silu": (api.Eltwise("eltwise_swish", 1.0), lambda x, _: x),
    "mish": (api.Eltwise("eltwise_mish"), lambda x, _: x),
    "logsigmoid": (api.Eltwise("eltwise_soft_relu", -1.0), lambda x, _: x + 1),
    "hardswish": (api.Eltwise("eltwise_hardswish", 1 / 6, 0.5), lambda x, _: x),
    "hardsigmoid": (api.Eltwise("eltwise_hardsigmoid", 1 / 6, 0.5), lambda _x, _y: 1),
    "gelu": (api.Eltwise("eltwise_gelu_erf"), lambda x, _: x),
    "gelu_tanh": (api.Eltwise("eltwise_gelu_tanh"), lambda x, _: max(x, x**3)),
}
"""Functions of one array, and how large they or what they compute on the way may be."""

FULL = "full"
"""The attribute that says which operands of an elementwise operation have the result's extents."""

WITHOUT_POST_OPS = frozenset({"np::copy", "nn::packed", "nn::window_max", "nn::window_mean"})


@dataclass(frozen=True, slots=True)
class Change:
    """An elementwise operation on a result: the post-op, or the library's name and an array."""

    post_op: api.Eltwise | str
    operand: Operand | None
    bound: Callable[[float, float], float]


class After:
    """What is done with an operation's result before anybody else reads it.

    Attributes
    ----------
    places : list of int
        Those of the operation and of all that become part of it.
    """

    def __init__(self, place: int) -> None:
        self.places = [place]

    @classmethod
    def of(cls, planner: Planner, place: int) -> After:
        """The operations that may become part of this one."""
        made = cls(place)
        if planner.program.operations[place].kind in WITHOUT_POST_OPS:
            return made
        while (following := made._next(planner)) is not None:
            made.places.append(following)
        return made

    def _next(self, planner: Planner) -> int | None:
        """The only user of the result so far, if it is elementwise and its other operand known."""
        program = planner.program
        number = program.result(self.places[-1])
        users = program.users(number)
        if len(users) != 1 or number in program.outputs:
            return None
        operation = program.operations[users[0]]
        if operation.kind == "np::copy" or operation.kind in (*_FUNCTIONS, *_WITH_NUMBERS):
            return users[0]
        own = operation.operands.index(number)
        if operation.kind not in _BINARY or not operation[FULL][own]:
            return None
        earlier = program.result(self.places[0])
        is_known = all(other < earlier for other in operation.arrays if other != number)
        return users[0] if is_known else None

    def changes(self, planner: Planner, operation: Operation) -> list[Change]:
        """The residual and the limits of an operation, and what follows it."""
        found = list(_own_changes(planner, operation))
        for before, place in zip(self.places, self.places[1:], strict=False):
            follower = planner.program.operations[place]
            own = follower.operands.index(planner.program.result(before))
            found += changes_of(planner, follower, own)
        return found


def changes_of(planner: Planner, operation: Operation, own: int) -> list[Change]:
    """What an elementwise operation does with the operand at this place."""
    others = (*operation.operands[:own], *operation.operands[own + 1 :])
    if operation.kind == "np::copy":
        return []
    if operation.kind in _WITH_NUMBERS:
        return _WITH_NUMBERS[operation.kind](dict(operation.attributes))
    if operation.kind == "np::subtract" and own > 0:
        negative = Change(api.Eltwise("eltwise_linear", -1.0, 0.0), None, lambda x, _: x)
        return [negative, change_by(planner, "np::add", *others)]
    return [change_by(planner, operation.kind, *others)]


def _own_changes(planner: Planner, operation: Operation) -> Iterator[Change]:
    if operation.kind == "nn::product" and operation.operands[3] is not None:
        yield change_by(planner, "np::add", operation.operands[3])
    if operation.kind in ("nn::product", "nn::window_sum"):
        low, high = operation["low"], operation["high"]
        if low > -math.inf or high < math.inf:
            yield _limit(low, high)


def change_by(planner: Planner, kind: str, other: float | int | None = None) -> Change:
    """A function, or an elementwise operation with a number or an array."""
    if kind in _FUNCTIONS:
        function, bound = _FUNCTIONS[kind]
        return Change(function, None, bound)
    name, bound = _BINARY[kind]
    if isinstance(other, int):
        return Change(name, planner.operand(other), bound)
    if other is None or not math.isfinite(other):
        raise Refused("an operation with a number that is not finite")
    if kind == "np::maximum":
        return _limit(other, math.inf)
    if kind == "np::minimum":
        return _limit(-math.inf, other)
    if kind == "np::multiply":
        return _scaled(other)
    size = abs(other)
    shift = -other if kind == "np::subtract" else other
    return Change(api.Eltwise("eltwise_linear", 1.0, shift), None, lambda x, _: x + size)


def _scaled(factor: float) -> Change:
    size = abs(factor)
    return Change(api.Eltwise("eltwise_linear", factor, 0.0), None, lambda x, _: x * size)


def _leaky(numbers: Mapping[str, float]) -> list[Change]:
    slope = numbers["slope"]
    steepest = max(1.0, abs(slope))
    return [Change(api.Eltwise("eltwise_relu", slope), None, lambda x, _: x * steepest)]


def _elu(numbers: Mapping[str, float]) -> list[Change]:
    """The library's is ``x`` above zero and ``alpha * (exp(x) - 1)`` below."""
    scale, rate, depth = (numbers[name] for name in ("scale", "rate", "depth"))
    alpha = depth * rate / scale
    lowest = abs(alpha)
    own = Change(api.Eltwise("eltwise_elu", alpha), None, lambda x, _: max(x, lowest))
    before = [] if rate == 1 else [_scaled(rate)]
    after = [] if scale == rate else [_scaled(scale / rate)]
    return [*before, own, *after]


def _softplus(numbers: Mapping[str, float]) -> list[Change]:
    beta = numbers["beta"]
    most = 1 / beta
    own = Change(api.Eltwise("eltwise_soft_relu", beta), None, lambda x, _: max(1, beta) * x + most)
    return [own]


_WITH_NUMBERS: dict[str, Callable[[Mapping[str, float]], list[Change]]] = {
    "leaky_relu": _leaky,
    "elu": _elu,
    "softplus": _softplus,
}
"""Functions of one array and some numbers."""


def _limit(low: float, high: float) -> Change:
    """Limits of the result; those that are infinite do nothing to finite numbers."""
    ends = [abs(one) for one in (low, high) if math.isfinite(one)]
    largest = max(ends)
    if len(ends) == 2:
        post_op = api.Eltwise("eltwise_clip", low, high)
        return Change(post_op, None, lambda x, _: largest)
    if low == 0:
        return Change(api.Eltwise("eltwise_relu"), None, lambda x, _: x)
    post_op = api.Eltwise("eltwise_clip", max(low, -_LIMIT), min(high, _LIMIT))
    return Change(post_op, None, lambda x, _: max(x, largest))


Describe = Callable[[api.Owned, Sequence[api.PostOp]], api.Description]
"""Gives an operation's description for a format of its result, and post-ops."""


@dataclass(frozen=True, slots=True)
class Described:
    """An operation with its post-ops, and the arrays of those."""

    description: api.Description
    result: Operand
    added: list[Operand | None]


def described(
    planner: Planner,
    dims: tuple[int, ...],
    wanted: api.Owned,
    operands: Sequence[Operand],
    bound: Callable[[Sequence[float]], float],
    changes: Sequence[Change],
    describe: Describe,
) -> Described:
    """Describe an operation, whose result has the format of the arrays that are added to it.

    An array that nobody else reads any more is added where it lies, and the result takes its place.
    ``bound`` says how large the operation's own result is, given how large the operands are.
    """
    library = planner.library
    arrays = [one.operand for one in changes if one.operand is not None]
    format_ = wanted
    if any(one.dims == dims for one in arrays):
        format_ = library.argument(describe(wanted, ()), api.RESULT)
    added = [one.operand and fitting(planner, one.operand, dims, format_) for one in changes]

    def bounds(sizes: Sequence[float]) -> list[float]:
        found = [bound(sizes[: len(operands)])]
        others = iter(sizes[len(operands) :])
        for change in changes:
            other = 0.0 if change.operand is None else next(others)
            found.append(change.bound(found[-1], other))
        return found

    place = _added_in_place(planner, dims, operands, changes, added)
    if place is not None:
        try:
            description = describe(format_, _post_ops(changes, added, place))
        except api.LibraryError:
            place = None
        else:
            place = None if description.is_reference else place
    if place is None:
        description = describe(format_, _post_ops(changes, added, None))
    size = planner.bounded([*operands, *arrays], bounds)
    residual = None if place is None else added[place]
    if residual is None:
        result = planner.new(dims, library.argument(description, api.RESULT), size)
        return Described(description, result, added)
    added = [None if one is residual else one for one in added]
    return Described(description, planner.write_over(residual, dims, size), added)


def _added_in_place(
    planner: Planner,
    dims: tuple[int, ...],
    operands: Sequence[Operand],
    changes: Sequence[Change],
    added: Sequence[Operand | None],
) -> int | None:
    """The number of the change that may add to what the memory of the result holds."""
    for number, (change, array) in enumerate(zip(changes, added, strict=True)):
        if array is None or change.operand is None or change.operand.dims != dims:
            continue
        others = [one.operand for one in changes if one is not change and one.operand]
        if change.post_op == "binary_add" and planner.is_free(
            (change.operand, array), (*operands, *others)
        ):
            return number
    return None


def _post_ops(
    changes: Sequence[Change], added: Sequence[Operand | None], place: int | None
) -> list[api.PostOp]:
    """The post-ops for changes with these arrays, the one at ``place`` in the result's memory."""
    found: list[api.PostOp] = []
    for number, (change, array) in enumerate(zip(changes, added, strict=True)):
        if number == place:
            found.append(api.Sum())
        elif array is None:
            assert isinstance(change.post_op, api.Eltwise)
            found.append(change.post_op)
        else:
            assert isinstance(change.post_op, str)
            found.append(api.Binary(change.post_op, array.descriptor))
    return found


def fitting(
    planner: Planner, operand: Operand, dims: tuple[int, ...], format_: api.Owned
) -> Operand:
    """An array as what is added to a result: one number for each channel, or for each element."""
    if operand.dims == dims:
        return planner.moved(operand, format_)
    channels = dims[-1]
    if operand.dims[-1] != channels or math.prod(operand.dims) != channels:
        raise Refused("operands of other extents")
    ones = (1,) * (len(dims) - 2)
    extents, strides = (1, channels, *ones), (channels, 1, *ones)
    descriptor = planner.library.strided(extents, strides)
    plain = planner.moved(operand, planner.row_major(operand.dims))
    return Operand(extents, descriptor, plain.buffer, operand.bound)
