"""Pictures: nothing overlaps, edges run downwards, and what is drawn is what there is."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
import teeny_core as tn
from hypothesis import given, settings
from hypothesis import strategies as st
from teeny_compiler.draw import picture, svg
from teeny_compiler.draw.layout import layout
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.internal import emit, host_target
from teeny_compiler.schedule import make_schedule
from teeny_core import Graph, nn

SLACK = 1e-6
NAMESPACE = "{http://www.w3.org/2000/svg}"


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    sizes = [
        (float(draw(st.integers(10, 90))), float(draw(st.integers(10, 60))))
        for _ in range(draw(st.integers(0, 12)))
    ]
    pairs = st.tuples(st.integers(0, 11), st.integers(0, 11))
    drawn = draw(st.lists(pairs, max_size=24, unique=True))
    return sizes, [(a, b) for a, b in drawn if a < b < len(sizes)]


@settings(max_examples=40, deadline=None)
@given(graphs())
def test_boxes_are_apart_and_edges_run_down(
    drawn: tuple[list[tuple[float, float]], list[tuple[int, int]]],
) -> None:
    sizes, edges = drawn
    placed = layout(sizes, edges)
    boxes = list(zip(placed.centres, sizes, strict=True))
    for i, ((x, y), (width, height)) in enumerate(boxes):
        assert x - width / 2 >= -SLACK
        assert x + width / 2 <= placed.width + SLACK
        assert height / 2 - SLACK <= y <= placed.height - height / 2 + SLACK
        for (other_x, other_y), (other_width, other_height) in boxes[:i]:
            beside = abs(x - other_x) >= (width + other_width) / 2 - SLACK
            assert beside or abs(y - other_y) >= (height + other_height) / 2 - SLACK
    for (start, end), points in zip(edges, placed.edges, strict=True):
        assert points[0] == placed.centres[start]
        assert points[-1] == placed.centres[end]
        assert all(upper[1] < lower[1] for upper, lower in pairwise(points))


def residual() -> Graph:
    layer = nn.Sequential(nn.Linear(6, 6), nn.ReLU(), nn.Linear(6, 6))
    x = tn.SymTensor.input(tn.f32, ("n", 6), name="x<0>")
    return tn.trace(lambda x: (layer(x) + x).softmax(-1) * 2, x)


def texts(document: str) -> list[str]:
    root = ElementTree.fromstring(document)
    return [str(node.text) for node in root.iter(f"{NAMESPACE}text")]


@pytest.mark.parametrize("stage", ["graph", "fxgraph", "optimised", "schedule"])
def test_a_stage_is_drawn(stage: str) -> None:
    found = texts(emit(residual(), f"{stage}.svg"))
    assert {"x<0>", "output 0"} <= {*found}
    assert any("f32[6, 6]" in line for line in found)
    assert any(line.startswith("matmul") for line in found)


def test_a_schedule_shows_each_launch_with_its_bytes() -> None:
    schedule = make_schedule(FXGraph.from_graph(residual()), host_target())
    drawn = picture(schedule)
    assert [box.kind for box in drawn.boxes].count("work") == len(schedule.steps)
    lines = [line for box in drawn.boxes for line in box.lines]
    assert "→ output0 f32[n, 6], 24*n B" in lines
    svg(drawn)


def test_only_graphs_are_drawn() -> None:
    with pytest.raises(tn.CompileError, match="no picture of a stage 'tile'"):
        emit(residual(), "tile.svg")


def test_a_program_draws_itself() -> None:
    program: Any = tn.compile(residual(), "cpu")
    assert program(np.ones((2, 6), np.float32)).shape == (2, 6)
    assert texts(program.to_svg())[0].startswith("lambda: ")
