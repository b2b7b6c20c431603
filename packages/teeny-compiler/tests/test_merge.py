"""Products of one value merged: the same values, fewer products, only where it pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import Policy, explain
from teeny_core import Graph, Node, Shape, ops
from teeny_core.internal import evaluate_updates
from teeny_core.shape import bind

RNG = np.random.default_rng(11)
FROZEN = Policy(frozen=True)


def graph_of(
    make: Callable[..., Sequence[Node]], x: Shape, *parameters: Shape
) -> tuple[Graph, FXGraph]:
    leaves = [ops.input("x", x, tn.f32)]
    leaves += [ops.input(f"p{i}", shape, tn.f32) for i, shape in enumerate(parameters)]
    graph = Graph("merge", tuple(leaves[:1]), tuple(leaves[1:]), tuple(make(*leaves)))
    return graph, FXGraph.from_graph(graph)


def count(graph: FXGraph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def check(before: Graph, after: FXGraph, size: int = 3) -> None:
    """Both graphs give the same values."""
    after.verify()

    def data(node: Node) -> np.ndarray:
        shape = tuple(size if not isinstance(extent, int) else extent for extent in node.shape)
        return RNG.standard_normal(shape).astype(np.float32)

    inputs = [data(node) for node in before.inputs]
    parameters = {node.attrs["name"]: data(node) for node in before.parameters}
    bind((n.shape, a.shape) for n, a in zip(before.inputs, inputs, strict=True))
    wanted, _ = evaluate_updates(before, inputs, parameters)
    found, _ = evaluate_updates(after.to_graph(), inputs, parameters)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def linear(x: Node, w: Node, b: Node, *, flag: bool = False) -> Node:
    y = ops.matmul(x, w, transpose_b=flag)
    return ops.add(y, ops.broadcast_to(b, y.shape))


def test_three_projections_are_one() -> None:
    before, fx = graph_of(
        lambda x, u, v, w, a, b, c: [
            linear(x, w, b, flag=True) for w, b in ((u, a), (v, b), (w, c))
        ],
        (8, 6), (4, 6), (5, 6), (6, 6), (4,), (5,), (6,),
    )  # fmt: skip
    report = explain(fx, FROZEN)
    assert count(report.graph, "matmul") == 1
    assert count(report.graph, "slice") == 3
    check(before, report.graph)


def test_weights_that_change_stay_apart() -> None:
    _, fx = graph_of(lambda x, u, v: [ops.matmul(x, u), ops.matmul(x, v)], (8, 6), (6, 4), (6, 4))
    assert count(explain(fx).graph, "matmul") == 2
    assert count(explain(fx, FROZEN).graph, "matmul") == 1


def cut(w: Node, start: int, limit: int) -> Node:
    rest = w.shape[1:]
    zeros, ones = (0,) * len(rest), (1,) * len(rest)
    return ops.slice(w, (start, *zeros), (limit, *rest), (1, *ones))


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_slices_of_one_parameter_are_the_parameter(order: tuple[int, ...]) -> None:
    def make(x: Node, w: Node, b: Node) -> list[Node]:
        parts = [(cut(w, 4 * i, 4 * i + 4), cut(b, 4 * i, 4 * i + 4)) for i in order]
        rows = ops.reshape(x, (x.shape[0] * 2, 6))
        made = []
        for part, bias in parts:
            y = ops.reshape(ops.matmul(rows, part, transpose_b=True), (*x.shape[:2], 4))
            made.append(ops.add(y, ops.broadcast_to(bias, y.shape)))
        return made

    before, fx = graph_of(make, (tn.symbol("n"), 2, 6), (12, 6), (12,))
    graph = explain(fx).graph
    assert count(graph, "matmul") == 1
    assert count(graph, "concat") == 0
    assert count(graph, "slice") == 3
    check(before, graph)


def test_slices_with_a_gap_stay_apart() -> None:
    _, fx = graph_of(
        lambda x, w: [ops.matmul(x, cut(w, i, i + 4), transpose_b=True) for i in (0, 5)],
        (8, 6), (12, 6),
    )  # fmt: skip
    assert count(explain(fx).graph, "matmul") == 2


def test_convolutions_side_by_side_are_one() -> None:
    def conv(x: Node, w: Node) -> Node:
        how = {"stride": (1, 1), "padding": ((0, 0), (0, 0)), "dilation": (1, 1), "groups": 1}
        return ops.conv2d(x, w, **how)

    def make(x: Node, u: Node, v: Node, a: Node, b: Node) -> list[Node]:
        made = []
        for w, bias in ((u, a), (v, b)):
            y = conv(x, w)
            column = ops.reshape(bias, (*bias.shape, 1, 1))
            made.append(ops.add(y, ops.broadcast_to(column, y.shape)))
        return made

    before, fx = graph_of(make, (2, 3, 5, 5), (4, 3, 1, 1), (2, 3, 1, 1), (4,), (2,))
    graph = explain(fx, FROZEN).graph
    assert count(graph, "conv2d") == 1
    check(before, graph)
    _, other = graph_of(make, (2, 3, 5, 5), (4, 3, 3, 3), (2, 3, 1, 1), (4,), (2,))
    assert count(explain(other, FROZEN).graph, "conv2d") == 2


@pytest.mark.parametrize(("depth", "width", "products"), [(512, 4, 1), (16, 64, 2)])
def test_costs_decide_where_elementwise_work_follows(depth: int, width: int, products: int) -> None:
    before, fx = graph_of(
        lambda x, u, v: [ops.mul(ops.sigmoid(ops.matmul(x, u)), ops.matmul(x, v))],
        (64, depth), (depth, width), (depth, width),
    )  # fmt: skip
    graph = explain(fx, FROZEN).graph
    assert count(graph, "matmul") == products
    check(before, graph)
