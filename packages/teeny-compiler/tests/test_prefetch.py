"""What kernels say about the caches: which rows come next, and which results do not stay."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule import make_schedule
from teeny_compiler.target import host_target
from teeny_triton.ir import walk

WIDTH = 4096
CACHED = replace(host_target(), l3_bytes=8 << 20)


def prefetches(function: Any) -> int:
    graph = tn.trace(function, tn.SymTensor.input(tn.f32, (64, WIDTH)))
    (step,) = make_schedule(FXGraph.from_graph(graph), host_target(), templates=()).steps
    return sum(op.opcode == "prefetch" for op in walk(step.function.body))


@pytest.mark.parametrize(
    "function", [lambda x: x - x.mean(-1, keepdims=True), lambda x: x.softmax(-1)]
)
def test_a_later_walk_asks_for_the_next_row(function: Any) -> None:
    assert prefetches(function) > 0


def test_the_last_walk_that_reads_a_row_asks_for_the_next() -> None:
    def normed(x: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        return centred / (centred * centred).mean(-1, keepdims=True).sqrt()

    graph = tn.trace(normed, tn.SymTensor.input(tn.f32, (64, WIDTH)))
    (step,) = make_schedule(FXGraph.from_graph(graph), host_target(), templates=()).steps
    loops = [
        {inner.opcode for inner in walk(op.regions[0])}
        for op in walk(step.function.body)
        if op.opcode == "for"
    ]
    asking = [codes for codes in loops if "prefetch" in codes]
    assert asking
    assert all("store" in codes for codes in asking)


@pytest.mark.parametrize("function", [lambda x: x.sum(-1), lambda x: x.sum(0), lambda x: x + 1])
def test_what_is_walked_once_asks_for_nothing(function: Any) -> None:
    assert prefetches(function) == 0


def streamed(function: Any, *shape: Any) -> list[bool]:
    """Return for each store whether it passes the caches."""
    graph = tn.trace(function, tn.SymTensor.input(tn.f32, shape))
    (step,) = make_schedule(FXGraph.from_graph(graph), CACHED, templates=()).steps
    stores = [op for op in walk(step.function.body) if op.opcode == "store"]
    return [op.attrs.get("cache") == ".cs" for op in stores]


def test_what_the_caches_cannot_hold_is_written_past_them() -> None:
    rows = CACHED.l3_bytes // (2 * 4 * WIDTH)  # in and out fill the last cache
    assert streamed(lambda x: x + 1, rows * WIDTH) == [True]
    assert streamed(lambda x: x - x.mean(-1, keepdims=True), rows, WIDTH) == [True]
    assert streamed(lambda x: x + 1, rows * WIDTH // 2) == [False]
    assert not any(streamed(lambda x: x + 1, "n"))


def test_what_a_later_walk_reads_back_stays_in_the_caches() -> None:
    wide = CACHED.l3_bytes // 32  # too wide for scratch: what waits lies in the result
    stores = streamed(lambda x: x.exp() / x.exp().sum(-1, keepdims=True), 8, wide)
    assert stores
    assert not any(stores)
