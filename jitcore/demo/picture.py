"""The picture that `python -m jitcore demo` draws: a shaded relief and maps of its shape."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from jitcore.errors import Error

__all__ = ["draw", "matplotlib_module", "shaded_relief"]

Maps = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]

_TINTS = ("#3f6b4f", "#6f9a63", "#b9c489", "#e6dca6", "#cfae7c", "#a57b58", "#8a6a5c", "#f3efe9")
"""Hypsometric tints: green valleys, pale slopes, brown heights, and nearly white summits."""

_INK = "#2b2a28"
_PAPER = "#fbfaf7"


def matplotlib_module(name: str) -> Any:
    """A module of matplotlib, which only the demo needs.

    Raises
    ------
    Error
        matplotlib is not installed.
    """
    try:
        return importlib.import_module(f"matplotlib.{name}")
    except ModuleNotFoundError as error:
        raise Error(
            "the demo takes its elevation model from matplotlib, and draws with it, but matplotlib"
            " is not installed; run: pip install 'jitcore[demo]'"
        ) from error


def shaded_relief(tint: NDArray[Any], light: NDArray[Any]) -> NDArray[Any]:
    """Blend colours with light, so that half light leaves a colour as it is.

    Parameters
    ----------
    tint : ndarray of shape (rows, columns, 3)
        Red, green and blue from 0 to 1.
    light : ndarray of shape (rows, columns)
        From 0 to 1.

    Returns
    -------
    ndarray of shape (rows, columns, 3)
        The "soft light" of image editors: ``(1 - 2 a) b**2 + 2 a b``.
    """
    light = light[..., np.newaxis]
    blended: NDArray[Any] = (1 - 2 * light) * tint**2 + 2 * light * tint
    return blended


def draw(
    path: Path, elevation: NDArray[Any], maps: Maps, cell: tuple[float, float], title: str
) -> None:
    """Draw the maps into a PNG file.

    Parameters
    ----------
    path : Path
        The file to write.
    elevation : ndarray of shape (rows, columns)
        In metres, north at the top.
    maps : tuple of four ndarrays of shape (rows - 2, columns - 2)
        What ``terrain`` gives for it: slope, aspect, hillshade and curvature.
    cell : (float, float)
        Width and height of a cell in metres.
    title : str
        Stands over the picture.
    """
    slope, aspect, hillshade, curvature = maps
    inside = elevation[1:-1, 1:-1]
    rows, columns = inside.shape
    extent = (0.0, columns * cell[0] / 1000, 0.0, rows * cell[1] / 1000)
    figure = matplotlib_module("figure").Figure(figsize=(11.9, 8.8), dpi=150, facecolor=_PAPER)
    relief = figure.add_axes((0.05, 0.06, 0.60, 0.84), anchor="W")
    panels = [figure.add_axes((0.706, bottom, 0.19, 0.258)) for bottom in (0.642, 0.351, 0.06)]

    _draw_relief(figure, relief, inside, hillshade, extent)
    _draw_map(figure, panels[0], np.degrees(slope), extent, "Slope (degrees)", "YlOrBr", (0, 30))
    _draw_aspect(panels[1], aspect, slope, extent)
    bend = curvature * 1000
    limit = float(np.percentile(np.abs(bend), 97))
    name = "Profile curvature (1/km), positive: convex"
    _draw_map(figure, panels[2], bend, extent, name, "RdBu_r", (-limit, limit))
    figure.text(0.05, 0.945, title, fontsize=18, fontweight="bold", color=_INK)
    figure.savefig(path, format="png")


def _draw_relief(
    figure: Any, axes: Any, elevation: NDArray[Any], light: NDArray[Any], extent: Sequence[float]
) -> None:
    colors = matplotlib_module("colors")
    palette = colors.LinearSegmentedColormap.from_list("hypsometric", _TINTS)
    norm = colors.Normalize(*np.percentile(elevation, (0.5, 99.9)))
    # The light of level ground becomes one half, which leaves its colour unchanged.
    level = float(np.sin(np.pi / 4))
    contrast = np.clip(0.5 + 1.6 * (light - level), 0, 1)
    image = shaded_relief(palette(norm(elevation))[..., :3], contrast)
    axes.imshow(np.clip(image, 0, 1), extent=extent, interpolation="bicubic")
    levels = np.arange(100 * np.ceil(elevation.min() / 100), elevation.max(), 100)
    lines = axes.contour(
        elevation, levels, extent=extent, origin="upper", colors=_INK, linewidths=0.35, alpha=0.35
    )
    axes.clabel(lines, levels[4::2], fontsize=6.5, fmt="%d m")
    heading = "Elevation (m), light from the north-west, contours every 100 m"
    axes.set_title(heading, loc="left", fontsize=9.5, color=_INK)
    axes.set_xlabel("east (km)", color=_INK)
    axes.set_ylabel("north (km)", color=_INK)
    scale = matplotlib_module("cm").ScalarMappable(norm, palette)
    _colorbar(figure, axes, scale)
    _finish(axes)


def _draw_map(
    figure: Any,
    axes: Any,
    values: NDArray[Any],
    extent: Sequence[float],
    title: str,
    palette: str,
    limits: tuple[float, float],
) -> None:
    image = axes.imshow(values, cmap=palette, vmin=limits[0], vmax=limits[1], extent=extent)
    axes.set_title(title, loc="left", fontsize=9.5, color=_INK)
    _colorbar(figure, axes, image, extend="max" if limits[0] == 0 else "both")
    _finish(axes, ticks=False)


def _draw_aspect(
    axes: Any, aspect: NDArray[Any], slope: NDArray[Any], extent: Sequence[float]
) -> None:
    """Hue is the direction a slope faces; what is nearly level fades to paper."""
    palette = matplotlib_module("colors").LinearSegmentedColormap.from_list(
        "compass", ("#4f7fbf", "#8fb58a", "#e3c15a", "#d4714e", "#9c5a8c", "#4f7fbf")
    )
    color = palette(aspect / (2 * np.pi))[..., :3]
    strength = np.clip(np.degrees(slope) / 8, 0, 1)[..., np.newaxis]
    paper = np.array(matplotlib_module("colors").to_rgb(_PAPER))
    axes.imshow(strength * color + (1 - strength) * paper, extent=extent)
    axes.set_title("Aspect (the way a slope faces)", loc="left", fontsize=9.5, color=_INK)
    _finish(axes, ticks=False)
    compass = axes.inset_axes((1.11, 0.33, 0.34, 0.34), projection="polar")
    compass.set_theta_zero_location("N")
    compass.set_theta_direction(-1)
    angles = np.linspace(0, 2 * np.pi, 181)
    ring = np.tile((angles[1:] + angles[:-1]) / 2, (1, 1))
    compass.pcolormesh(angles, (0.55, 1.0), ring, cmap=palette, vmin=0, vmax=2 * np.pi)
    compass.set_xticks(np.arange(4) * np.pi / 2, ["N", "E", "S", "W"], fontsize=8)
    compass.tick_params(pad=-4)
    compass.set_yticks([])
    compass.set_ylim(0, 1)
    compass.grid(False)
    compass.spines["polar"].set_visible(False)
    compass.patch.set_alpha(0)


def _colorbar(figure: Any, axes: Any, image: Any, extend: str = "neither") -> None:
    beside = axes.inset_axes((1.025, 0.1, 0.02, 0.8))
    bar = figure.colorbar(image, cax=beside, extend=extend)
    bar.ax.tick_params(labelsize=8, colors=_INK)
    bar.outline.set_visible(False)


def _finish(axes: Any, *, ticks: bool = True) -> None:
    axes.tick_params(labelsize=8, colors=_INK)
    if not ticks:
        axes.set_xticks([])
        axes.set_yticks([])
    for spine in axes.spines.values():
        spine.set(linewidth=0.6, color=_INK)
