"""``import`` inside a function: modules that are known when the function is compiled."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jitcore.frontend.names import Resolver, Static
from jitcore.frontend.syntax import inner_statements
from jitcore.markers import ignore

__all__ = ["imported_names", "importer", "static_imports"]

Import = ast.Import | ast.ImportFrom


def imported_names(node: Import) -> list[str]:
    """The variables that a statement binds."""
    return [alias.asname or alias.name.partition(".")[0] for alias in node.names]


def importer(node: Import, namespace: Mapping[str, Any]) -> Callable[[], tuple[Any, ...]]:
    """What imports the modules in Python; it gives the values of ``imported_names``.

    Parameters
    ----------
    node : ast.Import or ast.ImportFrom
    namespace : mapping
        The globals of the function, which say what relative imports are relative to.
    """
    code = compile(ast.Module([node], []), "<import>", "exec")
    known = {name: namespace[name] for name in _PACKAGE_NAMES if name in namespace}

    @ignore
    def import_now() -> tuple[Any, ...]:
        found = dict(known)
        exec(code, found)
        return tuple(found[name] for name in imported_names(node))

    return import_now


_PACKAGE_NAMES = ("__name__", "__package__", "__spec__", "__path__", "__builtins__")


def static_imports(
    body: list[ast.stmt], counts: Mapping[str, int], resolver: Resolver
) -> dict[str, Static]:
    """The modules, and what is in them, that a function binds by one ``import`` and not again."""
    found: dict[str, Static] = {}
    for node in _imports(body):
        names = imported_names(node)
        if any(counts[name] != 1 for name in names):
            continue
        try:
            values = importer(node, resolver.namespace)()
        except Exception:
            # The program imports it when it runs, and raises there.
            continue
        for alias, name, value in zip(node.names, names, values, strict=True):
            static = _module(name, value) or _member(node, alias, resolver)
            if static is not None:
                found[name] = static
    return found


def _imports(body: list[ast.stmt]) -> Iterator[Import]:
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, Import):
            yield node
        elif not isinstance(node, ast.FunctionDef):
            waiting += inner_statements(node)


def _module(name: str, value: Any) -> Static | None:
    """A module by its place in ``sys.modules``; None of anything else."""
    path = getattr(value, "__name__", None)
    if not isinstance(path, str) or sys.modules.get(path) is not value:
        return None
    modules = sys.modules
    return Static(value, name, lambda: modules.get(path), id(modules), container=modules, name=path)


def _member(node: Import, alias: ast.alias, resolver: Resolver) -> Static | None:
    """What ``from module import name`` finds, where the module is named in full."""
    if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
        return None
    base = _module(node.module, sys.modules.get(node.module))
    return None if base is None else resolver.attribute(base, alias.name)
