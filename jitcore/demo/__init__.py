"""``python -m jitcore demo``: one NumPy function, compiled, explained, checked, timed and drawn.

The function is `terrain`, as a geoscientist would write it; the rest shows what became of it.
"""

from __future__ import annotations

import argparse
import inspect
import math
import statistics
import textwrap
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitcore.demo.picture import draw, matplotlib_module
from jitcore.errors import Error
from jitcore.ir.dataclass import dataclass
from jitcore.pipeline import Kernel
from jitcore.script import ScriptFunction, script

__all__ = ["ElevationModel", "add_arguments", "cell_size", "main", "sample_model", "terrain"]

Maps = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

NAMES = ("slope", "aspect", "hillshade", "curvature")
AZIMUTH, ALTITUDE = math.radians(315), math.radians(45)
WIDTH = 88


@script
def terrain(z, dx, dy, azimuth, altitude):  # type: ignore[no-untyped-def]
    # Each inner cell and its eight neighbours; the first row is the northern edge.
    nw, n, ne = z[:-2, :-2], z[:-2, 1:-1], z[:-2, 2:]
    w, c, e = z[1:-1, :-2], z[1:-1, 1:-1], z[1:-1, 2:]
    sw, s, se = z[2:, :-2], z[2:, 1:-1], z[2:, 2:]

    # First derivatives to the east and to the north: Horn (1981), Proc. IEEE 69(1).
    p = ((ne + 2 * e + se) - (nw + 2 * w + sw)) / (8 * dx)
    q = ((nw + 2 * n + ne) - (sw + 2 * s + se)) / (8 * dy)
    steepness = p * p + q * q
    slope = np.arctan(np.sqrt(steepness))
    downhill = np.arctan2(-p, -q)
    aspect = np.where(downhill < 0, downhill + 2 * math.pi, downhill)

    # Lambert's law: the cosine of the angle between the surface's normal and the light.
    root = np.sqrt(1 + steepness)
    across = p * math.sin(azimuth) + q * math.cos(azimuth)
    light = (math.sin(altitude) - math.cos(altitude) * across) / root
    hillshade = np.maximum(light, 0)

    # Second derivatives, and the curvature of the surface along its steepest line:
    # Evans (1980), Z. Geomorphol. Suppl. 36; positive where it is convex.
    r = (w - 2 * c + e) / (dx * dx)
    t = (n - 2 * c + s) / (dy * dy)
    m = (ne - nw - se + sw) / (4 * dx * dy)
    bend = p * p * r + 2 * p * q * m + q * q * t
    curvature = -bend / np.maximum(steepness * (1 + steepness) * root, 1e-9)
    return slope, aspect, hillshade, curvature


@dataclass(frozen=True, slots=True)
class ElevationModel:
    """A grid of elevations.

    Parameters
    ----------
    elevation : ndarray of float32, shape (rows, columns)
        In metres, the northern edge first.
    dx, dy : float
        Width and height of a cell in metres.
    """

    elevation: NDArray[np.float32]
    dx: float
    dy: float

    @property
    def arguments(self) -> tuple[NDArray[np.float32], float, float, float, float]:
        """What `terrain` takes, with light from the north-west."""
        return self.elevation, self.dx, self.dy, AZIMUTH, ALTITUDE

    def mirrored(self, down: int, across: int) -> ElevationModel:
        """The model repeated ``down`` times ``across`` times, each copy a mirror of the last."""
        rows, columns = self.elevation.shape
        more = ((0, (down - 1) * rows), (0, (across - 1) * columns))
        return ElevationModel(np.pad(self.elevation, more, mode="symmetric"), self.dx, self.dy)


def cell_size(latitude: float, dx: float, dy: float) -> tuple[float, float]:
    """The size in metres of a cell that is given in degrees.

    Parameters
    ----------
    latitude : float
        Of the cell, in degrees.
    dx, dy : float
        Degrees of longitude and of latitude.

    Returns
    -------
    (float, float)
        Along the parallel and along the meridian of the WGS 84 ellipsoid, by its radii of curvature
        in the prime vertical and in the meridian (Snyder 1987, USGS Prof. Paper 1395, p. 24-25).

    Examples
    --------
    >>> [round(metres) for metres in cell_size(0.0, 1.0, 1.0)]
    [111319, 110574]
    >>> [round(metres) for metres in cell_size(60.0, 1.0, 1.0)]
    [55800, 111412]
    """
    semi_major, flattening = 6378137.0, 1 / 298.257223563
    eccentricity = flattening * (2 - flattening)
    phi = math.radians(latitude)
    bulge = 1 - eccentricity * math.sin(phi) ** 2
    vertical = semi_major / math.sqrt(bulge)
    meridian = semi_major * (1 - eccentricity) / bulge**1.5
    return vertical * math.cos(phi) * math.radians(dx), meridian * math.radians(dy)


def sample_model() -> tuple[ElevationModel, float]:
    """The elevation model that matplotlib ships, and its mean latitude in degrees.

    Raises
    ------
    Error
        matplotlib is not installed.
    """
    with matplotlib_module("cbook").get_sample_data("jacksboro_fault_dem.npz") as data:
        elevation = data["elevation"].astype(np.float32)
        latitude = float(data["ymin"] + data["ymax"]) / 2
        dx, dy = cell_size(latitude, float(data["dx"]), float(data["dy"]))
    return ElevationModel(elevation, dx, dy), latitude


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("jitcore_hillshade.png"),
        metavar="PNG",
        help="where the picture goes (default: ./jitcore_hillshade.png)",
    )
    parser.add_argument("--full", action="store_true", help="print graphs and source in full")


def main(options: argparse.Namespace) -> None:
    """Run the demo."""
    if not isinstance(terrain, ScriptFunction):
        raise Error("JITCORE_JIT=0 turns the compiler off, and the demo shows the compiler")
    if not options.output.parent.is_dir():
        raise Error(f"there is no folder {options.output.parent} to write {options.output.name} to")
    model, latitude = sample_model()
    _introduce(model, latitude)
    cold, maps = _timed(terrain, model)
    _show_graphs(terrain, model, full=options.full)
    larger = model.mirrored(5, 8)
    _show_check([("the model", model, maps), ("40 copies", larger, terrain(*larger.arguments))])
    _show_times([("the model", model, 21), ("40 copies", larger, 5)], cold)
    title = "Around the Jacksboro fault, Tennessee"
    draw(options.output, model.elevation, maps, (model.dx, model.dy), title)
    _heading("The picture")
    print(f"  {options.output.resolve()}")


def _heading(text: str) -> None:
    print(f"\n── {text} {'─' * (WIDTH - len(text) - 4)}\n")


def _excerpt(text: str, *, first: int, last: int, full: bool) -> None:
    """Print the beginning and the end of a text, or all of it."""
    lines = text.rstrip().splitlines()
    hidden = len(lines) - first - last
    if full or hidden <= 2:
        print("\n".join(lines))
        return
    for line in lines[:first]:
        print(_folded(line))
    print(f"  ... {hidden} more lines; all of them with --full")
    for line in lines[len(lines) - last :]:
        print(_folded(line))


def _folded(line: str) -> str:
    indent = " " * (len(line) - len(line.lstrip()) + 6)
    return "\n".join(textwrap.wrap(line, WIDTH, subsequent_indent=indent)) or line


def _introduce(model: ElevationModel, latitude: float) -> None:
    rows, columns = model.elevation.shape
    _heading("The data")
    print(f"  Elevations that matplotlib ships as a sample: {rows} x {columns} cells, float32.")
    print(
        f"  The cells are given in degrees; at the mean latitude, {latitude:.2f} degrees north, one"
    )
    print(f"  is {model.dx:.1f} m wide and {model.dy:.1f} m high on the WGS 84 ellipsoid.")
    _heading("The function")
    print(inspect.getsource(terrain.__wrapped_function__).rstrip())


def _show_graphs(function: ScriptFunction, model: ElevationModel, *, full: bool) -> None:
    found = function.specializations[0]
    _heading("Its graph for these arguments")
    _excerpt(str(found.typed), first=14, last=3, full=full)
    _heading("The same after fusion")
    host, *groups = str(function.graph_for(*model.arguments)).split("\nwith ")
    _excerpt(host, first=4, last=8, full=full)
    for group in groups:
        _excerpt(f"with {group}", first=6, last=3, full=full)
    for kernel in function.kernels[:1]:
        _heading("The kernel, as Numba source; what runs is the same loops, compiled by LLVM")
        _show_kernel(kernel, full=full)
    _heading("What jitcore says of it")
    print(function.explain(*model.arguments))


def _show_kernel(kernel: Kernel, *, full: bool) -> None:
    """Print the kernel's source; in the excerpt the functions that it calls are left out."""
    if full:
        print(kernel.source)
        return
    before, start, body = kernel.source.partition(f"def {kernel.name}(")
    head, loop, loops = body.partition("\n    for ")
    calls = before.count("\n")
    print(f"# {calls} lines before it, imports and the vector mathematics it calls, with --full")
    _excerpt(start + head, first=8, last=2, full=False)
    _excerpt(loop.lstrip("\n") + loops, first=44, last=8, full=False)


def _timed(function: Callable[..., Any], model: ElevationModel) -> tuple[float, Maps]:
    begin = time.perf_counter()
    maps = function(*model.arguments)
    return time.perf_counter() - begin, maps


def _show_check(cases: Iterable[tuple[str, ElevationModel, Maps]]) -> None:
    """Compare with plain NumPy: the undecorated function on the same arguments."""
    _heading("The same as plain NumPy? The largest difference of each map")
    print(f"  {'':12}" + "".join(f"{name:>14}" for name in NAMES) + "   dtype, shape")
    for label, model, maps in cases:
        expected = terrain.__wrapped_function__(*model.arguments)
        pairs = list(zip(expected, maps, strict=True))
        largest = [float(np.max(np.abs(wanted - got))) for wanted, got in pairs]
        same = all(one.dtype == two.dtype and one.shape == two.shape for one, two in pairs)
        figures = "".join(f"{difference:14.2e}" for difference in largest)
        print(f"  {label:12}{figures}   {'equal' if same else 'DIFFERENT'}")
    print(
        "\n  Arithmetic and square roots are bit for bit NumPy's; arctan and arctan2 may differ in"
    )
    print("  the last places.")


def _show_times(cases: Iterable[tuple[str, ElevationModel, int]], cold: float) -> None:
    _heading("How long it takes: medians of runs that alternate with NumPy's")
    print(f"  {'':12}{'cells':>12}{'NumPy':>12}{'jitcore':>12}{'speedup':>12}{'runs':>7}")
    for label, model, runs in cases:
        plain: list[float] = []
        compiled: list[float] = []
        for _ in range(runs):
            plain.append(_timed(terrain.__wrapped_function__, model)[0])
            compiled.append(_timed(terrain, model)[0])
        slow, fast = statistics.median(plain), statistics.median(compiled)
        cells = model.elevation.size
        print(
            f"  {label:12}{cells:12,}{slow * 1e3:9.2f} ms{fast * 1e3:9.2f} ms"
            f"{slow / fast:11.1f}x{runs:7}"
        )
    print(f"\n  The first call, which compiled the function, took {cold:.2f} s.")
