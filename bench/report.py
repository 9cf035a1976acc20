"""What becomes of the measurements: tables, a Markdown page, a JSON file and a plot."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.compile_cost import CompileRow
from bench.measure import OURS_CONTRACTED, Row

__all__ = ["compile_table", "machine", "peer_table", "row_table", "summary", "write"]

Table = tuple[list[str], list[list[str]]]

WITHIN_NOISE = 0.95
"""A row counts as won from this ratio on."""


def machine() -> dict[str, Any]:
    """The processor, how many of them, the system and the date."""
    processor = platform.processor() or platform.machine()
    facts = Path("/proc/cpuinfo")
    if facts.exists():
        lines = facts.read_text(encoding="utf-8").splitlines()
        names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
        processor = names[0] if names else processor
    return {
        "processor": processor,
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def time_text(seconds: float) -> str:
    """Three digits and a unit."""
    for limit, factor, unit in ((1e-6, 1e9, "ns"), (1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def _ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


def row_table(rows: Iterable[Row]) -> Table:
    """One line a row, the rows we lose first."""
    headers = ["workload", "size", "dtype", "jitcore", "best peer", "its time"]
    headers += ["times faster", "contract", "of the bound", "bound by"]
    ordered = sorted(rows, key=lambda row: row.ratio() or 0.0)
    return headers, [_row_cells(row) for row in ordered]


def _row_cells(row: Row) -> list[str]:
    best = row.best_peer
    return [
        row.workload,
        row.size,
        row.dtype,
        _own_time(row),
        best or "",
        time_text(row.seconds[best]) if best else "",
        _ratio_text(row.ratio()),
        _ratio_text(row.ratio(OURS_CONTRACTED)),
        f"{row.of_bound:.0%}" if row.of_bound is not None else "",
        row.bound_kind,
    ]


def _own_time(row: Row) -> str:
    if "jitcore" in row.wrong:
        return "wrong"
    return time_text(row.seconds["jitcore"]) if "jitcore" in row.seconds else ""


def peer_table(rows: Sequence[Row], names: Iterable[str]) -> Table:
    """How we compare with each peer alone: rows, geometric mean and worst row."""
    headers = ["peer", "rows", "times faster (geometric mean)", "worst row", ""]
    lines = []
    for name in names:
        ratios = {
            f"{row.workload} {row.size} {row.dtype}": row.seconds[name] / row.seconds["jitcore"]
            for row in rows
            if name in row.seconds and "jitcore" in row.seconds
        }
        if ratios:
            worst = min(ratios, key=ratios.__getitem__)
            mean = f"{_geometric_mean(ratios.values()):.2f}"
            lines.append([name, str(len(ratios)), mean, f"{ratios[worst]:.2f}", worst])
    return headers, lines


def compile_table(rows: Iterable[CompileRow]) -> Table:
    """One line a subject and peer."""
    headers = ["subject", "peer", "first call", "second call", "library ready", "process"]
    lines = []
    for row in rows:
        times = (row.first_call, row.second_call, row.ready, row.process)
        cells = ["" if seconds is None else time_text(seconds) for seconds in times]
        lines.append([row.subject, row.peer, row.failure or cells[0], *cells[1:]])
    return headers, lines


def summary(rows: Sequence[Row]) -> str:
    """How many rows are won, and by how much."""
    ratios = [ratio for row in rows if (ratio := row.ratio()) is not None]
    if not ratios:
        return "No row has both jitcore and a peer."
    won = sum(ratio >= WITHIN_NOISE for ratio in ratios)
    return (
        f"{won} of {len(ratios)} rows are at least {WITHIN_NOISE} times as fast as the best peer;"
        f" {_geometric_mean(ratios):.2f} times as fast in the geometric mean,"
        f" {min(ratios):.2f} times in the worst row."
    )


def _geometric_mean(values: Iterable[float]) -> float:
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def write(
    folder: Path, rows: Sequence[Row], compile_rows: Sequence[CompileRow], facts: dict[str, Any]
) -> list[Path]:
    """Write ``results.json``, ``results.md`` and, where there are rows, ``results.png``.

    Parameters
    ----------
    folder : Path
        Made where it does not exist.
    rows, compile_rows : sequence
        The measurements.
    facts : dict
        About the machine, versions, threads and peers; goes into both files.

    Returns
    -------
    list of Path
        The files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "results.json", folder / "results.md"]
    measured = [
        {**asdict(row), "best_peer": row.best_peer, "ratio": row.ratio(), "of_bound": row.of_bound}
        for row in rows
    ]
    data = {**facts, "rows": measured, "compile": [asdict(row) for row in compile_rows]}
    paths[0].write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    paths[1].write_text(_markdown(rows, compile_rows, facts), encoding="utf-8")
    if rows:
        import_module("bench.plot").draw(folder / "results.png", rows, facts)
        paths.append(folder / "results.png")
    return paths


def _markdown(
    rows: Sequence[Row], compile_rows: Sequence[CompileRow], facts: dict[str, Any]
) -> str:
    parts = ["# Benchmark results"]
    parts.append("\n".join(f"* {name}: {_fact_text(value)}" for name, value in facts.items()))
    if rows:
        names = dict.fromkeys(name for row in rows for name in row.seconds if name != "jitcore")
        parts += [summary(rows), _table(peer_table(rows, names)), _table(row_table(rows))]
        excluded = [
            f"* {row.workload} {row.size} {row.dtype}, {name}: {text}"
            for row in rows
            for name, text in row.wrong.items()
        ]
        parts += [
            "Left out, because they failed or their results differ:",
            "\n".join(excluded),
        ] * bool(excluded)
    if compile_rows:
        parts += ["## Compile cost", _table(compile_table(compile_rows))]
    return "\n\n".join(parts) + "\n"


def _fact_text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _table(table: Table) -> str:
    tabulate = import_module("tabulate").tabulate
    headers, lines = table
    text: str = tabulate(lines, headers, tablefmt="github", disable_numparse=True)
    return text
