"""Attributes of the caller's objects, as they are where an exception ends a native function.

Compiled code sets attributes when it is done.  An exception that finds arrays written cannot begin
anew in Python, so what the attributes are at that place is kept in variables, which are left in the
result slots behind the payload: for each attribute a tag, 0 where it was not set yet and otherwise
the number of the type it has, and then slots for the values of all its types.
"""

from __future__ import annotations

from jitcore.codegen.entries.signature import ConstantResult, NotedAttribute, ScalarResult
from jitcore.codegen.loops import Const, Expr, Var
from jitcore.codegen.lowering.arithmetic import ZERO, expression_dtype, integer
from jitcore.codegen.lowering.operands import NotNative, Operand, Pair
from jitcore.codegen.lowering.results import scalar_result
from jitcore.codegen.lowering.state import Lowering, Rule
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import FieldWrite, Graph, Node, Value
from jitcore.ir.types import NONE, STR

__all__ = ["RULES", "AttributesNotNoted", "check_attributes", "declare_attributes"]


class AttributesNotNoted(Exception):
    """Exceptions may find arrays written, and the graph does not note what attributes are then."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """An attribute, its tag, and for each type it may have one variable, two, or none."""

    write: FieldWrite
    tag: Var
    types: dict[ScalarResult | ConstantResult, tuple[Var, ...]]

    @property
    def words(self) -> list[Expr]:
        """What is left in the slots."""
        return [self.tag, *(part for parts in self.types.values() for part in parts)]


def declare_attributes(lowering: Lowering, graph: Graph) -> tuple[NotedAttribute, ...]:
    """Make variables of all attributes that the graph notes; gives what their slots will hold."""
    for node in graph.find_all_nodes("prim::AttributeNote"):
        write = _write(node)
        if write not in lowering.noted:
            tag = lowering.emitter.mutable(f"{write.name}_set", ZERO)
            lowering.noted[write] = _Noted(write, tag, {})
        types = lowering.noted[write].types
        result = _result(node.inputs[0])
        if result not in types:
            types[result] = _variables(lowering, write, result)
    for noted in lowering.noted.values():
        lowering.noted_words += noted.words
    return tuple(
        NotedAttribute(write, tuple(noted.types)) for write, noted in lowering.noted.items()
    )


def _write(node: Node) -> FieldWrite:
    return FieldWrite(node.attributes["object"], node.attributes["name"])


def _result(value: Value) -> ScalarResult | ConstantResult:
    if value.type in (NONE, STR) and value.constant is not None:
        return ConstantResult(value.constant_value)
    found = scalar_result(value.type)
    if found is None:
        raise NotNative(f"exceptions after arrays are written and an attribute is {value.type}")
    return found


def _variables(
    lowering: Lowering, write: FieldWrite, result: ScalarResult | ConstantResult
) -> tuple[Var, ...]:
    if isinstance(result, ConstantResult):
        return ()
    dtype = expression_dtype(result.dtype)
    count = 2 if result.dtype.kind == "c" else 1
    zero = Const(False if dtype == "bool" else 0, dtype)
    return tuple(lowering.emitter.mutable(f"{write.name}_now", zero) for _ in range(count))


def _note(lowering: Lowering, node: Node) -> Operand:
    noted = lowering.noted[_write(node)]
    result = _result(node.inputs[0])
    variables = noted.types[result]
    if variables:
        operand = lowering.operand(node.inputs[0])
        parts = (operand.re, operand.im) if isinstance(operand, Pair) else (operand,)
        for variable, part in zip(variables, parts, strict=True):
            lowering.emitter.assign(variable, part)
    lowering.emitter.assign(noted.tag, integer(list(noted.types).index(result) + 1))
    return ()


def check_attributes(lowering: Lowering, graph: Graph) -> None:
    """Refuse exceptions that find arrays written, and attributes neither set nor noted."""
    late = [site for site in lowering.sites if site.after_write]
    if lowering.lists_end and not lowering.written:
        # Without memory for the elements of lists that are written last, these are incomplete, too.
        late = [site for site in late if site.exception is not MemoryError]
    if late:
        if not set(graph.field_writes) <= lowering.noted.keys():
            raise AttributesNotNoted


def _write_elements(lowering: Lowering, node: Node) -> Operand:
    """Nothing: the entry sets the attributes of the objects in a list."""
    lowering.element_writes.append(FieldWrite(node.attributes["list"], node.attributes["name"]))
    return ()


RULES: dict[str, Rule] = {
    "prim::AttributeNote": _note,
    "prim::ElementsWrite": _write_elements,
}
