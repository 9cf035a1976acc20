"""Samples of every row of the op table, gathered from the families."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from op_samples import OpInfo
from opinfos_arrangements import arrangements_rows, contractions_rows, diagonals_rows
from opinfos_arrays import indexing_rows, shapes_rows
from opinfos_creation import creation_rows
from opinfos_elementwise import casts_rows, special_rows, ufuncs_rows
from opinfos_layers import layers_rows
from opinfos_numeric import (
    calculus_rows,
    comparing_rows,
    conversion_rows,
    searching_rows,
    selecting_rows,
)
from opinfos_python import math_rows, operators_rows, python_rows
from opinfos_reductions import linalg_rows, reductions_rows
from opinfos_statistics import (
    factorizations_rows,
    hosted_rows,
    outputs_rows,
    statistics_rows,
)

__all__ = ["OPINFOS"]


def _all() -> Iterator[OpInfo]:
    yield from operators_rows()
    yield from python_rows()
    yield from math_rows()
    yield from indexing_rows()
    yield from ufuncs_rows()
    yield from casts_rows()
    yield from special_rows()
    yield from reductions_rows()
    yield from shapes_rows()
    yield from creation_rows()
    yield from linalg_rows()
    yield from arrangements_rows()
    yield from contractions_rows()
    yield from diagonals_rows()
    yield from comparing_rows()
    yield from searching_rows()
    yield from calculus_rows()
    yield from conversion_rows()
    yield from selecting_rows()
    yield from statistics_rows()
    yield from outputs_rows()
    yield from hosted_rows()
    yield from factorizations_rows()
    yield from layers_rows()


def _by_kind(rows: Iterator[OpInfo]) -> dict[str, tuple[OpInfo, ...]]:
    by_kind: dict[str, tuple[OpInfo, ...]] = {}
    for row in rows:
        found = replace(row, layouts=False) if row.numbers else row
        by_kind[row.kind] = (*by_kind.get(row.kind, ()), found)
    return by_kind


OPINFOS = _by_kind(_all())
"""The rows of samples of each kind."""
