"""Sums that several iterations add to: of integers, in whatever order, by the device's atomic ones.

Before::

    counts_element = counts[place]
    total = counts_element + 1
    counts[place] = total

After::

    cuda.add_to(counts, place, 1)

Nothing else in the loop may read or write that memory.  Sums of floats depend on the order, and
stay as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from jitcore.codegen.loop_passes.rewriting import with_blocks
from jitcore.codegen.loop_passes.traversal import (
    expressions,
    loads,
    overlap,
    variables,
    walk,
    written_roots,
)
from jitcore.codegen.loops import Assign, Binary, Call, Do, Expr, For, Let, Load, Stmt, Store, Var

__all__ = ["ADD_TO", "is_atomic_sum", "with_atomic_sums", "without_atomic_sums"]

ADD_TO = "cuda.add_to"

_SUMMED = frozenset({"int32", "uint32", "int64", "uint64"})
"""What ``red.add`` takes."""


def with_atomic_sums(loop: For) -> For:
    """The loop with such sums; itself where it has none."""
    sums = _Sums(loop)
    made = with_blocks(loop, sums.block)
    assert isinstance(made, For)
    return made if sums.are_apart(made) else loop


def is_atomic_sum(statement: Stmt) -> TypeGuard[Do]:
    """Whether a statement adds to what others add to, too."""
    return isinstance(statement, Do) and statement.call.name == ADD_TO


def without_atomic_sums(statements: Sequence[Stmt]) -> list[Stmt]:
    """Statements without such sums, which no order matters to."""
    return [with_blocks(one, without_atomic_sums) for one in statements if not is_atomic_sum(one)]


def _roots(statements: Sequence[Stmt]) -> Iterator[str]:
    """The memory of each load and each store."""
    for one in walk(statements):
        if isinstance(one, Store):
            yield one.root
        yield from (load.root for x in expressions(one) for load in loads(x))


class _Sums:
    """Finds the sums in a loop.

    Parameters
    ----------
    loop : For
    """

    def __init__(self, loop: For) -> None:
        inside = list(walk(loop.body))
        self._uses = Counter(v for one in inside for x in expressions(one) for v in variables(x))
        self._assigned = {one.var.name for one in inside if isinstance(one, Assign)}
        self._written = written_roots(loop.body)
        self._accesses = Counter(_roots(loop.body))
        self._found: Counter[str] = Counter()

    def are_apart(self, made: For) -> bool:
        """Whether there are sums, and nothing else accesses their memory, with them in place."""
        left = set(_roots(made.body))
        # Each was a load and a store.
        others = (self._accesses[root] - 2 * count for root, count in self._found.items())
        return bool(self._found) and not any(others) and not overlap(left, set(self._found))

    def block(self, block: Sequence[Stmt]) -> list[Stmt]:
        """A block's statements, with a sum in the place of what computes it."""
        bound = {one.var.name: one for one in block if isinstance(one, Let) and not one.mutable}
        made = list(block)
        for statement in block:
            if not isinstance(statement, Store):
                continue
            steps = self._steps(statement, bound)
            if steps is None:
                continue
            added, computing = steps
            self._found[statement.root] += 1
            call = Call(ADD_TO, (statement.pointer, statement.index, added), "void")
            made = [Do(call) if one is statement else one for one in made]
            made = [one for one in made if not any(one is other for other in computing)]
        return [with_blocks(one, self.block) for one in made]

    def _steps(self, store: Store, bound: Mapping[str, Let]) -> tuple[Expr, list[Let]] | None:
        """What is added to an element, and what computes the sum for this store alone."""
        if store.value.dtype not in _SUMMED or store.unit:
            return None
        whole = self._opened(store.value, bound)
        total = whole[-1].value if whole else store.value
        if not isinstance(total, Binary) or total.op != "add":
            return None
        for one, added in ((total.x, total.y), (total.y, total.x)):
            part = self._opened(one, bound)
            element = part[-1].value if part else one
            wanted = Load(store.pointer, store.index, store.value.dtype, store.root)
            steady = (store.pointer, store.index, added)
            if element == wanted and all(map(self._is_steady, steady)):
                return added, [*whole, *part]
        return None

    def _opened(self, x: Expr, bound: Mapping[str, Let]) -> list[Let]:
        """What binds a variable that is read once."""
        is_one = isinstance(x, Var) and x.name in bound and self._uses[x.name] == 1
        return [bound[x.name]] if is_one and isinstance(x, Var) else []

    def _is_steady(self, x: Expr) -> bool:
        """Whether a value is the same a few statements later."""
        read = {load.root for load in loads(x)}
        return self._assigned.isdisjoint(variables(x)) and not overlap(read, self._written)
