"""Which ints are surely not negative: what their linear forms and the loops around them prove.

``n - 1 - i`` is at least 0 for the index ``i`` of ``range(n)``, because ``i`` is below ``n``.
"""

from __future__ import annotations

from jitcore.ir.graph import Value

__all__ = ["difference", "is_nonnegative"]

_NEVER_NEGATIVE = frozenset({"prim::size", "prim::len", "prim::range_length"})
_ROUNDS = 4
"""How many loops inside one another a proof may look at."""

Form = tuple[dict[Value, int], int]
"""``sum(coefficient * value) + constant``."""


def difference(x: Value, y: Value) -> int | None:
    """``x - y`` where that is the same number whenever the program computes both."""
    terms, constant = _plus(_form(x), _form(y), -1)
    return None if terms else constant


def is_nonnegative(value: Value) -> bool:
    """Whether an int is at least 0 wherever the program computes it."""
    terms, constant = _form(value)
    for _ in range(_ROUNDS):
        negative = [one for one, coefficient in terms.items() if coefficient < 0]
        if not negative:
            break
        limit = _largest(negative[0])
        if limit is None:
            return False
        step, most = limit
        coefficient = terms.pop(negative[0])
        if coefficient % step:
            return False
        terms, constant = _plus((terms, constant), most, coefficient // step)
    return constant >= 0 and all(
        coefficient > 0 and _is_never_negative(one) for one, coefficient in terms.items()
    )


def _form(value: Value) -> Form:
    node, number = value.node, value.constant_value
    if type(number) is int:
        return {}, number
    if node is not None and node.kind in ("prim::add", "prim::sub"):
        x, y = node.inputs
        return _plus(_form(x), _form(y), 1 if node.kind == "prim::add" else -1)
    if node is not None and node.kind == "prim::mul":
        (x_terms, x_number), (y_terms, y_number) = map(_form, node.inputs)
        if not x_terms:
            return _plus(({}, 0), (y_terms, y_number), x_number)
        if not y_terms:
            return _plus(({}, 0), (x_terms, x_number), y_number)
    return {value: 1}, 0


def _plus(x: Form, y: Form, factor: int) -> Form:
    """``x + factor * y``."""
    terms = dict(x[0])
    for value, coefficient in y[0].items():
        terms[value] = terms.get(value, 0) + factor * coefficient
    kept = {value: coefficient for value, coefficient in terms.items() if coefficient}
    return kept, x[1] + factor * y[1]


def _largest(value: Value) -> tuple[int, Form] | None:
    """A number, and what a loop's index is at most when it is multiplied by that."""
    block = value.block
    if not _is_index(value) or block is None or block.owner is None:
        return None
    trips = block.owner.inputs[0]
    length = trips.node
    if length is None or length.kind != "prim::range_length":
        return 1, _plus(_form(trips), ({}, 1), -1)
    start, stop, step = length.inputs
    number = step.constant_value
    if type(number) is not int or number == 0:
        return None
    first, last = (start, stop) if number > 0 else (stop, start)
    # Inside of the loop the range is not empty.
    return abs(number), _plus(_plus(_form(last), _form(first), -1), ({}, 1), -1)


def _is_index(value: Value) -> bool:
    block = value.block
    is_first = block is not None and value.node is None and block.params[:1] == [value]
    owner = None if block is None else block.owner
    return is_first and owner is not None and owner.kind == "prim::Loop" and bool(owner.inputs)


def _is_never_negative(value: Value) -> bool:
    return _is_index(value) or (value.node is not None and value.node.kind in _NEVER_NEGATIVE)
