"""Which kinds of nodes are operators of Python, and which operators."""

from __future__ import annotations

from jitcore.codegen.host.text import Precedence
from jitcore.ir.graph import Node

__all__ = [
    "ARRAY_OPERATORS",
    "AUGMENTED",
    "BINARY",
    "OPPOSITES",
    "UNARY",
    "augmented_sign",
    "in_place_sign",
]

P = Precedence

BINARY: dict[str, tuple[str, Precedence]] = {
    "prim::add": ("+", P.SUM),
    "prim::sub": ("-", P.SUM),
    "prim::mul": ("*", P.PRODUCT),
    "prim::matmul": ("@", P.PRODUCT),
    "prim::truediv": ("/", P.PRODUCT),
    "prim::floordiv": ("//", P.PRODUCT),
    "prim::mod": ("%", P.PRODUCT),
    "prim::lshift": ("<<", P.SHIFT),
    "prim::rshift": (">>", P.SHIFT),
    "prim::and_": ("&", P.BIT_AND),
    "prim::or_": ("|", P.BIT_OR),
    "prim::xor": ("^", P.BIT_XOR),
    "prim::eq": ("==", P.COMPARISON),
    "prim::ne": ("!=", P.COMPARISON),
    "prim::lt": ("<", P.COMPARISON),
    "prim::le": ("<=", P.COMPARISON),
    "prim::gt": (">", P.COMPARISON),
    "prim::ge": (">=", P.COMPARISON),
    "prim::is_": ("is", P.COMPARISON),
    "prim::isnot": ("is not", P.COMPARISON),
    "prim::in_": ("in", P.COMPARISON),
    "prim::notin": ("not in", P.COMPARISON),
}
UNARY: dict[str, tuple[str, Precedence]] = {
    "prim::neg": ("-", P.UNARY),
    "prim::pos": ("+", P.UNARY),
    "prim::invert": ("~", P.UNARY),
    "prim::not_": ("not ", P.NOT),
}
# NumPy's operators on arrays are these ufuncs; ``**`` is not, it knows some exponents itself.
ARRAY_OPERATORS: dict[str, str] = {
    "np::add": "prim::add",
    "np::subtract": "prim::sub",
    "np::multiply": "prim::mul",
    "np::divide": "prim::truediv",
    "np::floor_divide": "prim::floordiv",
    "np::remainder": "prim::mod",
    "np::left_shift": "prim::lshift",
    "np::right_shift": "prim::rshift",
    "np::bitwise_and": "prim::and_",
    "np::bitwise_or": "prim::or_",
    "np::bitwise_xor": "prim::xor",
    "np::equal": "prim::eq",
    "np::not_equal": "prim::ne",
    "np::less": "prim::lt",
    "np::less_equal": "prim::le",
    "np::greater": "prim::gt",
    "np::greater_equal": "prim::ge",
    "np::negative": "prim::neg",
    "np::invert": "prim::invert",
}
# Only of these can it be said that one is true where the other is false.
OPPOSITES = {
    "prim::is_": "prim::isnot",
    "prim::isnot": "prim::is_",
    "prim::in_": "prim::notin",
    "prim::notin": "prim::in_",
}
AUGMENTED = {
    "prim::iadd": "+=",
    "prim::isub": "-=",
    "prim::imul": "*=",
    "prim::itruediv": "/=",
    "prim::ifloordiv": "//=",
    "prim::imod": "%=",
    "prim::ipow": "**=",
    "prim::imatmul": "@=",
    "prim::ilshift": "<<=",
    "prim::irshift": ">>=",
    "prim::iand": "&=",
    "prim::ior": "|=",
    "prim::ixor": "^=",
}
"""The operators of augmented assignment."""


def in_place_sign(kind: str) -> str | None:
    """``+=`` for ``np::add``, None for what has no operator of augmented assignment."""
    prefix, _, name = ARRAY_OPERATORS.get(kind, "").partition("::")
    return AUGMENTED.get(f"{prefix}::i{name.rstrip('_')}")


def augmented_sign(node: Node) -> str | None:
    """``+=`` for ``prim::iadd``, None for kinds that are no augmented assignments."""
    return AUGMENTED.get(node.kind.rstrip("_"))  # prim::iand and prim::iand_ are one kind
