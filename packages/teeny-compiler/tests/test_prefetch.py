"""Rows that are walked more than once bring the next row into the cache."""

from __future__ import annotations

from typing import Any

import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule import make_schedule
from teeny_compiler.target import host_target
from teeny_triton.ir import walk

WIDTH = 4096


def prefetches(function: Any) -> int:
    graph = tn.trace(function, tn.SymTensor.input(tn.f32, (64, WIDTH)))
    (step,) = make_schedule(FXGraph.from_graph(graph), host_target(), templates=()).steps
    return sum(op.opcode == "prefetch" for op in walk(step.function.body))


@pytest.mark.parametrize(
    "function", [lambda x: x - x.mean(-1, keepdims=True), lambda x: x.softmax(-1)]
)
def test_the_second_walk_asks_for_the_next_row(function: Any) -> None:
    assert prefetches(function) > 0


@pytest.mark.parametrize("function", [lambda x: x.sum(-1), lambda x: x.sum(0), lambda x: x + 1])
def test_what_is_walked_once_asks_for_nothing(function: Any) -> None:
    assert prefetches(function) == 0
