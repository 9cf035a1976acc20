"""A light range analysis of int64 variables, so that loops carry no checks they cannot fail.

Variables stand for linear forms over other variables, and facts are linear forms known to be at
least 0 where the code is.  ``i`` of ``range(1, n - 1)`` has the facts ``i - 1`` and ``n - 2 - i``,
which prove that ``i + 1`` neither overflows nor leaves an axis of extent ``n``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from jitcore.codegen.loops import Binary, Const, Expr, Var
from jitcore.ir.dataclass import dataclass

__all__ = ["Linear", "Ranges"]

LEAST, GREATEST = -(2**63), 2**63 - 1
DEPTH = 4
"""How many facts one proof may combine."""
MAX_TERMS = 8
"""A variable with a longer form stands for itself: sums of many variables prove nothing."""


@dataclass(frozen=True, slots=True)
class Linear:
    """``sum(coefficient * variable) + constant``; no coefficient is 0."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def plus(self, other: Linear, factor: int = 1) -> Linear:
        """``self + factor * other``."""
        terms = dict(self.terms)
        for name, coefficient in other.terms:
            terms[name] = terms.get(name, 0) + factor * coefficient
        kept = tuple(sorted((name, value) for name, value in terms.items() if value))
        return Linear(kept, self.constant + factor * other.constant)

    def times(self, factor: int) -> Linear:
        """``factor * self``."""
        return Linear().plus(self, factor)


class Ranges:
    """What is known about variables at the place that is being lowered."""

    def __init__(self) -> None:
        self._forms: dict[str, Linear] = {}
        self._limits: dict[str, tuple[int, int]] = {}
        self._facts: list[Linear] = []
        self._lengths: dict[str, tuple[Linear, int]] = {}
        self._conditions: dict[str, tuple[list[Linear], list[Linear]]] = {}

    def copy(self) -> Ranges:
        """What is known now, for an attempt whose variables' names may be given to others."""
        other = Ranges()
        other.restore(self)
        return other

    def restore(self, other: Ranges) -> None:
        """Know what others know, and nothing else."""
        self._forms = dict(other._forms)
        self._limits = dict(other._limits)
        self._facts = list(other._facts)
        self._lengths = dict(other._lengths)
        self._conditions = dict(other._conditions)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget, at the end, the facts assumed inside."""
        count = len(self._facts)
        try:
            yield
        finally:
            del self._facts[count:]

    # What is known ------------------------------------------------------------------------

    def form(self, x: Expr) -> Linear:
        """An int64 constant, variable, sum or difference as a linear form."""
        match x:
            case Const():
                return Linear((), int(x.value))
            case Var():
                return self._forms.get(x.name, Linear(((x.name, 1),)))
            case Binary(op="add"):
                return self.form(x.x).plus(self.form(x.y))
            case Binary(op="sub"):
                return self.form(x.x).plus(self.form(x.y), -1)
        raise ValueError(f"no linear form of {x}")

    def define(self, x: Expr, form: Linear) -> None:
        """A variable is this form, exactly: its computation did not overflow."""
        if isinstance(x, Var) and len(form.terms) <= MAX_TERMS:
            self._forms[x.name] = form

    def limit(self, x: object, low: int = LEAST, high: int = GREATEST) -> None:
        """A variable lies between two numbers, too."""
        if isinstance(x, Var):
            old_low, old_high = self._limits.get(x.name, (LEAST, GREATEST))
            self._limits[x.name] = max(low, old_low), min(high, old_high)

    def at_least(self, x: Expr, low: int) -> None:
        """A variable is at least this number."""
        self.limit(x, low)

    def assume(self, *facts: Linear) -> None:
        """These forms are at least 0 until the scope ends."""
        for fact in facts:
            self._facts.append(fact)
            self._assume_not_empty(fact)

    def _assume_not_empty(self, fact: Linear) -> None:
        """A range that has numbers at all has as many as its bounds say."""
        match fact.terms:
            case ((name, 1),) if fact.constant < 0 and name in self._lengths:
                span, step = self._lengths[name]
                self._facts.append(span.plus(Linear(((name, -step),), step - 1)))

    def length(self, x: Expr, span: Linear, step: int) -> None:
        """``x`` is how many numbers a range over ``span`` has: ``ceil(max(span, 0) / step)``."""
        if isinstance(x, Var):
            self._lengths[x.name] = span, step

    def minimum(self, x: Expr, *others: Expr) -> None:
        """A variable is at most each of these."""
        for other in others:
            self.assume(self.form(other).plus(self.form(x), -1))

    def counts(self, index: Var, stop: Expr) -> None:
        """``index`` runs over ``range(stop)`` until the scope ends."""
        self.limit(index, 0)
        one_less = Linear(((index.name, -1),), -1)
        self.assume(self.form(stop).plus(one_less), self.form(stop).plus(Linear((), -1)))

    def condition(self, flag: Expr, op: str, x: Expr, y: Expr) -> None:
        """``flag`` is the result of comparing two int64."""
        if not isinstance(flag, Var) or op not in _NEGATED:
            return
        holds, fails = self._comparison(op, x, y), self._comparison(_NEGATED[op], x, y)
        self._conditions[flag.name] = holds, fails

    def assume_condition(self, flag: Expr, holds: bool) -> None:
        """A flag is known in the branch that is being lowered."""
        if isinstance(flag, Var) and flag.name in self._conditions:
            self.assume(*self._conditions[flag.name][0 if holds else 1])

    def _comparison(self, op: str, x: Expr, y: Expr) -> list[Linear]:
        difference = self.form(y).plus(self.form(x), -1)
        opposite = difference.times(-1)
        minus_one = Linear((), -1)
        return {
            "lt": [difference.plus(minus_one)],
            "le": [difference],
            "gt": [opposite.plus(minus_one)],
            "ge": [opposite],
            "eq": [difference, opposite],
            "ne": [],
        }[op]

    # Proofs -------------------------------------------------------------------------------

    def is_nonnegative(self, form: Linear, depth: int = DEPTH) -> bool:
        """Whether a form is surely at least 0."""
        if self._least(form) >= 0:
            return True
        if depth == 0:
            return False
        return any(
            self.is_nonnegative(form.plus(fact, -times), depth - 1)
            for fact in self._facts
            if (times := _times(fact, form))
        )

    def is_below(self, x: Expr, limit: Expr) -> bool:
        """Whether ``x < limit`` surely."""
        return self.is_nonnegative(self.form(limit).plus(self.form(x), -1).plus(Linear((), -1)))

    def fits(self, form: Linear) -> bool:
        """Whether a form surely lies in 64 bits."""
        above = form.plus(Linear((), -LEAST))
        below = Linear((), GREATEST).plus(form, -1)
        return self.is_nonnegative(above) and self.is_nonnegative(below)

    def _least(self, form: Linear) -> int:
        total = form.constant
        for name, coefficient in form.terms:
            low, high = self._limits.get(name, (LEAST, GREATEST))
            total += coefficient * (low if coefficient > 0 else high)
        return total


_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}


def _times(fact: Linear, form: Linear) -> int:
    """How often the fact has to be subtracted to remove a term of the form; 0 where none is."""
    terms = dict(form.terms)
    for name, coefficient in fact.terms:
        times, rest = divmod(terms.get(name, 0), coefficient)
        if times > 0 and not rest:
            return times
    return 0
