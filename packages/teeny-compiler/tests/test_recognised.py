"""Attention that users spell out becomes the op, where a kernel computes it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Policy, explain
from teeny_compiler.pipeline import CompileOptions, emit
from teeny_core import DType, Graph, SymTensor

COMPOSITES = Policy(composites=True)


def spelled(query: SymTensor, key: SymTensor, value: SymTensor) -> SymTensor:
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
    return scores.softmax(-1) @ value


def trace(function: Callable[..., SymTensor], dtype: DType = tn.f32, length: object = 16) -> Graph:
    heads = [SymTensor.input(dtype, (2, 3, length, 8)) for _ in range(3)]
    return tn.trace(function, *heads)


def ops_of(graph: FXGraph) -> list[str]:
    return [node.op for node in graph.nodes]


@pytest.mark.parametrize("length", [16, "n"])
def test_it_is_one_op(length: object) -> None:
    graph = explain(FXGraph.from_graph(trace(spelled, length=length)), COMPOSITES).graph
    assert ops_of(graph) == ["input", "input", "input", "attention"]
    assert graph.nodes[-1].attrs["scale"] == pytest.approx(1 / math.sqrt(8))


def test_it_takes_permission() -> None:
    graph = explain(FXGraph.from_graph(trace(spelled))).graph
    assert "attention" not in ops_of(graph)


def test_sums_in_f16_stay() -> None:
    graph = explain(FXGraph.from_graph(trace(spelled, tn.f16)), COMPOSITES).graph
    assert "attention" not in ops_of(graph)


def test_weights_that_are_asked_for_are_not_computed_twice() -> None:
    def both(query: SymTensor, key: SymTensor, value: SymTensor) -> tuple[SymTensor, SymTensor]:
        weights = (query @ key.transpose(-1, -2)).softmax(-1)
        return weights, weights @ value

    report = explain(FXGraph.from_graph(trace(both)), COMPOSITES)  # type: ignore[arg-type]
    assert "attention" not in ops_of(report.graph)


def test_it_is_spelled_out_again_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "attention(" in emit(trace(spelled), "optimised")
    monkeypatch.setattr("teeny_compiler.lower.templates.installed_templates", lambda: ())
    assert "attention(" not in emit(trace(spelled), "optimised")
    assert "attention(" not in emit(trace(spelled), "optimised", None, CompileOptions(fast=True))
