"""Extraction against an exhaustive search on small e-graphs."""

from __future__ import annotations

import itertools
import random

import pytest
from teeny_compiler.optimise.engine import Enode, Snapshot
from teeny_compiler.optimise.extract import Problem, extract, ordered


def snapshot(nodes: list[tuple[int, tuple[int, ...]]]) -> Snapshot:
    enodes = tuple(Enode(cls, f"op{i}", inputs, ()) for i, (cls, inputs) in enumerate(nodes))
    return Snapshot(enodes, {}, frozenset(), {}, {})


def cost_of(problem: Problem, picks: dict[int, int]) -> float | None:
    """The cost of what the roots need, each class once; None when the choice is cyclic."""
    done: dict[int, bool] = {}
    total = 0.0
    stack = [(root, False) for root in problem.roots]
    while stack:
        cls, ready = stack.pop()
        if ready:
            done[cls] = True
            continue
        if cls in done:
            if not done[cls]:
                return None
            continue
        done[cls] = False
        total += problem.costs[picks[cls]]
        stack.append((cls, True))
        stack += [(child, False) for child in problem.inputs(picks[cls]) if not done.get(child)]
    return total


def best_of(problem: Problem) -> float:
    classes = list(problem.options)
    choices = itertools.product(*(problem.options[cls] for cls in classes))
    costs = (cost_of(problem, dict(zip(classes, choice, strict=True))) for choice in choices)
    return min(cost for cost in costs if cost is not None)


@pytest.mark.parametrize("seed", range(60))
def test_small_graphs_are_near_the_best(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randint(4, 7)
    nodes: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for cls in range(1, count):
        for _ in range(rng.randint(1, 3)):
            # Mostly operands from before, and now and then one from after: cycles exist.
            below = [rng.randrange(cls) for _ in range(rng.randint(1, 2))]
            extra = [rng.randrange(count)] if rng.random() < 0.15 else []
            nodes.append((cls, tuple(below + extra)))
        nodes.append((cls, (rng.randrange(cls),)))
    costs = [rng.choice([1.0, 2.0, 5.0, 9.0]) for _ in nodes]
    problem = Problem(snapshot(nodes), costs, [count - 1, count - 2])
    choice = extract(problem)
    assert cost_of(problem, choice.picks) == pytest.approx(choice.cost)
    assert choice.cost <= 1.3 * best_of(problem)
    place = {cls: k for k, cls in enumerate(ordered(problem, choice))}
    for cls, k in place.items():
        assert all(place[child] < k for child in problem.inputs(choice.picks[cls]))


def test_what_is_shared_is_paid_once() -> None:
    # Three values by one big op and three slices, or by an op each.
    nodes = [(0, ()), (1, (0,))]
    costs = [0.0, 10.0]
    for cls in (2, 3, 4):
        nodes += [(cls, (0,)), (cls, (1,))]
        costs += [4.0, 0.1]
    assert extract(Problem(snapshot(nodes), costs, [2, 3, 4])).cost == pytest.approx(10.3)


def test_residual_connections_do_not_explode() -> None:
    # x_{k+1} = f(x_k) + x_k: the tree doubles at every layer, the shared graph does not.
    nodes: list[tuple[int, tuple[int, ...]]] = [(0, ())]
    for layer in range(200):
        x, f, y = 2 * layer, 2 * layer + 1, 2 * layer + 2
        nodes += [(f, (x,)), (y, (f, x))]
    problem = Problem(snapshot(nodes), [1.0] * len(nodes), [400])
    assert extract(problem).cost == len(nodes)
