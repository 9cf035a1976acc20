"""Run the benchmark: ``make bench``, or ``python -m bench`` with options."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from tabulate import tabulate
from tqdm import tqdm

from bench import compile_cost, report
from bench.measure import Row, Settings, measure_row
from bench.peers import PEERS, Peer, limit_threads, present, versions
from bench.workloads import DTYPES, SIZES, WORKLOADS

RESULTS = Path(__file__).resolve().parent / "results"


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the options ask for, print tables, and write the results."""
    options = _parser().parse_args(arguments)
    limit_threads(options.threads)
    peers, absent = present(options.peers)
    facts: dict[str, Any] = {
        **report.machine(),
        "threads": options.threads,
        "rounds": options.rounds,
        "versions": versions(peers),
        "not installed": [peer.name for peer in absent],
    }
    for peer in absent:
        print(f"{peer.name} is left out: {peer.library} is not installed")
    rows = [] if options.compile_only else _rows(options, peers)
    # Written twice, so that nothing is lost by stopping the second half.
    report.write(options.output, rows, [], facts)
    compile_rows = [] if options.no_compile else _compile_rows(options)
    _print_tables(rows, compile_rows, peers)
    for path in report.write(options.output, rows, compile_rows, facts):
        print(path)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    names = [workload.name for workload in WORKLOADS]
    peers = [peer.name for peer in PEERS]
    parser.add_argument("--workloads", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=["64", "4K", "256K", "4M"])
    parser.add_argument("--dtypes", nargs="+", choices=DTYPES, default=DTYPES)
    parser.add_argument("--peers", nargs="+", choices=peers, metavar="NAME")
    parser.add_argument("--threads", type=int, default=_processors())
    parser.add_argument("--rounds", type=int, default=9, help="turns of each peer")
    parser.add_argument("--statements", type=int, nargs="*", default=[5, 10, 20, 40, 80])
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 10000])
    parser.add_argument("--compile-repeats", type=int, default=3)
    parser.add_argument("--compile-limit", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--compile-only", action="store_true", help="only the cost of compiling")
    group.add_argument("--no-compile", action="store_true", help="only the speed of compiled code")
    return parser


def _processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _rows(options: argparse.Namespace, peers: list[Peer]) -> list[Row]:
    settings = Settings(options.threads, options.rounds)
    workloads = [workload for workload in WORKLOADS if workload.name in options.workloads]
    rows = []
    cases = list(product(workloads, options.sizes, options.dtypes))
    bar = tqdm(cases, unit="row", dynamic_ncols=True)
    for workload, size, dtype in bar:
        bar.set_description(f"{workload.name} {size} {dtype}")
        rows.append(measure_row(workload, (size, SIZES[size]), dtype, peers, settings))
    return rows


def _compile_rows(options: argparse.Namespace) -> list[compile_cost.CompileRow]:
    rows = []
    bar = tqdm(
        list(compile_cost.tasks(options.statements, options.nodes)), unit="row", dynamic_ncols=True
    )
    for task in bar:
        bar.set_description(f"{task.subject}, {task.peer}")
        rows.append(compile_cost.measure(task, options.compile_repeats, options.compile_limit))
    return rows


def _print_tables(
    rows: list[Row], compile_rows: list[compile_cost.CompileRow], peers: list[Peer]
) -> None:
    tables = []
    if rows:
        tables.append(report.row_table(rows))
        tables.append(report.peer_table(rows, [p.name for p in peers if p.name != "jitcore"]))
    if compile_rows:
        tables.append(report.compile_table(compile_rows))
    for headers, lines in tables:
        print(tabulate(lines, headers, disable_numparse=True), end="\n\n")
    if rows:
        print(report.summary(rows), end="\n\n")


if __name__ == "__main__":
    main()
