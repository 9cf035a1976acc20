"""Functions that are arguments, made anew for each call: compiled code goes by what they hold."""

# mypy: allow-untyped-defs, allow-untyped-calls

import functools
import gc
import linecache
import math
import sys
from typing import Any

import numpy as np

from checking import outcome
from jitcore import ignore, script
from jitcore.pipeline import NativePlan


def total(f, start, n):
    found = start
    for i in range(n):
        found += f(i * 0.5)
    return found


def is_native(compiled: Any) -> bool:
    return all(isinstance(one.plan, NativePlan) for one in compiled.specializations)


def test_what_a_function_holds_may_change() -> None:
    compiled = script(total)
    for number in range(20):
        factor, shift = 0.25 * number, number
        args = (lambda x: x * factor + shift, 1.0, 5)
        assert outcome(compiled, args) == outcome(total, args)
    assert len(compiled.specializations) == 3
    assert is_native(compiled)


def test_what_a_function_holds_is_read_at_the_call() -> None:
    compiled = script(total)
    factor: Any = 0.5

    def scaled(x):
        return x * factor

    assert compiled(scaled, 0.0, 4) == total(scaled, 0.0, 4) == 1.5
    factor = 2.0
    assert compiled(scaled, 0.0, 4) == total(scaled, 0.0, 4) == 6.0
    assert len(compiled.specializations) == 1
    factor = np.ones(2)
    assert outcome(compiled, (scaled, 0.0, 4)) == outcome(total, (scaled, 0.0, 4))


def test_arrays_and_defaults() -> None:
    compiled = script(total)
    for number in range(4):
        weights = np.arange(3.0) + number
        shift = 0.5 * number
        functions: list[Any] = [
            lambda x, y=shift: (weights * x).sum() + y,
            lambda x, y=shift, z=2.0: weights[1] * x + y * z,
        ]
        for function in functions:
            assert outcome(compiled, (function, 0.0, 4)) == outcome(total, (function, 0.0, 4))
    assert len(compiled.specializations) == 2
    assert is_native(compiled)


def test_functions_in_functions() -> None:
    compiled = script(total)

    def plus(inner, shift):
        return lambda x: inner(x) + shift

    for number in range(4):
        factor = 0.5 * number
        function = plus(plus(lambda x: x * factor, 1.0), 0.25 * number)
        assert outcome(compiled, (function, 0.0, 4)) == outcome(total, (function, 0.0, 4))
    assert len(compiled.specializations) == 1
    assert is_native(compiled)


def test_keywords_and_wrong_arguments() -> None:
    def named(f, x):
        return f(x, scale=2.0) - f(scale=0.5, x=x)

    def one_too_many(f, x):
        return f(x, 1, 2, 3)

    def starred(f, xs):
        return f(*xs)

    for function, second in ((named, 1.5), (one_too_many, 1.5), (starred, (1.5, 2.5))):
        compiled = script(function)
        for shift in (0.5, 1.5):
            args = (lambda x, scale=1.0: x * scale + shift, second)
            assert outcome(compiled, args) == outcome(function, args)


def test_functions_that_are_more_than_called() -> None:
    def mapped(f, xs):
        return list(map(f, xs))

    def given_back(f, x):
        return f(x), f

    def named(f, x):
        return f(x), f.__name__

    def perhaps(f, x):
        return x if f is None else f(x)

    def same(f, x):
        return f(x), f is f, f == f

    for function in (given_back, named, perhaps, same):
        compiled = script(function)
        for shift in (0.5, 1.5, 2.5):
            args = (lambda x: x + shift, 2.0)
            assert outcome(compiled, args) == outcome(function, args)
        if function is perhaps:
            assert is_native(compiled) and len(compiled.specializations) == 1
            assert compiled(None, 2.0) == 2.0
    compiled = script(mapped)
    for shift in (0.5, 1.5):
        assert compiled(lambda x: x + shift, [1, 2]) == [1 + shift, 2 + shift]


def test_functions_that_change_what_is_around_them() -> None:
    compiled = script(total)

    def counting():
        count = 0

        def counted(x):
            nonlocal count
            count += 1
            return x * count

        return counted, lambda: count

    for _ in range(3):
        one, count_of_one = counting()
        other, count_of_other = counting()
        assert compiled(one, 0.0, 4) == total(other, 0.0, 4)
        assert count_of_one() == count_of_other() == 4


def test_functions_that_write_to_arrays() -> None:
    def filled(f, x):
        for i in range(len(x)):
            f(i)
        return x.sum()

    def writer(target, value):
        def write(i):
            target[i] = value

        return write

    compiled = script(filled)
    for value in (1.5, 2.5):
        for shift in (0, 1, 2):
            mine, plain = np.zeros(8), np.zeros(8)
            results = []
            for memory, function in ((mine, compiled), (plain, filled)):
                write = writer(memory[shift : shift + 4], value)
                results.append(outcome(functools.partial(function, write, memory[:4]), ()))
            assert results[0] == results[1]
            np.testing.assert_array_equal(mine, plain)


def test_exceptions_of_functions() -> None:
    compiled = script(total)
    for number in (3.0, 1.0, 0.5):
        args = (lambda x: 1 / (x - number), 0.0, 5)
        assert outcome(compiled, args) == outcome(total, args)
        args = (lambda x: math.sqrt(number - x), 0.0, 5)
        assert outcome(compiled, args) == outcome(total, args)


def test_functions_that_compiled_code_leaves_alone() -> None:
    compiled = script(total)

    def recursive(depth):
        def power(x):
            return x if x < depth else 2.0 * power(x - 1.0)

        return power

    def marked(factor):
        @ignore
        def scaled(x):
            return x * factor

        return scaled

    def keyword(factor):
        def scaled(x, *, by=factor):
            return x * by

        return scaled

    for make in (recursive, marked, keyword):
        for number in (0.5, 1.5, 2.5):
            args = (make(number), 0.0, 6)
            assert outcome(compiled, args) == outcome(total, args)


def test_the_same_code_in_other_namespaces() -> None:
    text = "def f(x):\n    return x * FACTOR\n"
    linecache.cache["<namespaces>"] = (len(text), None, text.splitlines(True), "<namespaces>")
    code = compile(text, "<namespaces>", "exec")
    compiled = script(total)
    for factor in (0.5, 2.0):
        namespace: dict[str, Any] = {"FACTOR": factor}
        exec(code, namespace)
        assert compiled(namespace["f"], 0.0, 4) == total(namespace["f"], 0.0, 4) == 3.0 * factor
        namespace["FACTOR"] = 10.0
        assert compiled(namespace["f"], 0.0, 4) == 30.0


def test_other_callables() -> None:
    compiled = script(total)
    for number in (0.5, 1.5):
        args = (functools.partial(lambda y, x: x * y, number), 0.0, 4)
        assert outcome(compiled, args) == outcome(total, args)
    for function in (math.sqrt, abs, np.sqrt, float):
        assert outcome(compiled, (function, 0.0, 4)) == outcome(total, (function, 0.0, 4))


def test_references_are_counted() -> None:
    compiled, weights = script(total), np.ones(3)

    def make(factor):
        return lambda x, y=factor: (weights * x).sum() * y

    function = make(0.5)
    compiled(function, 0.0, 3)
    gc.collect()
    before = sys.getrefcount(function), sys.getrefcount(weights)
    for _ in range(50):
        compiled(function, 0.0, 3)
    assert (sys.getrefcount(function), sys.getrefcount(weights)) == before
    for factor in (2, 3, 4, np.float32(1.5), True):
        compiled(make(factor), 0.0, 3)
    gc.collect()
    assert is_native(compiled)
    assert sys.getrefcount(weights) == before[1]


def test_partial_functions() -> None:
    def sloped(a, b, x, scale=1.0):
        return (a * x + b) * scale

    def shifted(weights, x, *, by):
        return (weights * x).sum() + by

    several = [script(total) for _ in range(7)]
    for number in range(5):
        slope = 0.5 * number
        made = (
            functools.partial(sloped, slope, 1.0),
            functools.partial(sloped, slope, 1.0, scale=2.0 + number),
            functools.partial(functools.partial(sloped, slope), number),
            functools.partial(lambda y, x: x * y + slope, 0.5),
            functools.partial(shifted, np.arange(3.0) + slope, by=slope),
            functools.partial(math.fmod, 5.0 + slope),
            functools.partial(np.hypot, slope),
        )
        for compiled, function in zip(several, made, strict=True):
            args = (function, 0.25, 5)
            assert outcome(compiled, args) == outcome(total, args)
    assert all(map(is_native, several))
    assert max(len(compiled.specializations) for compiled in several) == 3
    for function in (functools.partial(sloped, 1.0), functools.partial(sloped, 1.0, 2.0, 3.0, 4.0)):
        assert outcome(compiled, (function, 0.0, 2)) == outcome(total, (function, 0.0, 2))
    changed = functools.partial(sloped, 1.0, 2.0, scale=1.0)
    for scale in (1.0, 3.0):
        changed.keywords["scale"] = scale
        assert compiled(changed, 0.0, 3) == total(changed, 0.0, 3)
    changed.keywords["b"] = 1.0
    assert outcome(compiled, (changed, 0.0, 2)) == outcome(total, (changed, 0.0, 2))


def logged(x, callback, table):
    total = 0.0
    for value in x:
        total += value * value
    callback(total)
    table["total"] = total
    return total


def test_functions_that_are_made_anew_are_not_compiled_for_again_and_again():
    scripted, x = script(logged), np.arange(50.0)
    for number in range(12):
        log, table = list[float](), dict[str, float]()
        add = log.append if number % 2 else lambda value, log=log: log.append(value)
        assert scripted(x, add, table) == logged(x, add, {})
        assert log == [table["total"]] * 2
    assert len(scripted.specializations) <= 4
