"""``ScriptModule``: a layer or a model whose methods are compiled."""

from __future__ import annotations

import copy
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from importlib import import_module
from types import FunctionType, MethodType, ModuleType
from typing import IO, Any, ClassVar, Final, Self, TypeVar, get_origin

from jitcore import config
from jitcore.errors import CompilationError
from jitcore.frontend.constants import function_mark
from jitcore.frontend.layers import layer_class, script_state
from jitcore.markers import Attribute
from jitcore.nn.hooks import Hook
from jitcore.nn.module import Module
from jitcore.script import ScriptFunction

__all__ = [
    "ScriptModule",
    "compiled_names",
    "empty_module",
    "expose_methods",
    "interface_of",
    "script_module",
    "set_graph_methods",
    "set_state",
    "take_graph_methods",
    "twin",
]

_AnyScriptModule = TypeVar("_AnyScriptModule", bound="ScriptModule")


class _OfForward:
    """What a module has of its compiled ``forward``, unless it has that name itself."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        if "forward" in vars(type(instance)) or "forward" in _compiled(instance):
            return getattr(instance.forward, self.name)
        raise AttributeError(_missing(instance, self.name))


class _OriginalName:
    """The name of the class, unless the module has an attribute of that name."""

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else instance.__jitcore_original__.__name__


class ScriptModule(Module):
    """A module whose ``forward`` is compiled, and its methods that are marked with `export`.

    Made by `script`, or an instance of a class that derives from this one.  It is an instance of
    the module's own class besides, has its methods and properties, and its own attributes:
    parameters and buffers are the same arrays as those of the module it was made of, and modules
    inside are script modules.  A method is compiled for this
    very module: what it reads of the attributes is guarded, so that another array, another mode
    or another module in one of them is seen at the next call.  Where the class has a name of those
    below, or a method such as ``__repr__`` or ``__getattr__``, its own counts.

    Attributes
    ----------
    original_name : str
        The name of the class.
    graph, inlined_graph, code, schema, kernels
        Those of ``forward``; other compiled methods have their own, as in ``m.method.graph``.
    """

    __slots__ = ("_compiled_methods", "_folded", "_frozen_reasons", "_frozen_summary", "_numerics")
    __jitcore_original__: ClassVar[type] = Module
    __jitcore_state__: ClassVar[dict[str, Any]]
    """What reads and sets the slots, whose names the user's class may use for something else."""
    _compiled_methods: dict[str, ScriptFunction]
    _numerics: str | None
    """What `script` was told about arithmetic."""
    _folded: frozenset[str]
    """The attributes that `freeze` has taken away."""
    _frozen_reasons: dict[str, str] | None
    """Of a frozen module: why the attributes that it still has were not folded."""
    _frozen_summary: str
    """Of a frozen module: what errors call it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        owner = next(one for one in cls.__mro__ if "__jitcore_original__" in vars(one))
        if owner is ScriptModule or vars(owner)["__jitcore_original__"] is owner:
            cls.__jitcore_original__ = cls  # the user's, whose methods are plain

    def __new__(cls, *args: Any, **kwargs: Any) -> ScriptModule:
        is_plain = cls.__jitcore_original__ is cls
        new = super().__new__(_script_class(cls) if is_plain else cls)
        set_state(
            new,
            _compiled_methods={},
            _folded=frozenset(),
            _frozen_reasons=None,
            _frozen_summary="",
            _numerics=None,
        )
        return new

    original_name = _OriginalName()
    graph = _OfForward("graph")
    inlined_graph = _OfForward("inlined_graph")
    code = _OfForward("code")
    code_with_constants = _OfForward("code_with_constants")
    schema = _OfForward("schema")
    graph_for = _OfForward("graph_for")
    explain = _OfForward("explain")
    kernels = _OfForward("kernels")
    save_html = _OfForward("save_html")
    _repr_html_ = _OfForward("_repr_html_")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(_missing(self, name), name=name, obj=self)

    def __setattr__(self, name: str, value: Any) -> None:
        folded = _folded(self)
        if name == "training" and value is False and name in folded:
            return  # only modules in eval mode lose it
        if name in folded:
            what = f"cannot set '{name}' of module '{_name(self)}'"
            raise AttributeError(what + _FOLDED)
        if isinstance(value, Attribute):
            value = value.value
        if isinstance(value, Module):
            _check_interface(self.__jitcore_original__, name, value)
        held = self.__dict__.get(name)
        is_inlined = isinstance(held, Module) and not interface_of(self.__jitcore_original__, name)
        if is_inlined and held is not value and script_state(self, "_frozen_summary"):
            what = f"cannot set '{name}' of module '{_name(self)}'"
            raise AttributeError(what + _INLINED)
        super().__setattr__(name, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # As graphs: whoever unpickles it needs neither the source nor the same machine.
        reduced: tuple[Any, ...] = _serialization().reduced(self)
        return reduced

    def __copy__(self) -> Self:
        new = _without_attributes(self)
        new.__dict__.update(self.__dict__)
        _compiled(new).update(_rebound_methods(self, {id(self): (self, new)}))
        return new

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        new = memo[id(self)] = _without_attributes(self)
        # The class's own methods know nothing of attributes that have been folded.
        is_plain = bool(_folded(self))
        state = copy.deepcopy(self.__dict__ if is_plain else self.__getstate__(), memo)
        if hasattr(new, "__setstate__") and not is_plain:
            new.__setstate__(state)
        else:
            _update(new, state)
        pairs = {id(one): (one, memo[id(one)]) for one in self.modules() if id(one) in memo}
        _compiled(new).update(_rebound_methods(self, pairs))
        return new

    def __getstate__(self) -> Any:
        # As that of a plain module, to whose ``__getstate__`` the user's may add.
        return self.__dict__

    def save(
        self,
        file: str | os.PathLike[str] | IO[bytes],
        _extra_files: Mapping[str, str | bytes] | None = None,
    ) -> None:
        """Write the module to a file that needs no source to be loaded; see `jitcore.save`."""
        _serialization().save(self, file, _extra_files)

    def save_to_buffer(self, _extra_files: Mapping[str, str | bytes] | None = None) -> bytes:
        """What `save` would write."""
        written: bytes = _serialization().to_bytes(self, _extra_files)
        return written

    def _summary(self) -> str:
        frozen: str = script_state(self, "_frozen_summary")
        return frozen or super()._summary()

    def __repr__(self) -> str:
        inside = [f"({name}): {one!r}" for name, one in self.named_children()]
        lines = [f"original_name={_name(self)}", *inside]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"ScriptModule({body}\n)" if inside else f"ScriptModule({body})"

    def compiled_method(self, name: str) -> ScriptFunction:
        """The compiled form of a method."""
        methods = _compiled(self)
        if name not in methods:
            function: Any = inspect.getattr_static(self.__jitcore_original__, name)
            if not isinstance(function, FunctionType):
                raise AttributeError(name)  # the module's own error says why
            method = MethodType(function, self)
            methods[name] = ScriptFunction(method, script_state(self, "_numerics"))
        return methods[name]


ScriptModule.__jitcore_state__ = {name: vars(ScriptModule)[name] for name in ScriptModule.__slots__}


def set_state(module: ScriptModule, **state: Any) -> None:
    """Set what a script module has besides its attributes, past all that its class defines."""
    for name, value in state.items():
        ScriptModule.__jitcore_state__[name].__set__(module, value)


# `script_state`, for where each call or each assignment comes by.
_compiled: Callable[[ScriptModule], dict[str, ScriptFunction]]
_compiled = ScriptModule.__jitcore_state__["_compiled_methods"].__get__
_folded: Callable[[ScriptModule], frozenset[str]]
_folded = ScriptModule.__jitcore_state__["_folded"].__get__


def _without_attributes(module: _AnyScriptModule) -> _AnyScriptModule:
    """A new module of the same class, frozen if this one is."""
    new: Any = ScriptModule.__new__(type(module))
    kept = ("_folded", "_frozen_reasons", "_frozen_summary", "_numerics")
    set_state(new, **{name: script_state(module, name) for name in kept})
    return new  # type: ignore[no-any-return]


def _update(module: ScriptModule, state: Any) -> None:
    """Give a copy of a module what ``__getstate__`` has given, in the forms that Python knows."""
    held, in_slots = state if isinstance(state, tuple) and len(state) == 2 else (state, None)
    module.__dict__.update(held or {})
    for name, value in (in_slots or {}).items():
        setattr(module, name, value)


def _name(module: ScriptModule) -> str:
    return module.__jitcore_original__.__name__


def _missing(module: ScriptModule, name: str) -> str:
    """What the error says about an attribute that a module has not."""
    defined = inspect.getattr_static(type(module), name, None)
    reason = getattr(defined, "__jitcore_left_out__", "")
    if name in _folded(module):
        reason = _FOLDED
    if "_registered" not in module.__dict__:
        reason = f": {_NOT_INITIALIZED}"
    return f"'{_name(module)}' object has no attribute '{name}'{reason}"


_NOT_INITIALIZED = "its __init__ has not called super().__init__()"
_FOLDED = (
    ": freeze() has made a constant of it; name it in preserved_attrs to keep it as an attribute"
)
_INLINED = (
    ": freeze() has made the module's code part of its own; set it before, or annotate it with an "
    "interface and name it in preserved_attrs"
)


def _serialization() -> ModuleType:
    return import_module("jitcore.serialization")


class _Made:
    """Keeps classes that this module makes from the user's ``__init_subclass__``."""

    __slots__ = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if vars(cls).get("__slots__") != ():
            super().__init_subclass__(**kwargs)


class _CompiledMethod:
    """A method in the class of script modules; an attribute of the same name goes before it."""

    def __init__(self, name: str, function: FunctionType) -> None:
        self.name = name
        self.function = function

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self.function
        is_plain = self.name not in _compiled(instance) and not config.enabled()
        if is_plain and isinstance(self.function, FunctionType):
            return MethodType(self.function, instance)
        return ScriptModule.compiled_method(instance, self.name)


def script_module(module: Module, numerics: str | None = None) -> ScriptModule:
    """Compile a module; see `script`.

    Raises
    ------
    CompilationError
        ``forward`` or a method marked with `export` uses something that is not supported, or a
        module inside lacks a method of the interface that the class names for it.
    """
    _check_initialized(module)
    if isinstance(module, ScriptModule):
        methods = _compiled(module).values()
        known = {one.numerics for one in methods} or {script_state(module, "_numerics")}
        if numerics is not None and known != {numerics}:
            raise CompilationError(
                f"script() cannot give the {_name(module)} numerics={numerics!r}: "
                "it is a script module already",
                hint="Call set_numerics() before the module's methods are called.",
            )
        return module
    memo: dict[int, Any] = {}
    made = twin(module, memo)
    for new in memo.values():
        if isinstance(new, ScriptModule):
            set_state(new, _numerics=numerics)
    for name in compiled_names(type(module)):
        ScriptModule.compiled_method(made, name)
    return made


def _check_initialized(module: Module) -> None:
    if "_registered" not in module.__dict__:
        name = type(module).__name__
        raise CompilationError(
            f"script() cannot take the {name}: {_NOT_INITIALIZED}",
            hint=f"Call super().__init__() at the beginning of {name}.__init__.",
        )


def twin(module: Module, memo: dict[int, Any], *, always: bool = False) -> ScriptModule:
    """A script module with the attributes of a module, which stays as it is.

    Parameters
    ----------
    module : Module
        A script module is given as it is, unless ``always``.
    memo : dict
        What has been made of which module, and of containers with modules; takes the new ones.
    always : bool
    """
    made = _twin(module, memo, always=always)
    pairs = {id(one): (one, memo[id(one)]) for one in module.modules() if id(one) in memo}
    for old, new in pairs.values():
        take_graph_methods(old, new, pairs)
    return made


def _twin(module: Module, memo: dict[int, Any], *, always: bool) -> ScriptModule:
    if isinstance(module, ScriptModule) and not always:
        return module
    if id(module) not in memo:
        _check_initialized(module)
        new = empty_module(layer_class(module))
        set_state(new, _numerics=script_state(module, "_numerics"))
        memo[id(module)] = new
        for name, value in module.__dict__.items():
            if isinstance(value, Module):
                _check_interface(layer_class(module), name, value)
            held = value.value if isinstance(value, Attribute) else value
            new.__dict__[name] = _with_twins(held, memo, always=always)
    found: ScriptModule = memo[id(module)]
    return found


def _with_twins(value: Any, memo: dict[int, Any], *, always: bool) -> Any:
    """A value with script modules for the modules in it; the value itself where it has none."""
    if isinstance(value, Module):
        return _twin(value, memo, always=always)
    twins = partial(_with_twins, memo=memo, always=always)
    if isinstance(value, MethodType) and isinstance(value.__self__, Module):
        return MethodType(value.__func__, twins(value.__self__))
    if isinstance(value, Hook):
        return Hook(twins(value.function), value.with_kwargs)
    if type(value) not in (*_CONTAINERS, partial) or not _holds_modules(value):
        return value
    if type(value) is partial:
        return partial(twins(value.func), *twins(value.args), **twins(value.keywords))
    if type(value) is tuple:
        return tuple(map(twins, value))
    if id(value) not in memo:
        memo[id(value)] = made = type(value)()
        if isinstance(value, dict):
            made.update((key, twins(one)) for key, one in value.items())
        elif isinstance(value, list):
            made.extend(map(twins, value))
        else:
            made.update(map(twins, value))
    return memo[id(value)]


def _holds_modules(container: Any) -> bool:
    """Whether a container, or one in it, has a module, a method of one or a hook that is one.

    A ``partial`` is a container of its function and the arguments.
    """
    waiting, seen = [container], set()
    while waiting:
        one = waiting.pop()
        one = one.function if isinstance(one, Hook) else one
        if isinstance(one.__self__ if isinstance(one, MethodType) else one, Module):
            return True
        if type(one) in _CONTAINERS and id(one) not in seen:
            seen.add(id(one))
            held: Any = one.values() if isinstance(one, dict) else one
            items = list(held)
            if any(issubclass(kind, _MAY_HOLD) for kind in set(map(type, items))):
                waiting += items
        elif type(one) is partial:
            waiting += (one.func, one.args, one.keywords)
    return False


_CONTAINERS = (list, tuple, dict, set)
_MAY_HOLD = (*_CONTAINERS, Module, MethodType, Hook, partial)


def take_graph_methods(old: Module, new: ScriptModule, pairs: Mapping[int, Any]) -> None:
    """Give a copy of a module the methods that are nothing but graphs, as those of traces are.

    Parameters
    ----------
    old, new : Module
    pairs : dict
        All modules that have been copied and their copies, by the identity of the first.
    """
    methods = _rebound_methods(old, pairs)
    if methods:
        set_graph_methods(new, methods)


def _rebound_methods(old: Module, pairs: Mapping[int, Any]) -> dict[str, ScriptFunction]:
    """Those methods of a module that are nothing but graphs, for its copy."""
    if not isinstance(old, ScriptModule):
        return {}
    found = {name: method.rebound(pairs) for name, method in _compiled(old).items()}
    return {name: method for name, method in found.items() if method is not None}


def set_graph_methods(module: ScriptModule, methods: Mapping[str, ScriptFunction]) -> None:
    """Make graphs methods of a module, which gets a class of its own for that."""
    expose_methods(module, methods)
    _compiled(module).update(methods)


def expose_methods(module: ScriptModule, names: Iterable[str]) -> None:
    """Let a module's compiled methods be found under their names, besides those of its class."""
    class_ = type(module)
    namespace: dict[str, Any] = {
        name: _CompiledMethod(name, inspect.getattr_static(module.__jitcore_original__, name))
        for name in names
        if not isinstance(inspect.getattr_static(class_, name), _CompiledMethod)
    }
    if namespace:
        namespace |= {
            "__slots__": (),
            "__module__": class_.__module__,
            "__qualname__": class_.__qualname__,
        }
        made = type(class_.__name__, (class_,), namespace)
        object.__setattr__(module, "__class__", made)  # past ``__setattr__`` of the class


def empty_module(class_: type[Module]) -> ScriptModule:
    """A script module of this class without any attributes."""
    made = _script_class(class_)
    return made.__new__(made)


def _script_class(class_: type[Module]) -> type[ScriptModule]:
    """The class of script modules made of modules of a class; it lives as long as they do."""
    for known in class_.__subclasses__():
        if vars(known).get("__jitcore_original__") is class_:
            return known  # type: ignore[return-value]
    namespace: dict[str, Any] = {
        name: _CompiledMethod(name, inspect.getattr_static(class_, name))
        for name in compiled_names(class_)
    }
    namespace |= {
        "__jitcore_original__": class_,
        "__module__": class_.__module__,
        "__qualname__": class_.__qualname__,
        "__slots__": (),
    }
    # The user's class comes first: whatever it defines counts.
    own = (class_,) if issubclass(class_, ScriptModule) else (class_, ScriptModule)
    bases = (_Made, *own)
    return type(class_.__name__, bases, namespace)


def compiled_names(class_: type) -> Iterator[str]:
    """``forward``, where a class has one that is compiled, and the methods marked for export."""
    for name in dict.fromkeys(name for owner in class_.__mro__ for name in vars(owner)):
        member = inspect.getattr_static(class_, name)
        if not isinstance(member, FunctionType) or member is Module.forward:
            continue
        mark = function_mark(member)
        if mark == "export" or (name == "forward" and mark is None):
            yield name


def interface_of(class_: type, name: str) -> type | None:
    """The interface that a class names for an attribute, or None."""
    wanted = _annotation(class_, name)
    is_one = isinstance(wanted, type) and vars(wanted).get("__jitcore_mark__") == "interface"
    return wanted if is_one else None


def _check_interface(class_: type, name: str, value: Module) -> None:
    """Raise where a class names an interface for an attribute and a module lacks its methods."""
    wanted = interface_of(class_, name)
    if wanted is None:
        return
    for method, declared in vars(wanted).items():
        if not isinstance(declared, FunctionType):
            continue
        found = getattr(layer_class(value), method, None)
        if found is None or found is Module.forward:
            raise CompilationError(
                f"{class_.__name__}.{name} must implement {wanted.__name__}: "
                f"{layer_class(value).__name__} has no method '{method}'"
            )
        if _parameters(found) != _parameters(declared):
            raise CompilationError(
                f"{class_.__name__}.{name} must implement {wanted.__name__}: "
                f"{layer_class(value).__name__}.{method} takes {_parameters(found)}, "
                f"expected {_parameters(declared)}"
            )


def _parameters(function: Callable[..., Any]) -> list[str]:
    return list(inspect.signature(function).parameters)


def _annotation(class_: type, name: str) -> Any:
    """What a class or one of its bases says an attribute is; strings are looked up."""
    for owner in class_.__mro__:
        found = vars(owner).get("__annotations__", {}).get(name)
        if isinstance(found, str):
            known = getattr(inspect.getmodule(owner), "__dict__", {})
            return known.get(found)
        if found is not None:
            return None if found is Final or get_origin(found) is Final else found
    return None
