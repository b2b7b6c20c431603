"""Results in the memory of operands: where that is right, and that it saves memory."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import teeny_core as tn
from teeny_compiler.schedule import Schedule, inplace
from teeny_compiler.testing import random_case

RNG = np.random.default_rng(5)


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def traced(function: Any, *shapes: tuple[Any, ...]) -> tn.Graph:
    return tn.trace(function, *[tn.SymTensor.input(tn.f32, shape) for shape in shapes])


@pytest.fixture(autouse=True)
def share_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let values of any size share memory."""
    monkeypatch.setattr(inplace, "LEAST_BYTES", 0)


def arena(schedule: Schedule) -> list[str]:
    return [buffer.name for buffer in schedule.buffers if buffer.kind == "arena"]


def test_softmax_is_taken_in_the_memory_of_its_scores(check: Any) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return (q @ k.permute(0, 2, 1)).softmax(-1) @ v

    graph = traced(attention, *[(2, "s", 8)] * 3)
    schedule = check(graph, [normal(2, 9, 8) for _ in range(3)], rtol=1e-4)
    assert len(arena(schedule)) == 1
    at = {"s": 64}
    assert tn.substitute(schedule.arena, at) == 2 * 64 * 64 * 4


def test_what_is_returned_is_made_in_its_place(check: Any) -> None:
    """The last of several kernels over one memory writes the output; so do those before."""
    graph = traced(lambda x, w: ((x @ w).softmax(-1) @ w).softmax(-1), (7, 7), (7, 7))
    schedule = check(graph, [normal(7, 7), normal(7, 7)], rtol=1e-4)
    assert len(schedule.steps) == 4
    assert len(arena(schedule)) == 1


def test_a_value_that_is_read_later_stays(check: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        y = x @ w
        z = y.softmax(-1)
        return z @ y

    schedule = check(traced(function, (7, 7), (7, 7)), [normal(7, 7), normal(7, 7)], rtol=1e-4)
    assert len(arena(schedule)) == 2


@pytest.mark.parametrize("move", ["flip", "transpose"])
def test_a_value_that_is_read_elsewhere_stays(move: str, check: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        y = (x @ w).softmax(-1)
        other = y.flip((0,)) if move == "flip" else y.transpose(0, 1)
        return (y + other).exp().sum(-1, keepdims=True) * y

    check(traced(function, (7, 7), (7, 7)), [normal(7, 7), normal(7, 7)], rtol=1e-4)


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs(seed: int, check: Any) -> None:
    case = random_case(random.Random(1000 + seed).choice, 6 + seed % 14)
    check(case.graph, case.inputs, case.parameters, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("product", [False, True])
def test_a_costly_value_waits_where_its_result_will_be(product: bool, check: Any) -> None:
    """Softmax of rows of any length computes each exponential once, also over its scores."""
    graph = traced(lambda x, w: (x @ w if product else x + w).softmax(-1), ("n", "n"), ("n", "n"))
    schedule = check(graph, [normal(37, 37), normal(37, 37)], rtol=1e-4)
    step = schedule.steps[-1]
    assert len(step.reads) == (0 if product else 2)
    assert str(step.function).count("= exp ") == 2  # in full tiles, and in the last one
