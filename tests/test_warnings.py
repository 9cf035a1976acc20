"""Warnings of scripted functions: as in Python, each names its line, and is shown once for it."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import io
import linecache
import sys
import textwrap
import warnings
from typing import Any

import numpy as np
import pytest

import jitcore
from jitcore import script

X = np.ones(100)


def old(k):
    if k > 1:
        warnings.warn("old", DeprecationWarning, stacklevel=2)
    return k


def regions_and_loops(x, d):
    y = np.exp(-x) * 2 + x
    warnings.warn("one")  # noqa: B028
    y = np.tanh(y) * old(len(d)) + 1
    for key in d:
        y = np.sin(y) * np.cos(y) + d[key]
        warnings.warn(RuntimeWarning("in a loop"))  # noqa: B028
    return y


def of_the_caller(n):
    for i in range(n):
        warnings.warn("of the caller", stacklevel=2)
        warnings.warn(f"of its caller {i}", UserWarning, 3)
    return n


def beyond_the_first_call(x):
    warnings.warn("far away", UserWarning, 10_000)
    return x + 1


def called(function, args):
    return function(*args)


def shown(function, args, action):
    """What is shown of some calls: text, class, file and line, in order."""
    found = []
    globals().pop("__warningregistry__", None)
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        warnings.showwarning = lambda message, category, file, line, *_: found.append(
            (str(message), category, file, line)
        )
        for _ in range(20):
            called(function, args)
    globals().pop("__warningregistry__", None)
    return found


def without_folder(warning):
    text, category, file, line = warning
    return text, category, file.rpartition("/")[2], line


@pytest.mark.parametrize("action", ["default", "always", "module", "once"])
@pytest.mark.parametrize(
    ("function", "args"),
    [
        (regions_and_loops, (X, {"a": 1, "b": 2})),
        (of_the_caller, (2,)),
        (beyond_the_first_call, (X,)),
    ],
)
def test_they_are_those_of_python(function, args, action):
    expected = shown(function, args, action)
    assert shown(script(function), args, action) == expected
    file = io.BytesIO()
    jitcore.save(script(function), file)
    file.seek(0)
    loaded = shown(jitcore.load(file), args, action)
    assert list(map(without_folder, loaded)) == list(map(without_folder, expected))


def test_errors_of_the_call_itself():
    @script
    def f(category, level):
        warnings.warn("text", category, level)

    for args in ((3, 1), (UserWarning, "a"), (int, 1), (UserWarning, 10**30)):
        with pytest.raises((TypeError, OverflowError)) as expected:
            f.__wrapped__(*args)
        with pytest.raises(expected.type) as found:
            f(*args)
        assert str(found.value) == str(expected.value)


def test_a_warning_may_be_an_error():
    @script
    def f(x):
        x += 1
        warnings.warn("now", stacklevel=2)
        return x

    x = X.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="now"):
            f(x)
    assert x[0] == 2


def test_functions_of_no_module():
    text = textwrap.dedent(
        """
        def f(x):
            warnings.warn("of a cell", stacklevel=1)
            return x
        """
    )
    file = "<a cell of a notebook>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"warnings": warnings, "__name__": "no_module"}
    exec(compile(text, file, "exec"), namespace)
    assert "no_module" not in sys.modules
    found = shown(script(namespace["f"]), (1,), "default")
    assert found == [("of a cell", UserWarning, file, 3)]


def output_without_a_name(x):
    y = np.empty_like(x)
    np.maximum(x, 2 * x, y)
    return np.minimum(x, y, y)


def output_by_its_name(x):
    return np.maximum(x, 2 * x, out=np.empty_like(x))


@pytest.mark.parametrize("function", [output_without_a_name, output_by_its_name])
def test_outputs_that_numpy_warns_of(function):
    expected = shown(function, (X,), "always")
    found = shown(script(function), (X,), "always")
    assert [one[:2] for one in found] == [one[:2] for one in expected]


def test_a_constant_is_computed_quietly():
    def f(x):
        return np.float64(1.0) / np.float64(0.0) + x

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert script(f)(1.0) == np.inf
    assert not found
