"""What passes over loop nests share: other blocks, other operands, names nobody has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jitcore.codegen.loop_passes.traversal import WITHOUT_BLOCKS
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Cast,
    Const,
    Do,
    Expr,
    For,
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
from jitcore.codegen.lowering.arithmetic import add, integer, multiply, subtract

__all__ = [
    "copied",
    "numbered",
    "renamed",
    "replaced",
    "simplified",
    "unused_name",
    "with_blocks",
    "with_expressions",
]


def with_blocks(statement: Stmt, change: Callable[[Sequence[Stmt]], list[Stmt]]) -> Stmt:
    """The statement with each of the blocks it holds changed."""
    if type(statement) in WITHOUT_BLOCKS:
        return statement
    match statement:
        case For():
            return replace(statement, body=change(statement.body))
        case While():
            return replace(statement, head=change(statement.head), body=change(statement.body))
        case If():
            then, orelse = change(statement.then), change(statement.orelse)
            return replace(statement, then=then, orelse=orelse)
    return statement


def with_loops(
    statements: Sequence[Stmt], change: Callable[[For], Sequence[Stmt] | None]
) -> list[Stmt]:
    """The statements with what ``change`` gives in place of loops; those it leaves, inside too."""
    found: list[Stmt] = []
    for one in statements:
        given = change(one) if isinstance(one, For) else None
        if given is None:
            given = [with_blocks(one, lambda block: with_loops(block, change))]
        found += given
    return found


def numbered(name: str, names: set[str]) -> str:
    """The name, or the first of ``name_2``, ``name_3`` ... that no other has; joins ``names``."""
    found, number = name, 1
    while found in names:
        number += 1
        found = f"{name}_{number}"
    names.add(found)
    return found


def copied(statement: Stmt, names: set[str], own: dict[str, Expr]) -> Stmt:
    """A copy of a statement, or of loops around plain ones, with other names for what it binds.

    Parameters
    ----------
    statement : Stmt
    names : set of str
        All names of the function, which the new ones join.
    own : dict
        What stands in the copy for variables of the original; what the statement binds joins it.
    """

    def changed(x: Expr) -> Expr:
        return simplified(renamed(x, own))

    def renewed(var: Var) -> Var:
        new = replace(var, name=numbered(var.name, names))
        own[var.name] = new
        return new

    if isinstance(statement, For):
        start, stop = changed(statement.start), changed(statement.stop)
        own = dict(own)
        var = renewed(statement.var)
        body = [copied(one, names, own) for one in statement.body]
        return replace(statement, var=var, start=start, stop=stop, body=body)
    step = with_expressions(statement, changed)
    if isinstance(step, Let):
        return replace(step, var=renewed(step.var))
    if isinstance(step, Assign):
        target = changed(step.var)
        assert isinstance(target, Var)
        return replace(step, var=target)
    return step


def renamed(x: Expr, own: Mapping[str, Expr]) -> Expr:
    """An expression with others in the place of the variables of these names."""
    return replaced(x, lambda one: own.get(one.name) if isinstance(one, Var) else None)


def unused_name(name: str, names: set[str]) -> str:
    """The name, or a longer one, that is not among ``names``, to which it is added."""
    while name in names:
        name += "_"
    names.add(name)
    return name


def replaced(x: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """An expression with another one wherever ``change`` gives one, from the outside in."""
    new = change(x)
    if new is not None:
        return new

    def inside(one: Expr) -> Expr:
        return replaced(one, change)

    match x:
        case Unary() | Cast():
            return replace(x, x=inside(x.x))
        case Binary():
            return replace(x, x=inside(x.x), y=inside(x.y))
        case Select():
            return replace(x, condition=inside(x.condition), x=inside(x.x), y=inside(x.y))
        case Load():
            return replace(x, pointer=inside(x.pointer), index=inside(x.index))
        case Call():
            return replace(x, args=tuple(map(inside, x.args)))
    return x


def simplified(x: Expr) -> Expr:
    """An expression with what is constant in its int64 arithmetic folded."""

    def change(one: Expr) -> Expr | None:
        match one:
            case Binary("add", x, y, "int64"):
                return add(simplified(x), simplified(y))
            case Binary("sub", x, y, "int64"):
                return subtract(simplified(x), simplified(y))
            case Binary("mul", x, y, "int64"):
                return multiply(simplified(x), simplified(y))
            case Binary("and" | "quot", x, y, "int64"):
                return _folded(replace(one, x=simplified(x), y=simplified(y)))
        return None

    return replaced(x, change)


def _folded(x: Binary) -> Expr:
    if not isinstance(x.x, Const) or not isinstance(x.y, Const):
        return x
    first, second = x.x.value, x.y.value
    if x.op == "and":
        return integer(first & second)
    # A quotient is rounded towards zero.
    return integer(first // second) if first >= 0 and second > 0 else x


def with_expressions(statement: Stmt, change: Callable[[Expr], Expr]) -> Stmt:
    """The statement with each of its own expressions changed, and those in its blocks."""

    def block(statements: Sequence[Stmt]) -> list[Stmt]:
        return [with_expressions(one, change) for one in statements]

    statement = with_blocks(statement, block)
    match statement:
        case Let() | Assign() | Return():
            return replace(statement, value=change(statement.value))
        case Store():
            pointer, index = change(statement.pointer), change(statement.index)
            return replace(statement, pointer=pointer, index=index, value=change(statement.value))
        case For():
            return replace(statement, start=change(statement.start), stop=change(statement.stop))
        case While() | If():
            return replace(statement, condition=change(statement.condition))
        case Do():
            call = change(statement.call)
            assert isinstance(call, Call)
            return replace(statement, call=call)
    return statement
