"""The style and the script of a graph's page."""

from __future__ import annotations

__all__ = ["SCRIPT", "STYLE"]

STYLE = """
:root { color-scheme: light; font: 14px/1.4 system-ui, sans-serif; }
* { box-sizing: border-box; }
body { margin: 0; height: 100vh; display: flex; flex-direction: column; background: #fff;
  color: #1c2733; }
header { display: flex; flex-wrap: wrap; gap: 4px 16px; align-items: center; padding: 8px 14px;
  border-bottom: 1px solid #d8dee4; }
h1 { font-size: 15px; margin: 0 8px 0 0; font-family: ui-monospace, monospace; }
.key { font-size: 12px; color: #57606a; white-space: nowrap; }
.key i { display: inline-block; width: 13px; height: 13px; border: 1px solid; border-radius: 3px;
  vertical-align: -2px; margin-right: 5px; }
.buttons { margin-left: auto; }
button { font: inherit; min-width: 30px; border: 1px solid #c6ccd2; border-radius: 5px;
  background: #f6f8fa; cursor: pointer; }
main { flex: 1; min-height: 0; overflow: hidden; cursor: grab; }
main.moving { cursor: grabbing; }
svg { width: 100%; height: 100%; display: block; user-select: none; }
text { font: 12px ui-monospace, "DejaVu Sans Mono", monospace; fill: #1c2733; }
text.first { font-weight: 600; }
text.first tspan { font-weight: 400; }
text.second, text.title { fill: #57606a; }
rect { fill: #fff; stroke: #8c959f; }
.input > rect, .key.input i { fill: #eaf5ff; background: #eaf5ff; stroke: #54a3d8; }
.output > rect { fill: #24292f; stroke: #24292f; }
.output > text { fill: #fff; }
.outer > rect, .again > rect, .key.again i { fill: #fff; background: #fff; stroke: #8c959f;
  stroke-dasharray: 3 3; border-color: #8c959f; border-style: dashed; }
.key.node i { background: #fff; border-color: #8c959f; }
.python > rect, .key.python i { fill: #fff4d6; background: #fff4d6; stroke: #c98a00;
  border-color: #c98a00; }
.native > rect, .key.native i { fill: #eef1f4; background: #eef1f4; stroke: #57606a;
  border-color: #57606a; }
.call > rect, .key.call i { fill: #f6f0fc; background: #f6f0fc; stroke: #8250df;
  border-color: #8250df; }
.control > rect, .key.control i { fill: #fbfbfb; background: #fbfbfb; stroke: #57606a;
  border-color: #57606a; stroke-dasharray: 6 3; border-style: dashed; }
.group > rect, .key.group i { stroke-width: 2; }
.key.group i, .shade0 > rect { fill: #ddf4e4; background: #ddf4e4; stroke: #2da44e;
  border-color: #2da44e; }
.shade1 > rect { fill: #ddeefe; stroke: #2477c9; }
.shade2 > rect { fill: #ffe7dc; stroke: #d9622b; }
.shade3 > rect { fill: #fbe4f1; stroke: #bf3989; }
.shade4 > rect { fill: #e9e6fb; stroke: #6a51c7; }
.shade5 > rect { fill: #f4f1cf; stroke: #9a8700; }
.line { fill: none; stroke: #8c959f; stroke-width: 1.2; marker-end: url(#arrow); }
.order { stroke-dasharray: 2 4; }
#arrow path { fill: #8c959f; }
.line.lit { stroke: #cf222e; stroke-width: 2.4; }
.box.lit > rect { stroke: #cf222e; stroke-width: 2.4; }
#note { position: fixed; max-width: 560px; padding: 8px 12px; border-radius: 6px;
  background: #1c2733f2; color: #fff; font-size: 12px; pointer-events: none; z-index: 2; }
#note dl { margin: 0; display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; }
#note dt { color: #a9b4be; }
#note dd { margin: 0; white-space: pre-wrap; font-family: ui-monospace, monospace;
  overflow-wrap: anywhere; }
details { border-top: 1px solid #d8dee4; padding: 4px 14px; max-height: 45vh; overflow: auto; }
summary { cursor: pointer; color: #57606a; }
pre { font: 12px ui-monospace, monospace; }
"""

SCRIPT = """
"use strict";
const notes = JSON.parse(document.getElementById("notes").textContent);
const picture = document.getElementById("picture");
const frame = picture.parentElement;
const note = document.getElementById("note");
const full = [-20, -20, +picture.dataset.width, +picture.dataset.height];
let view = full.slice();

function show() {
  picture.setAttribute("viewBox", view.join(" "));
}
function pixel() {
  return Math.max(view[2] / frame.clientWidth, view[3] / frame.clientHeight);
}
function zoom(factor, x, y) {
  view = [x - (x - view[0]) * factor, y - (y - view[1]) * factor, view[2] * factor,
    view[3] * factor];
  show();
}
function middle() {
  return [view[0] + view[2] / 2, view[1] + view[3] / 2];
}
function scaled(scale) {
  const width = frame.clientWidth / scale, height = frame.clientHeight / scale;
  let left = full[0] + (full[2] - width) / 2;
  if (width < full[2]) {
    left = +picture.dataset.start - width / 2;
    left = Math.max(full[0], Math.min(left, full[0] + full[2] - width));
  }
  view = [left, full[1], width, height];
  show();
}
function fit() {
  view = full.slice();
  show();
}
document.getElementById("in").onclick = () => zoom(0.8, ...middle());
document.getElementById("out").onclick = () => zoom(1.25, ...middle());
document.getElementById("fit").onclick = fit;
document.getElementById("actual").onclick = () => scaled(1);

frame.addEventListener("wheel", event => {
  event.preventDefault();
  const place = new DOMPoint(event.clientX, event.clientY)
    .matrixTransform(picture.getScreenCTM().inverse());
  zoom(Math.exp(event.deltaY / 500), place.x, place.y);
}, {passive: false});
let held = null;
frame.addEventListener("pointerdown", event => {
  held = [event.clientX, event.clientY, view[0], view[1]];
  frame.classList.add("moving");
});
window.addEventListener("pointermove", event => {
  if (held === null) return;
  view[0] = held[2] - (event.clientX - held[0]) * pixel();
  view[1] = held[3] - (event.clientY - held[1]) * pixel();
  show();
});
window.addEventListener("pointerup", () => {
  held = null;
  frame.classList.remove("moving");
});

function light(values) {
  for (const one of document.querySelectorAll(".lit")) one.classList.remove("lit");
  for (const value of values) {
    for (const line of document.querySelectorAll(`[data-value="${value}"]`)) {
      line.classList.add("lit");
    }
    for (const box of document.querySelectorAll(`[data-makes~="${value}"]`)) {
      box.classList.add("lit");
    }
  }
}
function describe(about) {
  const list = document.createElement("dl");
  for (const [title, text] of Object.entries(about)) {
    const term = document.createElement("dt"), words = document.createElement("dd");
    term.textContent = title;
    words.textContent = text;
    list.append(term, words);
  }
  note.replaceChildren(list);
  note.hidden = list.childElementCount === 0;
}
document.addEventListener("pointerover", event => {
  const box = event.target.closest("[data-note]");
  const line = event.target.closest("[data-value]");
  if (box !== null) {
    describe(notes[+box.dataset.note]);
    light(box.dataset.makes.split(" ").filter(one => one !== ""));
  } else {
    note.hidden = true;
    light(line === null ? [] : [line.dataset.value]);
  }
});
document.addEventListener("pointermove", event => {
  const right = Math.min(event.clientX + 16, innerWidth - note.offsetWidth - 8);
  const below = event.clientY + 18;
  const above = event.clientY - note.offsetHeight - 12;
  note.style.left = `${Math.max(right, 4)}px`;
  note.style.top = `${below + note.offsetHeight > innerHeight ? Math.max(above, 4) : below}px`;
});
// Neither larger than text should be, nor too small to be read.
const whole = Math.min(frame.clientWidth / full[2], frame.clientHeight / full[3]);
if (whole > 1) scaled(1);
if (whole < 0.6) scaled(0.8);
"""
