"""The table of gradients: what the derivative of each kind of node is.

To give an op a gradient, add it to the table of its family: elementwise ops to ``PARTIALS`` in
`elementwise`, all others as a function of the backward part, the node and the derivative with
respect to its result to a table of `reductions`, `arrays` or `products`.
"""

from __future__ import annotations

from typing import Any

from jitcore.ir.gradients import arrays, products, reductions
from jitcore.ir.gradients.elementwise import PARTIALS

__all__ = ["PARTIALS", "RULES"]

RULES: dict[str, Any] = {**arrays.RULES, **products.RULES, **reductions.RULES}
"""The gradients of ops that are not elementwise, by kind."""
