"""``check_gradient``: compares a gradient with differences of the plain function."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

import numpy as np

import jitcore
from jitcore.execution.plans import NativePlan

__all__ = ["check_gradient", "differences", "is_native"]

STEP = 1e-5
"""Central differences are off by the square of it, and by what rounding makes of 1e-16 / 1e-5."""


def _moved(args: Sequence[Any], number: int, place: tuple[int, ...], by: float) -> list[Any]:
    """Copies of arguments, of which one element is another one."""
    copies = deepcopy(list(args))
    if isinstance(copies[number], np.ndarray):
        copies[number][place] += by
    else:
        copies[number] = type(copies[number])(copies[number] + by)
    return copies


def differences(
    function: Callable[..., Any], args: Sequence[Any], number: int, most: int | None = None
) -> Iterator[tuple[tuple[int, ...], float]]:
    """The derivatives with respect to the elements of an argument, where there are any.

    Where the function has a kink, or rounds, differences of several steps do not agree.  At most
    so many elements are looked at, of which nobody knows before which ones they are.
    """
    places = list(np.ndindex(np.shape(args[number])))
    if most is not None and most < len(places):
        places = random.sample(places, most)
    for place in places:

        def at(by: float, place: tuple[int, ...] = place) -> float:
            return float(function(*_moved(args, number, place, by)))

        if not np.isfinite(np.asarray(args[number])[place]):
            continue
        step = STEP * max(1.0, abs(float(np.asarray(args[number])[place])))
        wide = (at(step) - at(-step)) / (2 * step)
        narrow = (at(step / 4) - at(-step / 4)) / (step / 2)
        left, right = (at(0) - at(-step / 4)), (at(step / 4) - at(0))
        scale = max(1.0, abs(wide))
        if not np.isfinite(wide) or abs(wide - narrow) > 1e-4 * scale:
            continue
        if abs(left - right) <= 1e-2 * scale * step / 4:
            yield place, wide


def is_native(function: Any) -> bool:
    """Whether all that a function has compiled is native from end to end."""
    plans = [one.plan for one in function.specializations]
    return bool(plans) and all(isinstance(plan, NativePlan) for plan in plans)


def check_gradient(
    function: Callable[..., Any], *args: Any, native: bool = True, argnums: Any = None
) -> None:
    """Compare value and gradients, compiled and interpreted, with the plain function.

    Parameters
    ----------
    function : callable
        Gives a float; it is smooth at most of the arguments' elements.
    *args
        Those that are floats, or arrays of float64, are differentiated.
    native : bool
        The gradient has to be native from end to end.
    """
    numbers = argnums or tuple(n for n, one in enumerate(args) if _is_float(one))
    compiled = jitcore.value_and_grad(function, argnums=numbers)
    before = deepcopy(args)
    value, gradients = compiled(*args)
    np.testing.assert_equal(args, before)
    expected = function(*deepcopy(args))
    assert type(value) is type(expected)
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-10)
    assert not native or is_native(compiled)
    _, interpreted = compiled.__wrapped_function__(*args)
    for number, one, two in zip(numbers, gradients, interpreted, strict=True):
        wanted = dict(differences(function, args, number))
        assert wanted or np.size(args[number]) == 0, "no element has a derivative"
        _compare(one, args[number], wanted)
        _compare(two, args[number], wanted)


def _is_float(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return bool(value.dtype == np.float64)
    return isinstance(value, float)


def _compare(gradient: Any, argument: Any, wanted: dict[tuple[int, ...], float]) -> None:
    assert type(gradient) is type(argument)
    assert np.shape(gradient) == np.shape(argument)
    if isinstance(gradient, np.ndarray):
        assert gradient.dtype == argument.dtype
        assert gradient.flags.writeable
        assert not np.shares_memory(gradient, argument)
    for place, expected in wanted.items():
        found = float(np.asarray(gradient)[place])
        assert abs(found - expected) <= 1e-4 * max(1.0, abs(expected)), (place, found, expected)
