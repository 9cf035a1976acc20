"""The programs that are one expression, for numexpr.

Constants are arguments, because numexpr computes float32 arrays and float literals in float64.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numexpr

from bench.programs import COEFFICIENTS, EARTH_RADIUS


def constants(array, **values):
    """Numbers in the dtype of an array."""
    return {name: array.dtype.type(value) for name, value in values.items()}


def pointwise_chain(x, y, z):
    operands = {"x": x, "y": y, "z": z, **constants(x, half=0.5, two=2.0)}
    text = "((x*y + z) * (x*y + z) - x + y) * half - (x*y + z) / (z + two)"
    return numexpr.evaluate(text, operands)


def gelu_tanh(x):
    operands = {"x": x, **constants(x, half=0.5, one=1, scale=0.7978845608028654, cubic=0.044715)}
    text = "half * x * (one + tanh(scale * (x + cubic * x * x * x)))"
    return numexpr.evaluate(text, operands)


def silu(x):
    return numexpr.evaluate("x / (one + exp(-x))", {"x": x, **constants(x, one=1)})


def squared_distance(x, y):
    return numexpr.evaluate("sum((x - y) * (x - y))", {"x": x, "y": y})


def stencil(x):
    operands = {
        "north": x[:-2, 1:-1],
        "south": x[2:, 1:-1],
        "west": x[1:-1, :-2],
        "east": x[1:-1, 2:],
        "centre": x[1:-1, 1:-1],
        **constants(x, tenth=0.1, four=4),
    }
    text = "centre + tenth * (north + south + west + east - four * centre)"
    return numexpr.evaluate(text, operands)


def haversine(lat, lon, other_lat, other_lon):
    operands = {
        "lat": lat,
        "lon": lon,
        "other_lat": other_lat,
        "other_lon": other_lon,
        **constants(lat, half=0.5, diameter=2.0 * EARTH_RADIUS),
    }
    text = (
        "diameter * arcsin(sqrt(sin((other_lat - lat) * half) ** 2"
        " + cos(lat) * cos(other_lat) * sin((other_lon - lon) * half) ** 2))"
    )
    return numexpr.evaluate(text, operands)


def polynomial(x):
    names = [f"c{place}" for place in range(len(COEFFICIENTS))]
    text = names[0]
    for name in names[1:]:
        text = f"({text}) * x + {name}"
    operands = {"x": x, **constants(x, **dict(zip(names, COEFFICIENTS, strict=True)))}
    return numexpr.evaluate(text, operands)
