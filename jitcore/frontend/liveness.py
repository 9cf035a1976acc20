"""Which variables are read later: computed backward over structured statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence

from jitcore.frontend.bindings import assigned_names, target_names
from jitcore.frontend.structure import (
    RESULT,
    Branch,
    Enter,
    Entered,
    ForLoop,
    Leave,
    Reraise,
    Return,
    SetFlag,
    Simple,
    Statement,
    Try,
    WhileLoop,
    Within,
)

__all__ = ["annotate_liveness"]

Names = frozenset[str]
Reads = Callable[[ast.AST], Names]


def annotate_liveness(statements: Sequence[Statement], reads: Reads) -> None:
    """Fill in ``live`` of every statement, and ``assigned`` and ``carried`` of every loop.

    Parameters
    ----------
    statements : sequence of Statement
        A whole function.
    reads : callable
        The local variables that a piece of syntax reads, in functions it calls too.
    """
    _Liveness(reads).block(statements, frozenset({RESULT}))


class _Liveness:
    def __init__(self, reads: Reads) -> None:
        self.reads = reads

    def block(self, statements: Sequence[Statement], live: Names) -> Names:
        """The variables live before a block, given those live after it."""
        for statement in reversed(statements):
            statement.live = live
            live = self._before(statement, live)
        return live

    def _before(self, statement: Statement, live: Names) -> Names:
        match statement:
            case Simple():
                return self._before_simple(statement.node, live)
            case Return():
                return self._before_return(statement, live)
            case SetFlag():
                return live - {statement.name}
            case Branch():
                return self._before_branch(statement, live)
            case WhileLoop():
                return self._before_while(statement, live)
            case ForLoop():
                return self._before_for(statement, live)
            case Try():
                return self._before_try(statement, live)
            case Within():
                return self.block(statement.body, live) | self.reads(statement.context)
            case Enter():
                return live | self.reads(statement.context)
            case Entered():
                bound = _always_bound_by(statement.target)
                return (live - bound) | self.reads(statement.target)
            case Leave() | Reraise():
                return live

    def _before_return(self, statement: Return, live: Names) -> Names:
        value = self.reads(statement.value) if statement.value else frozenset()
        if statement.is_last:
            # Of the user's variables none is read once the function has returned.
            live = frozenset(name for name in live if name.startswith("."))
        return value | (live - {RESULT})

    def _before_try(self, statement: Try, live: Names) -> Names:
        handled: Names = frozenset()
        for handler in statement.handlers:
            reads = self.reads(handler.classes) if handler.classes else frozenset()
            handled |= reads | (self.block(handler.body, live) - {handler.name})
        assigned = [name for name in _assigned(statement.body) if not name.startswith(".")]
        statement.kept = [name for name in assigned if name in handled]
        # The body may raise before it has done anything.
        return self.block(statement.body, live) | handled

    def _before_simple(self, node: ast.AST, live: Names) -> Names:
        reads = self.reads(node)
        return reads if isinstance(node, ast.Raise) else reads | (live - _always_bound(node))

    def _before_branch(self, branch: Branch, live: Names) -> Names:
        arms = self.block(branch.then, live) | self.block(branch.orelse, live)
        if isinstance(branch.test, str):
            return arms | {branch.test}
        return arms | self.reads(branch.test)

    def _before_while(self, loop: WhileLoop, live: Names) -> Names:
        tested = assigned_names([loop.test])
        loop.assigned = list(dict.fromkeys([*_assigned(loop.body), *tested]))
        flag = {loop.go_on} if loop.go_on else set()
        # What was found for a smaller ``live`` holds still, which keeps nested loops cheap.
        head = loop.head | self.reads(loop.test) | live
        in_body = self.block(loop.body, head | flag)
        while not head >= in_body:
            head |= in_body
            in_body = self.block(loop.body, head | flag)
        loop.head = head
        loop.carried = [name for name in loop.assigned if name in in_body | live]
        return head

    def _before_for(self, loop: ForLoop, live: Names) -> Names:
        targets = target_names(loop.target)
        loop.assigned = list(dict.fromkeys([*targets, *_assigned(loop.body)]))
        flag = {loop.go_on} if loop.go_on else set()
        head = loop.head | live
        grown = self._before_item(loop, head | flag)
        while not head >= grown:
            head |= grown
            grown = self._before_item(loop, head | flag)
        loop.head = head
        loop.carried = [name for name in loop.assigned if name in head]
        return head | self.reads(loop.iterable)

    def _before_item(self, loop: ForLoop, live: Names) -> Names:
        """The variables live before an item is assigned to the target."""
        in_body = self.block(loop.body, live)
        return (in_body - _always_bound_by(loop.target)) | self.reads(loop.target)


def _always_bound(node: ast.AST) -> Names:
    """The variables that a simple statement gives a new value, or deletes, on every path."""
    match node:
        case ast.Assign():
            return frozenset().union(*map(_always_bound_by, node.targets))
        case ast.AnnAssign() if node.value is not None:
            return _always_bound_by(node.target)
        case ast.AugAssign():
            return _always_bound_by(node.target)
        case ast.Delete():
            return frozenset().union(*map(_always_bound_by, node.targets))
        case ast.FunctionDef():
            return frozenset({node.name})
        case ast.Import() | ast.ImportFrom():
            return frozenset(assigned_names([node]))
    return frozenset()


def _always_bound_by(target: ast.expr) -> Names:
    return frozenset(target_names(target))


def _assigned(statements: Iterable[Statement]) -> list[str]:
    """The variables that structured statements may bind, in order, each once."""
    names = [name for statement in statements for name in _assigned_by(statement)]
    return list(dict.fromkeys(names))


def _assigned_by(statement: Statement) -> list[str]:
    match statement:
        case Simple():
            return assigned_names([statement.node])
        case Return():
            return [RESULT, *(assigned_names([statement.value]) if statement.value else [])]
        case SetFlag():
            return [statement.name]
        case Branch():
            tested = [] if isinstance(statement.test, str) else assigned_names([statement.test])
            return tested + _assigned([*statement.then, *statement.orelse])
        case WhileLoop():
            return assigned_names([statement.test]) + _assigned(statement.body)
        case ForLoop():
            outside = assigned_names([statement.iterable, statement.target])
            return outside + _assigned(statement.body)
        case Try():
            names = [handler.name for handler in statement.handlers if handler.name]
            bodies = [statement.body, *(handler.body for handler in statement.handlers)]
            return names + [name for body in bodies for name in _assigned(body)]
        case Within():
            return assigned_names([statement.context]) + _assigned(statement.body)
        case Enter():
            return assigned_names([statement.context])
        case Entered():
            return target_names(statement.target)
        case Leave() | Reraise():
            return []
