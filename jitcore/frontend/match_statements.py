"""``match``: written as the ``if`` statements that do the same.

The subject is evaluated once, into a variable that no user's name stands for.  A pattern becomes a
test, and the names that it captures are assigned where all of it has matched: before the guard,
as Python does.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import field, replace
from typing import Any

import numpy as np

from jitcore.errors import UnsupportedError
from jitcore.frontend.bindings import parameter_names
from jitcore.frontend.source import FunctionSource
from jitcore.frontend.syntax import statements_in
from jitcore.ir import reference
from jitcore.ir.classes import MISSING
from jitcore.ir.dataclass import dataclass

__all__ = ["without_match"]

Resolve = Callable[[ast.expr], Any]

_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)
"""Classes whose patterns match the subject itself with their one positional pattern."""

_SEQUENCE_FLAG = 1 << 5
"""``Py_TPFLAGS_SEQUENCE`` (CPython, ``Include/object.h``), which arrays have since NumPy 2.5."""
_SEQUENCES = (Sequence, np.ndarray) if np.ndarray.__flags__ & _SEQUENCE_FLAG else (Sequence,)


@dataclass(slots=True)
class _Matched:
    """What a pattern means: conditions that must hold, and the values of names after that."""

    tests: list[ast.expr] = field(default_factory=list)
    captures: list[tuple[str, ast.expr]] = field(default_factory=list)

    def add(self, other: _Matched) -> None:
        self.tests += other.tests
        self.captures += other.captures


def without_match(source: FunctionSource, resolve: Resolve) -> FunctionSource:
    """The source of a function with ``if`` statements in the place of its ``match`` statements.

    Parameters
    ----------
    source : FunctionSource
    resolve : callable
        Gives the object that the name of a class stands for, or None.
    """
    if not any(isinstance(node, ast.Match) for node in statements_in([source.node])):
        return source
    return replace(source, node=_Rewriter(source, resolve).visit(copy.deepcopy(source.node)))


class _Rewriter(ast.NodeTransformer):
    def __init__(self, source: FunctionSource, resolve: Resolve) -> None:
        self.source = source
        self._resolve = resolve
        tree = source.node
        self._taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        self._taken.update(parameter_names(tree.args))

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        """The assignment of the subject, and a chain of ``if`` statements."""
        self.generic_visit(node)
        name = self._fresh("subject")
        first = ast.Assign([_store(name)], node.subject)
        chain: list[ast.stmt] = []
        for case in reversed(node.cases):
            chain = self._case(case, name, chain)
        ast.copy_location(first, node.subject)
        return [ast.fix_missing_locations(first), *(chain or [ast.copy_location(ast.Pass(), node)])]

    def _case(self, case: ast.match_case, subject: str, orelse: list[ast.stmt]) -> list[ast.stmt]:
        """The statements of one case and of those after it."""
        matched = self._pattern(case.pattern, _load(subject))
        assigns: list[ast.stmt] = []
        for name, value in matched.captures:
            if case.guard is None:
                assigns.append(ast.Assign([_store(name)], value))
            else:
                matched.tests.append(_assigned(name, value))
        for assign in assigns:
            ast.fix_missing_locations(ast.copy_location(assign, case.pattern))
        tests = [ast.copy_location(test, case.pattern) for test in matched.tests]
        if case.guard is not None:
            tests.append(case.guard)
        if not tests:
            return [*assigns, *case.body]
        test = tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
        ast.fix_missing_locations(ast.copy_location(test, case.guard or case.pattern))
        branch = ast.If(test, [*assigns, *case.body], orelse)
        return [ast.copy_location(branch, case.pattern)]

    def _fresh(self, base: str) -> str:
        """A name that the function does not use."""
        name, number = base, 1
        while name in self._taken:
            number += 1
            name = f"{base}_{number}"
        self._taken.add(name)
        return name

    # Patterns

    def _pattern(self, pattern: ast.pattern, subject: ast.expr) -> _Matched:
        match pattern:
            case ast.MatchValue():
                return _Matched([ast.Compare(subject, [ast.Eq()], [pattern.value])])
            case ast.MatchSingleton():
                known = ast.Constant(pattern.value)
                return _Matched([ast.Compare(subject, [ast.Is()], [known])])
            case ast.MatchAs():
                return self._as(pattern, subject)
            case ast.MatchOr():
                return self._or(pattern, subject)
            case ast.MatchSequence():
                return self._sequence(pattern, subject)
            case ast.MatchMapping():
                return self._mapping(pattern, subject)
            case ast.MatchClass():
                return self._class(pattern, subject)
        raise AssertionError(f"internal error: no rule for {type(pattern).__name__}")

    def _as(self, pattern: ast.MatchAs, subject: ast.expr) -> _Matched:
        matched = _Matched() if pattern.pattern is None else self._pattern(pattern.pattern, subject)
        if pattern.name is not None:
            matched.captures.append((pattern.name, subject))
        return matched

    def _or(self, pattern: ast.MatchOr, subject: ast.expr) -> _Matched:
        """Alternatives; what they capture goes through variables, the same for each of them."""
        held: dict[str, str] = {}
        alternatives: list[ast.expr] = []
        for part in pattern.patterns:
            matched = self._pattern(part, subject)
            for name, value in matched.captures:
                held.setdefault(name, self._fresh(name))
                matched.tests.append(_assigned(held[name], value))
            alternatives.append(_all_of(matched.tests))
        captures = [(name, _load(variable)) for name, variable in held.items()]
        return _Matched([ast.BoolOp(ast.Or(), alternatives)], captures)

    def _sequence(self, pattern: ast.MatchSequence, subject: ast.expr) -> _Matched:
        parts = pattern.patterns
        stars = [at for at, part in enumerate(parts) if isinstance(part, ast.MatchStar)]
        least = len(parts) - len(stars)
        length = _call(len, subject)
        compare = ast.GtE() if stars else ast.Eq()
        matched = _Matched(
            [
                _call(isinstance, subject, _known(_SEQUENCES)),
                ast.UnaryOp(ast.Not(), _call(isinstance, subject, _known(_TEXT))),
                ast.Compare(length, [compare], [ast.Constant(least)]),
            ]
        )
        for at, part in enumerate(parts):
            if isinstance(part, ast.MatchStar):
                if part.name is not None:
                    matched.captures.append((part.name, _middle(subject, at, len(parts) - at - 1)))
                continue
            place = at if not stars or at < stars[0] else at - len(parts)
            matched.add(self._pattern(part, _item(subject, place)))
        return matched

    def _mapping(self, pattern: ast.MatchMapping, subject: ast.expr) -> _Matched:
        matched = _Matched([_call(isinstance, subject, _known(AnyMapping))])
        keys = ast.Tuple(list(pattern.keys), ast.Load())
        if pattern.keys:
            found = self._fresh("found")
            values = ast.NamedExpr(_store(found), _call(reference.mapping_values, subject, keys))
            matched.tests.append(_is_not(values, None))
            for number, part in enumerate(pattern.patterns):
                matched.add(self._pattern(part, _item(_load(found), number)))
        if pattern.rest is not None:
            matched.captures.append((pattern.rest, _call(reference.mapping_rest, subject, keys)))
        return matched

    def _class(self, pattern: ast.MatchClass, subject: ast.expr) -> _Matched:
        matched = _Matched([_call(isinstance, subject, pattern.cls)])
        if not (pattern.patterns or pattern.kwd_patterns):
            return matched
        class_ = self._resolve(pattern.cls)
        if not isinstance(class_, type):
            raise UnsupportedError(
                "the class of this pattern is not known when the function is compiled",
                self.source.range_of(pattern),
                "Name a class of the module: case Point(x, y).",
            )
        if issubclass(class_, _WHOLE) and not hasattr(class_, "__match_args__"):
            if len(pattern.patterns) == 1:
                matched.add(self._pattern(pattern.patterns[0], subject))
        else:
            for name, part in zip(self._names(pattern, class_), pattern.patterns, strict=True):
                matched.add(self._attribute(class_, name, part, subject))
        for name, part in zip(pattern.kwd_attrs, pattern.kwd_patterns, strict=True):
            matched.add(self._attribute(class_, name, part, subject))
        return matched

    def _names(self, pattern: ast.MatchClass, class_: type) -> Iterable[str]:
        """The attributes that the positional patterns of a class are about."""
        names: tuple[str, ...] = getattr(class_, "__match_args__", ())
        count = len(pattern.patterns)
        if count > len(names):
            raise UnsupportedError(
                f"a pattern of {class_.__name__} takes at most {len(names)} positional parts; "
                f"found {count}",
                self.source.range_of(pattern),
                f"Name the attributes, {class_.__name__}(x=...), or define __match_args__.",
            )
        return names[:count]

    def _attribute(
        self, class_: type, name: str, pattern: ast.pattern, subject: ast.expr
    ) -> _Matched:
        if name in getattr(class_, "_fields", ()):
            return self._pattern(pattern, ast.Attribute(subject, name, ast.Load()))
        held = self._fresh(name)
        value = _call(getattr, subject, ast.Constant(name), _known(MISSING))
        matched = _Matched([_assigned(held, value)])
        matched.add(self._pattern(pattern, _load(held)))
        return matched


_TEXT = (str, bytes, bytearray)


def _load(name: str) -> ast.expr:
    return ast.Name(name, ast.Load())


def _store(name: str) -> ast.Name:
    return ast.Name(name, ast.Store())


def _known(value: Any) -> ast.expr:
    """Any object, as if the user could write it."""
    return ast.Constant(value)


def _call(function: Callable[..., Any], *arguments: ast.expr) -> ast.expr:
    """A call of an object itself: a name may stand for something else where the user is."""
    return ast.Call(_known(function), list(arguments), [])


def _is_not(value: ast.expr, other: object) -> ast.expr:
    return ast.Compare(value, [ast.IsNot()], [_known(other)])


def _assigned(name: str, value: ast.expr) -> ast.expr:
    """An assignment that is a condition: that there is a value."""
    return _is_not(ast.NamedExpr(_store(name), value), MISSING)


def _item(subject: ast.expr, number: int) -> ast.expr:
    return ast.Subscript(subject, ast.Constant(number), ast.Load())


def _middle(subject: ast.expr, before: int, after: int) -> ast.expr:
    """A list of all elements but the first and the last few."""
    whole = ast.List([ast.Starred(subject, ast.Load())], ast.Load())
    stop = ast.Constant(-after) if after else None
    return ast.Subscript(whole, ast.Slice(ast.Constant(before), stop), ast.Load())


def _all_of(tests: list[ast.expr]) -> ast.expr:
    if not tests:
        return ast.Constant(True)
    return tests[0] if len(tests) == 1 else ast.BoolOp(ast.And(), tests)
