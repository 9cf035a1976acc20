"""Random generators that entries lock while a native function draws from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.signature import GeneratorParam
from jitcore.codegen.runtime.generators import AREA, places
from jitcore.ir.dataclass import dataclass
from jitcore.ir.draws import GLOBAL

__all__ = [
    "TakenGenerator",
    "check_generator",
    "give_back_all",
    "global_generator",
    "interface",
]


@dataclass(frozen=True, slots=True)
class TakenGenerator:
    """A generator that passed its checks, and the area of its lock and of its state."""

    class_: Any
    value: str
    area: str

    def take(self, code: EntryCode) -> None:
        """Lock it, and keep its state; to the block ``miss`` where that cannot be done now."""
        known = places(self.class_)
        numbers = (f"i64 {known.bit_generator}", f"i64 {known.second}")
        operands = (f"ptr {self.value}", *numbers, f"ptr {self.area}")
        code.guard(code.call("i1", "jc_take_generator", *operands))

    def give_back(self, code: EntryCode, anew: str) -> None:
        """Unlock it where it is locked; where ``anew`` holds nothing was drawn from it."""
        code.call("void", "jc_return_generator", f"ptr {self.area}", f"i1 {anew}")


def check_generator(code: EntryCode, param: GeneratorParam, value: str) -> TakenGenerator:
    """Check an argument."""
    class_ = getattr(np.random, param.name)
    code.guard_type(value, class_)
    return _untaken(code, class_, value)


def global_generator(code: EntryCode) -> TakenGenerator:
    """The generator of functions such as ``np.random.rand``."""
    return _untaken(code, type(GLOBAL), code.constant(GLOBAL))


def _untaken(code: EntryCode, class_: Any, value: str) -> TakenGenerator:
    area = code.alloca(f"[{AREA} x i8]")
    code.allocas.append(f"  store ptr null, ptr {area}")
    return TakenGenerator(class_, value, area)


def interface(code: EntryCode, generator: TakenGenerator) -> str:
    """The operand that a native function gets for a generator."""
    return f"ptr {code.offset(generator.value, places(generator.class_).interface)}"


def give_back_all(code: EntryCode, taken: Sequence[TakenGenerator], anew: str) -> None:
    """Unlock generators; the last one first, so that the first states that were kept remain."""
    for one in reversed(taken):
        one.give_back(code, anew)
