"""Checkpointing in schedules: memory of one block at a time, and the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import teeny_core as tn
from teeny_compiler import FXGraph, Schedule, make_schedule
from teeny_compiler.internal import host_target
from teeny_compiler.optimise import optimise
from teeny_core import nn

WIDTH, DEPTH = 16, 6
AT = {"n": 256}


class Stack(nn.Layer[Any, Any]):
    """A residual stack of wide blocks, whose inner values are kept or not."""

    def __init__(self, kept: bool) -> None:
        self.kept = kept
        self.blocks = nn.LayerList([
            nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 8 * WIDTH), nn.GELU(),
                          nn.Dropout(0.25), nn.Linear(8 * WIDTH, WIDTH))
            for _ in range(DEPTH)
        ])  # fmt: skip

    def call(self, x: Any) -> Any:
        for block in self.blocks:
            x = x + (block if self.kept else tn.checkpoint(block))(x)
        return x


def gradients(kept: bool) -> tn.Graph:
    tn.manual_seed(11)
    stack = Stack(kept)
    weights = dict(stack.named_parameters())

    def function(x: Any) -> Any:
        loss = (stack(x) * x).mean()
        return loss, *tn.gradients(loss, list(weights.values()))

    x = tn.SymTensor.input(tn.f32, ("n", WIDTH))
    return tn.trace(function, x, train=True, parameters=weights)


def scheduled(graph: tn.Graph) -> Schedule:
    schedule = make_schedule(optimise(FXGraph.from_graph(graph)), host_target())
    schedule.verify()
    return schedule


def test_memory_is_that_of_one_block_at_a_time() -> None:
    whole, less = scheduled(gradients(True)), scheduled(gradients(False))
    before, after = tn.substitute((whole.arena, less.arena), AT)
    inner, residual = (AT["n"] * width * 4 for width in (8 * WIDTH, WIDTH))
    assert before > 2 * DEPTH * inner
    assert after < 6 * inner + 2 * DEPTH * residual < before
    assert after <= 1.1 * tn.substitute(less.arena_bound, AT)


def test_gradients_are_the_same() -> None:
    x = np.random.default_rng(2).standard_normal((5, WIDTH)).astype(np.float32)
    wanted, found = (tn.compile(gradients(kept), "cpu")(x) for kept in (True, False))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
