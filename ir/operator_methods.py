"""The methods by which a class defines operators: ``x + y`` is ``x.__add__(y)``."""

from __future__ import annotations

__all__ = ["BINARY", "PROTOCOLS", "UNARY"]

_ARITHMETIC = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
)
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}

BINARY: dict[str, tuple[str, str]] = {
    **{
        f"prim::{name}": (f"__{name.strip('_')}__", f"__r{name.strip('_')}__")
        for name in _ARITHMETIC
    },
    **{f"prim::{name}": (f"__{name}__", f"__{other}__") for name, other in _MIRRORED.items()},
}
UNARY = {
    "prim::neg": "__neg__",
    "prim::pos": "__pos__",
    "prim::invert": "__invert__",
    "prim::abs": "__abs__",
}
PROTOCOLS = {
    "prim::len": "__len__",
    "prim::bool": "__len__",
    "prim::not_": "__len__",
    "prim::getitem": "__getitem__",
    "prim::setitem": "__setitem__",
}
"""What else is done with an object by a method of its class; truth is so without ``__bool__``."""
