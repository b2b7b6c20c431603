"""Attention that users spell out becomes the op, where a kernel computes it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
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
    assert "no product" in report.missed["softmax(...) @ v"]
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


# --- ways to write it ---------------------------------------------------------------------------

Spelling = Callable[..., Any]
N, FULL, CAUSAL = -math.inf, {"causal": False}, {"causal": True}
HEADS, FEWER, ONE_HEAD, ROWS = (2, 4, 6, 8), (2, 2, 6, 8), (2, 1, 6, 8), (2, 6, 4, 8)
BIAS, PADDING = ((4, 6, 6), tn.f32), ((2, 1, 1, 6), tn.bool_)
SLOPES = ((4,), tn.f32)


def scores(q: Any, k: Any) -> Any:
    return q @ k.transpose(-1, -2) / math.sqrt(8)


def mix(scores: Any, v: Any) -> Any:
    return scores.softmax(-1) @ v


def lower() -> Any:
    row = tn.arange(6)
    return row.reshape(6, 1) >= row


def ones(dtype: DType = tn.f32) -> Any:
    return tn.ones(6, 6, dtype=dtype)


def grouped(x: Any) -> Any:
    """Repeat the heads of (2, 2, 6, 8) as `expand` does."""
    return x.unsqueeze(2).expand(2, 2, 2, 6, 8).reshape(2, 4, 6, 8)


def weights(q: Any, k: Any) -> Any:
    return tn.einsum("blhd,bshd->bhls", q, k) * 0.3


CAUSALLY: dict[str, Spelling] = {
    "a triangle of ones is not 0": lambda q, k, v: mix(
        tn.tril(ones()).where(scores(q, k), N), v),
    "a triangle of ones is 0": lambda q, k, v: mix(
        scores(q, k).masked_fill(tn.tril(ones()) == 0, N), v),
    "not a triangle of bools": lambda q, k, v: mix(
        scores(q, k).masked_fill(~tn.tril(ones(tn.bool_)), N), v),
    "the triangle above": lambda q, k, v: mix(
        scores(q, k).masked_fill(tn.triu(ones(tn.bool_), 1), N), v),
    "minus infinity above, added": lambda q, k, v: mix(
        scores(q, k) + tn.triu(tn.full((6, 6), N), 1), v),
    "indices compared": lambda q, k, v: mix(lower().where(scores(q, k), N), v),
    "indices compared in i32": lambda q, k, v: mix(
        (tn.arange(6, dtype=tn.i32) > tn.arange(6, dtype=tn.i32).reshape(6, 1)).where(
            N, scores(q, k)), v),
    "a difference of indices": lambda q, k, v: mix(
        scores(q, k).masked_fill(tn.arange(6) - tn.arange(6).reshape(6, 1) > 0, N), v
    ),
    "scaled after it": lambda q, k, v: mix(
        lower().where(q @ k.transpose(-1, -2), N) / math.sqrt(8), v),
    "as einsum": lambda q, k, v: tn.einsum(
        "bhls,bhsv->bhlv",
        (tn.einsum("bhld,bhsd->bhls", q, k) * 0.3).masked_fill(~lower(), N).softmax(-1), v),
}  # fmt: skip


@pytest.mark.parametrize("name", CAUSALLY)
def test_causal_attention_is_known(name: str) -> None:
    check(CAUSALLY[name], CAUSAL, HEADS, HEADS)


SCALED: dict[str, Spelling] = {
    "queries": lambda q, k, v: mix((q * 0.3) @ k.transpose(-1, -2), v),
    "keys": lambda q, k, v: mix(q @ (k / 3).transpose(-1, -2), v),
    "transposed keys": lambda q, k, v: mix(q @ (k.transpose(-1, -2) * 0.3), v),
    "both": lambda q, k, v: mix((q * 0.5) @ (k * 0.25).transpose(-1, -2), v),
    "queries and scores": lambda q, k, v: mix((q / 2) @ k.transpose(-1, -2) * 0.3, v),
    "scores": lambda q, k, v: mix(0.3 * (q @ k.transpose(-1, -2)), v),
}


@pytest.mark.parametrize("name", SCALED)
def test_a_scale_anywhere(name: str) -> None:
    check(SCALED[name], FULL, HEADS, HEADS)


MASKED: dict[str, tuple[Spelling, dict[str, bool], Any]] = {
    "bools": (lambda q, k, v, m: mix(m.where(scores(q, k), N), v), FULL, PADDING),
    "what is hidden": (
        lambda q, k, v, m: mix(scores(q, k).masked_fill(m, N), v), FULL, PADDING),
    "hidden, and causal": (
        lambda q, k, v, m: mix(lower().where(scores(q, k), N).masked_fill(m, N), v),
        CAUSAL, PADDING),
    "causal and bools": (
        lambda q, k, v, m: mix((lower() & m).where(scores(q, k), N), v), CAUSAL, PADDING),
    "above or hidden": (
        lambda q, k, v, m: mix(scores(q, k).masked_fill(~lower() | m, N), v), CAUSAL, PADDING),
    "bools twice": (
        lambda q, k, v, m: mix(m.where(m[:, :, :, ::-1].where(scores(q, k), N), N), v),
        FULL, PADDING),
    "a bias": (lambda q, k, v, m: mix(scores(q, k) + m, v), FULL, BIAS),
    "a bias in front": (
        lambda q, k, v, m: mix(m + 0.3 * (q @ k.transpose(-1, -2)), v), FULL, BIAS),
    "a bias, scaled too": (
        lambda q, k, v, m: mix((q @ k.transpose(-1, -2) + m) * 0.3, v), FULL, BIAS),
    "a bias, taken off": (lambda q, k, v, m: mix(scores(q, k) - m, v), FULL, BIAS),
    "a bias, then causal": (
        lambda q, k, v, m: mix(lower().where(scores(q, k) + m, N), v), CAUSAL, BIAS),
    "a bias and a triangle": (
        lambda q, k, v, m: mix(scores(q, k) + m + tn.triu(tn.full((6, 6), N), 1), v),
        CAUSAL, BIAS),
    "two biases": (
        lambda q, k, v, m: mix(scores(q, k) + m + m.sum(0, keepdims=True), v), FULL, BIAS),
    "a bias and bools": (
        lambda q, k, v, m: mix((m > 0).where(scores(q, k) + m, N), v), FULL, BIAS),
    "bools and a bias": (
        lambda q, k, v, m: mix((m > 0).where(scores(q, k), N) + m, v), FULL, BIAS),
    "distances (ALiBi)": (
        lambda q, k, v, m: mix(
            scores(q, k)
            - m.reshape(4, 1, 1) * (tn.arange(6).reshape(6, 1) - tn.arange(6)).abs(), v),
        FULL, SLOPES),
    "distances (ALiBi), causal": (
        lambda q, k, v, m: mix(
            (scores(q, k) + m.reshape(4, 1, 1) * (tn.arange(6) - tn.arange(6).reshape(6, 1)))
            .masked_fill(~lower(), N), v),
        CAUSAL, SLOPES),
}  # fmt: skip


@pytest.mark.parametrize("name", MASKED)
def test_masks_and_biases(name: str) -> None:
    write, attrs, (shape, dtype) = MASKED[name]
    check(write, attrs, HEADS, HEADS, (shape, dtype))


SHARED: dict[str, tuple[Spelling, tuple[int, ...]]] = {
    "expanded": (lambda q, k, v: mix(scores(q, grouped(k)), grouped(v)), FEWER),
    "repeated": (
        lambda q, k, v: mix(
            scores(q, k.repeat_interleave(2, 1)), v.repeat_interleave(2, 1)), FEWER),
    "repeated for the op": (
        lambda q, k, v: tn.nn.functional.scaled_dot_product_attention(
            q, grouped(k), grouped(v)), FEWER),
    "repeated behind rows": (
        lambda q, k, v: mix(
            scores(q, k.repeat_interleave(2, 2).transpose(1, 2)),
            v.repeat_interleave(2, 2).transpose(1, 2)), (2, 6, 2, 8)),
    "one": (lambda q, k, v: mix(scores(q, k), v), ONE_HEAD),
    "an axis of groups": (
        lambda q, k, v: mix(
            scores(q.reshape(2, 2, 2, 6, 8), k.unsqueeze(2)), v.unsqueeze(2)
        ).reshape(2, 4, 6, 8), FEWER),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_shared_heads_are_not_repeated(name: str) -> None:
    write, keys = SHARED[name]
    graph = check(write, FULL, HEADS, keys)
    assert "broadcast_to" not in ops_of(graph)


def test_rows_before_heads() -> None:
    def write(q: Any, k: Any, v: Any, m: Any) -> Any:
        seen = weights(q, k).masked_fill(~lower(), N) + m
        return tn.einsum("bhls,bshv->blhv", seen.softmax(-1), v)

    graph = check(write, CAUSAL, ROWS, ROWS, BIAS)
    assert set(ops_of(graph)) == {"input", "permute", "attention"}


def test_low_scores_hide_keys_where_that_is_allowed() -> None:
    def write(q: Any, k: Any, v: Any) -> Any:
        return mix(scores(q, k).masked_fill(~lower(), -1e9), v)

    check(write, CAUSAL, HEADS, HEADS, fast=True)
    with pytest.raises(AssertionError):
        check(write, CAUSAL, HEADS, HEADS)


def check(
    write: Spelling,
    attrs: dict[str, bool],
    queries: tuple[int, ...],
    keys: tuple[int, ...],
    *extra: Any,
    fast: bool = False,
) -> FXGraph:
    """Find one attention that reads what it should, and gives what was spelled out in f64."""
    kinds = [(queries, tn.f32), (keys, tn.f32), (keys, tn.f32), *extra]
    graph = tn.trace(write, *(SymTensor.input(dtype, shape) for shape, dtype in kinds))
    policy = Policy(COMPOSITES.safety | ({"fast"} if fast else set()), composites=True)
    report = explain(FXGraph.from_graph(graph), policy)
    assert not report.problem
    assert not {"exp", "matmul"} & set(ops_of(report.graph))
    (found,) = [node for node in report.graph.nodes if node.op == "attention"]
    assert found.attrs["causal"] == attrs["causal"]
    assert len(found.inputs) == 3 + len(extra)

    rng = np.random.default_rng(0)
    values = [rng.standard_normal(shape).astype(np.float32) for shape, _ in kinds[:3]]
    for shape, dtype in extra:
        drawn = rng.random(shape) < 0.4 if dtype.is_bool else rng.standard_normal(shape)
        values.append(drawn.astype(dtype.numpy))
    (before,), (after,) = (tn.evaluate(g, values) for g in (graph, report.graph.to_graph()))
    np.testing.assert_allclose(after, before, rtol=2e-4, atol=2e-5)
    return report.graph
