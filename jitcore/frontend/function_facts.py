"""What the code of one function assigns and reads by name, as its bytecode and its source say."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Sequence
from dis import Instruction, get_instructions
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR
from types import CodeType, FunctionType

from jitcore.errors import CompilationError
from jitcore.frontend.bindings import parameter_names
from jitcore.frontend.source import has_source, read_source
from jitcore.frontend.syntax import nodes_in
from jitcore.ir.dataclass import dataclass

__all__ = [
    "ANY_ATTRIBUTE",
    "ANY_VARIABLE",
    "BY_NAME",
    "Facts",
    "facts_of",
    "makes_objects",
    "set_by_name",
]

ANY_ATTRIBUTE = "*"
"""Stands for the attributes that code assigns by names which only a run can tell."""

ANY_VARIABLE = "* *"
"""The same of variables from outside: code that is made of texts may assign all of them."""

BY_NAME = ("setattr", "delattr", "__setattr__", "__delattr__", "__dict__", "vars")
"""Through what attributes are assigned whose names are values."""

_OF_TEXTS = ("exec", "eval", "globals", "locals")
"""The built-ins through which code assigns variables by names that only a run can tell."""

_MODULES = ("modules", "import_module", "__import__")
"""Through what code gets modules by names that are values."""


def makes_objects(code: CodeType) -> bool:
    """Whether calls of a function only give an object that runs its code later."""
    return bool(code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR))


@dataclass(frozen=True, slots=True)
class Facts:
    """What the code of a function, and of those defined in it, assigns and reads by name.

    What it only assigns to its first parameter, which methods call ``self``, is ``own``.

    Parameters
    ----------
    attributes, own, variables, cells : frozenset of str
        What it assigns.
    names : frozenset of str
        All names that it reads.
    methods, own_methods : frozenset of str
        The attributes among these, which may be methods that it calls, of others and of its first
        parameter.
    sets_by_name, runs_texts : bool
        It uses what assigns attributes by their names; what runs texts.
    """

    attributes: frozenset[str]
    own: frozenset[str]
    variables: frozenset[str]
    cells: frozenset[str]
    names: frozenset[str]
    methods: frozenset[str]
    own_methods: frozenset[str]
    sets_by_name: bool
    runs_texts: bool


@functools.lru_cache(maxsize=4096)
def facts_of(code: CodeType) -> Facts:
    """What the code of a function says."""
    found: dict[str, set[str]] = {kind: set() for kind in ("ATTR", "OWN", "GLOBAL", "DEREF")}
    names, methods, own_methods, outside = (set[str]() for _ in range(4))
    for inner in _codes(code):
        names.update(inner.co_names)
        first = code.co_varnames[0] if inner is code and code.co_argcount else None
        instructions = list(get_instructions(inner))
        for kind, name in _stores(instructions, first):
            found[kind].add(name)
        for name, is_own in _read_attributes(instructions, first):
            (own_methods if is_own else methods).add(name)
        if not _BY_TEXT.isdisjoint(inner.co_names):
            methods.update(one for one in inner.co_consts if isinstance(one, str))
        outside |= {one.argval for one in instructions if one.opname in _OUTSIDE}
    return Facts(
        frozenset(found["ATTR"]),
        frozenset(found["OWN"] - found["ATTR"]),
        frozenset(found["GLOBAL"]),
        frozenset(found["DEREF"]),
        frozenset(names),
        frozenset(methods),
        frozenset(own_methods),
        not names.isdisjoint(BY_NAME),
        not outside.isdisjoint(_OF_TEXTS),
    )


_OUTSIDE = ("LOAD_GLOBAL", "LOAD_NAME")

_BY_TEXT = frozenset({"getattr", "methodcaller", "attrgetter"})
"""Through what code reads attributes by texts."""


def _stores(instructions: Sequence[Instruction], first: str | None) -> Iterator[tuple[str, str]]:
    """What code assigns: kind and name; of its first parameter's attributes the kind is own."""
    before: list[Instruction] = []
    is_updated = False
    for one in instructions:
        what, _, kind = one.opname.partition("_")
        if what in ("STORE", "DELETE") and kind in ("GLOBAL", "DEREF"):
            yield kind, one.argval
        elif what in ("STORE", "DELETE") and kind == "ATTR":
            # ``self.x += y`` has read the attribute before.
            is_swapped = before[-1].opname == "SWAP"
            is_own = is_updated if is_swapped else _loads(before[-1], first)
            yield "OWN" if is_own else "ATTR", one.argval
        elif one.opname == "LOAD_ATTR" and before[-1].opname == "COPY":
            is_updated = _loads(before[-2], first)
        before = [*before[-1:], one]


def _loads(instruction: Instruction, variable: str | None) -> bool:
    return bool(instruction.opname == "LOAD_FAST" and instruction.argval == variable)


def _read_attributes(
    instructions: Sequence[Instruction], first: str | None
) -> Iterator[tuple[str, bool]]:
    """The attributes that code reads by name, and whether of its first parameter."""
    before = None
    for one in instructions:
        if one.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            yield one.argval, before is not None and _loads(before, first)
        elif one.opname == "LOAD_SUPER_ATTR":
            yield one.argval, True
        before = one


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A code object and those of the functions that are defined in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# Names that are values

_by_name: dict[CodeType, frozenset[tuple[str, bool]]] = {}
_MAX_KNOWN = 4096


def set_by_name(function: FunctionType) -> frozenset[tuple[str, bool]]:
    """The attributes that a function assigns whose names are values; any, where that is unclear.

    Each comes with whether it is one of the function's first parameter.
    """
    code = function.__code__
    found = _by_name.get(code)
    if found is None:
        if len(_by_name) >= _MAX_KNOWN:
            _by_name.clear()
        found = _by_name[code] = frozenset(_set_by_name(function))
    return found


def _set_by_name(function: FunctionType) -> Iterator[tuple[str, bool]]:
    try:
        tree = read_source(function).node if has_source(function) else None
    except CompilationError:
        tree = None  # a file that was edited since
    if tree is None:
        yield ANY_ATTRIBUTE, False
        return
    first = next(iter(parameter_names(tree.args)), None)
    understood = set[int]()
    for node in nodes_in(tree):
        understood.update(map(id, _read_only(node)))
        found = _target_and_name(node)
        if found is None:
            continue
        target, name = found
        understood.update(map(id, _parts_of_assignment(node)))
        known = isinstance(name, ast.Constant) and isinstance(name.value, str)
        attribute = name.value if isinstance(name, ast.Constant) and known else ANY_ATTRIBUTE
        yield str(attribute), _is_first(target, first)
        if attribute == ANY_ATTRIBUTE and not facts_of(function.__code__).names.isdisjoint(
            _MODULES
        ):
            yield ANY_VARIABLE, False
    others = (node for node in nodes_in(tree) if id(node) not in understood)
    if any(map(_assigns_by_name, others)):
        # ``setattr`` or a namespace is a value here, which may get anywhere.
        yield ANY_ATTRIBUTE, False


def _target_and_name(node: ast.AST) -> tuple[ast.expr, ast.expr | None] | None:
    """Whose attribute some syntax assigns by a name that is a value, and the name; None of most."""
    if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
        owner = _owner_of_namespace(node.value)
        return None if owner is None else (owner, node.slice)
    if not isinstance(node, ast.Call):
        return None
    match node.func, node.args:
        case ast.Name("setattr" | "delattr"), [target, name, *_]:
            return target, name
        case ast.Attribute(_, "__setattr__"), [target, name, _]:
            return target, name
        case ast.Attribute(target, "__setattr__"), [name, _]:
            return target, name
        case ast.Attribute(_, "__delattr__"), [target, name]:
            return target, name
        case ast.Attribute(target, "__delattr__"), [name]:
            return target, name
        case ast.Attribute(namespace, method), _ if method not in _READING:
            owner = _owner_of_namespace(namespace)
            return None if owner is None else (owner, None)
    return None


_READING = ("get", "items", "keys", "values", "copy")
"""The methods of a namespace that change nothing."""

_READERS = ("dict", "list", "tuple", "set", "len", "sorted", "iter", "repr", "str", "print", "any")
"""The built-ins that change nothing of a namespace either."""


def _parts_of_assignment(node: ast.AST) -> Iterator[ast.AST]:
    """What an assignment that was understood does it with."""
    match node:
        case ast.Call(ast.Attribute(namespace, _) as function):
            yield from (function, namespace)
        case ast.Call(function):
            yield function
        case ast.Subscript(namespace, _):
            yield namespace


def _read_only(node: ast.AST) -> Iterator[ast.AST]:
    """What some syntax only reads, if it is a namespace."""
    match node:
        case ast.Subscript(namespace, _, ast.Load()):
            yield namespace
        case ast.For(_, namespace) | ast.comprehension(_, namespace):
            yield namespace
        case ast.Compare(first, _, others):
            yield from (first, *others)
        case ast.Dict(keys, values):  # {**vars(x)}
            yield from (one for key, one in zip(keys, values, strict=True) if key is None)
        case ast.Call(ast.Attribute(namespace, method)) if method in _READING:
            yield namespace
        case ast.Call(ast.Name(name), arguments) if name in _READERS:
            yield from arguments


def _assigns_by_name(node: ast.AST) -> bool:
    """Whether some syntax gives what can assign attributes by their names."""
    match node:
        case ast.Name("setattr" | "delattr") | ast.Attribute(_, "__setattr__" | "__delattr__"):
            return True
        case ast.Name("vars", ast.Load()):
            return False  # its calls count
    return _owner_of_namespace(node) is not None


def _owner_of_namespace(node: ast.AST) -> ast.expr | None:
    """The ``x`` of ``x.__dict__`` and ``vars(x)``; None of all else."""
    match node:
        case ast.Attribute(owner, "__dict__") | ast.Call(ast.Name("vars"), [owner]):
            return owner
    return None


def _is_first(node: ast.expr, first: str | None) -> bool:
    """Whether an expression is a method's first parameter, or ``super()``."""
    match node:
        case ast.Name(name) | ast.Call(ast.Name("super" as name), []):
            return name in (first, "super")
    return False
