"""A compiled function on the blocks of a Dask array, in a cluster of two processes.

Each worker gets the function's graph, not its machine code, and compiles it once for all of its
blocks.  Needs Dask: ``pip install 'jitcore[dask]'``.
"""

from __future__ import annotations

import time
from typing import Any

import dask.array as da
import numpy as np
from dask.distributed import Client, LocalCluster

from jitcore import script


@script
def shaded(height: np.ndarray[Any, Any], azimuth: float, altitude: float) -> Any:
    """Shaded relief of a block of an elevation model with unit cells."""
    east = (height[1:-1, 2:] - height[1:-1, :-2]) / 2
    north = (height[2:, 1:-1] - height[:-2, 1:-1]) / 2
    slope = np.arctan(np.sqrt(east * east + north * north))
    aspect = np.arctan2(north, -east)
    light = np.cos(slope) * np.sin(altitude)
    light += np.sin(slope) * np.cos(altitude) * np.cos(azimuth - aspect)
    result = np.zeros(height.shape, np.float32)
    result[1:-1, 1:-1] = np.maximum(light, 0)
    return result


def terrain(size: int, chunk: int) -> Any:
    """A smooth elevation model, in blocks that the workers make themselves."""
    x = da.linspace(0, 8, size, chunks=chunk)
    return da.sin(x)[:, np.newaxis] * da.cos(1.7 * x) * 40


def main() -> None:
    """Compute one picture by blocks and compare it with NumPy's."""
    height = terrain(2000, 500)
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        # Neighbours overlap by one cell.  The dtype of the result is found by calling the function.
        light = {"azimuth": 5.5, "altitude": 0.8}
        picture = da.map_overlap(shaded, height, depth=1, boundary="nearest", **light)
        start = time.perf_counter()
        found = picture.compute()
        seconds = time.perf_counter() - start
        workers = len(client.scheduler_info()["workers"])
    padded = np.pad(height.compute(), 1, mode="edge")
    expected = shaded.__wrapped__(padded, **light)[1:-1, 1:-1]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    print(f"{found.shape} {found.dtype} by {workers} workers in {seconds:.2f} s, as NumPy has it")


if __name__ == "__main__":
    main()
