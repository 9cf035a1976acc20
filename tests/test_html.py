# mypy: allow-untyped-defs, allow-untyped-calls
"""Pages that show graphs: what is in them, how it is laid out, and what a browser makes of them."""

import html
import itertools
import json
import linecache
import re
import shutil
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitcore import parse_graph, script, trace
from jitcore.__main__ import main
from jitcore.ir.drawing import draw, size_of
from jitcore.ir.graph import Graph, SourceRange
from jitcore.ir.html import graph_page
from jitcore.ir.layered_layout import Line, lay_out


@script
def layered(x, w, steps):
    h = np.tanh(x @ w + 1)
    p = np.exp(h) / np.exp(h).sum(axis=1, keepdims=True)
    for i in range(steps):
        if i % 2:
            p = p * 0.5 + np.sqrt(p)
        else:
            p[0] += p.mean()
    waves = np.fft.rfft(p[0])
    return p * 2 - p**3, waves


class Page(HTMLParser):
    """What a page has, by its tags."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.words, self.inside = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "text" in self.inside:
            self.words.append(data)

    def classes(self, tag="g"):
        return [attrs.get("class", "") for name, attrs in self.elements if name == tag]


def notes_of(page):
    (text,) = re.findall(r'<script type="application/json" id="notes">(.*?)</script>', page, re.S)
    return json.loads(text)


def called():
    layered(np.ones((4, 3)), np.ones((3, 5)), 3)
    return layered


def test_groups_are_boxes(tmp_path):
    path = tmp_path / "page.html"
    called().save_html(path)
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    kinds = {name.split()[1] for name in page.classes() if name.startswith("box")}
    assert {"input", "output", "native", "group", "control", "node", "python"} <= kinds
    words = "".join(page.words)
    assert "np::tanh" in words
    assert "prim::FusionGroup_0" in words
    assert "np::call" in words
    assert "Float64[4, 5]" in words
    assert "fused group" in text


def test_notes_have_types_and_source():
    notes = notes_of(graph_page(called()._shown_graph()))
    (tanh,) = [one for one in notes if one.get("node", "").find("np::tanh") >= 0]
    assert "Float64[4, 5]" in tanh["gives"]
    line = layered.__wrapped_function__.__code__.co_firstlineno + 2
    assert tanh["source"] == f"{__file__}:{line}\nh = np.tanh(x @ w + 1)"
    assert any("runs in NumPy" in one for one in notes)


def test_a_page_needs_nothing_else():
    page = Page(graph_page(called()._shown_graph()))
    for tag, attrs in page.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "use", "image")
        assert not {"src", "href", "xlink:href", "action"} & attrs.keys()
    text = graph_page(called()._shown_graph())
    assert "//" not in re.sub(r"(?m)^// .*$|<!--.*?-->|<script type.*?</script>", "", text).replace(
        "http://www.w3.org/2000/svg", ""
    )
    assert "default-src 'none'" in text
    assert set(re.findall(r"url\((.*?)\)", text)) == {"#arrow"}


def test_a_function_that_was_not_called():
    @script
    def fresh(x):
        return np.sin(x) + 1

    page = Page(graph_page(fresh._shown_graph()))
    assert "".join(page.words).count("np::sin") == 1


def test_traces_and_graphs_in_notebooks():
    traced = trace(lambda x: np.sin(x) + 1, np.ones(3))
    for shown in (traced, traced.graph, traced.graph_for(np.ones(3))):
        text = shown._repr_html_()
        frame = Page(text)
        assert [tag for tag, _ in frame.elements] == ["iframe"]
        inner = frame.elements[0][1]["srcdoc"]
        assert inner.startswith("<!DOCTYPE html>")
        assert "np::sin" in "".join(Page(inner).words)


HOSTILE = "</script><script>hacked()</script><img src=x onerror=hacked()>\"'&"


def test_text_of_the_program_stays_text(tmp_path):
    file = tmp_path / "</script><b>.py"
    linecache.cache[str(file)] = (1, None, [HOSTILE], str(file))
    graph = Graph(HOSTILE)
    value = graph.block.add_param(name="x")
    where = SourceRange(str(file), 1, 0)
    constant = graph.block.constant(HOSTILE, value.type)
    node = graph.block.append("prim::add", [value, constant], {"name": HOSTILE}, source=where)
    graph.block.add_return(node.output)
    text = graph_page(graph)
    page = Page(text)
    assert [tag for tag, _ in page.elements].count("script") == 2
    assert not any(tag in ("b", "img") for tag, _ in page.elements)
    assert not any(name.startswith("on") for _, attrs in page.elements for name in attrs)
    assert any(HOSTILE in one.get("source", "") for one in notes_of(text))
    frame = Page(graph._repr_html_())
    assert [tag for tag, _ in frame.elements] == ["iframe"]
    assert frame.elements[0][1]["srcdoc"] == text


def test_constants_stand_in_the_boxes_that_read_them():
    text = """graph(%x : Tensor):
  %0 : int = prim::Constant[value=42]()
  %1 : Any = prim::add(%x, %0)
  return (%1)"""
    boxes = draw(parse_graph(text)).boxes
    assert [box.lines[0] for box in boxes] == ["%x", "prim::add(%x, 42)", "return %1"]


def test_lines_show_the_order_of_writes():
    @script
    def written(x):
        x[0] += 1
        return x.sum()

    written(np.ones((3, 4)))
    drawing = draw(written._shown_graph())
    names = [box.lines[0] for box in drawing.boxes]
    order = [
        (names[line.source], names[line.target])
        for line, value in zip(drawing.lines, drawing.carried, strict=True)
        if value is None
    ]
    assert any("FusionGroup" in one and "np::sum" in other for one, other in order)


def test_large_graphs_have_closed_calls():
    inner = trace(lambda x: sum(np.sin(x) for _ in range(80)), np.ones(3))
    outer = trace(lambda x: inner(x) + inner(x), np.ones(3))
    assert not any(box.inner for box in draw(outer._graph).boxes)
    small = trace(lambda x: trace(np.sin, np.ones(3))(x) + 1, np.ones(3))
    assert any(box.inner for box in draw(small._graph).boxes)


# Layout


def drawings(drawing):
    yield drawing
    for box in drawing.boxes:
        for inner in box.inner:
            yield from drawings(inner)


def rectangles(sizes, corners):
    return [(x, y, x + w, y + h) for (w, h), (x, y) in zip(sizes, corners, strict=True)]


def assert_apart(sizes, corners):
    for one, other in itertools.combinations(rectangles(sizes, corners), 2):
        apart = one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        assert apart, (one, other)


def test_boxes_do_not_overlap():
    for graph in (called()._shown_graph(), layered._graph, layered.graph):
        for drawing in drawings(draw(graph)):
            sizes = [size_of(box) for box in drawing.boxes]
            assert_apart(sizes, drawing.layout.corners)
            width, height = drawing.layout.size
            for left, top, right, bottom in rectangles(sizes, drawing.layout.corners):
                assert 0 <= left <= right <= width + 1e-6
                assert 0 <= top <= bottom <= height + 1e-6


def test_inner_drawings_fit_into_their_boxes():
    def check(box):
        width, height = size_of(box)
        assert sum(one.layout.size[0] for one in box.inner) <= width
        assert all(one.layout.size[1] < height for one in box.inner)
        for inner in box.inner:
            for one in inner.boxes:
                check(one)

    for box in draw(called()._shown_graph()).boxes:
        check(box)


@st.composite
def dags(draw):
    count = draw(st.integers(1, 25))
    sizes = [(draw(st.integers(10, 200)), draw(st.integers(10, 80))) for _ in range(count)]
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    lines = {Line(*sorted(pair)) for pair in draw(st.lists(pairs, max_size=60))}
    return sizes, sorted(
        (line for line in lines if line.source != line.target),
        key=lambda line: (line.source, line.target),
    )


@given(dags())
def test_every_layout(case):
    sizes, lines = case
    layout = lay_out(sizes, lines)
    assert_apart(sizes, layout.corners)
    boxes = rectangles(sizes, layout.corners)
    for line, route in zip(lines, layout.routes, strict=True):
        left, _, right, bottom = boxes[line.source]
        assert left <= route[0][0] <= right
        assert route[0][1] == pytest.approx(bottom)
        left, top, right, _ = boxes[line.target]
        assert left <= route[-1][0] <= right
        assert route[-1][1] == pytest.approx(top)
        assert all(one[1] <= other[1] for one, other in itertools.pairwise(route))


# The command line

PROGRAM = """
import numpy as np
from jitcore import script

@script
def called(x):
    return np.sin(x) * 2 + 1

called(np.ones(3))

def plain(x):
    return np.cos(x)

class Nets:
    from jitcore import nn, trace
    plain = nn.Linear(3, 2)
    traced = trace(plain, np.ones((1, 3), "f4"))
"""


def test_the_command(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(tmp_path))
    program = tmp_path / "page_program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    page = tmp_path / "page.html"
    assert main(["graph", f"{program}:called", "-o", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text(encoding="utf-8")
    assert "prim::FusionGroup" in text
    assert "Float64[3]" in text
    assert main(["graph", "page_program:plain", "--output", str(page)]) == 0
    assert "np::cos" in page.read_text(encoding="utf-8")
    for name in ("plain", "traced"):
        assert main(["graph", f"{program}:Nets.{name}", "-o", str(page)]) == 0
        assert "nn::linear" in page.read_text(encoding="utf-8")
    assert main(["graph", f"{program}:plain", "-o", str(tmp_path / "no" / "page.html")]) == 1
    assert "cannot write" in capsys.readouterr().err


# A browser

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")

PROBE = """
<script>
window.addEventListener("load", () => {
  const report = {errors: window.problems};
  const find = words => [...document.querySelectorAll("g.box")]
    .find(box => box.textContent.includes(words));
  const over = target => target.dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
  const group = find("prim::FusionGroup");
  const box = group.getBoundingClientRect();
  report.group = [box.width, box.height];
  report.fill = getComputedStyle(group.querySelector("rect")).fill;
  report.plain = getComputedStyle(find("np::tanh").querySelector("rect")).fill;
  const rect = [...document.querySelectorAll("g.box.node")]
    .find(one => one.textContent.startsWith("np::tanh"));
  over(rect.querySelector("rect"));
  const note = document.getElementById("note");
  report.note = note.hidden ? null : note.innerText;
  report.lit = document.querySelectorAll(".line.lit").length;
  const before = document.getElementById("picture").getAttribute("viewBox");
  document.getElementById("in").click();
  report.zoomed = document.getElementById("picture").getAttribute("viewBox") !== before;
  over(document.querySelector("header"));
  report.gone = note.hidden;
  const output = document.createElement("output");
  output.textContent = JSON.stringify(report);
  document.body.append(output);
});
</script>
</body>"""


def test_in_a_browser(tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    listening = '<script>window.problems = []; window.onerror = e => window.problems.push("" + e);'
    text = graph_page(called()._shown_graph())
    text = text.replace("<head>", f"<head>{listening}</script>", 1).replace("</body>", PROBE, 1)
    page = tmp_path / "page.html"
    page.write_text(text, encoding="utf-8")
    options = [
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}/user",
    ]
    command = [browser, *options, "--virtual-time-budget=3000", "--dump-dom", page.as_uri()]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    output = re.search(r"<output>(.*?)</output>", found.stdout, re.S)
    assert output, found.stderr
    report = json.loads(html.unescape(output[1]))
    assert report["errors"] == []
    assert min(report["group"]) > 40
    assert report["fill"] != report["plain"] == "rgb(255, 255, 255)"
    assert "h = np.tanh(x @ w + 1)" in report["note"]
    assert "Float64[4, 5]" in report["note"]
    assert report["lit"] >= 1
    assert report["zoomed"]
    assert report["gone"]
