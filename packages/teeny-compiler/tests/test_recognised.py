"""Attention that users spell out becomes the op, where a kernel computes it."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Policy, explain
from teeny_compiler.pipeline import CompileOptions, emit
from teeny_core import DType, Graph, SymTensor, ops

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


def test_reports_say_why_not() -> None:
    def capped(query: SymTensor, key: SymTensor, value: SymTensor) -> SymTensor:
        return (query @ key.transpose(-1, -2)).tanh().softmax(-1) @ value

    report = explain(FXGraph.from_graph(trace(capped)), COMPOSITES)
    assert "otherwise" in report.missed["softmax(...) @ v"]
    report = explain(FXGraph.from_graph(trace(spelled, tn.f16)), COMPOSITES)
    assert report.missed["softmax(...) @ v"] == "it sums in f16, and attention in f32"
    assert "not softmax(...) @ v: it sums" in str(report)
    assert "softmax(...) @ v" not in explain(FXGraph.from_graph(trace(spelled)), COMPOSITES).missed


def test_reports_say_what_other_options_bring() -> None:
    w = ops.input("w", (8, 8), tn.f32)
    b = ops.input("b", (8,), tn.f32)
    x = ops.input("x", (4, 8), tn.f32)
    y = ops.mul(ops.matmul(x, w), ops.broadcast_to(b, (4, 8)))
    root = ops.reciprocal(ops.sqrt(ops.add(y, y)))
    missed = explain(FXGraph.from_graph(Graph("why", (x,), (w, b), (root,)))).missed
    assert missed["1/sqrt(x) -> rsqrt(x)"] == "needs fast=on"
    assert missed["(x @ w) * b -> x @ (w*b)"] == "needs fast=on and frozen=on"
    assert "cost" in emit(trace(spelled), "explain")


def test_it_is_spelled_out_again_without_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "attention(" in emit(trace(spelled), "optimised")
    monkeypatch.setattr("teeny_compiler.lower.templates.installed_templates", lambda: ())
    assert "attention(" not in emit(trace(spelled), "optimised")
    assert "attention(" not in emit(trace(spelled), "optimised", None, CompileOptions(fast=True))
