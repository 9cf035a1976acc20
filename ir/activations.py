"""Functions of one array that a graph spells out in elementwise nodes: sigmoid, SiLU, GELU ...

Who has a form of his own for them asks here which nodes belong together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jitcore.ir.graph import Node, Value

__all__ = ["Activation", "find_activations"]

_ARGUMENT, _NUMBER = "x", "number"
"""These stand for the array in a template, and for any number; numbers stand for themselves."""

_DECAYED = ("np::exp", ("np::negative", ("np::absolute", _ARGUMENT)))
_IS_POSITIVE = ("np::greater_equal", _ARGUMENT, 0.0)
_SIGMOID = ("np::divide", ("np::where", _IS_POSITIVE, 1.0, _DECAYED), ("np::add", 1.0, _DECAYED))
_CLIPPED = ("np::minimum", 6.0, ("np::maximum", 0.0, ("np::add", _ARGUMENT, 3.0)))
_CUBE = ("np::multiply", ("np::multiply", _ARGUMENT, _ARGUMENT), _ARGUMENT)
_BENT = ("np::add", _ARGUMENT, ("np::multiply", float(np.float32(0.044715)), _CUBE))
_TANGENT = ("np::tanh", ("np::multiply", float(np.float32((2 / np.pi) ** 0.5)), _BENT))
_HALF = ("np::multiply", _ARGUMENT, 0.5)
_GAUSSIAN = ("special::erf", ("np::multiply", _ARGUMENT, float(np.float32(0.5**0.5))))

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
        ("np::multiply", _ARGUMENT, _NUMBER),
    ),
}
"""What `jitcore.nn.functional` does, as typed graphs say it for float32."""


@dataclass(frozen=True, slots=True)
class Activation:
    """A function, its argument, and the nodes that compute it; the last one gives the result.

    ``numbers`` are those that the function has besides its argument: the slope of a leaky ReLU.
    """

    name: str
    argument: Value
    numbers: tuple[float, ...]
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
        if match.value(node.output, template) and match.is_closed(node):
            assert match.argument is not None
            return Activation(name, match.argument, tuple(match.numbers), frozenset(match.nodes))
    return None


class _Match:
    """A template laid over nodes."""

    def __init__(self) -> None:
        self.argument: Value | None = None
        self.numbers: list[float] = []
        self.nodes: set[Node] = set()

    def value(self, value: Value, template: Any) -> bool:
        """Whether a value is what a template says."""
        if template == _ARGUMENT:
            self.argument = self.argument or value
            return value is self.argument
        if isinstance(template, float) or template == _NUMBER:
            return self._number(value.constant_value, template)
        node = value.node
        kind, *operands = template
        if node is None or node.kind != kind or len(node.inputs) != len(operands):
            return False
        self.nodes.add(node)
        return all(map(self.value, node.inputs, operands))

    def _number(self, held: Any, template: Any) -> bool:
        if not isinstance(held, float | np.floating):
            return False
        if template == _NUMBER:
            self.numbers.append(float(held))
            return True
        return bool(held == template)

    def is_closed(self, last: Node) -> bool:
        """Whether the nodes are of one block, and only the last one's result is read elsewhere."""
        users = [use.user for node in self.nodes - {last} for use in node.output.uses]
        return all(user in self.nodes for user in users) and all(
            node.block is last.block for node in self.nodes
        )
