"""A graph as boxes and lines: a box for each node, boxes in boxes for groups and blocks.

Constants stand in the boxes of the nodes that read them.  A value that is used far below is named
there once more rather than drawn across the whole picture.
"""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from dataclasses import field

from jitcore.ir.dataclass import dataclass
from jitcore.ir.effects import node_effects
from jitcore.ir.graph import Block, Graph, Node, Value
from jitcore.ir.layered_layout import Layout, Line, Size, lay_out, rows_of
from jitcore.ir.literals import format_literal
from jitcore.ir.printer import CALL_FUNCTION, body_names, print_node

__all__ = ["Box", "Drawing", "draw", "size_of"]

LONGEST_LINE = 8
"""In rows; a value used further below is named there again."""

MAX_OPENED = 120
"""Nodes; in larger graphs called functions are closed boxes."""

MAX_TEXT = 46
"""Characters in a line of a box."""

CHARACTER = 7.25
TEXT_LINE = 16.0
MARGIN = 8.0
HEADER = 26.0
PADDING = 14.0


@dataclass(slots=True, eq=False)
class Box:
    """One box.

    Parameters
    ----------
    kind : str
        ``"input"``, ``"output"``, ``"outer"`` (a value of the block around), ``"again"`` (a value
        from far above), ``"node"``, ``"python"`` (a node that runs in the host program),
        ``"group"``, ``"native"``, ``"call"`` or ``"control"``.
    lines : list of str
        The first is the node's operation.
    values : list of Value
        What the box gives.
    notes : dict
        What is shown when the mouse is over it, by title.
    inner : list of Drawing
        Side by side.
    """

    kind: str
    lines: list[str]
    values: Sequence[Value] = ()
    notes: dict[str, str] = field(default_factory=dict)
    inner: list[Drawing] = field(default_factory=list)


@dataclass(slots=True)
class Drawing:
    """Boxes, the lines between them, and where they are.

    Parameters
    ----------
    title : str
    boxes : list of Box
    lines : list of Line
    carried : list of Value or None
        What each line stands for; None for the order of a write and a later use.
    layout : Layout
    """

    title: str
    boxes: list[Box]
    lines: list[Line]
    carried: list[Value | None]
    layout: Layout


def draw(graph: Graph) -> Drawing:
    """The drawing of a graph, of all its blocks and of the graphs that its nodes hold.

    What is in called functions is left out where it would be too much.
    """
    return _draw(graph, _Style(_count(graph) <= MAX_OPENED, body_names(graph)))


@dataclass(frozen=True, slots=True)
class _Style:
    """Whether called functions are drawn open, and the names of groups in the graph's text."""

    opened: bool
    names: dict[int, str]


def _draw(graph: Graph, style: _Style) -> Drawing:
    return _Sketch("", graph.inputs, style).finish(graph.block)


def _count(graph: Graph) -> int:
    """How many nodes a graph has, with those of the functions that it calls."""
    return sum(1 + sum(map(_count, _held(node))) for node in graph.nodes())


def _held(node: Node) -> list[Graph]:
    return [held for held in node.attributes.values() if isinstance(held, Graph)]


def size_of(box: Box) -> Size:
    """Width and height of a box with all that is in it."""
    width = max((len(line) for line in box.lines), default=0) * CHARACTER + 2 * MARGIN
    if not box.inner:
        return width, len(box.lines) * TEXT_LINE + MARGIN
    inner = [one.layout.size for one in box.inner]
    across = sum(size[0] for size in inner) + PADDING * (len(inner) + 1)
    titles = HEADER if any(one.title for one in box.inner) else 0.0
    height = max(size[1] for size in inner) + HEADER + titles + PADDING
    return max(width, across), height


class _Sketch:
    """The drawing of one block, as it grows."""

    def __init__(self, title: str, inputs: Sequence[Value], style: _Style) -> None:
        self.title = title
        self.style = style
        self.boxes: list[Box] = []
        self.links: list[tuple[int, int, Value | None]] = []
        self.makers: dict[Value, int] = {}
        self.writers: dict[Value, int] = {}
        self.memories: dict[Value, Value] = {}
        for value in inputs:
            self.add(Box("input", [f"%{value.name}", _type(value)], [value], _about(value)))

    def add(self, box: Box) -> int:
        """Append a box, which makes its values; gives its number."""
        self.boxes.append(box)
        number = len(self.boxes) - 1
        self.makers |= dict.fromkeys(box.values, number)
        return number

    def finish(self, block: Block) -> Drawing:
        """Draw a block's nodes and what it returns, and place everything."""
        for node in block.nodes:
            if node.kind != "prim::Constant":
                self._node(node)
        if block.returns:
            title = "return" if block.owner is None else "gives"
            names = ", ".join(_argument(value) for value in block.returns)
            box = Box("output", [_short(f"{title} {names}")])
            number = self.add(box)
            self._read(number, block.returns)
        return self._placed()

    def _node(self, node: Node) -> None:
        box = _box_of(node, self.style)
        used = list(dict.fromkeys((*node.inputs, *_free_values(node))))
        for value in used:
            if value not in self.makers and value.constant is None:
                self.add(Box("outer", [f"%{value.name}"], [value], _about(value)))
        number = self.add(box)
        self._read(number, used)
        if node.blocks:
            return
        for index in _writes(node):
            self.writers[self._memory(node.inputs[index])] = number
        for index in node_effects(node).aliases:
            self.memories |= dict.fromkeys(node.outputs, self._memory(node.inputs[index]))

    def _memory(self, value: Value) -> Value:
        """The value whose memory another one may share: the array that it may be a view of."""
        return self.memories.get(value, value)

    def _read(self, number: int, values: Sequence[Value]) -> None:
        """Lines from the makers of values to who reads them, and from who wrote them last."""
        for value in dict.fromkeys(values):
            if value in self.makers:
                self.links.append((self.makers[value], number, value))
            writer = self.writers.get(self._memory(value))
            if writer is not None and self.makers.get(value) != writer:
                self.links.append((writer, number, None))

    def _placed(self) -> Drawing:
        self._shorten()
        lines: dict[Line, Value | None] = {}
        for source, target, value in self.links:
            if value is not None or Line(source, target) not in lines:
                lines[Line(source, target)] = value
        layout = lay_out([size_of(box) for box in self.boxes], list(lines))
        return Drawing(self.title, self.boxes, list(lines), list(lines.values()), layout)

    def _shorten(self) -> None:
        """Name values again where they are used far below."""
        rows = rows_of(len(self.boxes), [Line(source, target) for source, target, _ in self.links])
        boxes: list[Box] = []
        moved: dict[int, int] = {}
        again: dict[tuple[int, Value], int] = {}
        into: dict[int, list[tuple[int, Value | None]]] = {}
        for source, target, value in self.links:
            into.setdefault(target, []).append((source, value))
        links: list[tuple[int, int, Value | None]] = []
        for number, box in enumerate(self.boxes):
            sources: list[tuple[int, Value | None]] = []
            for source, value in into.get(number, ()):
                far = rows[number] - rows[source] > LONGEST_LINE
                if far and value is None:
                    continue
                if far and value is not None:
                    key = (rows[number], value)
                    if key not in again:
                        again[key] = len(boxes)
                        boxes.append(Box("again", [f"%{value.name}"], [value], _about(value)))
                    sources.append((again[key], value))
                else:
                    sources.append((moved[source], value))
            moved[number] = len(boxes)
            boxes.append(box)
            links += [(source, moved[number], value) for source, value in sources]
        self.boxes, self.links = boxes, links


def _box_of(node: Node, style: _Style) -> Box:
    kind = _kind_of(node)
    inner = [] if kind == "call" and not style.opened else _inside(node, style)
    made = ", ".join(f"%{value.name} : {value.type}" for value in node.outputs)
    title = _title(node, style)
    if inner:
        head = f"{title}  →  {made}" if made else title
        return Box(kind, [_short(head, 2 * MAX_TEXT)], node.outputs, _notes(node), inner)
    head = f"{title}{_attributes(node)}({_arguments(node)})"
    lines = [_short(head), *([_short(made)] if made else [])]
    return Box(kind, lines, node.outputs, _notes(node))


def _inside(node: Node, style: _Style) -> list[Drawing]:
    """The graphs and the blocks in a node."""
    blocks = [
        _Sketch(f"block{number}", block.params, style).finish(block)
        for number, block in enumerate(node.blocks)
    ]
    return [*(_draw(graph, style) for graph in _held(node)), *blocks]


def _title(node: Node, style: _Style) -> str:
    graph = node.attributes.get("graph")
    if not isinstance(graph, Graph):
        return node.kind
    if node.kind != CALL_FUNCTION:
        return style.names.get(id(graph), node.kind)
    layer = node.attributes.get("layer")
    owner = "" if layer is None else f"{type(layer).__name__}."
    return f"{owner}{graph.name or 'function'}"


def _kind_of(node: Node) -> str:
    if node.kind in ("prim::FusionGroup", "prim::oneDNNFusionGroup"):
        return "group"
    if node.kind.startswith("prim::NativeGroup"):
        return "native"
    if _held(node):
        return "call"
    if node.blocks:
        return "control"
    is_python = node.host_reason is not None or node.kind in ("np::call", "prim::Call")
    return "python" if is_python else "node"


def _attributes(node: Node) -> str:
    texts = [
        f"{name}={format_literal(value)}"
        for name, value in node.attributes.items()
        if name not in ("scope", "layer") and not isinstance(value, Graph)
    ]
    return f"[{', '.join(texts)}]" if texts else ""


def _arguments(node: Node) -> str:
    texts = [_argument(value) for value in node.inputs]
    first = len(texts) - len(node.keywords)
    for number, keyword in enumerate(node.keywords, first):
        texts[number] = f"{keyword}={texts[number]}"
    return ", ".join(texts)


def _argument(value: Value) -> str:
    constant = value.constant
    return f"%{value.name}" if constant is None else format_literal(constant.attributes["value"])


def _type(value: Value) -> str:
    return str(value.type)


def _short(text: str, length: int = MAX_TEXT) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _about(value: Value) -> dict[str, str]:
    return {"value": f"%{value.name} : {value.type}"}


def _notes(node: Node) -> dict[str, str]:
    """What there is to say about a node: its text, the types of its operands, its source."""
    notes = {"node": print_node(node).splitlines()[0].partition(" # ")[0]}
    reads = [f"%{value.name} : {value.type}" for value in node.inputs if value.constant is None]
    if reads:
        notes["reads"] = "\n".join(dict.fromkeys(reads))
    if node.outputs:
        notes["gives"] = "\n".join(f"%{value.name} : {value.type}" for value in node.outputs)
    if node.source is not None:
        text = linecache.getline(node.source.file, node.source.line).strip()
        notes["source"] = f"{node.source.file}:{node.source.line}\n{text}".rstrip()
    if node.host_reason is not None:
        notes["runs in NumPy"] = node.host_reason
    return notes


def _writes(node: Node) -> list[int]:
    """The numbers of the inputs that a node writes to; those of a group as its nodes say."""
    graphs = _held(node)
    if not graphs:
        return list(node_effects(node).writes)
    numbers = {value: number for number, value in enumerate(graphs[0].inputs)}
    found: list[int] = []
    for inner in graphs[0].nodes():
        for index in node_effects(inner).aliases:
            number = numbers.get(inner.inputs[index])
            numbers |= dict.fromkeys(inner.outputs, number) if number is not None else {}
        written = (numbers.get(inner.inputs[index]) for index in _writes(inner))
        found += [number for number in written if number is not None]
    return found


def _free_values(node: Node) -> list[Value]:
    """The values from outside that a node's blocks read."""
    found: list[Value] = []
    for block in node.blocks:
        own = set(block.params)
        for inner in block.nodes:
            found += [one for one in (*inner.inputs, *_free_values(inner)) if one not in own]
            own.update(inner.outputs)
        found += [one for one in block.returns if one not in own]
    return found
