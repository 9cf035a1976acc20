"""Real and imaginary parts of arrays that are computed: elements, and no views."""

from __future__ import annotations

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.effects import is_array_view
from jitcore.ir.graph import Graph, Node, Use, Value
from jitcore.ir.ops import REDUCTIONS, is_elementwise
from jitcore.ir.running import is_running
from jitcore.ir.shapes import dims_of

__all__ = ["compute_complex_parts"]

_PARTS = {"np::real": "np::real_part", "np::imag": "np::imag_part"}


def compute_complex_parts(graph: Graph) -> bool:
    """Take parts of complex numbers element by element where nobody writes to the array.

    Before::

        graph(%z : Complex64[n], %c : Complex64):
          %0 : Complex64[n] = np::multiply(%z, %c)
          %1 : Float32[n] = np::real(%0)
          %2 : Float32[n] = np::imag(%0)
          %3 : Float32[n] = np::multiply(%1, %2)
          return (%3)

    After::

        graph(%z : Complex64[n], %c : Complex64):
          %0 : Complex64[n] = np::multiply(%z, %c)
          %4 : Float32[n] = np::real_part(%0)
          %5 : Float32[n] = np::imag_part(%0)
          %3 : Float32[n] = np::multiply(%4, %5)
          return (%3)

    A view needs an array, so the complex numbers would be written and read again, and a loop that
    has views of what it computes stays a loop.  Views that are more than read, and those of arrays
    that are there anyway, stay.
    """
    found = [node for kind in _PARTS for node in graph.find_all_nodes(kind) if _is_computed(node)]
    found = [node for node in found if all(map(_reads_elements, node.output.uses))]
    if not found:
        return False
    analysis = AliasAnalysis(graph, distinct_inputs=True)
    found = [node for node in found if not analysis.has_writers(node.output)]
    for node in found:
        _take_elements(node)
    return bool(found)


def _take_elements(view: Node) -> None:
    log.update("complex_parts", lambda: f"take elements in place of {view!r}")
    part = view.value_before(_PARTS[view.kind], view.inputs, view.output.type)
    view.output.replace_all_uses_with(part)
    view.destroy()


def _is_computed(view: Node) -> bool:
    """Whether a view is one of an array that a node or an iteration before has computed."""
    base = view.inputs[0]
    if not dims_of(base):
        return False
    return _is_made(base.node) if base.node is not None else _is_carried(base)


def _is_made(node: Node) -> bool:
    return is_elementwise(node) and not is_array_view(node)


def _is_carried(value: Value) -> bool:
    """Whether each iteration of a loop makes the array that the next one finds."""
    block = value.block
    loop = None if block is None else block.owner
    if block is None or loop is None or loop.kind != "prim::Loop" or value not in block.params:
        return False
    given = block.returns[block.params.index(value)]
    return given.node is not None and _is_made(given.node)


def _reads_elements(use: Use) -> bool:
    """Whether a node only computes with the elements of an operand, or stores them elsewhere."""
    user = use.user
    if not isinstance(user, Node) or user.blocks or is_array_view(user):
        return False
    is_value = user.kind == "np::store" and use.index == 1
    return is_value or is_elementwise(user) or user.kind in REDUCTIONS or is_running(user)
