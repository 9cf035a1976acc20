"""Source of functions of any length, whose compilation is measured: for NumPy and for JAX."""

from __future__ import annotations

__all__ = ["chain", "fresh_function", "masked", "sines", "time_loop"]

HEADER = """\
import numpy as np
{imports}

def arguments():
    random = np.random.default_rng(0)
    return tuple(random.standard_normal({shape}).astype(np.float32) for _ in range(2))


"""

CENTRE = "1:-1, 1:-1"
AROUND = ("1:-1, :-2", "1:-1, 2:", ":-2, 1:-1", "2:, 1:-1")


def _header(shape: str, imports: str = "") -> str:
    return HEADER.format(shape=shape, imports=imports)


def fresh_function(for_jax: bool = False) -> str:
    """Ten operations on two vectors of 1000 elements."""
    np = "jnp" if for_jax else "np"
    return _header("1000", "import jax.numpy as jnp" if for_jax else "") + (
        "def subject(x, y):\n"
        "    a = x * y + 0.5\n"
        f"    b = {np}.exp(-a * a) + x\n"
        f"    return {np}.sqrt({np}.abs(b)) / (y * y + 1.0)\n"
    )


def chain(nodes: int, for_jax: bool = False) -> str:
    """Additions and multiplications one after the other: a graph of so many nodes."""
    lines = ["def subject(x, y):"]
    for place in range(nodes // 2):
        lines.append(f"    x = x * {1.0 - place * 1e-6:.6f} + y")
    return _header("1000") + "\n".join([*lines, "    return x", ""])


def sines(count: int, for_jax: bool = False) -> str:
    """Sines one of another: a graph of vector math."""
    np = "jnp" if for_jax else "np"
    lines = [f"    x = {np}.sin(x * {1.0 - place * 1e-4:.4f} + y)" for place in range(count)]
    header = _header("1000", "import jax.numpy as jnp" if for_jax else "")
    return header + "\n".join(["def subject(x, y):", *lines, "    return x", ""])


def masked(count: int, for_jax: bool = False) -> str:
    """Powers of the elements under masks, in a matrix of 25 by 25; in JAX at all elements."""
    lines = []
    for place in range(count):
        mask, exponent = f"x > {0.1 + place * 1e-2:.2f}", f"{1.1 + place * 1e-2:.2f}"
        if for_jax:
            lines.append(f"    x = jnp.where({mask}, x**{exponent} * y, x)")
        else:
            lines.append(f"    x[{mask}] = x[{mask}] ** {exponent} * y[{mask}]")
    header = _header("(25, 25)", "import jax.numpy as jnp" if for_jax else "")
    return header + "\n".join(["def subject(x, y):", *lines, "    return x", ""])


def _stencil(place: int) -> tuple[str, str]:
    """The array a statement writes, and what it writes there; each has weights of its own."""
    target, other = ("a", "b") if place % 2 else ("b", "a")
    weight = 0.2 - place * 1e-4
    terms = " + ".join(f"{other}[{index}]" for index in (CENTRE, *AROUND))
    return target, f"{weight:.4f} * ({terms})"


def time_loop(statements: int, for_jax: bool = False) -> str:
    """Ten steps of a loop with so many stencil statements over two matrices.

    In NumPy they write into the matrices; in JAX, which cannot, `fori_loop` carries them.
    """
    header = _header("(60, 60)", "import jax" if for_jax else "")
    written = [_stencil(place) for place in range(statements)]
    if for_jax:
        lines = [f"        {a} = {a}.at[{CENTRE}].set({value})" for a, value in written]
        before = ["def subject(a, b):", "    def step(_, state):", "        a, b = state"]
        after = ["        return a, b", "    return jax.lax.fori_loop(0, 10, step, (a, b))[0]"]
    else:
        lines = [f"        {a}[{CENTRE}] = {value}" for a, value in written]
        before, after = ["def subject(a, b):", "    for _ in range(10):"], ["    return a"]
    return header + "\n".join([*before, *lines, *after, ""])
