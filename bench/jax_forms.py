"""The programs for JAX: the same source, and what depends on a size that JAX has to know."""

# mypy: allow-untyped-defs, allow-untyped-calls
from __future__ import annotations

import jax
import jax.numpy as jnp

from bench.translated import programs_with

jax.config.update("jax_enable_x64", True)

PROGRAMS = programs_with(jnp, jax.scipy.special)


def masked_statistics(x):
    chosen = x > 0.5
    top = jnp.max(x, where=chosen, initial=-jnp.inf)
    return jnp.mean(x, where=chosen), jnp.std(x, where=chosen), top
