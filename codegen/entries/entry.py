"""The guarded entry of a native function: a built-in that checks, unpacks, calls and boxes.

An entry has CPython's ``METH_FASTCALL | METH_KEYWORDS`` form.  It reads its arguments straight from
their C structs; where one is not what the native function was compiled for, it calls the next
callable with the very same arguments, so that specializations form a chain::

    builtin(x, y) ── checks hold ──▶ native function ──▶ boxed result
         │ miss                            │ status != 0
         ▼                                 ▼
    next(x, y)                        handler(status, address of the payload, x, y)

The text of an entry contains no addresses, so its machine code can be stored.  The Python objects
it compares with and returns lie in a table, which ``Entry.fill`` writes after loading.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from types import CellType, FunctionType
from typing import Any, Literal, Protocol

import numpy as np

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.boxing import box_results, count_slots
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.generators import give_back_all, global_generator, interface
from jitcore.codegen.entries.guards import (
    Arguments,
    check_different,
    check_disjoint,
    check_own,
    check_param,
    free_lists,
    read_lists,
)
from jitcore.codegen.entries.object_lists import write_elements
from jitcore.codegen.entries.signature import ScalarResult, Signature
from jitcore.codegen.entries.work_balance import Balance, make_balance
from jitcore.codegen.runtime.functions import ensure_runtime
from jitcore.ir.dataclass import dataclass

__all__ = [
    "ABSENT",
    "LEFT_TO_PYTHON",
    "CaptureGuard",
    "Entry",
    "EntryWriter",
    "ReleaseGil",
    "bind",
    "make_entry",
]

_METH_FASTCALL_KEYWORDS = 0x80 | 0x02
_NEXT, _HANDLER = layout.TUPLE_ITEMS, layout.TUPLE_ITEMS + 8
_MIN_SLOTS = 16

ReleaseGil = Literal["never", "large", "always"]

LEFT_TO_PYTHON = -1
"""The status of calls that are left to Python, of which there is no error site."""

_TAG = ScalarResult("int", np.dtype(np.int64))
"""What stands before the values that an attribute may have."""

_LARGE = 1024
"""With so many elements a call takes longer than giving up the GIL, which costs some 50 ns."""


class _Absent:
    """The type of ``ABSENT``."""

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()
"""Expected of a capture that must not exist: a global that would hide a built-in, an empty cell."""


@dataclass(frozen=True, slots=True, eq=False)
class CaptureGuard:
    """A global, an entry of a ``__dict__`` or a closure cell that the function was compiled for.

    Or what a function is made of, that was compiled.

    Parameters
    ----------
    container : dict, cell or function
    key : str or None
        The name in the dict, or that of the function's attribute; None for a cell.
    expected : object
        What must be found there, compared by identity, or ``ABSENT``.  For an input, None means
        that any object its parameter fits is fine.
    is_input : bool
        The object found is passed on: it is one of the signature's last parameters, which stand in
        the order of these captures.
    """

    container: dict[str, Any] | CellType | FunctionType
    key: str | None
    expected: Any = None
    is_input: bool = False


class Module(Protocol):
    """Loaded machine code, as ``codegen.engine`` gives it."""

    def address(self, symbol: str) -> int:
        """The address of a function or a table."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """The text of an entry, and the objects its table of constants points to.

    Parameters
    ----------
    name : str
        Its function is ``entry_<name>``, and the table ``table_<name>``.
    declarations : dict of str to str
        The LLVM declarations it needs, by symbol; entries that share a module need each one once.
    definitions : str
        Its LLVM functions and tables.
    operand_types : tuple of str
        The LLVM types of the operands it passes to the native function.
    releases_gil : bool
        Other threads may run while the native function does.
    constants : tuple of object
        Whoever owns the machine code keeps these alive as long as it can be called.
    """

    name: str
    declarations: dict[str, str]
    definitions: str
    constants: tuple[Any, ...]
    operand_types: tuple[str, ...]
    releases_gil: bool = False

    @property
    def text(self) -> str:
        """Declarations and definitions, to follow the text of the native function."""
        return "\n".join([*self.declarations.values(), self.definitions])

    @property
    def symbol(self) -> str:
        """The symbol of the entry function."""
        return f"entry_{self.name}"

    def fill(self, module: Module) -> None:
        """Write the table of constants; the entry must not be called before."""
        layout.fill_table(module.address(f"table_{self.name}"), dict(enumerate(self.constants)))


def make_entry(
    signature: Signature,
    native_symbol: str,
    *,
    name: str,
    captures: Sequence[CaptureGuard] = (),
    release_gil: ReleaseGil = "never",
    check_errstate: bool = False,
) -> Entry:
    """Write the entry of a native function.

    Parameters
    ----------
    signature : Signature
        The function's own parameters, then one for each capture that is an input.
    native_symbol : str
        A function ``i64 (operands..., ptr results)`` in the same module.
    name : str
        A C identifier.
    captures : sequence of CaptureGuard
    release_gil : {"never", "large", "always"}
        When to run the native function without the GIL, so that other threads run meanwhile:
        ``"large"`` is where the arrays have many elements together.
    check_errstate : bool
        Miss while ``np.errstate`` asks for more than warnings.

    Returns
    -------
    Entry
    """
    ensure_runtime()
    if not (name.isidentifier() and name.isascii()):
        raise ValueError(f"internal error: {name!r} is no name for an entry")
    return EntryWriter(signature, name, captures).entry(
        native_symbol, release_gil=release_gil, check_errstate=check_errstate
    )


class EntryWriter:
    """Writes one entry: checks, captures, the call, and the block ``miss``."""

    def __init__(self, signature: Signature, name: str, captures: Sequence[CaptureGuard]) -> None:
        self._signature = signature
        self._name = name
        self._captures = captures
        self._nargs = len(signature.params) - sum(capture.is_input for capture in captures)
        self._code = EntryCode(f"table_{name}")
        self._found = Arguments()
        self._memory = f"memory_{name}"
        self._memory_size = 0

    def entry(self, native_symbol: str, *, release_gil: ReleaseGil, check_errstate: bool) -> Entry:
        """The whole entry."""
        code, found = self._code, self._found
        # What classes have been seen to be is checked before attributes are read.
        captured = self._look_captures_up()
        self._check_arguments()
        self._check_captured(captured)
        check_disjoint(code, found.arrays)
        writes = {write for write, _ in self._signature.writes}
        check_different(code, found, {write.object for write in writes})
        check_own(code, found, writes)
        if check_errstate:
            matters = code.call("i1", "jc_float_errors_matter")
            code.guard(code.value(f"xor i1 {matters}, true"))
        work = self._check_work()
        self._take_generators()
        lists = read_lists(code, found, self._signature.element_writes)
        code.call("void", "jc_note_call", "ptr %self")
        noted = [one for note in self._signature.noted for one in (_TAG, *note.types)]
        slots = max(_MIN_SLOTS + sum(map(count_slots, noted)), 2 + self._count_slots())
        results = code.alloca(f"[{slots} x i64]")
        operands = ", ".join([*found.operands, f"ptr {results}"])
        for value in captured:
            code.call("void", "Py_IncRef", f"ptr {value}")
        status = self._call_native(native_symbol, operands, release_gil)
        # Before anything that may set an exception, as this calls Python.
        self._give_generators_back(status)
        failed = self._write_elements(status)
        free_lists(code, lists)
        self._write_error(status, results, captured)
        self._write_failure(failed, captured)
        if work is not None:
            work.note(code, results, 8 * self._count_slots())
        self._write_return(self._box(results), captured)
        types = tuple(operand.split()[0] for operand in [*found.operands, "ptr results"])
        constants, releases_gil = tuple(code.constants), release_gil != "never"
        return Entry(self._name, code.declarations, self._text(), constants, types, releases_gil)

    def _call_native(self, native_symbol: str, operands: str, release_gil: ReleaseGil) -> str:
        """The status that the native function gives."""
        state = self._save_thread(release_gil)
        status = self._code.value(f"call i64 @{native_symbol}({operands})")
        self._restore_thread(state)
        return status

    def _box(self, results: str) -> str:
        """The object that the results become."""
        return box_results(self._code, self._signature, self._found, results)

    def _count_slots(self) -> int:
        """How many slots the results take, those that attributes become among them."""
        signature = self._signature
        return sum(map(count_slots, [signature.result, *(one for _, one in signature.writes)]))

    def _check_arguments(self) -> None:
        code = self._code
        count = code.same("%nargs", str(self._nargs), "i64")
        code.guard(count, code.same("%kwnames", "null"))
        for number, param in enumerate(self._signature.params[: self._nargs]):
            check_param(code, param, code.load("ptr", "%args", 8 * number), self._found)

    def _look_captures_up(self) -> list[str]:
        """Check what all captures are; gives the objects that are passed on."""
        by_container: dict[int, list[CaptureGuard]] = {}
        for capture in self._captures:
            by_container.setdefault(id(capture.container), []).append(capture)
        objects: dict[CaptureGuard, str] = {}
        for group in by_container.values():
            if isinstance(group[0].container, dict):
                self._check_dict(group, objects)
            elif isinstance(group[0].container, FunctionType):
                self._check_function(group)
            else:
                self._check_cell(group, objects)
        return [objects[capture] for capture in self._captures if capture.is_input]

    def _check_captured(self, captured: Sequence[str]) -> None:
        params = self._signature.params[self._nargs :]
        for param, value in zip(params, captured, strict=True):
            check_param(self._code, param, value, self._found)

    def _check_cell(self, group: list[CaptureGuard], objects: dict[CaptureGuard, str]) -> None:
        code = self._code
        for capture in group:
            cell = code.constant(capture.container)
            objects[capture] = code.load("ptr", cell, layout.CELL_CONTENTS)
            self._check_identity(capture, objects[capture])

    def _check_function(self, group: list[CaptureGuard]) -> None:
        code = self._code
        for capture in group:
            assert capture.key is not None
            function = code.constant(capture.container)
            found = code.load("ptr", function, layout.FUNCTION_PARTS[capture.key])
            is_none = capture.expected is None
            code.guard(code.same(found, "null" if is_none else code.constant(capture.expected)))

    def _check_dict(self, group: list[CaptureGuard], objects: dict[CaptureGuard, str]) -> None:
        """Look the names up, but only where the dict has changed since they were seen."""
        code = self._code
        namespace = code.constant(group[0].container)
        if not layout.has_dict_versions():
            objects.update(self._look_up(group, namespace))
            return
        version = code.load("i64", namespace, layout.DICT_VERSION)
        seen = self._remembered()
        look, done = code.new_label("look"), code.new_label("captured")
        is_known = code.same(version, code.load("i64", seen), "i64")
        code.effect(f"br i1 {is_known}, label %{done}, label %{look}")
        code.start(look)
        places = {}
        for capture, value in self._look_up(group, namespace).items():
            if capture.is_input:
                places[capture] = self._remembered()
                code.effect(f"store ptr {value}, ptr {places[capture]}")
        code.effect(f"store i64 {version}, ptr {seen}")
        code.jump(done)
        code.start(done)
        for capture, place in places.items():
            objects[capture] = code.load("ptr", place)

    def _remembered(self) -> str:
        """A word that keeps its value from call to call; 0 at first."""
        self._memory_size += 1
        return f"getelementptr (i64, ptr @{self._memory}, i64 {self._memory_size - 1})"

    def _look_up(self, group: list[CaptureGuard], namespace: str) -> dict[CaptureGuard, str]:
        code = self._code
        objects = {}
        for capture in group:
            key = code.constant(capture.key)
            value = code.call("ptr", "PyDict_GetItem", f"ptr {namespace}", f"ptr {key}")
            self._check_identity(capture, value)
            objects[capture] = value
        return objects

    def _check_identity(self, capture: CaptureGuard, value: str) -> None:
        code = self._code
        if capture.expected is ABSENT:
            code.guard(code.same(value, "null"))
        elif capture.is_input and capture.expected is None:
            code.guard(code.value(f"icmp ne ptr {value}, null"))
        else:
            code.guard(code.same(value, code.constant(capture.expected)))

    def _check_work(self) -> Balance | None:
        """Leave calls to Python once those before had much to read from lists and little to do."""
        code = self._code
        balance = make_balance(code, self._found, self._remembered)
        if balance is None:
            return None
        take = balance.check(code)
        self._write_return(self._handled(str(LEFT_TO_PYTHON), "null"), [])
        balance.take(code, take)
        return balance

    def _take_generators(self) -> None:
        """Lock what the native function draws from."""
        code, found = self._code, self._found
        if self._signature.draws_globally:
            found.generators.append(global_generator(code))
            found.operands.append(interface(code, found.generators[-1]))
        for one in found.generators:
            one.take(code)

    def _give_generators_back(self, status: str) -> None:
        """Unlock it again, as it was before the call where Python begins anew."""
        code, generators = self._code, self._found.generators
        if not generators:
            return
        numbers = (0, *self._signature.late_errors)
        is_done = code.any_of([code.same(status, str(one), "i64") for one in numbers])
        give_back_all(code, generators, code.value(f"xor i1 {is_done}, true"))

    def _handled(self, status: str, results: str) -> str:
        """What the handler gives for a status of the native function, or another one."""
        code = self._code
        handler = code.load("ptr", "%self", _HANDLER)
        operands = (f"ptr {handler}", f"i64 {status}", f"ptr {results}", "ptr %args", "i64 %nargs")
        return code.call("ptr", "jc_error", *operands)

    def _save_thread(self, release_gil: ReleaseGil) -> str | None:
        """Give the GIL up where that pays; the thread's state, or null where it was kept."""
        code = self._code
        if release_gil == "never":
            return None
        if release_gil == "always":
            return code.call("ptr", "PyEval_SaveThread")
        save, done, before = code.new_label("save"), code.new_label("saved"), code.block
        is_large = code.value(f"icmp uge i64 {self._elements()}, {_LARGE}")
        code.effect(f"br i1 {is_large}, label %{save}, label %{done}")
        code.start(save)
        saved = code.call("ptr", "PyEval_SaveThread")
        code.jump(done)
        code.start(done)
        return code.value(f"phi ptr [ null, %{before} ], [ {saved}, %{save} ]")

    def _elements(self) -> str:
        """The number of elements that the arrays have together."""
        code, total = self._code, "0"
        for array in self._found.arrays:
            total = code.value(f"add i64 {total}, {code.product('1', array.dims)}")
        return total

    def _restore_thread(self, state: str | None) -> None:
        if state is None:
            return
        code = self._code
        restore, done = code.new_label("restore"), code.new_label("restored")
        kept = code.same(state, "null")
        code.effect(f"br i1 {kept}, label %{done}, label %{restore}")
        code.start(restore)
        code.call("void", "PyEval_RestoreThread", f"ptr {state}")
        code.jump(done)
        code.start(done)

    def _write_elements(self, status: str) -> str | None:
        """Set attributes of objects in lists, but where Python begins anew.

        Gives the place of what says whether that has failed.
        """
        code, writes = self._code, self._signature.element_writes
        if not writes:
            return None
        failed = code.alloca("i32")
        code.effect(f"store i32 0, ptr {failed}")
        write, done = code.new_label("write"), code.new_label("written")
        numbers = (0, *self._signature.late_errors)
        writes_now = code.any_of([code.same(status, str(one), "i64") for one in numbers])
        code.effect(f"br i1 {writes_now}, label %{write}, label %{done}")
        code.start(write)
        for one in write_elements(code, self._found.object_lists, writes):
            before = code.load("i32", failed)
            code.effect(f"store i32 {code.value(f'or i32 {before}, {one}')}, ptr {failed}")
        code.jump(done)
        code.start(done)
        return failed

    def _write_failure(self, failed: str | None, captured: list[str]) -> None:
        """Return with the exception that setting attributes has met."""
        if failed is None:
            return
        code = self._code
        stop, go_on = code.new_label("stop"), code.new_label("set")
        is_well = code.same(code.load("i32", failed), "0", "i32")
        code.effect(f"br i1 {is_well}, label %{go_on}, label %{stop}")
        code.start(stop)
        self._write_return("null", captured)
        code.start(go_on)

    def _write_error(self, status: str, results: str, captured: list[str]) -> None:
        code = self._code
        success, error = code.new_label("success"), code.new_label("error")
        code.branch_as_usual(code.same(status, "0", "i64"), success, error)
        code.start(error)
        self._write_return(self._handled(status, results), captured)
        code.start(success)

    def _write_return(self, value: str, captured: list[str]) -> None:
        """Return, and drop the references that kept captured objects alive.

        Their names may be bound anew during the call: by another thread, or by a finalizer.
        """
        for held in captured:
            self._code.call("void", "Py_DecRef", f"ptr {held}")
        self._code.drop_held()
        self._code.effect(f"ret ptr {value}")

    def _miss(self) -> list[str]:
        """The lines of the block ``miss``."""
        code, written = self._code, len(self._code.lines)
        code.start("miss")
        give_back_all(code, self._found.generators, "false")
        code.drop_held()
        lines = code.lines[written:]
        del code.lines[written:]
        return [*lines, _MISS.format(next=_NEXT)]

    def _text(self) -> str:
        code = self._code
        code.declare("PyObject_Vectorcall", "ptr", "ptr, ptr, i64, ptr")
        constants, memory = max(1, len(code.constants)), max(1, self._memory_size)
        parts = [
            f"@{code.table} = dso_local global [{constants} x ptr] zeroinitializer",
            f"@{self._memory} = internal global [{memory} x i64] zeroinitializer",
            f"define ptr @entry_{self._name}({_PARAMS}) {{",
            *code.allocas,
            "  br label %checks",
            "checks:",
            *code.lines,
            *self._miss(),
        ]
        return "\n".join(parts) + "\n"


_PARAMS = "ptr %self, ptr %args, i64 %nargs, ptr %kwnames"

_MISS = """\
  %next.slot = getelementptr i8, ptr %self, i64 {next}
  %next = load ptr, ptr %next.slot
  %other = musttail call ptr @PyObject_Vectorcall(ptr %next, ptr %args, i64 %nargs, ptr %kwnames)
  ret ptr %other
}}"""


def _method_definition(name: bytes, address: int, doc: bytes | None) -> np.ndarray[Any, Any]:
    """A ``PyMethodDef``: the addresses of name and function, the flags, the address of the doc.

    It lies in an array because the garbage collector leaves arrays alone.  It clears the structures
    of ctypes that it finds in a cycle, and a built-in reads its definition when it dies.
    """
    words = [_text_address(name), address, _METH_FASTCALL_KEYWORDS, _text_address(doc)]
    return np.array(words, np.uintp)


def _text_address(text: bytes | None) -> int:
    return 0 if text is None else ctypes.cast(ctypes.c_char_p(text), ctypes.c_void_p).value or 0


def bind(
    address: int,
    name: str,
    next_callable: Callable[..., Any],
    error_handler: Callable[..., Any] | tuple[Callable[..., Any]],
    doc: str | None = None,
    *,
    owner: object = None,
) -> Callable[..., Any]:
    """Make an entry callable.

    The same entry may be bound any number of times, with other neighbours.

    Parameters
    ----------
    address : int
        Of ``entry_<name>``, whose table has been filled.
    name : str
        The built-in's ``__name__``.
    next_callable : callable
        Called with the same arguments where a check fails.
    error_handler : callable, or a tuple of one
        One in a tuple is called with the same arguments where the native function reports an error.
        Any other is called with (status, address of the payload, arguments...) instead; the
        payload is readable during this call.  What it returns or raises is the outcome.
    doc : str, optional
        The built-in's ``__doc__``.
    owner : object, optional
        Kept alive with the built-in: the machine code and the entry's constants.

    Returns
    -------
    callable
        A ``builtin_function_or_method``.
    """
    texts = (name.encode(), None if doc is None else doc.encode())
    method = _method_definition(texts[0], address, texts[1])
    # The built-in reads the method definition as long as it lives, and it owns its ``self``.
    receiver = (next_callable, error_handler, method, texts, owner)
    builtin: Callable[..., Any] = _new_builtin(method.ctypes.data, receiver, None)
    return builtin


_new_builtin = ctypes.pythonapi.PyCFunction_NewEx
_new_builtin.restype = ctypes.py_object
_new_builtin.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
