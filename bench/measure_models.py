"""Whole models, PyTorch and jitcore with the same weights: ``python -m bench.measure_models``.

Everyone has the same number of threads and takes turns in one run.  Next to the times stands the
part of the arithmetic rate that BLAS reaches in the same run on a product of large matrices.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tabulate import tabulate
from torch.utils.flop_counter import FlopCounterMode

import jitcore
from bench import report
from bench.models import MODELS, ModelCase
from bench.peers import limit_threads

__all__ = ["ModelRow", "main", "measure", "peers_of", "prepared"]

OURS = "jitcore"
RESULTS = Path(__file__).resolve().parent / "results"

Call = Callable[[], Any]
Clock = Callable[[], float]


@dataclass
class ModelRow:
    """One model at one batch size; all times are in seconds.

    Attributes
    ----------
    seconds : dict
        The median for each peer; ``best`` has the fastest turn.
    wrong : dict
        Peers that are left out, and why.
    operations : int
        Multiplications and additions that the layers need.
    difference : float
        Between our results and PyTorch's, relative to the largest of these.
    """

    model: str
    batch: int
    seconds: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    operations: int = 0
    difference: float = 0.0

    @property
    def ratio(self) -> float | None:
        """How many times faster we are than the best of the others."""
        others = [seconds for name, seconds in self.best.items() if name != OURS]
        return min(others) / self.best[OURS] if others and OURS in self.best else None


def prepared(case: ModelCase) -> tuple[Any, Any]:
    """The same model of PyTorch and of jitcore, with equal weights, in eval mode.

    The statistics of batch normalization, and weights of convolutions, are such that numbers
    neither vanish nor explode on their way through a deep model.
    """
    torch.manual_seed(0)
    theirs = case.build(torch.nn).eval()
    for module in theirs.modules():
        if isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.running_mean, -0.1, 0.1)
            torch.nn.init.uniform_(module.running_var, 0.9, 1.1)
    ours = case.build(jitcore.nn).eval()
    ours.load_state_dict({name: value.numpy() for name, value in theirs.state_dict().items()})
    return theirs, ours


def peers_of(theirs: Any, ours: Any, x: Any, *, compile_: bool) -> dict[str, Callable[[], Call]]:
    """How each prepares a model, and then is called."""
    tensor = torch.from_numpy(x)

    def eager() -> Call:
        return lambda: theirs(tensor)

    def frozen() -> Call:
        traced = torch.jit.trace(theirs, tensor)
        model: Any = torch.jit.optimize_for_inference(torch.jit.freeze(traced))
        return lambda: model(tensor)

    def compiled() -> Call:
        model: Any = torch.compile(theirs)
        return lambda: model(tensor)

    def inferring() -> Call:
        model = jitcore.optimize_for_inference(jitcore.freeze(jitcore.script(ours)))
        return lambda: model(x)

    found: dict[str, Callable[[], Call]] = {
        "torch eager": eager,
        "torch.jit": frozen,
        OURS: inferring,
    }
    return found | ({"torch.compile": compiled} if compile_ else {})


def measure(
    case: ModelCase, batch: int, rounds: int, *, compile_: bool, clock: Clock = time.perf_counter
) -> ModelRow:
    """All peers on one model, in turns."""
    row = ModelRow(case.name, batch)
    theirs, ours = prepared(case)
    x = np.random.default_rng(0).standard_normal((batch, *case.shape)).astype(np.float32)
    row.operations = case.recurrent_operations * batch + _counted(theirs, x)
    with torch.inference_mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = theirs(torch.from_numpy(x)).numpy()
        calls = dict(_ready(peers_of(theirs, ours, x, compile_=compile_), row))
        if OURS in calls:
            row.difference = _difference(np.asarray(calls[OURS]()), expected)
        _in_turns(calls, rounds, row, clock)
    return row


def _counted(model: Any, x: Any) -> int:
    """Not in inference mode, where PyTorch fuses whole layers that its counter does not know."""
    with FlopCounterMode(display=False) as counter:
        model(torch.from_numpy(x))
    return int(counter.get_total_flops())


def _ready(peers: dict[str, Callable[[], Call]], row: ModelRow) -> Iterator[tuple[str, Call]]:
    """Those that come to a result."""
    for name, prepare in peers.items():
        try:
            call = prepare()
            for _ in range(3):
                call()
        except Exception as error:  # a library that cannot run here is left out of the row
            row.wrong[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            continue
        yield name, call


def _difference(found: Any, expected: Any) -> float:
    return float(np.max(np.abs(found - expected)) / np.max(np.abs(expected)))


def _in_turns(calls: dict[str, Call], rounds: int, row: ModelRow, clock: Clock) -> None:
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        names = list(calls)
        for name in names if turn % 2 else reversed(names):
            # The threads of the one before are to fall asleep first.
            time.sleep(0.005)
            calls[name]()
            start = clock()
            calls[name]()
            times[name].append(clock() - start)
    row.seconds = {name: statistics.median(found) for name, found in times.items()}
    row.best = {name: min(found) for name, found in times.items()}


def product_rate(clock: Clock, size: int = 1024, repeats: int = 20) -> float:
    """Operations in a second of NumPy's product of float32 matrices."""
    x = np.ones((size, size), np.float32)
    best = float("inf")
    for _ in range(repeats):
        start = clock()
        np.matmul(x, x)
        best = min(best, clock() - start)
    return 2 * size**3 / best


def table(rows: Sequence[ModelRow], rate: float) -> str:
    """Milliseconds of the fastest turns, and how we compare."""
    names = ["torch eager", "torch.jit", "torch.compile", OURS]
    lines = []
    for row in rows:
        times = [f"{row.best[name] * 1e3:.2f}" if name in row.best else "-" for name in names]
        part = row.operations / row.best[OURS] / rate if OURS in row.best else 0.0
        ratio = f"{row.ratio:.2f}" if row.ratio else "-"
        lines.append([row.model, row.batch, *times, ratio, f"{part:.2f}", f"{row.difference:.0e}"])
    header = ["model", "batch", *names, "best other / ours", "of sgemm", "difference"]
    return str(tabulate(lines, header, tablefmt="github", disable_numparse=True))


def _start_with_threads(count: int) -> None:
    """Begin anew where NumPy's BLAS, which reads this when it is imported, has another number."""
    name = "OPENBLAS_NUM_THREADS"
    if os.environ.get(name) != str(count):
        os.environ[name] = str(count)
        os.execv(sys.executable, [sys.executable, "-m", "bench.measure_models", *sys.argv[1:]])


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the options ask for, print a table, and write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.measure_models", description=__doc__)
    names = [case.name for case in MODELS]
    parser.add_argument("--models", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 16])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument(
        "--cpu-time",
        action="store_true",
        help="count the process's own time, on a machine that others use; with one thread",
    )
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    if options.cpu_time and options.threads != 1:
        parser.error("--cpu-time adds up the time of all threads: use it with --threads 1")
    if arguments is None:
        _start_with_threads(options.threads)
    clock = time.process_time if options.cpu_time else time.perf_counter
    limit_threads(options.threads)
    torch.set_num_threads(options.threads)
    rate = product_rate(clock)
    rows = []
    for case in MODELS:
        for batch in options.batches if case.name in options.models else ():
            compile_ = not options.no_compile
            rows.append(measure(case, batch, options.rounds, compile_=compile_, clock=clock))
            print(table(rows[-1:], rate).splitlines()[-1], *rows[-1].wrong.items(), flush=True)
    rate = max(rate, product_rate(clock))
    text = table(rows, rate)
    facts = {
        **report.machine(),
        "threads": options.threads,
        "clock": "process" if options.cpu_time else "wall",
        "sgemm": rate,
        "load": os.getloadavg(),
    }
    print(text, json.dumps(facts), sep="\n\n")
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "models.md").write_text(f"{text}\n")
    found = {"facts": facts, "rows": [asdict(row) for row in rows]}
    (options.output / "models.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
