"""Large values that are computed again rather than kept: fewer bytes, the same values."""

from __future__ import annotations

import numpy as np
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule import make_schedule
from teeny_compiler.target import host_target
from teeny_core import Graph

ROWS, COLUMNS = 1024, 512


def step(rows: int) -> Graph:
    """The gradients of a layer with a gelu, by its input and its weights."""

    def run(x: tn.AnyTensor, w: tn.AnyTensor, v: tn.AnyTensor, dy: tn.AnyTensor) -> tn.AnyTensor:
        y = tn.nn.functional.gelu(x @ w) @ v
        return tn.gradients(y, [x, w, v], [dy])

    shapes = (rows, 16), (16, COLUMNS), (COLUMNS, 16), (rows, 16)
    return tn.trace(run, *(tn.SymTensor.input(tn.f32, shape) for shape in shapes))


def kept(graph: Graph, size: int) -> int:
    """How many buffers of so many elements the schedule has in its arena."""
    schedule = make_schedule(FXGraph.from_graph(graph), host_target())
    buffers = (b for b in schedule.buffers if b.kind == "arena")
    return sum(b.nbytes == 4 * size for b in buffers)


def test_an_activation_keeps_what_goes_in_and_what_comes_out() -> None:
    graph = step(ROWS)
    assert kept(graph, ROWS * COLUMNS) <= 3  # besides, its gradient
    assert kept(step(8), 8 * COLUMNS) > 3  # what is small is in a cache


def test_what_is_kept_for_long_is_kept_once() -> None:
    """Of small layers, too, where there are many: what goes into the gelu, and what comes out."""
    layers, rows, width = 8, 128, 256

    def run(x: tn.AnyTensor, *weights: tn.AnyTensor) -> tn.AnyTensor:
        y = x
        for weight in weights:
            y = tn.nn.functional.gelu(y @ weight)
        return tn.gradients((y * y).sum(), list(weights))

    shapes = (rows, width), *[(width, width)] * layers
    graph = tn.trace(run, *(tn.SymTensor.input(tn.f32, shape) for shape in shapes))
    schedule = make_schedule(FXGraph.from_graph(graph), host_target())
    assert schedule.arena_bound <= (2 * layers + 3) * 4 * rows * width


def test_values_are_those_of_numpy() -> None:
    from math import erf, pi, sqrt

    random = np.random.default_rng(3)
    graph = step(ROWS)
    x, w, v, dy = (random.standard_normal(node.shape, np.float32) for node in graph.inputs)
    found = tn.compile(graph, "cpu")(x, w, v, dy)

    exact = [array.astype(np.float64) for array in (x, w, v, dy)]
    x, w, v, dy = exact
    h = x @ w
    share = 0.5 * (1 + np.vectorize(erf)(h / sqrt(2)))
    dh = (dy @ v.T) * (share + h * np.exp(-h * h / 2) / sqrt(2 * pi))
    for got, wanted in zip(found, (dh @ w.T, x.T @ dh, (h * share).T @ dy), strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-5 * scale)
