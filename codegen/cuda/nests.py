"""What the mappings of loop nests to threads share: independence, extents, launches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from jitcore.codegen.cuda.linear import depends_on, stride_along
from jitcore.codegen.loop_passes.independence import writes_apart
from jitcore.codegen.loop_passes.rewriting import numbered, replaced, simplified, with_expressions
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    calls_c,
    expressions,
    loads,
    overlap,
    read_roots,
    variables,
    walk,
    written_roots,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Break,
    Cast,
    Comment,
    Const,
    Continue,
    Expr,
    For,
    If,
    Let,
    Load,
    Return,
    Stmt,
    Store,
    Var,
    While,
)
from jitcore.codegen.lowering.arithmetic import (
    ONE,
    ZERO,
    add,
    integer,
    maximum,
    minimum,
    multiply,
    product,
    subtract,
)
from jitcore.codegen.lowering.operands import NotNative

__all__ = [
    "ELEMENT_THREADS",
    "MAX_BLOCKS",
    "blocks_for",
    "chain",
    "collapsed",
    "check_nest",
    "extent_of",
    "flat",
    "is_independent",
    "jumps",
    "nest_of",
    "with_independence",
]

ELEMENT_THREADS = 256
MAX_BLOCKS = 1 << 20
"""More iterations than that many blocks have threads are taken in turns."""

MAX_WORD = (1 << 32) - 1


def check_nest(nest: For) -> None:
    """Raise NotNative for what no kernel can do."""
    for statement in walk([nest]):
        if isinstance(statement, Return):
            raise NotNative("an error that only shows while a kernel runs")
        if any(map(calls_c, expressions(statement))):
            raise NotNative("a C function in a loop over elements")


def is_independent(loop: For) -> bool:
    """Whether a loop is known to be one whose iterations may run in any order."""
    if not loop.parallel or loop.step != 1 or jumps(loop.body):
        return False
    bound = bound_names([loop])
    return not any(isinstance(one, Assign) and one.var.name not in bound for one in walk([loop]))


def with_independence(loop: For) -> For:
    """A loop of the program that says where its iterations may run in any order.

    Those inside that hold nothing but each other say it, too.
    """
    if loop.parallel or loop.step != 1 or not _may_share(loop):
        return loop
    body = [with_independence(one) if isinstance(one, For) else one for one in loop.body]
    return replace(loop, body=body, parallel=True)


def _may_share(loop: For) -> bool:
    """Whether no iteration leaves anything for another one, or ends the loop."""
    bound = bound_names([loop])
    for one in walk(loop.body):
        is_left = isinstance(one, Assign) and one.var.name not in bound
        # What threads share cannot be inside of loops that each of them runs as often as it likes.
        is_loop = isinstance(one, While) and any(isinstance(x, For) for x in walk(one.body))
        if is_left or is_loop or isinstance(one, Return | Continue):
            return False
    return not jumps(loop.body) and writes_apart(loop)


def jumps(body: Sequence[Stmt]) -> bool:
    """Whether a jump may leave the iteration that this is the body of."""
    for statement in body:
        if isinstance(statement, Break):
            return True
        if isinstance(statement, If) and (jumps(statement.then) or jumps(statement.orelse)):
            return True
    return False


def extent_of(loop: For) -> Expr:
    """How many iterations a loop has."""
    if loop.start == ZERO:
        return loop.stop if isinstance(loop.stop, Const) else maximum(loop.stop, ZERO)
    return maximum(subtract(loop.stop, loop.start), ZERO)


def blocks_for(count: Expr, each: int, most: int = MAX_BLOCKS) -> Expr:
    """Blocks for so many iterations, ``each`` of them in one."""
    needed = Binary("quot", add(count, integer(each - 1)), integer(each), "int64")
    if isinstance(count, Const):
        needed_known = -(-count.value // each)
        return integer(min(max(needed_known, 1), most))
    return minimum(maximum(needed, ONE), integer(most))


def nest_of(loops: Sequence[For], body: list[Stmt]) -> For:
    """These loops, each in the one before it, around other statements."""
    for loop in reversed(loops):
        body = [replace(loop, body=body)]
    (nest,) = body
    assert isinstance(nest, For)
    return nest


def chain(nest: For, belongs: Callable[[For], bool]) -> tuple[list[For], list[Stmt]]:
    """Loops that hold nothing but the next one, and what the innermost holds.

    All but the first have to be such as ``belongs`` says.  Values bound between them come first
    in what it holds, which may not write what they are read from.
    """
    loops, bindings, body = [nest], list[Stmt](), list(nest.body)
    while body and isinstance(body[-1], For):
        *before, last = body
        assert isinstance(last, For)
        bounds = {*variables(last.start), *variables(last.stop)}
        changing = bound_names(before) | {loop.var.name for loop in loops}
        if not belongs(last) or not all(map(_is_plain, before)) or bounds & changing:
            break
        if overlap(read_roots(before), written_roots([last])):
            break
        bindings.extend(before)
        loops.append(last)
        body = list(last.body)
    return loops, [*bindings, *body]


def _is_plain(statement: Stmt) -> bool:
    return isinstance(statement, Comment) or (isinstance(statement, Let) and not statement.mutable)


def collapsed(loops: list[For], body: list[Stmt]) -> tuple[list[For], list[Stmt]]:
    """Two loops that walk all memory as one would become one, from the innermost outward."""
    while len(loops) > 1 and _walk_as_one(loops[-2], loops[-1], body):
        outer, inner = loops[-2:]
        names = {outer.var.name: ZERO}

        def change(x: Expr, names: dict[str, Const] = names) -> Expr:
            return simplified(replaced(x, lambda old: names.get(_name(old))))

        body = [with_expressions(one, change) for one in body]
        size = multiply(extent_of(outer), extent_of(inner))
        loops = [*loops[:-2], replace(inner, stop=size)]
    return loops, body


def _name(x: Expr) -> str:
    return x.name if isinstance(x, Var) else ""


def _walk_as_one(outer: For, inner: For, body: Sequence[Stmt]) -> bool:
    """Whether a step of the outer loop is, for each access, as long as the whole inner one."""
    if outer.start != ZERO or inner.start != ZERO:
        return False
    pair = (outer.var.name, inner.var.name)
    extent = extent_of(inner)
    for statement in walk(body):
        indices = [load.index for x in expressions(statement) for load in loads(x)]
        if isinstance(statement, Store):
            indices.append(statement.index)
        for index in indices:
            step, element = (stride_along(index, name) for name in pair)
            if step is None or element is None or step != multiply(element, extent):
                return False
        # What they are needed for besides is not known.
        others = [x for x in expressions(statement) if not isinstance(x, Load) and x not in indices]
        if any(depends_on(_without_indices(x), name) for x in others for name in pair):
            return False
    return True


def _without_indices(x: Expr) -> Expr:
    """An expression with all its loads at index 0."""

    def change(one: Expr) -> Expr | None:
        return replace(one, index=ZERO) if isinstance(one, Load) else None

    return replaced(x, change)


def flat(loops: Sequence[For], names: set[str]) -> tuple[Expr, Var, list[Let]]:
    """One count for several loops: how far, the counter, and what it means for theirs."""
    extents = [extent_of(loop) for loop in loops]
    if len(loops) == 1 and loops[0].start == ZERO:
        return extents[0], loops[0].var, []
    size = product(extents)
    counter = Var(numbered("element", names), "int64")
    if isinstance(size, Const) and 0 < size.value <= MAX_WORD:
        return size, counter, list(_places_by_words(loops, counter, names))
    bindings: list[Let] = []
    rest: Expr = counter
    for loop, extent in reversed(list(zip(loops, extents, strict=True))[1:]):
        whole = Var(numbered(f"{loop.var.name}_rows", names), "int64")
        place = Binary("sub", rest, multiply(whole, extent), "int64")
        bindings.append(Let(whole, Binary("quot", rest, maximum(extent, ONE), "int64")))
        bindings.append(Let(loop.var, add(loop.start, place)))
        rest = whole
    bindings.append(Let(loops[0].var, add(loops[0].start, rest)))
    return size, counter, bindings


def _places_by_words(loops: Sequence[For], counter: Var, names: set[str]) -> Iterator[Let]:
    """What a count means for loops of known extents, in words of 32 bits: half the instructions."""
    rest = Var(numbered("rest", names), "uint32")
    yield Let(rest, Cast(counter, "uint32"))
    for loop in reversed(loops[1:]):
        extent = extent_of(loop)
        assert isinstance(extent, Const)
        word = Const(extent.value, "uint32")
        whole = Var(numbered(f"{loop.var.name}_rows", names), "uint32")
        before = Binary("mul", whole, word, "uint32")
        yield Let(whole, Binary("quot", rest, word, "uint32"))
        place = Cast(Binary("sub", rest, before, "uint32"), "int64")
        yield Let(loop.var, add(loop.start, place))
        rest = whole
    yield Let(loops[0].var, add(loops[0].start, Cast(rest, "int64")))
