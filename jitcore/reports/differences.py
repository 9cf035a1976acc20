"""What a specialization assumes of arguments, in words, and in what others differ from it."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Sequence
from typing import Any

from jitcore.codegen.entries.signature import Layout
from jitcore.execution.signatures import Description
from jitcore.ir.dtype_names import dtype_name

__all__ = ["assumption", "difference", "differences"]

_LAYOUTS = {"C": "C-contiguous", "F": "Fortran-contiguous", "strided": "strided"}


def assumption(description: Description, name: str) -> str:
    """What a specialization takes an argument to be.

    Parameters
    ----------
    description : Description
        From a specialization's key; an extent of None stands for all but 1.
    name : str
        The argument's, after which symbolic extents are called.

    Examples
    --------
    >>> import numpy as np
    >>> assumption(("array", np.dtype("f4"), (3, 4), "C"), "x")
    'Float32[3, 4], C-contiguous'
    >>> assumption(("array", np.dtype("f4"), (None, 1), "strided"), "x")
    'Float32[x0, 1], strided, x0 not 1'
    """
    kind = description[0]
    if kind == "array":
        return _array(description, name)
    if kind == "tuple":
        parts = (assumption(part, f"{name}{n}_") for n, part in enumerate(description[2:]))
        return f"a {_tuple_name(description)} of ({'; '.join(parts)})"
    if kind in ("object", "objects"):
        named = zip(description[2], description[4:], strict=True)
        fields = (f"{one}: {assumption(part, f'{name}_{one}')}" for one, part in named)
        number = "a" if kind == "object" else "a list of"
        return f"{number} {_class_name(description)} with {'; '.join(fields)}"
    if kind == "function":
        function = description[1]
        named = zip(function.names, description[2:], strict=True)
        held = [f"{one} {assumption(part, f'{name}_{one}')}" for one, part in named]
        text = f"any function {function.__name__}"
        return f"{text} with {'; '.join(held)}" if held else text
    if kind == "constant":
        return f"exactly {reprlib.repr(description[2])}"
    return f"any {_word(description)}"


def _array(description: Description, name: str) -> str:
    _, dtype, shape, layout = description
    symbols = [f"{name}{axis}" for axis, extent in enumerate(shape) if extent is None]
    dims = ", ".join(
        f"{name}{axis}" if extent is None else str(extent) for axis, extent in enumerate(shape)
    )
    text = f"{dtype_name(dtype)}[{dims}], {_layout(layout)}"
    return f"{text}, {' and '.join(symbols)} not 1" if symbols else text


def _layout(layout: Layout) -> str:
    """A layout in words; axes whose strides do not get smaller are named, the largest first."""
    if isinstance(layout, str):
        return _LAYOUTS[layout]
    axes = sorted((axis for axis, one in enumerate(layout) if one), key=lambda axis: -layout[axis])
    if axes == sorted(axes):
        return "strided"
    return f"strided, in memory by axes {', '.join(map(str, axes))}"


def _tuple_name(description: Description) -> str:
    return "tuple" if description[1] is None else str(description[1].__name__)


def _class_name(description: Description) -> str:
    name: str = description[1].value.__qualname__
    return name


def _word(description: Description) -> str:
    """What kind of thing it is, in one or two words."""
    kind = description[0]
    if kind == "numpy":
        return f"numpy.{description[1]}"
    if kind == "any":
        return "object that compiled code leaves to Python"
    if kind == "generator":
        return "random generator"
    if kind == "array":
        return "array"
    if kind in ("list", "held"):
        return _list_name(description[1])
    if kind == "tuple":
        return _tuple_name(description)
    if kind in ("object", "objects"):
        return f"{'list of ' * (kind == 'objects')}{_class_name(description)}"
    if kind == "function":
        return f"function {description[1].__name__}"
    if kind == "constant":
        return reprlib.repr(description[2])
    return str(kind)


def _list_name(kind: Any) -> str:
    if kind is None:
        return "empty list"
    if isinstance(kind, tuple) and kind[0] == "rows":
        return f"{'list of ' * kind[1]}{_list_name(kind[2])}"
    if isinstance(kind, tuple) and kind[0] == "arrays":
        return f"list of {kind[1].name} arrays of rank {kind[2]}"
    if isinstance(kind, tuple):
        return f"list of tuples of {_in_tuple(kind)}"
    return "text" if kind == "character" else f"list of {kind}s"


def _in_tuple(kind: tuple[Any, ...]) -> str:
    return ", ".join(f"({_in_tuple(one)})" if isinstance(one, tuple) else one for one in kind)


def differences(
    assumed: Sequence[Description], given: Sequence[Description], names: Sequence[str]
) -> list[str]:
    """In what a call's arguments differ from those that a specialization assumes.

    Parameters
    ----------
    assumed, given : sequence of Description
        The specialization's key, and the description of the call.
    names : sequence of str
        The arguments'.

    Returns
    -------
    list of str
        One entry for each argument that differs, such as ``"x: Float64 instead of Float32"``.
    """
    return [
        f"{name}: {', '.join(found)}"
        for one, two, name in zip(assumed, given, names, strict=True)
        if (found := list(difference(one, two)))
    ]


def difference(assumed: Description, given: Description) -> Iterator[str]:
    """In what one argument differs from the one that is assumed."""
    if assumed[0] == given[0] == "array":
        yield from _array_difference(assumed, given)
    elif assumed[0] == given[0] == "tuple" and assumed[1] is given[1]:
        yield from _tuple_difference(assumed, given)
    elif assumed[0] == given[0] == "object" and assumed[:4] == given[:4]:
        for name, one, two in zip(assumed[2], assumed[4:], given[4:], strict=True):
            yield from (f"attribute {name}: {text}" for text in difference(one, two))
    elif assumed != given:
        yield f"{_word(given)} instead of {_word(assumed)}"


def _array_difference(assumed: Description, given: Description) -> Iterator[str]:
    _, dtype, shape, layout = assumed
    _, other_dtype, other_shape, other_layout = given
    if dtype != other_dtype:
        yield f"{dtype_name(other_dtype)} instead of {dtype_name(dtype)}"
    if len(shape) != len(other_shape):
        yield f"{_axes(other_shape)} instead of {_axes(shape)}"
    elif None not in shape and shape != other_shape:
        yield f"shape {other_shape} instead of {shape}"
    else:
        yield from _pattern_difference(shape, other_shape)
    if layout != other_layout:
        yield f"{_layout(other_layout)} instead of {_layout(layout)}"


def _pattern_difference(
    shape: tuple[int | None, ...], other: tuple[int | None, ...]
) -> Iterator[str]:
    """Dynamic specializations assume some extents, and where extents of 1 are, and are not."""
    for axis, (extent, given) in enumerate(zip(shape, other, strict=True)):
        if extent is None and given == 1:
            yield f"axis {axis} has the extent 1 instead of any other"
        elif extent is not None and given != extent:
            yield f"axis {axis} has the extent {given} instead of {extent}"


def _axes(shape: tuple[Any, ...]) -> str:
    return "1 axis" if len(shape) == 1 else f"{len(shape)} axes"


def _tuple_difference(assumed: Description, given: Description) -> Iterator[str]:
    if len(assumed) != len(given):
        yield f"{len(given) - 2} elements instead of {len(assumed) - 2}"
        return
    for number, (one, two) in enumerate(zip(assumed[2:], given[2:], strict=True)):
        for text in difference(one, two):
            yield f"element {number}: {text}"
