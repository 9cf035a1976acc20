"""``grad`` and ``value_and_grad``: compiled gradients of NumPy functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain
from types import FunctionType
from typing import Any, cast

import numpy as np

from jitcore import config
from jitcore.argument_trees import LEAF, Tree, holds_containers, tree_of
from jitcore.errors import CompilationError
from jitcore.execution.plans import HostPlan, NativePlan
from jitcore.frontend.constants import final_graph
from jitcore.function_graphs import compile_argument, graph_of
from jitcore.graph_function import GraphFunction
from jitcore.ir import interpreter
from jitcore.ir.dataclass import dataclass
from jitcore.ir.gradients.activity import NotDifferentiable
from jitcore.ir.gradients.differentiate import differentiate
from jitcore.ir.graph import Capture, Graph, Node, Value
from jitcore.ir.ops.op import Untypable, static_value
from jitcore.ir.passes.cse import common_subexpression_elimination
from jitcore.ir.passes.dce import dead_code_elimination
from jitcore.ir.passes.plain_linears import use_plain_linears
from jitcore.ir.passes.plain_windows import use_plain_windows
from jitcore.ir.passes.unchanged_variables import use_unchanged_variables
from jitcore.ir.specialize.specialize import CompileFunction, specialize
from jitcore.ir.specialize.typed_builder import TypedBuilder, unpacked
from jitcore.ir.types import ANY, OBJECT, Type, type_of_constant
from jitcore.reports.explain import Explanation
from jitcore.script import ScriptFunction

__all__ = ["Derivative", "GradientFunction", "grad", "value_and_grad"]


@dataclass(frozen=True, slots=True)
class Derivative:
    """What the graph of a gradient calls: the gradient of a graph, for arguments of any types.

    Parameters
    ----------
    graph : Graph
        The generic graph of the function; what it captures are its last inputs.
    arguments : tuple of int
        The inputs with respect to which it is differentiated.
    is_one : bool
        The gradient is that of one argument, and no tuple.
    with_value : bool
        The result is the value and the gradient.
    has_aux : bool
        The function gives a pair, of which the second part is passed on.
    """

    graph: Graph
    arguments: tuple[int, ...]
    is_one: bool
    with_value: bool
    has_aux: bool

    def packed(self, value: Any, gradients: tuple[Any, ...]) -> Any:
        """The result of a call, of the value and the gradients."""
        found = gradients[0] if self.is_one else gradients
        if self.with_value:
            return value, found
        return (found, value[1]) if self.has_aux else found

    def __call__(self, *args: Any) -> Any:
        """Run the gradient node by node, as the reference interpreter does.

        Raises
        ------
        CompilationError
            The function has no gradient for these arguments.
        """
        types = [type_of_constant(one) for one in args]
        constants = {
            number: one
            for number, (one, type_) in enumerate(zip(args, types, strict=True))
            if number not in self.arguments and not _holds_arrays(one)
        }
        try:
            graph = self._graph(types, constants, compile_argument, set())
        except NotDifferentiable as reason:
            if reason.in_python:
                # What the function itself raises comes first.
                interpreter.run(self.graph, [_copied(one) for one in args])
            raise CompilationError(reason.message, reason.where, reason.hint) from None
        return interpreter.run(graph, args)

    def __jitcore_inlined__(self, b: TypedBuilder, args: Sequence[Value]) -> Value:
        """Emit the gradient for arguments of known types."""
        if any(one.type == ANY for one in args):
            raise Untypable("a gradient with respect to what has no type")
        constants = {n: one for n, one in _known(args).items() if n not in self.arguments}
        wanted: set[int] = set()
        types = [one.type for one in args]
        try:
            graph = self._graph(types, constants, b.compile_function, wanted)
        except NotDifferentiable as reason:
            raise Untypable(reason.message) from None
        finally:
            unknown = [args[n] for n in wanted - constants.keys()]
            b.wanted += map(unpacked, unknown)
        for capture in graph.captures:
            b.assume(capture)
        return b.inline(graph, args)

    def _graph(
        self,
        types: Sequence[Type],
        constants: dict[int, Any],
        compile_function: CompileFunction | None,
        wanted: set[int],
    ) -> Graph:
        """The graph of the gradient for inputs of these types."""
        known = [OBJECT if n in constants else one for n, one in enumerate(types)]
        typed = specialize(
            self.graph,
            known,
            constants,
            compile_function,
            wanted,
            layer_functions="definitions",
            is_native=True,
        )
        use_unchanged_variables(typed)
        use_plain_linears(typed)
        use_plain_windows(typed)
        common_subexpression_elimination(typed)
        dead_code_elimination(typed)
        return differentiate(
            typed,
            self.arguments,
            is_one=self.is_one,
            with_value=self.with_value,
            has_aux=self.has_aux,
        )


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_holds_arrays, value))
    return isinstance(value, (np.ndarray, np.generic, float))


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _known(args: Sequence[Value]) -> dict[int, Any]:
    """The arguments that are known when the program is compiled."""
    found = {}
    for number, value in enumerate(args):
        try:
            found[number] = static_value(value, "an argument")
        except Untypable:
            continue
    return found


class GradientFunction(ScriptFunction):
    """The compiled gradient of a function; made by `grad` and `value_and_grad`.

    There is no plain function that it stands for: what compiled code does not take, and all calls
    with ``JITCORE_JIT=0``, the reference interpreter runs.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        argnums: int | tuple[int, ...],
        *,
        with_value: bool,
        has_aux: bool,
        numerics: str | None = None,
    ) -> None:
        self._function = function
        self._argnums = argnums
        signature = inspect.signature(function)
        arguments = _arguments(function, signature, argnums)
        is_one = not isinstance(argnums, tuple)

        self._derivative = Derivative(Graph(), arguments, is_one, with_value, has_aux)
        self._opened: dict[tuple[Tree, ...], tuple[Graph, GraphFunction]] = {}
        name = "value_and_grad" if with_value else "grad"
        super().__init__(_plain(self, function, signature, name), numerics)

    def __reduce__(self) -> tuple[Any, ...]:
        # The function itself: what a graph calls to be differentiated has no form in files.
        derivative = self._derivative
        kinds = derivative.with_value, derivative.has_aux
        return _unpickled, (self._function, self._argnums, *kinds, self.numerics)

    def compile_and_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a call that no compiled entry has taken."""
        ordered = self._ordered(args, kwargs)
        if self._holds_containers(ordered):
            return self.run_opened(ordered)
        return super().compile_and_run(args, kwargs)

    def _run(self, *parameters: Any) -> Any:
        """Run a call, whose parameters are in order, that no compiled entry has taken."""
        form, captured = self._taken_up(parameters)
        executor, values = form.executor.placed((*parameters, *captured))
        every = frozenset(range(len(values)))
        if executor.exact != every:
            found = executor.specialization(values)
            if found is not None and found.kind == "DYNAMIC" and _is_interpreted(found.plan):
                # What loops have to keep may have extents that only exact shapes tell.
                executor.exact = every
                executor.drop(found)
        return super()._run(*parameters)

    def _holds_containers(self, args: tuple[Any, ...]) -> bool:
        return any(holds_containers(args[n]) for n in self._derivative.arguments)

    def run_opened(self, args: tuple[Any, ...], *, is_plain: bool = False) -> Any:
        """Run a call whose arguments hold lists or dicts, which are opened before it.

        The gradient with respect to such an argument is of the same form.
        """
        trees, function, leaves = self._opened_call(args)
        run = function.__wrapped_function__ if is_plain else function
        value, flat = run(*leaves)
        gradients, wanted = iter(flat), self._derivative.arguments
        made = {number: trees[number].filled(gradients) for number in sorted(wanted)}
        return self._derivative.packed(value, tuple(made[number] for number in wanted))

    def _opened_call(
        self, args: tuple[Any, ...]
    ) -> tuple[tuple[Tree, ...], GraphFunction, list[Any]]:
        """The forms of arguments, the gradient for what is in them, and that."""
        wanted = self._derivative.arguments
        trees = tuple(tree_of(one) if number in wanted else LEAF for number, one in enumerate(args))
        graph = self.current_graph()
        found = self._opened.get(trees)
        if found is None or found[0] is not graph:
            found = self._opened[trees] = graph, self._with_leaves(graph, trees)
        pairs = zip(trees, args, strict=True)
        return trees, found[1], list(chain.from_iterable(tree.leaves(one) for tree, one in pairs))

    def graph_for(self, /, *args: Any, **kwargs: Any) -> Graph:
        """The optimized graph that a call with these arguments runs, compiled if need be."""
        ordered = self._ordered(args, kwargs)
        if self._holds_containers(ordered):
            _, function, leaves = self._opened_call(ordered)
            return function.graph_for(*leaves)
        return super().graph_for(*args, **kwargs)

    def _explain_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Explanation:
        # Of arguments that hold lists or dicts, it explains the call with what is in them.
        ordered = self._ordered(args, kwargs)
        if self._holds_containers(ordered):
            _, function, leaves = self._opened_call(ordered)
            return function.explain(*leaves)
        return super()._explain_call(args, kwargs)

    def _with_leaves(self, graph: Graph, trees: Sequence[Tree]) -> GraphFunction:
        """The value and the gradient for the leaves of arguments of some form."""
        primal = next(one.attributes["value"].graph for one in graph.nodes() if _is_derivative(one))
        opened = Graph(self.__name__)
        numbers: list[int] = []
        values = []
        for number, (tree, name) in enumerate(zip(trees, self._names(), strict=True)):
            start = len(opened.inputs)
            values.append(tree.add_inputs(opened.block, name))
            if number in self._derivative.arguments:
                numbers += range(start, len(opened.inputs))
        names = [value.name.replace(".", "_") for value in opened.inputs]
        captured = [opened.block.add_param(name=one.name) for one in primal.inputs[len(trees) :]]
        inputs = [*values, *captured]
        made = opened.block.append("prim::CallFunction", inputs, {"graph": primal})
        opened.block.add_return(made.output)
        derivative = replace(
            self._derivative, graph=opened, arguments=tuple(numbers), is_one=False, with_value=True
        )
        outer = _calling(opened, derivative, graph.captures)
        parameters = [inspect.Parameter(one, inspect.Parameter.POSITIONAL_ONLY) for one in names]
        return GraphFunction(
            outer, inspect.Signature(parameters), name=self.__name__, numerics=self.numerics
        )

    def _names(self) -> list[str]:
        return [one.name for one in self._parameters]

    @property
    def __jitcore_graph__(self) -> Graph:
        """What a call in another compiled function runs."""
        return self.current_graph()

    def _build(self) -> Graph:
        function = self._function
        inner = final_graph(function)
        if inner is None:
            plain: Any = getattr(function, "__wrapped_function__", function)
            inner = graph_of(plain, self._assigned, self._varying.places)
        primal = inner.copy()
        primal.captures = []
        self._derivative = replace(self._derivative, graph=primal)
        return _calling(inner, self._derivative, inner.captures)


def _is_interpreted(plan: NativePlan | HostPlan) -> bool:
    """Whether a program leaves the gradient to the interpreter."""
    return isinstance(plan, HostPlan) and any(map(_is_derivative, plan.graph.nodes()))


def _is_derivative(node: Node) -> bool:
    return isinstance(node.attributes.get("value"), Derivative)


def _calling(inner: Graph, derivative: Derivative, captures: Sequence[Capture]) -> Graph:
    """A graph that calls the derivative of another one, and captures what that does."""
    graph = Graph(inner.name)
    for one in inner.inputs:
        graph.block.add_param(one.type, one.name)
    captured = [one for one in captures if one.input is not None]
    values = dict(
        zip(
            (one.input for one in captured),
            graph.inputs[len(graph.inputs) - len(captured) :],
            strict=True,
        )
    )
    graph.captures = [replace(one, input=values.get(one.input)) for one in captures]
    graph.assigned = inner.assigned
    callee = graph.block.constant(derivative, OBJECT)
    source = next((node.source for node in inner.nodes() if node.source), None)
    call = graph.block.append("prim::Call", [callee, *graph.inputs], source=source)
    graph.block.add_return(call.output)
    return graph


def _plain(
    gradient: GradientFunction,
    function: Callable[..., Any],
    signature: inspect.Signature,
    name: str,
) -> FunctionType:
    """A Python function that runs the gradient by the reference interpreter."""

    def run(*args: Any, **keywords: Any) -> Any:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        values = tuple(bound.arguments.values())
        if gradient._holds_containers(values):
            return gradient.run_opened(values, is_plain=True)
        return interpreter.run(gradient.current_graph(), values)

    assert isinstance(run, FunctionType)
    functools.update_wrapper(run, function, updated=())
    del run.__wrapped__  # type: ignore[attr-defined]
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__doc__ = f"{name} of {run.__name__}.\n\n{function.__doc__ or ''}".strip()
    return run


def _name_of(function: Callable[..., Any]) -> str:
    name = getattr(function, "__name__", None)
    return repr(function) if name is None else f"'{name}'"


def _arguments(
    function: Callable[..., Any], signature: inspect.Signature, argnums: int | tuple[int, ...]
) -> tuple[int, ...]:
    """The numbers of the parameters to differentiate, which there have to be."""
    wanted = argnums if isinstance(argnums, tuple) else (argnums,)
    kinds = [one.kind for one in signature.parameters.values()]
    found = []
    for number in wanted:
        is_int = type(number) is int
        if not is_int or not -len(kinds) <= number < len(kinds):
            raise ValueError(
                f"argnums has to be numbers of parameters of {_name_of(function)}, which has "
                f"{len(kinds)}; found {number!r}"
            )
        if kinds[number] in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            raise ValueError(f"argnums cannot be the number of a starred parameter: {number}")
        found.append(number % len(kinds))
    if not found or len(set(found)) < len(found):
        raise ValueError(f"argnums has to name different parameters; found {argnums!r}")
    return tuple(found)


def grad(
    function: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    numerics: str | None = None,
) -> GradientFunction:
    """The gradient of a function that gives one float.

    Parameters
    ----------
    function, argnums, has_aux, numerics
        As in `value_and_grad`.

    Returns
    -------
    GradientFunction
        Takes what ``function`` takes and gives the gradient; with ``has_aux`` the pair of it and
        what goes with the value.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> jitcore.grad(lambda x: np.sum(x**2))(np.arange(3.0))
    array([0., 2., 4.])
    """
    return _made(function, argnums, with_value=False, has_aux=has_aux, numerics=numerics)


def value_and_grad(
    function: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    *,
    has_aux: bool = False,
    numerics: str | None = None,
) -> GradientFunction:
    """A function that gives the value of another one, and its gradient.

    The derivative is that of the compiled graph, in reverse mode: it takes a small multiple of the
    time of the function, however many elements the arguments have.

    Parameters
    ----------
    function : callable
        Plain Python, or what `script`, `grad` or `value_and_grad` gave.  It gives one float, or
        an array of one without axes.
    argnums : int or tuple of int
        The parameters with respect to which it is differentiated: floats, arrays of floats, or
        tuples, lists, dicts and NamedTuples of these.  A gradient has the form of its argument, and
        its dtypes and shapes.
    has_aux : bool
        The function gives a pair: the value, and something that goes with it.
    numerics : {"strict", "contract"}, optional
        As in `script`.

    Returns
    -------
    GradientFunction
        Takes what ``function`` takes and gives ``(value, gradient)``, where the gradient is a tuple
        if ``argnums`` is one; with ``has_aux`` ``((value, aux), gradient)``.

    Raises
    ------
    CompilationError
        At a call: the function has no gradient for these arguments; the message shows where.

    Examples
    --------
    >>> import numpy as np, jitcore
    >>> @jitcore.value_and_grad
    ... def energy(x):
    ...     return 0.5 * np.sum(x * x)
    >>> energy(np.array([1.0, 2.0]))
    (np.float64(2.5), array([1., 2.]))
    """
    return _made(function, argnums, with_value=True, has_aux=has_aux, numerics=numerics)


def _unpickled(
    function: Callable[..., Any],
    argnums: int | tuple[int, ...],
    with_value: bool,
    has_aux: bool,
    numerics: str | None,
) -> GradientFunction:
    return _made(function, argnums, with_value=with_value, has_aux=has_aux, numerics=numerics)


def _made(
    function: Callable[..., Any],
    argnums: int | tuple[int, ...],
    *,
    with_value: bool,
    has_aux: bool,
    numerics: str | None,
) -> GradientFunction:
    """The compiled gradient; with ``JITCORE_JIT=0`` the function that interprets it."""
    if not callable(function):
        raise TypeError(f"a gradient is that of a function; found {type(function).__name__}")
    made = GradientFunction(
        function, argnums, with_value=with_value, has_aux=has_aux, numerics=numerics
    )
    if config.enabled():
        return made
    interpreted: Any = made.__wrapped_function__
    interpreted.__jitcore_graph__ = made.current_graph()
    return cast(GradientFunction, interpreted)
