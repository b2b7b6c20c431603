"""Updates of parameters: in place where nothing needs the old value later, right in any case."""

from __future__ import annotations

from typing import Any

import numpy as np
import teeny_core as tn
from teeny_core import Graph, Node, ops

RNG = np.random.default_rng(1)


def leaf(name: str, *shape: Any) -> Node:
    return ops.input(name, shape, tn.f32)


def values(**shapes: tuple[int, ...]) -> dict[str, Any]:
    return {name: RNG.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def test_an_update_is_written_in_place(check: Any) -> None:
    x, p = leaf("x", 5, 7), leaf("p", 5, 7)
    graph = Graph("axpy", (x,), (p,), (), ((p, ops.sub(p, x)),))
    schedule = check(graph, list(values(x=(5, 7)).values()), values(p=(5, 7)))
    assert len(schedule.steps) == 1
    assert schedule.arena == 0


def test_the_other_readers_come_first(check: Any) -> None:
    x, p = leaf("x", 4, 4), leaf("p", 4, 4)
    product = ops.matmul(x, p)
    graph = Graph("late", (x,), (p,), (product,), ((p, ops.add(p, ops.mul(x, x))),))
    schedule = check(graph, list(values(x=(4, 4)).values()), values(p=(4, 4)))
    assert len(schedule.steps) == 2


def test_an_update_that_feeds_a_reader_of_the_old_value(check: Any) -> None:
    x, p = leaf("x", 4, 4), leaf("p", 4, 4)
    new = ops.add(p, x)
    both = ops.matmul(new, p)  # needs the new value and the old one
    graph = Graph("both", (x,), (p,), (both,), ((p, new),))
    schedule = check(graph, list(values(x=(4, 4)).values()), values(p=(4, 4)))
    assert len(schedule.steps) == 3


def test_a_transposed_read_is_not_in_place(check: Any) -> None:
    p = leaf("p", 6, 6)
    graph = Graph("turn", (), (p,), (), ((p, ops.add(p, ops.permute(p, (1, 0)))),))
    check(graph, [], values(p=(6, 6)))


def test_a_normalised_parameter(check: Any) -> None:
    p = leaf("p", 5, 9)
    total = ops.sum(ops.mul(p, p), (1,))
    wide = ops.broadcast_to(ops.reshape(ops.sqrt(total), (5, 1)), (5, 9))
    graph = Graph("unit", (), (p,), (total,), ((p, ops.div(p, wide)),))
    check(graph, [], values(p=(5, 9)))


def test_parameters_that_swap(check: Any) -> None:
    p, q = leaf("p", 5), leaf("q", 5)
    graph = Graph("swap", (), (p, q), (), ((p, q), (q, p)))
    check(graph, [], values(p=(5,), q=(5,)))


def test_a_chain_of_parameters(check: Any) -> None:
    x, p, q = leaf("x", 5), leaf("p", 5), leaf("q", 5)
    graph = Graph("chain", (x,), (p, q), (q,), ((p, q), (q, ops.add(q, x))))
    check(graph, list(values(x=(5,)).values()), values(p=(5,), q=(5,)))


def test_an_input_replaces_a_parameter(check: Any) -> None:
    x, p = leaf("x", 3, 2), leaf("p", 3, 2)
    graph = Graph("set", (x,), (p,), (x, p), ((p, x),))
    check(graph, list(values(x=(3, 2)).values()), values(p=(3, 2)))


def test_one_value_for_two_parameters_and_an_output(check: Any) -> None:
    x, p, q = leaf("x", 3), leaf("p", 3), leaf("q", 3)
    new = ops.exp(x)
    graph = Graph("share", (x,), (p, q), (new, new), ((p, new), (q, new)))
    schedule = check(graph, list(values(x=(3,)).values()), values(p=(3,), q=(3,)))
    assert len(schedule.steps) == 1


def test_a_parameter_without_change(check: Any) -> None:
    p = leaf("p", 3)
    graph = Graph("same", (), (p,), (ops.neg(p),), ((p, p),))
    assert len(check(graph, [], values(p=(3,))).steps) == 1


def test_a_contraction_is_written_over_its_own_operand(check: Any) -> None:
    p = leaf("p", 4, 4)
    graph = Graph("square", (), (p,), (), ((p, ops.matmul(p, p)),))
    check(graph, [], values(p=(4, 4)))
