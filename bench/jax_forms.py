"""The programs for JAX: the same source, and what depends on a size that JAX has to know."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import jax
import jax.numpy as jnp

from bench.translated import programs_with

jax.config.update("jax_enable_x64", True)
# GPUs would multiply float32 with 10 bits of its 23, which the other libraries do not.
jax.config.update("jax_default_matmul_precision", "float32")

PROGRAMS = programs_with(jnp, jax.scipy.special)


def masked_statistics(x):
    chosen = x > 0.5
    top = jnp.max(x, where=chosen, initial=-jnp.inf)
    return jnp.mean(x, where=chosen), jnp.std(x, where=chosen), top


def convolution_relu(x, weight, bias):
    sums = jax.lax.conv_general_dilated(x, weight, (1, 1), ((1, 1), (1, 1)))
    return jnp.maximum(sums + bias[:, None, None], 0)
