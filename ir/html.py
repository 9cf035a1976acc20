"""Graphs as web pages: one file that needs no network.

The picture is made here (``drawing``); the page's script only shows notes, follows values, and
moves the picture.  All text of the program is escaped, and reaches the page's script as data.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator

from jitcore.ir.drawing import HEADER, MARGIN, PADDING, TEXT_LINE, Box, Drawing, draw, size_of
from jitcore.ir.graph import Graph, Value
from jitcore.ir.html_parts import SCRIPT, STYLE

__all__ = ["graph_page", "notebook_html"]

_LEGEND = {
    "group": "fused group: one loop",
    "native": "native region: machine code",
    "call": "called function",
    "control": "control flow",
    "node": "operation",
    "python": "runs in Python",
    "again": "a value from far above",
}

NOTEBOOK_HEIGHT = 480


def graph_page(graph: Graph, title: str = "") -> str:
    """A web page that shows a graph.

    Parameters
    ----------
    graph : Graph
    title : str, optional
        By default the graph's name.

    Returns
    -------
    str
        HTML with all that it needs in it.
    """
    drawing = draw(graph)
    picture = _Picture()
    body = "".join(picture.drawing(drawing, 0.0, 0.0))
    width, height = drawing.layout.size
    top = min((y for _, y in drawing.layout.corners), default=0.0)
    first = [x for x, y in drawing.layout.corners if y <= top] or [0.0]
    start = sum(first) / len(first)
    shown = html.escape(title or graph.name or "graph")
    # A closing tag in a string would end the script.
    notes = json.dumps(picture.notes).replace("<", "\\u003c")
    legend = "".join(
        f'<span class="key {kind}"><i></i>{text}</span>'
        for kind, text in _LEGEND.items()
        if kind in picture.kinds
    )
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>{shown}</title>
<style>{STYLE}</style>
</head>
<body>
<header><h1>{shown}</h1>{legend}
<span class="buttons"><button id="in">+</button><button id="out">&minus;</button>
<button id="fit">fit</button><button id="actual">1:1</button></span></header>
<main><svg id="picture" viewBox="-20 -20 {width + 40:.0f} {height + 40:.0f}"
 data-width="{width + 40:.0f}" data-height="{height + 40:.0f}" data-start="{start:.0f}"
 role="img" aria-label="{shown}">
<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8"
 markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z"/></marker></defs>
{body}</svg></main>
<details><summary>text</summary><pre>{html.escape(str(graph))}</pre></details>
<div id="note" hidden></div>
<script type="application/json" id="notes">{notes}</script>
<script>{SCRIPT}</script>
</body>
</html>
"""


def notebook_html(graph: Graph, title: str = "") -> str:
    """A graph for a notebook's output: the page in a frame of its own."""
    page = html.escape(graph_page(graph, title), quote=True)
    style = f"width:100%;height:{NOTEBOOK_HEIGHT}px;border:1px solid #ccc"
    return f'<iframe srcdoc="{page}" style="{style}" sandbox="allow-scripts"></iframe>'


class _Picture:
    """Writes SVG, and collects what the page's script is to know."""

    def __init__(self) -> None:
        self.notes: list[dict[str, str]] = []
        self.kinds: set[str] = set()
        self._numbers: dict[Value, int] = {}
        self._groups = 0

    def number(self, value: Value) -> int:
        """The number by which the page knows a value."""
        return self._numbers.setdefault(value, len(self._numbers))

    def drawing(self, drawing: Drawing, left: float, top: float) -> Iterator[str]:
        """The boxes and lines of one block."""
        for value, points in zip(drawing.carried, drawing.layout.routes, strict=True):
            moved = [(x + left, y + top) for x, y in points]
            if value is None:
                yield f'<path class="line order" d="{_curve(moved)}"/>'
            else:
                number = self.number(value)
                yield f'<path class="line" data-value="{number}" d="{_curve(moved)}"/>'
        for box, (x, y) in zip(drawing.boxes, drawing.layout.corners, strict=True):
            yield from self.box(box, x + left, y + top)

    def box(self, box: Box, left: float, top: float) -> Iterator[str]:
        """One box with all that is in it."""
        width, height = size_of(box)
        self.kinds.add(box.kind)
        shade = ""
        if box.kind == "group":
            shade = f" shade{self._groups % 6}"
            self._groups += 1
        self.notes.append(box.notes)
        made = " ".join(str(self.number(value)) for value in box.values)
        yield (
            f'<g class="box {box.kind}{shade}" data-note="{len(self.notes) - 1}" '
            f'data-makes="{made}"><rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
            f'height="{height:.1f}" rx="5"/>'
        )
        yield from _texts(box, left, top)
        yield "</g>\n"
        inside = left + PADDING
        for one in box.inner:
            below = top + HEADER
            if one.title:
                yield _text("title", inside, below + TEXT_LINE - 4, one.title)
                below += HEADER
            yield from self.drawing(one, inside, below)
            inside += one.layout.size[0] + PADDING


def _texts(box: Box, left: float, top: float) -> Iterator[str]:
    for number, line in enumerate(box.lines):
        y = top + MARGIN / 2 + TEXT_LINE * (number + 1) - 4
        name = re.split(r"[\[( ]", line)[0] if number == 0 else line
        kind = "first" if number == 0 else "second"
        yield _text(kind, left + MARGIN, y, name, line[len(name) :])


def _text(kind: str, x: float, y: float, text: str, rest: str = "") -> str:
    more = f"<tspan>{html.escape(rest)}</tspan>" if rest else ""
    keep = 'xml:space="preserve"'
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" {keep}>{html.escape(text)}{more}</text>'


def _curve(points: list[tuple[float, float]]) -> str:
    """A smooth path that runs downwards at each of its points."""
    (x, y), *others = points
    parts = [f"M{x:.1f} {y:.1f}"]
    for to_x, to_y in others:
        half = (y + to_y) / 2
        parts.append(f"C{x:.1f} {half:.1f} {to_x:.1f} {half:.1f} {to_x:.1f} {to_y:.1f}")
        x, y = to_x, to_y
    return " ".join(parts)
