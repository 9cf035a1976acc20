"""Layers and models as rows of the table: attributes, register, and the graphs of their methods."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from jitcore.errors import CompilationError, SerializationError
from jitcore.forms import number_captures
from jitcore.freezing.frozen_function import FrozenFunction
from jitcore.frontend.constants import is_layer
from jitcore.frontend.layers import HOOKS, is_users, layer_class, script_state
from jitcore.frontend.names import Place
from jitcore.function_graphs import graph_of
from jitcore.ir.graph import Graph
from jitcore.script import ScriptFunction
from jitcore.serialization.attribute_names import attribute_problem
from jitcore.serialization.functions import describe_form, describe_parameters
from jitcore.serialization.places import excerpt_of, shown

if TYPE_CHECKING:
    from jitcore.serialization.writer import Row, Writer

__all__ = [
    "GENERATOR",
    "Layers",
    "SavedMethod",
    "check_layer_uses",
    "describe_layer",
    "describe_layer_class",
    "is_layer_class",
    "library_class",
    "library_name",
]

GENERATOR = "jitcore.nn.generator"
"""The place of the generator that dropout draws from, which is looked up at each call."""

_NEVER_NEEDED = ("__init__", "extra_repr", "reset_parameters")
"""Methods that no compiled code calls and that a loaded module has from its base class."""


class Layers:
    """Which layer a namespace belongs to, where graphs say from which one they read."""

    def __init__(self) -> None:
        self._by_namespace: dict[int, tuple[Any, Any]] = {}

    def add(self, layer: Any) -> None:
        """Know a layer and all inside it."""
        for one in layer.modules():
            self.stand_for(one, one)

    def stand_for(self, copy: Any, layer: Any) -> None:
        """Know a copy that was made of a layer to compile it otherwise."""
        self._by_namespace.setdefault(id(copy.__dict__), (copy.__dict__, layer))

    def find(self, container: Any) -> Any:
        """The layer whose namespace this is, or None."""
        found = self._by_namespace.get(id(container))
        return None if found is None else found[1]

    def place(self, container: Any, key: str | None) -> str | None:
        """The name of a place in jitcore itself, or None."""
        module = sys.modules.get(GENERATOR)
        known = module is not None and container is vars(module) and key == "_generator"
        return GENERATOR if known else None


# Classes


def is_layer_class(value: Any) -> bool:
    """Whether a value is a class of layers."""
    return isinstance(value, type) and bool(getattr(value, "__jitcore_module__", False))


def library_name(class_: type) -> str | None:
    """The name in ``jitcore.nn`` of one of its own classes."""
    own = getattr(import_module("jitcore.nn"), class_.__name__, None)
    return class_.__name__ if own is class_ else None


def library_class(name: str) -> type:
    """The class that ``jitcore.nn`` has under a name.

    Raises
    ------
    SerializationError
        It has none.
    """
    found = vars(import_module("jitcore.nn")).get(name)
    if not is_layer_class(found):
        raise SerializationError(f"jitcore.nn has no class {name!r}")
    assert isinstance(found, type)
    return found


def describe_layer_class(writer: Writer, class_: type, number: int) -> Row:
    """The row of a class of layers: its name, and which class of ``jitcore.nn`` it comes from."""
    class_ = getattr(class_, "__jitcore_original__", class_)
    name = library_name(class_)
    if name is not None:
        return {"kind": "library layer", "name": name}
    base = next(one for one in class_.__mro__ if library_name(one) is not None)
    return {
        "kind": "layer class",
        "name": class_.__name__,
        "qualified": class_.__qualname__,
        "module": class_.__module__,
        "base": library_name(base),
        "left_out": sorted(_own_functions(class_, base)),
    }


class SavedMethod:
    """A method of a class whose source is not at hand: what the module was saved with, if any."""

    __jitcore_left_out__ = (
        "; it is not in the file that the module was loaded from, which has compiled methods only: "
        "mark it with export"
    )

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        compiled = script_state(instance, "_compiled_methods")
        if self._name not in compiled:
            raise AttributeError(f"'{self._name}'{self.__jitcore_left_out__}")
        return compiled[self._name]


_METHODS = (FunctionType, property, classmethod, staticmethod, SavedMethod)


def check_layer_uses(graph: Graph) -> None:
    """Raise where a graph calls a method of a layer that Python runs, and that files do not have.

    Raises
    ------
    SerializationError
        It names the method and the line.
    """
    for node in graph.nodes():
        held = node.inputs[0].constant if node.kind in _ATTRIBUTE_KINDS and node.inputs else None
        layer = held.attributes["value"] if held is not None else None
        name = node.attributes.get("name", "")
        if not is_layer(layer) or name in layer.__dict__ or name == "_noted":
            continue
        class_ = layer_class(layer)
        owner = next((one for one in class_.__mro__ if name in vars(one)), None)
        is_read = node.kind == "prim::GetAttr"
        what = f"cannot save a {'read' if is_read else 'call'} of '{name}' of {shown(layer)}"
        if owner is None and is_users(class_, "__getattr__"):
            reason = "which its __getattr__ gives"
        elif owner and library_name(owner) is None and hasattr(type(vars(owner)[name]), "__get__"):
            reason = "which stays Python"
        else:
            continue
        raise SerializationError(f"{what}, {reason}{excerpt_of(node)}")


_ATTRIBUTE_KINDS = ("prim::CallMethod", "prim::GetAttr")


def _own_functions(class_: type, base: type) -> Iterator[str]:
    """The methods and properties of the user's own classes."""
    above = {*base.__mro__, import_module("jitcore.module").ScriptModule}
    for owner in class_.__mro__:
        for name, value in vars(owner).items() if owner not in above else ():
            if (
                isinstance(value, _METHODS)
                and name not in _NEVER_NEEDED
                and attribute_problem(name) is None
            ):
                yield name


# Layers


def describe_layer(writer: Writer, layer: Any, number: int) -> Row:
    """The row of a layer or a model.

    Raises
    ------
    SerializationError
        It has hooks, or a method or an attribute that its methods need cannot be saved.
    """
    writer.layers.add(layer)
    held = layer.__dict__
    for name in HOOKS:
        for hook in held.get(name, {}).values():
            raise SerializationError(
                f"cannot save {shown(layer)} with a forward hook: {shown(hook.function)} is called "
                "by Python; remove the hook first"
            )
    class_ = layer_class(layer)
    row: Row = {"kind": "layer", "class": writer.number(class_)}
    row |= _attributes(writer, layer)
    if script_state(layer, "_compiled_methods") is not None:
        row |= _frozen(writer, layer)
        row["methods"] = _methods(writer, layer, is_root=number == 0)
    return row


def _attributes(writer: Writer, layer: Any) -> Row:
    attributes: list[list[Any]] = []
    dropped: list[list[str]] = []
    for name, value in layer.__dict__.items():
        if name == "_registered":
            register = [[one, kind.name] for one, kind in value.items()]
            found: Any = writer.row(value, {"kind": "register", "items": register})
        elif is_layer(value):
            # What it cannot save of itself is an error, and no reason to leave it out.
            found, reason = writer.number(value), ""
        else:
            found, reason = writer.attempt(partial(writer.reference, value))
        if found is None and hasattr(layer_class(layer), name):
            raise SerializationError(
                f"cannot save {shown(layer)}: its own '{name}' stands for that of its class, but "
                f"{reason}"
            )
        if found is None:
            dropped.append([name, reason])
        else:
            attributes.append([name, found])
    return {"attributes": attributes, "left_out": dropped}


def _frozen(writer: Writer, layer: Any) -> Row:
    reasons, folded = _frozen_state(layer)
    if reasons is None and not folded:
        return {"frozen": None}
    return {
        "frozen": {
            "folded": sorted(folded),
            "reasons": None if reasons is None else [list(item) for item in reasons.items()],
            "summary": script_state(layer, "_frozen_summary"),
        }
    }


def _frozen_state(layer: Any) -> tuple[Any, Any]:
    return script_state(layer, "_frozen_reasons"), script_state(layer, "_folded")


def _methods(writer: Writer, layer: Any, *, is_root: bool) -> list[Row]:
    """The rows of the compiled methods; those of layers inside that fail have the reason."""
    class_ = layer_class(layer)
    reasons, folded = _frozen_state(layer)
    frozen = bool(folded) or reasons is not None
    own = not frozen and (is_root or library_name(class_) is None)
    compiled_names = import_module("jitcore.module").compiled_names
    names = dict.fromkeys(compiled_names(class_)) if own else {}
    if is_root or frozen or own:
        names |= dict.fromkeys(script_state(layer, "_compiled_methods"))
    rows = []
    for name in names:
        row, reason = writer.attempt(partial(_method, writer, layer, name))
        if row is None and is_root:
            # Once more, for the whole message.
            row = _method(writer, layer, name)
        rows.append(row if row is not None else {"name": name, "missing": reason})
    return rows


def _method(writer: Writer, layer: Any, name: str) -> Row:
    try:
        # Not by the layer: its class may have something else by that name.
        script_class = import_module("jitcore.module").ScriptModule
        function: ScriptFunction = script_class.compiled_method(layer, name)
        steps = None
        if isinstance(function, FrozenFunction):
            graphs, steps = [function.generic], function.steps
        else:
            graphs = function.all_graphs()
    except CompilationError as error:
        raise SerializationError(f"cannot save the method '{name}': {error}") from error
    if isinstance(function, FrozenFunction) and function.is_for_this_machine:
        raise SerializationError(
            "optimize_for_inference() makes a module for this machine, which can be neither saved "
            "nor pickled; save the module that it was made of"
        )
    asks_mode = any(one.key == "training" and one.input is None for one in graphs[0].captures)
    forms = [describe_form(writer, graph) for graph in graphs]
    if not function.is_final:
        compiled = [(function.__wrapped_function__, graphs[0])]
        others = list(_other_modes(writer, layer, name)) if asks_mode else []
        forms += [describe_form(writer, graph) for _, graph in others]
        forms += _for_other_numbers(writer, [*compiled, *others])
    return {
        "name": name,
        "numerics": function.numerics,
        "steps": steps if steps is None else [list(step) for step in steps],
        "parameters": describe_parameters(
            writer, inspect.signature(function.__wrapped_function__, follow_wrapped=False)
        ),
        "forms": forms,
    }


def _for_other_numbers(writer: Writer, compiled: Sequence[tuple[Any, Graph]]) -> Iterator[Row]:
    """Forms of methods that read numbers when they are called, so that these may be set.

    These fit where a number of the program's own layers is not what it was.
    """
    for method, graph in compiled:
        varying = {
            (id(one.container), str(one.key))
            for one in number_captures(graph)
            if _is_of_program(writer.layers.find(one.container))
        }
        if varying:
            form, _ = writer.attempt(partial(_varying_form, writer, method, varying))
            yield from () if form is None else (form,)


def _is_of_program(layer: Any) -> bool:
    return layer is not None and library_name(layer_class(layer)) is None


def _varying_form(writer: Writer, method: Any, varying: set[Place]) -> Row:
    try:
        graph = graph_of(method, (), varying)
    except CompilationError as error:
        raise SerializationError(str(error)) from error
    return describe_form(writer, graph)


def _other_modes(writer: Writer, layer: Any, name: str) -> Iterator[tuple[MethodType, Graph]]:
    """A method and its graph where all layers are in training mode, and where none is."""
    layers = list(layer.modules())
    for mode in (True, False):
        if all(one.training is mode for one in layers):
            continue
        memo: dict[int, Any] = {}
        copy = import_module("jitcore.module").twin(layer, memo, always=True)
        for one in layers:
            if id(one) in memo:
                memo[id(one)].__dict__["training"] = mode
                writer.stand_for(memo[id(one)], writer.number(one))
                writer.layers.stand_for(memo[id(one)], one)
        method = MethodType(inspect.getattr_static(layer_class(layer), name), copy)
        try:
            yield method, ScriptFunction(method).current_graph()
        except CompilationError:
            # The method is for one mode only; loaded modules say so in the other.
            continue
