"""What must hold: the exceptions that the definitions of ops raise."""

from __future__ import annotations

import builtins
from typing import Any

from jitcore.codegen.entries.error_sites import ASSUMED
from jitcore.codegen.lowering.arithmetic import compare, not_
from jitcore.codegen.lowering.operands import Operand
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.graph import Node

__all__ = ["RULES"]


def _require(lowering: Lowering, node: Node) -> Operand:
    exception: Any = vars(builtins)[node.attributes["exception"]]
    condition, *numbers = map(lowering.scalar, node.inputs)
    message = node.attributes["message"]
    if not numbers:
        message = message.replace("{", "{{").replace("}", "}}")
    lowering.fail(not_(condition), exception, message, numbers)
    return ()


def _require_shape(lowering: Lowering, node: Node) -> Operand:
    dims = lowering.array(node.inputs[1]).dims
    numbers = ", ".join(f"{{{axis}}}" for axis in range(len(dims)))
    message = node.attributes["message"].format(f"({numbers})")
    lowering.fail(not_(lowering.scalar(node.inputs[0])), ValueError, message, dims)
    return ()


def _assume_equal(lowering: Lowering, node: Node) -> Operand:
    value, length, other = map(lowering.scalar, node.inputs)
    lowering.fail(compare("ne", length, other), None, ASSUMED)
    return value


RULES: dict[str, Rule] = {
    "prim::require": _require,
    "prim::require_shape": _require_shape,
    "prim::assume_equal": _assume_equal,
}
