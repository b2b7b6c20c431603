"""A picture as SVG: boxes with lines of text, and the edges between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Literal

from teeny_compiler.draw.layout import layout

Kind = Literal["leaf", "work", "light", "result"]

MARGIN = 16.0
TITLE = 34.0
LINE, PAD = 16.0, 10.0
CHARACTER = 7.23
"""Width of a character in a typeface of fixed width, 12 pixels high."""
MOST_CHARACTERS = 56

STYLE = """
    svg { background: #ffffff; }
    text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
      fill: #22252e; text-anchor: middle; }
    .name { font-weight: 600; }
    .small { fill: #5a6072; }
    .title { font-size: 15px; font-weight: 600; text-anchor: start; }
    rect { stroke-width: 1.2; }
    .leaf { fill: #eaf5ef; stroke: #3f8f63; }
    .work { fill: #eef1fb; stroke: #5367b8; }
    .light { fill: #f7f8fb; stroke: #9aa1b5; }
    .result { fill: #fdf3e3; stroke: #c08328; }
    .edge { fill: none; stroke: #7a8194; stroke-width: 1.2; }
    .tip { fill: #7a8194; }
    @media (prefers-color-scheme: dark) {
      svg { background: #1c1f29; }
      text { fill: #e4e6ee; }
      .small { fill: #a9afc3; }
      .leaf { fill: #223b30; stroke: #7cc7a0; }
      .work { fill: #2b3252; stroke: #8c9eff; }
      .light { fill: #262a38; stroke: #6c7389; }
      .result { fill: #40341f; stroke: #e0ad5c; }
      .edge { stroke: #a9afc3; }
      .tip { fill: #a9afc3; }
    }"""


@dataclass(frozen=True)
class Box:
    """A node: its first line is its name. `note` shows under the pointer; without, the lines do."""

    lines: tuple[str, ...]
    kind: Kind = "work"
    note: str = ""

    @property
    def shown(self) -> tuple[str, ...]:
        """The lines, long ones cut."""
        return tuple(map(_cut, self.lines))

    @property
    def size(self) -> tuple[float, float]:
        """Width and height."""
        longest = max(map(len, self.shown))
        return longest * CHARACTER + 2 * PAD, len(self.lines) * LINE + 2 * PAD - 4


@dataclass(frozen=True)
class Edge:
    """What one box reads of another, by number; `note` shows under the pointer."""

    start: int
    end: int
    note: str = ""


@dataclass(frozen=True)
class Picture:
    """Boxes, each before those that it leads to."""

    title: str
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


def svg(picture: Picture) -> str:
    """Return a picture as an SVG document; it follows a dark colour scheme."""
    sizes = [box.size for box in picture.boxes]
    title = escape(picture.title)
    placed = layout(sizes, [(edge.start, edge.end) for edge in picture.edges])
    width = max(placed.width, len(picture.title) * CHARACTER * 1.25) + 2 * MARGIN
    height = placed.height + TITLE + 2 * MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}\n</style>",
        '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
        'markerHeight="7" orient="auto"><path class="tip" d="M 0 0 L 10 5 L 0 10 z" /></marker>'
        "</defs>",
        f'<text class="title" x="{MARGIN:.0f}" y="{MARGIN + 12:.0f}">{title}</text>',
        f'<g transform="translate({MARGIN:.0f} {MARGIN + TITLE:.0f})">',
    ]
    for edge, points in zip(picture.edges, placed.edges, strict=True):
        lines += _edge(edge, points, sizes[edge.start][1], sizes[edge.end][1])
    for box, centre in zip(picture.boxes, placed.centres, strict=True):
        lines += _box(box, centre)
    return "\n".join((*lines, "</g>", "</svg>\n"))


def _box(box: Box, centre: tuple[float, float]) -> Iterator[str]:
    (x, y), (width, height) = centre, box.size
    yield "<g>"
    yield f"<title>{escape(box.note or chr(10).join(box.lines))}</title>"
    yield (
        f'<rect class="{box.kind}" x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="6" />'
    )
    for number, line in enumerate(box.shown):
        style = "small" if number else "name"
        at = y - height / 2 + PAD + 8 + number * LINE
        yield f'<text class="{style}" x="{x:.1f}" y="{at:.1f}">{escape(line)}</text>'
    yield "</g>"


def _edge(
    edge: Edge, points: Sequence[tuple[float, float]], above: float, below: float
) -> Iterator[str]:
    """Draw an edge from the lower side of a box to the upper side of another."""
    (x, y), *bends, (last, end) = points
    stops = [(x, y + above / 2), *bends, (last, end - below / 2 - 1)]
    path = f"M {stops[0][0]:.1f} {stops[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(stops):
        half = (y0 + y1) / 2
        path += f" C {x0:.1f} {half:.1f} {x1:.1f} {half:.1f} {x1:.1f} {y1:.1f}"
    note = f"<title>{escape(edge.note)}</title>" if edge.note else ""
    yield f'<path class="edge" marker-end="url(#tip)" d="{path}">{note}</path>'


def _cut(line: str) -> str:
    return line if len(line) <= MOST_CHARACTERS else f"{line[: MOST_CHARACTERS - 1]}…"
