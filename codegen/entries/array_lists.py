"""Lists of arrays that are arguments: the checks of what is in them."""

from __future__ import annotations

from jitcore.codegen.entries import layout
from jitcore.codegen.entries.entry_code import EntryCode
from jitcore.codegen.entries.signature import ArraysKind

__all__ = ["read_arrays"]


def read_arrays(code: EntryCode, kind: ArraysKind, value: str, *, is_written: bool) -> str:
    """The address of references to the arrays in a list, which live until the entry returns.

    Goes to the block ``miss`` where one of them is none of this kind.
    """
    flags = layout.ARRAY_ALIGNED | layout.ARRAY_C_CONTIGUOUS
    if is_written:
        flags |= layout.ARRAY_WRITEABLE
    numbers = layout.dtype_numbers(kind.dtype)
    wanted = (numbers[0], numbers[-1], kind.rank, flags)
    found = code.call("ptr", "jc_read_arrays", f"ptr {value}", *(f"i64 {one}" for one in wanted))
    code.own(found)
    code.guard(code.value(f"icmp ne ptr {found}, null"))
    return code.load("ptr", found, layout.ARRAY_DATA)
