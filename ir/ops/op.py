"""What a row of the op table is, and the small vocabulary its rules are written in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Any, Protocol

import numpy as np

from jitcore.ir.dataclass import dataclass
from jitcore.ir.graph import SourceRange, Value
from jitcore.ir.types import ANY, Dim, TensorType, Type

__all__ = [
    "Builder",
    "Call",
    "Definition",
    "NeedsConstant",
    "Op",
    "Parameter",
    "Rule",
    "Scalar",
    "Untypable",
    "bind",
    "common_dtype",
    "parse_parameters",
]


class Untypable(Exception):
    """A rule's answer when the op stays generic and runs in the host program; says why."""


def common_dtype(*operands: Any) -> np.dtype[Any]:
    """What ``np.result_type`` gives for dtypes and numbers.

    Raises
    ------
    Untypable
        They have no common dtype: bfloat16 and int32, say.
    """
    try:
        return np.result_type(*operands)
    except TypeError as error:
        raise Untypable(str(error)) from None


class NeedsConstant(Untypable):
    """An argument must be known at compile time (an axis, say) and is not."""

    def __init__(self, what: str, value: Value) -> None:
        super().__init__(f"{what} is not a constant")
        self.value = value


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an op.

    ``compiled`` is False for those that only NumPy itself handles (``out``, ``where``, ``order``):
    a call that passes one stays generic unless the value is the default.
    """

    name: str
    default: Any = ...
    compiled: bool = True
    variadic: bool = False
    keyword_only: bool = False


@cache
def parse_parameters(text: str) -> tuple[Parameter, ...]:
    """Read ``"a, axis=None, out!=None, *rest"``; ``!`` marks parameters that are not compiled.

    Those after a lone ``*`` are passed by keyword only.
    """
    found = []
    keyword_only = False
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        if part == "*":
            keyword_only = True
            continue
        name, has_default, default = part.partition("=")
        compiled = not name.endswith("!")
        name = name.removesuffix("!").strip()
        value = eval(default, {"NOVALUE": np._NoValue}) if has_default else ...
        variadic = name.startswith("*")
        found.append(Parameter(name.removeprefix("*"), value, compiled, variadic, keyword_only))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Scalar:
    """The value of an elementwise op at one element, as text, by the kind of the loop's dtype.

    The texts are expressions over ``x``, ``y``, ``z`` in the language of ``codegen.scalar``.  For
    complex loops ``c`` is the pair of texts of the real and the imaginary part over ``x_re``,
    ``x_im`` …, or a single text where the result is not complex.  ``c_scalars`` is what NumPy's
    complex scalars compute among themselves, where that is not what its loops over arrays do;
    ``f_arrays`` what its loops over arrays of floats compute on a processor, where that has bits of
    its own.  Where it is ``cheap``, an element takes less time to compute than to be written and
    read again.
    """

    f: str | None = None
    i: str | None = None
    u: str | None = None
    b: str | None = None
    c: tuple[str, str] | str | None = None
    c_scalars: tuple[str, str] | str | None = None
    f_arrays: str | None = None
    cheap: bool = False

    def text(
        self, kind: str, *, scalars: bool = False, arrays: bool = False
    ) -> tuple[str, str] | str | None:
        """The text for loops over dtypes of this kind (``np.dtype.kind``).

        With ``scalars`` all operands are NumPy's scalars; with ``arrays`` a processor computes what
        NumPy computes in a loop over arrays.
        """
        if scalars and kind == "c" and self.c_scalars is not None:
            return self.c_scalars
        if arrays and kind == "f" and self.f_arrays is not None:
            return self.f_arrays
        found: tuple[str, str] | str | None = getattr(self, kind, None)
        return found


class Builder(Protocol):
    """What rules use to emit typed nodes; ``ir.specialize`` implements it."""

    @property
    def is_for_device(self) -> bool:
        """Whether the threads of a device will run it."""
        ...

    @property
    def is_by_definition(self) -> bool:
        """Whether what processors have kernels for is compiled from its definition."""
        ...

    @property
    def is_native(self) -> bool:
        """Whether Python can run all of the function anew where compiled code does not go on."""
        ...

    def emit(
        self,
        kind: str,
        inputs: Sequence[Value],
        attributes: Mapping[str, Any],
        type_: Type,
        keywords: Sequence[str] = (),
    ) -> Value:
        """Append a node with one output; ``keywords`` are the names of its last inputs."""

    def op(self, kind: str, *args: Any, **attributes: Any) -> Value:
        """Apply another op's rule; arguments are Values or plain constants."""

    def constant(self, value: Any, type_: Type | None = None) -> Value: ...

    def fresh_dim(self, key: object = None) -> Dim:
        """A new symbol; the same symbol again for an equal (hashable) key in this scope."""

    def broadcast(self, shapes: Sequence[tuple[Dim, ...]]) -> tuple[Dim, ...]:
        """The dims of operands broadcast together, or a ``BroadcastError``."""
        ...

    def size(self, value: Value, axis: int) -> Value: ...

    def make_tuple(self, elements: Sequence[Value], named: Any = None) -> Value: ...

    def elements(self, value: Value) -> list[Value]:
        """The elements of a tuple value."""

    def method(self, name: str) -> tuple[Op, str | None]:
        """The op that an ndarray method is, and the method's own parameters after the array."""
        ...

    def call_python(
        self, function: Any, args: Sequence[Value], keywords: Mapping[str, Value] | None = None
    ) -> Value:
        """Call what a value turned out to be, as Python does."""

    def class_attribute(self, class_: type, name: str) -> Any:
        """What a class defines under a name, undescribed; ``MISSING`` where it does not."""

    def define(self, function: Any, *args: Any) -> Value:
        """Inline a Python function that says what the op does; arguments as in ``op``.

        Raises
        ------
        Untypable
            Some of it cannot be typed for these arguments; nothing has been emitted then.
        """
        ...


_MISSING = object()


@dataclass(slots=True)
class Call:
    """A call being typed: arguments by parameter name, each a Value or a plain constant."""

    kind: str
    bound: dict[str, Any]
    parameters: tuple[Parameter, ...]
    source: SourceRange | None = None

    def value(self, name: str) -> Value:
        """The argument as a Value."""
        found = self.bound.get(name, _MISSING)
        if found is _MISSING:
            raise Untypable(f"argument {name!r} is missing")
        if not isinstance(found, Value):
            raise Untypable(f"argument {name!r} is not a value")
        return found

    def optional(self, name: str) -> Value | None:
        """The argument as a Value, or None where it is absent or the constant None."""
        found = self.bound.get(name)
        if found is None or not isinstance(found, Value):
            return None
        if found.constant is not None and found.constant.attributes["value"] is None:
            return None
        return found

    def static(self, name: str) -> Any:
        """The argument as a Python object known at compile time, or the parameter's default."""
        if name not in self.bound:
            default = next(p.default for p in self.parameters if p.name == name)
            if default is ...:
                raise Untypable(f"argument {name!r} is missing")
            return default
        found = self.bound[name]
        return static_value(found, name) if isinstance(found, Value) else found


def static_value(value: Value, what: str) -> Any:
    """The Python object a value is known to be at compile time.

    Raises
    ------
    NeedsConstant
        It is not known.
    """
    node = value.node
    if node is not None and node.kind == "prim::Constant":
        return node.attributes["value"]
    if node is not None and node.kind in ("prim::TupleConstruct", "prim::ListConstruct"):
        items = [static_value(item, what) for item in node.inputs]
        return tuple(items) if node.kind == "prim::TupleConstruct" else items
    raise NeedsConstant(what, value)


Rule = Callable[[Builder, Call], "Value"]


@dataclass(slots=True)
class Definition:
    """A Python function outside of this package that says what an op does.

    Parameters
    ----------
    name : str
    only_if : dict
        The op stands only for calls in which these arguments are these constants.
    function : callable, optional
        None until the package that has it is imported.
    hints : tuple of str
        Parameters of the op that the function has not: what is known about others.
    """

    name: str
    only_if: Mapping[str, Any]
    function: Callable[..., Any] | None = None
    hints: tuple[str, ...] = ("packed",)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        if self.function is None:
            raise NotImplementedError(f"{self.name} is not known: import jitcore.nn")
        known = {name: value for name, value in keywords.items() if name not in self.hints}
        return self.function(*args, **known)


@dataclass(frozen=True, slots=True)
class Op:
    """One row of the op table: everything that is true of an op.

    Parameters
    ----------
    kind : str
        The name in graphs, ``"np::sum"``.
    reference : callable
        What it means: called with the operands in order and attributes by name.
    rule : Rule
        Types a call: emits typed nodes and returns the result, or raises ``Untypable``.
    parameters : str
        The signature, in the form ``parse_parameters`` reads.
    scalar : Scalar or None
        The value at one element, for elementwise ops.
    reduces : bool
        The elements along the axes that the attribute ``axis`` says become one.
    scans : bool
        The elements along the axis that the attribute ``axis`` says each become one of those up to
        there.
    joins : str
        The kind of the elementwise op that joins the elements then, or what is computed of them.
    methods : mapping
        The ndarray methods that mean this op, with their own parameters after the array
        (None: those of ``parameters`` without the first).
    functions : tuple
        The Python callables a call of which becomes this op.
    view : bool
        The result may share memory with operand 0.
    writes : tuple of int
        The operands whose memory is written.
    writes_if : mapping
        The operands that are written as well, unless the argument of this name is False.
    pure : bool
        No effect and the same result for the same operands.
    hosted : bool
        Only NumPy computes it: there is no native form.
    sampled : bool
        Arguments the rule has no form for get the type that NumPy's results for samples of them
        have, as in calls of functions without a row.
    definition : Definition or None
        What is inlined where the rule has no form for a call.
    for_processors : bool
        Typed nodes of it are for kernels that devices have not: there the definition is inlined.
    doc : str
        One line for the table of ops in the documentation.
    """

    kind: str
    reference: Callable[..., Any]
    rule: Rule
    parameters: str = "x"
    scalar: Scalar | None = None
    reduces: bool = False
    scans: bool = False
    joins: str = ""
    methods: Mapping[str, str | None] = field(default_factory=dict)
    functions: tuple[Any, ...] = ()
    view: bool = False
    writes: tuple[int, ...] = ()
    writes_if: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pure: bool = True
    hosted: bool = False
    sampled: bool = False
    definition: Definition | None = None
    for_processors: bool = False
    doc: str = ""

    @property
    def signature(self) -> tuple[Parameter, ...]:
        """The parsed parameters."""
        return parse_parameters(self.parameters)


def tensor(value: Value, what: str = "operand") -> TensorType:
    """The type of an array or NumPy scalar with dtype and rank known.

    Raises
    ------
    Untypable
        It is anything else.
    """
    type_ = value.type
    if type_ == ANY:
        raise Untypable(f"the type of {what} is known only when the program runs")
    if not isinstance(type_, TensorType):
        raise Untypable(f"{what} is {type_}, not an array")
    if not type_.is_complete:
        raise Untypable(f"the dtype or rank of {what} is not known")
    return type_


def tensor_dtype(value: Value) -> np.dtype[Any]:
    """The dtype of an array or NumPy scalar with dtype and rank known."""
    dtype = tensor(value).dtype
    assert dtype is not None
    return dtype


def tensor_dims(value: Value) -> tuple[Dim, ...]:
    """The extents of an array or NumPy scalar with dtype and rank known."""
    return tensor(value).dims or ()


def bind(
    signature: Sequence[Parameter],
    inputs: Sequence[Value],
    keywords: Sequence[str],
    attributes: Mapping[str, Any],
) -> dict[str, Any]:
    """Arguments by parameter name; a variadic parameter takes the rest as a list.

    Attributes are arguments of a typed node that no input stands for.

    Raises
    ------
    Untypable
        They do not fit, or pass an argument that only NumPy handles.
    """
    bound: dict[str, Any] = dict(attributes)
    positional = list(inputs[: len(inputs) - len(keywords)])
    taken = 0
    for parameter in signature:
        if parameter.variadic:
            bound[parameter.name] = positional[taken:]
            taken = len(positional)
            break
        if taken == len(positional) or parameter.keyword_only:
            break
        if parameter.name not in attributes:
            bound[parameter.name] = positional[taken]
            taken += 1
    if taken < len(positional):
        raise Untypable("too many arguments")
    if not (keywords or attributes) and all(one.compiled for one in signature[:taken]):
        return bound
    by_name = {parameter.name: parameter for parameter in signature}
    for name, value in zip(keywords, inputs[len(inputs) - len(keywords) :], strict=True):
        if name not in by_name or name in bound:
            raise Untypable(f"argument {name!r} is not compiled")
        bound[name] = value
    for name, value in bound.items():
        known = by_name.get(name)
        if known is not None and not known.compiled and not _is_default(value, known):
            raise Untypable(f"argument {name!r} is not compiled")
    return bound


def _is_default(value: Any, parameter: Parameter) -> bool:
    if isinstance(value, Value):
        if value.constant is None:
            return False
        value = value.constant.attributes["value"]
    return bool(type(value) is type(parameter.default) and value == parameter.default)
