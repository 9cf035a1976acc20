"""Windows whose channels stay apart: depthwise convolutions and pooling, over channels-last images.

============================ =====================================================================
``jc_window_sum_<dtype>``    the taps times weights (taps, channels), plus bias, limited
``jc_window_max_<dtype>``    the largest of the taps inside the image; NaN wins
``jc_window_mean_<dtype>``   the sum of the taps over a number, or over how many lie in the border
============================ =====================================================================
"""

from __future__ import annotations

from functools import partial

from jitcore.codegen.engine import add_library
from jitcore.codegen.kernels.assembler import (
    Function,
    Number,
    Word,
    array_parameters,
    split,
)
from jitcore.codegen.kernels.tiles import Lanes, declarations, lanes_of
from jitcore.codegen.kernels.windows import AXES, GEOMETRY, Pixels, zeros
from jitcore.ir.dataclass import dataclass

__all__ = ["KINDS", "MAX_TAPS", "symbol"]

KINDS = ("sum", "max", "mean")

MAX_TAPS = 4096
"""The addresses of a window's taps lie on the stack."""

BORDER = tuple(f"i64 %{side}.{axis}" for axis in AXES for side in ("before", "after"))

ARRAYS = ("x", "weight", "bias", "out")

NUMBERS = (
    "i64 %pixels",
    "i64 %pixel.apart",
    *GEOMETRY,
    *BORDER,
)
"""The parameters after those of the arrays; then come the divisor, or 0 where taps are counted, and
the limits of the result.

``pixel.apart`` is the number of channels.  The border, around each axis, counts as part of the
image where taps are counted.
"""

_PIXELS = 4
"""So many are computed at once where the taps of all of them lie inside: they share weights."""

_VECTORS = 2
"""And so many vectors of channels."""


def symbol(kind: str, dtype: str) -> str:
    """The name of a function."""
    return f"jc_window_{kind}_{dtype}"


def _module_text(kind: str, dtype: str) -> str:
    name, lanes = symbol(kind, dtype), lanes_of(dtype)
    texts = [
        declarations(lanes),
        "declare void @jc_parallel(ptr, ptr, i64, i64, i64)\n",
        zeros(lanes.number),
        _write_body(kind, f"{name}_pixels", lanes),
        _write_function(name, lanes),
    ]
    return "\n".join(texts)


def _numbers(lanes: Lanes) -> tuple[str, ...]:
    return (*NUMBERS, *(f"{lanes.number} %{name}" for name in ("divisor", "low", "high")))


def _context(lanes: Lanes) -> list[tuple[str, str]]:
    return [split(one) for one in (*(f"ptr %{name}" for name in ARRAYS), *_numbers(lanes))]


def _write_function(name: str, lanes: Lanes) -> str:
    """The function that others call."""
    function = Function(name, (*array_parameters(*ARRAYS), *_numbers(lanes)))
    function.open_arrays(lanes.number, *ARRAYS)
    context = function.context(_context(lanes))
    taps = function.mul(*(f"%kernel.{axis}" for axis in AXES))
    work = function.mul("%pixels", taps, "%pixel.apart")
    work = function.binary("sdiv", work, lanes.count // 2)
    function.do(
        f"call void @jc_parallel(ptr @{name}_pixels, ptr {context}, i64 0, i64 %pixels, i64 {work})"
    )
    return function.text()


@dataclass(slots=True)
class _Window:
    """A window: where its taps lie, and what is done with them."""

    kind: str
    function: Function
    lanes: Lanes
    pixels: Pixels
    taps: Word
    weights: Word
    count: Word
    shift: Word
    """How far the window has moved since its taps were found."""
    run: Word
    """How many times it may move on."""

    @classmethod
    def at(cls, kind: str, function: Function, lanes: Lanes, pixel: Number) -> _Window:
        """The window of a pixel by its number."""
        entries = function.mul(*(f"%kernel.{axis}" for axis in AXES))
        taps = function.let(f"alloca ptr, i64 {entries}")
        weights = function.let(f"alloca ptr, i64 {entries}")
        pixels = Pixels.at(function, lanes.number, pixel)
        numbers = (function.slot("i64", 0), function.slot("i64", 0), function.slot("i64", -1))
        return cls(kind, function, lanes, pixels, taps, weights, *numbers)

    def find(self) -> None:
        """Find the taps of a pixel, unless they are those of the last one, moved on."""
        function = self.function
        with function.when(function.compare("slt", function.load("i64", self.run), 0)):
            self._find_taps()
            function.store("i64", 0, self.shift)
            function.store("i64", self.pixels.longest_run(), self.run)

    def advance(self, pixels: int) -> None:
        """Go on by some pixels."""
        function = self.function
        for _ in range(pixels):
            self.pixels.advance()
        step = function.mul(f"%stride.{AXES[-1]}", "%pixel.apart", pixels)
        for word, change in ((self.shift, step), (self.run, -pixels)):
            function.store("i64", function.add(function.load("i64", word), change), word)

    def _find_taps(self) -> None:
        """The addresses of the taps that lie inside, and of their weights."""
        function = self.function
        function.store("i64", 0, self.count)
        weight = function.slot("ptr", "%weight")
        with (
            function.loop(0, f"%kernel.{AXES[0]}") as depth,
            function.loop(0, f"%kernel.{AXES[1]}") as height,
            function.loop(0, f"%kernel.{AXES[2]}") as width,
        ):
            piece = self.pixels.tap((depth, height, width))
            own = function.load("ptr", weight)
            with function.when(function.let(f"icmp ne ptr {piece}, @zeros")):
                place = function.load("i64", self.count)
                function.store("ptr", piece, function.place(self.taps, place, "ptr"))
                function.store("ptr", own, function.place(self.weights, place, "ptr"))
                function.store("i64", function.add(place, 1), self.count)
            after = function.place(own, "%pixel.apart", self.lanes.number)
            function.store("ptr", after, weight)

    def compute(self, pixels: int, out: Word) -> None:
        """Compute some pixels, whose taps are known."""
        function, lanes = self.function, self.lanes
        step = lanes.count * _VECTORS
        whole = function.mul(function.binary("sdiv", "%pixel.apart", step), step)
        divisors = [
            _divisor(function, lanes, self.pixels, pixel) if self.kind == "mean" else ""
            for pixel in range(pixels)
        ]
        with function.loop(0, whole, step) as channel:
            self._channels(channel, _VECTORS, divisors, "", out)
        with function.loop(whole, "%pixel.apart", lanes.count) as channel:
            mask = lanes.below(function, function.sub("%pixel.apart", channel))
            self._channels(channel, 1, divisors, mask, out)

    def _channels(
        self, first: Number, vectors: int, divisors: list[Word], mask: Word, out: Word
    ) -> None:
        """Compute some vectors of channels."""
        function, lanes = self.function, self.lanes
        apart = function.mul(f"%stride.{AXES[-1]}", "%pixel.apart")
        grid = [(pixel, vector) for pixel in range(len(divisors)) for vector in range(vectors)]
        channels = [function.add(first, vector * lanes.count) for vector in range(vectors)]
        sums = {}
        for vector, channel in enumerate(channels):
            start = self._start(channel, mask)
            for pixel in range(len(divisors)):
                sums[pixel, vector] = function.slot(lanes.vector, start)
        shift = function.load("i64", self.shift)
        with function.loop(0, function.load("i64", self.count)) as tap:
            found = function.load("ptr", function.place(self.taps, tap, "ptr"))
            piece = function.place(found, shift, lanes.number)
            weight = function.load("ptr", function.place(self.weights, tap, "ptr"))
            factors = [self._factor(weight, channel, mask) for channel in channels]
            for pixel, vector in grid:
                place = function.add(function.mul(apart, pixel), channels[vector])
                value = lanes.load(function, function.place(piece, place, lanes.number), mask)
                before = function.load(lanes.vector, sums[pixel, vector])
                after = self._step(before, value, factors[vector])
                function.store(lanes.vector, after, sums[pixel, vector])
        for pixel, vector in grid:
            total = function.load(lanes.vector, sums[pixel, vector])
            place = function.add(function.mul("%pixel.apart", pixel), channels[vector])
            result = self._end(total, divisors[pixel])
            lanes.store(function, result, function.place(out, place, lanes.number), mask)

    def _start(self, channel: Number, mask: Word) -> Word:
        function, lanes = self.function, self.lanes
        if self.kind == "max":
            return lanes.filled(function, "0xFFF0000000000000")
        start = function.slot(lanes.vector, "zeroinitializer")
        if self.kind == "sum":
            with function.when(function.let("icmp ne ptr %bias, null")):
                bias = function.place("%bias", channel, lanes.number)
                function.store(lanes.vector, lanes.load(function, bias, mask), start)
        return function.load(lanes.vector, start)

    def _factor(self, weight: Word, channel: Number, mask: Word) -> Word:
        if self.kind != "sum":
            return ""
        place = self.function.place(weight, channel, self.lanes.number)
        return self.lanes.load(self.function, place, mask)

    def _step(self, before: Word, value: Word, factor: Word) -> Word:
        function, vector = self.function, self.lanes.vector
        if self.kind == "mean":
            return function.let(f"fadd {vector} {before}, {value}")
        if self.kind == "sum":
            return self.lanes.multiply_add(function, value, factor, before)
        larger = function.let(f"fcmp ogt {vector} {value}, {before}")
        is_nan = function.let(f"fcmp uno {vector} {value}, zeroinitializer")
        bools = f"<{self.lanes.count} x i1>"
        wins = function.let(f"or {bools} {larger}, {is_nan}")
        return function.let(f"select {bools} {wins}, {vector} {value}, {vector} {before}")

    def _end(self, total: Word, divisor: Word) -> Word:
        function, lanes = self.function, self.lanes
        if self.kind == "max":
            return total
        if self.kind == "mean":
            filled = lanes.filled(function, divisor)
            return function.let(f"fdiv {lanes.vector} {total}, {filled}")
        low, high = lanes.filled(function, "%low"), lanes.filled(function, "%high")
        return lanes.clamp(function, total, low, high)


def _write_body(kind: str, name: str, lanes: Lanes) -> str:
    """The body of the parallel loop: some pixels."""
    function = Function(name, ("ptr %context", "i64 %first", "i64 %last"), "internal")
    function.open_context(_context(lanes))
    window = _Window.at(kind, function, lanes, "%first")
    pixel = function.slot("i64", "%first")
    with function.while_below(pixel, "%last") as number:
        window.find()
        out = function.place("%out", function.mul(number, "%pixel.apart"), lanes.number)
        known = function.add(function.load("i64", window.run), 1)
        together = function.smaller(known, function.sub("%last", number))
        is_many = function.compare("sge", together, _PIXELS)
        with function.when(is_many):
            _step_on(window, pixel, number, _PIXELS, out)
        with function.when(function.let(f"xor i1 {is_many}, true")):
            _step_on(window, pixel, number, 1, out)
    return function.text()


def _step_on(window: _Window, variable: Word, number: Number, pixels: int, out: Word) -> None:
    """Compute some pixels and count them."""
    window.compute(pixels, out)
    window.advance(pixels)
    function = window.function
    function.store("i64", function.add(number, pixels), variable)


def _divisor(function: Function, lanes: Lanes, pixels: Pixels, ahead: int) -> Word:
    """What the sum of a window is divided by, that many pixels ahead on the line."""
    total: Number = 1
    for axis, word in zip(AXES, pixels.places[1:], strict=True):
        place = function.add(function.load("i64", word), ahead if axis == AXES[-1] else 0)
        moved = function.mul(place, f"%stride.{axis}")
        start = function.sub(moved, f"%pad.{axis}")
        end = function.add(start, f"%kernel.{axis}")
        first = function.larger(start, function.sub(0, f"%before.{axis}"))
        last = function.smaller(end, function.add(f"%in.{axis}", f"%after.{axis}"))
        total = function.mul(total, function.sub(last, first))
    counted = function.let(f"sitofp i64 {total} to {lanes.number}")
    is_counted = function.let(f"fcmp oeq {lanes.number} %divisor, 0.0")
    number = lanes.number
    return function.let(f"select i1 {is_counted}, {number} {counted}, {number} %divisor")


for _kind in KINDS:
    for _dtype in ("float32", "float64"):
        add_library(symbol(_kind, _dtype), partial(_module_text, _kind, _dtype), "registers")
