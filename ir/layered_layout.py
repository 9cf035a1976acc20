"""Places the boxes of a drawing in rows, so that lines run from top to bottom and cross little.

The four steps are those of K. Sugiyama, S. Tagawa and M. Toda, "Methods for Visual Understanding
of Hierarchical System Structures", IEEE Transactions on Systems, Man, and Cybernetics 11(2), 1981:
rows by the longest path, corners where a line passes a row, an order in each row by barycentres,
and positions.  The positions of a row are those nearest to its neighbours' that keep the order and
the distances, which is isotonic regression.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import field

from jitcore.ir.dataclass import dataclass

__all__ = ["Layout", "Line", "Size", "lay_out"]

ROW_GAP = 36.0
COLUMN_GAP = 18.0
CORNER_WIDTH = 8.0
SWEEPS = 8

Size = tuple[float, float]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Line:
    """A line from one box to another, by their numbers."""

    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is.

    Parameters
    ----------
    size : tuple of float
    corners : list of tuple of float
        The upper left corner of each box.
    routes : list of list of tuple of float
        The points of each line, from the lower edge of a box to the upper edge of another.
    """

    size: Size
    corners: list[Point]
    routes: list[list[Point]]


@dataclass(slots=True, eq=False)
class _Cell:
    """A box, or a corner of a line, in its row."""

    width: float
    height: float
    row: int
    x: float = 0.0
    above: list[_Cell] = field(default_factory=list)
    below: list[_Cell] = field(default_factory=list)


def rows_of(count: int, lines: Sequence[Line]) -> list[int]:
    """The row of each box, below all that lead to it.

    Boxes with no more lines in than out are as low as they can be, so that what is prepared for a
    box stands near it.  Lines lead from lower to higher numbers.
    """
    into: list[list[int]] = [[] for _ in range(count)]
    out: list[list[int]] = [[] for _ in range(count)]
    for line in lines:
        into[line.target].append(line.source)
        out[line.source].append(line.target)
    rows: list[int] = []
    for sources in into:
        rows.append(max((rows[source] + 1 for source in sources), default=0))
    for number in reversed(range(count)):
        if out[number] and len(into[number]) <= len(out[number]):
            rows[number] = min(rows[target] for target in out[number]) - 1
    first = min(rows, default=0)
    return [row - first for row in rows]


def lay_out(sizes: Sequence[Size], lines: Sequence[Line]) -> Layout:
    """Place boxes of these sizes.

    Parameters
    ----------
    sizes : sequence of tuple of float
        Width and height of each box, in an order in which lines lead onwards.
    lines : sequence of Line
    """
    rows = rows_of(len(sizes), lines)
    boxes = [_Cell(width, height, row) for (width, height), row in zip(sizes, rows, strict=True)]
    table: list[list[_Cell]] = [[] for _ in range(max(rows, default=-1) + 1)]
    for box in boxes:
        table[box.row].append(box)
    chains = [_chain(boxes[line.source], boxes[line.target], table) for line in lines]
    _order(table)
    _position(table)
    left = min((cell.x - cell.width / 2 for row in table for cell in row), default=0.0)
    right = max((cell.x + cell.width / 2 for row in table for cell in row), default=0.0)
    heights = [max((cell.height for cell in row), default=0.0) for row in table]
    tops = [sum(heights[:number]) + ROW_GAP * number for number in range(len(heights))]

    def corner(cell: _Cell) -> Point:
        middle = tops[cell.row] + (heights[cell.row] - cell.height) / 2
        return cell.x - cell.width / 2 - left, middle

    ports = _ports(lines, chains)
    routes = []
    for line, chain in zip(lines, chains, strict=True):
        (x, y), source = corner(chain[0]), chain[0]
        points = [(x + source.width / 2, y + source.height)]
        # Straight to the border of the row: there are other boxes beside.
        points.append((x + source.width / 2, tops[source.row] + heights[source.row]))
        for cell in chain[1:-1]:
            place = cell.x - left
            points += [(place, tops[cell.row]), (place, tops[cell.row] + heights[cell.row])]
        x, y = corner(chain[-1])
        end = x + chain[-1].width * ports[line]
        points += [(end, tops[chain[-1].row]), (end, y)]
        routes.append([point for point, _ in itertools.groupby(points)])
    size = (right - left, tops[-1] + heights[-1]) if table else (0.0, 0.0)
    return Layout(size, [corner(box) for box in boxes], routes)


def _chain(source: _Cell, target: _Cell, table: list[list[_Cell]]) -> list[_Cell]:
    """The cells that a line goes through, new corners among them."""
    corners = [_Cell(CORNER_WIDTH, 0.0, row) for row in range(source.row + 1, target.row)]
    for cell in corners:
        table[cell.row].append(cell)
    chain = [source, *corners, target]
    for upper, lower in itertools.pairwise(chain):
        upper.below.append(lower)
        lower.above.append(upper)
    return chain


def _ports(lines: Sequence[Line], chains: list[list[_Cell]]) -> dict[Line, float]:
    """Where on the upper edge of its box each line ends, from 0 to 1, by where it comes from."""
    ends: dict[int, list[tuple[float, Line]]] = {}
    for line, chain in zip(lines, chains, strict=True):
        ends.setdefault(line.target, []).append((chain[-2].x, line))
    found = {}
    for pairs in ends.values():
        ordered = sorted(pairs, key=lambda pair: pair[0])
        for number, (_, line) in enumerate(ordered, 1):
            found[line] = number / (len(ordered) + 1)
    return found


def _order(table: list[list[_Cell]]) -> None:
    """Order each row by the mean place of the neighbours in the row before, back and forth."""
    for row in table:
        _number(row)
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in table[1:] if down else table[-2::-1]:
            for cell in row:
                near = cell.above if down else cell.below
                cell.x = _mean([one.x for one in near]) if near else cell.x
            row.sort(key=lambda cell: cell.x)
            _number(row)


def _number(row: list[_Cell]) -> None:
    for number, cell in enumerate(row):
        cell.x = float(number)


def _position(table: list[list[_Cell]]) -> None:
    """Give each cell its place, near its neighbours'."""
    for row in table:
        place = 0.0
        for cell in row:
            cell.x = place + cell.width / 2
            place += cell.width + COLUMN_GAP
    for sweep in range(SWEEPS):
        down = sweep % 2 == 0
        for row in table[1:] if down else table[-2::-1]:
            wanted = []
            for cell in row:
                near = cell.above if down else cell.below
                wanted.append(_mean([one.x for one in near]) if near else cell.x)
            _spread(row, wanted)


def _spread(row: list[_Cell], wanted: list[float]) -> None:
    """The places nearest to those wanted, in order and apart: pools of adjacent violators."""
    offsets = [0.0]
    for left, right in itertools.pairwise(row):
        offsets.append(offsets[-1] + (left.width + right.width) / 2 + COLUMN_GAP)
    pools: list[tuple[float, int]] = []
    for place, offset in zip(wanted, offsets, strict=True):
        total, count = place - offset, 1
        while pools and pools[-1][0] / pools[-1][1] >= total / count:
            before, number = pools.pop()
            total, count = total + before, count + number
        pools.append((total, count))
    places = [total / count for total, count in pools for _ in range(count)]
    for cell, place, offset in zip(row, places, offsets, strict=True):
        cell.x = place + offset


def _mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)
