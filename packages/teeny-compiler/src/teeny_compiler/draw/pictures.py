"""What is drawn of a graph, of an FXGraph and of a schedule.

Constants, and parameters where something reads them, are lines in the boxes of their readers, so
that edges are what flows from op to op, or through memory from launch to launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from teeny_core import Dim, Graph, numel

from teeny_compiler.draw.svg import Box, Edge, Kind, Picture
from teeny_compiler.fxgraph import FXGraph, FxNode
from teeny_compiler.nest.moves import MOVEMENT
from teeny_compiler.schedule.plan import Buffer, Schedule, Step

MOST_PARTS = 4
"""Parts of a combined launch that are named."""
QUIET = frozenset({"constant", "size"})
"""Ops that are shown by their value where it is read."""


def picture(value: Graph | FXGraph | Schedule) -> Picture:
    """Return the picture of a graph or a schedule."""
    if isinstance(value, Schedule):
        return _schedule(value)
    return _graph(
        FXGraph.from_graph(value, lambda node: True) if isinstance(value, Graph) else value
    )


class _Drawing:
    """Boxes so far, and the edges between them, each once."""

    def __init__(self) -> None:
        self.boxes: list[Box] = []
        self.edges: dict[tuple[int, int], str] = {}

    def add(self, box: Box) -> int:
        """Add a box and return its number."""
        self.boxes.append(box)
        return len(self.boxes) - 1

    def link(self, start: int, end: int, note: str = "") -> None:
        """Add an edge, or a line to the note of one that there is."""
        known = self.edges.get((start, end))
        self.edges[start, end] = note if known is None else f"{known}\n{note}"

    def picture(self, title: str) -> Picture:
        """Return what was drawn."""
        edges = tuple(Edge(*pair, note) for pair, note in self.edges.items())
        return Picture(title, tuple(self.boxes), edges)


# --- graphs -------------------------------------------------------------------------------------


def _graph(graph: FXGraph) -> Picture:
    drawing = _Drawing()
    inline = _inline(graph)
    place: dict[int, int] = {}
    for number, node in enumerate(graph.nodes):
        if number in inline:
            continue
        place[number] = drawing.add(_node_box(graph, number, inline))
        for operand in dict.fromkeys(node.inputs):
            if operand in place:
                note = f"{_name(graph, operand)}: {graph.nodes[operand].type}"
                drawing.link(place[operand], place[number], note)
    for output, number in enumerate(graph.outputs):
        lines = (f"output {output}", *_where(graph, number, inline), str(graph.nodes[number].type))
        end = drawing.add(Box(lines, "result"))
        if number in place:
            drawing.link(place[number], end)
    for parameter, number in graph.updates:
        if number == parameter:
            continue
        name, kind = graph.nodes[parameter].attrs["name"], graph.nodes[parameter].type
        end = drawing.add(Box((f"update {name}", str(kind)), "result"))
        if number in place:
            drawing.link(place[number], end)
    return drawing.picture(f"{graph.name}: {len(place)} ops, {len(graph.parameters)} parameters")


def _inline(graph: FXGraph) -> Mapping[int, str]:
    """Return the nodes that are lines of their readers' boxes, with those lines."""
    found: dict[int, str] = {}
    for number, node in enumerate(graph.nodes):
        if number in graph.parameters:
            found[number] = f"{node.attrs['name']} {node.type}"
        elif node.op in QUIET:
            found[number] = str(node.attrs.get("value", node.attrs.get("dim")))
        elif node.op == "array":
            found[number] = f"array {node.type}"
        elif node.op in ("broadcast_to", "reshape") and node.inputs[0] in found:
            found[number] = found[node.inputs[0]]
    return found


def _where(graph: FXGraph, number: int, inline: Mapping[int, str]) -> tuple[str, ...]:
    return (inline[number],) if number in inline else ()


def _node_box(graph: FXGraph, number: int, inline: Mapping[int, str]) -> Box:
    node = graph.nodes[number]
    if node.op == "input":
        return Box((str(node.attrs["name"]), str(node.type)), "leaf")
    shown = ("shape", "dtype")  # which the type says
    told = ((k, v) for k, v in node.attrs.items() if k not in shown and v is not False)
    attrs = ", ".join(f"{k}={v}" for k, v in told)
    read = [inline[i] for i in dict.fromkeys(node.inputs) if i in inline]
    lines = (node.op, *filter(None, (attrs,)), *read, str(node.type))
    note = f"{_name(graph, number)} = {node.op}{{{node.attrs}}} : {node.type}"
    return Box(lines, _weight(node), f"{note}\n{node.scope}" if node.scope else note)


def _weight(node: FxNode) -> Kind:
    return "light" if node.op in MOVEMENT or node.op in ("cast", "iota") else "work"


def _name(graph: FXGraph, number: int) -> str:
    node = graph.nodes[number]
    return f"%{node.attrs['name'] if node.op == 'input' else number}"


# --- schedules ----------------------------------------------------------------------------------


def _schedule(schedule: Schedule) -> Picture:
    drawing = _Drawing()
    writer: dict[int, int] = {}
    for number in schedule.inputs:
        buffer = schedule.buffers[number]
        writer[number] = drawing.add(Box((buffer.name, _memory(buffer)), "leaf"))
    for step in (*schedule.prepare, *schedule.steps):
        kind: Kind = "light" if step in schedule.prepare else "work"
        place = drawing.add(Box(tuple(_step_lines(schedule, step)), kind, step.label))
        for number in (*step.reads, *step.writes):
            if number in writer:
                buffer = schedule.buffers[number]
                drawing.link(writer[number], place, f"{buffer.name}: {_memory(buffer)}")
        writer.update(dict.fromkeys(step.writes, place))
    for output, number in enumerate(schedule.outputs):
        buffer = schedule.buffers[number]
        end = drawing.add(Box((f"output {output}", _memory(buffer)), "result"))
        if number in writer:
            drawing.link(writer[number], end)
    count = len(schedule.steps) + len(schedule.prepare)
    arena = f"arena {_bytes(schedule.arena)}, at least {_bytes(schedule.arena_bound)}"
    return drawing.picture(f"{schedule.name}: {count} launches, {arena}")


def _step_lines(schedule: Schedule, step: Step) -> Iterator[str]:
    parts = step.label.split(" | ")
    for part in parts[:MOST_PARTS]:
        what, _, domain = part.partition(" -> ")[0].partition(" over ")
        yield f"{what}  {domain}"
    if len(parts) > MOST_PARTS:
        yield f"and {len(parts) - MOST_PARTS} more"
    for number in step.reads:
        buffer = schedule.buffers[number]
        if buffer.kind in ("parameter", "constant", "prepared"):
            yield f"{buffer.name} {_memory(buffer)}"
    for number in step.writes:
        yield f"→ {schedule.buffers[number].name} {_memory(schedule.buffers[number])}"
    yield f"{_count(step.flops)} operations, {_bytes(step.bytes)}"


def _memory(buffer: Buffer) -> str:
    shape = ", ".join(map(str, buffer.shape))
    size = _bytes(numel(buffer.shape) * buffer.dtype.itemsize)
    return f"{buffer.dtype.name}[{shape}], {size}"


def _bytes(size: Dim) -> str:
    return _scaled(size, 1024, (" B", " KiB", " MiB", " GiB"))


def _count(number: Dim) -> str:
    return _scaled(number, 1000, ("", "k", "M", "G", "T"))


def _scaled(number: Dim, factor: int, units: tuple[str, ...]) -> str:
    """Return a number with the largest unit of which it has one; an expression as it is."""
    if not isinstance(number, int):
        return f"{number}{units[0]}"
    value: Any = number
    for unit in units[:-1]:
        if value < factor:
            return f"{value:.3g}{unit}" if value != number else f"{value}{unit}"
        value /= factor
    return f"{value:.3g}{units[-1]}"
