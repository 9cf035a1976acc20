"""Makes the objects of an archive's table, checking each row; nothing of the file is run.

Objects are made when something first refers to them, and what they hold is filled in afterwards, so
that objects may refer to each other in a circle where Python's may.
"""

from __future__ import annotations

import functools
import inspect
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum, EnumMeta
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from jitcore.errors import SerializationError
from jitcore.frontend.callees import python_call
from jitcore.frontend.constants import is_layer
from jitcore.frontend.function_values import Maker
from jitcore.ir.classes import class_attribute
from jitcore.ir.graph import Capture, Constants, Graph
from jitcore.ir.types import is_named_tuple
from jitcore.script import ScriptFunction
from jitcore.serialization.annotations import make_annotation
from jitcore.serialization.archive import Archive
from jitcore.serialization.arrays import ArrayReader
from jitcore.serialization.classes import ENUM_MIXINS
from jitcore.serialization.fields import Fields, parse_json
from jitcore.serialization.graphs import all_graphs, read_graph
from jitcore.serialization.literals import is_literal, read_literal
from jitcore.serialization.loaded import (
    LoadedFunction,
    Parameter,
    SavedProgram,
    check_program,
    fixed_capture,
    function_maker,
    held_capture,
    plain_function,
    read_numerics,
)
from jitcore.serialization.loaded_layers import LAYER_BUILDERS, generator_namespace
from jitcore.serialization.rebuilt import CLASS_BUILDERS, OF_CLASSES
from jitcore.serialization.source_lines import read_lines, register_lines, shown_folder
from jitcore.serialization.vocabulary import known_object
from jitcore.serialization.writer import PROGRAM

__all__ = ["Reader"]


class Reader:
    """The objects of one archive.

    Parameters
    ----------
    archive : Archive
    external : sequence of object
        What the archive refers to and does not hold.
    """

    def __init__(self, archive: Archive, external: Sequence[Any] = ()) -> None:
        self.archive = archive
        self.program = Fields(parse_json(archive.bytes(PROGRAM), PROGRAM), PROGRAM)
        self._external = external
        self._rows = self.program.items("objects")
        self._objects: dict[int, Any] = {}
        self._begun: set[int] = set()
        self._arrays = ArrayReader(archive.entries)
        self._folder = shown_folder(archive)
        self._fillings: deque[Callable[[], None]] = deque()
        self._endings: deque[Callable[[], None]] = deque()

    def root(self) -> Any:
        """The object that was saved.

        Raises
        ------
        SerializationError
            The archive is not one that jitcore wrote.
        """
        try:
            self._find_classes()
            found = self.object(self.program.integer("root"))
            while self._fillings or self._endings:
                waiting = self._fillings or self._endings
                waiting.popleft()()
        except (RecursionError, MemoryError) as error:
            raise SerializationError(f"the archive is nested too deeply: {error}") from error
        register_lines(self._folder, read_lines(self.archive))
        return found

    def _find_classes(self) -> None:
        """Make the classes first: the process may have them, with objects that others refer to."""
        for number in range(len(self._rows)):
            kind = self.raw_row(number).get("kind")
            if isinstance(kind, str) and kind in OF_CLASSES:
                self.object(number)

    # Objects

    def row(self, number: int) -> Fields:
        """A row of the table."""
        if type(number) is not int or not 0 <= number < len(self._rows):
            raise SerializationError(f"the archive has no object number {number!r}")
        return Fields(self._rows[number], f"object {number}")

    def raw_row(self, number: int) -> dict[str, Any]:
        """A row of the table, whose fields may be of any types."""
        found = self._rows[number] if 0 <= number < len(self._rows) else None
        return found if isinstance(found, dict) else {}

    def object(self, number: int) -> Any:
        """The object of a row, which may not be filled yet."""
        row = self.row(number)
        if number in self._objects:
            return self._objects[number]
        if number in self._begun:
            raise row.problem("contains itself")
        self._begun.add(number)
        build = _BUILDERS.get(row.text("kind"))
        if build is None:
            raise row.problem("is of an unknown kind")
        made = build(self, row, number)
        return self._objects.setdefault(number, made)

    def put(self, number: int, value: Any) -> None:
        """Let others refer to an object before it is filled."""
        self._objects[number] = value

    def value(self, reference: Any) -> Any:
        """What a reference stands for: the text of a literal, or a number of a row."""
        return read_literal(reference) if isinstance(reference, str) else self.object(reference)

    def values(self, references: Sequence[Any]) -> list[Any]:
        """What references stand for."""
        return [self.value(one) for one in references]

    def fill(self, filling: Callable[[], None]) -> None:
        """Do this when all objects that are needed at once have been made."""
        self._fillings.append(filling)

    def end(self, ending: Callable[[], None]) -> None:
        """Do this when all objects have been filled."""
        self._endings.append(ending)

    def external(self, number: int) -> Any:
        """An object that the archive does not hold."""
        if not 0 <= number < len(self._external):
            raise SerializationError("the archive refers to an object that did not come with it")
        return self._external[number]

    def array(self, row: Fields) -> Any:
        """An array."""
        return self._arrays.read(row)

    # Functions

    def parameters(self, row: Fields) -> tuple[list[Parameter], list[list[Any]]]:
        """Names and kinds of the parameters, and the reference of each default."""
        kinds = inspect._ParameterKind.__members__
        parameters: list[Parameter] = []
        defaults: list[list[Any]] = []
        for name, kind, default in row.rows("parameters", 3):
            fine = isinstance(name, str) and kind in kinds if isinstance(kind, str) else False
            if not fine or not isinstance(default, list) or len(default) > 1:
                raise row.problem("has no valid parameters")
            parameters.append((name, kinds[kind]))
            defaults.append(default)
        return parameters, defaults

    def function(
        self, row: Fields, qualified: str, module: str
    ) -> tuple[FunctionType, SavedProgram, Callable[[], None]]:
        """A plain function that runs its graphs, the program with these, and what reads them."""
        parameters, defaults = self.parameters(row)
        program = SavedProgram(row.text("name"))
        plain = plain_function(
            program.name,
            parameters,
            program.run,
            qualified=qualified,
            module=module,
            has_default=[bool(one) for one in defaults],
        )
        vars(plain)["__jitcore_program__"] = program

        def fill() -> None:
            self._set_defaults(plain, parameters, defaults)
            program.graphs = self.forms(row, len(parameters))
            plain.__doc__ = program.graphs[0].doc

        return plain, program, fill

    def _set_defaults(
        self, function: FunctionType, parameters: list[Parameter], defaults: list[list[Any]]
    ) -> None:
        values = [(*one, self.values(found)) for one, found in zip(parameters, defaults)]  # noqa: B905
        positional = [
            found[0] for _, kind, found in values if found and kind is not kind.KEYWORD_ONLY
        ]
        named = {
            name: found[0] for name, kind, found in values if found and kind.KEYWORD_ONLY is kind
        }
        function.__defaults__ = tuple(positional) or None
        function.__kwdefaults__ = named or None

    def forms(
        self,
        row: Fields,
        parameters: int,
        variables: dict[str, Any] | None = None,
    ) -> list[Graph]:
        """The graphs of a function, with what their inputs stand for."""
        forms = [Fields(one, row.where) for one in row.items("forms")]
        if not forms:
            raise row.problem("has no graph")
        return [self._form(one, parameters, variables) for one in forms]

    def _form(self, form: Fields, parameters: int, variables: dict[str, Any] | None) -> Graph:
        name = form.text("graph")
        graph = read_graph(self.archive.text(name), name, self.object, self._folder)
        _set_names(graph, form)
        sources = form.rows("sources", 2)
        if len(graph.inputs) != parameters + len(sources) or len(graph.outputs) != 1:
            raise SerializationError(f"'{name}' in the archive does not fit its function")
        container: dict[str, Any] = {}
        constants = Constants()
        for value, (path, source) in zip(graph.inputs[parameters:], sources, strict=True):
            found = Fields(source, form.where)
            final = "final" in found and found.boolean("final")
            capture = self._source(str(path), found, constants if final else container, variables)
            capture.input = value
            graph.captures.append(capture)
        for layer, key, expected in form.rows("guards", 3):
            namespace = self.layer(layer).__dict__
            capture = held_capture(str(key), namespace, str(key))
            if expected is not None:
                capture.value = self.value(expected)
            else:
                capture.value = capture.read()
            graph.captures.append(capture)
        return graph

    def _source(
        self,
        path: str,
        source: Fields,
        container: dict[str, Any],
        variables: dict[str, Any] | None,
    ) -> Capture:
        if "object" in source:
            return fixed_capture(path, self.value(source.get("object")), container)
        if "variable" in source:
            name = source.text("variable")
            if variables is None or name not in variables:
                raise source.problem("reads another's variable")
            return held_capture(path, variables, name)
        if "place" in source:
            return held_capture(path, generator_namespace(source.text("place")), "_generator")
        namespace = self.layer(source.get("layer")).__dict__
        return held_capture(path, namespace, source.text("attribute"))

    def layer(self, number: Any) -> Any:
        """The layer of a row."""
        found = self.object(number)
        if not is_layer(found):
            raise SerializationError(f"object {number} in the archive is no module")
        return found


def _set_names(graph: Graph, form: Fields) -> None:
    """Give graphs the names and docstrings that the text of a graph has no place for."""
    for one, (name, doc) in zip(all_graphs(graph), form.rows("names", 2), strict=False):
        if not isinstance(name, str) or not isinstance(doc, str | None):
            raise form.problem("has no valid names")
        one.name, one.doc = name, doc


def _list(reader: Reader, row: Fields, number: int) -> list[Any]:
    made: list[Any] = []
    reader.fill(lambda: made.extend(reader.values(row.items("items"))))
    return made


def _dict(reader: Reader, row: Fields, number: int) -> dict[Any, Any]:
    made: dict[Any, Any] = {}

    def fill() -> None:
        for key, value in row.rows("items", 2):
            made[_as_key(reader.value(key))] = reader.value(value)

    reader.fill(fill)
    return made


def _set(reader: Reader, row: Fields, number: int) -> set[Any]:
    made: set[Any] = set()
    reader.fill(lambda: made.update(map(_as_key, reader.values(row.items("items")))))
    return made


def _frozenset(reader: Reader, row: Fields, number: int) -> frozenset[Any]:
    return frozenset(map(_as_key, reader.values(row.items("items"))))


def _as_key(value: Any) -> Any:
    """A value that may be put into a dict or a set without running what a file defines."""
    if not _is_key(value):
        raise SerializationError("a key in the archive is of a class whose hash is not known")
    return value


def _is_key(value: Any) -> bool:
    if is_literal(value) or isinstance(value, FunctionType):
        return True
    if type(value) in (tuple, frozenset):
        return all(map(_is_key, value))
    if isinstance(value, Enum):
        class_ = type(value)
        known = (Enum.__hash__, *(one.__hash__ for one in ENUM_MIXINS))
        return class_.__hash__ in known and not isinstance(class_.__eq__, FunctionType)
    return type(value) in (type, EnumMeta) or isinstance(value, np.ufunc)


def _tuple(reader: Reader, row: Fields, number: int) -> Any:
    items = reader.values(row.items("items"))
    if "class" not in row:
        return tuple(items)
    class_ = reader.object(row.integer("class"))
    fields = vars(class_).get("_fields") if isinstance(class_, type) else None
    if not isinstance(fields, tuple) or len(fields) != len(items) or not is_named_tuple(class_):
        raise row.problem("is no NamedTuple")
    return tuple.__new__(class_, items)


def _member(reader: Reader, row: Fields, number: int) -> Any:
    class_ = reader.object(row.integer("class"))
    name = row.text("name")
    if not isinstance(class_, EnumMeta) or name not in class_.__members__:
        raise row.problem("is no member of an enum")
    return class_.__members__[name]


def _array(reader: Reader, row: Fields, number: int) -> Any:
    return reader.array(row)


def _known(reader: Reader, row: Fields, number: int) -> Any:
    try:
        return known_object(row.text("name"))
    except KeyError:
        raise SerializationError(
            f"the archive names {row.text('name')!r}, which a saved program cannot use"
        ) from None


def _outside(reader: Reader, row: Fields, number: int) -> Any:
    return reader.external(row.integer("number"))


def _bound_method(reader: Reader, row: Fields, number: int) -> Any:
    class_ = reader.object(row.integer("self"))
    if not isinstance(class_, type):
        raise row.problem("is no method of a class")
    if row.get("function") is None:
        if not is_named_tuple(class_):
            raise row.problem("is no method of a class")
        return class_._make  # type: ignore[attr-defined]
    function = reader.object(row.integer("function"))
    if not isinstance(function, FunctionType):
        raise row.problem("is no method of a class")
    member = class_attribute(class_, function.__name__)
    # A class that the process has already has its own function.
    return MethodType(getattr(member, "__func__", function), class_)


def _partial(reader: Reader, row: Fields, number: int) -> Any:
    function = reader.value(row.get("function"))
    if not isinstance(function, FunctionType | ScriptFunction | type):
        raise row.problem("calls what is no function")
    keywords = {str(name): reader.value(one) for name, one in row.rows("keywords", 2)}
    make = python_call if row.boolean("named") else functools.partial
    return make(function, *reader.values(row.items("arguments")), **keywords)


def _annotation(reader: Reader, row: Fields, number: int) -> Any:
    return make_annotation(row.text("origin"), reader.values(row.items("arguments")))


def _function(reader: Reader, row: Fields, number: int) -> Any:
    """A script function, or a plain one; its graph is read later."""
    plain, program, fill = reader.function(row, row.text("qualified"), row.text("module"))
    made: Any = plain
    if row.boolean("script"):
        made = LoadedFunction.__new__(LoadedFunction)
        # A recursive call is made, with this name, before the function is.
        functools.update_wrapper(made, plain)

    def end() -> None:
        program.settle()
        check_program(program)
        if made is not plain:
            made.__init__(plain, program, read_numerics(row))

    reader.fill(fill)
    reader.end(end)
    return made


def _maker(reader: Reader, row: Fields, number: int) -> Any:
    """What makes functions while the program runs, each with its own variables."""
    parameters, _ = reader.parameters(row)
    name, qualified, module = row.text("name"), row.text("qualified"), row.text("module")
    variables = dict.fromkeys(row.texts("variables"))
    maker = Maker(tuple(variables), frozenset())
    program = SavedProgram(name)
    make_plain = function_maker(name, parameters, [False] * len(parameters))

    def make(defaults: Any, keyword_defaults: Any, *values: Any) -> FunctionType:
        own = dict(zip(maker.captured, values, strict=True))
        graph = program.graphs[0]
        host = program.host(graph)
        captures = [one for one in graph.captures if one.input is not None]

        def read(capture: Capture) -> Any:
            if capture.container is variables and capture.key is not None:
                return own[capture.key]
            return capture.read()

        function = make_plain(lambda *arguments: host(*arguments, *map(read, captures)))
        function.__defaults__ = tuple(defaults) or None
        function.__kwdefaults__ = dict(keyword_defaults) or None
        function.__name__, function.__qualname__, function.__module__ = name, qualified, module
        return function

    def fill() -> None:
        program.graphs = reader.forms(row, len(parameters), variables)

    make.__name__ = make.__qualname__ = name.strip("<>")
    make.__module__ = module
    vars(make)["__jitcore_mark__"] = "ignore"
    vars(make)["__jitcore_maker__"] = maker
    vars(make)["__jitcore_program__"] = program
    vars(make)["__jitcore_variables__"] = variables
    reader.fill(fill)
    reader.end(lambda: check_program(program))
    return make


_Builder = Callable[[Reader, Fields, int], Any]

_BUILDERS: dict[str, _Builder] = {
    "annotation": _annotation,
    "array": _array,
    "dict": _dict,
    "external": _outside,
    "frozenset": _frozenset,
    "function": _function,
    "known": _known,
    "list": _list,
    "maker": _maker,
    "member": _member,
    "method": _bound_method,
    "partial": _partial,
    "set": _set,
    "tuple": _tuple,
    **CLASS_BUILDERS,
    **LAYER_BUILDERS,
}
"""What makes an object of each kind of row."""
