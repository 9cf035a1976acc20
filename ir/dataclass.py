"""``dataclass`` for classes with slots: quicker to define, and records quicker to make.

The standard one writes and compiles up to six methods for each class.  With two hundred classes
that took a third of the time in which this package is imported.  Here ``__init__`` is compiled when
the first record is made, and what compares records when the first ones are compared: a process
makes records of less than half of the classes.  Assignments to records that are frozen are refused
by type checkers only: to refuse them at run time makes records take three times as long to make.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    from dataclasses import dataclass as standard_dataclass

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, **options):
        """What the standard decorator of this name makes, but for what the module says.

        Parameters
        ----------
        cls : type
            Without fields that only ``__post_init__`` gets.
        frozen, eq, repr : bool
            As in the standard library.
        **options
            What the standard decorator gets.
        """

        def decorate(cls):
            made = standard_dataclass(init=False, eq=False, repr=False, **options)(cls)
            methods = {"__init__": _initializer(made)}
            methods |= {"__repr__": _repr} if repr else {}
            if eq:
                methods |= _equality(made, frozen)
            for name, method in methods.items():
                if vars(cls).get(name) is None:
                    setattr(made, name, method)
            return made

        return decorate if cls is None else decorate(cls)


_COMPARE: Final = """
def __eq__(self, other):
    if other.__class__ is not self.__class__:
        return NotImplemented
    return ({own}) == ({others})

def __hash__(self):
    return hash(({own}))
"""


def _initializer(cls: Any) -> Callable[..., None]:
    """The method that fills a new record, which compiles itself."""

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        compiled = _compiled_initializer(cls)
        cls.__init__ = compiled
        compiled(self, *args, **keywords)

    return __init__


def _compiled_initializer(cls: Any) -> Callable[..., None]:
    namespace: dict[str, Any] = {"_missing": MISSING}
    ordered: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for one in fields(cls):
        name, value = one.name, one.name
        has_factory, has_default = (
            source is not MISSING for source in (one.default_factory, one.default)
        )
        parameter = name
        if has_factory:
            namespace[f"_make_{name}"] = one.default_factory
            value = f"_make_{name}()" + one.init * f" if {name} is _missing else {name}"
            parameter = f"{name}=_missing"
        elif has_default:
            namespace[f"_default_{name}"] = one.default
            value = name if one.init else f"_default_{name}"
            parameter = f"{name}=_default_{name}"
        if one.init:
            (by_name if one.kw_only else ordered).append(parameter)
        if one.init or has_factory or has_default:
            lines.append(f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(["self", *ordered, *(["*"] if by_name else []), *by_name])
    body = "\n    ".join(lines or ["pass"])
    exec(f"def __init__({parameters}):\n    {body}\n", namespace)
    made: Callable[..., None] = namespace["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _equality(cls: Any, frozen: bool) -> dict[str, Any]:
    """The methods by which records are equal where their fields are."""

    def compiled(name: str) -> Callable[..., Any]:
        names = [one.name for one in fields(cls) if one.compare]
        own, others = (
            "".join(f"{record}.{name}, " for name in names) for record in ("self", "other")
        )
        namespace: dict[str, Any] = {}
        exec(_COMPARE.format(own=own, others=others), namespace)
        method: Callable[..., Any] = namespace[name]
        setattr(cls, name, method)
        return method

    def __eq__(self: Any, other: object) -> Any:
        return compiled("__eq__")(self, other)

    def __hash__(self: Any) -> Any:
        return compiled("__hash__")(self)

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"
