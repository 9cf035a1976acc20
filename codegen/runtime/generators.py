"""NumPy's random generators, as native code draws from them.

A generator's numbers come from its bit generator, of which it holds an interface of C functions
(``bitgen_t`` of numpy/random/bitgen.h).  Native code gets the address of that, and passes it to the
functions by which NumPy itself draws:

============================== =====================================================================
``jc_draw_standard_uniform``   ``next_double`` of the bit generator
``jc_draw_<name>``             ``random_<name>`` of numpy/random/distributions.h
``jc_draw_legacy_normal``      a standard normal number of an old generator
``jc_draw_legacy_exponential`` the same of its exponential ones
``jc_take_generator``          (generator, place, extra, area): lock its bit generator and keep the
                               state in the area; false where that is not possible
``jc_return_generator``        (area, whether to draw anew): unlock it, if it was locked
============================== =====================================================================

While a function runs the bit generators are locked, as NumPy locks them for each call.  Where one
is locked by another thread the call is left to Python, which waits, so that nobody waits for a
second lock while holding a first.  A call that begins anew in Python gets the numbers again that
were drawn before; only bit generators of NumPy's own classes are taken, whose state lies in the
object itself.  The places of what is read here are found by looking at generators (`places`).
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitcore.codegen.engine import (
    CompiledModule,
    add_maker,
    add_symbol,
    compile_module,
    compiler_lock,
)
from jitcore.codegen.entries import layout
from jitcore.codegen.runtime.functions import ensure_runtime
from jitcore.ir.dataclass import dataclass

__all__ = ["AREA", "GeneratorPlaces", "is_known", "places"]

_WORD = 8
_KEPT = 5 * _WORD
"""Where in an area the state of the bit generator begins, behind what else is kept."""

_BASE = np.random.BitGenerator.__basicsize__
"""Where in a bit generator begins what its class has of its own: the state."""

_BASICSIZE = 32
"""The place of ``tp_basicsize`` in a class."""

_CLASSES: Final = tuple(
    getattr(np.random, name) for name in ("PCG64", "MT19937", "PCG64DXSM", "Philox", "SFC64")
)

AREA: Final = _KEPT + max(one.__basicsize__ for one in _CLASSES) - _BASE
"""The bytes of an area."""

_FUNCTIONS: Final = (
    *("uniform", "bounded_uint64", "interval"),
    *("standard_normal", "normal", "standard_exponential", "exponential", "standard_gamma"),
    *("gamma", "beta", "chisquare", "standard_cauchy", "standard_t", "pareto", "power", "weibull"),
    *("laplace", "gumbel", "logistic", "lognormal", "rayleigh", "wald", "poisson", "geometric"),
)
"""The functions of NumPy's that native code calls."""


_COUNT: Final = 20
_REACHES: Final = (0, 4, 2**31, 2**32 - 2, 2**32 - 1, 2**32, 2**40 + 1)
"""How many integers are drawn to compare them, and from how many, less one."""


@dataclass(frozen=True, slots=True)
class GeneratorPlaces:
    """Where objects of a class keep things, in bytes.

    Parameters
    ----------
    bit_generator : int
    interface : int
    second : int
        Of the normal number that an old generator has drawn and not given yet; 0 in others.
    """

    bit_generator: int
    interface: int
    second: int = 0


def _words(value: object, size: int) -> list[int]:
    return [layout.word_at(id(value) + place) for place in range(0, size, _WORD)]


def _place_of(words: Sequence[int], wanted: Sequence[int]) -> int:
    """The place of words that follow each other.

    Raises
    ------
    LookupError
        They are nowhere.
    """
    for number in range(len(words) - len(wanted) + 1):
        if list(words[number : number + len(wanted)]) == list(wanted):
            return _WORD * number
    raise LookupError("a generator is not laid out as expected")


def _interface(bits: Any) -> list[int]:
    address = bits.ctypes.bit_generator.value
    return [layout.word_at(address + _WORD * number) for number in range(5)]


@cache
def places(class_: type) -> GeneratorPlaces:
    """Where generators of a class keep things.

    Raises
    ------
    LookupError
        They keep them in another way than those that are known.
    """
    bits = np.random.PCG64(7)
    made: Any = class_(bits)
    words = _words(made, class_.__basicsize__)
    holder, interface = _place_of(words, [id(bits)]), _place_of(words, _interface(bits))
    if class_ is not np.random.RandomState:
        return GeneratorPlaces(holder, interface)
    # The interface is known a second time to what draws normal numbers in pairs.
    second = _place_of(words, [id(made) + interface]) + _WORD
    made.standard_normal()
    kept = made.get_state(legacy=False)
    found = layout.word_at(id(made) + second) & 0xFFFFFFFF, _double_at(id(made) + second + _WORD)
    if found != (1, kept["gauss"]):
        raise LookupError("an old generator keeps its second number in another way")
    return GeneratorPlaces(holder, interface, second)


def _double_at(address: int) -> float:
    return ctypes.c_double.from_address(address).value


def _lock_place() -> int:
    bits = np.random.PCG64(7)
    return _place_of(_words(bits, _BASE), [id(bits.lock)])


def _holds_its_state(class_: Any) -> bool:
    """Whether a bit generator is as before when the bytes of its class are written back."""
    bits = class_(7)
    generator = np.random.Generator(bits)
    generator.integers(9, dtype=np.int32)
    before, size = repr(bits.state), class_.__basicsize__ - _BASE
    kept = ctypes.string_at(id(bits) + _BASE, size)
    drawn = generator.integers(9, size=700, dtype=np.int32)
    changed = repr(bits.state)
    ctypes.memmove(id(bits) + _BASE, kept, size)
    again = generator.integers(9, size=700, dtype=np.int32)
    ctypes.memmove(id(bits) + _BASE, kept, size)
    return before != changed and before == repr(bits.state) and bool((drawn == again).all())


@cache
def is_known() -> bool:
    """Whether generators are laid out as expected, and native code draws what they do."""
    try:
        places(np.random.Generator)
        places(np.random.RandomState)
        _lock_place()
    except LookupError:
        return False
    has_functions = all(map(_has_function, _FUNCTIONS))
    if not has_functions or not all(map(_holds_its_state, _CLASSES)):
        return False
    classes = (np.random.Generator, np.random.RandomState)
    return all(map(_draws_alike, classes)) and _draws_old_numbers()


def _draws_alike(class_: type) -> bool:
    """Whether methods draw what compiled code makes of NumPy's functions.

    Those functions say nothing about which of them a method calls, in what order and how often.
    """
    ours, theirs = np.random.PCG64(7), np.random.PCG64(7)
    made: Any = class_(theirs)
    is_old = class_ is np.random.RandomState
    below = made.randint if is_old else made.integers
    shuffled = np.arange(_COUNT)
    made.shuffle(shuffled)
    expected = [*shuffled, *made.permutation(_COUNT)]
    for reach in _REACHES:
        expected += [below(-3, reach - 2), *below(-3, reach - 2, _COUNT)]
    expected += [*made.choice(_COUNT, _COUNT), made.uniform(-0.3, 1.4)]
    state: int = ours.ctypes.bit_generator.value
    drawn = [*_shuffled(state), *_shuffled(state)]
    for reach in _REACHES:
        drawn += _integers(state, -3, reach, _COUNT + 1, is_masked=is_old)
    drawn += _integers(state, 0, _COUNT - 1, _COUNT, is_masked=is_old)
    reals = (ctypes.c_void_p, ctypes.c_double, ctypes.c_double)
    drawn.append(_called("uniform", ctypes.c_double, *reals)(state, -0.3, 1.7))
    return drawn == expected and str(ours.state) == str(theirs.state)


def _called(name: str, *types: Any) -> Callable[..., Any]:
    """A function of NumPy's, called from Python; the types of its result and of its arguments."""
    return ctypes.CFUNCTYPE(*types)(_address(name))


def _shuffled(state: int) -> list[float]:
    draw = _called("interval", ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
    found: list[float] = list(range(_COUNT))
    for last in range(_COUNT - 1, 0, -1):
        other = draw(state, last)
        found[last], found[other] = found[other], found[last]
    return found


def _integers(state: int, low: int, reach: int, count: int, *, is_masked: bool) -> list[float]:
    numbers = (ctypes.c_uint64,) * 3
    types = (ctypes.c_int64, ctypes.c_void_p, *numbers, ctypes.c_bool)
    draw = _called("bounded_uint64", *types)
    mask = (1 << max(reach.bit_length(), 1)) - 1 if is_masked else 0
    return [draw(state, low % 2**64, reach, mask, is_masked) for _ in range(count)]


def _draws_old_numbers() -> bool:
    """Whether the code below draws what old generators do: a compiler may round otherwise."""
    ensure_runtime()
    ours, theirs = np.random.RandomState(7), np.random.RandomState(7)
    interface, count = id(ours) + places(np.random.RandomState).interface, 201
    drawn = []
    for name in ("legacy_normal", "legacy_exponential"):
        address = _make_functions().address(f"jc_draw_{name}")
        draw = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(address)
        drawn.append([draw(interface) for _ in range(count)])
    normal, exponential = drawn
    expected = theirs.normal(0.3, 1.7, count), theirs.standard_exponential(count)
    scaled = [0.3 + 1.7 * number for number in normal]
    same = [scaled, exponential] == [one.tolist() for one in expected]
    return same and str(ours.get_state(legacy=False)) == str(theirs.get_state(legacy=False))


@cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(np.random._generator.__file__)


def _has_function(name: str) -> bool:
    return hasattr(_library(), f"random_{name}")


def _address(name: str) -> int:
    function = getattr(_library(), f"random_{name}")
    return ctypes.cast(function, ctypes.c_void_p).value or 0


_TEXT = """
@jc_generator_objects = dso_local global [OBJECTS x ptr] zeroinitializer
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare double @llvm.sqrt.f64(double)
declare double @log(double)
declare i64 @llvm.fshr.i64(i64, i64, i64)

; What gives the next number of a bit generator of class PCG64, if the code below gives the same.
@next_of_pcg64 = internal global ptr null

define ptr @jc_next_of_pcg64() {
  ret ptr @next_of_pcg64
}

; PCG64 steps, and then gives what its state is (O'Neill, HMC-CS-2014-0905, XSL RR 128/64).
define double @jc_draw_standard_uniform(ptr %interface) {
entry:
  %state = load ptr, ptr %interface
  %next.place = getelementptr i8, ptr %interface, i64 24
  %next = load ptr, ptr %next.place
  %known = load ptr, ptr @next_of_pcg64
  %is.known = icmp eq ptr %next, %known
  br i1 %is.known, label %step, label %call
call:
  %called = tail call double %next(ptr %state)
  ret double %called
step:
  %pcg = load ptr, ptr %state
  %before = load i128, ptr %pcg, align 8
  %increment.place = getelementptr i8, ptr %pcg, i64 16
  %increment = load i128, ptr %increment.place, align 8
  %product = mul i128 %before, 47026247687942121848144207491837523525
  %after = add i128 %product, %increment
  store i128 %after, ptr %pcg, align 8
  %low = trunc i128 %after to i64
  %upper = lshr i128 %after, 64
  %high = trunc i128 %upper to i64
  %mixed = xor i64 %low, %high
  %turns = lshr i64 %high, 58
  %bits = call i64 @llvm.fshr.i64(i64 %mixed, i64 %mixed, i64 %turns)
  %leading = lshr i64 %bits, 11
  %whole = sitofp i64 %leading to double
  %number = fmul double %whole, 0x3CA0000000000000
  ret double %number
}

define internal ptr @held(i64 %number) {
  %place = getelementptr ptr, ptr @jc_generator_objects, i64 %number
  %object = load ptr, ptr %place
  ret ptr %object
}

; Whether the class of a bit generator is one of those whose state lies in the object.
define internal i1 @is_taken(ptr %class) {
entry:
  br label %next
next:
  %n = phi i64 [ FIRST_CLASS, %entry ], [ %then, %other ]
  %more = icmp ult i64 %n, OBJECTS
  br i1 %more, label %look, label %done
look:
  %one = call ptr @held(i64 %n)
  %same = icmp eq ptr %one, %class
  br i1 %same, label %done, label %other
other:
  %then = add i64 %n, 1
  br label %next
done:
  ret i1 %more
}

define i1 @jc_take_generator(ptr %generator, i64 %place, i64 %extra, ptr %area) {
entry:
  %bits.place = getelementptr i8, ptr %generator, i64 %place
  %bits = load ptr, ptr %bits.place
  %class.place = getelementptr i8, ptr %bits, i64 OBJECT_TYPE
  %class = load ptr, ptr %class.place
  %fits = call i1 @is_taken(ptr %class)
  br i1 %fits, label %lock, label %refused
lock:
  %lock.place = getelementptr i8, ptr %bits, i64 LOCK
  %lock.object = load ptr, ptr %lock.place
  %arguments = alloca [2 x ptr]
  store ptr %lock.object, ptr %arguments
  %no.place = getelementptr ptr, ptr %arguments, i64 1
  %no = call ptr @held(i64 2)
  store ptr %no, ptr %no.place
  %acquire = call ptr @held(i64 0)
  %answer = call ptr @PyObject_VectorcallMethod(ptr %acquire, ptr %arguments, i64 2, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %raised, label %answered
raised:
  call void @PyErr_Clear()
  br label %refused
answered:
  call void @Py_DecRef(ptr %answer)
  %is.no = icmp eq ptr %answer, %no
  br i1 %is.no, label %refused, label %locked
locked:
  call void @Py_IncRef(ptr %bits)
  store ptr %bits, ptr %area
  %size.place = getelementptr i8, ptr %class, i64 BASICSIZE
  %whole = load i64, ptr %size.place
  %size = sub i64 %whole, BASE
  %area.size = getelementptr i64, ptr %area, i64 1
  store i64 %size, ptr %area.size
  %state = getelementptr i8, ptr %bits, i64 BASE
  %kept = getelementptr i8, ptr %area, i64 KEPT
  call void @llvm.memcpy.p0.p0.i64(ptr %kept, ptr %state, i64 %size, i1 false)
  %has.extra = icmp ne i64 %extra, 0
  %extra.place = getelementptr i8, ptr %generator, i64 %extra
  %extra.address = select i1 %has.extra, ptr %extra.place, ptr null
  %area.extra = getelementptr ptr, ptr %area, i64 2
  store ptr %extra.address, ptr %area.extra
  br i1 %has.extra, label %second, label %taken
second:
  %area.second = getelementptr ptr, ptr %area, i64 3
  call void @llvm.memcpy.p0.p0.i64(ptr %area.second, ptr %extra.place, i64 16, i1 false)
  br label %taken
taken:
  ret i1 true
refused:
  ret i1 false
}

define void @jc_return_generator(ptr %area, i1 %anew) {
entry:
  %bits = load ptr, ptr %area
  %unused = icmp eq ptr %bits, null
  br i1 %unused, label %done, label %used
used:
  store ptr null, ptr %area
  br i1 %anew, label %restore, label %unlock
restore:
  %area.size = getelementptr i64, ptr %area, i64 1
  %size = load i64, ptr %area.size
  %state = getelementptr i8, ptr %bits, i64 BASE
  %kept = getelementptr i8, ptr %area, i64 KEPT
  call void @llvm.memcpy.p0.p0.i64(ptr %state, ptr %kept, i64 %size, i1 false)
  %area.extra = getelementptr ptr, ptr %area, i64 2
  %extra = load ptr, ptr %area.extra
  %has.extra = icmp ne ptr %extra, null
  br i1 %has.extra, label %second, label %unlock
second:
  %area.second = getelementptr ptr, ptr %area, i64 3
  call void @llvm.memcpy.p0.p0.i64(ptr %extra, ptr %area.second, i64 16, i1 false)
  br label %unlock
unlock:
  %lock.place = getelementptr i8, ptr %bits, i64 LOCK
  %release = call ptr @held(i64 1)
  %answer = call ptr @PyObject_VectorcallMethod(ptr %release, ptr %lock.place, i64 1, ptr null)
  %failed = icmp eq ptr %answer, null
  br i1 %failed, label %clear, label %released
clear:
  call void @PyErr_Clear()
  br label %drop
released:
  call void @Py_DecRef(ptr %answer)
  br label %drop
drop:
  call void @Py_DecRef(ptr %bits)
  br label %done
done:
  ret void
}

; Marsaglia's polar method: of two numbers the second one is given, and the first one next time.
define double @jc_draw_legacy_normal(ptr %interface) {
entry:
  %has.place = getelementptr i8, ptr %interface, i64 SECOND
  %number.place = getelementptr i8, ptr %interface, i64 NUMBER
  %has = load i32, ptr %has.place
  %none = icmp eq i32 %has, 0
  br i1 %none, label %draw, label %give
give:
  %number = load double, ptr %number.place
  store i32 0, ptr %has.place
  store double 0.0, ptr %number.place
  ret double %number
draw:
  %u = call double @jc_draw_standard_uniform(ptr %interface)
  %u2 = fmul double %u, 2.0
  %x = fsub double %u2, 1.0
  %v = call double @jc_draw_standard_uniform(ptr %interface)
  %v2 = fmul double %v, 2.0
  %y = fsub double %v2, 1.0
  %xx = fmul double %x, %x
  %yy = fmul double %y, %y
  %r = fadd double %xx, %yy
  %outside = fcmp oge double %r, 1.0
  %centre = fcmp oeq double %r, 0.0
  %again = or i1 %outside, %centre
  br i1 %again, label %draw, label %found
found:
  %log = call double @log(double %r)
  %scaled = fmul double %log, -2.0
  %ratio = fdiv double %scaled, %r
  %f = call double @llvm.sqrt.f64(double %ratio)
  %first = fmul double %f, %x
  %given = fmul double %f, %y
  store double %first, ptr %number.place
  store i32 1, ptr %has.place
  ret double %given
}

define double @jc_draw_legacy_exponential(ptr %interface) {
  %u = call double @jc_draw_standard_uniform(ptr %interface)
  %rest = fsub double 1.0, %u
  %log = call double @log(double %rest)
  %result = fneg double %log
  ret double %result
}
"""

_OBJECTS: tuple[Any, ...] = ("acquire", "release", False)
_SYMBOLS: Final = (
    "jc_take_generator",
    "jc_return_generator",
    "jc_draw_standard_uniform",
    "jc_draw_legacy_normal",
    "jc_draw_legacy_exponential",
)


def _make_functions() -> CompiledModule:
    """Make the functions known to the engine."""
    with compiler_lock():
        return _module()


@cache
def _module() -> CompiledModule:
    for name in _FUNCTIONS:
        add_symbol(f"jc_draw_{name}", _address(name))
    objects = (*_OBJECTS, *_CLASSES)
    second = places(np.random.RandomState)
    numbers = {
        "OBJECTS": len(objects),
        "FIRST_CLASS": len(_OBJECTS),
        "OBJECT_TYPE": layout.OBJECT_TYPE,
        "BASICSIZE": _BASICSIZE,
        "BASE": _BASE,
        "KEPT": _KEPT,
        "LOCK": _lock_place(),
        "SECOND": second.second - second.interface,
        "NUMBER": second.second - second.interface + _WORD,
    }
    names = "|".join(rf"\b{name}\b" for name in numbers)
    text = re.sub(names, lambda found: str(numbers[found.group()]), _TEXT)
    module = compile_module(text, name="generators", effort="code")
    layout.fill_table(module.address("jc_generator_objects"), dict(enumerate(objects)))
    _use_own_steps(module)
    for name in _SYMBOLS:
        add_symbol(name, module.address(name))
    return module


def _use_own_steps(module: CompiledModule) -> None:
    """Let our code step bit generators of class PCG64, which it does without a call.

    It does so only after it has given the same numbers, and left the same state, as NumPy's.
    """
    ours, theirs = np.random.PCG64(7), np.random.PCG64(7)
    slot = ctypes.CFUNCTYPE(ctypes.c_void_p)(module.address("jc_next_of_pcg64"))() or 0
    address = module.address("jc_draw_standard_uniform")
    draw = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p)(address)
    known = ctypes.c_void_p.from_address(slot)
    known.value = ctypes.cast(ours.ctypes.next_double, ctypes.c_void_p).value
    numbers = [draw(ours.ctypes.bit_generator.value) for _ in range(64)]
    if numbers != np.random.Generator(theirs).random(64).tolist() or ours.state != theirs.state:
        known.value = None


for _name in (*_SYMBOLS, *(f"jc_draw_{name}" for name in _FUNCTIONS)):
    add_maker(_name, _make_functions)
