"""``script``: a function that compiles itself when it is called."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from importlib import import_module
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from jitcore import config
from jitcore.codegen.host import print_host
from jitcore.errors import CompilationError
from jitcore.executor import Executor, Specialization, capture_guard
from jitcore.explain import Explanation, explain_call
from jitcore.frontend import compile_function, is_library
from jitcore.frontend.constants import function_mark, is_layer, wrapped_function
from jitcore.ir.graph import Graph
from jitcore.ir.ops import kind_of
from jitcore.ir.passes.specialize import specialize
from jitcore.pipeline import Kernel, NativePlan
from jitcore.source import has_source

if TYPE_CHECKING:
    from jitcore.nn.module import Module

__all__ = ["ScriptFunction", "compile_argument", "last_executed_optimized_graph", "script"]

AnyClass = TypeVar("AnyClass", bound=type)

_last_called: weakref.ref[ScriptFunction] | None = None


MAX_FORMS = 4
"""How many graphs a function keeps, for values of what it captures that come back."""


def _front_end(function: FunctionType | MethodType) -> Graph:
    return compile_function(function, lookup_op=kind_of)


def compile_argument(function: Any) -> Graph | None:
    """The graph of a Python function that came in as an argument; None of what is left alone."""
    plain = wrapped_function(function)
    if plain is None or is_library(plain.__code__.co_filename) or function_mark(plain) == "ignore":
        return None
    try:
        return _front_end(plain)
    except CompilationError:
        # Nobody asked for it to be compiled: Python calls it.
        return None


class ScriptFunction:
    """A compiled function; calling it gives what the plain function gives.

    Made by `script`.  The plain function is ``__wrapped__``.

    Attributes
    ----------
    graph : Graph
        The graph before any call, with the declared types.
    code : str
        The graph as Python source.
    kernels : list of Kernel
        All native functions compiled so far, with ``source``, ``llvm`` and ``assembly``.
    schema : str
        Name, parameters and return type.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, function: FunctionType | MethodType, numerics: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped_function__ = function
        self._signature = inspect.signature(function, follow_wrapped=False)
        self._numerics = config.checked_numerics(numerics) if numerics is not None else None
        self._parameters = list(self._signature.parameters.values())
        self._is_simple = all(
            one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in self._parameters
        )
        self._reference = weakref.ref(self)
        self._forms: list[tuple[Graph, Executor, bool]] = []
        self._reset()

    def _reset(self) -> None:
        """Build the graph, and an executor for it, with the globals as they are now."""
        self._graph = self._build()
        guards = tuple(filter(None, map(capture_guard, self._graph.captures)))
        self._executor = Executor(
            self._graph,
            name=self.__name__,
            fallback=self._plain,
            captures=guards,
            compile_function=compile_argument,
            numerics=lambda: self._numerics or config.numerics(),
            miss=self._miss,
        )
        self._guarded = len(guards) == len(self._graph.captures)
        self._forms = [*self._forms[1 - MAX_FORMS :], (self._graph, self._executor, self._guarded)]

    def _build(self) -> Graph:
        """The graph of the source."""
        return _front_end(self.__wrapped_function__)

    def _choose(self) -> None:
        """Take up the graph that fits the globals as they are now; build one if none does."""
        for form in self._forms:
            if _holds(form[0]):
                self._graph, self._executor, self._guarded = form
                return
        self._reset()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        global _last_called
        _last_called = self._reference
        if self._guarded and self._is_simple:
            return self._executor.entry(*args, **kwargs)
        return self._miss(*args, **kwargs)

    def _miss(self, *args: Any, **kwargs: Any) -> Any:
        """Take a call that no compiled entry has taken."""
        bound, captured = self._arrange(args, kwargs)
        # The line above may have made a new executor.
        return self._executor.run(bound, captured)

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        # As with plain functions: pickled by name, and a copy is the function itself.
        return self.__qualname__

    def __repr__(self) -> str:
        return f"<jitcore.ScriptFunction {self.__qualname__}{self._signature}>"

    def _arrange(
        self, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The parameters in order, defaults filled in, and the captured inputs.

        Raises
        ------
        TypeError
            The arguments do not fit, as Python words it.
        """
        if keywords or not self._is_simple or len(args) != len(self._parameters):
            try:
                bound = self._signature.bind(*args, **keywords)
            except TypeError:
                self.__wrapped_function__(*args, **keywords)
                raise
            bound.apply_defaults()
            args = tuple(bound.arguments[one.name] for one in self._parameters)
        return args, self._captured()

    def _captured(self) -> tuple[Any, ...]:
        """The captured inputs as they are now; builds the graph anew if a constant has changed."""
        if not _holds(self._graph):
            self._choose()
        return tuple(one.read() for one in self._graph.captures if one.input is not None)

    def _plain(self, *parameters: Any) -> Any:
        """The plain function, called with all its parameters in order."""
        if self._is_simple:
            return self.__wrapped_function__(*parameters)
        args: list[Any] = []
        keywords: dict[str, Any] = {}
        for parameter, value in zip(self._parameters, parameters, strict=True):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args.extend(value)
            elif parameter.kind is parameter.KEYWORD_ONLY:
                keywords[parameter.name] = value
            elif parameter.kind is parameter.VAR_KEYWORD:
                keywords.update(value)
            else:
                args.append(value)
        return self.__wrapped_function__(*args, **keywords)

    @property
    def graph(self) -> Graph:
        """The graph before any call, with the declared types."""
        return specialize(self._graph, [value.type for value in self._graph.inputs])

    @property
    def inlined_graph(self) -> Graph:
        """The same with all calls inlined."""
        return self.graph

    @property
    def code(self) -> str:
        """The graph as Python source."""
        return print_host(self._graph, name=self.__name__, places=True).source

    @property
    def kernels(self) -> list[Kernel]:
        """The native functions compiled so far."""
        return [
            one.plan.kernel
            for one in self._executor.specializations
            if isinstance(one.plan, NativePlan)
        ]

    @property
    def specializations(self) -> list[Specialization]:
        """What has been compiled so far, oldest first."""
        return list(self._executor.specializations)

    @property
    def schema(self) -> str:
        """Name, parameters and return type, as TorchScript prints them."""
        inputs = ", ".join(f"{value.type} {value.name}" for value in self._graph.inputs)
        return f"{self.__name__}({inputs}) -> {self._graph.outputs[0].type}"

    def graph_for(self, *args: Any, **kwargs: Any) -> Graph:
        """The optimized graph that a call with these arguments runs, compiled if need be."""
        bound, captured = self._arrange(args, kwargs)
        found = self._executor.specialization((*bound, *captured))
        return self._graph if found is None else found.plan.graph

    def explain(self, *args: Any, **kwargs: Any) -> Explanation:
        """Call the function and say what was compiled, what was fused and what was not.

        Returns
        -------
        Explanation
            Prints as a report; ``result`` is what the call gave.
        """
        return explain_call(self, args, kwargs)


def _holds(graph: Graph) -> bool:
    """Whether all that a graph takes for constant is as it was."""
    return all(one.input is not None or one.read() is one.value for one in graph.captures)


def _checked_class(class_: type) -> type:
    """A class whose methods can all be compiled, for use in compiled functions."""
    for member in vars(class_).values():
        for function in _functions_of(member):
            marked = function_mark(function) in ("ignore", "unused")
            if not marked and not is_library(function.__code__.co_filename):
                if has_source(function):
                    _front_end(function)
    return class_


def _functions_of(member: Any) -> Iterator[FunctionType]:
    """The functions in a member of a class: a method, or those of a property."""
    if isinstance(member, property):
        parts = (member.fget, member.fset, member.fdel)
    else:
        parts = (getattr(member, "__func__", member), None, None)
    yield from (part for part in parts if isinstance(part, FunctionType))


def last_executed_optimized_graph() -> Graph | None:
    """The optimized graph of the script function that was called last.

    Returns
    -------
    Graph or None
        That of its youngest specialization; None where nothing has been compiled.
    """
    last = _last_called() if _last_called is not None else None
    if last is None or not last.specializations:
        return None
    return last.specializations[-1].plan.graph


@overload
def script(  # type: ignore[overload-overlap]  # a class is callable, too
    function: AnyClass, *, numerics: str | None = None
) -> AnyClass: ...
@overload
def script(function: Module, *, numerics: str | None = None) -> Any: ...
@overload
def script(function: Callable[..., Any], *, numerics: str | None = None) -> ScriptFunction: ...
@overload
def script(*, numerics: str | None = None) -> Callable[[Callable[..., Any]], ScriptFunction]: ...


def script(function: Any = None, *, numerics: str | None = None) -> Any:
    """Compile a function of NumPy arrays and Python numbers, a layer or a model.

    Parameters
    ----------
    function : function, class or jitcore.nn.Module
        Plain Python; a function stays available as ``__wrapped__``.  A class is given back as it
        is, once all its methods are known to compile.  A module gives a `ScriptModule` with the
        same parameters.
    numerics : {"strict", "contract"}, optional
        ``"strict"`` gives NumPy's arithmetic bit for bit; ``"contract"`` lets the compiler fuse
        multiplications and additions.  By default what `set_numerics` says at the first call.

    Returns
    -------
    ScriptFunction
        Compiles when it is called, once for each kind of arguments.  With ``JITCORE_JIT=0`` in the
        environment the function itself comes back.

    Raises
    ------
    CompilationError
        The function uses something that is not supported; the message shows where.

    Examples
    --------
    >>> import numpy as np
    >>> from jitcore import script
    >>> @script
    ... def scaled(x, k):
    ...     return (x - x.mean()) * k
    >>> scaled(np.arange(3.0), 2.0)
    array([-2.,  0.,  2.])
    """
    if function is None:
        return functools.partial(script, numerics=numerics)
    if isinstance(function, ScriptFunction):
        return function
    if not config.enabled():
        return function
    if isinstance(function, type):
        return _checked_class(function)
    if is_layer(function):
        # Whoever has a layer has imported the layers.
        return import_module("jitcore.module").script_module(function, numerics=numerics)
    if not isinstance(function, FunctionType):
        raise CompilationError(
            "script() takes a Python function, a class or a module; "
            f"found {type(function).__name__}",
            hint=_instead_of(function),
        )
    return ScriptFunction(function, numerics)


def _instead_of(value: Any) -> str:
    """What to script in place of something that is no function."""
    if isinstance(value, MethodType):
        return "Put @script on the function in the class, and call the method as before."
    if isinstance(value, functools.partial):
        return "Script a function that makes the call with all its arguments."
    of_numpy = str(getattr(value, "__module__", "")).partition(".")[0] == "numpy"
    if isinstance(value, (np.ufunc, BuiltinFunctionType)) or of_numpy:
        return "Script the function of yours that calls it."
    if isinstance(getattr(value, "__wrapped__", None), FunctionType):
        return (
            "Put @script right above the function, below the decorator that wraps it; "
            "the function itself is its __wrapped__."
        )
    if callable(value):
        return "Script a function, and pass it what the object holds."
    return "Put @script on a function, or call script(function)."
