"""Where the pieces of sliding windows lie: tables of addresses for kernels over pixels.

Images are channels-last: (batch, depth, height, width, channels) without gaps.  The pixels of a
result are numbered through all images, so that a row of a product is a pixel and nothing depends
on where a line ends.  Taps that lie in the frame around an image point to zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitcore.codegen.kernels.assembler import Function, Number, Word
from jitcore.ir.dataclass import dataclass

__all__ = ["GEOMETRY", "MAX_CHANNELS", "Pixels", "zeros"]

AXES = ("d", "h", "w")

GEOMETRY = tuple(
    f"i64 %{kind}.{axis}"
    for kind in ("in", "out", "kernel", "stride", "pad", "dilation")
    for axis in AXES
)
"""Parameters: extents of the images, of the results and of the kernel, and how it moves; ``pad`` is
how much is around the images' beginnings."""

MAX_CHANNELS = 65536
"""How many zeros a tap in the frame reads at most."""


def zeros(number: str) -> str:
    """The global array that taps in the frame point to."""
    return f"@zeros = internal global [{MAX_CHANNELS} x {number}] zeroinitializer, align 64\n"


@dataclass(slots=True)
class Pixels:
    """The place of one pixel of the results, which moves on from pixel to pixel.

    Parameters
    ----------
    function : Function
        It has the parameters of ``GEOMETRY``, and ``%x`` and ``%pixel.apart``: the images, and how
        many elements their pixels are apart.
    number : str
        The LLVM type of an element.
    places : sequence of Word
        Variables: image, and place along each axis.
    """

    function: Function
    number: str
    places: Sequence[Word]

    @classmethod
    def at(cls, function: Function, number: str, pixel: Number) -> Pixels:
        """The place of a pixel by its number."""
        places = []
        rest = pixel
        for axis in reversed(AXES):
            places.append(function.slot("i64", function.binary("urem", rest, f"%out.{axis}")))
            rest = function.binary("udiv", rest, f"%out.{axis}")
        return cls(function, number, (function.slot("i64", rest), *reversed(places)))

    def advance(self, pixels: Number = 1) -> None:
        """Go on by some pixels, at most to the first one of the next line."""
        function = self.function
        carry: Number = pixels
        for axis, place in zip(reversed(AXES), reversed(self.places[1:]), strict=True):
            moved = function.add(function.load("i64", place), carry)
            ends = function.compare("sge", moved, f"%out.{axis}")
            left = function.let(f"select i1 {ends}, i64 0, i64 {moved}")
            function.store("i64", left, place)
            carry = function.let(f"zext i1 {ends} to i64")
        image = self.places[0]
        function.store("i64", function.add(function.load("i64", image), carry), image)

    def tap(self, steps: Sequence[Number]) -> Word:
        """The address of the piece that a tap of the window reads; ``steps`` are its numbers."""
        function = self.function
        row: Number = function.load("i64", self.places[0])
        is_inside = "true"
        for axis, place, step in zip(AXES, self.places[1:], steps, strict=True):
            start = function.mul(function.load("i64", place), f"%stride.{axis}")
            moved = function.add(start, function.mul(step, f"%dilation.{axis}"))
            source = function.sub(moved, f"%pad.{axis}")
            # One comparison for both ends: a negative number is very large without a sign.
            fits = function.compare("ult", source, f"%in.{axis}")
            is_inside = function.let(f"and i1 {is_inside}, {fits}")
            row = function.add(function.mul(row, f"%in.{axis}"), source)
        piece = function.place("%x", function.mul(row, "%pixel.apart"), self.number)
        return function.let(f"select i1 {is_inside}, ptr {piece}, ptr @zeros")

    def longest_run(self) -> Number:
        """For how many pixels on the same line all taps along the line stay inside."""
        function, axis = self.function, AXES[-1]
        place = function.load("i64", self.places[-1])
        first = function.sub(function.mul(place, f"%stride.{axis}"), f"%pad.{axis}")
        span = function.mul(function.sub(f"%kernel.{axis}", 1), f"%dilation.{axis}")
        room = function.sub(function.sub(f"%in.{axis}", 1), function.add(first, span))
        moves = function.binary("sdiv", room, f"%stride.{axis}")
        left = function.sub(function.sub(f"%out.{axis}", 1), place)
        is_inside = function.compare("sge", first, 0)
        fits = function.let(f"and i1 {is_inside}, {function.compare('sge', room, 0)}")
        longest = function.smaller(moves, left)
        return function.let(f"select i1 {fits}, i64 {longest}, i64 0")
