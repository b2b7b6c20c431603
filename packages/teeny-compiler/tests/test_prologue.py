"""Prologues: products that make an operand as they read it, when that saves a pass over memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.internal import host_target
from teeny_compiler.schedule import Schedule, make_schedule
from teeny_compiler.schedule.run import run_schedule
from teeny_core import Graph
from teeny_core.shape import bind

RNG = np.random.default_rng(8)
SHAPES = ((1, 64, 48), (3, 67, 45), (4, 5, 1), (23, 67, 45), (40, 300, 21), (2, 0, 3))
"""Rows, depth and columns of products."""


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def weights(*shape: int) -> Any:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def scheduled(graph: Graph, *, frozen: bool = False) -> Schedule:
    schedule = make_schedule(FXGraph.from_graph(graph), host_target(), frozen=frozen)
    schedule.verify()
    return schedule


def leaf(name: str, dtype: tn.DType, *shape: Any) -> tn.SymTensor:
    return tn.SymTensor.input(dtype, shape, name=name)


def dequantised(x: Any, w: Any, scale: Any, low: Any) -> Any:
    """A product with weights [columns, depth] of eight bits, and a scale and an offset a row."""
    return (x @ ((w.cast(tn.f32) - low) * scale).mT).relu()


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("rows", "depth", "columns"), SHAPES)
def test_weights_of_eight_bits_are_read_once(
    rows: int, depth: int, columns: int, symbolic: bool
) -> None:
    named = [
        leaf("x", tn.f32, "m" if symbolic else rows, depth),
        leaf("w", tn.i8, columns, depth),
        leaf("scale", tn.f32, columns, 1),
        leaf("low", tn.f32, columns, 1),
    ]
    graph = tn.trace(dequantised, *named)
    arrays = [normal(rows, depth), weights(columns, depth), normal(columns, 1), normal(columns, 1)]
    x, w, scale, low = (array.astype(np.float64) for array in arrays)
    wanted = np.maximum(x @ ((w - low) * scale).T, 0)
    schedule = scheduled(graph)
    if depth:
        assert len(schedule.steps) == 1
        assert not schedule.arena
        assert sorted(schedule.steps[0].reads) == [0, 1, 2, 3]
    sizes = bind((n.shape, a.shape) for n, a in zip(graph.inputs, arrays, strict=True))
    scale_of_sums = 1e-4 * max(1.0, float(np.abs(wanted).max(initial=0)))
    for found in (run_schedule(schedule, arrays, {}, sizes)[0], tn.compile(graph, "cpu")(*arrays)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=scale_of_sums)


@pytest.mark.parametrize("rows", [2, 40])
def test_an_operand_in_order_is_made_too(rows: int) -> None:
    graph = tn.trace(
        lambda x, w, b: x @ (w * 0.5 + b).relu(),
        leaf("x", tn.f32, rows, 33), leaf("w", tn.f32, 33, 50), leaf("b", tn.f32, 50),
    )  # fmt: skip
    arrays = [normal(rows, 33), normal(33, 50), normal(50)]
    arrays[1][3, 4] = np.nan
    x, w, b = (array.astype(np.float64) for array in arrays)
    wanted = x @ np.maximum(w * 0.5 + b, 0)
    schedule = scheduled(graph)
    assert len(schedule.steps) == 1
    for found in (run_schedule(schedule, arrays, {}, {})[0], tn.compile(graph, "cpu")(*arrays)):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)
        assert np.isnan(found[:, 4]).all()
        assert np.isfinite(np.delete(found, 4, axis=1)).all()


def test_what_a_prologue_reads_is_not_overwritten_by_the_result() -> None:
    def function(x: Any, w: Any) -> Any:
        y = (x @ w).exp()
        return (w @ (y * 2)).tanh() * 0.5

    graph = tn.trace(function, leaf("x", tn.f32, 64, 64), leaf("w", tn.f32, 64, 64))
    arrays = [normal(64, 64) / 16, normal(64, 64) / 16]
    x, w = (array.astype(np.float64) for array in arrays)
    wanted = np.tanh(w @ (np.exp(x @ w) * 2)) * 0.5
    found = tn.compile(graph, "cpu", options={"optimise": "off"})(*arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


UNFUSED: dict[str, Any] = {
    "read twice": lambda x, w: (x @ (w * 2).mT, w * 2 @ x.mT),
    "an output": lambda x, w: (x @ (w * 2).mT, w * 2),
    "costly": lambda x, w: x @ w.exp().sin().mT,
    "the left operand": lambda x, w: (x * 2) @ w.mT,
}


@pytest.mark.parametrize("name", UNFUSED)
def test_an_operand_lies_in_memory_when_making_it_again_costs_more(name: str) -> None:
    graph = tn.trace(UNFUSED[name], leaf("x", tn.f32, 40, 20), leaf("w", tn.f32, 30, 20))
    assert not any(" into " in step.label for step in scheduled(graph).steps)


def test_frozen_weights_stay_small_only_for_few_rows() -> None:
    w, scale = tn.Tensor(weights(48, 64)), tn.Tensor(normal(48, 1))
    for rows, made in ((1, True), (40, False)):
        graph = tn.trace(lambda x: x @ (w.cast(tn.f32) * scale).mT, leaf("x", tn.f32, rows, 64))
        schedule = scheduled(graph, frozen=True)
        assert [" into " in step.label for step in schedule.steps] == [made]
        assert bool(schedule.prepare) != made
