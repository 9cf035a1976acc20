# mypy: allow-untyped-defs, allow-untyped-calls
"""Functions of NumPy with arguments that few programs give them: lists, no elements, wrong axes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from checking import check, function_from_source
from jitcore import fusion_strategy, script

X = np.arange(3.0).reshape(3, 1)

OUTER = [
    "np.add.outer(x, [0, 2])",
    "np.logical_or.outer(x, [0, 2])",
    "np.multiply.outer(x.astype(np.float32), [0.5])",
    "np.add.outer([1, 2], x)",
    "np.add.outer(x, (1, 2))",
    "np.subtract.outer([1], [2])",
    "np.maximum.outer(x, [[0, 2]])",
    "np.maximum.outer(x, [x[1, 0], 2])",
    "np.add.outer([], x)",
]
AXES = [
    "np.argmax(x, axis=(0,))",
    "np.argmin(x, axis=(0, 1))",
    "np.argmin(x, axis=())",
    "x.argmax((1,))",
]
REPEATS = [
    "np.repeat(x[:, 0], x[:, 0][x[:, 0] > 1].astype(int))",
    "np.repeat(x, np.array([2]), axis=0)",
    "np.repeat(x[:, 0], [1, 2])",
    "np.repeat(x, [1, 2], axis=0)",
    "np.repeat(x[:, 0], np.array([-2]))",
    "np.repeat(x[:0, 0], np.array([-2]))",
    "np.repeat(x[:1, 0], np.array([-2]))",
    "np.repeat(x[:, 0], np.array([1, -2, 1]))",
    "np.repeat(x[:, 0], np.arange(0))",
    "np.repeat(x[:, 0], np.array([2, 0, 1]))",
]
ABSENT = [
    "np.compress(x[:, 0] > 0, x[:0])",
    "np.compress(x[:, 0] > 0, x[:0], axis=0)",
    "np.compress(x[:, 0] > 9, x[:0], axis=0)",
    "np.extract(x > 0, x[:0])",
    "np.extract(x > 9, x[:0])",
    "np.compress([0, 1, 1, 1], x, axis=0)",
    "np.linspace(0, 1, num=-3)",
    "np.linspace(x[0, 0], 2, num=int(x[0, 0]) - 2)",
]


# Where Python computes something, too, errors of compiled parts are what the caller gets.
FORMS = ["return {}", "y = np.partition(x, 0, axis=0)\n    return y, {}"]


@pytest.mark.parametrize("strategy", ["STATIC", "DYNAMIC"])
@pytest.mark.parametrize("expressions", [OUTER, AXES, REPEATS, ABSENT])
def test_as_numpy(strategy: str, expressions: list[str]) -> None:
    with fusion_strategy([(strategy, 20)]):
        for expression, form in itertools.product(expressions, FORMS):
            body = form.format(expression)
            function = function_from_source(f"def f(x):\n    {body}\n")
            compiled = script(function)
            check(function, X, script=lambda _, compiled=compiled: compiled)
            check(function, X[::-1] + 1, script=lambda _, compiled=compiled: compiled)
