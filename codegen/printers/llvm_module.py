"""An LLVM module that is printed: what its functions share.

Functions of vector math that take vectors are modules of their own (libraries), since loops of many
functions call them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field
from functools import partial
from importlib import import_module

from jitcore.codegen import vecmath
from jitcore.codegen.engine import Effort, add_library
from jitcore.codegen.loop_passes.equal_forms import form_of
from jitcore.codegen.loop_passes.traversal import has_loops
from jitcore.codegen.loops import For, Function, If
from jitcore.codegen.printers.llvm_instructions import identifier, memory_type
from jitcore.codegen.printers.short_choices import is_short_choice
from jitcore.codegen.printers.side_by_side import MOST_OPERATIONS, SideBySide, side_by_side
from jitcore.codegen.printers.vector_calls import (
    VectorCalls,
    caller,
    caller_name,
    is_called,
    kept_functions,
    twin_declaration,
    twin_name,
    vecmath_symbol,
)
from jitcore.codegen.runtime.numpy_loops import vector_declarations, vector_names
from jitcore.ir.dataclass import dataclass

__all__ = ["Definition", "Module", "PrintFunction", "inlining"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A printed function.

    Parameters
    ----------
    text : str
    is_final : bool
        It consists of loops that are printed as loops over vectors, which few of LLVM's passes
        would better.
    """

    text: str
    is_final: bool


PrintFunction = Callable[["Module", Function, str, bool], Definition]

_INTERNAL = "define internal"
_EXTERNAL = "define"
_UNLIKELY = '!{!"branch_weights", i32 1, i32 2000}'
_ATTRIBUTES = """\
attributes #0 = { nounwind "prefer-vector-width"="512" "frame-pointer"="all" }"""
"""With a frame pointer LLVM can align the vectors that it keeps on the stack.

Otherwise it is chance whether they lie in two lines of the cache each, from process to process, and
loops that do took up to one and a half times as long.
"""
_MAX_INLINED = 1000
"""How many lines of vector math are inlined in a module before functions are called."""


_MAX_LINES = 500
"""A text of nests with more lines is closed, so that two threads have something to compile."""

_MAX_LINES_OF_BODIES = 150
"""So is one of bodies of parallel loops.  LLVM takes as long to begin with a text as for 20 lines.
"""


@dataclass(slots=True)
class _Text:
    """Functions that are compiled together, with the vector math that is inlined in them."""

    effort: Effort = "registers"
    definitions: list[str] = field(default_factory=list)
    lines: dict[str, int] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    for_vectorizer: list[str] = field(default_factory=list)


class Module:
    """What the functions of one module share: declarations, metadata, vector math.

    Parameters
    ----------
    vector_bits : int
        The size of the machine's vector registers.
    print_function : function
        Gives the definition of a function, with a linkage, in a module, and whether it may be
        contracted.
    is_divided : bool
        Nests are texts of their own, and so are functions that need few passes.
    max_lines : int
        Such a text with more lines is closed.
    starts_late : bool
        The code of worker threads may be made by the first loop that turns out to be large enough.
    """

    def __init__(
        self,
        vector_bits: int,
        print_function: PrintFunction,
        *,
        is_divided: bool = False,
        max_lines: int = _MAX_LINES,
        starts_late: bool = False,
    ) -> None:
        self._is_divided = is_divided
        self._max_lines = max_lines
        self._starts_late = starts_late
        self._text = _Text()
        self._final: list[str] = []
        self._bodies: Module | None = None
        self._beside: list[tuple[str, Effort]] = []
        self.vector_bits = vector_bits
        self._print_function = print_function
        self.declarations: dict[str, str] = {}
        self._metadata: list[str] = []
        self._unlikely = ""
        self._unpredictable = ""
        self._inlined = 0
        self._most_beside = MOST_OPERATIONS
        self._parts: dict[Hashable, str] = {}

    @property
    def effort(self) -> Effort:
        """What is to be optimized, which depends on what is printed."""
        return self._text.effort

    def note_loop(self) -> None:
        """Have loops optimized, since there are some that are not over vectors already."""
        self._text.effort = "loops"

    def add(self, function: Function, linkage: str, contract: bool) -> None:
        """Print a function, and before it the vector math it calls."""
        if identifier(function.name) != function.name:
            raise ValueError(f"{function.name!r} is no name for a function")
        text = self._text
        text.defined.add(function.name)
        is_nest = self._is_divided and function.internal
        printed = self._print_function(self, function, _EXTERNAL if is_nest else linkage, contract)
        if is_nest and printed.is_final:
            text.defined.remove(function.name)
            self._final.append(printed.text)
            if sum(one.count("\n") for one in self._final) > self._max_lines:
                self._close_final()
            return
        text.definitions.append(printed.text)
        text.lines[function.name] = printed.text.count("\n")
        if is_nest and sum(text.lines.values()) > self._max_lines:
            self._beside.append((self.text(), text.effort))
            self._text = _Text()

    def add_beside(self, function: Function, contract: bool) -> str:
        """Print a function of which only the address is used, in a text of such functions.

        That is compiled beside this one, which would gain nothing from seeing it.  Gives its name,
        or that of one that has been printed before and does the same.
        """
        name = self._parts.setdefault(form_of(function), function.name)
        if name != function.name:
            return name
        if not self._is_divided:
            self.add(function, _INTERNAL, contract)
            return name
        own = self._bodies = self._bodies or self._for_bodies()
        own._inlined, own._most_beside = self._inlined, self._most_beside
        own.add(function, _EXTERNAL, contract)
        self._inlined, self._most_beside = own._inlined, own._most_beside
        types = ", ".join(memory_type(param.dtype) for param in function.params)
        self.declarations[name] = f"declare void @{name}({types})"
        return name

    def _for_bodies(self) -> Module:
        return Module(
            self.vector_bits,
            self._print_function,
            is_divided=True,
            max_lines=_MAX_LINES_OF_BODIES,
            starts_late=self._starts_late,
        )

    def metadata(self, text: str) -> str:
        """Append a metadata node, in which ``{self}`` stands for itself; gives its name."""
        name = f"!{len(self._metadata)}"
        self._metadata.append(f"{name} = {text.replace('{self}', name)}")
        return name

    def unlikely(self) -> str:
        """The branch weights of a condition that hardly ever holds."""
        if not self._unlikely:
            self._unlikely = self.metadata(_UNLIKELY)
        return self._unlikely

    def unpredictable(self) -> str:
        """The metadata of a choice that stays one and does not become a jump."""
        if not self._unpredictable:
            self._unpredictable = self.metadata("!{}")
        return self._unpredictable

    def odds(self, statement: If) -> str:
        """What LLVM is told about a condition."""
        if statement.unlikely:
            return f", !prof {self.unlikely()}"
        return f", !unpredictable {self.unpredictable()}" if is_short_choice(statement) else ""

    def parallel(self, *, may_be_small: bool) -> str:
        """The symbol of what divides a loop among threads, which is declared."""
        symbol = "jc_parallel_if_large" if may_be_small and self._starts_late else "jc_parallel"
        self.declarations[symbol] = f"declare void @{symbol}(ptr, ptr, i64, i64, i64)"
        return symbol

    def side_by_side(self, loop: For) -> SideBySide | None:
        """How many vectors of a long straight line are computed side by side, if several are."""
        # A loop itself may call much vector math before it is not inlined any more.
        is_inlined = self._inlined <= _MAX_INLINED // 2
        found = side_by_side(loop, self.vector_bits, self._most_beside, is_inlined=is_inlined)
        self._most_beside -= 0 if found is None or found.vectors == 1 else found.operations
        return found

    def vecmath(self, name: str, dtype: str, calls: VectorCalls | None) -> tuple[str, Function]:
        """The symbol and the definition of a function of vector math, printed once.

        Where many are called it is that of a function which is not inlined.
        """
        function = _vecmath_function(name, dtype)
        if calls is not None and is_called(name, dtype):
            return self._shared(name, dtype, calls), function
        symbol = self._define(name, dtype)
        self._inlined += self._text.lines[symbol]
        if self._inlined <= _MAX_INLINED:
            return symbol, function
        return self._shared(name, dtype, None), function

    def _define(self, name: str, dtype: str) -> str:
        symbol = vecmath_symbol(name, dtype)
        if symbol not in self._text.defined:
            # To be inlined.
            self.note_loop()
            function = _vecmath_function(name, dtype)
            named = Function(symbol, function.params, function.body, function.result)
            # Its error bounds rest on where it rounds: it asks for fused operations itself.
            self.add(named, "define internal", contract=False)
        return symbol

    def _shared(self, name: str, dtype: str, calls: VectorCalls | None) -> str:
        symbol = vecmath_symbol(name, dtype)
        shared = caller_name(symbol, calls)
        text = self._text
        if shared not in text.defined:
            text.defined.add(shared)
            if calls is None or not calls.is_width:
                self._define(name, dtype)
            text.definitions.append(caller(symbol, _vecmath_function(name, dtype), calls))
            # Or LLVM moves an argument that is the same in all calls into it, and its twin,
            # which gets that too, no longer fits.
            text.for_vectorizer.append(shared)
        if calls is not None:
            vectors = self.twin(name, dtype, calls.lanes)
            if vectors not in text.for_vectorizer:
                text.for_vectorizer.append(vectors)
        return shared

    def note_inlined(self, name: str, dtype: str) -> None:
        """Count the code of a function of vector math that is printed in place."""
        self._inlined += len(_vecmath_function(name, dtype).body)

    def twin(self, name: str, dtype: str, lanes: int) -> str:
        """The symbol of a function of vector math that takes vectors, which is declared."""
        symbol = vecmath_symbol(name, dtype)
        vectors = twin_name(symbol, lanes)
        if vectors not in self.declarations:
            function = _vecmath_function(name, dtype)
            self.declarations[vectors] = twin_declaration(symbol, function, lanes)
            empty = Module(self.vector_bits, self._print_function)
            add_library(vectors, partial(empty.with_twin, name, dtype, lanes), "registers")
        return vectors

    def with_twin(self, name: str, dtype: str, lanes: int) -> str:
        """The text of the module, with a function of vector math that takes vectors."""
        functions = import_module("jitcore.codegen.printers.vector_functions")
        self._text.definitions += functions.vector_function(name, dtype, lanes, self.declarations)
        branch = vecmath.branch(name, dtype)
        if branch is not None and branch.one_by_one:
            self._declare_apart(branch.anywhere, dtype)
        return self.text()

    def _declare_apart(self, name: str, dtype: str) -> None:
        """Declare a function of one number that is a library, for calls that hardly ever come."""
        symbol, function = vecmath_symbol(name, dtype), _vecmath_function(name, dtype)
        types = ", ".join(memory_type(param.dtype) for param in function.params)
        self.declarations[symbol] = f"declare {memory_type(function.result)} @{symbol}({types})"
        empty = Module(self.vector_bits, self._print_function)
        named = Function(symbol, function.params, function.body, function.result)
        add_library(symbol, partial(empty.with_function, named), "none")

    def with_function(self, function: Function) -> str:
        """The text of the module, with a function that others may call."""
        self.add(function, _EXTERNAL, contract=False)
        return self.text()

    def declare_with_vectors(self, name: str) -> None:
        """Declare a C function that the vectorizer may call for several elements at once."""
        if name not in self.declarations:
            self.declarations.update(vector_declarations(name))
        kept = self._text.for_vectorizer
        kept += [vector for vector in vector_names(name).values() if vector not in kept]

    def text(self) -> str:
        """The text of the module, without those beside it."""
        own = self._text
        declarations = [
            text for symbol, text in self.declarations.items() if symbol not in own.defined
        ]
        kept = kept_functions(own.for_vectorizer)
        parts = [*declarations, *own.definitions, *kept, _ATTRIBUTES, *self._metadata]
        return "\n".join(parts) + "\n"

    def texts_beside(self) -> list[tuple[str, Effort]]:
        """The other texts of the module, each with what is to be optimized in it."""
        self._close_final()
        return [*self._beside, *([] if self._bodies is None else self._bodies._all_texts())]

    def _all_texts(self) -> list[tuple[str, Effort]]:
        beside = self.texts_beside()
        return [(self.text(), self.effort), *beside] if self._text.definitions else beside

    def _close_final(self) -> None:
        """Make a text of the functions that need few passes, where there are some."""
        if not self._final:
            return
        code = "\n".join(self._final)
        self._final.clear()
        declarations = [
            text
            for symbol, text in self.declarations.items()
            if f"@{symbol}(" in code and f"define void @{symbol}(" not in code
        ]
        text = "\n".join([*declarations, code, _ATTRIBUTES, *self._metadata]) + "\n"
        self._beside.append((text, "registers"))


def inlining(function: Function, linkage: str) -> str:
    """The attributes of a function that say where its code is to be.

    Of the functions with internal linkage vector math is copied to where it is called; outlined
    nests are to stay outside.  The entry would compile a second copy of loops.
    """
    if "internal" in linkage:
        return "noinline " if function.internal else "alwaysinline "
    if not function.optimized:
        return "noinline optnone "
    return "noinline " if has_loops(function.body) else ""


def _vecmath_function(name: str, dtype: str) -> Function:
    try:
        return vecmath.function(name, dtype)
    except KeyError as error:
        raise KeyError(f"vector math has no {name!r} for {dtype}") from error
