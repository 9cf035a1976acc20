"""What follows a matrix product becomes part of its kernel, so that the sums are written once.

Before::

    t = malloc(...)
    matmul(x, w, t)
    for i in range(rows):
        for j in range(columns): y[i, j] = max(t[i, j] + b[j], 0)
    free(t)

After::

    for i in range(rows):
        for j in range(columns): y[i, j] = max(product(x, w, i * columns + j) + b[j], 0)

This needs a product that nothing but such loops reads, whose iterations are its elements in C
order, and which write to memory that is made after the product: other blocks still read ``x`` and
``w`` when the first ones write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitcore.codegen.cuda.host_part import HOST_CALLS, before_returns
from jitcore.codegen.cuda.linear import stride_along
from jitcore.codegen.cuda.nests import chain, is_independent
from jitcore.codegen.cuda.products import element_of, extents, is_product, matrices
from jitcore.codegen.loop_passes.rewriting import (
    replaced,
    simplified,
    with_blocks,
    with_expressions,
)
from jitcore.codegen.loop_passes.traversal import expressions, loads_in, variables, walk
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Do,
    Expr,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
)
from jitcore.codegen.lowering.arithmetic import ONE, ZERO, multiply
from jitcore.codegen.lowering.arithmetic import product as product_of
from jitcore.codegen.lowering.state import NULL, RESULTS
from jitcore.ir.dataclass import dataclass

__all__ = ["with_epilogues"]


@dataclass(frozen=True, slots=True)
class _Epilogue:
    """A product, the temporary that it fills, and the only loops that read it.

    ``call`` and ``renamed`` are the product and the loops with one name for extents that are known
    to be equal.
    """

    product: Do
    temporary: Var
    nest: For
    call: Call
    renamed: For

    def joined(self) -> For:
        """The loops with the product's elements as values."""

        def change(x: Expr) -> Expr | None:
            if isinstance(x, Load) and x.pointer == self.temporary:
                return element_of(self.call, x.index)
            return None

        made = with_expressions(self.renamed, lambda x: replaced(x, change))
        assert isinstance(made, For)
        return made


def with_epilogues(statements: Sequence[Stmt], takes: Callable[[For], bool]) -> list[Stmt]:
    """A function's statements, with products as values in the loops that follow them.

    Parameters
    ----------
    statements : sequence of Stmt
        Of a whole function.
    takes : callable
        Whether loops are to have a product's elements as values; asked where they can.
    """
    made = list(statements)
    for block in _blocks(made):
        for number, one in enumerate(block):
            if not (isinstance(one, Do) and is_product(one)):
                continue
            found = _epilogue(one, block[:number], block[number + 1 :], made)
            if found is not None and takes(found.joined()):
                # The blocks are others now.
                return with_epilogues(_joined(made, found), takes)
    return made


def _blocks(statements: Sequence[Stmt]) -> list[Sequence[Stmt]]:
    """A block, and all blocks in its statements."""
    found: list[Sequence[Stmt]] = [statements]

    def note(block: Sequence[Stmt]) -> list[Stmt]:
        found.append(block)
        return [with_blocks(one, note) for one in block]

    for one in statements:
        with_blocks(one, note)
    return found


def _epilogue(
    product: Do, before: Sequence[Stmt], after: Sequence[Stmt], function: Sequence[Stmt]
) -> _Epilogue | None:
    """The loops that a product can be part of; None where it cannot."""
    target = matrices(product.call)[2].pointer
    place = next((n for n, one in enumerate(after) if isinstance(one, For)), len(after))
    between = after[:place]
    if place == len(after) or not isinstance(target, Var) or not all(map(_only_looks, between)):
        return None
    nest = after[place]
    assert isinstance(nest, For)
    if not _is_temporary(target, product, nest, function):
        return None
    changing = {one.var.name for one in walk(function) if isinstance(one, Assign)}
    equal = _equal_extents([*before, *between], changing)
    renamed = with_expressions(nest, lambda x: replaced(x, equal.get))
    call = replaced(product.call, equal.get)
    assert isinstance(renamed, For) and isinstance(call, Call)
    if not _is_of_elements(renamed, call, target, _new_memory(between)):
        return None
    return _Epilogue(product, target, nest, call, renamed)


def _only_looks(statement: Stmt) -> bool:
    """Whether a statement between a product and loops works on no elements.

    It may leave the function: nobody has seen the product then.
    """
    for one in walk([statement]):
        is_result = isinstance(one, Store) and one.pointer == RESULTS
        is_plain = isinstance(one, Let | If | Return | Comment) or is_result or _is_release(one)
        if not is_plain:
            return False
    return True


def _new_memory(statements: Sequence[Stmt]) -> set[str]:
    """The pointers to memory that statements make: of temporaries, and of arrays' elements."""
    found: set[str] = set()
    for one in statements:
        match one:
            case Let(var, Call(name=name)) if name in HOST_CALLS:
                found.add(var.name)
            case Let(var, Load(pointer=Var(name=name))) if name in found:
                found.add(var.name)
    return found


def _equal_extents(statements: Sequence[Stmt], changing: set[str]) -> dict[Expr, Expr]:
    """What has the same value as something else, since the function has gone on.

    Numbers of elements are products of extents.  Variables that change have no part in it.
    """
    found: dict[Expr, Expr] = {}

    def note(var: Expr, value: Expr) -> None:
        if isinstance(var, Var) and not changing & {var.name, *variables(value)}:
            found[var] = replaced(value, found.get)

    for one in statements:
        match one:
            case Let(var, Binary("mul") as value):
                note(var, value)
            case If(Binary("ne", x, y), [*_, Return()], []) if x.dtype == "int64":
                note(y, x)
    return found


def _is_of_elements(nest: For, call: Call, target: Var, new: set[str]) -> bool:
    """Whether loops have an iteration for each element of a product, and write new memory."""
    loops, body = chain(nest, is_independent)
    if not is_independent(nest) or not all(isinstance(one, Let | Store | Comment) for one in body):
        return False
    stores = [one for one in body if isinstance(one, Store)]
    if not all(isinstance(one.pointer, Var) and one.pointer.name in new for one in stores):
        return False
    own = [load for load in loads_in(body) if load.pointer == target]
    is_whole = bool(own) and all(_is_in_c_order(load.index, loops) for load in own)
    rows, columns, _, batches = extents(call)
    return is_whole and product_of(x.stop for x in loops) == product_of([batches, rows, columns])


def _is_temporary(pointer: Var, product: Do, nest: For, function: Sequence[Stmt]) -> bool:
    """Whether memory is made for a product, and only read by a nest."""
    mine = [*walk([product]), *walk([nest])]
    others = [one for one in walk(function) if not any(one is other for other in mine)]
    is_made = False
    for one in others:
        used = any(pointer.name in variables(x) for x in expressions(one))
        if isinstance(one, Let) and one.var.name == pointer.name:
            is_made = isinstance(one.value, Call) and one.value.name in HOST_CALLS
        elif used and not (_is_release(one) or _is_check(one, pointer)):
            return False
    args = product.call.args
    reads_itself = any(pointer.name in variables(x) for x in args[:10])
    stored = (one for one in walk([nest]) if isinstance(one, Store))
    return is_made and not reads_itself and all(one.pointer != pointer for one in stored)


def _is_release(statement: Stmt) -> bool:
    return isinstance(statement, Do) and statement.call.name in ("free", "jc_free")


def _is_check(statement: Stmt, pointer: Var) -> bool:
    """Whether a statement asks whether there was memory."""
    if not isinstance(statement, If):
        return False
    condition = statement.condition
    return isinstance(condition, Binary) and (condition.x, condition.y) == (pointer, NULL)


def _is_in_c_order(index: Expr, loops: Sequence[For]) -> bool:
    """Whether an index counts the iterations of some loops."""
    step: Expr = ONE
    for loop in reversed(loops):
        if loop.start != ZERO or stride_along(index, loop.var.name) != step:
            return False
        step = multiply(loop.stop, step)
    counters = {loop.var.name for loop in loops}

    def first(x: Expr) -> Expr | None:
        return ZERO if isinstance(x, Var) and x.name in counters else None

    return simplified(replaced(index, first)) == ZERO


def _joined(statements: Sequence[Stmt], found: _Epilogue) -> list[Stmt]:
    """The statements without the product and its temporary, and with its elements in the nest.

    What is free after the product is now free after the nest, and wherever the function is left in
    between: the nest reads it.
    """
    name = found.temporary.name
    read = {x for arg in found.product.call.args for x in variables(arg)}

    def is_of_temporary(one: Stmt) -> bool:
        if one is found.product or (isinstance(one, Let) and one.var.name == name):
            return True
        is_freed = isinstance(one, Do) and _is_release(one) and found.temporary in one.call.args
        return is_freed or _is_check(one, found.temporary)

    def is_held(one: Stmt) -> bool:
        if not (isinstance(one, Do) and _is_release(one)):
            return False
        return any(x in read for arg in one.call.args for x in variables(arg))

    def block(inside: Sequence[Stmt]) -> list[Stmt]:
        made: list[Stmt] = []
        held: list[Stmt] = []
        is_between = False
        for one in inside:
            if one is found.nest:
                made += [found.joined(), *held]
                held, is_between = [], False
            elif is_of_temporary(one):
                is_between = is_between or one is found.product
            elif is_between and is_held(one):
                held.append(one)
            else:
                left = [with_blocks(one, block)]
                for release in held:
                    left = before_returns(left, release)
                made += left
        return made

    return block(statements)
