"""Frozen parameters: what depends on them alone is computed once."""

from __future__ import annotations

from typing import Any

import numpy as np
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Policy, optimise
from teeny_compiler.schedule import make_schedule
from teeny_compiler.schedule.run import run_schedule
from teeny_core import Graph, nn, ops
from teeny_core.internal import evaluate_updates
from teeny_triton import Target

TARGET = Target("x86_64-unknown-linux-gnu", "", frozenset(), 128, 16)
FAST = Policy(frozenset(("exact", "real", "fast")), frozen=True)
RNG = np.random.default_rng(5)


class Block(nn.Layer[Any, Any]):
    """A convolution with batch normalisation."""

    def __init__(self) -> None:
        self.conv = nn.Conv2d(2, 3, 3)
        self.norm = nn.BatchNorm2d(3)

    def call(self, x: Any) -> Any:
        return self.norm(self.conv(x)).relu()


def test_batch_norm_ends_in_the_weights() -> None:
    block = Block()
    block.eval()
    graph = tn.trace(block, tn.SymTensor.input(tn.f32, ("n", 2, 5, 5)))
    parameters = {
        name: RNG.uniform(0.5, 1.5, tensor.shape).astype(np.float32)
        for name, tensor in graph.bindings.items()
    }
    schedule = make_schedule(optimise(FXGraph.from_graph(graph), FAST), TARGET, (), frozen=True)
    schedule.verify()
    assert len(schedule.steps) == 1
    assert schedule.prepare
    kinds = {schedule.buffers[i].kind for step in schedule.prepare for i in step.writes}
    assert kinds == {"prepared"}
    x = RNG.standard_normal((2, 2, 5, 5)).astype(np.float32)
    (have,) = run_schedule(schedule, [x], parameters, {"n": 2})
    (want,), _ = evaluate_updates(graph, [x], parameters)
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=1e-5)


def test_what_an_update_changes_is_not_frozen() -> None:
    x, p, q = (ops.input(name, (4,), tn.f32) for name in "xpq")
    y = ops.mul(x, ops.add(ops.exp(p), ops.exp(q)))
    graph = Graph("part", (x,), (p, q), (y,), ((p, ops.add(p, x)),))
    schedule = make_schedule(FXGraph.from_graph(graph), TARGET, (), frozen=True)
    reads = {schedule.buffers[i].name for step in schedule.prepare for i in step.reads}
    assert reads == {"q"}


def test_nothing_is_frozen_by_default() -> None:
    x, p = (ops.input(name, (4,), tn.f32) for name in "xp")
    graph = Graph("none", (x,), (p,), (ops.mul(x, ops.exp(p)),))
    assert not make_schedule(FXGraph.from_graph(graph), TARGET, ()).prepare


def test_tables_are_computed_once() -> None:
    x = ops.input("x", (6,), tn.f32)
    table = ops.sin(ops.exp(ops.iota((6,), 0, tn.f32)))
    graph = Graph("table", (x,), (), (ops.add(x, table),))
    schedule = make_schedule(FXGraph.from_graph(graph), TARGET, ())
    assert len(schedule.prepare) == 1
    value = RNG.standard_normal(6).astype(np.float32)
    (have,) = run_schedule(schedule, [value], {}, {})
    np.testing.assert_allclose(have, value + np.sin(np.exp(np.arange(6))), rtol=1e-5)


def test_an_output_that_never_changes_is_still_written() -> None:
    table = ops.sin(ops.iota((6,), 0, tn.f32))
    schedule = make_schedule(FXGraph.from_graph(Graph("fixed", (), (), (table,))), TARGET, ())
    assert len(schedule.steps) == 1
    assert not schedule.prepare
