"""The guarded entry of a host program: a built-in that checks the arguments and calls a function.

It stands in the chain of entries as those of native functions do (see ``entry``), so that a call
of what was seen before costs no look at the arguments in Python.  One call of many goes on to the
end of the chain all the same: there may be something better for what the arguments are now.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry import CaptureGuard, Entry, EntryWriter
from jitcore.codegen.entries.signature import ConstantResult, Param, Signature
from jitcore.codegen.runtime.functions import ensure_runtime

__all__ = ["make_host_entry"]

_CALLS_BETWEEN_LOOKS = 1024
"""How many calls are taken before one is looked at by the executor."""

_PROGRAM = layout.TUPLE_ITEMS + 8
"""Where the receiver has the program, which stands in the place of an error handler."""


def make_host_entry(
    params: Sequence[Param],
    *,
    name: str,
    captures: Sequence[CaptureGuard],
    translate: Callable[[BaseException], BaseException],
) -> Entry:
    """Write the entry of a host program.

    Parameters
    ----------
    params : sequence of Param
        The function's own parameters, then one for each capture that is an input.
    name : str
        A C identifier.
    captures : sequence of CaptureGuard
    translate : callable
        Gets an exception that the program raises, before the caller does; it gives the same one.

    Returns
    -------
    Entry
        To be bound with the program in the place of the error handler; one in a tuple raises
        exceptions that are the caller's as they are.
    """
    ensure_runtime()
    return _HostEntryWriter(params, name, captures).host_entry(translate)


class _HostEntryWriter(EntryWriter):
    """Writes one entry of a host program."""

    def __init__(
        self, params: Sequence[Param], name: str, captures: Sequence[CaptureGuard]
    ) -> None:
        super().__init__(Signature(tuple(params), ConstantResult(None)), name, captures)

    def host_entry(self, translate: Callable[[BaseException], BaseException]) -> Entry:
        """The whole entry."""
        code = self._code
        captured = self._look_captures_up()
        self._check_arguments()
        self._check_captured(captured)
        self._look_now_and_then()
        code.call("void", "jc_note_call", "ptr %self")
        for value in captured:
            code.call("void", "Py_IncRef", f"ptr {value}")
        args, count = "%args", self._nargs + len(captured)
        if captured:
            own = [code.load("ptr", "%args", 8 * number) for number in range(self._nargs)]
            args = code.words([*own, *captured])
        program = code.load("ptr", "%self", _PROGRAM)
        operands = (program, args, code.constant(translate), code.constant(tuple))
        result = code.call(
            "ptr", "jc_run_program", *(f"ptr {one}" for one in operands), f"i64 {count}"
        )
        self._write_return(result, captured)
        return Entry(self._name, code.declarations, self._text(), tuple(code.constants), ())

    def _look_now_and_then(self) -> None:
        code, place = self._code, self._remembered()
        count = code.value(f"add i64 {code.load('i64', place)}, 1")
        code.effect(f"store i64 {count}, ptr {place}")
        left = code.value(f"urem i64 {count}, {_CALLS_BETWEEN_LOOKS}")
        code.guard(code.value(f"icmp ne i64 {left}, 0"))
