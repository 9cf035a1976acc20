"""Random NumPy programs: functions as source text, with arguments, that always end.

A program is built statement by statement.  Each new statement is run at once on the values that
the program has so far; one that fails, or gives something too large, is thrown away.  So programs
rarely raise, and the generator always knows the dtypes and shapes it works with.

There are two kinds.  *Exact* programs use what is bit-identical to NumPy, on values with NaN,
infinities and zeros of both signs.  *Loose* programs add sums of floats and transcendental
functions, on moderate values, and never decide anything by a float.
"""

from __future__ import annotations

import itertools
import math
import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from program_shrinking import Line, render
from sample_arrays import values

__all__ = ["Program", "random_program"]

MAX_ELEMENTS = 300
MAX_RANK = 3
HELPERS = """\
def scaled(p, k=3):
    return p * k + 1


def clamped(p, low, high):
    if low > high:
        low, high = high, low
    return np.minimum(np.maximum(p, low), high)


def counted(k):
    total = 0
    for step in range(k % 7):
        if step == 5:
            break
        total += step * k
    return total


def bumped(p):
    p[...] = p + p
    return p


def halves(p):
    middle = len(p) // 2
    return p[:middle], p[middle:]
"""

_DTYPES = "?bhilBHILfdfd"
_EXACT_UNARY = ("-{}", "abs({})", "np.sqrt({})", "np.square({})", "np.sign({})", "np.floor({})",
                "np.isnan({})", "np.rint({})", "np.logical_not({})", "np.negative({})", "+{}",
                "~{}", "np.trunc({})", "np.signbit({})", "np.reciprocal({})")  # fmt: skip
_LOOSE_UNARY = ("np.tanh({})", "np.sin({})", "np.exp(np.minimum({}, 3))", "np.cos({})",
                "np.arctan({})", "np.log(abs({}) + 1)", "np.sqrt(abs({}))", "np.square({})",
                "-{}", "abs({})", "np.expm1(np.minimum({}, 2))")  # fmt: skip
_EXACT_BINARY = ("+", "-", "*", "/", "//", "%", "<", "<=", "==", "!=", ">", ">=", "&", "|", "^",
                 "<<", ">>")  # fmt: skip
_EXACT_CALLS = ("np.maximum({}, {})", "np.minimum({}, {})", "np.where({} > 1, {}, 2)",
                "np.copysign({}, {})", "np.logical_and({}, {})", "scaled({}, {})",
                "clamped({}, {}, 4)", "np.fmod({}, {})", "np.where({} == {}, 1, 0.5)",
                "np.add({}, {})")  # fmt: skip
_LOOSE_CALLS = ("np.maximum({}, {})", "np.hypot({}, {})", "np.arctan2({}, abs({}) + 1)",
                "{} / (abs({}) + 1)", "scaled({}, {})", "np.add({}, {})")  # fmt: skip
_SHAPING = ("{}[::-1]", "{}[1:]", "{}[:-1]", "{}.T", "{}[::2]", "{}[..., 0]", "{}[0]", "{}[-1]",
            "{}.reshape(-1)", "{}[None]", "{}[..., None]", "{}.copy()", "{}[:, 1:]", "{}[:, ::-1]",
            "np.zeros_like({})", "np.ones_like({})", "{}[1:-1]", "np.flip({})", "np.roll({}, 1)",
            "np.concatenate([{0}, {0}])", "np.stack([{0}, {0}])", "np.squeeze({})",
            "np.expand_dims({}, 0)", "np.swapaxes({}, 0, -1)", "halves({})[0]")  # fmt: skip
# Of zeros of both signs NumPy's maximum may be either; adding 0 makes it positive.
_EXACT_REDUCTIONS = ("({}.max() + 0)", "({}.min(axis=0) + 0)",
                     "(np.max({}, axis=-1, keepdims=True) + 0)",
                     "{}.any()", "np.all({}, axis=0)", "np.count_nonzero({})", "{}.argmax()",
                     "np.argmin({}, axis=0)")  # fmt: skip
_SUMS = ("{}.sum()", "np.sum({}, axis=0)", "{}.sum(axis=-1, keepdims=True)", "np.cumsum({})",
         "np.prod({})", "np.cumsum({}, axis=0)", "{0}.T @ {0}", "np.dot({0}, {0})")  # fmt: skip
_MEANS = ("{}.mean()", "np.mean({}, axis=0)", "{}.mean(axis=-1, keepdims=True)", "np.var({})",
          "np.std({}, axis=0)")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Program:
    """A function ``f`` as a tree of lines, and its arguments.

    ``scale`` is None for an exact program, and the largest magnitude met for a loose one.
    """

    seed: int
    lines: tuple[Line, ...]
    args: tuple[Any, ...]
    parameters: tuple[str, ...]
    scale: float | None

    @property
    def source(self) -> str:
        """The text of the module."""
        return f"{HELPERS}\n\ndef f({', '.join(self.parameters)}):\n{render(self.lines)}"


def random_program(seed: int) -> Program:
    """The program of this seed."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Generator(seed).program()


@dataclass(slots=True)
class _Scope:
    """Where statements go: the block's lines, and how deep it lies."""

    lines: list[Line]
    depth: int


class _Generator:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = random.Random(seed)
        self.exact = self.random.random() < 0.65
        self.names = (f"v{number}" for number in itertools.count())
        self.counters = (f"k{number}" for number in itertools.count())
        self.values: dict[str, Any] = {}
        self.globals: dict[str, Any] = {"np": np, "math": math}
        self.largest = 1.0
        self.open_loops = 0
        exec(HELPERS, self.globals)

    def program(self) -> Program:
        parameters, args = self._arguments()
        copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
        self.values.update(zip(parameters, copies, strict=True))
        scope = _Scope([], 0)
        for _ in range(self.random.randint(3, 9)):
            self._statement(scope)
        scope.lines.append(self._returned())
        scale = None if self.exact else self.largest
        return Program(self.seed, tuple(scope.lines), args, parameters, scale)

    # Arguments ----------------------------------------------------------------------------

    def _arguments(self) -> tuple[tuple[str, ...], tuple[Any, ...]]:
        count = self.random.randint(1, 3)
        shape = tuple(self.random.randint(1, 5) for _ in range(self.random.randint(1, 2)))
        args: list[Any] = [self._array(shape, number) for number in range(count)]
        if count > 1 and self.random.random() < 0.15:
            base = values(args[0].dtype, (shape[0] + 2, *shape[1:]), self.seed, tame=not self.exact)
            args[0], args[1] = base[2:], base[:-2]
        names = ["x", "y", "z"][:count]
        names += ["n", "a"]
        args += [self.random.randint(-3, 6), self.random.choice([0.5, -1.25, 3.0, 2.0])]
        return tuple(names), tuple(args)

    def _array(self, shape: tuple[int, ...], number: int) -> Any:
        kept = shape
        if number and self.random.random() < 0.4:
            kept = self.random.choice(
                [shape[-1:], (1,) * len(shape), (shape[0], *[1] * (len(shape) - 1))]
            )
        dtype = self.random.choice(_DTYPES if self.exact else "fdfdil")
        made = values(dtype, kept, self.random.randrange(1000), tame=not self.exact)
        layout = self.random.random()
        if layout < 0.1:
            made = np.asfortranarray(made)
        elif layout < 0.2:
            made = made[::-1]
        elif layout < 0.3:
            made = np.repeat(made, 2, axis=-1)[..., ::2]
        return made

    # What there is ------------------------------------------------------------------------

    def _named(self, wanted: Callable[[Any], bool]) -> str | None:
        found = [name for name, value in self.values.items() if wanted(value)]
        return self.random.choice(found) if found else None

    def _array_name(self) -> str:
        name = self._named(_is_array)
        assert name is not None
        return name

    def _integer(self) -> str:
        literal = str(self.random.randint(-2, 5))
        name = self._named(lambda value: type(value) is int)
        return self.random.choice([literal, name or literal, f"len({self._array_name()})"])

    def _number(self) -> str:
        literal = self.random.choice(
            ["2", "3", "0.5", "-1", "1.5", "True", "np.float32(0.5)", "np.int8(3)"]
        )
        name = self._named(lambda value: not isinstance(value, np.ndarray | tuple))
        return self.random.choice([literal, name or literal, name or literal])

    def _condition(self, nested: bool = False) -> str:
        choices = [
            f"{self._integer()} {self.random.choice(['<', '>=', '==', '!='])} {self._integer()}",
            f"0 < {self._integer()} <= {self._integer()}",
            f"{self._integer()} % 2 == 0",
            f"{self._array_name()}.ndim > 1",
            self._integer(),
        ]
        if self.exact:
            array = self._array_name()
            choices += [
                f"{self._number()} < {self._number()}",
                f"np.any({array})",
                f"{array}.max() > {self._number()}",
                f"{array}.flat[0] == {self._number()}",
            ]
        condition = self.random.choice(choices)
        if not nested and self.random.random() < 0.25:
            joint = self.random.choice(["and", "or"])
            condition = f"{condition} {joint} {self._condition(nested=True)}"
        return f"not ({condition})" if self.random.random() < 0.1 else condition

    # Expressions --------------------------------------------------------------------------

    def _expression(self, depth: int = 2) -> str:
        """An expression, usually of an array."""
        if depth == 0:
            return self._array_name() if self.random.random() < 0.75 else self._number()
        inner = self._expression(depth - 1)
        kind = self.random.random()
        if kind < 0.4:
            other = self._expression(depth - 1)
            if self.random.random() < 0.7:
                signs = _EXACT_BINARY if self.exact else ("+", "-", "*")
                return f"({inner} {self.random.choice(signs)} {other})"
            calls = _EXACT_CALLS if self.exact else _LOOSE_CALLS
            return self.random.choice(calls).format(inner, other)
        if kind < 0.6:
            texts = _EXACT_UNARY if self.exact else _LOOSE_UNARY
            return self.random.choice(texts).format(inner)
        if kind < 0.8:
            return self.random.choice(_SHAPING).format(self._array_name())
        if kind < 0.9:
            return self._reduction(self._array_name())
        return self._conversion(self._array_name())

    def _reduction(self, name: str) -> str:
        if self.exact:
            # In a loop what is an array of integers now may be one of floats the next time.
            whole = self.values[name].dtype.kind in "iub" and not self.open_loops
            return self.random.choice(_EXACT_REDUCTIONS + (_SUMS if whole else ())).format(name)
        return self.random.choice(_SUMS + _MEANS).format(name)

    def _conversion(self, name: str) -> str:
        # A float that no integer holds gives anything; so floats only become floats and bools.
        source = self.values[name].dtype.kind
        targets = ["float32", "float64", "bool_" if self.exact else "float64"]
        if source in "iub":
            targets += ["int8", "int64", "uint16", "uint8"]
        return f"{name}.astype(np.{self.random.choice(targets)})"

    # Statements ---------------------------------------------------------------------------

    def _statement(self, scope: _Scope) -> None:
        kinds: list[tuple[int, Callable[[_Scope], bool]]] = [
            (8, self._assignment),
            (4, self._write),
            (3, self._augmented),
            (2, self._scalar),
            (1, self._pair),
        ]
        if scope.depth < 2:
            kinds += [(3, self._if), (3, self._for), (1, self._while), (1, self._early_return)]
        for _ in range(12):
            weights = [weight for weight, _ in kinds]
            ((_, make),) = self.random.choices(kinds, weights)
            if make(scope):
                return

    def _try(self, scope: _Scope, line: str) -> bool:
        """Run a line; keep it if it works and gives something of a reasonable size."""
        trial = dict(self.values)
        try:
            exec(line, self.globals, trial)
        except Exception:
            return False
        if not all(map(self._is_reasonable, trial.values())):
            return False
        if not any(map(_is_array, trial.values())):
            return False
        for value in trial.values():
            self._note(value)
        self.values = trial
        scope.lines.append(Line(line))
        return True

    def _is_reasonable(self, value: Any) -> bool:
        if isinstance(value, int):
            return abs(value) < 2**40
        if isinstance(value, np.ndarray):
            good = (
                value.size <= MAX_ELEMENTS
                and value.ndim <= MAX_RANK
                and value.dtype.char in "?bhilqBHILQfd"
            )
            return good and (self.exact or bool(np.all(np.abs(value) < 1e6)))
        return isinstance(value, float | np.generic)

    def _note(self, value: Any) -> None:
        if not self.exact and isinstance(value, np.ndarray | float | np.generic) and np.size(value):
            self.largest = max(self.largest, float(np.max(np.abs(value))))

    def _assignment(self, scope: _Scope) -> bool:
        name = next(self.names)
        if self.random.random() < 0.2:
            name = self._named(lambda value: isinstance(value, np.ndarray)) or name
        return self._try(scope, f"{name} = {self._expression(self.random.randint(1, 3))}")

    def _place(self, name: str) -> str:
        places = ["...", ":", "1:", ":-1", "::2", "0", "-1", "::-1"]
        if self.values[name].ndim > 1:
            places += [":, 0", "1:, :-1", "..., ::-1"]
        if self.exact:
            places += [f"{name} > {self._number()}"]
        places += [counter for counter in self.values if counter.startswith("k")]
        return self.random.choice(places)

    def _fits(self, name: str, expression: str) -> bool:
        """Whether an expression goes into an array without turning a float into an integer."""
        try:
            source = np.asarray(eval(expression, self.globals, dict(self.values)))
        except Exception:
            return False
        return bool(np.can_cast(source.dtype, self.values[name].dtype, "same_kind"))

    def _write(self, scope: _Scope) -> bool:
        name = self._array_name()
        sources = [self._number(), self._expression(1), f"{name}[{self._place(name)}]"]
        value = self.random.choice(sources)
        return self._fits(name, value) and self._try(
            scope, f"{name}[{self._place(name)}] = {value}"
        )

    def _augmented(self, scope: _Scope) -> bool:
        name = self._array_name()
        sign = self.random.choice(
            ["+", "-", "*", "//", "|", "&"] if self.exact else ["+", "-", "*"]
        )
        target = name if self.random.random() < 0.5 else f"{name}[{self._place(name)}]"
        return self._try(scope, f"{target} {sign}= {self._expression(1)}")

    def _scalar(self, scope: _Scope) -> bool:
        old = self._named(lambda value: type(value) is int)
        name = self.random.choice(
            [next(self.names), old if old and old[0] == "v" else next(self.names)]
        )
        texts = [
            f"{self._integer()} + {self._integer()}",
            f"{self._integer()} * {self._integer()}",
            f"{self._integer()} // {self._integer()}",
            f"{self._integer()} % {self._integer()}",
            f"counted({self._integer()})",
            f"max({self._integer()}, {self._integer()})",
            f"a * {self._integer()}",
            f"abs({self._integer()}) - 1",
        ]
        if self.exact:
            texts += [
                f"float({self._integer()}) / 3",
                f"({self._number()} < 1)",
                f"a // {self._integer()}",
            ]
        return self._try(scope, f"{name} = {self.random.choice(texts)}")

    def _pair(self, scope: _Scope) -> bool:
        first, second = next(self.names), next(self.names)
        return self._try(scope, f"{first}, {second} = {self._expression(1)}, {self._expression(1)}")

    def _block(self, scope: _Scope) -> list[Line]:
        """Statements one level deeper; names they introduce are mostly forgotten afterwards."""
        inner = _Scope([], scope.depth + 1)
        known = set(self.values)
        for _ in range(self.random.randint(1, 3)):
            self._statement(inner)
        kept = {name: value for name, value in self.values.items() if name in known}
        if self.random.random() < 0.9 and any(map(_is_array, kept.values())):
            self.values = kept
        return inner.lines

    def _if(self, scope: _Scope) -> bool:
        before = {name: _copied(value) for name, value in self.values.items()}
        taken = self._block(scope)
        if not taken:
            return False
        scope.lines.append(Line(f"if {self._condition()}:", tuple(taken)))
        chain = ["elif", "else"] if self.random.random() < 0.3 else ["else"]
        for keyword in chain if self.random.random() < 0.6 else []:
            self.values = {name: _copied(value) for name, value in before.items()}
            head = f"elif {self._condition()}:" if keyword == "elif" else "else:"
            scope.lines.append(Line(head, tuple(self._block(scope) or [Line("pass")])))
        return True

    def _for(self, scope: _Scope) -> bool:
        counter = next(self.counters)
        bound = self.random.choice(["3", "n", f"len({self._array_name()})", "1, 4", "4, 0, -1"])
        body = self._loop_body(scope, counter)
        if not body:
            return False
        if self.random.random() < 0.25:
            word = self.random.choice(["break", "continue"])
            body.insert(
                self.random.randint(0, len(body)), Line(f"if {self._condition()}:", (Line(word),))
            )
        scope.lines.append(Line(f"for {counter} in range({bound}):", tuple(body)))
        return True

    def _loop_body(self, scope: _Scope, counter: str) -> list[Line]:
        self.values[counter] = 1
        self.open_loops += 1
        body = self._block(scope)
        self.open_loops -= 1
        del self.values[counter]
        return body

    def _while(self, scope: _Scope) -> bool:
        counter = next(self.counters)
        body = self._loop_body(scope, counter)
        limit = self.random.randint(1, 4)
        condition = f"{counter} < {limit}"
        if self.random.random() < 0.5:
            condition += f" and {self._condition(nested=True)}"
        scope.lines.append(Line(f"{counter} = 0"))
        # The counter goes first, so that no continue can skip it.
        scope.lines.append(Line(f"while {condition}:", (Line(f"{counter} += 1", kept=True), *body)))
        return True

    def _early_return(self, scope: _Scope) -> bool:
        scope.lines.append(Line(f"if {self._condition()}:", (self._returned(),)))
        return True

    def _returned(self) -> Line:
        known = [name for name in self.values if not name.startswith("k")]
        names = self.random.sample(known, self.random.randint(1, min(6, len(known))))
        return Line(f"return {', '.join(names)}")


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
