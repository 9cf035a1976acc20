"""``dataclass`` for classes with slots: quicker to define, and records quicker to make.

The standard one looks at every field, and writes and compiles up to six methods for each class.
With two hundred classes that took a third of the time in which this package is imported.  Here a
class only gets its slots when it is defined.  What the standard one says about the fields is asked
when somebody wants to know it, and ``__init__`` is compiled when many records have been made: a
process makes records of less than half of the classes, and few of most of those.  Classes without
a docstring stay so.  Assignments to records that are frozen are refused by type checkers only: to
refuse them at run time makes records take three times as long to make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, repr=True, slots, weakref_slot=False):
        """What the standard decorator of this name makes, but for what the module says.

        Parameters
        ----------
        cls : type
            All its annotations are fields, none of them for ``__post_init__`` only.  Fields that it
            inherits are those of such classes.
        frozen, eq, repr, slots, weakref_slot : bool
            As in the standard library; ``slots`` has to be true.
        """

        def decorate(cls):
            known = {n: v for n, v in vars(cls).items() if n not in ("__dict__", "__weakref__")}
            made = _with_slots(cls, known, ["__weakref__"] if weakref_slot else [])
            for name in _Standard.NAMES:
                setattr(made, name, _Standard(made, name))
            methods = {"__init__": _initializer(made)}
            methods |= {"__repr__": _repr} if repr else {}
            if eq:
                methods |= _equality(made, frozen)
            for name, method in methods.items():
                if known.get(name) is None:
                    setattr(made, name, method)
            return made

        return decorate if cls is None else decorate(cls)


_KNOWN: Final = "__before_dataclass__"
"""The attribute with the namespace that a class had before it became one of records."""


def _with_slots(cls: Any, known: dict[str, Any], more: list[str]) -> Any:
    """The class anew, with a slot for each field in the place of its default."""
    inherited = {name for base in cls.__mro__ for name in vars(base).get("__slots__", ())}
    names = [name for name in cls.__annotations__ if name not in inherited]
    kept = {name: value for name, value in known.items() if name not in cls.__annotations__}
    kept |= {"__slots__": (*names, *more), "__qualname__": cls.__qualname__, _KNOWN: known}
    return type(cls)(cls.__name__, cls.__bases__, kept)


class _Standard:
    """An attribute that the standard decorator gives to a class, asked for when it is read."""

    NAMES: Final = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

    def __init__(self, owner: Any, name: str) -> None:
        self.owner, self.name = owner, name

    def __get__(self, record: object, cls: object = None) -> Any:
        owner, told = self.owner, object()
        if self.name == "__match_args__":
            told = tuple(one.name for one in _fields(owner) if one.init and not one.kw_only)
        elif self.name == "__dataclass_fields__":
            told = {one.name: one.standard() for one in _fields(owner)}
        else:
            # The decorator changes the class that it gets, and writes a docstring if there is none.
            known = vars(owner)[_KNOWN] | {"__doc__": self.name}
            copy = type(owner)(owner.__name__, owner.__bases__, known)
            standard = dataclasses.dataclass(init=False, eq=False, repr=False)
            told = vars(standard(copy))[self.name]
        setattr(owner, self.name, told)
        return told


class _Field:
    """What makes a field of a record: an argument, its default, or a new object each time."""

    __slots__ = (
        "compare",
        "default",
        "default_factory",
        "given",
        "init",
        "kw_only",
        "name",
        "type",
    )

    def __init__(self, name: str, type_: Any, given: Any) -> None:
        is_told = isinstance(given, Field)
        self.name = name
        self.type = type_
        self.given = given
        self.default = given.default if is_told else given
        self.default_factory = given.default_factory if is_told else MISSING
        self.init = given.init if is_told else True
        self.kw_only = is_told and given.kw_only is True
        self.compare = given.compare if is_told else True

    def standard(self) -> Field[Any]:
        """The same as the standard library's functions know it."""
        made: Any = self.given if isinstance(self.given, Field) else field(default=self.given)
        made.name, made.type, made.kw_only = self.name, self.type, self.kw_only
        made._field_type = _ORDINARY
        known: Field[Any] = made
        return known

    @property
    def make(self) -> Callable[[], Any] | None:
        """What gives the value where there is no argument for it."""
        if self.default_factory is not MISSING:
            factory: Callable[[], Any] = self.default_factory
            return factory
        return None if self.default is MISSING else lambda: self.default


def _fields(cls: Any) -> list[_Field]:
    """The fields of a class, without what the standard library would look at."""
    found: dict[str, _Field] = {}
    for base in reversed(cls.__mro__):
        known = vars(base).get(_KNOWN)
        for name in () if known is None else base.__annotations__:
            type_, given = base.__annotations__[name], known.get(name, MISSING)
            found[name] = _Field(name, type_, given)
    return list(found.values())


_ORDINARY: Final = vars(dataclasses)["_FIELD"]
"""What the standard library marks fields by that are no class variables."""

_FEW: Final = 64
"""How many records are made until what fills them is compiled, which takes as long as to fill so
many without."""


def _initializer(cls: Any) -> Callable[..., None]:
    """The method that fills a new record, which is compiled when many have been made."""
    count = 0
    known: _Parameters | None = None

    def __init__(self: Any, *args: Any, **keywords: Any) -> None:
        nonlocal count, known
        count += 1
        known = known or _Parameters(cls)
        if count > _FEW or not known.fill(self, args, keywords):
            cls.__init__ = _compiled_initializer(cls)
            cls.__init__(self, *args, **keywords)
        elif has_end:
            self.__post_init__()

    has_end = hasattr(cls, "__post_init__")
    return __init__


class _Parameters:
    """What may be given to make a record, and what makes all else."""

    __slots__ = ("by_place", "makers", "names", "needed")

    def __init__(self, cls: Any) -> None:
        known = _fields(cls)
        self.by_place = [one.name for one in known if one.init and not one.kw_only]
        self.names = {one.name for one in known if one.init}
        self.needed = [one.name for one in known if one.init and one.make is None]
        self.makers = [(one.name, one.make) for one in known if one.make is not None]

    def fill(self, record: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> bool:
        """Fill a record, or give False where that is no way to make one."""
        given = self.by_place[: len(args)]
        for name, value in zip(given, args, strict=False):
            setattr(record, name, value)
        if keywords and not (self.names.issuperset(keywords) and keywords.keys().isdisjoint(given)):
            return False
        for name, value in keywords.items():
            setattr(record, name, value)
        for name in self.needed:
            if name not in given and name not in keywords:
                return False
        for name, make in self.makers:
            if name not in given and name not in keywords:
                setattr(record, name, make())
        return len(given) == len(args)


def _compiled_initializer(cls: Any) -> Callable[..., None]:
    namespace: dict[str, Any] = {"_missing": MISSING}
    ordered: list[str] = []
    by_name: list[str] = []
    lines: list[str] = []
    for one in _fields(cls):
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
    found: Callable[[Any], tuple[Any, ...]] | None = None

    def values(record: Any) -> tuple[Any, ...]:
        nonlocal found
        found = found or _getter([one.name for one in _fields(cls) if one.compare])
        return found(record)

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        get = found or values
        return get(self) == get(other)

    def __hash__(self: Any) -> Any:
        return hash((found or values)(self))

    return {"__eq__": __eq__, "__hash__": __hash__ if frozen else None}


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the attributes of an object, as a tuple."""
    if not names:
        return lambda _: ()
    get: Callable[[Any], Any] = attrgetter(*names)
    return get if len(names) > 1 else lambda record: (get(record),)


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"
