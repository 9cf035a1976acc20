"""What calls are looked up by: the descriptions of their arguments.

`signatures` describes values as they are.  What a function of the users gets may be more than it is
worth to compile for: ever new texts, functions, forms of objects.  A ``Describer`` knows what a
graph has been called with, and describes what has become too many as Python's.
"""

from __future__ import annotations

import functools
import itertools
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from jitcore.execution.description_keys import Apart, as_python_s, taken_apart
from jitcore.execution.signatures import (
    Description,
    describe,
    describe_all,
    describe_callable,
    describe_object,
    describe_text,
    describe_unknown,
    structure,
    with_parts,
    without_bfloat16,
    without_structured,
)
from jitcore.ir.graph import Graph
from jitcore.ir.text_inputs import text_inputs
from jitcore.ir.used_attributes import UsedAttributes

if TYPE_CHECKING:
    from jitcore.ir.specialize.specialize import CompileFunction

__all__ = ["Describer"]

MAX_CHOICES = 8
"""How many texts, functions and forms of objects a parameter is specialized for."""

MAX_OF_ONE_CODE = 2
"""How many of these functions may have the same code: more are made anew for each call."""

MAX_KNOWN_INTS = 2
"""For how many ints that functions read from around them a function is specialized."""


class Describer:
    """Describes the arguments of calls of one graph.

    Parameters
    ----------
    graph : Graph
    compile_function : callable, optional
        Compiles functions that come in as values.
    captured : int
        How many inputs at the end are objects that the graph captures.
    depth : int
        How many executors the graph's own is a region of.
    takes_lists, takes_objects : bool
        Lists, or objects, may be taken apart, as they never are in most regions.
    on_device : bool
        The arrays lie on a device.

    Attributes
    ----------
    constants : frozenset of int
        The numbers of the inputs whose values are part of a specialization's key.
    extents : frozenset of int
        The numbers of the ints that are part of the key of static specializations, as the extents
        of arrays are.
    """

    def __init__(
        self,
        graph: Graph,
        compile_function: CompileFunction | None,
        *,
        captured: int,
        depth: int,
        takes_lists: bool,
        takes_objects: bool,
        on_device: bool,
    ) -> None:
        self.constants: frozenset[int] = frozenset()
        self.extents: frozenset[int] = frozenset()
        self._graph = graph
        self._compile_function = compile_function
        self._captured = captured
        self._depth = depth
        self._takes_lists = takes_lists
        self._takes_objects = takes_objects and compile_function is not None and not on_device
        self._on_device = on_device
        self._texts: frozenset[int] | None = None
        self._choices: dict[int, set[Description]] = {}
        self._used_attributes: UsedAttributes | None = None
        self._forms: dict[int, set[Description]] = {}
        self._python_lists: set[Apart] = set()

    def leave_lists(self, args: tuple[Any, ...]) -> None:
        """Describe lists such as these as Python's from now on."""
        self._python_lists.add(taken_apart(self.describe(args)))

    def forget_classes(self) -> None:
        """Read anew what methods use: classes may have changed."""
        self._used_attributes = None

    def describe(self, args: tuple[Any, ...], *, static: bool = False) -> tuple[Description, ...]:
        """The descriptions of all arguments; texts and functions are constants while they are few.

        In regions they never are: those get texts from lists and loops, and not as options, and
        functions that the program makes anew at each call.
        """
        given = describe_all(args, self.constants | self.extents if static else self.constants)
        refused = without_structured if self._on_device else without_bfloat16
        given = tuple(map(refused, given))
        found = tuple(map(self._as_list, itertools.count(), given))
        if self._takes_objects:
            found = tuple(map(self._as_object, itertools.count(), found, args))
        # Lists and objects that a graph captures, or a region gets, are Python's.
        is_parted = self._takes_lists or self._takes_objects
        own = len(found) - self._captured if is_parted else 0
        found = (*found[:own], *map(as_python_s, found[own:]))
        found = tuple(map(self._with_few_choices, itertools.count(), found))
        if taken_apart(found) in self._python_lists:
            python_s = map(as_python_s, given)
            found = tuple(map(self._with_few_choices, itertools.count(), python_s))
        return found

    def may_part(self, number: int, value: Any) -> bool:
        """Whether an argument that is Python's is a list or an object that a region may part."""
        one = describe(value)
        if one == describe_unknown() and self._takes_objects:
            one = self._as_object(number, one, value)
        return one[0] in ("list", "object")

    def _as_object(self, number: int, one: Description, value: Any) -> Description:
        """The description of what may be an object by its attributes, of a function by its code."""
        found = None if self._depth else describe_callable(value)
        if found is None and one == describe_unknown():
            if self._used_attributes is None:
                assert self._compile_function is not None
                self._used_attributes = UsedAttributes(self._graph, self._compile_function)
            names_of, constant = self._used_attributes.of, number in self.constants
            found = describe_object(value, names_of, constant=constant)
        if found is None:
            return one
        # Trees and lists of nodes have ever new forms.
        forms = self._forms.setdefault(number, set())
        form = structure(self._with_few_choices(number, found))
        if len(forms) < MAX_CHOICES:
            forms.add(form)
        return found if form in forms else one

    def _as_list(self, number: int, one: Description) -> Description:
        """The description of a text as a list of characters, where the graph reads it as one."""
        if one[:2] != ("constant", str) or self._depth or number in self.constants:
            return one
        if self._texts is None:
            self._texts = text_inputs(self._graph)
        return describe_text() if number in self._texts else one

    def _with_few_choices(self, number: int, one: Description) -> Description:
        """The description of an argument, without texts and functions that are too many."""
        if one[0] in ("tuple", "object"):
            return with_parts(one, functools.partial(self._with_few_choices, number))
        if one[0] == "function":
            return with_parts(one, functools.partial(self._with_few_numbers, number))
        if one[0] != "constant" or one[1] not in (str, FunctionType):
            return one
        known = self._choices.setdefault(number, set())
        if not self._depth and _may_be_one_more(one, known):
            known.add(one)
        return one if one in known else describe_unknown()

    def _with_few_numbers(self, number: int, one: Description) -> Description:
        """The description of what a function holds: ints are known while they are few."""
        if one[0] == "constant" and one[1] in (int, bool) and number not in self.constants:
            known = self._choices.setdefault(number, set())
            if len(known) < MAX_KNOWN_INTS:
                known.add(one)
            return one if one in known else (one[1].__name__,)
        return self._with_few_choices(number, one)


def _may_be_one_more(one: Description, known: set[Description]) -> bool:
    """Whether a parameter is specialized for one more text, or function."""
    if one[1] is FunctionType:
        alike = sum(_is_of_code(other, one[2].value.__code__) for other in known)
        if alike >= MAX_OF_ONE_CODE:
            return False
    return len(known) < MAX_CHOICES


def _is_of_code(one: Description, code: CodeType) -> bool:
    return one[1] is FunctionType and one[2].value.__code__ is code
