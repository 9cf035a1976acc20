"""Which code object belongs to which lambda or generator where several share a line."""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import pytest

import jitcore
from jitcore.frontend.source import nested_code

_Scope = ast.Lambda | ast.GeneratorExp

SHARED_LINES = (
    "''.join(f\"{''.join(str(b) for b in r)}\" for r in d)",
    "''.join(f\"{''.join(f'{sum(k + 1 for k in b)}' for b in r)}\" for r in d)",
    'f"{sum(b for b in d)}{max(b for b in d)}{sum(b for b in d)}"',
    'f"{(lambda x: x + 1)(3)}{(lambda x: x + 1)(4)}" f"{(lambda x: x + 1)(5)}"',
    "sum(sum(b for b in r) for r in (q for q in d) if any(1 for z in r) for _ in (0 for _ in d))",
    "[sum(k for k in b) for b in d if any(q for q in b)]",
    "{k: sum(j for j in d) for k in (z for z in d)}, {v for v in (sum(w for w in u) for u in d)}",
    "((x for x in r) for r in d), lambda: lambda: d, lambda: (lambda: [d], lambda: -d)",
    "lambda: (x for x in d), ((lambda v: v * 2)(b) for b in (lambda: d)())",
    "lambda a=(lambda: d): a(), lambda *, b=(lambda: d[0]): b()",
    "sum(1 for d[sum(v for v in (0, 0))] in (w for w in d))",
    "(lambda: a.\n b(lambda: c, (i for i, (j, *k) in d), [lambda: i for i in d]), lambda: d)",
    'f"""\n {sum(b for b in d)}{(lambda: f\'{(lambda: d)()}\')()!r:>{(lambda: d[0])()}}\n"""',
)


def _scopes(tree: ast.AST) -> list[_Scope]:
    return [node for node in ast.walk(tree) if isinstance(node, _Scope)]


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


@pytest.mark.parametrize("expression", SHARED_LINES)
def test_code_of_each_scope(expression: str) -> None:
    """A program whose scopes begin on lines of their own has the same codes in the same order."""
    text = f"def f(d): return ({expression})"
    numbered = ast.parse(text)
    for number, scope in enumerate(_scopes(numbered)):
        scope.lineno = scope.end_lineno = 1000 + number
        scope.col_offset, scope.end_col_offset = 0, 1
    codes = list(_codes(compile(text, "<shared>", "exec")))
    lines = [code.co_firstlineno for code in _codes(compile(numbered, "<shared>", "exec"))]
    code_of = dict(zip(lines, codes, strict=True))
    scopes = _scopes(ast.parse(text))
    assert scopes
    for number, scope in enumerate(scopes):
        assert nested_code(codes[0], scope) is code_of[1000 + number], ast.unparse(scope)


def _lambdas(text: str) -> list[Callable[..., Any]]:
    linecache.cache["<lambdas>"] = (len(text), None, text.splitlines(keepends=True), "<lambdas>")
    made: list[Callable[..., Any]] = eval(compile(text, "<lambdas>", "eval"))
    return made


def test_lambdas_that_share_a_line() -> None:
    made = _lambdas("[lambda x: x + 1, lambda x: x * 5, (lambda y: lambda x: x - y)(2)]\n")
    assert [jitcore.script(one)(4) for one in made] == [5, 20, 2]


def test_a_lambda_that_holds_another() -> None:
    made = _lambdas("[lambda x: (lambda x: x * 3)(x) + (lambda x: x * 5)(x)]\n")
    assert [jitcore.script(one)(4) for one in made] == [32]


@pytest.mark.skipif(sys.version_info[:2] == (3, 12), reason="3.12 gives constants no place")
def test_lambdas_of_constants() -> None:
    made = _lambdas("[lambda: 1, lambda: 2.5, lambda: (3, 4)]\n")
    assert [jitcore.script(one)() for one in made] == [1, 2.5, (3, 4)]
