"""The ``cmath`` module, on numbers that are not finite too."""
# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import cmath
from typing import Any

import pytest

from jitcore import script


def exponential(z):
    return cmath.exp(z)


def root(z):
    return cmath.sqrt(z)


def parts(z):
    return cmath.polar(z), z.real, z.imag, z.conjugate()


def angle(z):
    return cmath.phase(z)


def in_host_program(z):
    return {str(z): cmath.exp(z)}, cmath.sqrt(z), cmath.rect(z.real, z.imag)


NUMBERS = [1 + 2j, -4 - 0j, complex(-4, -0.0), 1e-310 + 1e-311j, 709.5 + 1j, 800 + 1j]
SPECIAL = [complex("inf"), complex("nan"), complex("1-infj"), 1e308 + 1e308j, 2.5 - 5e-324j]


def seen(function, z):
    try:
        return repr(function(z))
    except (ValueError, OverflowError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("function", [exponential, root, parts, angle, in_host_program])
def test_functions_give_and_raise_what_pythons_do(function: Any) -> None:
    scripted = script(function)
    for z in NUMBERS + SPECIAL:
        assert seen(scripted, z) == seen(function, z)
