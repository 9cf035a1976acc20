"""Programs on a GPU, next to other libraries and to the device's copies: ``python -m bench.gpu``.

All take turns in one run, on the same arrays, and are timed by events of the device; JAX, which
computes on streams of its own, by the clock, around many calls that follow each other.  What a
library gives is compared with NumPy first, on fewer elements.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

import jitcore
from bench import programs
from bench.gpu_peers import OURS, PEERS, Call, Peer
from jitcore import cuda, nn
from jitcore.nn import functional

__all__ = ["PROGRAMS", "GpuRow", "copy_rate", "main", "measure", "overheads", "table"]

RESULTS = Path(__file__).resolve().parent / "results"
SIZES = tuple(1 << power for power in (24, 26, 28))
ROW = 4096
"""Elements of the rows of softmax and layer norm, where there are as many."""

CHANNELS, SIDE = 64, 32
"""Of the images that are convolved."""

CHECKED = 1 << 16
SMALL = 1024
"""Elements of the arrays with which calls cost what launching costs."""

LAYERS, WIDTH = 8, 64
"""Of the model whose calls cost the same."""


@dataclass(frozen=True)
class Program:
    """A row of the table: a program of `bench.programs`, and its arguments for so many elements.

    Parameters
    ----------
    name : str
    function : callable
    arguments : callable
    tolerance : float
        How far results may be from those in float64, as a part of the largest.
    is_of_memory : bool
        Whether the memory decides how long it takes.
    """

    name: str
    function: Callable[..., Any]
    arguments: Callable[[int], tuple[Any, ...]]
    tolerance: float = 1e-4
    is_of_memory: bool = True

    def moved(self, arguments: Sequence[Any], result: Any) -> int:
        """The bytes that have to be read and written at least; 0 where this does not matter."""
        needed = int(sum(one.nbytes for one in arguments) + result.nbytes)
        return needed if self.is_of_memory else 0


def _numbers(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def _rows(size: int) -> Any:
    width = min(ROW, size)
    return _numbers(size // width, width)


def _three(size: int) -> tuple[Any, ...]:
    x = _numbers(size)
    return x, x + 1, np.abs(x)


def _with_weights(size: int) -> tuple[Any, ...]:
    x = _rows(size)
    return x, x[0].copy(), x[-1].copy()


def _halves(arguments: Callable[[int], tuple[Any, ...]]) -> Callable[[int], tuple[Any, ...]]:
    return lambda size: tuple(one.astype(np.float16) for one in arguments(size))


def _bfloats(arguments: Callable[[int], tuple[Any, ...]]) -> Callable[[int], tuple[Any, ...]]:
    return lambda size: tuple(one.astype(bfloat16) for one in arguments(size))


def _layer(size: int) -> tuple[Any, ...]:
    """A batch and square weights, with so many elements of each."""
    width = 1 << (size.bit_length() - 1) // 2
    return _numbers(size // width, width), _numbers(width, width) / width, _numbers(width)


def _images(size: int) -> tuple[Any, ...]:
    """So many elements in images, and kernels of three by three pixels."""
    channels = min(CHANNELS, size)
    side = min(SIDE, math.isqrt(size // channels))
    count = size // (channels * side * side)
    weight = _numbers(channels, channels, 3, 3) / channels
    return _numbers(count, channels, side, side), weight, _numbers(channels)


def convolution_relu(x: Any, weight: Any, bias: Any) -> Any:
    """No program for all libraries: `bench.torch_forms` has PyTorch's form."""
    return np.maximum(functional.conv2d(x, weight, bias, padding=1), 0)


PROGRAMS = (
    Program("elementwise chain", programs.pointwise_chain, _three),
    Program("GELU (tanh)", programs.gelu_tanh, lambda size: (_numbers(size),)),
    Program("GELU (erf)", programs.gelu_erf, lambda size: (_numbers(size),)),
    Program("softmax", programs.softmax, lambda size: (_rows(size),)),
    Program("layer norm", programs.layer_norm, _with_weights),
    Program("sum", programs.total, lambda size: (_numbers(size),)),
    Program("normalized columns", programs.normalized_columns, lambda size: (_rows(size),)),
    Program("chain, float16", programs.pointwise_chain, _halves(_three), 5e-3),
    Program("softmax, float16", programs.softmax, _halves(lambda size: (_rows(size),)), 5e-3),
    Program("softmax, bfloat16", programs.softmax, _bfloats(lambda size: (_rows(size),)), 3e-2),
    Program("linear, ReLU", programs.linear_relu, _layer, is_of_memory=False),
    Program(
        "linear, ReLU, float16", programs.linear_relu, _halves(_layer), 5e-3, is_of_memory=False
    ),
    Program("convolution, ReLU", convolution_relu, _images, is_of_memory=False),
    Program(
        "convolution, ReLU, float16",
        convolution_relu,
        _halves(_images),
        5e-3,
        is_of_memory=False,
    ),
)


@dataclass
class GpuRow:
    """One program at one size; times are in seconds.

    Attributes
    ----------
    moved : int
        The bytes that have to be read and written at least.
    copied : float
        Bytes that a copy of as much memory reads and writes in a second.
    seconds : dict
        The median of each library's turns.
    wrong : dict
        Libraries that are left out, and why.
    """

    program: str
    size: int
    moved: int = 0
    copied: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)

    @property
    def of_copy(self) -> float | None:
        """Our rate, as a part of that of copies."""
        if OURS not in self.seconds or not self.moved:
            return None
        return self.moved / self.seconds[OURS] / self.copied

    @property
    def ratio(self) -> float | None:
        """How many times faster we are than the best of the others."""
        others = [seconds for name, seconds in self.seconds.items() if not name.startswith(OURS)]
        return min(others) / self.seconds[OURS] if others and OURS in self.seconds else None


def measure(
    program: Program, size: int, peers: Sequence[Peer], *, rounds: int, calls: int
) -> GpuRow:
    """All libraries on one program, in turns."""
    row = GpuRow(program.name, size)
    arguments = program.arguments(size)
    arrays = jitcore.to(arguments, "cuda")
    ready: dict[str, tuple[Peer, Call]] = {}
    for peer in peers:
        try:
            _check(program, peer, min(size, CHECKED))
            call = peer.prepare(program.function, arrays)
            result = call()
        except Exception as error:  # a library that cannot run here is left out of the row
            lines = str(error).splitlines() or [""]
            row.wrong[peer.name] = f"{type(error).__name__}: {lines[0][:200]}"
            continue
        row.moved = program.moved(arguments, result)
        ready[peer.name] = peer, call
    times: dict[str, list[float]] = {name: [] for name in ready}
    for turn in range(rounds):
        for name in list(ready) if turn % 2 else reversed(ready):
            times[name].append(_seconds(*ready[name], calls))
    row.seconds = {name: statistics.median(found) for name, found in times.items()}
    if row.moved:
        row.copied = copy_rate(row.moved // 2, rounds=rounds, calls=calls)
    return row


def _check(program: Program, peer: Peer, size: int) -> None:
    """Raise AssertionError where a library does not get NumPy's result."""
    arguments = program.arguments(size)
    found = peer.prepare(program.function, jitcore.to(arguments, "cuda"))()
    expected = program.function(*(one.astype(np.float64) for one in arguments))
    error = np.max(np.abs(peer.numpy(found).astype(float) - expected)) / np.max(np.abs(expected))
    assert error < program.tolerance, f"differs from NumPy by {error:.1e}"


def _seconds(peer: Peer, call: Call, calls: int) -> float:
    """Seconds of one of several calls that follow each other."""
    call()
    if not peer.has_events:
        peer.wait(call())
        start = time.perf_counter()
        for _ in range(calls - 1):
            call()
        peer.wait(call())
        return (time.perf_counter() - start) / calls
    return _by_events(call, peer.stream(), calls)


def _by_events(call: Call, stream: int, calls: int) -> float:
    start, stop = cuda.Event(), cuda.Event()
    start.record(stream)
    for _ in range(calls):
        call()
    stop.record(stream)
    return start.seconds_until(stop) / calls


def copy_rate(size: int, *, rounds: int, calls: int) -> float:
    """Bytes that copies of so many bytes read and write in a second, at the best turn."""
    source = cuda.empty(size, np.uint8)
    # The memory of one copy that is dropped is that of the next.
    source.copy()
    best = min(_by_events(source.copy, 0, calls) for _ in range(rounds))
    return 2 * size / best if best else float("inf")


def overheads(peers: Sequence[Peer], *, calls: int) -> dict[str, float]:
    """Seconds on the host for a call with small arrays, of those libraries that can."""
    x = jitcore.to(_numbers(SMALL), "cuda")
    found = {}
    for peer in peers:
        try:
            call = peer.prepare(programs.silu, (x,))
            peer.wait(call())
        except Exception as error:  # a library that cannot run here is left out
            print(f"{peer.name}: {error}", file=sys.stderr)
            continue
        start = time.perf_counter()
        for _ in range(calls):
            result = call()
        found[peer.name] = (time.perf_counter() - start) / calls
        peer.wait(result)
    return found


class _Layers(nn.Module):
    """Small layers, which take longer to be launched than to run."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)) for _ in range(LAYERS))
        )

    def forward(self, x: Any) -> Any:
        return self.layers(x)


def model_overheads(*, calls: int) -> dict[str, float]:
    """Seconds on the host for a call of a model, kernel by kernel and as a CUDA graph."""
    x = jitcore.to(_numbers(4, WIDTH), "cuda")
    model = _Layers().eval()
    ready = jitcore.optimize_for_inference(jitcore.script(model))
    forms = {"kernel by kernel": jitcore.script(model).to("cuda"), "as a CUDA graph": ready}
    found = {}
    for name, form in forms.items():
        for _ in range(3):
            form(x)
        cuda.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            form(x)
        found[f"{OURS}, {LAYERS} layers {name}"] = (time.perf_counter() - start) / calls
        cuda.synchronize()
    return found


def table(rows: Sequence[GpuRow], peers: Sequence[Peer]) -> str:
    """Microseconds, our rate and what part of a copy's it is, and how we compare."""
    names = [peer.name for peer in peers]
    header = ["program", "elements", *(f"{name} (µs)" for name in names)]
    lines = [[*header, "GB/s", "of copy", "best other / ours"]]
    lines.append(["---"] * len(lines[0]))
    for row in rows:
        times = (f"{row.seconds[n] * 1e6:.1f}" if n in row.seconds else "-" for n in names)
        is_rate = OURS in row.seconds and row.moved
        rate = f"{row.moved / row.seconds[OURS] / 1e9:.0f}" if is_rate else "-"
        part = "-" if row.of_copy is None else f"{row.of_copy:.2f}"
        ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
        lines.append([row.program, f"{row.size >> 20}M", *times, rate, part, ratio])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def facts(peers: Sequence[Peer]) -> dict[str, Any]:
    """Device, driver, libraries and date."""
    return {
        "device": cuda.device_properties().name,
        "driver": cuda.driver_version(),
        "python": platform.python_version(),
        **{module: version for peer in peers for module, version in peer.versions()},
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


@dataclass
class Report:
    """What has been measured so far, and the files that say it."""

    peers: Sequence[Peer]
    folder: Path
    rows: list[GpuRow] = field(default_factory=list)
    launches: dict[str, float] = field(default_factory=dict)

    def text(self) -> str:
        """A page of Markdown."""
        known = facts(self.peers)
        lines = [f"- {name}: {seconds * 1e6:.1f} µs" for name, seconds in self.launches.items()]
        return "\n".join(
            [
                f"# {known['device']}, driver {known['driver']}, {known['date']}",
                "\nMedians by device events; `of copy` is the part of the rate at which the device "
                "copies as many bytes.\n",
                table(self.rows, self.peers),
                f"\nWhat a call costs the host, with {SMALL} elements, or a model's with few:\n",
                *lines,
            ]
        )

    def write(self) -> None:
        """Write both files; after each row, since the next one may end the process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "gpu.md").write_text(f"{self.text()}\n", encoding="utf-8")
        rows = [asdict(row) for row in self.rows]
        found = {"facts": facts(self.peers), "rows": rows, "overheads": self.launches}
        text = json.dumps(found, indent=1)
        (self.folder / "gpu.json").write_text(f"{text}\n", encoding="utf-8")


def _present(names: Sequence[str]) -> Iterator[Peer]:
    """Those libraries that are installed."""
    for peer in PEERS:
        if peer.name not in names:
            continue
        try:
            importlib.import_module(peer.module)
        except ImportError as error:
            print(f"without {peer.name}: {error}", file=sys.stderr)
            continue
        yield peer


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the options ask for, print a table, and write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    peer_names = [peer.name for peer in PEERS]
    program_names = [program.name for program in PROGRAMS]
    parser.add_argument("--programs", nargs="+", choices=program_names, default=program_names)
    parser.add_argument("--peers", nargs="+", choices=peer_names, default=peer_names)
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), metavar="ELEMENTS")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=20, help="of one turn")
    parser.add_argument("--launches", type=int, default=1000, help="of small arrays")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        cuda.device_properties()
    except cuda.DriverError as error:
        sys.exit(f"nothing to measure: {error}")
    # Otherwise JAX takes three quarters of the memory when it is imported.
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    peers = list(_present(options.peers))
    report = Report(peers, options.output)
    for program in PROGRAMS:
        for size in options.sizes if program.name in options.programs else ():
            try:
                row = measure(program, size, peers, rounds=options.rounds, calls=options.calls)
            except MemoryError as error:
                print(f"{program.name}, {size} elements: {error}", file=sys.stderr)
                continue
            report.rows.append(row)
            report.write()
            print(table([row], peers).splitlines()[-1], *row.wrong.items(), flush=True)
            cuda.empty_cache()
    report.launches |= overheads(peers, calls=options.launches)
    report.launches |= model_overheads(calls=options.launches)
    report.write()
    print(report.text())


if __name__ == "__main__":
    main()
