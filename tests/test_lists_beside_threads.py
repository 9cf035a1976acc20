"""What other threads set while compiled code writes to lists and objects."""

# mypy: allow-untyped-defs, allow-untyped-calls

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from jitcore import script
from jitcore.pipeline import NativePlan

ROUNDS = 200


class Body:
    """An object with two numbers."""

    def __init__(self, x):
        self.x = x
        self.y = 0.0


def largest(x, n):
    found = 0.0
    for _ in range(n):
        found += float(np.abs(x + found).max()) * 0.001
    return found


def to_row(rows, x, n):
    rows[0][0] = largest(x, n)


def to_object_in_list(bodies, x, n):
    bodies[0].x = largest(x, n)


def to_list(numbers, x, n):
    numbers[0] = largest(x, n)


def to_object(body, x, n):
    found = largest(x, n)
    if found < 0.0:
        body.x = 1.0
    body.y = found


def set_row(rows):
    rows[1][0] = 5.0


def set_object_in_list(bodies):
    bodies[1].x = 5.0


def set_item(numbers):
    numbers[1] = 5.0


def set_attribute(body):
    body.x = 5.0


CASES: list[tuple[Any, Any, Any, Any]] = [
    (to_row, lambda: [[0.0], [0.0]], set_row, lambda rows: rows[1][0]),
    (
        to_object_in_list,
        lambda: [Body(0.0), Body(0.0)],
        set_object_in_list,
        lambda bodies: bodies[1].x,
    ),
    (to_list, lambda: [0.0, 0.0], set_item, lambda numbers: numbers[1]),
    (to_object, lambda: Body(0.0), set_attribute, lambda body: body.x),
]


@pytest.mark.parametrize(("plain", "make", "change", "look"), CASES)
def test_no_update_of_another_thread_is_lost(plain: Any, make: Any, change: Any, look: Any) -> None:
    compiled, x = script(plain), np.ones(1_000_000)
    compiled(make(), x, 1)
    assert isinstance(compiled.specializations[0].plan, NativePlan)
    shared = make()
    thread = threading.Thread(target=compiled, args=(shared, x, ROUNDS))
    thread.start()
    time.sleep(0.01)
    change(shared)
    thread.join()
    assert look(shared) == 5.0
