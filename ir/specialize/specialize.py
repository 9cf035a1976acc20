"""Specialize a graph for the types of its inputs: infer types and make Python's choices.

Before, with ``%x : Float32[n]`` and ``%k : int``::

    graph(%x : Tensor, %k : Tensor):
      %1 = prim::add(%x, %k)
      %2 = prim::CallMethod[name="sum"](%1)
      return (%2)

After::

    graph(%x : Float32[n], %k : int):
      %1 : Float32 = np::cast[dtype=float32](%k)
      %2 : Float32[n] = np::add(%x, %1)
      %3 : Float32 = np::sum[axis=(0,), keepdims=False](%2)
      return (%3)

It is an abstract interpreter: it walks the old graph with an environment from old to new values and
lets the op table's rules emit typed nodes.  Branches on constants vanish, loops over tuples unroll,
calls are inlined.  Where the two branches of an ``If`` give a variable types that have no common
type (``None`` and an array, ``int`` and ``float``), the rest of the block is specialized twice,
once in each branch.  A loop whose variables change their type in the first iteration (``s = 0``
before ``s = s + x[i]``) has that iteration peeled.  Both are limited by a budget; beyond it such a
variable has type ``Any`` and its users run in the host program.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

from jitcore.ir import log
from jitcore.ir.graph import ITERATORS, Graph, Value
from jitcore.ir.held_lists import holds_held
from jitcore.ir.nesting import nodes_with_called
from jitcore.ir.specialize import lists, objects
from jitcore.ir.specialize.branches import Environment
from jitcore.ir.specialize.library_calls import with_definitions
from jitcore.ir.specialize.metadata import changing_arrays
from jitcore.ir.specialize.python_parts import is_surely_native, leaves_to_python, python_s_part
from jitcore.ir.specialize.set_shapes import NotTheOnlyName, with_set_shapes
from jitcore.ir.specialize.skeletons import (
    ListsAreNotValues,
    SharedListsDiffer,
)
from jitcore.ir.specialize.specializer import Specializer
from jitcore.ir.specialize.typed_builder import CompileFunction, LayerFunctions
from jitcore.ir.specialize.union_operands import has_wide_unions
from jitcore.ir.specialize.value_kinds import OBJECT_TYPES, object_inputs
from jitcore.ir.types import (
    ANY,
    INT,
    OBJECT,
    ListType,
    Type,
    symbols_in,
)

if TYPE_CHECKING:
    from jitcore.ir.specialize.lists.local_lists import ListMode
    from jitcore.ir.specialize.lists.shared_lists import SharedLists
    from jitcore.ir.specialize.objects.local_records import Methods

__all__ = ["CompileFunction", "LayerFunctions", "list_results", "specialize"]


def specialize(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None = None,
    compile_function: CompileFunction | None = None,
    wanted: set[int] | None = None,
    *,
    layer_functions: LayerFunctions = "kernels",
    is_native: bool = False,
    notes_attributes: bool = False,
    refusals: list[str] | None = None,
) -> Graph:
    """The typed graph of ``graph`` for inputs of these types.

    Parameters
    ----------
    graph : Graph
        A generic or a typed graph; it is not changed.
    types : sequence of Type
        One for each input.
    constants : mapping from int to object, optional
        Inputs that are known at compile time.  They stay inputs, but nothing reads them.
    compile_function : callable, optional
        The front end, for Python functions that turn up as values.
    wanted : set of int, optional
        Takes the numbers of the inputs that would have to be constants for more to be typed.
    layer_functions : str
        What becomes of functions of layers (``nn::conv2d``): calls that are ``"kept"`` as they are,
        nodes where ``"kernels"`` can do the call, or ``"definitions"`` where those are processors',
        as they are for a ``"device"``.
    is_native : bool
        The graph is of no use if it does not become one native function as a whole.  Where it is
        taken to become that, lists of numbers are taken apart and made, and objects are their
        attributes; it then ``must_be_native``.
    notes_attributes : bool
        Note what attributes of arguments are wherever they are set: exceptions ask for it.
    refusals : list of str, optional
        Takes the reasons why lists, texts and objects that might be values are Python's.

    Returns
    -------
    Graph
    """
    attempt = partial(
        _specialized_with_values,
        types=types,
        constants=constants,
        compile_function=compile_function,
        wanted=wanted,
        layer_functions=layer_functions,
        is_native=is_native,
        notes_attributes=notes_attributes,
        refusals=refusals,
    )
    if is_native and compile_function is not None:
        defined = with_definitions(graph, compile_function)
        if _has_nodes(defined, {"prim::Try"}):
            defined = import_module(_CAUGHT_ERRORS).with_branches_for_errors(defined)
        typed = _with_shapes(defined, attempt) if defined is not graph else None
        if typed is not None and _may_be_native(typed):
            # A host program calls the functions themselves.
            typed.must_be_native = True
            return typed
    return _with_shapes(graph, attempt)


def _may_be_native(typed: Graph) -> bool:
    if typed.must_be_native or is_surely_native(typed.block):
        return True
    return list_results(typed) and is_surely_native(typed.block)


def list_results(graph: Graph) -> bool:
    """Have compiled code make the lists that are returned."""
    makes_some = any(node.kind in _MAKERS for node in graph.block.nodes)
    return makes_some and lists.list_results.list_results(graph)


def _with_shapes(graph: Graph, attempt: Callable[[Graph], Graph]) -> Graph:
    """The typed graph, where arrays whose metadata is set have one name."""
    for form in with_set_shapes(graph):
        with suppress(NotTheOnlyName):
            return attempt(form)
    raise AssertionError("internal error: arrays without metadata have no names")


def _specialized_with_values(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None,
    compile_function: CompileFunction | None,
    wanted: set[int] | None,
    layer_functions: LayerFunctions,
    *,
    is_native: bool,
    notes_attributes: bool,
    refusals: list[str] | None,
) -> Graph:
    """The typed graph, with lists and objects as values where they may be."""
    if not is_native:
        types = [ANY if isinstance(one, (ListType, *OBJECT_TYPES)) else one for one in types]
    given = tuple(number for number, one in enumerate(types) if isinstance(one, ListType))
    methods: Methods | None = None
    with_objects: Graph | None = None
    has_objects = object_inputs(types)
    makes_some = _has_nodes(graph, _MAKERS) or _makes_lists_of_arrays(graph)
    may_have_objects = has_objects or (makes_some and _has_nodes(graph, {"prim::Call"}))
    if is_native and compile_function is not None and may_have_objects:
        methods = objects.local_records.Methods(compile_function, notes_attributes=notes_attributes)
        with_objects = methods.function(graph, has_objects)
    graphs = (graph,) if with_objects is None else (with_objects, graph)
    modes = _LIST_MODES if is_native else _LIST_MODES[1:]
    has_lists = makes_some or bool(given) or with_objects is not None
    are_nested = any(
        isinstance(one, ListType) and lists.shared_arguments.is_nested(one) for one in types
    )
    has_held = any(map(holds_held, types))
    attempts = product(graphs, (given, ()) if given else ((),), modes if has_lists else ())
    for original, arguments, mode in attempts:
        promoted = lists.local_lists.with_local_lists(
            original,
            mode,
            arguments,
            are_nested=(are_nested or has_held) and bool(arguments),
            has_heap=original is with_objects,
            copies_arrays=is_native and mode != "written",
        )
        if promoted is None:
            if mode != "local" or original is graph:
                continue
            promoted = original
        known = _known_types(promoted, types, has_objects=original is with_objects)
        shared = lists.shared_lists.SharedLists() if mode == "shared" else None
        try:
            return _with_shared_lists(
                shared,
                partial(
                    _specialized,
                    promoted,
                    known,
                    constants,
                    compile_function,
                    wanted,
                    layer_functions,
                    is_native=is_native,
                    methods=methods if original is with_objects else None,
                    shared=shared,
                ),
            )
        except ListsAreNotValues as reason:
            _log_lists(graph, reason)
            if refusals is not None:
                refusals.append(str(reason))
    known = _known_types(graph, types, has_objects=False)
    plain = partial(
        _specialized, graph, known, constants, compile_function, wanted, layer_functions
    )
    if is_native:
        with suppress(ListsAreNotValues):
            return plain(is_native=True)
    return plain()


_LIST_MODES: tuple[ListMode, ...] = ("shared", "local", "written")

_CAUGHT_ERRORS = "jitcore.ir.specialize.caught_errors"
"""Few programs have a ``try``."""

_MAKERS = frozenset({"prim::ListConstruct", "prim::Call"})
"""What makes lists and objects: displays, and calls of what is no function with a row."""

_OBJECTS = frozenset({"prim::RecordState", "prim::ObjectList", "prim::ObjectElement"})

MAX_ATTEMPTS = 30
"""How often a graph is begun anew because more is known of its lists."""


def _with_shared_lists(shared: SharedLists | None, attempt: Callable[[], Graph]) -> Graph:
    """Try until nothing more is found out of the lists that several may know."""
    for _ in range(MAX_ATTEMPTS):
        try:
            return attempt()
        except lists.shared_lists.MoreIsKnown:
            continue
        except SharedListsDiffer as found:
            if shared is None:
                raise
            with suppress(lists.shared_lists.MoreIsKnown):
                shared.unify(*found.types)
    raise ListsAreNotValues("lists of which one attempt after another finds out more")


def _known_types(graph: Graph, types: Sequence[Type], *, has_objects: bool) -> list[Type]:
    """The types of the inputs; nothing is known of lists and objects that are no values."""

    def is_known(value: Value, type_: Type) -> bool:
        if isinstance(type_, OBJECT_TYPES):
            return has_objects
        return not isinstance(type_, ListType) or lists.list_arguments.is_value_argument(value)

    pairs = zip(graph.inputs, types, strict=True)
    return [type_ if is_known(value, type_) else ANY for value, type_ in pairs]


def _has_nodes(graph: Graph, kinds: Collection[str]) -> bool:
    """Whether a function, or one that it calls, has a node of one of these kinds."""
    return any(node.kind in kinds for node in nodes_with_called(graph))


def _makes_lists_of_arrays(graph: Graph) -> bool:
    """Whether a function, or one that it calls, says ``x.tolist()``."""
    return any(node.attributes.get("name") == "tolist" for node in nodes_with_called(graph))


def _has_list_nodes(graph: Graph) -> bool:
    """Whether something in a typed graph may be, or read, a list that is a value."""
    # Iterators are what is left of loops that read a list by themselves.
    return any(
        node.kind.startswith(("prim::List", "prim::SharedList")) or node.kind in ITERATORS
        for node in graph.nodes()
    )


def _log_lists(graph: Graph, reason: ListsAreNotValues) -> None:
    log.debug("specialize", lambda: f"{graph.name}: its lists stay Python's: {reason}")


def _specialized(
    graph: Graph,
    types: Sequence[Type],
    constants: Mapping[int, Any] | None,
    compile_function: CompileFunction | None,
    wanted: set[int] | None,
    layer_functions: LayerFunctions,
    *,
    is_native: bool = False,
    methods: Methods | None = None,
    shared: SharedLists | None = None,
) -> Graph:
    """One attempt; raises ``ListsAreNotValues`` where lists that were promoted must not be."""
    target = Graph(graph.name)
    target.doc = graph.doc
    target.only_compiled = graph.only_compiled
    worker = Specializer(target, compile_function)
    worker.layer_functions = layer_functions
    worker.input_symbols = frozenset(symbol for type_ in types for symbol in symbols_in(type_))
    worker.changing = changing_arrays(graph)
    worker.methods = methods
    worker.is_native = is_native
    worker.caught = graph.caught
    known = {} if constants is None else constants
    for number, (param, type_) in enumerate(zip(graph.inputs, types, strict=True)):
        target.block.add_param(OBJECT if number in known else type_, param.name)
    inputs = dict(zip(graph.inputs, target.inputs, strict=True))
    # Before all that is assumed besides.
    for capture in graph.captures:
        own = inputs[capture.input] if capture.input else None
        target.captures.append(replace(capture, input=own))
    if shared is not None:
        worker.shared = shared
        worker.keeps_ints = True
        lists.shared_arguments.start_heap(worker, graph, inputs)
    environment = _opened(worker, inputs, known)
    values = _walked(worker, graph, environment)
    if shared is not None:
        shared.settle(INT)
        values = lists.shared_results.give_shared(worker, values)
    for value in values:
        target.block.add_return(worker.known_to_python(value))
    if _has_objects(worker):
        objects.records.remove_record_states(target)
    if methods is not None and wanted is not None:
        # What would make this native has to be known also where it is given up.
        wanted.update(_input_numbers(target, worker.wanted))
    _require_native(worker, target, is_native=is_native)
    if _has_list_nodes(target) and lists.list_states.remove_list_states(target):
        if not is_native:
            raise ListsAreNotValues("lists of arrays where not all of the function is native")
        target.must_be_native = True
    if layer_functions == "kept":
        lists.changing_lists.forget_names(target)
    if wanted is not None:
        wanted.update(_input_numbers(target, worker.wanted))
    return target


def _walked(worker: Specializer, graph: Graph, environment: Environment) -> list[Value]:
    """The results of a graph, after its nodes have been specialized."""
    values = worker.walk(graph.block, 0, environment)
    return objects.record_results.return_objects(worker, values) if _has_objects(worker) else values


def _has_objects(worker: Specializer) -> bool:
    """Whether something in a typed graph may be an object that is a value, or a text."""
    nodes = worker.block.graph.nodes()
    return worker.methods is not None or any(node.kind in _OBJECTS for node in nodes)


def _opened(
    worker: Specializer, inputs: Mapping[Value, Value], known: Mapping[int, Any]
) -> Environment:
    """What the inputs of a graph are where it begins; ``known`` has the constants among them."""
    found: Environment = {}
    for number, (param, new) in enumerate(inputs.items()):
        is_known = number in known
        value = worker.constant(known[number]) if is_known else worker.opened(new)
        found[param] = value if is_known else worker.without_type(value, param)
    return found


def _require_native(worker: Specializer, target: Graph, *, is_native: bool) -> None:
    """Refuse what Python could not go on with in a graph that is not all native."""
    has_unions = is_native and has_wide_unions(target)
    has_objects = worker.methods is not None
    starts_anew = leaves_to_python(target)
    if starts_anew and not is_native:
        raise ListsAreNotValues("values for which Python would start anew")
    # Python's own code would not get an int of any size into the array, and has no objects.
    needs_native = has_unions or has_objects or worker.keeps_ints or starts_anew
    if needs_native and not is_surely_native(target.block):
        if not (is_native and list_results(target) and is_surely_native(target.block)):
            raise ListsAreNotValues(python_s_part(target.block))
        target.must_be_native = True
    target.must_be_native |= has_unions or has_objects or starts_anew or worker.shared is not None


def _input_numbers(graph: Graph, values: Sequence[Value]) -> Iterator[int]:
    """The numbers of the graph inputs among these values."""
    for value in values:
        if value in graph.inputs:
            yield graph.inputs.index(value)
