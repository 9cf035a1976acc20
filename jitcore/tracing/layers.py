"""Layers in a traced function: their attributes, their calls, and the functions they use.

Parameters and buffers are traced values wherever they are read.  The layers of ``jitcore.nn`` and
its functions are compiled from their source and called, so that their control flow stays; the
``forward`` of other modules runs under the tracer.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.errors import CompilationError
from jitcore.frontend import compile_function
from jitcore.frontend.layers import HOOKS, layer_class
from jitcore.ir.graph import Graph
from jitcore.ir.ops import kind_of
from jitcore.ir.ops.layers import layer_kind
from jitcore.module import ScriptModule
from jitcore.nn import functional
from jitcore.nn.module import Module
from jitcore.tracing.outside import GENERATORS
from jitcore.tracing.patches import Patch, recording_form
from jitcore.tracing.state import active, paused
from jitcore.tracing.tracer import Tracer
from jitcore.tracing.values import has_traced

__all__ = ["layer_patches"]

_FOLLOWED = (np.ndarray, *GENERATORS, list, dict)
"""Attributes of these types are captured, or watched for changes."""


@functools.cache
def layer_patches() -> Sequence[Patch]:
    """What stands in the places of methods and functions of layers during a trace."""
    found: list[Patch] = [
        (Module, "__getattribute__", _read),
        (Module, "__setattr__", _write),
        (Module, "__call__", _call),
    ]
    for name, function in vars(functional).items():
        if isinstance(function, FunctionType) and not name.startswith("_"):
            found.append((functional, name, _of_arrays(function)))
    return tuple(found)


_plain_read = Module.__getattribute__
_plain_write = Module.__setattr__
_plain_call = Module.__call__


def _read(self: Module, name: str) -> Any:
    tracer = active()
    if not isinstance(tracer, Tracer) or name == "__dict__":
        return _plain_read(self, name)
    held = self.__dict__
    if (id(held), name) in tracer.assigned:
        return tracer.assigned[id(held), name]
    value = _plain_read(self, name)
    if held.get(name) is not value or not isinstance(value, _FOLLOWED):
        return value
    path, twin = tracer.twin(self)
    if isinstance(value, (list, dict)):
        tracer.outside.watch(f"{path}.{name}", value)
        return value
    place = twin.__dict__
    return tracer.capture(f"{path}.{name}", place, name, place[name])


def _write(self: Module, name: str, value: Any) -> None:
    tracer = active()
    known = isinstance(tracer, Tracer) and (tracer.knows(self) or name in self.__dict__)
    if not isinstance(tracer, Tracer) or not known:
        _plain_write(self, name, value)
        return
    tracer.assigned[id(self.__dict__), name] = value
    path, twin = tracer.twin(self)
    if has_traced(value):
        tracer.record("prim::SetAttr", _nothing, (twin, value), None, {"name": name})
        return
    tracer.warn(
        f"The traced function assigns the attribute '{path}.{name}' a value that does not come "
        "from its inputs: the trace does not assign it, which might cause the trace to be incorrect"
    )


def _nothing(*args: Any) -> None:
    """In the place of an assignment to a module that is to stay as it is."""


def _call(self: Module, *args: Any, **keywords: Any) -> Any:
    tracer = active()
    if isinstance(tracer, Tracer) and (has_traced(args) or has_traced(keywords)):
        _, twin = tracer.twin(self)
        if id(twin) not in tracer.layer_graphs:
            with paused():
                tracer.layer_graphs[id(twin)] = _graph_of_layer(self, twin)
        graph = tracer.layer_graphs[id(twin)]
        if graph is not None:
            operands = _bound(inspect.signature(self.forward), args, keywords).values()
            return tracer.call_graph(graph, list(operands), layer=twin)
    return _plain_call(self, *args, **keywords)


# The front end asks whether calling a layer means what it means for all modules.
_call.__module__ = Module.__module__


def _graph_of_layer(layer: Module, twin: Module) -> Graph | None:
    """The graph of the ``forward`` of a layer of ours, with all that is in it; None of others."""
    for one in layer.modules():
        ours = type(one).__module__.startswith("jitcore.nn.")
        if not ours or isinstance(one, ScriptModule) or any(getattr(one, hook) for hook in HOOKS):
            return None
    function = inspect.getattr_static(layer_class(layer), "forward")
    try:
        return compile_function(MethodType(function, twin), lookup_op=kind_of)
    except CompilationError:
        # Its Python code is traced.
        return None


def _bound(
    signature: inspect.Signature, args: tuple[Any, ...], keywords: dict[str, Any]
) -> dict[str, Any]:
    """One argument for each parameter, in order."""
    bound = signature.bind(*args, **keywords)
    bound.apply_defaults()
    return bound.arguments


def _of_arrays(function: FunctionType) -> Callable[..., Any]:
    """Recorded as one node, or as a call of the compiled function, for traced arrays."""
    signature = inspect.signature(function)

    def form(*args: Any, **keywords: Any) -> Any:
        tracer = active()
        if not isinstance(tracer, Tracer) or not (has_traced(args) or has_traced(keywords)):
            return function(*args, **keywords)
        operands = _bound(signature, args, keywords)
        row = layer_kind(function)
        if row is not None and row.definition is not None:
            wanted = row.definition.only_if
            if all(type(operands[one]) is bool and operands[one] == wanted[one] for one in wanted):
                return tracer.record(row.kind, function, list(operands.values()))
        graph = _graph_of_function(function)
        if graph is None:
            return function(*args, **keywords)
        return tracer.call_graph(graph, list(operands.values()))

    return recording_form(function, form)


@functools.cache
def _graph_of_function(function: FunctionType) -> Graph | None:
    with paused():
        try:
            return compile_function(function, lookup_op=kind_of)
        except CompilationError:
            # Its Python code is traced.
            return None
