"""What one node does to memory and to the world, judged by its kind and its operands' types.

The op table says which ops give views and which write; this file adds what depends on the call:
``out=``, methods, calls of unknown objects.  Python's operators on operands of unknown type are
taken to read their operands, write nothing and perhaps return one of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from jitcore.ir import types as t
from jitcore.ir.dataclass import dataclass
from jitcore.ir.draws import is_draw
from jitcore.ir.graph import ITERATORS, Graph, Node, Value
from jitcore.ir.ops import TABLE
from jitcore.ir.ops.special import SpecialFunction
from jitcore.ir.types import (
    DictType,
    KnownType,
    ListType,
    PrimType,
    RecordType,
    TensorType,
    TupleType,
    Type,
    UnionType,
)

__all__ = ["Effects", "is_array_view", "is_immutable", "is_plain_array", "node_effects"]


@dataclass(frozen=True, slots=True)
class Effects:
    """What a node does, in numbers of its inputs.

    Parameters
    ----------
    reads : tuple of int
        Inputs whose memory is read (their extents alone do not count).
    writes : tuple of int
        Inputs whose memory is written.
    aliases : tuple of int
        Inputs whose memory, or what is kept in it, the outputs may share.
    keeps : tuple of int
        Inputs that are kept in a new container, the output.
    passes : tuple of int
        Inputs of which the contents may be kept in the output as well.
    stores : tuple of int
        Inputs that are kept in what input 0 is.
    moves : tuple of int
        Inputs of which the contents may be kept in what input 0 is.
    fresh : bool
        The outputs may be new memory.  The analysis counts what may be new or an alias as an alias.
    wildcard : bool
        Everything that is reachable from outside may be read and written.
    observable : bool
        It does something that no memory shows: it prints, draws random numbers, raises on purpose.
    """

    reads: tuple[int, ...] = ()
    writes: tuple[int, ...] = ()
    aliases: tuple[int, ...] = ()
    keeps: tuple[int, ...] = ()
    passes: tuple[int, ...] = ()
    stores: tuple[int, ...] = ()
    moves: tuple[int, ...] = ()
    fresh: bool = True
    wildcard: bool = False
    observable: bool = False


NOTHING = Effects()
_CONTAINERS = (TupleType, RecordType, ListType, DictType)
_IMMUTABLE = frozenset(
    {
        t.INT,
        t.FLOAT,
        t.BOOL,
        t.COMPLEX,
        t.STR,
        t.NONE,
        t.ELLIPSIS,
        t.SLICE,
        t.DTYPE,
        PrimType("range"),
        PrimType("Uninitialized"),
    }
)


def is_immutable(type_: Type) -> bool:
    """Whether values of this type have no memory that anything could write."""
    if isinstance(type_, TensorType):
        return type_.scalar
    if isinstance(type_, KnownType):
        return True
    if isinstance(type_, TupleType):
        return all(map(is_immutable, type_.elements))
    if isinstance(type_, UnionType):
        return all(map(is_immutable, type_.alternatives))
    return type_ in _IMMUTABLE


def is_plain_array(type_: Type) -> bool:
    """Whether this is surely an ``ndarray``, of a dtype that holds no Python objects."""
    return (
        isinstance(type_, TensorType)
        and type_.dtype is not None
        and not type_.scalar
        and not type_.dtype.hasobject
    )


def is_array_view(node: Node) -> bool:
    """Whether this surely gives an array in the memory of another one, and none of its elements."""
    return node.kind in _ALWAYS_VIEWS and all(
        isinstance(one.type, TensorType) and not one.type.scalar
        for one in (node.inputs[0], *node.outputs)
    )


def node_effects(node: Node) -> Effects:
    """What this node itself does; nested blocks and held graphs are not looked into."""
    if node.blocks:
        return _read_first(node)
    rule = _RULES.get(node.kind)
    if rule is not None:
        return rule(node)
    if node.kind.startswith("np::"):
        return _numpy(node, node.kind.removeprefix("np::"))
    if node.kind.startswith("math::"):
        return Effects(reads=_all(node))
    if node.kind.startswith("special::"):
        return _special(node)
    if node.kind.startswith("prim::i") and node.kind in TABLE and TABLE[node.kind].writes:
        return _augmented(node)
    if node.kind.startswith("nn::") and node.kind in TABLE:
        return _layer_function(node)
    if isinstance(node.attributes.get("graph"), Graph):
        return NOTHING
    if node.kind in TABLE and TABLE[node.kind].pure:
        return _operator(node)
    return _unknown(node)


def _all(node: Node) -> tuple[int, ...]:
    return tuple(range(len(node.inputs)))


def _are_plain(values: list[Value]) -> bool:
    return all(is_immutable(value.type) or is_plain_array(value.type) for value in values)


def _nothing(node: Node) -> Effects:
    return NOTHING


def _unknown(node: Node) -> Effects:
    return _anything(_all(node))


def _anything(every: tuple[int, ...]) -> Effects:
    return Effects(every, every, every, wildcard=True, observable=True)


def _read_first(node: Node) -> Effects:
    # Only what decides or is iterated over is read; carried values pass through.
    if node.kind in ("prim::Try", "prim::With"):
        return Effects(reads=_all(node), observable=node.kind == "prim::With")
    if node.kind == "prim::For":
        return Effects(reads=(0,), writes=_iterated(node))
    return Effects(reads=(0, 1) if node.kind == "prim::Loop" else (0,))


def _iterated(node: Node) -> tuple[int, ...]:
    """The inputs that may be iterators, which change when they are iterated over."""
    return tuple(
        number
        for number, value in enumerate(node.inputs[:1] if node.blocks else node.inputs)
        if not (_are_plain([value]) or isinstance(value.type, _CONTAINERS))
    )


def _operator(node: Node) -> Effects:
    every = _all(node)
    if _are_plain(node.inputs):
        return Effects(reads=every)
    return Effects(reads=every, aliases=every)


def _layer_function(node: Node) -> Effects:
    row = TABLE[node.kind]
    names = [one.name for one in row.signature[: len(node.inputs)]]
    arguments = dict(zip(names, node.inputs, strict=False))
    writes_too = [
        number
        for name, numbers in row.writes_if.items()
        if name in arguments and arguments[name].constant_value is not False
        for number in numbers
    ]
    return Effects(_all(node), (*row.writes, *writes_too), (0,) if row.view else ())


def _consumer(node: Node) -> Effects:
    """Iterates over its operands and gives one of their elements or what is computed of them."""
    every = _all(node)
    return Effects(every, _iterated(node), every)


def _collector(node: Node) -> Effects:
    """Iterates over its operands and gives a container of the elements, or a tuple as it is."""
    every = _all(node)
    aliases = every if node.kind == "prim::tuple" else ()
    return Effects(every, _iterated(node), aliases, keeps=every, passes=every)


def _iterator(node: Node) -> Effects:
    every = _all(node)
    return Effects(every, keeps=every, passes=every)


def _augmented(node: Node) -> Effects:
    every = _all(node)
    target = node.inputs[0].type
    if is_immutable(target):
        return _operator(node)
    if is_plain_array(target):
        return Effects(every, (0,), (0,), fresh=False)
    return Effects(every, (0,), every, stores=every[1:])


def _getitem(node: Node) -> Effects:
    return Effects(reads=_all(node), aliases=(0,))


def _setitem(node: Node) -> Effects:
    every = _all(node)
    stores = () if is_plain_array(node.inputs[0].type) else every[1:]
    return Effects(every, (0,), stores=stores)


def _get_attribute(node: Node) -> Effects:
    target = node.inputs[0].type
    if is_plain_array(target) or is_immutable(target):
        return Effects(aliases=(0,), fresh=False)
    return Effects(reads=(0,), aliases=(0,))


def _alias_first(node: Node) -> Effects:
    return Effects(aliases=(0,), fresh=False)


def _unpack(node: Node) -> Effects:
    passes = (0,) if "star" in node.attributes else ()
    return Effects((0,), _iterated(node), (0,), passes=passes)


def _one_of_them(node: Node) -> Effects:
    return Effects(aliases=_all(node), fresh=False)


def _set_shape(node: Node) -> Effects:
    return Effects(writes=(0,), aliases=(0,), fresh=False)


def _container(node: Node) -> Effects:
    return Effects(keeps=_all(node))


def _list_items(node: Node) -> Effects:
    # References to arrays, or numbers.
    return Effects(reads=(0,), passes=() if _are_plain(node.outputs) else (0,))


def _list_make(node: Node) -> Effects:
    return Effects(reads=(0,), passes=(0,))


def _list_make_rows(node: Node) -> Effects:
    return Effects(reads=_all(node)[:-1])


def _list_get(node: Node) -> Effects:
    return Effects(reads=(0,), aliases=(0,), fresh=False)


def _list_put(node: Node) -> Effects:
    return Effects(writes=(0,), stores=(2,))


def _list_move(node: Node) -> Effects:
    return Effects(reads=(1,), writes=(0,), moves=(1,))


def _list_make_shared(node: Node) -> Effects:
    # The arrays that say what lists were made already are among the operands.
    return Effects(reads=_all(node), writes=_all(node)[1:])


def _note(node: Node) -> Effects:
    return Effects(_all(node), observable=True)


def _list_write_shared(node: Node) -> Effects:
    return Effects(_all(node), _all(node), observable=True)


def _list_write(node: Node) -> Effects:
    return Effects(_all(node), (0,), observable=True)


def _raise(node: Node) -> Effects:
    return Effects(reads=_all(node), observable=True)


def _call(node: Node) -> Effects:
    held = node.inputs[0].constant_value
    if isinstance(held, type) and issubclass(held, BaseException) and held.__module__ == "builtins":
        return Effects(keeps=_all(node)[1:])
    if any(held is one for one in (format, str, repr)):
        # Objects of the user's own may do anything, but to nobody else's memory.
        return Effects(reads=_all(node), observable=True)
    return _unknown(node)


_ARRAY_WRITERS = frozenset(
    ["byteswap", "fill", "itemset", "partition", "put", "resize", "setfield", "setflags", "sort"]
)
_ARRAY_OUT = frozenset(
    [
        *("all", "any", "argmax", "argmin", "choose", "clip", "compress", "conj", "conjugate"),
        *("cumprod", "cumsum", "dot", "max", "mean", "min", "prod", "round", "std", "sum"),
        *("take", "trace", "var"),
    ]
)
"""The methods that take ``out``."""
_ARRAY_OUTPUTS = frozenset({"dump", "tofile"})
_LIST_WRITERS = frozenset(
    ["append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"]
)
_DICT_WRITERS = frozenset(["clear", "pop", "popitem", "setdefault", "update"])


_FILLING = frozenset(
    ["random", "standard_exponential", "standard_gamma", "standard_normal", "permuted", "shuffle"]
)
"""The methods of random generators that may write to an array they get, and give it back."""


def _call_method(node: Node) -> Effects:
    every = _all(node)
    target = node.inputs[0].type
    name = node.attributes["name"]
    if is_plain_array(target):
        return _array_method(node, name)
    if is_draw(node):
        return Effects(every, (0,), observable=True)
    if target in t.GENERATORS.values():
        fills = name in _FILLING
        return Effects(every, every if fills else (0,), every[1:] if fills else (), observable=True)
    if is_immutable(target) or isinstance(target, TupleType):
        return Effects(reads=every, aliases=every, keeps=every)
    writers = {ListType: _LIST_WRITERS, DictType: _DICT_WRITERS}.get(type(target))
    if writers is None:
        return _unknown(node)
    if name in writers:
        return Effects(every, (0,), (0,), stores=every[1:])
    return Effects(reads=every, aliases=every, keeps=every)


def _array_method(node: Node, name: str) -> Effects:
    every = _all(node)
    method = getattr(np.ndarray, name, None)
    outputs = _outputs(method, _arguments(node)) if name in _ARRAY_OUT else ()
    if name in _ARRAY_WRITERS:
        return Effects(every, (0, *outputs), (0,))
    return Effects(every, outputs, (0, *outputs), observable=name in _ARRAY_OUTPUTS)


_NUMPY_WRITERS = frozenset(
    ["copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "random.shuffle"]
)
_NUMPY_CALLBACKS = frozenset(
    [
        "apply_along_axis",
        "apply_over_axes",
        "fromfunction",
        "fromiter",
        "frompyfunc",
        "mask_indices",
        "piecewise",
        "vectorize",
    ]
)
_NUMPY_OUTSIDE = frozenset(
    [
        "fromfile",
        "genfromtxt",
        "load",
        "loadtxt",
        "memmap",
        "save",
        "savetxt",
        "savez",
        "savez_compressed",
        "set_printoptions",
        "seterr",
        "seterrcall",
        "setbufsize",
        "show_config",
        "show_runtime",
    ]
)


_NUMPY_KEEPERS = frozenset({"asarray", "full_function", "full_like"})


def _numpy_call(node: Node) -> Effects:
    return _numpy(node, str(node.attributes["name"]))


def _numpy(node: Node, name: str) -> Effects:
    if any(map(_is_callback, node.inputs)):
        return _unknown(node)
    if node.kind in _ALWAYS_VIEWS and is_plain_array(node.inputs[0].type):
        # Its making reads no memory.
        return Effects(aliases=(0,), fresh=False)
    return _numpy_function(name, _arguments(node), _are_plain(node.outputs))


class _Arguments(NamedTuple):
    """How arguments are passed; what they are does not count."""

    every: tuple[int, ...]
    keywords: tuple[str, ...]
    has_starred: bool


def _arguments(node: Node) -> _Arguments:
    return _Arguments(_all(node), node.keywords, "starred" in node.attributes)


@cache
def _numpy_function(name: str, arguments: _Arguments, gives_plain: bool) -> Effects:
    """The same for all calls of a function that pass their arguments in one way."""
    every = arguments.every
    row = TABLE.get(f"np::{name}")
    is_known = row is not None or _public_function(name) is not None
    if name in _NUMPY_CALLBACKS or not is_known:
        return _anything(every)
    writes = _numpy_writes(name, arguments)
    outside = name in _NUMPY_OUTSIDE or name.startswith("random.")
    if row is not None:
        aliases = (0, *writes) if row.view else writes
    else:
        aliases = writes if _is_ufunc(name) else every
    # An array of objects passes them on; what is no array itself becomes an element.
    passes = () if gives_plain else every
    keeps = passes if row is None or name in _NUMPY_KEEPERS else ()
    return Effects(every, writes, aliases, keeps, passes, observable=outside)


def _special(node: Node) -> Effects:
    """A ufunc of SciPy: it gives a new array, or that of ``out``."""
    reference = TABLE[node.kind].reference
    assert isinstance(reference, SpecialFunction)
    every, writes = _all(node), _outputs(reference.ufunc, _arguments(node))
    return Effects(every, writes, writes, (), () if _are_plain(node.outputs) else every)


def _public_function(name: str) -> Callable[..., Any] | None:
    """NumPy's function of a dotted name, or None."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if callable(found) else None


_ALWAYS_VIEWS = frozenset(
    f"np::{name}" for name in ("view", "transpose", "broadcast_to", "real", "field", "record")
)


def _is_ufunc(name: str) -> bool:
    return isinstance(getattr(np, name, None), np.ufunc)


def _is_callback(value: Value) -> bool:
    node = value.constant
    if node is None:
        return False
    held = node.attributes["value"]
    known = isinstance(held, type | np.ufunc | np.dtype | np.generic | np.ndarray)
    return callable(held) and not known


def _numpy_writes(name: str, arguments: _Arguments) -> tuple[int, ...]:
    row = TABLE.get(f"np::{name}")
    if row is not None and row.writes:
        return row.writes
    if row is not None and not row.functions:
        return ()
    function = row.functions[0] if row is not None else _public_function(name)
    outputs = _outputs(function, arguments)
    if name in _NUMPY_WRITERS or _is_told_to_overwrite(name, arguments.keywords):
        return (0, *outputs)
    return outputs


def _is_told_to_overwrite(name: str, keywords: tuple[str, ...]) -> bool:
    return "overwrite_input" in keywords or (name == "nan_to_num" and "copy" in keywords)


def _outputs(function: Callable[..., Any] | None, arguments: _Arguments) -> tuple[int, ...]:
    """The inputs that are passed for ``out``, by name or by position."""
    if arguments.has_starred:
        return arguments.every
    keywords = arguments.keywords
    first_keyword = len(arguments.every) - len(keywords)
    found = [first_keyword + k for k, name in enumerate(keywords) if name in ("out", "**")]
    position = _out_position(function) if function is not None else None
    if position is not None:
        # A ufunc takes one array for each of its outputs.
        last = position + (function.nout if isinstance(function, np.ufunc) else 1)
        found += range(position, min(last, first_keyword))
    return tuple(found)


@cache
def _out_position(function: Callable[..., Any]) -> int | None:
    """Which positional parameter ``out`` is."""
    if isinstance(function, np.ufunc):
        return function.nin
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None
    for number, parameter in enumerate(parameters):
        if parameter.name == "out" and parameter.kind is not parameter.KEYWORD_ONLY:
            return number
    return None


_CONSUMERS = ("all", "any", "in_", "max", "min", "notin", "sum")
_COLLECTORS = ("dict", "list", "set", "sorted", "tuple")
_RULES: dict[str, Callable[[Node], Effects]] = {
    "prim::Constant": _nothing,
    "prim::CallFunction": _nothing,
    "prim::Uninitialized": _nothing,
    "prim::Raise": _raise,
    "prim::CheckBound": _alias_first,
    "prim::TupleConstruct": _container,
    "prim::UnionConstruct": _one_of_them,
    "np::set_shape": _set_shape,
    "prim::ListConstruct": _container,
    "prim::SetConstruct": _container,
    "prim::DictConstruct": _container,
    "prim::slice": _container,
    "prim::ListItems": _list_items,
    "prim::ListLength": _list_items,
    "prim::ListGet": _list_get,
    "prim::ListMake": _list_make,
    "prim::ListMakeRows": _list_make_rows,
    "prim::ListMakeShared": _list_make_shared,
    "prim::ListMemo": _list_items,
    "prim::ListMove": _list_move,
    "prim::ListPut": _list_put,
    "prim::ListRoom": _nothing,
    "prim::ListView": _alias_first,
    "prim::ListTakeShared": _list_items,
    "prim::ListWriteShared": _list_write_shared,
    "prim::ListWrite": _list_write,
    "prim::AttributeNote": _note,
    "prim::ElementsWrite": _note,
    **dict.fromkeys([f"prim::{name}" for name in _CONSUMERS], _consumer),
    **dict.fromkeys([f"prim::{name}" for name in _COLLECTORS], _collector),
    **dict.fromkeys(ITERATORS, _iterator),
    "prim::size": _nothing,
    "prim::Unpack": _unpack,
    "prim::getitem": _getitem,
    "prim::setitem": _setitem,
    "prim::delitem": _setitem,
    "prim::GetAttr": _get_attribute,
    "prim::SetAttr": _setitem,
    "prim::FormatString": _operator,
    "prim::Call": _call,
    "prim::CallMethod": _call_method,
    "np::call": _numpy_call,
}
