"""Shade an elevation model of your own.

    python examples/hillshade.py heights.npy --cell 30 30 --output hills.png

``heights.npy`` is a matrix of elevations in metres, the northern edge first; ``--cell`` says
how wide and how high one cell is.  Without a file it is the model that matplotlib ships.

All the work is done by one NumPy function with ``@script`` on it, ``terrain`` in
``jitcore/demo/__init__.py``.  The first call compiles it for the dtype and the shape of the
elevations.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from jitcore.demo import ElevationModel, sample_model, terrain
from jitcore.demo.picture import draw


def read_model(path: Path, cell: tuple[float, float]) -> ElevationModel:
    """The elevations in a file that ``np.save`` wrote, computed with in float32."""
    elevation = np.load(path, allow_pickle=False)
    if elevation.ndim != 2 or min(elevation.shape) < 3:
        raise SystemExit(f"{path} holds an array of shape {elevation.shape}, not a matrix")
    return ElevationModel(elevation.astype(np.float32), *cell)


def main() -> None:
    """Read, compute, draw, and say what was compiled."""
    parser = argparse.ArgumentParser(description="Shade an elevation model.")
    parser.add_argument("heights", type=Path, nargs="?", help="a matrix of metres in a .npy file")
    parser.add_argument("--cell", type=float, nargs=2, default=(30.0, 30.0), metavar="METRES")
    parser.add_argument("--output", type=Path, default=Path("hillshade.png"), metavar="PNG")
    options = parser.parse_args()
    model = read_model(options.heights, options.cell) if options.heights else sample_model()[0]
    report = terrain.explain(*model.arguments)
    print(report)
    title = options.heights.stem if options.heights else "Around the Jacksboro fault, Tennessee"
    draw(options.output, model.elevation, report.result, (model.dx, model.dy), title)


if __name__ == "__main__":
    main()
