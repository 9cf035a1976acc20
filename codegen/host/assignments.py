"""Assignments to items and attributes, writes to arrays, and unpacking, as Python statements."""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.host.arrays import index_text
from jitcore.codegen.host.expressions import Expressions
from jitcore.codegen.host.operators import augmented_sign, in_place_sign
from jitcore.ir.graph import Node, Value
from jitcore.ir.types import TensorType

__all__ = ["Assignments"]


def _unconverted(value: Value) -> Value:
    """What is converted to a value, or the value itself."""
    node = value.node
    return node.inputs[0] if node is not None and node.kind == "np::cast" else value


class Assignments:
    """Writes statements without blocks.

    Parameters
    ----------
    expressions : Expressions
    """

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.plan = expressions.plan
        self.variables = expressions.variables
        self.lines: list[str] = []
        self._unpacks: dict[Value, Node] = {}

    def _set_item(self, node: Node) -> None:
        container, index, value = node.inputs
        target = f"{self.expressions.primary(container)}[{self.expressions.subscript(index)}]"
        self._assign_or_augment(target, value, "prim::getitem", [container, index], {})

    def _set_attribute(self, node: Node) -> None:
        owner, value = node.inputs
        name = node.attributes["name"]
        target = self.expressions.attribute_of(owner, name)
        if target is None:
            function = self.expressions.globals.builtin("setattr")
            arguments = f"{self.expressions.at(owner)}, {name!r}, {self.expressions.at(value)}"
            self.lines.append(f"{function}({arguments})")
            return
        self._assign_or_augment(target, value, "prim::GetAttr", [owner], {"name": name})

    def _assign_or_augment(
        self, target: str, value: Value, kind: str, inputs: list[Value], attributes: dict[str, str]
    ) -> None:
        """``target = value``, or ``target += y`` where the value is that of it."""
        node = value.node
        sign = augmented_sign(node) if node is not None else None
        if node is not None and value in self.plan.nested and sign is not None:
            read = node.inputs[0].node
            if read is not None and node.inputs[0] in self.plan.nested and read.kind == kind:
                same = all(read.attributes.get(name) == held for name, held in attributes.items())
                if same and read.inputs == inputs:
                    self.lines.append(f"{target} {sign} {self.expressions.at(node.inputs[1])}")
                    return
        self.lines.append(f"{target} = {self.expressions.at(value)}")

    def _delete_item(self, node: Node) -> None:
        container, index = node.inputs
        subscript = self.expressions.subscript(index)
        self.lines.append(f"del {self.expressions.primary(container)}[{subscript}]")

    def _store(self, node: Node) -> None:
        target, value = node.inputs
        augmented = self._augmented_operand(node)
        if augmented is not None:
            sign, operand = augmented
            text = self.expressions.weak(operand, [target]).text
            self.lines.append(f"{self.variables.name(target)} {sign} {text}")
            return
        text = self.expressions.weak(value, [target]).text
        view = target.node
        if view is None or target not in self.plan.nested or view.kind != "np::view":
            self.lines.append(f"{self.expressions.primary(target)}[...] = {text}")
            return
        scalar = isinstance(value.type, TensorType) and value.type.dims == ()
        index = index_text(self.expressions, view, view.inputs[1:], view=True, scalar=scalar)
        self.lines.append(f"{self.expressions.primary(view.inputs[0])}[{index}] = {text}")

    def _augmented_operand(self, store: Node) -> tuple[str, Value] | None:
        """The sign and the operand of ``x += y``, whose errors name three shapes."""
        target, value = store.inputs
        if not store.attributes.get("in_place") or target in self.plan.nested:
            return None
        # NumPy computes in the dtype that both operands have in common, and converts the result.
        # The rules say ``in_place`` only where it does that in an augmented assignment as well.
        computed = _unconverted(value)
        maker = computed.node
        if maker is None or not self.plan.nested.issuperset((value, computed)):
            return None
        sign = in_place_sign(maker.kind)
        is_update = len(maker.inputs) == 2 and _unconverted(maker.inputs[0]) is target
        if sign is None or not is_update:
            return None
        return sign, maker.inputs[1]

    def _scatter(self, node: Node) -> None:
        target, *operands, value = node.inputs
        index = index_text(self.expressions, node, operands, view=False, scalar=False)
        text = self.expressions.at(value)
        self.lines.append(f"{self.expressions.primary(target)}[{index}] = {text}")

    def _put_mask(self, node: Node) -> None:
        target, mask, value = node.inputs
        subscript = self.expressions.at(mask)
        text = self.expressions.at(value)
        self.lines.append(f"{self.expressions.primary(target)}[{subscript}] = {text}")

    def _raise(self, node: Node) -> None:
        exception, *cause = map(self.expressions.at, node.inputs)
        self.lines.append(f"raise {exception} from {cause[0]}" if cause else f"raise {exception}")

    def _unpack(self, node: Node) -> None:
        (value,) = node.inputs
        self.lines.append(f"{self._targets(node)} = {self.expressions.at(value)}")

    def _targets(self, node: Node) -> str:
        """The targets of an unpacking assignment, nested where what is unpacked is again."""
        texts = []
        for number, value in enumerate(node.outputs):
            inner = self._unpacks.get(value)
            text = self.variables.name(value) if inner is None else f"({self._targets(inner)})"
            texts.append(f"*{text}" if number == node.attributes.get("star") else text)
        if len(texts) > 1:
            return ", ".join(texts)
        return f"{texts[0]}," if texts else "[]"

    def _find_unpacked(self, nodes: Sequence[Node], position: int) -> int:
        """Note which of the next nodes unpack what the node at ``position`` has unpacked.

        Gives the position of the last of them.
        """
        node = nodes[position]
        for number, value in enumerate(node.outputs):
            if position + 1 == len(nodes) or number == node.attributes.get("star"):
                break
            following = nodes[position + 1]
            if following.kind != "prim::Unpack" or following.inputs != [value]:
                continue
            if len(value.uses) == 1 and following.outputs:
                self._unpacks[value] = following
                position = self._find_unpacked(nodes, position + 1)
        return position
