"""Walks over loop-nest statements: what lies inside, what is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence, Set
from operator import attrgetter
from typing import Any, Final, TypeVar

from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Comment,
    Const,
    Do,
    Expr,
    For,
    Function,
    If,
    Let,
    Load,
    Return,
    Select,
    Stmt,
    Store,
    Unary,
    Var,
    While,
)

T = TypeVar("T")

__all__ = [
    "DRAWS",
    "PREFETCH",
    "RELEASES",
    "STACK",
    "STREAM",
    "WITHOUT_BLOCKS",
    "blocks",
    "bound_names",
    "calls_c",
    "children",
    "expressions",
    "free_variables",
    "has_effect",
    "has_loops",
    "known_trips",
    "loads",
    "loads_in",
    "names_in",
    "overlap",
    "read_roots",
    "reads_by_call",
    "subexpressions",
    "variables",
    "walk",
    "written_roots",
]


def children(x: Expr) -> tuple[Expr, ...]:
    """The operands of an expression."""
    operands = _OPERANDS.get(type(x))
    return () if operands is None else operands(x)


# A table, since walks over expressions ask this more often than anything else.
_OPERANDS: Final[dict[type[Expr], Callable[[Any], tuple[Expr, ...]]]] = {
    Unary: lambda x: (x.x,),
    Cast: lambda x: (x.x,),
    Binary: attrgetter("x", "y"),
    Select: attrgetter("condition", "x", "y"),
    Load: attrgetter("pointer", "index"),
    Call: attrgetter("args"),
}


def subexpressions(x: Expr) -> Iterator[Expr]:
    """The expression and all that it is made of, each before its operands."""
    waiting = [x]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(children(one))


def _all_of(kind: type[T], x: Expr) -> list[T]:
    """The subexpressions of a kind, in their order."""
    found = list[T]()
    if type(x) is kind:
        found.append(x)
    operands = _OPERANDS.get(type(x))
    if operands is None:
        return found
    waiting = [iter(operands(x))]
    while waiting:
        for one in waiting[-1]:
            if type(one) is kind:
                found.append(one)
            operands = _OPERANDS.get(type(one))
            if operands is not None:
                waiting.append(iter(operands(one)))
                break
        else:
            waiting.pop()
    return found


def calls_c(x: Expr) -> bool:
    """Whether an expression calls a C function."""
    return any(one.external for one in _all_of(Call, x))


def reads_by_call(x: Expr) -> bool:
    """Whether an expression calls a C function that may read memory, of which no load tells."""
    return any(
        one.external and one.name != STACK and any(arg.dtype == "ptr" for arg in one.args)
        for one in _all_of(Call, x)
    )


def has_effect(x: Expr) -> bool:
    """Whether an expression calls a C function that takes memory or draws a random number."""
    return any(
        one.external and one.name != STACK and (one.dtype == "ptr" or one.name.startswith(DRAWS))
        for one in _all_of(Call, x)
    )


STACK = "jc_stack"
"""No C function: so many bytes of the function's own stack, until its end."""

STREAM = "jc_stream"
"""The C function that copies past the caches."""

PREFETCH = "jc_prefetch"
"""No C function: the processor is asked for some bytes from a place of an array."""

DRAWS = "jc_draw_"
"""What the names of C functions begin with that draw random numbers."""

RELEASES = frozenset({"free", "jc_free", "jc_decref"})
"""The C functions that give memory up."""


def known_trips(loop: For) -> int | None:
    """The number of a loop's iterations, where it is a constant."""
    if isinstance(loop.start, Const) and isinstance(loop.stop, Const):
        return max(-(-(int(loop.stop.value) - int(loop.start.value)) // loop.step), 0)
    return None


def has_loops(statements: Sequence[Stmt]) -> bool:
    """Whether a loop lies anywhere in statements."""
    return any(isinstance(one, For | While) for one in walk(statements))


def loads(x: Expr) -> list[Load]:
    """All loads of an expression."""
    return _all_of(Load, x)


def variables(x: Expr) -> list[str]:
    """The names an expression reads."""
    return [one.name for one in _all_of(Var, x)]


def blocks(statement: Stmt) -> tuple[list[Stmt], ...]:
    """The blocks of statements that a statement holds."""
    match statement:
        case For():
            return (statement.body,)
        case While():
            return statement.head, statement.body
        case If():
            return statement.then, statement.orelse
        case _:
            return ()


def walk(statements: Sequence[Stmt]) -> Iterator[Stmt]:
    """All statements, the inner ones too, in the order of the text."""
    waiting = list(reversed(statements))
    while waiting:
        statement = waiting.pop()
        yield statement
        if type(statement) not in WITHOUT_BLOCKS:
            for block in reversed(blocks(statement)):
                waiting += reversed(block)


WITHOUT_BLOCKS: Final = frozenset({Assign, Comment, Do, Let, Return, Store})
"""Of the kinds of statements those that most are of."""


def expressions(statement: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, without those of its blocks."""
    own = _EXPRESSIONS.get(type(statement))
    if own is not None:
        return own(statement)
    # A device's loops are of a kind of their own.
    return (statement.start, statement.stop) if isinstance(statement, For) else ()


# A table as well, for the same reason.
_EXPRESSIONS: Final[dict[type[Stmt], Callable[[Any], tuple[Expr, ...]]]] = {
    Let: lambda one: (one.value,),
    Assign: lambda one: (one.value,),
    Return: lambda one: (one.value,),
    Store: attrgetter("pointer", "index", "value"),
    For: attrgetter("start", "stop"),
    While: lambda one: (one.condition,),
    If: lambda one: (one.condition,),
    Do: lambda one: (one.call,),
}


def loads_in(statements: Sequence[Stmt]) -> list[Load]:
    """All loads of statements, of the inner ones too."""
    found: list[Load] = []
    for one in walk(statements):
        for x in expressions(one):
            if type(x) in _OPERANDS:
                found += _all_of(Load, x)
    return found


def bound_names(statements: Sequence[Stmt]) -> set[str]:
    """The names that statements, and those inside of them, bind."""
    return {one.var.name for one in walk(statements) if isinstance(one, Let | For)}


def overlap(roots: Set[str], others: Set[str]) -> bool:
    """Whether some memory may be some of the other; nothing is known of it without a name."""
    return bool(roots and others) and ("" in roots | others or not roots.isdisjoint(others))


def read_roots(statements: Sequence[Stmt]) -> set[str]:
    """The memory that statements read."""
    return {load.root for load in loads_in(statements)}


def written_roots(statements: Sequence[Stmt]) -> set[str]:
    """The memory that statements write to."""
    return {one.root for one in walk(statements) if isinstance(one, Store)}


def names_in(function: Function) -> set[str]:
    """All names of variables in a function: parameters, what it binds, and what it only reads."""
    names = {param.name for param in function.params}
    for one in walk(function.body):
        names.update(name for x in expressions(one) for name in variables(x))
        if isinstance(one, Let | For):
            names.add(one.var.name)
    return names


def free_variables(statements: Sequence[Stmt]) -> tuple[Var, ...]:
    """The variables that statements read and do not bind, each once."""
    found: dict[str, Var] = {}
    bound: set[str] = set()
    for statement in walk(statements):
        if isinstance(statement, Let | For):
            bound.add(statement.var.name)
        for expression in expressions(statement):
            for one in _all_of(Var, expression):
                found.setdefault(one.name, one)
    return tuple(var for name, var in found.items() if name not in bound)
