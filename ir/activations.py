"""Functions of one array that a graph spells out in elementwise nodes: sigmoid, SiLU, GELU ...

Who has a form of his own for them asks here which nodes belong together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Node, Value

__all__ = ["Activation", "find_activations"]

_ARGUMENT = "x"
"""It stands for the array in a template, other names for any number, which is the same wherever the
name is; numbers stand for themselves."""

_DECAYED = ("np::exp", ("np::negative", ("np::absolute", _ARGUMENT)))
_IS_POSITIVE = ("np::greater_equal", _ARGUMENT, 0.0)
_SIGMOID = ("np::divide", ("np::where", _IS_POSITIVE, 1.0, _DECAYED), ("np::add", 1.0, _DECAYED))
_CLIPPED = ("np::minimum", 6.0, ("np::maximum", 0.0, ("np::add", _ARGUMENT, 3.0)))
_CUBE = ("np::multiply", ("np::multiply", _ARGUMENT, _ARGUMENT), _ARGUMENT)
_BENT = ("np::add", _ARGUMENT, ("np::multiply", float(np.float32(0.044715)), _CUBE))
_TANGENT = ("np::tanh", ("np::multiply", float(np.float32((2 / np.pi) ** 0.5)), _BENT))
_HALF = ("np::multiply", _ARGUMENT, 0.5)
_GAUSSIAN = ("special::erf", ("np::multiply", _ARGUMENT, float(np.float32(0.5**0.5))))
_DECAY = ("np::expm1", ("np::multiply", ("np::minimum", _ARGUMENT, 0.0), "rate"))


def _softplus(beta: str | float, threshold: str | float) -> tuple[Any, ...]:
    scaled = ("np::multiply", _ARGUMENT, beta)
    decayed = ("np::exp", ("np::negative", ("np::absolute", scaled)))
    smooth = ("np::add", ("np::maximum", scaled, 0.0), ("np::log1p", decayed))
    is_large = ("np::greater", scaled, threshold)
    return ("np::where", is_large, _ARGUMENT, ("np::divide", smooth, beta))


_TEMPLATES: dict[str, Any] = {
    "tanh": ("np::tanh", _ARGUMENT),
    "silu": ("np::multiply", _ARGUMENT, _SIGMOID),
    "sigmoid": _SIGMOID,
    "hardswish": ("np::divide", ("np::multiply", _ARGUMENT, _CLIPPED), 6.0),
    "hardsigmoid": ("np::divide", _CLIPPED, 6.0),
    "gelu": ("np::multiply", _HALF, ("np::add", 1.0, _GAUSSIAN)),
    "gelu_tanh": ("np::multiply", _HALF, ("np::add", 1.0, _TANGENT)),
    "leaky_relu": (
        "np::where",
        ("np::greater", _ARGUMENT, 0.0),
        _ARGUMENT,
        ("np::multiply", _ARGUMENT, "slope"),
    ),
    "elu": (
        "np::where",
        ("np::greater", _ARGUMENT, 0.0),
        ("np::multiply", _ARGUMENT, "scale"),
        ("np::multiply", _DECAY, "depth"),
    ),
    "softplus": _softplus("beta", "threshold"),
    "mish": ("np::multiply", _ARGUMENT, ("np::tanh", _softplus(1.0, 20.0))),
    "logsigmoid": (
        "np::subtract",
        ("np::minimum", _ARGUMENT, 0.0),
        ("np::log1p", ("np::exp", ("np::negative", ("np::absolute", _ARGUMENT)))),
    ),
}
"""What `jitcore.nn.functional` does, as typed graphs say it for float32."""

_Numbers = Mapping[str, float]

_CONDITIONS: Mapping[str, Callable[[_Numbers], bool]] = {
    "elu": lambda numbers: numbers["scale"] > 0 and numbers["rate"] > 0,
    # Above 15 float32 no longer shows what the logarithm adds.
    "softplus": lambda numbers: numbers["beta"] > 0 and numbers["threshold"] >= 15,
}
"""Which numbers make a template the function of that name; without a row any do."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A function, its argument, and the nodes that compute it; the last one gives the result.

    ``numbers`` are those that the function has besides its argument, by name: the ``slope`` of a
    leaky ReLU; ``scale``, ``rate`` and ``depth`` of an ELU, which is ``scale * x`` above zero and
    ``depth * (exp(rate * x) - 1)`` below; ``beta`` and ``threshold`` of softplus.
    """

    name: str
    argument: Value
    numbers: Mapping[str, float]
    nodes: frozenset[Node]


def find_activations(nodes: Iterable[Node]) -> dict[Node, Activation]:
    """The activations among the nodes of a block, by their last nodes.

    Nobody else reads what lies between the argument and the result.

    Parameters
    ----------
    nodes : iterable of Node
        In their order.
    """
    found: dict[Node, Activation] = {}
    taken: set[Node] = set()
    for node in reversed(list(nodes)):
        activation = None if node in taken else _activation(node)
        if activation is not None:
            found[node] = activation
            taken |= activation.nodes
    return found


def _activation(node: Node) -> Activation | None:
    for name, template in _TEMPLATES.items():
        if node.kind != template[0]:
            continue
        match = _Match()
        if not match.value(node.output, template) or not match.is_closed(node):
            continue
        if name not in _CONDITIONS or _CONDITIONS[name](match.numbers):
            assert match.argument is not None
            return Activation(name, match.argument, match.numbers, frozenset(match.nodes))
    return None


class _Match:
    """A template laid over nodes."""

    def __init__(self) -> None:
        self.argument: Value | None = None
        self.numbers: dict[str, float] = {}
        self.nodes: set[Node] = set()

    def value(self, value: Value, template: Any) -> bool:
        """Whether a value is what a template says."""
        if template == _ARGUMENT:
            self.argument = self.argument or value
            return value is self.argument
        if isinstance(template, float | str):
            return self._number(value.constant_value, template)
        node = value.node
        kind, *operands = template
        if node is None or node.kind != kind or len(node.inputs) != len(operands):
            return False
        self.nodes.add(node)
        return all(map(self.value, node.inputs, operands))

    def _number(self, held: Any, template: float | str) -> bool:
        if not isinstance(held, float | np.floating) or not np.isfinite(held):
            return False
        if isinstance(template, float):
            return bool(held == template)
        return self.numbers.setdefault(template, float(held)) == float(held)

    def is_closed(self, last: Node) -> bool:
        """Whether the nodes are of one block, and only the last one's result is read elsewhere."""
        users = [use.user for node in self.nodes - {last} for use in node.output.uses]
        return all(user in self.nodes for user in users) and all(
            node.block is last.block for node in self.nodes
        )
