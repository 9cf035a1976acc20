"""The picture of a run: how many times faster than the best peer, and how near to the limit."""

# mypy: allow-untyped-calls
from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from bench.measure import Row

__all__ = ["draw"]

COLOURS = ("#9ecae1", "#4292c6", "#08519c", "#08306b", "#000000")
MARKERS = {"float32": "o", "float64": "D"}
WIDE = 1000
"""An axis over so large a range has marks at powers of ten alone."""

SPREAD = 0.16
"""Between the sizes of one workload, where workloads are 1 apart."""


def draw(path: Path, rows: Sequence[Row], facts: dict[str, Any]) -> None:
    """Draw two panels with one line a workload, and a mark for each size and dtype.

    Parameters
    ----------
    path : Path
        Of the PNG file.
    rows : sequence of Row
        The measurements.
    facts : dict
        ``processor``, ``threads`` and ``date`` are named below the picture.
    """
    names = list(dict.fromkeys(row.workload for row in rows))[::-1]
    sizes = list(dict.fromkeys(row.size for row in rows))
    figure = Figure(figsize=(11, 2.0 + 0.36 * len(names)), layout="constrained", dpi=150)
    speed, limit = figure.subplots(1, 2, sharey=True)
    for row in rows:
        place = names.index(row.workload) + SPREAD * ((len(sizes) - 1) / 2 - sizes.index(row.size))
        style = {
            "color": COLOURS[sizes.index(row.size)],
            "marker": MARKERS[row.dtype],
            "linestyle": "none",
            "markersize": 5,
        }
        if (ratio := row.ratio()) is not None:
            speed.plot(ratio, place, **style)
        if row.of_bound is not None:
            limit.plot(row.of_bound, place, **style)
    speed.set_xlabel("times as fast as the best peer of the row")
    limit.set_xlabel("part of the bandwidth or arithmetic limit of this run")
    for axes in (speed, limit):
        _finish(axes, names)
    marks = [Line2D([], [], color=COLOURS[i], marker="o", ls="none") for i in range(len(sizes))]
    marks += [Line2D([], [], color="#777777", marker=m, ls="none") for m in MARKERS.values()]
    figure.legend(
        marks, [*sizes, *MARKERS], loc="outside upper center", ncols=len(marks), frameon=False
    )
    caption = f"{facts['processor']}, {facts['threads']} threads, {facts['date']}"
    figure.supxlabel(caption, fontsize="small", color="#777777")
    figure.savefig(path)


def _finish(axes: Axes, names: list[str]) -> None:
    axes.set_xscale("log")
    axes.axvline(1.0, color="#c0392b", linewidth=1.0, zorder=0)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    axes.grid(axis="both", color="#e5e5e5", linewidth=0.6)
    axes.set_axisbelow(True)
    low, high = axes.get_xlim()
    marked = (1.0, 2.0, 5.0) if high < WIDE * low else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=marked))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.spines[["top", "right"]].set_visible(False)
