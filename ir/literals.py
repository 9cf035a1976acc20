"""Attribute values as text: every number, string, dtype, small array and named object, exactly.

``format_literal`` writes what ``parse_literal`` reads back.  Floats are written by ``repr``, NumPy
scalars and arrays as ``np.float32(0.1)`` and ``np.array("int8", (2,), [1, 2])`` (or the base64 of
their bytes), Python objects by name as ``<function numpy.mean>``.  Reading never runs code: only
public names of NumPy, ``math`` and ``builtins`` are looked up, any other name becomes an
``UnresolvedObject``.
"""

from __future__ import annotations

import base64
import builtins
import json
import math
import re
import sys
import types
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from jitcore.ir.bfloat16 import is_bfloat16
from jitcore.ir.dataclass import dataclass
from jitcore.ir.scanner import Scanner
from jitcore.ir.type_syntax import parse_type
from jitcore.ir.types import Type

__all__ = ["UnresolvedObject", "format_literal", "parse_literal", "qualified_name"]

_LISTED_SIZE = 16
_DECIMAL_BITS = 4096
_LISTED_KINDS = "biuf"
_MODULES: dict[str, types.ModuleType] = {
    "numpy": np,
    "numpy.linalg": np.linalg,
    "math": math,
    "builtins": builtins,
}
# NumPy imports these when they are first asked for.
_LATE_MODULES = ("numpy.fft", "numpy.random")
# A program read from a file must not get at these by name.
_FORBIDDEN = frozenset(
    {
        "builtins.breakpoint",
        "builtins.compile",
        "builtins.eval",
        "builtins.exec",
        "builtins.input",
        "builtins.open",
        "numpy.fromfile",
        "numpy.load",
        "numpy.memmap",
        "numpy.save",
        "numpy.savetxt",
        "numpy.savez",
        "numpy.savez_compressed",
    }
)


@dataclass(frozen=True, slots=True)
class UnresolvedObject:
    """A Python object that the text only names; equal to every other one of the same name.

    Parameters
    ----------
    kind : str
        ``"function"``, ``"class"``, ``"module"`` or ``"object"``.
    name : str
        The module's name and the qualified name inside it.
    """

    kind: str
    name: str

    @property
    def __name__(self) -> str:
        return self.name.split(".")[-1]


def format_literal(value: Any) -> str:
    """The text of an attribute's value."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if isinstance(value, np.dtype):
        return f"dtype({_dtype_argument(value)})"
    if isinstance(value, np.generic):
        return _format_scalar(value)
    if isinstance(value, Type):
        return f"type({value})"
    return _format_object(value)


def _format_int(value: int) -> str:
    return str(value) if value.bit_length() < _DECIMAL_BITS else hex(value)


def _format_float(value: float) -> str:
    # ``repr`` does not show the sign of a NaN.
    return "-nan" if math.isnan(value) and math.copysign(1, value) < 0 else repr(value)


def _format_complex(value: complex) -> str:
    return f"complex({_format_float(value.real)}, {_format_float(value.imag)})"


def _format_bytes(value: bytes) -> str:
    return f'bytes("{base64.b64encode(value).decode()}")'


def _format_sequence(opening: str, closing: str) -> Callable[[Any], str]:
    return lambda value: f"{opening}{', '.join(map(format_literal, value))}{closing}"


def _format_tuple(value: tuple[Any, ...]) -> str:
    inner = ", ".join(map(format_literal, value))
    return f"({inner},)" if len(value) == 1 else f"({inner})"


def _format_dict(value: dict[Any, Any]) -> str:
    items = (f"{format_literal(key)}: {format_literal(item)}" for key, item in value.items())
    return f"{{{', '.join(items)}}}"


def _format_set(value: set[Any] | frozenset[Any]) -> str:
    # A set has no order of its own; the text needs one to be stable.
    return f"{type(value).__name__}([{', '.join(sorted(map(format_literal, value)))}])"


def _format_slice(value: slice | range) -> str:
    parts = (value.start, value.stop, value.step)
    return f"{type(value).__name__}({', '.join(map(format_literal, parts))})"


def _dtype_argument(dtype: np.dtype[Any]) -> str:
    if (dtype.isnative and dtype.kind in "biufc") or is_bfloat16(dtype):
        return f'"{dtype.name}"'
    return format_literal(np.lib.format.dtype_to_descr(dtype))


def _format_scalar(value: np.generic) -> str:
    build = _BUILDERS.get(f"np.{value.dtype.name}")
    if build is not None:
        for arguments in _scalar_arguments(value):
            text = ", ".join(map(format_literal, arguments))
            if _bits(build(*_parse_items(Scanner(f"{text})"), ")"))) == _bits(value):
                return f"np.{value.dtype.name}({text})"
    return f"np.scalar({_dtype_argument(value.dtype)}, {_encoded(value)})"


def _scalar_arguments(value: np.generic) -> list[tuple[Any, ...]]:
    """Python numbers that may stand for the scalar, the shortest first."""
    item = value.item()
    if isinstance(item, complex):
        return [(item.real, item.imag)]
    return [(float(str(value)),), (item,)] if isinstance(item, float) else [(item,)]


def _bits(value: Any) -> bytes:
    return np.asarray(value).tobytes()


def _encoded(value: Any) -> str:
    return f'"{base64.b64encode(_bits(value)).decode()}"'


def _format_array(value: np.ndarray[Any, Any]) -> str:
    if value.dtype.hasobject:
        return _format_object(value)
    head = f"np.array({_dtype_argument(value.dtype)}, {_format_tuple(value.shape)}"
    if value.size <= _LISTED_SIZE and value.dtype.kind in _LISTED_KINDS:
        text = format_literal(value.reshape(-1).tolist())
        if _bits(np.array(parse_literal(Scanner(text)), value.dtype)) == _bits(value):
            return f"{head}, {text})"
    return f"{head}, {_encoded(value)})"


def qualified_name(value: Any) -> str:
    """The module and the name inside it, ``numpy.mean``; of an instance, those of its class."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    name = getattr(value, "__name__", None)
    if not isinstance(name, str):
        value = type(value)
        name = value.__name__
    late = {one: sys.modules[one] for one in _LATE_MODULES if one in sys.modules}
    for module_name, module in (_MODULES | late).items():
        if vars(module).get(name) is value:
            return f"{module_name}.{name}"
    module_name = getattr(value, "__module__", None) or "builtins"
    return f"{module_name}.{getattr(value, '__qualname__', name)}"


def _object_kind(value: Any) -> str:
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    named = isinstance(getattr(value, "__name__", None), str)
    return "function" if callable(value) and named else "object"


def _format_object(value: Any) -> str:
    unresolved = isinstance(value, UnresolvedObject)
    kind = value.kind if unresolved else _object_kind(value)
    name = value.name if unresolved else qualified_name(value)
    return f"<{kind} {name if _PATH.fullmatch(name) else json.dumps(name)}>"


_WRITERS: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: _format_int,
    float: _format_float,
    complex: _format_complex,
    str: json.dumps,
    bytes: _format_bytes,
    type(Ellipsis): repr,
    tuple: _format_tuple,
    list: _format_sequence("[", "]"),
    dict: _format_dict,
    set: _format_set,
    frozenset: _format_set,
    slice: _format_slice,
    range: _format_slice,
    np.ndarray: _format_array,
}


_PATH = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
_NUMBER = re.compile(r"-?(?:inf|nan|0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?![\w.])")
_OBJECT = re.compile(r"<(function|class|module|object) ")
_WORDS = {"None": None, "True": True, "False": False, "Ellipsis": Ellipsis}
_NOT_INTEGER = re.compile(r"[.ein]")


def parse_literal(scanner: Scanner) -> Any:
    """Read one value; a ``ParseError`` where none stands."""
    scanner.skip()
    start = scanner.position
    match = scanner.match(_NUMBER)
    if match is not None:
        return _number(match[0])
    match = scanner.match(_STRING)
    if match is not None:
        return _string(scanner, match[0], start)
    if scanner.accept("("):
        return tuple(_parse_items(scanner, ")"))
    if scanner.accept("["):
        return _parse_items(scanner, "]")
    if scanner.accept("{"):
        return _parse_dict(scanner)
    match = scanner.match(_OBJECT)
    if match is not None:
        return _parse_object(scanner, match[1])
    return _parse_word(scanner, start)


def _number(text: str) -> int | float:
    if text.lstrip("-").startswith("0x"):
        return int(text, 16)
    if text == "nan":
        # Containers find a NaN by its identity, and programs mostly name this one.
        return np.nan
    return float(text) if _NOT_INTEGER.search(text) else int(text)


def _string(scanner: Scanner, text: str, start: int) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        scanner.fail("a string with JSON's escapes", start)
    assert isinstance(value, str)
    return value


def _parse_items(scanner: Scanner, closing: str) -> list[Any]:
    items: list[Any] = []
    while not scanner.accept(closing):
        items.append(parse_literal(scanner))
        if not scanner.accept(","):
            scanner.expect(closing)
            break
    return items


def _parse_dict(scanner: Scanner) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    while not scanner.accept("}"):
        key = parse_literal(scanner)
        scanner.expect(":")
        result[key] = parse_literal(scanner)
        if not scanner.accept(","):
            scanner.expect("}")
            break
    return result


def _parse_object(scanner: Scanner, kind: str) -> Any:
    scanner.skip()
    start = scanner.position
    match = scanner.match(_STRING)
    if match is not None:
        name = _string(scanner, match[0], start)
    else:
        name = scanner.require(_PATH, "an object's name")[0]
    scanner.expect(">")
    return _resolve(kind, name)


def _module(name: str) -> types.ModuleType | None:
    return import_module(name) if name in _LATE_MODULES else _MODULES.get(name)


def _resolve(kind: str, name: str) -> Any:
    unresolved = UnresolvedObject(kind, name)
    module = _module(name)
    if module is not None:
        return module if kind == "module" else unresolved
    module_name, _, attribute = name.rpartition(".")
    module = _module(module_name)
    if module is None or attribute.startswith("_") or name in _FORBIDDEN:
        return unresolved
    found = getattr(module, attribute, unresolved)
    return found if _object_kind(found) == kind else unresolved


def _parse_word(scanner: Scanner, start: int) -> Any:
    match = scanner.match(_PATH)
    word = match[0] if match else ""
    if word in _WORDS:
        return _WORDS[word]
    if word == "type" and scanner.accept("("):
        type_ = parse_type(scanner)
        scanner.expect(")")
        return type_
    builder = _BUILDERS.get(word)
    if builder is None:
        scanner.fail("a value", start)
    scanner.expect("(")
    arguments = _parse_items(scanner, ")")
    try:
        return builder(*arguments)
    except (TypeError, ValueError, OverflowError) as error:
        scanner.fail(f"arguments that {word} takes ({error})", start)


def _numpy_scalar(name: str) -> Callable[..., np.generic]:
    dtype = np.dtype(name)

    def build(*parts: Any) -> np.generic:
        value = complex(*parts) if len(parts) == 2 else parts[0]
        result = np.asarray(value).astype(dtype)[()]
        assert isinstance(result, np.generic)
        return result

    return build


def _build_dtype(description: Any) -> np.dtype[Any]:
    dtype = np.lib.format.descr_to_dtype(description)
    assert isinstance(dtype, np.dtype)
    return dtype


def _build_array(description: Any, shape: tuple[int, ...], data: Any) -> np.ndarray[Any, Any]:
    dtype = _plain_dtype(description)
    if isinstance(data, str):
        raw = base64.b64decode(data, validate=True)
        if len(raw) != math.prod(shape) * dtype.itemsize:
            raise ValueError("the data do not fill the shape")
        return np.ndarray(shape, dtype, bytearray(raw))
    return np.array(data, dtype).reshape(shape)


def _build_scalar(description: Any, data: str) -> Any:
    return np.frombuffer(base64.b64decode(data, validate=True), _plain_dtype(description))[0]


def _plain_dtype(description: Any) -> np.dtype[Any]:
    dtype = _build_dtype(description)
    if dtype.hasobject:
        raise ValueError("an array of objects has no text")
    return dtype


def _build_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


_SCALAR_NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
_BUILDERS: dict[str, Callable[..., Any]] = {
    "bytes": _build_bytes,
    "complex": complex,
    "dtype": _build_dtype,
    "frozenset": frozenset,
    "np.array": _build_array,
    "np.scalar": _build_scalar,
    "range": range,
    "set": set,
    "slice": slice,
    **{f"np.{n}": _numpy_scalar(n) for n in [*_SCALAR_NAMES.split(), "complex64", "complex128"]},
}
