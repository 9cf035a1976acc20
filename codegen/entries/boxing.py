"""Boxing: LLVM text that makes Python objects of the words in a native function's result slots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.guards import Arguments
from jitcore.codegen.entries.signature import (
    ArrayResult,
    ConstantResult,
    InputResult,
    Result,
    ScalarResult,
    Signature,
    TupleResult,
    UnionResult,
)
from jitcore.ir.types import ObjectMaker

__all__ = ["box_results", "count_slots"]

_NEW: Any = object.__new__
"""One object, of which entries hold the address."""


def count_slots(result: Result) -> int:
    """How many slots a result takes."""
    if isinstance(result, TupleResult):
        return sum(map(count_slots, result.elements))
    if isinstance(result, UnionResult):
        return 1 + sum(map(count_slots, result.alternatives))
    if isinstance(result, ScalarResult):
        return 2 if result.dtype.kind == "c" else 1
    return 1 if isinstance(result, ArrayResult) else 0


def box_results(code: EntryCode, signature: Signature, found: Arguments, results: str) -> str:
    """Write the boxing of a result, and of what attributes of arguments become.

    Parameters
    ----------
    code : EntryCode
    signature : Signature
    found : Arguments
    results : str
        The address of the first slot.

    Returns
    -------
    str
        The address of a new reference; null with an exception set where there is no memory.
    """
    boxes = _Boxes(code, found.objects, results)
    result = boxes.box(signature.result)
    if not signature.writes:
        return result
    values = code.words([boxes.box(value) for _, value in signature.writes])
    objects = code.words([found.instances[write.object] for write, _ in signature.writes])
    names = code.words([code.constant_name(write.name) for write, _ in signature.writes])
    operands = (f"i64 {len(signature.writes)}", *(f"ptr {one}" for one in (objects, names, values)))
    return code.call("ptr", "jc_set_attributes", f"ptr {result}", *operands)


class _Boxes:
    """Walks a result and takes slots as it goes."""

    def __init__(self, code: EntryCode, objects: Sequence[str], results: str) -> None:
        self._code = code
        self._objects = objects
        self._results = results
        self._slots: Iterator[int] = count()

    def box(self, result: Result) -> str:
        """The address of the object this result becomes."""
        if isinstance(result, TupleResult):
            return self._tuple(result)
        if isinstance(result, ScalarResult):
            return _SCALARS[result.kind](self, result.dtype)
        if isinstance(result, UnionResult):
            return self._union(result)
        if isinstance(result, ArrayResult):
            return self._array(result)
        if isinstance(result, InputResult):
            return self.reference(self._objects[result.index])
        return self._constant(result)

    def slot(self, type_: str) -> str:
        """The value at the start of the next slot."""
        return self._code.load(type_, self._results, 8 * next(self._slots))

    def reference(self, value: str) -> str:
        """A new reference to an object."""
        self._code.call("void", "Py_IncRef", f"ptr {value}")
        return value

    def _constant(self, result: ConstantResult) -> str:
        return self.reference(self._code.constant(result.value))

    def _tuple(self, result: TupleResult) -> str:
        code = self._code
        items = code.words([self.box(element) for element in result.elements])
        operands = (f"i64 {len(result.elements)}", f"ptr {items}")
        if isinstance(result.named, ObjectMaker):
            return self._object(result.named, operands)
        if result.named is list:
            return code.call("ptr", "jc_list", *operands)
        if result.named is None:
            return code.call("ptr", "jc_tuple", *operands)
        return code.call("ptr", "jc_named_tuple", f"ptr {code.constant(result.named)}", *operands)

    def _object(self, maker: ObjectMaker, items: tuple[str, str]) -> str:
        code = self._code
        names = code.words([code.constant_name(name) for name in maker.names])
        new = code.constant(_NEW)
        class_ = code.constant(maker.class_)
        return code.call(
            "ptr", "jc_new_object", f"ptr {new}", f"ptr {class_}", f"ptr {names}", *items
        )

    def _array(self, result: ArrayResult) -> str:
        """The array in the slot, or the argument that it may be.

        Without such an argument it is None in place of a variable that has no value on this path.
        """
        code = self._code
        array, argument = self.slot("ptr"), result.argument
        none = code.constant(None) if argument is None else self._objects[argument]
        is_null = code.same(array, "null")
        code.call(
            "void", "Py_IncRef", f"ptr {code.value(f'select i1 {is_null}, ptr {none}, ptr null')}"
        )
        if result.named is not None:
            array = code.call(
                "ptr", "jc_name_rows", f"ptr {array}, ptr {code.constant(result.named)}"
            )
        return code.value(f"select i1 {is_null}, ptr {none}, ptr {array}")

    def _union(self, result: UnionResult) -> str:
        """Only the alternative that counts is boxed."""
        code = self._code
        tag, done = self.slot("i64"), code.new_label("boxed")
        found = []
        for number, alternative in enumerate(result.alternatives):
            this, other = code.new_label("this"), code.new_label("other")
            is_this = code.same(tag, str(number), "i64")
            code.effect(f"br i1 {is_this}, label %{this}, label %{other}")
            code.start(this)
            value = self.box(alternative)
            found.append(f"[ {value}, %{code.block} ]")
            code.jump(done)
            code.start(other)
        code.effect("unreachable")
        code.start(done)
        return code.value(f"phi ptr {', '.join(found)}")

    def box_int(self, _: np.dtype[Any]) -> str:
        """A Python int."""
        return self._code.call("ptr", "PyLong_FromLongLong", f"i64 {self.slot('i64')}")

    def box_float(self, _: np.dtype[Any]) -> str:
        """A Python float."""
        return self._code.call("ptr", "PyFloat_FromDouble", f"double {self.slot('double')}")

    def box_bool(self, _: np.dtype[Any]) -> str:
        """True or False."""
        return self._either(True, False)

    def box_complex(self, _: np.dtype[Any]) -> str:
        """A Python complex."""
        parts = [f"double {self.slot('double')}" for _ in range(2)]
        return self._code.call("ptr", "PyComplex_FromDoubles", *parts)

    def box_numpy(self, dtype: np.dtype[Any]) -> str:
        """A NumPy scalar; its two bools are singletons."""
        if dtype.kind == "b":
            return self._either(np.True_, np.False_)
        scalar_type = f"ptr {self._code.constant(dtype.type)}"
        if dtype.kind != "c":
            return self._code.call("ptr", "jc_scalar", scalar_type, f"i64 {self._bits(dtype)}")
        if dtype == np.complex128:
            parts = [f"i64 {self.slot('i64')}" for _ in range(2)]
            return self._code.call("ptr", "jc_complex128", scalar_type, *parts)
        real, imag = (self._bits(np.dtype(np.float32)) for _ in range(2))
        high = self._code.value(f"shl i64 {imag}, 32")
        bits = self._code.value(f"or i64 {high}, {real}")
        return self._code.call("ptr", "jc_scalar", scalar_type, f"i64 {bits}")

    def _bits(self, dtype: np.dtype[Any]) -> str:
        """The value in the next slot as a 64-bit word, zero above its own size."""
        if dtype.itemsize == 8:
            return self.slot("i64")
        type_ = f"i{8 * dtype.itemsize}"
        return self._code.value(f"zext {type_} {self.slot(type_)} to i64")

    def _either(self, if_true: object, if_false: object) -> str:
        code = self._code
        is_true = code.value(f"icmp ne i8 {self.slot('i8')}, 0")
        operands = f"ptr {code.constant(if_true)}, ptr {code.constant(if_false)}"
        return self.reference(code.value(f"select i1 {is_true}, {operands}"))


_SCALARS: dict[str, Callable[[_Boxes, np.dtype[Any]], str]] = {
    "int": _Boxes.box_int,
    "float": _Boxes.box_float,
    "bool": _Boxes.box_bool,
    "complex": _Boxes.box_complex,
    "numpy": _Boxes.box_numpy,
}
