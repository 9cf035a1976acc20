"""Which names a piece of syntax assigns, and which it reads, in the scope of its function."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from jitcore.frontend.source import FunctionNode
from jitcore.frontend.syntax import child_nodes, inner_statements, nodes_in, statements_in

__all__ = [
    "Comprehension",
    "assigned_names",
    "assignment_counts",
    "declared_names",
    "function_body",
    "local_functions",
    "names_used_as_values",
    "nonlocal_names",
    "parameter_names",
    "read_names",
    "recursive_names",
    "stable_names",
    "target_names",
]

Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp

_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS: Final = (ast.FunctionDef, ast.Lambda)


def parameter_names(arguments: ast.arguments) -> list[str]:
    """The names of all parameters in the order of a graph's inputs."""
    params = [*arguments.posonlyargs, *arguments.args]
    if arguments.vararg:
        params.append(arguments.vararg)
    params.extend(arguments.kwonlyargs)
    if arguments.kwarg:
        params.append(arguments.kwarg)
    return [param.arg for param in params]


def function_body(node: FunctionNode) -> list[ast.stmt]:
    """The statements of a function; a lambda returns its expression."""
    if isinstance(node, ast.FunctionDef):
        return node.body
    return [ast.copy_location(ast.Return(node.body), node.body)]


def local_functions(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, FunctionNode]]:
    """The functions defined in these nodes by ``def``, or by ``name = lambda ...``."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda):
            if len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id, node.value
        elif isinstance(node, ast.stmt):
            yield from local_functions(inner_statements(node))


def nonlocal_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that ``nonlocal`` statements declare, those in functions inside too."""
    return {
        name
        for node in statements_in(nodes)
        if isinstance(node, ast.Nonlocal)
        for name in node.names
    }


def declared_names(body: Iterable[ast.AST], kind: type[ast.Nonlocal | ast.Global]) -> set[str]:
    """The names that a function itself declares to be variables from outside of it."""
    found: set[str] = set()
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, kind):
            found.update(node.names)
        elif not isinstance(node, ast.FunctionDef):
            waiting += inner_statements(node)
    return found


def target_names(target: ast.AST) -> list[str]:
    """The names that an assignment to ``target`` binds."""
    return [
        node.id
        for node in nodes_in(target)
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)
    ]


def assigned_names(nodes: Iterable[ast.AST]) -> list[str]:
    """The local names that these nodes bind or delete, each once, in the order of the source."""
    return list(dict.fromkeys(name for node in nodes for name in _assigned(node)))


def assignment_counts(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each local name is bound or deleted, in the order of the source."""
    return Counter(name for node in nodes for name in _assigned(node))


def _assigned(node: ast.AST) -> Iterator[str]:
    # No recursion but into comprehensions: a long sum is a tree as deep as it is long.
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Name) and not isinstance(one.ctx, ast.Load):
            yield one.id
        if isinstance(one, ast.FunctionDef):
            yield one.name
        if isinstance(one, ast.alias):
            yield one.asname or one.name.partition(".")[0]
        if isinstance(one, ast.ExceptHandler) and one.name:
            # Bound, and deleted at the end.
            yield from (one.name, one.name)
        if isinstance(one, _COMPREHENSIONS):
            yield from _assigned_in_comprehension(one)
        elif not isinstance(one, _FUNCTIONS):
            # What a function assigns is its own.
            waiting += reversed(child_nodes(one))
        else:
            # Defaults are evaluated where it is made.
            waiting += filter(None, (*one.args.defaults, *one.args.kw_defaults))


def _assigned_in_comprehension(node: Comprehension) -> Iterator[str]:
    """The targets of ``:=``, which belong to the function; those of ``for`` do not."""
    inner = {name for generator in node.generators for name in target_names(generator.target)}
    for child in child_nodes(node):
        yield from (name for name in _assigned(child) if name not in inner)


def read_names(node: ast.AST) -> set[str]:
    """The names that a node reads from the scope it stands in, those of functions in it too."""
    found: set[str] = set()
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, _COMPREHENSIONS):
            found |= _read_by_comprehension(one)
        elif isinstance(one, _FUNCTIONS):
            found |= _read_by_function(one)
        elif not isinstance(one, ast.Name):
            waiting += child_nodes(one)
        elif not isinstance(one.ctx, ast.Store):
            found.add(one.id)
        if isinstance(one, ast.AugAssign):
            found.update(target_names(one.target))
    return found


def recursive_names(functions: Mapping[str, FunctionNode]) -> set[str]:
    """Which of these functions may call themselves, directly or through others of them."""
    reads = {name: read_names(node) & functions.keys() for name, node in functions.items()}
    for _ in reads:
        reads = {
            name: found.union(*(reads[other] for other in found)) for name, found in reads.items()
        }
    return {name for name, found in reads.items() if name in found}


def _read_by_parts(node: ast.AST) -> set[str]:
    return set().union(*map(read_names, child_nodes(node)))


def _read_by_comprehension(node: Comprehension) -> set[str]:
    inner = {name for part in node.generators for name in target_names(part.target)}
    # The first iterable is evaluated outside.
    return (_read_by_parts(node) - inner) | read_names(node.generators[0].iter)


def _read_by_function(node: FunctionNode) -> set[str]:
    body = function_body(node)
    outside = declared_names(body, ast.Nonlocal)
    own = {*parameter_names(node.args), *assigned_names(body)} - outside
    return (_read_by_parts(node) - own - declared_names(body, ast.Global)) | outside


def stable_names(body: list[ast.stmt], counts: Mapping[str, int]) -> frozenset[str]:
    """The variables of a function that are assigned once and never again, as loops do."""
    loops = [node for node in statements_in(body) if isinstance(node, ast.For | ast.While)]
    repeated = set(assigned_names(loops)) if loops else set()
    return frozenset(name for name, count in counts.items() if count == 1 and name not in repeated)


def names_used_as_values(body: Iterable[ast.AST], names: Iterable[str]) -> frozenset[str]:
    """Which of these names of functions are read elsewhere than in ``name(...)``."""
    wanted = set(names)
    if not wanted:
        return frozenset()
    called: set[int] = set()
    found: set[str] = set()
    for statement in body:
        for node in nodes_in(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                called.add(id(node.func))
            elif isinstance(node, ast.Name) and id(node) not in called and node.id in wanted:
                if isinstance(node.ctx, ast.Load):
                    found.add(node.id)
    return frozenset(found)
