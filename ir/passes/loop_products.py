"""Products of a matrix with one vector after the other: one product before the loop."""

from __future__ import annotations

import re

from jitcore.ir import log
from jitcore.ir.alias import AliasAnalysis
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.nesting import block_of, lies_in
from jitcore.ir.types import INT, TensorType, Type

__all__ = ["LEAST_TERMS", "MOST_BYTES", "multiply_before_loops"]

LEAST_TERMS = 128**3
"""With fewer multiplications the loop takes little time."""

MOST_BYTES = 256 * 1024 * 1024
"""All results together are not larger than this."""


def multiply_before_loops(graph: Graph) -> bool:
    """Multiply whole matrices where a loop multiplies one by the rows or columns of another.

    Before::

        graph(%x : Float64[200, 300], %y : Float64[200, 400]):
          %0 : int = prim::Constant[value=300]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float64[300] = np::empty[dtype=dtype("float64")](%0)
          prim::Loop(%0, %1)
            block0(%i : int):
              %2 : Float64[200] = np::view[index=":, $0"](%x, %i)
              %3 : Float64[200, s0] = np::view[index=":, $0:400"](%y, %i)
              %4 : Float64[s0] = np::matmul(%2, %3)
              %5 : Float64 = np::sum[axis=(0,), keepdims=False](%4)
              %6 : Float64[] = np::view[index="$0"](%z, %i)
              np::store(%6, %5)
              -> (%1)
          return (%z)

    After::

        graph(%x : Float64[200, 300], %y : Float64[200, 400]):
          %0 : int = prim::Constant[value=300]()
          %1 : bool = prim::Constant[value=True]()
          %z : Float64[300] = np::empty[dtype=dtype("float64")](%0)
          %7 : Float64[300, 200] = np::transpose[axes=(1, 0)](%x)
          %8 : Float64[300, 400] = np::matmul(%7, %y)
          prim::Loop(%0, %1)
            block0(%i : int):
              %2 : Float64[200] = np::view[index=":, $0"](%x, %i)
              %3 : Float64[200, s0] = np::view[index=":, $0:400"](%y, %i)
              %9 : Float64[s0] = np::view[index="$0, $1:400"](%8, %i, %i)
              %5 : Float64 = np::sum[axis=(0,), keepdims=False](%9)
              %6 : Float64[] = np::view[index="$0"](%z, %i)
              np::store(%6, %5)
              -> (%1)
          return (%z)

    A product of matrices does ten times as much in the same time, because it reads the matrix from
    the caches.  The old views stay: they say which index is out of range.
    """
    changed = False
    for loop in graph.find_all_nodes("prim::Loop"):
        trips, products = _trips(loop), _products(loop)
        if trips is None or not products:
            continue
        analysis = AliasAnalysis(graph)
        for product in products:
            found = _find(product, loop, trips, analysis)
            if found is not None:
                _replace(found, loop)
                changed = True
    return changed


def _trips(loop: Node) -> int | None:
    """How often a loop surely runs, where that is known."""
    count, start = loop.inputs[:2]
    go_on = loop.blocks[0].returns[0]
    if count.constant is None or count.type != INT:
        return None
    if start.constant_value is not True or go_on.constant_value is not True:
        return None
    return int(count.constant_value)


def _products(loop: Node) -> list[Node]:
    return [node for node in loop.blocks[0].nodes if node.kind == "np::matmul"]


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a product in a loop: a view of a matrix from outside.

    Parameters
    ----------
    view : Node or None
        None where the operand is the matrix itself.
    matrix : Value
    axis : int
        The axis of the matrix that the terms are on.
    """

    view: Node | None
    matrix: Value
    axis: int

    @property
    def extent(self) -> int | None:
        """That of the other axis."""
        type_ = self.matrix.type
        assert isinstance(type_, TensorType) and type_.dims is not None
        found = type_.dims[1 - self.axis]
        return found if isinstance(found, int) else None

    @property
    def index(self) -> str:
        """What is taken of the other axis."""
        if self.view is None:
            return ":"
        return str(self.view.attributes["index"].split(", ")[1 - self.axis])

    @property
    def operands(self) -> list[Value]:
        """What the index is computed from."""
        return [] if self.view is None else self.view.inputs[1:]


@dataclass(frozen=True, slots=True)
class _Product:
    node: Node
    vector: _Side
    matrix: _Side


def _find(product: Node, loop: Node, trips: int, analysis: AliasAnalysis) -> _Product | None:
    """A product that may be computed for all iterations at once, and is worth that."""
    ranks = [_rank(one.type) for one in product.inputs]
    if ranks not in ([1, 2], [2, 1]):
        return None
    place = ranks.index(2)
    vector = _vector(product.inputs[1 - place])
    # The terms are on the last axis of a matrix on the left, and on the first of one on the right.
    matrix = _matrix(product.inputs[place], 1 - place)
    if vector is None:
        return None
    found = _Product(product, vector, matrix)
    sides = (vector.matrix, matrix.matrix)
    if not all(_stays(one, loop, analysis) for one in sides):
        return None
    return found if _is_worth_it(found, trips) else None


def _rank(type_: Type) -> int | None:
    if not isinstance(type_, TensorType) or type_.dims is None or type_.dtype is None:
        return None
    return len(type_.dims) if type_.dtype.kind == "f" else None


def _vector(value: Value) -> _Side | None:
    """A row or a column of a matrix."""
    view = value.node
    parts = _parts(view)
    if view is None or len(parts) != 2 or _rank(view.inputs[0].type) != 2:
        return None
    for axis in (0, 1):
        if parts[axis] == ":" and re.fullmatch(r"\$\d+", parts[1 - axis]):
            return _Side(view, view.inputs[0], axis)
    return None


def _matrix(value: Value, axis: int) -> _Side:
    """A matrix, or a part of one that has all of an axis."""
    view = value.node
    parts = _parts(view)
    if view is None or len(parts) != 2 or parts[axis] != ":" or _rank(view.inputs[0].type) != 2:
        return _Side(None, value, axis)
    return _Side(view, view.inputs[0], axis)


def _parts(view: Node | None) -> list[str]:
    if view is None or view.kind != "np::view":
        return []
    return str(view.attributes["index"]).split(", ")


def _stays(matrix: Value, loop: Node, analysis: AliasAnalysis) -> bool:
    """Whether a matrix is there before a loop, which does not write to it."""
    places: list[Node | Block] = [block_of(matrix), *analysis.writers(matrix)]
    return not any(lies_in(one, loop) for one in places)


def _is_worth_it(product: _Product, trips: int) -> bool:
    """Whether the loop takes most of the vectors, and these are many."""
    rows, columns = product.vector.extent, product.matrix.extent
    type_ = product.vector.matrix.type
    assert isinstance(type_, TensorType) and type_.dims is not None and type_.dtype is not None
    terms = type_.dims[product.vector.axis]
    if rows is None or columns is None or not isinstance(terms, int):
        return False
    is_large = rows * columns * terms >= LEAST_TERMS
    fits = rows * columns * type_.dtype.itemsize <= MOST_BYTES
    return is_large and fits and 2 * trips >= rows


def _replace(product: _Product, loop: Node) -> None:
    node, vector, matrix = product.node, product.vector, product.matrix
    log.update("loop_products", lambda: f"multiply %{matrix.matrix.name} before the loop")
    left = _with_terms_on(vector, 1, node, loop)
    right = _with_terms_on(matrix, 0, node, loop)
    given = vector.matrix.type
    assert isinstance(given, TensorType)
    rows, columns = vector.extent, matrix.extent
    assert rows is not None and columns is not None
    type_ = TensorType(given.dtype, (rows, columns))
    whole = _inserted(loop, "np::matmul", [left, right], type_, node)
    operands = [*vector.operands, *matrix.operands]
    moved = re.sub(
        r"\$(\d+)", lambda found: f"${int(found[1]) + len(vector.operands)}", matrix.index
    )
    view = node.insert_before(
        "np::view",
        [whole, *operands],
        {"index": f"{vector.index}, {moved}"},
        outputs=(node.output.type,),
        source=node.source,
    )
    view.origin = node.origin
    node.output.replace_all_uses_with(view.output)
    node.destroy()


def _with_terms_on(side: _Side, axis: int, node: Node, loop: Node) -> Value:
    """The matrix of one side, with its axes exchanged where the terms are on the other one."""
    if side.axis == axis:
        return side.matrix
    type_ = side.matrix.type
    assert isinstance(type_, TensorType) and type_.dims is not None
    exchanged = TensorType(type_.dtype, type_.dims[::-1])
    return _inserted(loop, "np::transpose", [side.matrix], exchanged, node)


def _inserted(loop: Node, kind: str, inputs: list[Value], type_: Type, node: Node) -> Value:
    attributes = {"axes": (1, 0)} if kind == "np::transpose" else {}
    made = loop.insert_before(kind, inputs, attributes, outputs=(type_,), source=node.source)
    made.origin = node.origin
    return made.output
