"""The guarded entry of native functions: calls, results, errors, lifetimes and threads."""

from __future__ import annotations

import gc
import resource
import sys
import threading
import tracemalloc
import weakref
from collections import namedtuple
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import CellType
from typing import Any, Literal

import numpy as np
import pytest
from native_functions import (
    COMPLEX_DTYPES,
    FLOAT,
    INT,
    INTEGER,
    MISSED,
    REAL_DTYPES,
    Recorder,
    echo,
    empty_text,
    float_param,
    give,
    load,
    missed,
)

from jitcore.codegen.engine import compile_module
from jitcore.codegen.entries.entry import CaptureGuard, bind, make_entry
from jitcore.codegen.entries.signature import (
    ArrayParam,
    ArrayResult,
    ConstantParam,
    ConstantResult,
    InputResult,
    ObjectParam,
    ScalarParam,
    ScalarResult,
    Signature,
    TupleParam,
    TupleResult,
)
from jitcore.codegen.printers.llvm_instructions import memory_type
from jitcore.ir.types import OpenFunction, OpenPartial

# Calls


def test_miss_passes_everything_on() -> None:
    function, recorder = echo(float_param(None), INTEGER)
    x = np.zeros(4, np.float32)
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}),
        ((x,), {}),
        ((x, 1, 2), {}),
        ((x,), {"n": 1}),
        ((x, 1), {"out": x}),
        ((), {"x": x, "n": 1}),
    ]
    for args, kwargs in calls:
        assert missed(function, *args, **kwargs)
    for (args, kwargs), (seen_args, seen_kwargs) in zip(calls, recorder.misses, strict=True):
        assert len(args) == len(seen_args) and kwargs.keys() == seen_kwargs.keys()
        assert all(a is b for a, b in zip(args, seen_args, strict=True))
        assert all(kwargs[name] is seen_kwargs[name] for name in kwargs)


def test_exception_of_next_propagates() -> None:
    def fail(*_: Any) -> None:
        raise KeyError("next")

    entry = make_entry(Signature((), ConstantResult(None)), "native", name="e")
    module = compile_module("define i64 @native(ptr %r) { ret i64 0 }\n" + entry.text, name="e")
    entry.fill(module)
    function = bind(module.address(entry.symbol), "e", fail, fail, owner=(module, entry))
    assert function() is None
    with pytest.raises(KeyError, match="next"):
        function(1)


def test_chain_and_rebinding() -> None:
    number = echo(INTEGER)[0]
    receiver = number.__self__
    text = make_entry(Signature((ConstantParam("a"),), ConstantResult("A")), "native", name="text")
    module = compile_module("define i64 @native(ptr %r) { ret i64 0 }\n" + text.text, name="text")
    text.fill(module)
    address = module.address(text.symbol)
    first = bind(address, "text", number, print, "Doc.", owner=(module, text))
    second = bind(address, "text", lambda *_: "other", print, owner=(module, text))
    assert (first("a"), first(5), first(2.5)) == ("A", (5,), MISSED)
    assert (second("a"), second(5)) == ("A", "other")
    assert (first.__name__, first.__doc__, second.__doc__) == ("text", "Doc.", None)
    assert number.__self__ is receiver


def test_errors_reach_the_handler() -> None:
    body = """  store i64 11, ptr %s0
  store i64 -12, ptr %s1
  ret i64 %a0"""
    function, recorder = give(body, ConstantResult("fine"), INTEGER)
    assert function(0) == "fine"
    assert function(3) == "handled"
    assert function(-1) == "handled"
    assert recorder.errors == [(3, [11, -12], (3,)), (-1, [11, -12], (-1,))]


def test_exception_of_the_handler_propagates() -> None:
    def handler(*_: Any) -> None:
        raise ZeroDivisionError("division by zero")

    entry = make_entry(Signature((), ConstantResult(None)), "native", name="e")
    module = compile_module("define i64 @native(ptr %r) { ret i64 4 }\n" + entry.text, name="e")
    entry.fill(module)
    function = bind(module.address(entry.symbol), "e", handler, handler, owner=(module, entry))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        function()


def test_errstate() -> None:
    function, _ = echo(INTEGER, check_errstate=True)
    plain, _ = echo(INTEGER)
    for what in ("divide", "over", "under", "invalid"):
        for mode in ("ignore", "warn", "raise", "print"):
            settings: Any = {what: mode}
            with np.errstate(**settings):
                assert missed(function, 1) == (mode in ("raise", "print"))
                assert not missed(plain, 1)
    assert function(1) == (1,)


# Results


def same(found: Any, wanted: Any) -> bool:
    return type(found) is type(wanted) and repr(found) == repr(wanted)


@pytest.mark.parametrize("value", [0, 5, -(2**63), 2**63 - 1])
def test_int_results(value: int) -> None:
    function, _ = give(f"  store i64 {value}, ptr %s0\n  ret i64 0", INT)
    assert same(function(), value)


def test_python_results() -> None:
    function, _ = give("  store double 1.5, ptr %s0\n  ret i64 0", FLOAT)
    assert same(function(), 1.5)
    kind = ScalarResult("bool", np.dtype(np.bool_))
    assert give("  store i8 1, ptr %s0\n  ret i64 0", kind)[0]() is True
    assert give("  store i8 0, ptr %s0\n  ret i64 0", kind)[0]() is False
    body = "  store double 1.5, ptr %s0\n  store double -2.0, ptr %s1\n  ret i64 0"
    assert same(give(body, ScalarResult("complex", np.dtype(complex)))[0](), 1.5 - 2j)


@pytest.mark.parametrize("dtype", REAL_DTYPES, ids=str)
def test_numpy_scalar_results(dtype: np.dtype[Any]) -> None:
    scalar = ScalarParam("numpy", dtype)
    type_ = memory_type(dtype.name)
    body = f"  store {type_} %a0, ptr %s0\n  ret i64 0"
    function, _ = give(body, ScalarResult("numpy", dtype), scalar)
    values: list[float] = [0, 1] if dtype.kind == "b" else [0, 1, 50]
    values += [-1.5, float("nan")] if dtype.kind == "f" else []
    for value in np.array(values, dtype):
        assert same(function(value), value)
        assert same(function(value) + value, value + value)


@pytest.mark.parametrize("dtype", COMPLEX_DTYPES, ids=str)
def test_numpy_complex_results(dtype: np.dtype[Any]) -> None:
    type_ = memory_type(f"float{4 * dtype.itemsize}")
    body = f"  store {type_} %a0, ptr %s0\n  store {type_} %a1, ptr %s1\n  ret i64 0"
    function, _ = give(body, ScalarResult("numpy", dtype), ScalarParam("numpy", dtype))
    for value in np.array([1.5 - 2j, complex(-0.0, float("inf"))], dtype):
        assert same(function(value), value)


@pytest.mark.parametrize("dims", [(), (0,), (5,), (2, 3), (1, 2, 1, 2, 1, 2, 1, 3)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_array_results(dims: tuple[int, ...], order: Literal["C", "F"]) -> None:
    body = f"  %x = {empty_text(np.float32, *dims, order='CF'.index(order))}\n"
    body += "  store ptr %x, ptr %s0\n  ret i64 0"
    function, _ = give(body, ArrayResult())
    wanted = np.empty(dims, np.float32, order=order)
    array = function()
    assert type(array) is np.ndarray and array.shape == dims and array.dtype == np.float32
    assert array.strides == wanted.strides and array.flags.num == wanted.flags.num
    array[...] = 3
    assert sys.getrefcount(array) == 2 and (array == 3).all()


@pytest.mark.parametrize("dtype", REAL_DTYPES + COMPLEX_DTYPES, ids=str)
def test_array_result_dtypes(dtype: np.dtype[Any]) -> None:
    body = f"  %x = {empty_text(dtype.type, 3)}\n  store ptr %x, ptr %s0\n  ret i64 0"
    function, _ = give(body, ArrayResult())
    assert function().dtype is np.empty(3, dtype).dtype


def test_arrays_without_memory_leave_no_exception() -> None:
    body = f"""  %x = {empty_text(np.float64, 2**40, 2**20)}
  %none = icmp eq ptr %x, null
  %status = select i1 %none, i64 7, i64 0
  ret i64 %status"""
    function, recorder = give(body, ArrayResult())
    assert function() == "handled" and recorder.errors[0][0] == 7


def test_constants_inputs_and_tuples() -> None:
    x = np.zeros(3, np.float32)
    pair = TupleParam((float_param(None), ScalarParam("float", np.dtype(np.float64))))
    result = TupleResult(
        (
            InputResult(0),
            ConstantResult("text"),
            TupleResult((InputResult(2), INT)),
            TupleResult(()),
        )
    )
    body = "  store i64 42, ptr %s0\n  ret i64 0"
    function, _ = give(body, result, pair, ConstantParam(None))
    found = function((x, 2.5), None)
    assert found[0] is x and found[1:] == ("text", (None, 42), ())
    assert gc.is_tracked(found)
    only, _ = give("  ret i64 0", InputResult(1), float_param(None), float_param(None))
    y = np.ones(3, np.float32)
    assert only(x, y) is y


def test_named_tuples() -> None:
    point = namedtuple("point", "x y")
    body = "  store i64 1, ptr %s0\n  store i64 2, ptr %s1\n  ret i64 0"
    function, _ = give(body, TupleResult((INT, INT), point))
    assert same(function(), point(1, 2))

    class Checked(point):
        def __new__(cls, x: int, y: int) -> Any:
            raise OverflowError("no point")

    failing, _ = give(body, TupleResult((INT, INT), Checked))
    with pytest.raises(OverflowError, match="no point"):
        failing()


# Lifetimes


@contextmanager
def nothing_grows(*watched: object) -> Iterator[None]:
    """Check that what runs inside leaves no reference, no block and no memory behind."""
    gc.collect()
    counts = [sys.getrefcount(value) for value in watched]
    blocks = sys.getallocatedblocks()
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    gc.collect()
    assert [sys.getrefcount(value) for value in watched] == counts
    assert abs(sys.getallocatedblocks() - blocks) < 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory < 8000


def run_many(function: Callable[..., Any], args: tuple[Any, ...], count: int = 100_000) -> None:
    for _ in range(count):
        function(*args)


def test_calls_leave_nothing_behind() -> None:
    point = namedtuple("point", "x y")
    x, marker, text = np.zeros(64, np.float32), object(), "".join(["a", "b", "c" * 9])
    real, kind = ScalarParam("float", np.dtype(np.float64)), ScalarResult("numpy", np.dtype("f8"))
    result = TupleResult(
        (ArrayResult(), InputResult(0), ConstantResult(marker), TupleResult((INT, kind), point))
    )
    body = f"  %x = {empty_text(np.float32, 64)}\n  store ptr %x, ptr %s0\n"
    body += "  store i64 123456, ptr %s1\n  store double 0.5, ptr %s2\n  ret i64 0"
    params = (float_param(None), INTEGER, real, ConstantParam(text))
    function, _ = give(body, result, *params)
    args = (x, 2**40, 2.5, "".join(["ab", "c" * 9]))
    array, same_x, same_marker, pair = function(*args)
    assert array.shape == (64,) and same_x is x and same_marker is marker and pair == (123456, 0.5)
    del array, same_x, same_marker, pair
    types = (point, np.float32, np.float64, tuple, int, float, np.ndarray, np.dtype(np.float32))
    with nothing_grows(marker, text, *args, *types):
        run_many(function, args)


def test_array_memory_is_freed() -> None:
    body = f"  %x = {empty_text(np.float64, 1000)}\n  store ptr %x, ptr %s0\n  ret i64 0"
    function, _ = give(body, ArrayResult())
    tracemalloc.start()
    run_many(function, (), 1000)
    traced = tracemalloc.get_traced_memory()[0]
    run_many(function, (), 1000)
    grown = tracemalloc.get_traced_memory()[0] - traced
    kept = [function() for _ in range(10)]
    held = tracemalloc.get_traced_memory()[0] - traced
    tracemalloc.stop()
    assert grown < 2000 and len(kept) * 8000 <= held < len(kept) * 9000


def test_misses_and_errors_leave_nothing_behind() -> None:
    x = np.zeros(4, np.float32)
    function, _ = give("  ret i64 %a2", ConstantResult(None), float_param(None), INTEGER)
    quiet = bind_again(function, lambda *_: None, lambda *_: None)
    for args in ((x, 1000), (x, 2.5), (x, x)):
        with nothing_grows(x):
            run_many(quiet, args)


def test_captures_leave_nothing_behind() -> None:
    x = np.zeros(4, np.float32)
    namespace: dict[str, Any] = {"x": x}
    captures = [CaptureGuard(namespace, "x", None, True), CaptureGuard(CellType(x), None, x)]
    native = "define i64 @native(ptr %a0, i64 %a1, ptr %results) { ret i64 0 }\n"
    signature = Signature((float_param(None),), InputResult(0))
    function = load(native, signature, Recorder(), captures, check_errstate=True)
    assert function() is x
    settings = np._core._multiarray_umath._extobj_contextvar.get()  # type: ignore[attr-defined]
    with nothing_grows(x, namespace, settings):
        run_many(function, ())


def bind_again(function: Any, next_callable: Any, handler: Any) -> Any:
    """The same entry with other neighbours."""
    *_, owner = function.__self__
    module, entry = owner
    return bind(module.address(entry.symbol), "again", next_callable, handler, owner=owner)


def test_binding_leaves_nothing_behind() -> None:
    function, recorder = echo(float_param(None))
    x = np.zeros(3, np.float32)
    bound = [bind_again(function, recorder.next, recorder.handler) for _ in range(5000)]
    assert all(one(x) == (x.ctypes.data, 3) for one in bound)
    del bound
    with nothing_grows(function.__self__[-1]):
        for _ in range(20_000):
            bind_again(function, recorder.next, recorder.handler)


def test_builtins_in_cycles_are_collected() -> None:
    class Owner:
        builtin: Any

    function, recorder = echo(float_param(None))
    owner = Owner()
    module, entry = function.__self__[-1]
    owner.builtin = bind(
        module.address(entry.symbol), "cycle", recorder.next, print, owner=(owner, module, entry)
    )
    alive = weakref.ref(owner)
    del owner
    gc.collect()
    assert alive() is None


# Threads


def test_threads() -> None:
    function, recorder = echo(float_param(None), INTEGER)
    arrays = [np.zeros(n + 2, np.float32) for n in range(4)]
    wrong: list[Any] = []

    def work(number: int) -> None:
        x = arrays[number]
        for count in range(5000):
            if function(x, count) != (x.ctypes.data, number + 2, count):
                wrong.append((number, count))
            if function(x, 0.5) is not MISSED:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(recorder.misses) == 20_000


WAIT = """
  br label %wait
wait:
  %turn = phi i64 [ 0, %0 ], [ %next, %more ]
  %seen = load volatile i64, ptr %a0
  %is.set = icmp ne i64 %seen, 0
  br i1 %is.set, label %done, label %more
more:
  %next = add i64 %turn, 1
  %goes.on = icmp ult i64 %turn, 20000000000
  br i1 %goes.on, label %wait, label %done
done:
  ret i64 0"""
"""The end of a native function that waits until its first argument is not 0 any more."""

FLAGS = ArrayParam(np.dtype(np.int64), (None,))


def test_release_gil_lets_others_run() -> None:
    body = f"  %x = {empty_text(np.float32, 5)}\n  store ptr %x, ptr %s0{WAIT}"
    result = TupleResult((ArrayResult(), InputResult(0)))
    function, _ = give(body, result, FLAGS, release_gil="always")
    flags = np.zeros(2, np.int64)
    timer = threading.Timer(0.05, lambda: flags.__setitem__(0, 1))
    timer.start()
    array, same_flags = function(flags)
    assert flags[0] == 1
    timer.join()
    assert array.shape == (5,) and same_flags is flags


def test_captures_stay_alive_without_the_gil() -> None:
    namespace: dict[str, Any] = {"flags": np.zeros(2000, np.int64)}
    native = f"define i64 @native(ptr %a0, i64 %a1, ptr %results) {{{WAIT}\n}}\n"
    captures = [CaptureGuard(namespace, "flags", None, True)]
    signature = Signature((FLAGS,), InputResult(0))
    function = load(native, signature, Recorder(), captures, release_gil="always")
    gone = weakref.ref(namespace["flags"])

    def rebind() -> None:
        namespace.pop("flags")[0] = 7

    timer = threading.Timer(0.05, rebind)
    timer.start()
    assert function()[0] == 7
    timer.join()
    assert gone() is None


def variable_of_a_function() -> tuple[Any, ObjectParam, Callable[[], Any]]:
    """A function that holds an array, its parameter, and what takes the array away from it."""
    held: Any = np.zeros(2000, np.int64)

    def inner() -> Any:
        return held

    def take() -> Any:
        nonlocal held
        taken, held = held, None
        return taken

    class_ = OpenFunction.of(inner)  # type: ignore[arg-type]
    return inner, ObjectParam(class_, class_.names, (FLAGS,)), take


def default_of_a_function() -> tuple[Any, ObjectParam, Callable[[], Any]]:
    """The same of the default of a parameter."""

    def inner(held: Any = None) -> Any:
        return held

    inner.__defaults__ = (np.zeros(2000, np.int64),)

    def take() -> Any:
        (taken,) = inner.__defaults__ or ()
        inner.__defaults__ = (None,)
        return taken

    class_ = OpenFunction.of(inner)  # type: ignore[arg-type]
    return inner, ObjectParam(class_, class_.names, (FLAGS,)), take


def keyword_of_a_partial() -> tuple[Any, ObjectParam, Callable[[], Any]]:
    """The same of a keyword argument."""
    held: partial[Any] = partial(dict, held=np.zeros(2000, np.int64))
    elements = (ConstantParam(dict), FLAGS)
    return (
        held,
        ObjectParam(OpenPartial(0, ("held",)), ("func", "held"), elements),
        lambda: held.keywords.pop("held"),
    )


@pytest.mark.parametrize(
    "make", [variable_of_a_function, default_of_a_function, keyword_of_a_partial]
)
def test_what_functions_hold_stays_alive_without_the_gil(make: Any) -> None:
    argument, param, take = make()
    native = f"define i64 @native(ptr %a0, i64 %a1, ptr %a2, i64 %a3, ptr %results) {{{WAIT}\n}}\n"
    signature = Signature((FLAGS, param), ConstantResult(None))
    function = load(native, signature, Recorder(), release_gil="always")
    flags = np.zeros(2, np.int64)
    seen: list[bool] = []
    held: list[weakref.ref[Any]] = []

    def rebind() -> None:
        held.append(weakref.ref(take()))
        seen.append(held[0]() is not None)
        flags[0] = 1

    timer = threading.Timer(0.05, rebind)
    timer.start()
    assert function(flags, argument) is None
    timer.join()
    assert seen == [True] and held[0]() is None


# Text


def test_text_holds_no_addresses() -> None:
    x, namespace = np.zeros(3), {"x": 1}
    signature = Signature((ConstantParam(x), float_param(None)), ConstantResult(namespace))
    captures = [CaptureGuard(namespace, "x", 1)]
    entry = make_entry(signature, "native", name="one", captures=captures)
    assert entry == make_entry(signature, "native", name="one", captures=captures)
    assert all(str(id(value)) not in entry.text for value in entry.constants)


def test_entries_share_a_module() -> None:
    native = "define i64 @native(ptr %r) { ret i64 0 }\n"
    entries = [
        make_entry(Signature((), ConstantResult(value)), "native", name=value) for value in "ab"
    ]
    declarations = {k: v for entry in entries for k, v in entry.declarations.items()}
    text = "\n".join([native, *declarations.values(), *(entry.definitions for entry in entries)])
    module = compile_module(text, name="both")
    for entry in entries:
        entry.fill(module)
        recorder = Recorder()
        address = module.address(entry.symbol)
        assert bind(address, "f", recorder.next, print, owner=module)() == entry.name


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="no name for an entry"):
        make_entry(Signature((), ConstantResult(None)), "native", name='x" {')
    with pytest.raises(ValueError, match="Python int reaches native code as int64"):
        echo(ScalarParam("int", np.dtype(np.int32)))
