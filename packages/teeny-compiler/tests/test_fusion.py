"""Facts about fusion: which ops share a kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.schedule.fuse import fuse
from teeny_core import Graph, nn

RNG = np.random.default_rng(2)


def traced(function: Any, *shapes: tuple[Any, ...], train: bool = False) -> Graph:
    arguments = [tn.SymTensor.input(tn.f32, shape) for shape in shapes]
    return tn.trace(function, *arguments, train=train)


def groups(graph: Graph) -> list[str]:
    fx = FXGraph.from_graph(graph)
    return [
        " ".join(fx.nodes[i].op for i in (*([] if g.template is None else [g.template]), *g.roots))
        for g in fuse(fx).groups
    ]


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def parameters(graph: Graph) -> dict[str, Any]:
    return {name: tensor.numpy() for name, tensor in graph.bindings.items()}


ROWS: dict[str, Any] = {
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "standardised": lambda x: (x - x.mean(-1, keepdims=True)) / x.var(-1, keepdims=True).sqrt(),
    "column softmax": lambda x: x.softmax(0),
    "gelu": lambda x: (x * 2 + 1).gelu(),
}


@pytest.mark.parametrize("name", ROWS)
def test_normalisations_are_one_kernel(name: str, check: Any) -> None:
    for shape in (("n", 37), (6, 24)):
        graph = traced(ROWS[name], shape)
        schedule = check(graph, [normal(6, shape[1])], rtol=1e-5)
        assert len(schedule.steps) == 1
        assert len(schedule.steps[0].reads) == 1


@pytest.mark.parametrize("train", [False, True])
def test_batch_norm_is_one_kernel(train: bool, check: Any) -> None:
    layer = nn.BatchNorm2d(3)
    layer.train() if train else layer.eval()
    graph = traced(layer, ("n", 3, 5, 4), train=train)
    schedule = check(graph, [normal(2, 3, 5, 4)], parameters(graph), rtol=1e-4, atol=1e-5)
    assert len(schedule.steps) <= (2 if train else 1)


@pytest.mark.parametrize("kind", [nn.LayerNorm, nn.RmsNorm])
def test_layer_norms_are_one_kernel(kind: Any, check: Any) -> None:
    graph = traced(kind(20), ("n", 20))
    assert len(check(graph, [normal(3, 20)], parameters(graph), rtol=1e-4).steps) == 1


def test_a_linear_layer_takes_bias_activation_and_residual(check: Any) -> None:
    layer = nn.Linear(6, 6)
    graph = traced(lambda x: layer(x).relu() + x, ("n", 6))
    assert groups(graph) == ["matmul add"]
    check(graph, [normal(5, 6)], parameters(graph))


def test_a_bias_across_a_reshape_is_an_epilogue(check: Any) -> None:
    layer = nn.Linear(6, 5)
    graph = traced(lambda x: layer(x).tanh(), (2, "s", 6))
    assert groups(graph) == ["matmul tanh"]
    check(graph, [normal(2, 3, 6)], parameters(graph))


def test_a_value_for_two_kernels_is_kept_when_it_is_costly() -> None:
    def function(x: Any, w: Any) -> Any:
        y = x.exp().sin()
        return y @ w, y.transpose(0, 1) @ w

    assert groups(traced(function, (8, 8), (8, 8))) == ["sin", "matmul", "matmul"]


def test_a_cheap_value_is_computed_again() -> None:
    graph = traced(lambda x: (x + 1).sum(0) * (x + 1).max(1), (8, 8))
    assert groups(graph) == ["sum", "max mul"]


def test_heads_are_read_in_place(check: Any) -> None:
    def function(q: Any, k: Any) -> Any:
        def split(x: Any) -> Any:
            return x.reshape(2, 5, 4, 3).permute(0, 2, 1, 3)

        return split(q) @ split(k).permute(0, 1, 3, 2)

    graph = traced(function, (2, 5, 12), (2, 5, 12))
    assert groups(graph) == ["matmul"]
    check(graph, [normal(2, 5, 12), normal(2, 5, 12)])


def test_attention(check: Any) -> None:
    def function(q: Any, k: Any, v: Any) -> Any:
        scores = (q @ k.permute(0, 1, 3, 2)) * 0.5
        return scores.softmax(-1) @ v

    graph = traced(function, *[(2, 2, "s", 4)] * 3)
    assert groups(graph) == ["matmul mul", "max exp sum div", "matmul"]
    check(graph, [normal(2, 2, 5, 4) for _ in range(3)])


def test_a_long_chain_is_cut(check: Any) -> None:
    def function(x: Any) -> Any:
        for _ in range(300):
            x = (x * 1.01).sin()
        return x

    assert 2 <= len(groups(traced(function, (4, 4)))) <= 20


@pytest.mark.parametrize("name", ["sum", "max"])
def test_a_large_reduction_to_one_value_is_parallel(name: str, check: Any) -> None:
    for shape in ((200, 700), (140001,)):
        graph = traced(lambda x: getattr(x, name)() * 2, shape)
        schedule = check(graph, [normal(*shape)], rtol=1e-4, atol=1e-3)
        assert [step.grid[0] > 1 for step in schedule.steps] == [True, False]
