"""The demo's function agrees with NumPy and with geometry, and the demo runs."""

from __future__ import annotations

import importlib.util
import math
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from source_files import ROOT

from jitcore import Error
from jitcore.__main__ import main
from jitcore.demo import NAMES, ElevationModel, cell_size, terrain
from jitcore.demo.picture import matplotlib_module, shaded_relief
from jitcore.pipeline import NativePlan

needs_matplotlib = pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
LIGHT = (math.radians(315), math.radians(45))


def hills(rows: int, columns: int, dtype: str = "float32") -> np.ndarray[Any, Any]:
    y, x = np.mgrid[:rows, :columns]
    elevation: np.ndarray[Any, Any] = 300 * np.sin(x / 7) * np.cos(y / 5) + 2 * y
    return elevation.astype(dtype)


def plane(east: float, north: float) -> np.ndarray[Any, Any]:
    """A tilted plane of cells of one metre; the first row is the northern edge."""
    y, x = np.mgrid[:6, :7]
    elevation: np.ndarray[Any, Any] = east * x - north * y
    return elevation


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(40, 33), (3, 3), (3, 50)])
def test_terrain_is_what_numpy_gives(dtype: str, shape: tuple[int, int]) -> None:
    elevation = hills(*shape, dtype)
    expected = terrain.__wrapped_function__(elevation, 30.0, 25.0, *LIGHT)
    found = terrain(elevation, 30.0, 25.0, *LIGHT)
    for name, one, two in zip(NAMES, expected, found, strict=True):
        assert one.dtype == two.dtype == dtype
        assert one.shape == two.shape == (shape[0] - 2, shape[1] - 2)
        if name == "hillshade":
            np.testing.assert_array_equal(two, one)
        else:
            np.testing.assert_array_max_ulp(two, one, 8)


def test_terrain_is_one_kernel() -> None:
    terrain(hills(20, 20), 30.0, 30.0, *LIGHT)
    plans = [one.plan for one in terrain.specializations]
    assert all(isinstance(plan, NativePlan) for plan in plans)
    assert all(len(plan.graph.find_all_nodes("prim::FusionGroup")) == 1 for plan in plans)


@pytest.mark.parametrize(
    ("east", "north", "direction"),
    [(0, 1, 180), (0, -1, 0), (1, 0, 270), (-1, 0, 90), (-1, -1, 45), (1, 1, 225)],
)
def test_a_plane_faces_downhill(east: float, north: float, direction: float) -> None:
    slope, aspect, _, curvature = terrain(plane(east, north), 1.0, 1.0, *LIGHT)
    np.testing.assert_allclose(slope, math.atan(math.hypot(east, north)))
    np.testing.assert_allclose(np.degrees(aspect), direction, atol=1e-12)
    np.testing.assert_allclose(curvature, 0, atol=1e-12)


def test_light_that_falls_along_the_normal_is_full() -> None:
    towards = terrain(plane(1, -1) / math.sqrt(2), 1.0, 1.0, *LIGHT)[2]
    away = terrain(plane(-2, 2), 1.0, 1.0, *LIGHT)[2]
    np.testing.assert_allclose(towards, 1)
    np.testing.assert_array_equal(away, 0)


def test_a_ridge_is_convex() -> None:
    x = np.arange(-4.0, 5.0)
    ridge = np.tile(-0.01 * x**2 + 0.1 * x, (5, 1))
    curvature = terrain(ridge, 1.0, 1.0, *LIGHT)[3]
    assert np.all(curvature > 0)
    assert np.all(terrain(-ridge, 1.0, 1.0, *LIGHT)[3] < 0)


def test_cell_size_at_the_equator_and_the_pole() -> None:
    # Quarter meridian of WGS 84: 10001.966 km in 90 degrees.
    heights = [cell_size(latitude + 0.5, 1.0, 1.0)[1] for latitude in range(90)]
    assert sum(heights) == pytest.approx(10001965.7, abs=10)
    assert cell_size(0.0, 360.0, 1.0)[0] == pytest.approx(2 * math.pi * 6378137)
    assert cell_size(90.0, 1.0, 1.0)[0] == pytest.approx(0, abs=1e-9)


def test_mirrored_models_have_no_seams() -> None:
    model = ElevationModel(np.arange(6, dtype=np.float32).reshape(2, 3), 30.0, 30.0)
    elevation = model.mirrored(2, 3).elevation
    assert elevation.shape == (4, 9)
    np.testing.assert_array_equal(elevation[0], [0, 1, 2, 2, 1, 0, 0, 1, 2])
    np.testing.assert_array_equal(elevation[:, 0], [0, 3, 3, 0])


def test_half_light_keeps_a_colour() -> None:
    colour = np.array([[[0.2, 0.5, 0.9]]])
    np.testing.assert_allclose(shaded_relief(colour, np.array([[0.5]])), colour)
    assert np.all(shaded_relief(colour, np.array([[1.0]])) > colour)
    assert np.all(shaded_relief(colour, np.array([[0.0]])) < colour)


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(Error, match=r"pip install 'jitcore\[demo\]'"):
        matplotlib_module("figure")


def test_demo_asks_for_a_folder_that_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--output", "no/such/folder/picture.png"]) == 1
    assert "there is no folder no/such/folder to write picture.png to" in capsys.readouterr().err


@pytest.mark.slow
@needs_matplotlib
def test_demo_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.png"
    assert main(["demo", "--output", str(path)]) == 0
    printed = capsys.readouterr().out
    assert path.read_bytes().startswith(b"\x89PNG")
    assert "prim::FusionGroup_0" in printed
    assert "DIFFERENT" not in printed
    assert "def terrain_" in printed
    assert max(map(len, printed.splitlines())) <= 100


@pytest.mark.slow
@needs_matplotlib
def test_example_shades_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    heights, picture = tmp_path / "heights.npy", tmp_path / "picture.png"
    np.save(heights, hills(60, 80, "int32"))
    arguments = [str(heights), "--cell", "30", "25", "--output", str(picture)]
    monkeypatch.setattr(sys, "argv", ["hillshade.py", *arguments])
    runpy.run_path(str(ROOT / "examples" / "hillshade.py"), run_name="__main__")
    assert picture.read_bytes().startswith(b"\x89PNG")
