"""What a compiled function does beside the plain one.

``check`` compares both, with tolerances; ``observed`` and ``outcome`` give all that is to be equal.
"""

from __future__ import annotations

import cmath
import contextlib
import copy
import io
import itertools
import linecache
import math
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from argument_copies import arrays_in, copy_arguments
from graph_checking import interpreted

from jitcore.script import script as default_script

__all__ = [
    "Outcome",
    "Tolerance",
    "assert_same",
    "check",
    "check_within",
    "compare",
    "function_from_source",
    "observed",
    "outcome",
    "outcome_of",
    "register_source",
]

_REDUCTION_TOLERANCE = {"f": 1e-6, "d": 1e-12, "F": 1e-6, "D": 1e-12, "e": 1e-3}
_NUMBERS = (bool, int, float, complex)
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floats may be apart; anything else must always be equal.

    Parameters
    ----------
    ulp : int
        Units in the last place.  0 asks for equal values with equal signs of zero.
    scale : float or None
        For reductions: the largest magnitude that went in.  Then floats may be 1e-6 (single) or
        1e-12 (double precision) of it, or of the value, apart.
    single : bool
        Doubles may be as far apart as singles, because they come of singles.
    """

    ulp: int = 0
    scale: float | None = None
    single: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one call did: its value or its exception, and its arguments afterwards."""

    value: Any
    error: Exception | None
    args: tuple[Any, ...]


def check(
    function: Callable[..., Any],
    *args: Any,
    script: Callable[..., Any] | None = None,
    ulp: int = 0,
    reduction: bool = False,
    interpreter: bool = False,
) -> Any:
    """Call the plain and the compiled function on copies of the arguments and compare all effects.

    The compiled function is called twice, each time on fresh copies: the first call compiles.
    Compared are the result (types, dtypes, shapes, values, which arguments it shares memory with),
    the arguments afterwards, and the type and message of an exception.

    Parameters
    ----------
    function : callable
        A plain Python function.
    *args : object
        Arrays that overlap, or are the same object, are so in the copies too.
    script : callable, optional
        Compiles the function; ``jitcore.script`` by default.
    ulp : int
        How many units in the last place floats may be apart.
    reduction : bool
        Allow the difference that another order of summation makes.
    interpreter : bool
        Compare the generic and the typed graphs, run by the interpreter, as well.

    Returns
    -------
    object
        The compiled function.

    Raises
    ------
    AssertionError
        The first difference, with its place.
    """
    tolerance = Tolerance(ulp, _largest(args) if reduction else None)
    return check_within(
        function, args, script or default_script, tolerance, interpreter=interpreter
    )


def check_within(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    script: Callable[..., Any],
    tolerance: Tolerance,
    *,
    interpreter: bool = False,
) -> Any:
    """``check`` with a tolerance of one's own."""
    expected = outcome_of(function, args)
    if interpreter:
        for name, run in interpreted(function, args):
            assert_same(expected, outcome_of(run, args), tolerance, name, any_error=True)
    compiled = script(function)
    assert_same(expected, outcome_of(compiled, args), tolerance, "the first call")
    assert_same(expected, outcome_of(compiled, args), tolerance, "the second call")
    return compiled


def outcome_of(function: Callable[..., Any], args: tuple[Any, ...]) -> Outcome:
    """Call a function on copies of these arguments."""
    copies = copy_arguments(args)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return Outcome(function(*copies), None, copies)
        except Exception as error:
            return Outcome(None, error, copies)


def assert_same(
    expected: Outcome,
    actual: Outcome,
    tolerance: Tolerance,
    what: str,
    *,
    any_error: bool = False,
) -> None:
    """Fail unless two calls did the same.

    With ``any_error`` one exception is as good as another, and the arguments may be as they were
    when it was raised: a native region that fails is run again by the host program.
    """
    if any_error and expected.error is not None and actual.error is not None:
        return
    if expected.error is not None or actual.error is not None:
        _compare_errors(expected, actual, what)
    else:
        compare(expected.value, actual.value, tolerance, f"the result of {what}")
        _compare_sharing(expected, actual, what)
    for number, (one, two) in enumerate(zip(expected.args, actual.args, strict=True)):
        compare(one, two, tolerance, f"argument {number} after {what}")


def _compare_errors(expected: Outcome, actual: Outcome, what: str) -> None:
    if expected.error is None:
        raise AssertionError(
            f"{what} raised {actual.error!r}, the plain function does not"
        ) from actual.error
    if actual.error is None:
        raise AssertionError(
            f"{what} gave {actual.value!r}, the plain function raises {expected.error!r}"
        )
    same = type(expected.error) is type(actual.error) and str(expected.error) == str(actual.error)
    if not same:
        raise AssertionError(
            f"{what} raised {actual.error!r}, expected {expected.error!r}"
        ) from actual.error


def _compare_sharing(expected: Outcome, actual: Outcome, what: str) -> None:
    """Results must be views of the arguments, or the arguments themselves, where they should be."""

    def pattern(outcome: Outcome) -> list[tuple[bool, bool]]:
        pairs = itertools.product(arrays_in(outcome.value), arrays_in(outcome.args))
        return [(one is two, np.shares_memory(one, two)) for one, two in pairs]

    assert pattern(expected) == pattern(actual), (
        f"the result of {what} shares memory with arguments as {pattern(actual)}, "
        f"expected {pattern(expected)} (the same object, common memory; results x arguments)"
    )


def compare(expected: Any, actual: Any, tolerance: Tolerance, where: str) -> None:
    """Fail unless two values are the same, down to types, dtypes and shapes."""
    assert type(expected) is type(actual), (
        f"{where} is {_described(actual)}, expected {_described(expected)}"
    )
    if isinstance(expected, np.ndarray | np.generic):
        _compare_arrays(expected, actual, tolerance, where)
    elif isinstance(expected, tuple | list):
        assert len(expected) == len(actual), (
            f"{where} has {len(actual)} elements, expected {len(expected)}"
        )
        for number, (one, two) in enumerate(zip(expected, actual, strict=True)):
            compare(one, two, tolerance, f"element {number} of {where}")
    elif isinstance(expected, Mapping):
        assert list(expected) == list(actual), (
            f"{where} has the keys {list(actual)}, expected {list(expected)}"
        )
        for key, one in expected.items():
            compare(one, actual[key], tolerance, f"{where}[{key!r}]")
    elif isinstance(expected, _NUMBERS):
        _compare_values(np.asarray(expected), np.asarray(actual), tolerance, where)
    elif isinstance(expected, slice | range | str | bytes | np.dtype | set):
        assert expected == actual, f"{where} is {actual!r}, expected {expected!r}"
    elif not hasattr(type(expected), "__next__"):
        assert expected is actual or expected == actual, (
            f"{where} is {actual!r}, expected {expected!r}"
        )


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype} and shape {value.shape}"
    return f"{value!r} of type {type(value).__name__}"


def _compare_arrays(expected: Any, actual: Any, tolerance: Tolerance, where: str) -> None:
    assert expected.dtype == actual.dtype, (
        f"{where} has dtype {actual.dtype}, expected {expected.dtype}"
    )
    assert expected.shape == actual.shape, (
        f"{where} has shape {actual.shape}, expected {expected.shape}"
    )
    if isinstance(expected, np.ndarray):
        assert expected.flags.writeable == actual.flags.writeable, (
            f"{where} may be written: {actual.flags.writeable}, expected {expected.flags.writeable}"
        )
    _compare_values(np.asarray(expected), np.asarray(actual), tolerance, where)


def _compare_values(expected: Any, actual: Any, tolerance: Tolerance, where: str) -> None:
    if expected.dtype == object:
        good = np.array(
            [one is two or one == two for one, two in zip(expected.flat, actual.flat, strict=True)]
        )
    elif expected.dtype.kind == "c":
        good = _complex_agree(expected, actual, tolerance)
    elif expected.dtype.kind == "f":
        good = _floats_agree(expected, actual, tolerance)
    else:
        good = np.asarray(expected == actual)
    if good.all():
        return
    places = np.argwhere(~good.reshape(expected.shape))
    place = tuple(int(n) for n in places[0])
    raise AssertionError(
        f"{where} differs in {len(places)} of {expected.size} elements; first at {list(place)}: "
        f"{actual[place]!r}, expected {expected[place]!r}"
    )


def _floats_agree(expected: Any, actual: Any, tolerance: Tolerance) -> Any:
    with np.errstate(all="ignore"):
        equal = (expected == actual) & (np.signbit(expected) == np.signbit(actual))
        good = equal | (np.isnan(expected) & np.isnan(actual))
        if tolerance.ulp:
            good |= _ulps_apart(expected, actual) <= tolerance.ulp
        if tolerance.scale is not None:
            allowed = _REDUCTION_TOLERANCE["f" if tolerance.single else expected.dtype.char]
            # Two zeros of unlike sign, or tiny rests of a cancellation, are near in this sense.
            size = np.abs(expected) + tolerance.scale
            good |= np.abs(expected - actual) <= allowed * size
    return good


def _complex_agree(expected: Any, actual: Any, tolerance: Tolerance) -> Any:
    good = _floats_agree(expected.real, actual.real, tolerance)
    good &= _floats_agree(expected.imag, actual.imag, tolerance)
    # Which part of a complex number becomes NaN depends on the order of NumPy's own operations.
    good |= np.isnan(expected) & np.isnan(actual)
    if tolerance.ulp:
        with np.errstate(all="ignore"):
            # The smaller part of a complex number is only as exact as the larger one.
            allowed = tolerance.ulp * np.finfo(expected.dtype).eps * np.abs(expected)
            good |= np.abs(expected - actual) <= allowed
    return good


def _ulps_apart(expected: Any, actual: Any) -> Any:
    """How many floats lie between two, as a float; NaN where one of them is NaN."""
    integer: Any = {2: np.int16, 4: np.int32, 8: np.int64}[expected.dtype.itemsize]

    def ordered(values: Any) -> Any:
        bits = np.ascontiguousarray(values).view(integer).reshape(values.shape).astype(object)
        return np.where(bits < 0, int(np.iinfo(integer).min) - bits, bits)

    apart = np.asarray(np.abs(ordered(expected) - ordered(actual)), np.float64)
    return np.where(np.isnan(expected) | np.isnan(actual), np.nan, apart)


def _largest(args: tuple[Any, ...]) -> float:
    """The largest finite magnitude among the arguments' numbers (at least 1)."""
    largest = 1.0
    for array in arrays_in(args):
        if array.dtype.kind in "fciu" and array.size:
            finite = np.abs(array[np.isfinite(array)].astype(np.complex128))
            largest = max(largest, float(finite.max(initial=0.0)))
    for arg in args:
        if isinstance(arg, int | float) and math.isfinite(arg):
            largest = max(largest, abs(float(arg)))
    return largest


def register_source(source: str) -> str:
    """Make ``inspect`` and tracebacks find a text; gives the name of the file it seems to be in."""
    file = f"<program {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    return file


def function_from_source(source: str, name: str = "f", **names: Any) -> Callable[..., Any]:
    """A function from its source text, as if it stood in a file.

    Parameters
    ----------
    source : str
        The text of a module; ``np``, ``math`` and ``names`` are its globals.
    name : str
        The function in it.
    """
    namespace: dict[str, Any] = {
        "np": np,
        "math": math,
        "cmath": cmath,
        "__name__": "program",
        **names,
    }
    exec(compile(source, register_source(source), "exec"), namespace)
    function: Callable[..., Any] = namespace[name]
    return function


def outcome(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Any, Any]:
    """What a call gives or raises, and what it makes of its arguments, as tuples to be compared.

    One walk goes over both: aliases between arguments and result are part of what is seen.
    """
    result, error = None, None
    with np.errstate(all="ignore"):
        try:
            result = function(*args)
        except Exception as raised:
            error = (type(raised), str(raised), type(raised.__cause__))
    return _Walk().seen((tuple(args), result)), error


def observed(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """All that a caller can see of one call on copies of these arguments, output included."""
    output = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(output):
        warnings.simplefilter("ignore")
        return *outcome(function, copy.deepcopy(args)), output.getvalue()


_ATOMS = (
    type,
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    np.dtype,
    Enum,
    range,
    slice,
    str,
    bytes,
    int,
    type(None),
    type(Ellipsis),
)


class _Walk:
    """Describes values; an object met again is described by its number."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []

    def seen(self, value: Any) -> Any:
        """A description in which equal means: the same to any Python program."""
        kind = type(value)
        if isinstance(value, float | complex | np.generic):
            return kind, repr(value)
        if isinstance(value, _ATOMS):
            return kind, value
        if kind in (tuple, frozenset) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return kind, tuple(self.seen(item) for item in value)
        if id(value) in self._numbers:
            return "again", self._numbers[id(value)]
        self._numbers[id(value)] = len(self._numbers)
        # Kept alive, so that no other object takes its identity.
        self._kept.append(value)
        return kind, self._contents(value)

    def _contents(self, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            shown = tuple(map(self.seen, value.flat)) if value.dtype == object else value.tobytes()
            pairs = zip(value.shape, value.strides, strict=True)
            steps = [step for extent, step in pairs if extent > 1] if value.size else []
            return value.dtype, value.shape, tuple(steps), value.flags.writeable, shown
        if isinstance(value, dict):
            return tuple((self.seen(key), self.seen(one)) for key, one in value.items())
        if isinstance(value, np.random.Generator):
            return self.seen(value.bit_generator.state)
        if isinstance(value, set):
            return tuple(sorted(map(repr, value)))
        if isinstance(value, list):
            return tuple(map(self.seen, value))
        if hasattr(type(value), "__next__"):
            return tuple(map(self.seen, value))
        named = (vars(owner).get("__slots__", ()) for owner in type(value).__mro__)
        slots = itertools.chain.from_iterable(named)
        state = {**getattr(value, "__dict__", {})}
        state |= {name: getattr(value, name) for name in slots if hasattr(value, name)}
        return self.seen(state) if state else repr(value)
