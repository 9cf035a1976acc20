"""Types of the recurrent layers' loops over time, which stay one node in typed graphs.

A kernel does them where the dtypes are those of the weights and the weights' extents are known, and
where weights that no pass has packed are used often enough.
The typed node has the arrays as operands, the packed weights behind them where there are some, and
all else as attributes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jitcore.ir.graph import Value
from jitcore.ir.ops.op import Builder, Call, Untypable, tensor
from jitcore.ir.ops.shaping import array_operand
from jitcore.ir.types import Dim, TensorType, TupleType, Type

__all__ = ["GATES", "WEIGHT", "recurrence_rule"]

GATES: Mapping[str, int] = {"nn::lstm_states": 4, "nn::gru_states": 3, "nn::rnn_states": 1}
"""How many gates the cells of each kind have."""

WEIGHT: Mapping[str, int] = {"nn::lstm_states": 3, "nn::gru_states": 2, "nn::rnn_states": 2}
"""The place of the weights among the operands: behind the input's terms and the states."""

LEAST_TIMES = 4
"""To pack weights takes as long as some products with them."""

_NONLINEARITIES = ("tanh", "relu")


def recurrence_rule(b: Builder, call: Call) -> Value:
    """``lstm_states`` and its like."""
    names = [one.name for one in call.parameters[: WEIGHT[call.kind] + 1]]
    arrays = [array_operand(call.value(name)) for name in names]
    bias, packed = call.optional("bias"), call.optional("packed")
    if bias is not None:
        arrays.append(array_operand(bias))
    dtype = tensor(arrays[0]).dtype
    if dtype is None or dtype.char not in "fd" or not dtype.isnative:
        raise Untypable(f"dtype {dtype} has no compiled form here")
    if any(tensor(one).dtype != dtype for one in arrays):
        raise Untypable("operands of different dtypes")
    steps, rows, width = _checked_extents(call.kind, [tensor(one).dims or () for one in arrays])
    if packed is None and isinstance(steps, int) and steps < LEAST_TIMES:
        raise Untypable("too few times for packing the weights")
    inputs = arrays if bias is not None else [*arrays, b.constant(None)]
    type_: Type = TensorType(dtype, (steps, rows, width))
    if "cell" in names:
        type_ = TupleType((type_, TensorType(dtype, (rows, width))))
    if packed is None:
        return b.emit(call.kind, inputs, _attributes(call), type_)
    return b.emit(call.kind, [*inputs, packed], _attributes(call), type_, ("packed",))


def _attributes(call: Call) -> dict[str, object]:
    found: dict[str, object] = {"reverse": bool(call.static("reverse"))}
    if call.kind == "nn::rnn_states":
        found["nonlinearity"] = call.static("nonlinearity")
        if found["nonlinearity"] not in _NONLINEARITIES:
            raise Untypable(f"a nonlinearity of {found['nonlinearity']!r}")
    return found


def _checked_extents(kind: str, found: Sequence[tuple[Dim, ...]]) -> tuple[Dim, Dim, int]:
    """How many times and rows there are, and how wide states are; refuse what surely is wrong."""
    projected, weight = found[0], found[WEIGHT[kind]]
    if len(projected) != 3 or len(weight) != 2:
        raise Untypable("operands of other ranks")
    total, width = weight
    if not isinstance(total, int) or not isinstance(width, int) or not width:
        raise Untypable("weights whose extents only the run shows")
    steps, rows, _ = projected
    if steps == 0:
        raise Untypable("no times")
    _require_fit(projected, (steps, rows, GATES[kind] * width))
    states, biases = found[1 : WEIGHT[kind]], found[WEIGHT[kind] + 1 :]
    _require_fit(weight, (GATES[kind] * width, width))
    for one in states:
        _require_fit(one, (rows, width))
    for one in biases:
        _require_fit(one, (total,))
    return steps, rows, width


def _require_fit(found: Sequence[Dim], wanted: Sequence[Dim]) -> None:
    """Refuse what surely does not fit; the definition raises the error, or broadcasts."""
    if len(found) != len(wanted):
        raise Untypable("operands of other ranks")
    for one, other in zip(found, wanted, strict=True):
        if isinstance(one, int) and isinstance(other, int) and one != other:
            raise Untypable(f"an extent of {one} where {other} is expected")
