"""What LLVM is told about memory: accesses with different roots never overlap."""

from __future__ import annotations

from collections.abc import Callable

from jitcore.codegen.loop_passes.traversal import expressions, loads, walk
from jitcore.codegen.loops import Function, Store

__all__ = ["alias_scopes"]


def alias_scopes(function: Function, metadata: Callable[[str], str]) -> dict[str, str]:
    """The metadata of accesses by root: in its own scope, and in none of the others'.

    ``metadata`` adds a node to the module, in which ``{self}`` stands for itself.
    """
    found: dict[str, None] = {}
    for statement in walk(function.body):
        roots = [load.root for x in expressions(statement) for load in loads(x)]
        if isinstance(statement, Store):
            roots.append(statement.root)
        found.update(dict.fromkeys(root for root in roots if root))
    if len(found) < 2:
        return {}
    domain = metadata("distinct !{{self}}")
    scopes = {root: metadata(f"distinct !{{{{self}}, {domain}}}") for root in found}
    suffixes = {}
    for root, scope in scopes.items():
        own = metadata(f"!{{{scope}}}")
        others = metadata(f"!{{{', '.join(s for s in scopes.values() if s != scope)}}}")
        suffixes[root] = f", !alias.scope {own}, !noalias {others}"
    return suffixes
