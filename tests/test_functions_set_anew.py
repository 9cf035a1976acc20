"""Functions that are given other code, or other defaults, after they were compiled."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from jitcore import nn, script
from jitcore.execution.host_entries import CALLS_BEFORE_ENTRY

X = np.arange(4.0)
CALLS = (1, 2, CALLS_BEFORE_ENTRY + 8)


def scaled(x: Any, k: Any = 2.0) -> Any:
    return x * k


def shifted(x: Any, k: Any = 2.0) -> Any:
    return x + k


def named(x: Any, *, k: Any = 2.0) -> Any:
    return x - k


class Held:
    def look(self, x: Any, k: Any = 2.0) -> Any:
        return x * k

    def other(self, x: Any, k: Any = 2.0) -> Any:
        return x - k


class Layer(nn.Module):
    def forward(self, x: Any, k: Any = 3.0) -> Any:
        return x * k

    def other(self, x: Any, k: Any = 3.0) -> Any:
        return x / k


def direct(x: Any, held: Held) -> Any:
    return scaled(x) + 1.0


def by_name(x: Any, held: Held) -> Any:
    return named(x) + 1.0


def of_object(x: Any, held: Held) -> Any:
    return held.look(x) + 1.0


def in_python(x: Any, held: Held) -> Any:
    return [sorted({1: 2}), held.look(x), scaled(x) + 1.0]


PLACES = {
    direct: (scaled, shifted),
    by_name: (named, None),
    of_object: (Held.look, Held.other),
    in_python: (Held.look, Held.other),
}


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    functions: list[Any] = [scaled, shifted, named, Held.look, Layer.forward, direct]
    before = [(one.__code__, one.__defaults__, one.__kwdefaults__) for one in functions]
    yield
    for one, parts in zip(functions, before, strict=True):
        one.__code__, one.__defaults__, one.__kwdefaults__ = parts


def check(compiled: Any, plain: Any, *args: Any, calls: int = 3, **keywords: Any) -> None:
    for _ in range(calls):
        got, wanted = compiled(*args, **keywords), plain(*args, **keywords)
        assert type(got) is type(wanted)
        assert repr(got) == repr(wanted)


@pytest.mark.parametrize("calls", CALLS)
@pytest.mark.parametrize("plain", PLACES)
def test_what_a_function_calls(plain: FunctionType, calls: int) -> None:
    function, other = PLACES[plain]
    compiled, held, code = script(plain), Held(), function.__code__
    check(compiled, plain, X, held, calls=calls)
    if other is not None:
        function.__code__ = other.__code__
        check(compiled, plain, X, held)
        function.__code__ = code
        check(compiled, plain, X, held)
    if function.__defaults__:
        function.__defaults__ = (5.0,)
    else:
        function.__kwdefaults__ = {"k": 5.0}
    check(compiled, plain, X, held)


@pytest.mark.parametrize("calls", CALLS)
def test_the_function_itself(calls: int) -> None:
    def changing(x: Any, k: Any = 2.0) -> Any:
        return x * k

    def longer(x: Any, k: Any = 2.0, more: Any = 1) -> Any:
        return x * k + more

    def open_ended(*x: Any, k: Any = 3) -> Any:
        return len(x) * k

    compiled, plain = script(changing), changing
    for other in (longer, open_ended, longer, open_ended, scaled):
        check(compiled, plain, X, calls=calls)
        check(compiled, plain, X, 5, calls=calls)
        check(compiled, plain, X, k=5, calls=calls)
        plain.__code__ = other.__code__
        plain.__defaults__, plain.__kwdefaults__ = other.__defaults__, other.__kwdefaults__
    check(compiled, plain, X, calls=calls)
    plain.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'k'"):
        compiled(X)


@pytest.mark.parametrize("calls", CALLS)
def test_methods_of_script_modules(calls: int) -> None:
    compiled, plain = script(Layer()), Layer()
    check(compiled, plain, X, calls=calls)
    Layer.forward.__code__ = Layer.other.__code__
    check(compiled, plain, X)
    Layer.forward.__defaults__ = (7.0,)
    check(compiled, plain, X)
