"""``script``: a function that compiles itself when it is called."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from types import FunctionType, MethodType
from typing import IO, TYPE_CHECKING, Any, Self, TypeVar, overload

from jitcore import config
from jitcore.codegen.runtime.functions import forget_native_call, last_native_call
from jitcore.errors import CompilationError
from jitcore.execution.argument_binding import in_order, parameter_binder
from jitcore.execution.collector import waiting_collector
from jitcore.execution.executor import Executor, Specialization, capture_guard, guards_of
from jitcore.execution.function_states import FunctionState, states_of
from jitcore.execution.methods_apart import MethodForms
from jitcore.execution.plans import Kernel, NativePlan
from jitcore.execution.tracebacks import for_user, speaks_for_python
from jitcore.forms import Form, VaryingNumbers, calls, run_watched
from jitcore.frontend.constants import is_layer, saved_program
from jitcore.frontend.reached import is_in_class
from jitcore.function_graphs import compile_argument, graph_of
from jitcore.grouped import grouped_graph
from jitcore.ir.graph import Graph
from jitcore.markers import ScriptIfTracing
from jitcore.reports.explain import Explanation, compiled_form, explain_call, report_on
from jitcore.reports.schemas import schema_text
from jitcore.scriptable import check_class, instead_of, is_shared

if TYPE_CHECKING:
    from jitcore.nn.module import Module

__all__ = ["ScriptFunction", "last_executed_optimized_graph", "script", "warmup"]

AnyClass = TypeVar("AnyClass", bound=type)
AnyContainer = TypeVar("AnyContainer", bound=list[Any] | dict[Any, Any])

_last_called: weakref.ref[ScriptFunction] | None = None
"""Whose call was the last that no compiled entry took."""

_alive: weakref.WeakSet[ScriptFunction] = weakref.WeakSet()


MAX_FORMS = 4
"""How many graphs a function keeps, for values of what it captures that come back."""


def _kernels(specializations: Iterable[Specialization]) -> Iterator[Kernel]:
    for one in specializations:
        if isinstance(one.plan, NativePlan):
            yield one.plan.kernel
            continue
        for region in one.plan.regions.values():
            for place in region.everywhere():
                yield from _kernels(place.specializations)


class ScriptFunction:
    """A compiled function; calling it gives what the plain function gives.

    Made by `script`.  The plain function is ``__wrapped__``.

    Attributes
    ----------
    graph : Graph
        The graph before any call, with the declared types.
    code : str
        The graph as Python source.
    code_with_constants : tuple of str and dict
        The same with the objects that the source names.
    kernels : list of Kernel
        All native functions compiled so far, with ``source``, ``llvm`` and ``assembly``.
    schema : str
        Name, parameters and return type.
    """

    __name__: str
    __qualname__: str
    __wrapped__: Callable[..., Any]
    __jitcore_compiles__ = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Each has a class of its own, whose ``__call__`` is machine code: a method that passes
        # its arguments on would take several times as long as a small call does.
        made = cls.__bases__[0] if "_is_of_one" in vars(cls) else cls
        own = type(made.__name__, (made,), {"_is_of_one": True, "__module__": made.__module__})
        instance: Self = object.__new__(own)
        return instance

    def __init__(self, function: FunctionType | MethodType, numerics: str | None = None) -> None:
        functools.update_wrapper(self, function)
        self.__wrapped_function__ = function
        self._numerics = config.checked_numerics(numerics) if numerics is not None else None
        self._read_signature()
        self._reference = weakref.ref(self)
        self._forms: list[Form] = []
        self._assigned = set[str]()
        self._varying = VaryingNumbers()
        self.methods = MethodForms(numerics)
        self._reset()
        _alive.add(self)  # from now on other threads may publish it anew

    def _read_signature(self) -> None:
        """Take the parameters from the function as it is now."""
        self._own_state = states_of([self.__wrapped_function__] if self._is_plain else [])
        self._signature = inspect.signature(self.__wrapped_function__, follow_wrapped=False)
        self._parameters = list(self._signature.parameters.values())
        self._bind = parameter_binder(self._signature)
        self._is_simple = all(
            one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in self._parameters
        )

    def _reset(self) -> None:
        """Build the graph, and an executor for it, with the globals as they are now."""
        with waiting_collector():
            graph = self._build()
        captured = [one.value for one in graph.captures] if self._is_plain else []
        code = (*self._own_state, *states_of(captured))
        executor = Executor(
            graph,
            name=self.__name__,
            fallback=self._fallback,
            captures=guards_of(graph.captures, code),
            compile_function=functools.partial(compile_argument, assigned=graph.assigned),
            numerics=lambda: self._numerics or config.numerics(),
            miss=self._miss if self._is_simple else self._run,
            publish=self._publish,
            is_plain=self._is_plain,
            methods=self.methods if self._is_plain else None,
            without_compiled=self._without_compiled,
        )
        is_guarded = None not in map(capture_guard, graph.captures)
        form = Form(graph, executor, is_guarded, calls(graph, self), code)
        self._forms = [*self._forms[1 - MAX_FORMS :], form]
        self._take_up(form)

    def _take_up(self, form: Form) -> None:
        """Run the graph of a form from now on."""
        self._form, self._graph, self._executor = form, form.graph, form.executor
        self._publish()

    def _publish(self) -> None:
        """Have calls begin at the youngest entry, if entries check all that the graph assumes."""
        is_direct = self._is_simple and self._form.is_guarded
        call: Any = self._executor.entry if is_direct else ScriptFunction.__call__
        if self._form.is_recursive:
            # Looking at the arguments again at each level would cost more than compiled code saves.
            plain_forms = import_module("jitcore.execution.plain_forms")
            function, captures = self.__wrapped_function__, self._graph.captures
            call = staticmethod(plain_forms.calling_itself(function, self, captures))
        setattr(type(self), "__call__", call)  # noqa: B010  # mypy takes it for a method

    def _build(self) -> Graph:
        """The graph of the source."""
        return graph_of(self.__wrapped_function__, self._assigned, self._varying.places)

    def _choose(self) -> None:
        """Take up the graph that fits the globals as they are now; build one if none does."""
        for form in self._forms:
            if form.holds():
                self._take_up(form)
                return
        self._varying.note(self._graph)
        self._reset()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._miss(*args, **kwargs)

    def _miss(self, /, *args: Any, **kwargs: Any) -> Any:
        """Take a call that no compiled entry has taken."""
        try:
            return take_call(self, args, kwargs)
        except Exception as error:
            raise for_user(error)  # noqa: B904  # it is the same one

    def compile_and_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that no compiled entry has taken; compile for it if the strategy allows."""
        global _last_called
        _last_called = self._reference
        forget_native_call()
        ordered = self._ordered(args, kwargs)
        if self._form.is_guarded and ordered is not args:
            # In order, an entry may take them.
            return self._executor.entry(*ordered)
        return self._run(*ordered)

    def _run(self, *parameters: Any) -> Any:
        """Run a call, whose parameters are in order, that no compiled entry has taken."""
        form, captured = self._taken_up(parameters)
        if self.is_final and not form.executor.argument_code.is_settled(parameters):
            return run_watched(form, parameters, captured)
        return form.executor.run(parameters, captured)

    def _taken_up(self, parameters: tuple[Any, ...]) -> tuple[Form, tuple[Any, ...]]:
        """A form that is right for these arguments, and its captured inputs as they are now.

        It is built anew where their code may assign what the graph takes for granted.
        """
        form, captured = self._now()
        code = form.executor.argument_code
        found = set() if self.is_final else code.assigned(parameters) - self._assigned
        if not code.is_concerned(parameters, found):
            return form, captured
        self._assigned |= found
        self._forms = []
        self._reset()
        return self._now()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        # As graphs: whoever unpickles it needs neither the source nor the same machine.
        reduced: tuple[Any, ...] = import_module("jitcore.serialization").reduced(self)
        return reduced

    def __copy__(self) -> Self:
        # As with plain functions, a copy is the function itself.
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def save(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        _extra_files: Mapping[str, str | bytes] | None = None,
    ) -> None:
        """Write the function to a file that needs no source to be loaded; see `jitcore.save`."""
        import_module("jitcore.serialization").save(self, file, _extra_files)

    def save_to_buffer(self, _extra_files: Mapping[str, str | bytes] | None = None) -> bytes:
        """What `save` would write."""
        written: bytes = import_module("jitcore.serialization").to_bytes(self, _extra_files)
        return written

    @property
    def name(self) -> str:
        """The function's name."""
        return self.__name__

    @property
    def qualified_name(self) -> str:
        """The function's name with those of its module and of what it is defined in."""
        return f"{self.__module__}.{self.__qualname__}"

    @property
    def is_recursive(self) -> bool:
        """Whether the function calls itself: Python runs it then."""
        return self._form.is_recursive

    @property
    def is_final(self) -> bool:
        """Whether the graph cannot be made anew from the source."""
        return False

    def rebound(self, modules: Mapping[int, Any]) -> ScriptFunction | None:
        """The same method for other modules, where it is only a graph; None for all others.

        Parameters
        ----------
        modules : dict
            Module and its replacement, by the module's identity.
        """
        return None

    @property
    def numerics(self) -> str | None:
        """What `script` was told about arithmetic; None where `set_numerics` says it."""
        return self._numerics

    def all_graphs(self) -> list[Graph]:
        """The generic graphs that a file has to hold: that for the globals as they are now."""
        return [self.current_graph()]

    def current_graph(self) -> Graph:
        """The generic graph for the globals as they are now."""
        self._captured()
        return self._graph

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
        ordered = self._ordered(args, keywords)
        return ordered, self._taken_up(ordered)[1]

    def _is_in_order(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Whether arguments are the parameters in order."""
        return not keywords and self._is_simple and len(args) == len(self._parameters)

    def _ordered(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        """The parameters in order, defaults filled in."""
        if not all(map(FunctionState.holds, self._own_state)):
            # Its parameters may be others now.
            self._read_signature()
            self._reset()
        return args if self._is_in_order(args, keywords) else self._bound(args, keywords)

    @speaks_for_python
    def _bound(self, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
        try:
            return self._bind(*args, **keywords)
        except TypeError:
            pass  # Python has its own words for what is wrong
        self.__wrapped_function__(*args, **keywords)
        raise TypeError(f"the arguments do not fit {self.__name__}{self._signature}")

    def _captured(self) -> tuple[Any, ...]:
        """The captured inputs as they are now; builds the graph anew if a constant has changed."""
        return self._now()[1]

    def _now(self) -> tuple[Form, tuple[Any, ...]]:
        """The form for what is captured as it is now, and its captured inputs."""
        if not self._form.holds():
            self._choose()
        form = self._form  # read once: another thread may take up another
        if not form.executor.captured_inputs:
            return form, ()
        return form, tuple(one.read() for one in form.graph.captures if one.input is not None)

    @property
    def _is_plain(self) -> bool:
        """Whether what is not compiled is the plain function, and not a graph that is final."""
        return not is_in_class(type(self), "__jitcore_graph__")

    @property
    def _fallback(self) -> Callable[..., Any]:
        """What runs without compiled code: takes all parameters in order."""
        return in_order(self.__wrapped_function__, self._parameters)

    def _without_compiled(self, known: Iterable[object]) -> Callable[..., Any] | None:
        """The same with plain functions in the place of all compiled ones, if they are `known`."""
        plain_forms = import_module("jitcore.execution.plain_forms")
        form = plain_forms.without_compiled(self.__wrapped_function__, known)
        return None if form is None else in_order(form, self._parameters)

    @property
    def graph(self) -> Graph:
        """The graph before any call, with the declared types."""
        specialize = import_module("jitcore.ir.specialize.specialize").specialize
        typed: Graph = specialize(self._graph, [value.type for value in self._graph.inputs])
        return typed

    @property
    def inlined_graph(self) -> Graph:
        """The same with all calls inlined."""
        return self.graph

    @property
    def code(self) -> str:
        """The graph as Python source."""
        print_host = import_module("jitcore.codegen.host").print_host
        text: str = print_host(self._graph, name=self.__name__, places=True).source
        return text

    @property
    def code_with_constants(self) -> tuple[str, dict[str, Any]]:
        """The graph as Python source, and the objects that the source names."""
        host = import_module("jitcore.codegen.host").print_host(self._graph, name=self.__name__)
        return host.source, host.namespace

    @property
    def kernels(self) -> list[Kernel]:
        """The native functions compiled so far, those inside host programs included."""
        return list(_kernels(self.specializations))

    @property
    def specializations(self) -> list[Specialization]:
        """What has been compiled so far, oldest first; then what has been for devices."""
        return [one for place in self._executor.everywhere() for one in place.specializations]

    @property
    def schema(self) -> str:
        """Name, parameters and return type, as TorchScript prints them."""
        return schema_text(self.__name__, self._parameters, self._graph, self.graph)

    def graph_for(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The optimized graph that a call with these arguments runs, compiled if need be."""
        bound, captured = self._arrange(args, kwargs)
        executor, inputs = self._executor.placed((*bound, *captured))
        found = executor.specialization(inputs)
        return self._graph if found is None else found.plan.graph

    def save_html(self, path: str | os.PathLike[str]) -> None:
        """Write a web page that shows the graph; after a call the one that ran, with its groups.

        Parameters
        ----------
        path : path-like
            The file, which needs nothing else to be looked at.
        """
        self._shown_graph().save_html(path)

    def _repr_html_(self) -> str:
        """The same in a notebook."""
        return self._shown_graph()._repr_html_()

    def _shown_graph(self) -> Graph:
        return grouped_graph(self._executor) or self._graph

    def explain(self, /, *args: Any, **kwargs: Any) -> Explanation:
        """Call the function and say what was compiled, what was fused and what was not.

        Returns
        -------
        Explanation
            Prints as a report; ``result`` is what the call gave.  Without the arguments that the
            function needs nothing is called, and the report is on what was compiled last.
        """
        return report_on(self, args, kwargs)

    def _explain_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        return explain_call(self, args, kwargs)


def warmup(function: Any, *args: Any, **kwargs: Any) -> None:
    """Compile a scripted function, or a scripted module's ``forward``, before its first call.

    Nothing is run, so arguments that the function would change stay as they are.  What stands
    behind a call of Python is compiled when that has been run: only then its types are known.

    Parameters
    ----------
    function : ScriptFunction or ScriptModule
    *args, **kwargs
        Arguments of the types, and of the shapes, of those that will come.

    Raises
    ------
    TypeError
        ``function`` is not scripted, or the arguments do not fit its parameters.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.script
    ... def double(x):
    ...     x *= 2
    >>> x = np.ones(2)
    >>> jitcore.warmup(double, x)
    >>> x, len(double.kernels)
    (array([1., 1.]), 1)
    """
    if not isinstance(function, ScriptFunction) and not hasattr(function, "_compiled_methods"):
        if not config.enabled():
            return
        raise TypeError(f"warmup() takes what script() gave; found {type(function).__name__}")
    compiled_form(function).graph_for(*args, **kwargs)


@contextlib.contextmanager
def no_direct_calls() -> Iterator[None]:
    """Have all calls of the functions that there are pass through `take_call`."""
    functions = list(_alive)
    for one in functions:
        setattr(type(one), "__call__", ScriptFunction.__call__)  # noqa: B010  # see _publish
    try:
        yield
    finally:
        for one in functions:
            one._publish()


def take_call(function: ScriptFunction, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call leads to that no compiled entry takes; tracing puts its own in this place."""
    return function.compile_and_run(args, kwargs)


def last_executed_optimized_graph() -> Graph | None:
    """The optimized graph of the script function that was called last.

    Returns
    -------
    Graph or None
        That of its youngest specialization; None where nothing has been compiled.
    """
    receiver = last_native_call()
    places = (place for one in _alive for place in one._executor.everywhere())
    last = next((place for place in places if place.is_receiver(receiver)), None)
    called = _last_called() if last is None and _last_called is not None else None
    specializations = called.specializations if called else last.specializations if last else []
    return specializations[-1].plan.graph if specializations else None


@overload
def script(  # type: ignore[overload-overlap]  # a class is callable, too
    function: AnyClass, *, numerics: str | None = None
) -> AnyClass: ...
@overload
def script(function: Module, *, numerics: str | None = None) -> Any: ...
@overload
def script(function: Callable[..., Any], *, numerics: str | None = None) -> ScriptFunction: ...
@overload
def script(function: AnyContainer, *, numerics: str | None = None) -> AnyContainer: ...
@overload
def script(*, numerics: str | None = None) -> Callable[[Callable[..., Any]], ScriptFunction]: ...


def script(function: Any = None, *, numerics: str | None = None) -> Any:
    """Compile a function of NumPy arrays and Python numbers, a layer or a model.

    Parameters
    ----------
    function : function, class, jitcore.nn.Module, list, dict or object
        Plain Python; a function stays available as ``__wrapped__``.  A class is given back as it
        is, once all its methods are known to compile, and so is an object of one.  A module gives
        a `ScriptModule` with the same parameters.  A list and a dict stay what they are: compiled
        code shares them with its caller in any case.
    numerics : {"strict", "contract"}, optional
        ``"strict"`` gives NumPy's arithmetic bit for bit; ``"contract"`` lets the compiler fuse
        multiplications and additions.  By default what `set_numerics` says at the first call.
        All that the function calls is compiled with it, and with its arithmetic.  What is scripted
        keeps what it has; to ask for another is an error, as it is for classes and objects.

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
    if numerics is not None:
        config.checked_numerics(numerics)
    if function is None:
        return functools.partial(script, numerics=numerics)
    if isinstance(function, ScriptFunction):
        _check_numerics(function, numerics, function.numerics)
        return function
    if not config.enabled():
        return function
    if isinstance(function, ScriptIfTracing):
        function = function.__wrapped_function__
    if isinstance(function, type) or is_shared(function):
        _check_numerics(function, numerics, None)
        check_class(function if isinstance(function, type) else type(function))
        return function
    if is_layer(function):
        # Whoever has a layer has imported the layers.
        return import_module("jitcore.module").script_module(function, numerics=numerics)
    program = saved_program(function)
    if program is not None:
        scripted: ScriptFunction = program.scripted(function, numerics)
        return scripted
    if not isinstance(function, FunctionType):
        raise CompilationError(
            "script() takes a Python function, a class or a module; "
            f"found {type(function).__name__}",
            hint=instead_of(function),
        )
    return ScriptFunction(function, numerics)


def _check_numerics(function: Any, wanted: str | None, known: str | None) -> None:
    """Raise where `script` is asked for another arithmetic than something has."""
    if wanted in (None, known):
        return
    if isinstance(function, ScriptFunction):
        raise CompilationError(
            f"script() cannot give '{function.__name__}' numerics={wanted!r}: "
            "it is a script function already",
            hint="Script the plain function, its __wrapped__, once more.",
        )
    raise CompilationError(
        f"script() cannot give a {type(function).__name__} numerics={wanted!r}",
        hint="Methods have the arithmetic of the function that calls them: script that with it.",
    )
