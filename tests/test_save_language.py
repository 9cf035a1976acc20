"""Every program of the language's table, saved and loaded: it does what plain Python does."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import io
import re

import pytest
from language_checking import place_of
from saving import saved
from test_language import PROGRAMS

import jitcore
from checking import observed

REFUSED = {
    "`global`": "a variable outside of the program",
    "`ignore`": "marked with ignore",
    "`import` in a function": "of posixpath|cannot save an import",
    "`nonlocal`": "variable",
    "calls of functions": "_lru_cache_wrapper",
    "formatting": "a generator that is passed on",
    "functions that see changes": "may change afterwards|passed on|'wraps' of functools",
    "generator expressions as arguments": "a generator that is passed on",
    "generator functions": "'yield' is not supported",
    "recursion": "a nested function that calls itself|may change afterwards",
}
"""Constructs of which some programs cannot be saved, and what the error says."""


@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=[str(one) for one in PROGRAMS])
def test_program(number: int) -> None:
    program = PROGRAMS[number]
    scripted = jitcore.script(program.function)
    try:
        data = saved(scripted)
    except jitcore.SerializationError as error:
        message = REFUSED.get(program.construct, "no program of this kind is refused")
        assert re.search(message, str(error)), str(error)
        return
    loaded = jitcore.load(io.BytesIO(data))
    assert loaded.code == scripted.code
    assert str(loaded.graph) == str(scripted.graph)
    for args in program.calls:
        # Classes of this process are what they were.
        assert observed(loaded, args) == observed(program.function, args)
    for args in program.calls:
        observed(scripted, args)
    assert place_of(loaded) == place_of(scripted)
    assert saved(loaded) == data


def test_most_programs_can_be_saved() -> None:
    kinds = {program.construct for program in PROGRAMS}
    assert REFUSED.keys() <= kinds and len(REFUSED) < len(kinds) / 5
