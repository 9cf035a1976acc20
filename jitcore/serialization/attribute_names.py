"""Which attributes a program from a file may use, by their names.

Some attributes lead to files, to memory, or to the inside of Python, and from there to anything.
They are refused where a program is saved or loaded and, where a name is made while the program
runs, by the functions here that stand for ``getattr`` and its like.
"""

from __future__ import annotations

from typing import Any

from jitcore.errors import Error
from jitcore.markers import ignore

__all__ = ["CHECKED_FUNCTIONS", "attribute_problem", "method_problem"]

_REFUSED_TEXT = """
    ag_await ag_code ag_frame cr_await cr_code cr_frame ctypes dump dumps f_back f_builtins f_code
    f_globals f_locals f_trace gi_code gi_frame gi_yieldfrom mro tb_frame tb_next tofile
"""
_REFUSED = frozenset(_REFUSED_TEXT.split())

_SPECIAL_TEXT = """
    abs add add_note and annotations array array_function array_priority array_ufunc bool call cause
    ceil class complex contains context dataclass_fields delattr delete delitem divmod doc enter eq
    exit float floor floordiv format ge get getattr getitem gt hash iadd iand ifloordiv ilshift
    imatmul imod imul index init int invert ior ipow irshift isub iter itruediv ixor le len
    length_hint lshift lt match_args matmul members missing mod module mul name ne neg new next
    notes or pos post_init pow qualname radd rand rdivmod repr reversed rfloordiv rlshift rmatmul
    rmod rmul ror round rpow rrshift rshift rsub rtruediv rxor set setattr setitem slots str sub
    suppress_context truediv trunc wrapped xor
"""
_SPECIAL = frozenset(f"__{name}__" for name in _SPECIAL_TEXT.split())
"""The names with two underscores on each side that a program may use; all others are refused."""


def attribute_problem(name: str) -> str | None:
    """Why a program must not use an attribute of this name; None where it may."""
    special = name.startswith("__") and name.endswith("__")
    if name in _REFUSED or (special and name not in _SPECIAL):
        return f"the attribute '{name}' leads out of the program"
    return None


def method_problem(name: str) -> str | None:
    """Why a class in a file must not define this name; None where it may."""
    if name in ("__class__", "__slots__", "__annotations__"):
        return f"a class cannot be given its own '{name}'"
    return attribute_problem(name)


def _checked(name: object) -> Any:
    problem = attribute_problem(name) if isinstance(name, str) else None
    if problem:
        raise Error(f"{problem}, and the program was loaded from a file")
    return name


@ignore
def _getattr(value: Any, name: str, *default: Any) -> Any:
    """``getattr`` of a loaded program."""
    return getattr(value, _checked(name), *default)


@ignore
def _hasattr(value: Any, name: str) -> bool:
    """``hasattr`` of a loaded program."""
    return hasattr(value, _checked(name))


@ignore
def _setattr(value: Any, name: str, new: Any) -> None:
    """``setattr`` of a loaded program."""
    setattr(value, _checked(name), new)


@ignore
def _delattr(value: Any, name: str) -> None:
    """``delattr`` of a loaded program."""
    delattr(value, _checked(name))


CHECKED_FUNCTIONS = {
    "builtins.getattr": _getattr,
    "builtins.hasattr": _hasattr,
    "builtins.setattr": _setattr,
    "builtins.delattr": _delattr,
}
"""What loaded programs get in the place of functions that take names while they run."""

for _name, _function in CHECKED_FUNCTIONS.items():
    _function.__module__, _, _function.__name__ = _name.partition(".")
    _function.__qualname__ = _function.__name__
