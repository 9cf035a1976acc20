"""Divisions by one number, and roots, in loops over vectors with a branch: most go a short way.

A call would take longer: its arguments and its frame go through memory, and memory is what such
loops wait for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Final

import numpy as np

from jitcore.codegen import vecmath
from jitcore.codegen.loops import Call, Const
from jitcore.codegen.printers.llvm_instructions import BITS, Instructions, constant, register_type
from jitcore.codegen.printers.vector_functions import VectorCode
from jitcore.codegen.vecmath.formats import FORMATS
from jitcore.codegen.vecmath.roots import LEAST, root_moderate

__all__ = ["VectorBranch"]

_REGISTER_BITS: Final = 512

_MODERATE_DIVISOR: Final = {"float32": 2.0**48, "float64": 2.0**400}
"""The largest divisor that has a short way, and the inverse of the least one."""


class VectorBranch:
    """Prints a function of vectors that has a short way for moderate numbers.

    Parameters
    ----------
    code : Instructions
        Those of the function, for scalars.
    lanes : int
    dtype : str
    label : function
        Begins a block of instructions with this name.
    """

    def __init__(
        self, code: Instructions, lanes: int, dtype: str, label: Callable[[str], None]
    ) -> None:
        self._scalars = code
        self._code = code.for_vectors(lanes, contract=False)
        self._lanes = lanes
        self._dtype = dtype
        self._label = label
        self._bits = f"i{BITS[dtype]}"

    def quotient(self, operands: list[str], divisor: str, *, at_once: bool) -> str:
        """The register with the quotients by one number.

        Parameters
        ----------
        operands : list of str
            Dividends, divisors and inverses in each lane.
        divisor : str
            That in a register for one number; nothing where they differ.
        at_once : bool
            One branch asks for zeros, too: few vectors have none, or nobody can foretell which.
        """
        known = self._known(operands[0])
        integers = f"<{self._lanes} x {self._bits}>"
        vector = self._code.type(self._dtype)
        bits = self._code.value(f"bitcast {vector} {known} to {integers}")
        carried = self._code.value(f"add {integers} {bits}, splat ({self._bits} {self._third})")
        is_moderate = self._is_moderate(divisor) if divisor else self._are_moderate(operands[1])
        moderate, other, anywhere, end = self._labels("moderate", "other", "anywhere", "end")
        if not at_once:
            all_moderate = self._both(is_moderate, self._all_moderate(carried))
            self._branch(all_moderate, moderate, other)
            self._label(other)
        all_moderate_or_zero = self._both(is_moderate, self._moderate_or_zero(carried, bits))
        self._branch(all_moderate_or_zero, moderate, anywhere)
        self._label(moderate)
        short = self._corrected_product(known, *operands[1:])
        self._code.effect(f"br label %{end}")
        self._label(anywhere)
        long = self._code.binary("div", known, operands[1], self._dtype)
        self._code.effect(f"br label %{end}")
        self._label(end)
        return self._code.value(f"phi {vector} [ {short}, %{moderate} ], [ {long}, %{anywhere} ]")

    def _corrected_product(self, x: str, y: str, inverse: str) -> str:
        """The quotient of moderate numbers, x zero or moderate in size and y > 0.

        The inverse is rounded once, and what the product with it leaves is not, so that the second
        one is right to the last bit (Brisebarre, Muller and Raina, Accelerating Correctly Rounded
        Floating-Point Division when the Divisor Is Known in Advance, IEEE Transactions on Computers
        53, 2004, section 2).  It is an excess, which is 0.0 and not -0.0 where x is zero, so that
        zeros keep their signs.

        Exponents of moderate x begin with two bits that differ, which are those from ``2**-63`` to
        ``2**65`` in float32, and from ``2**-511`` to ``2**513`` in float64.  With a moderate
        divisor, the quotient is a normal number then, and so is the last bit of what it leaves.
        """
        quotient = self._code.binary("mul", x, inverse, self._dtype)
        negated = self._code.unary("neg", x, self._dtype)
        excess = self._code.intrinsic("fma", self._dtype, quotient, y, negated)
        lack = self._code.unary("neg", excess, self._dtype)
        return self._code.intrinsic("fma", self._dtype, lack, inverse, quotient)

    def root(self, operand: str) -> str:
        """The register with the square roots.

        The short way is for 0.0 and for numbers from ``LEAST`` to ``2 / LEAST`` that are none of
        the last eight before a power of two (`vecmath.roots`), which have the largest significands.
        """
        known, unsigned = self._known(operand), f"uint{BITS[self._dtype]}"
        whole, register = self._code, self._code.for_vectors(self._width, contract=False)
        bits = whole.bit_cast(known, self._dtype, unsigned)
        parts = whole.registers(bits, unsigned, self._width)
        power = 1 << FORMATS[self._dtype].mantissa
        one, fraction = (register.number(number, unsigned) for number in (1, power - 1))
        # What is below zero is the largest number.
        below = [register.binary("sub", part, one, unsigned) for part in parts]
        significands = [register.binary("and", part, fraction, unsigned) for part in parts]

        def joined(op: str, numbers: list[str]) -> str:
            return reduce(lambda x, y: register.binary(op, x, y, unsigned), numbers)

        def demanded(op: str, x: str, bound: int) -> str:
            return register.binary(op, x, register.number(bound, unsigned), unsigned)

        first, last = (self._bits_of(x) for x in (LEAST[self._dtype], 2 / LEAST[self._dtype]))
        conditions = (
            demanded("lt", joined("max", parts), last),
            demanded("ge", joined("min", below), first - 1),
            demanded("lt", joined("max", significands), power - 8),
        )
        is_moderate = self._all(
            reduce(lambda x, y: register.binary("and", x, y, "bool"), conditions)
        )
        moderate, anywhere, end = self._labels("moderate", "anywhere", "end")
        self._branch(is_moderate, moderate, anywhere)
        self._label(moderate)
        short = VectorCode(whole, self._lanes).call(root_moderate(self._dtype), [known])
        self._code.effect(f"br label %{end}")
        self._label(anywhere)
        long = self._code.unary("sqrt", known, self._dtype)
        self._code.effect(f"br label %{end}")
        self._label(end)
        vector = whole.type(self._dtype)
        return self._code.value(f"phi {vector} [ {short}, %{moderate} ], [ {long}, %{anywhere} ]")

    def _bits_of(self, number: float) -> int:
        return int(np.dtype(self._dtype).type(number).view(f"u{BITS[self._dtype] // 8}"))

    def remainder(self, operands: list[str], call: Call, twin: str) -> str:
        """The register with the remainders by a constant.

        Parameters
        ----------
        operands : list of str
            Those of the call, in each lane.
        call : Call
            Of ``remainder_by_constant``.
        twin : str
            The function for vectors that is called where a quotient is large.
        """
        known = self._known(operands[0])
        vector, divisor = self._code.type(self._dtype), call.args[1]
        branch = vecmath.branch(call.name, self._dtype)
        assert isinstance(divisor, Const) and branch is not None
        with np.errstate(over="ignore"):
            bound = np.dtype(self._dtype).type(abs(divisor.value) * branch.bound)
        limit = constant(float(bound), self._dtype)
        magnitude = self._code.unary("fabs", known, self._dtype)
        number = register_type(self._dtype)
        width = self._width
        joined = ""
        for register in self._code.registers(magnitude, self._dtype, width):
            part = f"<{width} x {number}>"
            is_below = self._code.value(f"fcmp olt {part} {register}, splat ({number} {limit})")
            both = f"and <{width} x i1> {joined}, {is_below}"
            joined = self._code.value(both) if joined else is_below
        moderate, anywhere, end = self._labels("moderate", "anywhere", "end")
        self._branch(self._all(joined), moderate, anywhere)
        self._label(moderate)
        short = self._moderate(call.name, [known, *operands[1:]])
        self._code.effect(f"br label %{end}")
        self._label(anywhere)
        args = ", ".join(f"{vector} {one}" for one in (known, *operands[1:]))
        long = self._code.value(f"call {vector} @{twin}({args})")
        self._code.effect(f"br label %{end}")
        self._label(end)
        return self._code.value(f"phi {vector} [ {short}, %{moderate} ], [ {long}, %{anywhere} ]")

    def _known(self, operand: str) -> str:
        """The operand, with a number in each lane: the rest of a loop leaves lanes without."""
        return self._code.value(f"freeze {self._code.type(self._dtype)} {operand}")

    def _labels(self, *names: str) -> list[str]:
        """Names of blocks that no others have: the last register's number is in them."""
        number = self._code.lines[-1].split(" = ")[0].removeprefix("  %.")
        return [f"branch{number}.{name}" for name in names]

    def _moderate(self, name: str, operands: list[str]) -> str:
        function = vecmath.function(f"{name}_moderate", self._dtype)
        return VectorCode(self._code, self._lanes).call(function, operands)

    @property
    def is_register(self) -> bool:
        """Whether the numbers fill one register at most."""
        return self._width == self._lanes

    @property
    def _width(self) -> int:
        """How many numbers a register has."""
        return min(_REGISTER_BITS // BITS[self._dtype], self._lanes)

    def _all(self, condition: str) -> str:
        mask = self._scalars.value(f"bitcast <{self._width} x i1> {condition} to i{self._width}")
        return self._scalars.value(f"icmp eq i{self._width} {mask}, -1")

    def _branch(self, condition: str, yes: str, no: str) -> None:
        self._code.effect(f"br i1 {condition}, label %{yes}, label %{no}")

    def _both(self, x: str, y: str) -> str:
        return self._scalars.value(f"and i1 {x}, {y}")

    def _is_moderate(self, divisor: str) -> str:
        type_ = register_type(self._dtype)
        is_above, is_below = (
            self._scalars.value(f"fcmp {test} {type_} {divisor}, {bound}")
            for test, bound in self._bounds()
        )
        return self._both(is_above, is_below)

    def _are_moderate(self, divisors: str) -> str:
        number = register_type(self._dtype)
        part = f"<{self._width} x {number}>"
        joined = ""
        for register in self._code.registers(divisors, self._dtype, self._width):
            for test, bound in self._bounds():
                comparison = f"fcmp {test} {part} {register}, splat ({number} {bound})"
                is_within = self._code.value(comparison)
                both = f"and <{self._width} x i1> {joined}, {is_within}"
                joined = self._code.value(both) if joined else is_within
        return self._all(joined)

    def _bounds(self) -> tuple[tuple[str, str], ...]:
        """How a divisor is compared, and with what."""
        bound = _MODERATE_DIVISOR[self._dtype]
        return ("oge", constant(1 / bound, self._dtype)), ("ole", constant(bound, self._dtype))

    def _all_moderate(self, carried: str) -> str:
        """Whether the second bit of all numbers is set: all registers are joined into one first.

        The third bit was added, so that is whether the first two bits of exponents differ.
        """
        part = f"<{self._width} x {self._bits}>"
        joined, *others = self._code.registers(carried, f"uint{BITS[self._dtype]}", self._width)
        for one in others:
            joined = self._code.value(f"and {part} {joined}, {one}")
        second = self._code.value(f"and {part} {joined}, splat ({self._bits} {self._second})")
        return self._all(self._code.value(f"icmp ne {part} {second}, zeroinitializer"))

    @property
    def _second(self) -> int:
        return 1 << (BITS[self._dtype] - 2)

    @property
    def _third(self) -> int:
        return 1 << (BITS[self._dtype] - 3)

    def _moderate_or_zero(self, carried: str, bits: str) -> str:
        integers = f"<{self._lanes} x {self._bits}>"
        unsigned = self._code.value(f"shl {integers} {bits}, splat ({self._bits} 1)")
        second = self._code.value(f"and {integers} {carried}, splat ({self._bits} {self._second})")
        is_odd = self._code.value(f"icmp eq {integers} {second}, zeroinitializer")
        is_number = self._code.value(f"icmp ne {integers} {unsigned}, zeroinitializer")
        both = self._code.value(f"and <{self._lanes} x i1> {is_odd}, {is_number}")
        mask = self._scalars.value(f"bitcast <{self._lanes} x i1> {both} to i{self._lanes}")
        return self._scalars.value(f"icmp eq i{self._lanes} {mask}, 0")
