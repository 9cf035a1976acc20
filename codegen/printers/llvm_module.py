"""An LLVM module that is printed: what its functions share.

Functions of vector math that take vectors are modules of their own (libraries), since loops of many
functions call them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from jitcore.codegen import vecmath
from jitcore.codegen.engine import add_library
from jitcore.codegen.loops import For, Function
from jitcore.codegen.printers.llvm_instructions import identifier
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
from jitcore.codegen.printers.vector_functions import vector_function
from jitcore.codegen.runtime.numpy_loops import vector_declarations, vector_names

__all__ = ["Module", "PrintFunction"]

PrintFunction = Callable[["Module", Function, str, bool], str]

_UNLIKELY = '!{!"branch_weights", i32 1, i32 2000}'
_ATTRIBUTES = 'attributes #0 = { nounwind "prefer-vector-width"="512" }'
_MAX_INLINED = 1000
"""How many lines of vector math are inlined in a module before functions are called."""


class Module:
    """What the functions of one module share: declarations, metadata, vector math.

    Parameters
    ----------
    vector_bits : int
        The size of the machine's vector registers.
    print_function : function
        Gives the definition of a function, with a linkage, in a module, and whether it may be
        contracted.
    """

    def __init__(self, vector_bits: int, print_function: PrintFunction) -> None:
        self.vector_bits = vector_bits
        self._print_function = print_function
        self.declarations: dict[str, str] = {}
        self._definitions: list[str] = []
        self._metadata: list[str] = []
        self._defined: set[str] = set()
        self._unlikely = ""
        self._unpredictable = ""
        self._lines: dict[str, int] = {}
        self._inlined = 0
        self._most_beside = MOST_OPERATIONS
        self._for_vectorizer: list[str] = []

    def add(self, function: Function, linkage: str, contract: bool) -> None:
        """Print a function, and before it the vector math it calls."""
        if identifier(function.name) != function.name:
            raise ValueError(f"{function.name!r} is no name for a function")
        self._defined.add(function.name)
        definition = self._print_function(self, function, linkage, contract)
        self._definitions.append(definition)
        self._lines[function.name] = definition.count("\n")

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

    def side_by_side(self, loop: For) -> SideBySide | None:
        """How many vectors of a long straight line are computed side by side, if several are."""
        # A loop itself may call much vector math before it is not inlined any more.
        is_inlined = self._inlined <= _MAX_INLINED // 2
        found = side_by_side(loop, self.vector_bits, self._most_beside, is_inlined=is_inlined)
        self._most_beside -= 0 if found is None else found.operations
        return found

    def vecmath(self, name: str, dtype: str, calls: VectorCalls | None) -> tuple[str, Function]:
        """The symbol and the definition of a function of vector math, printed once.

        Where many are called it is that of a function which is not inlined.
        """
        function = _vecmath_function(name, dtype)
        if calls is not None and is_called(name, dtype):
            return self._shared(name, dtype, calls), function
        symbol = self._define(name, dtype)
        self._inlined += self._lines[symbol]
        if self._inlined <= _MAX_INLINED:
            return symbol, function
        return self._shared(name, dtype, None), function

    def _define(self, name: str, dtype: str) -> str:
        symbol = vecmath_symbol(name, dtype)
        if symbol not in self._defined:
            function = _vecmath_function(name, dtype)
            named = Function(symbol, function.params, function.body, function.result)
            # Its error bounds rest on where it rounds: it asks for fused operations itself.
            self.add(named, "define internal", contract=False)
        return symbol

    def _shared(self, name: str, dtype: str, calls: VectorCalls | None) -> str:
        symbol = vecmath_symbol(name, dtype)
        shared = caller_name(symbol, calls)
        if shared not in self._defined:
            self._defined.add(shared)
            if calls is None or not calls.is_width:
                self._define(name, dtype)
            self._definitions.append(caller(symbol, _vecmath_function(name, dtype), calls))
            # Or LLVM moves an argument that is the same in all calls into it, and its twin,
            # which gets that too, no longer fits.
            self._for_vectorizer.append(shared)
        if calls is not None:
            self._declare_twin(name, dtype, calls.lanes)
        return shared

    def _declare_twin(self, name: str, dtype: str, lanes: int) -> None:
        symbol = vecmath_symbol(name, dtype)
        vectors = twin_name(symbol, lanes)
        if vectors not in self.declarations:
            function = _vecmath_function(name, dtype)
            self.declarations[vectors] = twin_declaration(symbol, function, lanes)
            self._for_vectorizer.append(vectors)
            empty = Module(self.vector_bits, self._print_function)
            add_library(vectors, partial(empty.with_twin, name, dtype, lanes), "registers")

    def with_twin(self, name: str, dtype: str, lanes: int) -> str:
        """The text of the module, with a function of vector math that takes vectors."""
        self._definitions += vector_function(name, dtype, lanes, self.declarations)
        return self.text()

    def declare_with_vectors(self, name: str) -> None:
        """Declare a C function that the vectorizer may call for several elements at once."""
        if name not in self.declarations:
            self.declarations.update(vector_declarations(name))
            self._for_vectorizer.extend(vector_names(name).values())

    def text(self) -> str:
        """The text of the module."""
        declarations = [
            text for symbol, text in self.declarations.items() if symbol not in self._defined
        ]
        kept = kept_functions(self._for_vectorizer)
        parts = [*declarations, *self._definitions, *kept, _ATTRIBUTES, *self._metadata]
        return "\n".join(parts) + "\n"


def _vecmath_function(name: str, dtype: str) -> Function:
    try:
        return vecmath.function(name, dtype)
    except KeyError as error:
        raise KeyError(f"vector math has no {name!r} for {dtype}") from error
