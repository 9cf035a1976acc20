"""The syntax tree of a function, from its file or from what ``linecache`` knows.

Notebooks, doctests and interactive shells register their cells with ``linecache``, and so may
anybody who runs ``exec``; a function of theirs is found like one in a file.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Final

from jitcore.errors import CompilationError, UnsupportedError
from jitcore.frontend.syntax import child_nodes, inner_statements
from jitcore.frontend.written import is_as_written, is_older_than_process
from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import SourceRange

__all__ = ["FunctionNode", "FunctionSource", "has_source", "nested_code", "read_source"]

FunctionNode = ast.FunctionDef | ast.Lambda

_PLACED: Final = (ast.expr, ast.stmt, ast.keyword, ast.arg, ast.pattern)


@dataclass(frozen=True, slots=True)
class FunctionSource:
    """A function's syntax tree; its lines and columns are those of the file.

    Parameters
    ----------
    node : ast.FunctionDef or ast.Lambda
    file : str
        The file's name as the code object has it, ``"<ipython-input-3-...>"`` in a notebook.
    lines : list of str
        All lines of the file.
    """

    node: FunctionNode
    file: str
    lines: list[str]

    def range_of(self, node: ast.AST) -> SourceRange:
        """The place of a syntax node; the function's own where the node has none."""
        if not hasattr(node, "lineno"):
            node = self.node
        assert isinstance(node, _PLACED)
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset or node.col_offset
        return SourceRange(self.file, node.lineno, node.col_offset, end_line, end_column)


def has_source(function: FunctionType) -> bool:
    """Whether any source text is known for a function."""
    return bool(_source_lines(function))


def read_source(function: FunctionType) -> FunctionSource:
    """The syntax tree of a function.

    Raises
    ------
    CompilationError
        The source is not known, cannot be parsed, or no longer has the function in its place.
    """
    code = function.__code__
    lines = _source_lines(function)
    if not lines:
        raise CompilationError(
            f"the source of '{function.__qualname__}' is not known",
            hint="Define the function in a file or in a notebook's cell; text that runs through "
            "exec() must be registered with linecache.",
        )
    try:
        definitions = _definitions("".join(lines))
    except (SyntaxError, ValueError) as error:
        raise CompilationError(
            f"the source of '{function.__qualname__}' in {code.co_filename} cannot be parsed: "
            f"{error}",
            hint="Load the module again if its file was edited.",
        ) from None
    candidates = [
        found for found in definitions.get(code.co_firstlineno, ()) if _matches(found[0], code)
    ]
    several = len(candidates) > 1
    if several:
        candidates = [found for found in candidates if _shares_a_place(found[0], code)]
    if len(candidates) != 1 or not _is_unedited(function, lines):
        raise _not_found(function, len(candidates) != 1 and several)
    node, owner = candidates[0]
    if isinstance(node, ast.AsyncFunctionDef):
        raise UnsupportedError(
            f"'{node.name}' is a coroutine; 'async def' is not supported",
            SourceRange(code.co_filename, node.lineno, node.col_offset, node.lineno, 0),
            "Compile a plain function and call it from the coroutine.",
        )
    return FunctionSource(_mangled(node, owner), code.co_filename, lines)


def nested_code(code: CodeType, node: FunctionNode | ast.GeneratorExp) -> CodeType | None:
    """The code of what is defined inside the function with this code, at any depth."""
    decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else []
    first_line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
    found = [
        inner
        for inner in _codes_in(code)
        if inner.co_firstlineno == first_line and _matches(node, inner)
    ]
    if len(found) > 1:
        found = [inner for inner in found if _shares_a_place(node, inner)]
    return found[0] if len(found) == 1 else None


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _source_lines(function: FunctionType) -> list[str]:
    """All lines of the file that a function comes from; an empty list where there is none."""
    file = function.__code__.co_filename
    linecache.checkcache(file)
    return linecache.getlines(file, function.__globals__)


def _is_unedited(function: FunctionType, lines: list[str]) -> bool:
    file = function.__code__.co_filename
    return is_older_than_process(file) or is_as_written(function, "".join(lines))


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@lru_cache(maxsize=32)
def _definitions(text: str) -> dict[int, list[tuple[_Definition, str]]]:
    """The functions of a file by their first lines, each with the class around it."""
    definitions: dict[int, list[tuple[_Definition, str]]] = {}
    # Only lambdas are inside of expressions, which most nodes are.
    inside = child_nodes if "lambda" in text else inner_statements
    for node, owner in _functions(ast.parse(text), inside):
        decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
        first_line = min([node.lineno, *(decorator.lineno for decorator in decorators)])
        definitions.setdefault(first_line, []).append((node, owner))
    return definitions


def _functions(
    tree: ast.AST, parts: Callable[[ast.AST], list[ast.AST]]
) -> Iterator[tuple[_Definition, str]]:
    """All functions of a file, each with the name of the innermost class around it."""
    waiting: list[tuple[ast.AST, str]] = [(tree, "")]
    while waiting:
        node, owner = waiting.pop()
        if isinstance(node, _Definition):
            yield node, owner
        inside = node.name if isinstance(node, ast.ClassDef) else owner
        waiting += [(child, inside) for child in parts(node)]


def _matches(node: _Definition | ast.GeneratorExp, code: CodeType) -> bool:
    """Whether a definition has the name and the parameters of the code."""
    if isinstance(node, ast.GeneratorExp):
        return code.co_name == "<genexpr>"
    if code.co_name != ("<lambda>" if isinstance(node, ast.Lambda) else node.name):
        return False
    arguments = node.args
    positional = len(arguments.posonlyargs) + len(arguments.args)
    return (positional, len(arguments.posonlyargs), len(arguments.kwonlyargs)) == (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
    )


def _shares_a_place(node: _Definition | ast.GeneratorExp, code: CodeType) -> bool:
    """Whether an instruction of the code has a place that only the definition's own code has.

    What tells two generators apart is where they assign their loop variables; two lambdas, what
    their bodies evaluate themselves.  How they are nested, also in f-strings, does not matter.
    """
    if isinstance(node, ast.GeneratorExp):
        own = [one for one in _evaluated(node.generators[0].target) if _is_assigned(one)]
    elif isinstance(node, ast.Lambda):
        own = [*_evaluated(node.body)]
    else:
        return True  # No two functions of one name begin on a line.
    places = {
        (one.lineno, one.end_lineno, one.col_offset, one.end_col_offset)
        for one in own
        if isinstance(one, ast.expr)
    }
    return not places.isdisjoint(code.co_positions())


def _is_assigned(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _evaluated(body: ast.expr) -> Iterator[ast.AST]:
    """The nodes of an expression without those in the bodies of functions that it makes."""
    waiting: list[ast.AST] = [body]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, ast.Lambda):
            waiting += [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, ast.GeneratorExp):
            waiting.append(node.generators[0].iter)
        else:
            waiting += child_nodes(node)


def _not_found(function: FunctionType, several: bool) -> CompilationError:
    code = function.__code__
    place = f"{code.co_filename}:{code.co_firstlineno}"
    if several:
        return CompilationError(
            f"'{function.__qualname__}' at {place} cannot be told apart from another function "
            "on the same line",
            hint="Put each lambda on a line of its own.",
        )
    return CompilationError(
        f"the source of '{function.__qualname__}' is no longer at {place}",
        hint="Load the module again: its file was edited after it was imported.",
    )


class _Mangler(ast.NodeTransformer):
    """Writes ``__name`` inside a class as ``_Class__name``, as Python's compiler does."""

    def __init__(self, owner: str) -> None:
        self.prefix = f"_{owner.lstrip('_')}"

    def mangle(self, name: str) -> str:
        private = name.startswith("__") and not name.endswith("__") and "." not in name
        return f"{self.prefix}{name}" if private else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        node.id = self.mangle(node.id)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        node.attr = self.mangle(node.attr)
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.arg = self.mangle(node.arg)
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        node.arg = self.mangle(node.arg) if node.arg else node.arg
        return self.generic_visit(node)


def _mangled(node: FunctionNode, owner: str) -> FunctionNode:
    if not owner.strip("_"):
        return node
    twin = copy.deepcopy(node)
    _Mangler(owner).visit(twin)
    return twin
