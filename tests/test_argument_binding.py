"""Arguments given by name, left out or starred: bound as Python does, and taken by entries."""

# The functions under test are plain Python, as users write them.
# mypy: allow-untyped-defs, allow-untyped-calls

import inspect

import pytest

from jitcore import script
from jitcore.execution.argument_binding import parameter_binder
from jitcore.execution.executor import Executor


def plain(x, y=2, z=3):
    return x - y * z


def keyword_only(x, *, y, z=1):
    return x - y * z


def starred(x, /, y=5, *rest, default_1=7):
    return x - y * default_1 + len(rest)


def everything(x, /, y=5, *rest, default_1=7, **others):
    return x - y * default_1, rest, others


CALLS = [
    (plain, (1,), {}),
    (plain, (1,), {"z": 4}),
    (plain, (), {"z": 4, "y": 1, "x": 0}),
    (keyword_only, (1,), {"y": 2}),
    (keyword_only, (), {"z": 3, "y": 2, "x": 9}),
    (starred, (1,), {}),
    (starred, (1, 2, 3, 4), {"default_1": 6}),
    (everything, (1, 2, 3, 4), {"default_1": 6, "x": 1, "self": 2}),
]


@pytest.mark.parametrize(("function", "args", "keywords"), CALLS)
def test_parameters_are_bound_as_python_binds_them(function, args, keywords):
    signature = inspect.signature(function)
    bound = signature.bind(*args, **keywords)
    bound.apply_defaults()
    found = parameter_binder(signature)(*args, **keywords)
    assert found == tuple(bound.arguments[name] for name in signature.parameters)
    assert script(function)(*args, **keywords) == function(*args, **keywords)


@pytest.mark.parametrize(("function", "args", "keywords"), CALLS[:-1])
def test_entries_take_arguments_in_any_order(function, args, keywords, monkeypatch):
    scripted = script(function)
    scripted(*args, **keywords)

    def refuse(*_):
        raise AssertionError("no entry has taken the call")

    monkeypatch.setattr(Executor, "run", refuse)
    assert scripted(*args, **keywords) == function(*args, **keywords)
