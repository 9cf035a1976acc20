"""The base class of layers and models."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np

from jitcore.devices import device, to
from jitcore.nn.arrays import Array, DTypeLike
from jitcore.nn.hooks import Hooks, RemovableHandle, add_hook, run_after, run_before
from jitcore.nn.registry import BUFFERS, PARAMETERS, Kind, Registry, joined
from jitcore.nn.state import IncompatibleKeys, load_into, read_weights

__all__ = ["Module"]


class Module(Registry):
    """A layer or a model: parameters, buffers, modules inside it, and ``forward``.

    Attributes are ordinary attributes.  Those that are registered, by assigning a ``Parameter``, a
    ``Buffer`` or a ``Module`` or by ``register_parameter`` and so on, have their names in the
    module's register besides.  Parameters and buffers are plain arrays.

    Attributes
    ----------
    training : bool
        What ``train`` and ``eval`` set; dropout and batch normalization depend on it.
    """

    training: bool
    _forward_pre_hooks: Hooks
    _forward_hooks: Hooks
    _optional_keys: ClassVar[frozenset[str]] = frozenset()
    """Own names that a state dict may lack."""

    def __init__(self) -> None:
        super().__init__()
        self.training = True
        self._forward_pre_hooks = {}
        self._forward_hooks = {}

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What calling the module does; classes define it."""
        raise NotImplementedError(f"module {type(self).__name__} has no method 'forward'")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            if not self._forward_pre_hooks and not self._forward_hooks:
                return self.forward(*args, **kwargs)
            args, kwargs = run_before(self._forward_pre_hooks, self, args, kwargs)
            result = self.forward(*args, **kwargs)
            return run_after(self._forward_hooks, self, args, kwargs, result)
        except Exception as error:
            self._noted(error)
            raise

    def _noted(self, error: Exception | type[Exception]) -> Exception:
        """An exception with a note that this module was running."""
        noted = error() if isinstance(error, type) else error
        noted.add_note(f"in {self._summary()}")
        return noted

    def _summary(self) -> str:
        """The module on one line, without those inside it."""
        return f"{self._get_name()}({' '.join(self.extra_repr().split())})"

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before ``forward``; what it gives replaces the arguments.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Before all other hooks.
        with_kwargs : bool
            Call ``hook(module, args, kwargs)``, which gives both or None.
        """
        name = "_forward_pre_hooks"
        return add_hook(self, name, hook, prepend=prepend, with_kwargs=with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after ``forward``; what it gives is the result.

        Parameters
        ----------
        hook : callable
        prepend : bool
            Before all other hooks.
        with_kwargs : bool
            Call ``hook(module, args, kwargs, result)``.
        """
        return add_hook(self, "_forward_hooks", hook, prepend=prepend, with_kwargs=with_kwargs)

    def __copy__(self) -> Self:
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Name and module for everything directly inside, each module once."""
        seen: set[int] = set()
        for name, module in self._of_kind((Kind.MODULE,)):
            if module is not None and id(module) not in seen:
                seen.add(id(module))
                yield name, module

    def children(self) -> Iterator[Module]:
        """The modules directly inside, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(
        self, memo: set[int] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Dotted name and module for this one and everything inside it.

        Parameters
        ----------
        memo : set of int, optional
            The ids of modules to leave out; those that come are added.
        prefix : str
            Put before all names.
        remove_duplicate : bool
            Each module once.
        """
        seen = set() if memo is None else memo
        if remove_duplicate and id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for name, module in self._of_kind((Kind.MODULE,)):
            if module is not None:
                yield from module.named_modules(seen, joined(prefix, name), remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and everything inside it, each once."""
        for _, module in self.named_modules():
            yield module

    def _named(
        self, kinds: tuple[Kind, ...], prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Array]]:
        seen: set[int] = set()
        if recurse:
            modules = self.named_modules(None, prefix, remove_duplicate)
        else:
            modules = iter([(prefix, self)])
        for path, module in modules:
            for name, value in module._of_kind(kinds):
                if value is None or (remove_duplicate and id(value) in seen):
                    continue
                seen.add(id(value))
                yield joined(path, name), value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Array]]:
        """Dotted name and array for every parameter, those of modules inside included."""
        return self._named(PARAMETERS, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Array]:
        """Every parameter once, those of modules inside included."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Array]]:
        """Dotted name and array for every buffer, those of modules inside included."""
        return self._named(BUFFERS, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Array]:
        """Every buffer once, those of modules inside included."""
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name; this one for an empty name.

        Raises
        ------
        AttributeError
            There is none.
        """
        module = self
        for name in target.split(".") if target else ():
            found = module.__dict__.get(name)
            if not isinstance(found, Module):
                raise AttributeError(f"{module._get_name()} has no module '{name}' ('{target}')")
            module = found
        return module

    def get_parameter(self, target: str) -> Array:
        """The parameter of a dotted name; AttributeError if there is none."""
        return self._get(target, PARAMETERS, "parameter")

    def get_buffer(self, target: str) -> Array:
        """The buffer of a dotted name; AttributeError if there is none."""
        return self._get(target, BUFFERS, "buffer")

    def _get(self, target: str, kinds: tuple[Kind, ...], what: str) -> Array:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if module._registered.get(name) not in kinds:
            raise AttributeError(f"{module._get_name()} has no {what} '{name}' ('{target}')")
        found: Array = module.__dict__[name]
        return found

    def state_dict(
        self, *, destination: dict[str, Array] | None = None, prefix: str = ""
    ) -> dict[str, Array]:
        """Every parameter and persistent buffer by its dotted name.

        The arrays are the module's own, not copies.

        Parameters
        ----------
        destination : dict, optional
            What the entries are added to.
        prefix : str
            Put before all names.
        """
        state = {} if destination is None else destination
        for kinds in (PARAMETERS, (Kind.BUFFER,)):
            for name, value in self._of_kind(kinds):
                if value is not None:
                    state[prefix + name] = value
        for name, module in self._of_kind((Kind.MODULE,)):
            if module is not None:
                module.state_dict(destination=state, prefix=f"{prefix}{name}.")
        return state

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any] | str | os.PathLike[str],
        strict: bool = True,
        assign: bool = False,
    ) -> IncompatibleKeys:
        """Copy arrays into the parameters and persistent buffers of the same names.

        Parameters
        ----------
        state_dict : mapping or path
            Arrays by dotted name, anything that NumPy can read as arrays (a PyTorch model's
            ``state_dict()``, what ``numpy.load`` gives for an ``.npz`` file), or the path of an
            ``.npz`` or ``.safetensors`` file.
        strict : bool
            The names must be exactly the module's.
        assign : bool
            Take the arrays themselves, with their dtypes, instead of copying.

        Returns
        -------
        IncompatibleKeys
            ``missing_keys`` and ``unexpected_keys``.

        Raises
        ------
        Error
            Shapes differ, or with ``strict`` names do.  Nothing has been copied then.
        """
        arrays = state_dict if isinstance(state_dict, Mapping) else read_weights(state_dict)
        optional = {
            joined(path, name)
            for path, module in self.named_modules(remove_duplicate=False)
            for name in module._optional_keys
        }
        copied, result = load_into(
            self._get_name(), self.state_dict(), arrays, optional, strict=strict, copy=not assign
        )
        for target, value in copied.items():
            path, _, name = target.rpartition(".")
            setattr(self.get_submodule(path), name, value)
        return result

    def apply(self, fn: Callable[[Module], None]) -> Self:
        """Call a function with every module inside, and this one last."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Set ``training`` here and in every module inside."""
        if not isinstance(mode, bool):
            raise ValueError(f"the training mode must be a bool, found {mode!r}")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self) -> Self:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Say of every parameter whether it is to be trained."""
        kind = Kind.PARAMETER if requires_grad else Kind.FIXED_PARAMETER
        for module in self.modules():
            for name, _ in module._of_kind(PARAMETERS):
                module._set_kind(name, kind)
        return self

    def to(self, *targets: DTypeLike | device) -> Self:
        """Move all parameters and buffers to a device, or convert those that are floats.

        Parameters
        ----------
        *targets : dtype or device
            A dtype of floats, a device or its name, or one of each.

        Raises
        ------
        TypeError
            A dtype is something else.
        DriverError
            There is no such device.

        Examples
        --------
        >>> import numpy as np, jitcore
        >>> jitcore.nn.Linear(2, 1).to("cpu", np.float64).weight.dtype
        dtype('float64')
        """
        for target in targets:
            if isinstance(target, device) or str(target).partition(":")[0] in ("cpu", "cuda"):
                where = device(str(target))
                self._convert(partial(to, where=where))
            else:
                self._convert(_conversion(np.dtype(target)))
        return self

    def _convert(self, conversion: Callable[[Array], Array]) -> None:
        """Put what a function makes of them in the places of all parameters and buffers."""
        converted: dict[int, Array] = {}
        for module in self.modules():
            for name, value in module._of_kind(PARAMETERS + BUFFERS):
                if value is not None:
                    # Parameters that were shared stay so.
                    if id(value) not in converted:
                        converted[id(value)] = conversion(value)
                    module.__dict__[name] = converted[id(value)]

    def float(self) -> Self:
        """``to(numpy.float32)``."""
        return self.to(np.float32)

    def double(self) -> Self:
        """``to(numpy.float64)``."""
        return self.to(np.float64)

    def half(self) -> Self:
        """``to(numpy.float16)``."""
        return self.to(np.float16)

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """What stands in the parentheses of ``repr`` before the modules inside."""
        return ""

    def __repr__(self) -> str:
        text = self.extra_repr()
        lines = text.split("\n") if text else []
        inside = [f"({name}): {_indented(repr(m))}" for name, m in self._of_kind((Kind.MODULE,))]
        if not inside and len(lines) <= 1:
            return f"{self._get_name()}({text})"
        body = "\n  ".join(lines + inside)
        return f"{self._get_name()}(\n  {body}\n)"


def _conversion(wanted: np.dtype[Any]) -> Callable[[Array], Array]:
    """What converts floats to a dtype and leaves all else alone."""
    if wanted.kind not in "fc":
        raise TypeError(f"a module can be converted to floats only, found {wanted}")

    def converted(value: Array) -> Array:
        return value.astype(wanted, copy=False) if value.dtype.kind in "fc" else value

    return converted


def _indented(text: str) -> str:
    """All lines but the first further to the right."""
    return text.replace("\n", "\n  ")
