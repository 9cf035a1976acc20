"""Matrix products: calls that lowering leaves as such, and the kernel for them.

A product is a statement, ``Do(cuda.matmul_<dtype>(...))``.  Where loops over its result follow, it
is a value in them (`codegen.cuda.epilogues`), an element of ``cuda.product_<dtype>(...)``: the
kernel then computes with the sums before they are written.
"""

from __future__ import annotations

from collections.abc import Iterator

from jitcore.codegen.cuda.kernels import Launch, Mapped
from jitcore.codegen.cuda.nests import chain, flat, is_independent
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, with_expressions
from jitcore.codegen.loop_passes.traversal import children, expressions
from jitcore.codegen.loops import Binary, Call, Do, Expr, For, If, Let, Stmt, Store, Var
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    both,
    cast,
    compare,
    integer,
    maximum,
    multiply,
    select,
    subtract,
)
from jitcore.ir.dataclass import dataclass

__all__ = [
    "MATMUL",
    "PRODUCT",
    "SUMS",
    "THREADS",
    "TILE",
    "Matrices",
    "as_nest",
    "element_of",
    "factors_of",
    "is_product",
    "map_product",
    "product_in",
]

MATMUL = "cuda.matmul_"
"""What the names of products begin with; the dtype follows.

The arguments are, for ``x``, ``y`` and the result in turn, the pointer, where the first matrix
begins, and the strides of the batch, of rows and of columns in elements; then the extents: rows,
columns, terms, and matrices of the batch."""

PRODUCT = "cuda.product_"
"""An element of a product: the arguments, and the element's place in C order."""

SUMS = "cuda.sums_"
"""What one thread has of a product: 4 by 4 sums, by rows.

The arguments are, for ``x`` and ``y`` in turn, the pointer, where the matrix begins, and the
strides of rows and of columns; then the first row and column of the block's tile, and the
extents."""

TILE = 64
"""Rows and columns of the part that one block computes."""

THREADS = 256
EACH = 4
"""Rows and columns of the part of a tile that one thread computes."""


@dataclass(frozen=True, slots=True)
class Matrices:
    """A batch of matrices, as a product's arguments describe them."""

    pointer: Expr
    start: Expr
    batch: Expr
    row: Expr
    column: Expr

    def first(self, batch: Expr) -> Expr:
        """Where a matrix of the batch begins."""
        return add(self.start, multiply(batch, self.batch))

    def place(self, batch: Expr, row: Expr, column: Expr) -> Expr:
        """Where an element lies."""
        along = add(multiply(row, self.row), multiply(column, self.column))
        return add(self.first(batch), along)


def is_product(statement: Stmt) -> bool:
    """Whether a statement is a product."""
    return isinstance(statement, Do) and statement.call.name.startswith(MATMUL)


def product_in(nest: For) -> Call | None:
    """The product whose elements a nest reads as values."""
    if not is_independent(nest):
        return None
    _, body = chain(nest, is_independent)
    return next((call for one in body for x in expressions(one) for call in _products(x)), None)


def _products(x: Expr) -> Iterator[Call]:
    if isinstance(x, Call) and x.name.startswith(PRODUCT):
        yield x
        return
    for child in children(x):
        yield from _products(child)


def factors_of(call: Call) -> str:
    """The dtype of the matrices that a product multiplies."""
    return call.name.removeprefix(MATMUL).removeprefix(PRODUCT)


def element_of(call: Call, place: Expr) -> Call:
    """An element of a product, as a value; the product of bfloat16 is one of float32."""
    factors = factors_of(call)
    result = "float32" if factors == "bfloat16" else factors
    return Call(f"{PRODUCT}{factors}", (*call.args, place), result)


def matrices(call: Call) -> tuple[Matrices, Matrices, Matrices]:
    """``x``, ``y`` and the result of a product."""
    x, y, z = (Matrices(*call.args[start : start + 5]) for start in (0, 5, 10))
    return x, y, z


def extents(call: Call) -> tuple[Expr, Expr, Expr, Expr]:
    """Rows, columns, terms and the matrices of the batch of a product."""
    rows, columns, terms, batches = call.args[15:19]
    return rows, columns, terms, batches


def as_nest(call: Call, names: set[str]) -> For:
    """A product as loops that store its elements."""
    rows, columns, _, batches = extents(call)
    batch, row, column = (
        Var(numbered(name, names), "int64") for name in ("batch", "row", "column")
    )
    place = add(multiply(add(multiply(batch, rows), row), columns), column)
    element = element_of(call, place)
    target = matrices(call)[2]
    root = target.pointer.name if isinstance(target.pointer, Var) else ""
    body: Stmt = Store(target.pointer, target.place(batch, row, column), element, root)
    for var, extent in ((column, columns), (row, rows), (batch, batches)):
        body = For(var, ZERO, extent, [body], parallel=True)
    assert isinstance(body, For)
    return body


def map_product(nest: For, names: set[str], library: str = "") -> Mapped:
    """The kernel of a nest that reads a product: one block for each tile of each matrix.

    Parameters
    ----------
    nest : For
        Its iterations are the product's elements in C order.
    names : set of str
        The names that are taken; gets the new ones.
    library : str
        Who computes the product where it can read the matrices; for reports.
    """
    call = product_in(nest)
    assert call is not None
    rows, columns, _, batches = extents(call)
    tiles = multiply(multiply(_tiles(rows), _tiles(columns)), batches)
    launch = Launch(maximum(tiles, ONE), integer(THREADS))
    kernel = _Kernel(nest, call, names)
    mapping = "a block per tile of a matrix product"
    if kernel.has_epilogue:
        mapping += ", which computes with the sums before it writes them"
    if library:
        mapping += f", where {library} does not take its layout"
    return Mapped(kernel.body(), launch, mapping)


def _tiles(extent: Expr) -> Expr:
    return Binary("quot", add(extent, integer(TILE - 1)), integer(TILE), "int64")


class _Kernel:
    """Writes what a thread does."""

    def __init__(self, nest: For, call: Call, names: set[str]) -> None:
        self._call, self._names = call, names
        self._loops, self._body = chain(nest, is_independent)
        self._x, self._y, _ = matrices(call)
        self._rows, self._columns, self._terms, self._batches = extents(call)
        self._dtype = call.dtype
        self._batch = self._new("batch")
        self._first_row, self._first_column = self._new("first_row"), self._new("first_column")
        self._own_row, self._own_column = self._new("own_row"), self._new("own_column")
        self._sums = Var(numbered("sums", names), f"{_accumulator(call.dtype)}x{EACH * EACH}")

    def _new(self, name: str) -> Var:
        return Var(numbered(name, self._names), "int64")

    @property
    def has_epilogue(self) -> bool:
        """Whether the nest does more than store the product's elements."""
        return not (len(self._body) == 1 and self._stored() == self._call)

    def _stored(self) -> Expr | None:
        last = self._body[-1]
        return last.value if isinstance(last, Store) else None

    def body(self) -> list[Stmt]:
        """The statements of the kernel."""
        made = [*self._tile(), *self._own()]
        for row in range(EACH):
            for column in range(EACH):
                made.append(self._element(row, column))
        return made

    def _tile(self) -> Iterator[Stmt]:
        """Which part of which matrix the block computes."""
        across, number = self._new("across"), self._new("tile")
        of_matrix, row = self._new("tiles"), self._new("tile_row")
        yield Let(across, maximum(_tiles(self._columns), ONE))
        yield Let(of_matrix, maximum(multiply(across, _tiles(self._rows)), ONE))
        yield Let(self._batch, _quotient(Call("cuda.block", (), "int64"), of_matrix))
        first = multiply(self._batch, of_matrix)
        yield Let(number, subtract(Call("cuda.block", (), "int64"), first))
        yield Let(row, _quotient(number, across))
        yield Let(self._first_row, multiply(row, integer(TILE)))
        column = subtract(number, multiply(row, across))
        yield Let(self._first_column, multiply(column, integer(TILE)))

    def _own(self) -> Iterator[Stmt]:
        """The sums of a thread, and which rows and columns they belong to."""
        thread = Call("cuda.thread", (), "int64")
        row = multiply(_quotient(thread, integer(TILE // EACH)), integer(EACH))
        column = Binary("and", thread, integer(TILE // EACH - 1), "int64")
        yield Let(self._own_row, add(self._first_row, row))
        yield Let(self._own_column, add(self._first_column, multiply(column, integer(EACH))))
        # A product without elements has a block all the same, which must not read.
        is_real = compare("lt", self._batch, self._batches)
        args: list[Expr] = []
        for one in (self._x, self._y):
            args += [one.pointer, one.first(self._batch), one.row, one.column]
        tile = (self._first_row, self._first_column)
        terms = select(is_real, self._terms, ZERO)
        args += [*tile, self._rows, self._columns, terms]
        name = f"{SUMS}{factors_of(self._call)}"
        yield Let(self._sums, Call(name, tuple(args), self._sums.dtype))

    def _element(self, row: int, column: int) -> Stmt:
        """The nest's statements for one of a thread's elements, if there is such an element."""
        own_row, own_column = (
            add(self._own_row, integer(row)),
            add(self._own_column, integer(column)),
        )
        in_rows, in_columns = (
            compare("lt", own_row, self._rows),
            compare("lt", own_column, self._columns),
        )
        place = integer(EACH * row + column)
        lane = Call("cuda.lane", (self._sums, place), _accumulator(self._dtype))
        value = cast(lane, self._dtype)

        def change(x: Expr) -> Expr | None:
            return value if isinstance(x, Call) and x.name.startswith(PRODUCT) else None

        body = [with_expressions(one, lambda x: replaced(x, change)) for one in self._body]
        is_real = both(compare("lt", self._batch, self._batches), both(in_rows, in_columns))
        return If(is_real, [*self._counters(own_row, own_column), *body])

    def _counters(self, row: Expr, column: Expr) -> Iterator[Stmt]:
        """The nest's counters at an element."""
        *outer, last = self._loops
        own_row = add(multiply(self._batch, self._rows), row)
        if outer and last.stop == self._columns:
            yield Let(last.var, column)
            if len(outer) == 2 and (outer[0].stop, outer[1].stop) == (self._batches, self._rows):
                yield Let(outer[0].var, self._batch)
                yield Let(outer[1].var, row)
                return
            _, counter, bindings = flat(outer, self._names)
            yield Let(counter, own_row)
        else:
            _, counter, bindings = flat(self._loops, self._names)
            yield Let(counter, add(multiply(own_row, self._columns), column))
        yield from bindings


def _quotient(x: Expr, y: Expr) -> Expr:
    return Binary("quot", x, y, "int64")


def _accumulator(dtype: str) -> str:
    """In what sums of a dtype are kept, as NumPy does it."""
    return "float32" if dtype == "float16" else dtype
