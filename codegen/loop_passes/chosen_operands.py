"""Of two divisions, roots or functions one of whose results is chosen, one computes both.

Vectors compute both sides of a choice.  Where both take the same function, its operands are chosen
in its place: a choice takes a cycle, a division up to sixteen.

Before::

    p = a / s
    q = b / t
    r = q + 2.0
    z = select(c, p, r)

After::

    chosen = select(c, a, b)
    chosen_2 = select(c, s, t)
    p = chosen / chosen_2
    r = p + 2.0
    z = select(c, p, r)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

from jitcore.codegen.loop_passes.rewriting import (
    numbered,
    renamed,
    with_blocks,
    with_expressions,
)
from jitcore.codegen.loop_passes.traversal import (
    bound_names,
    calls_c,
    children,
    expressions,
    free_variables,
    variables,
    walk,
)
from jitcore.codegen.loops import Binary, Call, Comment, Expr, Let, Select, Stmt, Unary, Var
from jitcore.ir.dataclass import dataclass

__all__ = ["choose_operands"]


def choose_operands(statements: Sequence[Stmt]) -> list[Stmt]:
    """The statements with operands chosen in place of results, where that saves something."""
    if not any(_has_choices(run) for run in _all_runs(statements)):
        return list(statements)
    return _Choosing(statements).block(statements)


def _all_runs(statements: Sequence[Stmt]) -> Iterator[list[Stmt]]:
    """The straight lines of all blocks; inner blocks are walked as if they followed each other."""
    run: list[Stmt] = []
    for one in walk(statements):
        if _is_plain(one):
            run.append(one)
        elif run:
            yield run
            run = []
    yield run


def _is_plain(one: Stmt) -> bool:
    """Whether a statement only binds what has no effect."""
    is_binding = isinstance(one, Let) and not one.mutable and not calls_c(one.value)
    return is_binding or isinstance(one, Comment)


def _has_choices(run: Sequence[Stmt]) -> bool:
    values = [one.value for one in run if isinstance(one, Let)]
    return sum(map(_is_dear, values)) > 1 and any(isinstance(one, Select) for one in values)


def _is_dear(x: Expr) -> bool:
    match x:
        case Binary(op="div"):
            return True
        case Unary(op="sqrt"):
            return True
        case Call(name=name, external=False):
            return name != "fma"
    return False


@dataclass(frozen=True, slots=True)
class _Choice:
    """A binding whose value is chosen, and what is bound for one of its sides alone."""

    let: Let
    select: Select
    sides: tuple[list[Let], list[Let]]

    def pairs(self) -> list[tuple[Let, Let]]:
        """What can be computed together; pairs come in the order of both sides."""
        left, right = ([one for one in side if _is_dear(one.value)] for side in self.sides)
        found = []
        for one in left:
            others = [k for k, other in enumerate(right) if _are_alike(one.value, other.value)]
            if others:
                found.append((one, right[others[0]]))
                right = right[others[0] + 1 :]
        return found


def _are_alike(x: Expr, y: Expr) -> bool:
    """Whether both are the same operation on numbers of the same dtypes."""
    own, others = children(x), children(y)
    if type(x) is not type(y) or x.dtype != y.dtype or len(own) != len(others):
        return False
    is_same = getattr(x, "op", None) == getattr(y, "op", None)
    is_same &= getattr(x, "name", None) == getattr(y, "name", None)
    return is_same and all(a.dtype == b.dtype for a, b in zip(own, others, strict=True))


class _Choosing:
    def __init__(self, statements: Sequence[Stmt]) -> None:
        self.uses = Counter(_read_in(walk(statements)))
        self.names = bound_names(statements)
        self.names |= {var.name for var in free_variables(statements)}

    def block(self, statements: Sequence[Stmt]) -> list[Stmt]:
        found: list[Stmt] = []
        run: list[Stmt] = []
        for one in statements:
            if _is_plain(one):
                run.append(one)
                continue
            found += [*self.run(run), with_blocks(one, self.block)]
            run = []
        return [*found, *self.run(run)]

    def run(self, run: list[Stmt]) -> list[Stmt]:
        """A straight line, with the choices in it made from the first one to the last."""
        if not _has_choices(run):
            return run
        for one in list(run):
            if isinstance(one, Let) and isinstance(one.value, Select):
                place = next(k for k, other in enumerate(run) if _binds(other, one.var))
                run = self.chosen(run, place)
        return run

    def chosen(self, run: list[Stmt], place: int) -> list[Stmt]:
        """The line with what is bound for the sides of one choice right before it, and shared."""
        let = run[place]
        assert isinstance(let, Let) and isinstance(let.value, Select)
        before = [one for one in run[:place] if isinstance(one, Let)]
        sides = (self.side(before, let.value.x), self.side(before, let.value.y))
        choice = _Choice(let, let.value, sides)
        pairs = choice.pairs()
        if not pairs:
            return run
        moved = {one.var for side in sides for one in side}
        rest = [one for one in run[:place] if not (isinstance(one, Let) and one.var in moved)]
        changed = [*rest, *self.together(choice, pairs), *run[place + 1 :]]
        self.uses.subtract(_read_in(run))
        self.uses.update(_read_in(changed))
        return changed

    def side(self, before: Sequence[Let], top: Expr) -> list[Let]:
        """What is bound for one side of a choice and read nowhere else."""
        found: list[Let] = []
        read = Counter(variables(top))
        for one in reversed(before):
            if read[one.var.name] and read[one.var.name] == self.uses[one.var.name]:
                found.insert(0, one)
                read.update(variables(one.value))
        return found

    def together(self, choice: _Choice, pairs: Sequence[tuple[Let, Let]]) -> list[Stmt]:
        """Both sides of a choice, with one operation for each pair."""
        condition = choice.select.condition
        rest = [iter(side) for side in choice.sides]
        known: dict[str, Expr] = {}
        body: list[Stmt] = []

        def known_by_now(x: Expr) -> Expr:
            return renamed(x, known)

        def chosen(x: Expr, y: Expr) -> Expr:
            x, y = known_by_now(x), known_by_now(y)
            if x == y:
                return x
            var = Var(numbered("chosen", self.names), x.dtype)
            body.append(Let(var, Select(condition, x, y, x.dtype)))
            return var

        for pair in pairs:
            for side, last in zip(rest, pair, strict=True):
                for one in side:
                    if one is last:
                        break
                    body.append(with_expressions(one, known_by_now))
            left, right = pair
            operands = zip(children(left.value), children(right.value), strict=True)
            value = _with_operands(left.value, [chosen(x, y) for x, y in operands])
            body.append(replace(left, value=value))
            known[right.var.name] = left.var
        body += [with_expressions(one, known_by_now) for one in chain(*rest)]
        value = known_by_now(choice.select)
        if isinstance(value, Select) and value.x == value.y:
            value = value.x
        return [*body, replace(choice.let, value=value)]


def _read_in(statements: Iterable[Stmt]) -> Iterator[str]:
    """The names that statements read, each as often as they do."""
    return (name for one in statements for x in expressions(one) for name in variables(x))


def _binds(one: Stmt, var: Var) -> bool:
    return isinstance(one, Let) and one.var == var


def _with_operands(x: Expr, operands: Sequence[Expr]) -> Expr:
    match x:
        case Binary():
            return replace(x, x=operands[0], y=operands[1])
        case Unary():
            return replace(x, x=operands[0])
        case Call():
            return replace(x, args=tuple(operands))
    raise AssertionError(f"internal error: {x} has no operands to choose")
