"""Pieces cut out of values, sums of pieces and of products joined: the same values from less."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.fxgraph import FXGraph
from teeny_compiler.optimise import explain
from teeny_compiler.optimise.pieces import PADS, PRODUCTS, SLICES, join_pieces
from teeny_core import Graph, Node, Shape, ops
from teeny_core.internal import evaluate_updates
from teeny_core.shape import bind

RNG = np.random.default_rng(17)


def joined(
    make: Callable[..., Node | Sequence[Node]], *leaves: Shape, size: int = 3
) -> tuple[FXGraph, dict[str, int]]:
    """Join the pieces of a graph, compare values with those before, NaN and infinities too."""
    inputs = tuple(ops.input(f"x{i}", shape, tn.f32) for i, shape in enumerate(leaves))
    made = make(*inputs)
    outputs = (made,) if isinstance(made, Node) else tuple(made)
    before = Graph("pieces", inputs, (), outputs)
    report = join_pieces(FXGraph.from_graph(before))
    report.graph.verify()
    arrays = []
    for node in inputs:
        shape = tuple(extent if isinstance(extent, int) else size for extent in node.shape)
        data = RNG.standard_normal(shape).astype(np.float32)
        if PRODUCTS not in report.fired and data.size > 2:
            data.flat[:3] = np.nan, np.inf, -np.inf
        arrays.append(data)
    bind((node.shape, a.shape) for node, a in zip(inputs, arrays, strict=True))
    wanted, _ = evaluate_updates(before, arrays, {})
    found, _ = evaluate_updates(report.graph.to_graph(), arrays, {})
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return report.graph, dict(report.fired)


def count(graph: FXGraph, op: str) -> int:
    return sum(node.op == op for node in graph.nodes)


def cut(x: Node, axis: int, start: int, limit: int) -> Node:
    starts = tuple(start if k == axis else 0 for k in range(len(x.shape)))
    limits = tuple(limit if k == axis else extent for k, extent in enumerate(x.shape))
    return ops.slice(x, starts, limits, (1,) * len(starts))


def padded(x: Node, axis: int, low: int, high: int) -> Node:
    def sides(amount: int) -> Shape:
        return tuple(amount if k == axis else 0 for k in range(len(x.shape)))

    return ops.pad(x, sides(low), sides(high))


def total(terms: Sequence[Node]) -> Node:
    result = terms[0]
    for term in terms[1:]:
        result = ops.add(result, term)
    return result


# --- slices --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [4, tn.symbol("n")])
def test_a_part_of_one_part_is_that_part(rows: tn.Dim) -> None:
    def make(x: Node, y: Node, z: Node) -> list[Node]:
        whole = ops.concat((x, y, z), 1)
        turned = ops.permute(whole, (1, 0))
        across = cut(whole, 1, 2, 5)
        return [cut(whole, 1, 3, 8), cut(whole, 1, 4, 6), cut(turned, 0, 0, 3), across]

    graph, fired = joined(make, (rows, 3), (rows, 5), (rows, 2))
    assert fired == {SLICES: 3}
    assert count(graph, "slice") == 2  # that inside of y, and that across x and y
    assert count(graph, "concat") == 1


def test_a_part_of_a_pad_is_what_was_padded_or_the_padding() -> None:
    def make(x: Node) -> list[Node]:
        whole = padded(x, 0, 2, 3)
        return [cut(whole, 0, i, j) for i, j in ((2, 6), (3, 5), (0, 2), (6, 9), (1, 4))]

    graph, fired = joined(make, (4, 3))
    assert fired == {SLICES: 4}
    assert count(graph, "slice") == 2
    assert count(graph, "pad") == 1


# --- sums of pads --------------------------------------------------------------------------------


def test_summed_pieces_are_a_concatenation() -> None:
    def make(x: Node, y: Node, z: Node) -> Node:
        return total([padded(z, 1, 7, 0), padded(x, 1, 0, 6), padded(y, 1, 3, 2)])

    graph, fired = joined(make, (4, 3), (4, 4), (4, 2))
    assert fired == {PADS: 1}
    assert count(graph, "concat") == 1
    assert count(graph, "pad") == count(graph, "add") == 0


def test_gaps_overlaps_and_other_terms_keep_their_values() -> None:
    def make(x: Node, y: Node, z: Node, other: Node) -> Node:
        pads = [padded(x, 0, 1, 7), padded(y, 0, 6, 1), padded(z, 0, 2, 4)]
        zero = ops.broadcast_to(ops.constant(0.0, tn.f32), other.shape)
        return total([pads[0], other, pads[1], zero, pads[2]])

    graph, fired = joined(make, (2, 2), (3, 2), (4, 2), (10, 2))
    assert fired == {PADS: 1}
    assert count(graph, "add") == 2


def test_what_else_is_read_stays() -> None:
    def make(x: Node, y: Node) -> list[Node]:
        partial = ops.add(padded(x, 0, 0, 3), padded(y, 0, 2, 0))
        return [partial, ops.add(partial, padded(x, 0, 3, 0))]

    graph, fired = joined(make, (2,), (3,))
    assert fired == {PADS: 1}
    assert count(graph, "add") == 1


# --- sums of products ----------------------------------------------------------------------------


@pytest.mark.parametrize("transpose_a", [True, False])
@pytest.mark.parametrize("transpose_b", [True, False])
def test_summed_products_are_one(transpose_a: bool, transpose_b: bool) -> None:
    def make(*operands: Node) -> Node:
        how = {"transpose_a": transpose_a, "transpose_b": transpose_b}
        return total(
            [ops.matmul(a, b, **how) for a, b in zip(operands[::2], operands[1::2], strict=True)]
        )

    a = (2, 64) if transpose_a else (64, 2)
    b = (48, 2) if transpose_b else (2, 48)
    graph, fired = joined(make, *(a, b) * 3)
    assert fired == {PRODUCTS: 1}
    assert count(graph, "matmul") == 1
    assert count(graph, "concat") == 2


def test_operands_that_lie_in_line_are_not_joined_again() -> None:
    def make(w: Node, *steps: Node) -> list[Node]:
        stacked = ops.concat([ops.reshape(x, (1, *x.shape)) for x in steps], 0)
        later = [ops.matmul(x, ops.neg(x), transpose_a=True) for x in steps[:0:-1]]
        return [stacked, total([w, *later])]

    graph, fired = joined(make, (64, 64), *[(4, 64)] * 4)
    assert fired == {PRODUCTS: 1}
    assert count(graph, "concat") == 2  # the stack, and the negated steps


def test_large_operands_of_small_products_stay_apart() -> None:
    def make(a: Node, b: Node, c: Node, d: Node) -> Node:
        return ops.add(ops.matmul(a, b), ops.matmul(c, d))

    _, fired = joined(make, (2, 512), (512, 64), (2, 512), (512, 64))
    assert fired == {}


def test_the_weight_of_a_recurrent_layer_gets_its_gradient_in_one_product() -> None:
    def make(w: Node, *steps: Node) -> Node:
        state = steps[0]
        for x in steps[1:]:
            state = ops.tanh(ops.add(x, ops.matmul(state, w)))
        (gradient,) = tn.backward((ops.sum(state, (0, 1)),), (w,))
        return gradient

    inputs = tuple(ops.input(f"x{i}", (4, 32), tn.f32) for i in range(4))
    w = ops.input("w", (32, 32), tn.f32)
    graph = FXGraph.from_graph(Graph("loop", (w, *inputs), (), (make(w, *inputs),)))
    assert count(graph, "matmul") == 3 + 2 + 3
    assert count(explain(graph).graph, "matmul") == 3 + 2 + 1
