"""Errors of the front end: what they say, where they point, and that nothing else escapes."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import linecache
import pickle
import types
from typing import Any

import numpy as np
import pytest
from frontend_checking import define

from jitcore import script
from jitcore.errors import (
    CompilationError,
    Error,
    SerializationError,
    TracerWarning,
    TracingCheckError,
    UnsupportedError,
    excerpt,
)
from jitcore.frontend import compile_function
from jitcore.ir.graph import Graph, SourceRange
from jitcore.ir.ops import kind_of
from jitcore.ir.verifier import verify


def error_of(text: str, **names: Any) -> CompilationError:
    function = define(text, **names)
    with pytest.raises(CompilationError) as caught:
        compile_function(function, lookup_op=kind_of)
    return caught.value


def report(text: str, **names: Any) -> str:
    """The whole message, with the file's name shortened."""
    error = error_of(text, **names)
    assert error.where is not None
    return str(error).replace(error.where.file, "test.py")


def test_hierarchy() -> None:
    assert issubclass(UnsupportedError, CompilationError)
    for kind in (CompilationError, SerializationError, TracingCheckError):
        assert issubclass(kind, Error)
    assert issubclass(TracerWarning, Warning)


def test_message_place_caret_hint() -> None:
    assert report("def f(x):\n    y = x + 1\n    if y: return eval(z)\n") == (
        "'eval' is not supported in a compiled function\n"
        "  test.py:3:17\n"
        "    if y: return eval(z)\n"
        "                 ^~~~~~~\n"
        "Write the expression into the function, or mark the function with @jitcore.ignore: "
        "compiled code may call it, and Python runs it."
    )


def test_caret_is_under_its_place_after_wide_characters() -> None:
    assert report("def f(x):\n\té = '日本', [(yield)]\n") == (
        "'yield' is not supported: a compiled function cannot be a generator\n"
        "  test.py:2:18\n"
        "    é = '日本', [(yield)]\n"
        "                  ^~~~~\n"
        "Append the values to a list and return that, or mark the function with @jitcore.ignore: "
        "compiled code may call it, and Python runs it."
    )


def test_caret_of_several_lines_ends_with_the_first() -> None:
    text = "def f(x):\n    if x:\n        class C:\n            x = 1\n"
    assert report(text).splitlines()[1:4] == ["  test.py:3:8", "    class C:", "    ^~~~~~~~"]


@pytest.mark.parametrize(
    ("text", "place", "caret", "message"),
    [
        ("def f(x):\n  return locals()", "2:9", "       ^~~~~~~~", "'locals'"),
        ("def f(x):\n  yield x", "2:2", "^~~~~~~", "'yield'"),
        ("def f(x):\n  return 1\n  yield x", "3:2", "^~~~~~~", "'yield'"),
        ("def f(x):\n  raise", "2:2", "^~~~~", "'raise' without an exception"),
        ("def f(x):\n  super().f(x)", "2:2", "^~~~~~~", "'super'"),
    ],
)
def test_places(text: str, place: str, caret: str, message: str) -> None:
    lines = report(text).splitlines()
    assert lines[0].startswith(message)
    assert lines[1] == f"  test.py:{place}"
    assert lines[3] == f"    {caret}"
    assert len(lines) == 5


def test_nested_function_that_nobody_calls_does_no_harm() -> None:
    graph = compile_function(define("def f(x):\n  def g(a=x): pass\n"), lookup_op=kind_of)
    assert not graph.find_all_nodes("prim::CallFunction")


def test_chain_of_calls() -> None:
    assert report(
        "def h(x):\n    return x, eval(x)\n\n"
        "def g(x):\n    return h(x) + 1\n\n"
        "def f(x):\n    y = 1; return g(x)\n"
    ).splitlines()[4:] == [
        "Write the expression into the function, or mark the function with @jitcore.ignore: "
        "compiled code may call it, and Python runs it.",
        "'h' is being compiled since it was called from 'g'",
        "  test.py:5:11",
        "    return h(x) + 1",
        "           ^~~~",
        "'g' is being compiled since it was called from 'f'",
        "  test.py:8:18",
        "    y = 1; return g(x)",
        "                  ^~~~",
    ]


@pytest.mark.parametrize("thing", [len, int, 3, None, np.sin, types.SimpleNamespace()])
def test_other_things_than_functions(thing: Any) -> None:
    with pytest.raises(CompilationError, match="expected a plain Python function, found"):
        compile_function(thing, lookup_op=kind_of)


class Scaling:
    """An object that can be called."""

    def __call__(self, x: Any) -> Any:
        return x

    def doubled(self, x: Any) -> Any:
        return 2 * x


@pytest.mark.parametrize(
    ("thing", "advice"),
    [
        (functools.lru_cache(lambda x: x), "below the decorator that wraps it"),
        (functools.partial(max, 1), "makes the call with all its arguments"),
        (Scaling(), "pass it what the object holds"),
        (Scaling().doubled, "on the function in the class"),
        (len, "the function of yours that calls it"),
        (np.add, "the function of yours that calls it"),
        (np.sum, "the function of yours that calls it"),
        (3, "Put @script on a function"),
    ],
)
def test_what_to_script_instead(thing: Any, advice: str) -> None:
    with pytest.raises(CompilationError, match=advice):
        script(thing)


def test_functions_without_source() -> None:
    namespace: dict[str, Any] = {}
    exec("def hidden(x): return x", namespace)
    with pytest.raises(CompilationError, match="the source of 'hidden' is not known"):
        compile_function(namespace["hidden"], lookup_op=kind_of)


def test_source_that_changed() -> None:
    function = define("def f(x):\n    return x\n")
    file = function.__code__.co_filename

    def change(text: str) -> None:
        linecache.cache[file] = (len(text), None, text.splitlines(True), file)

    change("def g(x):\n    return x\n")
    with pytest.raises(CompilationError, match=r"is no longer at <frontend test \d+>:1"):
        compile_function(function, lookup_op=kind_of)
    change("def f(x, y):\n    return x\n")
    with pytest.raises(CompilationError, match="is no longer at"):
        compile_function(function, lookup_op=kind_of)
    change("def f(x:\n")
    with pytest.raises(CompilationError, match="cannot be parsed"):
        compile_function(function, lookup_op=kind_of)


def test_coroutine() -> None:
    with pytest.raises(UnsupportedError, match="'f' is a coroutine"):
        compile_function(define("async def f(x):\n    return x\n"), lookup_op=kind_of)


def test_nesting_without_end() -> None:
    expression = "-" * 1500 + "x"
    with pytest.raises(CompilationError, match="nested too deeply"):
        compile_function(define(f"def f(x):\n    return {expression}\n"), lookup_op=kind_of)


def test_errors_can_be_pickled() -> None:
    error = error_of("def f(x):\n    yield x\n")
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is UnsupportedError
    assert str(twin) == str(error)


def test_excerpt_of_a_file_that_is_gone() -> None:
    assert excerpt(SourceRange("no such file.py", 3, 4)) == "  no such file.py:3:4"


SNIPPETS = [
    # one or more for every kind of statement and expression
    "def g(): pass\ng()",
    "async def g(): pass",
    "class C: pass",
    "return x",
    "return",
    "del x",
    "del x[0], x.a, (y, z)",
    "x = y = 1",
    "x[0], (x.a, *y) = 1, x",
    "type X = int",
    "x += 1; x[0] **= 2; x.a //= 3; x @= x; x |= x; x &= x; x ^= x; x <<= 1; x >>= 1; x %= 2",
    "y: int = 1",
    "y: int",
    "x.y: int = 1",
    "for y in x: pass\nelse: y",
    "for y, *z in x:\n    for x[0] in y: continue\n    else: break",
    "async for y in x: pass",
    "while x: break\nelse: pass",
    "if x: pass\nelif x: x = 1\nelse: x = 2",
    "with x: pass",
    "with x as y, x: pass",
    "async with x: pass",
    "match x:\n    case 1: pass\n    case [*_]: pass\n    case {'a': b}: pass\n    case _: pass",
    "raise ValueError(x) from x",
    "raise x",
    "try: pass\nexcept ValueError: pass",
    "try: pass\nexcept* ValueError: pass",
    "assert x, x",
    "import os",
    "from os import path",
    "global y",
    "global y; y = x",
    "def g():\n    nonlocal x; x = 1\ng()",
    "x",
    "pass",
    "for y in x:\n    if y: break\n    if x: continue",
    "x and y or not x",
    "(y := x)",
    "x + y - x * y / x // y % x ** y @ x << y >> x & y | x ^ y",
    "-x, +x, ~x, not x",
    "lambda: x",
    "(lambda a, *b: a)(x)",
    "x if y else z",
    "{x: y, **z}, {}",
    "{x, *y}",
    "[y for y in x if y for z in y]",
    "{y for y in x}",
    "{y: y for y in x}",
    "(y for y in x)",
    "sum(y for y in x), any(y for y in x), all((y := 1) for z in x)",
    "[y async for y in x]",
    "await x",
    "yield x",
    "yield from x",
    "x < y <= x > y >= x == y != x is y is not x in y not in x",
    "x(y, *y, a=x), x.f(*y), np.sin(x, out=x), len(x), absent(x), np.absent(x)",
    "x(**y)",
    "f'{x!r:>{y}} {x!s} {x!a} {x=}', f'', f'{{'",
    "1, 1.0, 1j, 'a', b'a', None, True, ..., 10**400, 99999999999999999999",
    "x.a.b, np.pi, np.linalg, np.absent",
    "x[0], x[1:2, ..., ::3], x[None], x[*y]",
    "[*x, y], (*x, y), *x,",
    "x, y, (), []",
]


def bodies() -> list[str]:
    found = []
    for snippet in SNIPPETS:
        body = "".join(f"    {line}\n" for line in snippet.splitlines())
        for head in ("def f(x):\n", "async def f(x):\n", "def f(x):\n    y = z = 1\n"):
            try:
                compile(head + body, "", "exec")
            except SyntaxError:
                continue
            found.append(head + body)
    return found


@pytest.mark.parametrize("text", bodies(), ids=lambda text: text.partition("\n")[2][:30].strip())
def test_every_syntax_gives_a_graph_or_a_located_error(text: str) -> None:
    try:
        graph = compile_function(define(text, np=np), lookup_op=kind_of)
    except CompilationError as error:
        assert error.where is not None
        assert error.hint
        assert "^" in str(error)
    else:
        assert isinstance(graph, Graph)
        verify(graph)
        assert str(graph)


def test_snippets_have_every_syntax() -> None:
    seen = {type(node) for text in bodies() for node in ast.walk(ast.parse(text))}
    kinds = {
        kind
        for base in (ast.stmt, ast.expr, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
        for kind in base.__subclasses__()
        # Nodes of old versions that no parser makes any more.
        if not kind.__doc__ or "Deprecated" not in kind.__doc__
    }
    missing = {kind.__name__ for kind in kinds - seen}
    # Only in versions of Python newer than the one that runs the tests.
    assert missing <= {"TemplateStr", "Interpolation"}


@pytest.mark.parametrize(
    "name", ["colorsys", "fractions", "heapq", "json.decoder", "statistics", "textwrap"]
)
def test_library_modules_give_graphs_or_located_errors(name: str) -> None:
    module = importlib.import_module(name)
    functions = [value for value in vars(module).values() if inspect.isfunction(value)]
    for kind in filter(inspect.isclass, vars(module).values()):
        functions += filter(inspect.isfunction, vars(kind).values())
    compiled = 0
    for function in functions:
        try:
            verify(compile_function(function, lookup_op=kind_of))
            compiled += 1
        except CompilationError as error:
            assert error.where is not None or "is not known" in str(error)
    assert compiled
