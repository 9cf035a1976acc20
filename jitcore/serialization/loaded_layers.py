"""Script modules from an archive: their attributes, and methods that are graphs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from jitcore.errors import Error, SerializationError
from jitcore.freezing.frozen_function import FrozenFunction
from jitcore.frontend.constants import is_layer
from jitcore.frontend.layers import HOOKS, script_state
from jitcore.frontend.source import has_source
from jitcore.function_graphs import graph_of
from jitcore.graph_function import rebound_graph
from jitcore.ir.graph import Graph
from jitcore.serialization.attribute_names import attribute_problem
from jitcore.serialization.fields import Fields
from jitcore.serialization.layers import GENERATOR, SavedMethod, library_class
from jitcore.serialization.loaded import (
    LoadedFunction,
    SavedProgram,
    check_program,
    read_numerics,
)
from jitcore.serialization.rebuilt import checked_name

if TYPE_CHECKING:
    from jitcore.serialization.reader import Reader

__all__ = ["LAYER_BUILDERS", "LoadedMethod", "generator_namespace"]


def generator_namespace(place: str) -> dict[str, Any]:
    """The namespace of a place in jitcore that programs read at each call."""
    if place != GENERATOR:
        raise SerializationError(f"the archive names the place {place!r}, which there is not")
    return vars(import_module(GENERATOR))


class LoadedMethod(LoadedFunction):
    """A method of a module from an archive.

    Where the archive has no graph for the attributes as they are, and the source of the class is
    at hand, it is compiled from that.
    """

    def __init__(
        self,
        plain: FunctionType,
        program: SavedProgram,
        numerics: str | None,
        owner: Any,
        *,
        must_fit: bool = True,
    ) -> None:
        self._owner = owner
        self._must_fit = must_fit
        super().__init__(plain, program, numerics)
        self._must_fit = True

    @property
    def is_final(self) -> bool:
        """Whether the graph cannot be made anew from the source."""
        return self._source() is None

    def _source(self) -> MethodType | None:
        """The method in the module's class, where its source is at hand."""
        function = inspect.getattr_static(self._owner.__jitcore_original__, self.__name__, None)
        is_known = isinstance(function, FunctionType) and has_source(function)
        return MethodType(function, self._owner) if is_known else None

    def _build(self) -> Graph:
        varying = self._varying.places
        graph = None if self._assigned or varying else self._program.fitting()
        if graph is not None:
            return graph
        method = self._source()
        if method is not None:
            return graph_of(method, self._assigned, varying)
        return self._program.graph() if self._must_fit else self._program.graphs[0]

    def rebound(self, modules: Mapping[int, Any]) -> LoadedMethod:
        """The same method for other modules; a call finds out whether it has a graph for them."""
        program = self._program.rebound(modules)
        plain = program.runner_like(self.__wrapped_function__)
        owner = modules[id(self._owner)][1]
        return LoadedMethod(plain, program, self._numerics, owner, must_fit=False)


def _library_layer(reader: Reader, row: Fields, number: int) -> type:
    return library_class(row.text("name"))


def _layer_class(reader: Reader, row: Fields, number: int) -> type:
    """A class of the program's own, without its code."""
    base = library_class(row.text("base"))
    name = checked_name(row, row.text("name"))
    members: dict[str, Any] = {}
    for one in row.texts("left_out"):
        if attribute_problem(checked_name(row, one)):
            raise row.problem(f"names the method {one!r}")
        members[one] = SavedMethod(one)
    made = type(name, (base,), members)
    made.__qualname__, made.__module__ = row.text("qualified"), row.text("module")
    return made


def _register(reader: Reader, row: Fields, number: int) -> dict[str, Any]:
    kinds = import_module("jitcore.nn.registry").Kind.__members__
    register: dict[str, Any] = {}
    for name, kind in row.rows("items", 2):
        if not isinstance(name, str) or not isinstance(kind, str) or kind not in kinds:
            raise row.problem("is no register of a module")
        register[name] = kinds[kind]
    return register


def _layer(reader: Reader, row: Fields, number: int) -> Any:
    """A script module; attributes and methods come when all objects are there."""
    class_ = reader.object(row.integer("class"))
    module = import_module("jitcore.nn.module").Module
    if not isinstance(class_, type) or not issubclass(class_, module):
        raise row.problem("is of no class of modules")
    made = import_module("jitcore.module").empty_module(class_)

    def fill() -> None:
        for name, reference in row.rows("attributes", 2):
            if not isinstance(name, str) or attribute_problem(name):
                raise row.problem(f"has an attribute {name!r}")
            made.__dict__[name] = reader.value(reference)
        _check_attributes(row, made.__dict__, {str(one[0]) for one in row.rows("left_out", 2)})
        _set_frozen(row, made)

    def end() -> None:
        _check_tree(made, [])
        for method in row.items("methods") if "methods" in row else ():
            _add_method(reader, Fields(method, row.where), made)

    reader.fill(fill)
    reader.end(end)
    return made


_WANTED = {
    "_registered": dict,
    **dict.fromkeys(HOOKS, dict),
    "training": bool,
}


def _check_attributes(row: Fields, held: dict[str, Any], dropped: set[str]) -> None:
    """Raise where a module's attributes are not those that every module has."""
    problem = row.problem("is no valid module")
    for name, kind in _WANTED.items():
        if name == "training" and name not in held:
            # Freezing takes it away where no method asks for it.
            continue
        if type(held.get(name)) is not kind:
            raise problem
    if any(held[name] for name in HOOKS):
        raise problem
    for name, kind in held["_registered"].items():
        value = held.get(name)
        modules = getattr(kind, "name", None) == "MODULE"
        fits = is_layer(value) if modules else isinstance(value, np.ndarray)
        if name not in held or name in dropped or not (value is None or fits):
            raise problem


def _check_tree(module: Any, above: Sequence[Any]) -> None:
    """Raise where a module contains itself."""
    if any(module is one for one in above):
        raise SerializationError("a module in the archive contains itself")
    for inside in module.children():
        _check_tree(inside, [*above, module])


def _set_frozen(row: Fields, made: Any) -> None:
    found = row.get("frozen") if "frozen" in row else None
    if found is None:
        return
    frozen = Fields(found, row.where)
    reasons = frozen.get("reasons")
    state: dict[str, Any] = {
        "_folded": frozenset(frozen.texts("folded")),
        "_frozen_summary": frozen.text("summary"),
    }
    if reasons is not None:
        rows = frozen.rows("reasons", 2)
        state["_frozen_reasons"] = {str(name): str(text) for name, text in rows}
    import_module("jitcore.module").set_state(made, **state)


def _add_method(reader: Reader, row: Fields, owner: Any) -> None:
    name = checked_name(row, row.text("name"))
    if "missing" in row:
        return
    class_ = owner.__jitcore_original__
    compiled = script_state(owner, "_compiled_methods")
    plain, program, fill = reader.function(row, f"{class_.__name__}.{name}", class_.__module__)
    fill()

    def end() -> None:
        program.settle()
        check_program(program)
        if row.get("steps") is not None:
            compiled[name] = _frozen_method(row, plain, program.graphs[0])
            return
        try:
            compiled[name] = LoadedMethod(plain, program, read_numerics(row), owner)
        except Error as error:
            raise SerializationError(f"the method '{name}' in the archive: {error}") from error

    reader.end(end)


class LoadedFrozen(FrozenFunction):
    """A method of a frozen module, which is optimized again when it is first used.

    Optimizing computes what depends on constants alone, so it is running the program.
    """

    def __init__(
        self,
        plain: FunctionType,
        generic: Graph,
        steps: list[tuple[str, bool]],
        numerics: str | None,
    ) -> None:
        self._is_waiting = True
        super().__init__(plain, generic, generic, numerics)
        self.steps = steps

    def _prepare(self) -> None:
        if not self._is_waiting:
            return
        self._is_waiting = False
        steps, self.steps = self.steps, []
        flat_graph = import_module("jitcore.freezing.freeze").flat_graph
        self._exact = self._final = flat_graph(self.generic)
        self._forms = []
        self._reset()
        known = import_module("jitcore.freezing.optimizing").STEPS
        for name, flag in steps:
            self.optimize(known[name](self._final.copy(), flag), (name, flag))

    def rebound(self, modules: Mapping[int, Any]) -> FrozenFunction:
        """The same method for other modules, which waits for its first use as well."""
        if not self._is_waiting:
            return super().rebound(modules)
        plain = self._rebound_method(modules)
        assert isinstance(plain, FunctionType)
        generic = rebound_graph(self.generic, modules)
        return LoadedFrozen(plain, generic, list(self.steps), self._numerics)

    @property
    def __jitcore_graph__(self) -> Graph:
        """What a call in another compiled function runs."""
        self._prepare()
        return super().__jitcore_graph__

    @property
    def graph(self) -> Graph:
        """The graph that runs, before any call."""
        self._prepare()
        return super().graph

    def current_graph(self) -> Graph:
        """The graph as it was frozen."""
        self._prepare()
        return super().current_graph()

    def _arrange(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        # Every first call comes here, because nothing is compiled before.
        self._prepare()
        return super()._arrange(args, keywords)


def _frozen_method(row: Fields, plain: FunctionType, generic: Graph) -> FrozenFunction:
    """A method of a frozen module, to be optimized as it was."""
    known = import_module("jitcore.freezing.optimizing").STEPS
    steps: list[tuple[str, bool]] = []
    for name, flag in row.rows("steps", 2):
        if not isinstance(name, str) or name not in known or not isinstance(flag, bool):
            raise row.problem(f"has an unknown step {name!r}")
        steps.append((name, flag))
    return LoadedFrozen(plain, generic, steps, read_numerics(row))


LAYER_BUILDERS = {
    "layer": _layer,
    "layer class": _layer_class,
    "library layer": _library_layer,
    "register": _register,
}
