"""The programs of the benchmark, as a user of NumPy would write them.

They take arrays and give arrays and never write to their arguments.  ``bench.jax_forms`` runs the
same source with JAX's modules in place of NumPy's and SciPy's, so nothing here is in-place.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import numpy as np
from scipy import special

COEFFICIENTS = (0.25, -1.5, 0.75, 2.0, -0.5, 1.25, -2.25, 0.125, 1.75, -0.625)
MANDELBROT_STEPS = 20
EARTH_RADIUS = 6371.0088
"""Mean radius of the earth in kilometres (IUGG)."""


def pointwise_chain(x, y, z):
    a = x * y + z
    b = a * a - x
    return (b + y) * 0.5 - a / (z + 2.0)


def gelu_tanh(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)))


def gelu_erf(x):
    return 0.5 * x * (1.0 + special.erf(x * 0.7071067811865476))


def silu(x):
    return x / (1.0 + np.exp(-x))


def normal_distribution(d):
    """The cumulative normal distribution, by Abramowitz and Stegun 26.2.17."""
    k = 1.0 / (1.0 + 0.2316419 * np.abs(d))
    tail = 1.781477937 + k * (-1.821255978 + k * 1.330274429)
    tail = k * (0.319381530 + k * (-0.356563782 + k * tail))
    tail = 0.3989422804014327 * np.exp(-0.5 * d * d) * tail
    return np.where(d > 0, 1.0 - tail, tail)


def black_scholes(price, strike, years):
    rate, volatility = 0.02, 0.3
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility * volatility) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * years)
    call = price * normal_distribution(d1) - discounted * normal_distribution(d2)
    return call, call + discounted - price


def lstm_cell(gates, cell):
    i, f, g, o = gates[0], gates[1], gates[2], gates[3]
    kept = cell / (1.0 + np.exp(-f))
    cell = kept + np.tanh(g) / (1.0 + np.exp(-i))
    return np.tanh(cell) / (1.0 + np.exp(-o)), cell


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def layer_norm(x, weight, bias):
    mean = x.mean(axis=1, keepdims=True)
    variance = x.var(axis=1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias


def rms_norm(x, weight):
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight


def linear_relu(x, weight, bias):
    return np.maximum(x @ weight.T + bias, 0)


def total(x):
    return np.sum(x)


def squared_distance(x, y):
    return np.sum((x - y) ** 2)


def logsumexp(x):
    top = x.max(axis=1)
    return np.log(np.sum(np.exp(x - top[:, None]), axis=1)) + top


def normalized_columns(x):
    return (x - x.mean(axis=0)) / x.std(axis=0)


def stencil(x):
    neighbours = x[:-2, 1:-1] + x[2:, 1:-1] + x[1:-1, :-2] + x[1:-1, 2:]
    return x[1:-1, 1:-1] + 0.1 * (neighbours - 4.0 * x[1:-1, 1:-1])


def hillshade(z):
    east = (z[1:-1, 2:] - z[1:-1, :-2]) / 60.0
    north = (z[2:, 1:-1] - z[:-2, 1:-1]) / 60.0
    slope = np.arctan(np.hypot(east, north))
    aspect = np.arctan2(north, -east)
    light = 0.7071 * np.cos(slope) + 0.7071 * np.sin(slope) * np.cos(2.356 - aspect)
    return np.clip(light, 0.0, 1.0)


def haversine(lat, lon, other_lat, other_lon):
    across = np.sin((other_lat - lat) * 0.5)
    along = np.sin((other_lon - lon) * 0.5)
    h = across * across + np.cos(lat) * np.cos(other_lat) * along * along
    return 2.0 * EARTH_RADIUS * np.arcsin(np.sqrt(h))


def polynomial(x):
    y = x * 0.0
    for coefficient in COEFFICIENTS:
        y = y * x + coefficient
    return y


def mandelbrot(re, im):
    x, y = re, im
    count = np.zeros(re.shape, np.int32)
    for _ in range(MANDELBROT_STEPS):
        x_squared, y_squared = x * x, y * y
        inside = x_squared + y_squared <= 4.0
        count = count + inside
        y = np.where(inside, 2.0 * x * y + im, y)
        x = np.where(inside, x_squared - y_squared + re, x)
    return count


def n_body(position, mass):
    dx = position[0] - position[0][:, None]
    dy = position[1] - position[1][:, None]
    dz = position[2] - position[2][:, None]
    distance_squared = dx * dx + dy * dy + dz * dz + 0.01
    pull = mass / (distance_squared * np.sqrt(distance_squared))
    return (dx * pull).sum(axis=1), (dy * pull).sum(axis=1), (dz * pull).sum(axis=1)


def masked_statistics(x):
    chosen = x[x > 0.5]
    return chosen.mean(), chosen.std(), chosen.max()


def integer_chain(x, y):
    mixed = (x ^ (y << 3)) + (x >> 2) * 5
    return np.where(mixed % 7 > 3, mixed // 3, -mixed) & 0xFFFF


def complex_chain(z, w):
    a = z * w + 1.0
    b = a * a - w
    return b * np.conj(z) + a
