"""Vector math as functions that loops call, a few registers of numbers at a time.

A function that is inlined at each use costs compile time at each use, and a long chain of them
waits for itself: the processor sees the instructions of one iteration at a time, each of which
needs the result of the one before.  A call computes several vectors side by side instead, and its
code is there once.  And it can branch, where all its numbers may go the short way.  LLVM's
vectorizer knows which function takes a vector by the attribute
``vector-function-abi-variant`` of the one that takes a number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from jitcore.codegen import vecmath
from jitcore.codegen.loop_passes.traversal import (
    calls_c,
    children,
    expressions,
    known_trips,
    loads_in,
)
from jitcore.codegen.loops import (
    Assign,
    Binary,
    Call,
    Comment,
    Expr,
    For,
    Function,
    Let,
    Return,
    Stmt,
    Store,
)
from jitcore.codegen.printers.llvm_instructions import BITS, FLOATS, memory_type
from jitcore.codegen.printers.loop_metadata import (
    AFTERWARDS,
    INTERLEAVED,
    MASKED,
    NOT_UNROLLED,
    OF_VECTORS,
    ONE_AT_A_TIME,
    SEVERAL_AT_A_TIME,
    vector_width,
)
from jitcore.codegen.runtime.numpy_loops import VECTOR_FORMS
from jitcore.ir.dataclass import dataclass

__all__ = [
    "REGISTERS",
    "VectorCalls",
    "calls_in",
    "caller",
    "caller_name",
    "is_called",
    "is_independent",
    "kept_functions",
    "operand_list",
    "twin_declaration",
    "twin_name",
    "vecmath_symbol",
    "vector_calls",
]

LEAST_CALLS: Final = 3
"""With fewer calls a loop does not wait for itself, and compiling it takes no longer.

One call suffices where the function branches, as a root and a division by one number do, or is a
loop of NumPy's for vectors.
"""

REGISTERS: Final = 4
"""How many registers a call computes: what is left does for the functions' own values."""


@dataclass(frozen=True, slots=True)
class VectorCalls:
    """How a loop calls vector math.

    Parameters
    ----------
    lanes : int
        How many numbers a call takes at once.
    is_width : bool
        The loop is surely made vectors of so many iterations.  Where it may not be, LLVM would say
        so on the terminal if it was told the number: it then makes vectors of one register by
        itself.
    """

    lanes: int
    is_width: bool

    @property
    def together(self) -> int:
        """How many iterations are computed side by side."""
        return self.lanes if self.is_width else self.lanes * INTERLEAVED

    def hints(self, is_rest: bool) -> list[str]:
        """What LLVM is told about the loop over whole vectors, or about that over the rest.

        Only the rest has masks.  With masked accesses to memory, even where no mask leaves anything
        out, a Zen 5 took up to seven times as long on arrays that are larger than its caches of the
        second level, until some milliseconds had passed: 1.3 ms for 0.2 ms of sines.
        """
        rest = [MASKED] if is_rest else []
        if self.is_width:
            return [NOT_UNROLLED, ONE_AT_A_TIME, vector_width(self.lanes), *rest, AFTERWARDS]
        return [NOT_UNROLLED, SEVERAL_AT_A_TIME, *rest, AFTERWARDS]

    def hints_of_vectors(self, _: bool) -> list[str]:
        """The same where the loops are printed as loops over vectors."""
        return [*OF_VECTORS]


def vector_calls(loop: For, vector_bits: int) -> VectorCalls | None:
    """How a loop calls vector math; None where that is inlined.

    Parameters
    ----------
    loop : For
    vector_bits : int
        The size of a vector register.
    """
    if loop.step != 1 or not all(map(_is_vectorized, loop.body)):
        return None
    every = list(_calls(loop.body))
    calls = [call for call in every if is_called(call.name, call.dtype)]
    least = 1 if any(map(_pays_at_once, calls)) else LEAST_CALLS
    if len(calls) < least or not all(map(_takes_vectors, every)):
        return None
    kept = [one.value.dtype for one in loop.body if isinstance(one, Store | Assign)]
    # What LLVM goes by where it chooses the width: a bool is a byte in memory.
    read = [load.dtype for load in loads_in(loop.body)]
    moved = max([8, *(BITS[dtype] for dtype in (*kept, *read))])
    known = known_trips(loop)
    trips = math.inf if known is None else known
    if trips < vector_bits // moved:
        return None
    if not is_independent(loop):
        return VectorCalls(vector_bits // moved, False)
    lanes = REGISTERS * vector_bits // max(moved, *(BITS[call.dtype] for call in calls))
    while lanes >= 2 * trips:
        lanes //= 2
    return VectorCalls(lanes, True)


def is_called(name: str, dtype: str) -> bool:
    """Whether loops that call vector math call a function, too; it is inlined otherwise.

    Those of integers are short, unless they branch.
    """
    return dtype in FLOATS or vecmath.branch(name, dtype) is not None


def _branches(call: Call) -> bool:
    """Whether vectors of moderate numbers go a shorter way than others."""
    return call.name in ("divide", "root") or vecmath.branch(call.name, call.dtype) is not None


def _pays_at_once(call: Call) -> bool:
    """Whether a function takes less time for several vectors than inlined for one."""
    if _branches(call):
        return True
    body = vecmath.function(call.name, call.dtype).body
    return any(_has_vector_form(x) for one in body for x in expressions(one))


def _has_vector_form(x: Expr) -> bool:
    return isinstance(x, Call) and x.external and x.name in VECTOR_FORMS


def is_independent(loop: For) -> bool:
    """Whether no iteration reads or writes what another one writes, for all LLVM can see.

    It may read the elements that it writes itself.
    """
    stores = [one for one in loop.body if isinstance(one, Store)]
    written = {store.root: (store.pointer, store.index) for store in stores}
    is_apart = len(written) == len(stores) and "" not in written
    if not is_apart or any(isinstance(one, Assign) for one in loop.body):
        return False
    return all(
        load.root
        and written.get(load.root, (load.pointer, load.index)) == (load.pointer, load.index)
        for load in loads_in(loop.body)
    )


def _is_vectorized(statement: Stmt) -> bool:
    """Whether LLVM makes vectors of a loop with such statements only."""
    match statement:
        case Let():
            return not statement.mutable and not calls_c(statement.value)
        case Assign(value=Binary(reassoc=True) as step):
            return not calls_c(step)
        case Store():
            return not calls_c(statement.value)
        case _:
            return isinstance(statement, Comment)


def _calls(statements: list[Stmt]) -> Iterator[Call]:
    """The calls of vector math."""
    for statement in statements:
        for expression in expressions(statement):
            yield from calls_in(expression)


def calls_in(x: Expr) -> Iterator[Call]:
    """The calls of C, and of vector math that is more than an instruction."""
    if isinstance(x, Call) and x.name != "fma":
        yield x
    for child in children(x):
        yield from calls_in(child)


def _takes_vectors(call: Call) -> bool:
    """Whether a function of vector math is a straight line, or branches between two.

    Those of floats take floats only.
    """
    dtypes = {call.dtype, *(arg.dtype for arg in call.args)}
    if not FLOATS.isdisjoint(dtypes) and not FLOATS.issuperset(dtypes):
        return False
    if _branches(call):
        return True
    body = vecmath.function(call.name, call.dtype).body
    return not any(
        not isinstance(one, Let | Return) or any(map(_is_opaque, expressions(one))) for one in body
    )


def _is_opaque(x: Expr) -> bool:
    if isinstance(x, Call) and x.external:
        return not _has_vector_form(x)
    if isinstance(x, Call) and x.name != "fma" and not _takes_vectors(x):
        return True
    return any(map(_is_opaque, children(x)))


def vecmath_symbol(name: str, dtype: str) -> str:
    """The symbol of a function of vector math in printed modules."""
    return f"jcm_{name}_{dtype}"


def caller_name(symbol: str, calls: VectorCalls | None) -> str:
    """The symbol of `caller`."""
    if calls is None:
        return f"{symbol}_call"
    return f"{symbol}_{'lane' if calls.is_width else 'call'}{calls.lanes}"


def caller(symbol: str, function: Function, calls: VectorCalls | None) -> str:
    """A function that calls one of vector math and is not inlined itself.

    Where loops are surely vectorized it is what LLVM replaces by its twin, and hardly ever called:
    it calls the twin, too, since a second copy of the code takes time to compile.

    Parameters
    ----------
    symbol : str
        That of the function of vector math.
    function : Function
        The definition of that.
    calls : VectorCalls or None
        How loops call it; None where it has no twin for vectors.
    """
    name = caller_name(symbol, calls)
    result = memory_type(function.result)
    types = [memory_type(param.dtype) for param in function.params]
    params = operand_list(types, "%x")
    attributes = ""
    if calls is not None:
        twin = twin_name(symbol, calls.lanes)
        variant = f"_ZGV_LLVM_N{calls.lanes}{'v' * len(types)}_{name}({twin})"
        attributes = f'memory(none) willreturn "vector-function-abi-variant"="{variant}" '
    if calls is not None and calls.is_width:
        body = _first_lane(symbol, result, types, calls.lanes)
    else:
        body = [f"  %result = call {result} @{symbol}({params})"]
    lines = [
        f"define internal {result} @{name}({params}) noinline {attributes}#0 {{",
        *body,
        f"  ret {result} %result",
        "}",
    ]
    return "\n".join(lines)


def _first_lane(symbol: str, result: str, types: list[str], lanes: int) -> list[str]:
    """A call of the twin with numbers in its first lane and zeros in all others."""
    vectors = [f"<{lanes} x {type_}>" for type_ in types]
    made = [
        f"  %v{number} = insertelement {vector} zeroinitializer, {type_} %x{number}, i64 0"
        for number, (vector, type_) in enumerate(zip(vectors, types, strict=True))
    ]
    vector = f"<{lanes} x {result}>"
    call = f"call {vector} @{twin_name(symbol, lanes)}({operand_list(vectors, '%v')})"
    return [
        *made,
        f"  %results = {call}",
        f"  %result = extractelement {vector} %results, i64 0",
    ]


def kept_functions(names: list[str]) -> list[str]:
    """What keeps functions that only the vectorizer will call, or replace, as they are."""
    if not names:
        return []
    kept = f"[{len(names)} x ptr] [{', '.join(f'ptr @{name}' for name in names)}]"
    return [f'@llvm.compiler.used = appending global {kept}, section "llvm.metadata"']


def twin_name(symbol: str, lanes: int) -> str:
    """The symbol of `vector_functions.vector_function`."""
    return f"{symbol}_x{lanes}"


def twin_declaration(symbol: str, function: Function, lanes: int) -> str:
    """The declaration of `vector_functions.vector_function` in modules that call it."""
    vectors = [f"<{lanes} x {memory_type(param.dtype)}>" for param in function.params]
    result = f"<{lanes} x {memory_type(function.result)}>"
    name = twin_name(symbol, lanes)
    return f"declare {result} @{name}({', '.join(vectors)}) memory(none) nounwind willreturn"


def operand_list(types: list[str], name: str) -> str:
    """The operands of a call, or the parameters of a function: ``float %x0, float %x1``."""
    return ", ".join(f"{type_} {name}{number}" for number, type_ in enumerate(types))
