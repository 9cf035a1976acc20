"""The programs as loops, as someone who knows Numba would write them.

Every function is plain Python here; `bench.peers` compiles it twice, for one thread (where
``prange`` is ``range``) and for several.  Functions of rows and columns cut the work by rows.
"""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import math

import numpy as np
from numba import njit, prange

from bench.programs import COEFFICIENTS, EARTH_RADIUS, MANDELBROT_STEPS


def pointwise_chain(x, y, z):
    out = np.empty_like(x)
    half, two = x.dtype.type(0.5), x.dtype.type(2.0)
    for i in prange(x.size):
        a = x[i] * y[i] + z[i]
        out[i] = (a * a - x[i] + y[i]) * half - a / (z[i] + two)
    return out


def gelu_tanh(x):
    out = np.empty_like(x)
    real = x.dtype.type
    half, one, scale, cubic = real(0.5), real(1.0), real(0.7978845608028654), real(0.044715)
    for i in prange(x.size):
        v = x[i]
        out[i] = half * v * (one + math.tanh(scale * (v + cubic * v * v * v)))
    return out


def gelu_erf(x):
    out = np.empty_like(x)
    real = x.dtype.type
    half, one, scale = real(0.5), real(1.0), real(0.7071067811865476)
    for i in prange(x.size):
        out[i] = half * x[i] * (one + math.erf(x[i] * scale))
    return out


def silu(x):
    out = np.empty_like(x)
    one = x.dtype.type(1.0)
    for i in prange(x.size):
        out[i] = x[i] / (one + math.exp(-x[i]))
    return out


@njit(inline="always")
def normal_distribution(d, real):
    one = real(1.0)
    k = one / (one + real(0.2316419) * abs(d))
    tail = real(1.781477937) + k * (real(-1.821255978) + k * real(1.330274429))
    tail = k * (real(0.319381530) + k * (real(-0.356563782) + k * tail))
    tail = real(0.3989422804014327) * math.exp(real(-0.5) * d * d) * tail
    return one - tail if d > 0 else tail


def black_scholes(price, strike, years):
    call, put = np.empty_like(price), np.empty_like(price)
    real = price.dtype.type
    rate, volatility, drift = real(0.02), real(0.3), real(0.02 + 0.5 * 0.3 * 0.3)
    for i in prange(price.size):
        spread = volatility * math.sqrt(years[i])
        d1 = (math.log(price[i] / strike[i]) + drift * years[i]) / spread
        discounted = strike[i] * math.exp(-rate * years[i])
        upper = normal_distribution(d1, real)
        lower = normal_distribution(d1 - spread, real)
        call[i] = price[i] * upper - discounted * lower
        put[i] = call[i] + discounted - price[i]
    return call, put


def lstm_cell(gates, cell):
    hidden, following = np.empty_like(cell), np.empty_like(cell)
    one = cell.dtype.type(1.0)
    for i in prange(cell.size):
        kept = cell[i] / (one + math.exp(-gates[1, i]))
        new = kept + math.tanh(gates[2, i]) / (one + math.exp(-gates[0, i]))
        following[i] = new
        hidden[i] = math.tanh(new) / (one + math.exp(-gates[3, i]))
    return hidden, following


def softmax(x):
    out = np.empty_like(x)
    rows, columns = x.shape
    for i in prange(rows):
        top = x[i, 0]
        for j in range(columns):
            top = max(top, x[i, j])
        total = x.dtype.type(0.0)
        for j in range(columns):
            out[i, j] = math.exp(x[i, j] - top)
            total += out[i, j]
        for j in range(columns):
            out[i, j] /= total
    return out


def layer_norm(x, weight, bias):
    out = np.empty_like(x)
    rows, columns = x.shape
    real = x.dtype.type
    for i in prange(rows):
        total = real(0.0)
        for j in range(columns):
            total += x[i, j]
        mean = total / real(columns)
        squares = real(0.0)
        for j in range(columns):
            squares += (x[i, j] - mean) * (x[i, j] - mean)
        scale = real(1.0) / math.sqrt(squares / real(columns) + real(1e-5))
        for j in range(columns):
            out[i, j] = (x[i, j] - mean) * scale * weight[j] + bias[j]
    return out


def rms_norm(x, weight):
    out = np.empty_like(x)
    rows, columns = x.shape
    real = x.dtype.type
    for i in prange(rows):
        squares = real(0.0)
        for j in range(columns):
            squares += x[i, j] * x[i, j]
        scale = real(1.0) / math.sqrt(squares / real(columns) + real(1e-5))
        for j in range(columns):
            out[i, j] = x[i, j] * scale * weight[j]
    return out


def squared_distance(x, y):
    total = x.dtype.type(0.0)
    for i in prange(x.size):
        total += (x[i] - y[i]) * (x[i] - y[i])
    return total


def logsumexp(x):
    rows, columns = x.shape
    out = np.empty(rows, x.dtype)
    for i in prange(rows):
        top = x[i, 0]
        for j in range(columns):
            top = max(top, x[i, j])
        total = x.dtype.type(0.0)
        for j in range(columns):
            total += math.exp(x[i, j] - top)
        out[i] = math.log(total) + top
    return out


def normalized_columns(x):
    rows, columns = x.shape
    real = x.dtype.type
    mean, squares = np.zeros(columns, x.dtype), np.zeros(columns, x.dtype)
    for i in range(rows):
        for j in range(columns):
            mean[j] += x[i, j]
    mean /= real(rows)
    for i in range(rows):
        for j in range(columns):
            squares[j] += (x[i, j] - mean[j]) * (x[i, j] - mean[j])
    scale = real(1.0) / np.sqrt(squares / real(rows))
    out = np.empty_like(x)
    for i in prange(rows):
        for j in range(columns):
            out[i, j] = (x[i, j] - mean[j]) * scale[j]
    return out


def stencil(x):
    rows, columns = x.shape[0] - 2, x.shape[1] - 2
    out = np.empty((rows, columns), x.dtype)
    tenth, four = x.dtype.type(0.1), x.dtype.type(4.0)
    for i in prange(rows):
        for j in range(columns):
            around = x[i, j + 1] + x[i + 2, j + 1] + x[i + 1, j] + x[i + 1, j + 2]
            centre = x[i + 1, j + 1]
            out[i, j] = centre + tenth * (around - four * centre)
    return out


def hillshade(z):
    rows, columns = z.shape[0] - 2, z.shape[1] - 2
    out = np.empty((rows, columns), z.dtype)
    real = z.dtype.type
    width, weight, turn, zero, one = real(60.0), real(0.7071), real(2.356), real(0.0), real(1.0)
    for i in prange(rows):
        for j in range(columns):
            east = (z[i + 1, j + 2] - z[i + 1, j]) / width
            north = (z[i + 2, j + 1] - z[i, j + 1]) / width
            slope = math.atan(math.sqrt(east * east + north * north))
            aspect = math.atan2(north, -east)
            light = weight * math.cos(slope)
            light += weight * math.sin(slope) * math.cos(turn - aspect)
            out[i, j] = min(max(light, zero), one)
    return out


def haversine(lat, lon, other_lat, other_lon):
    out = np.empty_like(lat)
    real = lat.dtype.type
    half, diameter = real(0.5), real(2.0 * EARTH_RADIUS)
    for i in prange(lat.size):
        across = math.sin((other_lat[i] - lat[i]) * half)
        along = math.sin((other_lon[i] - lon[i]) * half)
        h = across * across + math.cos(lat[i]) * math.cos(other_lat[i]) * along * along
        out[i] = diameter * math.asin(math.sqrt(h))
    return out


def polynomial(x):
    out = np.empty_like(x)
    coefficients = np.array(COEFFICIENTS).astype(x.dtype)
    for i in prange(x.size):
        y = x.dtype.type(0.0)
        for k in range(coefficients.size):
            y = y * x[i] + coefficients[k]
        out[i] = y
    return out


def mandelbrot(re, im):
    out = np.empty(re.size, np.int32)
    two, four = re.dtype.type(2.0), re.dtype.type(4.0)
    for i in prange(re.size):
        x, y = re[i], im[i]
        count = 0
        while count < MANDELBROT_STEPS and x * x + y * y <= four:
            x, y = x * x - y * y + re[i], two * x * y + im[i]
            count += 1
        out[i] = count
    return out


def n_body(position, mass):
    bodies = mass.size
    out = np.zeros((3, bodies), position.dtype)
    softening = position.dtype.type(0.01)
    for i in prange(bodies):
        for j in range(bodies):
            dx = position[0, j] - position[0, i]
            dy = position[1, j] - position[1, i]
            dz = position[2, j] - position[2, i]
            r2 = dx * dx + dy * dy + dz * dz + softening
            pull = mass[j] / (r2 * math.sqrt(r2))
            out[0, i] += dx * pull
            out[1, i] += dy * pull
            out[2, i] += dz * pull
    return out[0], out[1], out[2]


def masked_statistics(x):
    count = 0
    total = x.dtype.type(0.0)
    top = x.dtype.type(-np.inf)
    for i in prange(x.size):
        if x[i] > 0.5:
            count += 1
            total += x[i]
            top = max(top, x[i])
    mean = total / x.dtype.type(count)
    squares = x.dtype.type(0.0)
    for i in prange(x.size):
        if x[i] > 0.5:
            squares += (x[i] - mean) * (x[i] - mean)
    return mean, math.sqrt(squares / x.dtype.type(count)), top


def integer_chain(x, y):
    out = np.empty_like(x)
    integer = x.dtype.type
    for i in prange(x.size):
        mixed = integer((x[i] ^ (y[i] << 3)) + (x[i] >> 2) * integer(5))
        chosen = mixed // integer(3) if mixed % integer(7) > 3 else -mixed
        out[i] = chosen & integer(0xFFFF)
    return out


def complex_chain(z, w):
    out = np.empty_like(z)
    one = z.dtype.type(1.0)
    for i in prange(z.size):
        a = z[i] * w[i] + one
        out[i] = (a * a - w[i]) * z[i].conjugate() + a
    return out
